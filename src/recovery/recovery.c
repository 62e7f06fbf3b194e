/*
 * recovery.c -- recovery by one scan (the paper's Algorithm 2): the leader's steps, the orderly stop.
 *
 * src/recovery/README, "Recovery", has the steps, and says why a crash at any point is followed by the same recovery
 * (R10).  The leader does all of them but the passes over the pages, which many processes share (passes.c).  If
 * transactions may have to be logged again (R17), only the background worker can be the leader, since that takes a
 * transaction of its own.
 *
 * The leader and its helpers hold no lease: no process can have one before recovery is over.  Until then the leader may
 * write what later only a lease holder may.
 */
#include "recovery/recovery.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "base/fault.h"
#include "base/guc.h"
#include "cache/tidmap.h"
#include "gc/collect.h"
#include "miscadmin.h"
#include "nvm/filetime.h"
#include "nvm/moment.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/poolopen.h"
#include "nvm/repair.h"
#include "nvm/slotalloc.h"
#include "portability/instr_time.h"
#include "recovery/keptmap.h"
#include "recovery/passes.h"
#include "recovery/runmap.h"
#include "recovery/syncer.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "stream/streamsink.h"
#include "stream/streamxids.h"
#include "txn/prepared.h"
#include "utils/timestamp.h"

#define LATE_PAGES		1024	/* a table with so many pages of its own is
								 * mapped after the others; 64 MB */
#define PROGRESS_MS		10000	/* between two lines in the log */

ZenRecovery *zen_recovery;

/* ---------- phases and states ---------- */

static const char *const recovery_phases[] = {
	[ZEN_DOING_NOTHING] = "waiting for WAL replay",
	[ZEN_DOING_DIRECTORIES] = "reading directories",
	[ZEN_DOING_LOADING] = "loading the saved map",
	[ZEN_DOING_COMMITS] = "finding commits",
	[ZEN_DOING_MAPS] = "building maps",
	[ZEN_DOING_LATE] = "building maps of large tables",
	[ZEN_DOING_SETTLING] = "settling tables",
	[ZEN_DOING_READY] = "ready",
};

StaticAssertDecl(lengthof(recovery_phases) == ZEN_DOING_NPHASES, "each phase has a name");

const char *
zen_recovery_phase_name(void)
{
	return recovery_phases[zen_recovery->phase];
}

#ifdef USE_ASSERT_CHECKING

/* Which phases may come after one: bits 1 << ZEN_DOING_*. */
static const uint32 next_phases[] = {
	[ZEN_DOING_NOTHING] = 1 << ZEN_DOING_DIRECTORIES,
	[ZEN_DOING_DIRECTORIES] = 1 << ZEN_DOING_LOADING | 1 << ZEN_DOING_COMMITS,
	[ZEN_DOING_LOADING] = 1 << ZEN_DOING_COMMITS | 1 << ZEN_DOING_SETTLING,
	[ZEN_DOING_COMMITS] = 1 << ZEN_DOING_MAPS,
	[ZEN_DOING_MAPS] = 1 << ZEN_DOING_LATE | 1 << ZEN_DOING_SETTLING,
	[ZEN_DOING_LATE] = 1 << ZEN_DOING_SETTLING,
	[ZEN_DOING_SETTLING] = 1 << ZEN_DOING_READY,
	[ZEN_DOING_READY] = 0,
};

#endif

static void
begin_phase(ZenRecoveryPhase phase)
{
	ZenAssertRecoveryLeader();
	Assert(next_phases[zen_recovery->phase] & (1 << phase));
	/* no participant is at work on the pages of the last phase */
	Assert(zen_recovery_pass() == ZEN_PASS_NONE);
	zen_recovery->phase = phase;
	pg_atomic_write_u32(&zen_recovery->pages_done, 0);
}

