/*
 * medium.h -- the medium below zen's persist module: latency, eADR, power cuts, counts.
 */
#ifndef MEDIUM_H
#define MEDIUM_H

#include "base/stats.h"
#include "charge.h"

#include "port/atomics.h"

typedef struct MediumSettings
{
	bool		eadr;			/* caches are persistent: flushes are left out */
	bool		power;			/* only what was flushed and fenced reaches
								 * the file */
	bool		forgetful;		/* with power: some flushes have no effect,
								 * for tests */
	uint32		line_ns;		/* delay per line written back */
	uint32		fence_ns;		/* delay per fence */
	uint32		read_ns;		/* delay per line read in nvm_read() */
	bool		charged;		/* charge.c has what lies below, and its
								 * delays */
} MediumSettings;

extern MediumSettings medium;

/* What one thread has done. */
typedef struct MediumCounters
{
	uint64		lines;			/* written back on purpose */
	uint64		fences;
	uint64		units;			/* of 256 bytes, lines flushed one after
								 * another into the same unit counted once */
	uint64		bytes_stored;	/* by nvm_store and nvm_store64 */
	uint64		lines_read;		/* by nvm_read */
} MediumCounters;

extern __thread MediumCounters medium_counters;

/* A power cut, ordered by another process: in shared memory. */
typedef struct MediumCut
{
	pg_atomic_uint32 wanted;	/* from now on nothing reaches the medium */
	pg_atomic_uint32 writing;	/* lines on their way to it */
} MediumCut;

extern MediumCut *medium_cut;

/* medium_cut_power -- the caller kills the process afterwards: no line is half written then. */
extern void medium_cut_power(void);

/* Stores of an engine: counted, not flushed.  nvm_store64 is one aligned store. */
extern void nvm_store(void *dst, const void *src, Size len);
extern void nvm_store64(uint64 *dst, uint64 value);

/* In power mode a cache may write the line back just now. */
extern void medium_maybe_evict(const void *addr, size_t len);

/* zen_nvm_store64 as src/nvm does it, with that chance (product.c). */
static inline void
medium_store64(uint64 *dst, uint64 value)
{
	*(volatile uint64 *) dst = value;
	if (unlikely(medium.charged))
		charge_store(dst, sizeof(value));
	if (unlikely(medium.power))
		medium_maybe_evict(dst, sizeof(value));
}

/* A copy out of NVM: counted, and slowed down if the medium is to be slow. */
extern void nvm_read(void *dst, const void *src, Size len);

/* The same count and delay for a range that is read in place. */
extern void nvm_touch(const void *src, Size len);

/* A flush that durability does not need, for the sake of the medium's 256-byte units: done on eADR, too. */
extern void nvm_hint_flush(const void *addr, Size len);

/* What persist.c calls instead of libpmem (Makefile). */
extern void medium_flush(const void *addr, size_t len);
extern void medium_drain(void);
extern void *medium_memcpy(void *dst, const void *src, size_t len, unsigned flags);
extern void *medium_memset(void *dst, int c, size_t len, unsigned flags);
extern void *medium_map_file(const char *path, size_t len, int flags, mode_t mode, size_t *mapped, int *is_pmem);
extern int	medium_unmap(void *addr, size_t len);

#endif							/* MEDIUM_H */
