/*
 * pool.c -- open the NVM pool, or say exactly why not.
 *
 * Table data lies in the pool file, catalogs and WAL in the data directory; each is worthless without the other of
 * the same moment.  Three things tie them together, and each start checks them before anything is changed:
 *
 *	- identity: the pool carries the cluster's system identifier and a random uuid; the data directory carries
 *	  that uuid in the file zen.state.
 *	- generation: +1 at every start, in both places.
 *	- WAL position: the pool carries a checkpoint position that the cluster had reached, so pg_control of an
 *	  older data directory lies behind it.
 *
 * Creation.  zen.state is written first, as "creating"; the pool is made under a name that holds the uuid, complete
 * with superblock, and then linked into place, which fails if the name is taken.  A crash leaves "creating" with or
 * without a finished pool, never an unfinished pool under the final name, and no table can exist before zen.state
 * says "open".
 *
 * Start.  The new generation goes into the older superblock copy, then into zen.state, then into the other copy.
 * A crash in between leaves zen.state one behind with one copy that still agrees with it: that start is taken as not
 * begun.  Once all three agree, a zen.state that is one behind can only be an older data directory.
 *
 * Growth.  The file is mapped beyond its end (persist.c).  A process that makes it larger does so while all others go
 * on (grow.c); a larger zen.pool_size does it at a start.  A crash leaves the old size in the superblock, perhaps with
 * a file that is longer by zeroes, or the new size.  Each start cuts such a file to its size.
 *
 * The pool file is held with flock through a file descriptor that the postmaster keeps and all children inherit.  So a
 * second server is kept out as long as any process of the first one lives.
 */
#include "nvm/pool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "base/locks.h"
#include "miscadmin.h"
#include "nvm/adopt.h"
#include "nvm/datadir.h"
#include "nvm/persist.h"
#include "nvm/poolfile.h"
#include "nvm/superblock.h"
#include "storage/fd.h"

#define SCRATCH_FILE		"zen.scratch"
#define SCRATCH_BYTES		((Size) 32 * 1024 * 1024)
#define LOCK_WAIT_MS		10000	/* children of a killed postmaster are
									 * gone long before */
#define LOCK_POLL_MS		50

/* Hint for every mismatch between pool and data directory. */
#define SAME_MOMENT_HINT \
	"Restore the pool file and the data directory from copies made at the same moment, or set zen.pool_path to " \
	"the pool that belongs to this data directory."

ZenPool		zen_pool;

static char pool_path[MAXPGPATH];	/* absolute */
static int	pool_fd = -1;		/* keeps the flock; never closed */

/* ---------- superblock ---------- */

/* FATAL: neither copy is whole.  Say which kind of stranger this is. */
static void
refuse_superblock(const ZenSuperblockPair *pair)
{
	bool		magic[2];

	for (int i = 0; i < 2; i++)
		magic[i] = (pair->copy[i].magic == ZEN_MAGIC);

	if (!magic[0] && !magic[1])
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is not a zen pool", pool_path),
				 errdetail("Neither copy of its superblock, at offsets %zu and %zu, has the magic number.",
						   zen_super_offsets[0], zen_super_offsets[1]),
				 errhint("Set zen.pool_path to the zen pool of this cluster; zen never overwrites a file.")));

	for (int i = 0; i < 2; i++)
	{
		if (magic[i] && !zen_superblock_is_known(&pair->copy[i]))
			ereport(FATAL,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("zen pool file \"%s\" has format version %u, this version of zen needs version %u",
							pool_path, pair->copy[i].version, ZEN_FORMAT_VERSION),
					 errhint("Start the server with the version of zen that wrote the pool, dump the tables and "
							 "load them into a new cluster.")));
	}

	ereport(FATAL,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("superblock of zen pool file \"%s\" is damaged", pool_path),
			 errdetail("Neither copy, at offsets %zu and %zu, has a correct checksum.",
					   zen_super_offsets[0], zen_super_offsets[1]),
			 errhint(SAME_MOMENT_HINT)));
}

