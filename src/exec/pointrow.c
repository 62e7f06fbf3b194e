/*
 * pointrow.c -- the rows of a point access: named by keys, found, locked and changed, one after the other.
 *
 * What IndexScan, LockRows and ModifyTable do with any rows is done here for one after the other, in the same order and
 * by the functions that they use.  So is the part of EvalPlanQual that judges key and quals again on a row that another
 * transaction has changed.  Some things are left out, since plans that need them are not marked: BEFORE and INSTEAD OF
 * triggers, transition tables, partition routing, WITH CHECK OPTION.
 */
#include "exec/point.h"

#include "access/nbtree.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "cache/keycache.h"
#include "cache/tidmap.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeIndexscan.h"
#include "executor/nodeModifyTable.h"
#include "lib/qunique.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "table/zenam_rel.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* ---------- the parts of a state ---------- */

static void
init_list(ZenPoint *point, int nkey)
{
	Relation	index = point->scan->iss_RelationDesc;
	ScanKey		key = &point->scan->iss_ScanKeys[nkey];
	int			column = key->sk_attno - 1;
	Oid			type = key->sk_subtype;
	bool		backward = ScanDirectionIsBackward(point->shape.scan->indexorderdir);
	bool		descending = (index->rd_indoption[column] & INDOPTION_DESC) != 0;
	ZenPointList *list = &point->list;

	Assert((key->sk_flags & SK_SEARCHARRAY) != 0);
	Assert(OidIsValid(type) && column < IndexRelationGetNumberOfKeyAttributes(index));
	list->nkey = nkey;
	list->reverse = backward != descending;
	list->collation = key->sk_collation;
	fmgr_info(get_opfamily_proc(index->rd_opfamily[column], type, type, BTORDER_PROC), &list->compare);
	list->context = AllocSetContextCreate(point->context, "zen point access, list", ALLOCSET_SMALL_SIZES);
	point->scan_keys = palloc(point->scan->iss_NumScanKeys * sizeof(ScanKeyData));
	memcpy(point->scan_keys, point->scan->iss_ScanKeys, point->scan->iss_NumScanKeys * sizeof(ScanKeyData));
	point->scan_keys[nkey].sk_flags &= ~SK_SEARCHARRAY;
}

static void
init_keys(ZenPoint *point)
{
	point->scan_keys = point->scan->iss_ScanKeys;
	point->list.nkey = -1;
	zen_keyprobe_init(&point->probe, point->scan->iss_RelationDesc, point->scan->iss_ScanKeys,
					  point->scan->iss_NumScanKeys);
	for (int i = 0; i < point->scan->iss_NumScanKeys; i++)
	{
		if (point->scan->iss_ScanKeys[i].sk_flags & SK_SEARCHARRAY)
		{
			Assert(point->list.nkey < 0);
			init_list(point, i);
		}
	}
}

/* How an INSERT or UPDATE makes the new row from what the statement says, and from the old row. */
static void
init_new_row(ZenPoint *point)
{
	ModifyTable *plan = point->shape.change;
	PlanState  *source = outerPlanState(point->change);
	TupleDesc	desc = CreateTupleDescCopyConstr(RelationGetDescr(point->rel));

	if (plan->operation == CMD_DELETE)
		return;
	point->new_row = MakeSingleTupleTableSlot(desc, table_slot_callbacks(point->rel));
	if (plan->operation == CMD_UPDATE)
		point->make_row = ExecBuildUpdateProjection(source->plan->targetlist, true,
													(List *) linitial(plan->updateColnosLists), desc,
													source->ps_ExprContext, point->new_row, source);
	else
		point->make_row = ExecBuildProjectionInfo(source->plan->targetlist, source->ps_ExprContext,
												  point->new_row, source, NULL);
}

static bool
has_more_than_columns(List *targetlist)
{
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		if (!IsA(lfirst_node(TargetEntry, lc)->expr, Var))
			return true;
	}
	return false;
}

void
zen_pointrow_init(ZenPoint *point, PlanState *source)
{
	EState	   *estate = point->kept->estate;

	Assert(point->ntables == 1);
	if (point->shape.lock != NULL)
	{
		point->mark = ExecFindRowMark(estate, point->shape.rti, false);
		point->computes = has_more_than_columns(point->shape.scan->scan.plan.targetlist);
		source = outerPlanState(source);
	}
	point->rel = point->tables[0].rel;
	point->relid = point->tables[0].relid;
	if (point->shape.scan != NULL)
	{
		point->scan = castNode(IndexScanState, source);
		point->index_lock = exec_rt_fetch(point->shape.rti, estate)->rellockmode;
		point->relations = lappend_oid(point->relations, point->shape.scan->indexid);
		init_keys(point);
	}
	if (point->change != NULL)
		init_new_row(point);
}

