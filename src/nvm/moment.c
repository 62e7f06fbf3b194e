/*
 * moment.c -- do pool and data directory belong together?
 *
 * Both carry a random uuid, and the cluster's system identifier.  Both know a generation, which each start raises, and
 * a mark within it (R20).  So of a true pair each has the mark of the other one, or the pool is one ahead.
 *
 *	- generation and mark of zen.state, or one mark more: the pool is taken.  It is of the same moment as far as marks
 *	  tell;
 *	- the same generation, a smaller mark: the pool is an older copy; a larger one: the data directory is;
 *	- a smaller generation: the pool is an older copy; a larger one: the data directory is;
 *	- the same generation, and zen.state knows no mark, as an earlier version of zen wrote it: the pool is taken;
 *	- backup_label: no mark counts.  A base backup is copied while they are raised, and replay of the WAL makes both
 *	  whole;
 *	- backup_label, and the pool of a standby: no generation counts either, since zen.state may be the primary's.
 *
 * The pool carries also a checkpoint position that the cluster had reached.  pg_control of an older data directory lies
 * behind it.
 *
 * src/nvm/README, "One moment", says what may happen to either, and which pairs that leaves; "Another cluster takes the
 * pool over", when a cluster that pg_upgrade makes takes the old one's.
 */
#include "nvm/moment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/timestamp.h"

#define MARK_MS			10000
#define RETRY_MS		60000	/* when zen.state could not be written */

/* ---------- the same pool ---------- */

/* This cluster's data directory knows the pool, and the pool names another cluster. */
static void
refuse_taken_over(void)
{
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool file \"%s\" was taken over by another database cluster", zen_first_path),
			 errdetail("pg_upgrade has made that cluster of this one, and it has been started; its system identifier "
					   "is %llu.", (unsigned long long) zen_super.system_id),
			 errhint("Use that cluster, or restore the pool from a copy made before it was started.")));
}

/*
 * pg_createsubscriber gives a stopped standby a system identifier of its own, and resets its WAL as pg_resetwal does.
 * No other cluster has been started on the pool since: that would have begun a generation of the pool.
 */
static bool
is_renamed(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (!facts->reset || zen_super.clean != 1 || zen_super.generation != state->generation)
		return false;
	ereport(LOG,
			(errmsg("zen pool file \"%s\" gets the database cluster's new system identifier", zen_first_path),
			 errdetail("It was %llu, and is %llu.", (unsigned long long) zen_super.system_id,
					   (unsigned long long) facts->system_id)));
	return true;
}

/* Is this the pool of this cluster, and does the data directory know of one? */
static void
moment_check_identity(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (zen_super.system_id != facts->system_id && state->found &&
		memcmp(zen_super.uuid, state->uuid, sizeof(zen_super.uuid)) == 0)
	{
		if (is_renamed(state, facts))
			return;
		refuse_taken_over();
	}
	if (zen_super.system_id != facts->system_id)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" belongs to another database cluster", zen_first_path),
				 errdetail("The pool has system identifier %llu, the data directory \"%s\" has %llu.",
						   (unsigned long long) zen_super.system_id, DataDir,
						   (unsigned long long) facts->system_id),
				 errhint("Set zen.pool_path to the pool of this cluster, or to a new file name if it has none.")));
	if (!state->found)
		ereport(FATAL,
				(errcode(ERRCODE_DUPLICATE_FILE),
				 errmsg("zen pool file \"%s\" exists, but the data directory knows of no zen pool", zen_first_path),
				 errdetail("There is no file \"%s/%s\".  The data directory is from an earlier moment than the "
						   "pool, or the pool is that of a copy of this data directory.",
						   DataDir, ZEN_STATE_FILE),
				 errhint("Restore the pool file and the data directory from copies made at the same moment, or "
						 "set zen.pool_path to a new file name to begin with an empty pool.")));
}

