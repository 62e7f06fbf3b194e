/*
 * rowchange.c -- update, delete and lock one row.
 *
 * Writing is optimistic: the row is judged without a lock, and the change applied under the word's lock if the row is
 * still what was judged (src/row/README, "Judge and apply").
 *
 * - A judgement in which two looks contradict each other is TM_BeingModified without a wait_xid: judge again.
 * - A row that is only in NVM gets its entry by the change itself: a header without data (judge_stored).
 * - Another row without an entry gets one first.  A row whose newest version is being taken back out of a spill record
 *   waits for that.
 *
 * A change meets the first of these that applies: a newer version, a transaction that holds the row, the caller's
 * crosscheck snapshot.
 *
 * What an attempt needs is made before, and kept over the attempts.  It is private to this process until the word leads
 * to it.  After an error the end of the (sub)transaction frees it.
 *
 * - Aborted versions on top are left out when a new one is pushed; their writer frees them.
 * - Lockers go along: to the new version, and to the new TID if the row takes one.  They are there before any other
 *   process can follow the row, since a locker that comes that way adds to them.
 * - A row that has gone on under other TIDs is locked under each of them.
 */
#include "row/rowchange.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/fault.h"
#include "base/ownwal.h"
#include "cache/clock.h"
#include "miscadmin.h"
#include "nvm/slotalloc.h"
#include "row/lockers.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "storage/procarray.h"

/* What was seen of a row without its lock.  The versions are there until the epoch is left. */
typedef struct Judged
{
	ZenWord    *word;			/* NULL: there is no row */
	ZenVersion *head;			/* what the word led to */
	uint32		lock_seq;		/* of head */
	ZenVersion *top;			/* newest version that has not aborted */
	ZenVersion *target;			/* the version asked for; NULL: it is gone */
	ZenVersion *successor;		/* of target, if that is there: the oldest
								 * that has not aborted, or NULL */
	ZenLockerCopy *lockers;		/* of the row; until this process judges again */
	bool		undoing;		/* what is above top was spilled in part: it
								 * may not be left out, because its slot is
								 * known by it */
	bool		stored;			/* the word was in state NVM: head, top and
								 * target are stored_in_hand */
	bool		points_out;		/* stored: the row may have values out of line */
} Judged;

/* What came of applying what was judged TM_Ok. */
typedef enum Attempt
{
	NOT_TRIED,
	TRY_APPLIED,
	TRY_LOST,					/* the word has changed */
	TRY_NO_CODE,				/* versions still alive have taken all codes */
	TRY_NO_DRAM,
} Attempt;

/* ---------- which locks exclude each other ---------- */

static bool
modes_conflict(LockTupleMode a, LockTupleMode b)
{
	return DoLockModesConflict(zen_lock_mode(a), zen_lock_mode(b));
}

/* The row lock that a version's writer holds on the tuple. */
static LockTupleMode
writer_mode(ZenVersion *v)
{
	return (zen_version_flags(v) & ZEN_V_KEY_UPDATE) ? LockTupleExclusive : LockTupleNoKeyExclusive;
}

/* A running transaction other than this one whose lock excludes mode, or InvalidTransactionId. */
static TransactionId
conflicting_locker(const ZenLockerCopy *copy, LockTupleMode mode)
{
	ZenAssertNoWordLocked();
	for (uint32 i = 0; i < copy->n; i++)
		if (modes_conflict(mode, copy->l[i].mode) && !TransactionIdIsCurrentTransactionId(copy->l[i].xid) &&
			TransactionIdIsInProgress(copy->l[i].xid))
			return copy->l[i].xid;
	return InvalidTransactionId;
}

/* The strongest lock that this transaction holds; -1: none. */
static int
my_lock(const ZenLockerCopy *copy)
{
	int			mode = -1;

	for (uint32 i = 0; i < copy->n; i++)
		if (TransactionIdIsCurrentTransactionId(copy->l[i].xid))
			mode = Max(mode, (int) copy->l[i].mode);
	return mode;
}

static ZenLockerCopy lockers_copy;	/* reused; valid until the next look */

/* ---------- judging: what stands in the way ---------- */

static void
failure(ZenChange *c, uint64 tidno, uint32 code, TransactionId xmax, CommandId cmax)
{
	zen_make_tid(&c->tmfd.ctid, tidno, code);
	c->tmfd.xmax = xmax;
	c->tmfd.cmax = cmax;
}

