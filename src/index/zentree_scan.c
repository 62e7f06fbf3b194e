/*
 * zentree_scan.c -- scans of a tree, by one process or several: src/index/README, "Scans", has the arguments.
 *
 * The state of a scan is large, and most scans are short.  So a process keeps the state of some scans that have ended.
 * A scan that an error ends gives it back when the memory context goes in which it began.
 */
#include "index/zentree.h"

#include "access/relscan.h"
#include "access/xlog.h"
#include "index/zentree_keys.h"
#include "miscadmin.h"
#include "nodes/memnodes.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/* A place to come back to. */
typedef struct Mark
{
	bool		valid;
	ZenTreeSlot slot;			/* the entry that was current */
	IndexTuple	copy;			/* of its tuple; palloced */
	int		   *at;				/* of each condition's array */
} Mark;

typedef struct TreeScan
{
	struct TreeScan *next_idle;
	MemoryContextCallback forgotten;	/* the scan's context goes */

	ZenTree    *tree;
	void	   *reader;			/* of a tree that stands in on a standby */
	ZenTreeShape shape;
	ZenConditions conditions;
	MemoryContext mcxt;

	bool		active;			/* batch and current are set */
	int			current;		/* in batch.slots; -1 or batch.n: beyond */
	bool		resume;			/* go on from mark.slot */
	uint32		steps;			/* of a parallel scan, so far */
	Mark		mark;
	IndexTuple	formed;			/* that the caller was given */
	Size		formed_bytes;	/* of its columns */
	bool		any_dead;
	bool		dead[ZEN_NODE_SLOTS];	/* entries of the batch */
	ZenTreePos	pos;
	ZenTreeBatch batch;
} TreeScan;

const ZenTreeStandby *zen_tree_standby = NULL;

/* ---------- states that are not in use ---------- */

#define MAX_IDLE	8

static TreeScan *idle = NULL;
static int	n_idle = 0;

static void
close_reader(TreeScan *s, bool failed)
{
	void	   *reader = s->reader;

	s->reader = NULL;
	if (reader != NULL)
		zen_tree_standby->close(reader, failed);
}

static void
scan_give_back(void *arg)
{
	TreeScan   *s = arg;

	close_reader(s, true);
	if (n_idle == MAX_IDLE)
	{
		pfree(s);
		return;
	}
	s->next_idle = idle;
	idle = s;
	n_idle++;
}

static TreeScan *
take_idle(void)
{
	TreeScan   *s = idle;

	if (s == NULL)
		return MemoryContextAlloc(TopMemoryContext, sizeof(TreeScan));
	idle = s->next_idle;
	n_idle--;
	return s;
}

/* The scan ends before its context, which must not give the state back once more. */
static void
scan_keep_state(TreeScan *s)
{
	MemoryContextCallback **link = &s->mcxt->reset_cbs;

	while (*link != &s->forgotten)
		link = &(*link)->next;
	*link = s->forgotten.next;
}

static IndexScanDesc
zentree_beginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	TreeScan   *s = take_idle();

	Assert(norderbys == 0);
	s->mcxt = CurrentMemoryContext;
	s->forgotten.func = scan_give_back;
	s->forgotten.arg = s;
	MemoryContextRegisterResetCallback(s->mcxt, &s->forgotten);
	s->tree = NULL;
	s->reader = NULL;
	s->conditions.index = index;
	s->conditions.parent = CurrentMemoryContext;
	s->conditions.mcxt = NULL;
	s->active = s->resume = s->any_dead = false;
	memset(&s->mark, 0, sizeof(s->mark));
	s->formed = NULL;
	zen_batch_init(&s->batch);
	scan->xs_itupdesc = RelationGetDescr(index);
	scan->opaque = s;
	return scan;
}

/* Entries of the batch that lead to rows that no snapshot sees leave the tree, if their leaf has not changed. */
static void
forget_dead(TreeScan *s)
{
	if (s->any_dead)
		(void) zen_tree_delete(s->tree, &s->batch, s->dead);
	s->any_dead = false;
}

static void
unmark(TreeScan *s)
{
	if (s->mark.copy != NULL)
		pfree(s->mark.copy);
	if (s->mark.at != NULL)
		pfree(s->mark.at);
	memset(&s->mark, 0, sizeof(s->mark));
	s->resume = false;
}

