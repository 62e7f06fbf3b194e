/*
 * prepared.c -- the table of prepared transactions, one place a region.
 *
 * Row locks live in DRAM, so a prepared transaction writes lists of its own into ordinary slots of its region.
 * They bear HTable 0 and the transaction's Tx-CTS, so recovery finds them with its versions.  When the transaction
 * ends these slots are scrubbed before the descriptor goes, so that no lock list ever counts as a committed tuple.
 * (Recovery discards slots of HTable 0 in any case.)
 *
 * After a restart all versions come back first, as spilled ones, then all locks (I9).  Damaged slots are
 * counted, reported, and brought back as far as they name a row.
 */
#include "txn/prepared.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "base/locks.h"
#include "gc/reclaim.h"
#include "lib/qunique.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/repair.h"
#include "nvm/sink.h"
#include "nvm/slotalloc.h"
#include "row/lockers.h"
#include "row/rowmake.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "txn/spillend.h"

#define LOCKS_PER_SLOT	60
#define LOCK_LIST_WORD1	zen_word1(0, 0, 0, false)	/* of no row */
#define FOUND_SLOTS		1022	/* 8 KB with what is before them */

/* A row lock as NVM keeps it. */
typedef struct LockRecord
{
	uint64		tidno;
	uint32		htable;
	uint32		mode;
} LockRecord;

/* The body of a lock-list slot: a MinimalTuple in form only. */
typedef struct LockList
{
	MinimalTupleData head;
	uint32		n;
	LockRecord	l[LOCKS_PER_SLOT];
} LockList;

struct ZenFoundSlots
{
	struct ZenFoundSlots *next;
	uint32		n;
	ZenSlot		slots[FOUND_SLOTS];
};

StaticAssertDecl(sizeof(LockRecord) == 16 && offsetof(LockList, l) % 8 == 0, "lock lists are a format in NVM");
StaticAssertDecl(sizeof(struct ZenFoundSlots) == 8192, "found slots take 8 KB at a time");

ZenPrepared *zen_prepared;

/* ---------- arrays in the arena ---------- */

/* An array with room for n elements, in place of one with *capacity of them; throws when DRAM is full. */
static void *
grow(void *array, uint32 *capacity, uint32 n, Size element)
{
	uint32		wanted = Max(16, *capacity);
	void	   *copy;

	Assert((array == NULL) == (*capacity == 0));
	if (n <= *capacity)
		return array;
	while (wanted < n)
		wanted *= 2;
	copy = zen_arena_alloc_or_error(wanted * element);
	if (array != NULL)
	{
		memcpy(copy, array, *capacity * element);
		zen_arena_free(array, *capacity * element);
	}
	*capacity = wanted;
	return copy;
}

void
zen_prepared_free(ZenPrepared *p)
{
	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE));
	Assert(p->found == NULL);
	if (p->set.writes)
		zen_arena_free(p->set.writes, p->set.writes_capacity * sizeof(ZenWrite));
	if (p->set.blocks)
		zen_arena_free(p->set.blocks, p->set.blocks_capacity * sizeof(ZenSpilledBlock));
	if (p->set.locks)
		zen_arena_free(p->set.locks, p->set.locks_capacity * sizeof(ZenLockedRow));
	if (p->damaged)
		zen_arena_free(p->damaged, p->damaged_capacity * sizeof(ZenSlot));
	memset(p, 0, sizeof(*p));
}

/* ---------- lock lists in NVM ---------- */

static uint32
nlists_of(const ZenPrepared *p)
{
	return (p->set.nlocks + LOCKS_PER_SLOT - 1) / LOCKS_PER_SLOT;
}

/* Locks in list i. */
static uint32
locks_in_list(const ZenPrepared *p, uint32 i)
{
	Assert(i < nlists_of(p));
	return Min(LOCKS_PER_SLOT, p->set.nlocks - i * LOCKS_PER_SLOT);
}

