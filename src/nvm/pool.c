/*
 * pool.c -- the open pool: its files and pages, and whether it is a copy.
 *
 * poolopen.c opens it.
 */
#include "nvm/pool.h"

#include <unistd.h>

#include "access/xlog.h"
#include "base/locks.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/persist.h"
#include "nvm/poolfile.h"
#include "nvm/sink.h"

ZenPool		zen_pool;
ZenSink		zen_sink;


/* ---------- a copy, or not ---------- */

static ZenTailState *
tail_state(char *base)
{
	return (ZenTailState *) (base + ZEN_OFF_TAIL);
}

/* A word that is 0, this value, or the other one. */
static bool
is_set(const uint64 *word, uint64 value, uint64 other)
{
	uint64		now = zen_nvm_load64(word);

	if (now != 0 && now != value && now != other)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" does not say if it is a copy that follows another server",
						zen_first_path),
				 errhint("Restore the pool file and the data directory from copies made at the same moment.")));
	return now == value;
}

static bool
is_replica(char *base)
{
	return is_set(&tail_state(base)->role, ZEN_ROLE_REPLICA, ZEN_ROLE_LAZY);
}

/* Each file is marked, in case a backup takes its files from several servers. */
static uint64
role_of(char *base, int file)
{
	return zen_nvm_load64(&tail_state(zen_file_place(base, file))->role);
}

static bool
is_copied(char *base)
{
	return is_set(&tail_state(base)->copied, ZEN_COPIED, ZEN_COPIED);
}

static void
role_store(uint64 *word, uint64 value)
{
	zen_nvm_store64(word, value);
	zen_persist_now(word, sizeof(*word));
}

static bool
is_lazy(char *base)
{
	return is_set(&tail_state(base)->role, ZEN_ROLE_LAZY, ZEN_ROLE_REPLICA);
}

/* File 0 decides, and goes first. */
static void
store_role(char *base, uint64 role)
{
	for (int i = 0; i < zen_files_number(); i++)
	{
		if (role_of(base, i) != role)
			role_store(&tail_state(zen_file_place(base, i))->role, role);
	}
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
zen_pool_make_lazy(void)
{
	/* W6: or a crash would replay nothing */
	Assert(zen_pool_is_copied() && !zen_pool_is_replica());
	store_role(zen_pool.base, ZEN_ROLE_LAZY);
}

void
zen_pool_sync(void)
{
	for (int i = 0; i < zen_pool.nfiles; i++)
		zen_nvm_sync(zen_files[i].fd, zen_files[i].path);
}

void
zen_pool_set_copied(bool copied)
{
	role_store(&tail_state(zen_pool.base)->copied, copied ? ZEN_COPIED : ZEN_COPIED_NOT);
}

/* Of the startup process: how far redo has come, now or in an earlier run; 0: it has not begun. */
static uint64 replayed_now = 0;

void
zen_pool_replays(uint64 lsn, uint64 claim)
{
	uint64		noted = zen_pool_replayed();

	Assert(claim >= lsn);
	replayed_now = Max(lsn, replayed_now == 0 ? noted : replayed_now);
	if (lsn > noted || zen_pool_is_judged())
		role_store(&tail_state(zen_pool.base)->replayed, Max(claim, noted));
}

void
zen_pool_replay_rests(void)
{
	if (replayed_now != 0 && replayed_now != zen_pool_replayed())
		role_store(&tail_state(zen_pool.base)->replayed, replayed_now);
}

uint64
zen_pool_replayed(void)
{
	return zen_nvm_load64(&tail_state(zen_pool.base)->replayed) & ~ZEN_REPLAYED_JUDGED;
}

void
zen_pool_judge(void)
{
	role_store(&tail_state(zen_pool.base)->replayed, zen_pool_replayed() | ZEN_REPLAYED_JUDGED);
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
		role_store(&state->primary_needs, needs);
	if (zen_nvm_load64(&state->primary_dram) != size)
		role_store(&state->primary_dram, size);
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
	bool		replica = role_of(base, 0) == ZEN_ROLE_REPLICA;

	for (int i = 1; i < zen_files_number(); i++)
	{
		if ((role_of(base, i) == ZEN_ROLE_REPLICA) != replica)
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool files \"%s\" and \"%s\" were copied from different servers",
							zen_first_path, zen_files[i].path),
					 errdetail("One of them is the primary server's, the other a standby's."),
					 errhint("Take a base backup that has all files of the pool from one server: put them all into "
							 "tablespaces, or all into the data directory.")));
	}
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
						   "\"replica\".", zen_first_path),
				 errhint("Copy data directory and pool while the server is stopped, or use pg_dump.")));
	for (int i = 0; i < zen_files_number(); i++)
	{
		if (!zen_is_in_base_backup(zen_files[i].path))
			ereport(FATAL,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("zen pool file \"%s\" is not part of the base backup in \"%s\"",
							zen_files[i].path, DataDir),
					 errdetail("A base backup has the pool's files if they are in the data directory, or in the "
							   "directory \"" TABLESPACE_VERSION_DIRECTORY "\" of a tablespace."),
					 errhint("Set zen.pool_path to the files of the backup.")));
	}
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
				 errmsg("zen pool file \"%s\" cannot follow a server that replays WAL from elsewhere", zen_first_path),
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
	/* begun at the last checkpoint, whichever server's WAL it replays behind */
	if (is_replica(base) || (is_lazy(base) && !as_left))
		return true;
	return replays_from_elsewhere() && check_standby(base, as_left);
}