/* Did a crash come while the copy was written?  No flipped bit makes it look so. */
static bool
is_unfinished(const ZenSuperblock *copy)
{
	return zen_superblock_is_known(copy) && copy->crc == 0;
}

/* Put the superblock in force into zen_super.  FATAL if there is none; WARNING if one copy is damaged. */
static void
choose_superblock(const ZenSuperblockPair *pair)
{
	zen_super_at = zen_superblock_in_force(pair);
	if (zen_super_at < 0)
		refuse_superblock(pair);
	if (!pair->valid[1 - zen_super_at] && !is_unfinished(&pair->copy[1 - zen_super_at]))
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("one copy of the superblock of zen pool file \"%s\" is damaged", pool_path),
				 errdetail("The copy at offset %zu has no correct checksum; the one at offset %zu is used "
						   "to repair it.",
						   zen_super_offsets[1 - zen_super_at], zen_super_offsets[zen_super_at])));
	zen_super = pair->copy[zen_super_at];
}

/* ---------- the file ---------- */

static void
set_pool_path(void)
{
	if (!zen_resolve_pool_path(pool_path))
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_path is not a file name"),
				 errhint("Set zen.pool_path to a file name without line breaks, of less than %d bytes with the data "
						 "directory.", MAXPGPATH)));
}

/* Open the pool file; false if there is none.  FATAL if it is there and cannot be opened. */
static bool
open_pool_file(void)
{
	struct stat st;

	/*
	 * close-on-exec: programs that the server runs may outlive it and must
	 * not keep the lock
	 */
	pool_fd = open(pool_path, O_RDWR | O_CLOEXEC);
	if (pool_fd < 0)
	{
		if (errno == ENOENT)
			return false;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open zen pool file \"%s\": %m", pool_path)));
	}
	if (fstat(pool_fd, &st) != 0 || !S_ISREG(st.st_mode))
		ereport(FATAL,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("zen pool file \"%s\" is not a regular file", pool_path),
				 errhint("Set zen.pool_path to a file on a file system.")));
	return true;
}

/*
 * Lock the pool file for this server.  Waits a while, because the children of a killed postmaster hold the
 * lock until they have noticed its death.
 */
static void
lock_pool_file(void)
{
	for (int waited_ms = 0; flock(pool_fd, LOCK_EX | LOCK_NB) != 0; waited_ms += LOCK_POLL_MS)
	{
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			ereport(FATAL,
					(errcode_for_file_access(),
					 errmsg("could not lock zen pool file \"%s\": %m", pool_path)));
		if (waited_ms == 0)
			ereport(LOG,
					(errmsg("zen pool file \"%s\" is locked by another process, waiting up to %d seconds for it",
							pool_path, LOCK_WAIT_MS / 1000)));
		if (waited_ms >= LOCK_WAIT_MS)
			ereport(FATAL,
					(errcode(ERRCODE_LOCK_FILE_EXISTS),
					 errmsg("zen pool file \"%s\" is in use by another server", pool_path),
					 errhint("Stop the other server, or end the processes that a crashed one has left behind; "
							 "each server needs a zen.pool_path of its own.")));
		pg_usleep(LOCK_POLL_MS * 1000L);
	}
}

/*
 * Read both superblock copies through the file: what is wrong with the file then shows as an error here and
 * not as a SIGBUS in the mapping.
 */
static void
read_pair(ZenSuperblockPair *pair, uint64 *file_size)
{
	struct stat st;

	if (fstat(pool_fd, &st) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not stat zen pool file \"%s\": %m", pool_path)));
	*file_size = st.st_size;
	if (*file_size < ZEN_OFF_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" is too small to be a zen pool", pool_path),
				 errdetail("It has %llu bytes, less than the pool's directories alone.",
						   (unsigned long long) *file_size),
				 errhint(SAME_MOMENT_HINT)));

	zen_superblock_read(pool_fd, pair);
}

/* ---------- checks, in the order in which they are made ---------- */

