/*
 * lockers.c -- lists of lockers.
 *
 * Lists are short (bounded by the transactions that run at once), so they are arrays searched in order.  They are in
 * DRAM only: a crash ends the transactions that they name, and a prepared transaction keeps its locks in NVM as well.
 * There each stands under the TID where it was taken.  Tombstones lead on from it: one with lockers is not collected.
 *
 * - A list is read and changed under the word's lock.  Every change raises lock_seq, so that a writer that has judged
 *   the row judges it again.
 * - A transaction's own entries are taken out when it ends.  The collector's sweep takes out those that were left
 *   behind (zen_lockers_prune).
 * - A version that has left its word may be retired: then its memory holds something else in place of the list.  So the
 *   list counts only if the locked word leads to the version.
 */
#include "row/lockers.h"

#include "access/xact.h"
#include "cache/clock.h"
#include "row/visibility.h"
#include "row/writeset.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

bool		(*zen_lockers_collect) (ZenHTable *ht, uint64 tidno, bool block) = NULL;

LOCKMODE
zen_lock_mode(LockTupleMode mode)
{
	static const LOCKMODE modes[] = {
		[LockTupleKeyShare] = AccessShareLock,
		[LockTupleShare] = RowShareLock,
		[LockTupleNoKeyExclusive] = ExclusiveLock,
		[LockTupleExclusive] = AccessExclusiveLock
	};

	Assert((int) mode < lengthof(modes));
	return modes[mode];
}

uint32
zen_lockers_copy(ZenWord *word, ZenVersion *head, ZenLockerCopy *copy)
{
	ZenAssertInEpoch();
	ZenAssertNoWordLocked();
	copy->n = 0;
	for (;;)
	{
		uint64		w;
		uint32		seq,
					needed = 0;

		if (head->lockers == NULL)
		{
			/*
			 * a list that appears after this look raises lock_seq, which the
			 * caller compares under the lock
			 */
			seq = head->lock_seq;
			pg_read_barrier();
			if (head->lockers == NULL)
				return seq;
		}
		w = zen_word_lock(word);
		seq = head->lock_seq;

		/*
		 * a version that the word has left may be retired, and hold something
		 * else there
		 */
		if (zen_word_leads_to(w, head) && head->lockers != NULL)
		{
			needed = head->lockers->n;
			Assert(needed <= head->lockers->capacity);
			if (needed <= copy->capacity)
			{
				memcpy(copy->l, head->lockers->l, needed * sizeof(ZenLocker));
				copy->n = needed;
			}
		}
		zen_word_unlock(word, w);
		if (needed <= copy->capacity)
			return seq;
		copy->l = copy->l ? repalloc(copy->l, 2 * needed * sizeof(ZenLocker)) :
			MemoryContextAlloc(TopMemoryContext, 2 * needed * sizeof(ZenLocker));
		copy->capacity = 2 * needed;
	}
}

/*
 * Copy the lockers that a row has at one moment, even if they move to a newer version during the copy.  Inside an
 * epoch.
 */
static void
copy_present(ZenWord *word, ZenLockerCopy *copy)
{
	ZenAssertInEpoch();
	for (;;)
	{
		uint64		w = zen_word_read(word);
		uint64		again;
		uint32		seq;

		copy->n = 0;
		if (zen_word_state(w) != ZEN_WORD_ENTRY)
			return;
		seq = zen_lockers_copy(word, zen_word_entry(w), copy);
		pg_read_barrier();
		if (zen_word_entry(w)->lock_seq != seq)
			continue;
		pg_read_barrier();

		/*
		 * If the word still leads there, what was read was this row's.  Under
		 * the lock the list may be on its way to another version.
		 */
		again = zen_word_read(word);
		if (zen_word_same(again, w) && !(again & ZEN_WORD_LOCK))
			return;
	}
}

void
zen_lockers_fill(ZenLockers *lockers, const ZenLocker *others, uint32 n, TransactionId xid, LockTupleMode mode)
{
	Assert(n < lockers->capacity);
	if (n > 0)
		memcpy(lockers->l, others, n * sizeof(ZenLocker));
	lockers->l[n].xid = xid;
	lockers->l[n].mode = mode;
	lockers->n = n + 1;
}

/* Take xid out of a locked row's list.  Returns the list if it is empty now, and was taken off the row. */
static ZenLockers *
remove_locker(ZenLockedEntry *e, TransactionId xid)
{
	ZenLockers *lockers = e->head->lockers;

	ZenAssertWordLocked(e->word);
	if (lockers == NULL)
		return NULL;
	for (uint32 i = 0; i < lockers->n;)
	{
		if (lockers->l[i].xid == xid)
			lockers->l[i] = lockers->l[--lockers->n];
		else
			i++;
	}
	e->head->lock_seq++;
	if (lockers->n > 0)
		return NULL;
	e->head->lockers = NULL;
	return lockers;
}

/* Is a tombstone without lockers one that the collector has kept for lockers? */
static bool
was_kept(ZenVersion *head)
{
	return (zen_version_flags(head) & (ZEN_V_FORWARD | ZEN_V_FROZEN)) == (ZEN_V_FORWARD | ZEN_V_FROZEN) &&
		head->older == NULL && head->lockers == NULL;
}

/* Take xid out of one TID's list; true: the row went on under *forward. */
static bool
release_one(ZenHTable *ht, uint64 tidno, TransactionId xid, uint64 *forward)
{
	ZenLockedEntry e;
	ZenVersion *ended = NULL;
	ZenLockers *empty = NULL;
	bool		evictable = false,
				kept = false,
				follow = false;

	zen_epoch_enter();
	if (zen_entry_lock(ht, tidno, &e))
	{
		empty = remove_locker(&e, xid);
		kept = empty != NULL && was_kept(e.head);
		if (zen_version_flags(e.head) & ZEN_V_FORWARD)
		{
			*forward = e.head->forward_tidno;
			follow = true;
		}
		if (empty != NULL && zen_version_is_needless(e.head))
		{
			ended = e.head;
			e.w = zen_word_with(e.w, ZEN_WORD_NVM, ended->slot);
		}
		else if (empty != NULL)
			evictable = zen_version_mark_lone(e.head);
		zen_entry_unlock(&e);
	}
	zen_epoch_leave();
	if (evictable)
		zen_clock_enqueue(ht, tidno);
	if (ended != NULL)
		zen_version_retire(ended);
	if (empty != NULL)
		zen_version_lockers_free(empty);
	if (kept)
		(void) zen_lockers_collect(ht, tidno, false);
	return follow;
}

void
zen_lockers_release(ZenHTable *ht, uint64 tidno, TransactionId xid)
{
	ZenAssertNotInEpoch();
	Assert(TransactionIdIsNormal(xid));
	for (uint64 next = tidno; release_one(ht, tidno, xid, &next); tidno = next)
		Assert(next != tidno);
}

void
zen_lockers_prune(ZenHTable *ht, uint64 tidno)
{
	static ZenLockerCopy copy;
	ZenWord    *word;

	copy.n = 0;
	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	if (word != NULL)
		copy_present(word, &copy);
	zen_epoch_leave();
	/* an xid that has ended never comes back, so no lock is needed until then */
	for (uint32 i = 0; i < copy.n; i++)
		if (!TransactionIdIsCurrentTransactionId(copy.l[i].xid) && !TransactionIdIsInProgress(copy.l[i].xid))
			zen_lockers_release(ht, tidno, copy.l[i].xid);
}
