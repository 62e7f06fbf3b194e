/*
 * medium.c -- the medium below zen's persist module.
 *
 * persist.c is compiled with its calls of libpmem renamed to those in here, so that every flush and fence of every
 * engine passes this file, whichever way it came.  It counts them, adds delays, leaves flushes out on eADR, and can cut
 * the power:
 *
 * With medium.power the engines work on anonymous memory, and the pool file is what the medium would keep.  A line gets
 * there when a fence follows its flush by the same thread, and sometimes before: a flush may take effect at once, and a
 * cache may write a line back that nobody has flushed.  Both happen at random.  So a process that is killed leaves a
 * file as after a power cut.  Stores to one line get there in their order, as on x86: a line is always copied whole, as
 * it is; who wants to kill calls medium_cut_power() first, so that it is not copied by half.
 *
 * With medium.charged all stores, flushes and reads are passed on to charge.c, the model of what lies below.
 */
#include "medium.h"

#include <emmintrin.h>
#include <libpmem.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/delay.h"
#include "base/guc.h"
#include "nvm/persist.h"

#define UNIT			256		/* bytes that Optane's media writes at once */
#define NLINE_LOCKS		1024

MediumSettings medium;
MediumCut  *medium_cut;
__thread MediumCounters medium_counters;
static __thread uintptr_t last_unit;

/* ---------- delays ---------- */

/* The medium has its own, which eADR leaves out. */
int			zen_flush_delay_ns = 0;
int			zen_fence_delay_ns = 0;
int			zen_flush_what = ZEN_FLUSH_ALWAYS;

static void
delay(uint64 ns)
{
	if (ns > 0)
		zen_delay(ns);
}

/* ---------- a medium that forgets ---------- */

typedef struct Range
{
	uintptr_t	start;
	uintptr_t	end;
} Range;

static char *power_work;		/* what the engines see */
static char *power_file;		/* what a power cut leaves */
static size_t power_size;
static pg_atomic_flag line_locks[NLINE_LOCKS];

static __thread Range *pending;
static __thread int npending,
			max_pending;
static __thread uint64 dice;

/* True once in n. */
static bool
chance(uint32 n)
{
	if (dice == 0)
		dice = (uintptr_t) &pending ^ (uint64) getpid() << 40;
	dice = dice * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (dice >> 33) % n == 0;
}

/* The lock keeps an older copy of a line from overtaking a newer one. */
static void
write_back(uintptr_t line)
{
	pg_atomic_flag *lock = &line_locks[line / ZEN_LINE % NLINE_LOCKS];
	uint64	   *to = (uint64 *) (power_file + (line - (uintptr_t) power_work));

	while (!pg_atomic_test_set_flag(lock))
		sched_yield();
	/* pairs with the barrier in medium_cut_power */
	pg_atomic_fetch_add_u32(&medium_cut->writing, 1);
	if (pg_atomic_read_u32(&medium_cut->wanted) != 0)
	{
		pg_atomic_fetch_sub_u32(&medium_cut->writing, 1);
		for (;;)
			pause();
	}
	for (int i = 0; i < ZEN_LINE / (int) sizeof(uint64); i++)
		zen_nvm_store64(&to[i], zen_nvm_load64((uint64 *) line + i));
	pg_atomic_fetch_sub_u32(&medium_cut->writing, 1);
	pg_atomic_clear_flag(lock);
}

void
medium_cut_power(void)
{
	pg_atomic_write_u32(&medium_cut->wanted, 1);
	pg_memory_barrier();
	while (pg_atomic_read_u32(&medium_cut->writing) != 0)
		sched_yield();
}

static void
write_back_range(Range r)
{
	for (uintptr_t line = r.start; line < r.end; line += ZEN_LINE)
		write_back(line);
}

static Range
lines_of(const void *addr, size_t len)
{
	Range		r = {TYPEALIGN_DOWN(ZEN_LINE, (uintptr_t) addr), TYPEALIGN(ZEN_LINE, (uintptr_t) addr + len)};

	return r;
}