/* Write list i to its slot. */
static void
write_list(ZenPrepared *p, uint32 i, ZenSlot slot, uint64 cts)
{
	const ZenLockedRow *locks = &p->set.locks[i * LOCKS_PER_SLOT];
	LockList	list;

	Assert(zen_pages[zen_slot_page(slot)].owner.htable == 0);
	memset(&list, 0, sizeof(list));
	list.n = locks_in_list(p, i);
	list.head.t_len = offsetof(LockList, l) + list.n * sizeof(LockRecord);
	for (uint32 l = 0; l < list.n; l++)
	{
		list.l[l].tidno = locks[l].tidno;
		list.l[l].htable = locks[l].ht->idx;
		list.l[l].mode = locks[l].mode;
	}
	zen_tuple_write(slot, cts, LOCK_LIST_WORD1, InvalidTransactionId, &list.head, true);
}

void
zen_prepared_write_lists(ZenPrepared *p, uint64 cts)
{
	uint32		nlists = nlists_of(p);
	ZenWrite   *first = p->set.writes + p->set.nwrites - nlists;

	Assert(p->set.nwrites >= nlists);
	ZenAssertRegionMine(p->set.region);
	for (uint32 i = 0; i < nlists; i++)
		write_list(p, i, first[i].slot, cts);
}

/* A slot for a list of n locks; the pool's garbage is collected if there is none. */
static ZenSlot
list_slot(uint32 region, uint32 n)
{
	Size		size = zen_tuple_size(offsetof(LockList, l) + n * sizeof(LockRecord));
	ZenSlot		slot = zen_slot_alloc(region, &zen_htables[0], size);

	if (slot == InvalidZenSlot)
	{
		zen_reclaim_for_slots(region);
		slot = zen_slot_alloc(region, &zen_htables[0], size);
	}
	if (slot == InvalidZenSlot)
		zen_pool_full_error();
	return slot;
}

static int
compare_blocks(const void *a, const void *b)
{
	const ZenSpilledBlock *x = a;
	const ZenSpilledBlock *y = b;

	if (x->ht != y->ht)
		return x->ht < y->ht ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

/* Name each block once; returns how many remain. */
static uint32
unique_blocks(ZenSpilledBlock *blocks, uint32 n)
{
	if (n == 0)
		return 0;
	qsort(blocks, n, sizeof(ZenSpilledBlock), compare_blocks);
	return (uint32) qunique(blocks, n, sizeof(ZenSpilledBlock), compare_blocks);
}

/* The row locks, each under the TID where it was taken: tombstones lead on from there. */
static void
copy_locks(ZenPrepared *p)
{
	const ZenWriteSet *ws = &zen_writeset;

	p->set.locks = grow(NULL, &p->set.locks_capacity, ws->nlocks + 1, sizeof(ZenLockedRow));
	for (uint32 i = 0; i < ws->nlocks; i++)
		if (!ws->locks[i].followed)
			p->set.locks[p->set.nlocks++] = ws->locks[i];
}

void
zen_prepared_reserve(ZenPrepared *p, uint32 region)
{
	const ZenWriteSet *ws = &zen_writeset;
	ZenWriteSet *set = &p->set;
	uint32		nlists;

	ZenAssertRegionMine(region);
	Assert(!p->in_use && set->writes == NULL && set->blocks == NULL && set->locks == NULL);
	copy_locks(p);
	nlists = nlists_of(p);
	set->writes = grow(NULL, &set->writes_capacity, ws->nwrites + nlists, sizeof(ZenWrite));
	if (ws->nwrites > 0)
		memcpy(set->writes, ws->writes, ws->nwrites * sizeof(ZenWrite));
	set->nwrites = ws->nwrites;
	set->blocks = grow(NULL, &set->blocks_capacity, ws->nblocks + 1, sizeof(ZenSpilledBlock));
	if (ws->nblocks > 0)
		memcpy(set->blocks, ws->blocks, ws->nblocks * sizeof(ZenSpilledBlock));
	set->nblocks = unique_blocks(set->blocks, ws->nblocks);
	set->region = region;
	for (uint32 i = 0; i < nlists; i++)
	{
		ZenSlot		slot = list_slot(region, locks_in_list(p, i));
		ZenWrite   *w = &set->writes[set->nwrites++];

		memset(w, 0, sizeof(*w));
		w->slot = slot;
		w->former = zen_tuple_header(slot);
	}
}

void
zen_prepared_free_lists(ZenPrepared *p)
{
	ZenWriteSet *set = &p->set;
	uint32		n = 0;

	Assert(set->nwrites <= set->writes_capacity);
	for (uint32 i = 0; i < set->nwrites; i++)
	{
		if (set->writes[i].version != NULL)
			set->writes[n++] = set->writes[i];
		else
			zen_slot_free(set->writes[i].slot);
	}
	set->nwrites = n;
}

void
zen_prepared_scrub_lists(ZenPrepared *p)
{
	ZenWriteSet *set = &p->set;

	ZenAssertRegionMine(set->region);
	for (uint32 i = 0; i < set->nwrites; i++)
		if (set->writes[i].version == NULL)
			ZEN_TELL(vanishing, set->writes[i].slot);
	ZEN_TELL(vanish, set->region, 0);
	for (uint32 i = 0; i < set->nwrites; i++)
		if (set->writes[i].version == NULL)
			zen_tuple_scrub(set->writes[i].slot);
	zen_fence();
	ZEN_TELL(done);
	for (uint32 i = 0; i < set->nwrites; i++)
		if (set->writes[i].version == NULL)
			zen_collect_forget_header(set->writes[i].former);
	zen_prepared_free_lists(p);
}

/* ---------- for others ---------- */

bool
zen_prepared_is_waiting(uint32 region)
{
	bool		waiting;

	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_SHARED);
	waiting = zen_prepared[region].in_use;
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return waiting;
}

