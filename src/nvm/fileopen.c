/*
 * fileopen.c -- one file of the pool: open and lock it, and judge its superblock.
 *
 * Whatever is wrong with a file is a FATAL that names it.  A file is changed here in one way only: what a crash has
 * left behind its end while it was made larger is cut off.
 *
 * A file is held with flock through a descriptor that the postmaster keeps and all children inherit.  So a second
 * server is kept out as long as any process of the first one lives.
 */
#include "nvm/fileopen.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/numa.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/poolfile.h"
#include "storage/fd.h"

#define LOCK_WAIT_MS		10000	/* children of a killed postmaster are
									 * gone long before */
#define LOCK_POLL_MS		50

ZenFile		zen_files[ZEN_MAX_FILES];
int			zen_files_named;

static const char *
path_of(int file)
{
	return zen_files[file].path;
}

void
zen_files_name(void)
{
	ZenPoolName names[ZEN_MAX_FILES];

	zen_files_named = zen_pool_names(names);
	if (zen_files_named == 0)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_path is not a file name"),
				 errhint("Set zen.pool_path to a file name, or to up to %d different ones with commas between them, "
						 "without line breaks, of less than %d bytes with the data directory.  A NUMA node may follow "
						 "each, as in \"/pmem1/zen.pool@1\".", ZEN_MAX_FILES, MAXPGPATH)));
	for (int i = 0; i < zen_files_named; i++)
	{
		if (zen_is_like_relation(names[i].path))
			ereport(FATAL,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("zen pool file \"%s\" looks like a file of a table", names[i].path),
					 errdetail("It is in a directory of tables, where pg_checksums --enable would write to it."),
					 errhint("Put it elsewhere, or give it a name like \"zen.pool\": a dot, not a number next.")));
		strlcpy(zen_files[i].path, names[i].path, MAXPGPATH);
		zen_files[i].node = names[i].node;
		zen_files[i].fd = -1;
	}
}

/* ---------- superblock ---------- */

/* FATAL: neither copy is whole.  Say what kind of file this is. */
static void
refuse_superblock(int file, const ZenSuperblockPair *pair)
{
	bool		magic[2];

	for (int i = 0; i < 2; i++)
		magic[i] = (pair->copy[i].magic == ZEN_MAGIC);

	if (!magic[0] && !magic[1])
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is not a zen pool", path_of(file)),
				 errdetail("Neither copy of its superblock, at offsets %zu and %zu, has the magic number.",
						   zen_super_offsets[0], zen_super_offsets[1]),
				 errhint("Set zen.pool_path to the zen pool of this cluster; zen never overwrites a file.")));

	for (int i = 0; i < 2; i++)
	{
		if (magic[i] && !zen_superblock_is_known(&pair->copy[i]))
			ereport(FATAL,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("zen pool file \"%s\" has format version %u, this version of zen needs version %u",
							path_of(file), pair->copy[i].version, ZEN_FORMAT_VERSION),
					 errhint("Start the server with the version of zen that wrote the pool, dump the tables and "
							 "load them into a new cluster.")));
	}

	ereport(FATAL,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("superblock of zen pool file \"%s\" is damaged", path_of(file)),
			 errdetail("Neither copy, at offsets %zu and %zu, has a correct checksum.",
					   zen_super_offsets[0], zen_super_offsets[1]),
			 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* Did a crash come while the copy was written?  No flipped bit makes it look so. */
static bool
is_unfinished(const ZenSuperblock *copy)
{
	return zen_superblock_is_known(copy) && copy->crc == 0;
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
				 errmsg("one copy of the superblock of zen pool file \"%s\" is damaged", path_of(file)),
				 errdetail("The copy at offset %zu has no correct checksum; the one at offset %zu is used "
						   "to repair it.",
						   zen_super_offsets[1 - zen_supers_at[file]], zen_super_offsets[zen_supers_at[file]])));
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
					 errmsg("zen pool files \"%s\" and \"%s\" are one file", path_of(i), path_of(file)),
					 errhint("Name each file of the pool once in zen.pool_path.")));
	}
}

/* Open the pool file; false if there is none.  FATAL if it is there and cannot be opened. */
bool
zen_file_open(int file)
{
	struct stat st;

	/*
	 * close-on-exec: programs that the server runs may outlive it and must
	 * not keep the lock
	 */
	zen_files[file].fd = open(path_of(file), O_RDWR | O_CLOEXEC);
	if (zen_files[file].fd < 0)
	{
		if (errno == ENOENT)
			return false;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open zen pool file \"%s\": %m", path_of(file))));
	}
	if (fstat(zen_files[file].fd, &st) != 0 || !S_ISREG(st.st_mode))
		ereport(FATAL,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("zen pool file \"%s\" is not a regular file", path_of(file)),
				 errhint("Set zen.pool_path to a file on a file system.")));
	check_is_another(file, &st);
	if (zen_files[file].node < 0)
		zen_files[file].node = zen_numa_node_of_file(zen_files[file].fd);
	return true;
}

/*
 * Lock the pool file for this server.  Waits a while, because the children of a killed postmaster hold the
 * lock until they have noticed its death.
 */
