/*
 * rowlock.c -- lock one row.
 *
 * The row is judged without its lock (rowjudge.c).  If it may be locked, a new list of lockers is made, with this
 * transaction in it.  It takes the place of the old one under the word's lock, if the word is still as judged.
 *
 * - The list is made before the word is locked.  Until it hangs at the row it is private to this process.  After an
 *   error the end of the (sub)transaction frees it.
 * - A lock goes into the write set, where room was reserved, as soon as it is in the list: the end of the transaction
 *   takes it out.
 * - A row that has gone on under other TIDs is locked under each of them.
 */
#include "row/rowlock.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/ownwal.h"
#include "miscadmin.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "row/writeset.h"
#include "storage/procarray.h"

/* ---------- one list ---------- */

static ZenLockers *lockers_in_hand; /* NULL, or not hung at a row yet */

static void
drop_lockers_in_hand(void)
{
	if (lockers_in_hand != NULL)
		zen_version_lockers_free(lockers_in_hand);
	lockers_in_hand = NULL;
}

void
zen_row_lock_abandon(void)
{
	drop_lockers_in_hand();
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

/* Write the lockers of the copy, and this transaction, into a list. */
static void
fill_lockers(ZenLockers *lockers, const ZenLockerCopy *copy, TransactionId xid, LockTupleMode mode)
{
	Assert(copy->n < lockers->capacity);
	lockers->n = 0;
	for (uint32 i = 0; i < copy->n; i++)
		lockers->l[lockers->n++] = copy->l[i];
	lockers->l[lockers->n].xid = xid;
	lockers->l[lockers->n].mode = mode;
	lockers->n++;
}

/* Hang a new list at the judged newest version; false if the word has changed. */
static bool
apply_lock(ZenJudged *j, ZenLockers *lockers)
{
	uint64		w = zen_word_lock(j->word);
	bool		ok = zen_row_judged_still(w, j);
	ZenLockers *old = ok ? zen_lockers_replace(j->word, j->head, lockers) : NULL;

	zen_word_unlock(j->word, w);
	if (old != NULL)
		zen_version_lockers_free(old);
	return ok;
}

/* ---------- one TID ---------- */

/* Inside the epoch: lock a row that was judged free to be locked. */
static ZenAttempt
try_lock(ZenJudged *j, TransactionId xid, LockTupleMode mode)
{
	ZenAssertInEpoch();
	prune_copy(j->lockers);
	if (!take_lockers_in_hand(j->lockers->n + 1))
		return ZEN_NO_DRAM;
	fill_lockers(lockers_in_hand, j->lockers, xid, mode);
	return apply_lock(j, lockers_in_hand) ? ZEN_APPLIED : ZEN_LOST;
}

/* After try_lock(), outside the epoch: true if the row under this TID is locked now. */
static bool
note_lock(ZenChange *c, ZenAttempt attempt, uint64 tidno, TransactionId xid)
{
	ZenAssertNotInEpoch();
	if (attempt == ZEN_NO_DRAM)
		zen_arena_full_error();
	if (attempt != ZEN_APPLIED)
		return false;
	lockers_in_hand = NULL;
	zen_writeset_add_lock(c->ht, tidno, xid, c->mode, tidno != c->tidno);
	return true;
}

static inline bool
locked_already(const ZenChange *c, const ZenJudged *j)
{
	LockTupleMode mine;

	return zen_lockers_mine(j->lockers, &mine) && mine >= c->mode;
}

/*
 * Does this transaction hold the row as strongly already?
 *
 * A row that it has inserted is locked nevertheless.  A later update then shows, as heap does, that the row was locked
 * before.
 */
static bool
held_already(const ZenChange *c, const ZenJudged *j)
{
	if (locked_already(c, j))
		return true;
	return zen_version_state(j->top) == ZEN_XID_CURRENT && j->top->older != NULL &&
		zen_writer_mode(j->top) >= c->mode;
}

/* ---------- all TIDs of a row ---------- */

/* Has the row gone on from the TID that was judged?  *next: under which one. */
static bool
goes_on(const ZenJudged *j, uint64 *next)
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
 * TM_Ok, also if the row is gone with its mover; or TM_BeingModified as zen_row_judge_forward().
 */
static TM_Result
lock_forward(ZenChange *c, uint64 tidno, TransactionId xid)
{
	for (;;)
	{
		ZenJudged	j;
		ZenAttempt	attempt = ZEN_NOT_TRIED;
		TM_Result	result;
		uint64		next = 0;
		bool		follow = false,
					held = false;

		CHECK_FOR_INTERRUPTS();
		zen_writeset_reserve(0, 1);
		result = zen_row_judge_forward(c, tidno, &j);
		if (result == TM_Ok)
		{
			held = locked_already(c, &j);
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
	ZenJudged	j;
	ZenAttempt	attempt = ZEN_NOT_TRIED;
	TM_Result	result = zen_row_judge_lock(c, &j);
	bool		held = result == TM_Ok && held_already(c, &j);
	bool		follow = false;
	uint64		next = 0;

	if (result == TM_Ok)
	{
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
	return result;
}
