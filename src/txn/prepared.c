/*
 * prepared.c -- PREPARE TRANSACTION without a log, the end of prepared transactions, and their return after a restart.
 *
 * PREPARE reserves everything first (R7).  Then it writes the versions and the lists of row locks, all flushed, and
 * the descriptor, and gives the region over to the table of prepared transactions, which has one place a region.
 *
 * COMMIT PREPARED calls no callback of zen.  src/txn/README, "PREPARE TRANSACTION", says how zen_prepared_resolve()
 * makes the region's watermark follow PostgreSQL's commit record, and how locks and versions come back after a restart.
 *
 * Row locks live in DRAM, so a prepared transaction writes lists of its own into ordinary slots of its region.
 * They bear HTable 0 and the transaction's Tx-CTS, so recovery finds them with its versions.  When the transaction
 * ends these slots are scrubbed before the descriptor goes, so that no lock list ever counts as a committed tuple.
 * (Recovery discards slots of HTable 0 in any case.)
 */
#include "txn/prepared.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "base/fault.h"
#include "base/locks.h"
#include "cache/spillmap.h"
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
#include "txn/ddl.h"
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

/* Slots of a transaction, as recovery finds them. */
typedef struct FoundSlots
{
	struct FoundSlots *next;
	uint32		n;
	ZenSlot		slots[FOUND_SLOTS];
} FoundSlots;

StaticAssertDecl(sizeof(LockRecord) == 16 && offsetof(LockList, l) % 8 == 0, "lock lists are a format in NVM");
StaticAssertDecl(sizeof(FoundSlots) == 8192, "found slots take 8 KB at a time");

/*
 * The prepared transaction of a region.  Its session fills it, without a lock; others read it once in_use is set.  From
 * then on it is changed under ZEN_LOCK_RECOVERY, held exclusively.
 */
typedef struct Prepared
{
	bool		in_use;
	TransactionId xid;
	uint64		full_xid;
	ZenCommit	commit;
	ZenWriteSet set;			/* in the arena.  The lock lists' slots stand
								 * behind the writes, with version NULL */
	ZenSlot    *damaged;		/* arena; versions in blocks that recovery has
								 * found damaged */
	uint32		ndamaged;
	uint32		damaged_capacity;
	FoundSlots *found;			/* arena; during recovery */
} Prepared;

static Prepared *prepared;		/* [ZEN_MAX_REGIONS] */

typedef struct PreparedCounts
{
	/*
	 * How many are in use, or about to be, or are being finished: raised
	 * before in_use is set, lowered when all is done.  After an error in
	 * between it stays too high, which costs a look at the entries.
	 */
	pg_atomic_uint32 n;

	/*
	 * Entries from this one on have never been in use; raised before n is.
	 * All of them take some megabytes, and most servers use the first few.
	 */
	pg_atomic_uint32 end;
} PreparedCounts;

static PreparedCounts *counts;

/* The entry of a region is about to be in use. */
static void
note_in_use(uint32 region)
{
	uint32		end = pg_atomic_read_u32(&counts->end);

	while (end <= region && !pg_atomic_compare_exchange_u32(&counts->end, &end, region + 1))
		;
	pg_atomic_fetch_add_u32(&counts->n, 1); /* a full barrier */
}

/* ---------- arrays in the arena ---------- */

/* An array with room for n elements, in place of one with *capacity of them; throws when DRAM is full. */
static void *
prepared_grow(void *array, uint32 *capacity, uint32 n, Size element)
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

/* Free the arrays, and empty the entry.  Caller holds ZEN_LOCK_RECOVERY exclusively. */
static void
prepared_free(Prepared *p)
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
nlists_of(const Prepared *p)
{
	return (p->set.nlocks + LOCKS_PER_SLOT - 1) / LOCKS_PER_SLOT;
}

/* Locks in list i. */
static uint32
locks_in_list(const Prepared *p, uint32 i)
{
	Assert(i < nlists_of(p));
	return Min(LOCKS_PER_SLOT, p->set.nlocks - i * LOCKS_PER_SLOT);
}

