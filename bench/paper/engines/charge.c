/*
 * charge.c -- what stores and reads of NVM cost below the program.
 *
 * DRAM in NVM's place hides what a design costs there: a store that nobody flushes costs nothing, a line that was read
 * lately costs as much as one of NVM would, and a single line costs as much as a line among its neighbours.  So this is
 * a model of two layers, for each thread:
 *
 * A write-back cache of lines, set-associative, the line that was used last in front.  A read brings a line in.  So
 * does a store, which changes only a part of it.  A flush writes a changed line back and leaves it in the cache, clean.
 * A changed line that makes room for another one is evicted: it reaches the medium, though nobody has flushed it.
 *
 * A buffer of units, as Optane has it before its media of 256 bytes (Yang and others, FAST 2020).  A line that comes
 * from the cache waits here for its neighbours.  The unit that was used least recently leaves the buffer, and only then
 * is it written.  If lines of it are missing, it is read first: it is filled.  A line that the cache wants is read with
 * all of its unit.
 *
 * So units read and written are what the medium does, whoever has caused it.  The thread that lets a unit leave the
 * buffer, or that reads one, is charged.  Charges are a device's work, not latency: a device does other work at the
 * same time, up to its bandwidth.
 *
 * What is not modelled: DRAM takes no room in the cache.  A line that two threads store to is changed in both caches.
 * Indexes are not compared at all.  Lines that a run leaves in caches and buffers are not counted, so a run that is
 * measured has transactions before it that are not.
 *
 * Nothing here depends on time or on addresses of the process: the same calls give the same counts.
 *
 * A power cut asks which lines have reached the medium.  There medium.c decides at random, and this is off.
 */
#include "charge.h"

#undef printf
#include "base/delay.h"
#include "nvm/layout.h"

#define NO_UNIT		PG_UINT64_MAX

/* A line of the cache: 0, or twice its number in the memory plus 2, plus 1 if it was changed. */
typedef uint64 CacheLine;

typedef struct BufferUnit
{
	uint64		unit;
	uint32		changed;		/* lines that came from the cache, by bit */
	bool		whole;			/* the other lines were read */
} BufferUnit;

typedef struct Layers
{
	BufferUnit	buffer[CHARGE_MAX_BUFFER];
	CacheLine	lines[FLEXIBLE_ARRAY_MEMBER];
} Layers;

ChargeSettings charge_settings = {.ways = 16,.unit = 256,.buffer = 16,.write_ns = 356,.read_ns = 195};
__thread ChargeCounters charge_counters;

static uintptr_t memory;		/* charged for, from here ... */
static uintptr_t memory_end;	/* ... to here */
static uint64 nsets;
static __thread Layers *layers;

void
charge_open(const void *base, Size size)
{
	memory = memory_end = 0;
	if (charge_settings.cache == 0)
		return;
	Assert(charge_settings.ways <= CHARGE_MAX_WAYS && charge_settings.buffer <= CHARGE_MAX_BUFFER);
	nsets = Max(1, charge_settings.cache / ZEN_LINE / charge_settings.ways);
	memory = (uintptr_t) base;
	memory_end = memory + size;
	/* a thread's layers are those of one memory */
	free(layers);
	layers = NULL;
}

static void
make_layers(void)
{
	layers = calloc(1, sizeof(Layers) + nsets * charge_settings.ways * sizeof(CacheLine));
	if (layers == NULL)
		abort();
	for (uint32 i = 0; i < charge_settings.buffer; i++)
		layers->buffer[i].unit = NO_UNIT;
}

static void
take_time(uint32 ns)
{
	charge_counters.ns += ns;
	if (charge_settings.wait && ns > 0)
		zen_delay(ns);
}

/* ---------- the buffer ---------- */

static uint32
lines_per_unit(void)
{
	return charge_settings.unit / ZEN_LINE;
}

static void
read_unit(void)
{
	charge_counters.units_read++;
	take_time(charge_settings.read_ns);
}

/* A unit leaves the buffer. */
static void
let_go(const BufferUnit *u)
{
	if (u->unit == NO_UNIT || u->changed == 0)
		return;
	if (!u->whole && u->changed != (1u << lines_per_unit()) - 1)
	{
		charge_counters.units_filled++;
		read_unit();
	}
	charge_counters.units_written++;
	take_time(charge_settings.write_ns);
}