static void
check_geometry(uint64 file_size)
{
	if (file_size < zen_super.pool_size)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", pool_path),
				 errdetail("It has %llu bytes, its superblock says %llu.",
						   (unsigned long long) file_size, (unsigned long long) zen_super.pool_size),
				 errhint(SAME_MOMENT_HINT)));
	if (!zen_superblock_geometry_fits(&zen_super))
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("superblock of zen pool file \"%s\" contradicts itself", pool_path),
				 errdetail("It says %llu bytes, %llu pages, first data page %llu.",
						   (unsigned long long) zen_super.pool_size, (unsigned long long) zen_super.npages,
						   (unsigned long long) zen_super.first_data_page),
				 errhint(SAME_MOMENT_HINT)));
	/* a crash while the pool was made larger leaves zeroes, and no more */
	if (!zen_file_is_zero(pool_fd, zen_super.pool_size, file_size))
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", pool_path),
				 errdetail("It has %llu bytes, its superblock says %llu, and what lies behind is not empty.",
						   (unsigned long long) file_size, (unsigned long long) zen_super.pool_size),
				 errhint(SAME_MOMENT_HINT)));
}

/* Take away what a crash has left of making the pool larger. */
static void
cut_to_size(void)
{
	struct stat st;

	if (fstat(pool_fd, &st) != 0 || (uint64) st.st_size <= zen_super.pool_size)
		return;
	if (ftruncate(pool_fd, zen_super.pool_size) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not truncate zen pool file \"%s\" to %llu bytes: %m",
						pool_path, (unsigned long long) zen_super.pool_size)));
	ereport(LOG,
			(errmsg("zen pool file \"%s\" was cut to its %llu MB: a crash came while it was made larger",
					pool_path, (unsigned long long) zen_super.pool_size / (1024 * 1024))));
}

/* This cluster's data directory knows the pool, and the pool names another cluster. */
static void
refuse_taken_over(void)
{
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool file \"%s\" was taken over by another database cluster", pool_path),
			 errdetail("pg_upgrade has made that cluster of this one, and it has been started; its system identifier "
					   "is %llu.", (unsigned long long) zen_super.system_id),
			 errhint("Use that cluster, or restore the pool from a copy made before it was started.")));
}

/* Is this the pool of this cluster and of this data directory? */
static void
check_identity(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (zen_super.system_id != facts->system_id && state->found &&
		memcmp(zen_super.uuid, state->uuid, sizeof(zen_super.uuid)) == 0)
		refuse_taken_over();
	if (zen_super.system_id != facts->system_id)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" belongs to another database cluster", pool_path),
				 errdetail("The pool has system identifier %llu, the data directory \"%s\" has %llu.",
						   (unsigned long long) zen_super.system_id, DataDir,
						   (unsigned long long) facts->system_id),
				 errhint("Set zen.pool_path to the pool of this cluster, or to a new file name if it has none.")));
	if (!state->found)
		ereport(FATAL,
				(errcode(ERRCODE_DUPLICATE_FILE),
				 errmsg("zen pool file \"%s\" exists, but the data directory knows of no zen pool", pool_path),
				 errdetail("There is no file \"%s/%s\".  The data directory is from an earlier moment than the "
						   "pool, or the pool is that of a copy of this data directory.",
						   DataDir, ZEN_STATE_FILE),
				 errhint("Restore the pool file and the data directory from copies made at the same moment, or "
						 "set zen.pool_path to a new file name to begin with an empty pool.")));
	if (zen_super.uuid[0] != state->uuid[0] || zen_super.uuid[1] != state->uuid[1])
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" is not the pool of this data directory", pool_path),
				 errdetail("The pool has uuid " ZEN_UUID_FORMAT ", \"%s/%s\" names " ZEN_UUID_FORMAT ".",
						   ZEN_UUID_ARGS(zen_super.uuid), DataDir, ZEN_STATE_FILE, ZEN_UUID_ARGS(state->uuid)),
				 errhint(SAME_MOMENT_HINT)));
}