/* Write list i to its slot. */
static void
write_list(Prepared *p, uint32 i, ZenSlot slot, uint64 cts)
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

/* Write the locks to their slots; flushed, not fenced.  Lease holder; never throws. */
static void
write_lists(Prepared *p, uint64 cts)
{
	uint32		nlists = nlists_of(p);
	ZenWrite   *first = p->set.writes + p->set.nwrites - nlists;

	Assert(p->set.nwrites >= nlists);
	ZenAssertRegionMine(p->set.region);
	for (uint32 i = 0; i < nlists; i++)
		write_list(p, i, first[i].slot, cts);
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

/* Copy the write set, and take slots for lock lists in the region.  Throws when the pool or DRAM is full. */
static void
prepared_reserve(Prepared *p, uint32 region)
{
	const ZenWriteSet *ws = &zen_writeset;
	ZenWriteSet *set = &p->set;
	uint32		nlists;

	ZenAssertRegionMine(region);
	Assert(!p->in_use && p->found == NULL && set->writes == NULL && set->blocks == NULL && set->locks == NULL);

	/*
	 * each lock under the TID where it was taken: tombstones lead on from
	 * there
	 */
	set->locks = prepared_grow(NULL, &set->locks_capacity, ws->nlocks + 1, sizeof(ZenLockedRow));
	for (uint32 i = 0; i < ws->nlocks; i++)
		if (!ws->locks[i].followed)
			set->locks[set->nlocks++] = ws->locks[i];
	nlists = nlists_of(p);
	set->writes = prepared_grow(NULL, &set->writes_capacity, ws->nwrites + nlists, sizeof(ZenWrite));
	if (ws->nwrites > 0)
		memcpy(set->writes, ws->writes, ws->nwrites * sizeof(ZenWrite));
	set->nwrites = ws->nwrites;
	set->blocks = prepared_grow(NULL, &set->blocks_capacity, ws->nblocks + 1, sizeof(ZenSpilledBlock));
	if (ws->nblocks > 0)
		memcpy(set->blocks, ws->blocks, ws->nblocks * sizeof(ZenSpilledBlock));
	/* each block once */
	qsort(set->blocks, ws->nblocks, sizeof(ZenSpilledBlock), compare_blocks);
	set->nblocks = (uint32) qunique(set->blocks, ws->nblocks, sizeof(ZenSpilledBlock), compare_blocks);
	set->region = region;
	for (uint32 i = 0; i < nlists; i++)
	{
		Size		size = offsetof(LockList, l) + locks_in_list(p, i) * sizeof(LockRecord);
		ZenWrite	w = {.slot = zen_commit_own_slot(region, zen_tuple_size(size))};

		w.former = zen_tuple_header(w.slot);
		set->writes[set->nwrites++] = w;
	}
}

/* Leave the lock lists out, and free their slots, which hold nothing.  Lease holder; never throws. */
static void
free_lists(Prepared *p)
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

/* The same if they were written: scrubbed first, durably. */
static void
scrub_lists(Prepared *p)
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
	free_lists(p);
}

/* ---------- PREPARE ---------- */

void
zen_prepared_store(ZenCommit *commit, uint64 full_xid)
{
	ZenWriteSet *ws = &zen_writeset;
	Prepared   *p;

	/* R7: everything that can fail comes before the first store */
	zen_commit_reserve(commit, ws);
	p = &prepared[commit->region];
	ZenAssertRegionMine(commit->region);
	prepared_reserve(p, commit->region);

	/*
	 * also without a version: the descriptor brings locks, and tables created
	 * or dropped, back after a restart
	 */
	zen_commit_store_prepared(commit, ws);
	zen_spillend_restamp(commit->region, commit->cts, ws->blocks, ws->nblocks);
	write_lists(p, commit->cts);
	zen_commit_doubt(commit, full_xid, ZEN_DOUBT_PREPARED);
	p->full_xid = full_xid;
	p->xid = GetTopTransactionId();
}

