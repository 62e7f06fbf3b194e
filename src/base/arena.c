/*
 * arena.c -- shared DRAM allocator.
 *
 * src/base/README, "Shared DRAM", has spans, classes, magazines and the order of locks; src/cache/README, "Spans", why
 * row versions have spans of their own; src/nvm/README, "NUMA nodes", which spans are at home on which node.
 *
 * Size classes are multiples of 32 bytes up to 1 KB, above that eight per doubling.
 */
#include "base/arena.h"

#include <sys/mman.h>

#include "base/guc.h"
#include "base/locks.h"
#include "base/numa.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/pg_shmem.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define SPAN_SIZE		((Size) 256 * 1024)
#define NSMALL			(ZEN_ARENA_SMALL / ZEN_ARENA_UNIT)
#define OBJECT_LIMIT	(SPAN_SIZE / 4) /* larger requests take whole spans */
#define STEPS_LOG2		3		/* above: 2^3 classes per doubling */
#define NCLASSES		(NSMALL + (6 << STEPS_LOG2))	/* 1 KB to 64 KB: six
														 * doublings */
#define MAGAZINE		32		/* objects of a class that one process keeps */
#define MAGAZINE_LIMIT	4096	/* bytes; larger objects are not kept in
								 * magazines */
#define ALL_CLASSES		((1 + ZEN_MAX_NODES) * NCLASSES)	/* those of row versions
															 * come last, home by
															 * home */
#define STRIPES			32		/* of each home at most: each is a mapping of
								 * its own to the kernel */
#define RESERVED_PART	16		/* of the spans, one in so many is not for
								 * rows */
#define GOAL_PART		32		/* free ones besides, which making room aims
								 * at */
#define ANY_HOME		(-1)
#define NO_SPAN			0		/* span 0 holds the span table, and reference
								 * 0 means none */

/* A free object holds the link to the next one in its first word. */
typedef struct FreeObject
{
	struct FreeObject *next;
} FreeObject;

typedef enum SpanState
{
	SPAN_FREE = 0,
	SPAN_OBJECTS,				/* serves a class */
	SPAN_WHOLE					/* first, or a further one, of a large object */
} SpanState;

/* Fields are under the class's lock while SPAN_OBJECTS, else under the span lock. */
typedef struct Span
{
	FreeObject *free;			/* objects given back */
	uint32		nfree;			/* free objects, those never carved included */
	uint32		carved;			/* objects carved so far */
	uint32		next,
				prev;			/* in the class's list of spans with free
								 * objects, or the list of free spans */
	uint16		class;
	uint16		state;			/* SpanState */
} Span;

typedef struct ArenaClass
{
	slock_t		lock;
	uint32		partial;		/* first span with free objects */
} ArenaClass;

typedef struct ArenaControl
{
	slock_t		span_lock;		/* protects the next four */
	uint32		free_spans[ZEN_MAX_NODES];	/* by home: the first free one;
											 * never used ones come last */
	uint32		top;			/* no span from here on was ever used */
	uint32		turn;			/* whose home gives a span to all others next */
	uint32		most;			/* spans in use at any time */
	uint32		nspans;
	pg_atomic_uint32 left;		/* free spans; written under the span lock,
								 * read without */
	pg_atomic_uint64 in_use;	/* bytes handed out and not given back,
								 * magazines included */
	pg_atomic_uint64 row_spans[ZEN_MAX_NODES];	/* of row versions, by home */
	ArenaClass	classes[ALL_CLASSES];
} ArenaControl;

typedef struct Magazine
{
	int			n;
	void	   *objects[MAGAZINE];
} Magazine;

char	   *zen_arena_base = NULL;
void		(*zen_make_room) (void) = NULL;
bool		(*zen_find_room) (TimestampTz *since) = NULL;

static Size arena_size = 0;
static uint32 nhomes = 1;
static uint32 stripe = 1;		/* spans in a row that have the same home */
static ArenaControl *arena;
static Span *spans;				/* the table, at the arena's start */
static Magazine magazines[ALL_CLASSES];

