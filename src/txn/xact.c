/*
 * xact.c -- the end of a transaction.
 *
 * PRE_COMMIT is the last callback before PostgreSQL makes a transaction visible, so zen-only transactions become
 * durable there (R9).  A few steps that may still fail come after it.  Serialization failures are looked for first.
 * For the rest an error context callback stays installed: it takes LP back, durably, before the error is reported.
 * (emit_log_hook would come too late, and with log_min_messages = fatal it would not be called.)  If the error may be
 * caught and the commit go on, the commit record decides from then on.
 *
 * src/txn/README, "Commit", says which transactions are zen-only.  The others are mixed: their commit record, forced to
 * be flushed, decides.
 */
#include "txn/xact.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/stats.h"
#include "cache/tablestat.h"
#include "catalog/storage.h"
#include "gc/collect.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/sink.h"
#include "replication/origin.h"
#include "row/lockers.h"
#include "row/rowchange.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "storage/ipc.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "stream/streamtail.h"
#include "txn/commit.h"
#include "txn/ddl.h"
#include "txn/deltas.h"
#include "txn/exclusive.h"
#include "txn/prepared.h"
#include "txn/sequence.h"
#include "txn/spill.h"
#include "txn/spillend.h"
#include "utils/memutils.h"

bool		zen_xact_is_last = false;

static bool attached = false;
static bool watching = false;	/* undo_context stands on the stack */
static ErrorContextCallback undo_context;
static sigjmp_buf *catcher;		/* of errors that end the transaction */
static bool deciding = false;	/* LP is being replaced by the commit record */

/* ---------- errors after LP ---------- */

/* Of the message that is being raised. */
static int
message_level(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	ErrorData  *edata = CopyErrorData();
	int			level = edata->elevel;

	FreeErrorData(edata);
	MemoryContextSwitchTo(old);
	return level;
}

/*
 * LP has been taken back, but the code that catches the error may go on with the commit: from here on it is a mixed
 * one.  The xid comes first, as in pre_commit().
 */
static void
let_commit_record_decide(void)
{
	Assert(zen_my_commit.stage == ZEN_STAGE_WRITTEN && !deciding);
	HOLD_INTERRUPTS();
	deciding = true;
	zen_xid_make_durable();
	ForceSyncCommit();
	zen_commit_doubt(&zen_my_commit, U64FromFullTransactionId(GetTopFullTransactionId()), ZEN_DOUBT_COMMIT);
	deciding = false;
	RESUME_INTERRUPTS();
}

/*
 * Called for every message that is raised between LP and the end of commit.  An error means abort, so LP goes before
 * the client can hear of it.  Only an error that is caught before it reaches PostgreSQL's own handler may leave the
 * transaction alive.
 */
static void
undo_on_error(void *arg)
{
	int			level;

	Assert(watching);
	/* once others can see the transaction, nothing may be taken back */
	if ((zen_my_commit.stage != ZEN_STAGE_LP && !deciding) || !TransactionIdIsValid(MyProc->xid))
		return;
	level = message_level();
	if (level < ERROR)
		return;
	/* it might be caught, and the transaction commit without its rows */
	if (deciding)
		ereport(PANIC,
				(errmsg("zen could not hand a commit over to the WAL")));
	zen_commit_undo_lp(&zen_my_commit);
	if (level == ERROR && PG_exception_stack != catcher)
		let_commit_record_decide();
}

/*
 * From here on errors are watched.  Interrupts are held until zen has written everything.
 *
 * PostgreSQL's remaining steps may be cancelled like any commit.  PreCommit_Notify() must be: it waits for a lock
 * that others hold over a commit, and that commit may wait for a standby.
 */
static void
watch_errors(void)
{
	Assert(!watching && !deciding);
	undo_context.callback = undo_on_error;
	undo_context.arg = NULL;
	catcher = PG_exception_stack;	/* NULL in a login event trigger: an error
									 * is FATAL there */
	undo_context.previous = error_context_stack;
	error_context_stack = &undo_context;
	HOLD_INTERRUPTS();
	watching = true;
}

static void
unwatch_errors(void)
{
	if (!watching)
		return;
	Assert(error_context_stack == &undo_context);
	error_context_stack = undo_context.previous;
	watching = false;
}

/* ---------- before the end ---------- */

/* Is this a transaction of a logical replication worker?  Its commit record says how far it has come. */
static bool
is_applied(void)
{
	return replorigin_session_origin != InvalidRepOriginId && replorigin_session_origin != DoNotReplicateId;
}

