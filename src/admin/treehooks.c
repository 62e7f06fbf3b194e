/*
 * treehooks.c -- what hooks do for indexes of zentree.
 *
 * zen.default_index.  The grammar has no place for the access method of PRIMARY KEY and UNIQUE, but the parse tree has.
 * It is filled in here.  Partitioned tables keep btree, since PostgreSQL up to 17 has no other unique index for them.
 * Partitions keep it, since their indexes must fit those of the whole.  So do tables that are not zen's, and
 * constraints on a column whose type has an operator class of btree, but none of zentree.
 *
 * ATTACH PARTITION.  For the same reasons unique trees of a table that becomes a partition are made btrees first.
 */
#include "admin/treehooks.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "base/guc.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "index/treedir.h"
#include "index/zentree.h"
#include "miscadmin.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
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

/* A constraint, and the column at which it stands, if any. */
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
	{
		if (!can_be_tree(strVal(lfirst(lc)), place->added, place->relid, place->table))
			return;
	}
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
choose_for_alter(const ZenAlterTable *alter)
{
	Place		place = {.added = alter->added,.relid = alter->relid,.table = alter->stmt->relation->relname};

	if (alter->relkind == RELKIND_RELATION && zen_relid_is_zen(alter->relid) && !get_rel_relispartition(alter->relid))
		choose_for_elements(alter->added, place);
}

/* ---------- ATTACH PARTITION ---------- */

static void
fit_partitions(const ZenAlterTable *alter)
{
	ListCell   *lc;

	if (!alter->attaches || !OidIsValid(alter->relid))
		return;
	foreach(lc, alter->partitions)
	{
		Oid			partition = RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true);

		if (OidIsValid(partition) && zen_relid_is_zen(partition))
			zen_index_fit_partition(alter->relid, partition);
	}
}

/* ---------- SET ACCESS METHOD ---------- */

static void
leave_zen(const ZenAlterTable *alter)
{
	if (alter->am != NULL && strcmp(alter->am, "zen") != 0 && OidIsValid(get_table_am_oid(alter->am, true)) &&
		(alter->relkind == RELKIND_RELATION || alter->relkind == RELKIND_MATVIEW) && zen_relid_is_zen(alter->relid))
		zen_index_leave_zen(alter->relid);
}

/* ---------- SET TABLESPACE ---------- */

/* PostgreSQL copies the file, which is empty, and no hook tells of the new one.  The trees to be built anew. */
static List *
find_moved(const ZenAlterTable *alter)
{
	return alter->moves && alter->relkind == RELKIND_INDEX && zen_relid_is_tree(alter->relid) ?
		list_make1_oid(alter->relid) : NIL;
}

/* ALTER INDEX ALL IN TABLESPACE does not say which: any tree of this database. */
static List *
all_trees(void)
{
	int			n;
	ZenTreeInfo *trees = zen_tree_list(&n);
	List	   *result = NIL;

	for (int i = 0; i < n; i++)
	{
		Oid			spc = ZEN_LOCATOR_SPC(trees[i].loc);
		Oid			relid = RelidByRelfilenumber(spc == MyDatabaseTableSpace ? InvalidOid : spc,
												 ZEN_LOCATOR_NUMBER(trees[i].loc));

		if (OidIsValid(relid))
			result = lappend_oid(result, relid);
	}
	pfree(trees);
	return result;
}

/* Build the tree of an index that this statement has locked, if its file has none now. */
static void
build_moved(Oid indexoid)
{
	Relation	index = RelationIdGetRelation(indexoid);
	RelFileLocator loc;
	bool		lost;

	if (index == NULL)
		return;
	loc = zen_rel_locator(index);
	lost = CheckRelationLockedByMe(index, AccessExclusiveLock, false) && !zen_tree_exists(&loc);
	RelationClose(index);
	if (lost)
		zen_index_build_again(indexoid);
}

/* pg_upgrade makes the extension's objects one by one. */
static bool
makes_zentree(Node *stmt)
{
	return IsBinaryUpgrade && IsA(stmt, CreateAmStmt) && strcmp(((CreateAmStmt *) stmt)->amname, "zentree") == 0;
}

/* ---------- LIKE ---------- */

/* Was the statement made by PostgreSQL, and not by a user? */
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

List *
zen_treehooks_before(Node *stmt, const ZenAlterTable *alter)
{
	bool		choose = zen_default_index == ZEN_INDEX_ZENTREE &&
	(IsA(stmt, CreateStmt) || IsA(stmt, AlterTableStmt)) && OidIsValid(get_index_am_oid("zentree", true));
	List	   *moved = NIL;

	if (IsA(stmt, IndexStmt))
		choose_for_copy((IndexStmt *) stmt);
	if (alter->stmt != NULL)
	{
		fit_partitions(alter);
		leave_zen(alter);
		moved = find_moved(alter);
	}
	if (IsA(stmt, AlterTableMoveAllStmt) && ((AlterTableMoveAllStmt *) stmt)->objtype == OBJECT_INDEX)
		moved = all_trees();
	if (choose && IsA(stmt, CreateStmt))
		choose_for_create((CreateStmt *) stmt);
	else if (choose && alter->stmt != NULL)
		choose_for_alter(alter);
	return moved;
}

void
zen_treehooks_after(Node *stmt, List *moved)
{
	ListCell   *lc;

	if (makes_zentree(stmt))
	{
		CommandCounterIncrement();
		zen_treeclasses_copy(false);
	}
	foreach(lc, moved)
		build_moved(lfirst_oid(lc));
}