static void
find_tree(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;
	MemoryContext old = MemoryContextSwitchTo(s->mcxt);
	ZenTree    *tree = NULL;

	if (unlikely(scan->xactStartedInRecovery || RecoveryInProgress()))
		tree = zen_tree_standby->open(scan, &s->reader);

	if (tree == NULL)
		tree = zen_tree_need(scan->indexRelation);
	MemoryContextSwitchTo(old);
	zen_tree_shape(scan->indexRelation, tree, &s->shape);
	s->tree = tree;
}

static void
zentree_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	TreeScan   *s = scan->opaque;

	/*
	 * The caller of zentree_beginscan passes the table's gate only then
	 * (index_beginscan).  Until it has, the tree may be one that is being
	 * rebuilt.
	 */
	if (s->tree == NULL)
		find_tree(scan);
	forget_dead(s);
	s->active = false;
	unmark(s);
	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	zen_conditions_set(&s->conditions, &s->shape, scan->keyData, scan->numberOfKeys);
}

static void
zentree_endscan(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;

	forget_dead(s);
	unmark(s);
	close_reader(s, false);
	if (s->formed != NULL)
		pfree(s->formed);
	zen_batch_end(&s->batch);
	if (s->conditions.mcxt != NULL)
		MemoryContextDelete(s->conditions.mcxt);
	scan_keep_state(s);
	scan_give_back(s);
}

/* ---------- batches ---------- */

/* Read a batch that begins, or with backward ends, at a position; NULL: at the end of the range. */
static void
read_batch(TreeScan *s, const ZenTreePos *pos, bool backward)
{
	const ZenTreePos *from = s->conditions.has_from ? &s->conditions.from : NULL;
	const ZenTreePos *to = s->conditions.has_to ? &s->conditions.to : NULL;
	MemoryContext old = MemoryContextSwitchTo(s->mcxt);

	forget_dead(s);
	if (pos != NULL && backward)
		to = pos;
	else if (pos != NULL)
		from = pos;
	zen_tree_read(s->tree, &s->shape, from, to, backward, &s->batch);
	memset(s->dead, 0, s->batch.n * sizeof(bool));
	s->current = backward ? s->batch.n : -1;
	MemoryContextSwitchTo(old);
}

/* Read the batch next to an entry. */
static void
read_beside(TreeScan *s, const ZenTreeSlot *slot, bool backward)
{
	zen_shape_pos_of(&s->shape, &s->pos, slot);
	if (!backward)
		s->pos.tid++;
	read_batch(s, &s->pos, backward);
}

/* The batch is used up: read the next one of this range; false: there is none. */
static bool
next_in_range(TreeScan *s, bool backward)
{
	ZenTreeSlot fence;

	if (s->resume)
	{
		s->resume = false;
		read_beside(s, &s->mark.slot, backward);
		return true;
	}
	if (s->batch.backward != backward)
	{
		/* turned round: the position must not point into the batch */
		ZenTreeSlot slot;

		if (s->batch.n == 0)
			return false;
		slot = s->batch.slots[backward ? 0 : s->batch.n - 1];
		if (slot.tuple != NULL)
			slot.tuple = CopyIndexTuple(slot.tuple);
		read_beside(s, &slot, backward);
		if (slot.tuple != NULL)
			pfree(slot.tuple);
		return true;
	}
	if (!s->batch.more)
		return false;
	fence = zen_batch_next(&s->shape, &s->batch, &s->pos);
	zen_conditions_skip(&s->conditions, &s->shape, &fence, backward, &s->pos);
	read_batch(s, &s->pos, backward);
	return true;
}

/* Go to the end of all ranges that the direction comes from. */
static void
first_range(IndexScanDesc scan, bool backward)
{
	TreeScan   *s = scan->opaque;

	pgstat_count_index_scan(scan->indexRelation);
	zen_conditions_first(&s->conditions, &s->shape, backward);
	zen_gap_lock(scan->indexRelation, &s->shape, &s->conditions.from, s->conditions.nequal, scan->xs_snapshot);
	s->steps = 0;
}

static bool
next_range(IndexScanDesc scan, bool backward)
{
	TreeScan   *s = scan->opaque;

	if (!s->conditions.stepped || !zen_conditions_next(&s->conditions, &s->shape, backward))
		return false;
	zen_gap_lock(scan->indexRelation, &s->shape, &s->conditions.from, s->conditions.nequal, scan->xs_snapshot);
	s->steps++;
	return true;
}

