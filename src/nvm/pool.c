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
 * Superblock.  Two copies in different 4 KB pages, written in turn, never both at once; the valid one (CRC) with the
 * larger seq counts.  Only the postmaster writes it, so the process-local copy is exact there, and in children it is
 * what the server was started with.
 *
 * The pool file is held with flock through a file descriptor that the postmaster keeps and all children inherit,
 * so a second server is kept out as long as any process of the first one lives.
 */
#include "nvm/pool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlogdefs.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#define STATE_FILE			"zen.state"
#define STATE_FORMAT		"1"
#define MIN_DATA_PAGES		4	/* 8 MB: a smaller pool is a mistake, not a
								 * wish */
#define LOCK_WAIT_MS		10000	/* children of a killed postmaster are
									 * gone long before */
#define LOCK_POLL_MS		50
#define UUID_FORMAT			"%016llx%016llx"
#define UUID_ARGS(u)		(unsigned long long) (u)[0], (unsigned long long) (u)[1]

/* Hint for every mismatch between pool and data directory. */
#define SAME_MOMENT_HINT \
	"Restore the pool file and the data directory from copies made at the same moment, or set zen.pool_path to " \
	"the pool that belongs to this data directory."

/* What zen.state says. */
typedef struct StateFile
{
	bool		found;
	bool		creating;		/* no pool has been opened under this uuid yet */
	uint64		uuid[2];
	uint64		generation;
	char		pool_path[MAXPGPATH];	/* zen.pool_path at the last start,
										 * for messages */
} StateFile;

/* What pg_control says. */
typedef struct ClusterFacts
{
	uint64		system_id;
	uint64		checkpoint;		/* XLogRecPtr of the last checkpoint record */
	bool		shut_down;
} ClusterFacts;

/* Both superblock copies as read, and which of them can be believed. */
typedef struct SuperblockPair
{
	ZenSuperblock copy[2];
	bool		valid[2];
} SuperblockPair;

static const Size super_offsets[2] = {ZEN_OFF_SUPER, ZEN_OFF_SUPER2};

ZenPool		zen_pool;

static char pool_path[MAXPGPATH];	/* absolute */
static int	pool_fd = -1;		/* keeps the flock; never closed */
static ZenSuperblock super;		/* the superblock in force */
static int	super_at;			/* which copy holds it */

/* ---------- pg_control ---------- */

/* GetSystemIdentifier() and friends do not work yet in shmem_startup_hook: read the file. */
static ClusterFacts
read_cluster_facts(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	ClusterFacts facts;

	if (!crc_ok)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen cannot use file \"%s/global/pg_control\": incorrect checksum", DataDir)));
	facts.system_id = control->system_identifier;
	facts.checkpoint = control->checkPoint;
	facts.shut_down = (control->state == DB_SHUTDOWNED);
	pfree(control);
	return facts;
}

/* ---------- zen.state ---------- */

static void
state_unreadable(const char *path, const char *key)
{
	ereport(FATAL,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("could not understand file \"%s\"", path),
			 errdetail("The line \"%s\" is missing, malformed or of another format version.", key),
			 errhint("Restore the file from a copy of the data directory of the same moment.")));
}

/* Read one line "key value" into value (MAXPGPATH bytes); FATAL if it is anything else. */
static void
read_state_line(FILE *file, const char *path, const char *key, char *value)
{
	char		line[MAXPGPATH + 32];
	Size		keylen = strlen(key);
	Size		len;

	if (fgets(line, sizeof(line), file) == NULL)
		state_unreadable(path, key);
	len = strlen(line);
	if (len == 0 || line[len - 1] != '\n')
		state_unreadable(path, key);
	line[len - 1] = '\0';
	if (strncmp(line, key, keylen) != 0 || line[keylen] != ' ')
		state_unreadable(path, key);
	if (strlcpy(value, line + keylen + 1, MAXPGPATH) >= MAXPGPATH)
		state_unreadable(path, key);
}

