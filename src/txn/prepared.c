/*
 * twophase.c -- PREPARE TRANSACTION without a log.
 *
 * Row locks live in DRAM, so a prepared transaction writes a list of its own into ordinary slots of its region, with
 * HTable 0 and the transaction's Tx-CTS: after a crash they are found with its versions.  When the transaction ends these
 * slots are scrubbed before the descriptor goes, so that no lock list ever counts as a committed tuple (and recovery
 * discards slots of HTable 0 in any case).
 *
 * COMMIT PREPARED calls no callback of ours.  PostgreSQL's commit record decides; from then on others see the rows, and
 * zen_twophase_resolve() makes LP follow.  Until it has, the descriptor tells recovery to ask pg_xact.
 */
#include "txn/twophase.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "base/locks.h"
#include "cache/metcache.h"
#include "gc/collect.h"
#include "lib/qunique.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/repair.h"
#include "nvm/slotalloc.h"
#include "row/lockers.h"
#include "row/rowadmit.h"
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

typedef struct Prepared
{
	bool		in_use;
	bool		preparing;		/* its locks are being written */
	TransactionId xid;
	uint64		full_xid;
	ZenCommit	commit;
	ZenWrite   *writes;			/* arena; the lock lists' slots are appended
								 * with version NULL */
	uint32		nwrites;
	uint32		writes_capacity;
	ZenSpilledBlock *blocks;	/* arena */
	uint32		nblocks;
	uint32		blocks_capacity;
	ZenLockedRow *locks;		/* arena */
	uint32		nlocks;
	uint32		locks_capacity;
	ZenSlot    *damaged;		/* arena; versions in blocks that recovery has
								 * found damaged */
	uint32		ndamaged;
	uint32		damaged_capacity;
	FoundSlots *found;			/* arena; during recovery */
} Prepared;

static Prepared *prepared;		/* [ZEN_MAX_REGIONS]; in_use under
								 * ZEN_LOCK_RECOVERY */

Size
zen_twophase_shmem_size(void)
{
	return mul_size(ZEN_MAX_REGIONS, sizeof(Prepared));
}

void
zen_twophase_init(void)
{
	bool		found;

	zen_spilled_resolve = zen_twophase_resolve;
	zen_prepared_holder = zen_twophase_holder;
	prepared = ShmemInitStruct("zen prepared transactions", zen_twophase_shmem_size(), &found);
	if (!found)
		memset(prepared, 0, zen_twophase_shmem_size());
}

/* ---------- arrays in the arena ---------- */

