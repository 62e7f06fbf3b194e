/*
 * gate.c -- wait for recovery, by doing it or by taking part in it.
 *
 * The first process that comes changes NEEDED to RUNNING, and is the leader (recovery.c).  If transactions may have to
 * be logged again (R17), only the background worker can be the leader, since that takes a transaction of its own.  The
 * others do chunks of its work (chunks.c) until what they wait for is there.  A recovery that has failed stays so until
 * the server restarts.
 */
#include "recovery/gate.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "nvm/pool.h"
#include "recovery/chunks.h"
#include "recovery/recovery.h"
#include "stream/streamtail.h"

bool		zen_recovery_is_worker = false;

static bool
is_over_or_open(void)
{
	return zen_recovery_is_over() || pg_atomic_read_u32(&zen_recovery->open) != 0;
}

/* Recover, or help the leader until enough() is true. */
static void
wait_until(bool (*enough) (void))
{
	uint32		needed = ZEN_RECOVERY_NEEDED;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zen tables cannot be used while the server is in recovery"),
				 zen_pool_is_replica() ?
				 errdetail("The pool follows the primary server.  Its tables open when this server is promoted.") :
				 errdetail("Their contents are not in the WAL, so a standby does not have them."),
				 errhint("Connect to the primary server.")));

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

	zen_chunks_help(enough);
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

void
zen_gate_wait_open(void)
{
	wait_until(is_over_or_open);
	Assert(zen_gate_is_ready() || pg_atomic_read_u32(&zen_recovery->open) != 0);
}