/* Read zen.state; found = false if there is none.  FATAL when it cannot be read or understood. */
static void
read_state(StateFile *state)
{
	char		path[MAXPGPATH + 32];
	char		value[MAXPGPATH];
	unsigned long long number[2];
	FILE	   *file;

	memset(state, 0, sizeof(StateFile));
	snprintf(path, sizeof(path), "%s/%s", DataDir, STATE_FILE);
	file = AllocateFile(path, "r");
	if (file == NULL)
	{
		if (errno == ENOENT)
			return;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	}

	read_state_line(file, path, "format", value);
	if (strcmp(value, STATE_FORMAT) != 0)
		state_unreadable(path, "format");

	read_state_line(file, path, "uuid", value);
	if (strlen(value) != 32 || strspn(value, "0123456789abcdef") != 32 ||
		sscanf(value, "%16llx%16llx", &number[0], &number[1]) != 2)
		state_unreadable(path, "uuid");
	state->uuid[0] = number[0];
	state->uuid[1] = number[1];

	read_state_line(file, path, "generation", value);
	if (strspn(value, "0123456789") != strlen(value) || sscanf(value, "%llu", &number[0]) != 1)
		state_unreadable(path, "generation");
	state->generation = number[0];

	read_state_line(file, path, "state", value);
	if (strcmp(value, "creating") != 0 && strcmp(value, "open") != 0)
		state_unreadable(path, "state");
	state->creating = (strcmp(value, "creating") == 0);

	read_state_line(file, path, "pool", state->pool_path);
	state->found = true;
	FreeFile(file);
}

/* Replace zen.state, durable on return (as far as fsync = on).  FATAL when that fails. */
static void
write_state(const StateFile *state)
{
	char		path[MAXPGPATH + 32];
	char		temp[MAXPGPATH + 40];
	char text[	MAXPGPATH + 256];
	int			len;
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", DataDir, STATE_FILE);
	snprintf(temp, sizeof(temp), "%s.tmp", path);
	len = snprintf(text, sizeof(text),
				   "format %s\nuuid " UUID_FORMAT "\ngeneration %llu\nstate %s\npool %s\n",
				   STATE_FORMAT, UUID_ARGS(state->uuid), (unsigned long long) state->generation,
				   state->creating ? "creating" : "open", state->pool_path);

	fd = OpenTransientFile(temp, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", temp)));
	errno = 0;
	if (write(fd, text, len) != len)
	{
		/* a short write without errno is a full disk */
		if (errno == 0)
			errno = ENOSPC;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temp)));
	}
	if (CloseTransientFile(fd) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", temp)));
	(void) durable_rename(temp, path, FATAL);
}

/* ---------- superblock ---------- */

static uint32
superblock_crc(const ZenSuperblock *sb)
{
	ZenSuperblock copy = *sb;
	pg_crc32c	crc;

	copy.crc = 0;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &copy, sizeof(copy));
	FIN_CRC32C(crc);
	return crc;
}

static uint32
first_data_page(uint64 npages)
{
	Size		directory = npages * sizeof(uint64);

	return (ZEN_OFF_PAGES + TYPEALIGN(ZEN_AREA_ALIGN, directory)) / ZEN_PAGE_SIZE;
}

/* Store the word of a copy that holds version and CRC, durably. */
static void
seal_superblock(ZenSuperblock *copy, uint32 crc)
{
	zen_nvm_store64((uint64 *) &copy->version, super.version | (uint64) crc << 32);
	zen_persist(copy, sizeof(*copy));
}

/*
 * Write super as the next version into the copy that is not in force; durable and in force on return.
 *
 * The copy's CRC is 0 meanwhile, so a cut leaves nothing that looks like damage.
 */
static void
write_superblock(char *base)
{
	int			target = 1 - super_at;
	ZenSuperblock *copy = (ZenSuperblock *) (base + super_offsets[target]);

	super.seq++;
	super.crc = 0;
	seal_superblock(copy, 0);
	zen_nvm_copy(copy, &super, sizeof(super));
	zen_persist(copy, sizeof(super));
	super.crc = superblock_crc(&super);
	seal_superblock(copy, super.crc);
	super_at = target;
}

/* Which copies are whole?  With another format version only the first fields mean anything. */
static void
validate_pair(SuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		ZenSuperblock *sb = &pair->copy[i];

		pair->valid[i] = (sb->magic == ZEN_MAGIC && sb->version == ZEN_FORMAT_VERSION &&
						  sb->crc == superblock_crc(sb));
	}
}

/* FATAL: neither copy is whole.  Say which kind of stranger this is. */
static void
refuse_superblock(const SuperblockPair *pair)
{
	bool		magic[2];

	for (int i = 0; i < 2; i++)
		magic[i] = (pair->copy[i].magic == ZEN_MAGIC);

	if (!magic[0] && !magic[1])
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is not a zen pool", pool_path),
				 errdetail("Neither copy of its superblock, at offsets %zu and %zu, has the magic number.",
						   super_offsets[0], super_offsets[1]),
				 errhint("Set zen.pool_path to the zen pool of this cluster; zen never overwrites a file.")));

	for (int i = 0; i < 2; i++)
	{
		if (magic[i] && pair->copy[i].version != ZEN_FORMAT_VERSION)
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
					   super_offsets[0], super_offsets[1]),
			 errhint(SAME_MOMENT_HINT)));
}

