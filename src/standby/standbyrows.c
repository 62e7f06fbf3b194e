/*
 * standbyrows.c -- a hot standby: redo keeps maps and row versions.
 *
 * Redo pushes a version for each slot that it stores, under the xid of the record.  PostgreSQL's snapshots decide who
 * sees it.  A slot is named in DRAM only by the newest version of a row: when another one is pushed, the data of the
 * former newest is copied to DRAM.  So what the primary does with slots of superseded versions concerns nobody here.
 *
 * Of a row's chain, from the newest version down: first those of one transaction that has not committed, if any; then
 * committed ones.  Only the first of the committed ones, and those above it, have slots that count.
 *
 * A version that is not settled has an item in a queue (standbyqueue.c), by which it leaves its chain
 * (standbycollect.c).
 */
#include "standby/standbyrows.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "base/arena.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/stats.h"
#include "cache/tidmap.h"
#include "cache/version.h"
#include "nvm/delta.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/slotread.h"
#include "row/visibility.h"
#include "standby/followers.h"
#include "standby/standbycollect.h"
#include "standby/standbystate.h"
#include "storage/ipc.h"
#include "storage/standby.h"

#define LOOK_EVERY	64			/* records between two looks at the horizon */

static bool following = false;	/* the startup process, in a record */
static uint32 made = 0;			/* versions, in this record */

/* ---------- versions ---------- */

ZenHTable *
zen_standby_owner(ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	uint64		cts = h.word0 & ZEN_CTS_MASK;

	return cts != 0 && ht->idx != 0 && zen_htable_owns(ht, cts) ? ht : NULL;
}

/* A version whose data is in its slot. */
static ZenVersion *
slot_version(ZenSlot slot, ZenTupleHeader h, uint64 full_xid)
{
	ZenVersion *v = zen_version_alloc(0);

	if (v == NULL)
		return NULL;
	v->slot = slot;
	v->xmin = XidFromFullTransactionId(FullTransactionIdFromU64(full_xid));
	v->code = zen_word1_code(h.word1);
	pg_atomic_write_u32(&v->flags, (h.word1 & ZEN_DELETED) ? ZEN_V_TOMBSTONE : ZEN_V_IN_NVM);
	return v;
}

static bool damaged = false;	/* a copy of a slot was asked for, and its
								 * checksum does not fit */

/* A version with the data of a slot, and the slot's number; NULL: DRAM is full, or the slot is damaged. */
static ZenVersion *
copy_slot(ZenSlot slot, uint32 code)
{
	int64		len = zen_tuple_len(slot, zen_slot_size(slot));
	ZenVersion *v = zen_version_alloc(len > 0 ? (uint32) len : 0);

	if (v == NULL)
		return NULL;
	v->slot = slot;
	v->code = (uint16) code;
	zen_standby->copied++;
	if (len > 0 && zen_whole_read(slot, (MinimalTuple) v->data, (uint32) len, &v->xmin))
		return v;
	damaged = true;
	zen_version_free(v);
	return NULL;
}

/* The version to which a word in state NVM leads, with its data. */
static ZenVersion *
copy_stored(ZenSlot slot)
{
	ZenVersion *v = copy_slot(slot, zen_word1_code(zen_tuple_header(slot).word1));

	if (v == NULL)
		return NULL;
	zen_version_set(v, ZEN_V_COMMITTED | ZEN_V_FROZEN);
	return v;
}

/* The same of a lean version; its item is left to the caller. */
static ZenVersion *
copy_lean(ZenVersion *lean)
{
	ZenVersion *v = copy_slot(lean->slot, lean->code);

	if (v == NULL)
		return NULL;
	zen_version_copy_history(v, lean, zen_version_flags(lean) & ~ZEN_V_IN_NVM);
	v->older = lean->older;
	return v;
}

static inline bool
is_lean(ZenVersion *v)
{
	return (zen_version_flags(v) & ZEN_V_IN_NVM) != 0;
}

/* A copy takes the place of a lean version, of which the caller has changed all that leads there. */
static void
replace(ZenVersion *lean, ZenVersion *copy)
{
	zen_due_set_item(copy, zen_due_item(lean));
	zen_due_set_item(lean, NULL);
	zen_standby_retire(lean);
}

