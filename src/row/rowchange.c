/*
 * rowchange.c -- update, delete and lock one row.
 *
 * Writing is optimistic.  Outside the word's lock the newest version, its lockers and the fate of their transactions are
 * judged (this may read pg_xact and wait for LWLocks); then, under the lock bit and for a few instructions, the word
 * is checked to be what was judged, and the change is applied; else everything is judged again.  What was judged
 * is named by (newest version, its lock_seq): both can only be the same if nobody pushed, popped or locked.
 *
 * Aborted versions on top are left out when a new one is pushed; their writer frees them.
 */
#include "row/rowchange.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "row/lockers.h"
#include "row/rowadmit.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "row/writeset.h"
#include "storage/procarray.h"

/* ---------- judging ---------- */

/* What was seen of a tuple outside the lock. */
typedef struct Judged
{
	ZenWord    *word;
	ZenVersion *head;			/* what the word led to */
	uint32		lock_seq;		/* of head */
	ZenVersion *top;			/* newest version that has not aborted */
	ZenVersion *target;			/* the version asked for */
	bool		undoing;		/* what is above it was spilled in part: it
								 * may not be left out, because its slot is
								 * known by it */
} Judged;

/* Look at the head; false if there are aborted versions that have to go first. */
static bool
judge_head(Judged *j)
{
	j->top = zen_top_version(j->head);
	j->undoing = false;
	/* what was top may have been made lean meanwhile */
	for (ZenVersion *v = j->head; v != j->top && v != NULL; v = v->older)
		j->undoing |= (zen_version_flags(v) & ZEN_V_SPILLED) != 0;
	return !j->undoing;
}

