/*
 * partition.h -- the soft partition: values of partition keys belong to NUMA nodes, and sessions go there.
 */
#ifndef ZEN_PARTITION_H
#define ZEN_PARTITION_H

#include "base/compat.h"

#define ZEN_MAX_VOTES	64

/* Values of partition keys that a transaction names at its beginning, hashed. */
typedef struct ZenPartitionVotes
{
	int			n;
	uint32		hash[ZEN_MAX_VOTES];
} ZenPartitionVotes;

typedef struct ZenPartitionInfo
{
	int			place;			/* of the node, in base/numa.h */
	uint64		accesses;		/* votes for it */
	uint32		moves;			/* to another node */
} ZenPartitionInfo;

/* Is zen.numa = soft in force?  Not with one node, or if all files of the pool are on one. */
extern bool zen_partition_soft;

/*
 * zen_partition_init -- after the pool is open; places: the bit of each node with a file, by place.
 */
extern Size zen_partition_shmem_size(void);
extern void zen_partition_init(uint32 places);

/*
 * zen_partition_begin -- a transaction begins, and has written nothing: count its votes, and move the session to the
 * node where it belongs.
 *
 * Never throws.
 */
extern void zen_partition_begin(const ZenPartitionVotes *votes);

/* zen_partition_tick -- the background worker, at any time: measure load, and map partitions anew, once a second. */
extern void zen_partition_tick(void);

/* zen_partition_load -- of the node at a place, as the worker has measured it last: sessions act upon it. */
extern double zen_partition_load(int place);

/* zen_partition_look -- at one of zen_numa_partitions. */
extern ZenPartitionInfo zen_partition_look(int partition);

#endif							/* ZEN_PARTITION_H */
