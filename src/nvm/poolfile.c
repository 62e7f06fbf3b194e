/*
 * poolfile.c -- one file of the pool: open and lock it, read, judge and write its superblock, make it longer.
 *
 * Whatever is wrong with a file that is opened is a FATAL that names it.
 *
 * A file is held with flock through a descriptor that the postmaster keeps and all children inherit.  So a second
 * server is kept out as long as any process of the first one lives.
 *
 * Superblock.  Two copies in different 4 KB pages are written in turn, never both at once.  A copy counts if its
 * checksum is right, and of two such the one with the larger seq.  The postmaster writes at start and stop, when no
 * other process can.  The process that makes the pool larger, and the worker that raises the mark, write in between,
 * under ZEN_LOCK_SUPER.  So what a process has in memory may be old: it reads the copy in force again before it writes.
 *
 * Length.  All of a new part is really allocated, as at the file's creation, so that no later store finds the medium
 * full.  It is done in steps, so that a user can cancel it and a view can tell how far it is.  On persistent memory the
 * first store to an extent that was not written yet commits the file system's journal.  So the zeroes that the file
 * system gives are stored once more there.  src/nvm/README, "Holes", says why each start fills those of a copy.
 */
#include "nvm/poolfile.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/locks.h"
#include "base/numa.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/persist.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#define LOCK_WAIT_MS		10000	/* children of a killed postmaster are
									 * gone long before */
#define LOCK_POLL_MS		50
#define STEP_BYTES		((Size) 32 * 1024 * 1024)	/* 10 to 30 ms */
#define LOOK_BYTES		(64 * 1024)

static const Size super_offsets[2] = {ZEN_OFF_SUPER, ZEN_OFF_SUPER2};

ZenFile		zen_files[ZEN_MAX_FILES];
int			zen_files_named;
ZenSuperblock zen_supers[ZEN_MAX_FILES];
int			zen_supers_at[ZEN_MAX_FILES];

int
zen_files_number(void)
{
	return Max(1, (int) zen_super.nfiles);
}

char *
zen_file_place(char *base, int file)
{
	return base + zen_supers[file].first_page * ZEN_PAGE_SIZE;
}

/* ---------- superblock ---------- */

/* As far as the version has it. */
static Size
bytes_of(const ZenSuperblock *sb)
{
	return sb->version >= ZEN_FORMAT_VERSION_FILES ? sizeof(*sb) : ZEN_SUPERBLOCK_OLD_BYTES;
}

static uint32
superblock_crc(const ZenSuperblock *sb)
{
	ZenSuperblock copy = *sb;
	pg_crc32c	crc;

	copy.crc = 0;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &copy, bytes_of(sb));
	FIN_CRC32C(crc);
	return crc;
}

uint32
zen_first_data_page(uint64 npages)
{
	Size		directory = npages * sizeof(uint64);

	StaticAssertStmt(ZEN_OFF_PAGES % ZEN_AREA_ALIGN == 0 && ZEN_AREA_ALIGN % ZEN_PAGE_SIZE == 0,
					 "data pages begin on a huge-page border");
	return (ZEN_OFF_PAGES + TYPEALIGN(ZEN_AREA_ALIGN, directory)) / ZEN_PAGE_SIZE;
}

/* Do magic number and format version say that this zen can read the superblock? */
static bool
superblock_is_known(const ZenSuperblock *sb)
{
	return sb->magic == ZEN_MAGIC &&
		sb->version >= ZEN_FORMAT_VERSION && sb->version <= ZEN_FORMAT_VERSION_LAST;
}

