/*
 * standbyplan.c -- plans on a hot standby: which indexes of zen tables they may use.
 *
 * These indexes are unlogged, and the planner would open files that are not there.  It asks the table for its size,
 * then looks in the relcache entry if there are indexes, and calls get_relation_info_hook at the end.  From the first
 * to the last of these steps the entry says that there are none.  No other process sees that, and in this one nobody
 * else looks in between, as the relation is being planned.  The hook describes the indexes for which trees stand in.
 *
 * After an error the entry is set right while the planner still has the relation open.  So the entry is never left as
 * it is when the server is promoted, and the session inserts into the table.
 */
#include "table/standbyplan.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "base/guc.h"
#include "catalog/heap.h"
#include "catalog/pg_am.h"
#include "catalog/pg_opfamily.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "nodes/pg_list.h"
#include "rewrite/rewriteManip.h"
#include "standby/followers.h"
#include "table/treeindex.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define PAGE_ENTRIES	200		/* of a tree whose size is not known, in as
								 * many bytes as a page has */

static List *hidden = NIL;		/* Relations, in TopMemoryContext */
static int	depth = 0;			/* of plans that are made within plans */

static void
show_last(void)
{
	Relation	rel = llast(hidden);

	rel->rd_rel->relhasindex = true;
	hidden = list_delete_last(hidden);
}

int
zen_standbyplan_begin(void)
{
	depth++;
	return list_length(hidden);
}

void
zen_standbyplan_end(int begun)
{
	Assert(depth > 0 && list_length(hidden) >= begun);
	depth--;
	while (list_length(hidden) > begun)
		show_last();
}

void
zen_standbyplan_hide(Relation rel)
{
	MemoryContext old;

	if (depth == 0 || !rel->rd_rel->relhasindex)
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	hidden = lappend(hidden, rel);
	MemoryContextSwitchTo(old);
	rel->rd_rel->relhasindex = false;
}

/* ---------- an index, as the planner wants to know it ---------- */

/* Has the family the order of a btree, by which the planner names orders? */
static bool
is_btree_family(Oid family)
{
	HeapTuple	row = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	bool		is = HeapTupleIsValid(row) && ((Form_pg_opfamily) GETSTRUCT(row))->opfmethod == BTREE_AM_OID;

	if (HeapTupleIsValid(row))
		ReleaseSysCache(row);
	return is;
}

static void
describe_columns(IndexOptInfo *info, Relation index)
{
	int			ncolumns = info->ncolumns;
	int			nkeys = info->nkeycolumns;

	info->indexkeys = palloc(ncolumns * sizeof(int));
	info->canreturn = palloc(ncolumns * sizeof(bool));
	for (int i = 0; i < ncolumns; i++)
	{
		info->indexkeys[i] = index->rd_index->indkey.values[i];
		info->canreturn[i] = true;
	}
	info->indexcollations = palloc(nkeys * sizeof(Oid));
	info->opfamily = palloc(nkeys * sizeof(Oid));
	info->opcintype = palloc(nkeys * sizeof(Oid));
	for (int i = 0; i < nkeys; i++)
	{
		info->indexcollations[i] = index->rd_indcollation[i];
		info->opfamily[i] = index->rd_opfamily[i];
		info->opcintype[i] = index->rd_opcintype[i];
	}
	info->opclassoptions = RelationGetIndexAttOptions(index, true);
}

static void
describe_order(IndexOptInfo *info, Relation index)
{
	int			nkeys = info->nkeycolumns;
	bool	   *reverse = palloc(nkeys * sizeof(bool));
	bool	   *nulls_first = palloc(nkeys * sizeof(bool));

	for (int i = 0; i < nkeys; i++)
	{
		if (!is_btree_family(info->opfamily[i]))
			return;
		reverse[i] = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
		nulls_first[i] = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
	}
	info->sortopfamily = info->opfamily;
	info->reverse_sort = reverse;
	info->nulls_first = nulls_first;
}