/*
 * A record of nextval() alone makes no transaction mixed: what it says holds whether the transaction commits or
 * not, and zen_sequence_flush() makes it durable.
 */
static bool
is_mixed(void)
{
	return (XactLastRecEnd != 0 && !zen_sequence_logged_alone()) || zen_ddl_pending() || is_applied() ||
		!zen_xact_is_last;
}

static Size
bytes_of_versions(const ZenWriteSet *ws)
{
	Size		bytes = 0;

	for (const ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		bytes += zen_write_nvm_size(w->version);
	return bytes;
}

/*
 * The transaction would commit by LP: the bytes of a slot that the sink wants beside the rows'; 0: none;
 * ZEN_SINK_BY_RECORD: it must be mixed.  Nothing is reserved yet.  May throw.
 */
static int64
ask_sink(const ZenWriteSet *ws)
{
	if (likely(zen_sink.begin == NULL))
		return 0;
	return zen_sink.begin(ws->nwrites, bytes_of_versions(ws), ws->nblocks > 0);
}

/* False, with nothing written, if the pool has no room for the sink's slot: then it must be mixed. */
static bool
commit_zen_only(ZenWriteSet *ws, Size sink_size)
{
	zen_sequence_flush();
	zen_deltas_make(ws);
	zen_commit_reserve(&zen_my_commit, ws);
	if (!zen_commit_reserve_own(&zen_my_commit, ws, sink_size))
		return false;
	watch_errors();
	zen_commit_store(&zen_my_commit, ws, zen_sink.written != NULL);
	if (zen_my_commit.last != InvalidZenSlot && !ZEN_FAULT(R9_LP_AFTER_VISIBLE))
		zen_commit_set_lp(&zen_my_commit, ws);
	Assert(zen_my_commit.stage != ZEN_STAGE_WRITTEN || ZEN_FAULT(R9_LP_AFTER_VISIBLE));
	RESUME_INTERRUPTS();
	ZEN_COUNT(commits_zen_only, 1);
	return true;
}

static void
commit_mixed(ZenWriteSet *ws, uint64 full_xid, bool reserved)
{
	/* W2: of what is lazy, nothing is on disk before the WAL that says it */
	if (!zen_nvm_is_lazy() || zen_ddl_pending())
	{
		zen_xid_make_durable();
		if (!ZEN_FAULT(R9_NO_FORCED_FLUSH))
			ForceSyncCommit();
	}
	if (!reserved && (ws->nwrites > 0 || ws->nblocks > 0))
	{
		zen_deltas_make(ws);
		zen_commit_reserve(&zen_my_commit, ws);
		(void) zen_commit_reserve_own(&zen_my_commit, ws, 0);
	}
	watch_errors();
	zen_ddl_precommit(full_xid);
	if (ws->nwrites > 0 || ws->nblocks > 0)
	{
		zen_commit_store(&zen_my_commit, ws, true);
		if (zen_my_commit.last != InvalidZenSlot)
			zen_commit_doubt(&zen_my_commit, full_xid, ZEN_DOUBT_COMMIT);
	}
	Assert(zen_my_commit.stage != ZEN_STAGE_WRITTEN && zen_my_commit.stage != ZEN_STAGE_LP);
	RESUME_INTERRUPTS();
	ZEN_COUNT(commits_mixed, 1);
}

static void
pre_commit(void)
{
	ZenWriteSet *ws = &zen_writeset;
	uint64		full_xid;
	int64		sink_size;

	/* PostgreSQL has released all savepoints */
	Assert(GetCurrentTransactionNestLevel() == 1);
	Assert(zen_my_commit.stage == ZEN_STAGE_NONE || zen_my_commit.stage == ZEN_STAGE_LEASED);
	zen_sequence_publish(XACT_EVENT_PRE_COMMIT);
	if (ws->nwrites == 0 && ws->nblocks == 0 && !zen_ddl_pending())
		return;
	/* may throw: do it while nothing is written */
	PreCommit_CheckForSerializationFailure();
	full_xid = U64FromFullTransactionId(GetTopFullTransactionId());
	if (zen_nvm_is_lazy() && synchronous_commit == SYNCHRONOUS_COMMIT_OFF)
		zen_horizon_begin_async();

	if (is_mixed() || (sink_size = ask_sink(ws)) == ZEN_SINK_BY_RECORD)
		commit_mixed(ws, full_xid, false);
	else if ((ws->nwrites > 0 || ws->nblocks > 0) && !commit_zen_only(ws, (Size) sink_size))
		commit_mixed(ws, full_xid, true);
	zen_fault_pause(ZEN_FAULT(R19_PAUSE_DECIDED) && zen_my_commit.stage != ZEN_STAGE_NONE);
}

static void
pre_prepare(void)
{
	ZenWriteSet *ws = &zen_writeset;

	Assert(GetCurrentTransactionNestLevel() == 1);
	zen_sequence_publish(XACT_EVENT_PRE_PREPARE);
	if (ws->nwrites == 0 && ws->nblocks == 0 && ws->nlocks == 0 && !zen_ddl_pending())
	{
		/* a region may have been leased for rows that savepoints took back */
		zen_commit_abort(&zen_my_commit, ws);
		return;
	}
	PreCommit_CheckForSerializationFailure();
	if (!zen_nvm_is_lazy() || zen_ddl_pending())
		zen_xid_make_durable();
	zen_ddl_precommit(U64FromFullTransactionId(GetTopFullTransactionId()));
	zen_prepared_store(&zen_my_commit, U64FromFullTransactionId(GetTopFullTransactionId()));
	ZEN_COUNT(commits_prepared, 1);
}

/*
 * What is added to the write set later would be lost.  A commit needs no row locks, so they may still be added; a
 * prepared transaction keeps them.
 */
static void
close_write_set(bool locks)
{
	zen_writeset.writes_closed = true;
	zen_writeset.locks_closed = locks;
}

/* ---------- after the end ---------- */

static void
release_locks(int nest_level)
{
	ZenWriteSet *ws = &zen_writeset;

	Assert(ws->nlocks <= ws->locks_capacity);
	while (ws->nlocks > 0 && ws->locks[ws->nlocks - 1].nest_level >= nest_level)
	{
		ZenLockedRow *l = &ws->locks[--ws->nlocks];

		zen_lockers_release(l->ht, l->tidno, l->xid);
	}
}

static void
pop_writes(int nest_level)
{
	ZenWriteSet *ws = &zen_writeset;

	Assert(ws->nwrites <= ws->writes_capacity);
	while (ws->nwrites > 0 && ws->writes[ws->nwrites - 1].nest_level >= nest_level)
		zen_pop_version(&ws->writes[--ws->nwrites]);
}

/*
 * The record of an abort is on disk before PostgreSQL removes files that the transaction has made.
 *
 * Otherwise a crash may lose the record.  Then replay makes the init fork of an unlogged index again, beside a main
 * fork that waits for a checkpoint to remove it, and the server does not start.  (PostgreSQL's bug 17731; all
 * indexes of zen tables are unlogged.)  The flush may fail, so it comes after all that is ours has been undone.
 */
static void
flush_abort_record(void)
{
	RelFileLocator *files;

	if (smgrGetPendingDeletes(false, &files) == 0)
		return;
	/* XactLastRecEnd is gone already: flush up to a record of our own */
	XLogFlush(zen_streamlog_mark(false));
	pfree(files);
}

static void
forget_all(void)
{
	zen_collect_forget_waiting(false);
	zen_writeset_clear();
	zen_horizon_end_async();
	ZEN_TELL(end);
	Assert(zen_my_commit.stage == ZEN_STAGE_NONE);
}

static void
after_commit(void)
{
	Assert(InterruptHoldoffCount > 0);
	zen_fault_pause(ZEN_FAULT(R19_PAUSE_COMMITTED) && zen_my_commit.stage == ZEN_STAGE_DOUBT);
	release_locks(0);
	if (ZEN_FAULT(R9_LP_AFTER_VISIBLE) && zen_my_commit.stage == ZEN_STAGE_WRITTEN)
	{
		pg_usleep(1000000L);	/* long enough for a test to use what it sees */
		zen_commit_set_lp(&zen_my_commit, &zen_writeset);
	}
	zen_commit_finish(&zen_my_commit, &zen_writeset);
	zen_ddl_end(XACT_EVENT_COMMIT);
	unwatch_errors();
	forget_all();
	zen_exclusive_end(ZEN_EXCLUSIVE_COMMITTED);
}

/*
 * Clean up after an error in the middle of something.  It is done here and not where the error passes: the end of a
 * session (FATAL) passes no PG_CATCH() and no PG_FINALLY().
 */
static void
abandon_all(void)
{
	/* nothing throws under a word's lock */
	ZenAssertNoWordLocked();
	zen_epoch_reset();
	zen_row_abandon();
	zen_row_change_abandon();
	zen_spill_abandon();
}

static void
after_abort(void)
{
	Assert(InterruptHoldoffCount > 0);
	abandon_all();

	/*
	 * an error has reset the interrupt holdoff and the error context stack
	 * already
	 */
	watching = deciding = false;
	zen_sequence_publish(XACT_EVENT_ABORT);
	if (zen_writeset.nwrites > 0 || zen_writeset.nblocks > 0)
		ZEN_COUNT(aborts, 1);
	zen_prepared_undo(&zen_my_commit);
	zen_commit_abort(&zen_my_commit, &zen_writeset);
	release_locks(0);
	pop_writes(0);
	zen_ddl_end(XACT_EVENT_ABORT);
	forget_all();
	zen_exclusive_end(ZEN_EXCLUSIVE_ABORTED);
	flush_abort_record();
	XactLastRecEnd = 0;			/* the next transaction has written nothing
								 * yet */
}

static void
after_prepare(void)
{
	Assert(InterruptHoldoffCount > 0);
	if (zen_my_commit.stage != ZEN_STAGE_NONE)
		zen_prepared_hand_over(&zen_my_commit);
	zen_ddl_end(XACT_EVENT_PREPARE);
	forget_all();
	zen_exclusive_end(ZEN_EXCLUSIVE_PREPARED);
}

/* A savepoint was released: its entries belong to its parent. */
static void
raise_write_set(int nest_level)
{
	ZenWriteSet *ws = &zen_writeset;

	Assert(nest_level > 1);
	for (uint32 i = ws->nwrites; i > 0 && ws->writes[i - 1].nest_level >= nest_level; i--)
		ws->writes[i - 1].nest_level = nest_level - 1;
	for (uint32 i = ws->nlocks; i > 0 && ws->locks[i - 1].nest_level >= nest_level; i--)
		ws->locks[i - 1].nest_level = nest_level - 1;
	for (uint32 i = ws->nblocks; i > 0 && ws->blocks[i - 1].nest_level >= nest_level; i--)
		ws->blocks[i - 1].nest_level = nest_level - 1;
}

void
zen_xact_event(XactEvent event)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			pre_commit();
			close_write_set(false);
			break;
		case XACT_EVENT_PRE_PREPARE:
			pre_prepare();
			close_write_set(true);
			break;
		case XACT_EVENT_COMMIT:
			after_commit();
			zen_sequence_end();
			break;
		case XACT_EVENT_ABORT:
			after_abort();
			zen_sequence_end();
			break;
		case XACT_EVENT_PREPARE:
			after_prepare();
			zen_sequence_end();
			break;
		default:				/* parallel workers write nothing */
			break;
	}
}

