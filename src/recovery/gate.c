/*
 * gate.c -- waiting until the pool is recovered, or until a hot standby can be read.
 *
 * Whoever comes first recovers (recovery.c), and others help it (passes.c).  In recovery of PostgreSQL itself nobody
 * may: there the gate refuses, or lets readers through when the standby's maps are made (src/standby).
 */
#include "recovery/gate.h"

#include "access/xlog.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "nvm/pool.h"
#include "recovery/passes.h"
#include "recovery/recovery.h"
#include "storage/condition_variable.h"
#include "stream/streamtail.h"
#include "tcop/utility.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define STANDBY_WAIT_MS	10000	/* that a reader waits until a standby's maps
								 * are made */
#define STANDBY_LOOK_MS	200		/* between two looks at the end of recovery */

bool		zen_recovery_is_worker = false;
const char *zen_gate_refused = NULL;

static bool
is_over_or_open(void)
{
	return zen_recovery_is_over() || pg_atomic_read_u32(&zen_recovery->open) != 0;
}

static void
refuse_in_recovery(void)
{
	if (zen_gate_refused != NULL)
		PreventCommandIfReadOnly(zen_gate_refused);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("zen tables cannot be used while the server is in recovery"),
			 zen_pool_is_replica() ?
			 errdetail("The pool follows the primary server.  Its tables open when this server is promoted.") :
			 errdetail("Their contents are not in the WAL, so a standby does not have them."),
			 zen_pool_is_replica() && zen_pool_is_copied() && !zen_standby_reads ?
			 errhint("Connect to the primary server, or set zen.standby_reads to on here and restart this server.") :
			 errhint("Connect to the primary server.")));
}

/* Recover, or help the leader until enough() is true. */
static void
wait_until(bool (*enough) (void))
{
	uint32		needed = ZEN_RECOVERY_NEEDED;

	if (RecoveryInProgress())
		refuse_in_recovery();

	/* its snapshots need maps that recovery takes away */
	if (zen_standby_has_read())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a transaction that has read zen tables on a standby cannot go on behind its promotion"),
				 errhint("Repeat the transaction.")));
	if (zen_streamtail_expected() && !IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen tables cannot be used in single-user mode after a crash with zen.stream"),
				 errhint("Start the server once as usual.")));
	if ((zen_recovery_is_worker || !zen_streamtail_expected()) &&
		pg_atomic_compare_exchange_u32(&zen_recovery->state, &needed, ZEN_RECOVERY_RUNNING))
	{
		zen_recovery_lead();
		return;
	}

	zen_passes_help(enough);
	if (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen tables are not available: recovery of the pool has failed"),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
}

void
zen_gate_wait(void)
{
	wait_until(zen_recovery_is_over);
	Assert(zen_gate_is_ready());
}

/* ---------- the gate of a hot standby ---------- */

static void
standby_not_yet(void)
{
	ZenStandbyState state = zen_standby_state();

	ereport(ERROR,
			(errcode(state == ZEN_STANDBY_STARVED ? ERRCODE_OUT_OF_MEMORY : ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen tables cannot be read on this standby at the moment"),
			 errdetail("The state is \"%s\".", zen_standby_state_name()),
			 state == ZEN_STANDBY_STARVED ?
			 errhint("If the server log says that zen.dram_size is too small, raise it and restart this server.") :
			 errhint("Repeat the statement.  If that does not help, see the server log, and raise "
					 "max_worker_processes if no process \"zen standby\" is running.")));
}

/*
 * S4: a process that waits here may have locks for which replay waits.  The scan needs no replay, and ends.  Anything
 * else is waited for STANDBY_WAIT_MS only.  False: the server is promoted.
 */
static bool
wait_for_standby(void)
{
	TimestampTz since = GetCurrentTimestamp();

	ConditionVariablePrepareToSleep(&zen_standby->changed);
	while (!zen_standby_enter() && RecoveryInProgress())
	{
		if (zen_standby_state() == ZEN_STANDBY_STARVED ||
			(zen_standby_state() != ZEN_STANDBY_SCANNING &&
			 TimestampDifferenceExceeds(since, GetCurrentTimestamp(), STANDBY_WAIT_MS)))
		{
			ConditionVariableCancelSleep();
			standby_not_yet();
		}
		(void) ConditionVariableTimedSleep(&zen_standby->changed, STANDBY_LOOK_MS, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return RecoveryInProgress();
}

/* May the process read in recovery?  Else it is over, or this throws. */
static bool
reads_on_standby(void)
{
	if (!RecoveryInProgress())
		return false;
	if (!zen_standby_reads || zen_gate_refused != NULL || !zen_pool_is_replica() || !zen_pool_is_copied())
		refuse_in_recovery();
	return zen_standby_enter() || wait_for_standby();
}

void
zen_gate_wait_open(void)
{
	if (reads_on_standby())
		return;
	wait_until(is_over_or_open);
	Assert(zen_gate_is_ready() || pg_atomic_read_u32(&zen_recovery->open) != 0);
}

void
zen_gate_wait_table(void)
{
	if (!reads_on_standby())
		zen_gate_wait();
}
