/*
 * testing.c -- definitions of the settings for tests and measurements, and of zen.fault.  Part of builds with
 * ZEN_TESTING only.
 *
 * Faults and values of zen.fault are both made of ZEN_FAULT_LIST, so none can be missing.
 */
#include "base/testing.h"

#include "base/fault.h"
#include "utils/guc.h"

#ifndef ZEN_TESTING
#error "testing.c belongs to builds for tests only"
#endif

int			zen_flush_delay_ns = 0;
int			zen_fence_delay_ns = 0;
int			zen_remote_delay_ns = 0;
int			zen_remote_write_delay_ns = -1;
int			zen_numa_simulate = 0;
char	   *zen_numa_simulate_load = NULL;
int			zen_numa_partitions = 2048;
bool		zen_debug_keep_plans = false;
int			zen_freeze_age = 100 * 1000 * 1000;
int			zen_stream_ahead = 0;

#ifdef ZEN_FAULTS
int			zen_fault = ZEN_FAULT_NONE;

static const struct config_enum_entry fault_options[] = {
#define X(name, setting) {setting, ZEN_FAULT_##name, false},
	ZEN_FAULT_LIST(X)
#undef X
	{NULL, 0, false}
};
#endif

static void
define_delay(const char *name, const char *what, const char *more, int *ns, int least)
{
	DefineCustomIntVariable(name, what, more, ns, least, least, 1000 * 1000, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

void
zen_testing_init(void)
{
	define_delay("zen.flush_delay", "Nanoseconds added for each cache line that is flushed to the pool.",
				 "A pool in DRAM then takes the time of a slower medium.  Not in modes wal and msync.",
				 &zen_flush_delay_ns, 0);
	define_delay("zen.fence_delay", "Nanoseconds added for each fence after flushes.",
				 "Like zen.flush_delay.", &zen_fence_delay_ns, 0);
	define_delay("zen.remote_delay",
				 "Nanoseconds added for each cache line of a row read from or written to another NUMA node.",
				 "Simulated nodes then take the time of a second socket.", &zen_remote_delay_ns, 0);
	define_delay("zen.remote_write_delay",
				 "Nanoseconds added for each cache line of a row written to another NUMA node.",
				 "-1: as zen.remote_delay says, which else is for lines that are read.",
				 &zen_remote_write_delay_ns, -1);
	DefineCustomIntVariable("zen.numa_simulate",
							"Sets of processors that count as NUMA nodes.",
							"0: the machine's nodes.",
							&zen_numa_simulate, 0, 0, 16, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("zen.numa_simulate_load",
							   "Load of each simulated NUMA node, in percent, with commas between.",
							   "auto: what the processors do.",
							   &zen_numa_simulate_load, "auto", PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.numa_partitions",
							"Partitions that the values of partition keys are divided into.",
							"Each belongs to a NUMA node.  Used with zen.numa = soft.",
							&zen_numa_partitions, 2048, 1, 16384, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.debug_keep_plans",
							 "Keeps executor state of all plans that allow it, from their first execution on.",
							 "It makes statements that run once slower.",
							 &zen_debug_keep_plans, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.freeze_age",
							"Transactions after which all row versions in DRAM are looked at for old transaction ids.",
							"Versions are normally frozen, and row locks forgotten, long before.",
							&zen_freeze_age, 100 * 1000 * 1000, 1, 1000 * 1000 * 1000, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.stream_ahead",
							"Added to the format version of zen's records in the write-ahead log.",
							"The server writes and reads as a zen that is by so many versions newer.",
							&zen_stream_ahead, 0, 0, 100, PGC_POSTMASTER, 0, NULL, NULL, NULL);
#ifdef ZEN_FAULTS
	DefineCustomEnumVariable("zen.fault", "Breaks one rule of persistence, for tests.", NULL,
							 &zen_fault, ZEN_FAULT_NONE, fault_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
#endif
}
