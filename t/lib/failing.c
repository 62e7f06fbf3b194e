/*
 * failing.c -- preloaded into a server: calls that write files fail when the test says so.
 *
 * FAILING_CONTROL names a file that is mapped.  It says for each Call how often the call is still to fail (negative:
 * always), and how often it has failed.  The test changes it while the server runs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum Call
{
	SYNC_POOL,					/* fdatasync of a file of the pool: EIO */
	MSYNC,						/* of whatever is mapped, which is the pool: EIO */
	ALLOCATE_POOL,				/* posix_fallocate: ENOSPC */
	WRITE_WAL,					/* pwrite: ENOSPC */
	NCALLS
} Call;

typedef struct Control
{
	int32_t		left[NCALLS];
	int32_t		failed[NCALLS];
} Control;

static Control *control;

static void __attribute__((constructor))
attach(void)
{
	const char *path = getenv("FAILING_CONTROL");
	int			fd = path ? open(path, O_RDWR) : -1;
	void	   *map = fd >= 0 ? mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (map != MAP_FAILED)
		control = map;
	if (fd >= 0)
		close(fd);
}

static int
is_of(int fd, const char *part)
{
	char		link[64],
				path[4096];
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return strstr(path, part) != NULL;
}

static int
fails(Call call)
{
	int32_t		left = __atomic_load_n(&control->left[call], __ATOMIC_SEQ_CST);

	while (left > 0 && !__atomic_compare_exchange_n(&control->left[call], &left, left - 1, 0, __ATOMIC_SEQ_CST,
													__ATOMIC_SEQ_CST))
		;
	if (left != 0)
		__atomic_fetch_add(&control->failed[call], 1, __ATOMIC_SEQ_CST);
	return left != 0;
}

static int
is_asked(Call call)
{
	return control != NULL && __atomic_load_n(&control->left[call], __ATOMIC_SEQ_CST) != 0;
}

int
fdatasync(int fd)
{
	static int	(*real) (int);

	if (is_asked(SYNC_POOL) && is_of(fd, ".pool") && fails(SYNC_POOL))
	{
		errno = EIO;
		return -1;
	}
	if (real == NULL)
		real = (int (*) (int)) dlsym(RTLD_NEXT, "fdatasync");
	return real(fd);
}

int
msync(void *addr, size_t len, int flags)
{
	static int	(*real) (void *, size_t, int);

	if (is_asked(MSYNC) && fails(MSYNC))
	{
		errno = EIO;
		return -1;
	}
	if (real == NULL)
		real = (int (*) (void *, size_t, int)) dlsym(RTLD_NEXT, "msync");
	return real(addr, len, flags);
}

int
posix_fallocate(int fd, off_t at, off_t len)
{
	static int	(*real) (int, off_t, off_t);

	if (is_asked(ALLOCATE_POOL) && is_of(fd, ".pool") && fails(ALLOCATE_POOL))
		return ENOSPC;
	if (real == NULL)
		real = (int (*) (int, off_t, off_t)) dlsym(RTLD_NEXT, "posix_fallocate");
	return real(fd, at, len);
}

ssize_t
pwrite(int fd, const void *data, size_t len, off_t at)
{
	static ssize_t (*real) (int, const void *, size_t, off_t);

	if (is_asked(WRITE_WAL) && is_of(fd, "/pg_wal/") && fails(WRITE_WAL))
	{
		errno = ENOSPC;
		return -1;
	}
	if (real == NULL)
		real = (ssize_t (*) (int, const void *, size_t, off_t)) dlsym(RTLD_NEXT, "pwrite");
	return real(fd, data, len, at);
}