void
zen_prepared_walk(void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenPrepared *p = &zen_prepared[r];

		for (uint32 i = 0; p->in_use && i < p->set.nwrites; i++)
			if (p->set.writes[i].slot != InvalidZenSlot)
				visit(r, p->set.writes[i].slot, p->set.writes[i].former, arg);
		for (uint32 i = 0; p->in_use && i < p->set.nblocks; i++)
			zen_spillend_walk(r, &p->set.blocks[i], visit, arg);
	}
}

void
zen_prepared_walk_locks(void (*visit) (ZenHTable *ht, uint64 tidno, void *arg), void *arg)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenPrepared *p = &zen_prepared[r];

		for (uint32 i = 0; p->in_use && i < p->set.nlocks; i++)
			visit(p->set.locks[i].ht, p->set.locks[i].tidno, arg);
	}
}

/* ---------- recovery ---------- */

/* Something damaged was found; true if it is to be named. */
static bool (*count_damaged) (void);

void
zen_prepared_found(uint32 region, ZenSlot slot)
{
	ZenPrepared *p = &zen_prepared[region];
	ZenFoundSlots *last = p->found;

	Assert(region < ZEN_MAX_REGIONS && slot != InvalidZenSlot && !p->in_use);
	if (last == NULL || last->n == FOUND_SLOTS)
	{
		last = zen_arena_alloc_or_error(sizeof(ZenFoundSlots));
		last->next = p->found;
		last->n = 0;
		p->found = last;
	}
	last->slots[last->n++] = slot;
}

/* Is there such a row, so that it can be locked? */
static bool
is_lockable(const LockRecord *l)
{
	return l->htable > 0 && l->htable < ZEN_MAX_HTABLES && zen_htables[l->htable].in_use &&
		l->tidno < zen_tidmap_nblocks(&zen_htables[l->htable]) * ZEN_TIDS_PER_BLOCK && l->mode <= LockTupleExclusive;
}

static void
restore_lock(ZenPrepared *p, const LockRecord *lock)
{
	ZenLockedRow *l;

	p->set.locks = grow(p->set.locks, &p->set.locks_capacity, p->set.nlocks + 1, sizeof(ZenLockedRow));
	l = &p->set.locks[p->set.nlocks++];
	l->ht = &zen_htables[lock->htable];
	l->tidno = lock->tidno;
	l->xid = p->xid;
	l->mode = lock->mode;
	l->nest_level = 1;
}

/*
 * Bring a lock list back; of a damaged one all entries that name a row.  One lock too many makes a writer wait; one
 * lock too few breaks the promise of PREPARE.
 */
static void
restore_locks(ZenPrepared *p, ZenSlot slot, bool intact)
{
	Size		size = zen_slot_size(slot) - ZEN_HEADER_SIZE;
	LockList	list;
	ZenWrite   *w;

	memset(&list, 0, sizeof(list));
	memcpy(&list, (char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE, Min(sizeof(list), size));
	if (!intact && count_damaged())
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row locks of prepared transaction %u are damaged", p->xid),
				 errdetail("Some of the rows that it has locked may be changed by others before it ends."),
				 errhint("Commit or roll back the prepared transaction before others write to its tables.")));
	for (uint32 i = 0; i < (intact ? list.n : LOCKS_PER_SLOT) && i < LOCKS_PER_SLOT; i++)
		if (is_lockable(&list.l[i]))
			restore_lock(p, &list.l[i]);
	p->set.writes = grow(p->set.writes, &p->set.writes_capacity, p->set.nwrites + 1, sizeof(ZenWrite));
	w = &p->set.writes[p->set.nwrites++];
	memset(w, 0, sizeof(*w));
	w->slot = slot;
}

