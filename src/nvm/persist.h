/*
 * persist.h -- all stores to NVM go through here.
 *
 * Every store that must survive, every flush and every fence goes through here, so that counters are exact and a
 * simulator can be interposed.  Nothing here throws, except zen_nvm_map and zen_nvm_create.
 *
 * Order: zen_nvm_store64()s to one cache line reach the medium in program order; different lines have no order without
 * zen_flush of the first and zen_fence, both by the same process.  Where caches survive a power loss, zen_order() is
 * enough.
 */
#ifndef ZEN_PERSIST_H
#define ZEN_PERSIST_H

#include "base/guc.h"
#include "nvm/layout.h"

/*
 * One aligned 8-byte store.  All stores that come before it in the program come before it in its line, on any machine
 * (src/nvm/README, "The order of stores").  Those that come after it may overtake it, unless they are made here.
 */
static inline void
zen_nvm_store64(uint64 *dst, uint64 value)
{
	Assert(((uintptr_t) dst & 7) == 0);
	__atomic_store_n(dst, value, __ATOMIC_RELEASE);
}

static inline uint64
zen_nvm_load64(const uint64 *src)
{
	Assert(((uintptr_t) src & 7) == 0);
	return *(const volatile uint64 *) src;
}

/* Copy bytes that no process reads before a later fence (never a tuple's first line: R6).  Not flushed. */
extern void zen_nvm_copy(void *dst, const void *src, Size len);

/* Start writing back the lines of a range.  Durable only after zen_fence() by the same process. */
extern void zen_flush(const void *addr, Size len);

/*
 * ZenFlushRange -- lines that are to be flushed together, as many neighbours are stored to; begins as {0}.
 *
 * zen_flush_later -- flush a range with it.  If it does not continue what is pending, that is flushed first.
 *
 * zen_flush_pending -- flush what is pending.
 *
 * A flush may take a line out of the cache.  So whoever stores to neighbours, and flushes each of them by itself, waits
 * for memory at each line that two of them share.
 */
typedef struct ZenFlushRange
{
	const char *begin;
	const char *end;			/* none pending: both NULL */
} ZenFlushRange;

extern void zen_flush_later(ZenFlushRange *pending, const void *addr, Size len);
extern void zen_flush_pending(ZenFlushRange *pending);

/* Wait until everything this process has flushed is durable; not where stores are lazy.  PANICs if msync fails. */
extern void zen_fence(void);

/*
 * zen_nvm_watch -- as long as *word is 0, stored() is called by each process in its next fence, before that returns.
 *
 * By the postmaster.  NULL: no process calls.  stored() throws nothing, and works wherever zen_fence() may be called.
 */
extern void zen_nvm_watch(volatile uint32 *word, void (*stored) (void));

/* All that this process has flushed so far reaches the medium before its later stores.  May be a fence. */
extern void zen_order(void);

/*
 * zen_flush_hints -- are rows that are not hot to be flushed, though nothing depends on it?
 *
 * zen_flush_hint -- if so: begin to write back the lines of a range; it may be complete at any time.
 */
extern bool zen_flush_hints(void);
extern void zen_flush_hint(const void *addr, Size len);

/*
 * zen_persist -- zen_flush and zen_fence of one range.
 *
 * zen_persist_now -- the same, and durable on return also where stores are lazy.
 */
extern void zen_persist(const void *addr, Size len);
extern void zen_persist_now(const void *addr, Size len);

/*
 * Mode wal, in which what was stored becomes durable by a sync of the files (src/recovery/README, "Mode wal").
 *
 * zen_nvm_lazy_when -- by the postmaster: stores of all processes are lazy as long as *word, in shared memory, is not
 * 0.  NULL: none are.
 *
 * zen_nvm_is_lazy -- are they?  Constant from before the first writer to behind the last one.
 *
 * zen_nvm_lazy_here -- in mode wal: the stores of this process alone are lazy, or no longer.  For redo.
 *
 * zen_nvm_sync -- all that was stored to a file is durable on return.  PANIC if the kernel cannot write it.
 */
extern void zen_nvm_lazy_when(volatile uint32 *word);
extern bool zen_nvm_is_lazy(void);
extern void zen_nvm_lazy_here(bool on);
extern void zen_nvm_sync(int fd, const char *path);

/* Fill a range with zeroes, durable on return. */
extern void zen_nvm_zero(void *addr, Size len);

/*
 * zen_nvm_let_go -- take a range of the pool out of this process's page tables.
 *
 * Nothing of it is lost or flushed: the next access maps it again.  Mapped pages count as memory of the process, so the
 * kernel's OOM killer would choose a process that has read the whole pool.  addr is at the start of a page of 4 KB.
 */
extern void zen_nvm_let_go(const void *addr, Size len);

/*
 * Pools on a disk (modes wal and msync), of which parts may not be in memory.  The kernel reads one page where a
 * process touches it, and nothing around it: what it would read ahead for a file takes memory from rows that are used.
 * So whoever is going to read more says so.
 *
 * zen_nvm_will_need -- begin to read a range from the disk, if it is not in memory.  Does nothing for other pools.
 *
 * zen_nvm_reads_disk -- has this process waited for the disk lately, when it touched the pool or anything else?  An
 * estimate, to be asked once for some tens of rows.  False for other pools.
 */
extern void zen_nvm_will_need(const void *addr, Size len);
extern bool zen_nvm_reads_disk(void);

/*
 * zen_nvm_create -- make a new file of size bytes, allocated and zero, and map it.
 *
 * The file and its size are durable on return, its name is not: the caller syncs the directory.  FATAL, with no file
 * left behind, when the name is taken, the medium is too small or the mode cannot be had.
 *
 * zen_nvm_map -- map an existing file whole, and address space up to reserve bytes.  Neither size nor contents change.
 *
 * at: where, over address space that was reserved, for a further file of the pool; NULL: anywhere.  Then there may be
 * no space behind the file, with reserve 0.  *size is the file's.  FATAL when the file cannot be mapped, or the mode
 * cannot be had.
 *
 * Both return where the file is mapped, and set the mode in force.  Postmaster only, before any fork.
 *
 * zen_nvm_unmap -- end a mapping; whatever was not fenced has no promise.
 */
extern char *zen_nvm_create(const char *path, Size size, ZenPoolMode mode);
extern char *zen_nvm_map(const char *path, char *at, Size *size, Size reserve, ZenPoolMode mode);
extern void zen_nvm_unmap(char *base, Size size);

/*
 * zen_nvm_is_pmem -- would a pool file of this name be on persistent memory?  If there is none, a file beside it, which
 * is gone on return, tells.  False also if none can be made.
 */
extern bool zen_nvm_is_pmem(const char *path);

/* The mode of the open mapping: ZEN_POOL_PMEM, _EMULATED, _MSYNC or _WAL. */
extern ZenPoolMode zen_nvm_mode(void);

/*
 * zen_nvm_domain -- where a store must have come to survive a power loss, in the kernel's words: "cpu_cache",
 * "memory_controller"; NULL in modes msync and wal.
 */
extern const char *zen_nvm_domain(void);

#endif							/* ZEN_PERSIST_H */
