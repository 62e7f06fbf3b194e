/*
 * medium.c -- a medium that forgets: preloaded into a server, it stands in for libpmem and records what happens.
 *
 * The server works on the pool file as ever; that is what its caches show.  What the medium would keep is told by
 * the record alone (cut.c): a line is kept as it was when it was flushed, once that flush was fenced by the process
 * that flushed; beyond that a CPU may at any time write back any line, whole, and stores to one line reach the
 * medium in their order.  So at a power cut each line independently shows the state that was made durable last, or
 * any later one.
 *
 * To know all states of a line, every single store is recorded.  The pool is mapped read-only; a store traps, the
 * page is made writable for this one instruction, which is executed in single-step mode, and what it has changed is
 * recorded.  The stores of libpmem are recorded as such, in no order within a line where libpmem promises none.  An
 * 8-byte word is stored as one, more may tear.  One lock serves all processes, so there is one order.
 *
 * A pool on a disk is forgotten in pages.  The kernel holds the stores in its page cache, and may write any page at
 * any time; only a sync waits for that.  So msync(), and fsync() and fdatasync() of a pool's file, are recorded as a
 * sync of their range.  A sync happens at one instant: a process that waits for a disk is one that was not scheduled.
 * sync_file_range() and MS_ASYNC promise nothing, so they are crash points and no more.  A record has flushes, fences
 * and syncs; cut.c is told which medium it is to be read for, and takes either the former or the latter.
 *
 * WAL is a medium of the same kind: what was written to a file of pg_wal and not flushed may be lost, so the former
 * contents are recorded.  All other files count as kept from the moment of writing.
 *
 * Crash points are the instants before a fence, a sync of a pool (also one that promises nothing), or a flush of WAL
 * takes effect; and the one at which a checkpoint has written pg_control.  There the driver may copy the data
 * directory (WANT_PHOTO: one run yields all crash points), or the power fails (WANT_CUT): all processes
 * are killed, and none comes out of here any more.  A process that is waiting for the lock is one that was
 * not scheduled; so whatever others do before they are killed could have happened before the cut.
 *
 * Whoever dies in here takes the power with him: the record may lack his last store.
 *
 * What is not modelled is refused: any other entry point or flag of libpmem ends the process.
 *
 *	ZEN_MEDIUM=dir LD_PRELOAD=medium.so postgres ...	t/lib/PowerMedium.pm does it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "trace.h"

#define PAGE			4096
#define TRAP_FLAG		0x100	/* of EFLAGS */
#define MAX_STEP_LINES	4		/* an instruction stores to two lines at most,
								 * each seen with the one behind it */

/* Flags of libpmem.h, which need not be installed. */
#define F_NODRAIN		1
#define F_NONTEMPORAL	2
#define F_NOFLUSH		32

typedef struct Control
{
	volatile uint64_t word[N_WORDS];
	uint64_t	pools[MAX_POOLS];	/* inode numbers */
	int32_t		pids[MAX_PIDS];
	uint32_t	ready;
	pthread_mutex_t lock;
} Control;

typedef struct Mapping
{
	char	   *base;			/* NULL: none */
	size_t		size;			/* of address space: the file may end before, and
								 * grow */
	int			fd;
	int			pool;			/* index in Control.pools */
	dev_t		dev;			/* of the file */
	ino_t		inode;
} Mapping;

/* One store that is being executed. */
typedef struct Step
{
	bool		active;
	sigset_t	mask;			/* of the process, to be restored */
	int			nlines;
	char	   *line[MAX_STEP_LINES];
	char		before[MAX_STEP_LINES][LINE];
	int			npages;
	char	   *page[2];
} Step;

static Control *control;		/* NULL: not in use */
static char *log_base;
static size_t log_size;
static int	request_fd,
			reply_fd;
static Mapping mappings[MAX_POOLS];
static Step step;

static void
die(const char *what)
{
	dprintf(2, "zen medium: %s (%s)\n", what, strerror(errno));
	abort();
}

/* ---------- one at a time ---------- */

/*
 * Whoever was born too late to be known when the power was cut has to end himself, but not before the postmaster, which
 * would react to that.
 */
static void
wait_for_the_end(void)
{
	for (;;)
	{
		if (getpid() != control->pids[0] && getppid() != control->pids[0])
			kill(getpid(), SIGKILL);
		usleep(1000);
	}
}

