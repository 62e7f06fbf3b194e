/*
 * zenam_vacuum.c -- VACUUM: it makes dead TIDs usable again, and gives up an index whose page is pinned for long.
 *
 * src/table/README, "VACUUM", has the steps, and says why an index may be given up.
 */
#include "table/zenam_callbacks.h"

#include "access/multixact.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "cache/spillmap.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "row/visibility.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#define BLOCKS_PER_LEAF	(ZEN_LEAF_WORDS / ZEN_TIDS_PER_BLOCK)

/* ---------- TIDs ---------- */

typedef struct VacuumCounts
{
	double		live;
	uint64		dead;			/* TIDs to be removed from the indexes */
	uint64		remaining;		/* dead TIDs left alone */
} VacuumCounts;

/* Change a word's state, if it still has the one given. */
static bool
change_state(ZenWord *word, uint64 from, uint64 to)
{
	uint64		w = zen_word_lock(word);
	bool		is = zen_word_state(w) == from;

	if (is)
		w = zen_word_with(w, to, zen_word_ref(w));
	/* VACUUM makes these two transitions, and no other */
	Assert((from == ZEN_WORD_DEAD && to == ZEN_WORD_DYING) || (from == ZEN_WORD_DYING && to == ZEN_WORD_UNUSED));
	ZenAssertWordLocked(word);
	zen_word_unlock(word, w);
	return is;
}

/*
 * Is there a row, as far as is known now?  As for heap, a row whose insertion is not committed does not count; a row
 * whose deletion is not committed does.
 */
static bool
is_live(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	bool		live = true;
	ZenSpilledChain space;
	ZenVersion *head;
	uint64		w;

	zen_epoch_enter();
	head = zen_spillmap_word_chain(ht, tidno, word, &w, &space);
	if (head != NULL)
	{
		ZenVersion *top = zen_top_version(head);

		if (top == NULL)
			live = false;
		else if (zen_version_state(top) == ZEN_XID_IN_PROGRESS)
			live = top->older != NULL;
		else
			live = !(zen_version_flags(top) & ZEN_V_TOMBSTONE);
	}
	zen_epoch_leave();
	return live;
}

/* Count one TID, and mark it if it is dead.  Most words say that all see a row: their versions are left alone (I10). */
static inline void
mark_if_dead(ZenHTable *ht, uint64 tidno, ZenWord *word, bool remove, VacuumCounts *counts)
{
	uint64		w = zen_word_read(word);
	uint64		state = zen_word_state(w);

	if (zen_word_is_seen(w))
		counts->live++;
	else if (state == ZEN_WORD_ENTRY || state == ZEN_WORD_SPILLED)
		counts->live += is_live(ht, tidno, word);
	else if (state == ZEN_WORD_DYING ||
			 (state == ZEN_WORD_DEAD && remove && change_state(word, ZEN_WORD_DEAD, ZEN_WORD_DYING)))
		counts->dead++;
	else if (state == ZEN_WORD_DEAD)
		counts->remaining++;
}

/* Is there a row that all see under each TID of a block?  The usual case, so no word has a branch or a barrier. */
static inline bool
is_full_block(ZenWord *words)
{
	bool		full = true;

	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		full &= zen_word_is_seen(pg_atomic_read_u64(&words[i]));
	return full;
}

/* First pass over one block; false if all see a row under each TID of it. */
static bool
mark_block(ZenHTable *ht, uint32 block, bool remove, VacuumCounts *counts)
{
	uint64		first = (uint64) block * ZEN_TIDS_PER_BLOCK;
	ZenWord    *words = zen_tidmap_word(ht, first);

	Assert(words != NULL);
	if (is_full_block(words))
	{
		counts->live += ZEN_TIDS_PER_BLOCK;
		return false;
	}
	zen_vacuum_delay_point();
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		mark_if_dead(ht, first + i, &words[i], remove, counts);
	return true;
}

