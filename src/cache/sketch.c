/*
 * sketch.c -- a count-min sketch of row reads that missed the Met-Cache.
 *
 * Lines of 128 counters of 4 bits.  A key has one line and three counters in it.  Its estimate is the smallest of the
 * three, and only counters as small as that are raised.
 *
 * There is no lock and no atomic instruction.  So processes may lose each other's counts, which makes an estimate too
 * small by one.  Only the choice of cached rows depends on it.
 *
 * A line stands for LINE_BYTES_CACHED bytes of cache.  So cached rows of 256 bytes or more have at least 8 counters
 * each at 1/64 of their memory.
 */
#include "cache/sketch.h"

#include "storage/shmem.h"

#define LINE_SIZE			64	/* bytes */
#define LINE_BYTES_CACHED	4096
#define PROBES				3
#define REPORT_EVERY		64

typedef union SketchLine
{
	uint8		pairs[LINE_SIZE];	/* two counters each */
	uint64		words[LINE_SIZE / sizeof(uint64)];
} SketchLine;

typedef struct SketchShared
{
	ZenSketch	constant;		/* age apart, which seldom changes */
	char		pad[LINE_SIZE - sizeof(ZenSketch)];
	pg_atomic_uint64 added;
	char		pad2[LINE_SIZE - sizeof(pg_atomic_uint64)];
} SketchShared;

ZenSketch  *zen_sketch = NULL;
static SketchShared *sketch_shared;
static SketchLine *sketch_lines;
static uint32 unreported = 0;	/* reads counted by this process */

static uint32
sketch_size(uint64 cache_bytes)
{
	return (uint32) Max(16, Min(cache_bytes / LINE_BYTES_CACHED, PG_UINT32_MAX));
}

Size
zen_sketch_shmem_size(uint64 cache_bytes)
{
	return add_size(sizeof(SketchShared) + LINE_SIZE, mul_size(sketch_size(cache_bytes), LINE_SIZE));
}

void
zen_sketch_init(uint64 cache_bytes)
{
	bool		found;
	char	   *raw = ShmemInitStruct("zen sketch", zen_sketch_shmem_size(cache_bytes), &found);

	sketch_shared = (SketchShared *) TYPEALIGN(LINE_SIZE, raw);
	zen_sketch = &sketch_shared->constant;
	sketch_lines = (SketchLine *) (sketch_shared + 1);
	unreported = 0;
	if (found)
		return;
	pg_atomic_init_u32(&zen_sketch->age, 0);
	pg_atomic_init_u64(&sketch_shared->added, 0);
	zen_sketch->nlines = sketch_size(cache_bytes);
	memset(sketch_lines, 0, (Size) zen_sketch->nlines * LINE_SIZE);
}

uint64
zen_sketch_key(uint32 htable, uint64 tidno)
{
	uint64		key = tidno ^ ((uint64) htable << 40);

	/* odd factors spread each bit upwards, the shifts bring it down again */
	key *= UINT64CONST(0x9E3779B97F4A7C15);
	key ^= key >> 32;
	key *= UINT64CONST(0xD6E8FEB86659FD93);
	return key ^ key >> 32;
}

static inline SketchLine *
line_of(uint64 key)
{
	return &sketch_lines[(key >> 32) * zen_sketch->nlines >> 32];
}

/* The i-th counter of a key in its line, 0..127. */
static inline uint32
probe(uint64 key, int i)
{
	return (uint32) (key >> (7 * i)) % (2 * LINE_SIZE);
}

static inline uint32
read_counter(SketchLine *line, uint32 at)
{
	return (line->pairs[at / 2] >> (at % 2 * 4)) & ZEN_SKETCH_MAX;
}

static inline void
raise_counter(SketchLine *line, uint32 at, uint32 n)
{
	uint32		shift = at % 2 * 4;
	uint8		pair = line->pairs[at / 2];

	if (((pair >> shift) & ZEN_SKETCH_MAX) < n)
		line->pairs[at / 2] = (uint8) ((pair & ~(ZEN_SKETCH_MAX << shift)) | (n << shift));
}

uint32
zen_sketch_estimate(uint64 key)
{
	SketchLine *line = line_of(key);
	uint32		smallest = ZEN_SKETCH_MAX;

	Assert(line >= sketch_lines && line < sketch_lines + zen_sketch->nlines);
	for (int i = 0; i < PROBES; i++)
		smallest = Min(smallest, read_counter(line, probe(key, i)));
	return smallest;
}

void
zen_sketch_raise(uint64 key, uint32 n)
{
	SketchLine *line = line_of(key);

	Assert(n <= ZEN_SKETCH_MAX);
	for (int i = 0; i < PROBES; i++)
		raise_counter(line, probe(key, i), n);
}

uint32
zen_sketch_add(uint64 key)
{
	uint32		n = zen_sketch_estimate(key);

	n = Min(n + 1, ZEN_SKETCH_MAX);
	zen_sketch_raise(key, n);
	if (++unreported >= REPORT_EVERY)
	{
		pg_atomic_fetch_add_u64(&sketch_shared->added, unreported);
		unreported = 0;
	}
	return n;
}

void
zen_sketch_tick(uint64 enough)
{
	static uint64 last = 0;
	uint64		added = pg_atomic_read_u64(&sketch_shared->added);

	if (added - last < enough)
		return;
	last = added;
	for (uint32 i = 0; i < zen_sketch->nlines; i++)
		for (int j = 0; j < (int) lengthof(sketch_lines[i].words); j++)
			if (sketch_lines[i].words[j] != 0)
				sketch_lines[i].words[j] = (sketch_lines[i].words[j] >> 1) & UINT64CONST(0x7777777777777777);
	pg_atomic_fetch_add_u32(&zen_sketch->age, 1);
}