/* Do size, number of pages and place of the first data page agree? */
static bool
geometry_fits(const ZenSuperblock *sb)
{
	uint32		whole = zen_first_data_page(sb->npages);

	if (sb->pool_size % ZEN_PAGE_SIZE != 0 || sb->npages != sb->pool_size / ZEN_PAGE_SIZE ||
		sb->npages > ZEN_MAX_PAGES || sb->npages < sb->first_data_page + ZEN_MIN_DATA_PAGES)
		return false;
	if (sb->version >= ZEN_FORMAT_VERSION_FILES &&
		(sb->file >= ZEN_MAX_FILES || sb->nfiles > ZEN_MAX_FILES || (sb->nfiles == 0) != (sb->file != 0) ||
		 (sb->first_page == 0) != (sb->file == 0) || sb->first_page % ZEN_DIRECTORY_PAGES != 0 ||
		 sb->first_page > ZEN_MAX_PAGES - sb->npages))
		return false;
	if (sb->version == ZEN_FORMAT_VERSION)
		return sb->first_data_page == whole;
	return (sb->first_data_page < whole ||
			(sb->version >= ZEN_FORMAT_VERSION_FILES && sb->first_data_page == whole)) &&
		sb->first_data_page >= zen_first_data_page(1) &&
		sb->first_data_page % ZEN_DIRECTORY_PAGES == 0;
}

void
zen_superblock_resize(ZenSuperblock *sb, Size size)
{
	sb->pool_size = size;
	sb->npages = size / ZEN_PAGE_SIZE;
	if (sb->version == ZEN_FORMAT_VERSION && sb->first_data_page != zen_first_data_page(sb->npages))
		sb->version = ZEN_FORMAT_VERSION_GROWN;
	Assert(geometry_fits(sb));
}

/* Which copies are whole?  With another format version only the first fields are valid. */
static void
superblock_validate(ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		ZenSuperblock *sb = &pair->copy[i];

		pair->valid[i] = (superblock_is_known(sb) && sb->crc == superblock_crc(sb));
		/* no CRC covers them */
		if (sb->version < ZEN_FORMAT_VERSION_FILES)
			memset((char *) sb + ZEN_SUPERBLOCK_OLD_BYTES, 0, sizeof(*sb) - ZEN_SUPERBLOCK_OLD_BYTES);
	}
}

void
zen_superblock_read(int fd, ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		/* an unreadable copy is a damaged copy */
		if (pread(fd, &pair->copy[i], sizeof(ZenSuperblock), super_offsets[i]) != sizeof(ZenSuperblock))
			memset(&pair->copy[i], 0, sizeof(ZenSuperblock));
	}
	superblock_validate(pair);
}

int
zen_superblock_in_force(const ZenSuperblockPair *pair)
{
	if (pair->valid[0] && pair->valid[1])
		return (pair->copy[1].seq > pair->copy[0].seq) ? 1 : 0;
	return pair->valid[0] ? 0 : pair->valid[1] ? 1 : -1;
}

/* Both copies as the mapped pool shows them.  No process writes them during the call. */
static void
look_at_copies(const char *at, ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
		memcpy(&pair->copy[i], at + super_offsets[i], sizeof(ZenSuperblock));
	superblock_validate(pair);
}

void
zen_superblock_reload(int file, const char *at)
{
	ZenSuperblockPair pair;
	int			copy;

	look_at_copies(at, &pair);
	copy = zen_superblock_in_force(&pair);
	/* if a wild store has damaged both, the one that was read before stays */
	if (copy < 0)
		return;
	zen_supers[file] = pair.copy[copy];
	zen_supers_at[file] = copy;
}

/* Store the word of a copy that holds version and CRC, durably. */
static void
seal(ZenSuperblock *copy, uint32 version, uint32 crc)
{
	zen_nvm_store64((uint64 *) &copy->version, version | (uint64) crc << 32);
	zen_persist_now(copy, sizeof(*copy));
}

/*
 * The copy's CRC is 0 while the rest is written, so a write that a crash cuts short leaves nothing that looks like
 * damage.  The copy in force may be in the caches only, after a crash of processes: it is durable before the other one
 * goes (R10).
 */
void
zen_superblock_write(int file, char *at)
{
	ZenSuperblock *sb = &zen_supers[file];
	int			target = 1 - zen_supers_at[file];
	ZenSuperblock *copy = (ZenSuperblock *) (at + super_offsets[target]);

	zen_persist_now(at + super_offsets[1 - target], sizeof(*sb));
	Assert(target == 0 || target == 1);
	Assert(superblock_is_known(sb) && sb->npages * ZEN_PAGE_SIZE == sb->pool_size);
	sb->seq++;
	sb->crc = 0;
	seal(copy, sb->version, 0);
	zen_nvm_copy(copy, sb, sizeof(*sb));
	zen_persist_now(copy, sizeof(*sb));
	sb->crc = superblock_crc(sb);
	seal(copy, sb->version, sb->crc);
	Assert(copy->crc == superblock_crc(copy));
	zen_supers_at[file] = target;
}

