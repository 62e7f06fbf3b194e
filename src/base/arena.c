/*
 * arena.c -- shared DRAM allocator.
 *
 * Size classes: multiples of 32 bytes up to 1 KB, above that four per doubling.  Each class has a shared free list
 * under its own spinlock; each process keeps a small magazine per class in front of it, so that most calls touch
 * no shared line.  Small classes are carved from runs of 64 KB, large ones straight from the top of the arena,
 * which only grows.  Classes do not lend to each other: row sizes of a workload are stable, and the simple
 * scheme cannot fragment within a class.
 *
 * Touched memory stays with the server (it is reserved lazily by the kernel).
 */
#include "base/arena.h"

#include <sys/mman.h>

#include "base/guc.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define SMALL_LIMIT		1024	/* bytes; up to here classes are multiples of ZEN_ARENA_UNIT */
#define NSMALL			(SMALL_LIMIT / ZEN_ARENA_UNIT)
#define NLARGE			(4 * 30)	/* four classes per doubling, up to 1 TB */
#define NCLASSES		(NSMALL + NLARGE)
#define RUN_SIZE		(64 * 1024)	/* bytes taken from the top for a small class at once */
#define MAGAZINE		32		/* objects of a class that one process keeps */
#define MAGAZINE_LIMIT	4096	/* bytes; larger objects are not kept in magazines */

/* A free object holds the link to the next one in its first word. */
typedef struct FreeObject
{
	struct FreeObject *next;
} FreeObject;

typedef struct ArenaClass
{
	slock_t		lock;			/* protects the fields below */
	FreeObject *free;
	char	   *run;			/* rest of the run being carved */
	char	   *run_end;
} ArenaClass;

typedef struct ArenaControl
{
	pg_atomic_uint64 top;		/* offset of the first byte never taken */
	pg_atomic_uint64 in_use;	/* bytes handed out and not freed, magazines included */
	ArenaClass	classes[NCLASSES];
} ArenaControl;

typedef struct Magazine
{
	int			n;
	void	   *objects[MAGAZINE];
} Magazine;

char	   *zen_arena_base = NULL;
static Size arena_size = 0;
static ArenaControl *control;
static Magazine magazines[NCLASSES];

/* Class of a request, and the bytes that objects of that class have. */
static int
size_class(Size size, Size *object_size)
{
	int			log2;
	Size		step;
	int			quarter;

	if (size <= SMALL_LIMIT)
	{
		int			c = size == 0 ? 0 : (int) ((size - 1) / ZEN_ARENA_UNIT);

		*object_size = (Size) (c + 1) * ZEN_ARENA_UNIT;
		return c;
	}
	log2 = pg_leftmost_one_pos64(size - 1); /* 2^log2 < size <= 2^(log2+1) */
	step = (Size) 1 << (log2 - 2);
	quarter = (int) ((size - ((Size) 1 << log2) + step - 1) / step);	/* 1..4 */
	*object_size = ((Size) 1 << log2) + quarter * step;
	Assert(quarter >= 1 && quarter <= 4 && *object_size >= size);
	return NSMALL + (log2 - 10) * 4 + quarter - 1;
}

Size
zen_arena_shmem_size(void)
{
	return sizeof(ArenaControl);
}

void
zen_arena_init(void)
{
	bool		found;

	if (zen_arena_base != NULL)
		munmap(zen_arena_base, arena_size);
	arena_size = (Size) zen_dram_size_mb * 1024 * 1024;
	zen_arena_base = mmap(NULL, arena_size, PROT_READ | PROT_WRITE,
						  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (zen_arena_base == MAP_FAILED)
	{
		zen_arena_base = NULL;
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not reserve %d MB of shared memory for zen: %m", zen_dram_size_mb),
				 errhint("Lower zen.dram_size.")));
	}

	control = ShmemInitStruct("zen arena", sizeof(ArenaControl), &found);
	/* reference 0 means none, so the first unit is never handed out */
	pg_atomic_init_u64(&control->top, RUN_SIZE);
	pg_atomic_init_u64(&control->in_use, 0);
	for (int c = 0; c < NCLASSES; c++)
	{
		SpinLockInit(&control->classes[c].lock);
		control->classes[c].free = NULL;
		control->classes[c].run = control->classes[c].run_end = NULL;
		magazines[c].n = 0;
	}
}

/* Take bytes from the top; NULL when they are not there. */
static char *
take_top(Size size)
{
	uint64		old = pg_atomic_read_u64(&control->top);

	do
	{
		if (size > arena_size - old)
			return NULL;
	} while (!pg_atomic_compare_exchange_u64(&control->top, &old, old + size));
	return zen_arena_base + old;
}

