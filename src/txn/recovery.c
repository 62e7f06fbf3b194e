/*
 * recovery.c -- recovery by one scan (the paper's Algorithm 2, with R3 to R5, R10, R13, R14).
 *
 *	1. HTable directory and in-doubt regions: pg_xact says what became of them.
 *	2. First pass over all slots: per region the largest Tx-CTS with LP (R3); the largest of all (R14); every line
 *	   read is flushed (R10), since after a process crash the caches may hold what the medium does not.
 *	3. Second pass: losers are scrubbed (R7); of each tuple the newest committed version enters the map; older ones are
 *	   counted as stale (R5) and their slots are free.
 *	4. Tombstones: no row; kept as long as stale copies exist (R5).
 *	5. Fence.  Watermarks (R13), after which pages may change hands; prepared transactions come back; pages without an
 *	   owner and empty pages go to the pool.
 *
 * All of it only reads, scrubs losers, and writes what is true already, so a crash at any point is followed by the
 * same recovery (R10).
 */
#include "txn/recovery.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "base/fault.h"
#include "cache/metcache.h"
#include "miscadmin.h"
#include "nvm/alloc.h"
#include "nvm/persist.h"
#include "portability/instr_time.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "txn/gc.h"
#include "txn/twophase.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

ZenRecovery *zen_recovery;

/* What recovery knows of a region. */
typedef struct RegionFate
{
	uint64		ts_commit;		/* R3 */
	uint64		prepared_cts;	/* Tx-CTS of a transaction still prepared, or
								 * 0 */
	ZenSlot		anchor;
	uint64		anchor_cts;
} RegionFate;

static RegionFate *fates;
static uint64 largest_cts;

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
	pg_atomic_init_u32(&zen_recovery->pages_done, 0);
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
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		uint64		xid,
					cts;
		uint32		kind = zen_region_doubt_read(r, &xid, &cts);

		fates[r].ts_commit = ZEN_FAULT(R3_IGNORE_WATERMARK) ? 0 : zen_regions[r].watermark;
		zen_regions[r].doubt_kind = ZEN_DOUBT_NONE;
		if (kind == ZEN_DOUBT_NONE)
			continue;
		zen_regions[r].doubt_xid = xid;
		zen_regions[r].doubt_cts = cts;
		largest_cts = Max(largest_cts, cts);
		if (full_xid_in_progress(xid))
		{
			zen_regions[r].doubt_kind = ZEN_DOUBT_PREPARED;
			fates[r].prepared_cts = cts;
		}
		else if (full_xid_committed(xid) && !ZEN_FAULT(R3_IGNORE_DESCRIPTOR))
			fates[r].ts_commit = Max(fates[r].ts_commit, cts);
	}
}

/* ---------- pages ---------- */

static void
begin_phase(const char *phase)
{
	zen_recovery->phase = phase;
	pg_atomic_write_u32(&zen_recovery->pages_done, 0);
}

/* Make the DRAM half of all pages. */
static void
adopt_pages(void)
{
	zen_recovery->pages_total = zen_pool.npages - zen_pool.first_data_page;
	for (uint32 p = zen_pool.npages - 1; p >= zen_pool.first_data_page; p--)
	{
		ZenPageOwner owner;
		bool		sane;

		if (!zen_page_directory_read(p, &owner, &sane))
			zen_page_adopt_free(p);
		else if (sane)
			zen_page_adopt(p, owner);
		else
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("entry %u of the zen page directory is damaged", p),
					 errdetail("Rows on this page are not available."),
					 errhint("Restore the pool from a backup of the same moment as the data directory.")));
	}
}

static void
first_pass(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	RegionFate *fate = &fates[page->owner.region];

	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h = zen_tuple_header(slot);
		uint64		cts = h.word0 & ZEN_CTS_MASK;

		if (zen_recovery->after_crash && !ZEN_FAULT(R10_NO_FLUSH_OF_BELIEVED))
			zen_flush(zen_slot_ptr(slot), ZEN_HEADER_SIZE); /* R10 */
		largest_cts = Max(largest_cts, cts);
		if ((h.word0 & ZEN_LP) && cts > fate->anchor_cts)
		{
			fate->anchor = slot;
			fate->anchor_cts = cts;
		}
	}
}