static void
check_uuid(const ZenStateFile *state, bool upgraded)
{
	if (memcmp(zen_super.uuid, state->uuid, sizeof(state->uuid)) != 0)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 upgraded ?
				 errmsg("zen pool file \"%s\" is not the pool of the cluster that was upgraded", zen_first_path) :
				 errmsg("zen pool file \"%s\" is not the pool of this data directory", zen_first_path),
				 errdetail("The pool has uuid " ZEN_UUID_FORMAT ", \"%s/%s\" names " ZEN_UUID_FORMAT ".",
						   ZEN_UUID_ARGS(zen_super.uuid), DataDir, ZEN_STATE_FILE, ZEN_UUID_ARGS(state->uuid)),
				 upgraded ?
				 errhint("Set zen.pool_path to the pool that it named while pg_upgrade was running.") :
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* ---------- the same moment ---------- */

static bool
read_tail_state(ZenTailState *tail)
{
	return pread(zen_files[0].fd, tail, sizeof(*tail), ZEN_OFF_TAIL) == sizeof(*tail);
}

/*
 * Is it a base backup with the pool of a standby?  zen.state may be the primary's: they have the same uuid, and count
 * their starts each for itself.  Replay makes the pool whole, and judges it (check_backup, zen_pool_replayed).  The
 * pool is not mapped yet.
 */
static bool
is_backup_of_standby(void)
{
	ZenTailState tail;

	return zen_begins_backup() && read_tail_state(&tail) && tail.role == ZEN_ROLE_REPLICA && tail.copied == ZEN_COPIED;
}

/* Mode wal: replay begins at the last checkpoint, and makes nothing whole that is older. */
static bool
needs_replay(void)
{
	ZenTailState tail;

	return read_tail_state(&tail) && tail.role == ZEN_ROLE_LAZY;
}

static void
moment_refuse(const char *detail, const char *way_on)
{
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool file \"%s\" and data directory \"%s\" are not of the same moment",
					zen_first_path, DataDir),
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

	moment_refuse(detail, !pool_is_older || needs_replay() ? "" :
				  psprintf("  If there is no newer pool, and what was changed since is to be given up, write \"mark "
						   "%u\" in place of \"mark %u\" into \"%s/%s\".",
						   zen_super.mark, state->mark, DataDir, ZEN_STATE_FILE));
}

static void
moment_check(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (zen_super.generation != state->generation && !is_backup_of_standby())
		moment_refuse(psprintf("The pool has seen %llu server starts, the data directory %llu: the %s is an older "
							   "copy.",
							   (unsigned long long) zen_super.generation, (unsigned long long) state->generation,
							   zen_super.generation < state->generation ? "pool" : "data directory"), "");
	if (state->has_mark && zen_super.mark != state->mark && zen_super.mark != state->mark + 1 && !zen_begins_backup())
		refuse_marks(state);
	if (facts->checkpoint < zen_super.wal_position)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data directory \"%s\" is older than zen pool file \"%s\"", DataDir, zen_first_path),
				 errdetail("The last checkpoint in pg_control is at %X/%X, but the pool was used when it was "
						   "already at %X/%X.",
						   LSN_FORMAT_ARGS(facts->checkpoint), LSN_FORMAT_ARGS(zen_super.wal_position)),
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* ---------- a cluster that pg_upgrade makes ---------- */

static bool follows = false;	/* this server of pg_upgrade's has found the
								 * cluster as pg_upgrade had left it */

#define NEW_CLUSTER_HINT \
	"Make the new cluster anew with initdb, set its zen.pool_path to the pool of the old cluster, and do not start " \
	"it before pg_upgrade does."

static void
refuse_upgrade(const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen tables cannot be upgraded into this cluster"),
			 errdetail_internal("%s", detail),
			 errhint("%s", hint)));
}