/* The target has a committed successor: say where the row went. */
static TM_Result
updated(ZenChange *c, Judged *j, ZenVersion *successor)
{
	ZenVersion *v = j->head;

	while (v != successor)
	{
		ZenXidState state = zen_version_state(v);

		if (state == ZEN_XID_COMMITTED || state == ZEN_XID_CURRENT)
			break;
		v = v->older;
		Assert(v != NULL);		/* the successor is in the chain */
	}
	failure(c, c->tidno, v->code, successor->xmin, InvalidCommandId);
	if (!(zen_version_flags(v) & ZEN_V_TOMBSTONE))
		return TM_Updated;
	if (zen_version_flags(v) & ZEN_V_FORWARD)
	{
		Assert(v->forward_tidno != c->tidno);
		zen_make_tid(&c->tmfd.ctid, v->forward_tidno, 0);
		return TM_Updated;
	}
	if (zen_version_flags(v) & ZEN_V_MOVED)
	{
		ItemPointerSetMovedPartitions(&c->tmfd.ctid);
		return TM_Updated;
	}
	failure(c, c->tidno, c->code, v->xmin, InvalidCommandId);
	return TM_Deleted;
}

/* Does the writer of v exclude the lock?  *wait_xid: the writer, if it may still undo what it has done. */
static bool
excludes(ZenChange *c, ZenVersion *v)
{
	ZenXidState state = zen_version_state(v);

	if (state == ZEN_XID_ABORTED || !modes_conflict(c->mode, writer_mode(v)))
		return false;
	c->wait_xid = state == ZEN_XID_IN_PROGRESS ? v->xmin : InvalidTransactionId;
	return true;
}

/*
 * Is v what a move has put under this TID?
 *
 * That is the oldest version there.  The tombstone that forwards to the TID has been judged already, and stands for its
 * writer.  A tombstone is not such a version: it is all that is left if a writer has spilled the row that it moved
 * here, and has moved it on before its commit.
 */
static inline bool
came_by_move(ZenVersion *v)
{
	return v->older == NULL && (zen_version_flags(v) & ZEN_V_TOMBSTONE) == 0;
}

/* Does the writer of a version under a TID to which the row has gone on exclude the lock? */
static bool
excluded_by_chain(ZenChange *c, ZenVersion *head)
{
	for (ZenVersion *v = head; v != NULL && !came_by_move(v); v = v->older)
		if (excludes(c, v))
			return true;
	return false;
}

/*
 * May the lock pass over all versions that are newer than its target?
 *
 * A lock that does not exclude plain updates (FOR KEY SHARE) may, as long as none of them has changed the key or
 * deleted the row.  That holds as well for versions under other TIDs to which the row has gone on.  The lock then
 * hangs at the newest version like any other.
 */
static bool
passes_newer(ZenChange *c, Judged *j)
{
	ZenVersion *top = j->top;
	ZenSpilledChain space;		/* top may be in it */

	ZenAssertInEpoch();
	/* by its code: the target may have been made lean since it was found */
	for (ZenVersion *v = j->head; v != NULL && (j->target == NULL || v->code != j->target->code); v = v->older)
		if (excludes(c, v))
			return false;
	while (top != NULL && (zen_version_flags(top) & ZEN_V_FORWARD))
	{
		uint64		w;
		ZenVersion *head;

		Assert(zen_version_flags(top) & ZEN_V_TOMBSTONE);
		head = zen_spillmap_tid_chain(c->ht, top->forward_tidno, &w, &space);
		if (head == NULL)
			break;
		if (excluded_by_chain(c, head))
			return false;
		top = zen_top_version(head);
	}
	return true;
}

/* Judge a lock that the writer of the target's successor s does not exclude. */
static TM_Result
judge_lock(ZenChange *c, Judged *j, ZenVersion *s)
{
	if (passes_newer(c, j))
		c->wait_xid = conflicting_locker(j->lockers, c->mode);
	else if (!TransactionIdIsValid(c->wait_xid))
		return updated(c, j, s);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}

