/*
 * standin.c -- on a hot standby the executor reads a tree where its plan names a btree of a zen table.
 *
 * The planner is told of the btree as of an index of zentree (standbyplan.c).  The executor opens the btree, and locks
 * it.  Then the node gets a copy of the relcache entry that has the routine of zentree, until the executor ends.  The
 * entry itself stays as it is: so nobody takes the btree for a tree when the server is promoted.
 *
 * The node's btree stays open, so what the copy points to stays, too.  A copy lives as long as the session, since a
 * resource owner may come to it when the executor's memory has gone.  It is made anew when no scan has it.
 */
#include "table/standin.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "pgstat.h"
#include "table/zenam_rel.h"
#include "utils/memutils.h"

typedef struct Standin
{
	struct Standin *next;
	RelationData copy;
	FormData_pg_class form;
	Relation	index;
} Standin;

static Standin *standins = NULL;
static bool planned_here = false;	/* a plan of this session names one */

static IndexAmRoutine *
tree_routine(Oid am)
{
	static IndexAmRoutine *routine = NULL;
	MemoryContext old;

	if (routine != NULL)
		return routine;
	old = MemoryContextSwitchTo(TopMemoryContext);
	routine = GetIndexAmRoutineByAmId(am, false);
	MemoryContextSwitchTo(old);
	return routine;
}

static Standin *
find_standin(Oid indexid)
{
	for (Standin *s = standins; s != NULL; s = s->next)
		if (RelationGetRelid(&s->copy) == indexid)
			return s;
	return NULL;
}

Relation
zen_standin_of(Relation index)
{
	Oid			am = get_index_am_oid("zentree", false);
	IndexAmRoutine *routine = tree_routine(am);
	Standin    *s = find_standin(RelationGetRelid(index));

	Assert(index->rd_rel->relam == BTREE_AM_OID);
	if (s == NULL)
	{
		s = MemoryContextAllocZero(TopMemoryContext, sizeof(Standin));
		s->copy.rd_id = RelationGetRelid(index);
		s->next = standins;
		standins = s;
	}
	else if (s->copy.rd_refcnt > 1 && s->index == index)
		return &s->copy;
	/* kept in the entry, not in the copy */
	(void) RelationGetIndexExpressions(index);
	(void) RelationGetIndexPredicate(index);
	(void) pgstat_should_count_relation(index);
	s->copy = *index;
	s->form = *index->rd_rel;
	s->form.relam = am;
	s->index = index;
	s->copy.rd_rel = &s->form;
	s->copy.rd_indam = routine;
	s->copy.rd_amcache = NULL;
	s->copy.rd_smgr = NULL;
	s->copy.rd_refcnt = 1;
	return &s->copy;
}

/* The btree for which a relation stands in; NULL: it is none. */
static Relation
behind(Relation rel)
{
	Standin    *s = rel != NULL ? find_standin(RelationGetRelid(rel)) : NULL;

	return s != NULL && rel == &s->copy ? s->index : NULL;
}

/* ---------- nodes ---------- */

/* Where a node has its index; NULL: it has none. */
static Relation *
index_of(PlanState *state)
{
	switch (nodeTag(state))
	{
		case T_IndexScanState:
			return &((IndexScanState *) state)->iss_RelationDesc;
		case T_IndexOnlyScanState:
			return &((IndexOnlyScanState *) state)->ioss_RelationDesc;
		case T_BitmapIndexScanState:
			return &((BitmapIndexScanState *) state)->biss_RelationDesc;
		default:
			return NULL;
	}
}

static bool
is_of_zen(Relation index)
{
	Relation	table = table_open(index->rd_index->indrelid, NoLock);
	bool		is = zen_rel_is_zen(table);

	table_close(table, NoLock);
	return is;
}

/* The executor has begun its scan of the btree already, and has read nothing. */
static void
begin_bitmap(BitmapIndexScanState *node)
{
	index_endscan(node->biss_ScanDesc);
	node->biss_ScanDesc = zen_node_beginscan_bitmap(node, node->biss_RelationDesc, node->ss.ps.state->es_snapshot,
													node->biss_NumScanKeys);
	if (node->biss_NumRuntimeKeys == 0 && node->biss_NumArrayKeys == 0)
		index_rescan(node->biss_ScanDesc, node->biss_ScanKeys, node->biss_NumScanKeys, NULL, 0);
}

static bool
put_standins(PlanState *state, void *context)
{
	Relation   *index;

	if (state == NULL)
		return false;
	index = index_of(state);
	if (index != NULL && *index != NULL && (*index)->rd_rel->relam == BTREE_AM_OID && is_of_zen(*index))
	{
		*index = zen_standin_of(*index);
		planned_here = true;
		if (IsA(state, BitmapIndexScanState))
			begin_bitmap((BitmapIndexScanState *) state);
	}
	return planstate_tree_walker(state, put_standins, context);
}

static bool
take_standins(PlanState *state, void *context)
{
	Relation   *index;

	if (state == NULL)
		return false;
	index = index_of(state);
	if (index != NULL && behind(*index) != NULL)
		*index = behind(*index);
	return planstate_tree_walker(state, take_standins, context);
}

void
zen_standin_start(QueryDesc *query)
{
	(void) put_standins(query->planstate, NULL);
}

void
zen_standin_end(QueryDesc *query)
{
	if (standins != NULL)
		(void) take_standins(query->planstate, NULL);
}

/* Its btrees are built by the first process that passes the gate of their table.  A bitmap scan reads them before. */
void
zen_standin_before(const PlannedStmt *stmt)
{
	ListCell   *lc;

	if (!planned_here || RecoveryInProgress())
		return;
	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_RELATION && rte->rellockmode != NoLock && zen_relid_is_zen(rte->relid))
		{
			Relation	table = table_open(rte->relid, rte->rellockmode);

			if (zen_rel_is_zen(table))
				(void) zen_rel_htable(table);
			table_close(table, NoLock);
		}
	}
}
