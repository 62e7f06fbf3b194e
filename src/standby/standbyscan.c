/*
 * standbyscan.c -- a hot standby: maps from the pool, once.
 *
 * The scan holds the lock, so redo of zen's records stands, and the pool is as one of them has left it.  Like
 * recovery's (recovery/passes.c) it first finds what each region has committed.  Then the newest committed version of
 * each row enters the map.  If the transaction that a region's descriptor names has not ended yet, its versions are
 * pushed on top, under its xid: PostgreSQL's snapshots will say who sees them.  All others were spilled by transactions
 * that redo will name when it tells of their end (zen_standby_decides), or are of some that never commit.
 *
 * Nothing is stored in the pool (S16).
 */
#include "standby/standbyscan.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "cache/tidmap.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/region.h"
#include "nvm/tuple.h"
#include "portability/instr_time.h"
#include "standby/standbycollect.h"
#include "standby/standbyrows.h"
#include "standby/standbystate.h"
#include "storage/proclist.h"
#include "utils/snapmgr.h"

/* What the pool says of a region. */
typedef struct Fate
{
	uint64		committed;		/* R3: up to this Tx-CTS */
	uint64		xid;			/* of the transaction in doubt, and up to
								 * where; */
	uint64		doubt;			/* 0: none */
} Fate;

static Fate fates[ZEN_MAX_REGIONS];
static uint64 rows_found;
static const char *why_no_maps; /* the maps cannot be made; NULL: DRAM is full */

/* Does every snapshot from this one on see the transaction's versions?  pg_xact may say so before, and says less. */
static bool
is_seen_by(Snapshot s, uint64 full_xid)
{
	return !XidInMVCCSnapshot(XidFromFullTransactionId(FullTransactionIdFromU64(full_xid)), s) &&
		zen_standby_committed(full_xid);
}

/* S17: a transaction in doubt that has committed is not newer than others.  They may have superseded its versions. */
static void
read_fates(Snapshot s)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		Fate	   *fate = &fates[r];

		fate->committed = zen_region_replayed(r);
		if (!zen_region_doubt_written(r) || zen_region_doubt_read(r, &fate->xid, &fate->doubt) == ZEN_DOUBT_NONE ||
			fate->doubt <= fate->committed)
			fate->doubt = 0;
		else if (is_seen_by(s, fate->xid) && !ZEN_FAULT(S17_ENDED_ON_TOP))
		{
			fate->committed = fate->doubt;
			fate->doubt = 0;
		}
	}
}

/* ---------- pages ---------- */

/* Of transactions from before the base backup LP tells, as in recovery. */
static bool
scan_commits(uint32 pageno)
{
	Fate	   *fate;

	if (!zen_page_word_fits(pageno, zen_nvm_load64(zen_page_word(pageno))))
	{
		why_no_maps = "an entry of the page directory is damaged";
		return false;
	}
	if (!zen_page_follow(pageno))
		return false;
	if (!zen_pages[pageno].owned)
		return true;
	fate = &fates[zen_pages[pageno].owner.region];
	for (uint32 n = 0; n < zen_pages[pageno].nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		uint64		word0 = zen_tuple_header(slot).word0;

		if ((word0 & ZEN_LP) && (word0 & ZEN_CTS_MASK) > fate->committed && !zen_tuple_is_void(slot) &&
			zen_tuple_intact(slot, zen_slot_size(slot)))
			fate->committed = word0 & ZEN_CTS_MASK;
	}
	return true;
}

/*
 * A committed version enters the map if it is the newest of its row so far.
 *
 * On a copy each committed version is intact, or else damaged.  If a damaged one may be its row's newest, reading the
 * row is an error, as after recovery.  Only a TID far from all others is not believed.
 */
static bool
place_newest(ZenHTable *ht, ZenSlot slot, ZenTupleHeader h)
{
	uint64		tidno = zen_word1_tidno(h.word1);
	ZenWord    *word;
	uint64		w;

	if (!zen_tuple_intact(slot, zen_slot_size(slot)))
	{
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the slot at offset " UINT64_FORMAT " of the zen pool is damaged", slot * ZEN_SLOT_UNIT)));
		zen_page_doubt(zen_slot_page(slot));
		if (tidno / ZEN_TIDS_PER_BLOCK >= zen_tidmap_nblocks(ht) + ZEN_DAMAGED_GAP)
			return true;
	}
	word = zen_tidmap_try_extend(ht, tidno);
	if (word == NULL)
		return false;
	w = pg_atomic_read_u64(word);
	if (zen_word_ref(w) != 0 &&
		(zen_tuple_header(zen_word_ref(w)).word0 & ZEN_CTS_MASK) > (h.word0 & ZEN_CTS_MASK))
		return true;
	pg_atomic_write_u64(word, zen_word_with(0, (h.word1 & ZEN_DELETED) ? ZEN_WORD_DEAD : ZEN_WORD_NVM, slot));
	rows_found++;
	return true;
}

/*
 * A slot of no row.  If it was scrubbed, or never used, nothing is in it.  Else a promotion looks at it: a version of
 * no table, or one that a crash of the primary has cut short.
 */
