/*
 * commit.c -- the commit protocol, whose steps stand in src/txn/README, "Commit".
 *
 * In a zen-only commit the line of the last header is not flushed before LP is in it.  If that slot fits one line, and
 * there is no other line, no first fence is needed: LP and body persist in order (R6).
 *
 * Slots that hold no row stand in the write set behind the rows, without a version: one that carries LP if all rows
 * were spilled, and the one that the sink wants.
 *
 * R1: only the last version of each tuple is written.  I16: everything that can fail is allocated before the first
 * store.  R11: the region is ours from the lease to the end.
 */
#include "txn/commit.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/fault.h"
#include "cache/clock.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/sink.h"
#include "nvm/slotalloc.h"
#include "row/visibility.h"
#include "txn/deltas.h"
#include "txn/spillend.h"
#include "txn/takeslots.h"

#define HOT_XIDS			1000	/* a row that is changed again within so
									 * many transactions is hot */
#define GC_BATCH			64	/* row changes whose old versions one commit
								 * frees at most, if it has changed few */
#define CTS_TRIES		4		/* numbers that are passed over to save a
								 * fence */

ZenCommit	zen_my_commit;

/*
 * Stages that may follow each stage, as bits:
 * - NONE: a region is leased; or recovery restores a prepared transaction, in doubt;
 * - LEASED: slots are written; or nothing was to be written, or an abort gives the region back;
 * - WRITTEN: LP or the descriptor is set; or an abort has scrubbed the slots;
 * - DOUBT: the end is settled, scrubbed, or handed over to the table of prepared transactions;
 * - LP: the commit is settled, or an error has taken LP back.
 */
static const uint8 legal_next[] PG_USED_FOR_ASSERTS_ONLY =
{
	[ZEN_STAGE_NONE] = 1 << ZEN_STAGE_LEASED | 1 << ZEN_STAGE_DOUBT,
	[ZEN_STAGE_LEASED] = 1 << ZEN_STAGE_WRITTEN | 1 << ZEN_STAGE_NONE,
	[ZEN_STAGE_WRITTEN] = 1 << ZEN_STAGE_LP | 1 << ZEN_STAGE_DOUBT | 1 << ZEN_STAGE_NONE,
	[ZEN_STAGE_DOUBT] = 1 << ZEN_STAGE_NONE,
	[ZEN_STAGE_LP] = 1 << ZEN_STAGE_WRITTEN | 1 << ZEN_STAGE_NONE
};

/* Each change of a stage passes here. */
static inline void
enter_stage(ZenCommit *commit, ZenCommitStage stage)
{
	Assert(commit->stage < lengthof(legal_next) && (legal_next[commit->stage] & (1 << stage)));
	commit->stage = stage;
}

#ifdef USE_ASSERT_CHECKING
/*
 * Invariants of a write set whose transaction ends:
 * - it fits its arrays;
 * - all savepoints are released or rolled back, so each entry is the top level's;
 * - rows that were spilled are out, and the writes that remain know their versions and words.
 */
static void
check_write_set(const ZenWriteSet *ws, uint32 region)
{
	Assert(ws->nwrites <= ws->writes_capacity && ws->nlocks <= ws->locks_capacity &&
		   ws->nblocks <= ws->blocks_capacity);
	Assert(ws->nblocks == 0 || ws->region == region);
	for (uint32 i = 0; i < ws->nwrites; i++)
	{
		const ZenWrite *w = &ws->writes[i];

		Assert(w->nest_level <= 1 && w->version != NULL);
		Assert(w->word == zen_tidmap_word(w->ht, w->tidno));
	}
	for (uint32 i = 0; i < ws->nlocks; i++)
		Assert(ws->locks[i].nest_level <= 1 && TransactionIdIsNormal(ws->locks[i].xid));
	for (uint32 i = 0; i < ws->nblocks; i++)
		Assert(ws->blocks[i].nest_level <= 1 && ws->blocks[i].ht->idx != 0);
}
#endif

/*
 * Has this transaction put a newer version over that of w?  The caller asks while the transaction is in progress, so
 * other writers of the row wait.
 */
