/*
 * treehooks.c -- what hooks do for indexes of zentree.
 *
 * zen.default_index.  The grammar has no place for the access method of PRIMARY KEY and UNIQUE, but the parse tree has.
 * It is filled in here.  Partitioned tables keep btree, since PostgreSQL up to 17 has no other unique index for them.
 * Partitions keep it, since their indexes must fit those of the whole.  So do tables that are not zen's, and
 * constraints on a column whose type has an operator class of btree, but none of zentree.
 *
 * ATTACH PARTITION.  For the same reasons unique trees of a table that becomes a partition are made btrees first.
 *
 * ON CONFLICT.  PostgreSQL opens the indexes of a target at the first row, unless they are open.  So they are opened
 * before (table/treeindex.c).
 */
#include "admin/treehooks.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "base/guc.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "index/treeclasses.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_type.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* ---------- zen.default_index ---------- */

static void
tell_of_btree(Oid type, const char *table)
{
	ereport(NOTICE,
			(errmsg("a unique index of table \"%s\" will be a btree, as zentree has no operator class for type %s",
					table, format_type_be(type)),
			 errhint("After SELECT zen_copy_operator_classes() by a superuser new constraints get a zentree.")));
}

/* The type of a column that a statement adds, or that the table has; InvalidOid: not known here. */
static Oid
type_of_column(const char *name, List *added, Oid relid)
{
	ListCell   *lc;

	foreach(lc, added)
	{
		ColumnDef  *column = lfirst(lc);
		Type		type;
		Oid			result;

		if (!IsA(column, ColumnDef) || strcmp(column->colname, name) != 0 || column->typeName == NULL)
			continue;
		/* serial is no type */
		type = LookupTypeName(NULL, column->typeName, NULL, true);
		if (type == NULL)
			return InvalidOid;
		result = typeTypeId(type);
		ReleaseSysCache(type);
		return result;
	}
	return OidIsValid(relid) ? get_atttype(relid, get_attnum(relid, name)) : InvalidOid;
}

static bool
can_be_tree(const char *column, List *added, Oid relid, const char *table)
{
	Oid			type = type_of_column(column, added, relid);

	if (!OidIsValid(type) || !zen_index_lacks_class(type))
		return true;
	tell_of_btree(type, table);
	return false;
}

/* What a constraint is on: the column that it stands at, if any. */
typedef struct Place
{
	const char *column;
	List	   *added;			/* columns, among others, that the statement
								 * adds */
	Oid			relid;			/* the table, if it is there */
	const char *table;
} Place;

static void
choose_for_constraint(Constraint *c, const Place *place)
{
	ListCell   *lc;

	if ((c->contype != CONSTR_PRIMARY && c->contype != CONSTR_UNIQUE) || c->access_method != NULL ||
		c->indexname != NULL)
		return;
	if (place->column != NULL && !can_be_tree(place->column, place->added, place->relid, place->table))
		return;
	foreach(lc, c->keys)
		if (!can_be_tree(strVal(lfirst(lc)), place->added, place->relid, place->table))
		return;
	c->access_method = pstrdup("zentree");
}

static void
choose_for_elements(List *elements, Place place)
{
	ListCell   *lc,
			   *c;

	foreach(lc, elements)
	{
		place.column = NULL;
		if (IsA(lfirst(lc), Constraint))
			choose_for_constraint(lfirst(lc), &place);
		else if (IsA(lfirst(lc), ColumnDef))
		{
			place.column = ((ColumnDef *) lfirst(lc))->colname;
			foreach(c, ((ColumnDef *) lfirst(lc))->constraints)
				choose_for_constraint(lfirst(c), &place);
		}
	}
}

/* The access method of a table to be created has been chosen before. */
static void
choose_for_create(CreateStmt *stmt)
{
	const char *am = stmt->accessMethod ? stmt->accessMethod : default_table_access_method;
	Place		place = {.added = stmt->tableElts,.table = stmt->relation->relname};

	if (stmt->partspec != NULL || stmt->partbound != NULL || strcmp(am, "zen") != 0 ||
		stmt->relation->relpersistence != RELPERSISTENCE_PERMANENT)
		return;
	choose_for_elements(stmt->tableElts, place);
	choose_for_elements(stmt->constraints, place);
}

static void
choose_for_alter(AlterTableStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	Place		place = {.relid = relid,.table = stmt->relation->relname};
	List	   *added = NIL;
	ListCell   *lc;

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_RELATION || !zen_relid_is_zen(relid) ||
		get_rel_relispartition(relid))
		return;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if ((cmd->subtype == AT_AddConstraint || cmd->subtype == AT_AddColumn) && cmd->def != NULL)
			added = lappend(added, cmd->def);
	}
	place.added = added;
	choose_for_elements(added, place);
}

/* ---------- ATTACH PARTITION ---------- */

static void
fit_partitions(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		Oid			whole,
					partition;

		if (cmd->subtype != AT_AttachPartition)
			continue;
		whole = RangeVarGetRelid(stmt->relation, NoLock, true);
		partition = RangeVarGetRelid(((PartitionCmd *) cmd->def)->name, NoLock, true);
		if (OidIsValid(whole) && OidIsValid(partition) && zen_relid_is_zen(partition))
			zen_index_fit_partition(whole, partition);
	}
}

/* ---------- SET TABLESPACE ---------- */

/* PostgreSQL copies the file, which is empty, and no hook tells of the new one.  The tree to be built anew, or none. */
static Oid
find_moved(AlterTableStmt *stmt)
{
	Oid			relid;
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype != AT_SetTableSpace)
			continue;
		relid = RangeVarGetRelid(stmt->relation, NoLock, true);
		if (OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_INDEX && zen_relid_is_tree(relid))
			return relid;
	}
	return InvalidOid;
}

