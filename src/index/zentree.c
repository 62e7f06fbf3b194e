/*
 * zentree.c -- the index access method zentree: its routine, cost estimate and operator classes.
 *
 * An index of this method is a tree in shared DRAM (tree.h).  It is for zen tables only.  Operator classes, their
 * functions and strategies are those of btree.
 *
 * CREATE INDEX looks for an operator class of the access method that was named.  So each class of btree gets a twin of
 * the same name, in the same schema.  pg_catalog is one of them.  An extension with objects there cannot be moved to
 * another schema.  So the twins are not made members of the extension.  They go with the access method.
 *
 * CREATE EXTENSION makes the twins in pg_catalog, which no dump contains.  Twins in other schemas are made when a user
 * asks for them.  A dump has them as it has the user's own classes.
 */
#include "index/zentree.h"

#include "access/nbtree.h"
#include "base/compat.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "nodes/pathnodes.h"
#include "utils/builtins.h"
#include "utils/index_selfuncs.h"

PG_FUNCTION_INFO_V1(zen_indexam_handler);
PG_FUNCTION_INFO_V1(zen_copy_operator_classes);

/* ---------- the access method ---------- */

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

/* After a crash the file is as empty as it always is. */
static void
zentree_buildempty(Relation index)
{
}

static IndexBulkDeleteResult *
zentree_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	return stats;
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
	zentree_scan_callbacks(am);
	am->ambulkdelete = zentree_bulkdelete;
	am->amvacuumcleanup = zentree_vacuumcleanup;
	am->amcanreturn = zentree_canreturn;
	am->amcostestimate = zentree_costestimate;
	am->amoptions = btoptions;
	am->amproperty = btproperty;
	am->amvalidate = btvalidate;
	am->amadjustmembers = btadjustmembers;
	PG_RETURN_POINTER(am);
}

/* ---------- operator classes ---------- */

/* Each row is a command: families, their members, classes.  What is there already is left out. */
static const char *const class_commands =
"WITH btree AS (SELECT oid FROM pg_catalog.pg_am WHERE amname = 'btree'),"
" tree AS (SELECT oid FROM pg_catalog.pg_am WHERE amname = 'zentree'),"
" family AS ("
"  SELECT f.oid, f.opfname, f.opfnamespace,"
"         pg_catalog.format('%I.%I USING zentree', n.nspname, f.opfname) AS twin,"
"         (SELECT t.oid FROM pg_catalog.pg_opfamily t, tree WHERE t.opfmethod = tree.oid"
"          AND t.opfname = f.opfname AND t.opfnamespace = f.opfnamespace) AS there"
"  FROM pg_catalog.pg_opfamily f JOIN btree ON f.opfmethod = btree.oid"
"       JOIN pg_catalog.pg_namespace n ON n.oid = f.opfnamespace WHERE $1 OR n.nspname = 'pg_catalog'),"
" member AS ("
"  SELECT f.oid, pg_catalog.format('OPERATOR %s %I.%s (%s, %s)', a.amopstrategy, n.nspname, o.oprname,"
"         pg_catalog.format_type(a.amoplefttype, NULL), pg_catalog.format_type(a.amoprighttype, NULL)) AS item"
"  FROM family f JOIN pg_catalog.pg_amop a ON a.amopfamily = f.oid"
"       JOIN pg_catalog.pg_operator o ON o.oid = a.amopopr JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace"
"  WHERE a.amoppurpose = 's' AND NOT EXISTS ("
"   SELECT FROM pg_catalog.pg_amop t WHERE t.amopfamily = f.there AND t.amopstrategy = a.amopstrategy"
"   AND t.amoplefttype = a.amoplefttype AND t.amoprighttype = a.amoprighttype)"
"  UNION ALL"
"  SELECT f.oid, pg_catalog.format('FUNCTION %s (%s, %s) %I.%I (%s)', a.amprocnum,"
"         pg_catalog.format_type(a.amproclefttype, NULL), pg_catalog.format_type(a.amprocrighttype, NULL),"
"         n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes))"
"  FROM family f JOIN pg_catalog.pg_amproc a ON a.amprocfamily = f.oid"
"       JOIN pg_catalog.pg_proc p ON p.oid = a.amproc JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
"  WHERE NOT EXISTS ("
"   SELECT FROM pg_catalog.pg_amproc t WHERE t.amprocfamily = f.there AND t.amprocnum = a.amprocnum"
"   AND t.amproclefttype = a.amproclefttype AND t.amprocrighttype = a.amprocrighttype))"
"SELECT command FROM ("
" SELECT 1 AS step, f.oid, pg_catalog.format('CREATE OPERATOR FAMILY %s', f.twin) AS command"
" FROM family f WHERE f.there IS NULL"
" UNION ALL"
" SELECT 2, f.oid, pg_catalog.format('ALTER OPERATOR FAMILY %s ADD %s', f.twin, pg_catalog.string_agg(m.item, ', '))"
" FROM family f JOIN member m ON m.oid = f.oid GROUP BY f.oid, f.twin"
" UNION ALL"
" SELECT 3, c.oid,"
"        pg_catalog.format('CREATE OPERATOR CLASS %I.%I %s FOR TYPE %s USING zentree FAMILY %I.%I AS STORAGE %s',"
"        n.nspname, c.opcname, CASE WHEN c.opcdefault THEN 'DEFAULT' END, pg_catalog.format_type(c.opcintype, NULL),"
"        fn.nspname, f.opfname, pg_catalog.format_type(c.opcintype, NULL))"
" FROM pg_catalog.pg_opclass c JOIN btree ON c.opcmethod = btree.oid JOIN family f ON f.oid = c.opcfamily"
"      JOIN pg_catalog.pg_namespace n ON n.oid = c.opcnamespace"
"      JOIN pg_catalog.pg_namespace fn ON fn.oid = f.opfnamespace"
" WHERE ($1 OR n.nspname = 'pg_catalog')"
"       AND NOT EXISTS (SELECT FROM pg_catalog.pg_opclass t, tree WHERE t.opcmethod = tree.oid"
"                   AND t.opcname = c.opcname AND t.opcnamespace = c.opcnamespace)"
") x ORDER BY step, oid";

static void
copy_classes(bool all_schemas)
{
	Oid			type = BOOLOID;
	Datum		value = BoolGetDatum(all_schemas);
	SPITupleTable *table;
	uint64		n;

	if (SPI_execute_with_args(class_commands, 1, &type, &value, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list operator classes");
	table = SPI_tuptable;
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
		if (SPI_execute(SPI_getvalue(table->vals[i], table->tupdesc, 1), false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "could not copy an operator class");
}

void
zen_treeclasses_copy(bool all_schemas)
{
	bool		creating = creating_extension;

	SPI_connect();
	PG_TRY();
	{
		creating_extension = false;
		copy_classes(all_schemas);
	}
	PG_FINALLY();
	{
		creating_extension = creating;
	}
	PG_END_TRY();
	SPI_finish();
}

Datum
zen_copy_operator_classes(PG_FUNCTION_ARGS)
{
	zen_treeclasses_copy(!creating_extension);
	PG_RETURN_VOID();
}