/* ---------- several processes ---------- */

typedef enum SharedState
{
	SHARED_READY,				/* for the next process that takes it */
	SHARED_TAKEN,
	SHARED_DONE					/* all has been read */
} SharedState;

/* Which process reads the next leaf of a scan, and where it is. */
typedef struct SharedScan
{
	slock_t		lock;
	SharedState state;			/* under lock */
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
} SharedScan;

static SharedScan *
shared_of(IndexScanDesc scan)
{
	return (SharedScan *) ((char *) scan->parallel_scan + scan->parallel_scan->ZEN_PARALLEL_SCAN_OFFSET);
}

/* Wait until no other process has the scan, and take it; NULL: it is done. */
static SharedScan *
shared_take(IndexScanDesc scan)
{
	SharedScan *shared = shared_of(scan);
	SharedState state;

	ConditionVariablePrepareToSleep(&shared->changed);
	for (;;)
	{
		SpinLockAcquire(&shared->lock);
		state = shared->state;
		if (state == SHARED_READY)
			shared->state = SHARED_TAKEN;
		SpinLockRelease(&shared->lock);
		if (state != SHARED_TAKEN)
			break;
		ConditionVariableSleep(&shared->changed, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return state == SHARED_READY ? shared : NULL;
}

/* Let go of it, in state READY or DONE. */
static void
shared_give(SharedScan *shared, SharedState state)
{
	Assert(shared->state == SHARED_TAKEN && state != SHARED_TAKEN);
	SpinLockAcquire(&shared->lock);
	shared->state = state;
	SpinLockRelease(&shared->lock);
	if (state == SHARED_DONE)
		ConditionVariableBroadcast(&shared->changed);
	else
		ConditionVariableSignal(&shared->changed);
}

/* What is read lives until it is written. */
static ZenTreeSlot
shared_fence(SharedScan *shared)
{
	ZenTreeSlot fence = shared->fence;

	Assert(shared->state == SHARED_TAKEN && shared->has_fence);
	if (fence.tuple != NULL)
		fence.tuple = &shared->tuple.header;
	return fence;
}

static void
shared_set_fence(SharedScan *shared, const ZenTreeSlot *fence)
{
	Assert(shared->state == SHARED_TAKEN);
	shared->has_fence = true;
	shared->fence = *fence;
	if (fence->tuple != NULL)
		memcpy(&shared->tuple, fence->tuple, IndexTupleSize(fence->tuple));
}

/* Read the batch that is next in a scan of several processes; false: there is none. */
static bool
next_shared_batch(IndexScanDesc scan, bool backward)
{
	TreeScan   *s = scan->opaque;
	SharedScan *shared = shared_take(scan);
	ZenTreePos *pos = NULL;

	if (shared == NULL)
		return false;
	if (!s->active)
		first_range(scan, backward);
	s->active = true;
	while (s->steps < shared->steps)
	{
		if (!next_range(scan, backward))
		{
			shared_give(shared, SHARED_DONE);
			return false;
		}
	}
	if (shared->has_fence)
	{
		ZenTreeSlot fence = shared_fence(shared);

		pos = &s->pos;
		zen_shape_pos_of(&s->shape, pos, &fence);
		zen_conditions_skip(&s->conditions, &s->shape, &fence, backward, pos);
	}
	read_batch(s, pos, backward);
	if (s->batch.more)
		shared_set_fence(shared, &s->batch.fence);
	else
	{
		shared->has_fence = false;
		shared->steps++;
	}
	shared_give(shared, s->batch.more || s->conditions.stepped ? SHARED_READY : SHARED_DONE);
	return true;
}

/* Read the batch that is next in a scan by this process alone; false: there is none. */
static bool
next_batch(IndexScanDesc scan, bool backward)
{
	TreeScan   *s = scan->opaque;

	if (!s->active)
		first_range(scan, backward);
	else if (next_in_range(s, backward))
		return true;
	else if (!next_range(scan, backward))
		return false;
	s->active = true;
	read_batch(s, NULL, backward);
	return true;
}

/* Go to the next entry that satisfies the conditions; false: there is none. */
static bool
advance(IndexScanDesc scan, bool backward)
{
	TreeScan   *s = scan->opaque;

	if (s->conditions.never)
		return false;
	Assert(!s->resume || scan->parallel_scan == NULL);
	do
	{
		while (s->active && !s->resume)
		{
			s->current += backward ? -1 : 1;
			if (s->current < 0 || s->current >= s->batch.n)
				break;
			if (zen_conditions_hold(&s->conditions, &s->shape, &s->batch.slots[s->current]))
				return true;
		}
	} while (scan->parallel_scan != NULL ? next_shared_batch(scan, backward) : next_batch(scan, backward));
	forget_dead(s);
	s->active = false;
	return false;
}

/* ---------- the callbacks ---------- */

/* Another index tuple in s->formed. */
static void
form_tuple(TreeScan *s, Datum *values, bool *isnull)
{
	MemoryContext old = MemoryContextSwitchTo(s->mcxt);

	if (s->formed != NULL)
		pfree(s->formed);
	s->formed = NULL;
	s->formed = index_form_tuple(s->shape.desc, values, isnull);
	s->formed_bytes = heap_compute_data_size(s->shape.desc, values, isnull);
	MemoryContextSwitchTo(old);
}

/*
 * The entry as an index tuple, which a tree of whole keys does not have.  Columns have a fixed width: without nulls,
 * the tuple before is written over.
 */
static void
form_entry(TreeScan *s, const ZenTreeSlot *slot)
{
	TupleDesc	desc = s->shape.desc;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	bool		nulls = false;
	uint16		mask;

	for (int i = 0; i < s->shape.natts; i++)
	{
		values[i] = zen_shape_value(&s->shape, slot, i, &isnull[i]);
		nulls |= isnull[i];
	}
	if (nulls || s->formed == NULL || IndexTupleHasNulls(s->formed))
		form_tuple(s, values, isnull);
	else
		heap_fill_tuple(desc, values, isnull, (char *) s->formed + IndexInfoFindDataOffset(s->formed->t_info),
						s->formed_bytes, &mask, NULL);
	for (int i = 0; i < s->shape.natts; i++)
		zen_shape_free_value(&s->shape, i, values[i], isnull[i]);
}

/* For an index-only scan. */
static void
hand_out_tuple(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;
	ZenTreeSlot *slot = &s->batch.slots[s->current];

	scan->xs_itup = slot->tuple;
	if (slot->tuple == NULL)
	{
		form_entry(s, slot);
		scan->xs_itup = s->formed;
	}
}

static void
hand_out(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;
	ZenTreeSlot *slot = &s->batch.slots[s->current];

	zen_tid_of_word(slot->tid, &scan->xs_heaptid);
	/* nulls are never found equal again: ON CONFLICT with NULLS NOT DISTINCT */
	scan->xs_recheck = !IsMVCCSnapshot(scan->xs_snapshot) && !s->conditions.for_null;
	if (scan->xs_want_itup)
		hand_out_tuple(scan);
}

/* Is the next entry in the batch, and of the range? */
static inline bool
scan_step(TreeScan *s, bool backward)
{
	int			next = s->current + (backward ? -1 : 1);

	if (!s->active || s->resume || next < 0 || next >= s->batch.n || s->conditions.any_filter)
		return false;
	s->current = next;
	return true;
}

/* On a standby: is the entry one of the row that the snapshot sees?  Hands out what an index-only scan shows of it. */
static pg_noinline bool
is_shown(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;
	IndexTuple	tuple = NULL;
	MemoryContext old;
	bool		shown;

	if (!zen_tree_standby->doubts(s->reader, &scan->xs_heaptid))
		return true;
	old = MemoryContextSwitchTo(s->mcxt);
	shown = zen_tree_standby->shows(s->reader, &s->shape, &s->batch.slots[s->current],
									scan->xs_want_itup ? &tuple : NULL);
	if (tuple != NULL)
	{
		/* the entry may have columns of another row of the same key */
		if (s->formed != NULL)
			pfree(s->formed);
		scan->xs_itup = s->formed = tuple;
	}
	MemoryContextSwitchTo(old);
	return shown;
}

static bool
zentree_gettuple(IndexScanDesc scan, ScanDirection direction)
{
	TreeScan   *s = scan->opaque;
	bool		backward = ScanDirectionIsBackward(direction);

	if (scan->kill_prior_tuple && s->active && s->current >= 0 && s->current < s->batch.n)
		s->any_dead = s->dead[s->current] = true;
	do
	{
		if (!scan_step(s, backward) && !advance(scan, backward))
			return false;
		hand_out(scan);
	} while (unlikely(s->reader != NULL) && !is_shown(scan));
	return true;
}

static int64
zentree_getbitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	TreeScan   *s = scan->opaque;
	int64		n = 0;

	while (advance(scan, false))
	{
		ItemPointerData tid;

		zen_tid_of_word(s->batch.slots[s->current].tid, &tid);
		tbm_add_tuples(bitmap, &tid, 1, s->reader != NULL && zen_tree_standby->doubts(s->reader, &tid));
		n++;
	}
	return n;
}

static void
zentree_markpos(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;
	MemoryContext old;

	/* restored, and no entry asked for since: it is marked already */
	if (s->resume)
		return;
	old = MemoryContextSwitchTo(s->mcxt);
	unmark(s);
	if (s->active && s->current >= 0 && s->current < s->batch.n)
	{
		s->mark.valid = true;
		s->mark.slot = s->batch.slots[s->current];
		if (s->mark.slot.tuple != NULL)
			s->mark.slot.tuple = s->mark.copy = CopyIndexTuple(s->mark.slot.tuple);
		s->mark.at = palloc(Max(s->conditions.n, 1) * sizeof(int));
		for (int i = 0; i < s->conditions.n; i++)
			s->mark.at[i] = s->conditions.conditions[i].at;
	}
	MemoryContextSwitchTo(old);
}

static void
zentree_restrpos(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;

	forget_dead(s);
	s->active = s->resume = s->mark.valid;
	if (!s->mark.valid)
		return;
	for (int i = 0; i < s->conditions.n; i++)
		s->conditions.conditions[i].at = s->mark.at[i];
	zen_conditions_range(&s->conditions, &s->shape);
}

static Size
zentree_estimateparallelscan(ZEN_ESTIMATE_PARALLEL_SCAN_ARGS(Relation index, int nkeys, int norderbys))
{
	return sizeof(SharedScan);
}

static void
zentree_initparallelscan(void *target)
{
	SharedScan *shared = target;

	SpinLockInit(&shared->lock);
	ConditionVariableInit(&shared->changed);
	shared->state = SHARED_READY;
	shared->steps = 0;
	shared->has_fence = false;
}

static void
zentree_parallelrescan(IndexScanDesc scan)
{
	SharedScan *shared = shared_of(scan);

	/* no process is in the scan */
	Assert(shared->state != SHARED_TAKEN);
	SpinLockAcquire(&shared->lock);
	shared->state = SHARED_READY;
	SpinLockRelease(&shared->lock);
	shared->steps = 0;
	shared->has_fence = false;
}

int
zentree_ahead(IndexScanDesc scan, ItemPointer tids, int max)
{
	TreeScan   *s = scan->opaque;
	int			step = s->batch.backward ? -1 : 1;
	int			n = 0;

	if (!s->active || s->resume)
		return 0;
	for (int i = s->current + step; n < max && i >= 0 && i < s->batch.n; i += step)
		zen_tid_of_word(s->batch.slots[i].tid, &tids[n++]);
	return n;
}

bool
zentree_keeps_whole(IndexScanDesc scan)
{
	TreeScan   *s = scan->opaque;

	/* a column of type uuid takes both words */
	return s->shape.kind != ZEN_TREE_TUPLES && s->shape.columns[0].code != ZEN_CODE_UUID;
}

void
zentree_entry(IndexScanDesc scan, Datum *values, bool *isnull)
{
	TreeScan   *s = scan->opaque;

	Assert(zentree_keeps_whole(scan) && s->active && s->current >= 0 && s->current < s->batch.n);
	for (int i = 0; i < s->shape.natts; i++)
	{
		Assert(TupleDescAttr(s->shape.desc, i)->attbyval);
		values[i] = zen_shape_value(&s->shape, &s->batch.slots[s->current], i, &isnull[i]);
	}
}

void
zentree_scan_callbacks(IndexAmRoutine *am)
{
	am->ambeginscan = zentree_beginscan;
	am->amrescan = zentree_rescan;
	am->amgettuple = zentree_gettuple;
	am->amgetbitmap = zentree_getbitmap;
	am->amendscan = zentree_endscan;
	am->ammarkpos = zentree_markpos;
	am->amrestrpos = zentree_restrpos;
	am->amestimateparallelscan = zentree_estimateparallelscan;
	am->aminitparallelscan = zentree_initparallelscan;
	am->amparallelrescan = zentree_parallelrescan;
}