/*
 * A base backup is not of one moment: WAL replay makes the data directory whole again, but nothing does that for the
 * pool.
 */
static void
check_backup(void)
{
	if (access("backup_label", F_OK) == 0 || access("tablespace_map", F_OK) == 0)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data directory \"%s\" was copied while its server was running", DataDir),
				 errdetail("A base backup does not hold the zen pool \"%s\" as of one moment.", pool_path),
				 errhint("Copy data directory and pool while the server is stopped, or use pg_dump.")));
}

/*
 * A standby, and a server that recovers from an archive, change the catalogs by WAL that comes from elsewhere, and the
 * pool does not follow.
 */
static void
check_standby(const char *base)
{
	const ZenHTableEntry *entries = (const ZenHTableEntry *) (base + ZEN_OFF_HTABLES);

	if (access(STANDBY_SIGNAL_FILE, F_OK) != 0 && access(RECOVERY_SIGNAL_FILE, F_OK) != 0)
		return;
	for (int i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_nvm_load64(&entries[i].state) != ZEN_HT_FREE)
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool file \"%s\" cannot follow a server that replays WAL from elsewhere", pool_path),
					 errdetail("File \"%s\" or \"%s\" makes a standby of this server, and the pool holds tables.",
							   STANDBY_SIGNAL_FILE, RECOVERY_SIGNAL_FILE),
					 errhint("To have a standby without the rows of zen tables, remove \"%s\" and set zen.pool_path to "
							 "a new file name.", ZEN_STATE_FILE)));
}

/* Are pool and data directory of the same moment? */
static void
check_moment(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (zen_super.generation != state->generation)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" and data directory \"%s\" are not of the same moment",
						pool_path, DataDir),
				 errdetail("The pool has seen %llu server starts, the data directory %llu: the %s is an older copy.",
						   (unsigned long long) zen_super.generation, (unsigned long long) state->generation,
						   zen_super.generation < state->generation ? "pool" : "data directory"),
				 errhint(SAME_MOMENT_HINT)));
	if (facts->checkpoint < zen_super.wal_position)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data directory \"%s\" is older than zen pool file \"%s\"", DataDir, pool_path),
				 errdetail("The last checkpoint in pg_control is at %X/%X, but the pool was used when it was "
						   "already at %X/%X.",
						   LSN_FORMAT_ARGS(facts->checkpoint), LSN_FORMAT_ARGS(zen_super.wal_position)),
				 errhint(SAME_MOMENT_HINT)));
}

/*
 * Are both as the last orderly stop has left them?  A server that has run without zen since has written a checkpoint; a
 * crash of it has emptied the indexes of zen tables, as of all that is unlogged.
 */
static bool
is_as_left(const ZenClusterFacts *facts)
{
	return zen_super.clean == 1 && facts->shut_down && facts->checkpoint == zen_super.wal_position;
}

/*
 * Take a start that was cut short as not begun: the newest copy is one ahead of zen.state, and the other copy still
 * agrees with it.  Nothing was done under the new generation, since zen.state is written before a start goes on.
 */
static void
undo_interrupted_start(const ZenSuperblockPair *pair, const ZenStateFile *state)
{
	int			other = 1 - zen_super_at;

	if (zen_super.generation == state->generation + 1 &&
		pair->valid[other] && pair->copy[other].generation == state->generation)
	{
		zen_super = pair->copy[other];
		zen_super_at = other;
	}
}

/* ---------- creation ---------- */

static void
refuse_missing(const ZenStateFile *state)
{
	if (zen_state_is_upgrade(state))
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("zen pool file \"%s\" does not exist", pool_path),
				 errdetail("pg_upgrade has made this cluster of one whose zen pool was \"%s\".", state->pool_path),
				 errhint("Set zen.pool_path to where that pool is now.")));
	ereport(FATAL,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("zen pool file \"%s\" does not exist", pool_path),
			 errdetail("According to \"%s/%s\" this cluster has a zen pool, last used as \"%s\".",
					   DataDir, ZEN_STATE_FILE, state->pool_path),
			 errhint("Restore the pool file from a copy of the same moment as the data directory, or set "
					 "zen.pool_path to where it is.  Remove \"%s\" only if the contents of all zen tables are "
					 "to be given up.",
					 ZEN_STATE_FILE)));
}