/* Leader: recovery has ended. */
static void
set_state(ZenRecoveryState state)
{
	ZenAssertRecoveryLeader();
	Assert(state == ZEN_RECOVERY_FAILED || (state == ZEN_RECOVERY_READY && zen_recovery->phase == ZEN_DOING_READY));
	pg_write_barrier();
	pg_atomic_write_u32(&zen_recovery->state, state);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Leader: now and then, log the progress. */
static void
report_progress(void)
{
	static TimestampTz last = 0;
	static int	phase = ZEN_DOING_NOTHING;
	TimestampTz now = GetCurrentTimestamp();

	if (phase != (int) zen_recovery->phase)
	{
		phase = zen_recovery->phase;
		last = now;
	}
	if (!TimestampDifferenceExceeds(last, now, PROGRESS_MS))
		return;
	last = now;
	ereport(LOG,
			(errmsg("zen recovery is %s: %u of %u pages, %u processes", zen_recovery_phase_name(),
					pg_atomic_read_u32(&zen_recovery->pages_done), zen_recovery->pages_total,
					pg_atomic_read_u32(&zen_recovery->processes))));
}

/* Leader: a pass over all pages, and wait for its end. */
static void
run_pass(ZenRecoveryPass pass, ZenRecoveryPhase phase, uint32 nhelpers)
{
	begin_phase(phase);
	zen_passes_begin(pass, nhelpers);
	zen_passes_end(pass, report_progress);
}

/* ---------- shared memory ---------- */

static void
recovery_shmem_init(void)
{
	bool		found;

	zen_recovery = ShmemInitStruct("zen recovery", sizeof(ZenRecovery), &found);
	memset(zen_recovery, 0, sizeof(ZenRecovery));
	pg_atomic_init_u32(&zen_recovery->state, ZEN_RECOVERY_NEEDED);
	pg_atomic_init_u32(&zen_recovery->open, 0);
	pg_atomic_init_u64(&zen_recovery->work, 0);
	pg_atomic_init_u32(&zen_recovery->pages_done, 0);
	pg_atomic_init_u32(&zen_recovery->pieces_done, 0);
	pg_atomic_init_u32(&zen_recovery->bad_pieces, 0);
	pg_atomic_init_u32(&zen_recovery->failed, 0);
	pg_atomic_init_u32(&zen_recovery->processes, 0);
	pg_atomic_init_u64(&zen_recovery->rows, 0);
	pg_atomic_init_u64(&zen_recovery->losers, 0);
	pg_atomic_init_u64(&zen_recovery->damaged, 0);
	pg_atomic_init_u64(&zen_recovery->repaired, 0);
	pg_atomic_init_u64(&zen_recovery->largest_cts, 0);
	pg_atomic_init_u64(&zen_recovery->index_us, 0);
	pg_atomic_init_u32(&zen_recovery->rebuilt_in_use, 0);
	SpinLockInit(&zen_recovery->lock);
	ConditionVariableInit(&zen_recovery->changed);
	zen_recovery->after_crash = !zen_pool.was_clean;
	zen_recovery->phase = ZEN_DOING_NOTHING;
}

const ZenShmem zen_recovery_shmem = {.bytes = sizeof(ZenRecovery),.init = recovery_shmem_init};

/* ---------- transactions in doubt ---------- */

/*
 * R19: at once, since recovery may fail now, and be repeated when pg_xact has forgotten the xid.  After a clean stop
 * the descriptor is that of a transaction that was prepared, and the saved map must not fit any more.
 */
static void
forget_undone(uint32 region, ZenRegionFate *fate, uint64 cts)
{
	fate->undone_cts = cts;
	if (zen_recovery->after_crash && !ZEN_FAULT(R19_UNDONE_STAYS))
		zen_region_doubt_clear(region);
}

/* R3: read the watermark and the in-doubt descriptor of each region, and decide what it has committed. */
static void
read_doubts(void)
{
	uint64		largest = 0;

	ZenAssertRecoveryLeader();
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenRegionFate *fate = &zen_recovery->fates[r];
		uint64		xid,
					cts;
		uint32		kind = zen_region_doubt_read(r, &xid, &cts);

		fate->ts_commit = ZEN_FAULT(R3_IGNORE_WATERMARK) ? 0 : zen_region_committed(r, zen_recovery->cts_limit);
		Assert(pg_atomic_read_u32(&zen_regions[r].leased) == 0 && fate->ts_commit <= zen_recovery->cts_limit);
		zen_regions[r].doubt_kind = ZEN_DOUBT_NONE;
		/* redo leaves a descriptor where the watermark has taken over */
		if (kind == ZEN_DOUBT_NONE || (kind == ZEN_DOUBT_COMMIT && cts <= fate->ts_commit))
			continue;
		zen_regions[r].doubt_xid = xid;
		zen_regions[r].doubt_cts = cts;
		if (cts <= zen_recovery->cts_limit)
			largest = Max(largest, cts);
		if (zen_xids_in_progress(xid))
		{
			zen_regions[r].doubt_kind = ZEN_DOUBT_PREPARED;
			zen_regions[r].doubt_end = ZEN_LONG_FLUSHED;
			fate->prepared_cts = cts;
		}
		else if (ZEN_FAULT(R3_IGNORE_DESCRIPTOR))
			continue;
		else if (zen_xids_committed(xid))
			fate->ts_commit = Max(fate->ts_commit, cts);
		else
			forget_undone(r, fate, cts);
	}
	pg_atomic_write_u64(&zen_recovery->largest_cts, largest);
}

