/*
 * stats.h -- counters that cost one plain addition.
 *
 * Every process that may use zen has a line-aligned block of its own in shared memory, and alone writes it.  Readers
 * add all blocks up, and may see a sum that is a moment old.
 */
#ifndef ZEN_STATS_H
#define ZEN_STATS_H

#include "base/compat.h"
#include "base/startup.h"
#include "datatype/timestamp.h"

/*
 * The columns of view zen_stat, in this order: counters, gauges, stats_reset.  Makefile puts these two lists into
 * zen--1.0.sql: one X() a line, and a blank line at the end.
 */
#define ZEN_COUNTERS(X) \
	X(commits_zen_only)			/* transactions made durable by LP alone */ \
	X(commits_mixed)			/* transactions decided by PostgreSQL's commit record */ \
	X(commits_prepared)			/* PREPARE TRANSACTION */ \
	X(aborts)					/* transactions and savepoints rolled back after zen writes */ \
	X(slots_written)			/* NVM-tuples written */ \
	X(bytes_written)			/* bytes of them */ \
	X(lines_flushed)			/* cache lines flushed, all purposes */ \
	X(fences)					/* store fences, all purposes */ \
	X(metcache_hits)			/* row reads served from a Met-Cache entry */ \
	X(metcache_misses)			/* row reads served from NVM */ \
	X(metcache_admissions)		/* rows copied from NVM into an entry */ \
	X(metcache_evictions)		/* entries given back to NVM */ \
	X(rows_spilled)				/* rows written before their transaction's commit */ \
	X(versions_freed)			/* superseded versions freed */ \
	X(slots_freed)				/* NVM slots freed */ \
	X(tombstones_freed)			/* of these, tombstones (R5) */ \
	X(region_waits)				/* times a writer found its preferred region taken */ \
	X(word_spins)				/* times a map word was found locked */ \
	X(row_waits)				/* waits for the end of a transaction that has changed or locked a row */ \
	X(arena_locks)				/* times DRAM was taken from or given to the processes' common stock */ \
	X(epoch_raises)				/* batches of retired objects */ \
	X(horizon_looks)			/* looks at the oldest snapshot */ \
	X(point_accesses)			/* statements run with kept executor state */ \
	X(point_kept_plans)			/* ... of which the executor's nodes run */ \
	X(point_fallbacks)			/* such plans that the standard executor ran */ \
	X(point_states_made)		/* times that executor state was made to be
								 * kept */ \
	X(shape_runs)				/* statements run by a plan kept for their shape */ \
	X(shape_plans_made)			/* times that such a plan was made */ \
	X(key_joins)				/* nested loops whose inner rows are found by keys */ \
	X(key_join_rows)			/* ... their outer rows */

#define ZEN_GAUGES(X) \
	X(dram_size_bytes)			/* zen.dram_size */ \
	X(dram_taken_bytes)			/* of it, ever used */ \
	X(dram_used_bytes)			/* of it, used now */ \
	X(dram_used_percent)		/* rounded up */ \
	X(metcache_bytes)			/* of row versions */ \
	X(garbage_pending)			/* row changes whose predecessors are still to
								 * be freed */ \
	X(pages_total)				/* of the pool */ \
	X(pages_free) \
	X(pages_owned)				/* by one table each */ \
	X(pages_shared)				/* by small tables */ \
	X(pool_used_percent)		/* of its pages, rounded up */

/*
 * Why statements are not run with kept executor state: exec/pointplan.c explains them, zen_stat_executor shows them in
 * this order.
 */
#define ZEN_POINT_REASONS(X) \
	X(planned_once) \
	X(new_shape) \
	X(values_matter) \
	X(many_values) \
	X(custom_plan) \
	X(no_parameters) \
	X(compiled) \
	X(parallel) \
	X(subquery) \
	X(merge) \
	X(several_targets) \
	X(transition_table) \
	X(other_table) \
	X(aggregate) \
	X(sort) \
	X(join) \
	X(append) \
	X(bitmap_scan) \
	X(other_node) \
	X(no_table) \
	X(unknown_expression) \
	X(row_trigger) \
	X(returning) \
	X(volatile_lock) \
	X(deferrable_key) \
	X(not_by_key) \
	X(first_run) \
	X(forgotten) \
	X(nested) \
	X(instrumented) \
	X(cursor) \
	X(read_only) \
	X(own_row) \
	X(changed)

typedef enum ZenCounter
{
#define X(name) ZEN_C_##name,
	ZEN_COUNTERS(X)
#undef X
	ZEN_NSHOWN,					/* by zen_stat */
	ZEN_C_stream_records = ZEN_NSHOWN,	/* put into the WAL by zen's resource
										 * manager: zen_stat_stream */
	ZEN_C_stream_bytes,
	ZEN_C_no_reason,
#define X(name) ZEN_C_why_##name,
	ZEN_POINT_REASONS(X)
#undef X
	ZEN_NCOUNTERS
} ZenCounter;

typedef enum ZenGauge
{
#define X(name) ZEN_G_##name,
	ZEN_GAUGES(X)
#undef X
	ZEN_NGAUGES
} ZenGauge;

extern uint64 *zen_my_counters;

#define ZEN_COUNT(name, n)	(zen_my_counters[ZEN_C_##name] += (n))

/* zen_stats_shmem -- attach to the shared counters, or make and clear them (postmaster). */
extern const ZenShmem zen_stats_shmem;

/* zen_stats_attach -- point zen_my_counters at this process's own block.  Called when a backend first uses zen. */
extern void zen_stats_attach(void);

/* zen_stats_sum_of -- the sum of one counter over all processes, since the start of the server. */
extern uint64 zen_stats_sum_of(ZenCounter counter);

/*
 * zen_stats_sum -- sums over all processes since the last reset, into totals[ZEN_NCOUNTERS]; returns when that was, or
 * when the server was started.
 */
extern TimestampTz zen_stats_sum(uint64 *totals);

/* zen_stats_reset -- the counters that zen_stats_sum() gives begin at 0 again. */
extern void zen_stats_reset(void);

#endif							/* ZEN_STATS_H */