/* Read the pool that zen.pool_path names; it must be left in order, or may_run, and a server has it open now. */
static ZenSuperblock
read_old_pool(bool may_run)
{
	ZenPoolName names[ZEN_MAX_FILES];
	const char *path = names[0].path;
	ZenSuperblockPair pair;
	int			at;
	int			fd;

	if (zen_pool_names(names) == 0)
		refuse_upgrade("Its zen.pool_path is not a file name.", NEW_CLUSTER_HINT);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0 && errno == ENOENT)
		refuse_upgrade(psprintf("File \"%s\", which its zen.pool_path names, does not exist.", path),
					   "Set zen.pool_path of the new cluster to the pool of the old cluster.");
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open zen pool file \"%s\": %m", path)));
	zen_superblock_read(fd, &pair);
	at = zen_superblock_in_force(&pair);
	if (at < 0)
		refuse_upgrade(psprintf("File \"%s\", which its zen.pool_path names, is no zen pool of formats %u to %u.",
								path, ZEN_FORMAT_VERSION, ZEN_FORMAT_VERSION_LAST),
					   "Set zen.pool_path of the new cluster to the pool of the old cluster.  The new one needs the "
					   "same version of zen, or a newer one.");
	if (flock(fd, LOCK_SH | LOCK_NB) != 0 ? !may_run : pair.copy[at].clean != 1)
		refuse_upgrade("The pool was not left in order by the old cluster's server.",
					   "Start the old cluster, wait until zen_recovery says that it is ready, and stop it in fast "
					   "mode.  Then run pg_upgrade again, on a new cluster.");
	CloseTransientFile(fd);
	return pair.copy[at];
}

/* The cluster has no pool of its own yet; read the one that it is to take over. */
static ZenSuperblock
adopt_look(ZenStateFile *state, bool may_run)
{
	(void) zen_state_read(state, FATAL);
	if (state->found && !zen_state_is_upgrade(state))
		refuse_upgrade(psprintf("It has a zen pool of its own, named in \"%s/%s\".", DataDir, ZEN_STATE_FILE),
					   NEW_CLUSTER_HINT);
	return read_old_pool(may_run);
}

void
zen_adopt_check(void)
{
	ZenStateFile state;

	Assert(IsBinaryUpgrade);
	(void) adopt_look(&state, true);
}

void
zen_adopt_note(void)
{
	ZenStateFile state;
	ZenSuperblock sb;

	Assert(IsBinaryUpgrade);
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	sb = adopt_look(&state, false);
	if (!state.found)
	{
		state.found = true;
		state.phase = ZEN_PHASE_UPGRADING;
		memcpy(state.uuid, sb.uuid, sizeof(state.uuid));
		state.generation = sb.generation;
		strlcpy(state.pool_path, zen_pool_path, MAXPGPATH);
		(void) zen_state_write(&state, FATAL);
	}
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	if (memcmp(state.uuid, sb.uuid, sizeof(state.uuid)) != 0 || state.generation != sb.generation)
		refuse_upgrade("The pool has changed while pg_upgrade was running.", NEW_CLUSTER_HINT);
}

/* Has no server run since pg_upgrade has finished? */
static bool
adopt_is_as_left(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	return facts->reset ||
		(facts->shut_down && state->phase == ZEN_PHASE_UPGRADED && facts->checkpoint == state->checkpoint);
}

void
zen_adopt_server_starts(ZenStateFile *state, const ZenClusterFacts *facts)
{
	Assert(!IsUnderPostmaster && IsBinaryUpgrade);
	follows = zen_state_is_upgrade(state) && adopt_is_as_left(state, facts);
	if (!follows || state->phase == ZEN_PHASE_UPGRADED)
		return;
	state->phase = ZEN_PHASE_UPGRADED;
	(void) zen_state_write(state, FATAL);
}

void
zen_adopt_server_stops(void)
{
	ZenClusterFacts facts = zen_cluster_facts();
	ZenStateFile state;

	Assert(!IsUnderPostmaster);
	if (!follows || !facts.shut_down)
		return;
	(void) zen_state_read(&state, FATAL);
	state.checkpoint = facts.checkpoint;
	(void) zen_state_write(&state, FATAL);
}

/* The data directory, other than ours, that a file lies in. */
static bool
is_in_other_cluster(const char *path, char *directory)
{
	char		version_file[MAXPGPATH + 16];

	strlcpy(directory, path, MAXPGPATH);
	for (get_parent_directory(directory); directory[0] != '\0' && strcmp(directory, "/") != 0;
		 get_parent_directory(directory))
	{
		if (strcmp(directory, DataDir) == 0)
			return false;
		snprintf(version_file, sizeof(version_file), "%s/PG_VERSION", directory);
		if (access(version_file, F_OK) == 0)
			return true;
	}
	return false;
}

