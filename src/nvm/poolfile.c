/*
 * poolfile.c -- making the pool's file longer.
 *
 * All of the new part is really allocated, as at the pool's creation, so that no later store finds the medium full.
 * It is done in steps, so that a user can cancel it and a view can tell how far it is.  The file system gives zeroes,
 * which is what free pages and their directory words are (R8).
 *
 * A file that was copied may have holes: copying tools make them of zeroes.  They are filled at each start.  A store
 * into one would be a SIGBUS on a full file system.
 *
 * On persistent memory the first store to an extent that was not written yet commits the file system's journal.  So the
 * zeroes are stored once more there.
 */
#include "nvm/poolfile.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "nvm/persist.h"

#define STEP_BYTES		((Size) 32 * 1024 * 1024)	/* 10 to 30 ms */
#define LOOK_BYTES		(64 * 1024)

/* Zeroes only, of n bytes? */
static bool
is_zero(const char *bytes, Size n)
{
	return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* Holes and extents that were never written are passed over, where the file system tells of them. */
bool
zen_file_is_zero(int fd, Size from, Size to)
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
		if (n <= 0 || !is_zero(buffer, n))
			return false;
		from += n;
	}
	return true;
}

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

/*
 * What was allocated and never written looks like a hole.  The number of blocks tells more, but on most file systems it
 * has metadata, too, which may hide a small hole.  There it costs nothing to allocate once more.  For a file in memory
 * it does, seconds for some GB, and the number of blocks is exact.
 */
static bool
may_have_holes(int fd, Size size)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) != 0 || (Size) st.st_blocks * 512 < size)
		return true;
	return lseek(fd, 0, SEEK_HOLE) < (off_t) size && (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC);
}

/*
 * cp shares the blocks of a file with its copy where the file system can (xfs).  A store to either needs a new block
 * then, as one into a hole does.  File systems that share nothing do not know the call.
 */
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

int
zen_file_fill_holes(int fd, Size size)
{
	int			rc = unshare(fd, size);

	return rc == 0 && may_have_holes(fd, size) ? allocate(fd, 0, size) : rc;
}

/* Allocate all of it and wait until it is durable; 0, or the number of an error, or -1 if progress has ended it. */
static int
extend(int fd, char *base, Size from, Size to, bool (*progress) (Size done))
{
	Size		n;

	for (Size at = from; at < to; at += n)
	{
		int			rc;

		if (progress != NULL && !progress(at))
			return -1;
		n = Min(STEP_BYTES, to - at);
		rc = allocate(fd, at, n);
		if (rc != 0)
			return rc;
		if (zen_nvm_mode() == ZEN_POOL_PMEM)
			zen_nvm_zero(base + at, n);
	}
	return fsync(fd) == 0 ? 0 : errno;
}

bool
zen_file_extend(int fd, char *base, Size from, Size to, bool (*progress) (Size done), int elevel)
{
	struct stat st;
	int			rc = 0;

	Assert(from < to);
	/* an earlier attempt may have left more than could be taken back */
	if (fstat(fd, &st) != 0 || ((Size) st.st_size > from && ftruncate(fd, from) != 0))
		rc = errno;
	if (rc == 0)
		rc = extend(fd, base, from, to, progress);
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