/* zen.pool_size in bytes. */
static Size
wanted_size(void)
{
	Size		size = TYPEALIGN_DOWN(ZEN_PAGE_SIZE, (Size) zen_pool_size_mb * 1024 * 1024);

	return Min(size, ZEN_MAX_PAGES * ZEN_PAGE_SIZE);
}

/* Size of a new pool in bytes, from zen.pool_size. */
static Size
new_pool_size(void)
{
	Size		size = wanted_size();
	uint64		npages = size / ZEN_PAGE_SIZE;

	if (npages < zen_first_data_page(npages) + ZEN_MIN_DATA_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_size is too small"),
				 errdetail("A pool of %d MB has fewer than %d data pages of 64 KB.",
						   zen_pool_size_mb, ZEN_MIN_DATA_PAGES),
				 errhint("Increase zen.pool_size.")));
	return size;
}

static void
init_superblock(const ZenStateFile *state, const ZenClusterFacts *facts, Size size)
{
	memset(&zen_super, 0, sizeof(zen_super));
	zen_super.magic = ZEN_MAGIC;
	zen_super.version = ZEN_FORMAT_VERSION;
	zen_super.system_id = facts->system_id;
	memcpy(zen_super.uuid, state->uuid, sizeof(zen_super.uuid));
	zen_super.pool_size = size;
	zen_super.npages = size / ZEN_PAGE_SIZE;
	zen_super.first_data_page = zen_first_data_page(zen_super.npages);
	zen_super.generation = state->generation;
	zen_super.wal_position = facts->checkpoint;
	zen_super.clean = 1;
}

/* Give a finished file its name, durably, unless the name is taken. */
static void
link_into_place(const char *temp)
{
	char		directory[MAXPGPATH];

	if (link(temp, pool_path) != 0)
	{
		int			save_errno = errno;

		unlink(temp);
		errno = save_errno;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not link file \"%s\" to \"%s\": %m", temp, pool_path),
				 errhint("Set zen.pool_path to a file name that no other server uses, on a file system with "
						 "hard links.")));
	}
	unlink(temp);
	strlcpy(directory, pool_path, MAXPGPATH);
	get_parent_directory(directory);
	fsync_fname(directory, true);
}

