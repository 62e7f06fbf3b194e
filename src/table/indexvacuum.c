/*
 * indexvacuum.c -- VACUUM of one index, and giving it up.
 *
 * A scan of a btree stays on its page, with a pin, while it hands out the rows of it, and keeps the pin from one FETCH
 * to the next.  For an index that writes WAL it would drop the pin, but indexes of zen tables write none.  VACUUM waits
 * for the pin, and the deadlock detector does not know of it.  So idle cursors could take all autovacuum workers, or
 * wait, in turn, for the lock of VACUUM.
 *
 * The wait is in the index's code.  A timer looks whether the process is in it, and after zen.vacuum_pin_timeout of
 * nothing else cancels the statement: the wait ends with an error, as for pg_cancel_backend().  The index works in a
 * subtransaction, which frees its pins and locks; the error goes no further.
 *
 * Why half a pass does no harm: an index may lack entries of dead rows at any time, and the TIDs of these stay DYING
 * until a VACUUM has been through all indexes (zenam_maint.c).  An index takes a cancel in its VACUUM from any user.
 */
#include "table/indexvacuum.h"

#include "access/xact.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#define LOOKS	4				/* of the timer in zen.vacuum_pin_timeout */

/* Written by the timer, in a signal handler. */
static volatile sig_atomic_t looks = 0; /* in a row that have found a wait */
static volatile sig_atomic_t given_up = false;

/* Is this process waiting for a pin, and for how long? */
static void
look(void)
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
timer(void)
{
	static bool registered = false;
	static TimeoutId id;

	if (!registered)
		id = RegisterTimeout(USER_TIMEOUT, look);
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
		enable_timeout_every(timer(), TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms), ms);
}

/* noticed: the cancel has led to an error.  A cancel of the timer that has not led to one is taken back. */
static void
stop_timer(bool noticed)
{
	if (zen_vacuum_pin_timeout_ms > 0)
		disable_timeout(timer(), false);
	if (given_up && !noticed)
		QueryCancelPending = false;
}

static IndexBulkDeleteResult *
work(ZenIndexVacuum *v)
{
	IndexBulkDeleteResult *stats = NULL;

	if (v->is_dead != NULL)
		stats = index_bulk_delete(&v->info, NULL, v->is_dead, v->arg);
	return index_vacuum_cleanup(&v->info, stats);
}

static void
report(ZenIndexVacuum *v)
{
	ereport(AmAutoVacuumWorkerProcess() ? LOG : WARNING,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("index \"%s\" of table \"%s\" is not vacuumed", RelationGetRelationName(v->info.index),
					RelationGetRelationName(v->table)),
			 errdetail("An open cursor or a running query has stayed on one of its pages for %d ms.",
					   zen_vacuum_pin_timeout_ms),
			 errhint("Dead rows keep their places until a VACUUM has been through all indexes.  Close idle cursors, "
					 "or raise zen.vacuum_pin_timeout.")));
}

bool
zen_index_vacuum(ZenIndexVacuum *v, IndexBulkDeleteResult **stats)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *error = NULL;
	int			level PG_USED_FOR_ASSERTS_ONLY = GetCurrentTransactionNestLevel();

	ZenAssertNotInEpoch();
	Assert(IsTransactionState() && v->info.index->rd_index->indrelid == RelationGetRelid(v->table));
	*stats = NULL;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		start_timer();
		*stats = work(v);
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
	report(v);
	return false;
}