/*
 * First pass: count, and mark dead TIDs.  Lists the blocks that the last pass must look at; how many?
 *
 * Leaves of the map that were full at an earlier VACUUM, and have not changed since, are not looked at.
 */
static uint32
mark_dead(ZenHTable *ht, uint32 nblocks, bool remove, VacuumCounts *counts, uint32 *blocks)
{
	uint32		n = 0;
	uint32		end;

	for (uint32 leaf = 0; leaf < nblocks; leaf = end)
	{
		end = Min(leaf + BLOCKS_PER_LEAF, nblocks);
		zen_vacuum_delay_point();
		pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, leaf);
		if (zen_tidmap_leaf_is_full(ht, (uint64) leaf * ZEN_TIDS_PER_BLOCK))
		{
			counts->live += (double) (end - leaf) * ZEN_TIDS_PER_BLOCK;
			continue;
		}
		for (uint32 b = leaf; b < end; b++)
			if (mark_block(ht, b, remove, counts))
				blocks[n++] = b;
	}
	return n;
}

/*
 * Last pass: no index knows the DYING ones any more.  Lists those of the blocks with room for new rows.
 *
 * A block that was full in the first pass is not among them: only VACUUM, one at a time, makes a TID of a row UNUSED.
 */
static void
free_dead(ZenHTable *ht, const uint32 *blocks, uint32 nblocks, bool indexes_clean)
{
	uint32	   *with_room = palloc_extended(Max(nblocks, 1) * sizeof(uint32), MCXT_ALLOC_HUGE);
	uint32		n = 0;

	for (uint32 k = nblocks; k-- > 0;)
	{
		ZenWord    *words = zen_tidmap_word(ht, (uint64) blocks[k] * ZEN_TIDS_PER_BLOCK);
		bool		room = false;

		for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		{
			ZenWord    *word = &words[i];
			uint64		w;

			if (indexes_clean && zen_word_state(zen_word_read(word)) == ZEN_WORD_DYING)
				change_state(word, ZEN_WORD_DYING, ZEN_WORD_UNUSED);
			w = zen_word_read(word);
			room |= zen_word_state(w) == ZEN_WORD_UNUSED && zen_word_ref(w) == 0;
		}
		if (room)
			with_room[n++] = blocks[k];
	}
	Assert(n <= nblocks);
	zen_tidmap_set_free_blocks(ht, with_room, n);
	pfree(with_room);
}

/* ---------- one index ---------- */

#define LOOKS	4				/* of the timer in zen.vacuum_pin_timeout */

/* Written by the timer, in a signal handler. */
static volatile sig_atomic_t looks = 0; /* in a row that have found a wait */
static volatile sig_atomic_t given_up = false;

/* Is this process waiting for a pin, and for how long? */
static void
look_for_pin(void)
{
	looks = *(volatile uint32 *) &MyProc->wait_event_info == ZEN_WAIT_BUFFER_PIN ? looks + 1 : 0;
	/* another cancel is on its way: it must not be taken for the timer's */
	if (looks < LOOKS || given_up || QueryCancelPending)
		return;
	given_up = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

static TimeoutId
pin_timer(void)
{
	static bool registered = false;
	static TimeoutId id;

	if (!registered)
		id = RegisterTimeout(USER_TIMEOUT, look_for_pin);
	registered = true;
	return id;
}

static void
start_timer(void)
{
	int			ms = Max(zen_vacuum_pin_timeout_ms / LOOKS, 1);

	looks = 0;
	given_up = false;
	if (zen_vacuum_pin_timeout_ms > 0)
		enable_timeout_every(pin_timer(), TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms), ms);
}

/* noticed: the cancel has led to an error.  A cancel of the timer that has not led to one is taken back. */
static void
stop_timer(bool noticed)
{
	if (zen_vacuum_pin_timeout_ms > 0)
		disable_timeout(pin_timer(), false);
	if (given_up && !noticed)
		QueryCancelPending = false;
}