static bool
any_tree(void)
{
	int			n;

	pfree(zen_tree_list(&n));
	return n > 0;
}

static void
check_move_all(AlterTableMoveAllStmt *stmt)
{
	if (stmt->objtype == OBJECT_INDEX && any_tree())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("indexes of access method zentree cannot be moved all at once"),
				 errhint("Use ALTER INDEX ... SET TABLESPACE for each index.")));
}

/* pg_upgrade makes the extension's objects one by one. */
static bool
makes_zentree(Node *stmt)
{
	return IsBinaryUpgrade && IsA(stmt, CreateAmStmt) && strcmp(((CreateAmStmt *) stmt)->amname, "zentree") == 0;
}

void
zen_treehooks_after(Node *stmt, Oid moved)
{
	if (makes_zentree(stmt))
	{
		CommandCounterIncrement();
		zen_treeclasses_copy(false);
	}
	if (OidIsValid(moved))
		zen_index_build_again(moved);
}

/* ---------- files that are used again ---------- */

/*
 * ALTER TABLE may give the file of an index that it drops to one that it creates, if their definitions agree.  It does
 * not compare access methods.  The constraint's index that it makes is a btree: it becomes what the file is.
 */
void
zen_treehooks_created(Oid indexoid)
{
	Relation	index = RelationIdGetRelation(indexoid);
	RelFileLocator loc;

	if (index == NULL)
		return;
	loc = zen_rel_locator(index);
	if (index->rd_rel->relkind == RELKIND_INDEX && !zen_index_is_tree(index) && zen_tree_exists(&loc))
		zen_index_make_tree(index);
	RelationClose(index);
}

/* ---------- LIKE ---------- */

/* Has PostgreSQL made the statement, and not a user? */
static bool
is_made(const IndexStmt *stmt)
{
	return stmt->transformed || stmt->isconstraint;
}

/*
 * CREATE TABLE ... (LIKE zen_table INCLUDING INDEXES) copies the access method, too.  And of columns that are
 * inherited, or are like another table's, types are known only now that the table is there.
 */
static void
choose_for_copy(IndexStmt *stmt)
{
	Oid			relid;
	ListCell   *lc;

	if (!is_made(stmt) || stmt->accessMethod == NULL || strcmp(stmt->accessMethod, "zentree") != 0)
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_RELATION)
		return;
	if (!zen_relid_is_zen(relid))
		stmt->accessMethod = pstrdup("btree");
	foreach(lc, stmt->indexParams)
	{
		IndexElem  *elem = lfirst(lc);

		if (strcmp(stmt->accessMethod, "zentree") == 0 && elem->name != NULL && elem->opclass == NIL &&
			!can_be_tree(elem->name, NIL, relid, stmt->relation->relname))
			stmt->accessMethod = pstrdup("btree");
	}
}

bool
zen_treehooks_changes(Node *stmt)
{
	if (IsA(stmt, IndexStmt))
		return is_made(castNode(IndexStmt, stmt));
	return zen_default_index == ZEN_INDEX_ZENTREE && (IsA(stmt, CreateStmt) || IsA(stmt, AlterTableStmt));
}

Oid
zen_treehooks_before(Node *stmt)
{
	Oid			moved = InvalidOid;
	bool		choose = zen_treehooks_changes(stmt) && OidIsValid(get_index_am_oid("zentree", true));

	if (choose && IsA(stmt, IndexStmt))
		choose_for_copy((IndexStmt *) stmt);

	if (IsA(stmt, AlterTableStmt))
	{
		fit_partitions((AlterTableStmt *) stmt);
		moved = find_moved((AlterTableStmt *) stmt);
	}
	if (IsA(stmt, AlterTableMoveAllStmt))
		check_move_all((AlterTableMoveAllStmt *) stmt);
	if (choose && IsA(stmt, CreateStmt))
		choose_for_create((CreateStmt *) stmt);
	else if (choose && IsA(stmt, AlterTableStmt))
		choose_for_alter((AlterTableStmt *) stmt);
	return moved;
}

/* ---------- ON CONFLICT ---------- */

static bool
open_targets(PlanState *state, void *context)
{
	ModifyTableState *modify = (ModifyTableState *) state;

	if (state == NULL)
		return false;
	if (IsA(state, ModifyTableState) && ((ModifyTable *) state->plan)->onConflictAction != ONCONFLICT_NONE)
		for (int i = 0; i < modify->mt_nrels; i++)
			if (zen_rel_is_zen(modify->resultRelInfo[i].ri_RelationDesc))
				zen_index_open_for_conflict(&modify->resultRelInfo[i]);
	return planstate_tree_walker(state, open_targets, context);
}

/* Only INSERT has ON CONFLICT; its plan says so at the top, or below a node of zen's. */
static bool
may_have_targets(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;

	if (stmt->hasModifyingCTE)
		return true;
	if (stmt->commandType != CMD_INSERT)
		return false;
	if (IsA(top, CustomScan) && outerPlan(top) != NULL)
		top = outerPlan(top);
	return !IsA(top, ModifyTable) || ((ModifyTable *) top)->onConflictAction != ONCONFLICT_NONE;
}

void
zen_treehooks_started(QueryDesc *query, int eflags)
{
	ListCell   *lc;

	if (!ZEN_CONFLICT_WANTS_BTREE || (eflags & EXEC_FLAG_EXPLAIN_ONLY) || query->planstate == NULL ||
		!may_have_targets(query->plannedstmt))
		return;
	(void) open_targets(query->planstate, NULL);
	foreach(lc, query->estate->es_auxmodifytables)
		(void) open_targets(lfirst(lc), NULL);
}
