/*
 * rowjudge.c -- may a row be updated, deleted or locked?
 *
 * The row is judged without a lock.  What was judged is applied under the word's lock, if it is still so (rowchange.c;
 * src/row/README, "Judge and apply").
 *
 * - A judgement in which two looks contradict each other is TM_BeingModified without a wait_xid: judge again.
 * - A row that is only in NVM gets its entry by the change itself: a header without data (judge_stored).
 * - Another row without an entry gets one first.  A row whose newest version is being taken back out of a spill record
 *   waits for that.
 *
 * A change meets the first of these that applies: a newer version, a transaction that holds the row, the caller's
 * crosscheck snapshot.
 */
#include "row/rowjudge.h"

#include "access/transam.h"
#include "access/xact.h"
#include "cache/clock.h"
#include "miscadmin.h"
#include "nvm/slotread.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "storage/procarray.h"

/* ---------- which locks exclude each other ---------- */

static bool
modes_conflict(LockTupleMode a, LockTupleMode b)
{
	return DoLockModesConflict(zen_lock_mode(a), zen_lock_mode(b));
}

LockTupleMode
zen_judge_writer_mode(ZenVersion *v)
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

int
zen_judge_my_lock(const ZenLockerCopy *copy)
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
updated(ZenChange *c, ZenJudged *j, ZenVersion *successor)
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

	if (state == ZEN_XID_ABORTED || !modes_conflict(c->mode, zen_judge_writer_mode(v)))
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
passes_newer(ZenChange *c, ZenJudged *j)
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
judge_lock(ZenChange *c, ZenJudged *j, ZenVersion *s)
{
	if (passes_newer(c, j))
		c->wait_xid = conflicting_locker(j->lockers, c->mode);
	else if (!TransactionIdIsValid(c->wait_xid))
		return updated(c, j, s);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}

/* Judge a target that has a successor. */
static TM_Result
judge_successor(ZenChange *c, ZenJudged *j, ZenVersion *s, bool locking)
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
	if (locking && !modes_conflict(c->mode, zen_judge_writer_mode(s)))
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
look_at_entry(ZenJudged *j, uint64 w)
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
judge_newest(ZenChange *c, ZenJudged *j)
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
judge_entry(ZenChange *c, uint64 w, ZenJudged *j, bool locking)
{
	memset(&c->tmfd, 0, sizeof(c->tmfd));
	c->wait_xid = InvalidTransactionId;
	if (!look_at_entry(j, w))
		return TM_BeingModified;
	c->held_before = zen_judge_my_lock(j->lockers) >= 0;
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

void
zen_judge_drop_stored(void)
{
	if (stored_in_hand != NULL)
		zen_version_free(stored_in_hand);
	stored_in_hand = NULL;
}

void
zen_judge_stored_taken(void)
{
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
judge_stored(ZenChange *c, ZenJudged *j)
{
	ZenVersion *v = stored_in_hand;
	uint64		w = zen_word_read(j->word);
	ZenSlot		slot = zen_word_ref(w);
	const MinimalTupleData *row;
	uint32		flags = ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_NVM;

	ZenAssertInEpoch();
	if (zen_word_state(w) != ZEN_WORD_NVM || zen_word1_code(zen_tuple_header(slot).word1) != c->code)
		return false;
	row = zen_slot_check(slot) ? zen_slot_look(slot, true) : NULL;
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
judge_begin(ZenJudged *j)
{
	ZenAssertNotInEpoch();
	memset(j, 0, sizeof(*j));
	j->lockers = &lockers_copy;
}

TM_Result
zen_judge(ZenChange *c, ZenJudged *j, bool locking)
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

TM_Result
zen_judge_forward(ZenChange *c, uint64 tidno, ZenJudged *j)
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