/* ---------- pages ---------- */

/* Make the DRAM half of all pages.  Returns how many have an owner. */
static uint32
adopt_pages(void)
{
	uint32		owned = 0;

	ZenAssertRecoveryLeader();
	zen_recovery->pages_total = zen_pool_count_pages();
	/* from the last to the first: that is the order of the free lists */
	for (uint32 n = zen_recovery->pages_total; n > 0; n--)
	{
		uint32		run;
		uint32		p = zen_page_nth(n - 1, &run);

		if (!zen_page_is_data(p) || !zen_page_adopt(p))
			continue;
		if (!zen_pages[p].lost)
			owned++;
		else
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("entry %u of the zen page directory is damaged", p),
					 errdetail("Rows on this page are not available."),
					 errhint("Restore the pool from a backup of the same moment as the data directory.")));
	}
	return owned;
}

/* ---------- tables ---------- */

/* How much a table has taken of shared pages.  A table that has pages of its own needs no count. */
static void
count_bytes(ZenHTable *ht, ZenSlot slot)
{
	if (zen_pages[zen_slot_page(slot)].owner.htable == 0)
		ht->bytes_taken += zen_slot_size(slot);
	else
		ht->bytes_taken = Max(ht->bytes_taken, ZEN_PRIVATE_BYTES);
}

/*
 * Turn tombstones (DEAD so far) and words that nothing has touched into words without a row; returns true if the block
 * has an UNUSED word.
 */
static bool
settle_block(ZenHTable *ht, uint32 block, uint64 absent)
{
	bool		has_unused = false;
	uint32		rows = 0;
	ZenWord    *words = zen_tidmap_word(ht, (uint64) block * ZEN_TIDS_PER_BLOCK);

	for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		uint64		w = pg_atomic_read_u64(&words[i]);
		ZenSlot		slot = zen_word_ref(w);

		if (zen_word_state(w) == ZEN_WORD_NVM)
		{
			rows++;
			count_bytes(ht, slot);
			continue;
		}
		/* a tombstone, or no version at all */
		Assert(zen_word_state(w) == ZEN_WORD_DEAD || slot == InvalidZenSlot);
		if (slot != InvalidZenSlot && (w & ZEN_WORD_STALE) == 0)
		{
			zen_slot_free(slot);
			slot = InvalidZenSlot;
		}
		if (slot != InvalidZenSlot)
			count_bytes(ht, slot);
		pg_atomic_write_u64(&words[i], zen_word_with(w, absent, slot));
		has_unused |= absent == ZEN_WORD_UNUSED;
	}
	pg_atomic_fetch_add_u64(&zen_recovery->rows, rows);
	return has_unused;
}

