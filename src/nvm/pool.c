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
 */
#include "nvm/pool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "base/locks.h"
#include "base/numa.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "nvm/adopt.h"
#include "nvm/datadir.h"
#include "nvm/files.h"
#include "nvm/moment.h"
#include "nvm/persist.h"
#include "nvm/sink.h"
#include "storage/fd.h"

#define SCRATCH_FILE		"zen.scratch"
#define SCRATCH_BYTES		((Size) 32 * 1024 * 1024)
ZenPool		zen_pool;
ZenSink		zen_sink;

static char *const pool_path = zen_files[0].path;

/* ---------- checks, in the order in which they are made ---------- */

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
			(errmsg("zen pool file \"%s\" gets the database cluster's new system identifier", pool_path),
			 errdetail("It was %llu, and is %llu.", (unsigned long long) zen_super.system_id,
					   (unsigned long long) facts->system_id)));
	return true;
}

/* Is this the pool of this cluster and of this data directory? */
static void
check_identity(const ZenStateFile *state, const ZenClusterFacts *facts)
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
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* ---------- a copy, or not ---------- */

static ZenTailState *
tail_state(char *base)
{
	return (ZenTailState *) (base + ZEN_OFF_TAIL);
}

/* A word that is 0 or this value. */
static bool
is_set(const uint64 *word, uint64 value)
{
	uint64		now = zen_nvm_load64(word);

	if (now != 0 && now != value)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" does not say if it is a copy that follows another server", pool_path),
				 errhint("Restore the pool file and the data directory from copies made at the same moment.")));
	return now == value;
}

static bool
is_replica(char *base)
{
	return is_set(&tail_state(base)->role, ZEN_ROLE_REPLICA);
}

/* Each file is marked, in case a backup takes its files from several servers. */
static uint64
role_of(char *base, int file)
{
	return zen_nvm_load64(&tail_state(base + zen_files_first_page(file) * ZEN_PAGE_SIZE)->role);
}

static bool
is_copied(char *base)
{
	return is_set(&tail_state(base)->copied, ZEN_COPIED);
}

static void
store(uint64 *word, uint64 value)
{
	zen_nvm_store64(word, value);
	zen_persist(word, sizeof(*word));
}

/* File 0 decides, and goes first. */
static void
store_role(char *base, uint64 role)
{
	for (int i = 0; i < zen_files_number(); i++)
		if (role_of(base, i) != role)
			store(&tail_state(base + zen_files_first_page(i) * ZEN_PAGE_SIZE)->role, role);
}

bool
zen_pool_is_replica(void)
{
	return is_replica(zen_pool.base);
}

bool
zen_pool_is_copied(void)
{
	return is_copied(zen_pool.base);
}

void
zen_pool_make_primary(void)
{
	store_role(zen_pool.base, ZEN_ROLE_PRIMARY);
}

void
zen_pool_set_copied(bool copied)
{
	store(&tail_state(zen_pool.base)->copied, copied ? ZEN_COPIED : ZEN_COPIED_NOT);
}

void
zen_pool_replays(uint64 lsn)
{
	if (lsn > zen_pool_replayed() || zen_pool_is_judged())
		store(&tail_state(zen_pool.base)->replayed, Max(lsn, zen_pool_replayed()));
}

uint64
zen_pool_replayed(void)
{
	return zen_nvm_load64(&tail_state(zen_pool.base)->replayed) & ~ZEN_REPLAYED_JUDGED;
}

void
zen_pool_judge(void)
{
	store(&tail_state(zen_pool.base)->replayed, zen_pool_replayed() | ZEN_REPLAYED_JUDGED);
}

bool
zen_pool_is_judged(void)
{
	return (zen_nvm_load64(&tail_state(zen_pool.base)->replayed) & ZEN_REPLAYED_JUDGED) != 0;
}

void
zen_pool_note_dram(uint64 size, uint64 needs)
{
	ZenTailState *state = tail_state(zen_pool.base);

	if (zen_nvm_load64(&state->primary_needs) != needs)
		store(&state->primary_needs, needs);
	if (zen_nvm_load64(&state->primary_dram) != size)
		store(&state->primary_dram, size);
}