/* Did a crash come while the copy was written?  No flipped bit makes it look so. */
static bool
is_unfinished(const ZenSuperblock *copy)
{
	return copy->magic == ZEN_MAGIC && copy->version == ZEN_FORMAT_VERSION && copy->crc == 0;
}

/* Put the superblock in force into super.  FATAL if there is none; WARNING if one copy is damaged. */
static void
choose_superblock(const SuperblockPair *pair)
{
	if (!pair->valid[0] && !pair->valid[1])
		refuse_superblock(pair);

	if (pair->valid[0] && pair->valid[1])
		super_at = (pair->copy[1].seq > pair->copy[0].seq) ? 1 : 0;
	else
	{
		super_at = pair->valid[1] ? 1 : 0;
		if (!is_unfinished(&pair->copy[1 - super_at]))
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("one copy of the superblock of zen pool file \"%s\" is damaged", pool_path),
					 errdetail("The copy at offset %zu has no correct checksum; the one at offset %zu is used "
							   "to repair it.",
							   super_offsets[1 - super_at], super_offsets[super_at])));
	}
	super = pair->copy[super_at];
}

/* ---------- the file ---------- */

static void
set_pool_path(void)
{
	if (zen_pool_path == NULL || zen_pool_path[0] == '\0' || strpbrk(zen_pool_path, "\r\n") != NULL)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_path is not a file name"),
				 errhint("Set zen.pool_path to a file name without line breaks.")));

	if ((is_absolute_path(zen_pool_path) ?
		 snprintf(pool_path, MAXPGPATH, "%s", zen_pool_path) :
		 snprintf(pool_path, MAXPGPATH, "%s/%s", DataDir, zen_pool_path)) >= MAXPGPATH)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_path is too long"),
				 errhint("Set zen.pool_path to a file name of less than %d bytes, data directory included.",
						 MAXPGPATH)));
	canonicalize_path(pool_path);
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
read_pair(SuperblockPair *pair, uint64 *file_size)
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

	for (int i = 0; i < 2; i++)
	{
		/* an unreadable copy is a damaged copy */
		if (pread(pool_fd, &pair->copy[i], sizeof(ZenSuperblock), super_offsets[i]) != sizeof(ZenSuperblock))
			memset(&pair->copy[i], 0, sizeof(ZenSuperblock));
	}
	validate_pair(pair);
}

/* ---------- checks, in the order in which they are made ---------- */

static void
check_geometry(uint64 file_size)
{
	if (file_size != super.pool_size)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", pool_path),
				 errdetail("It has %llu bytes, its superblock says %llu.",
						   (unsigned long long) file_size, (unsigned long long) super.pool_size),
				 errhint(SAME_MOMENT_HINT)));
	if (super.pool_size % ZEN_PAGE_SIZE != 0 ||
		super.npages != super.pool_size / ZEN_PAGE_SIZE ||
		super.first_data_page != first_data_page(super.npages) ||
		super.npages < super.first_data_page + MIN_DATA_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("superblock of zen pool file \"%s\" contradicts itself", pool_path),
				 errdetail("It says %llu bytes, %llu pages, first data page %llu.",
						   (unsigned long long) super.pool_size, (unsigned long long) super.npages,
						   (unsigned long long) super.first_data_page),
				 errhint(SAME_MOMENT_HINT)));
}

/* Is this the pool of this cluster and of this data directory? */
static void
check_identity(const StateFile *state, const ClusterFacts *facts)
{
	if (super.system_id != facts->system_id)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" belongs to another database cluster", pool_path),
				 errdetail("The pool has system identifier %llu, the data directory \"%s\" has %llu.",
						   (unsigned long long) super.system_id, DataDir,
						   (unsigned long long) facts->system_id),
				 errhint("Set zen.pool_path to the pool of this cluster, or to a new file name if it has none.")));
	if (!state->found)
		ereport(FATAL,
				(errcode(ERRCODE_DUPLICATE_FILE),
				 errmsg("zen pool file \"%s\" exists, but the data directory knows of no zen pool", pool_path),
				 errdetail("There is no file \"%s/%s\".  The data directory is from an earlier moment than the "
						   "pool, or the pool is that of a copy of this data directory.",
						   DataDir, STATE_FILE),
				 errhint("Restore the pool file and the data directory from copies made at the same moment, or "
						 "set zen.pool_path to a new file name to begin with an empty pool.")));
	if (super.uuid[0] != state->uuid[0] || super.uuid[1] != state->uuid[1])
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" is not the pool of this data directory", pool_path),
				 errdetail("The pool has uuid " UUID_FORMAT ", \"%s/%s\" names " UUID_FORMAT ".",
						   UUID_ARGS(super.uuid), DataDir, STATE_FILE, UUID_ARGS(state->uuid)),
				 errhint(SAME_MOMENT_HINT)));
}