/* ---------- classes ---------- */

static inline bool
is_of_rows(int c)
{
	return c >= NCLASSES;
}

static inline int
row_class(int class, int home)
{
	return (1 + home) * NCLASSES + class;
}

static inline int
home_of_rows(int c)
{
	Assert(is_of_rows(c));
	return c / NCLASSES - 1;
}

static Size
class_size(int c)
{
	int			log2;

	Assert(c >= 0 && c < ALL_CLASSES);
	c %= NCLASSES;
	log2 = 10 + ((c - NSMALL) >> STEPS_LOG2);

	if (c < NSMALL)
		return (Size) (c + 1) * ZEN_ARENA_UNIT;
	return ((Size) 1 << log2) + (Size) ((c - NSMALL) % (1 << STEPS_LOG2) + 1) * ((Size) 1 << (log2 - STEPS_LOG2));
}

static int
class_of(Size size)
{
	int			log2;
	Size		step;

	if (size <= ZEN_ARENA_SMALL)
		return size == 0 ? 0 : (int) ((size - 1) / ZEN_ARENA_UNIT);
	log2 = pg_leftmost_one_pos64(size - 1); /* 2^log2 < size <= 2^(log2+1) */
	step = (Size) 1 << (log2 - STEPS_LOG2);
	return NSMALL + ((log2 - 10) << STEPS_LOG2) + (int) ((size - ((Size) 1 << log2) + step - 1) / step) - 1;
}

static inline uint32
span_of(const void *ptr)
{
	return (uint32) (((const char *) ptr - zen_arena_base) / SPAN_SIZE);
}

static inline int
home_of(uint32 s)
{
	return nhomes == 1 ? 0 : (int) (s / stripe % nhomes);
}

static inline uint32
objects_per_span(int c)
{
	return (uint32) (SPAN_SIZE / class_size(c));
}

/* ---------- lists of spans ---------- */

static void
link_span(uint32 *list, uint32 s)
{
	spans[s].prev = NO_SPAN;
	spans[s].next = *list;
	if (*list != NO_SPAN)
		spans[*list].prev = s;
	*list = s;
}

static void
unlink_span(uint32 *list, uint32 s)
{
	Assert(spans[s].prev == NO_SPAN ? *list == s : spans[spans[s].prev].next == s);
	Assert(spans[s].next == NO_SPAN || spans[spans[s].next].prev == s);
	if (spans[s].prev != NO_SPAN)
		spans[spans[s].prev].next = spans[s].next;
	else
		*list = spans[s].next;
	if (spans[s].next != NO_SPAN)
		spans[spans[s].next].prev = spans[s].prev;
}

/* ---------- start ---------- */

/* The arena in huge pages, all of which are the server's from now on; MAP_FAILED if there are too few. */
static char *
map_huge_pages(Size *mapped)
{
	Size		page_size;
	int			flags;

	GetHugePageSize(&page_size, &flags);
	stripe = Max(stripe, (uint32) (page_size / SPAN_SIZE));
	*mapped = TYPEALIGN(page_size, arena_size);
	return mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);
}

/* The arena in ordinary pages, taken when touched, and in transparent huge ones as far as the system allows. */
static char *
map_pages(Size *mapped)
{
	char	   *base = mmap(NULL, arena_size, PROT_READ | PROT_WRITE,
							MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*mapped = arena_size;
	if (base != MAP_FAILED && huge_pages != HUGE_PAGES_OFF)
		(void) madvise(base, arena_size, MADV_HUGEPAGE);
	return base;
}

/* Make the arena's mapping, aligned to spans, as huge_pages says for all of the server's shared memory. */
static void
map_arena(void)
{
	static Size mapped = 0;
	char	   *base = MAP_FAILED;

	if (zen_arena_base != NULL)
		munmap(zen_arena_base, mapped);
	zen_arena_base = NULL;
	arena_size = (Size) zen_dram_size_mb * 1024 * 1024;
	nhomes = (uint32) zen_numa_nodes;
	stripe = (uint32) (arena_size / SPAN_SIZE / nhomes / STRIPES + 1);
	if (huge_pages != HUGE_PAGES_OFF)
		base = map_huge_pages(&mapped);
	if (base == MAP_FAILED && huge_pages != HUGE_PAGES_ON)
		base = map_pages(&mapped);
	if (base == MAP_FAILED)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not reserve %d MB of shared memory for zen: %m", zen_dram_size_mb),
				 huge_pages == HUGE_PAGES_ON ?
				 errhint("Raise vm.nr_hugepages of the system, set huge_pages to \"try\", or lower zen.dram_size.") :
				 errhint("Lower zen.dram_size.")));
	zen_numa_divide(base, arena_size, stripe * SPAN_SIZE);
	zen_arena_base = base;
}