/* ---------- maps go ---------- */

static void
drop_map(ZenHTable *ht)
{
	uint64		n = zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK;

	zen_followers_lose(ht->idx);
	for (uint64 tidno = 0; tidno < n; tidno++)
	{
		ZenWord    *word = zen_tidmap_word(ht, tidno);
		uint64		w = pg_atomic_read_u64(word);

		if (w == ZEN_WORD_UNUSED)
			continue;
		(void) zen_word_lock(word);
		zen_word_unlock_empty(word);
		if (zen_word_state(w) == ZEN_WORD_ENTRY)
			zen_standby_retire_all(zen_word_entry(w));
	}
	zen_tidmap_drop(ht);
}

void
zen_standby_drop(void)
{
	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE));
	Assert(zen_standby_state() != ZEN_STANDBY_LIVE);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
		{
			drop_map(&zen_htables[i]);
			zen_htable_forget(i);
		}
	zen_due_remove_all();
	zen_epoch_wait();
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_page_is_data(p))
			zen_page_forget(p);
	zen_epoch_flush();
	zen_standby_dirty = false;
}

static void
give_up(ZenStandbyState state, const char *why)
{
	following = false;
	if (zen_standby_state() != ZEN_STANDBY_LIVE)
		return;
	ereport(LOG,
			(errmsg("zen tables cannot be read on this standby for a while: %s", why)));
	zen_standby_become(state);
	zen_standby_end_readers();
	zen_standby_drop();
}

void
zen_standby_anew(const char *why)
{
	if (following)
		give_up(ZEN_STANDBY_WAITING, why);
}

/* ---------- full DRAM ---------- */

/*
 * S9: make room in DRAM: what is due goes, then the trees, which can be built again.  Or the oldest item becomes due by
 * a conflict with those that need it, as heap's VACUUM would have it.  False: there is nothing to take back.
 */
static bool
make_room(void)
{
	uint64		before = zen_standby->due.pending;
	RelFileLocator all = {0};

	zen_standby_settle_due();
	if (zen_standby->due.pending < before)
		return true;
	if (zen_followers_give_room())
		return true;
	if (zen_due_oldest() == NULL || !AmStartupProcess())
		return false;
	zen_standby->conflicts++;
	zen_conflict_with_snapshots(XidFromFullTransactionId(FullTransactionIdFromU64(zen_due_oldest()->full_xid)), all);
	zen_standby_settle_due();
	return zen_standby->due.pending < before;
}

static void
starve(void)
{
	give_up(ZEN_STANDBY_STARVED, "zen.dram_size is too small");
}

/*
 * A step has failed.  True: it is to be tried again.
 *
 * If a superseded version is damaged, it cannot be kept for older snapshots.  New maps begin without it.
 */
static bool
may_try_again(void)
{
	if (damaged)
		give_up(ZEN_STANDBY_WAITING, "a superseded row version in the pool is damaged");
	else if (make_room())
		return true;
	else
		starve();
	damaged = false;
	return false;
}

/* ---------- slots ---------- */

/* Is this the version that the word leads to, stored once more?  Then only its Tx-CTS is another one. */
static inline bool
is_again(ZenVersion *v, ZenSlot slot, TransactionId xid, uint32 code)
{
	return v->slot == slot && v->xmin == xid && v->code == code &&
		!(zen_version_flags(v) & (ZEN_V_FROZEN | ZEN_V_COMMITTED));
}

/* The newest version of a row, which every snapshot sees, loses its slot.  False: DRAM is full. */
static bool
keep_stored(ZenWord *word, ZenSlot slot)
{
	ZenVersion *v = copy_stored(slot);

	if (v == NULL)
		return false;
	v->slot = InvalidZenSlot;
	zen_word_unlock(word, zen_word_with_entry(zen_word_lock(word), v));
	zen_standby->kept++;
	zen_standby_dirty = true;
	return true;
}

