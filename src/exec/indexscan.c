/*
 * indexscan.c -- index scans of zen tables.
 *
 * As in seqscan.c, zen puts a function of its own in the place of the node's.  It takes rows of which the slot shows
 * only the columns that readers have looked at so far (zen_fetch_show_parts).
 *
 * The executor's own function runs at the first row, where it begins the scan, after parameters have changed, and for
 * scans that order rows by a distance.
 */
#include "exec/indexscan.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"

/* The executor's own function for such nodes; NULL: not known yet. */
static ExecProcNodeMtd standard_index_scan;

/* Must the executor's own function see to the next row? */
static inline bool
needs_standard(const IndexScanState *node)
{
	return node->iss_ScanDesc == NULL || (node->iss_NumRuntimeKeys > 0 && !node->iss_RuntimeKeysReady);
}

/*
 * Go on to the next entry that leads to a row of the scan; false: there is none.  Then the slot is empty, by which
 * WHERE CURRENT OF knows that no cursor stands on a row of this scan.
 */
static inline bool
find_row(IndexScanState *node, ExprContext *econtext, TupleTableSlot *slot)
{
	IndexScanDesc scan = node->iss_ScanDesc;
	ScanDirection direction = node->ss.ps.state->es_direction;

	if (ScanDirectionIsBackward(((IndexScan *) node->ss.ps.plan)->indexorderdir))
		direction = -direction;
	while (index_getnext_slot(scan, direction, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!scan->xs_recheck)
			return true;
		econtext->ecxt_scantuple = slot;
		if (ExecQualAndReset(node->indexqualorig, econtext))
			return true;
		InstrCountFiltered2(node, 1);
	}
	node->iss_ReachedEnd = true;
	ExecClearTuple(slot);
	return false;
}

static TupleTableSlot *
exec_index(PlanState *state)
{
	IndexScanState *node = (IndexScanState *) state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->ps_ExprContext;
	ExprState  *qual = state->qual;
	ProjectionInfo *projection = state->ps_ProjInfo;

	if (needs_standard(node))
		return standard_index_scan(state);
	zen_fetch_show_parts(node->iss_ScanDesc);
	ResetExprContext(econtext);
	while (find_row(node, econtext, slot))
	{
		econtext->ecxt_scantuple = slot;
		if (qual == NULL || ExecQual(qual, econtext))
			return projection != NULL ? ExecProject(projection) : slot;
		InstrCountFiltered1(node, 1);
		ResetExprContext(econtext);
	}
	return ExecClearTuple(projection != NULL ? projection->pi_state.resultslot : slot);
}

void
zen_indexscan_take_over(IndexScanState *node)
{
	PlanState  *state = &node->ss.ps;

	if (node->iss_RelationDesc == NULL || !zen_rel_is_zen(node->ss.ss_currentRelation) ||
		node->iss_NumOrderByKeys > 0 || state->state->es_epq_active != NULL)
		return;
	Assert(node->ss.ss_ScanTupleSlot->tts_ops == &zenam_slot_ops);
	if (standard_index_scan == NULL)
		standard_index_scan = state->ExecProcNodeReal;
	/* another library's function stays */
	if (state->ExecProcNodeReal == standard_index_scan)
		ExecSetExecProcNode(state, exec_index);
}