/* ---------- the keys of an execution ---------- */

static int
list_compare(const void *a, const void *b, void *arg)
{
	ZenPointList *list = arg;
	int			result = DatumGetInt32(FunctionCall2Coll(&list->compare, list->collation, *(const Datum *) a,
														 *(const Datum *) b));

	return list->reverse ? -result : result;
}

/* Its elements that are not NULL, sorted, each once. */
static void
take_elements(ZenPoint *point, ArrayType *array)
{
	ZenPointList *list = &point->list;
	bool	   *nulls;
	int			all;

	if (list->element_type != ARR_ELEMTYPE(array))
	{
		get_typlenbyvalalign(ARR_ELEMTYPE(array), &list->length, &list->by_value, &list->align);
		list->element_type = ARR_ELEMTYPE(array);
	}
	deconstruct_array(array, list->element_type, list->length, list->by_value, list->align,
					  &list->elements, &nulls, &all);
	Assert(CurrentMemoryContext == list->context);
	list->n = 0;
	for (int i = 0; i < all; i++)
		if (!nulls[i])
			list->elements[list->n++] = list->elements[i];
	if (list->n < 2)
		return;
	qsort_arg(list->elements, list->n, sizeof(Datum), list_compare, list);
	list->n = qunique_arg(list->elements, list->n, sizeof(Datum), list_compare, list);
}

static void
begin_list(ZenPoint *point)
{
	IndexScanState *scan = point->scan;
	Datum		array = scan->iss_ScanKeys[point->list.nkey].sk_argument;
	MemoryContext old = MemoryContextSwitchTo(point->list.context);

	for (int i = 0; i < scan->iss_NumScanKeys; i++)
	{
		if (i != point->list.nkey)
			point->scan_keys[i].sk_argument = scan->iss_ScanKeys[i].sk_argument;
	}
	take_elements(point, DatumGetArrayTypeP(array));
	MemoryContextSwitchTo(old);
}

/* Take the execution's values.  False: there is no key, since NULL equals nothing. */
static bool
begin_keys(ZenPoint *point)
{
	IndexScanState *scan = point->scan;

	if (scan->iss_NumRuntimeKeys != 0)
	{
		ResetExprContext(scan->iss_RuntimeContext);
		ExecIndexEvalRuntimeKeys(scan->iss_RuntimeContext, scan->iss_RuntimeKeys, scan->iss_NumRuntimeKeys);
	}
	for (int i = 0; i < scan->iss_NumScanKeys; i++)
		if (scan->iss_ScanKeys[i].sk_flags & SK_ISNULL)
			return false;
	point->list.n = 1;
	point->list.next = 0;
	if (point->list.nkey >= 0)
		begin_list(point);
	return point->list.n > 0;
}

/* Let point->scan_keys be the next key, in the order of the scan.  False: it is the last. */
static bool
next_key(ZenPoint *point)
{
	ZenPointList *list = &point->list;

	Assert(list->next < list->n);
	if (list->nkey >= 0)
		point->scan_keys[list->nkey].sk_argument = list->elements[list->next];
	return ++list->next < list->n;
}

static void
end_keys(ZenPoint *point)
{
	if (point->scan->iss_RuntimeContext != NULL)
		ResetExprContext(point->scan->iss_RuntimeContext);
	if (point->list.context != NULL)
		MemoryContextReset(point->list.context);
}

/* ---------- finding a row ---------- */

/* Do the key and the further quals hold for the row in the scan's slot? */
static bool
row_fits(ZenPoint *point, bool key)
{
	ExprContext *econtext = point->scan->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = point->scan->ss.ss_ScanTupleSlot;
	return (!key || ExecQual(point->scan->indexqualorig, econtext)) && ExecQual(point->scan->ss.ps.qual, econtext);
}