/* The newest committed version loses its slot.  False: DRAM is full. */
static bool
keep_version(ZenWord *word, ZenVersion *newer, ZenVersion *v)
{
	ZenVersion *copy;
	uint64		w;

	if (!is_lean(v))
	{
		v->slot = InvalidZenSlot;
		return true;
	}
	copy = copy_lean(v);
	if (copy == NULL)
		return false;
	copy->slot = InvalidZenSlot;
	w = zen_word_lock(word);
	if (newer != NULL)
	{
		pg_write_barrier();
		newer->older = copy;
	}
	else
		w = zen_word_with_entry(w, copy);
	zen_word_unlock(word, w);
	replace(v, copy);
	zen_standby->kept++;
	return true;
}

/* zen_standby_leaves for a row that has a chain; again: the xid that stores the same version.  False: DRAM is full. */
static bool
leave_chain(ZenWord *word, ZenSlot slot, TransactionId again)
{
	ZenVersion *newer = NULL;

	for (ZenVersion *v = zen_word_entry(zen_word_read(word)); v != NULL; newer = v, v = v->older)
	{
		bool		committed = zen_standby_writer_committed(v);

		if (v->slot == slot)
		{
			if (committed)
				return keep_version(word, newer, v);
			if (v->xmin != again)
				zen_standby_unlink(word, newer, v);
			return true;
		}
		/* S5: behind it no version needs its slot */
		if (committed)
			break;
	}
	return true;
}

static bool
leave(ZenSlot slot, uint64 full_xid, const ZenTupleHeader *next)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	ZenHTable  *ht = zen_standby_owner(h);
	TransactionId again = InvalidTransactionId;
	ZenWord    *word;
	uint64		w;

	if (ht == NULL || zen_tuple_is_void(slot))
		return true;
	if (next != NULL && next->word1 == h.word1)
		again = XidFromFullTransactionId(FullTransactionIdFromU64(full_xid));
	word = zen_tidmap_word(ht, zen_word1_tidno(h.word1));
	if (word == NULL)
		return true;
	w = zen_word_read(word);
	if (zen_word_state(w) == ZEN_WORD_NVM && zen_word_ref(w) == slot)
		return keep_stored(word, slot);
	if (zen_word_state(w) == ZEN_WORD_DEAD && zen_word_ref(w) == slot)
		zen_word_unlock(word, zen_word_with(zen_word_lock(word), ZEN_WORD_DEAD, 0));
	return zen_word_state(w) != ZEN_WORD_ENTRY || leave_chain(word, slot, again);
}

void
zen_standby_leaves(ZenSlot slot, uint64 full_xid, const ZenTupleHeader *next)
{
	if (!following || !zen_pages[zen_slot_page(slot)].owned || ZEN_FAULT(S2_NOT_UNLINKED))
		return;
	while (!leave(slot, full_xid, next))
		if (!may_try_again())
			return;
}

void
zen_standby_await_readers(void)
{
	if (following && zen_standby_dirty && !ZEN_FAULT(S2_NO_WAIT))
		zen_epoch_wait();
	zen_standby_dirty = false;
}

/*
 * Does a version that is no tombstone begin a row, so that indexes do not know its TID?  head: NULL, or the newest
 * version under the TID.  A row that is changed under its TID keeps all that indexes know of it.  A version that aborts
 * may have been the first of its row.
 */
static bool
begins_row(uint64 w, ZenVersion *head, TransactionId xid)
{
	if (zen_word_state(w) == ZEN_WORD_NVM)
		return false;
	return head == NULL || (zen_version_flags(head) & ZEN_V_TOMBSTONE) != 0 ||
		(head->xmin != xid && !zen_standby_writer_committed(head));
}