void
zen_prepared_undo(ZenCommit *commit)
{
	Prepared   *p = &prepared[commit->region];

	if (commit->stage == ZEN_STAGE_NONE || p->in_use || (p->set.writes == NULL && p->set.locks == NULL))
		return;
	ZenAssertRegionMine(commit->region);
	if (commit->stage == ZEN_STAGE_LEASED)
		free_lists(p);			/* intact, and not to be forgotten */
	else
		scrub_lists(p);
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	prepared_free(p);
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
}

void
zen_prepared_hand_over(ZenCommit *commit)
{
	Prepared   *p = &prepared[commit->region];

	Assert(p->full_xid != 0 && !p->in_use);
	Assert(zen_regions[commit->region].doubt_xid == p->full_xid || ZEN_FAULT(R9_NO_DESCRIPTOR));
	Assert(p->set.nwrites >= zen_writeset.nwrites && p->set.nlocks <= zen_writeset.nlocks);
	p->commit = *commit;
	note_in_use(commit->region);
	p->in_use = true;
	zen_commit_hand_over(commit);
}

/* ---------- COMMIT PREPARED, ROLLBACK PREPARED ---------- */

/*
 * Rows whose new version is damaged: to read one is an error from now on, as it is after the next recovery.  An older
 * version keeps its slot, in case it is the row's number that is damaged.
 */
static void
prepared_place_damaged(Prepared *p)
{
	for (uint32 i = 0; i < p->ndamaged; i++)
	{
		ZenTupleHeader h = zen_tuple_header(p->damaged[i]);
		ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
		uint64		tidno = zen_word1_tidno(h.word1);
		ZenWord    *word = zen_tidmap_word(ht, tidno);
		ZenSpill   *s = zen_spillmap_find(ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK));
		bool		replaces = zen_spillmap_old(s, tidno % ZEN_TIDS_PER_BLOCK) != InvalidZenSlot;
		uint64		w = zen_word_lock(word);
		bool		placed = zen_word_state(w) == ZEN_WORD_SPILLED && zen_word_ref(w) == p->damaged[i];

		if (placed && replaces)
			w = zen_word_stale_inc(w);
		if (placed)
			w = zen_word_with(w, (h.word1 & ZEN_DELETED) ? ZEN_WORD_DEAD : ZEN_WORD_NVM, p->damaged[i]);
		zen_word_unlock(word, w);
		if (!placed)
			continue;
		zen_spillmap_forget(ht, tidno);
		zen_spillmap_trim(ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK), false);
	}
}

/* Commit or abort a prepared transaction, and free its entry. */
static void
prepared_finish(Prepared *p, bool committed)
{
	uint64		full_xid = p->full_xid;
	Prepared	copy;

	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE));
	Assert(p->in_use && p == &prepared[p->commit.region]);
	Assert(p->commit.stage == ZEN_STAGE_DOUBT && p->found == NULL);
	zen_region_take_over(p->commit.region);

	scrub_lists(p);
	for (uint32 i = 0; i < p->set.nlocks; i++)
		zen_lockers_release(p->set.locks[i].ht, p->set.locks[i].tidno, p->set.locks[i].xid);

	/*
	 * the region is free for others as soon as commit or abort has released
	 * it: leave its entry before
	 */
	copy = *p;
	memset(p, 0, sizeof(*p));
	if (committed)
	{
		prepared_place_damaged(&copy);
		zen_commit_finish(&copy.commit, &copy.set);
	}
	else
	{
		zen_commit_abort(&copy.commit, &copy.set);
		while (copy.set.nwrites > 0)
			zen_pop_version(&copy.set.writes[--copy.set.nwrites]);
	}
	zen_ddl_resolve(full_xid, committed);
	prepared_free(&copy);
	pg_atomic_fetch_sub_u32(&counts->n, 1);
}