/* A table's indexes are lost: it waits for new ones.  Durable on return. */
static void
lose_indexes(ZenHTable *ht)
{
	zen_htable_set_flag(ht, ZEN_HTF_REINDEX, true);
	pg_atomic_write_u32(&ht->reindex, 1);
}

/* Before the table is open: if it has indexes in DRAM, it waits for them. */
static void
need_trees(ZenHTable *ht)
{
	if (zen_htable_flag(ht, ZEN_HTF_TREES))
		pg_atomic_write_u32(&ht->reindex, 1);
}

/*
 * After a clean stop indexes are intact, stale entries included: a TID without a row is DEAD until VACUUM.
 * After a crash indexes are rebuilt from the rows, so such a TID stands in none: UNUSED.
 */
static void
settle_table(ZenHTable *ht)
{
	uint64		saved = 0;
	bool		trust_indexes = !zen_recovery->after_crash && pg_atomic_read_u32(&ht->reindex) == 0 &&
	zen_htable_saved_blocks(ht, &saved);
	uint32		nblocks;
	uint32	   *unused;
	uint32		n = 0;

	ZenAssertRecoveryLeader();
	Assert(ht->in_use && !zen_recovery_is_open(ht));
	if (trust_indexes && saved > 0)
		zen_tidmap_extend(ht, saved * ZEN_TIDS_PER_BLOCK - 1);
	nblocks = (uint32) zen_tidmap_nblocks(ht);
	need_trees(ht);
	if (nblocks == 0)
	{
		if (!trust_indexes)
			lose_indexes(ht);
		return;
	}
	unused = palloc_extended((Size) nblocks * sizeof(uint32), MCXT_ALLOC_HUGE);
	for (uint32 b = 0; b < nblocks; b++)
		if (settle_block(ht, b, trust_indexes ? ZEN_WORD_DEAD : ZEN_WORD_UNUSED))
			unused[n++] = b;
	/* blocks are taken from the end of the list: low ones first */
	for (uint32 i = 0; i < n / 2; i++)
	{
		uint32		swap = unused[i];

		unused[i] = unused[n - 1 - i];
		unused[n - 1 - i] = swap;
	}
	zen_tidmap_set_free_blocks(ht, unused, n);
	pfree(unused);
	if (!trust_indexes)
		lose_indexes(ht);
}

/* ---------- regions ---------- */

static void
settle_regions(void)
{
	ZenAssertRecoveryLeader();
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		zen_regions[r].last_cts = zen_recovery->fates[r].ts_commit;

		/* R14: a watermark is believed, even if a flipped bit has raised it */
		zen_recovery_raise(&zen_recovery->largest_cts, zen_regions[r].last_cts);
		zen_regions[r].anchor = zen_recovery->fates[r].anchor;
		if (ZEN_FAULT(R10_DESCRIPTOR_FIRST) && zen_recovery->fates[r].prepared_cts == 0 && zen_region_doubt_written(r))
			zen_region_doubt_clear(r);
		if (!ZEN_FAULT(R13_NO_WATERMARK_AT_RECOVERY))
			zen_region_persist_watermark(r);	/* R13 */
		if (zen_recovery->fates[r].prepared_cts == 0 && zen_region_doubt_written(r))
			zen_region_doubt_clear(r);
	}
}

/*
 * Pages of tables that are gone, and empty ones, are condemned; the others go to their contexts.  Returns the list of
 * the former.
 */