/*
 * A base backup is not of one moment: WAL replay makes the data directory whole again, but nothing does that for the pool.
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

/* Are pool and data directory of the same moment? */
static void
check_moment(const StateFile *state, const ClusterFacts *facts)
{
	if (super.generation != state->generation)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" and data directory \"%s\" are not of the same moment",
						pool_path, DataDir),
				 errdetail("The pool has seen %llu server starts, the data directory %llu: the %s is an older copy.",
						   (unsigned long long) super.generation, (unsigned long long) state->generation,
						   super.generation < state->generation ? "pool" : "data directory"),
				 errhint(SAME_MOMENT_HINT)));
	if (facts->checkpoint < super.wal_position)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data directory \"%s\" is older than zen pool file \"%s\"", DataDir, pool_path),
				 errdetail("The last checkpoint in pg_control is at %X/%X, but the pool was used when it was "
						   "already at %X/%X.",
						   LSN_FORMAT_ARGS(facts->checkpoint), LSN_FORMAT_ARGS(super.wal_position)),
				 errhint(SAME_MOMENT_HINT)));
}

/*
 * Take a start that was cut short as not begun: the newest copy is one ahead of zen.state, and the other copy still
 * agrees with it.  Nothing was done under the new generation, since zen.state is written before a start goes on.
 */
static void
undo_interrupted_start(const SuperblockPair *pair, const StateFile *state)
{
	int			other = 1 - super_at;

	if (super.generation == state->generation + 1 &&
		pair->valid[other] && pair->copy[other].generation == state->generation)
	{
		super = pair->copy[other];
		super_at = other;
	}
}

/* ---------- creation ---------- */

static void
refuse_missing(const StateFile *state)
{
	ereport(FATAL,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("zen pool file \"%s\" does not exist", pool_path),
			 errdetail("According to \"%s/%s\" this cluster has a zen pool, last used as \"%s\".",
					   DataDir, STATE_FILE, state->pool_path),
			 errhint("Restore the pool file from a copy of the same moment as the data directory, or set "
					 "zen.pool_path to where it is.  Remove \"%s\" only if the contents of all zen tables are "
					 "to be given up.",
					 STATE_FILE)));
}

/* Size of a new pool in bytes, from zen.pool_size. */
static Size
new_pool_size(void)
{
	Size		size = TYPEALIGN_DOWN(ZEN_PAGE_SIZE, (Size) zen_pool_size_mb * 1024 * 1024);
	uint64		npages = size / ZEN_PAGE_SIZE;

	if (npages < first_data_page(npages) + MIN_DATA_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_size is too small"),
				 errdetail("A pool of %d MB has fewer than %d data pages of 64 KB.",
						   zen_pool_size_mb, MIN_DATA_PAGES),
				 errhint("Increase zen.pool_size.")));
	return size;
}

static void
init_superblock(const StateFile *state, const ClusterFacts *facts, Size size)
{
	memset(&super, 0, sizeof(super));
	super.magic = ZEN_MAGIC;
	super.version = ZEN_FORMAT_VERSION;
	super.system_id = facts->system_id;
	memcpy(super.uuid, state->uuid, sizeof(super.uuid));
	super.pool_size = size;
	super.npages = size / ZEN_PAGE_SIZE;
	super.first_data_page = first_data_page(super.npages);
	super.generation = state->generation;
	super.wal_position = facts->checkpoint;
	super.clean = 1;
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
create_pool(StateFile *state, const ClusterFacts *facts)
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
		state->creating = true;
		state->generation = 0;
	}
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	write_state(state);

	/*
	 * the uuid makes the name ours: what lies there is left from an earlier
	 * try
	 */
	snprintf(temp, sizeof(temp), "%s." UUID_FORMAT ".tmp", pool_path, UUID_ARGS(state->uuid));
	unlink(temp);
	base = zen_nvm_create(temp, size, (ZenPoolMode) zen_pool_mode);

	init_superblock(state, facts, size);
	super_at = 0;
	write_superblock(base);
	write_superblock(base);
	zen_nvm_unmap(base, size);
	link_into_place(temp);
	ereport(LOG,
			(errmsg("created zen pool file \"%s\" of %zu MB", pool_path, size / (1024 * 1024))));
}