bool
zen_prepared_resolve(void)
{
	bool		waiting = false;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	/* DDL asks often, and there is none mostly */
	if (max_prepared_xacts == 0 || pg_atomic_read_u32(&counts->n) == 0)
		return false;
	Assert(!LWLockHeldByMe(zen_lock(ZEN_LOCK_RECOVERY)));
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	for (uint32 r = 0; r < pg_atomic_read_u32(&counts->end); r++)
	{
		Prepared   *p = &prepared[r];

		if (!p->in_use)
			continue;
		if (TransactionIdIsInProgress(p->xid))
			waiting = true;
		else
			prepared_finish(p, TransactionIdDidCommit(p->xid));
	}
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return waiting;
}

/* ---------- for others ---------- */

bool
zen_prepared_is_waiting(uint32 region)
{
	bool		waiting;

	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_SHARED);
	waiting = prepared[region].in_use;
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return waiting;
}

void
zen_prepared_walk(void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg),
				  void (*visit_lock) (ZenHTable *ht, uint64 tidno), void *arg)
{
	for (uint32 r = 0; r < pg_atomic_read_u32(&counts->end); r++)
	{
		ZenWriteSet *set = &prepared[r].set;

		if (!prepared[r].in_use)
			continue;
		for (uint32 i = 0; i < set->nwrites; i++)
			if (set->writes[i].slot != InvalidZenSlot)
				visit(r, set->writes[i].slot, set->writes[i].former, arg);
		for (uint32 i = 0; i < set->nblocks; i++)
			zen_spillend_walk(r, &set->blocks[i], visit, arg);
		for (uint32 i = 0; i < set->nlocks && visit_lock != NULL; i++)
			visit_lock(set->locks[i].ht, set->locks[i].tidno);
	}
}

/* ---------- recovery ---------- */

/* Something damaged was found; true if it is to be named. */
static bool (*count_damaged) (void);

void
zen_prepared_found(uint32 region, ZenSlot slot)
{
	Prepared   *p = &prepared[region];
	FoundSlots *last = p->found;

	Assert(region < ZEN_MAX_REGIONS && slot != InvalidZenSlot && !p->in_use);
	if (last == NULL || last->n == FOUND_SLOTS)
	{
		last = zen_arena_alloc_or_error(sizeof(FoundSlots));
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
restore_lock(Prepared *p, const LockRecord *lock)
{
	ZenLockedRow l = {.ht = &zen_htables[lock->htable],.tidno = lock->tidno,.xid = p->xid,.mode = lock->mode};

	l.nest_level = 1;
	p->set.locks = prepared_grow(p->set.locks, &p->set.locks_capacity, p->set.nlocks + 1, sizeof(ZenLockedRow));
	p->set.locks[p->set.nlocks++] = l;
}

/*
 * Bring a lock list back; of a damaged one all entries that name a row.  One lock too many makes a writer wait; one
 * lock too few breaks the promise of PREPARE.
 */
static void
restore_locks(Prepared *p, ZenSlot slot, bool intact)
{
	Size		size = zen_slot_size(slot) - ZEN_HEADER_SIZE;
	LockList	list = {0};
	ZenWrite	w = {.slot = slot};

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
	p->set.writes = prepared_grow(p->set.writes, &p->set.writes_capacity, p->set.nwrites + 1, sizeof(ZenWrite));
	p->set.writes[p->set.nwrites++] = w;
}

/*
 * Flags that say which locks a version's writer excludes.  An update in place keeps the key, since all key columns have
 * an index.  If an update moves the row, the link says whether the key has changed.
 */
static uint32
version_flags(ZenSlot slot, ZenTupleHeader h)
{
	return (h.word1 & ZEN_DELETED) ? zen_version_link_flags(zen_tuple_link(slot, zen_slot_size(slot))) : 0;
}

/* Is the block of a row in the list already?  No other process is at work. */
static bool
has_block(Prepared *p, ZenHTable *ht, uint32 block)
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
add_block(Prepared *p, ZenHTable *ht, uint32 block)
{
	ZenSpilledBlock b = {.ht = ht,.block = block,.nest_level = 1};

	if (has_block(p, ht, block))
		return;
	Assert(ht->in_use && ht->idx != 0);
	p->set.blocks = prepared_grow(p->set.blocks, &p->set.blocks_capacity, p->set.nblocks + 1, sizeof(ZenSpilledBlock));
	p->set.blocks[p->set.nblocks++] = b;
}

/*
 * Bring a version back, as a spilled one.  So a large transaction takes no more DRAM than before the restart, and
 * no data is read, be it sound or damaged.  False if the row has a version of a prepared transaction already (R15).
 */
static bool
restore_version(Prepared *p, ZenSlot slot, ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	uint64		tidno = zen_word1_tidno(h.word1);
	ZenWord    *word = zen_tidmap_extend(ht, tidno);
	ZenTakenTid tid = {.tidno = tidno,.word = word};
	uint64		w = zen_word_read(word);
	ZenSlot		old = zen_word_state(w) == ZEN_WORD_NVM ? zen_word_ref(w) : InvalidZenSlot;
	ZenSpillWriter writer = {.xid = p->xid,.cmin = FirstCommandId,.region = p->commit.region};

	ZenAssertRegionMine(p->commit.region);
	Assert(zen_word_state(w) != ZEN_WORD_ENTRY);
	if (zen_word_state(w) == ZEN_WORD_SPILLED)
		return false;
	writer.flags = version_flags(slot, h);
	add_block(p, ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK));
	if (!zen_spillmap_note(ht, &tid, &slot, old != InvalidZenSlot ? &old : NULL, 1, &writer))
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
header_names_row(Prepared *p, ZenTupleHeader h, bool intact)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];

	return (h.word0 & ZEN_CTS_MASK) == p->commit.cts && ht->idx != 0 && ht->in_use && !ht->damaged &&
		zen_htable_owns(ht, p->commit.cts) &&
		(intact || zen_word1_tidno(h.word1) / ZEN_TIDS_PER_BLOCK < zen_tidmap_nblocks(ht) + ZEN_DAMAGED_GAP);
}