void
zen_pool_noted_dram(uint64 *size, uint64 *needs)
{
	*size = zen_nvm_load64(&tail_state(zen_pool.base)->primary_dram);
	*needs = zen_nvm_load64(&tail_state(zen_pool.base)->primary_needs);
}

static bool
has_tables(const char *base)
{
	const ZenHTableEntry *entries = (const ZenHTableEntry *) (base + ZEN_OFF_HTABLES);

	for (int i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_nvm_load64(&entries[i].state) != ZEN_HT_FREE)
			return true;
	return false;
}

bool
zen_pool_has_tables(void)
{
	return has_tables(zen_pool.base);
}

/*
 * A backup may have some files from a standby and the others from its primary, which know in different ways what has
 * committed.
 */
static void
check_one_server(char *base)
{
	for (int i = 1; i < zen_files_number(); i++)
		if (role_of(base, i) != role_of(base, 0))
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool files \"%s\" and \"%s\" were copied from different servers",
							pool_path, zen_files[i].path),
					 errdetail("One of them is the primary server's, the other a standby's."),
					 errhint("Take a base backup that has all files of the pool from one server: put them all into "
							 "tablespaces, or all into the data directory.")));
}

/*
 * A base backup is not of one moment: WAL replay makes the data directory whole again, and the pool only if its changes
 * were in the WAL, and it is the backup's own.  True: it is to be a copy.
 */
static bool
check_backup(char *base)
{
	/* it may wait for a place of the WAL from which on it follows */
	if (!is_copied(base) && !has_tables(base))
		return false;
	if (!is_copied(base))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data directory \"%s\" was copied while its server was running", DataDir),
				 errdetail("A base backup does not hold the zen pool \"%s\" as of one moment, as zen.stream was not "
						   "\"replica\".", pool_path),
				 errhint("Copy data directory and pool while the server is stopped, or use pg_dump.")));
	for (int i = 0; i < zen_files_number(); i++)
		if (!zen_is_in_base_backup(zen_files[i].path))
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool file \"%s\" is not part of the base backup in \"%s\"",
							zen_files[i].path, DataDir),
					 errdetail("A base backup has the pool's files if they are in the data directory, or in the "
							   "directory \"" TABLESPACE_VERSION_DIRECTORY "\" of a tablespace."),
					 errhint("Set zen.pool_path to the files of the backup.")));
	check_one_server(base);
	return true;
}

/*
 * A server that replays WAL from elsewhere needs a pool that follows: a copy, or that of a primary that was stopped in
 * order, so that all it has done is in the WAL.  Else the pool must have no tables.  True: it is to be a copy.
 */
static bool
check_standby(char *base, bool as_left)
{
	if (is_copied(base) && as_left)
		return true;
	if (has_tables(base))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" cannot follow a server that replays WAL from elsewhere", pool_path),
				 errdetail("File \"%s\" or \"%s\" makes a standby of this server, and the pool holds tables.",
						   STANDBY_SIGNAL_FILE, RECOVERY_SIGNAL_FILE),
				 is_copied(base) ?
				 errhint("The server was not stopped in order, so its pool may be ahead of the WAL.  "
						 "Take a new base backup.") :
				 errhint("To have a standby without the rows of zen tables, remove \"%s\" and set zen.pool_path to "
						 "a new file name.", ZEN_STATE_FILE)));
	return false;
}

static bool
replays_from_elsewhere(void)
{
	return access(STANDBY_SIGNAL_FILE, F_OK) == 0 || access(RECOVERY_SIGNAL_FILE, F_OK) == 0;
}

/*
 * Does this start make the pool a copy, or find it one?  src/stream/README, "Starts", has the table.  Nothing is
 * changed.
 */
static bool
judge_role(char *base, bool as_left, bool created)
{
	/*
	 * an empty one fits a copy that begins without zen tables, and a standby:
	 * it may yet begin to follow
	 */
	if (created)
		return false;
	if (zen_begins_backup())
		return check_backup(base);
	if (is_replica(base))
		return true;
	return replays_from_elsewhere() && check_standby(base, as_left);
}

