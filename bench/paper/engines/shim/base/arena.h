/*
 * arena.h -- DRAM for page descriptors, from malloc.  Stands in for src/base/arena.h.
 */
#ifndef ZEN_ARENA_H
#define ZEN_ARENA_H

#include "base/compat.h"

static inline void *
zen_arena_alloc(Size size)
{
	return malloc(size);
}

static inline void
zen_arena_free(void *ptr, Size size)
{
	free(ptr);
}

#endif							/* ZEN_ARENA_H */
