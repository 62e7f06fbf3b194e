/*
 * writeset.c -- growing arrays of what a transaction has done.
 *
 * They live as long as the process, so that a transaction costs no allocation; after a huge transaction they shrink.
 *
 * - Room is reserved before anything is changed, so that an add cannot fail.
 * - Nest levels never fall from one entry to the next, so the entries of a savepoint are the last ones of each array.
 */
#include "row/writeset.h"

#include "access/xact.h"
#include "utils/memutils.h"

#define FIRST_CAPACITY	64
#define KEEP_CAPACITY	4096	/* larger arrays are given back after the
								 * transaction */

ZenWriteSet zen_writeset;

static void *
writeset_grow(void *array, uint32 *capacity, uint32 needed, Size element)
{
	uint32		wanted = Max(*capacity, FIRST_CAPACITY);

	while (wanted < needed)
		wanted *= 2;
	if (array == NULL)
		array = MemoryContextAllocHuge(TopMemoryContext, (Size) wanted * element);
	else if (wanted > *capacity)
		array = repalloc_huge(array, (Size) wanted * element);
	*capacity = wanted;
	return array;
}

/* The level of a new entry, which is behind one of level *before, if that is not NULL. */
static int
present_level(const int *before)
{
	int			level = GetCurrentTransactionNestLevel();

	Assert(level > 0);
	Assert(before == NULL || *before <= level);
	return level;
}

/* What all adds promise. */
static void
check_add(uint32 n, uint32 capacity)
{
	ZenAssertNoWordLocked();
	Assert(n < capacity);		/* it was reserved */
}

static void
refuse_late(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen tables cannot be changed by a transaction callback that runs after zen's"),
			 errdetail("What the transaction has changed in zen tables is written already."),
			 errhint("Name zen first in shared_preload_libraries, and restart the server.")));
}

void
zen_writeset_check_open(void)
{
	if (zen_writeset.writes_closed)
		refuse_late();
}

void
zen_writeset_reserve(uint32 nwrites, uint32 nlocks)
{
	ZenWriteSet *ws = &zen_writeset;

	if (unlikely((nwrites > 0 && ws->writes_closed) || (nlocks > 0 && ws->locks_closed)))
		refuse_late();
	if (ws->nwrites + nwrites > ws->writes_capacity)
		ws->writes = writeset_grow(ws->writes, &ws->writes_capacity, ws->nwrites + nwrites, sizeof(ZenWrite));
	if (ws->nlocks + nlocks > ws->locks_capacity)
		ws->locks = writeset_grow(ws->locks, &ws->locks_capacity, ws->nlocks + nlocks, sizeof(ZenLockedRow));
}

void
zen_writeset_reserve_blocks(uint32 nblocks)
{
	ZenWriteSet *ws = &zen_writeset;

	if (ws->nblocks + nblocks > ws->blocks_capacity)
		ws->blocks = writeset_grow(ws->blocks, &ws->blocks_capacity, ws->nblocks + nblocks, sizeof(ZenSpilledBlock));
}

void
zen_writeset_add_block(ZenHTable *ht, uint32 block)
{
	ZenWriteSet *ws = &zen_writeset;
	ZenSpilledBlock *b = &ws->blocks[ws->nblocks];
	int			level = present_level(ws->nblocks > 0 ? &b[-1].nest_level : NULL);

	/* rows of a block mostly come one after the other */
	if (ws->nblocks > 0 && b[-1].ht == ht && b[-1].block == block && b[-1].nest_level == level)
		return;
	check_add(ws->nblocks, ws->blocks_capacity);
	b->ht = ht;
	b->block = block;
	b->nest_level = level;
	ws->nblocks++;
}

void
zen_writeset_add(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenVersion *version)
{
	ZenWriteSet *ws = &zen_writeset;
	ZenWrite   *w = &ws->writes[ws->nwrites];
	Size		bytes = zen_write_bytes(version);

	check_add(ws->nwrites, ws->writes_capacity);
	Assert(!ws->writes_closed && word == zen_tidmap_word(ht, tidno));
	w->ht = ht;
	w->tidno = tidno;
	w->word = word;
	w->version = version;
	w->nest_level = present_level(ws->nwrites > 0 ? &w[-1].nest_level : NULL);
	w->delta = 0;
	w->slot = InvalidZenSlot;
	ws->nwrites++;
	ws->bytes += bytes;
	if (zen_write_is_bare(version))
		ws->bare += bytes;
}

void
zen_writeset_add_rows(ZenHTable *ht, const ZenTakenTid *taken, ZenVersion **versions, uint32 n)
{
	ZenWriteSet *ws = &zen_writeset;
	ZenWrite   *w = &ws->writes[ws->nwrites];
	int			level = present_level(ws->nwrites > 0 ? &w[-1].nest_level : NULL);

	Assert(n > 0 && !ws->writes_closed);
	check_add(ws->nwrites + n - 1, ws->writes_capacity);
	for (uint32 i = 0; i < n; i++, w++)
	{
		Assert(taken[i].word == zen_tidmap_word(ht, taken[i].tidno) && versions[i]->older == NULL);
		w->ht = ht;
		w->tidno = taken[i].tidno;
		w->word = taken[i].word;
		w->version = versions[i];
		w->nest_level = level;
		w->delta = 0;
		w->slot = InvalidZenSlot;
		ws->bytes += zen_write_bytes(versions[i]);
	}
	ws->nwrites += n;
}

void
zen_writeset_add_lock(ZenHTable *ht, uint64 tidno, TransactionId xid, LockTupleMode mode, bool followed)
{
	ZenWriteSet *ws = &zen_writeset;
	ZenLockedRow *l = &ws->locks[ws->nlocks];

	check_add(ws->nlocks, ws->locks_capacity);
	Assert(!ws->locks_closed && TransactionIdIsCurrentTransactionId(xid));
	l->ht = ht;
	l->tidno = tidno;
	l->xid = xid;
	l->mode = mode;
	l->followed = followed;
	l->nest_level = present_level(ws->nlocks > 0 ? &l[-1].nest_level : NULL);
	ws->nlocks++;
}

/* After a huge transaction its arrays are given back. */
static void
shrink(void **array, uint32 *capacity)
{
	if (*capacity <= KEEP_CAPACITY)
		return;
	pfree(*array);
	*array = NULL;
	*capacity = 0;
}

void
zen_writeset_clear(void)
{
	ZenWriteSet *ws = &zen_writeset;

	ws->nwrites = ws->nlocks = ws->nblocks = 0;
	ws->bytes = ws->spared = 0;
	ws->bare = ws->bare_spared = 0;
	ws->writes_closed = ws->locks_closed = false;
	shrink((void **) &ws->writes, &ws->writes_capacity);
	shrink((void **) &ws->locks, &ws->locks_capacity);
	shrink((void **) &ws->blocks, &ws->blocks_capacity);
}