static void
note_pending(Range r)
{
	if (medium.forgetful && chance(16))
		return;
	if (chance(2))
		write_back_range(r);
	if (npending == max_pending)
	{
		max_pending = max_pending * 2 + 64;
		pending = realloc(pending, max_pending * sizeof(Range));
	}
	pending[npending++] = r;
}

/* A cache may evict any line at any time; this is the time. */
void
medium_maybe_evict(const void *addr, size_t len)
{
	Range		r = lines_of(addr, len);

	for (uintptr_t line = r.start; line < r.end; line += ZEN_LINE)
		if (chance(8))
			write_back(line);
}

/* ---------- what persist.c calls ---------- */

static void
count_lines(Range r)
{
	medium_counters.lines += (r.end - r.start) / ZEN_LINE;
	for (uintptr_t unit = r.start / UNIT; unit <= (r.end - 1) / UNIT; unit++)
		if (unit != last_unit)
		{
			medium_counters.units++;
			last_unit = unit;
		}
}

static void
flush(const void *addr, size_t len)
{
	Range		r = lines_of(addr, len);

	if (len == 0)
		return;
	count_lines(r);
	pmem_flush(addr, len);
	if (medium.charged)
		charge_flush(addr, len);
	if (medium.power)
		note_pending(r);
	delay((r.end - r.start) / ZEN_LINE * (uint64) medium.line_ns);
}

void
medium_flush(const void *addr, size_t len)
{
	if (!medium.eadr)
		flush(addr, len);
}

void
nvm_hint_flush(const void *addr, Size len)
{
	flush(addr, len);
}

void
medium_drain(void)
{
	medium_counters.fences++;
	pmem_drain();
	for (int i = 0; i < npending; i++)
		write_back_range(pending[i]);
	npending = 0;
	delay(medium.fence_ns);
}

void *
medium_memcpy(void *dst, const void *src, size_t len, unsigned flags)
{
	pmem_memcpy(dst, src, len, flags);
	if (medium.charged)
		charge_store(dst, len);
	if (medium.power)
		medium_maybe_evict(dst, len);
	return dst;
}

/* Of zen_nvm_zero, which flushes and fences; persist.c counts its lines itself. */
void *
medium_memset(void *dst, int c, size_t len, unsigned flags)
{
	Range		r = lines_of(dst, len);

	pmem_memset(dst, c, len, flags);
	count_lines(r);
	if (medium.charged)
		charge_stream(dst, len);
	if (medium.power)
		note_pending(r);
	delay((r.end - r.start) / ZEN_LINE * (uint64) medium.line_ns);
	return dst;
}

void *
medium_map_file(const char *path, size_t len, int flags, mode_t mode, size_t *mapped, int *is_pmem)
{
	char	   *file = pmem_map_file(path, len, flags, mode, mapped, is_pmem);

	if (file == NULL || !medium.power)
		return file;
	power_file = file;
	power_size = *mapped;
	power_work = mmap(NULL, power_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (power_work == MAP_FAILED)
	{
		pmem_unmap(file, power_size);
		return NULL;
	}
	for (int i = 0; i < NLINE_LOCKS; i++)
		pg_atomic_init_flag(&line_locks[i]);
	memcpy(power_work, power_file, power_size);
	return power_work;
}

int
medium_unmap(void *addr, size_t len)
{
	if (!medium.power)
		return pmem_unmap(addr, len);
	munmap(power_work, power_size);
	return pmem_unmap(power_file, power_size);
}

/* ---------- what engines call ---------- */

void
nvm_store(void *dst, const void *src, Size len)
{
	medium_counters.bytes_stored += len;
	zen_nvm_copy(dst, src, len);
}

void
nvm_store64(uint64 *dst, uint64 value)
{
	medium_counters.bytes_stored += sizeof(value);
	medium_store64(dst, value);
}

void
nvm_touch(const void *src, Size len)
{
	Range		r = lines_of(src, len);
	uint64		lines = (r.end - r.start) / ZEN_LINE;

	medium_counters.lines_read += lines;
	if (medium.charged)
		charge_read(src, len);
	delay(lines * medium.read_ns);
}

void
nvm_read(void *dst, const void *src, Size len)
{
	nvm_touch(src, len);
	memcpy(dst, src, len);
}