/* The transaction has written a version that is damaged; known: the row that the header names has it. */
static void
report_version(Prepared *p, ZenSlot slot, ZenTupleHeader h, bool known)
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
make_intact(ZenSlot slot)
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

/* Lists are on pages of no table.  *intact: see make_intact(); not set if it is no list. */
static bool
is_lock_list(ZenSlot slot, bool *intact)
{
	if (zen_pages[zen_slot_page(slot)].owner.htable != 0)
		return false;
	*intact = make_intact(slot);
	return zen_tuple_header(slot).word1 == LOCK_LIST_WORD1;
}

/* Bring back the version in a slot. */
static void
restore_slot(Prepared *p, ZenSlot slot)
{
	bool		intact = make_intact(slot);
	ZenTupleHeader h = zen_tuple_header(slot);
	bool		known = header_names_row(p, h, intact) && restore_version(p, slot, h);

	if (intact && known)
		return;
	report_version(p, slot, h, known);
	if (!known)
		return;
	p->damaged = prepared_grow(p->damaged, &p->damaged_capacity, p->ndamaged + 1, sizeof(ZenSlot));
	p->damaged[p->ndamaged++] = slot;
}

/* Take the lock lists out of the slots that were found, and bring the locks back to the transaction. */
static void
restore_lists(Prepared *p)
{
	for (FoundSlots *found = p->found; found != NULL; found = found->next)
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
static Prepared *
restore_begin(uint32 region)
{
	Prepared   *p = &prepared[region];

	if (zen_regions[region].doubt_kind != ZEN_DOUBT_PREPARED)
		return NULL;
	p->full_xid = zen_regions[region].doubt_xid;
	p->xid = XidFromFullTransactionId(FullTransactionIdFromU64(p->full_xid));
	p->set.region = region;
	restore_lists(p);
	return p;
}

static void
restore_slots(Prepared *p)
{
	while (p->found != NULL)
	{
		FoundSlots *done = p->found;

		for (uint32 i = 0; i < done->n; i++)
			restore_slot(p, done->slots[i]);
		p->found = done->next;
		zen_arena_free(done, sizeof(FoundSlots));
	}
}

/* ---------- recovery: locks of rows that have gone on ---------- */

/* No reader, no writer. */
static void
keep_lock_links(const ZenLockedRow *l)
{
	uint64		tidno = l->tidno;

	for (;;)
	{
		ZenWord    *word = zen_tidmap_word(l->ht, tidno);
		uint64		w = word != NULL ? zen_word_read(word) : 0;
		uint64		link;

		if (word == NULL || zen_word_state(w) != ZEN_WORD_DEAD || zen_word_ref(w) == InvalidZenSlot)
			return;
		link = zen_tuple_link(zen_word_ref(w), zen_slot_size(zen_word_ref(w)));
		if (!zen_link_leads_on(link))
			return;
		pg_atomic_write_u64(word, zen_word_stale_inc(w));
		tidno = zen_word1_tidno(link);
	}
}

void
zen_prepared_keep_links(bool (*count) (void))
{
	count_damaged = count;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		Prepared   *p = restore_begin(r);

		for (uint32 i = 0; p != NULL && i < p->set.nlocks; i++)
			keep_lock_links(&p->set.locks[i]);
	}
}