static void *
grow(void *array, uint32 *capacity, uint32 n, Size element)
{
	uint32		wanted = Max(16, *capacity);
	void	   *copy;

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

static void
free_prepared(Prepared *p)
{
	if (p->writes)
		zen_arena_free(p->writes, p->writes_capacity * sizeof(ZenWrite));
	if (p->blocks)
		zen_arena_free(p->blocks, p->blocks_capacity * sizeof(ZenSpilledBlock));
	if (p->locks)
		zen_arena_free(p->locks, p->locks_capacity * sizeof(ZenLockedRow));
	if (p->damaged)
		zen_arena_free(p->damaged, p->damaged_capacity * sizeof(ZenSlot));
	memset(p, 0, sizeof(*p));
}

/* ---------- PREPARE ---------- */

/* Write up to LOCKS_PER_SLOT locks from the first into a slot. */
static void
write_lock_list(ZenCommit *commit, ZenSlot slot, const ZenLockedRow *locks, uint32 n)
{
	LockList	list;

	memset(&list, 0, sizeof(list));
	list.head.t_len = offsetof(LockList, l) + n * sizeof(LockRecord);
	list.n = n;
	for (uint32 i = 0; i < n; i++)
	{
		list.l[i].tidno = locks[i].tidno;
		list.l[i].htable = locks[i].ht->idx;
		list.l[i].mode = locks[i].mode;
	}
	zen_tuple_write(slot, commit->cts, LOCK_LIST_WORD1, InvalidTransactionId, &list.head, true);
}

/* Copy this transaction's locks where zen_twophase_holder() finds them; caller holds ZEN_LOCK_RECOVERY. */
static void
copy_locks(Prepared *p)
{
	ZenWriteSet *ws = &zen_writeset;

	p->locks = grow(p->locks, &p->locks_capacity, ws->nlocks + 1, sizeof(ZenLockedRow));
	if (ws->nlocks > 0)
		memcpy(p->locks, ws->locks, ws->nlocks * sizeof(ZenLockedRow));
	p->nlocks = ws->nlocks;
}

/* Leave lock i out of the write set. */
static void
remove_lock(uint32 i)
{
	ZenWriteSet *ws = &zen_writeset;

	ws->locks[i] = ws->locks[--ws->nlocks];
}

/*
 * A row lock is written under the TID that the row has now.  From the moment the lock is published nobody takes the row to
 * another TID; where that has happened before, the lock goes along, as it did in DRAM.  The tombstone that tells where
 * to may be collected already, if the transaction that moved the row is the older one: then the table is searched.  No
 * lock is written under a TID that the row has left for good: another row may get it.
 */
static void
publish_locks(Prepared *p)
{
	ZenWriteSet *ws = &zen_writeset;
	List	   *searched = NIL; /* tables */
	uint32		i = 0;

	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	copy_locks(p);
	p->xid = GetTopTransactionId();
	p->preparing = true;
	while (i < ws->nlocks)
	{
		ZenLockedRow l = ws->locks[i];
		uint64		next = 0;
		ZenLockPlace place = zen_lockers_touch(l.ht, l.tidno, l.xid, &next);

		if (place == ZEN_LOCK_FORWARD || place == ZEN_LOCK_MOVED)
		{
			zen_writeset_reserve(0, 1);
			zen_writeset_add_lock(l.ht, next, l.xid, l.mode);
		}
		else if (place == ZEN_LOCK_GONE && !list_member_ptr(searched, l.ht))
		{
			zen_lockers_collect(l.ht);
			searched = lappend(searched, l.ht);
		}
		if (place == ZEN_LOCK_MOVED || place == ZEN_LOCK_GONE)
			remove_lock(i);
		else
			i++;
	}
	list_free(searched);
	copy_locks(p);
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
}

TransactionId
zen_twophase_holder(const ZenLocker *lockers, uint32 n)
{
	TransactionId found = InvalidTransactionId;

	if (max_prepared_xacts == 0)
		return InvalidTransactionId;
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_SHARED);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS && !TransactionIdIsValid(found); r++)
	{
		Prepared   *p = &prepared[r];

		if (!p->in_use && !p->preparing)
			continue;
		for (uint32 i = 0; i < n && !TransactionIdIsValid(found); i++)
			for (uint32 j = 0; j < p->nlocks; j++)
				if (p->locks[j].xid == lockers[i].xid && p->xid != GetTopTransactionIdIfAny() &&
					TransactionIdIsInProgress(p->xid))
				{
					found = p->xid;
					break;
				}
	}
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return found;
}

/* Locks in list i of a transaction that has nlocks. */
static uint32
locks_in_list(uint32 nlocks, uint32 i)
{
	return Min(LOCKS_PER_SLOT, nlocks - i * LOCKS_PER_SLOT);
}