/* Notes of recovery about a tail are those of the other server. */
static void
become_replica(char *base)
{
	if (is_replica(base))
		return;
	store(&tail_state(base)->again_xid, 0);
	store(&tail_state(base)->lost_xid, 0);
	store(&tail_state(base)->replayed, 0);
	store_role(base, ZEN_ROLE_REPLICA);
	ereport(LOG,
			(errmsg("zen pool file \"%s\" is a copy that follows the write-ahead log of another server", pool_path)));
}

void
zen_pool_begin_copy(void)
{
	Assert(!zen_pool_has_tables());
	zen_pool_set_copied(true);
	become_replica(zen_pool.base);
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

	return zen_begins_backup() && pread(zen_files[0].fd, &tail, sizeof(tail), ZEN_OFF_TAIL) == sizeof(tail) &&
		tail.role == ZEN_ROLE_REPLICA && tail.copied == ZEN_COPIED;
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

/* Make the pool file, complete and under its name on return.  Leaves it unmapped: opening is one path for all. */
static void
create_pool(ZenStateFile *state, const ZenClusterFacts *facts)
{
	char		temp[MAXPGPATH + 64];
	Size		size = zen_files_new_size();
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
	(void) zen_state_write(state, FATAL);

	/*
	 * the uuid makes the name ours: what lies there is left from an earlier
	 * try
	 */
	snprintf(temp, sizeof(temp), "%s." ZEN_UUID_FORMAT ".tmp", pool_path, ZEN_UUID_ARGS(state->uuid));
	unlink(temp);
	zen_numa_prefer(zen_files[0].node);
	base = zen_nvm_create(temp, size, (ZenPoolMode) zen_pool_mode);
	zen_numa_prefer(-1);

	init_superblock(state, facts, size);
	zen_super_at = 0;
	zen_superblock_write_both(0, base);
	zen_nvm_unmap(base, size);
	zen_file_link(0, temp);
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
	zen_super.mark = 0;
	zen_super.wal_position = facts->checkpoint;
	zen_super.clean = 0;
	if (zen_super.version == ZEN_FORMAT_VERSION_FILES)
		zen_super.node = zen_files[0].node;
	zen_files_same_moment(base);
	zen_superblock_write(0, base);

	state->phase = ZEN_PHASE_OPEN;
	state->generation = zen_super.generation;
	state->mark = 0;
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	(void) zen_state_write(state, FATAL);

	zen_superblock_write(0, base);
	zen_files_same_moment(base);
}

/* Fill in zen_pool.files. */
static void
publish_files(char *base)
{
	uint32		end = 0;

	zen_pool.nfiles = zen_files_number();
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		const ZenSuperblock *sb = &zen_supers[i];
		ZenPoolFile *file = &zen_pool.files[i];

		file->first = zen_files_first_page(i);
		file->limit = zen_files_first_page(i + 1);
		Assert(sb->first_page == file->first && sb->first_page + sb->npages <= file->limit);
		Assert(sb->first_data_page * ZEN_PAGE_SIZE % ZEN_AREA_ALIGN == 0 && sb->first_data_page < sb->npages);
		file->first_data = file->first + (uint32) sb->first_data_page;
		file->near_end = file->first +
			(uint32) ((sb->first_data_page * ZEN_PAGE_SIZE - ZEN_OFF_PAGES) / sizeof(uint64));
		file->words = (uint64 *) (base + file->first * ZEN_PAGE_SIZE + ZEN_OFF_PAGES);
		file->node = zen_files[i].node;
		file->place = zen_numa_place(file->node);
		pg_atomic_write_u32(file->npages, (uint32) sb->npages);
		end = file->first + (uint32) sb->npages;
	}
	zen_pool.max_pages = zen_files_first_page(zen_pool.nfiles);
	pg_atomic_write_u32(zen_pool.npages, end);
}