/* ---------- opening ---------- */

/* Make the new generation durable in pool and data directory; the order is explained at the top. */
static void
begin_generation(char *base, StateFile *state, const ClusterFacts *facts)
{
	super.generation = state->generation + 1;
	super.wal_position = facts->checkpoint;
	super.clean = 0;
	write_superblock(base);

	state->creating = false;
	state->generation = super.generation;
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	write_state(state);

	write_superblock(base);
}

static void
publish(char *base, bool was_clean)
{
	zen_pool.size = super.pool_size;
	zen_pool.npages = super.npages;
	zen_pool.first_data_page = super.first_data_page;
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

	if (super.pool_size != TYPEALIGN_DOWN(ZEN_PAGE_SIZE, (Size) zen_pool_size_mb * 1024 * 1024))
		ereport(LOG,
				(errmsg("zen.pool_size is ignored: zen pool file \"%s\" keeps the %llu MB it was created with",
						pool_path, (unsigned long long) super.pool_size / (1024 * 1024))));
}

/*
 * After the crash of a backend: mapping and lock are still held.  A process that went wild may have written over a
 * copy of the superblock, and the crash may have been a SIGBUS, because someone has cut the file short: all of it is
 * checked again, and in the file, since another SIGBUS would end in a crash here.
 */
static void
reopen_pool(void)
{
	SuperblockPair pair;
	uint64		file_size;

	read_pair(&pair, &file_size);
	choose_superblock(&pair);
	check_geometry(file_size);
	if (!pair.valid[1 - super_at])
		write_superblock(zen_pool.base);
	zen_pool.was_clean = false;
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
	SuperblockPair pair;
	ClusterFacts facts;
	StateFile	state;
	uint64		file_size;
	Size		mapped;
	bool		was_clean,
				created = false;
	char	   *base;

	Assert(!IsUnderPostmaster);

	if (zen_pool.base != NULL)
	{
		reopen_pool();
		return;
	}

	set_pool_path();
	facts = read_cluster_facts();
	read_state(&state);
	if (!open_pool_file())
	{
		if (state.found && !state.creating)
			refuse_missing(&state);
		create_pool(&state, &facts);
		created = true;
		if (!open_pool_file())
			ereport(FATAL,
					(errcode(ERRCODE_UNDEFINED_FILE),
					 errmsg("zen pool file \"%s\" vanished while it was created", pool_path)));
	}
	lock_pool_file();

	read_pair(&pair, &file_size);
	choose_superblock(&pair);
	check_geometry(file_size);
	check_identity(&state, &facts);
	undo_interrupted_start(&pair, &state);
	if (!created)				/* an empty one fits a copy that begins
								 * without zen tables, and a standby */
		check_backup();
	check_moment(&state, &facts);
	was_clean = (super.clean == 1 && facts.shut_down);

	base = zen_nvm_map(pool_path, &mapped, (ZenPoolMode) zen_pool_mode);
	Assert(mapped == super.pool_size);
	begin_generation(base, &state, &facts);
	publish(base, was_clean);
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
	ClusterFacts facts;

	Assert(!IsUnderPostmaster);

	if (zen_pool.base == NULL)
		return;
	facts = read_cluster_facts();
	super.wal_position = Max(super.wal_position, facts.checkpoint);
	super.clean = 1;
	write_superblock(zen_pool.base);
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

/* zen_pool_superblock -- a copy of the superblock in force; in children, of the one the server was started with. */
void
zen_pool_superblock(ZenSuperblock *copy)
{
	*copy = super;
}

/* zen_pool_cluster_is_shut_down -- does pg_control, as it is on disk now, say so?  ERROR if it cannot be read. */
bool
zen_pool_cluster_is_shut_down(void)
{
	return read_cluster_facts().shut_down;
}

/* zen_pool_superblock_fault -- only start and stop write the copies, so nothing changes under us. */
const char *
zen_pool_superblock_fault(int copy, Size *offset)
{
	SuperblockPair pair;
	ZenSuperblock *sb = &pair.copy[copy];

	*offset = super_offsets[copy];
	for (int i = 0; i < 2; i++)
		memcpy(&pair.copy[i], zen_pool.base + super_offsets[i], sizeof(ZenSuperblock));
	validate_pair(&pair);
	if (!pair.valid[copy])
		return "its checksum does not match";
	if (sb->seq != super.seq && sb->seq + 1 != super.seq)
		return "it is of another moment than the one in force";
	sb->seq = super.seq;
	sb->crc = super.crc;
	return memcmp(sb, &super, sizeof(super)) == 0 ? NULL : "it differs from the one in force";
}