/* A slot for a list of n locks; the pool's garbage is collected if there is none. */
static ZenSlot
list_slot(uint32 region, uint32 n)
{
	Size		size = zen_tuple_size(offsetof(LockList, l) + n * sizeof(LockRecord));
	ZenSlot		slot = zen_slot_alloc(region, &zen_htables[0], size);

	if (slot == InvalidZenSlot)
	{
		zen_gc_for_slots(region);
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

/* Copy the write set and take slots for nlists lock lists behind it.  What an error leaves, zen_twophase_undo() frees. */
static void
reserve_lists(Prepared *p, ZenCommit *commit, uint32 nlists)
{
	ZenWriteSet *ws = &zen_writeset;

	p->writes = grow(NULL, &p->writes_capacity, ws->nwrites + nlists, sizeof(ZenWrite));
	if (ws->nwrites > 0)
		memcpy(p->writes, ws->writes, ws->nwrites * sizeof(ZenWrite));
	p->nwrites = ws->nwrites;
	p->blocks = grow(NULL, &p->blocks_capacity, ws->nblocks + 1, sizeof(ZenSpilledBlock));
	if (ws->nblocks > 0)
		memcpy(p->blocks, ws->blocks, ws->nblocks * sizeof(ZenSpilledBlock));
	p->nblocks = unique_blocks(p->blocks, ws->nblocks);
	for (uint32 i = 0; i < nlists; i++)
	{
		ZenSlot		slot = list_slot(commit->region, locks_in_list(ws->nlocks, i));
		ZenWrite   *w = &p->writes[p->nwrites++];

		memset(w, 0, sizeof(*w));
		w->slot = slot;
		w->former = zen_tuple_header(slot);
	}
}

void
zen_twophase_prepare(ZenCommit *commit, uint64 full_xid)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		nlists;
	Prepared   *p;

	/* R7: everything that can fail comes before the first store */
	zen_commit_reserve(commit, ws->writes, ws->nwrites);
	p = &prepared[commit->region];
	Assert(!p->in_use);
	publish_locks(p);
	nlists = (ws->nlocks + LOCKS_PER_SLOT - 1) / LOCKS_PER_SLOT;
	reserve_lists(p, commit, nlists);

	zen_commit_store(commit, ws->writes, ws->nwrites, true);

	/*
	 * also without a version: the descriptor brings locks, and tables created
	 * or dropped, back after a restart
	 */
	commit->stage = ZEN_STAGE_WRITTEN;
	zen_spillend_restamp(commit->region, commit->cts, ws->blocks, ws->nblocks);
	for (uint32 i = 0; i < nlists; i++)
		write_lock_list(commit, p->writes[ws->nwrites + i].slot, &ws->locks[i * LOCKS_PER_SLOT],
						locks_in_list(ws->nlocks, i));
	zen_commit_doubt(commit, full_xid, ZEN_DOUBT_PREPARED);
	p->full_xid = full_xid;
	p->xid = GetTopTransactionId();
}

/* Free the slots of lock lists and leave them out. */
static void
free_lists(Prepared *p)
{
	uint32		n = 0;

	for (uint32 i = 0; i < p->nwrites; i++)
	{
		if (p->writes[i].version != NULL)
			p->writes[n++] = p->writes[i];
		else
			zen_slot_free(p->writes[i].slot);
	}
	p->nwrites = n;
}

/* The slots of lock lists: scrub, fence, free. */
static void
scrub_lists(Prepared *p)
{
	for (uint32 i = 0; i < p->nwrites; i++)
		if (p->writes[i].version == NULL)
			zen_tuple_scrub(p->writes[i].slot);
	zen_fence();
	for (uint32 i = 0; i < p->nwrites; i++)
		if (p->writes[i].version == NULL)
			zen_gc_forget_header(p->writes[i].former);
	free_lists(p);
}

void
zen_twophase_undo(ZenCommit *commit)
{
	Prepared   *p;

	if (commit->stage == ZEN_STAGE_NONE || prepared[commit->region].in_use)
		return;
	p = &prepared[commit->region];
	if (p->writes == NULL && p->locks == NULL)
		return;
	if (commit->stage == ZEN_STAGE_LEASED)
		free_lists(p);			/* intact, and not to be forgotten */
	else
		scrub_lists(p);
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	free_prepared(p);
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
}

void
zen_twophase_detach(ZenCommit *commit)
{
	Prepared   *p = &prepared[commit->region];

	Assert(p->full_xid != 0);
	p->commit = *commit;
	pg_write_barrier();
	p->in_use = true;
	p->preparing = false;
	zen_region_rest(commit->region, true);
	commit->stage = ZEN_STAGE_NONE;
}

/* ---------- COMMIT PREPARED, ROLLBACK PREPARED ---------- */

/*
 * Rows whose new version is damaged: to read one is an error from now on, for everybody, as it is after the next recovery.  An older
 * version keeps its slot, in case it is the row's number that is damaged.
 */
static void
place_damaged(Prepared *p)
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

static void
finish(Prepared *p, bool committed)
{
	uint64		full_xid = p->full_xid;
	Prepared	copy;

	zen_region_rest(p->commit.region, false);

	scrub_lists(p);
	for (uint32 i = 0; i < p->nlocks; i++)
		zen_lockers_release(p->locks[i].ht, p->locks[i].tidno, p->locks[i].xid);

	/*
	 * the region is free for others as soon as commit or abort has released
	 * it: leave its entry before
	 */
	copy = *p;
	memset(p, 0, sizeof(*p));
	if (committed)
	{
		place_damaged(&copy);
		zen_commit_finish(&copy.commit, copy.writes, copy.nwrites, copy.blocks, copy.nblocks);
	}
	else
	{
		uint32		n = copy.nwrites;

		zen_commit_abort(&copy.commit, copy.writes, n, copy.blocks, copy.nblocks);
		while (n > 0)
			zen_pop_version(&copy.writes[--n]);
	}
	zen_ddl_resolve(full_xid, committed);
	free_prepared(&copy);
}

bool
zen_twophase_resolve(void)
{
	bool		waiting = false;

	if (max_prepared_xacts == 0)
		return false;
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		Prepared   *p = &prepared[r];

		if (!p->in_use)
			continue;
		if (TransactionIdIsInProgress(p->xid))
			waiting = true;
		else
			finish(p, TransactionIdDidCommit(p->xid));
	}
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return waiting;
}

