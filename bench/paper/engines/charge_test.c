/*
 * charge_test.c -- what charge.c counts for a few sequences of calls whose counts can be told by hand; prints TAP.
 */
#include "charge.h"

#include "server.h"

#undef printf
#undef fprintf
#include "nvm/layout.h"

#define LINES_OF_CACHE	64
#define UNITS_OF_BUFFER	4

/* A cache of one set, so the line that was used least recently is known. */
static char *memory;
static int	ntests;
static int	failures;

void
ExceptionalCondition(ASSERTION_ARGS)
{
	fprintf(stderr, "charge_test: assertion failed: %s, %s:%d\n", condition, file, line);
	abort();
}

static void
begin(uint32 unit)
{
	static char *area = NULL;

	if (area == NULL && posix_memalign((void **) &area, 4096, 1 << 20) != 0)
		abort();
	memory = area;
	charge_settings = (ChargeSettings)
	{
		.cache = LINES_OF_CACHE * ZEN_LINE,.ways = LINES_OF_CACHE,.unit = unit,.buffer = UNITS_OF_BUFFER,
			.write_ns = 100,.read_ns = 10
	};
	charge_open(memory, 1 << 20);
	memset(&charge_counters, 0, sizeof(charge_counters));
}

static void
is(uint64 found, uint64 expected, const char *what)
{
	bool		ok = found == expected;

	failures += !ok;
	printf("%s %d - %s: " UINT64_FORMAT "\n", ok ? "ok" : "not ok", ++ntests, what, expected);
	if (!ok)
		printf("# found " UINT64_FORMAT "\n", found);
}

static char *
line_at(int n)
{
	return memory + n * ZEN_LINE;
}

/* Read so many lines, each of another unit, that all others leave the cache and the buffer. */
static void
push_out(void)
{
	for (int i = 0; i < LINES_OF_CACHE; i++)
		charge_read(line_at(1024 + 4 * i), 1);
}

static void
test_reads(void)
{
	begin(256);
	charge_read(line_at(0), 256);
	is(charge_counters.lines_in, 4, "reading 256 bytes brings in lines");
	is(charge_counters.units_read, 1, "... and reads units");
	charge_read(line_at(0), 256);
	is(charge_counters.lines_in, 4, "what is in the cache is not read again");
	push_out();
	is(charge_counters.units_written, 0, "a line that was read only is not written");
	memset(&charge_counters, 0, sizeof(charge_counters));
	charge_read(line_at(0) + 60, 8);
	is(charge_counters.lines_in, 2, "8 bytes over a border are in two lines");
	is(charge_counters.ns, 10, "time of one unit read");
}

static void
test_evictions(void)
{
	begin(256);
	charge_store(line_at(1), 8);
	is(charge_counters.lines_in, 1, "a store brings its line in");
	is(charge_counters.units_written, 0, "... and writes nothing yet");
	for (int i = 0; i < 100; i++)
		charge_store(line_at(1), 64);
	push_out();
	is(charge_counters.lines_evicted, 1, "changed 101 times, evicted once");
	is(charge_counters.lines_cleaned, 0, "nobody has flushed");
	push_out();
	charge_read(line_at(500), 8);
	for (int i = 0; i < UNITS_OF_BUFFER; i++)
		charge_read(line_at(600 + 4 * i), 8);
	is(charge_counters.units_written, 1, "its unit was written");
	is(charge_counters.units_filled, 1, "... and read before, as the other lines were missing");
}

static void
test_flushes(void)
{
	begin(256);
	charge_store(line_at(0), 256);
	charge_flush(line_at(0), 256);
	is(charge_counters.lines_cleaned, 4, "a flush writes changed lines back");
	charge_flush(line_at(0), 256);
	is(charge_counters.lines_cleaned, 4, "... and no others");
	charge_read(line_at(0), 256);
	is(charge_counters.lines_in, 4, "flushed lines stay in the cache");
	push_out();
	is(charge_counters.lines_evicted, 0, "... clean");
	is(charge_counters.units_written, 1, "four lines of a unit are written together");
	is(charge_counters.units_filled, 0, "... without a fill");
	begin(64);
	charge_store(line_at(0), 256);
	charge_flush(line_at(0), 256);
	push_out();
	is(charge_counters.units_written, 4, "with units of 64 bytes each line is one");
	is(charge_counters.units_filled, 0, "... and none is filled");
}

static void
test_streams(void)
{
	begin(256);
	charge_stream(line_at(0), 256);
	is(charge_counters.lines_in, 0, "stores past the cache bring nothing in");
	push_out();
	is(charge_counters.units_written, 1, "... and write units");
	begin(256);
	charge_store(line_at(0), 8);
	charge_stream(line_at(0), 64);
	push_out();
	is(charge_counters.lines_evicted, 0, "a line that was changed in the cache leaves it by such a store");
}

static void
test_bounds(void)
{
	begin(256);
	charge_store(&ntests, sizeof(ntests));
	is(charge_counters.lines_in, 0, "memory that is not charged for");
	charge_settings.cache = 0;
	charge_open(memory, 1 << 20);
	charge_store(memory, 8);
	is(charge_counters.lines_in, 0, "no cache: nothing is charged for");
}

int
main(void)
{
	test_reads();
	test_evictions();
	test_flushes();
	test_streams();
	test_bounds();
	printf("1..%d\n", ntests);
	return failures > 0;
}
