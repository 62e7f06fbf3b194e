/*
 * recovery.c -- recovery by one scan (the paper's Algorithm 2, with R3 to R5, R10, R13, R14).
 *
 *	1. HTable directory and in-doubt regions: pg_xact says what became of them.
 *	2. First pass over all slots: per region the largest Tx-CTS with LP (R3); the largest of all (R14); every line
 *	   read is flushed (R10), since after a process crash the caches may hold what the medium does not.
 *	3. Second pass: losers are scrubbed (R7); of each tuple the newest committed version enters the map; older ones are
 *	   counted as stale (R5) and their slots are free.
 *	4. Tombstones: no row; kept as long as stale copies exist (R5).
 *	5. Watermarks (R13), after which pages may change hands; prepared transactions come back; pages without an
 *	   owner and empty pages go to the pool.
 *
 * After an orderly stop 2 to 4 are left out if the map saved then can be loaded (mapsave.c).  Else large tables come last in 3, and
 * the others can be read before.
 *
 * All of it only reads, scrubs losers, and writes what is true already, so a crash at any point is followed by the
 * same recovery (R10).
 *
 * The first process that comes is the leader; it does everything but 2 and 3, which it shares with background
 * workers and with everyone who waits for the engine.  Pages are taken in chunks from a shared counter.  A chunk
 * that was taken is finished: interrupts are held, and an error in it ends the whole recovery.  A pass is over when all
 * its pages are counted as done, so nobody need be there, and anybody may come and go between chunks.
 */
#include "recovery/recovery.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "base/bgworker.h"
#include "base/fault.h"
#include "cache/tidmap.h"
#include "gc/collect.h"
#include "miscadmin.h"
#include "nvm/adopt.h"
#include "nvm/persist.h"
#include "nvm/repair.h"
#include "nvm/slotalloc.h"
#include "portability/instr_time.h"
#include "recovery/mapsave.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "txn/prepared.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define CHUNK_PAGES		16		/* pages taken at a time: about a millisecond */
#define LATE_PAGES		1024	/* a table with so many pages of its own is
								 * mapped after the others; 64 MB */
#define PROGRESS_MS		10000	/* between two lines in the log */

Size
zen_recovery_shmem_size(void)
{
	return sizeof(ZenRecovery);
}

void
zen_recovery_init(void)
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
	zen_recovery->phase = "waiting for WAL replay";
}

/* ---------- pg_xact ---------- */

static bool
full_xid_in_progress(uint64 full_xid)
{
	return TransactionIdIsInProgress(XidFromFullTransactionId(FullTransactionIdFromU64(full_xid)));
}

static bool
full_xid_committed(uint64 full_xid)
{
	FullTransactionId fxid = FullTransactionIdFromU64(full_xid);

	return FullTransactionIdPrecedes(fxid, ReadNextFullTransactionId()) &&
		TransactionIdDidCommit(XidFromFullTransactionId(fxid));
}

static void
read_doubts(void)
{
	uint64		largest = 0;

	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		ZenRegionFate *fate = &zen_recovery->fates[r];
		uint64		xid,
					cts;
		uint32		kind = zen_region_doubt_read(r, &xid, &cts);

		fate->ts_commit = ZEN_FAULT(R3_IGNORE_WATERMARK) ? 0 : zen_region_committed(r, zen_recovery->cts_limit);
		zen_regions[r].doubt_kind = ZEN_DOUBT_NONE;
		if (kind == ZEN_DOUBT_NONE)
			continue;
		zen_regions[r].doubt_xid = xid;
		zen_regions[r].doubt_cts = cts;
		if (cts <= zen_recovery->cts_limit)
			largest = Max(largest, cts);
		if (full_xid_in_progress(xid))
		{
			zen_regions[r].doubt_kind = ZEN_DOUBT_PREPARED;
			fate->prepared_cts = cts;
		}
		else if (ZEN_FAULT(R3_IGNORE_DESCRIPTOR))
			continue;
		else if (full_xid_committed(xid))
			fate->ts_commit = Max(fate->ts_commit, cts);
		else
			fate->undone_cts = cts;
	}
	pg_atomic_write_u64(&zen_recovery->largest_cts, largest);
}