/* Make the pool file, complete and under its name on return.  Leaves it unmapped: opening is one path for all. */
static void
create_pool(ZenStateFile *state, const ZenClusterFacts *facts)
{
	char		temp[MAXPGPATH + 64];
	Size		size = new_pool_size();
	char	   *base;

	if (!state->found)
	{
		if (!pg_strong_random(state->uuid, sizeof(state->uuid)))
			ereport(FATAL,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random uuid for the zen pool")));
		state->found = true;
		state->phase = ZEN_PHASE_CREATING;
		state->generation = 0;
	}
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	zen_state_write(state);

	/*
	 * the uuid makes the name ours: what lies there is left from an earlier
	 * try
	 */
	snprintf(temp, sizeof(temp), "%s." ZEN_UUID_FORMAT ".tmp", pool_path, ZEN_UUID_ARGS(state->uuid));
	unlink(temp);
	base = zen_nvm_create(temp, size, (ZenPoolMode) zen_pool_mode);

	init_superblock(state, facts, size);
	zen_super_at = 0;
	zen_superblock_write(base);
	zen_superblock_write(base);
	zen_nvm_unmap(base, size);
	link_into_place(temp);
	ereport(LOG,
			(errmsg("created zen pool file \"%s\" of %zu MB", pool_path, size / (1024 * 1024))));
}

/* ---------- opening ---------- */

/* Make the new generation durable in pool and data directory; the order is explained at the top. */
static void
begin_generation(char *base, ZenStateFile *state, const ZenClusterFacts *facts)
{
	zen_super.system_id = facts->system_id;
	zen_super.generation = state->generation + 1;
	zen_super.wal_position = facts->checkpoint;
	zen_super.clean = 0;
	zen_superblock_write(base);

	state->phase = ZEN_PHASE_OPEN;
	state->generation = zen_super.generation;
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	zen_state_write(state);

	zen_superblock_write(base);
}

/* reserved: bytes of address space at base. */
static void
publish(char *base, bool was_clean, Size reserved)
{
	Assert((uintptr_t) base % ZEN_OFF_SUPER2 == 0);
	Assert(zen_super.first_data_page * ZEN_PAGE_SIZE % ZEN_AREA_ALIGN == 0);
	Assert(zen_super.first_data_page < zen_super.npages && zen_super.pool_size <= reserved);
	pg_atomic_write_u32(zen_pool.npages, zen_super.npages);
	zen_pool.max_pages = reserved / ZEN_PAGE_SIZE;
	zen_pool.first_data_page = zen_super.first_data_page;
	zen_pool.near_pages = zen_pool_near_pages(zen_super.first_data_page);
	zen_pool.was_clean = was_clean;
	zen_pool.regions = (ZenRegionEntry *) (base + ZEN_OFF_REGIONS);
	zen_pool.htables = (ZenHTableEntry *) (base + ZEN_OFF_HTABLES);
	zen_pool.pages = (uint64 *) (base + ZEN_OFF_PAGES);
	zen_pool.cts_mark = (ZenMarkRecord *) (base + ZEN_OFF_CTS_MARK);
	zen_pool.base = base;
}

/* Tell the log what the medium gives, and what was asked for and not given. */
static void
log_what_is_open(void)
{
	if (zen_nvm_mode() == ZEN_POOL_EMULATED)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" is emulated: it survives server crashes, not power loss",
						pool_path)));
	else if (zen_nvm_mode() == ZEN_POOL_MSYNC && zen_pool_mode == ZEN_POOL_AUTO)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" is not on persistent memory: each commit waits for msync",
						pool_path)));
	if (zen_nvm_domain() != NULL && strcmp(zen_nvm_domain(), "cpu_cache") == 0)
		ereport(LOG,
				(errmsg("zen takes the processor's caches to survive a power loss: commits do not flush them")));

	if (zen_pool_size_is_set && zen_super.pool_size > wanted_size())
		ereport(LOG,
				(errmsg("zen.pool_size is less than what zen pool file \"%s\" has: it keeps its %llu MB",
						pool_path, (unsigned long long) zen_super.pool_size / (1024 * 1024))));
}

/* For a server that pg_upgrade runs: does zen.pool_path name a pool that this cluster has opened before? */
static bool
names_own_pool(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	ZenSuperblockPair pair;
	int			at;

	if (!state->found || zen_state_is_upgrade(state) || !open_pool_file())
		return false;
	zen_superblock_read(pool_fd, &pair);
	at = zen_superblock_in_force(&pair);
	close(pool_fd);
	pool_fd = -1;
	return at >= 0 && pair.copy[at].system_id == facts->system_id;
}

/*
 * For the servers that pg_upgrade runs on a new cluster: a pool without rows, in a file that has no name.  It is gone
 * with the server.
 */
static void
open_scratch_pool(ZenStateFile *state, const ZenClusterFacts *facts)
{
	char	   *base;

	zen_adopt_server_starts(state, facts);
	snprintf(pool_path, sizeof(pool_path), "%s/%s", DataDir, SCRATCH_FILE);
	unlink(pool_path);			/* left by one that was killed */
	base = zen_nvm_create(pool_path, SCRATCH_BYTES, ZEN_POOL_EMULATED);
	memset(state, 0, sizeof(ZenStateFile));
	init_superblock(state, facts, SCRATCH_BYTES);
	zen_super_at = 0;
	zen_superblock_write(base);
	zen_superblock_write(base);
	if (!open_pool_file())
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("file \"%s\" vanished while it was created", pool_path)));
	unlink(pool_path);
	publish(base, true, SCRATCH_BYTES);
	zen_pool.scratch = true;
	ereport(LOG,
			(errmsg("zen has an empty pool while the server runs in binary-upgrade mode")));
}