void
zen_superblock_write_both(int file, char *at)
{
	zen_superblock_write(file, at);
	zen_superblock_write(file, at);
}

bool
zen_superblock_same(const ZenSuperblock *a, const ZenSuperblock *b)
{
	ZenSuperblock other = *b;

	other.seq = a->seq;
	other.crc = a->crc;
	return memcmp(a, &other, sizeof(other)) == 0;
}

void
zen_superblock_raise(int file, uint32 version)
{
	ZenSuperblock *sb = &zen_supers[file];

	Assert(version >= ZEN_FORMAT_VERSION_FILES);
	if (sb->version < ZEN_FORMAT_VERSION_FILES)
	{
		sb->file = file;
		sb->nfiles = file == 0 ? Max(sb->nfiles, 1) : 0;
		sb->node = zen_files[file].node;
	}
	sb->version = Max(sb->version, version);
}

const char *
zen_superblock_fault(int file, const char *at, int copy, Size *offset)
{
	ZenSuperblockPair pair;
	ZenSuperblock *sb = &pair.copy[copy];
	ZenSuperblock *super = &zen_supers[file];

	Assert(copy == 0 || copy == 1);
	*offset = super->first_page * ZEN_PAGE_SIZE + super_offsets[copy];
	LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_SHARED);
	look_at_copies(at, &pair);
	zen_superblock_reload(file, at);
	LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
	if (!pair.valid[copy])
		return "its checksum does not match";
	if (sb->seq != super->seq && sb->seq + 1 != super->seq)
		return "it is of another moment than the one in force";
	return zen_superblock_same(sb, super) ? NULL : "it differs from the one in force";
}

void
zen_files_reload(char *base)
{
	for (int i = 0; i < zen_files_number(); i++)
		zen_superblock_reload(i, zen_file_place(base, i));
}

void
zen_superblock_undo_start(int file, const ZenSuperblockPair *pair, uint64 generation)
{
	int			other = 1 - zen_supers_at[file];

	if (zen_supers[file].generation == generation + 1 &&
		pair->valid[other] && pair->copy[other].generation == generation)
	{
		zen_supers[file] = pair->copy[other];
		zen_supers_at[file] = other;
	}
}

/* ---------- opening ---------- */

/* FATAL: neither copy is whole.  Say what kind of file this is. */
static void
refuse_superblock(int file, const ZenSuperblockPair *pair)
{
	if (pair->copy[0].magic != ZEN_MAGIC && pair->copy[1].magic != ZEN_MAGIC)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is not a zen pool", zen_files[file].path),
				 errdetail("Neither copy of its superblock, at offsets %zu and %zu, has the magic number.",
						   super_offsets[0], super_offsets[1]),
				 errhint("Set zen.pool_path to the zen pool of this cluster; zen never overwrites a file.")));

	for (int i = 0; i < 2; i++)
	{
		if (pair->copy[i].magic == ZEN_MAGIC && !superblock_is_known(&pair->copy[i]))
			ereport(FATAL,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("zen pool file \"%s\" has format version %u, and this zen %s reads versions %u to %u",
							zen_files[file].path, pair->copy[i].version, ZEN_VERSION, ZEN_FORMAT_VERSION,
							ZEN_FORMAT_VERSION_LAST),
					 pair->copy[i].version > ZEN_FORMAT_VERSION_LAST ?
					 errhint("Install the version of zen that has used the pool last, or a newer one.") :
					 errhint("Start the server with the version of zen that wrote the pool, dump the tables and "
							 "load them into a new cluster.")));
	}

	ereport(FATAL,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("superblock of zen pool file \"%s\" is damaged", zen_files[file].path),
			 errdetail("Neither copy, at offsets %zu and %zu, has a correct checksum.",
					   super_offsets[0], super_offsets[1]),
			 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* Did a crash come while the copy was written?  No flipped bit makes it look so. */
static bool
is_unfinished(const ZenSuperblock *copy)
{
	return superblock_is_known(copy) && copy->crc == 0;
}

/* Put the superblock in force into zen_supers[file].  FATAL if there is none; WARNING if one copy is damaged. */
static void
choose_superblock(int file, const ZenSuperblockPair *pair)
{
	zen_supers_at[file] = zen_superblock_in_force(pair);
	if (zen_supers_at[file] < 0)
		refuse_superblock(file, pair);
	if (!pair->valid[1 - zen_supers_at[file]] && !is_unfinished(&pair->copy[1 - zen_supers_at[file]]))
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("one copy of the superblock of zen pool file \"%s\" is damaged", zen_files[file].path),
				 errdetail("The copy at offset %zu has no correct checksum; the one at offset %zu is used "
						   "to repair it.",
						   super_offsets[1 - zen_supers_at[file]], super_offsets[zen_supers_at[file]])));
	zen_supers[file] = pair->copy[zen_supers_at[file]];
}

