/*
 * writeset.c -- growing arrays of what a transaction has done.
 *
 * They live as long as the process, so that a transaction costs no allocation; after a huge transaction they shrink.
 */
#include "txn/writeset.h"

#include "access/xact.h"
#include "utils/memutils.h"

#define FIRST_CAPACITY	64
#define KEEP_CAPACITY	4096	/* larger arrays are given back after the
								 * transaction */

ZenWriteSet zen_writeset;

static void *
grow(void *array, uint32 *capacity, uint32 needed, Size element)
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

void
zen_writeset_reserve(uint32 nwrites, uint32 nlocks)
{
	ZenWriteSet *ws = &zen_writeset;

	if (ws->nwrites + nwrites > ws->writes_capacity)
		ws->writes = grow(ws->writes, &ws->writes_capacity, ws->nwrites + nwrites, sizeof(ZenWrite));
	if (ws->nlocks + nlocks > ws->locks_capacity)
		ws->locks = grow(ws->locks, &ws->locks_capacity, ws->nlocks + nlocks, sizeof(ZenLockedRow));
}

void
zen_writeset_add(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenVersion *version)
{
	ZenWrite   *w = &zen_writeset.writes[zen_writeset.nwrites++];

	Assert(zen_writeset.nwrites <= zen_writeset.writes_capacity);
	w->ht = ht;
	w->tidno = tidno;
	w->word = word;
	w->version = version;
	w->nest_level = GetCurrentTransactionNestLevel();
	w->slot = InvalidZenSlot;
	zen_writeset.bytes += offsetof(ZenVersion, data) + version->len;
}

void
zen_writeset_add_lock(ZenHTable *ht, uint64 tidno, TransactionId xid, LockTupleMode mode)
{
	ZenLockedRow *l = &zen_writeset.locks[zen_writeset.nlocks++];

	Assert(zen_writeset.nlocks <= zen_writeset.locks_capacity);
	l->ht = ht;
	l->tidno = tidno;
	l->xid = xid;
	l->mode = mode;
	l->nest_level = GetCurrentTransactionNestLevel();
}

void
zen_writeset_subcommit(int nest_level)
{
	for (uint32 i = zen_writeset.nwrites; i > 0 && zen_writeset.writes[i - 1].nest_level >= nest_level; i--)
		zen_writeset.writes[i - 1].nest_level = nest_level - 1;
	for (uint32 i = zen_writeset.nlocks; i > 0 && zen_writeset.locks[i - 1].nest_level >= nest_level; i--)
		zen_writeset.locks[i - 1].nest_level = nest_level - 1;
}

void
zen_writeset_forget(ZenHTable *ht)
{
	uint32		n = 0;

	for (uint32 i = 0; i < zen_writeset.nwrites; i++)
		if (zen_writeset.writes[i].ht != ht)
			zen_writeset.writes[n++] = zen_writeset.writes[i];
	zen_writeset.nwrites = n;
	n = 0;
	for (uint32 i = 0; i < zen_writeset.nlocks; i++)
		if (zen_writeset.locks[i].ht != ht)
			zen_writeset.locks[n++] = zen_writeset.locks[i];
	zen_writeset.nlocks = n;
}

void
zen_writeset_clear(void)
{
	ZenWriteSet *ws = &zen_writeset;

	ws->nwrites = ws->nlocks = 0;
	ws->bytes = 0;
	if (ws->writes_capacity > KEEP_CAPACITY)
	{
		pfree(ws->writes);
		ws->writes = NULL;
		ws->writes_capacity = 0;
	}
	if (ws->locks_capacity > KEEP_CAPACITY)
	{
		pfree(ws->locks);
		ws->locks = NULL;
		ws->locks_capacity = 0;
	}
}