static bool
is_superseded(ZenWrite *w)
{
	uint64		now = zen_word_read(w->word);

	return zen_word_state(now) == ZEN_WORD_ENTRY && zen_word_entry(now) != w->version;
}

pg_noreturn static void
pool_full_error(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	ereport(ERROR,
			(errcode(ERRCODE_DISK_FULL),
			 errmsg("zen pool is full"),
			 errdetail("The pool has %zu MB in %u pages, all in use.",
					   zen_pool_size() / (1024 * 1024), (uint32) (zen_pool_size() / ZEN_PAGE_SIZE)),
			 errhint("Delete rows and run VACUUM, drop tables, or make the pool larger: zen_pool_grow(), "
					 "zen.pool_grow_by, or a larger zen.pool_size at a restart.")));
}

/* The newest version under a TID to which this transaction has moved a row. */
static ZenVersion *
newest_of_mine(ZenHTable *ht, uint64 tidno, ZenSpilledChain *space)
{
	ZenVersion *v;
	uint64		w;

	zen_epoch_enter();
	v = zen_spillmap_word_chain(ht, tidno, zen_tidmap_word(ht, tidno), &w, space);
	zen_epoch_leave();
	return v;
}

/*
 * The TID to which a tombstone says that the row has gone; 0 = none.  Tombstones of rows that this transaction has made
 * are not in NVM, so a row that it has moved several times counts as moved to the last place directly.
 *
 * No other process can change the heads of these chains before this transaction ends.
 */
