/*
 * rowjudge.c -- judging a row: may it be changed or locked, and if not, why?
 *
 * Judging looks at the newest version, at its lockers and at the fate of their transactions.  It may read pg_xact and
 * wait for LWLocks, so it holds no lock bit.  Its result may be out of date at once.  So three rules hold:
 *
 * - What was judged is named by the newest version and its lock_seq.  Both can only be the same later if no other
 *   process has pushed, popped or locked in between.
 * - A judgement in which two looks contradict each other is TM_BeingModified without a wait_xid: judge again.
 * - A row that is only in NVM gets an entry first.  A row whose newest version is being taken back out of a spill
 *   record waits for that.
 *
 * A change meets the first of these that applies: a newer version, a transaction that holds the row, the caller's
 * crosscheck snapshot.
 */
#include "row/rowjudge.h"

#include "miscadmin.h"
#include "row/rowmake.h"
#include "row/visibility.h"

static ZenLockerCopy lockers_copy;	/* reused; valid until the next look */

/* ---------- what stands in the way ---------- */

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

	if (state == ZEN_XID_ABORTED || !zen_modes_conflict(c->mode, zen_writer_mode(v)))
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
		c->wait_xid = zen_lockers_conflict(j->lockers, c->mode);
	else if (!TransactionIdIsValid(c->wait_xid))
		return updated(c, j, s);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}

/* Judge a target that has a successor. */
static TM_Result
judge_successor(ZenChange *c, ZenJudged *j, ZenVersion *s, bool locking)
{
	switch (zen_version_state(s))
	{
		case ZEN_XID_CURRENT:
			if (s->cmin < c->cid)
				return TM_Invisible;
			failure(c, c->tidno, s->code, s->xmin, s->cmin);
			return TM_SelfModified;
		case ZEN_XID_IN_PROGRESS:
			if (locking && !zen_modes_conflict(c->mode, zen_writer_mode(s)))
				return judge_lock(c, j, s);
			c->wait_xid = s->xmin;
			return TM_BeingModified;
		case ZEN_XID_ABORTED:	/* between two looks: judge again */
			c->wait_xid = InvalidTransactionId;
			return TM_BeingModified;
		case ZEN_XID_COMMITTED:
			break;
	}
	if (locking && !zen_modes_conflict(c->mode, zen_writer_mode(s)))
		return judge_lock(c, j, s);
	return updated(c, j, s);
}

/* ---------- looking ---------- */

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
	c->wait_xid = zen_lockers_conflict(j->lockers, c->mode);
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
judge(ZenChange *c, uint64 w, ZenJudged *j, bool locking)
{
	ZenVersion *successor;
	LockTupleMode mine;

	memset(&c->tmfd, 0, sizeof(c->tmfd));
	c->wait_xid = InvalidTransactionId;
	if (!look_at_entry(j, w))
		return TM_BeingModified;
	c->held_before = zen_lockers_mine(j->lockers, &mine);
	j->target = zen_find_version(j->head, c->code, &successor);
	if (j->top == NULL)
		return TM_Invisible;
	if (j->target == NULL)
	{
		/* the version is gone: the newest one has superseded it */
		return zen_version_state(j->top) == ZEN_XID_IN_PROGRESS ?
			judge_successor(c, j, j->top, locking) : updated(c, j, j->top);
	}
	if (successor != NULL)
		return judge_successor(c, j, successor, locking);
	return judge_newest(c, j);
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

/* ---------- from outside ---------- */

static void
begin(ZenJudged *j)
{
	ZenAssertNotInEpoch();
	memset(j, 0, sizeof(*j));
	j->lockers = &lockers_copy;
}

/* Judge until the answer is definite. */
static TM_Result
enter_and_judge(ZenChange *c, ZenJudged *j, bool locking)
{
	Assert(c->code <= ZEN_MAX_CODE);
	for (;;)
	{
		uint64		w;

		begin(j);
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
			TM_Result	result = judge(c, w, j, locking);

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
zen_row_judge_change(ZenChange *c, ZenJudged *j)
{
	TM_Result	result = enter_and_judge(c, j, false);

	ZenAssertInEpoch();
	Assert(result != TM_Ok || (j->target == j->top && j->target->code == c->code));
	return result;
}

TM_Result
zen_row_judge_lock(ZenChange *c, ZenJudged *j)
{
	TM_Result	result = enter_and_judge(c, j, true);

	ZenAssertInEpoch();
	Assert(result != TM_Ok || j->top != NULL);
	return result;
}

TM_Result
zen_row_judge_forward(ZenChange *c, uint64 tidno, ZenJudged *j)
{
	uint64		w;

	Assert(tidno != c->tidno);
	begin(j);
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
	c->wait_xid = zen_lockers_conflict(j->lockers, c->mode);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}