bool
zen_twophase_is_waiting(uint32 region)
{
	bool		waiting;

	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_SHARED);
	waiting = prepared[region].in_use;
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return waiting;
}

void
zen_twophase_walk(void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		Prepared   *p = &prepared[r];

		for (uint32 i = 0; p->in_use && i < p->nwrites; i++)
			if (p->writes[i].slot != InvalidZenSlot)
				visit(r, p->writes[i].slot, p->writes[i].former, arg);
		for (uint32 i = 0; p->in_use && i < p->nblocks; i++)
			zen_spillend_walk(r, &p->blocks[i], visit, arg);
	}
}

/* ---------- recovery ---------- */

/* Something damaged was found; true if it is to be named. */
static bool (*count_damaged) (void);

void
zen_twophase_found(uint32 region, ZenSlot slot)
{
	Prepared   *p = &prepared[region];
	FoundSlots *last = p->found;

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
	ZenLockedRow *l;

	p->locks = grow(p->locks, &p->locks_capacity, p->nlocks + 1, sizeof(ZenLockedRow));
	l = &p->locks[p->nlocks++];
	l->ht = &zen_htables[lock->htable];
	l->tidno = lock->tidno;
	l->xid = p->xid;
	l->mode = lock->mode;
	l->nest_level = 1;
}

/*
 * Bring a lock list back.  Of a damaged one all that names a row: to lock one too many makes somebody wait, to lock one too few breaks
 * what PREPARE has promised.
 */
static void
restore_locks(Prepared *p, ZenSlot slot, bool intact)
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
	p->writes = grow(p->writes, &p->writes_capacity, p->nwrites + 1, sizeof(ZenWrite));
	w = &p->writes[p->nwrites++];
	memset(w, 0, sizeof(*w));
	w->slot = slot;
}

/*
 * What a version's writer excludes.  An update in place keeps the key, since all key columns have an index; of one that moves the row
 * the link says whether it does.
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

/* Is the block of a row in the list already?  Nobody else is at work. */
static bool
has_block(Prepared *p, ZenHTable *ht, uint32 block)
{
	ZenSpill   *s;

	if (p->nblocks > 0 && p->blocks[p->nblocks - 1].ht == ht && p->blocks[p->nblocks - 1].block == block)
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
	ZenSpilledBlock *b;

	if (has_block(p, ht, block))
		return;
	p->blocks = grow(p->blocks, &p->blocks_capacity, p->nblocks + 1, sizeof(ZenSpilledBlock));
	b = &p->blocks[p->nblocks++];
	b->ht = ht;
	b->block = block;
	b->nest_level = 1;
}

/*
 * Bring a version back, as a spilled one: however large the transaction is, it takes no more DRAM than before the restart, and no data
 * is read, be it sound or damaged.  False if the row has a version of a prepared transaction already (R15).
 */
