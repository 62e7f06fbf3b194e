/*
 * rowchange.c -- update, delete and lock one row.
 *
 * Writing is optimistic: the row is judged without a lock (rowjudge), and the change applied under the word's lock if
 * the row is still what was judged (src/row/README, "Judge and apply").
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

#include "access/xact.h"
#include "base/ownwal.h"
#include "miscadmin.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "storage/procarray.h"

/* What came of applying what was judged TM_Ok. */
typedef enum Attempt
{
	NOT_TRIED,
	TRY_APPLIED,
	TRY_LOST,					/* the word has changed */
	TRY_NO_CODE,				/* versions still alive have taken all codes */
	TRY_NO_DRAM,
} Attempt;

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
push_version(uint64 w, ZenJudged *j, ZenVersion *v)
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
copy_lockers(ZenJudged *j, InHand *p)
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
apply_change(ZenChange *c, ZenJudged *j, InHand *p)
{
	ZenVersion *v = p->tombstone ? p->tombstone : p->version;
	uint64		w = zen_word_lock(j->word);
	bool		ok = zen_judged_still(w, j);

	if (ok)
		w = push_version(w, j, v);
	zen_word_unlock(j->word, w);
	if (!ok)
		return false;
	if (j->stored)
		zen_judge_stored_taken();
	zen_writeset_add(c->ht, c->tidno, j->word, v);
	c->result_tidno = p->tombstone ? p->new_tidno : c->tidno;
	c->result_code = p->version->code;
	c->indexes_needed = p->tombstone != NULL;
	return true;
}

/* Inside the epoch: try a change that was judged TM_Ok and is prepared. */
static Attempt
try_change(ZenChange *c, ZenJudged *j, InHand *p)
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
		ZenJudged	j;
		Attempt		attempt = NOT_TRIED;
		TM_Result	result = zen_judge(c, &j, false);

		if (result == TM_Ok && p->version != NULL)
			attempt = try_change(c, &j, p);
		zen_epoch_leave();
		if (attempt == TRY_APPLIED)
		{
			memset(p, 0, sizeof(*p));
			zen_judge_drop_stored();
			return TM_Ok;
		}
		if (result != TM_Ok)
		{
			discard_prepared(p);
			zen_judge_drop_stored();
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
apply_lock(ZenJudged *j, ZenLockers *lockers)
{
	uint64		w = zen_word_lock(j->word);
	bool		ok = zen_judged_still(w, j);
	ZenLockers *old = ok ? zen_lockers_replace(j->word, j->head, lockers) : NULL;

	if (ok && j->stored)
	{
		w = zen_word_with_entry(w, j->head) | ZEN_WORD_SEEN;
		zen_judge_stored_taken();
	}
	zen_word_unlock(j->word, w);
	if (old != NULL)
		zen_version_lockers_free(old);
	return ok;
}

/* ---------- locking: one TID ---------- */

/* Inside the epoch: lock a row that was judged free to be locked. */
static Attempt
try_lock(ZenJudged *j, TransactionId xid, LockTupleMode mode)
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
held_already(const ZenChange *c, const ZenJudged *j)
{
	if (zen_judge_my_lock(j->lockers) >= (int) c->mode)
		return true;
	return zen_version_state(j->top) == ZEN_XID_CURRENT && j->top->older != NULL &&
		zen_judge_writer_mode(j->top) >= c->mode;
}

/* ---------- locking: all TIDs of a row ---------- */

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
 * TM_Ok, also if the row is gone with its mover; or TM_BeingModified as zen_judge_forward().
 */
static TM_Result
lock_forward(ZenChange *c, uint64 tidno, TransactionId xid)
{
	for (;;)
	{
		ZenJudged	j;
		Attempt		attempt = NOT_TRIED;
		TM_Result	result;
		uint64		next = 0;
		bool		follow = false,
					held = false;

		CHECK_FOR_INTERRUPTS();
		zen_writeset_reserve(0, 1);
		result = zen_judge_forward(c, tidno, &j);
		if (result == TM_Ok)
		{
			held = zen_judge_my_lock(j.lockers) >= (int) c->mode;
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
	Attempt		attempt = NOT_TRIED;
	TM_Result	result = zen_judge(c, &j, true);
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
	zen_judge_drop_stored();
	return result;
}

void
zen_row_change_abandon(void)
{
	discard_prepared(&in_hand);
	drop_lockers_in_hand();
	zen_judge_drop_stored();
}
