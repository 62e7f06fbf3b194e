/*
 * moment.c -- are pool and data directory of the same moment?
 *
 * Both know how many starts there were.  Within a start both have a mark, a number that begins with 0.  It is raised
 * once in MARK_MS if something was stored, and at each orderly stop: in the further files of the pool, then in file 0,
 * then in zen.state, each durable before the next.  So of a true pair each has the mark of the next one, or is one
 * ahead.  Commits know nothing of it.
 *
 *	pool's generation and mark          then generation of zen.state, and        they are taken: of the same moment, as
 *	far as marks tell its mark, or one more the same generation, a smaller      the pool is an older copy mark the same,
 *	a larger mark             the data directory is an older copy a smaller, a larger generation      the pool, the data
 *	directory is an older copy the same, zen.state knows no mark   they are taken (an earlier version of zen wrote it)
 *	backup_label                        no mark counts: a base backup is copied while they are raised, and replay of the
 *	WAL makes both whole backup_label, pool of a standby     no start counts either: zen.state may be the primary's
 *
 * An orderly stop leaves a mark that no copy from before has.  After a crash a pool is taken that is older by less than
 * one mark.  src/nvm/README, "One moment", says what else may happen to either, and which pairs that leaves.
 */
#include "nvm/moment.h"

#include "base/fault.h"
#include "base/locks.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "nvm/files.h"
#include "utils/timestamp.h"

#define MARK_MS			10000
#define RETRY_MS		60000	/* when zen.state could not be written */

/* ---------- the check ---------- */

static void
refuse(const char *detail, const char *way_on)
{
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool file \"%s\" and data directory \"%s\" are not of the same moment",
					zen_files[0].path, DataDir),
			 errdetail_internal("%s", detail),
			 errhint("%s%s", ZEN_SAME_MOMENT_HINT, way_on)));
}

/* An operator who has lost the newer pool may take the older one, and says so in zen.state. */
static void
refuse_marks(const ZenStateFile *state)
{
	bool		pool_is_older = zen_super.mark < state->mark;
	char	   *detail = psprintf("Both have seen %llu server starts.  Since the last one the pool's mark has come "
								  "to %u, the data directory's to %u: the %s is an older copy.",
								  (unsigned long long) state->generation, zen_super.mark, state->mark,
								  pool_is_older ? "pool" : "data directory");

	refuse(detail, !pool_is_older ? "" :
		   psprintf("  If there is no newer pool, and what was changed since is to be given up, write \"mark %u\" in "
					"place of \"mark %u\" into \"%s/%s\".", zen_super.mark, state->mark, DataDir, ZEN_STATE_FILE));
}

void
zen_moment_check(const ZenStateFile *state, const ZenClusterFacts *facts, bool backup_of_standby)
{
	if (zen_super.generation != state->generation && !backup_of_standby)
		refuse(psprintf("The pool has seen %llu server starts, the data directory %llu: the %s is an older copy.",
						(unsigned long long) zen_super.generation, (unsigned long long) state->generation,
						zen_super.generation < state->generation ? "pool" : "data directory"), "");
	if (state->has_mark && zen_super.mark != state->mark && zen_super.mark != state->mark + 1 && !zen_begins_backup())
		refuse_marks(state);
	if (facts->checkpoint < zen_super.wal_position)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data directory \"%s\" is older than zen pool file \"%s\"", DataDir, zen_files[0].path),
				 errdetail("The last checkpoint in pg_control is at %X/%X, but the pool was used when it was "
						   "already at %X/%X.",
						   LSN_FORMAT_ARGS(facts->checkpoint), LSN_FORMAT_ARGS(zen_super.wal_position)),
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* ---------- the mark ---------- */

/* False if it cannot be written now. */
static bool
mark_state(ZenStateFile *state, uint32 mark, int elevel)
{
	state->mark = mark;
	state->has_mark = true;
	return zen_state_write(state, elevel);
}

/* While the server runs, a process that makes the pool larger writes superblocks, too. */
static void
mark_pool(char *base, uint32 mark)
{
	if (IsUnderPostmaster)
	{
		LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_EXCLUSIVE);
		zen_files_reload(base);
	}
	zen_files_mark(base, mark);
	if (IsUnderPostmaster)
		LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
}

/*
 * zen.state may be one behind, after a crash or a failure: it must catch up first.  False if it cannot be read or
 * written now.  No other process raises the mark during the call.
 */
static bool
raise_mark(char *base, int elevel)
{
	ZenStateFile state;
	uint32		mark = zen_super.mark;

	if (!zen_state_read(&state, elevel) || !state.found)
		return false;
	if ((!state.has_mark || state.mark != mark) && !mark_state(&state, mark, elevel))
		return false;
	if (ZEN_FAULT(R20_STATE_FIRST) && !mark_state(&state, mark + 1, elevel))
		return false;
	mark_pool(base, mark + 1);
	return mark_state(&state, mark + 1, elevel);
}

/* The worker alone does this while the server runs.  What it knows of the mark may be older. */
static bool
raise_running(char *base)
{
	LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_SHARED);
	zen_files_reload(base);
	LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
	return raise_mark(base, WARNING);
}

void
zen_moment_step(char *base, uint64 fences)
{
	static bool since = false;
	static uint64 own = 0;		/* fences of the last mark, not in `fences`
								 * yet */
	static TimestampTz next = 0;
	TimestampTz now = GetCurrentTimestamp();
	bool		done;

	/* a mark is stored, too, and is no reason for the next one */
	if (fences > own)
		since = true;
	if (fences > 0)
		own = 0;
	/* a clock that was set back is not waited for */
	if (!since || (now < next && next - now <= RETRY_MS * INT64CONST(1000)))
		return;
	own -= zen_my_counters[ZEN_C_fences];
	done = raise_running(base);
	own += zen_my_counters[ZEN_C_fences];
	if (done)
	{
		since = false;
		next = TimestampTzPlusMilliseconds(now, MARK_MS);
	}
	else
		next = TimestampTzPlusMilliseconds(now, RETRY_MS);
}

void
zen_moment_stop(char *base)
{
	Assert(!IsUnderPostmaster);
	/* the stop is recorded with the mark of before, if need be */
	if (!raise_mark(base, LOG))
		zen_files_mark(base, zen_super.mark);
}