/* A committed version: the newest of its tuple enters the map, others are stale. */
static void
place_version(ZenHTable *ht, ZenSlot slot, ZenTupleHeader h)
{
	ZenWord    *word = zen_tidmap_extend(ht, zen_word1_tidno(h.word1));
	uint64		w = pg_atomic_read_u64(word);
	ZenSlot		loser = InvalidZenSlot;

	if (zen_word_state(w) == ZEN_WORD_UNUSED)
	{
		w = zen_word_with(w, ZEN_WORD_NVM, slot);
		if (zen_pages[zen_slot_page(slot)].owner.htable == 0)
			ht->bytes_taken += zen_slot_size(slot);
		else
			ht->bytes_taken = Max(ht->bytes_taken, ZEN_PRIVATE_BYTES);
	}
	else
	{
		ZenTupleHeader other = zen_tuple_header(zen_word_ref(w));

		loser = slot;
		if ((h.word0 & ZEN_CTS_MASK) > (other.word0 & ZEN_CTS_MASK))
		{
			loser = zen_word_ref(w);
			w = zen_word_with(w, ZEN_WORD_NVM, slot);
		}
		if (!(zen_tuple_header(loser).word1 & ZEN_DELETED) && !ZEN_FAULT(R5_NO_RECOUNT))
			w = zen_word_stale_inc(w);
	}
	pg_atomic_write_u64(word, w);
	if (loser != InvalidZenSlot)
		zen_slot_free(loser);
}

/* R3.  The whole region was seen before. */
static bool
is_committed(RegionFate *fate, ZenTupleHeader h)
{
	uint64		cts = h.word0 & ZEN_CTS_MASK;

	if (ZEN_FAULT(R3_TRUST_LP_ONLY))
		return (h.word0 & ZEN_LP) != 0;
	if (ZEN_FAULT(R3_DELETED_FIRST) && (h.word1 & ZEN_DELETED))
		return true;
	if (ZEN_FAULT(R3_DECIDE_EARLY) && (h.word0 & ZEN_LP))
		fate->ts_commit = Max(fate->ts_commit, cts);
	return cts <= fate->ts_commit;
}

static void
second_pass(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	RegionFate *fate = &fates[page->owner.region];

	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h = zen_tuple_header(slot);
		uint64		cts = h.word0 & ZEN_CTS_MASK;
		ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];

		if (cts == 0)
			zen_slot_free(slot);
		else if (fate->prepared_cts != 0 && cts == fate->prepared_cts)
			zen_twophase_found(page->owner.region, slot);
		else if (!is_committed(fate, h))
		{
			if (!ZEN_FAULT(R7_LOSERS_STAY))
				zen_tuple_scrub(slot);
			zen_recovery->losers++;
			zen_slot_free(slot);
		}
		else if (ht->damaged)
			continue;			/* not to be touched */
		else if (ht->idx == 0 || !zen_htable_owns(ht, cts))
			zen_slot_free(slot);	/* of a table that is gone, or a row-lock
									 * list */
		else if (ZEN_FAULT(R5_IGNORE_TOMBSTONES) && (h.word1 & ZEN_DELETED))
			zen_slot_free(slot);
		else
			place_version(ht, slot, h);
	}
}

static void
for_all_pages(const char *phase, void (*pass) (uint32 pageno))
{
	begin_phase(phase);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
	{
		if (zen_pages[p].owned)
			pass(p);
		pg_atomic_fetch_add_u32(&zen_recovery->pages_done, 1);
	}
}

/* ---------- tables ---------- */

/* Turn tombstones into words without a row; returns true if the block has an UNUSED word. */
static bool
settle_block(ZenHTable *ht, uint32 block, uint64 absent)
{
	bool		has_unused = false;

	for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		ZenWord    *word = zen_tidmap_word(ht, (uint64) block * ZEN_TIDS_PER_BLOCK + i);
		uint64		w = pg_atomic_read_u64(word);
		ZenSlot		slot = zen_word_ref(w);

		if (zen_word_state(w) == ZEN_WORD_UNUSED)
			w = zen_word_with(w, absent, 0);
		else if (zen_tuple_header(slot).word1 & ZEN_DELETED)
		{
			bool		needed = (w & ZEN_WORD_STALE) != 0;

			w = zen_word_with(w, absent, needed ? slot : 0);
			if (!needed)
				zen_slot_free(slot);
		}
		else
			zen_recovery->rows++;
		pg_atomic_write_u64(word, w);
		has_unused |= zen_word_state(w) == ZEN_WORD_UNUSED;
	}
	return has_unused;
}

/*
 * After a clean stop indexes are intact, stale entries included: whatever TID has no row is DEAD until VACUUM.
 * After a crash indexes are rebuilt from the rows, so such a TID stands in none: UNUSED.
 */