static bool
restore_version(Prepared *p, ZenSlot slot, ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	uint64		tidno = zen_word1_tidno(h.word1);
	ZenWord    *word = zen_tidmap_extend(ht, tidno);
	uint64		w = zen_word_read(word);
	ZenSlot		old = zen_word_state(w) == ZEN_WORD_NVM ? zen_word_ref(w) : InvalidZenSlot;
	ZenSpillWriter writer = {.xid = p->xid,.cmin = FirstCommandId,.region = p->commit.region};

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

/* May the header of a version be believed in that it names a row?  That of a damaged one lengthens a table by little. */
static bool
names_row(Prepared *p, ZenTupleHeader h, bool intact)
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
			 known ? errdetail("It is row (" UINT64_FORMAT "," UINT64_FORMAT ") of zen table %u/%u/%u, at offset " UINT64_FORMAT " of the pool.",
							   tidno / ZEN_TIDS_PER_BLOCK, tidno % ZEN_TIDS_PER_BLOCK + 1, ht->spc, ht->db, ht->relnumber,
							   slot * ZEN_SLOT_UNIT) :
			 errdetail("It lies at offset " UINT64_FORMAT " of the pool; which row it is is unknown.", slot * ZEN_SLOT_UNIT),
			 errhint("If the transaction is rolled back, nothing of it counts.  If it is committed, restore the row from a backup.")));
}

/* Bring back what a slot holds.  After a start with the saved map nobody has looked at it before. */
static void
restore_slot(Prepared *p, ZenSlot slot)
{
	bool		intact = zen_tuple_intact(slot, zen_slot_size(slot));
	bool		known;
	ZenTupleHeader h;

	if (!intact && zen_tuple_repairable(slot, zen_slot_size(slot), &h))
	{
		zen_tuple_repair(slot, h);
		intact = true;
		zen_note_repair(zen_slot_ptr(slot));
	}
	h = zen_tuple_header(slot);
	if (h.word1 == LOCK_LIST_WORD1)
	{
		restore_locks(p, slot, intact);
		return;
	}
	known = names_row(p, h, intact) && restore_version(p, slot, h);
	if (intact && known)
		return;
	report_version(p, slot, h, known);
	if (!known)
		return;
	p->damaged = grow(p->damaged, &p->damaged_capacity, p->ndamaged + 1, sizeof(ZenSlot));
	p->damaged[p->ndamaged++] = slot;
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

/* Hang a lock at its row, if the row is still there; a damaged one as well. */
static void
relock(ZenLockedRow *l)
{
	ZenWord    *word = zen_tidmap_word(l->ht, l->tidno);
	ZenLockers *lockers,
			   *old = NULL;
	uint64		w;

	if (word != NULL && !zen_row_admit_unread(l->ht, l->tidno, word))
		zen_arena_full_error();
	if (word == NULL || zen_word_state(zen_word_read(word)) != ZEN_WORD_ENTRY)
		return;
	lockers = zen_lockers_alloc((zen_word_entry(zen_word_read(word))->lockers ?
								 zen_word_entry(zen_word_read(word))->lockers->n : 0) + 1);
	if (lockers == NULL)
		zen_arena_full_error();
	w = zen_word_lock(word);
	old = zen_word_entry(w)->lockers;
	if (old)
		memcpy(lockers->l, old->l, old->n * sizeof(ZenLocker));
	lockers->n = old ? old->n : 0;
	lockers->l[lockers->n].xid = l->xid;
	lockers->l[lockers->n++].mode = l->mode;
	zen_word_entry(w)->lockers = lockers;
	zen_word_unlock(word, w);
	if (old)
		zen_lockers_free(old);
}

void
zen_twophase_restore(bool (*count) (void))
{
	count_damaged = count;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		Prepared   *p = &prepared[r];

		if (zen_regions[r].doubt_kind != ZEN_DOUBT_PREPARED)
			continue;
		p->full_xid = zen_regions[r].doubt_xid;
		p->xid = XidFromFullTransactionId(FullTransactionIdFromU64(p->full_xid));
		p->commit.stage = ZEN_STAGE_DOUBT;
		p->commit.region = r;
		p->commit.cts = zen_regions[r].doubt_cts;
		p->commit.last = InvalidZenSlot;
		pg_atomic_write_u32(&zen_regions[r].leased, ZEN_LEASE_REST);
		restore_slots(p);
		if (!zen_gc_reserve(r, p->nblocks))
			zen_arena_full_error();
		p->in_use = true;
	}
	/* I9: one may have locked what another has updated */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		for (uint32 i = 0; prepared[r].in_use && i < prepared[r].nlocks; i++)
			relock(&prepared[r].locks[i]);
}
