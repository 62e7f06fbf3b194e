/*
 * numa.h -- the machine's NUMA nodes: which there are, on which a process runs, how far they are from each other.
 *
 * With one node, or zen.numa = off, zen_numa_nodes is 1 and nothing else here is called.
 */
#ifndef ZEN_NUMA_H
#define ZEN_NUMA_H

#include "base/compat.h"

#include "base/startup.h"

#define ZEN_MAX_NODES	16

/* Nodes with processors, by place from 0 on.  Their numbers, as the kernel counts, may have gaps. */
extern int	zen_numa_nodes;

/* zen_numa_detect -- look which nodes there are; the postmaster, before it asks for shared memory. */
extern void zen_numa_detect(void);

/* zen_numa_shmem -- its part of shared memory. */
extern const ZenShmem zen_numa_shmem;

/* zen_numa_here -- the place of the node on which this process runs now. */
extern int	zen_numa_here(void);

/* zen_numa_number -- the kernel's number of the node at a place; zen_numa_place -- the other way, -1 for none. */
extern int32 zen_numa_number(int place);
extern int	zen_numa_place(int32 number);

/* zen_numa_distance -- from a place to a node of that number, as the kernel tells; large if it is not known. */
extern int	zen_numa_distance(int place, int32 number);

/* zen_numa_nearest -- the place that is the i-th nearest to a place, which is the 0-th itself. */
extern int	zen_numa_nearest(int place, int i);

/* zen_numa_node_of_file -- number of the node that the device below a file belongs to; -1: it is not known. */
extern int32 zen_numa_node_of_file(int fd);

/*
 * zen_numa_prefer -- memory that this process takes from now on comes from that node; -1: as it was before.
 * zen_numa_bind -- so does that of a shared mapping; zen_numa_divide -- its stripes come from all nodes in turn.
 *
 * These are hints to the kernel: nothing happens if there is one node, or if the topology is simulated.
 */
extern void zen_numa_prefer(int32 number);
extern void zen_numa_bind(char *base, Size size, int32 number);
extern void zen_numa_divide(char *base, Size size, Size stripe);

/* ---------- what is counted, where there are several nodes ---------- */

typedef struct ZenNumaCounts
{
	uint64		rows_local;		/* written to the node by processes on it */
	uint64		rows_remote;	/* ... by others */
	uint64		lines_local;	/* of them */
	uint64		lines_remote;
	uint64		pages_remote;	/* taken because the writer's node had none */
	uint64		rows_read_local;	/* from NVM of the node, by processes on
									 * it */
	uint64		rows_read_remote;	/* ... by others */
	uint64		lines_read_local;
	uint64		lines_read_remote;
	uint64		moves;			/* of sessions to the node */
} ZenNumaCounts;

/* zen_numa_count_row, zen_numa_count_page -- this process, on the node at `from`, has written to the one at `to`. */
extern void zen_numa_count_row(int from, int to, uint64 lines);
extern void zen_numa_count_page(int to);

/* zen_numa_count_read -- this process has read a row from the node at a place. */
extern void zen_numa_count_read(int from, uint64 lines);

/* zen_numa_sum -- counts of the node at a place since the last reset, and how many sessions wrote last from there. */
extern void zen_numa_sum(int place, ZenNumaCounts *sum, int *sessions);

/* zen_numa_reset -- the counts begin at 0 again. */
extern void zen_numa_reset(void);

/* zen_numa_sessions -- only how many sessions; zen_numa_processors -- of the node at a place. */
extern int	zen_numa_sessions(int place);
extern int	zen_numa_processors(int place);

/*
 * zen_numa_run_on -- this process runs on the node at a place from now on; its session counts there.
 *
 * It keeps to the processors that it was allowed when it called first.  False, and nothing has changed, if none of the
 * node is among them.
 */
extern bool zen_numa_run_on(int place);

/*
 * zen_numa_load -- share of the node's processors that was busy since this process has asked last, or since the
 * machine's start; -1 if nothing is known.  zen.numa_simulate_load counts in place of it.
 */
extern double zen_numa_load(int place);

#endif							/* ZEN_NUMA_H */