/* Fill an empty magazine with up to half its size; returns one object more, or NULL when there is none. */
static void *
refill(ArenaClass *class, Magazine *mag, Size object_size)
{
	int			want = object_size <= MAGAZINE_LIMIT ? MAGAZINE / 2 : 0;
	void	   *result = NULL;

	Assert(mag->n == 0);
	SpinLockAcquire(&class->lock);
	for (;;)
	{
		void	   *object;

		if (class->free != NULL)
		{
			object = class->free;
			class->free = class->free->next;
		}
		else if (class->run_end - class->run >= (ptrdiff_t) object_size)
		{
			object = class->run;
			class->run += object_size;
		}
		else
			break;
		if (result == NULL)
			result = object;
		else
			mag->objects[mag->n++] = object;
		if (mag->n >= want)
			break;
	}
	SpinLockRelease(&class->lock);
	return result;
}

/* Give a small class a new run to carve. */
static bool
new_run(ArenaClass *class)
{
	char	   *run = take_top(RUN_SIZE);

	if (run == NULL)
		return false;
	SpinLockAcquire(&class->lock);
	class->run = run;			/* the end of an old run, less than one object or taken by a racer, is lost */
	class->run_end = run + RUN_SIZE;
	SpinLockRelease(&class->lock);
	return true;
}

void *
zen_arena_alloc(Size size)
{
	Size		object_size;
	int			c = size_class(size, &object_size);
	ArenaClass *class = &control->classes[c];
	Magazine   *mag = &magazines[c];
	void	   *result;

	if (mag->n > 0)
		return mag->objects[--mag->n];

	result = refill(class, mag, object_size);
	if (result == NULL && object_size > MAGAZINE_LIMIT)
		result = take_top(object_size);
	while (result == NULL && object_size <= MAGAZINE_LIMIT)
	{
		if (!new_run(class))
			return NULL;
		result = refill(class, mag, object_size);
	}
	if (result != NULL)
		pg_atomic_fetch_add_u64(&control->in_use, object_size * (1 + mag->n));
	return result;
}

/* Move objects of a magazine to the shared list until only keep are left. */
static void
drain(int c, int keep, Size object_size)
{
	Magazine   *mag = &magazines[c];
	ArenaClass *class = &control->classes[c];
	int			moved = 0;

	SpinLockAcquire(&class->lock);
	while (mag->n > keep)
	{
		FreeObject *object = mag->objects[--mag->n];

		object->next = class->free;
		class->free = object;
		moved++;
	}
	SpinLockRelease(&class->lock);
	pg_atomic_fetch_sub_u64(&control->in_use, object_size * moved);
}

void
zen_arena_free(void *ptr, Size size)
{
	Size		object_size;
	int			c = size_class(size, &object_size);
	Magazine   *mag = &magazines[c];

	Assert((char *) ptr > zen_arena_base && (char *) ptr < zen_arena_base + arena_size);
#ifdef CLOBBER_FREED_MEMORY
	memset(ptr, 0x7F, object_size);
#endif
	if (mag->n == MAGAZINE)
		drain(c, MAGAZINE / 2, object_size);
	mag->objects[mag->n++] = ptr;
	if (object_size > MAGAZINE_LIMIT)
		drain(c, 0, object_size);
}

void
zen_arena_full_error(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("zen's shared memory is full"),
			 errdetail("All %d MB of zen.dram_size are in use.", zen_dram_size_mb),
			 errhint("Raise zen.dram_size, or end long-running transactions that keep old row versions.")));
}

void *
zen_arena_alloc_or_error(Size size)
{
	void	   *result = zen_arena_alloc(size);

	if (result == NULL)
		zen_arena_full_error();
	return result;
}

void
zen_arena_detach(void)
{
	for (int c = 0; c < NCLASSES; c++)
	{
		Size		object_size;

		if (magazines[c].n == 0)
			continue;
		if (c < NSMALL)
			object_size = (Size) (c + 1) * ZEN_ARENA_UNIT;
		else
		{
			int			log2 = 10 + (c - NSMALL) / 4;

			object_size = ((Size) 1 << log2) + (Size) ((c - NSMALL) % 4 + 1) * ((Size) 1 << (log2 - 2));
		}
		drain(c, 0, object_size);
	}
}

void
zen_arena_usage(uint64 *taken, uint64 *in_use)
{
	*taken = pg_atomic_read_u64(&control->top);
	*in_use = pg_atomic_read_u64(&control->in_use);
}
