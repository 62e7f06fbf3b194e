/*
 * testing.h -- settings for tests and measurements.
 *
 * A build with -DZEN_TESTING (make ZEN_TESTING=1; ZEN_FAULTS=1 implies it) has them.  In any other build they are
 * constants, so the code that they would change costs nothing.  doc/testing.md describes each.
 */
#ifndef ZEN_TESTING_H
#define ZEN_TESTING_H

#include "base/compat.h"

#ifdef ZEN_TESTING

/* Nanoseconds for each line flushed and for each fence, added to what the medium takes. */
extern int	zen_flush_delay_ns;
extern int	zen_fence_delay_ns;

/* Nanoseconds for each line of a row that is read from another node, or written there; -1: as for a read. */
extern int	zen_remote_delay_ns;
extern int	zen_remote_write_delay_ns;

extern int	zen_numa_simulate;	/* sets of processors that count as nodes; 0:
								 * the machine's nodes do */
extern char *zen_numa_simulate_load;	/* percent, by node; auto: measured */
extern int	zen_numa_partitions;	/* that the values of partition keys are
									 * divided into */
extern bool zen_debug_keep_plans;	/* keep state of any plan, and at once */
extern int	zen_freeze_age;		/* transactions between two sweeps over all
								 * entries in DRAM */
extern int	zen_stream_ahead;	/* added to the format version of the records
								 * in the WAL */

/* zen_testing_init -- define the settings.  Called once, by zen_guc_init(). */
extern void zen_testing_init(void);

#else

#define zen_flush_delay_ns			0
#define zen_fence_delay_ns			0
#define zen_remote_delay_ns			0
#define zen_remote_write_delay_ns	(-1)
#define zen_numa_simulate			0
#define zen_numa_simulate_load		"auto"
#define zen_numa_partitions			2048
#define zen_debug_keep_plans		false
#define zen_freeze_age				(100 * 1000 * 1000)
#define zen_stream_ahead			0

static inline void
zen_testing_init(void)
{
}

#endif							/* ZEN_TESTING */

#endif							/* ZEN_TESTING_H */