static void
settle_table(ZenHTable *ht)
{
	bool		trust_indexes = !zen_recovery->after_crash && pg_atomic_read_u32(&ht->reindex) == 0;
	uint64		saved = zen_nvm_load64(&zen_pool.htables[ht->idx].nblocks);
	uint32		nblocks;
	uint32	   *unused;
	uint32		n = 0;

	if (trust_indexes && saved > 0)
		zen_tidmap_extend(ht, saved * ZEN_TIDS_PER_BLOCK - 1);
	nblocks = (uint32) zen_tidmap_nblocks(ht);
	if (nblocks == 0)
	{
		if (!trust_indexes)
			zen_htable_set_reindex(ht, true);
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
		zen_htable_set_reindex(ht, true);
}

/* ---------- regions ---------- */

static void
settle_regions(void)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		uint64		xid,
					cts;

		zen_regions[r].last_cts = fates[r].ts_commit;
		zen_regions[r].anchor = fates[r].anchor;
		if (ZEN_FAULT(R10_DESCRIPTOR_FIRST) && fates[r].prepared_cts == 0)
			zen_region_doubt_clear(r);
		if (!ZEN_FAULT(R13_NO_WATERMARK_AT_RECOVERY))
			zen_region_persist_watermark(r);	/* R13 */
		if (fates[r].prepared_cts == 0 && zen_region_doubt_read(r, &xid, &cts) != ZEN_DOUBT_NONE)
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

		if (!page->owned || zen_htables[page->owner.htable].damaged)
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
				zen_gc_forget_header(zen_tuple_header(zen_page_slot(p, n)));
			zen_page_give_back(p);
		}
		else
			zen_alloc_adopt_page(p);
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

/* R3: all pages have been seen. */
static void
decide(void)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		if (!ZEN_FAULT(R3_DECIDE_EARLY))
			fates[r].ts_commit = Max(fates[r].ts_commit, fates[r].anchor_cts);
		if (ZEN_FAULT(R10_WATERMARK_TOO_HIGH) && r < zen_nregions)
		{
			zen_regions[r].last_cts = largest_cts;
			zen_region_persist_watermark(r);
		}
	}
}

static void
recover(void)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	fates = MemoryContextAllocExtended(TopMemoryContext, ZEN_MAX_REGIONS * sizeof(RegionFate),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	largest_cts = 0;
	begin_phase("reading directories");
	zen_htable_recover(full_xid_committed, full_xid_in_progress);
	read_doubts();
	adopt_pages();

	/*
	 * R10: what has been read of the directories is on the medium before
	 * anything is built on it
	 */
	if (zen_recovery->after_crash && !ZEN_FAULT(R10_NO_FLUSH_OF_BELIEVED))
		zen_flush(zen_pool.base, (Size) zen_pool.first_data_page * ZEN_PAGE_SIZE);
	for_all_pages("finding commits", first_pass);
	if (zen_recovery->after_crash)
		zen_fence();
	decide();
	for_all_pages("building maps", second_pass);
	zen_fence();
	zen_recovery->scan_ms = ms_since(start);

	begin_phase("settling tables");
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
			settle_table(&zen_htables[i]);
	settle_regions();
	zen_cts_restart(largest_cts);
	zen_twophase_restore();
	hand_out_pages();
	pfree(fates);
	zen_recovery->total_ms = ms_since(start);
	begin_phase("ready");
	ereport(LOG,
			(errmsg("zen is ready: " UINT64_FORMAT " rows in %u pages scanned in %.0f ms, " UINT64_FORMAT
					" slots of unfinished transactions cleared",
					zen_recovery->rows, zen_recovery->pages_total, zen_recovery->total_ms, zen_recovery->losers)));
}

static void
set_state(ZenRecoveryState state)
{
	pg_write_barrier();
	pg_atomic_write_u32(&zen_recovery->state, state);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

void
zen_recovery_wait(void)
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

	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_RUNNING)
		ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	if (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen tables are not available: recovery of the pool has failed"),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
}

void
zen_recovery_shutdown(void)
{
	if (zen_pool.base == NULL || zen_recovery == NULL ||
		pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY || !zen_pool_cluster_is_shut_down())
		return;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
			zen_htable_save_blocks(&zen_htables[i], zen_tidmap_nblocks(&zen_htables[i]));
	for (uint32 r = 0; r < zen_nregions; r++)
		zen_region_persist_watermark(r);
	zen_pool_mark_clean();
}
