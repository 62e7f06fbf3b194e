/*
 * rowjudge.h -- may a row be updated, deleted or locked?
 *
 * Knows no Relation.
 */
#ifndef ZEN_ROWJUDGE_H
#define ZEN_ROWJUDGE_H

#include "base/fault.h"
#include "cache/version.h"
#include "row/lockers.h"
#include "row/rowread.h"

#include "access/tableam.h"

/* An update, a delete or a lock of the version (tidno, code) that the caller saw. */
typedef struct ZenChange
{
	ZenHTable  *ht;
	uint64		tidno;
	uint32		code;
	CommandId	cid;
	LockTupleMode mode;			/* update: NoKeyExclusive or Exclusive;
								 * delete: Exclusive */
	MinimalTuple tuple;			/* new contents; NULL deletes */
	bool		new_tid;		/* an indexed column changes: the row goes on
								 * under a new TID */
	bool		moved;			/* delete: the row goes to another partition */
	Snapshot	crosscheck;		/* or InvalidSnapshot */
	ZenRow	   *row;			/* lock: NULL, or gets a copy of the version */

	/* results */
	TransactionId wait_xid;		/* with TM_BeingModified: wait for it and try
								 * again */
	TM_FailureData tmfd;		/* with TM_Updated, TM_Deleted,
								 * TM_SelfModified */
	uint64		result_tidno;	/* with TM_Ok after an update: where the row
								 * is now */
	uint32		result_code;
	bool		held_before;	/* with TM_Ok and TM_BeingModified: this
								 * transaction had locked the row before */
	bool		indexes_needed; /* with TM_Ok after an update: it took a new
								 * TID */
	bool		points_out;		/* with TM_Ok after a change: the version that
								 * it replaced may have values out of line */
	bool		copied;			/* with TM_Ok after a lock: row has the copy */
} ZenChange;

/* What was seen of a row without its lock.  The versions are there until the epoch is left. */
typedef struct ZenJudged
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
} ZenJudged;

/*
 * zen_judge -- judge until the answer is definite.  Called outside any epoch; on return inside one, which the caller
 * leaves.
 *
 * TM_BeingModified has a wait_xid.  TM_Ok: the target is the top; of a row to be locked the target may have successors,
 * or be gone.
 */
extern TM_Result zen_judge(ZenChange *c, ZenJudged *j, bool locking);

/*
 * zen_judge_forward -- may the row also be locked under a TID to which it has gone on?  Called outside any epoch; on
 * return inside one.
 *
 * TM_Deleted: it is gone from there.  TM_BeingModified: wait for wait_xid.  If that is invalid, the row is to be judged
 * again from the TID where it was found: a writer under this TID excludes the lock, or the word has changed.
 */
extern TM_Result zen_judge_forward(ZenChange *c, uint64 tidno, ZenJudged *j);

/* zen_judge_my_lock -- the strongest lock that this transaction holds; -1: none. */
extern int	zen_judge_my_lock(const ZenLockerCopy *copy);

/* zen_judge_writer_mode -- the row lock that a version's writer holds on the tuple. */
extern LockTupleMode zen_judge_writer_mode(ZenVersion *v);

/*
 * zen_judge_stored_taken -- the header of a judgement with `stored` is published.
 * zen_judge_drop_stored -- else it is freed, at the end of the change or of the transaction.  Never throws.
 */
extern void zen_judge_stored_taken(void);
extern void zen_judge_drop_stored(void);

/* zen_judged_still -- is the word, of which w is the value under its lock, still as judged? */
static inline bool
zen_judged_still(uint64 w, const ZenJudged *j)
{
	ZenAssertInEpoch();
	ZenAssertWordLocked(j->word);
	if (j->stored)
		return (zen_word_state(w) == ZEN_WORD_NVM && zen_word_ref(w) == j->head->slot) || ZEN_FAULT(STORED_BLIND);
	return zen_word_leads_to(w, j->head) && j->head->lock_seq == j->lock_seq;
}

#endif							/* ZEN_ROWJUDGE_H */