/* ---------- pages ---------- */

static void
begin_phase(const char *phase)
{
	zen_recovery->phase = phase;
	pg_atomic_write_u32(&zen_recovery->pages_done, 0);
}

/* Make the DRAM half of all pages.  Returns how many have an owner. */
static uint32
adopt_pages(void)
{
	uint32		owned = 0;

	zen_recovery->pages_total = zen_pool.npages - zen_pool.first_data_page;
	for (uint32 p = zen_pool.npages - 1; p >= zen_pool.first_data_page; p--)
	{
		ZenPageOwner owner;
		bool		sane;

		if (!zen_page_directory_read(p, &owner, &sane))
			zen_page_adopt_free(p);
		else if (sane)
		{
			zen_page_adopt(p, owner);
			owned++;
		}
		else
		{
			zen_page_adopt_lost(p);
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("entry %u of the zen page directory is damaged", p),
					 errdetail("Rows on this page are not available."),
					 errhint("Restore the pool from a backup of the same moment as the data directory.")));
		}
	}
	return owned;
}

/* ---------- work for many ---------- */

static uint32
nchunks(ZenRecoveryPass pass)
{
	return pass == ZEN_PASS_LOAD ? zen_recovery->npieces :
		(zen_recovery->pages_total + CHUNK_PAGES - 1) / CHUNK_PAGES;
}

static bool
pass_is_done(ZenRecoveryPass pass)
{
	return pass == ZEN_PASS_LOAD ? pg_atomic_read_u32(&zen_recovery->pieces_done) >= zen_recovery->npieces :
		pg_atomic_read_u32(&zen_recovery->pages_done) >= zen_recovery->pages_total;
}

/* Take a chunk of the pass under way; false if there is none left. */
static bool
take_chunk(ZenRecoveryPass *pass, uint32 *chunk)
{
	uint64		work = pg_atomic_read_u64(&zen_recovery->work);

	/* looked at before, so that the counter cannot run over into the pass */
	*pass = (ZenRecoveryPass) (work >> 32);
	if (*pass == ZEN_PASS_NONE || (uint32) work >= nchunks(*pass) || pg_atomic_read_u32(&zen_recovery->failed))
		return false;
	work = pg_atomic_fetch_add_u64(&zen_recovery->work, 1);
	*pass = (ZenRecoveryPass) (work >> 32);
	*chunk = (uint32) work;
	return *pass != ZEN_PASS_NONE && *chunk < nchunks(*pass);
}

static void
do_chunk(ZenRecoveryPass pass, uint32 chunk)
{
	uint32		first = zen_pool.first_data_page + chunk * CHUNK_PAGES;
	uint32		n = Min(CHUNK_PAGES, zen_pool.npages - first);

	if (pass == ZEN_PASS_LOAD)
	{
		zen_savedmap_load(chunk);
		if (pg_atomic_add_fetch_u32(&zen_recovery->pieces_done, 1) == zen_recovery->npieces)
			ConditionVariableBroadcast(&zen_recovery->changed);
		return;
	}
	for (uint32 p = first; p < first + n; p++)
	{
		if (!zen_pages[p].owned || zen_pages[p].lost ||
			(pass != ZEN_PASS_COMMITS && (pass == ZEN_PASS_LATE) != zen_htables[zen_pages[p].owner.htable].late))
			continue;
		if (pass == ZEN_PASS_COMMITS)
			zen_passes_commits(p);
		else
			zen_passes_maps(p);
	}

	/*
	 * R10: what this process has flushed is durable before its pages count as
	 * done; nobody else can fence it
	 */
	zen_fence();
	zen_nvm_let_go(zen_page_ptr(first), (Size) n * ZEN_PAGE_SIZE);
	if (pg_atomic_add_fetch_u32(&zen_recovery->pages_done, n) == zen_recovery->pages_total)
		ConditionVariableBroadcast(&zen_recovery->changed);
}