/* Hang the lock at the version to which a word in state ENTRY leads. */
static void
hang_lock(ZenWord *word, const ZenLockedRow *l)
{
	ZenVersion *head = zen_word_entry(zen_word_read(word));
	ZenLockers *old = head->lockers;
	uint32		n = old ? old->n : 0;
	ZenLockers *lockers = zen_version_lockers_alloc(n + 1);
	uint64		w;

	if (lockers == NULL)
		zen_arena_full_error();
	zen_lockers_fill(lockers, old ? old->l : NULL, n, l->xid, l->mode);
	w = zen_word_lock(word);
	zen_chain_check(w);
	(void) zen_lockers_replace(word, head, lockers);
	zen_word_unlock(word, w);
	if (old)
		zen_version_lockers_free(old);
}

/* Is the newest version a tombstone with a link?  *next: where to; a committed one was kept for this lock. */
static bool
follow_link(ZenWord *word, uint64 *next)
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
	ZenWord    *word;

	do
	{
		word = zen_tidmap_word(l->ht, tidno);
		if (word != NULL && !zen_row_admit_unread(l->ht, tidno, word))
			zen_arena_full_error();
		if (word == NULL || zen_word_state(zen_word_read(word)) != ZEN_WORD_ENTRY)
			return;
		hang_lock(word, l);
	} while (follow_link(word, &tidno));
}

void
zen_prepared_restore(bool (*count) (void))
{
	ZenAssertNotInEpoch();
	count_damaged = count;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		Prepared   *p = restore_begin(r);

		if (p == NULL)
			continue;
		zen_commit_restore(&p->commit, r);
		Assert(!p->in_use && p->full_xid != 0);
		zen_region_take_over(r);
		restore_slots(p);
		if (!zen_gcqueue_reserve(r, p->set.nblocks))
			zen_arena_full_error();
		zen_region_rest(r, true);
		note_in_use(r);
		p->in_use = true;
	}
	/* I9: one may have locked a row that another has updated */
	for (uint32 r = 0; r < pg_atomic_read_u32(&counts->end); r++)
		for (uint32 i = 0; prepared[r].in_use && i < prepared[r].set.nlocks; i++)
			relock(&prepared[r].set.locks[i]);
}

/* ---------- shared memory ---------- */

static void
prepared_shmem_init(void)
{
	bool		found;

	zen_row_admit_resolve = zen_prepared_resolve;
	prepared = ShmemInitStruct("zen prepared transactions", ZEN_MAX_REGIONS * sizeof(Prepared), &found);
	if (!found)
		memset(prepared, 0, ZEN_MAX_REGIONS * sizeof(Prepared));
	counts = ShmemInitStruct("zen prepared transactions count", sizeof(PreparedCounts), &found);
	if (found)
		return;
	pg_atomic_init_u32(&counts->n, 0);
	pg_atomic_init_u32(&counts->end, 0);
}

const ZenShmem zen_prepared_shmem = {.bytes = ZEN_MAX_REGIONS * sizeof(Prepared) + sizeof(PreparedCounts),
.init = prepared_shmem_init};