static ZenLockerCopy lockers_copy;	/* reused; valid until the next judge() */

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
	}
	failure(c, c->tidno, v->code, successor->xmin, InvalidCommandId);
	if (!(zen_version_flags(v) & ZEN_V_TOMBSTONE))
		return TM_Updated;
	if (zen_version_flags(v) & ZEN_V_FORWARD)
	{
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

/* Does the lock exclude what the writer of v has done to the row?  *wait_xid: the writer, if it may still undo it. */
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
 * The oldest version under a TID to which a row has gone: is it what the tombstone just passed has put there?  If its writer has
 * spilled it and moved the row on before it committed, a tombstone is all that is left.
 */
static inline bool
came_by_move(ZenVersion *v)
{
	return v->older == NULL && (zen_version_flags(v) & ZEN_V_TOMBSTONE) == 0;
}

/*
 * A lock that does not exclude plain updates (FOR KEY SHARE) passes over newer versions as long as none of them changed
 * the key or deleted the row, also where the row has gone on under other TIDs; it hangs at the newest one like any
 * other.
 */
static bool
passes_newer(ZenChange *c, Judged *j)
{
	ZenVersion *top = j->top;

	/* by its code: the target may have been made lean meanwhile */
	for (ZenVersion *v = j->head; v != NULL && (j->target == NULL || v->code != j->target->code); v = v->older)
		if (excludes(c, v))
			return false;
	while (top != NULL && (zen_version_flags(top) & ZEN_V_FORWARD))
	{
		ZenWord    *word = zen_tidmap_word(c->ht, top->forward_tidno);
		ZenSpilledChain space;
		uint64		w;
		ZenVersion *head = word ? zen_word_chain(c->ht, top->forward_tidno, word, &w, &space) : NULL;

		if (head == NULL)
			break;

		for (ZenVersion *v = head; v != NULL && !came_by_move(v); v = v->older)
			if (excludes(c, v))
				return false;
		top = zen_top_version(head);
	}
	return true;
}

/* Judge a lock whose target has a successor by another transaction. */
static TM_Result
judge_lock(ZenChange *c, Judged *j, ZenVersion *s)
{
	if (passes_newer(c, j))
		c->wait_xid = zen_lockers_conflict(&lockers_copy, c->mode);
	else if (!TransactionIdIsValid(c->wait_xid))
		return updated(c, j, s);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}

/* Judge a target that has a successor. */
static TM_Result
judge_successor(ZenChange *c, Judged *j, ZenVersion *s, bool locking)
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

/*
 * Judge what the change meets, inside an epoch.  TM_BeingModified with an invalid wait_xid: look again.
 */
static TM_Result
judge(ZenChange *c, uint64 w, Judged *j, bool locking)
{
	ZenVersion *successor;
	ZenXidState state;
	LockTupleMode mine;

	memset(&c->tmfd, 0, sizeof(c->tmfd));
	c->wait_xid = InvalidTransactionId;
	j->head = zen_word_entry(w);
	j->lock_seq = zen_lockers_copy(j->word, j->head, &lockers_copy);
	if (zen_word_ref(zen_word_read(j->word)) != zen_word_ref(w) || !judge_head(j))
		return TM_BeingModified;
	c->held_before = zen_lockers_mine(&lockers_copy, &mine);
	j->target = zen_find_version(j->head, c->code, &successor);
	if (j->top == NULL)
		return TM_Invisible;
	if (j->target == NULL)
	{
		/* the version is gone: whatever is newest has superseded it */
		return zen_version_state(j->top) == ZEN_XID_IN_PROGRESS ?
			judge_successor(c, j, j->top, locking) : updated(c, j, j->top);
	}
	if (successor != NULL)
		return judge_successor(c, j, successor, locking);

	/* top has aborted, or was made lean, between two looks: judge again */
	if (j->target != j->top)
		return TM_BeingModified;

	state = zen_version_state(j->target);
	if (state == ZEN_XID_IN_PROGRESS || state == ZEN_XID_ABORTED ||
		(zen_version_flags(j->target) & ZEN_V_TOMBSTONE) ||
		(state == ZEN_XID_CURRENT && j->target->cmin >= c->cid))
	{
		failure(c, c->tidno, c->code, j->target->xmin, j->target->cmin);
		return TM_Invisible;
	}
	c->wait_xid = zen_lockers_conflict(&lockers_copy, c->mode);
	if (TransactionIdIsValid(c->wait_xid))
		return TM_BeingModified;
	if (c->crosscheck != InvalidSnapshot &&
		zen_visible_version(j->head, c->crosscheck, &successor) != j->target)
	{
		failure(c, c->tidno, c->code, InvalidTransactionId, InvalidCommandId);
		return TM_Updated;
	}
	return TM_Ok;
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

/*
 * Judge until the answer is definite: TM_BeingModified has its wait_xid.  The caller is inside an epoch afterwards and has
 * to leave it.
 */
static TM_Result
enter_and_judge(ZenChange *c, Judged *j, bool locking)
{
	for (;;)
	{
		uint64		w;

		j->undoing = false;
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
			zen_wait_for_undo();
	}
}

/* Under the lock: is the word still as judged? */
static inline bool
still(uint64 w, Judged *j)
{
	return zen_word_leads_to(w, j->head) && j->head->lock_seq == j->lock_seq;
}

/* ---------- updating and deleting ---------- */

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
	return true;
}

/* Push v over the judged versions; under the word's lock. */
static uint64
push_version(uint64 w, Judged *j, ZenVersion *v)
{
	v->older = j->top;
	v->lockers = j->head->lockers;
	v->lock_seq = j->head->lock_seq + 1;
	j->head->lockers = NULL;
	j->head->lock_seq++;
	zen_version_pass_clock(j->head, v);
	return zen_word_with_entry(w, v);
}

/* The versions that an update needs, made once and kept over retries. */
typedef struct Prepared
{
	ZenVersion *version;		/* new contents, or the tombstone of a delete */
	ZenVersion *tombstone;		/* update to a new TID: stays under the old
								 * one */
	uint64		new_tidno;
	ZenWord    *new_word;
} Prepared;

/*
 * What a change or a lock under way has made and nobody else knows: an error leaves it here, and the end of the
 * (sub)transaction frees it.
 */
static Prepared in_hand;
static ZenLockers *lockers_in_hand;

static void
prepare(ZenChange *c, Prepared *p)
{
	uint32		key = c->mode == LockTupleExclusive ? ZEN_V_KEY_UPDATE : 0;

	(void) GetCurrentTransactionId();
	zen_writeset_reserve(2, 0);
	if (c->tuple == NULL)
		p->version = zen_row_make_version(NULL, c->cid, ZEN_V_TOMBSTONE | key | (c->moved ? ZEN_V_MOVED : 0));
	else
		p->version = zen_row_make_version(c->tuple, c->cid, key);
}

/* The row goes to a new TID: reserve it and make the tombstone that forwards there. */
static void
prepare_new_tid(ZenChange *c, Prepared *p)
{
	uint32		key = c->mode == LockTupleExclusive ? ZEN_V_KEY_UPDATE : 0;

	p->tombstone = zen_row_make_version(NULL, c->cid, ZEN_V_TOMBSTONE | ZEN_V_FORWARD | key);
	if (!zen_row_take_tid(c->ht, p->version, &p->new_tidno, &p->new_word))
	{
		zen_version_free(p->tombstone);
		p->tombstone = NULL;
		zen_tidmap_full_error(c->ht);
	}
	p->version->code = 0;
	p->version->depth = 0;
	p->tombstone->forward_tidno = p->new_tidno;
	/* from here on the abort callback knows about it */
	zen_writeset_add(c->ht, p->new_tidno, p->new_word, p->version);
}

static void
discard_prepared(Prepared *p)
{
	if (p->tombstone)
	{
		/*
		 * the row under the new TID was never anyone's: let commit or abort
		 * pop it
		 */
		zen_version_set(p->version, ZEN_V_ABORTED);
		zen_version_free(p->tombstone);
	}
	else if (p->version)
		zen_version_free(p->version);
	memset(p, 0, sizeof(*p));
}

void
zen_row_change_abandon(void)
{
	discard_prepared(&in_hand);
	if (lockers_in_hand != NULL)
		zen_lockers_free(lockers_in_hand);
	lockers_in_hand = NULL;
}

/*
 * The judged lockers go on under the new TID; false when DRAM is full.  They are there before anybody can follow the row:
 * whoever does adds to them.
 */
static bool
copy_lockers(Prepared *p)
{
	ZenLockers *lockers = NULL,
			   *old;
	uint64		w;

	if (lockers_copy.n == 0 && p->version->lockers == NULL)
		return true;
	if (lockers_copy.n > 0)
	{
		lockers = zen_lockers_alloc(lockers_copy.n);
		if (lockers == NULL)
			return false;
		memcpy(lockers->l, lockers_copy.l, lockers_copy.n * sizeof(ZenLocker));
		lockers->n = lockers_copy.n;
	}
	w = zen_word_lock(p->new_word);
	old = p->version->lockers;
	p->version->lockers = lockers;
	pg_write_barrier();			/* pairs with zen_lockers_copy */
	p->version->lock_seq++;
	zen_word_unlock(p->new_word, w);
	if (old != NULL)
		zen_lockers_free(old);	/* of an attempt that was lost */
	return true;
}

/* Apply an update or delete that was judged TM_Ok; false if the word has changed. */
static bool
apply_change(ZenChange *c, Judged *j, Prepared *p)
{
	ZenVersion *v = p->tombstone ? p->tombstone : p->version;
	uint64		w = zen_word_lock(j->word);
	bool		ok = still(w, j);

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

/* Does the row go to a new TID? */
static inline bool
moves(ZenChange *c, Prepared *p)
{
	return p->tombstone != NULL || (c->new_tid && c->tuple != NULL);
}

typedef enum Attempt
{
	NOT_TRIED,
	APPLIED,
	LOST,						/* the word has changed */
	NO_CODE,					/* versions still alive have taken all codes */
	NO_DRAM,
} Attempt;

/* Inside the epoch: try what was judged TM_Ok and is prepared. */
static Attempt
try_change(ZenChange *c, Judged *j, Prepared *p)
{
	if (!number_version(p->tombstone ? p->tombstone : p->version, j->top))
	{
		/* a tombstone always finds a code */
		Assert(p->tombstone == NULL && c->tuple != NULL);
		return NO_CODE;
	}
	if (p->tombstone && !copy_lockers(p))
		return NO_DRAM;
	return apply_change(c, j, p) ? APPLIED : LOST;
}

/* What a change still lacks after an attempt, outside the epoch. */
static void
prepare_more(ZenChange *c, Prepared *p, Attempt attempt)
{
	bool		first = p->version == NULL;

	if (attempt == NO_DRAM)
		zen_arena_full_error();
	if (attempt == LOST)
		CHECK_FOR_INTERRUPTS();
	if (first)
		prepare(c, p);
	if (attempt == NO_CODE || (first && moves(c, p)))
		prepare_new_tid(c, p);
}

TM_Result
zen_row_change(ZenChange *c)
{
	Prepared   *p = &in_hand;
	bool		asked = false;	/* at asked_seq: nobody prepared has locked
								 * the row */
	uint32		asked_seq = 0;

	Assert(p->version == NULL && p->tombstone == NULL);
	zen_writeset_check_open();
	for (;;)
	{
		Judged		j;
		Attempt		attempt = NOT_TRIED;
		TM_Result	result = enter_and_judge(c, &j, false);
		bool		ask = result == TM_Ok && moves(c, p) && lockers_copy.n > 0 &&
		!(asked && asked_seq == j.lock_seq);

		if (result == TM_Ok && p->version != NULL && !ask)
			attempt = try_change(c, &j, p);
		zen_epoch_leave();
		if (attempt == APPLIED)
		{
			memset(p, 0, sizeof(*p));
			return TM_Ok;
		}
		if (ask)
		{
			/*
			 * a prepared transaction's lock is in NVM under this TID: the row
			 * stays until it ends
			 */
			c->wait_xid = zen_prepared_holder(lockers_copy.l, lockers_copy.n);
			if (TransactionIdIsValid(c->wait_xid))
				result = TM_BeingModified;
			asked = true;
			asked_seq = j.lock_seq;
		}
		if (result != TM_Ok)
		{
			discard_prepared(p);
			return result;
		}
		prepare_more(c, p, attempt);
	}
}

/* ---------- locking ---------- */

/* Write the list (live lockers of the copy, and mine) into lockers. */
static void
fill_lockers(ZenLockers *lockers, TransactionId xid, LockTupleMode mode)
{
	lockers->n = 0;
	for (uint32 i = 0; i < lockers_copy.n; i++)
		lockers->l[lockers->n++] = lockers_copy.l[i];
	lockers->l[lockers->n].xid = xid;
	lockers->l[lockers->n].mode = mode;
	lockers->n++;
}

/* Leave out of the copy those whose transactions have ended. */
static void
prune_copy(void)
{
	uint32		n = 0;

	for (uint32 i = 0; i < lockers_copy.n; i++)
		if (TransactionIdIsCurrentTransactionId(lockers_copy.l[i].xid) ||
			TransactionIdIsInProgress(lockers_copy.l[i].xid))
			lockers_copy.l[n++] = lockers_copy.l[i];
	lockers_copy.n = n;
}

/* Hang a new list at the judged newest version; false if the word has changed. */
static bool
apply_lock(Judged *j, ZenLockers *lockers)
{
	uint64		w = zen_word_lock(j->word);
	bool		ok = still(w, j);
	ZenLockers *old = NULL;

	if (ok)
	{
		old = j->head->lockers;
		j->head->lockers = lockers;
		pg_write_barrier();		/* pairs with zen_lockers_copy */
		j->head->lock_seq++;
	}
	zen_word_unlock(j->word, w);
	if (old != NULL)
		zen_lockers_free(old);
	return ok;
}

/*
 * Does this transaction hold the row as strongly already?  A row that it has inserted is locked nevertheless, so that a
 * later update shows, as heap does, that the row was locked before.
 */
static bool
held_already(ZenChange *c, Judged *j)
{
	LockTupleMode mine;

	if (zen_lockers_mine(&lockers_copy, &mine) && mine >= c->mode)
		return true;
	return zen_version_state(j->top) == ZEN_XID_CURRENT && j->top->older != NULL &&
		zen_writer_mode(j->top) >= c->mode;
}

/* Have a list in hand with room for the copy and one more; false when DRAM is full. */
static bool
take_lockers_in_hand(void)
{
	if (lockers_in_hand != NULL && lockers_in_hand->capacity < lockers_copy.n + 1)
	{
		zen_lockers_free(lockers_in_hand);
		lockers_in_hand = NULL;
	}
	if (lockers_in_hand == NULL)
		lockers_in_hand = zen_lockers_alloc(lockers_copy.n + 1);
	return lockers_in_hand != NULL;
}

/* Inside the epoch: lock what was judged free to be locked. */
static Attempt
try_lock(Judged *j, TransactionId xid, LockTupleMode mode)
{
	prune_copy();
	if (!take_lockers_in_hand())
		return NO_DRAM;
	fill_lockers(lockers_in_hand, xid, mode);
	return apply_lock(j, lockers_in_hand) ? APPLIED : LOST;
}

/* After try_lock(), outside the epoch: true if the row under this TID is locked now. */
static bool
note_lock(ZenChange *c, Attempt attempt, uint64 tidno, TransactionId xid)
{
	if (attempt == NO_DRAM)
		zen_arena_full_error();
	if (attempt != APPLIED)
		return false;
	lockers_in_hand = NULL;
	zen_writeset_add_lock(c->ht, tidno, xid, c->mode);
	return true;
}

/*
 * The row goes on under this TID: may it be locked there, too?  As judge(), but what excludes the lock is left to the next
 * judge() of the TID where the row was found: TM_BeingModified with an invalid wait_xid.
 */
static TM_Result
judge_forward(ZenChange *c, uint64 w, Judged *j)
{
	c->wait_xid = InvalidTransactionId;
	j->head = zen_word_entry(w);
	j->lock_seq = zen_lockers_copy(j->word, j->head, &lockers_copy);
	if (zen_word_ref(zen_word_read(j->word)) != zen_word_ref(w) || !judge_head(j))
		return TM_BeingModified;
	for (ZenVersion *v = j->head; v != NULL && !came_by_move(v); v = v->older)
		if (excludes(c, v))
			return TM_BeingModified;
	c->wait_xid = zen_lockers_conflict(&lockers_copy, c->mode);
	return TransactionIdIsValid(c->wait_xid) ? TM_BeingModified : TM_Ok;
}

/*
 * The row has gone on under another TID, which its locker's snapshot does not see, and perhaps under more.  Nobody who
 * moved it excludes the lock, so it is locked there as well: who comes that way shall meet the lock, and the lock those who
 * have come that way.  TM_Ok or, as judge(), TM_BeingModified.
 */
static TM_Result
lock_forward(ZenChange *c, uint64 tidno, TransactionId xid)
{
	for (;;)
	{
		ZenWord    *word = entry_word(c->ht, tidno);
		Judged		j = {.word = word};
		Attempt		attempt = NOT_TRIED;
		TM_Result	result = TM_BeingModified;
		LockTupleMode mine;
		uint64		w,
					next = 0;
		bool		follow = false,
					held = false;

		if (word == NULL)
			return TM_Ok;		/* the row is gone, with whoever moved it */
		CHECK_FOR_INTERRUPTS();
		zen_writeset_reserve(0, 1);
		zen_epoch_enter();
		w = zen_word_read(word);
		if (zen_word_state(w) == ZEN_WORD_ENTRY)
			result = judge_forward(c, w, &j);
		if (result == TM_Ok)
		{
			held = zen_lockers_mine(&lockers_copy, &mine) && mine >= c->mode;
			if (!held)
				attempt = try_lock(&j, xid, c->mode);
			follow = j.top != NULL && (zen_version_flags(j.top) & ZEN_V_FORWARD) != 0;
			next = follow ? j.top->forward_tidno : 0;
		}
		zen_epoch_leave();
		if (j.undoing)
			zen_wait_for_undo();
		if (result != TM_Ok)
			return result;
		if (!held && !note_lock(c, attempt, tidno, xid))
			continue;
		if (!follow)
			return TM_Ok;
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
		if (!held)
			attempt = try_lock(&j, xid, c->mode);
		follow = (zen_version_flags(j.top) & ZEN_V_FORWARD) != 0;
		next = j.top->forward_tidno;
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
	TransactionId xid = GetCurrentTransactionId();
	TM_Result	result;

	Assert(lockers_in_hand == NULL);
	do
	{
		CHECK_FOR_INTERRUPTS();
		zen_writeset_reserve(0, 1);
		result = lock_once(c, xid);
	} while (result == TM_BeingModified && !TransactionIdIsValid(c->wait_xid));
	if (lockers_in_hand != NULL)
		zen_lockers_free(lockers_in_hand);
	lockers_in_hand = NULL;
	return result;
}
