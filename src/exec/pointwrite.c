/*
 * pointwrite.c -- the change that a point access makes.
 *
 * What ModifyTable does with a row, in the same order, by the functions that it uses.  Left out is what plans with
 * such needs are refused for: BEFORE and INSTEAD OF triggers, transition tables, partition routing, WITH CHECK OPTION.
 */
#include "exec/pointwrite.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "exec/pointread.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

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

TupleTableSlot *
zen_point_insert(ZenPoint *point)
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
			zen_point_self_modified(point, tmfd);
			return false;
		case TM_Updated:
			return zen_point_follow(point, tid, mode);
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				ereport(ERROR,
						(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						 errmsg("could not serialize access due to concurrent delete")));
			return false;
		default:
			elog(ERROR, "unexpected result of a change: %d", (int) result);
			return false;
	}
}

TupleTableSlot *
zen_point_update(ZenPoint *point)
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

TupleTableSlot *
zen_point_delete(ZenPoint *point)
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