static uint32
condemn_pages(void)
{
	uint32		list = ZEN_NO_PAGE;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		ZenPage    *page = &zen_pages[p];

		if (!page->owned || page->lost || zen_htables[page->owner.htable].damaged)
			continue;
		if ((page->owner.htable != 0 && !zen_htables[page->owner.htable].in_use) ||
			pg_atomic_read_u32(&page->nfree) == page->nslots)
		{
			zen_page_condemn(p);
			page->next = list;
			list = p;
		}
		else
			zen_slotalloc_adopt_page(p);
	}
	return list;
}

/* ---------- the whole ---------- */

/* R3: all pages of the region were seen. */
static void
raise_ts_commit(uint32 region, ZenRegionFate *fate)
{
	if (ZEN_FAULT(R10_WATERMARK_TOO_HIGH) && region < zen_nregions)
	{
		zen_regions[region].last_cts = pg_atomic_read_u64(&zen_recovery->largest_cts);
		zen_region_persist_watermark(region);
	}
	Assert(fate->anchor_cts <= zen_recovery->cts_limit && (fate->anchor_cts != 0) == (fate->anchor != InvalidZenSlot));
	if (fate->anchor_cts <= fate->ts_commit || ZEN_FAULT(R3_DECIDE_EARLY))
		return;
	if (!zen_recovery->after_crash)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the watermark of zen region %u was damaged", region),
				 errdetail("It was found again from the rows.")));
	else if (!zen_tuple_intact(fate->anchor, zen_slot_size(fate->anchor)))
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the slot that proves the newest commit of zen region %u may be damaged", region),
				 errdetail("It lies at offset " UINT64_FORMAT " of the pool, and is believed.",
						   fate->anchor * ZEN_SLOT_UNIT)));
	fate->ts_commit = fate->anchor_cts;
}

/* The page directory.  Returns the number of pages with an owner. */
static uint32
read_pages(void)
{
	uint32		owned = adopt_pages();

	pg_atomic_fetch_add_u64(&zen_recovery->repaired, zen_repairs);

	/* R10: what was read is durable before anything is built on it */
	if (zen_recovery->after_crash && !ZEN_FAULT(R10_NO_FLUSH_OF_BELIEVED))
		zen_page_persist_directories();
	return owned;
}

/* First pass: what was committed. */
static void
find_commits(uint32 owned, const char *why_not_loaded)
{
	if (zen_recovery->told == NULL && why_not_loaded != NULL && zen_save_map && owned > 0)
		ereport(LOG,
				(zen_recovery->after_crash ?
				 errmsg("zen scans its pool, as the map saved while it ran cannot be used: %s", why_not_loaded) :
				 errmsg("zen scans its pool, as the map saved at the last stop cannot be used: %s", why_not_loaded)));
	run_pass(ZEN_PASS_COMMITS, ZEN_DOING_COMMITS, Min(zen_recovery_workers, owned / ZEN_CHUNK_PAGES));
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		raise_ts_commit(r, &zen_recovery->fates[r]);
}

/*
 * Find the large tables, which are mapped after the others.  Returns false if no process may read before all is done:
 *
 *	- there is no such table; or
 *	- prepared transactions have yet to lay their versions over the rows; or
 *	- a page may belong to any table.
 */
static bool
find_late_tables(void)
{
	uint32	   *npages = palloc0(ZEN_MAX_HTABLES * sizeof(uint32));
	bool		found = false,
				sound = true;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
		{
			sound &= !zen_pages[p].lost;
			npages[zen_pages[p].owner.htable]++;
		}
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		sound &= zen_recovery->fates[r].prepared_cts == 0;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		zen_htables[i].late = sound && npages[i] >= LATE_PAGES;
		found |= zen_htables[i].late;
	}
	pfree(npages);
	return found && sound;
}

static void
settle_tables(bool late)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && zen_htables[i].late == late)
			settle_table(&zen_htables[i]);
}

/* A damaged slot so far may belong to any table: then no table may be read before it is known to which. */
static bool
is_suspect(void)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned && zen_pages[p].suspect)
			return true;
	return false;
}