static void
arena_shmem_init(void)
{
	bool		found;
	Size		table;

	map_arena();
	arena = ShmemInitStruct("zen arena", sizeof(ArenaControl), &found);
	SpinLockInit(&arena->span_lock);
	arena->nspans = (uint32) (arena_size / SPAN_SIZE);
	arena->turn = arena->most = 0;
	pg_atomic_init_u64(&arena->in_use, 0);
	for (int i = 0; i < ZEN_MAX_NODES; i++)
	{
		arena->free_spans[i] = NO_SPAN;
		pg_atomic_init_u64(&arena->row_spans[i], 0);
	}
	for (int c = 0; c < ALL_CLASSES; c++)
	{
		SpinLockInit(&arena->classes[c].lock);
		arena->classes[c].partial = NO_SPAN;
		magazines[c].n = 0;
	}
	/* a fresh mapping is zero, so every span is SPAN_FREE */
	spans = (Span *) zen_arena_base;
	table = mul_size(arena->nspans, sizeof(Span));
	arena->top = (uint32) ((table + SPAN_SIZE - 1) / SPAN_SIZE);
	arena->top = Min(arena->top, arena->nspans);
	pg_atomic_init_u32(&arena->left, arena->nspans - arena->top);
	for (uint32 s = arena->nspans; s-- > arena->top;)
		link_span(&arena->free_spans[home_of(s)], s);
}

const ZenShmem zen_arena_shmem = {.bytes = sizeof(ArenaControl),.init = arena_shmem_init};

/* ---------- spans ---------- */

/* First of n free spans in a row below top, or NO_SPAN; under the span lock. */
static uint32
find_run(uint32 n)
{
	uint32		run = 0;

	ZenAssertSpinLocked(&arena->span_lock);
	for (uint32 s = span_of(spans + arena->nspans - 1) + 1; s < arena->top; s++)
	{
		run = spans[s].state == SPAN_FREE ? run + 1 : 0;
		if (run == n)
			return s - n + 1;
	}
	return NO_SPAN;
}

static inline uint32
reserved_spans(void)
{
	return arena->nspans / RESERVED_PART;
}

/* A free span of any home, of another one each time; under the span lock. */
static uint32
next_in_turn(void)
{
	for (uint32 i = 0; i < nhomes; i++)
	{
		uint32		first = arena->free_spans[arena->turn++ % nhomes];

		if (first != NO_SPAN)
			return first;
	}
	return NO_SPAN;
}

static uint32
choose_spans(uint32 n, int home)
{
	ZenAssertSpinLocked(&arena->span_lock);
	if (n == 1)
		return home != ANY_HOME ? arena->free_spans[home] : next_in_turn();
	return arena->top + n <= arena->nspans ? arena->top : find_run(n);
}