static bool
tid_is_dying(ItemPointer tid, void *state)
{
	ZenWord    *word = zen_tidmap_word((ZenHTable *) state, zen_tidno(tid));

	return word != NULL && zen_word_state(zen_word_read(word)) == ZEN_WORD_DYING;
}

static void
report_given_up(Relation rel, Relation index)
{
	ereport(AmAutoVacuumWorkerProcess() ? LOG : WARNING,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("index \"%s\" of table \"%s\" is not vacuumed", RelationGetRelationName(index),
					RelationGetRelationName(rel)),
			 errdetail("An open cursor or a running query has stayed on one of its pages for %d ms.",
					   zen_vacuum_pin_timeout_ms),
			 errhint("Dead rows keep their places until a VACUUM has been through all indexes.  Close idle cursors, "
					 "or raise zen.vacuum_pin_timeout.")));
}

/*
 * Have one index remove its entries of dead rows, if remove is set, and clean up.
 *
 * False, with a message, if the index was given up: another session has stayed on one of its pages for
 * zen.vacuum_pin_timeout.  Some of the entries may be removed.  *stats is the index's result, or NULL.  No
 * subtransaction is under way.  Throws the errors of the index.
 */
static bool
vacuum_index(Relation rel, IndexVacuumInfo *info, bool remove, IndexBulkDeleteResult **stats)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *error = NULL;
	int			level PG_USED_FOR_ASSERTS_ONLY = GetCurrentTransactionNestLevel();

	ZenAssertNotInEpoch();
	Assert(IsTransactionState() && info->index->rd_index->indrelid == RelationGetRelid(rel));
	*stats = NULL;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		start_timer();
		if (remove)
			*stats = index_bulk_delete(info, NULL, tid_is_dying, zen_rel_htable_raw(rel));
		*stats = index_vacuum_cleanup(info, *stats);
		stop_timer(false);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		stop_timer(error->sqlerrcode == ERRCODE_QUERY_CANCELED);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	Assert(GetCurrentTransactionNestLevel() == level);
	if (error == NULL)
		return true;
	if (!given_up || error->sqlerrcode != ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	FreeErrorData(error);
	report_given_up(rel, info->index);
	return false;
}

/* ---------- a table ---------- */

/* The end of a subtransaction in an error takes the report of progress away. */
static void
report_progress_again(Relation rel)
{
	BlockNumber nblocks = zen_rel_nblocks(rel);

	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, nblocks);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, nblocks);
}

/* Have every index remove the entries of dead rows, if remove is set, and clean up.  False if one was given up. */
static bool
vacuum_indexes(Relation rel, Relation *indexes, int nindexes, double live, bool remove, BufferAccessStrategy strategy,
			   int elevel)
{
	bool		all = true;

	for (int i = 0; i < nindexes; i++)
	{
		IndexVacuumInfo info = {.index = indexes[i],.message_level = elevel,
		.num_heap_tuples = live,.strategy = strategy};
		IndexBulkDeleteResult *stats;

		zen_set_vacuum_table(&info, rel);
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, remove ?
									 PROGRESS_VACUUM_PHASE_VACUUM_INDEX : PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
		if (!vacuum_index(rel, &info, remove, &stats))
		{
			all = false;
			report_progress_again(rel);
			continue;
		}
		if (stats != NULL && !stats->estimated_count)
			zen_vac_update_relstats(indexes[i], stats->num_pages, stats->num_index_tuples, false,
									InvalidTransactionId, InvalidMultiXactId);
		if (stats != NULL)
			pfree(stats);
	}
	return all;
}

/*
 * zen freezes by itself, so its tables have neither xid nor multixact to show.  But a rewrite gives both to a table of
 * any access method.  As long as a table has them, VACUUM must advance them, or the server runs out of xids some day.
 */