/* What the columns are, for index-only scans: behind indexprs. */
static List *
target_list(const IndexOptInfo *info, Relation table)
{
	ListCell   *expression = list_head(info->indexprs);
	List	   *targets = NIL;

	for (int i = 0; i < info->ncolumns; i++)
	{
		int			key = info->indexkeys[i];
		Expr	   *column;

		if (key == 0)
		{
			column = lfirst(expression);
			expression = lnext(info->indexprs, expression);
		}
		else
		{
			const FormData_pg_attribute *att = key < 0 ? SystemAttributeDefinition((AttrNumber) key) :
			TupleDescAttr(RelationGetDescr(table), key - 1);

			column = (Expr *) makeVar(info->rel->relid, (AttrNumber) key, att->atttypid, att->atttypmod,
									  att->attcollation, 0);
		}
		targets = lappend(targets, makeTargetEntry(column, (AttrNumber) (i + 1), NULL, false));
	}
	return targets;
}

static void
describe_expressions(IndexOptInfo *info, Relation table, Relation index)
{
	info->indexprs = RelationGetIndexExpressions(index);
	info->indpred = RelationGetIndexPredicate(index);
	if (info->rel->relid != 1)
	{
		ChangeVarNodes((Node *) info->indexprs, 1, (int) info->rel->relid, 0);
		ChangeVarNodes((Node *) info->indpred, 1, (int) info->rel->relid, 0);
	}
	info->indextlist = target_list(info, table);
}

static void
describe_method(IndexOptInfo *info)
{
	IndexAmRoutine *routine;

	info->relam = get_index_am_oid("zentree", false);
	routine = GetIndexAmRoutineByAmId(info->relam, false);
	info->amoptionalkey = routine->amoptionalkey;
	info->amsearcharray = routine->amsearcharray;
	info->amsearchnulls = routine->amsearchnulls;
	info->amcanparallel = routine->amcanparallel;
	info->amhasgettuple = true;
	info->amhasgetbitmap = true;
	info->amcanmarkpos = true;
	info->amcostestimate = routine->amcostestimate;
	pfree(routine);
}

/* The tree may have to be made first, but its size is that of its entries. */
static void
describe_size(IndexOptInfo *info)
{
	info->tuples = info->rel->tuples;
	info->pages = (BlockNumber) Max(info->tuples / PAGE_ENTRIES, 1);
	info->tree_height = info->pages > 1 ? 1 : 0;
	for (double n = info->pages; n > PAGE_ENTRIES; n /= PAGE_ENTRIES)
		info->tree_height++;
}

static IndexOptInfo *
describe_index(RelOptInfo *rel, Relation table, Relation index)
{
	IndexOptInfo *info = makeNode(IndexOptInfo);

	info->indexoid = RelationGetRelid(index);
	info->reltablespace = index->rd_rel->reltablespace;
	info->rel = rel;
	info->ncolumns = index->rd_index->indnatts;
	info->nkeycolumns = index->rd_index->indnkeyatts;
	describe_columns(info, index);
	describe_method(info);
	describe_order(info, index);
	describe_expressions(info, table, index);
	info->unique = index->rd_index->indisunique;
	zen_index_nulls_not_distinct(info, index);
	info->immediate = index->rd_index->indimmediate;
	/* the planner is not to look for the ends of a column's range in it */
	info->hypothetical = true;
	describe_size(info);
	return info;
}

/*
 * An older snapshot may see rows that the index need not have: two of one key, or a null in what is a primary key now.
 * The primary does not know of snapshots here.
 */
static bool
is_for_all_snapshots(Relation index)
{
	return TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), TransactionXmin);
}

static void
add_index(PlannerInfo *root, RelOptInfo *rel, Relation table, Oid indexoid)
{
	Relation	index = index_open(indexoid, root->simple_rte_array[rel->relid]->rellockmode);

	if (zen_index_can_stand_in(index))
	{
		if (is_for_all_snapshots(index))
			rel->indexlist = lcons(describe_index(rel, table, index), rel->indexlist);
		else
			root->glob->transientPlan = true;
	}
	index_close(index, NoLock);
}

void
zen_standbyplan_described(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	Relation	table;
	List	   *indexes;
	ListCell   *lc;

	if (hidden == NIL || RelationGetRelid((Relation) llast(hidden)) != relid)
		return;
	show_last();
	if (inhparent || !zen_standby_indexes || !zen_followers_have_room())
		return;
	table = table_open(relid, NoLock);
	indexes = RelationGetIndexList(table);
	foreach(lc, indexes)
		add_index(root, rel, table, lfirst_oid(lc));
	list_free(indexes);
	table_close(table, NoLock);
}
