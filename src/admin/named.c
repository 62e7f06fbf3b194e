/*
 * named.c -- what a utility statement names: tables, and what ALTER TABLE does to one.
 *
 * After a crash a command that locks or replaces indexes must find those of its tables rebuilt (zenam_reindex.c).
 * Tables that the command does not name are not its business: one whose index cannot be built must not keep it from
 * running.
 *
 * Some commands are not listed, since they need no index that was there before:
 * - DROP, and ALTER TABLE ... DROP CONSTRAINT alone;
 * - TRUNCATE, which makes new tables;
 * - VACUUM and CLUSTER of all tables, which come to each table in a transaction of its own;
 * - ALTER ... ALL IN TABLESPACE, which moves files as they are.
 */
#include "base/compat.h"

#include "admin/named.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Its toast table, or InvalidOid. */
static Oid
toast_table(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			toast = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		toast = ((Form_pg_class) GETSTRUCT(tuple))->reltoastrelid;
		ReleaseSysCache(tuple);
	}
	return toast;
}

static List *
add_table(List *tables, Oid relid)
{
	Oid			toast = toast_table(relid);

	Assert(OidIsValid(relid));
	tables = list_append_unique_oid(tables, relid);
	return OidIsValid(toast) ? list_append_unique_oid(tables, toast) : tables;
}

/* Add a table, or that of an index, with its children. */
static List *
add_relation(List *tables, Oid relid, bool children)
{
	char		relkind = get_rel_relkind(relid);
	ListCell   *lc;

	if (relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX)
		relid = IndexGetRelation(relid, true);
	if (!OidIsValid(relid))
		return tables;
	if (!children)
		return add_table(tables, relid);
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		tables = add_table(tables, lfirst_oid(lc));
	return tables;
}

static List *
add_named(List *tables, RangeVar *name)
{
	Oid			relid = name != NULL ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;

	return OidIsValid(relid) ? add_relation(tables, relid, name->inh) : tables;
}

/* All tables of zen in a namespace, or in all. */
static List *
all_tables(Oid namespace)
{
	Oid			am = get_table_am_oid("zen", true);
	Relation	pg_class;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *tables = NIL;

	if (!OidIsValid(am))
		return NIL;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relam == am && (!OidIsValid(namespace) || form->relnamespace == namespace))
			tables = add_table(tables, form->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return tables;
}

static List *
reindexed(ReindexStmt *stmt)
{
	Oid			namespace;

	switch (stmt->kind)
	{
		case REINDEX_OBJECT_INDEX:
		case REINDEX_OBJECT_TABLE:
			return add_named(NIL, stmt->relation);
		case REINDEX_OBJECT_SCHEMA:
			namespace = get_namespace_oid(stmt->name, true);
			return OidIsValid(namespace) ? all_tables(namespace) : NIL;
		case REINDEX_OBJECT_DATABASE:
			return all_tables(InvalidOid);
		case REINDEX_OBJECT_SYSTEM:
			return NIL;
	}
	return NIL;
}

/* The table, and its partitions that are attached or detached. */
static List *
altered(const ZenAlterTable *alter)
{
	List	   *tables;
	ListCell   *lc;

	Assert(alter->stmt != NULL);
	if (alter->only_drops_constraints)
		return NIL;
	tables = add_named(NIL, alter->stmt->relation);
	foreach(lc, alter->partitions)
		tables = add_named(tables, lfirst_node(RangeVar, lc));
	return tables;
}

static List *
vacuumed(VacuumStmt *stmt)
{
	List	   *tables = NIL;
	ListCell   *lc;

	if (!stmt->is_vacuumcmd)
		return NIL;
	foreach(lc, stmt->rels)
	{
		VacuumRelation *rel = lfirst_node(VacuumRelation, lc);

		if (OidIsValid(rel->oid))
			tables = add_relation(tables, rel->oid, true);
		else
			tables = add_named(tables, rel->relation);
	}
	return tables;
}

List *
zen_named_tables(Node *stmt, const ZenAlterTable *alter)
{
	switch (nodeTag(stmt))
	{
		case T_ClusterStmt:
			return add_named(NIL, ((ClusterStmt *) stmt)->relation);
		case T_ReindexStmt:
			return reindexed((ReindexStmt *) stmt);
		case T_AlterTableStmt:
			return altered(alter);
		case T_RefreshMatViewStmt:
			return add_named(NIL, ((RefreshMatViewStmt *) stmt)->relation);
		case T_IndexStmt:
			return add_named(NIL, ((IndexStmt *) stmt)->relation);
		case T_CopyStmt:		/* it opens the indexes before the first row */
			return ((CopyStmt *) stmt)->is_from ? add_named(NIL, ((CopyStmt *) stmt)->relation) : NIL;
		case T_VacuumStmt:
			return vacuumed((VacuumStmt *) stmt);
		default:
			return NIL;
	}
}

/* ---------- ALTER TABLE ---------- */

/* Add one command of ALTER TABLE to the summary of the statement. */
static void
add_command(ZenAlterTable *alter, const AlterTableCmd *cmd)
{
	if (cmd->subtype != AT_DropConstraint)
		alter->only_drops_constraints = false;
	if (cmd->def != NULL && IsA(cmd->def, PartitionCmd))
		alter->partitions = lappend(alter->partitions, ((PartitionCmd *) cmd->def)->name);
	switch (cmd->subtype)
	{
		case AT_AddColumn:
		case AT_AddConstraint:
			if (cmd->def != NULL)
				alter->added = lappend(alter->added, cmd->def);
			break;
		case AT_AttachPartition:
			alter->attaches = true;
			break;
		case AT_SetAccessMethod:
			/* DEFAULT gives no name */
			alter->am = cmd->name ? cmd->name : default_table_access_method;
			alter->am_is_default = cmd->name == NULL;
			break;
		case AT_SetTableSpace:
			alter->moves = true;
			break;
		default:
			break;
	}
}

ZenAlterTable
zen_named_alter(Node *stmt)
{
	ZenAlterTable alter = {.only_drops_constraints = true};
	ListCell   *lc;

	if (!IsA(stmt, AlterTableStmt))
		return alter;
	alter.stmt = (AlterTableStmt *) stmt;
	alter.relid = RangeVarGetRelid(alter.stmt->relation, NoLock, true);
	if (OidIsValid(alter.relid))
		alter.relkind = get_rel_relkind(alter.relid);
	foreach(lc, alter.stmt->cmds)
		add_command(&alter, lfirst_node(AlterTableCmd, lc));
	return alter;
}
