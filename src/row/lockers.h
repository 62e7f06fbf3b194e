/*
 * lockers.h -- row locks in DRAM.
 *
 * The lockers of a logical tuple hang at its newest version and follow to every new one.  A transaction takes its own
 * entries out when it ends.  A reader of the list passes over entries whose transactions have ended meanwhile.
 */
#ifndef ZEN_LOCKERS_H
#define ZEN_LOCKERS_H

#include "cache/version.h"
#include "storage/lock.h"

/* The heavyweight lock mode that stands for a row lock in LOCKTAG_TUPLE, as for heap. */
extern LOCKMODE zen_lock_mode(LockTupleMode mode);

/* Do two row locks exclude each other? */
extern bool zen_modes_conflict(LockTupleMode a, LockTupleMode b);

/* The row lock that a version's writer holds on the tuple. */
extern LockTupleMode zen_writer_mode(ZenVersion *v);

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
 * If head is not the word's newest version any more, no lockers, and a number that means nothing.
 */
extern uint32 zen_lockers_copy(ZenWord *word, ZenVersion *head, ZenLockerCopy *copy);

/* zen_lockers_conflict -- a running transaction other than this one that excludes mode, or InvalidTransactionId. */
extern TransactionId zen_lockers_conflict(const ZenLockerCopy *copy, LockTupleMode mode);

/*
 * zen_prepared_holder -- a locker of the list that is prepared, or in the course of it; InvalidTransactionId if none.
 *
 * Its lock is in NVM under the row's present TID, so the row must not leave that TID.  Caller is outside any epoch.
 * The function is above this folder: txn/ sets the pointer when shared memory is initialized.
 */
extern TransactionId (*zen_prepared_holder) (const ZenLocker *lockers, uint32 n);

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

/* zen_lockers_mine -- the strongest lock that this transaction holds; false if none. */
extern bool zen_lockers_mine(const ZenLockerCopy *copy, LockTupleMode *mode);

/* Where a lock is that xid has taken under a TID. */
typedef enum ZenLockPlace
{
	ZEN_LOCK_HERE,
	ZEN_LOCK_FORWARD,			/* the row goes on under another TID, if its
								 * mover commits */
	ZEN_LOCK_MOVED,				/* so it does: the mover has committed */
	ZEN_LOCK_GONE				/* not here: what told where to was collected */
} ZenLockPlace;

/*
 * zen_lockers_touch -- make writers that have judged the row judge it again, and tell where xid's lock on it is.
 *
 * ZEN_LOCK_FORWARD and ZEN_LOCK_MOVED set *next, a TID number.  Caller is outside any epoch.
 */
extern ZenLockPlace zen_lockers_touch(ZenHTable *ht, uint64 tidno, TransactionId xid, uint64 *next);

/*
 * zen_lockers_collect -- add all locks that this transaction holds in a table to its write set.
 *
 * Reads the whole map.  Caller is outside any epoch.
 */
extern void zen_lockers_collect(ZenHTable *ht);

/* zen_lockers_release -- take xid's locks on a row out, under all its TIDs.  Outside any epoch; never throws. */
extern void zen_lockers_release(ZenHTable *ht, uint64 tidno, TransactionId xid);

/* zen_lockers_prune -- take the locks of transactions that have ended out.  Outside any epoch. */
extern void zen_lockers_prune(ZenHTable *ht, uint64 tidno);

#endif							/* ZEN_LOCKERS_H */