static bool
push(ZenSlot slot, uint64 full_xid)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	ZenHTable  *ht = zen_standby_owner(h);
	uint64		tidno = zen_word1_tidno(h.word1);
	TransactionId xid = XidFromFullTransactionId(FullTransactionIdFromU64(full_xid));
	ZenWord    *word;
	ZenVersion *v,
			   *head = NULL,
			   *copy = NULL;
	ZenDueItem *item;
	bool		begins;
	uint64		w;

	if (ht == NULL)
		zen_page_doubt(zen_slot_page(slot));
	if (ht == NULL || zen_tuple_is_void(slot))
		return true;
	word = zen_tidmap_try_extend(ht, tidno);
	if (word == NULL)
		return false;
	w = zen_word_read(word);
	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		head = zen_word_entry(w);
	if (head != NULL && is_again(head, slot, xid, zen_word1_code(h.word1)))
		return true;
	begins = (h.word1 & ZEN_DELETED) == 0 && begins_row(w, head, xid);
	item = zen_due_place();
	v = item != NULL ? slot_version(slot, h, full_xid) : NULL;
	if (v == NULL)
		return false;

	/* S5: what is superseded needs its slot no more */
	if (zen_word_state(w) == ZEN_WORD_NVM)
		copy = copy_stored(zen_word_ref(w));
	else if (head != NULL && is_lean(head))
		copy = copy_lean(head);
	if (copy == NULL && (zen_word_state(w) == ZEN_WORD_NVM || (head != NULL && is_lean(head))))
	{
		zen_version_free(v);
		return false;
	}
	v->older = copy != NULL ? copy : head;
	v->depth = v->older != NULL ? Min(v->older->depth + 1, PG_UINT16_MAX) : 0;
	if (ZEN_FAULT(S1_SEEN_EARLY))
		zen_version_set(v, ZEN_V_COMMITTED | ZEN_V_FROZEN);
	zen_due_add(item, full_xid, ht->idx, tidno, v);
	w = zen_word_lock(word);
	zen_word_unlock(word, zen_word_with_entry(w, v));
	if (begins)
		zen_followers_tell(ht->idx, tidno, full_xid, zen_word_state(w) != ZEN_WORD_UNUSED);
	else if ((h.word1 & ZEN_DELETED) != 0)
		zen_followers_row_goes(ht->idx);
	if (copy != NULL && head != NULL)
		replace(head, copy);
	zen_standby_dirty = true;
	made++;
	zen_standby->pushed++;
	return true;
}

void
zen_standby_stored(ZenSlot slot, uint64 full_xid)
{
	if (!following || !zen_pages[zen_slot_page(slot)].owned)
		return;
	zen_slot_unchecked(slot);
	while (!push(slot, full_xid))
		if (!may_try_again())
			return;
}

/* ---------- versions that a scan finds ---------- */

/* Has the row a newer version of the same transaction? */
static bool
has_newer(ZenHTable *ht, uint64 tidno, uint64 cts, TransactionId xid)
{
	ZenWord    *word = zen_tidmap_word(ht, tidno);
	uint64		w = word != NULL ? zen_word_read(word) : ZEN_WORD_UNUSED;
	ZenVersion *head;

	if (zen_word_state(w) != ZEN_WORD_ENTRY)
		return false;
	head = zen_word_entry(w);
	return head->xmin == xid && (zen_version_flags(head) & ZEN_V_FROZEN) == 0 && head->slot != InvalidZenSlot &&
		(zen_tuple_header(head->slot).word0 & ZEN_CTS_MASK) >= cts;
}

bool
zen_standby_push_found(ZenSlot slot, uint64 full_xid)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	ZenHTable  *ht = zen_standby_owner(h);

	if (ht == NULL || has_newer(ht, zen_word1_tidno(h.word1), h.word0 & ZEN_CTS_MASK,
								XidFromFullTransactionId(FullTransactionIdFromU64(full_xid))))
	{
		zen_page_doubt(zen_slot_page(slot));
		return true;
	}
	return push(slot, full_xid);
}

static void
name_versions(uint32 pageno, uint64 committed, uint64 full_xid)
{
	for (uint32 n = 0; following && n < zen_pages[pageno].nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);

		if ((zen_tuple_header(slot).word0 & ZEN_CTS_MASK) <= committed)
			continue;
		while (!zen_standby_push_found(slot, full_xid))
			if (!may_try_again())
				return;
	}
}