/* Take n spans in a row for a use, one of that home if it is one; NO_SPAN when they are not there, or not for rows. */
static uint32
take_spans(uint32 n, SpanState state, int home, bool rows)
{
	uint32		first = NO_SPAN;

	SpinLockAcquire(&arena->span_lock);
	if (!rows || pg_atomic_read_u32(&arena->left) >= reserved_spans() + n)
		first = choose_spans(n, home);
	if (first != NO_SPAN)
	{
		Assert(first + n <= arena->nspans && pg_atomic_read_u32(&arena->left) >= n);
		for (uint32 s = first; s < first + n; s++)
		{
			Assert(spans[s].state == SPAN_FREE);
			unlink_span(&arena->free_spans[home_of(s)], s);
			spans[s].state = state;
		}
		pg_atomic_write_u32(&arena->left, pg_atomic_read_u32(&arena->left) - n);
		arena->top = Max(arena->top, first + n);
		arena->most = Max(arena->most, arena->nspans - pg_atomic_read_u32(&arena->left));
	}
	SpinLockRelease(&arena->span_lock);
	if (first != NO_SPAN && rows)
		pg_atomic_fetch_add_u64(&arena->row_spans[home_of(first)], n);
	return first;
}

static void
give_spans(uint32 first, uint32 n, bool rows)
{
	SpinLockAcquire(&arena->span_lock);
	for (uint32 s = first; s < first + n; s++)
	{
		Assert(spans[s].state != SPAN_FREE);
		spans[s].state = SPAN_FREE;
		link_span(&arena->free_spans[home_of(s)], s);
	}
	pg_atomic_write_u32(&arena->left, pg_atomic_read_u32(&arena->left) + n);
	SpinLockRelease(&arena->span_lock);
	if (rows)
		pg_atomic_fetch_sub_u64(&arena->row_spans[home_of(first)], n);
}

/* ---------- objects; under the class's lock ---------- */

/* Give the class a span to take objects from. */
static bool
new_span(ArenaClass *class, int c)
{
	uint32		s = take_spans(1, SPAN_OBJECTS, is_of_rows(c) ? home_of_rows(c) : ANY_HOME, is_of_rows(c));

	if (s == NO_SPAN)
		return false;
	spans[s].free = NULL;
	spans[s].nfree = objects_per_span(c);
	spans[s].carved = 0;
	spans[s].class = (uint16) c;
	link_span(&class->partial, s);
	return true;
}

/* Take one object; NULL when the arena is full. */
static void *
take_object(ArenaClass *class, int c)
{
	uint32		s;
	void	   *object;

	ZenAssertSpinLocked(&class->lock);
	if (class->partial == NO_SPAN && !new_span(class, c))
		return NULL;
	s = class->partial;
	Assert(spans[s].state == SPAN_OBJECTS && spans[s].class == c && spans[s].nfree > 0);
	Assert(!is_of_rows(c) || home_of(s) == home_of_rows(c));
	if (spans[s].free != NULL)
	{
		object = spans[s].free;
		spans[s].free = spans[s].free->next;
	}
	else
		object = zen_arena_base + s * SPAN_SIZE + spans[s].carved++ * class_size(c);
	if (--spans[s].nfree == 0)
		unlink_span(&class->partial, s);
	return object;
}

/* Give one object back.  A span that is all free goes back to all classes, unless it is the only one of its class. */
static void
give_object(ArenaClass *class, int c, FreeObject *object)
{
	uint32		s = span_of(object);

	ZenAssertSpinLocked(&class->lock);
	Assert(spans[s].state == SPAN_OBJECTS && spans[s].class == c);
	Assert(spans[s].nfree < objects_per_span(c));
	Assert(((char *) object - zen_arena_base - s * SPAN_SIZE) % class_size(c) == 0);
	object->next = spans[s].free;
	spans[s].free = object;
	if (spans[s].nfree++ == 0)
		link_span(&class->partial, s);
	if (spans[s].nfree == objects_per_span(c) && (spans[s].next != NO_SPAN || spans[s].prev != NO_SPAN))
	{
		unlink_span(&class->partial, s);
		give_spans(s, 1, is_of_rows(c));
	}
}