static void
doubt_rest(ZenSlot slot, ZenTupleHeader h)
{
	if (h.word0 != 0 || (zen_tuple_has_body(slot) && !zen_tuple_is_void(slot)))
		zen_page_doubt(zen_slot_page(slot));
}

/* Do the slots of a page that have committed, or else those in doubt. */
static bool
scan_slots(uint32 pageno, bool in_doubt)
{
	const Fate *fate;

	if (!zen_pages[pageno].owned)
		return true;
	fate = &fates[zen_pages[pageno].owner.region];
	for (uint32 n = 0; n < zen_pages[pageno].nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h = zen_tuple_header(slot);
		uint64		cts = h.word0 & ZEN_CTS_MASK;
		ZenHTable  *ht = zen_standby_owner(h);
		bool		committed = cts <= fate->committed;

		if (ht == NULL || zen_tuple_is_void(slot))
			doubt_rest(slot, h);
		else if (zen_tuple_is_delta(slot))
			zen_page_has_deltas(slot);
		if (ht == NULL || zen_tuple_is_void(slot) || committed == in_doubt)
			continue;
		if (in_doubt && cts > fate->doubt)
		{
			zen_standby->unnamed[zen_pages[pageno].owner.region] = true;
			zen_page_doubt(pageno);
		}
		else if (!(in_doubt ? zen_standby_push_found(slot, fate->xid) : place_newest(ht, slot, h)))
			return false;
	}
	return true;
}

static bool
scan_committed(uint32 pageno)
{
	return scan_slots(pageno, false);
}

static bool
scan_doubts(uint32 pageno)
{
	return scan_slots(pageno, true);
}

static bool
for_pages(bool (*visit) (uint32 pageno))
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_page_is_data(p) && !visit(p))
			return false;
	return true;
}

static bool
list_read_tables(void)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (!zen_htable_follow(i))
			return false;
	return true;
}

/* False: DRAM is full. */
static bool
scan_pool(void)
{
	rows_found = 0;
	memset(zen_standby->unnamed, 0, sizeof(zen_standby->unnamed));
	why_no_maps = NULL;
	if (!list_read_tables())
		return false;
	if (!for_pages(scan_commits) || !for_pages(scan_committed))
		return false;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		zen_standby->proven[r] = fates[r].committed;
	return for_pages(scan_doubts);
}

/* ---------- the whole ---------- */

/*
 * S14: all that the scan takes for committed has left PostgreSQL's list of running transactions by now.  Redo of zen's
 * records stands, so what the regions say holds until the scan ends.
 */
static void
note_snapshot(void)
{
	Snapshot	snapshot;

	StartTransactionCommand();
	snapshot = GetLatestSnapshot();
	zen_standby->since_xmax = snapshot->xmax;
	zen_standby->since_count = snapshot->subxcnt;
	read_fates(snapshot);
	CommitTransactionCommand();
}

static void
scan_under_lock(void)
{
	instr_time	start,
				end;

	INSTR_TIME_SET_CURRENT(start);
	/* an error has ended the last scan: redo has not followed since */
	if (zen_standby_state() == ZEN_STANDBY_SCANNING)
		zen_standby_drop();
	zen_standby_become(ZEN_STANDBY_SCANNING);
	note_snapshot();
	if (!scan_pool())
	{
		ereport(WARNING,
				(errcode(why_no_maps ? ERRCODE_DATA_CORRUPTED : ERRCODE_OUT_OF_MEMORY),
				 errmsg("the zen tables of this standby cannot be read: %s",
						why_no_maps ? why_no_maps : "zen.dram_size is too small")));
		zen_standby_drop();
		zen_standby_become(ZEN_STANDBY_STARVED);
		return;
	}
	zen_standby->scans++;
	zen_standby_become(ZEN_STANDBY_LIVE);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	ereport(LOG,
			(errmsg("zen tables can be read on this standby: " UINT64_FORMAT " versions placed, %.0f ms",
					rows_found, INSTR_TIME_GET_MILLISEC(end))));
}

static bool
may_scan(void)
{
	ZenStandbyState state = zen_standby_state();

	return state != ZEN_STANDBY_LIVE && state != ZEN_STANDBY_ENDED && RecoveryInProgress() &&
		zen_pool_is_replica() && zen_pool_is_copied() && GetXLogReplayRecPtr(NULL) >= zen_standby->mark;
}

bool
zen_standby_try_scan(void)
{
	bool		done;

	if (zen_standby_state() == ZEN_STANDBY_LIVE)
		return true;
	/* not before a reader waits: by then there are older snapshots */
	if (ZEN_FAULT(S14_OLD_SNAPSHOTS) && proclist_is_empty(&zen_standby->changed.wakeup))
		return false;
	LWLockAcquire(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE);
	if (zen_standby_state() == ZEN_STANDBY_OFF)
		zen_standby_become(ZEN_STANDBY_WAITING);
	if (may_scan())
		scan_under_lock();
	done = zen_standby_state() == ZEN_STANDBY_LIVE;
	LWLockRelease(zen_lock(ZEN_LOCK_STANDBY));
	return done;
}
