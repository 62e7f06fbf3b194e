/*
 * zentree_shared.c -- one scan of a tree by several processes: which process reads the next leaf, and where it is.
 *
 * A process takes the scan, copies a leaf's entries, notes the fence, and lets go.  Then it hands out what it has
 * copied while others read on.  So each leaf's range is read by one process, and what one process reads is in order.
 *
 * The process that has taken the scan runs comparison functions, and waits for no other.  If it fails, the query ends
 * in all processes.
 */
#include "index/zentree_shared.h"

#include "utils/wait_event.h"

static ZenSharedScan *
shared_of(IndexScanDesc scan)
{
	return (ZenSharedScan *) ((char *) scan->parallel_scan + scan->parallel_scan->ZEN_PARALLEL_SCAN_OFFSET);
}

ZenSharedScan *
zen_shared_take(IndexScanDesc scan)
{
	ZenSharedScan *shared = shared_of(scan);
	ZenSharedState state;

	ConditionVariablePrepareToSleep(&shared->changed);
	for (;;)
	{
		SpinLockAcquire(&shared->lock);
		state = shared->state;
		if (state == ZEN_SHARED_READY)
			shared->state = ZEN_SHARED_TAKEN;
		SpinLockRelease(&shared->lock);
		if (state != ZEN_SHARED_TAKEN)
			break;
		ConditionVariableSleep(&shared->changed, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return state == ZEN_SHARED_READY ? shared : NULL;
}

void
zen_shared_give(ZenSharedScan *shared, ZenSharedState state)
{
	Assert(shared->state == ZEN_SHARED_TAKEN && state != ZEN_SHARED_TAKEN);
	SpinLockAcquire(&shared->lock);
	shared->state = state;
	SpinLockRelease(&shared->lock);
	if (state == ZEN_SHARED_DONE)
		ConditionVariableBroadcast(&shared->changed);
	else
		ConditionVariableSignal(&shared->changed);
}

ZenTreeSlot
zen_shared_fence(ZenSharedScan *shared)
{
	ZenTreeSlot fence = shared->fence;

	Assert(shared->state == ZEN_SHARED_TAKEN && shared->has_fence);
	if (fence.tuple != NULL)
		fence.tuple = &shared->tuple.header;
	return fence;
}

void
zen_shared_set_fence(ZenSharedScan *shared, const ZenTreeSlot *fence)
{
	Assert(shared->state == ZEN_SHARED_TAKEN);
	shared->has_fence = true;
	shared->fence = *fence;
	if (fence->tuple != NULL)
		memcpy(&shared->tuple, fence->tuple, IndexTupleSize(fence->tuple));
}

Size
zentree_estimateparallelscan(ZEN_ESTIMATE_PARALLEL_SCAN_ARGS(Relation index, int nkeys, int norderbys))
{
	return sizeof(ZenSharedScan);
}

void
zentree_initparallelscan(void *target)
{
	ZenSharedScan *shared = target;

	SpinLockInit(&shared->lock);
	ConditionVariableInit(&shared->changed);
	shared->state = ZEN_SHARED_READY;
	shared->steps = 0;
	shared->has_fence = false;
}

void
zentree_parallelrescan(IndexScanDesc scan)
{
	ZenSharedScan *shared = shared_of(scan);

	/* no process is in the scan */
	Assert(shared->state != ZEN_SHARED_TAKEN);
	SpinLockAcquire(&shared->lock);
	shared->state = ZEN_SHARED_READY;
	SpinLockRelease(&shared->lock);
	shared->steps = 0;
	shared->has_fence = false;
}