/* A chunk that was taken will not be done. */
static void
fail(int code, Datum arg)
{
	pg_atomic_write_u32(&zen_recovery->failed, 1);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Do one chunk, if there is one. */
static bool
take_part(void)
{
	static bool counted = false;
	ZenRecoveryPass pass;
	uint32		chunk;
	bool		taken;

	/* nothing may come between taking a chunk and doing it */
	HOLD_INTERRUPTS();
	taken = take_chunk(&pass, &chunk);
	if (taken)
	{
		if (!counted)
			pg_atomic_fetch_add_u32(&zen_recovery->processes, 1);
		counted = true;
		PG_ENSURE_ERROR_CLEANUP(fail, (Datum) 0);
		{
			do_chunk(pass, chunk);
		}
		PG_END_ENSURE_ERROR_CLEANUP(fail, (Datum) 0);
	}
	RESUME_INTERRUPTS();
	return taken;
}

/* Leader: start up to n background workers to take part, as slots for them allow. */
static void
start_helpers(uint32 n)
{
	BackgroundWorker worker;

	zen_bgworker_describe(&worker, "zen recovery", "zen_recovery_worker_main", (Datum) 0, BGW_NEVER_RESTART);
	while (n > 0 && RegisterDynamicBackgroundWorker(&worker, NULL))
		n--;
}

/* Leader: tell the log how far we are, now and then. */
static void
report_progress(TimestampTz *last)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(*last, now, PROGRESS_MS))
		return;
	*last = now;
	ereport(LOG,
			(errmsg("zen recovery is %s: %u of %u pages, %u processes", zen_recovery->phase,
					pg_atomic_read_u32(&zen_recovery->pages_done), zen_recovery->pages_total,
					pg_atomic_read_u32(&zen_recovery->processes))));
}

/* Leader: a pass over all pages, or pieces, begins. */
static void
begin_pass(ZenRecoveryPass pass, const char *phase)
{
	begin_phase(phase);
	/* what the leader has found is seen by whoever takes a chunk */
	pg_write_barrier();
	pg_atomic_write_u64(&zen_recovery->work, (uint64) pass << 32);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Leader: take part, and wait until the pass is done. */
static void
end_pass(ZenRecoveryPass pass)
{
	TimestampTz last = GetCurrentTimestamp();

	while (take_part())
		report_progress(&last);

	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (!pass_is_done(pass) && !pg_atomic_read_u32(&zen_recovery->failed))
	{
		ConditionVariableTimedSleep(&zen_recovery->changed, PROGRESS_MS, PG_WAIT_EXTENSION);
		report_progress(&last);
	}
	ConditionVariableCancelSleep();
	pg_atomic_write_u64(&zen_recovery->work, (uint64) ZEN_PASS_NONE << 32);
	if (pg_atomic_read_u32(&zen_recovery->failed))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery of the zen pool has failed in another process"),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
	/* what all have found is seen by the leader */
	pg_memory_barrier();
}

static void
run_pass(ZenRecoveryPass pass, const char *phase)
{
	begin_pass(pass, phase);
	end_pass(pass);
}

/* ---------- tables ---------- */

/* What a table has taken of shared pages; one with pages of its own is beyond that. */
static void
count_bytes(ZenHTable *ht, ZenSlot slot)
{
	if (zen_pages[zen_slot_page(slot)].owner.htable == 0)
		ht->bytes_taken += zen_slot_size(slot);
	else
		ht->bytes_taken = Max(ht->bytes_taken, ZEN_PRIVATE_BYTES);
}

/*
 * Turn tombstones (DEAD so far) and words that nobody has touched into words without a row; returns true if the block
 * has an UNUSED word.
 */
static bool
settle_block(ZenHTable *ht, uint32 block, uint64 absent)
{
	bool		has_unused = false;
	uint32		rows = 0;

	for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		ZenWord    *word = zen_tidmap_word(ht, (uint64) block * ZEN_TIDS_PER_BLOCK + i);
		uint64		w = pg_atomic_read_u64(word);
		ZenSlot		slot = zen_word_ref(w);

		if (zen_word_state(w) == ZEN_WORD_NVM)
		{
			rows++;
			count_bytes(ht, slot);
			continue;
		}
		if (slot != InvalidZenSlot && (w & ZEN_WORD_STALE) == 0)
		{
			zen_slot_free(slot);
			slot = InvalidZenSlot;
		}
		if (slot != InvalidZenSlot)
			count_bytes(ht, slot);
		pg_atomic_write_u64(word, zen_word_with(w, absent, slot));
		has_unused |= absent == ZEN_WORD_UNUSED;
	}
	pg_atomic_fetch_add_u64(&zen_recovery->rows, rows);
	return has_unused;
}