void
zen_xact_subevent(SubXactEvent event, SubTransactionId subxact)
{
	int			level = GetCurrentTransactionNestLevel();

	Assert(level > 1 || (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB));
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			raise_write_set(level);
			zen_ddl_subend(event, level);
			ZEN_TELL(subcommit, level);
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			zen_sequence_subabort();
			abandon_all();
			release_locks(level);
			ZEN_TELL(subabort, level);
			zen_spillend_subabort(level);
			pop_writes(level);
			zen_ddl_subend(event, level);
			/* the entries that remain are of the levels above */
			Assert(zen_writeset.nwrites == 0 || zen_writeset.writes[zen_writeset.nwrites - 1].nest_level < level);
			Assert(zen_writeset.nlocks == 0 || zen_writeset.locks[zen_writeset.nlocks - 1].nest_level < level);
			Assert(zen_writeset.nblocks == 0 || zen_writeset.blocks[zen_writeset.nblocks - 1].nest_level < level);
			flush_abort_record();
			break;
		default:
			break;
	}
}

/* ---------- processes ---------- */

static void
xact_detach(int code, Datum arg)
{
	/* ShutdownPostgres() has aborted the transaction under way */
	Assert(zen_my_commit.stage == ZEN_STAGE_NONE);
	zen_collect_forget_waiting(true);
	zen_tablestat_flush();
	zen_exclusive_end(ZEN_EXCLUSIVE_GONE);
	zen_epoch_detach();
	zen_tidmap_detach();
	zen_version_detach();
	zen_arena_drain();
}

void
zen_xact_attach(void)
{
	if (likely(attached))
		return;
	zen_stats_attach();
	zen_epoch_attach();
	Assert(zen_my_epoch != NULL);
	if (IsUnderPostmaster)
		on_shmem_exit(xact_detach, (Datum) 0);
	attached = true;
}
