/*
 * twophase.c -- PREPARE TRANSACTION without a log, and the end of prepared transactions.
 *
 * PREPARE reserves everything first (R7).  Then it writes the versions and the lists of row locks, all flushed, and
 * the descriptor, and gives the region over to the table of prepared transactions (prepared.c).
 *
 * COMMIT PREPARED calls no callback of zen.  PostgreSQL's commit record decides.  From then on other processes see the
 * rows, and zen_twophase_resolve() makes the region's watermark follow.  Until it has, the descriptor tells recovery to
 * ask pg_xact.
 */
#include "txn/twophase.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "base/fault.h"
#include "base/locks.h"
#include "cache/spillmap.h"
#include "miscadmin.h"
#include "row/lockers.h"
#include "row/rowmake.h"
#include "storage/procarray.h"
#include "txn/ddl.h"
#include "txn/prepared.h"
#include "txn/spillend.h"

/* ---------- PREPARE ---------- */

void
zen_twophase_prepare(ZenCommit *commit, uint64 full_xid)
{
	ZenWriteSet *ws = &zen_writeset;
	ZenPrepared *p;

	/* R7: everything that can fail comes before the first store */
	zen_commit_reserve(commit, ws);
	p = &zen_prepared[commit->region];
	ZenAssertRegionMine(commit->region);
	Assert(!p->in_use && p->set.writes == NULL && p->set.locks == NULL && p->found == NULL);
	zen_prepared_reserve(p, commit->region);

	/*
	 * also without a version: the descriptor brings locks, and tables created
	 * or dropped, back after a restart
	 */
	zen_commit_store_prepared(commit, ws);
	zen_spillend_restamp(commit->region, commit->cts, ws->blocks, ws->nblocks);
	zen_prepared_write_lists(p, commit->cts);
	zen_commit_doubt(commit, full_xid, ZEN_DOUBT_PREPARED);
	p->full_xid = full_xid;
	p->xid = GetTopTransactionId();
}


void
zen_twophase_undo(ZenCommit *commit)
{
	ZenPrepared *p;

	if (commit->stage == ZEN_STAGE_NONE || zen_prepared[commit->region].in_use)
		return;
	p = &zen_prepared[commit->region];
	if (p->set.writes == NULL && p->set.locks == NULL)
		return;
	ZenAssertRegionMine(commit->region);
	if (commit->stage == ZEN_STAGE_LEASED)
		zen_prepared_free_lists(p); /* intact, and not to be forgotten */
	else
		zen_prepared_scrub_lists(p);
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	zen_prepared_free(p);
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
}

void
zen_twophase_detach(ZenCommit *commit)
{
	ZenPrepared *p = &zen_prepared[commit->region];

	Assert(p->full_xid != 0 && !p->in_use);
	Assert(zen_regions[commit->region].doubt_xid == p->full_xid || ZEN_FAULT(R9_NO_DESCRIPTOR));
	Assert(p->set.nwrites >= zen_writeset.nwrites && p->set.nlocks <= zen_writeset.nlocks);
	p->commit = *commit;
	pg_write_barrier();
	p->in_use = true;
	zen_commit_hand_over(commit);
}


/* ---------- COMMIT PREPARED, ROLLBACK PREPARED ---------- */

/*
 * Rows whose new version is damaged: to read one is an error from now on, as it is after the next recovery.  An older
 * version keeps its slot, in case it is the row's number that is damaged.
 */
static void
place_damaged(ZenPrepared *p)
{
	for (uint32 i = 0; i < p->ndamaged; i++)
	{
		ZenTupleHeader h = zen_tuple_header(p->damaged[i]);
		ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
		uint64		tidno = zen_word1_tidno(h.word1);
		ZenWord    *word = zen_tidmap_word(ht, tidno);
		ZenSpill   *s = zen_spillmap_find(ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK));
		bool		replaces = zen_spillmap_old(s, tidno % ZEN_TIDS_PER_BLOCK) != InvalidZenSlot;
		uint64		w = zen_word_lock(word);
		bool		placed = zen_word_state(w) == ZEN_WORD_SPILLED && zen_word_ref(w) == p->damaged[i];

		if (placed && replaces)
			w = zen_word_stale_inc(w);
		if (placed)
			w = zen_word_with(w, (h.word1 & ZEN_DELETED) ? ZEN_WORD_DEAD : ZEN_WORD_NVM, p->damaged[i]);
		zen_word_unlock(word, w);
		if (!placed)
			continue;
		zen_spillmap_forget(ht, tidno);
		zen_spillmap_trim(ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK), false);
	}
}

/* Commit or abort a prepared transaction, and free its entry. */
static void
finish(ZenPrepared *p, bool committed)
{
	uint64		full_xid = p->full_xid;
	ZenPrepared copy;

	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE));
	Assert(p->in_use && p == &zen_prepared[p->commit.region]);
	Assert(p->commit.stage == ZEN_STAGE_DOUBT && p->found == NULL);
	zen_region_take_over(p->commit.region);

	zen_prepared_scrub_lists(p);
	for (uint32 i = 0; i < p->set.nlocks; i++)
		zen_lockers_release(p->set.locks[i].ht, p->set.locks[i].tidno, p->set.locks[i].xid);

	/*
	 * the region is free for others as soon as commit or abort has released
	 * it: leave its entry before
	 */
	copy = *p;
	memset(p, 0, sizeof(*p));
	if (committed)
	{
		place_damaged(&copy);
		zen_commit_finish(&copy.commit, &copy.set);
	}
	else
	{
		zen_commit_abort(&copy.commit, &copy.set);
		while (copy.set.nwrites > 0)
			zen_pop_version(&copy.set.writes[--copy.set.nwrites]);
	}
	zen_ddl_resolve(full_xid, committed);
	zen_prepared_free(&copy);
}

bool
zen_twophase_resolve(void)
{
	bool		waiting = false;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	if (max_prepared_xacts == 0)
		return false;
	Assert(!LWLockHeldByMe(zen_lock(ZEN_LOCK_RECOVERY)));
	LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenPrepared *p = &zen_prepared[r];

		if (!p->in_use)
			continue;
		if (TransactionIdIsInProgress(p->xid))
			waiting = true;
		else
			finish(p, TransactionIdDidCommit(p->xid));
	}
	LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
	return waiting;
}

void
zen_twophase_init(void)
{
	zen_row_admit_resolve = zen_twophase_resolve;
}
