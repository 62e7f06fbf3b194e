/*
 * persist.c -- the only caller of libpmem.
 *
 * Three ways to make a store durable lie behind one interface.  On persistent memory, and on its emulation, zen_flush
 * is a cache-line write-back and zen_fence an sfence.  On an ordinary file (msync mode) zen_flush only notes which
 * pages of the page cache are dirty and zen_fence has them written out: between two fences the kernel may write
 * pages in any order, so nothing may rely on more order than flush and fence promise.  Ranges noted are private to
 * the process, as pending write-backs are private to a CPU.
 *
 * In mode wal an ordinary file is synced at checkpoints (recovery/syncer.c), and PostgreSQL's WAL has what was stored
 * since.  Stores are lazy then: zen_flush notes nothing.  Before the syncer is on duty, and behind its end, all is as
 * in msync mode.
 *
 * Where caches survive a power loss (eADR), zen_flush does nothing: src/nvm/README, "The persistence domain".
 *
 * libpmem is never asked to create a file: with PMEM_FILE_CREATE it truncates what is there, and with
 * PMEM_FILE_SPARSE a full medium is a SIGBUS at some later store.  Files are allocated for real and then mapped.
 *
 * Nothing throws once the pool is mapped, with one exception: when msync fails the kernel has dropped the dirty
 * pages, what reached the medium is unknown, and a second try would succeed without having written anything.  That
 * is a PANIC, which leads to crash recovery from the medium (as data_sync_retry = off does for heap files).
 *
 * Lines and fences are counted here, bytes of tuples by tuple.c, which knows which bytes are tuples.
 *
 * The mode is set by the postmaster before any fork and constant afterwards.
 */
#include "nvm/persist.h"

#include <fcntl.h>
#include <libpmem.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/delay.h"
#include "base/fault.h"
#include "base/stats.h"
#include "common/file_perm.h"
#include "storage/fd.h"

#define MSYNC_PAGE			4096	/* bytes; x86-64 page size */
#define MSYNC_MAX_RANGES	64	/* a commit that touches more separate pages
								 * just syncs earlier */

#define HUGE_ALIGN			((Size) 1024 * 1024 * 1024) /* as libpmem maps: on
														 * borders of the
														 * largest pages */
#define HUGE_ALIGN_FROM		(2 * HUGE_ALIGN)

typedef struct MsyncRange
{
	uintptr_t	start;			/* page aligned */
	uintptr_t	end;			/* page aligned, exclusive */
} MsyncRange;

static ZenPoolMode mode_in_force = ZEN_POOL_AUTO;	/* AUTO: nothing was
													 * mapped yet */

static bool by_pages = false;	/* modes msync and wal: the page cache lies
								 * between the stores and the medium */
static bool caches_survive = false; /* a power loss; not by_pages */
static bool hints = false;		/* then: rows that are not hot are flushed */
static bool insist = false;		/* libpmem takes them to survive, and
								 * zen.flush does not: its plain flushes do
								 * nothing */

/* Ranges that this process has flushed and not fenced; by_pages only. */
static MsyncRange msync_ranges[MSYNC_MAX_RANGES];
static int	n_msync_ranges = 0;

/* Is mode wal lazy now?  For all processes, and for this one. */
static uint32 nobody_lazy = 0;
static volatile uint32 *lazy = &nobody_lazy;
static bool lazy_here = false;

static uint32 nobody_watches = 1;
static volatile uint32 *watched = &nobody_watches;	/* 0: tell of a store */
static void (*tell_stored) (void) = NULL;

/* ---------- modes msync and wal ---------- */

bool
zen_nvm_is_lazy(void)
{
	return *lazy != 0;
}

void
zen_nvm_lazy_when(volatile uint32 *word)
{
	lazy = word != NULL ? word : &nobody_lazy;
}

void
zen_nvm_lazy_here(bool on)
{
	lazy_here = on && mode_in_force == ZEN_POOL_WAL;
}

/* Write out all noted ranges.  PANICs when the kernel cannot. */
static void
msync_all(void)
{
	for (int i = 0; i < n_msync_ranges; i++)
	{
		MsyncRange *range = &msync_ranges[i];
		Size		len = ZEN_FAULT(R2_SYNC_FIRST_PAGE) ? MSYNC_PAGE : range->end - range->start;

		if (pmem_msync((void *) range->start, len) != 0)
			ereport(PANIC,
					(errcode_for_file_access(),
					 errmsg("could not write the zen pool to its medium: %m"),
					 errdetail("msync of %zu bytes failed.", len)));
	}
	n_msync_ranges = 0;
}