/* A second name, as a symbolic link, would have the server wait for its own lock. */
static void
check_is_another(int file, const struct stat *st)
{
	for (int i = 0; i < file; i++)
	{
		struct stat other;

		if (zen_files[i].fd >= 0 && fstat(zen_files[i].fd, &other) == 0 &&
			other.st_dev == st->st_dev && other.st_ino == st->st_ino)
			ereport(FATAL,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("zen pool files \"%s\" and \"%s\" are one file", zen_files[i].path, zen_files[file].path),
					 errhint("Name each file of the pool once in zen.pool_path.")));
	}
}

bool
zen_file_open(int file)
{
	struct stat st;

	/*
	 * close-on-exec: programs that the server runs may outlive it and must
	 * not keep the lock
	 */
	zen_files[file].fd = open(zen_files[file].path, O_RDWR | O_CLOEXEC);
	if (zen_files[file].fd < 0)
	{
		if (errno == ENOENT)
			return false;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open zen pool file \"%s\": %m", zen_files[file].path)));
	}
	if (fstat(zen_files[file].fd, &st) != 0 || !S_ISREG(st.st_mode))
		ereport(FATAL,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("zen pool file \"%s\" is not a regular file", zen_files[file].path),
				 errhint("Set zen.pool_path to a file on a file system.")));
	check_is_another(file, &st);
	if (zen_files[file].node < 0)
		zen_files[file].node = zen_numa_node_of_file(zen_files[file].fd);
	return true;
}

/*
 * Lock it for this server.  Waits a while, because the children of a killed postmaster hold the lock until they have
 * noticed its death.
 */
static void
lock_file(int file)
{
	for (int waited_ms = 0; flock(zen_files[file].fd, LOCK_EX | LOCK_NB) != 0; waited_ms += LOCK_POLL_MS)
	{
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			ereport(FATAL,
					(errcode_for_file_access(),
					 errmsg("could not lock zen pool file \"%s\": %m", zen_files[file].path)));
		if (waited_ms == 0)
			ereport(LOG,
					(errmsg("zen pool file \"%s\" is locked by another process, waiting up to %d seconds for it",
							zen_files[file].path, LOCK_WAIT_MS / 1000)));
		if (waited_ms >= LOCK_WAIT_MS)
			ereport(FATAL,
					(errcode(ERRCODE_LOCK_FILE_EXISTS),
					 errmsg("zen pool file \"%s\" is in use by another server", zen_files[file].path),
					 errhint("Stop the other server, or end the processes that a crashed one has left behind; "
							 "each server needs a zen.pool_path of its own.")));
		pg_usleep(LOCK_POLL_MS * 1000L);
	}
}

/*
 * Is there nothing but zeroes from one offset to another, or nothing at all?  Holes and extents that were never written
 * are passed over, where the file system tells of them.
 */
static bool
is_zero_between(int fd, Size from, Size to)
{
	char		buffer[LOOK_BYTES];

	while (from < to)
	{
		off_t		data = lseek(fd, from, SEEK_DATA);
		ssize_t		n;

		if (data < 0 && errno == ENXIO)
			return true;
		if (data > 0)
			from = Max(from, (Size) data);
		if (from >= to)
			return true;
		n = pread(fd, buffer, Min(sizeof(buffer), to - from), from);
		/* the first byte is 0, and each other one is as the one before */
		if (n <= 0 || buffer[0] != 0 || memcmp(buffer, buffer + 1, n - 1) != 0)
			return false;
		from += n;
	}
	return true;
}