static uint64
link_of(ZenWrite *w)
{
	ZenVersion *v = w->version;
	ZenSpilledChain space;
	uint64		link = 0;
	bool		keeps_key = true;

	while (zen_version_flags(v) & ZEN_V_FORWARD)
	{
		keeps_key &= (zen_version_flags(v) & ZEN_V_KEY_UPDATE) == 0;
		link = zen_link(v->forward_tidno, keeps_key);
		v = newest_of_mine(w->ht, v->forward_tidno, &space);
	}
	if (zen_version_flags(v) & ZEN_V_MOVED)
		return ZEN_LINK_MOVED;
	return (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? 0 : link;
}

/*
 * Is a row changed so often that the lines of its slots may be stored to again before the cache evicts them?  The slots
 * of such a row are soon free, and taken again.  After Falcon (SOSP 2023, section 4.2), which keeps a list of hot
 * tuples for this.
 */
static bool
is_hot(ZenVersion *v)
{
	bool		hot;

	zen_epoch_enter();
	hot = v->older != NULL && TransactionIdIsNormal(v->older->xmin) && v->xmin - v->older->xmin <= HOT_XIDS;
	zen_epoch_leave();
	return hot;
}

/*
 * Write a version to its slot.  pending: its lines are flushed with its neighbours'; NULL: all but that of its header
 * are flushed at once.
 */
static void
write_version(ZenCommit *commit, ZenWrite *w, ZenFlushRange *pending)
{
	ZenVersion *v = w->version;
	bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
	uint64		link = deleted ? link_of(w) : 0;
	ZenTombstone tombstone = zen_tombstone(link);
	const MinimalTupleData *tuple = link ? (MinimalTuple) &tombstone : zen_version_tuple(v);
	uint64		word1 = zen_word1(w->ht->idx, w->tidno, v->code, deleted);

	/* R1: the newest of its tuple, which is still this transaction's */
	Assert(zen_word_leads_to(zen_word_read(w->word), v) || ZEN_FAULT(R15_SAME_CTS_TWICE));
	Assert(!(zen_version_flags(v) & (ZEN_V_ABORTED | ZEN_V_SPECULATIVE)));
	if (unlikely(w->delta != 0))
	{
		zen_page_has_deltas(w->slot);
		zen_tuple_write_delta(w->slot, commit->cts, word1, v->xmin, zen_my_deltas[w->delta], pending);
	}
	else if (pending != NULL)
		zen_tuple_write_among(w->slot, commit->cts, word1, v->xmin, tuple, pending);
	else
		zen_tuple_write(w->slot, commit->cts, word1, v->xmin, tuple, false);
	v->slot = w->slot;
	if (zen_flush_hints() && !is_hot(v))
		zen_flush_hint(zen_slot_ptr(w->slot), zen_write_size(w));
}

void
zen_commit_begin(ZenCommit *commit)
{
	if (commit->stage == ZEN_STAGE_NONE)
	{
		commit->region = zen_slotalloc_lease();
		enter_stage(commit, ZEN_STAGE_LEASED);
		commit->last = commit->sink_slot = InvalidZenSlot;
		commit->told_xid = 0;
	}
	Assert(commit->stage == ZEN_STAGE_LEASED);
	zen_region_rest(commit->region, false);
	ZenAssertRegionMine(commit->region);
}

void
zen_commit_await_slots(ZenCommit *commit, bool keep_region, TimestampTz *since)
{
	Assert(commit->stage == ZEN_STAGE_LEASED);
	ZenAssertRegionMine(commit->region);
	ZenAssertNotInEpoch();
	if (keep_region)
		zen_region_rest(commit->region, true);
	else
	{
		zen_region_release(commit->region);
		enter_stage(commit, ZEN_STAGE_NONE);
	}
	if (!zen_reclaim_await_slots(since))
		pool_full_error();
	zen_commit_begin(commit);
}

/* Would a slot have to be scrubbed before it is written with this Tx-CTS? */
static bool
is_near_any(const ZenCommit *commit, const ZenWriteSet *ws)
{
	for (const ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot && zen_tuple_is_near(w->former, commit->cts))
			return true;
	return false;
}

/*
 * If some slot of the transaction would have to be scrubbed before it can be written with the Tx-CTS, take another
 * Tx-CTS; a few times at most.
 */
static void
leave_near_cts(ZenCommit *commit, const ZenWriteSet *ws)
{
	for (int i = 0; i < CTS_TRIES && is_near_any(commit, ws); i++)
		commit->cts = zen_cts_next();
}

/*
 * Copy the fields of each version, since other processes may collect it once it is visible; commit->last: the last slot
 * written.
 */
static void
note_versions(ZenCommit *commit, ZenWriteSet *ws)
{
	for (ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
	{
		uint32		flags = zen_version_flags(w->version);

		w->xid = w->version->xmin;
		w->frozen = (flags & ZEN_V_FROZEN) != 0;
		w->aborted = (flags & ZEN_V_ABORTED) != 0;
		w->superseded = is_superseded(w);
		if (w->slot != InvalidZenSlot)
		{
			w->former = zen_tuple_header(w->slot);
			commit->last = w->slot;
		}
	}
}

void
zen_commit_reserve(ZenCommit *commit, ZenWriteSet *ws)
{
	uint32		items = ws->nwrites + ws->nblocks;
	TimestampTz since = 0;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	zen_commit_begin(commit);
#ifdef USE_ASSERT_CHECKING
	check_write_set(ws, commit->region);
#endif
	while (!zen_take_slots(&commit->region, ws))
		zen_commit_await_slots(commit, ws->nblocks > 0, &since);
	if (!zen_gcqueue_reserve(commit->region, items))
	{
		zen_reclaim_for_slots(commit->region);
		zen_make_room();
		if (!zen_gcqueue_reserve(commit->region, items))
			zen_arena_full_error();
	}
	note_versions(commit, ws);
	commit->cts = zen_cts_next();
	leave_near_cts(commit, ws);
	/* R3: the largest tells which commits of the region count */
	Assert(commit->cts > zen_regions[commit->region].last_cts);
}

ZenSlot
zen_commit_own_slot(uint32 region, Size size)
{
	ZenSlot		slot = zen_slot_alloc(region, &zen_htables[0], size);

	if (slot == InvalidZenSlot)
	{
		zen_reclaim_for_slots(region);
		slot = zen_slot_alloc(region, &zen_htables[0], size);
	}
	if (slot == InvalidZenSlot)
		pool_full_error();
	return slot;
}

/* Note a slot that will hold no row, behind the rows; there is room. */
static void
add_own_slot(ZenCommit *commit, ZenWriteSet *ws, ZenSlot slot)
{
	ZenWrite	w = {.ht = &zen_htables[0],.nest_level = GetCurrentTransactionNestLevel(),.slot = slot};

	Assert(commit->stage == ZEN_STAGE_LEASED && ws == &zen_writeset);
	ZenAssertRegionMine(commit->region);
	Assert(ws->nwrites < ws->writes_capacity && !ws->writes_closed);
	w.former = zen_tuple_header(slot);
	ws->writes[ws->nwrites++] = w;
	/* the sink would have to be told, and may wait for the disk */
	leave_near_cts(commit, ws);
}

bool
zen_commit_reserve_own(ZenCommit *commit, ZenWriteSet *ws, Size sink_size)
{
	if (commit->last == InvalidZenSlot && ws->nblocks > 0)
	{
		zen_writeset_reserve(1, 0);
		commit->last = zen_commit_own_slot(commit->region, ZEN_TOMBSTONE_SIZE);
		add_own_slot(commit, ws, commit->last);
	}
	/* the sink need not know of a transaction that leaves nothing */
	if (sink_size == 0 || commit->last == InvalidZenSlot)
		return true;
	zen_writeset_reserve(1, 0);
	commit->sink_slot = zen_slot_alloc(commit->region, &zen_htables[0], sink_size);
	if (commit->sink_slot == InvalidZenSlot)
		return false;
	add_own_slot(commit, ws, commit->sink_slot);
	return true;
}

/* An empty version of HTable 0.  Recovery takes it for evidence (R3) and for nothing else. */
static void
write_carrier(ZenCommit *commit, ZenSlot slot, bool flush)
{
	Assert(slot == commit->last);
	zen_tuple_write(slot, commit->cts, zen_word1(0, 0, 0, true), InvalidTransactionId, NULL, flush);
}

static inline void
write_slot(ZenCommit *commit, ZenWrite *w, bool flush_all, ZenFlushRange *pending)
{
	bool		flush = flush_all || w->slot != commit->last;

	/* the line with LP is not flushed before by what is pending */
	if (!flush)
		zen_flush_pending(pending);
	if (likely(w->version != NULL))
		write_version(commit, w, flush ? pending : NULL);
	else if (w->slot != commit->sink_slot)
		write_carrier(commit, w->slot, flush);
}

void
zen_commit_store(ZenCommit *commit, ZenWriteSet *ws, bool flush_all)
{
	ZenFlushRange pending = {0};

	Assert(commit->stage == ZEN_STAGE_LEASED && commit->cts != 0);
	ZenAssertRegionMine(commit->region);
	if (commit->last == InvalidZenSlot)
		return;

	/* from here to the end of commit or abort nothing can fail */
	enter_stage(commit, ZEN_STAGE_WRITTEN);
	for (ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot)
			write_slot(commit, w, flush_all, &pending);
	zen_flush_pending(&pending);
	if (ZEN_FAULT(R4_MOVE_ANCHOR_EARLY))
		zen_regions[commit->region].anchor = commit->last;
}

void
zen_commit_store_prepared(ZenCommit *commit, ZenWriteSet *ws)
{
	zen_commit_store(commit, ws, true);
	if (commit->last == InvalidZenSlot)
		enter_stage(commit, ZEN_STAGE_WRITTEN);
}

/* Are all bytes of the transaction in the line that carries LP? */
static bool
fits_one_line(const ZenCommit *commit, const ZenWriteSet *ws)
{
	for (const ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot && w->slot != commit->last)
			return false;
	return ((commit->last * ZEN_SLOT_UNIT) % ZEN_LINE) +
		zen_tuple_size(zen_body_bytes(zen_tuple_body(commit->last))) <= ZEN_LINE;
}

/*
 * All is written, and the decision follows.  True: all that is written is durable, too, since the sink was told of it
 * (R18).
 *
 * The sink writes its slot once: an error after LP may have the commit decided again.
 */
static inline bool
tell_decision(ZenCommit *commit, uint32 kind)
{
	ZenSlot		slot = commit->told_xid == 0 ? commit->sink_slot : InvalidZenSlot;

	if (likely(zen_sink.decide == NULL))
		return false;
	commit->told_xid = U64FromFullTransactionId(GetTopFullTransactionId());
	return zen_sink.decide(commit->region, commit->cts, commit->told_xid, kind, slot);
}

void
zen_commit_set_lp(ZenCommit *commit, const ZenWriteSet *ws)
{
	Assert(commit->stage == ZEN_STAGE_WRITTEN && commit->last != InvalidZenSlot);
	Assert((zen_tuple_header(commit->last).word0 & ZEN_CTS_MASK) == commit->cts);
	Assert(InterruptHoldoffCount > 0);
	ZenAssertRegionMine(commit->region);
	/* R2: nothing else is outstanding when LP is stored */
	if (!tell_decision(commit, ZEN_DOUBT_COMMIT) && !fits_one_line(commit, ws) && !ZEN_FAULT(R2_NO_FIRST_FENCE))
		zen_order();
	enter_stage(commit, ZEN_STAGE_LP);
	zen_tuple_set_lp(commit->last);
	if (!ZEN_FAULT(R2_NO_LAST_FENCE))
		zen_fence();
	ZEN_TELL(done);
}

void
zen_commit_doubt(ZenCommit *commit, uint64 full_xid, uint32 kind)
{
	Assert(commit->stage == ZEN_STAGE_WRITTEN);
	Assert(full_xid != 0 && zen_regions[commit->region].doubt_kind == ZEN_DOUBT_NONE);
	ZenAssertRegionMine(commit->region);
	/* W2: the syncer may look as soon as SLOTS is in the WAL */
	if (zen_nvm_is_lazy() && !ZEN_FAULT(R9_NO_DESCRIPTOR))
		zen_region_doubt_set(commit->region, full_xid, commit->cts, kind);
	if (!tell_decision(commit, kind))
		zen_order();
	Assert(commit->told_xid == 0 || commit->told_xid == full_xid);
	if (!zen_nvm_is_lazy() && !ZEN_FAULT(R9_NO_DESCRIPTOR))
		zen_region_doubt_set(commit->region, full_xid, commit->cts, kind);
	ZEN_TELL(done);
	enter_stage(commit, ZEN_STAGE_DOUBT);
}

void
zen_commit_undo_lp(ZenCommit *commit)
{
	Assert(commit->stage == ZEN_STAGE_LP);
	ZenAssertRegionMine(commit->region);
	zen_tuple_clear_lp(commit->last);
	enter_stage(commit, ZEN_STAGE_WRITTEN);
}

/* Find a write's version, if it is still there; *newer: the one above it.  Under the word's lock. */
static ZenVersion *
find_written(ZenWrite *write, uint64 w, ZenVersion **newer)
{
	ZenAssertWordLocked(write->word);
	*newer = NULL;
	if (zen_word_state(w) != ZEN_WORD_ENTRY)
		return NULL;
	for (ZenVersion *v = zen_word_entry(w); v != NULL; v = v->older)
	{
		if (v == write->version && v->xmin == write->xid)
			return v;
		*newer = v;
	}
	return NULL;
}

/*
 * DRAM is short, and collecting does not help: a version without data to take the place of the write's own.  NULL
 * if DRAM is not short, or full.
 */
static ZenVersion *
make_lean(ZenWrite *write)
{
	if (write->slot == InvalidZenSlot || write->frozen || !zen_clock_is_overfull())
		return NULL;
	return zen_version_alloc(0);
}

/* Leave the hint that a version is committed, if it is still there.  Returns the bytes that its predecessor takes. */
static Size
commit_mark_version(ZenWrite *write)
{
	ZenVersion *lean = make_lean(write),
			   *newer;
	bool		placed = false;
	Size		superseded = 0;
	uint64		w = zen_word_lock(write->word);
	ZenVersion *v = find_written(write, w, &newer);

	zen_chain_check(w);
	if (v != NULL)
	{
		Assert(!(zen_version_flags(v) & ZEN_V_ABORTED));
		Assert(write->slot == InvalidZenSlot || v->slot == write->slot);
		zen_version_set(v, ZEN_V_COMMITTED);
		if (zen_version_flags(v) & ZEN_V_PENDING)
			zen_version_clear(v, ZEN_V_PENDING);
		superseded = v->older ? zen_version_footprint(v->older) : 0;
		/* a frozen one may be about to be spilled by its next writer */
		placed = lean != NULL && (zen_version_flags(v) & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE)) == 0;
		if (placed)
			w = zen_version_slim(w, newer, v, lean);
	}
	zen_word_unlock(write->word, w);
	if (placed)
		zen_version_retire(v);
	else if (lean != NULL)
		zen_version_free(lean);
	return superseded;
}

/*
 * R5: the header that a slot had before it was written is no more.  W4: where stores are lazy, a crash brings it back
 * if it loses SLOTS.
 */
static void
forget_former(uint32 region, ZenTupleHeader former)
{
	if (unlikely(zen_nvm_is_lazy()))
		zen_collect_forget_when(former, zen_regions[region].doubt_end);
	else
		zen_collect_forget_header(former);
}

/*
 * Versions overwritten in NVM count no more (R5), the new ones are committed, and their predecessors are garbage.
 *
 * The transaction is visible by now, so others may have superseded and collected its versions.  They are looked for
 * under their words' locks.  Only aborted ones are still ours.
 *
 * Of the versions that it has written of one row, the newest stands for all.  The collector that freezes it cuts
 * the others off, and a reader that meets one of them before asks pg_xact.  To look for each of them would take the
 * square of their number.
 */
static void
settle_writes(uint32 region, ZenWriteSet *ws)
{
	const ZenWrite *end = ws->writes + ws->nwrites;

	for (ZenWrite *w = ws->writes; w < end; w++)
	{
		zen_ask_ahead(w, end);
		if (w->slot != InvalidZenSlot && !ZEN_FAULT(R5_COUNT_DOWN_EARLY))
			forget_former(region, w->former);
		Assert(!w->aborted || w->slot == InvalidZenSlot);
		if (w->aborted)
			zen_pop_version(w);
		else if (!w->superseded)
		{
			Size		superseded = commit_mark_version(w);
			ZenGcItem	item = {.tidno = w->tidno,.htable = w->ht->idx};

			/*
			 * a frozen version's xid is only shown to users, and may be too
			 * old to be compared
			 */
			zen_gcqueue_push(region, item, w->frozen ? FrozenTransactionId : w->xid, superseded);
		}
	}
}

/* The last slot of the write set, if it holds no row.  It leaves the write set. */
static ZenWrite *
next_own_slot(ZenWriteSet *ws)
{
	if (ws->nwrites == 0 || likely(ws->writes[ws->nwrites - 1].version != NULL))
		return NULL;
	return &ws->writes[--ws->nwrites];
}

static void
settle_own_slots(ZenCommit *commit, ZenWriteSet *ws)
{
	ZenWrite   *w;

	while ((w = next_own_slot(ws)) != NULL)
	{
		forget_former(commit->region, w->former);
		if (w->slot == commit->sink_slot)
			zen_sink.settle(w->slot);
		else
			zen_slot_free(w->slot); /* the anchor is not taken again (R4) */
	}
	commit->sink_slot = InvalidZenSlot;
}

/* A region that was leased to spill rows is at rest since then. */
static void
be_at_work(ZenCommit *commit)
{
	if (commit->stage == ZEN_STAGE_LEASED)
		zen_region_rest(commit->region, false);
	ZenAssertRegionMine(commit->region);
}

void
zen_commit_finish(ZenCommit *commit, ZenWriteSet *ws)
{
	ZenRegion  *region = &zen_regions[commit->region];

	if (commit->stage == ZEN_STAGE_NONE)
		return;
	be_at_work(commit);
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	if (commit->stage == ZEN_STAGE_DOUBT)
	{
		/*
		 * Not by LP: after COMMIT PREPARED the row may be gone already, and
		 * its page with it.  The watermark says the same (R3), in the line
		 * that also holds the descriptor.
		 */
		zen_region_doubt_committed(commit->region, commit->cts, XactLastCommitEnd);
	}
	else if (commit->last != InvalidZenSlot)
	{
		Assert(commit->stage == ZEN_STAGE_LP && commit->cts > region->last_cts);
		/* R4: the old anchor may go, the new LP is fenced */
		region->anchor = commit->last;
		region->last_cts = commit->cts;
	}
	settle_own_slots(commit, ws);
	settle_writes(commit->region, ws);
	zen_spillend_settle(commit->region, ws->blocks, ws->nblocks);

	/*
	 * Collect a bounded number of items for each row written, but more than
	 * the transaction has queued: so queues shrink under any load.
	 */
	zen_collect_run(commit->region, Max((uint32) GC_BATCH, 2 * (ws->nwrites + ws->nblocks * ZEN_TIDS_PER_BLOCK)));
	zen_region_release(commit->region);
	enter_stage(commit, ZEN_STAGE_NONE);
	if (zen_clock_needs_room())
		zen_clock_evict(Max(GC_BATCH * 2, (int) Min(2 * (uint64) ws->nwrites, INT_MAX)));
}

/*
 * R7: make the slots empty, durably, before the region commits again.
 *
 * The sink's own slot is written when the sink is told of the decision, so it is not told of as vanishing.
 */
static void
scrub_writes(ZenCommit *commit, ZenWriteSet *ws)
{
	Assert(commit->sink_slot == InvalidZenSlot || commit->told_xid != 0);
	for (ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot && w->slot != commit->sink_slot)
			ZEN_TELL(vanishing, w->slot);
	ZEN_TELL(vanish, commit->region, commit->told_xid);
	for (ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot && !ZEN_FAULT(R7_NO_SCRUB))
			zen_tuple_scrub(w->slot);
	if (!ZEN_FAULT(R7_NO_SCRUB_FENCE))
		zen_fence();
	ZEN_TELL(done);
	for (ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot)
			zen_collect_forget_header(w->former);
}

void
zen_commit_abort(ZenCommit *commit, ZenWriteSet *ws)
{
	if (commit->stage == ZEN_STAGE_NONE)
		return;
	be_at_work(commit);
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(ws->nblocks == 0 || ws->region == commit->region);
	if (commit->stage == ZEN_STAGE_LP)
		zen_commit_undo_lp(commit);
	if (commit->stage == ZEN_STAGE_WRITTEN || commit->stage == ZEN_STAGE_DOUBT)
		scrub_writes(commit, ws);
	zen_spillend_undo(commit->region, ws->blocks, ws->nblocks, true);
	if (commit->stage == ZEN_STAGE_DOUBT)
		zen_region_doubt_clear(commit->region);
	zen_return_slots(ws);
	while (next_own_slot(ws) != NULL)
		;
	commit->sink_slot = InvalidZenSlot;
	if (ws->nblocks > 0)
	{
		zen_epoch_flush();
		zen_slotalloc_release_empty(commit->region, 1, PG_UINT32_MAX, zen_collect_forget_header);
	}
	zen_region_release(commit->region);
	enter_stage(commit, ZEN_STAGE_NONE);
}

void
zen_commit_hand_over(ZenCommit *commit)
{
	Assert(commit->stage == ZEN_STAGE_DOUBT);
	Assert(zen_regions[commit->region].doubt_kind == ZEN_DOUBT_PREPARED || ZEN_FAULT(R9_NO_DESCRIPTOR));
	ZenAssertRegionMine(commit->region);
	zen_region_rest(commit->region, true);
	enter_stage(commit, ZEN_STAGE_NONE);
}

void
zen_commit_restore(ZenCommit *commit, uint32 region)
{
	Assert(zen_regions[region].doubt_kind == ZEN_DOUBT_PREPARED && zen_regions[region].doubt_cts != 0);
	commit->region = region;
	commit->cts = zen_regions[region].doubt_cts;
	commit->last = commit->sink_slot = InvalidZenSlot;
	commit->told_xid = zen_regions[region].doubt_xid;
	enter_stage(commit, ZEN_STAGE_DOUBT);
}

void
zen_pop_version(ZenWrite *write)
{
	ZenVersion *v = write->version;
	ZenVersion *ended = NULL;
	ZenLockers *lockers = NULL;
	bool		lone = false;
	uint64		w = zen_word_lock(write->word);

	zen_chain_check(w);
	/* else a later writer has left it out already */
	if (zen_word_leads_to(w, v))
		w = zen_version_pop(w, v, &lone, &lockers, &ended);
	Assert(!zen_chain_has(w, v));
	zen_chain_check(w);
	zen_word_unlock(write->word, w);
	if (lockers != NULL)
		zen_version_lockers_free(lockers);
	if (lone)
		zen_clock_enqueue(write->ht, write->tidno);
	zen_version_retire(v);
	if (ended != NULL)
		zen_version_retire(ended);
}