/*
 * Flags that say which locks a version's writer excludes.  An update in place keeps the key, since all key columns have
 * an index.  If an update moves the row, the link says whether the key has changed.
 */
static uint32
version_flags(ZenSlot slot, ZenTupleHeader h)
{
	uint64		link;

	if ((h.word1 & ZEN_DELETED) == 0)
		return 0;
	link = zen_tuple_link(slot, zen_slot_size(slot));
	if (link == 0)
		return ZEN_V_KEY_UPDATE;
	if (link == ZEN_LINK_MOVED)
		return ZEN_V_KEY_UPDATE | ZEN_V_MOVED;
	return ZEN_V_FORWARD | (zen_link_keeps_key(link) ? 0 : ZEN_V_KEY_UPDATE);
}

/* Is the block of a row in the list already?  No other process is at work. */
static bool
has_block(ZenPrepared *p, ZenHTable *ht, uint32 block)
{
	ZenSpilledBlock *last = p->set.nblocks > 0 ? &p->set.blocks[p->set.nblocks - 1] : NULL;
	ZenSpill   *s;

	if (last != NULL && last->ht == ht && last->block == block)
		return true;
	s = zen_spillmap_find(ht, block);
	for (uint32 i = 0; s != NULL && i < ZEN_TIDS_PER_BLOCK; i++)
		if (s->slot[i] != InvalidZenSlot && s->writers[s->writer_of[i]].region == p->commit.region)
			return true;
	return false;
}

static void
add_block(ZenPrepared *p, ZenHTable *ht, uint32 block)
{
	ZenSpilledBlock *b;

	if (has_block(p, ht, block))
		return;
	Assert(ht->in_use && ht->idx != 0);
	p->set.blocks = grow(p->set.blocks, &p->set.blocks_capacity, p->set.nblocks + 1, sizeof(ZenSpilledBlock));
	b = &p->set.blocks[p->set.nblocks++];
	b->ht = ht;
	b->block = block;
	b->nest_level = 1;
}

/*
 * Bring a version back, as a spilled one.  So a large transaction takes no more DRAM than before the restart, and
 * no data is read, be it sound or damaged.  False if the row has a version of a prepared transaction already (R15).
 */
static bool
restore_version(ZenPrepared *p, ZenSlot slot, ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	uint64		tidno = zen_word1_tidno(h.word1);
	ZenWord    *word = zen_tidmap_extend(ht, tidno);
	uint64		w = zen_word_read(word);
	ZenSlot		old = zen_word_state(w) == ZEN_WORD_NVM ? zen_word_ref(w) : InvalidZenSlot;
	ZenSpillWriter writer = {.xid = p->xid,.cmin = FirstCommandId,.region = p->commit.region};

	ZenAssertRegionMine(p->commit.region);
	Assert(zen_word_state(w) != ZEN_WORD_ENTRY);
	if (zen_word_state(w) == ZEN_WORD_SPILLED)
		return false;
	writer.flags = version_flags(slot, h);
	add_block(p, ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK));
	if (!zen_spillmap_note(ht, tidno, slot, old, &writer))
		zen_arena_full_error();
	w = zen_word_lock(word);
	zen_word_unlock(word, zen_word_with(w, ZEN_WORD_SPILLED, slot));
	p->commit.last = slot;
	return true;
}

/*
 * May the header of a version be believed when it names a row?  The header of a damaged version only if it lengthens
 * the table by little.
 */
static bool
names_row(ZenPrepared *p, ZenTupleHeader h, bool intact)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];

	return (h.word0 & ZEN_CTS_MASK) == p->commit.cts && ht->idx != 0 && ht->in_use && !ht->damaged &&
		zen_htable_owns(ht, p->commit.cts) &&
		(intact || zen_word1_tidno(h.word1) / ZEN_TIDS_PER_BLOCK < zen_tidmap_nblocks(ht) + ZEN_DAMAGED_GAP);
}

