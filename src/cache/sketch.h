/*
 * sketch.h -- how often rows that are not cached have been read of late: an estimate of fixed size.
 *
 * A row is named by a 64-bit key (zen_sketch_key).  Counts go to ZEN_SKETCH_MAX and are halved now and then.  So rows
 * read often long ago are forgotten.
 */
#ifndef ZEN_SKETCH_H
#define ZEN_SKETCH_H

#include "base/compat.h"
#include "port/atomics.h"

#define ZEN_SKETCH_MAX	15

typedef struct ZenSketch
{
	pg_atomic_uint32 age;		/* halvings so far */
	uint32		nlines;			/* constant */
} ZenSketch;

extern ZenSketch *zen_sketch;

/*
 * zen_sketch_shmem_size -- bytes of shared memory that zen_sketch_init() takes.
 * zen_sketch_init -- make a sketch for a cache of that size or attach to it.
 */
extern Size zen_sketch_shmem_size(uint64 cache_bytes);
extern void zen_sketch_init(uint64 cache_bytes);

/* zen_sketch_key -- of a row; well mixed. */
extern uint64 zen_sketch_key(uint32 htable, uint64 tidno);

/* zen_sketch_add -- count one more read of a row; returns the estimate, this one included. */
extern uint32 zen_sketch_add(uint64 key);

/* zen_sketch_estimate -- the count of a row: too small only by races, too large where rows collide. */
extern uint32 zen_sketch_estimate(uint64 key);

/* zen_sketch_raise -- a row was read at least n times: it leaves the cache, where its reads were counted. */
extern void zen_sketch_raise(uint64 key, uint32 n);

/*
 * zen_sketch_tick -- all counts become old, if at least so many reads were counted since they did; processes report
 * every 64th read.  By one process.
 */
extern void zen_sketch_tick(uint64 enough);

/* The number of halvings, which dates counts kept elsewhere. */
static inline uint32
zen_sketch_age(void)
{
	return pg_atomic_read_u32(&zen_sketch->age);
}

#endif							/* ZEN_SKETCH_H */