/* Note the pages of a range, in an earlier range that it touches if there is one. */
static void
note_pages(const void *addr, Size len)
{
	uintptr_t	start = TYPEALIGN_DOWN(MSYNC_PAGE, (uintptr_t) addr);
	uintptr_t	end = TYPEALIGN(MSYNC_PAGE, (uintptr_t) addr + len);

	Assert(start < end && n_msync_ranges <= MSYNC_MAX_RANGES);
	/* newest first: neighbouring flushes come one after the other */
	for (int i = n_msync_ranges - 1; i >= 0; i--)
	{
		MsyncRange *range = &msync_ranges[i];

		if (start <= range->end && range->start <= end)
		{
			range->start = Min(range->start, start);
			range->end = Max(range->end, end);
			return;
		}
	}

	if (n_msync_ranges == MSYNC_MAX_RANGES)
		msync_all();
	msync_ranges[n_msync_ranges].start = start;
	msync_ranges[n_msync_ranges].end = end;
	n_msync_ranges++;
}

/* ---------- stores, flushes, fences ---------- */

static inline uint64
lines_of_range(const void *addr, Size len)
{
	uintptr_t	first = (uintptr_t) addr / ZEN_LINE;
	uintptr_t	last = ((uintptr_t) addr + len - 1) / ZEN_LINE;

	Assert(len > 0);
	return last - first + 1;
}

/* Count flushed lines.  For tests, wait as if the medium were a slower one. */
static inline void
count_flushed(uint64 lines)
{
	ZEN_COUNT(lines_flushed, lines);
	if (unlikely(zen_flush_delay_ns > 0) && !by_pages)
		zen_delay(lines * zen_flush_delay_ns);
}

void
zen_nvm_copy(void *dst, const void *src, Size len)
{
	Assert(mode_in_force != ZEN_POOL_AUTO);
	pmem_memcpy(dst, src, len, PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NOFLUSH);
}

void
zen_flush(const void *addr, Size len)
{
	Assert(mode_in_force != ZEN_POOL_AUTO);

	if (len == 0 || caches_survive)
		return;
	if (by_pages)
	{
		if (zen_nvm_is_lazy() || lazy_here)
			return;
		note_pages(addr, len);
	}
	else if (insist)
		pmem_deep_flush(addr, len);
	else
		pmem_flush(addr, len);
	count_flushed(lines_of_range(addr, len));
}

void
zen_flush_later(ZenFlushRange *pending, const void *addr, Size len)
{
	const char *begin = addr;
	const char *end = begin + len;

	/* neighbours share a line, or have one beside the other's */
	if (pending->begin == NULL ||
		begin > (const char *) TYPEALIGN(ZEN_LINE, pending->end) ||
		end < (const char *) TYPEALIGN_DOWN(ZEN_LINE, pending->begin))
	{
		zen_flush_pending(pending);
		pending->begin = begin;
		pending->end = end;
		return;
	}
	pending->begin = Min(pending->begin, begin);
	pending->end = Max(pending->end, end);
}

void
zen_flush_pending(ZenFlushRange *pending)
{
	if (!ZEN_FAULT(R2_NEIGHBOURS_UNFLUSHED))
		zen_flush(pending->begin, pending->end - pending->begin);
	pending->begin = pending->end = NULL;
}

/*
 * libpmem waits for the lines on x86.  On ARM64 its barrier (dmb, in 1.12) puts them before later stores, and does not
 * wait: Linux takes this one for persistent memory.
 */
#ifdef __aarch64__
#define wait_for_lines()	__asm__ __volatile__("dsb st" ::: "memory")
#else
#define wait_for_lines()	((void) 0)
#endif

void
zen_fence(void)
{
	Assert(mode_in_force != ZEN_POOL_AUTO);

	if (by_pages)
		msync_all();
	else
	{
		Assert(n_msync_ranges == 0);
		pmem_drain();
		wait_for_lines();
		if (unlikely(zen_fence_delay_ns > 0))
			zen_delay(zen_fence_delay_ns);
	}
	/* a process that finds the count finds the stores */
	pg_write_barrier();
	ZEN_COUNT(fences, 1);
	if (unlikely(*watched == 0))
		tell_stored();
}

void
zen_nvm_watch(volatile uint32 *word, void (*stored) (void))
{
	Assert((word == NULL) == (stored == NULL));
	tell_stored = stored;
	watched = word != NULL ? word : &nobody_watches;
}

void
zen_order(void)
{
	if (caches_survive)
		pg_write_barrier();
	else
		zen_fence();
}

bool
zen_flush_hints(void)
{
	return hints;
}

void
zen_flush_hint(const void *addr, Size len)
{
	Assert(hints && len > 0);
	/* pmem_flush does nothing on such a platform */
	pmem_deep_flush(addr, len);
	count_flushed(lines_of_range(addr, len));
}

void
zen_persist(const void *addr, Size len)
{
	zen_flush(addr, len);
	zen_fence();
}

