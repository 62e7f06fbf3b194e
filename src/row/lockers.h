/*
 * lockers.h -- row locks in DRAM.
 *
 * The lockers of a logical tuple hang at its newest version and follow to every new one.  A transaction takes its own
 * entries out when it ends.  A reader of the list passes over entries of transactions that have ended.
 */
#ifndef ZEN_LOCKERS_H
#define ZEN_LOCKERS_H

#include "cache/version.h"
#include "storage/lock.h"

/* The heavyweight lock mode that stands for a row lock in LOCKTAG_TUPLE, as for heap. */
extern LOCKMODE zen_lock_mode(LockTupleMode mode);

/*
 * A copy of the lockers, made under the word's lock, to be judged outside it.
 */
typedef struct ZenLockerCopy
{
	ZenLocker  *l;
	uint32		n;
	uint32		capacity;
} ZenLockerCopy;

/*
 * zen_lockers_copy -- copy the lockers of the word's newest version; returns its lock_seq.  May palloc.
 *
 * If head is not the word's newest version any more, the copy has no lockers, and the number means nothing.
 */
extern uint32 zen_lockers_copy(ZenWord *word, ZenVersion *head, ZenLockerCopy *copy);

/* zen_lockers_fill -- write others, and xid with its mode, into a list that no row has. */
extern void zen_lockers_fill(ZenLockers *lockers, const ZenLocker *others, uint32 n, TransactionId xid,
							 LockTupleMode mode);

/* zen_collect_item(), which is above this folder; gc/ sets it when shared memory is initialized. */
extern bool (*zen_lockers_collect) (ZenHTable *ht, uint64 tidno, bool block);

/*
 * zen_lockers_replace -- hang another list, or none, at the newest version of a locked word.
 *
 * Returns the former list, which the caller frees after it has unlocked the word.
 */
static inline ZenLockers *
zen_lockers_replace(ZenWord *word, ZenVersion *head, ZenLockers *lockers)
{
	ZenLockers *former = head->lockers;

	ZenAssertWordLocked(word);
	Assert(lockers == NULL || lockers->n <= lockers->capacity);
	head->lockers = lockers;
	pg_write_barrier();			/* pairs with zen_lockers_copy */
	head->lock_seq++;
	return former;
}

/*
 * zen_lockers_release -- take xid's locks on a row out, under all its TIDs.  Outside any epoch; never throws.
 *
 * A tombstone that has led to the row's present TID, and that was kept for the sake of its lockers, goes with the last.
 */
extern void zen_lockers_release(ZenHTable *ht, uint64 tidno, TransactionId xid);

/* zen_lockers_prune -- take the locks of transactions that have ended out.  Outside any epoch. */
extern void zen_lockers_prune(ZenHTable *ht, uint64 tidno);

#endif							/* ZEN_LOCKERS_H */