void
zen_standby_decides(uint32 region, uint64 committed, uint64 full_xid)
{
	if (!following || !zen_standby->unnamed[region])
		return;
	zen_standby->unnamed[region] = false;
	for (uint32 p = zen_pool.first_data_page; following && p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_page_is_data(p) && zen_pages[p].owned && zen_pages[p].owner.region == region)
			name_versions(p, committed, full_xid);
}

/* ---------- directories ---------- */

void
zen_standby_page_leaves(uint32 pageno)
{
	if (!following || !zen_pages[pageno].owned)
		return;
	for (uint32 n = 0; following && n < zen_pages[pageno].nslots; n++)
		zen_standby_leaves(zen_page_slot(pageno, n), 0, NULL);
	zen_standby_await_readers();
}

void
zen_standby_page_changed(uint32 pageno)
{
	if (following && !zen_page_follow(pageno))
		starve();
}

/* Pages of a table that has gone, which have not gone yet.  An entry that is emptied has its rows there, too. */
static void
doubt_pages(uint32 idx)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_page_is_data(p) && zen_pages[p].owned && zen_pages[p].owner.htable == idx)
			zen_page_doubt(p);
}

static void
htable_changed(uint32 idx)
{
	if (!following || idx == 0)
		return;
	if (zen_htable_has_gone(idx))
	{
		drop_map(&zen_htables[idx]);
		zen_htable_forget(idx);
		doubt_pages(idx);
	}
	if (!zen_htable_follow(idx))
		starve();
}

void
zen_standby_bytes_changed(uint64 offset, Size len)
{
	if (!following || len == 0)
		return;
	if (offset >= ZEN_OFF_HTABLES && offset < ZEN_OFF_HTABLES + ZEN_MAX_HTABLES * sizeof(ZenHTableEntry))
	{
		uint32		first = (uint32) ((offset - ZEN_OFF_HTABLES) / sizeof(ZenHTableEntry));
		uint32		last = (uint32) ((offset + len - 1 - ZEN_OFF_HTABLES) / sizeof(ZenHTableEntry));

		for (uint32 i = first; i <= last; i++)
			htable_changed(i);
		return;
	}
	for (uint64 at = offset; at < offset + len; at += sizeof(uint64))
	{
		uint32		pageno = zen_page_of_word(at);

		if (pageno != ZEN_NO_PAGE)
			zen_standby_page_changed(pageno);
	}
}

/* ---------- records ---------- */

static void
standby_detach(int code, Datum arg)
{
	zen_epoch_detach();
	zen_version_detach();
	zen_arena_drain();
}

/* The startup process counts, and has a place among the epochs. */
static void
attach(void)
{
	static bool attached = false;

	if (attached)
		return;
	zen_stats_attach();
	zen_epoch_attach();
	on_shmem_exit(standby_detach, (Datum) 0);
	attached = true;
}

bool
zen_standby_follows(void)
{
	return following;
}

void
zen_standby_begin(void)
{
	if (!zen_standby_reads || !IsUnderPostmaster)
		return;
	attach();
	LWLockAcquire(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE);
	following = zen_standby_state() == ZEN_STANDBY_LIVE;
	made = 0;
}

void
zen_standby_end(void)
{
	static uint32 records = 0;

	if (!zen_standby_reads || !IsUnderPostmaster)
		return;
	if (following)
	{
		if (++records % LOOK_EVERY == 0 && zen_standby->due.pending > 0)
			zen_standby_look();
		(void) zen_standby_settle(16 + 2 * made);
	}
	following = false;
	LWLockRelease(zen_lock(ZEN_LOCK_STANDBY));
}

/* S6: the answer for xids before this one is noted in the version. */
static void
note_answer(ZenDueItem *item, uint64 oldest)
{
	if (item->version != NULL && item->full_xid < oldest && !zen_standby_writer_committed(item->version))
		zen_version_set(item->version, ZEN_V_ABORTED);
}

/* Those that committed are not frozen: an older snapshot may not see them. */
void
zen_standby_forgets(uint64 oldest)
{
	static uint64 done = 0;

	if (!following || oldest <= done || ZEN_FAULT(S6_FORGOTTEN))
		return;
	done = oldest;
	zen_standby_settle_due();
	zen_due_for_all(note_answer, oldest);
}