/* Tables that are not late are in their final state for readers, but not yet for writers. */
static void
open_tables(void)
{
	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE && pg_atomic_read_u32(&zen_recovery->open) == 0);
	settle_tables(false);
	pg_write_barrier();
	pg_atomic_write_u32(&zen_recovery->open, 1);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* A step that may set flipped bits right, and says what is damaged. */
static void
count_repairs_of(void (*step) (bool (*count_damaged) (void)))
{
	uint32		repairs = zen_repairs;

	step(zen_passes_count_damaged);
	pg_atomic_fetch_add_u64(&zen_recovery->repaired, zen_repairs - repairs);
}

/* Second pass, and what becomes of damaged slots. */
static void
build_maps(void)
{
	bool		have_late = zen_recovery->told == NULL && find_late_tables();
	bool		opened = false;

	run_pass(ZEN_PASS_MAPS, ZEN_DOING_MAPS, 0);
	if (have_late)
	{
		opened = !is_suspect();
		if (opened)
			open_tables();
		run_pass(ZEN_PASS_LATE, ZEN_DOING_LATE, 0);
	}
	begin_phase(ZEN_DOING_SETTLING);
	zen_passes_damaged();
	zen_passes_bases();
	/* before the tombstones go that nothing else needs */
	count_repairs_of(zen_prepared_keep_links);
	settle_tables(true);
	if (!opened)
		settle_tables(false);
}

/*
 * Begin to load the saved map: the helpers read its words while the leader reads the page directory.  NULL if there is
 * none.
 */
static ZenSavedMap *
begin_load(ZenSavedMap *map, const char **why)
{
	if (map == NULL)
		return NULL;
	*why = zen_savedmap_begin(map);
	if (*why != NULL)
		return NULL;
	begin_phase(ZEN_DOING_LOADING);
	zen_passes_begin(ZEN_PASS_LOAD, Min(zen_recovery_workers, zen_recovery->npieces / ZEN_CHUNK_PAGES));
	return map;
}

/* False: the pool must be scanned, and nothing has changed. */
static bool
end_load(ZenSavedMap *map, const char **why)
{
	if (map == NULL)
		return false;
	zen_passes_end(ZEN_PASS_LOAD, report_progress);
	*why = zen_savedmap_finish(map);
	if (*why != NULL)
		return false;

	/* what was saved is settled already, if the indexes are to be trusted */
	begin_phase(ZEN_DOING_SETTLING);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && pg_atomic_read_u32(&zen_htables[i].reindex) != 0)
			settle_table(&zen_htables[i]);
		else if (zen_htables[i].in_use)
			need_trees(&zen_htables[i]);
	return true;
}

/* Load the map that was saved while the server ran, if there is one.  Returns it if it was loaded. */
static ZenRunMap *
load_running(ZenRunMap *map)
{
	if (map == NULL)
		return NULL;
	zen_runmap_begin(map);
	run_pass(ZEN_PASS_LOAD, ZEN_DOING_LOADING, Min(zen_recovery_workers, zen_recovery->npieces / ZEN_CHUNK_PAGES));
	if (zen_runmap_end(map))
		return map;
	zen_runmap_close(map);
	return NULL;
}

/* Regions, transactions and pages, once the maps are there. */
static void
settle_pool(void)
{
	settle_regions();
	zen_cts_restart(pg_atomic_read_u64(&zen_recovery->largest_cts));
	Assert(zen_cts_now() >= pg_atomic_read_u64(&zen_recovery->largest_cts));	/* R14 */
	count_repairs_of(zen_prepared_restore);

	/*
	 * stale headers on these pages are no evidence: their newer versions were
	 * counted without them
	 */
	zen_slotalloc_give_back(condemn_pages(), zen_collect_forget_header);
}

/*
 * What writers find: regions that only prepared transactions have leased, and pages whose free slots are counted.
 */