static void
lock(void)
{
	int			rc = pthread_mutex_lock(&control->lock);

	if (rc == EOWNERDEAD)
		control->word[W_CUT] = CUT_BY_DEATH;
	if (control->word[W_CUT])
		wait_for_the_end();
	if (control->word[W_RESET])
		control->word[W_RESET] = control->word[W_FENCES] = control->word[W_SYNCS] = control->word[W_STORES] = 0;
}

static void
unlock(void)
{
	pthread_mutex_unlock(&control->lock);
}

/* The driver lets others work while this process stands here.  Before lock(). */
static void
hold_here(uint64_t what)
{
	if (control->word[W_HOLD] != what || control->word[W_HOLD_PID] != (uint64_t) getpid())
		return;
	if (control->word[W_HOLD_AFTER] > 0)
	{
		control->word[W_HOLD_AFTER]--;
		return;
	}
	control->word[W_HELD] = 1;
	while (control->word[W_HOLD] == what && !control->word[W_CUT])
		usleep(500);
}

/* ---------- the record ---------- */

/* Begin a record with room for a payload; it counts when log_finish() is called. */
static Record *
log_begin(RecordType type, const Mapping *m, uint64_t offset, uint64_t len, size_t payload)
{
	size_t		size = (sizeof(Record) + payload + 7) & ~(size_t) 7;
	Record	   *r = (Record *) (log_base + control->word[W_LOG_USED]);

	if (control->word[W_LOG_USED] + size > log_size)
		die("the log is full");
	r->size = size;
	r->type = type;
	r->pool = m ? m->pool : 0;
	r->pid = getpid();
	r->payload = payload;
	r->offset = offset;
	r->len = len;
	return r;
}

static void
log_finish(Record *r)
{
	control->word[W_LOG_USED] += r->size;
}

static void
log_event(RecordType type, const Mapping *m, uint64_t offset, uint64_t len)
{
	log_finish(log_begin(type, m, offset, len, 0));
}

static void
log_bytes(RecordType type, const Mapping *m, uint64_t offset, uint64_t len, const void *bytes, size_t payload)
{
	Record	   *r = log_begin(type, m, offset, len, payload);

	memcpy(r + 1, bytes, payload);
	log_finish(r);
	control->word[W_STORES]++;
}

/* ---------- crash points ---------- */

/* Does a process work in this data directory?  One that has ended may have left its number to a stranger. */
static bool
is_ours(int32_t pid, const char *data)
{
	char		link[64];
	char		path[4096];
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return n > 0 && strcmp(path, data) == 0;
}

/* The power fails now: the postmaster first, so that it can react to nothing. */
static void
cut_power(void)
{
	char		data[4096];

	control->word[W_CUT] = 1;
	if (getcwd(data, sizeof(data)) == NULL)
		die("getcwd");
	for (uint64_t i = 0; i < control->word[W_PIDS]; i++)
		if (control->pids[i] != getpid() && is_ours(control->pids[i], data))
			kill(control->pids[i], SIGKILL);
	kill(getpid(), SIGKILL);
	wait_for_the_end();
}

/* Let the driver stop all others, copy what it wants, and let them go on. */
static void
take_photo(uint64_t point)
{
	uint64_t	request[3] = {point, control->word[W_LOG_USED], getpid()};
	char		reply;

	while (write(request_fd, request, sizeof(request)) != sizeof(request))
		if (errno != EINTR)
			die("cannot write to the driver");
	while (read(reply_fd, &reply, 1) != 1)
		if (errno != EINTR)
			die("cannot read from the driver");
}

/* The caller has counted its event. */
static void
crash_point(void)
{
	uint64_t	point = control->word[W_FENCES] + control->word[W_SYNCS];

	if (control->word[W_WANT] == WANT_PHOTO)
		take_photo(point);
	else if (control->word[W_WANT] == WANT_CUT && point >= control->word[W_CUT_AT])
		cut_power();
}

/* ---------- stores ---------- */

static Mapping *
mapping_of(const void *addr)
{
	for (int i = 0; i < MAX_POOLS; i++)
		if (mappings[i].base != NULL && (const char *) addr >= mappings[i].base &&
			(const char *) addr < mappings[i].base + mappings[i].size)
			return &mappings[i];
	return NULL;
}