/*
 * After the crash of a backend: mapping and lock are still held.  A process that went wild may have written over a
 * copy of the superblock, and the crash may have been a SIGBUS, because someone has cut the file short: all of it is
 * checked again, and in the file, since another SIGBUS would end in a crash here.
 */
static void
reopen_pool(void)
{
	ZenSuperblockPair pair;
	uint64		file_size;

	read_pair(&pair, &file_size);
	choose_superblock(&pair);
	check_geometry(file_size);
	cut_to_size();
	Assert(zen_super.npages <= zen_pool.max_pages);
	/* R16: a process that was making the pool larger has written one copy */
	if (!pair.valid[1 - zen_super_at] || pair.copy[1 - zen_super_at].pool_size != zen_super.pool_size)
		zen_superblock_write(zen_pool.base);
	publish(zen_pool.base, false, zen_pool.max_pages * ZEN_PAGE_SIZE);
}

/*
 * Address space for a pool that has so many bytes.  What is not set is twice the pool, which costs a four
 * hundredth of the pool's size in DRAM, for descriptors of pages.
 */
static Size
size_to_reserve(Size size)
{
	Size		reserve = zen_pool_max_size_mb > 0 ? (Size) zen_pool_max_size_mb * 1024 * 1024 : 2 * size;

	return Max(TYPEALIGN_DOWN(ZEN_PAGE_SIZE, Min(reserve, ZEN_MAX_PAGES * ZEN_PAGE_SIZE)), size);
}

/* Bytes that the pool is to have at this start. */
static Size
size_at_start(void)
{
	return zen_pool_size_is_set ? Max(wanted_size(), zen_super.pool_size) : zen_super.pool_size;
}

/* A larger zen.pool_size makes the pool larger (R16).  If the file system is full it stays as it is. */
static void
grow_at_start(char *base)
{
	Size		from = zen_super.pool_size;
	Size		to = size_at_start();

	if (from == to || !zen_file_extend(pool_fd, base, from, to, NULL, WARNING))
		return;
	zen_superblock_resize(&zen_super, to);
	zen_superblock_write(base);
	zen_superblock_write(base);
	ereport(LOG,
			(errmsg("zen pool file \"%s\" has grown from %zu to %zu MB, as zen.pool_size says",
					pool_path, from / (1024 * 1024), to / (1024 * 1024))));
}

/* Open the pool file, after making it on the very first start; true if it was made. */
static bool
open_or_create(ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (open_pool_file())
		return false;
	if (state->found && state->phase != ZEN_PHASE_CREATING)
		refuse_missing(state);
	create_pool(state, facts);
	if (!open_pool_file())
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("zen pool file \"%s\" vanished while it was created", pool_path)));
	return true;
}

/*
 * zen_pool_open -- map the pool, creating it on the very first start.
 *
 * Postmaster or single-user backend only, in shmem_startup_hook, before any fork.  On return zen_pool is set, the
 * file is locked, and generation + 1 with clean = 0 is durable in pool and data directory.  Any doubt is a FATAL, and
 * until all checks have passed neither the pool nor zen.state is changed.  zen_pool.base is set last, so an exit
 * callback that runs after a FATAL in here finds no pool to mark clean.
 */
