/*
 * zentree.c -- the index access method zentree: its routine, cost estimate and options.
 *
 * An index of this method is a tree in shared DRAM (tree.h).  It is for zen tables only.  Operator classes, their
 * functions and strategies are those of btree.
 */
#include "index/zentree.h"

#include "access/nbtree.h"
#include "fmgr.h"
#include "utils/index_selfuncs.h"

PG_FUNCTION_INFO_V1(zen_indexam_handler);

/* The planner has taken the size of the index's file, which is empty, for that of the index. */
static void
zentree_costestimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
					 Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *info = path->indexinfo;
	Relation	index = index_open(info->indexoid, NoLock);
	ZenTree    *tree = zen_tree_open(index);

	if (tree != NULL && tree->root != NULL)
	{
		uint64		bytes = (uint64) pg_atomic_read_u32(&tree->nodes) * ZEN_NODE_SIZE +
		pg_atomic_read_u64(&tree->tuple_bytes);

		info->pages = (BlockNumber) Max(bytes / BLCKSZ, 1);
		info->tree_height = tree->root->level;
		/* of a partial index nothing else is known */
		if (info->indpred != NIL)
			info->tuples = Min((double) pg_atomic_read_u32(&tree->nodes) * tree->leaf_room * 2 / 3,
							   info->rel->tuples);
	}
	index_close(index, NoLock);
	btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
}

static bool
zentree_canreturn(Relation index, int attno)
{
	return true;
}

Datum
zen_indexam_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amstrategies = BTMaxStrategyNumber;
	am->amsupport = BTNProcs;
	am->amoptsprocnum = BTOPTIONS_PROC;
	am->amcanorder = true;
	am->amcanbackward = true;
	am->amcanunique = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amclusterable = true;
	am->amcanparallel = true;
	am->ampredlocks = true;		/* zentree_insert.c */
	am->amcaninclude = true;
	am->amparallelvacuumoptions = 0;
	am->amkeytype = InvalidOid;
	zen_am_is_like_btree(am);

	am->ambuild = zentree_build;
	am->ambuildempty = zentree_buildempty;
	am->aminsert = zentree_insert;
	zentree_vacuum_callbacks(am);
	am->amcanreturn = zentree_canreturn;
	am->amcostestimate = zentree_costestimate;
	am->amoptions = btoptions;
	am->amproperty = btproperty;
	am->amvalidate = btvalidate;
	am->amadjustmembers = btadjustmembers;
	zentree_scan_callbacks(am);
	PG_RETURN_POINTER(am);
}
