/*
 * zentree_shared.h -- one scan of a tree by several processes: which process reads the next leaf, and where it is.
 */
#ifndef ZENTREE_SHARED_H
#define ZENTREE_SHARED_H

#include "base/compat.h"

#include "access/relscan.h"
#include "index/treeshape.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"

typedef enum ZenSharedState
{
	ZEN_SHARED_READY,			/* for the next process that takes it */
	ZEN_SHARED_TAKEN,
	ZEN_SHARED_DONE				/* all has been read */
} ZenSharedState;

typedef struct ZenSharedScan
{
	slock_t		lock;
	ZenSharedState state;		/* under lock */
	ConditionVariable changed;

	/* of the process that has taken it */
	uint32		steps;			/* of arrays: zen_conditions_next() was called
								 * so often */
	bool		has_fence;		/* the next leaf begins, or with backward
								 * ends, here; else the range does */
	ZenTreeSlot fence;			/* its tuple is not valid */
	union
	{
		IndexTupleData header;
		double		align;
		char		bytes[INDEX_SIZE_MASK + 1];
	}			tuple;			/* of fence */
} ZenSharedScan;

/* zen_shared_take -- wait until no other process has the scan, and take it; NULL: it is done. */
extern ZenSharedScan *zen_shared_take(IndexScanDesc scan);

/* zen_shared_give -- let go of it, in state READY or DONE. */
extern void zen_shared_give(ZenSharedScan *shared, ZenSharedState state);

/* zen_shared_fence, zen_shared_set_fence -- read and write the fence.  What is read lives until it is written. */
extern ZenTreeSlot zen_shared_fence(ZenSharedScan *shared);
extern void zen_shared_set_fence(ZenSharedScan *shared, const ZenTreeSlot *fence);

/* Callbacks of the access method. */
extern Size zentree_estimateparallelscan(ZEN_ESTIMATE_PARALLEL_SCAN_ARGS(Relation index, int nkeys, int norderbys));
extern void zentree_initparallelscan(void *target);
extern void zentree_parallelrescan(IndexScanDesc scan);

#endif							/* ZENTREE_SHARED_H */
