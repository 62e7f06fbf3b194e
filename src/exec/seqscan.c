/*
 * seqscan.c -- sequential scans of zen tables.
 *
 * The executor's node asks the table for whole rows.  zen puts a function of its own in the node's place.  It takes
 * rows of which the slot shows only the columns that readers have looked at so far (zen_scan_next_part).  The slot
 * belongs to the node, as do the scan and the snapshot.  So it shows nothing when these are gone.
 *
 * All else is the executor's: the node, its start, quals, projection, rescans and end.  The executor's own function
 * runs at the first row, where it begins the scan, and whenever rows are wanted backward.  EvalPlanQual starts nodes of
 * its own, which have the executor's function.
 */
#include "exec/seqscan.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "table/zenam_scan.h"

/* The executor's own functions for such nodes, by what they have: quals, a projection.  NULL: not known yet. */
static ExecProcNodeMtd standard_scans[2][2];

static inline ExecProcNodeMtd *
standard_scan(const PlanState *state)
{
	return &standard_scans[state->qual != NULL][state->ps_ProjInfo != NULL];
}

static TupleTableSlot *
exec_seq(PlanState *state)
{
	SeqScanState *node = (SeqScanState *) state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	TableScanDesc scan = node->ss.ss_currentScanDesc;
	ExprContext *econtext = state->ps_ExprContext;
	ExprState  *qual = state->qual;
	ProjectionInfo *projection = state->ps_ProjInfo;

	if (scan == NULL || !ScanDirectionIsForward(state->state->es_direction))
		return (*standard_scan(state)) (state);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!zen_scan_next_part(scan, slot))
			return projection != NULL ? ExecClearTuple(projection->pi_state.resultslot) : slot;
		if (qual == NULL && projection == NULL)
			return slot;
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = slot;
		if (qual == NULL || ExecQual(qual, econtext))
			return projection != NULL ? ExecProject(projection) : slot;
		InstrCountFiltered1(node, 1);
	}
}

void
zen_seqscan_take_over(SeqScanState *node)
{
	PlanState  *state = &node->ss.ps;
	ExecProcNodeMtd *standard = standard_scan(state);

	if (!zen_rel_is_zen(node->ss.ss_currentRelation) || state->state->es_epq_active != NULL)
		return;
	Assert(node->ss.ss_ScanTupleSlot->tts_ops == &zenam_slot_ops);
	if (*standard == NULL)
		*standard = state->ExecProcNodeReal;
	/* another library's function stays */
	if (state->ExecProcNodeReal == *standard)
		ExecSetExecProcNode(state, exec_seq);
}