static void
choose_frozen(Relation rel, TransactionId *xid, MultiXactId *multi)
{
	*xid = TransactionIdIsNormal(rel->rd_rel->relfrozenxid) ? GetOldestNonRemovableTransactionId(rel) :
		InvalidTransactionId;
	*multi = MultiXactIdIsValid(rel->rd_rel->relminmxid) ? GetOldestMultiXactId() : InvalidMultiXactId;
}

/*
 * VACUUM of all tables, and autovacuum, leave out all zen tables when recovery has failed, and after a crash a table
 * whose indexes are still to be rebuilt.  Such a table is the worker's, which reports its errors; and functions in its
 * indexes may not run here, where snapshots protect nothing (PROC_IN_VACUUM).  Tables named have come through
 * admin/commands.c before.
 */
static bool
leave_out(Relation rel)
{
	int			elevel = AmAutoVacuumWorkerProcess() ? DEBUG1 : WARNING;

	if (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not vacuumed: recovery of the zen pool has failed", RelationGetRelationName(rel)),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
	else if (!zen_reindex_is_passed(zen_rel_htable_raw(rel)))
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not vacuumed: its indexes are not rebuilt yet after the crash",
						RelationGetRelationName(rel)),
				 errhint("VACUUM the table by its name to have them rebuilt first.")));
	else
		return false;
	return true;
}

/* Collect garbage, take TIDs without a row out of the indexes, and hand them out again. */
static void
zenam_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy)
{
	ZenHTable  *ht;
	int			elevel = (params->options & VACOPT_VERBOSE) ? INFO : DEBUG2;
	bool		remove = params->index_cleanup != VACOPTVALUE_DISABLED;
	VacuumCounts counts = {0};
	TimestampTz started = GetCurrentTimestamp();
	Relation   *indexes;
	int			nindexes;
	bool		clean;
	BlockNumber nblocks;
	uint32	   *blocks;			/* those that are not full */
	uint32		nlooked;
	TransactionId frozen_xid;
	MultiXactId frozen_multi;

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	if (leave_out(rel))
		return;
	zen_gate();
	ht = zen_rel_htable_raw(rel);
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	ereport(elevel,
			(errmsg("vacuuming \"%s.%s.%s\"", get_database_name(MyDatabaseId),
					get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel))));

	zen_reclaim_all();
	zen_reclaim_pages();
	nblocks = zen_rel_nblocks(rel);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, nblocks);
	vac_open_indexes(rel, RowExclusiveLock, &nindexes, &indexes);
	blocks = palloc_extended(Max(nblocks, 1) * sizeof(uint32), MCXT_ALLOC_HUGE);
	nlooked = mark_dead(ht, nblocks, remove || nindexes == 0, &counts, blocks);
	clean = vacuum_indexes(rel, indexes, nindexes, counts.live, remove && counts.dead > 0, bstrategy, elevel) &&
		(remove || nindexes == 0);
	free_dead(ht, blocks, nlooked, clean);
	pfree(blocks);
	/* the words that are left stay DYING: autovacuum comes again */
	if (!clean)
		counts.remaining += counts.dead;
	Assert(!clean || remove || nindexes == 0);
	vac_close_indexes(nindexes, indexes, NoLock);
	zen_rel_extend_file(rel, nblocks);

	choose_frozen(rel, &frozen_xid, &frozen_multi);
	zen_vac_update_relstats(rel, nblocks, counts.live, nindexes > 0, frozen_xid, frozen_multi);
	zen_report_vacuum(rel, (PgStat_Counter) counts.live, (PgStat_Counter) counts.remaining, started);
	ereport(elevel,
			(errmsg("table \"%s\": removed " UINT64_FORMAT " dead row identifiers from %d indexes, %.0f rows remain",
					RelationGetRelationName(rel), clean ? counts.dead : 0, nindexes, counts.live)));
	pgstat_progress_end_command();
}

void
zenam_vacuum_callbacks(TableAmRoutine *routine)
{
	routine->relation_vacuum = zenam_relation_vacuum;
}