/*
 * After a clean stop indexes are intact, stale entries included: whatever TID has no row is DEAD until VACUUM.
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

	if (trust_indexes && saved > 0)
		zen_tidmap_extend(ht, saved * ZEN_TIDS_PER_BLOCK - 1);
	nblocks = (uint32) zen_tidmap_nblocks(ht);
	if (nblocks == 0)
	{
		if (!trust_indexes)
			zen_htable_set_reindex(ht);
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
		zen_htable_set_reindex(ht);
}

/* ---------- regions ---------- */

static void
settle_regions(void)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		zen_regions[r].last_cts = zen_recovery->fates[r].ts_commit;
		zen_regions[r].anchor = zen_recovery->fates[r].anchor;
		if (ZEN_FAULT(R10_DESCRIPTOR_FIRST) && zen_recovery->fates[r].prepared_cts == 0 && zen_region_doubt_written(r))
			zen_region_doubt_clear(r);
		if (!ZEN_FAULT(R13_NO_WATERMARK_AT_RECOVERY))
			zen_region_persist_watermark(r);	/* R13 */
		if (zen_recovery->fates[r].prepared_cts == 0 && zen_region_doubt_written(r))
			zen_region_doubt_clear(r);
	}
}

/* Pages of tables that are gone, and empty ones, go to the pool; the others to their contexts. */
static void
hand_out_pages(void)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
	{
		ZenPage    *page = &zen_pages[p];

		if (!page->owned || page->lost || zen_htables[page->owner.htable].damaged)
			continue;
		if ((page->owner.htable != 0 && !zen_htables[page->owner.htable].in_use) ||
			pg_atomic_read_u32(&page->nfree) == page->nslots)
		{
			/*
			 * stale headers on it are no evidence and no danger: their newer
			 * versions were counted without them
			 */
			zen_page_condemn(p);
			for (uint32 n = 0; n < page->nslots; n++)
				zen_collect_forget_header(zen_tuple_header(zen_page_slot(p, n)));
			zen_page_give_back(p);
		}
		else
			zen_slotalloc_adopt_page(p);
	}
}

/* ---------- the whole ---------- */

static double
ms_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_MILLISEC(now);
}