static void
publish(char *base, bool was_clean)
{
	Assert((uintptr_t) base % ZEN_OFF_SUPER2 == 0);
	publish_files(base);
	zen_pool.first_data_page = zen_pool.files[0].first_data;
	zen_pool.was_clean = was_clean;
	zen_pool.regions = (ZenRegionEntry *) (base + ZEN_OFF_REGIONS);
	zen_pool.htables = (ZenHTableEntry *) (base + ZEN_OFF_HTABLES);
	zen_pool.cts_mark = (ZenMarkRecord *) (base + ZEN_OFF_CTS_MARK);
	zen_pool.base = base;
}

/* Log which guarantees the medium gives, and which were asked for and are not given. */
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

	if (zen_pool_size_is_set && zen_super.pool_size / (1024 * 1024) > (uint64) zen_pool_size_mb)
		ereport(LOG,
				(errmsg("zen.pool_size is less than what zen pool file \"%s\" has: it keeps its %llu MB",
						pool_path, (unsigned long long) zen_super.pool_size / (1024 * 1024))));
}

/* Where there are several nodes: tell which of them have no file of the pool, and which files have no node. */
static void
log_nodes(void)
{
	bool		has[ZEN_MAX_NODES] = {false};

	if (zen_numa_nodes == 1)
		return;
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		int			place = zen_pool.files[i].place;

		if (place >= 0)
			has[place] = true;
		else
			ereport(LOG,
					(errmsg("the NUMA node of zen pool file \"%s\" is not known", zen_files[i].path),
					 errhint("Write @ and the number of a node behind its name in zen.pool_path.")));
	}
	for (int i = 0; i < zen_numa_nodes; i++)
		if (!has[i])
			ereport(LOG,
					(errmsg("the zen pool has no file on NUMA node %d: sessions there write to other nodes",
							zen_numa_number(i))));
}

/* For a server that pg_upgrade runs: does zen.pool_path name a pool that this cluster has opened before? */
static bool
names_own_pool(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	ZenSuperblockPair pair;
	int			at;

	if (!state->found || zen_state_is_upgrade(state) || !zen_file_open(0))
		return false;
	zen_superblock_read(zen_files[0].fd, &pair);
	at = zen_superblock_in_force(&pair);
	close(zen_files[0].fd);
	zen_files[0].fd = -1;
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
	snprintf(pool_path, MAXPGPATH, "%s/%s", DataDir, SCRATCH_FILE);
	unlink(pool_path);			/* left by one that was killed */
	base = zen_nvm_create(pool_path, SCRATCH_BYTES, ZEN_POOL_EMULATED);
	memset(state, 0, sizeof(ZenStateFile));
	init_superblock(state, facts, SCRATCH_BYTES);
	zen_super_at = 0;
	zen_superblock_write_both(0, base);
	if (!zen_file_open(0))
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("file \"%s\" vanished while it was created", pool_path)));
	unlink(pool_path);
	zen_files_only(SCRATCH_BYTES);
	publish(base, true);
	zen_pool.scratch = true;
	ereport(LOG,
			(errmsg("zen has an empty pool while the server runs in binary-upgrade mode")));
}

/*
 * After the crash of a backend: mapping and lock are still held.  A process that went wild may have written over a copy
 * of the superblock, and the crash may have been a SIGBUS, because another program has cut the file short: all of it is
 * checked again, and in the file, since another SIGBUS would end in a crash here.
 */
static void
reopen_pool(void)
{
	zen_files_reopen(zen_pool.base);
	publish(zen_pool.base, false);
	zen_pool.backup = false;
}