static void
check_pool(void)
{
#ifdef USE_ASSERT_CHECKING
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenRegion  *region = &zen_regions[r];

		Assert((pg_atomic_read_u32(&region->leased) != 0) == (region->doubt_kind == ZEN_DOUBT_PREPARED));

		/* R13, but for faults: a watermark says exactly what is committed */
		Assert(region->watermark == region->last_cts || ZEN_FAULT(R3_IGNORE_WATERMARK) ||
			   ZEN_FAULT(R10_WATERMARK_TOO_HIGH) || ZEN_FAULT(R13_NO_WATERMARK_AT_RECOVERY));
	}
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		Assert(!zen_pages[p].owned || zen_page_count_free(p) == pg_atomic_read_u32(&zen_pages[p].nfree));
#endif
}

static void
report_ready(const char *scanned)
{
	ereport(LOG,
			(errmsg("zen is ready: " UINT64_FORMAT " rows in %u pages, " UINT64_FORMAT
					" slots of unfinished transactions cleared; %.0f ms (%s %.0f ms, map %.0f ms) by %u processes",
					pg_atomic_read_u64(&zen_recovery->rows), zen_recovery->pages_total,
					pg_atomic_read_u64(&zen_recovery->losers), zen_recovery->total_ms,
					scanned, zen_recovery->scan_ms,
					zen_recovery->map_ms, pg_atomic_read_u32(&zen_recovery->processes))));
	if (pg_atomic_read_u64(&zen_recovery->damaged) > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg(UINT64_FORMAT " rows or slots of the zen pool are damaged",
						pg_atomic_read_u64(&zen_recovery->damaged))));
}

/*
 * Has a copy all changes up to the end of replay, and none from behind it?  The answer is noted: if the rest of
 * recovery fails, the next start finds no end of replay, or the end of its own WAL.
 */
static void
check_copy(void)
{
	if (!zen_pool_is_replica() || zen_pool_is_judged())
		return;
	if (!zen_pool_is_copied() && zen_pool_has_tables())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the zen pool is a copy that has not followed its primary server to the end"),
				 errdetail("zen.stream was not \"replica\" there any more, or this server was recovered to an earlier "
						   "place than the pool."),
				 errhint("Use the primary server, or a base backup that was taken with zen.stream = replica.")));
	if (zen_pool_replayed() > GetXLogReplayRecPtr(NULL))
	{
		zen_pool_set_copied(false);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the zen pool is ahead of this server"),
				 zen_nvm_mode() == ZEN_POOL_WAL ?
				 errdetail("It may have changes of the write-ahead log up to %X/%X, as a server leaves it that was not "
						   "stopped in order, and recovery has ended at %X/%X.",
						   LSN_FORMAT_ARGS(zen_pool_replayed()), LSN_FORMAT_ARGS(GetXLogReplayRecPtr(NULL))) :
				 errdetail("It has followed the write-ahead log to %X/%X before, and recovery has ended at %X/%X.",
						   LSN_FORMAT_ARGS(zen_pool_replayed()), LSN_FORMAT_ARGS(GetXLogReplayRecPtr(NULL))),
				 errhint("To recover to an earlier place, begin with the base backup.")));
	}
	zen_pool_judge();
}