/* The place of a line's unit, which is the first one of the buffer from now on. */
static BufferUnit *
buffer_unit(uint64 line)
{
	BufferUnit *buffer = layers->buffer;
	uint64		unit = line / lines_per_unit();
	uint32		i = 0;
	BufferUnit	u;

	while (i < charge_settings.buffer - 1 && buffer[i].unit != unit)
		i++;
	u = buffer[i];
	if (u.unit != unit)
	{
		let_go(&u);
		u = (BufferUnit)
		{
			.unit = unit
		};
	}
	memmove(buffer + 1, buffer, i * sizeof(BufferUnit));
	buffer[0] = u;
	return &buffer[0];
}

static void
write_line(uint64 line)
{
	buffer_unit(line)->changed |= 1u << (line % lines_per_unit());
}

static void
read_line(uint64 line)
{
	BufferUnit *u = buffer_unit(line);

	charge_counters.lines_in++;
	if (u->whole || (u->changed & 1u << (line % lines_per_unit())) != 0)
		return;
	read_unit();
	u->whole = true;
}

/* ---------- the cache ---------- */

static CacheLine
entry_of(uint64 line)
{
	return line * 2 + 2;
}

static uint64
line_of(CacheLine entry)
{
	return entry / 2 - 1;
}

static bool
is_changed(CacheLine entry)
{
	return (entry & 1) != 0;
}

static bool
is_line(CacheLine entry, uint64 line)
{
	return (entry & ~UINT64CONST(1)) == entry_of(line);
}

/* The set of a line, and its place there, or that of the line that was used least recently. */
static CacheLine *
find_line(uint64 line, uint32 *way)
{
	CacheLine  *set = &layers->lines[(line * UINT64CONST(0x9E3779B97F4A7C15) >> 32) % nsets * charge_settings.ways];

	*way = 0;
	while (*way < charge_settings.ways - 1 && !is_line(set[*way], line))
		(*way)++;
	return set;
}

static void
use_line(uint64 line, bool change)
{
	uint32		way;
	CacheLine  *set = find_line(line, &way);
	CacheLine	entry = set[way];

	if (!is_line(entry, line))
	{
		if (is_changed(entry))
		{
			charge_counters.lines_evicted++;
			write_line(line_of(entry));
		}
		read_line(line);
		entry = entry_of(line);
	}
	memmove(set + 1, set, way * sizeof(CacheLine));
	set[0] = change ? entry | 1 : entry;
}

static void
clean_line(uint64 line)
{
	uint32		way;
	CacheLine  *set = find_line(line, &way);

	if (!is_line(set[way], line) || !is_changed(set[way]))
		return;
	set[way] &= ~UINT64CONST(1);
	charge_counters.lines_cleaned++;
	write_line(line);
}

/* It leaves the cache: what is left is the set's last place, without a line. */
static void
stream_line(uint64 line)
{
	uint32		way;
	CacheLine  *set = find_line(line, &way);

	if (is_line(set[way], line))
	{
		memmove(set + way, set + way + 1, (charge_settings.ways - 1 - way) * sizeof(CacheLine));
		set[charge_settings.ways - 1] = 0;
	}
	write_line(line);
}

static void
read_cached(uint64 line)
{
	use_line(line, false);
}

static void
store_cached(uint64 line)
{
	use_line(line, true);
}

/* ---------- ranges ---------- */

static void
each_line(const void *addr, Size len, void (*touch) (uint64 line))
{
	uintptr_t	start = (uintptr_t) addr;

	if (memory == 0 || len == 0 || start < memory || start >= memory_end)
		return;
	Assert(start + len <= memory_end);
	if (layers == NULL)
		make_layers();
	for (uint64 line = (start - memory) / ZEN_LINE; line <= (start + len - 1 - memory) / ZEN_LINE; line++)
		touch(line);
}

void
charge_read(const void *addr, Size len)
{
	each_line(addr, len, read_cached);
}

void
charge_store(const void *addr, Size len)
{
	each_line(addr, len, store_cached);
}

void
charge_flush(const void *addr, Size len)
{
	each_line(addr, len, clean_line);
}

void
charge_stream(const void *addr, Size len)
{
	each_line(addr, len, stream_line);
}