void
zen_persist_now(const void *addr, Size len)
{
	if (by_pages)
		note_pages(addr, len);
	else
		zen_flush(addr, len);
	zen_fence();
}

void
zen_nvm_sync(int fd, const char *path)
{
	Assert(by_pages);
	if (pg_fdatasync(fd) != 0)
		ereport(PANIC,
				(errcode_for_file_access(),
				 errmsg("could not write zen pool file \"%s\" to its medium: %m", path)));
}

/*
 * Whole pages are zeroed before they change hands (R8), so streaming stores spare the cache; pmem_memset writes back
 * the partial lines at both ends by itself.  Not for lines whose order of stores another process or recovery relies on.
 */
void
zen_nvm_zero(void *addr, Size len)
{
	Assert(mode_in_force != ZEN_POOL_AUTO);

	if (len == 0)
		return;
	if (by_pages)
	{
		pmem_memset(addr, 0, len, PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NOFLUSH);
		zen_persist(addr, len);
		return;
	}
	pmem_memset(addr, 0, len, PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NONTEMPORAL);
	if (insist)
		pmem_deep_flush(addr, len);
	count_flushed(lines_of_range(addr, len));
	zen_fence();
}

void
zen_nvm_let_go(const void *addr, Size len)
{
	Assert((uintptr_t) addr % MSYNC_PAGE == 0);

	/*
	 * it frees nothing if it fails, as it may for memory that is locked:
	 * nothing depends on it
	 */
	(void) madvise(unconstify(void *, addr), len, MADV_DONTNEED);
}

/* ---------- pools that are not all in memory ---------- */

#define LOOK_EVERY	8			/* questions; a look costs as much as the
								 * copies of some rows */
#define LATELY		64			/* looks for which one fault counts */

void
zen_nvm_will_need(const void *addr, Size len)
{
	uintptr_t	start = TYPEALIGN_DOWN(MSYNC_PAGE, (uintptr_t) addr);

	/* a hint: without it a page is read when it is touched */
	if (by_pages)
		(void) madvise((void *) start, (uintptr_t) addr + len - start, MADV_WILLNEED);
}

bool
zen_nvm_reads_disk(void)
{
	static long faults = 0;
	static int	left = 0;		/* looks */
	static uint32 asked = 0;
	struct rusage usage;

	if (!by_pages)
		return false;
	if (asked++ % LOOK_EVERY != 0 || getrusage(RUSAGE_THREAD, &usage) != 0)
		return left > 0;
	if (usage.ru_majflt != faults)
		left = LATELY;
	else if (left > 0)
		left--;
	faults = usage.ru_majflt;
	return left > 0;
}

/* ---------- files and mappings ---------- */

/* Remove a file that could not be completed; keeps errno for the report that follows. */
static void
discard_file(const char *path)
{
	int			save_errno = errno;

	unlink(path);
	errno = save_errno;
}

/* Make a new file with all of its blocks allocated and durable as a file, or FATAL and no file. */
static void
allocate_file(const char *path, Size size)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, pg_file_create_mode);
	int			rc;

	if (fd < 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create zen pool file \"%s\": %m", path),
				 errhint("Make sure that the directory in zen.pool_path exists and that the server may "
						 "write to it.")));
	do
	{
		rc = posix_fallocate(fd, 0, size);
	} while (rc == EINTR);
	if (rc == 0 && fsync(fd) != 0)
		rc = errno;
	close(fd);
	if (rc != 0)
	{
		errno = rc;
		discard_file(path);
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not allocate %zu MB for zen pool file \"%s\": %m",
						size / (1024 * 1024), path),
				 errhint("Free space on that file system, lower zen.pool_size, or set zen.pool_path to "
						 "another file system.")));
	}
}

/* Map a file, and address space behind its end (src/nvm/README, "Growing").  False and errno on failure. */
static bool
map_over(const char *path, char *base, Size reserve, bool is_pmem)
{
	int			flags = is_pmem ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
	int			fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return false;
	base = mmap(base, reserve, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
	close(fd);
	return base != MAP_FAILED;
}

static char *
map_with_room(const char *path, Size reserve, bool is_pmem)
{
	Size		align = reserve >= HUGE_ALIGN_FROM ? HUGE_ALIGN : ZEN_AREA_ALIGN;
	char	   *room,
			   *base;

	room = mmap(NULL, reserve + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	base = (char *) TYPEALIGN(align, (uintptr_t) room);
	if (base > room)
		munmap(room, base - room);
	munmap(base + reserve, room + align - base);
	return map_over(path, base, reserve, is_pmem) ? base : NULL;
}

static void
map_failed(const char *path)
{
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not map zen pool file \"%s\": %m", path)));
}

/*
 * Settle which caches the power supply of the platform covers.  libpmem asks the kernel for the domain of all NVDIMMs;
 * PMEM_NO_FLUSH is its way to be told.
 */