/* Move objects of a magazine to their spans until only keep are left. */
static void
drain(int c, int keep)
{
	Magazine   *mag = &magazines[c];
	int			moved = mag->n - keep;

	Assert(keep >= 0 && moved >= 0);
	ZEN_COUNT(arena_locks, 1);
	SpinLockAcquire(&arena->classes[c].lock);
	while (mag->n > keep)
		give_object(&arena->classes[c], c, mag->objects[--mag->n]);
	SpinLockRelease(&arena->classes[c].lock);
	pg_atomic_fetch_sub_u64(&arena->in_use, class_size(c) * moved);
}

/* ---------- the interface ---------- */

static uint32
spans_needed(Size size)
{
	return (uint32) ((size + SPAN_SIZE - 1) / SPAN_SIZE);
}

Size
zen_arena_rounded_large(Size size)
{
	return size > OBJECT_LIMIT ? spans_needed(size) * SPAN_SIZE : class_size(class_of(size));
}

static void *
alloc_whole(Size size, int home, bool rows)
{
	uint32		s = take_spans(spans_needed(size), SPAN_WHOLE, home, rows);

	if (s == NO_SPAN)
		return NULL;
	pg_atomic_fetch_add_u64(&arena->in_use, spans_needed(size) * SPAN_SIZE);
	return zen_arena_base + s * SPAN_SIZE;
}

static void
free_whole(void *ptr, Size size, bool rows)
{
	Assert(((char *) ptr - zen_arena_base) % SPAN_SIZE == 0);
	Assert(spans[span_of(ptr)].state == SPAN_WHOLE);
	give_spans(span_of(ptr), spans_needed(size), rows);
	pg_atomic_fetch_sub_u64(&arena->in_use, spans_needed(size) * SPAN_SIZE);
}

static void *
alloc_of_class(int c)
{
	Magazine   *mag = &magazines[c];
	int			want;

	if (mag->n > 0)
		return mag->objects[--mag->n];

	want = class_size(c) <= MAGAZINE_LIMIT ? MAGAZINE / 2 : 1;
	ZEN_COUNT(arena_locks, 1);
	SpinLockAcquire(&arena->classes[c].lock);
	while (mag->n < want)
	{
		void	   *object = take_object(&arena->classes[c], c);

		if (object == NULL)
			break;
		mag->objects[mag->n++] = object;
	}
	SpinLockRelease(&arena->classes[c].lock);
	pg_atomic_fetch_add_u64(&arena->in_use, class_size(c) * mag->n);
	return mag->n > 0 ? mag->objects[--mag->n] : NULL;
}

static void
free_of_class(int c, void *ptr)
{
	Magazine   *mag = &magazines[c];

	if (mag->n == MAGAZINE)
		drain(c, MAGAZINE / 2);
	Assert(mag->n < MAGAZINE);
	mag->objects[mag->n++] = ptr;
	if (class_size(c) > MAGAZINE_LIMIT)
		drain(c, 0);
}

static inline void
clobber(void *ptr, Size size)
{
	Assert((char *) ptr > zen_arena_base && (char *) ptr < zen_arena_base + arena_size);
#ifdef CLOBBER_FREED_MEMORY
	memset(ptr, 0x7F, size);
#endif
}

void *
zen_arena_alloc(Size size)
{
	return size > OBJECT_LIMIT ? alloc_whole(size, ANY_HOME, false) : alloc_of_class(class_of(size));
}

void
zen_arena_free(void *ptr, Size size)
{
	clobber(ptr, size);
	if (size > OBJECT_LIMIT)
		free_whole(ptr, size, false);
	else
		free_of_class(class_of(size), ptr);
}

static inline void *
alloc_row_at(Size size, int home)
{
	return size > OBJECT_LIMIT ? alloc_whole(size, home, true) : alloc_of_class(row_class(class_of(size), home));
}

/* There are several homes: try the process's own first, then the others from near to far. */
static void *
alloc_row_near(Size size)
{
	/* with zen.numa = count any home will do */
	int			home = zen_numa_mode == ZEN_NUMA_COUNT ? (int) (arena->turn % nhomes) : zen_numa_here();
	void	   *row = alloc_row_at(size, home);

	for (int i = 1; row == NULL && i < (int) nhomes; i++)
		row = alloc_row_at(size, zen_numa_nearest(home, i));
	return row;
}