/* The index, which an execution keeps open once it has had to ask it. */
static bool
row_fetch_by_index(ZenPoint *point)
{
	IndexScanState *scan = point->scan;
	bool		found;

	Assert(CheckRelationLockedByMe(point->rel, AccessShareLock, true));
	if (point->index == NULL)
	{
		point->index = index_open(point->shape.scan->indexid, point->index_lock);
		point->index_scan = zen_index_beginscan(point->rel, point->index, point->query->snapshot,
												scan->iss_NumScanKeys);
	}
	index_rescan(point->index_scan, point->scan_keys, scan->iss_NumScanKeys, NULL, 0);
	found = index_getnext_slot(point->index_scan, ForwardScanDirection, scan->ss.ss_ScanTupleSlot);
	Assert(!found || !point->index_scan->xs_recheck);
	return found;
}

/* Does the relcache have the index where it was when the state was parked? */
static bool
is_parked(ZenPoint *point)
{
	Relation	index = RelationIdGetRelation(point->shape.scan->indexid);

	if (RelationIsValid(index))
		RelationClose(index);
	return index == point->parked_index;
}

/*
 * A row was found by the key cache: count in pg_stat_user_indexes what a search would have counted.  Mostly the index
 * is closed.
 *
 * The relcache drops a closed index only by an invalidation, of which the state hears.  So if the state has gone out of
 * use while it was executed, the index may have gone, or be elsewhere: the row is not counted then.
 */
static void
count_in_index(ZenPoint *point)
{
#ifdef RELCACHE_FORCE_RELEASE	/* a server for tests: what is closed is gone */
	return;
#endif
	if (unlikely(!point->valid) && !is_parked(point))
		return;
	Assert(is_parked(point));
	zen_keyprobe_count(point->parked_index);
}

/*
 * Find the row by the key cache, or else by the index.  A serializable transaction goes to the index, which locks the
 * key's place against rows that come there.
 */
static bool
row_fetch_by_key(ZenPoint *point)
{
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	uint64		hash;
	uint64		tidno;

	if (point->probe.nkeys == 0 || IsolationIsSerializable())
		return row_fetch_by_index(point);
	hash = zen_keyprobe_hash(&point->probe, point->scan_keys);
	if (zen_keyprobe_hint(zen_rel_htable(point->rel), hash, &tidno) &&
		zen_keyprobe_fetch(&point->probe, point->rel, point->scan_keys, tidno, point->query->snapshot, slot))
	{
		count_in_index(point);
		return true;
	}
	if (!row_fetch_by_index(point))
		return false;
	zen_keycache_store(hash, zen_tidno(&slot->tts_tid));
	return true;
}

/* Take the execution's keys.  The table is open. */
static void
begin_read(ZenPoint *point)
{
	/* the gate before the index is opened, which a rebuild replaces */
	(void) zen_rel_htable(point->rel);
	Assert(point->index == NULL && point->query != NULL);
	point->done = !begin_keys(point);
}

/*
 * Bring the next row with one of the keys, which the snapshot sees and further quals hold for, into the scan's slot.
 * False if there is none.
 */
static bool
bring_next(ZenPoint *point)
{
	while (!point->done)
	{
		bool		found;

		point->done = !next_key(point);
		found = row_fetch_by_key(point) && row_fits(point, false);
		if (found)
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/* Give the index back. */
static void
end_read(ZenPoint *point)
{
	if (point->done)
		end_keys(point);
	if (point->index == NULL)
		return;
	index_endscan(point->index_scan);
	index_close(point->index, NoLock);
	point->index_scan = NULL;
	point->index = NULL;
}

/* ---------- locks ---------- */

static LockTupleMode
lock_mode(RowMarkType mark)
{
	switch (mark)
	{
		case ROW_MARK_EXCLUSIVE:
			return LockTupleExclusive;
		case ROW_MARK_NOKEYEXCLUSIVE:
			return LockTupleNoKeyExclusive;
		case ROW_MARK_SHARE:
			return LockTupleShare;
		case ROW_MARK_KEYSHARE:
			return LockTupleKeyShare;
		default:
			elog(ERROR, "unsupported rowmark type");
	}
}

static void
cannot_serialize(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent %s", what)));
}

/* Lock the row in the scan's slot, as LockRows does.  False: it is not to be returned. */
static bool
lock_row(ZenPoint *point)
{
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	ItemPointerData tid = slot->tts_tid;
	int			flags = TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS;
	TM_FailureData tmfd;

	Assert(point->mark != NULL && ItemPointerIsValid(&tid));
	Assert(CheckRelationLockedByMe(point->rel, RowShareLock, true));
	if (!IsolationUsesXactSnapshot())
		flags |= TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
	switch (table_tuple_lock(point->rel, &tid, point->query->snapshot, slot, point->kept->estate->es_output_cid,
							 lock_mode(point->mark->markType), point->mark->waitPolicy, flags, &tmfd))
	{
		case TM_Ok:
			break;
		case TM_WouldBlock:		/* SKIP LOCKED */
		case TM_SelfModified:	/* by a later command: not seen by this one */
			return false;
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				cannot_serialize("update");
			return false;
		case TM_Updated:
			cannot_serialize("update");
			return false;
		case TM_Invisible:
			elog(ERROR, "attempted to lock invisible tuple");
			return false;
		default:
			elog(ERROR, "unexpected result of a row lock");
			return false;
	}
	/* where WHERE CURRENT OF looks */
	point->mark->curCtid = tid;
	point->mark->ermActive = true;
	return !tmfd.traversed || row_fits(point, true);
}

/* A change has met a version that this transaction has made since: an error unless this very statement has. */
static void
self_modified(ZenPoint *point, const TM_FailureData *tmfd)
{
	const char *verb = point->shape.change->operation == CMD_DELETE ? "deleted" : "updated";

	if (tmfd->cmax == point->kept->estate->es_output_cid)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
			 errmsg("tuple to be %s was already modified by an operation triggered by the current command", verb),
			 errhint("Consider using an AFTER trigger instead of a BEFORE trigger "
					 "to propagate changes to other rows.")));
}

