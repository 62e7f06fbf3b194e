/*
 * shim.c -- preloaded into a server: memory that runs out at random, and a clock that is wrong.
 *
 * SHIM_CONTROL names a file that is mapped: offset of the clock in seconds, 1/rate of the allocations fail (0: none)
 * in the processes listed.  The test changes it while the server runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAX_PIDS	256
#define SMALL		4096		/* bytes; PostgreSQL asks for memory in larger blocks, and smaller ones are asked for
								 * by libraries that do not expect to fail */

typedef struct Control
{
	int64_t		offset_s;
	int32_t		rate;
	int32_t		npids;
	int32_t		pids[MAX_PIDS];
} Control;

static volatile Control *control;

extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *ptr, size_t size);

static void __attribute__((constructor))
attach(void)
{
	const char *path = getenv("SHIM_CONTROL");
	int			fd = path ? open(path, O_RDWR) : -1;
	void	   *map = fd >= 0 ? mmap(NULL, sizeof(Control), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (map != MAP_FAILED)
		control = map;
	if (fd >= 0)
		close(fd);
}

static int
fails(size_t size)
{
	static __thread uint64_t state;
	int			pid;

	if (control == NULL || control->rate == 0 || size < SMALL)
		return 0;
	pid = getpid();
	for (int i = 0; i < control->npids; i++)
		if (control->pids[i] == pid)
		{
			state = (state + pid) * 6364136223846793005u + 1442695040888963407u;
			return (state >> 33) % control->rate == 0;
		}
	return 0;
}

void *
malloc(size_t size)
{
	if (fails(size))
	{
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(size);
}

void *
realloc(void *ptr, size_t size)
{
	if (fails(size))
	{
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(ptr, size);
}

static int64_t
offset(void)
{
	return control ? control->offset_s : 0;
}

int
gettimeofday(struct timeval *tv, void *tz)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	(void) tz;
	return 0;
}

time_t
time(time_t *t)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	static int	(*real) (clockid_t, struct timespec *);
	int			rc;

	if (real == NULL)
		real = (int (*) (clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(id, ts);
	if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += offset();
	return rc;
}