/* The transaction has written a version that is damaged; known: the row that the header names has it. */
static void
report_version(ZenPrepared *p, ZenSlot slot, ZenTupleHeader h, bool known)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	uint64		tidno = zen_word1_tidno(h.word1);

	if (!count_damaged())
		return;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a row that prepared transaction %u has written is damaged", p->xid),
			 known ? errdetail("It is row (" UINT64_FORMAT "," UINT64_FORMAT ") of zen table %u/%u/%u, "
							   "at offset " UINT64_FORMAT " of the pool.",
							   tidno / ZEN_TIDS_PER_BLOCK, tidno % ZEN_TIDS_PER_BLOCK + 1,
							   ht->spc, ht->db, ht->relnumber, slot * ZEN_SLOT_UNIT) :
			 errdetail("It lies at offset " UINT64_FORMAT " of the pool; which row it is is unknown.",
					   slot * ZEN_SLOT_UNIT),
			 errhint("If the transaction is rolled back, nothing of it counts.  "
					 "If it is committed, restore the row from a backup.")));
}

/* Is the slot sound?  A flipped bit is set right.  After a start with the saved map this is the first look at it. */
static bool
is_intact(ZenSlot slot)
{
	ZenTupleHeader h;

	if (zen_tuple_intact(slot, zen_slot_size(slot)))
		return true;
	if (!zen_tuple_repairable(slot, zen_slot_size(slot), &h))
		return false;
	zen_tuple_repair(slot, h);
	zen_note_repair(zen_slot_ptr(slot));
	return true;
}

/* Lists are on pages of no table.  *intact: see is_intact(); not set if it is no list. */
static bool
is_lock_list(ZenSlot slot, bool *intact)
{
	if (zen_pages[zen_slot_page(slot)].owner.htable != 0)
		return false;
	*intact = is_intact(slot);
	return zen_tuple_header(slot).word1 == LOCK_LIST_WORD1;
}

/* Bring back the version in a slot. */
static void
restore_slot(ZenPrepared *p, ZenSlot slot)
{
	bool		intact = is_intact(slot);
	ZenTupleHeader h = zen_tuple_header(slot);
	bool		known = names_row(p, h, intact) && restore_version(p, slot, h);

	if (intact && known)
		return;
	report_version(p, slot, h, known);
	if (!known)
		return;
	p->damaged = grow(p->damaged, &p->damaged_capacity, p->ndamaged + 1, sizeof(ZenSlot));
	p->damaged[p->ndamaged++] = slot;
}

/* Take the lock lists out of the slots that were found, and bring the locks back to the transaction. */
static void
restore_lists(ZenPrepared *p)
{
	for (ZenFoundSlots *found = p->found; found != NULL; found = found->next)
		for (uint32 i = 0; i < found->n;)
		{
			ZenSlot		slot = found->slots[i];
			bool		intact;

			if (!is_lock_list(slot, &intact))
				i++;
			else
			{
				found->slots[i] = found->slots[--found->n];
				restore_locks(p, slot, intact);
			}
		}
}

/* The transaction of a region as far as its descriptor and its lock lists tell; NULL if none is prepared there. */
static ZenPrepared *
restore_begin(uint32 region)
{
	ZenPrepared *p = &zen_prepared[region];

	if (zen_regions[region].doubt_kind != ZEN_DOUBT_PREPARED)
		return NULL;
	p->full_xid = zen_regions[region].doubt_xid;
	p->xid = XidFromFullTransactionId(FullTransactionIdFromU64(p->full_xid));
	p->set.region = region;
	restore_lists(p);
	return p;
}

static void
restore_slots(ZenPrepared *p)
{
	while (p->found != NULL)
	{
		ZenFoundSlots *done = p->found;

		for (uint32 i = 0; i < done->n; i++)
			restore_slot(p, done->slots[i]);
		p->found = done->next;
		zen_arena_free(done, sizeof(ZenFoundSlots));
	}
}

/* ---------- recovery: locks of rows that have gone on ---------- */

/* The TID under which a tombstone in NVM says that its row goes on; false: none. */
static bool
link_in(ZenSlot tombstone, uint64 *next)
{
	uint64		link = zen_tuple_link(tombstone, zen_slot_size(tombstone));

	if (link == 0 || link == ZEN_LINK_MOVED)
		return false;
	*next = zen_word1_tidno(link);
	return true;
}