/* Judge a target that has a successor. */
static TM_Result
judge_successor(ZenChange *c, Judged *j, ZenVersion *s, bool locking)
{
	ZenXidState state = zen_version_state(s);

	if (state == ZEN_XID_CURRENT)
	{
		if (s->cmin < c->cid)
			return TM_Invisible;
		failure(c, c->tidno, s->code, s->xmin, s->cmin);
		return TM_SelfModified;
	}
	c->wait_xid = InvalidTransactionId;
	if (state == ZEN_XID_ABORTED)	/* between two looks: judge again */
		return TM_BeingModified;
	if (locking && !modes_conflict(c->mode, writer_mode(s)))
		return judge_lock(c, j, s);
	if (state == ZEN_XID_COMMITTED)
		return updated(c, j, s);
	c->wait_xid = s->xmin;
	return TM_BeingModified;
}

/* ---------- judging: looking ---------- */

/*
 * Look at the newest versions and the lockers of a word in state ENTRY, whose value was w.
 *
 * False: look again.  The word leads elsewhere by now, or there are aborted versions that have to go first.
 */
static bool
look_at_entry(Judged *j, uint64 w)
{
	ZenAssertInEpoch();
	ZenAssertNoWordLocked();
	j->head = zen_word_entry(w);
	j->lock_seq = zen_lockers_copy(j->word, j->head, j->lockers);
	if (zen_word_ref(zen_word_read(j->word)) != zen_word_ref(w))
		return false;
	j->top = zen_top_version(j->head);
	j->undoing = false;
	/* the version that was top may have been made lean since the look */
	for (ZenVersion *v = j->head; v != j->top && v != NULL; v = v->older)
		j->undoing |= (zen_version_flags(v) & ZEN_V_SPILLED) != 0;
	return !j->undoing;
}

/* Judge a target without successor, which is the newest version unless that has changed between two looks. */
static TM_Result
judge_newest(ZenChange *c, Judged *j)
{
	ZenVersion *target = j->target;
	ZenXidState state;
	ZenVersion *successor;

	/* top has aborted, or was made lean, between two looks: judge again */
	if (target != j->top)
		return TM_BeingModified;

	state = zen_version_state(target);
	if (state == ZEN_XID_IN_PROGRESS || state == ZEN_XID_ABORTED ||
		(zen_version_flags(target) & ZEN_V_TOMBSTONE) ||
		(state == ZEN_XID_CURRENT && target->cmin >= c->cid))
	{
		failure(c, c->tidno, c->code, target->xmin, target->cmin);
		return TM_Invisible;
	}
	c->wait_xid = conflicting_locker(j->lockers, c->mode);
	if (TransactionIdIsValid(c->wait_xid))
		return TM_BeingModified;
	if (c->crosscheck != InvalidSnapshot &&
		zen_visible_version(j->head, c->crosscheck, &successor) != target)
	{
		failure(c, c->tidno, c->code, InvalidTransactionId, InvalidCommandId);
		return TM_Updated;
	}
	return TM_Ok;
}

/* Judge what the change meets under a word of value w.  TM_BeingModified with an invalid wait_xid: look again. */
static TM_Result
judge_entry(ZenChange *c, uint64 w, Judged *j, bool locking)
{
	memset(&c->tmfd, 0, sizeof(c->tmfd));
	c->wait_xid = InvalidTransactionId;
	if (!look_at_entry(j, w))
		return TM_BeingModified;
	c->held_before = my_lock(j->lockers) >= 0;
	j->target = zen_find_version(j->head, c->code, &j->successor);
	if (j->top == NULL)
		return TM_Invisible;
	/* the version is gone: the newest one has superseded it */
	if (j->target == NULL)
		return zen_version_state(j->top) == ZEN_XID_IN_PROGRESS ?
			judge_successor(c, j, j->top, locking) : updated(c, j, j->top);
	if (j->successor != NULL)
		return judge_successor(c, j, j->successor, locking);
	return judge_newest(c, j);
}

/* The header that stands for a row in NVM when the row is changed or locked.  NULL, or not published yet. */
static ZenVersion *stored_in_hand;

static void
drop_stored_in_hand(void)
{
	if (stored_in_hand != NULL)
		zen_version_free(stored_in_hand);
	stored_in_hand = NULL;
}

/* May the row be in NVM only, and is there a header for it?  False also if DRAM is full: zen_row_admit() makes room. */
static bool
have_stored_in_hand(ZenWord *word)
{
	if (word == NULL || zen_word_state(zen_word_read(word)) != ZEN_WORD_NVM)
		return false;
	if (stored_in_hand == NULL)
		stored_in_hand = zen_version_alloc(0);
	return stored_in_hand != NULL;
}