/* Does the superblock in force fit itself and the file? */
static void
check_geometry(int file, uint64 file_size)
{
	if (file_size < zen_supers[file].pool_size)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", zen_files[file].path),
				 errdetail("It has %llu bytes, its superblock says %llu.",
						   (unsigned long long) file_size, (unsigned long long) zen_supers[file].pool_size),
				 access("backup_label", F_OK) == 0 ?
				 errhint("The copy of the file is not whole, or the file grew just when it was copied.  "
						 "Take a new base backup.") :
				 errhint(ZEN_SAME_MOMENT_HINT)));
	if (!geometry_fits(&zen_supers[file]))
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("superblock of zen pool file \"%s\" contradicts itself", zen_files[file].path),
				 errdetail("It says %llu bytes, %llu pages, first data page %llu.",
						   (unsigned long long) zen_supers[file].pool_size,
						   (unsigned long long) zen_supers[file].npages,
						   (unsigned long long) zen_supers[file].first_data_page),
				 errhint(ZEN_SAME_MOMENT_HINT)));

	/*
	 * A crash while the pool was made larger leaves zeroes, and no more.  A
	 * base backup may have copied the superblock before, and pages after:
	 * replay makes the file larger, and has all that was stored there.
	 */
	if (access("backup_label", F_OK) == 0 && zen_is_in_base_backup(zen_files[file].path))
		return;
	if (!is_zero_between(zen_files[file].fd, zen_supers[file].pool_size, file_size))
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", zen_files[file].path),
				 errdetail("It has %llu bytes, its superblock says %llu, and what lies behind is not empty.",
						   (unsigned long long) file_size, (unsigned long long) zen_supers[file].pool_size),
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

void
zen_file_read(int file, ZenSuperblockPair *pair)
{
	struct stat st;

	lock_file(file);
	if (fstat(zen_files[file].fd, &st) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not stat zen pool file \"%s\": %m", zen_files[file].path)));
	if (st.st_size < ZEN_OFF_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" is too small to be a zen pool", zen_files[file].path),
				 errdetail("It has %llu bytes, less than the pool's directories alone.",
						   (unsigned long long) st.st_size),
				 errhint(ZEN_SAME_MOMENT_HINT)));

	zen_superblock_read(zen_files[file].fd, pair);
	choose_superblock(file, pair);
	check_geometry(file, st.st_size);
}

/* ---------- length ---------- */

/* 0, or the number of an error. */
static int
allocate(int fd, Size at, Size n)
{
	int			rc;

	do
	{
		rc = posix_fallocate(fd, at, n);
	} while (rc == EINTR);
	return rc;
}

/* The number of blocks may hide a small hole, since it counts metadata, too, but for a file in memory it is exact. */
static bool
may_have_holes(int fd, Size size)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) != 0 || (Size) st.st_blocks * 512 < size)
		return true;
	return lseek(fd, 0, SEEK_HOLE) < (off_t) size && (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC);
}

/* File systems that share no blocks among copies do not know the call. */
static int
unshare(int fd, Size size)
{
	int			rc;

	do
	{
		rc = fallocate(fd, FALLOC_FL_UNSHARE_RANGE, 0, size) == 0 ? 0 : errno;
	} while (rc == EINTR);
	return rc == EOPNOTSUPP || rc == EINVAL || rc == ENOSYS ? 0 : rc;
}

/* Allocate those of the first `size` bytes that are not allocated, or that are shared; their contents stay. */
static int
fill_holes(int fd, Size size)
{
	int			rc = unshare(fd, size);

	return rc == 0 && may_have_holes(fd, size) ? allocate(fd, 0, size) : rc;
}