/*
 * Redo passes over a watermark that is there already.  If a sync has failed, the kernel may take its page for written.
 * So all pages with watermarks are made dirty again.
 */
static void
make_regions_dirty(char *base)
{
	for (Size at = ZEN_OFF_REGIONS; at < ZEN_OFF_HTABLES; at += sizeof(ZenRegionEntry))
	{
		volatile uint64 *word = (volatile uint64 *) (base + at);

		*word = *word;
	}
}

/*
 * A pool of mode wal was not left in order.  A power cut may have torn its descriptors, whatever the mode is now.  In
 * mode msync, redo syncs what it changes; what it finds changed already may be in the page cache only.
 */
static void
take_lazy_over(void)
{
	zen_pool.backup = true;
	for (int i = 0; i < zen_files_number() && zen_nvm_mode() == ZEN_POOL_MSYNC; i++)
		zen_nvm_sync(zen_files[i].fd, zen_files[i].path);
}

/* Notes of recovery about a tail are those of the other server.  own: the WAL is the pool's own. */
static void
become_replica(char *base, bool own)
{
	if (is_replica(base))
		return;
	if (own)
		take_lazy_over();
	role_store(&tail_state(base)->again_xid, 0);
	role_store(&tail_state(base)->lost_xid, 0);
	role_store(&tail_state(base)->replayed, 0);
	store_role(base, ZEN_ROLE_REPLICA);
	ereport(LOG,
			(own ? errmsg("zen pool file \"%s\" was not left in order: the write-ahead log is replayed to it",
						  zen_first_path) :
			 errmsg("zen pool file \"%s\" is a copy that follows the write-ahead log of another server",
					zen_first_path)));
}

bool
zen_pool_reopen_role(char *base)
{
	if (is_lazy(base))
		become_replica(base, true);
	if (is_replica(base))
		make_regions_dirty(base);
	return is_replica(base);
}

void
zen_pool_begin_copy(void)
{
	Assert(!zen_pool_has_tables());
	zen_pool_set_copied(true);
	become_replica(zen_pool.base, false);
}

bool
zen_pool_settle_role(char *base, bool *as_left, bool created)
{
	bool		replica = judge_role(base, *as_left, created);

	if (replica)
	{
		make_regions_dirty(base);
		become_replica(base, is_lazy(base) && !*as_left && !zen_begins_backup());
	}
	else if (is_lazy(base))
		store_role(base, ZEN_ROLE_PRIMARY); /* it was stopped in order */
	if (replica || replays_from_elsewhere())
		*as_left = false;
	return replica;
}

void
zen_pool_spread_role(char *base)
{
	store_role(base, role_of(base, 0));
}

/* ---------- the mode ---------- */

static ZenPoolMode wanted_mode = ZEN_POOL_AUTO;

/* A pool of several files is persistent memory if all of them are. */
static bool
are_pmem(void)
{
	ZenPoolName names[ZEN_MAX_FILES];
	int			n = zen_pool_names(names);

	for (int i = 0; i < n; i++)
		if (!zen_nvm_is_pmem(names[i].path))
			return false;
	return n > 0;
}

void
zen_pool_choose_mode(void)
{
	wanted_mode = (ZenPoolMode) zen_pool_mode;
	if (wanted_mode == ZEN_POOL_AUTO)
		wanted_mode = are_pmem() ? ZEN_POOL_PMEM : ZEN_POOL_WAL;
}

ZenPoolMode
zen_pool_wanted_mode(void)
{
	return wanted_mode;
}

/* ---------- files ---------- */

const char *
zen_pool_mode_name(void)
{
	static const char *const names[] = {
		[ZEN_POOL_AUTO] = "none",[ZEN_POOL_PMEM] = "pmem",[ZEN_POOL_EMULATED] = "emulated",[ZEN_POOL_MSYNC] = "msync",
		[ZEN_POOL_WAL] = "wal",
	};

	return names[zen_nvm_mode()];
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

void
zen_pool_raise_format(uint32 version)
{
	LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_EXCLUSIVE);
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		zen_superblock_reload(i, zen_file_base(i));
		if (zen_supers[i].version >= version)
			continue;
		zen_superblock_raise(i, version);
		zen_superblock_write_both(i, zen_file_base(i));
	}
	LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
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