/*
 * Judge a row that is in NVM only, inside the epoch: every snapshot sees its version (I10), no transaction has locked
 * it, and nothing is newer.  So the change is TM_Ok.
 *
 * False: the word leads elsewhere, or to another version than the one asked for, or the slot is damaged.
 */
static bool
judge_stored(ZenChange *c, Judged *j)
{
	ZenVersion *v = stored_in_hand;
	uint64		w = zen_word_read(j->word);
	ZenSlot		slot = zen_word_ref(w);
	const MinimalTupleData *row;
	uint32		flags = ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_NVM;

	ZenAssertInEpoch();
	if (zen_word_state(w) != ZEN_WORD_NVM || zen_word1_code(zen_tuple_header(slot).word1) != c->code)
		return false;

	/*
	 * a change sees damage that came after the last check; zen_row_admit()
	 * reports it
	 */
	if (!zen_tuple_intact(slot, zen_slot_size(slot)))
	{
		zen_slot_doubt(slot);
		return false;
	}
	row = zen_slot_look(slot, false);
	if (row == NULL)
		return false;
	Assert(v->older == NULL && v->lockers == NULL && v->len == 0);
	v->slot = slot;
	v->cmin = FirstCommandId;
	v->code = (uint16) c->code;

	/*
	 * a new version takes over how often the row was read; a lock's header
	 * goes
	 */
	if (c->tuple != NULL)
		flags = zen_version_with_reads(flags, zen_admission_reads(c->ht, c->tidno), zen_sketch_age());
	pg_atomic_write_u32(&v->flags, flags);
	memset(&c->tmfd, 0, sizeof(c->tmfd));
	c->wait_xid = InvalidTransactionId;
	c->held_before = false;
	j->head = j->top = j->target = v;
	j->lockers->n = 0;
	j->stored = true;
	j->points_out = (row->t_infomask & HEAP_HASEXTERNAL) != 0;
	if (ZEN_FAULT(STORED_BLIND))
		pg_usleep(1000L);
	return true;
}

/* Find the word and bring its row into the Met-Cache.  NULL: there is no row. */
static ZenWord *
entry_word(ZenHTable *ht, uint64 tidno)
{
	ZenWord    *word = zen_tidmap_word(ht, tidno);

	while (word != NULL)
	{
		uint64		state = zen_word_state(zen_word_read(word));

		if (state == ZEN_WORD_ENTRY)
			return word;
		/* it may have been evicted again since it was admitted */
		if (state != ZEN_WORD_NVM && state != ZEN_WORD_SPILLED)
			return NULL;
		zen_row_admit(ht, tidno, word);
		CHECK_FOR_INTERRUPTS();
	}
	return NULL;
}

static void
judge_begin(Judged *j)
{
	ZenAssertNotInEpoch();
	memset(j, 0, sizeof(*j));
	j->lockers = &lockers_copy;
}

/*
 * Judge until the answer is definite.  Called outside any epoch; on return inside one, which the caller leaves.
 *
 * TM_BeingModified has a wait_xid.  TM_Ok: the target is the top; of a row to be locked the target may have successors,
 * or be gone.
 */
static TM_Result
enter_and_judge(ZenChange *c, Judged *j, bool locking)
{
	Assert(c->code <= ZEN_MAX_CODE);
	for (;;)
	{
		uint64		w;

		judge_begin(j);
		j->word = zen_tidmap_word(c->ht, c->tidno);
		if (have_stored_in_hand(j->word))
		{
			zen_epoch_enter();
			if (judge_stored(c, j))
				return TM_Ok;
			zen_epoch_leave();
		}
		j->word = entry_word(c->ht, c->tidno);
		zen_epoch_enter();
		if (j->word == NULL)
		{
			failure(c, c->tidno, c->code, InvalidTransactionId, InvalidCommandId);
			return TM_Deleted;
		}
		w = zen_word_read(j->word);
		if (zen_word_state(w) == ZEN_WORD_ENTRY)
		{
			TM_Result	result = judge_entry(c, w, j, locking);

			Assert(result != TM_Ok ||
				   (locking ? j->top != NULL : j->target == j->top && j->target->code == c->code));
			if (result != TM_BeingModified || TransactionIdIsValid(c->wait_xid))
				return result;
		}
		zen_epoch_leave();
		CHECK_FOR_INTERRUPTS();
		if (j->undoing)
			zen_row_admit_wait_for_undo();
	}
}