void
zen_file_lock(int file)
{
	for (int waited_ms = 0; flock(zen_files[file].fd, LOCK_EX | LOCK_NB) != 0; waited_ms += LOCK_POLL_MS)
	{
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			ereport(FATAL,
					(errcode_for_file_access(),
					 errmsg("could not lock zen pool file \"%s\": %m", path_of(file))));
		if (waited_ms == 0)
			ereport(LOG,
					(errmsg("zen pool file \"%s\" is locked by another process, waiting up to %d seconds for it",
							path_of(file), LOCK_WAIT_MS / 1000)));
		if (waited_ms >= LOCK_WAIT_MS)
			ereport(FATAL,
					(errcode(ERRCODE_LOCK_FILE_EXISTS),
					 errmsg("zen pool file \"%s\" is in use by another server", path_of(file)),
					 errhint("Stop the other server, or end the processes that a crashed one has left behind; "
							 "each server needs a zen.pool_path of its own.")));
		pg_usleep(LOCK_POLL_MS * 1000L);
	}
}

/*
 * Read both superblock copies through the file: what is wrong with the file then shows as an error here and
 * not as a SIGBUS in the mapping.
 */
void
zen_file_read(int file, ZenSuperblockPair *pair, uint64 *file_size)
{
	struct stat st;

	if (fstat(zen_files[file].fd, &st) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not stat zen pool file \"%s\": %m", path_of(file))));
	*file_size = st.st_size;
	if (*file_size < ZEN_OFF_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" is too small to be a zen pool", path_of(file)),
				 errdetail("It has %llu bytes, less than the pool's directories alone.",
						   (unsigned long long) *file_size),
				 errhint(ZEN_SAME_MOMENT_HINT)));

	zen_superblock_read(zen_files[file].fd, pair);
	choose_superblock(file, pair);
}

void
zen_file_check_geometry(int file, uint64 file_size)
{
	if (file_size < zen_supers[file].pool_size)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", path_of(file)),
				 errdetail("It has %llu bytes, its superblock says %llu.",
						   (unsigned long long) file_size, (unsigned long long) zen_supers[file].pool_size),
				 access("backup_label", F_OK) == 0 ?
				 errhint("The copy of the file is not whole, or the file grew just when it was copied.  "
						 "Take a new base backup.") :
				 errhint(ZEN_SAME_MOMENT_HINT)));
	if (!zen_superblock_geometry_fits(&zen_supers[file]))
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("superblock of zen pool file \"%s\" contradicts itself", path_of(file)),
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
	if (access("backup_label", F_OK) == 0 && zen_is_in_base_backup(path_of(file)))
		return;
	if (!zen_file_is_zero(zen_files[file].fd, zen_supers[file].pool_size, file_size))
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen pool file \"%s\" has the wrong size", path_of(file)),
				 errdetail("It has %llu bytes, its superblock says %llu, and what lies behind is not empty.",
						   (unsigned long long) file_size, (unsigned long long) zen_supers[file].pool_size),
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* Cut off what a crash has left while the pool was made larger. */
void
zen_file_cut(int file)
{
	struct stat st;

	if (fstat(zen_files[file].fd, &st) != 0 || (uint64) st.st_size <= zen_supers[file].pool_size)
		return;
	if (ftruncate(zen_files[file].fd, zen_supers[file].pool_size) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not truncate zen pool file \"%s\" to %llu bytes: %m",
						path_of(file), (unsigned long long) zen_supers[file].pool_size)));
	ereport(LOG,
			(errmsg("zen pool file \"%s\" was cut to its %llu MB: a crash came while it was made larger",
					path_of(file), (unsigned long long) zen_supers[file].pool_size / (1024 * 1024))));
}

void
zen_file_allocate(int file)
{
	Size		size = zen_supers[file].pool_size;
	struct stat st;
	int			rc = zen_file_fill_holes(zen_files[file].fd, size);

	if (rc == 0)
		return;
	if (fstat(zen_files[file].fd, &st) != 0)
		st.st_blocks = 0;
	errno = rc;
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not fill the holes of zen pool file \"%s\": %m", path_of(file)),
			 errdetail("Of its %zu MB, %zu MB are allocated.", size / (1024 * 1024),
					   (Size) st.st_blocks * 512 / (1024 * 1024)),
			 errhint("Free space on its file system, or move the file to another one and set zen.pool_path.  "
					 "Copy it by a tool that makes no holes.")));
}

static void
name_file(void *path)
{
	errcontext("zen pool file \"%s\"", (const char *) path);
}

bool
zen_file_longer(int file, char *base, Size from, Size to, bool (*progress) (Size done), int elevel)
{
	ErrorContextCallback context = {.previous = error_context_stack,.callback = name_file,
	.arg = zen_files[file].path};
	bool		done;

	error_context_stack = &context;
	done = zen_file_extend(zen_files[file].fd, base, from, to, progress, elevel);
	error_context_stack = context.previous;
	return done;
}

void
zen_file_link(int file, const char *temp)
{
	char		directory[MAXPGPATH];

	if (link(temp, path_of(file)) != 0)
	{
		int			save_errno = errno;

		unlink(temp);
		errno = save_errno;
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not link file \"%s\" to \"%s\": %m", temp, path_of(file)),
				 errhint("Set zen.pool_path to a file name that no other server uses, on a file system with "
						 "hard links.")));
	}
	unlink(temp);
	strlcpy(directory, path_of(file), MAXPGPATH);
	get_parent_directory(directory);
	fsync_fname(directory, true);
}