/* A change has met a newer version: lock that; does it still have the key, and do quals hold? */
static bool
change_follow(ZenPoint *point, ItemPointer tid, LockTupleMode mode)
{
	CommandId	cid = point->kept->estate->es_output_cid;
	TM_FailureData tmfd;

	if (IsolationUsesXactSnapshot())
		cannot_serialize("update");
	switch (table_tuple_lock(point->rel, tid, point->query->snapshot, point->scan->ss.ss_ScanTupleSlot, cid, mode,
							 LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &tmfd))
	{
		case TM_Ok:
			Assert(tmfd.traversed);
			return row_fits(point, true);
		case TM_Deleted:
			return false;
		case TM_SelfModified:
			self_modified(point, &tmfd);
			return false;
		default:
			elog(ERROR, "unexpected result of a row lock");
			return false;
	}
}

/* ---------- changes ---------- */

/*
 * A change is made with all that hangs on it: generated columns, constraints, indexes, AFTER ROW triggers.  Update and
 * delete change the row in the scan's slot.  The result is the slot with the row that RETURNING is about, NULL if
 * nothing was changed.
 */

/* Fill in generated columns, and check constraints. */
static void
complete_row(ZenPoint *point, CmdType operation)
{
	EState	   *estate = point->kept->estate;
	TupleConstr *constr = RelationGetDescr(point->rel)->constr;

	point->new_row->tts_tableOid = point->relid;
	if (constr != NULL && constr->has_generated_stored)
		ExecComputeStoredGenerated(point->target, estate, point->new_row, operation);

	/*
	 * a constraint's function could change an expanded value in place: it
	 * sees the stored form
	 */
	if (constr != NULL && constr->num_check > 0)
		ExecMaterializeSlot(point->new_row);
	if (point->rel->rd_rel->relispartition && operation == CMD_UPDATE)
		ExecPartitionCheck(point->target, point->new_row, estate, true);
	if (constr != NULL)
		ExecConstraints(point->target, point->new_row, estate);
	if (point->rel->rd_rel->relispartition && operation == CMD_INSERT)
		ExecPartitionCheck(point->target, point->new_row, estate, true);
}

/*
 * Tell the indexes of the new row.  Result: those that have to be checked once more.
 *
 * They are opened for this row only; what the executor allocates for them goes with it.
 */
static List *
enter_into_indexes(ZenPoint *point, bool update, TU_UpdateIndexes which)
{
	ResultRelInfo *target = point->target;
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(point->kept->estate));
	List	   *recheck = NIL;

	if (point->rel->rd_rel->relhasindex)
	{
		ExecOpenIndices(target, false);
		if (target->ri_NumIndices > 0)
			recheck = zen_insert_index_tuples(target, point->new_row, point->kept->estate, update, which);
		ExecCloseIndices(target);
		target->ri_NumIndices = 0;
		target->ri_IndexRelationDescs = NULL;
		target->ri_IndexRelationInfo = NULL;
	}
	MemoryContextSwitchTo(old);
	return recheck;
}

