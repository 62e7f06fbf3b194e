/*
 * arena.h -- shared DRAM for row versions, maps and queues.
 *
 * One anonymous shared mapping of zen.dram_size, made by the postmaster before any fork, so that a raw pointer
 * into it is valid in every process.  Freed memory goes back to a list of its size class.
 */
#ifndef ZEN_ARENA_H
#define ZEN_ARENA_H

#include "base/compat.h"

#include "base/startup.h"
#include "datatype/timestamp.h"

/* References of 40 bits stand for arena pointers in map words: offset / ZEN_ARENA_UNIT, 0 is none. */
#define ZEN_ARENA_UNIT	32		/* bytes */

extern char *zen_arena_base;

/* zen_arena_shmem -- make the mapping afresh (postmaster) and attach. FATAL when the memory cannot be reserved. */
extern const ZenShmem zen_arena_shmem;

/*
 * zen_arena_alloc -- size bytes, aligned to ZEN_ARENA_UNIT, not cleared; NULL when the arena is full.  Never throws.
 * zen_arena_free -- give back memory that zen_arena_alloc(size) returned.
 */
extern void *zen_arena_alloc(Size size);
extern void zen_arena_free(void *ptr, Size size);

/*
 * zen_arena_alloc_row, zen_arena_free_row -- the same for row versions, which leave a part of the arena to all else.
 *
 * zen_arena_lacks_spans -- is so little left that row versions should be evicted?
 *
 * zen_arena_rows -- the next span of row versions, from *place on, of which so many eighths are free: its first object,
 * their number and size.  False if there is none.  A hint: some of the objects are free, and all may change while the
 * caller looks at them.
 */
extern void *zen_arena_alloc_row(Size size);
extern void zen_arena_free_row(void *ptr, Size size);
extern bool zen_arena_lacks_spans(void);
extern bool zen_arena_rows(uint32 *place, int eighths, char **first, uint32 *n, Size *size);

/* zen_arena_rounded -- the bytes that zen_arena_alloc(size) really takes; size is not 0. */
#define ZEN_ARENA_SMALL	1024	/* bytes; up to here classes are multiples of
								 * ZEN_ARENA_UNIT */
extern Size zen_arena_rounded_large(Size size);

static inline Size
zen_arena_rounded(Size size)
{
	Assert(size > 0);
	return likely(size <= ZEN_ARENA_SMALL) ? TYPEALIGN(ZEN_ARENA_UNIT, size) : zen_arena_rounded_large(size);
}

/*
 * zen_arena_alloc_or_error -- the same as zen_arena_alloc, but throws the error below when the arena is full.
 * zen_arena_full_error -- throws ERRCODE_OUT_OF_MEMORY with a hint.
 */
extern void *zen_arena_alloc_or_error(Size size);
pg_noreturn extern void zen_arena_full_error(void);

/*
 * zen_arena_drain -- hand all objects in this process's own free lists to all processes.  Called when memory is short,
 * and at the end of the process.
 */
extern void zen_arena_drain(void);

/* zen_arena_usage -- bytes taken so far (never shrinks) and bytes now in use. */
extern void zen_arena_usage(uint64 *taken, uint64 *in_use);

/* zen_arena_row_bytes -- bytes of spans at home on the node at a place that row versions have. */
extern uint64 zen_arena_row_bytes(int place);

/* zen_arena_let_go -- take the arena out of this process's page tables, as zen_nvm_let_go() does with the pool. */
extern void zen_arena_let_go(void);

/* zen_arena_guard -- for tests: may this process write to the arena? */
extern void zen_arena_guard(bool guard);

/* zen_arena_holds -- may an object of this size be at ptr: does all of it lie in the arena? */
extern bool zen_arena_holds(const void *ptr, Size size);

static inline uint64
zen_arena_ref(const void *ptr)
{
	Assert((const char *) ptr > zen_arena_base);
	return (uint64) ((const char *) ptr - zen_arena_base) / ZEN_ARENA_UNIT;
}

static inline void *
zen_arena_ptr(uint64 ref)
{
	Assert(ref != 0);
	return zen_arena_base + ref * ZEN_ARENA_UNIT;
}

/*
 * zen_make_room -- DRAM is full: free all that can be freed.
 *
 * The collector, which stands above this folder, sets it.  Caller is outside any epoch and holds no map word's lock.
 */
extern void (*zen_make_room) (void);

/*
 * zen_find_room -- DRAM is full: make room, at the first call for an object; after that wait for a moment, and make
 * room.
 *
 * *since is 0 at the first call for an object.  False if waiting cannot help, or zen.full_timeout is over.  Otherwise
 * as zen_make_room.  Throws if it is cancelled.
 */
extern bool (*zen_find_room) (TimestampTz *since);

/* zen_find_room_or_error -- the same, but throws zen_arena_full_error() in place of false. */
extern void zen_find_room_or_error(TimestampTz *since);

#endif							/* ZEN_ARENA_H */