/* Cut off the part that a crash has left while the file was made larger; it is zero, as was checked. */
static void
cut(int file)
{
	struct stat st;

	if (fstat(zen_files[file].fd, &st) != 0 || (uint64) st.st_size <= zen_supers[file].pool_size)
		return;
	if (ftruncate(zen_files[file].fd, zen_supers[file].pool_size) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not truncate zen pool file \"%s\" to %llu bytes: %m",
						zen_files[file].path, (unsigned long long) zen_supers[file].pool_size)));
	ereport(LOG,
			(errmsg("zen pool file \"%s\" was cut to its %llu MB: a crash came while it was made larger",
					zen_files[file].path, (unsigned long long) zen_supers[file].pool_size / (1024 * 1024))));
}

/* Fill holes that a copy has made, so that no store to the file will find its file system full. */
static void
allocate_all(int file)
{
	Size		size = zen_supers[file].pool_size;
	struct stat st;
	int			rc = fill_holes(zen_files[file].fd, size);

	if (rc == 0)
		return;
	if (fstat(zen_files[file].fd, &st) != 0)
		st.st_blocks = 0;
	errno = rc;
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not fill the holes of zen pool file \"%s\": %m", zen_files[file].path),
			 errdetail("Of its %zu MB, %zu MB are allocated.", size / (1024 * 1024),
					   (Size) st.st_blocks * 512 / (1024 * 1024)),
			 errhint("Free space on its file system, or move the file to another one and set zen.pool_path.  "
					 "Copy it by a tool that makes no holes.")));
}

void
zen_file_fit(int file)
{
	cut(file);
	allocate_all(file);
}

/* Allocate all of it and wait until it is durable; 0, or the number of an error, or -1 if progress has ended it. */
static int
allocate_and_sync(int fd, char *at, Size from, Size to, bool (*progress) (Size done))
{
	Size		n;

	for (Size done = from; done < to; done += n)
	{
		int			rc;

		if (progress != NULL && !progress(done))
			return -1;
		n = Min(STEP_BYTES, to - done);
		rc = allocate(fd, done, n);
		if (rc != 0)
			return rc;
		if (zen_nvm_mode() == ZEN_POOL_PMEM)
			zen_nvm_zero(at + done, n);
	}
	return fsync(fd) == 0 ? 0 : errno;
}

static bool
extend(int fd, char *at, Size from, Size to, bool (*progress) (Size done), int elevel)
{
	struct stat st;
	int			rc = 0;

	Assert(from < to);
	/* an earlier attempt may have left more than could be taken back */
	if (fstat(fd, &st) != 0 || ((Size) st.st_size > from && ftruncate(fd, from) != 0))
		rc = errno;
	if (rc == 0)
		rc = allocate_and_sync(fd, at, from, to, progress);
	if (rc == 0)
		return true;
	if (ftruncate(fd, from) != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not truncate the zen pool to %zu bytes: %m", from)));
	errno = rc;
	if (rc > 0)
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not make the zen pool larger: %m"),
				 errdetail("It keeps its %zu MB, %zu MB were to be added.",
						   from / (1024 * 1024), (to - from) / (1024 * 1024)),
				 errhint("Free space on the pool's file system.")));
	return false;
}

static void
name_file(void *path)
{
	errcontext("zen pool file \"%s\"", (const char *) path);
}

bool
zen_file_longer(int file, char *at, Size from, Size to, bool (*progress) (Size done), int elevel)
{
	ErrorContextCallback context;
	bool		done;

	context.previous = error_context_stack;
	context.callback = name_file;
	context.arg = zen_files[file].path;
	error_context_stack = &context;
	done = extend(zen_files[file].fd, at, from, to, progress, elevel);
	error_context_stack = context.previous;
	return done;
}

void
zen_file_link(int file, const char *temp)
{
	char		directory[MAXPGPATH];

	if (link(temp, zen_files[file].path) != 0)
	{
		int			save_errno = errno;

		unlink(temp);
		errno = save_errno;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not link file \"%s\" to \"%s\": %m", temp, zen_files[file].path),
				 errhint("Set zen.pool_path to a file name that no other server uses, on a file system with "
						 "hard links.")));
	}
	unlink(temp);
	strlcpy(directory, zen_files[file].path, MAXPGPATH);
	get_parent_directory(directory);
	fsync_fname(directory, true);
	if (!zen_file_open(file))
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("zen pool file \"%s\" vanished while it was created", zen_files[file].path)));
	lock_file(file);
}
