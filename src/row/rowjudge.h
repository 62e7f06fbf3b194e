/*
 * rowjudge.h -- what may this transaction do with a row?
 *
 * Knows no Relation: waiting for other transactions, triggers, predicate locks are the table layer's.
 *
 * Judging takes no lock and changes nothing.  Its result names what was judged by the newest version and that
 * version's lock_seq.  rowchange.c and rowlock.c apply the change under the word's lock, if zen_row_judged_still()
 * finds both the same.
 *
 * All functions that judge are called outside any epoch and return inside one, which the caller leaves.  They may
 * throw ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROWJUDGE_H
#define ZEN_ROWJUDGE_H

#include "row/lockers.h"

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
} ZenChange;

/* What was seen of a row without its lock.  The versions are there until the epoch is left. */
typedef struct ZenJudged
{
	ZenWord    *word;			/* NULL: there is no row */
	ZenVersion *head;			/* what the word led to */
	uint32		lock_seq;		/* of head */
	ZenVersion *top;			/* newest version that has not aborted */
	ZenVersion *target;			/* the version asked for; NULL: it is gone */
	ZenLockerCopy *lockers;		/* of the row; until this process judges again */
	bool		undoing;		/* what is above top was spilled in part: it
								 * may not be left out, because its slot is
								 * known by it */
} ZenJudged;

/* What came of applying what was judged TM_Ok. */
typedef enum ZenAttempt
{
	ZEN_NOT_TRIED,
	ZEN_APPLIED,
	ZEN_LOST,					/* the word has changed */
	ZEN_NO_CODE,				/* versions still alive have taken all codes */
	ZEN_NO_DRAM,
} ZenAttempt;

/*
 * zen_row_judge_change -- may the row be updated or deleted?  Judges until the answer is definite.
 *
 * TM_BeingModified has a wait_xid.  TM_Ok: the target is the top.
 */
extern TM_Result zen_row_judge_change(ZenChange *c, ZenJudged *j);

/* zen_row_judge_lock -- may the row be locked?  With TM_Ok the target may have successors, or be gone. */
extern TM_Result zen_row_judge_lock(ZenChange *c, ZenJudged *j);

/*
 * zen_row_judge_forward -- may the row also be locked under a TID to which it has gone on?
 *
 * TM_Deleted: it is gone from there.  TM_BeingModified: wait for wait_xid.  If that is invalid, the row is to be judged
 * again from the TID where it was found: a writer under this TID excludes the lock, or the word has changed.
 */
extern TM_Result zen_row_judge_forward(ZenChange *c, uint64 tidno, ZenJudged *j);

/* zen_row_judged_still -- is the word, of which w is the value under its lock, still as judged? */
static inline bool
zen_row_judged_still(uint64 w, const ZenJudged *j)
{
	ZenAssertInEpoch();
	ZenAssertWordLocked(j->word);
	return zen_word_leads_to(w, j->head) && j->head->lock_seq == j->lock_seq;
}

#endif							/* ZEN_ROWJUDGE_H */