/*
 * May the row also be locked under a TID to which it has gone on?  Called outside any epoch; on return inside one.
 *
 * TM_Deleted: it is gone from there.  TM_BeingModified: wait for wait_xid.  If that is invalid, the row is to be judged
 * again from the TID where it was found: a writer under this TID excludes the lock, or the word has changed.
 */
static TM_Result
judge_forward(ZenChange *c, uint64 tidno, Judged *j)
{
	uint64		w;

	Assert(tidno != c->tidno);
	judge_begin(j);
	j->word = entry_word(c->ht, tidno);
	zen_epoch_enter();
	if (j->word == NULL)
		return TM_Deleted;
	c->wait_xid = InvalidTransactionId;
	w = zen_word_read(j->word);
	if (zen_word_state(w) != ZEN_WORD_ENTRY || !look_at_entry(j, w))
		return TM_BeingModified;
	if (excluded_by_chain(c, j->head))
		return TM_BeingModified;
	c->wait_xid = conflicting_locker(j->lockers, c->mode);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}

/* Is the word, of which w is the value under its lock, still as judged? */
static inline bool
judged_still(uint64 w, const Judged *j)
{
	ZenAssertInEpoch();
	ZenAssertWordLocked(j->word);
	if (j->stored)
		return (zen_word_state(w) == ZEN_WORD_NVM && zen_word_ref(w) == j->head->slot) || ZEN_FAULT(STORED_BLIND);
	return zen_word_leads_to(w, j->head) && j->head->lock_seq == j->lock_seq;
}

/* ---------- pushing a version ---------- */

#ifdef USE_ASSERT_CHECKING
/*
 * v is about to be pushed over top: its depth bounds the length of the chain, and no version of the chain has its code.
 */
static void
check_numbers(ZenVersion *v, ZenVersion *top)
{
	uint32		behind = 0;

	ZenAssertInEpoch();
	for (ZenVersion *o = top; o != NULL; o = o->older)
	{
		Assert(o->code != v->code);
		behind++;
	}
	Assert(v->depth >= behind);
	Assert(v->code > 0 && v->code <= ZEN_MAX_CODE);
}
#else
#define check_numbers(v, top) ((void) 0)
#endif

/*
 * Give a new version its code and depth; false if all codes are taken by versions still alive.
 *
 * Codes are given in turn, so versions of one tuple have different codes as long as there are at most ZEN_MAX_CODE of
 * them.  The last one is kept for the tombstone that ends the chain.
 */