/* Does the file have the page that this line begins, or lies in? */
static bool
is_in_file(Mapping *m, const char *line)
{
	struct stat st;

	if (line >= m->base + m->size)
		return false;
	if (((uintptr_t) line & (PAGE - 1)) != 0)
		return true;
	return fstat(m->fd, &st) == 0 && line < m->base + st.st_size;
}

static void
watch_line(Mapping *m, char *line)
{
	if (!is_in_file(m, line))
		return;
	for (int i = 0; i < step.nlines; i++)
		if (step.line[i] == line)
			return;
	step.line[step.nlines] = line;
	memcpy(step.before[step.nlines++], line, LINE);
}

/* SIGSEGV: a store to the pool begins, or goes on in a second page.  Anything else is a crash as ever. */
static void
begin_store(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	char	   *addr = info->si_addr;
	Mapping    *m = control ? mapping_of(addr) : NULL;
	char	   *line = (char *) ((uintptr_t) addr & ~(uintptr_t) (LINE - 1));
	int			save_errno = errno;

	if (m == NULL || step.npages == 2)
	{
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	if (!step.active)
	{
		hold_here(HOLD_STORE);
		lock();
		step.active = true;
		step.nlines = step.npages = 0;
		step.mask = uc->uc_sigmask;
		sigfillset(&uc->uc_sigmask);
		sigdelset(&uc->uc_sigmask, SIGSEGV);
		sigdelset(&uc->uc_sigmask, SIGTRAP);
	}
	watch_line(m, line);
	watch_line(m, line + LINE);
	step.page[step.npages] = (char *) ((uintptr_t) addr & ~(uintptr_t) (PAGE - 1));
	if (mprotect(step.page[step.npages++], PAGE, PROT_READ | PROT_WRITE) != 0)
		die("mprotect");
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	errno = save_errno;
}

/* Record the words of a line that differ from what they were; neighbours go into one record. */
static void
record_changes(Mapping *m, const char *line, const char *before)
{
	for (int i = 0; i < LINE / WORD;)
	{
		int			end = i;

		while (end < LINE / WORD && memcmp(line + end * WORD, before + end * WORD, WORD) != 0)
			end++;
		if (end > i)
			log_bytes(R_STORE, m, line + i * WORD - m->base, (end - i) * WORD, line + i * WORD, (end - i) * WORD);
		i = end + 1;
	}
}

/* SIGTRAP: the instruction is done. */
static void
end_store(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	int			save_errno = errno;

	if (!step.active)
		die("a trap that is not ours");
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	uc->uc_sigmask = step.mask;
	for (int i = 0; i < step.nlines; i++)
		record_changes(mapping_of(step.line[i]), step.line[i], step.before[i]);
	for (int i = 0; i < step.npages; i++)
		if (mprotect(step.page[i], PAGE, PROT_READ) != 0)
			die("mprotect");
	step.active = false;
	step.npages = 0;
	unlock();
	errno = save_errno;
}

static void
make_writable(void *addr, size_t len, int prot)
{
	char	   *start = (char *) ((uintptr_t) addr & ~(uintptr_t) (PAGE - 1));

	if (mprotect(start, (char *) addr + len - start, prot) != 0)
		die("mprotect");
}

/* ---------- set-up ---------- */

static void *
map_whole(const char *dir, const char *name, size_t *size)
{
	char		path[4096];
	struct stat st;
	int			fd;
	void	   *base;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		die(path);
	base = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		die(path);
	close(fd);
	*size = st.st_size;
	return base;
}

static int
open_fifo(const char *dir, const char *name)
{
	char		path[4096];
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

/* Make this process known; it is found by whoever cuts the power, and its predecessor's flushes are not its own. */
static void
begin_process(void)
{
	uint64_t	n;

	if (control == NULL)
		return;
	step.active = false;
	n = __sync_fetch_and_add(&control->word[W_PIDS], 1);
	if (n >= MAX_PIDS)
		die("too many processes");
	control->pids[n] = getpid();
	lock();
	log_event(R_PROCESS, NULL, 0, 0);
	unlock();
}

static void
init_lock(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (pthread_mutex_init(&control->lock, &attr) != 0)
		die("mutex");
}

static void
catch(int sig, void (*handler) (int, siginfo_t *, void *))
{
	struct sigaction act = {.sa_sigaction = handler,.sa_flags = SA_SIGINFO};

	sigfillset(&act.sa_mask);
	if (sigaction(sig, &act, NULL) != 0)
		die("sigaction");
}

/* The first process that maps a pool is the postmaster. */
static void
begin(void)
{
	const char *dir = getenv("ZEN_MEDIUM");
	size_t		size;

	if (control != NULL)
		return;
	if (dir == NULL)
		die("ZEN_MEDIUM is not set");
	control = map_whole(dir, "control", &size);
	log_base = map_whole(dir, "log", &log_size);
	request_fd = open_fifo(dir, "request");
	reply_fd = open_fifo(dir, "reply");
	init_lock();
	catch(SIGSEGV, begin_store);
	catch(SIGTRAP, end_store);
	if (pthread_atfork(NULL, NULL, begin_process) != 0)
		die("pthread_atfork");
	begin_process();
}

/* Number of a pool: its file may change its name, but not its inode. */
static int
pool_number(ino_t inode)
{
	uint64_t	n = control->word[W_POOLS];

	for (uint64_t i = 0; i < n; i++)
		if (control->pools[i] == inode)
			return i;
	if (n == MAX_POOLS)
		die("too many pools");
	control->pools[n] = inode;
	control->word[W_POOLS] = n + 1;
	return n;
}

/* ---------- libpmem, as far as src/nvm/persist.c uses it, and the mapping that goes beyond a file's end ---------- */

/* A mapping of a pool, to which nobody can store; fd is kept.  base NULL: anywhere; size 0: the file's. */
static Mapping *
map_pool(char *base, size_t size, int fd)
{
	Mapping    *m = mappings;
	struct stat st;
	int			flags = MAP_SHARED | (base ? MAP_FIXED : 0);

	if (fstat(fd, &st) != 0)
		die("fstat");
	/* a further file of a pool lies over the end of what the one before has reserved */
	for (Mapping *under = mappings; base && under < mappings + MAX_POOLS; under++)
		if (under->base != NULL && under->base < base && base < under->base + under->size)
			under->size = base - under->base;
	while (m->base != NULL)
		if (++m == mappings + MAX_POOLS)
			die("too many mappings");
	m->size = size ? size : (size_t) st.st_size;
	m->base = (char *) syscall(SYS_mmap, base, m->size, PROT_READ, flags, fd, 0);
	if (m->base == MAP_FAILED)
		die("mmap");
	m->fd = fd;
	m->pool = pool_number(st.st_ino);
	m->dev = st.st_dev;
	m->inode = st.st_ino;
	return m;
}

void *
pmem_map_file(const char *path, size_t len, int flags, mode_t mode, size_t *mapped, int *is_pmem)
{
	Mapping    *m;
	int			fd;

	if (len != 0 || flags != 0)
		die("pmem_map_file: only whole files that exist are modelled");
	begin();
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	m = map_pool(NULL, 0, fd);
	if (mapped)
		*mapped = m->size;
	if (is_pmem)
		*is_pmem = getenv("ZEN_MEDIUM_IS_PMEM") != NULL;
	return m->base;
}

/* Only zen_nvm_map() maps a file for writing at an address of its own. */
void *
mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	bool		is_pool = fd >= 0 && (flags & MAP_FIXED) && (prot & PROT_WRITE) && (flags & MAP_SHARED);

	if (control == NULL || !is_pool)
		return (void *) syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
	return map_pool(addr, len, fcntl(fd, F_DUPFD_CLOEXEC, 0))->base;
}

int
pmem_unmap(void *addr, size_t len)
{
	Mapping    *m = mapping_of(addr);

	if (m == NULL || m->base != addr || m->size != len)
		die("pmem_unmap: not a mapping");
	m->base = NULL;
	close(m->fd);
	return munmap(addr, len);
}

/* It writes back on any platform. */
void
pmem_deep_flush(const void *addr, size_t len)
{
	Mapping    *m = mapping_of(addr);

	if (m == NULL)
		die("pmem_deep_flush: not in a pool");
	lock();
	log_event(R_FLUSH, m, (const char *) addr - m->base, len);
	unlock();
}

/* This does nothing where libpmem was told that caches survive. */
void
pmem_flush(const void *addr, size_t len)
{
	const char *told = getenv("PMEM_NO_FLUSH");

	if (told == NULL || strcmp(told, "1") != 0)
		pmem_deep_flush(addr, len);
}

/* zen.flush tells; the caches themselves are cut.c's. */
int
pmem_has_auto_flush(void)
{
	return 0;
}

void
pmem_drain(void)
{
	lock();
	control->word[W_FENCES]++;
	crash_point();
	log_event(R_FENCE, NULL, 0, 0);
	unlock();
}

void
pmem_persist(const void *addr, size_t len)
{
	pmem_flush(addr, len);
	pmem_drain();
}

void *
pmem_memcpy(void *dst, const void *src, size_t len, unsigned flags)
{
	Mapping    *m = mapping_of(dst);

	if (m == NULL || flags != (F_NODRAIN | F_NOFLUSH))
		die("pmem_memcpy: not in a pool, or flags that are not modelled");
	if (len == 0)
		return dst;
	hold_here(HOLD_STORE);
	lock();
	make_writable(dst, len, PROT_READ | PROT_WRITE);
	memcpy(dst, src, len);
	make_writable(dst, len, PROT_READ);
	log_bytes(R_STORE, m, (char *) dst - m->base, len, src, len);
	unlock();
	return dst;
}

void *
pmem_memset(void *dst, int c, size_t len, unsigned flags)
{
	Mapping    *m = mapping_of(dst);
	char		byte = c;

	if (m == NULL || (flags != (F_NODRAIN | F_NOFLUSH) && flags != (F_NODRAIN | F_NONTEMPORAL)))
		die("pmem_memset: not in a pool, or flags that are not modelled");
	if (len == 0)
		return dst;
	hold_here(HOLD_STORE);
	lock();
	make_writable(dst, len, PROT_READ | PROT_WRITE);
	memset(dst, c, len);
	make_writable(dst, len, PROT_READ);
	log_bytes(R_FILL, m, (char *) dst - m->base, len, &byte, 1);
	if (flags & F_NONTEMPORAL)
		log_event(R_FLUSH, m, (char *) dst - m->base, len);
	unlock();
	return dst;
}

/* ---------- syncs of a pool's file ---------- */

/* A sync begins.  If it promises that a range is durable, it has done so at once. */
static void
sync_pool(const Mapping *m, uint64_t offset, uint64_t len, bool promises)
{
	hold_here(HOLD_POOL_SYNC);
	lock();
	control->word[W_FENCES]++;
	crash_point();
	if (promises)
		log_event(R_SYNC, m, offset, len);
	unlock();
}

int
msync(void *addr, size_t len, int flags)
{
	Mapping    *m = control ? mapping_of(addr) : NULL;

	if (m == NULL)
		return syscall(SYS_msync, addr, len, flags);
	sync_pool(m, (char *) addr - m->base, len, (flags & MS_SYNC) != 0);
	return 0;
}

int
pmem_msync(const void *addr, size_t len)
{
	if (mapping_of(addr) == NULL)
		die("pmem_msync: not in a pool");
	return msync((void *) addr, len, MS_SYNC);
}

/* The pool that this file is mapped as, or NULL. */
static Mapping *
mapping_of_file(int fd)
{
	struct stat st;

	if (control == NULL || fstat(fd, &st) != 0)
		return NULL;
	for (Mapping *m = mappings; m < mappings + MAX_POOLS; m++)
		if (m->base != NULL && m->dev == st.st_dev && m->inode == st.st_ino)
			return m;
	return NULL;
}

/* It waits for no journal and no cache of a disk. */
int
sync_file_range(int fd, off_t offset, off_t len, unsigned int flags)
{
	Mapping    *m = mapping_of_file(fd);

	if (m == NULL)
		return syscall(SYS_sync_file_range, fd, offset, len, flags);
	sync_pool(m, offset, len, false);
	return 0;
}

/* ---------- libpmem, the rest ---------- */

#define REFUSE(name) \
	void name(void) \
	{ \
		die(#name " is not modelled"); \
	}

REFUSE(pmem_memmove)
REFUSE(pmem_memcpy_nodrain)
REFUSE(pmem_memcpy_persist)
REFUSE(pmem_memmove_nodrain)
REFUSE(pmem_memmove_persist)
REFUSE(pmem_memset_nodrain)
REFUSE(pmem_memset_persist)
REFUSE(pmem_deep_drain)
REFUSE(pmem_deep_persist)
REFUSE(pmem_has_hw_drain)
REFUSE(pmem_is_pmem)

/* ---------- WAL ---------- */

/* Folder and name of an open file, as "pg_wal/0000..."; "" if it has none. */
static const char *
folder_and_name(int fd, char *path, size_t size)
{
	char		link[64];
	const char *slash;
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	slash = slash ? memrchr(path, '/', slash - path) : NULL;
	return slash ? slash + 1 : "";
}

/* Is this a segment of WAL?  Its name then goes to name (NAME_BYTES). */
static bool
is_wal(int fd, char *name)
{
	char		path[4096];
	const char *file;

	if (control == NULL)
		return false;
	file = folder_and_name(fd, path, sizeof(path));
	if (strncmp(file, "pg_wal/", 7) != 0 || strspn(file + 7, "0123456789ABCDEF") != 24 || file[31] != '\0')
		return false;
	memset(name, 0, NAME_BYTES);
	strcpy(name, file + 7);
	return true;
}

static bool
is_control_file(int fd)
{
	char		path[4096];

	return strcmp(folder_and_name(fd, path, sizeof(path)), "global/pg_control") == 0;
}

static bool
is_notify(int fd)
{
	char		path[4096];

	return control != NULL && strncmp(folder_and_name(fd, path, sizeof(path)), "pg_notify/", 10) == 0;
}

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	char		name[NAME_BYTES];
	int			save_errno = errno;
	ssize_t		rc;

	if (!is_wal(fd, name))
	{
		if (mapping_of_file(fd) != NULL)
			die("pwrite to a pool is not modelled");
		if (is_notify(fd))
			hold_here(HOLD_NOTIFY);
		errno = save_errno;
		return syscall(SYS_pwrite64, fd, buf, len, offset);
	}
	hold_here(HOLD_WAL_WRITE);
	lock();
	{
		Record	   *r = log_begin(R_WAL_WRITE, NULL, offset, len, NAME_BYTES + len);
		char	   *former = (char *) (r + 1) + NAME_BYTES;

		memcpy(r + 1, name, NAME_BYTES);
		memset(former, 0, len);
		if (pread(fd, former, len, offset) < 0)
			die("pread of WAL");
		rc = syscall(SYS_pwrite64, fd, buf, len, offset);
		log_finish(r);
	}
	unlock();
	return rc;
}

/* For HOLD_SETTINGS only. */
static FILE *
open_file(const char *symbol, const char *path, const char *mode)
{
	FILE	   *(*next) (const char *, const char *);
	const char *name = strrchr(path, '/');

	next = (FILE * (*) (const char *, const char *)) dlsym(RTLD_NEXT, symbol);
	if (next == NULL)
		die(symbol);
	if (control != NULL && name != NULL && strcmp(name, "/postgresql.conf") == 0)
		hold_here(HOLD_SETTINGS);
	return next(path, mode);
}

FILE *
fopen(const char *path, const char *mode)
{
	return open_file("fopen", path, mode);
}

FILE *
fopen64(const char *path, const char *mode)
{
	return open_file("fopen64", path, mode);
}

/* What a file other than WAL and pools has is kept already. */
static int
sync_file(int fd)
{
	char		name[NAME_BYTES];
	bool		wal = is_wal(fd, name);
	Mapping    *m = mapping_of_file(fd);

	if (m != NULL)
		sync_pool(m, 0, m->size, true);
	if (!wal && !is_control_file(fd))
		return 0;
	if (wal)
		hold_here(HOLD_WAL_SYNC);
	lock();
	control->word[W_SYNCS]++;
	crash_point();
	if (wal)
	{
		Record	   *r = log_begin(R_WAL_SYNC, NULL, 0, 0, NAME_BYTES);

		memcpy(r + 1, name, NAME_BYTES);
		log_finish(r);
	}
	unlock();
	return 0;
}

int
fdatasync(int fd)
{
	return control ? sync_file(fd) : syscall(SYS_fdatasync, fd);
}

int
fsync(int fd)
{
	return control ? sync_file(fd) : syscall(SYS_fsync, fd);
}
