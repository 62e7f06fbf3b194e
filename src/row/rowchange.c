/*
 * rowchange.c -- update and delete one row.
 *
 * Writing is optimistic.  The row is judged without a lock (rowjudge.c).  Then, under the word's lock and for a few
 * instructions, the word is checked to be what was judged, and the new version is pushed.  If it is not, the row is
 * judged again.
 *
 * - The versions that a change needs are made outside the epoch, once, and kept over the attempts.  They are private to
 *   this process until the word leads to them.  After an error the end of the (sub)transaction frees them.
 * - Aborted versions on top are left out when a new one is pushed; their writer frees them.
 * - Lockers go along: to the new version, and to the new TID if the row takes one.  They are there before any other
 *   process can follow the row, since a locker that comes that way adds to them.
 */
#include "row/rowchange.h"

#include "access/xact.h"
#include "base/ownwal.h"
#include "miscadmin.h"
#include "row/rowmake.h"
#include "row/writeset.h"

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
typedef struct Prepared
{
	ZenVersion *version;		/* new contents, or the tombstone of a delete */
	ZenVersion *tombstone;		/* update to a new TID: stays under the old
								 * one */
	uint64		new_tidno;
	ZenWord    *new_word;		/* NULL: version has no new TID */
} Prepared;

static Prepared in_hand;		/* of the change under way, all zero if none */

static uint32
key_flag(const ZenChange *c)
{
	return c->mode == LockTupleExclusive ? ZEN_V_KEY_UPDATE : 0;
}

static void
prepare(ZenChange *c, Prepared *p)
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
prepare_new_tid(ZenChange *c, Prepared *p)
{
	Assert(p->version != NULL && p->tombstone == NULL && c->tuple != NULL);
	p->tombstone = zen_row_make_version(NULL, c->cid, ZEN_V_TOMBSTONE | ZEN_V_FORWARD | key_flag(c));
	Assert(p->new_word == NULL);
	if (!zen_row_take_tid(c->ht, p->version, &p->new_tidno, &p->new_word))
		zen_tidmap_full_error(c->ht);
	p->version->code = 0;
	p->version->depth = 0;
	p->tombstone->forward_tidno = p->new_tidno;
	/* from here on the end of the transaction finds it in the write set */
	zen_writeset_add(c->ht, p->new_tidno, p->new_word, p->version);
}

static void
discard_prepared(Prepared *p)
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

void
zen_row_change_abandon(void)
{
	discard_prepared(&in_hand);
}

/* ---------- one attempt ---------- */

/* The judged lockers go on under the new TID; false when DRAM is full. */
static bool
copy_lockers(ZenJudged *j, Prepared *p)
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
apply_change(ZenChange *c, ZenJudged *j, Prepared *p)
{
	ZenVersion *v = p->tombstone ? p->tombstone : p->version;
	uint64		w = zen_word_lock(j->word);
	bool		ok = zen_row_judged_still(w, j);

	if (ok)
		w = push_version(w, j, v);
	zen_word_unlock(j->word, w);
	if (!ok)
		return false;
	zen_writeset_add(c->ht, c->tidno, j->word, v);
	c->result_tidno = p->tombstone ? p->new_tidno : c->tidno;
	c->result_code = p->version->code;
	c->indexes_needed = p->tombstone != NULL;
	return true;
}

/* Is the row to go to a new TID? */
static inline bool
moves(ZenChange *c)
{
	return c->new_tid && c->tuple != NULL;
}

/* Inside the epoch: try a change that was judged TM_Ok and is prepared. */
static ZenAttempt
try_change(ZenChange *c, ZenJudged *j, Prepared *p)
{
	ZenAssertInEpoch();
	Assert(j->target == j->top);
	if (!number_version(p->tombstone ? p->tombstone : p->version, j->top))
	{
		/* a code is kept for a tombstone */
		Assert(p->tombstone == NULL && c->tuple != NULL);
		return ZEN_NO_CODE;
	}
	if (p->tombstone && !copy_lockers(j, p))
		return ZEN_NO_DRAM;
	return apply_change(c, j, p) ? ZEN_APPLIED : ZEN_LOST;
}

/* Outside the epoch: make what a change still lacks after an attempt. */
static void
prepare_more(ZenChange *c, Prepared *p, ZenAttempt attempt)
{
	bool		first = p->version == NULL;

	ZenAssertNotInEpoch();
	if (attempt == ZEN_NO_DRAM)
		zen_arena_full_error();
	if (attempt == ZEN_LOST)
		CHECK_FOR_INTERRUPTS();
	if (first)
		prepare(c, p);
	if (attempt == ZEN_NO_CODE || (first && moves(c)))
		prepare_new_tid(c, p);
}

TM_Result
zen_row_change(ZenChange *c)
{
	Prepared   *p = &in_hand;

	ZenAssertNotInEpoch();
	Assert(p->version == NULL && p->tombstone == NULL);
	Assert(c->mode >= LockTupleNoKeyExclusive && (c->tuple != NULL || c->mode == LockTupleExclusive));
	zen_writeset_check_open();
	for (;;)
	{
		ZenJudged	j;
		ZenAttempt	attempt = ZEN_NOT_TRIED;
		TM_Result	result = zen_row_judge_change(c, &j);

		if (result == TM_Ok && p->version != NULL)
			attempt = try_change(c, &j, p);
		zen_epoch_leave();
		if (attempt == ZEN_APPLIED)
		{
			memset(p, 0, sizeof(*p));
			return TM_Ok;
		}
		if (result != TM_Ok)
		{
			discard_prepared(p);
			return result;
		}
		prepare_more(c, p, attempt);
	}
}