/* Open the pool file, after making it on the very first start; true if it was made. */
static bool
open_or_create(ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (zen_file_open(0))
		return false;
	if (state->found && state->phase != ZEN_PHASE_CREATING)
		refuse_missing(state);
	create_pool(state, facts);
	if (!zen_file_open(0))
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
				created,
				replica;
	char	   *base;

	Assert(!IsUnderPostmaster);

	if (zen_pool.base != NULL)
	{
		reopen_pool();
		return;
	}

	facts = zen_cluster_facts();
	(void) zen_state_read(&state, FATAL);
	upgraded = zen_state_is_upgrade(&state);
	zen_files_name();
	if (IsBinaryUpgrade && !names_own_pool(&state, &facts))
	{
		open_scratch_pool(&state, &facts);
		return;
	}
	created = open_or_create(&state, &facts);
	zen_file_lock(0);

	zen_file_read(0, &pair, &file_size);
	zen_file_check_geometry(0, file_size);
	if (!upgraded)
		check_identity(&state, &facts);
	zen_files_check_number(0);
	undo_interrupted_start(&pair, &state);
	if (upgraded)
		zen_adopt_check_start(pool_path, &zen_super, &state, &facts);
	else
		zen_moment_check(&state, &facts, is_backup_of_standby());
	was_clean = upgraded ? zen_adopt_is_as_left(&state, &facts) : is_as_left(&facts);

	reserve = zen_files_open();
	zen_files_fit();
	base = zen_nvm_map(pool_path, &mapped, reserve, (ZenPoolMode) zen_pool_mode);
	Assert(mapped == zen_super.pool_size);
	zen_numa_bind(base, reserve, zen_files[0].node);
	zen_files_map(base);
	replica = judge_role(base, was_clean, created);
	if (replica)
		become_replica(base);
	zen_files_grow(base);
	zen_files_add(base);
	store_role(base, role_of(base, 0));
	begin_generation(base, &state, &facts);
	publish(base, was_clean && !replica && !replays_from_elsewhere());
	zen_pool.backup = replica && zen_begins_backup();
	if (upgraded)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" was taken over from the cluster that pg_upgrade has upgraded",
						pool_path)));
	log_what_is_open();
	log_nodes();
}

/*
 * zen_pool_stopped -- record an orderly stop, durable on return.
 *
 * Postmaster or single-user backend only, when no other process is left and PostgreSQL's shutdown checkpoint is on
 * disk.  clean: nothing in the pool is in doubt.  FATAL when pg_control cannot be read: the pool then stays unclean.
 */
void
zen_pool_stopped(bool clean)
{
	ZenClusterFacts facts = zen_cluster_facts();

	Assert(!IsUnderPostmaster && zen_pool.base != NULL);
	zen_files_reload(zen_pool.base);
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		/*
		 * should both copies be damaged, what this process knows is of before
		 * the file grew
		 */
		zen_superblock_resize(&zen_supers[i], zen_file_size(i));
	}
	if (clean)
	{
		zen_super.wal_position = Max(zen_super.wal_position, facts.checkpoint);
		zen_super.clean = 1;
		zen_files_like_first();
	}
	zen_moment_stop(zen_pool.base);
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
zen_pool_superblock(int file, ZenSuperblock *copy)
{
	if (IsUnderPostmaster)
	{
		LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_SHARED);
		zen_superblock_reload(file, zen_file_base(file));
		LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
	}
	*copy = zen_supers[file];
}

int
zen_pool_fd(int file)
{
	return zen_files[file].fd;
}

bool
zen_pool_cluster_is_shut_down(bool *stopped)
{
	ZenClusterFacts facts = zen_cluster_facts();

	*stopped = facts.stopped;
	return facts.shut_down;
}

/* ---------- pages of several files ---------- */

Size
zen_pool_size(void)
{
	Size		size = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
		size += zen_file_size(i);
	return size;
}

uint32
zen_page_skip(uint32 pageno)
{
	const ZenPoolFile *file = zen_pool_file_of(pageno);

	if (pageno < file->first + pg_atomic_read_u32(file->npages))
		return Max(pageno, file->first_data);
	return file + 1 < zen_pool.files + zen_pool.nfiles ? file[1].first_data : pageno;
}

uint32
zen_pool_count_pages(void)
{
	uint32		n = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
		n += zen_pool.files[i].first + zen_file_pages(i) - zen_pool.files[i].first_data;
	return n;
}

uint32
zen_page_nth(uint32 n, uint32 *run)
{
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		uint32		here = zen_pool.files[i].first + zen_file_pages(i) - zen_pool.files[i].first_data;

		*run = here - Min(n, here);
		if (n < here)
			return zen_pool.files[i].first_data + n;
		n -= here;
	}
	return zen_pool_pages();
}