/* R3: all pages of the region were seen. */
static void
raise_ts_commit(uint32 region, ZenRegionFate *fate)
{
	if (ZEN_FAULT(R10_WATERMARK_TOO_HIGH) && region < zen_nregions)
	{
		zen_regions[region].last_cts = pg_atomic_read_u64(&zen_recovery->largest_cts);
		zen_region_persist_watermark(region);
	}
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

/* Directories of tables and regions: what is there. */
static void
read_directories(void)
{
	zen_recovery->cts_limit = zen_cts_limit();
	zen_htable_recover(full_xid_committed, full_xid_in_progress);
	read_doubts();
}

/* The page directory.  Returns the number of pages with an owner. */
static uint32
read_pages(void)
{
	uint32		owned = adopt_pages();

	pg_atomic_fetch_add_u64(&zen_recovery->repaired, zen_repairs);

	/*
	 * R10: what has been read of the directories is on the medium before
	 * anything is built on it
	 */
	if (zen_recovery->after_crash && !ZEN_FAULT(R10_NO_FLUSH_OF_BELIEVED))
		zen_persist(zen_pool.base, (Size) zen_pool.first_data_page * ZEN_PAGE_SIZE);
	return owned;
}

/* First pass: what was committed. */
static void
find_commits(uint32 owned, const char *why_not_loaded)
{
	if (why_not_loaded != NULL && zen_save_map && owned > 0)
		ereport(LOG,
				(errmsg("zen scans its pool, as the map saved at the last stop cannot be used: %s", why_not_loaded)));
	start_helpers(Min(zen_recovery_workers, owned / CHUNK_PAGES));
	run_pass(ZEN_PASS_COMMITS, "finding commits");
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		raise_ts_commit(r, &zen_recovery->fates[r]);
}

/*
 * Find the large tables, which are mapped after the others.  Returns false if nobody may read before all is done: there
 * is no such table, or prepared transactions have yet to lay their versions over the rows, or a page may belong to anybody.
 */
static bool
find_late_tables(void)
{
	uint32	   *npages = palloc0(ZEN_MAX_HTABLES * sizeof(uint32));
	bool		found = false,
				sound = true;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
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

/* A damaged slot so far may be of any table: then nobody reads before it is known of which. */
static bool
is_suspect(void)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
		if (zen_pages[p].owned && zen_pages[p].suspect)
			return true;
	return false;
}

/* Tables that are not late are in their final state, but for who wants to write. */
static void
open_tables(void)
{
	settle_tables(false);
	pg_write_barrier();
	pg_atomic_write_u32(&zen_recovery->open, 1);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Second pass, and what becomes of damaged slots. */
static void
build_maps(void)
{
	bool		have_late = find_late_tables();
	bool		opened = false;

	run_pass(ZEN_PASS_MAPS, "building maps");
	if (have_late)
	{
		opened = !is_suspect();
		if (opened)
			open_tables();
		run_pass(ZEN_PASS_LATE, "building maps of large tables");
	}
	begin_phase("settling tables");
	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
	{
		if (!zen_pages[p].owned)
			continue;
		if (zen_pages[p].lost)
			zen_passes_lost(p);
		else if (zen_pages[p].suspect)
			zen_passes_damaged(p);
	}
	zen_fence();
	settle_tables(true);
	if (!opened)
		settle_tables(false);
}

/* Begin to load the saved map: others read its words while the leader reads the page directory.  NULL if there is none. */
static ZenSavedMap *
begin_load(ZenSavedMap *map, const char **why)
{
	if (map == NULL)
		return NULL;
	*why = zen_savedmap_begin(map);
	if (*why != NULL)
		return NULL;
	start_helpers(Min(zen_recovery_workers, zen_recovery->npieces / CHUNK_PAGES));
	begin_pass(ZEN_PASS_LOAD, "loading the saved map");
	return map;
}

/* False: the pool must be scanned, and nothing has changed. */
static bool
end_load(ZenSavedMap *map, const char **why)
{
	if (map == NULL)
		return false;
	end_pass(ZEN_PASS_LOAD);
	*why = zen_savedmap_finish(map);
	if (*why != NULL)
		return false;

	/*
	 * what was saved is what settling would make of it, if the indexes are to
	 * be trusted
	 */
	begin_phase("settling tables");
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && pg_atomic_read_u32(&zen_htables[i].reindex) != 0)
			settle_table(&zen_htables[i]);
	return true;
}

/* Regions, transactions and pages, once the maps are there. */
static void
settle_pool(void)
{
	uint32		repairs;

	settle_regions();
	zen_cts_restart(pg_atomic_read_u64(&zen_recovery->largest_cts));
	repairs = zen_repairs;
	zen_prepared_restore(zen_passes_count_damaged);
	pg_atomic_fetch_add_u64(&zen_recovery->repaired, zen_repairs - repairs);
	hand_out_pages();
}

static void
report_ready(bool loaded)
{
	ereport(LOG,
			(errmsg("zen is ready: " UINT64_FORMAT " rows in %u pages, " UINT64_FORMAT
					" slots of unfinished transactions cleared; %.0f ms (%s %.0f ms, map %.0f ms) by %u processes",
					pg_atomic_read_u64(&zen_recovery->rows), zen_recovery->pages_total,
					pg_atomic_read_u64(&zen_recovery->losers), zen_recovery->total_ms,
					loaded ? "directories" : "scan", zen_recovery->scan_ms,
					zen_recovery->map_ms, pg_atomic_read_u32(&zen_recovery->processes))));
	if (pg_atomic_read_u64(&zen_recovery->damaged) > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg(UINT64_FORMAT " rows or slots of the zen pool are damaged",
						pg_atomic_read_u64(&zen_recovery->damaged))));
}