static void
count_row(ZenPoint *point)
{
	if (point->shape.change->canSetTag)
		point->kept->estate->es_processed++;
}

static TupleTableSlot *
insert_row(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;
	List	   *recheck;

	Assert(CheckRelationLockedByMe(point->rel, RowExclusiveLock, true));
	ExecProject(point->make_row);
	complete_row(point, CMD_INSERT);
	table_tuple_insert(point->rel, point->new_row, estate->es_output_cid, 0, NULL);
	recheck = enter_into_indexes(point, false, TU_All);
	count_row(point);
	if (point->has_triggers)
		ExecARInsertTriggers(estate, point->target, point->new_row, recheck, NULL);
	return point->new_row;
}

/*
 * May a change that failed be tried again, on the row that is in the scan's slot by now?  Throws where the isolation
 * level forbids that.
 */
static bool
try_again(ZenPoint *point, TM_Result result, TM_FailureData *tmfd, ItemPointer tid, LockTupleMode mode)
{
	CHECK_FOR_INTERRUPTS();
	switch (result)
	{
		case TM_SelfModified:
			self_modified(point, tmfd);
			return false;
		case TM_Updated:
			return change_follow(point, tid, mode);
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				cannot_serialize("delete");
			return false;
		default:
			elog(ERROR, "unexpected result of a change: %d", (int) result);
			return false;
	}
}

/* Update the row that was found; again, as long as other writers come first.  NULL: it is not updated. */
static TupleTableSlot *
update_row(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;
	ItemPointerData tid = point->scan->ss.ss_ScanTupleSlot->tts_tid;
	List	   *recheck = NIL;
	TU_UpdateIndexes which;

	Assert(!TupIsNull(point->scan->ss.ss_ScanTupleSlot) && ItemPointerIsValid(&tid));
	Assert(CheckRelationLockedByMe(point->rel, RowExclusiveLock, true));
	for (;;)
	{
		TM_FailureData tmfd;
		LockTupleMode mode;
		TM_Result	result;

		point->scan->ss.ps.ps_ExprContext->ecxt_scantuple = point->scan->ss.ss_ScanTupleSlot;
		ExecProject(point->make_row);
		complete_row(point, CMD_UPDATE);
		result = table_tuple_update(point->rel, &tid, point->new_row, estate->es_output_cid, estate->es_snapshot,
									estate->es_crosscheck_snapshot, true, &tmfd, &mode, &which);
		if (result == TM_Ok)
			break;
		if (!try_again(point, result, &tmfd, &tid, mode))
			return NULL;
	}
	count_row(point);
	if (which != TU_None)
		recheck = enter_into_indexes(point, true, which);
	if (point->has_triggers)
		ExecARUpdateTriggers(estate, point->target, NULL, NULL, &tid, NULL, point->new_row, recheck, NULL, false);
	return point->new_row;
}

static TupleTableSlot *
delete_row(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	ItemPointerData tid = slot->tts_tid;

	Assert(!TupIsNull(slot) && ItemPointerIsValid(&tid));
	Assert(CheckRelationLockedByMe(point->rel, RowExclusiveLock, true));
	for (;;)
	{
		TM_FailureData tmfd;
		TM_Result	result = table_tuple_delete(point->rel, &tid, estate->es_output_cid, estate->es_snapshot,
												estate->es_crosscheck_snapshot, true, &tmfd, false);

		if (result == TM_Ok)
			break;
		if (!try_again(point, result, &tmfd, &tid, LockTupleExclusive))
			return NULL;
	}
	count_row(point);
	if (point->has_triggers)
		ExecARDeleteTriggers(estate, point->target, &tid, NULL, NULL, false);
	/* with the marks of its deletion, as RETURNING may show them */
	if (point->target->ri_projectReturning != NULL &&
		!table_tuple_fetch_row_version(point->rel, &tid, SnapshotAny, slot))
		elog(ERROR, "failed to fetch deleted tuple for DELETE RETURNING");
	return slot;
}

/* ---------- run ---------- */

static void
set_parameters(ZenPoint *point)
{
	ParamListInfo params = point->kept->estate->es_param_list_info;
	PlanState  *source = point->make_row ? outerPlanState(point->change) : NULL;

	if (point->scan != NULL)
	{
		point->scan->ss.ps.ps_ExprContext->ecxt_param_list_info = params;
		if (point->scan->iss_RuntimeContext != NULL)
			point->scan->iss_RuntimeContext->ecxt_param_list_info = params;
	}
	if (source != NULL)
		source->ps_ExprContext->ecxt_param_list_info = params;
	if (point->change != NULL && point->change->ps.ps_ExprContext != NULL)
		point->change->ps.ps_ExprContext->ecxt_param_list_info = params;
}

