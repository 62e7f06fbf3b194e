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
#include "miscadmin.h"
#include "nvm/alloc.h"
#include "nvm/persist.h"
#include "storage/procarray.h"
#include "lib/qunique.h"
#include "storage/shmem.h"
#include "txn/ddl.h"
#include "txn/gc.h"
#include "txn/rowlock.h"
#include "txn/spilled.h"

#define LOCKS_PER_SLOT	60

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
	zen_tuple_write(slot, commit->cts, zen_word1(0, 0, 0, false), InvalidTransactionId, &list.head, true);
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
		ZenLockPlace place = zen_rowlock_touch(l.ht, l.tidno, l.xid, &next);

		if (place == ZEN_LOCK_FORWARD || place == ZEN_LOCK_MOVED)
		{
			zen_writeset_reserve(0, 1);
			zen_writeset_add_lock(l.ht, next, l.xid, l.mode);
		}
		else if (place == ZEN_LOCK_GONE && !list_member_ptr(searched, l.ht))
		{
			zen_rowlock_collect(l.ht);
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
	zen_spill_restamp(commit->region, commit->cts, ws->blocks, ws->nblocks);
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

static void
finish(Prepared *p, bool committed)
{
	uint64		full_xid = p->full_xid;
	Prepared	copy;

	zen_region_rest(p->commit.region, false);

	scrub_lists(p);
	for (uint32 i = 0; i < p->nlocks; i++)
		zen_rowlock_release(p->locks[i].ht, p->locks[i].tidno, p->locks[i].xid);

	/*
	 * the region is free for others as soon as commit or abort has released
	 * it: leave its entry before
	 */
	copy = *p;
	memset(p, 0, sizeof(*p));
	if (committed)
	{
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
			zen_spilled_walk(r, &p->blocks[i], visit, arg);
	}
}

/* ---------- recovery ---------- */

void
zen_twophase_found(uint32 region, ZenSlot slot)
{
	Prepared   *p = &prepared[region];
	ZenWrite   *w;

	p->writes = grow(p->writes, &p->writes_capacity, p->nwrites + 1, sizeof(ZenWrite));
	w = &p->writes[p->nwrites++];
	memset(w, 0, sizeof(*w));
	w->slot = slot;
}

/* Bring a lock list back. */
static void
restore_locks(Prepared *p, ZenSlot slot)
{
	LockList	list;
	int64		len = zen_tuple_len(slot, zen_slot_size(slot));

	if (len < (int64) offsetof(LockList, l) || len > (int64) sizeof(list) ||
		!zen_tuple_read(slot, &list.head, (uint32) len, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row locks of prepared transaction %u are damaged", p->xid),
				 errhint("Restore the pool from a backup of the same moment as the data directory.")));
	for (uint32 i = 0; i < list.n && i < LOCKS_PER_SLOT; i++)
	{
		ZenLockedRow *l;

		p->locks = grow(p->locks, &p->locks_capacity, p->nlocks + 1, sizeof(ZenLockedRow));
		l = &p->locks[p->nlocks++];
		l->ht = &zen_htables[list.l[i].htable];
		l->tidno = list.l[i].tidno;
		l->xid = p->xid;
		l->mode = list.l[i].mode;
		l->nest_level = 1;
	}
}

/* The version in a slot, not yet linked. */
static ZenVersion *
read_version(ZenWrite *w)
{
	bool		deleted = (zen_tuple_header(w->slot).word1 & ZEN_DELETED) != 0;
	int64		len = zen_tuple_len(w->slot, zen_slot_size(w->slot));
	ZenTombstone tombstone = {0};
	ZenVersion *v;
	uint64		link;

	if (deleted ? (len != 0 && len != sizeof(tombstone)) : len <= 0)
		zen_tuple_corrupted(w->slot, w->tidno);
	v = zen_version_alloc(deleted ? 0 : (uint32) len);
	if (v == NULL)
		zen_arena_full_error();
	if (len > 0 &&
		!zen_tuple_read(w->slot, deleted ? (MinimalTuple) &tombstone : (MinimalTuple) v->data, (uint32) len, NULL))
		zen_tuple_corrupted(w->slot, w->tidno);
	pg_atomic_write_u32(&v->flags, ZEN_V_KEY_UPDATE | (deleted ? ZEN_V_TOMBSTONE : 0));
	link = zen_tombstone_link(&tombstone);
	if (link == ZEN_LINK_MOVED)
		zen_version_set(v, ZEN_V_MOVED);
	else if (link != 0)
	{
		zen_version_set(v, ZEN_V_FORWARD);
		v->forward_tidno = zen_word1_tidno(link);
	}
	return v;
}

/* Bring a version back, over what is committed. */
static void
restore_version(Prepared *p, ZenWrite *w)
{
	ZenTupleHeader h = zen_tuple_header(w->slot);
	ZenVersion *v;
	uint64		word;

	w->ht = &zen_htables[zen_word1_htable(h.word1)];
	w->tidno = zen_word1_tidno(h.word1);
	w->word = zen_tidmap_extend(w->ht, w->tidno);
	zen_row_admit(w->ht, w->tidno, w->word);
	v = read_version(w);
	v->xmin = p->xid;
	v->code = (uint16) zen_word1_code(h.word1);
	v->slot = w->slot;
	word = zen_word_lock(w->word);
	v->older = zen_word_state(word) == ZEN_WORD_ENTRY ? zen_word_entry(word) : NULL;
	v->depth = v->older ? v->older->depth + 1 : 0;
	zen_word_unlock(w->word, zen_word_with_entry(word, v));
	w->version = v;
	w->xid = v->xmin;
}

/* Hang a lock at its row, if the row is still there. */
static void
relock(ZenLockedRow *l)
{
	ZenWord    *word = zen_tidmap_word(l->ht, l->tidno);
	ZenLockers *lockers,
			   *old = NULL;
	uint64		w;

	if (word != NULL)
		zen_row_admit(l->ht, l->tidno, word);
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
zen_twophase_restore(void)
{
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
		for (uint32 i = 0; i < p->nwrites; i++)
		{
			ZenWrite   *w = &p->writes[i];

			if (zen_word1_htable(zen_tuple_header(w->slot).word1) == 0)
				restore_locks(p, w->slot);
			else
			{
				restore_version(p, w);
				p->commit.last = w->slot;
			}
		}
		if (!zen_gc_reserve(r, p->nwrites))
			zen_arena_full_error();
		p->in_use = true;
	}
	/* I9: one may have locked what another has updated */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		for (uint32 i = 0; prepared[r].in_use && i < prepared[r].nlocks; i++)
			relock(&prepared[r].locks[i]);
}