static void
recover(void)
{
	instr_time	start;
	ZenSavedMap *map = NULL;
	const char *why = NULL;
	uint32		owned;
	bool		loaded;

	INSTR_TIME_SET_CURRENT(start);
	begin_phase("reading directories");
	if (!zen_recovery->after_crash)
		map = zen_savedmap_open(&why);
	read_directories();
	map = begin_load(map, &why);
	owned = read_pages();
	zen_recovery->scan_ms = ms_since(start);
	loaded = end_load(map, &why);
	if (!loaded)
	{
		find_commits(owned, why);
		zen_recovery->scan_ms = ms_since(start);
		build_maps();
	}
	settle_pool();
	zen_savedmap_remove();
	pg_atomic_fetch_add_u64(&zen_recovery->damaged, zen_damages);
	zen_recovery->total_ms = ms_since(start);
	zen_recovery->map_ms = zen_recovery->total_ms - zen_recovery->scan_ms;
	begin_phase("ready");
	report_ready(loaded);
}

static void
set_state(ZenRecoveryState state)
{
	pg_write_barrier();
	pg_atomic_write_u32(&zen_recovery->state, state);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

static bool
is_over(void)
{
	return pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_RUNNING;
}

static bool
is_over_or_open(void)
{
	return is_over() || pg_atomic_read_u32(&zen_recovery->open) != 0;
}

/* Take part in a recovery that is under way, until what one waits for has come. */
static void
help(bool (*enough) (void))
{
	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (!enough())
	{
		if (take_part())
			CHECK_FOR_INTERRUPTS();
		else
			ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	/* pairs with the barriers in open_tables() and set_state() */
	pg_read_barrier();
}

void
zen_recovery_worker_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	zen_xact_attach();
	help(is_over);
	proc_exit(0);
}

/* Recover, or help who does until enough() is true. */
static void
wait_until(bool (*enough) (void))
{
	uint32		needed = ZEN_RECOVERY_NEEDED;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zen tables cannot be used while the server is in recovery"),
				 errdetail("Their contents are not in the WAL, so a standby does not have them."),
				 errhint("Connect to the primary server.")));

	if (pg_atomic_compare_exchange_u32(&zen_recovery->state, &needed, ZEN_RECOVERY_RUNNING))
	{
		HOLD_INTERRUPTS();
		PG_TRY();
		{
			recover();
		}
		PG_CATCH();
		{
			set_state(ZEN_RECOVERY_FAILED);
			PG_RE_THROW();
		}
		PG_END_TRY();
		RESUME_INTERRUPTS();
		set_state(ZEN_RECOVERY_READY);
		return;
	}

	help(enough);
	if (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen tables are not available: recovery of the pool has failed"),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
}

void
zen_recovery_wait(void)
{
	wait_until(is_over);
}

void
zen_recovery_wait_open(void)
{
	wait_until(is_over_or_open);
}

void
zen_recovery_shutdown(void)
{
	uint32		state;

	if (zen_pool.scratch)
		zen_adopt_server_stops();
	if (zen_pool.base == NULL || zen_pool.scratch || zen_recovery == NULL || !zen_pool_cluster_is_shut_down())
		return;
	state = pg_atomic_read_u32(&zen_recovery->state);
	/* nobody has come to recover it: it is as the last stop has left it */
	if (state == ZEN_RECOVERY_NEEDED && zen_pool.was_clean)
		zen_pool_mark_clean();
	if (state != ZEN_RECOVERY_READY)
		return;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
			zen_htable_save_blocks(&zen_htables[i], zen_tidmap_nblocks(&zen_htables[i]));
	/* a commit that found no room in its own may have taken any */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		zen_region_persist_watermark(r);
	zen_pool_mark_clean();
	zen_savedmap_save();
}
