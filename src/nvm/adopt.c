/*
 * adopt.c -- a cluster that pg_upgrade makes takes over the pool of the one it is made of.
 *
 * pg_upgrade keeps what a pool knows of a cluster: OIDs of databases and tablespaces, relfilenumbers, transaction ids
 * and pg_xact.  Only the system identifier changes, so the pool can stay as it is.
 *
 * While pg_upgrade runs the new cluster's servers, they have an empty pool in memory (pool.c), and do not touch the old
 * one.  The first zen table that pg_upgrade makes notes uuid and generation of the pool in zen.state.  The first
 * ordinary start takes the pool over, if
 *
 *	- it is that pool, of that generation: the old cluster has not been started since its catalogs were copied;
 *	- pg_upgrade has finished.  Its last change is that of pg_resetwal, whose checkpoint begins a WAL segment.  It
 *	  starts the server once more after that, for a last look, and that start notes it;
 *	- none of its files lies where the script that pg_upgrade offers would remove it.
 *
 * The pool is taken over by the same stores as at any start (begin_generation() in pool.c).  A crash leaves the pool
 * as it was, or with the system identifier of the new cluster.  The new cluster's start is then repeated.
 */
#include "nvm/adopt.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/guc.h"
#include "base/locks.h"
#include "miscadmin.h"
#include "nvm/poolfile.h"
#include "storage/fd.h"

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

/* Was the pool left in order?  in_use: a server has it open now. */
static bool
is_settled(int fd, const ZenSuperblock *sb, bool *in_use)
{
	*in_use = flock(fd, LOCK_SH | LOCK_NB) != 0;
	return !*in_use && sb->clean == 1;
}

/* Read the pool that zen.pool_path names; what is wrong with it is an ERROR. */
static ZenSuperblock
read_old_pool(bool *settled, bool *in_use)
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
		refuse_upgrade(psprintf("File \"%s\", which its zen.pool_path names, is not a zen pool of format version %u.",
								path, ZEN_FORMAT_VERSION),
					   "Set zen.pool_path of the new cluster to the pool of the old cluster, and use one version of "
					   "zen in both.");
	*settled = is_settled(fd, &pair.copy[at], in_use);
	CloseTransientFile(fd);
	return pair.copy[at];
}

/* Neither the cluster nor its pool may be in use. */
static ZenSuperblock
check(ZenStateFile *state, bool *settled, bool *in_use)
{
	(void) zen_state_read(state, FATAL);
	if (state->found && !zen_state_is_upgrade(state))
		refuse_upgrade(psprintf("It has a zen pool of its own, named in \"%s/%s\".", DataDir, ZEN_STATE_FILE),
					   NEW_CLUSTER_HINT);
	return read_old_pool(settled, in_use);
}

static void
refuse_unsettled(void)
{
	refuse_upgrade("The pool was not left in order by the old cluster's server.",
				   "Start the old cluster, wait until zen_recovery says that it is ready, and stop it in fast mode.  "
				   "Then run pg_upgrade again, on a new cluster.");
}

void
zen_adopt_check(void)
{
	ZenStateFile state;
	bool		settled,
				in_use;

	Assert(IsBinaryUpgrade);
	(void) check(&state, &settled, &in_use);
	if (!settled && !in_use)
		refuse_unsettled();
}

void
zen_adopt_note(void)
{
	ZenStateFile state;
	ZenSuperblock sb;
	bool		settled,
				in_use;

	Assert(IsBinaryUpgrade);
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	sb = check(&state, &settled, &in_use);
	if (!settled)
		refuse_unsettled();
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

bool
zen_adopt_is_as_left(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	return facts->reset ||
		(facts->shut_down && state->phase == ZEN_PHASE_UPGRADED && facts->checkpoint == state->checkpoint);
}

void
zen_adopt_server_starts(ZenStateFile *state, const ZenClusterFacts *facts)
{
	Assert(!IsUnderPostmaster && IsBinaryUpgrade);
	follows = zen_state_is_upgrade(state) && zen_adopt_is_as_left(state, facts);
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

void
zen_adopt_check_start(const char *pool_path, const ZenSuperblock *sb, const ZenStateFile *state,
					  const ZenClusterFacts *facts)
{
	char		directory[MAXPGPATH];

	Assert(zen_state_is_upgrade(state));
	if (memcmp(sb->uuid, state->uuid, sizeof(state->uuid)) != 0)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" is not the pool of the cluster that was upgraded", pool_path),
				 errdetail("The pool has uuid " ZEN_UUID_FORMAT ", \"%s/%s\" names " ZEN_UUID_FORMAT ".",
						   ZEN_UUID_ARGS(sb->uuid), DataDir, ZEN_STATE_FILE, ZEN_UUID_ARGS(state->uuid)),
				 errhint("Set zen.pool_path to the pool that it named while pg_upgrade was running.")));
	if (state->phase == ZEN_PHASE_UPGRADING && !facts->reset)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_upgrade has not finished data directory \"%s\"", DataDir),
				 errdetail("It has failed, or the server was started without zen since."),
				 errhint("Run pg_upgrade again, on a new cluster.  The zen pool \"%s\" is still that of the old one.",
						 pool_path)));
	/* a takeover that was cut short, whose older superblock is damaged */
	if (sb->system_id == facts->system_id && sb->generation == state->generation + 1)
		return;
	if (sb->generation != state->generation || sb->clean != 1)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" was used since pg_upgrade has copied the catalogs", pool_path),
				 errdetail("The pool has seen %llu server starts, %llu of them when pg_upgrade was running.",
						   (unsigned long long) sb->generation, (unsigned long long) state->generation),
				 errhint("Run pg_upgrade again, on a new cluster.")));
	for (int i = 0; i < zen_files_named; i++)
		if (is_in_other_cluster(zen_files[i].path, directory))
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool file \"%s\" lies in the data directory of another cluster", zen_files[i].path),
					 errdetail("Whoever removes \"%s\" removes the pool.", directory),
					 errhint("Move the pool, or copy it, and set zen.pool_path to its new place.")));
}