void *
zen_arena_alloc_row(Size size)
{
	return nhomes == 1 ? alloc_row_at(size, 0) : alloc_row_near(size);
}

void
zen_arena_free_row(void *ptr, Size size)
{
	clobber(ptr, size);
	if (size > OBJECT_LIMIT)
		free_whole(ptr, size, true);
	else
		free_of_class(row_class(class_of(size), home_of(span_of(ptr))), ptr);
}

/* ---------- room ---------- */

bool
zen_arena_lacks_spans(void)
{
	return pg_atomic_read_u32(&arena->left) < reserved_spans() + Max(arena->nspans / GOAL_PART, 2);
}

/* All that is read here may change at any time.  So the caller must not rely on it. */
bool
zen_arena_rows(uint32 *place, int eighths, char **first, uint32 *n, Size *size)
{
	for (uint32 s = *place; s < arena->top; s++)
	{
		Span		span = *(volatile Span *) &spans[s];

		if (span.state != SPAN_OBJECTS || span.class >= ALL_CLASSES || !is_of_rows(span.class) ||
			(uint64) span.nfree * 8 < (uint64) objects_per_span(span.class) * eighths)
			continue;
		*place = s + 1;
		*first = zen_arena_base + s * SPAN_SIZE;
		*n = Min(span.carved, objects_per_span(span.class));
		*size = class_size(span.class);
		return true;
	}
	return false;
}

/* The hint is about the part that takes most of the memory. */
void
zen_arena_full_error(void)
{
	uint64		rows = 0;
	uint64		taken = (uint64) (arena->nspans - pg_atomic_read_u32(&arena->left)) * SPAN_SIZE / (1024 * 1024);

	for (int i = 0; i < (int) nhomes; i++)
		rows += zen_arena_row_bytes(i) / (1024 * 1024);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("zen's shared memory is full"),
			 errdetail("Of the %d MB of zen.dram_size row versions take " UINT64_FORMAT " MB, "
					   "and trees of indexes, maps of tables, queues and pages " UINT64_FORMAT " MB.",
					   zen_dram_size_mb, rows, taken - Min(rows, taken)),
			 rows >= taken / 2 ?
			 errhint("The row versions are of transactions that have not ended, or kept for old snapshots: "
					 "see zen_stat_garbage, end these, lower zen.spill_threshold, or raise zen.dram_size.") :
			 errhint("Trees (see zen_stat_indexes) and maps grow with the number of rows: raise zen.dram_size.")));
}

void
zen_find_room_or_error(TimestampTz *since)
{
	if (!zen_find_room(since))
		zen_arena_full_error();
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
zen_arena_drain(void)
{
	for (int c = 0; c < ALL_CLASSES; c++)
		if (magazines[c].n > 0)
			drain(c, 0);
}

void
zen_arena_usage(uint64 *taken, uint64 *in_use)
{
	*taken = (uint64) arena->most * SPAN_SIZE;
	*in_use = pg_atomic_read_u64(&arena->in_use);
}

uint64
zen_arena_row_bytes(int place)
{
	return pg_atomic_read_u64(&arena->row_spans[place]) * SPAN_SIZE;
}

bool
zen_arena_holds(const void *ptr, Size size)
{
	Size		offset = (const char *) ptr - zen_arena_base;

	return (const char *) ptr > zen_arena_base && offset % sizeof(uint64) == 0 &&
		offset < arena_size && size <= arena_size - offset;
}

void
zen_arena_let_go(void)
{
	/* in huge pages older kernels refuse: then it stays as it is */
	(void) madvise(zen_arena_base, arena_size, MADV_DONTNEED);
}

void
zen_arena_guard(bool guard)
{
	if (mprotect(zen_arena_base, arena_size, guard ? PROT_READ : PROT_READ | PROT_WRITE) != 0)
		elog(ERROR, "could not change the protection of zen's shared memory: %m");
}