/* No reader, no writer. */
static void
keep_links(const ZenLockedRow *l)
{
	uint64		tidno = l->tidno;

	for (;;)
	{
		ZenWord    *word = zen_tidmap_word(l->ht, tidno);
		uint64		w = word != NULL ? zen_word_read(word) : 0;

		if (word == NULL || zen_word_state(w) != ZEN_WORD_DEAD || zen_word_ref(w) == InvalidZenSlot ||
			!link_in(zen_word_ref(w), &tidno))
			return;
		pg_atomic_write_u64(word, zen_word_stale_inc(w));
	}
}

void
zen_prepared_keep_links(bool (*count) (void))
{
	count_damaged = count;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenPrepared *p = restore_begin(r);

		for (uint32 i = 0; p != NULL && i < p->set.nlocks; i++)
			keep_links(&p->set.locks[i]);
	}
}

/* Hang the lock at the version to which a word in state ENTRY leads. */
static void
hang_lock(ZenWord *word, const ZenLockedRow *l)
{
	ZenVersion *head = zen_word_entry(zen_word_read(word));
	ZenLockers *old = head->lockers;
	ZenLockers *lockers = zen_version_lockers_alloc((old ? old->n : 0) + 1);
	uint64		w;

	if (lockers == NULL)
		zen_arena_full_error();
	if (old)
		memcpy(lockers->l, old->l, old->n * sizeof(ZenLocker));
	lockers->n = old ? old->n : 0;
	lockers->l[lockers->n].xid = l->xid;
	lockers->l[lockers->n++].mode = l->mode;
	Assert(lockers->n <= lockers->capacity);
	w = zen_word_lock(word);
	zen_chain_check(w);
	head->lockers = lockers;
	zen_word_unlock(word, w);
	if (old)
		zen_version_lockers_free(old);
}

/* Is the newest version a tombstone with a link?  *next: where to; a committed one was kept for this lock. */
static bool
follow(ZenWord *word, uint64 *next)
{
	ZenVersion *head = zen_word_entry(zen_word_read(word));
	uint64		w;

	if (!(zen_version_flags(head) & ZEN_V_FORWARD))
		return false;
	*next = head->forward_tidno;
	if (zen_version_flags(head) & ZEN_V_FROZEN)
	{
		w = zen_word_lock(word);
		zen_word_unlock(word, zen_word_stale_dec(w));
	}
	return true;
}

/* Hang a lock at its row, if the row is still there, under each TID that leads to it; at a damaged row as well. */
static void
relock(const ZenLockedRow *l)
{
	uint64		tidno = l->tidno;

	do
	{
		ZenWord    *word = zen_tidmap_word(l->ht, tidno);

		if (word != NULL && !zen_row_admit_unread(l->ht, tidno, word))
			zen_arena_full_error();
		if (word == NULL || zen_word_state(zen_word_read(word)) != ZEN_WORD_ENTRY)
			return;
		hang_lock(word, l);
		if (!follow(word, &tidno))
			return;
	} while (true);
}

void
zen_prepared_restore(bool (*count) (void))
{
	ZenAssertNotInEpoch();
	count_damaged = count;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenPrepared *p = restore_begin(r);

		if (p == NULL)
			continue;
		zen_commit_restore(&p->commit, r);
		Assert(!p->in_use && p->full_xid != 0);
		zen_region_take_over(r);
		restore_slots(p);
		if (!zen_gcqueue_reserve(r, p->set.nblocks))
			zen_arena_full_error();
		zen_region_rest(r, true);
		p->in_use = true;
	}
	/* I9: one may have locked a row that another has updated */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		for (uint32 i = 0; zen_prepared[r].in_use && i < zen_prepared[r].set.nlocks; i++)
			relock(&zen_prepared[r].set.locks[i]);
}

/* ---------- shared memory ---------- */

Size
zen_prepared_shmem_size(void)
{
	return mul_size(ZEN_MAX_REGIONS, sizeof(ZenPrepared));
}

void
zen_prepared_init(void)
{
	bool		found;

	zen_prepared = ShmemInitStruct("zen prepared transactions", zen_prepared_shmem_size(), &found);
	if (!found)
		memset(zen_prepared, 0, zen_prepared_shmem_size());
}