static void
settle_domain(void)
{
	const char *told = getenv("PMEM_NO_FLUSH");
	bool		platform = told != NULL && strcmp(told, "1") == 0;

	platform |= mode_in_force == ZEN_POOL_PMEM && pmem_has_auto_flush() == 1;
	caches_survive = !by_pages &&
		(zen_flush_what == ZEN_FLUSH_NEVER || (platform && zen_flush_what != ZEN_FLUSH_ALWAYS));
	hints = caches_survive && zen_flush_what == ZEN_FLUSH_HINT;
	insist = platform && !caches_survive;
}

/* Settle the mode for a mapping.  False when it was asked to be persistent memory and is not. */
static bool
settle_mode(ZenPoolMode wanted, bool is_pmem)
{
	Assert(wanted != ZEN_POOL_AUTO);
	if (wanted == ZEN_POOL_PMEM && !is_pmem)
		return false;
	mode_in_force = wanted;
	by_pages = wanted == ZEN_POOL_MSYNC || wanted == ZEN_POOL_WAL;
	settle_domain();
	return true;
}

static void
refuse_not_pmem(const char *path)
{
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool file \"%s\" is not on persistent memory", path),
			 errdetail("zen.pool_mode is \"pmem\", but the file cannot be mapped with MAP_SYNC."),
			 errhint("Set zen.pool_path to a file system on persistent memory mounted with the dax option, or "
					 "set zen.pool_mode to \"wal\" (an ordinary disk) or \"emulated\" (does not survive "
					 "power loss).")));
}

/* Make a file of one page where the pool would be.  False: that cannot be done, and the pool's own making tells why. */
static bool
make_probe(const char *path)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, pg_file_create_mode);
	bool		made;

	if (fd < 0)
		return false;
	made = posix_fallocate(fd, 0, MSYNC_PAGE) == 0;
	close(fd);
	return made;
}

bool
zen_nvm_is_pmem(const char *path)
{
	char		probe[MAXPGPATH + 16];
	bool		exists = access(path, F_OK) == 0;
	int			is_pmem = 0;
	Size		mapped;
	char	   *base;

	snprintf(probe, sizeof(probe), "%s.probe", path);
	if (!exists)
	{
		unlink(probe);			/* left by a start that was killed */
		if (!make_probe(probe))
			return false;
	}
	base = pmem_map_file(exists ? path : probe, 0, 0, 0, &mapped, &is_pmem);
	if (base != NULL)
		pmem_unmap(base, mapped);
	if (!exists)
		unlink(probe);
	return base != NULL && is_pmem;
}

char *
zen_nvm_create(const char *path, Size size, ZenPoolMode mode)
{
	char	   *base;
	Size		mapped;
	int			is_pmem = 0;

	allocate_file(path, size);
	base = pmem_map_file(path, 0, 0, 0, &mapped, &is_pmem);
	if (base == NULL)
	{
		discard_file(path);
		map_failed(path);
	}
	Assert(mapped == size);
	if (!settle_mode(mode, is_pmem))
	{
		pmem_unmap(base, mapped);
		discard_file(path);
		refuse_not_pmem(path);
	}

	/*
	 * First writes to unwritten DAX extents commit the file system's journal:
	 * pay for it here, once.
	 */
	if (mode_in_force == ZEN_POOL_PMEM)
		zen_nvm_zero(base, size);
	return base;
}

char *
zen_nvm_map(const char *path, char *at, Size *size, Size reserve, ZenPoolMode mode)
{
	int			is_pmem = 0;
	char	   *base = pmem_map_file(path, 0, 0, 0, size, &is_pmem);

	if (base == NULL)
		map_failed(path);
	if (!settle_mode(mode, is_pmem))
	{
		pmem_unmap(base, *size);
		refuse_not_pmem(path);
	}
	if (at == NULL && reserve <= *size)
	{
		at = base;
		reserve = *size;
	}
	else
	{
		pmem_unmap(base, *size);
		if (at == NULL)
			at = map_with_room(path, reserve, is_pmem);
		else if (!map_over(path, at, reserve, is_pmem))
			at = NULL;
	}
	if (at == NULL)
		map_failed(path);
	if (by_pages)
		(void) madvise(at, reserve, MADV_RANDOM);
	return at;
}

void
zen_nvm_unmap(char *base, Size size)
{
	n_msync_ranges = 0;
	pmem_unmap(base, size);
}

ZenPoolMode
zen_nvm_mode(void)
{
	return mode_in_force;
}

const char *
zen_nvm_domain(void)
{
	if (by_pages || mode_in_force == ZEN_POOL_AUTO)
		return NULL;
	return caches_survive ? "cpu_cache" : "memory_controller";
}