void
zen_pool_open(void)
{
	ZenSuperblockPair pair;
	ZenClusterFacts facts;
	ZenStateFile state;
	uint64		file_size;
	Size		mapped,
				reserve;
	bool		was_clean,
				upgraded,
				created;
	char	   *base;

	Assert(!IsUnderPostmaster);

	if (zen_pool.base != NULL)
	{
		reopen_pool();
		return;
	}

	facts = zen_cluster_facts();
	zen_state_read(&state);
	upgraded = zen_state_is_upgrade(&state);
	set_pool_path();
	if (IsBinaryUpgrade && !names_own_pool(&state, &facts))
	{
		open_scratch_pool(&state, &facts);
		return;
	}
	created = open_or_create(&state, &facts);
	lock_pool_file();

	read_pair(&pair, &file_size);
	choose_superblock(&pair);
	check_geometry(file_size);
	if (!upgraded)
		check_identity(&state, &facts);
	undo_interrupted_start(&pair, &state);
	if (!created)				/* an empty one fits a copy that begins
								 * without zen tables, and a standby */
		check_backup();
	if (upgraded)
		zen_adopt_check_start(pool_path, &zen_super, &state, &facts);
	else
		check_moment(&state, &facts);
	was_clean = upgraded ? zen_adopt_is_as_left(&state, &facts) : is_as_left(&facts);

	cut_to_size();
	reserve = size_to_reserve(size_at_start());
	base = zen_nvm_map(pool_path, &mapped, reserve, (ZenPoolMode) zen_pool_mode);
	Assert(mapped == zen_super.pool_size);
	check_standby(base);
	grow_at_start(base);
	begin_generation(base, &state, &facts);
	publish(base, was_clean, reserve);
	if (upgraded)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" was taken over from the cluster that pg_upgrade has upgraded",
						pool_path)));
	log_what_is_open();
}

/*
 * zen_pool_mark_clean -- record an orderly stop, durable on return.
 *
 * Postmaster or single-user backend only, when nothing in the pool is in doubt and PostgreSQL's shutdown
 * checkpoint is on disk.  Does nothing when no pool is open.  FATAL when pg_control cannot be read: the pool then
 * stays unclean.
 */
void
zen_pool_mark_clean(void)
{
	ZenClusterFacts facts;

	Assert(!IsUnderPostmaster);

	if (zen_pool.base == NULL)
		return;
	facts = zen_cluster_facts();
	zen_superblock_reload(zen_pool.base);
	zen_super.wal_position = Max(zen_super.wal_position, facts.checkpoint);
	zen_super.clean = 1;
	zen_superblock_write(zen_pool.base);
}

/* zen_pool_mode_name -- what the open pool really does, whatever zen.pool_mode asked for. */
const char *
zen_pool_mode_name(void)
{
	switch (zen_nvm_mode())
	{
		case ZEN_POOL_PMEM:
			return "pmem";
		case ZEN_POOL_EMULATED:
			return "emulated";
		case ZEN_POOL_MSYNC:
			return "msync";
		case ZEN_POOL_AUTO:
			break;
	}
	return "none";
}

void
zen_pool_superblock(ZenSuperblock *copy)
{
	if (IsUnderPostmaster)
	{
		LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_SHARED);
		zen_superblock_reload(zen_pool.base);
		LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
	}
	*copy = zen_super;
}

int
zen_pool_fd(void)
{
	return pool_fd;
}

/* zen_pool_cluster_is_shut_down -- does pg_control, as it is on disk now, say so?  ERROR if it cannot be read. */
bool
zen_pool_cluster_is_shut_down(void)
{
	return zen_cluster_facts().shut_down;
}

const char *
zen_pool_superblock_fault(int copy, Size *offset)
{
	ZenSuperblockPair pair;
	ZenSuperblock *sb = &pair.copy[copy];

	Assert(copy == 0 || copy == 1);
	*offset = zen_super_offsets[copy];
	LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_SHARED);
	zen_superblock_look(zen_pool.base, &pair);
	zen_superblock_reload(zen_pool.base);
	LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
	if (!pair.valid[copy])
		return "its checksum does not match";
	if (sb->seq != zen_super.seq && sb->seq + 1 != zen_super.seq)
		return "it is of another moment than the one in force";
	sb->seq = zen_super.seq;
	sb->crc = zen_super.crc;
	return memcmp(sb, &zen_super, sizeof(zen_super)) == 0 ? NULL : "it differs from the one in force";
}