static bool
number_version(ZenVersion *v, ZenVersion *top)
{
	uint32		limit = (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? ZEN_MAX_CODE : ZEN_MAX_CODE - 1;
	uint32		depth = (uint32) top->depth + 1;

	if (depth >= limit)
	{
		/* the bound is reached: count */
		depth = 0;
		for (ZenVersion *o = top; o != NULL; o = o->older)
			depth++;
		if (depth >= limit)
			return false;
	}
	v->depth = (uint16) depth;

	/*
	 * code 0 stands for the row as indexes know it; versions after the first
	 * use 1..ZEN_MAX_CODE in turn
	 */
	v->code = top->code >= ZEN_MAX_CODE ? 1 : top->code + 1;
	check_numbers(v, top);
	return true;
}

/* Push v over the judged versions; under the word's lock. */
static uint64
push_version(uint64 w, Judged *j, ZenVersion *v)
{
	ZenAssertWordLocked(j->word);
	Assert(v != j->head && v->lockers == NULL);
	v->older = j->top;
	v->lockers = j->head->lockers;
	v->lock_seq = j->head->lock_seq + 1;
	j->head->lockers = NULL;
	j->head->lock_seq++;
	zen_version_pass_clock(j->head, v);
	return zen_word_with_entry(w, v);
}

/* ---------- what a change has in hand ---------- */

/* The versions that a change needs, made once and kept over its attempts. */
typedef struct InHand
{
	ZenVersion *version;		/* new contents, or the tombstone of a delete */
	ZenVersion *tombstone;		/* update to a new TID: stays under the old
								 * one */
	uint64		new_tidno;
	ZenWord    *new_word;		/* NULL: version has no new TID */
} InHand;

static InHand in_hand;			/* of the change under way, all zero if none */

static uint32
key_flag(const ZenChange *c)
{
	return c->mode == LockTupleExclusive ? ZEN_V_KEY_UPDATE : 0;
}

static void
change_prepare(ZenChange *c, InHand *p)
{
	Assert(p->version == NULL && p->tombstone == NULL);
	(void) zen_xid_assign();
	zen_writeset_reserve(2, 0);
	if (c->tuple == NULL)
		p->version = zen_row_make_version(NULL, c->cid, ZEN_V_TOMBSTONE | key_flag(c) | (c->moved ? ZEN_V_MOVED : 0));
	else
		p->version = zen_row_make_version(c->tuple, c->cid, key_flag(c));
}

/* The row goes to a new TID: reserve it and make the tombstone that forwards there. */
static void
prepare_new_tid(ZenChange *c, InHand *p)
{
	Assert(p->version != NULL && p->tombstone == NULL && c->tuple != NULL);
	p->tombstone = zen_row_make_version(NULL, c->cid, ZEN_V_TOMBSTONE | ZEN_V_FORWARD | key_flag(c));
	Assert(p->new_word == NULL);
	zen_row_take_tid(c->ht, p->version, &p->new_tidno, &p->new_word);
	p->version->code = 0;
	p->version->depth = 0;
	p->tombstone->forward_tidno = p->new_tidno;
	/* from here on the end of the transaction finds it in the write set */
	zen_writeset_add(c->ht, p->new_tidno, p->new_word, p->version);
}

static void
discard_prepared(InHand *p)
{
	if (p->tombstone)
		zen_version_free(p->tombstone);

	/*
	 * no transaction ever had the row under the new TID: commit and abort pop
	 * it
	 */
	if (p->new_word)
		zen_version_set(p->version, ZEN_V_ABORTED);
	else if (p->version)
		zen_version_free(p->version);
	memset(p, 0, sizeof(*p));
}

/* ---------- one attempt ---------- */

/* The judged lockers go on under the new TID; false when DRAM is full. */
static bool
copy_lockers(Judged *j, InHand *p)
{
	ZenLockers *lockers = NULL,
			   *old;
	uint64		w;

	if (j->lockers->n == 0 && p->version->lockers == NULL)
		return true;
	if (j->lockers->n > 0)
	{
		lockers = zen_version_lockers_alloc(j->lockers->n);
		if (lockers == NULL)
			return false;
		memcpy(lockers->l, j->lockers->l, j->lockers->n * sizeof(ZenLocker));
		lockers->n = j->lockers->n;
	}
	w = zen_word_lock(p->new_word);
	Assert(zen_word_leads_to(w, p->version));
	old = zen_lockers_replace(p->new_word, p->version, lockers);
	zen_word_unlock(p->new_word, w);
	if (old != NULL)
		zen_version_lockers_free(old);	/* of an attempt that was lost */
	return true;
}

/* Apply an update or delete that was judged TM_Ok; false if the word has changed. */
static bool
apply_change(ZenChange *c, Judged *j, InHand *p)
{
	ZenVersion *v = p->tombstone ? p->tombstone : p->version;
	uint64		w = zen_word_lock(j->word);
	bool		ok = judged_still(w, j);

	if (ok)
		w = push_version(w, j, v);
	zen_word_unlock(j->word, w);
	if (!ok)
		return false;
	if (j->stored)
		stored_in_hand = NULL;
	zen_writeset_add(c->ht, c->tidno, j->word, v);
	c->result_tidno = p->tombstone ? p->new_tidno : c->tidno;
	c->result_code = p->version->code;
	c->indexes_needed = p->tombstone != NULL;
	return true;
}

/* Inside the epoch: try a change that was judged TM_Ok and is prepared. */
static Attempt
try_change(ZenChange *c, Judged *j, InHand *p)
{
	ZenAssertInEpoch();
	Assert(j->target == j->top);
	if (!number_version(p->tombstone ? p->tombstone : p->version, j->top))
	{
		/* a code is kept for a tombstone */
		Assert(p->tombstone == NULL && c->tuple != NULL);
		return TRY_NO_CODE;
	}
	if (p->tombstone && !copy_lockers(j, p))
		return TRY_NO_DRAM;
	c->points_out = j->stored ? j->points_out : zen_version_may_point_out(j->target);
	return apply_change(c, j, p) ? TRY_APPLIED : TRY_LOST;
}

/* Outside the epoch: make what a change still lacks after an attempt. */
static void
prepare_more(ZenChange *c, InHand *p, Attempt attempt)
{
	bool		first = p->version == NULL;

	ZenAssertNotInEpoch();
	if (attempt == TRY_NO_DRAM)
		zen_arena_full_error();
	if (attempt == TRY_LOST)
		CHECK_FOR_INTERRUPTS();
	if (first)
		change_prepare(c, p);
	if (attempt == TRY_NO_CODE || (first && c->new_tid && c->tuple != NULL))
		prepare_new_tid(c, p);
}

TM_Result
zen_row_change(ZenChange *c)
{
	InHand	   *p = &in_hand;

	ZenAssertNotInEpoch();
	Assert(p->version == NULL && p->tombstone == NULL);
	Assert(c->mode >= LockTupleNoKeyExclusive && (c->tuple != NULL || c->mode == LockTupleExclusive));
	zen_writeset_check_open();

	/*
	 * Most changes are judged TM_Ok: what they need is made before, so that
	 * they judge once.  The first one of a transaction judges before it takes
	 * an xid, and an update to a new TID before it takes that.
	 */
	if (!c->new_tid && TransactionIdIsValid(GetCurrentTransactionIdIfAny()))
		change_prepare(c, p);
	for (;;)
	{
		Judged		j;
		Attempt		attempt = NOT_TRIED;
		TM_Result	result = enter_and_judge(c, &j, false);

		if (result == TM_Ok && p->version != NULL)
			attempt = try_change(c, &j, p);
		zen_epoch_leave();
		if (attempt == TRY_APPLIED)
		{
			memset(p, 0, sizeof(*p));
			drop_stored_in_hand();
			return TM_Ok;
		}
		if (result != TM_Ok)
		{
			discard_prepared(p);
			drop_stored_in_hand();
			return result;
		}
		prepare_more(c, p, attempt);
	}
}

/* ---------- locking: one list ---------- */

static ZenLockers *lockers_in_hand; /* NULL, or not hung at a row yet */

static void
drop_lockers_in_hand(void)
{
	if (lockers_in_hand != NULL)
		zen_version_lockers_free(lockers_in_hand);
	lockers_in_hand = NULL;
}

/* Leave out of the copy the lockers that have ended. */
static void
prune_copy(ZenLockerCopy *copy)
{
	uint32		n = 0;

	for (uint32 i = 0; i < copy->n; i++)
		if (TransactionIdIsCurrentTransactionId(copy->l[i].xid) || TransactionIdIsInProgress(copy->l[i].xid))
			copy->l[n++] = copy->l[i];
	copy->n = n;
}

/* Have a list in hand with room for n; false when DRAM is full. */
static bool
take_lockers_in_hand(uint32 n)
{
	if (lockers_in_hand != NULL && lockers_in_hand->capacity < n)
		drop_lockers_in_hand();
	if (lockers_in_hand == NULL)
		lockers_in_hand = zen_version_lockers_alloc(n);
	return lockers_in_hand != NULL;
}

/* Hang a new list at the judged newest version; false if the word has changed. */
static bool
apply_lock(Judged *j, ZenLockers *lockers)
{
	uint64		w = zen_word_lock(j->word);
	bool		ok = judged_still(w, j);
	ZenLockers *old = ok ? zen_lockers_replace(j->word, j->head, lockers) : NULL;

	if (ok && j->stored)
	{
		w = zen_word_with_entry(w, j->head) | ZEN_WORD_SEEN;
		stored_in_hand = NULL;
	}
	zen_word_unlock(j->word, w);
	if (old != NULL)
		zen_version_lockers_free(old);
	return ok;
}

/* ---------- locking: one TID ---------- */

/* Inside the epoch: lock a row that was judged free to be locked. */
static Attempt
try_lock(Judged *j, TransactionId xid, LockTupleMode mode)
{
	ZenAssertInEpoch();
	prune_copy(j->lockers);
	if (!take_lockers_in_hand(j->lockers->n + 1))
		return TRY_NO_DRAM;
	zen_lockers_fill(lockers_in_hand, j->lockers->l, j->lockers->n, xid, mode);
	return apply_lock(j, lockers_in_hand) ? TRY_APPLIED : TRY_LOST;
}

/* After try_lock(), outside the epoch: true if the row under this TID is locked now. */
static bool
note_lock(ZenChange *c, Attempt attempt, uint64 tidno, TransactionId xid)
{
	ZenAssertNotInEpoch();
	if (attempt == TRY_NO_DRAM)
		zen_arena_full_error();
	if (attempt != TRY_APPLIED)
		return false;
	lockers_in_hand = NULL;
	zen_writeset_add_lock(c->ht, tidno, xid, c->mode, tidno != c->tidno);
	return true;
}

/*
 * Does this transaction hold the row as strongly already?
 *
 * A row that it has inserted is locked nevertheless.  A later update then shows, as heap does, that the row was locked
 * before.
 */
static bool
held_already(const ZenChange *c, const Judged *j)
{
	if (my_lock(j->lockers) >= (int) c->mode)
		return true;
	return zen_version_state(j->top) == ZEN_XID_CURRENT && j->top->older != NULL &&
		writer_mode(j->top) >= c->mode;
}

/* ---------- locking: all TIDs of a row ---------- */

/* Has the row gone on from the TID that was judged?  *next: under which one. */
static bool
goes_on(const Judged *j, uint64 *next)
{
	if (j->top == NULL || !(zen_version_flags(j->top) & ZEN_V_FORWARD))
		return false;
	*next = j->top->forward_tidno;
	return true;
}

/*
 * Lock the row under a TID to which it has gone on, and under those to which it has gone on from there.
 *
 * The locker's snapshot does not see that it has, and no mover excludes the lock.  A writer that finds the row by one
 * of these TIDs has to meet the lock.  The locker in turn has to meet the writers and lockers that have come that way.
 *
 * TM_Ok, also if the row is gone with its mover; or TM_BeingModified as judge_forward().
 */
static TM_Result
lock_forward(ZenChange *c, uint64 tidno, TransactionId xid)
{
	for (;;)
	{
		Judged		j;
		Attempt		attempt = NOT_TRIED;
		TM_Result	result;
		uint64		next = 0;
		bool		follow = false,
					held = false;

		CHECK_FOR_INTERRUPTS();
		zen_writeset_reserve(0, 1);
		result = judge_forward(c, tidno, &j);
		if (result == TM_Ok)
		{
			held = my_lock(j.lockers) >= (int) c->mode;
			if (!held)
				attempt = try_lock(&j, xid, c->mode);
			follow = goes_on(&j, &next);
		}
		zen_epoch_leave();
		if (result == TM_Deleted)
			return TM_Ok;
		if (j.undoing)
			zen_row_admit_wait_for_undo();
		if (result != TM_Ok)
			return result;
		if (!held && !note_lock(c, attempt, tidno, xid))
			continue;
		if (!follow)
			return TM_Ok;
		Assert(next != tidno);
		tidno = next;
	}
}

/* Lock the row where it is found: one try of zen_row_lock(). */
static TM_Result
lock_once(ZenChange *c, TransactionId xid)
{
	Judged		j;
	Attempt		attempt = NOT_TRIED;
	TM_Result	result = enter_and_judge(c, &j, true);
	bool		held = result == TM_Ok && held_already(c, &j);
	bool		follow = false;
	uint64		next = 0;

	if (result == TM_Ok)
	{
		/* before the row is locked: this may throw */
		if (c->row != NULL)
			c->copied = j.stored ? zen_row_copy_stored(c->row, c->tidno, j.target->slot) :
				zen_row_copy(c->row, c->tidno, j.target, j.successor);
		if (!held)
			attempt = try_lock(&j, xid, c->mode);
		follow = goes_on(&j, &next);
	}
	zen_epoch_leave();
	if (result != TM_Ok)
		return result;
	if (!held && !note_lock(c, attempt, c->tidno, xid))
	{
		c->wait_xid = InvalidTransactionId;
		return TM_BeingModified;
	}
	return follow ? lock_forward(c, next, xid) : TM_Ok;
}

TM_Result
zen_row_lock(ZenChange *c)
{
	TransactionId xid = zen_xid_assign();
	TM_Result	result;

	ZenAssertNotInEpoch();
	Assert(lockers_in_hand == NULL);
	do
	{
		CHECK_FOR_INTERRUPTS();
		zen_writeset_reserve(0, 1);
		result = lock_once(c, xid);
	} while (result == TM_BeingModified && !TransactionIdIsValid(c->wait_xid));
	drop_lockers_in_hand();
	drop_stored_in_hand();
	return result;
}

void
zen_row_change_abandon(void)
{
	discard_prepared(&in_hand);
	drop_lockers_in_hand();
	drop_stored_in_hand();
}