/*
 * FATAL unless the first start of an upgraded cluster may take the pool over; state is what zen_adopt_note() has left.
 */
static void
adopt_check_start(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	const ZenSuperblock *sb = &zen_super;
	char		directory[MAXPGPATH];

	Assert(zen_state_is_upgrade(state));
	if (state->phase == ZEN_PHASE_UPGRADING && !facts->reset)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_upgrade has not finished data directory \"%s\"", DataDir),
				 errdetail("It has failed, or the server was started without zen since."),
				 errhint("Run pg_upgrade again, on a new cluster.  The zen pool \"%s\" is still that of the old one.",
						 zen_first_path)));
	/* a takeover that was cut short, whose older superblock is damaged */
	if (sb->system_id == facts->system_id && sb->generation == state->generation + 1)
		return;
	if (sb->generation != state->generation || sb->clean != 1)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" was used since pg_upgrade has copied the catalogs", zen_first_path),
				 errdetail("The pool has seen %llu server starts, %llu of them when pg_upgrade was running.",
						   (unsigned long long) sb->generation, (unsigned long long) state->generation),
				 errhint("Run pg_upgrade again, on a new cluster.")));
	for (int i = 0; i < zen_files_named; i++)
	{
		if (is_in_other_cluster(zen_files[i].path, directory))
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool file \"%s\" lies in the data directory of another cluster", zen_files[i].path),
					 errdetail("Whoever removes \"%s\" removes the pool.", directory),
					 errhint("Move the pool, or copy it, and set zen.pool_path to its new place.")));
	}
}

/* ---------- the check ---------- */

/*
 * Are both as the last orderly stop has left them?  A server that has run without zen since has written a checkpoint; a
 * crash of it has emptied the indexes of zen tables, as of all that is unlogged.
 */
static bool
is_as_left(const ZenClusterFacts *facts)
{
	return zen_super.clean == 1 && facts->shut_down && facts->checkpoint == zen_super.wal_position;
}

bool
zen_moment_check(const ZenSuperblockPair *pair, const ZenStateFile *state, const ZenClusterFacts *facts)
{
	bool		upgraded = zen_state_is_upgrade(state);

	if (!upgraded)
		moment_check_identity(state, facts);
	check_uuid(state, upgraded);
	zen_superblock_undo_start(0, pair, state->generation);
	if (upgraded)
		adopt_check_start(state, facts);
	else
		moment_check(state, facts);
	return upgraded ? adopt_is_as_left(state, facts) : is_as_left(facts);
}

/* ---------- the mark ---------- */

static void
mark_copies(char *base, uint32 mark)
{
	for (int i = zen_files_number() - 1; i >= 0; i--)
	{
		zen_supers[i].mark = mark;
		zen_superblock_write(i, zen_file_place(base, i));
	}
}

/*
 * Write all superblocks, with this mark, into both copies, file 0 last; durable on return.  Both: if one copy is
 * damaged later, the other one has no older mark.  A base backup that has read the first copy torn has read the second
 * one before that is written.
 */
static void
mark_files(char *base, uint32 mark)
{
	mark_copies(base, mark);
	if (IsUnderPostmaster)
		pg_usleep(1000L);
	mark_copies(base, mark);
}

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
	mark_files(base, mark);
	if (IsUnderPostmaster)
		LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
}

/*
 * zen.state may be one behind, after a crash or a failure: it must catch up first.  False if it cannot be read or
 * written now.  No other process raises the mark during the call.
 */
static bool
moment_raise(char *base, int elevel)
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
	/* what this process knows of the mark may be older */
	LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_SHARED);
	zen_files_reload(base);
	LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
	done = moment_raise(base, WARNING);
	own += zen_my_counters[ZEN_C_fences];
	since = !done;
	next = TimestampTzPlusMilliseconds(now, done ? MARK_MS : RETRY_MS);
}

void
zen_moment_stop(char *base)
{
	Assert(!IsUnderPostmaster);
	/* the stop is recorded with the mark of before, if need be */
	if (!moment_raise(base, LOG))
		mark_files(base, zen_super.mark);
}