/* The row that a SELECT gives to its receiver. */
static TupleTableSlot *
selected(ZenPoint *point)
{
	ExprContext *econtext = point->scan->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	EState	   *estate = point->kept->estate;

	econtext->ecxt_scantuple = slot;
	if (point->mark != NULL)
	{
		/*
		 * LockRows gets rows that the scan has projected: an error there
		 * comes before the lock
		 */
		if (point->computes)
			(void) ExecProject(point->scan->ss.ps.ps_ProjInfo);
		if (!lock_row(point))
			return NULL;
	}
	if (point->scan->ss.ps.ps_ProjInfo != NULL)
		slot = ExecProject(point->scan->ss.ps.ps_ProjInfo);
	if (estate->es_junkFilter != NULL)
		slot = ExecFilterJunk(estate->es_junkFilter, slot);
	estate->es_processed++;
	return slot;
}

/* The row that RETURNING gives. */
static TupleTableSlot *
returned(ZenPoint *point, TupleTableSlot *row)
{
	ProjectionInfo *returning = point->target->ri_projectReturning;

	if (row == NULL || returning == NULL)
		return NULL;
	row->tts_tableOid = point->relid;
	returning->pi_exprContext->ecxt_scantuple = row;
	return ExecProject(returning);
}

/* Of statements, by their CmdType. */
static const struct
{
	void		(*before) (EState *estate, ResultRelInfo *target);
	void		(*after) (EState *estate, ResultRelInfo *target, TransitionCaptureState *capture);
}			statement_triggers[] = {
	[CMD_INSERT] = {ExecBSInsertTriggers, ExecASInsertTriggers},
	[CMD_UPDATE] = {ExecBSUpdateTriggers, ExecASUpdateTriggers},
	[CMD_DELETE] = {ExecBSDeleteTriggers, ExecASDeleteTriggers},
};

/* Nothing of the row stays, except where WHERE CURRENT OF looks for it. */
static void
clear_row(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;

	if (point->scan != NULL)
	{
		if (point->change != NULL)
			ExecClearTuple(point->scan->ss.ss_ScanTupleSlot);
		ResetExprContext(point->scan->ss.ps.ps_ExprContext);
	}
	if (point->new_row != NULL)
		ExecClearTuple(point->new_row);
	if (point->change != NULL && point->change->ps.ps_ExprContext != NULL)
		ResetExprContext(point->change->ps.ps_ExprContext);
	if (point->make_row != NULL)
		ResetExprContext(point->make_row->pi_exprContext);
	ResetPerTupleExprContext(estate);
}

static void
point_begin(ZenPoint *point)
{
	point->started = true;
	set_parameters(point);
	if (point->has_triggers)
		statement_triggers[point->shape.change->operation].before(point->kept->estate, point->target);
	if (point->scan != NULL)
		begin_read(point);
}

/* Read or change the next row.  Result: the slot to be sent to the client, or NULL.  Sets done after the last one. */
static TupleTableSlot *
point_next(ZenPoint *point)
{
	CmdType		operation = point->change != NULL ? point->shape.change->operation : CMD_SELECT;

	if (operation == CMD_INSERT)
	{
		point->done = true;
		return returned(point, insert_row(point));
	}
	if (!bring_next(point))
		return NULL;
	if (operation == CMD_SELECT)
		return selected(point);
	return returned(point, operation == CMD_UPDATE ? update_row(point) : delete_row(point));
}

void
zen_pointrow_run(ZenPoint *point, bool send, uint64 count)
{
	uint64		sent = 0;
	bool		more = true;

	CHECK_FOR_INTERRUPTS();
	if (!point->started)
		point_begin(point);
	while (more && !point->done)
	{
		TupleTableSlot *slot = point_next(point);

		if (send && !TupIsNull(slot))
			more = point->query->dest->receiveSlot(slot, point->query->dest) && ++sent != count;
		clear_row(point);
	}
	if (point->done && point->has_triggers)
		statement_triggers[point->shape.change->operation].after(point->kept->estate, point->target, NULL);
	if (point->scan != NULL)
		end_read(point);
}