/* The whole of recovery, as the leader runs it: from the saved map if there is one, else by the two passes. */
static void
recover(ZenKeptMaps *kept)
{
	instr_time	start;
	ZenSavedMap *map = NULL;
	ZenRunMap  *running;
	const char *why = NULL,
			   *why_not_running = NULL,
			   *how;
	uint32		owned;
	bool		loaded;

	INSTR_TIME_SET_CURRENT(start);
	if (ZEN_FAULT(R17_SLOWLY) || ZEN_FAULT(R17_NO_LOST_XID))
		pg_usleep(1000000L);	/* heap transactions get xids during the sleep */
	begin_phase(ZEN_DOING_DIRECTORIES);
	check_copy();
	if (!zen_recovery->after_crash)
		map = zen_savedmap_open(&why);
	running = kept != NULL ? NULL : zen_runmap_open(&why_not_running);
	zen_recovery->cts_limit = zen_cts_limit();
	zen_htable_recover(zen_xids_committed, zen_xids_in_progress);
	read_doubts();
	if (kept != NULL)
		zen_keptmap_begin(kept);
	if (ZEN_FAULT(R19_RECOVERY_FAILS) || ZEN_FAULT(R19_UNDONE_STAYS))
		elog(ERROR, "zen.fault: recovery fails here");
	map = begin_load(map, &why);
	owned = read_pages();
	zen_recovery->scan_ms = zen_savedmap_ms(start);
	loaded = end_load(map, &why);
	running = zen_runmap_settle(loaded || zen_recovery->after_crash ? running : NULL);
	if (kept != NULL && !zen_keptmap_take(kept))
		kept = NULL;
	if (!loaded)
	{
		running = load_running(running);
		find_commits(owned, zen_recovery->after_crash ? why_not_running : why);
		zen_recovery->scan_ms = zen_savedmap_ms(start);
	}

	/* R18: copies get the tail before what it has superseded goes */
	zen_streamsink_committed(loaded ? NULL : zen_passes_tail);
	if (!loaded)
		build_maps();
	zen_runmap_check();
	settle_pool();
	check_pool();
	how = loaded ? "directories" : running != NULL || kept != NULL ? "changes" : "scan";
	zen_runmap_close(running);
	zen_streamsink_recovered();
	zen_savedmap_remove();
	pg_atomic_fetch_add_u64(&zen_recovery->damaged, zen_damages);
	zen_recovery->total_ms = zen_savedmap_ms(start);
	zen_recovery->map_ms = zen_recovery->total_ms - zen_recovery->scan_ms;
	begin_phase(ZEN_DOING_READY);
	report_ready(how);
}

void
zen_recovery_lead(void)
{
	Assert(zen_recovery->phase == ZEN_DOING_NOTHING && zen_recovery_pass() == ZEN_PASS_NONE);
	zen_recovery->leader = MyProcPid;
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		recover(zen_standby_promote(zen_recovery->after_crash && zen_save_map));
	}
	PG_CATCH();
	{
		set_state(ZEN_RECOVERY_FAILED);
		PG_RE_THROW();
	}
	PG_END_TRY();
	zen_syncer_await();
	RESUME_INTERRUPTS();
	set_state(ZEN_RECOVERY_READY);
}

/* ---------- the stop ---------- */

/* PostgreSQL has written its shutdown checkpoint, and no other process is left. */
static void
stop_in_order(void)
{
	uint32		state = pg_atomic_read_u32(&zen_recovery->state);

	if (state != ZEN_RECOVERY_READY)
	{
		/* no process has recovered it: it is as the last stop has left it */
		zen_pool_stopped(state == ZEN_RECOVERY_NEEDED && zen_pool.was_clean);
		return;
	}
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
			zen_htable_save_blocks(&zen_htables[i], zen_tidmap_nblocks(&zen_htables[i]));
	/* a commit that found no room in its own region may have taken any region */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		zen_region_persist_watermark(r);
	zen_page_unprepare();

	/*
	 * what was lazy is whole by now; the next start says the same, and the
	 * map must fit what it finds
	 */
	zen_pool_make_primary();
	zen_pool_stopped(true);
	zen_savedmap_write();
}

void
zen_recovery_shutdown(void)
{
	ZenClusterFacts facts;

	Assert(!IsUnderPostmaster);
	if (zen_pool.scratch)
		zen_adopt_server_stops();
	if (zen_pool.base == NULL || zen_pool.scratch || zen_recovery == NULL)
		return;
	facts = zen_cluster_facts();
	if (facts.shut_down)
		stop_in_order();
	else if (facts.stopped)
		zen_pool_stopped(false);
	zen_filetime_raise();
}
