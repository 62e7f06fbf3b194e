/*
 * truncate.c -- without zen.stream, TRUNCATE of zen tables is not decoded.
 *
 * TRUNCATE names its tables in a WAL record for logical decoding, zen tables, too.  Subscribers and other readers of
 * a slot would then empty a table whose rows they never get.  PostgreSQL exports the part that truncates, which takes
 * the list of tables to name from its caller.  So statements that reach zen tables are executed here, in two steps:
 * all tables are locked and checked, those that CASCADE adds included, and the list is made without zen's.
 *
 * The utility hook that does so stands for PostgreSQL's own execution, so it must be the last that is called.  zen
 * sets its hooks when all libraries are loaded, so another library's hook is called after it: then the statement is
 * left to that hook, and table/zenam_publish.c judges it.
 */
#include "admin/truncate.h"

#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "table/zenam_rel.h"
#include "table/zenam_publish.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static ProcessUtility_hook_type prev_utility_hook;

/* The tables that a statement truncates; the lists are parallel. */
typedef struct Targets
{
	List	   *rels;			/* of Relation, locked */
	List	   *relids;
} Targets;

/* ---------- which statements ---------- */

/* Add those that reference one of the tables, and those that reference them. */
static List *
with_referencing(List *relids)
{
	List	   *more;

	while ((more = heap_truncate_find_FKs(relids)) != NIL)
		relids = list_concat(relids, more);
	return relids;
}

/* The tables that the statement would truncate now.  Nothing is locked, and names that do not resolve are left out. */
static List *
look_up_tables(TruncateStmt *stmt)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);
		Oid			relid = RangeVarGetRelid(rv, NoLock, true);

		if (OidIsValid(relid))
			relids = list_concat_unique_oid(relids, rv->inh ? find_all_inheritors(relid, NoLock, NULL) :
											list_make1_oid(relid));
	}
	return stmt->behavior == DROP_CASCADE ? with_referencing(relids) : relids;
}

static bool
reaches_zen(TruncateStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, look_up_tables(stmt))
		if (zen_relid_is_zen(lfirst_oid(lc)))
		return true;
	return false;
}

/* ---------- locks and checks ---------- */

/* Is it something that can be truncated?  Before it is locked, or when it is. */
static void
check_kind(Oid relid, Form_pg_class form)
{
	if (form->relkind == RELKIND_FOREIGN_TABLE)
	{
		if (GetFdwRoutineByRelId(relid)->ExecForeignTruncate == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot truncate foreign table \"%s\"", NameStr(form->relname))));
	}
	else if (form->relkind != RELKIND_RELATION && form->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", NameStr(form->relname))));
	if (!allowSystemTableMods && IsSystemClass(relid, form))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", NameStr(form->relname))));
	InvokeObjectTruncateHook(relid);
}

static void
check_permission(Oid relid, Form_pg_class form)
{
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(form->relkind), NameStr(form->relname));
}

/* No user waits for the lock of a table that he may not truncate. */
static void
check_before_lock(const RangeVar *rv, Oid relid, Oid old_relid, void *arg)
{
	HeapTuple	tuple = OidIsValid(relid) ? SearchSysCache1(RELOID, ObjectIdGetDatum(relid)) : NULL;

	if (!HeapTupleIsValid(tuple))
		return;
	check_kind(relid, (Form_pg_class) GETSTRUCT(tuple));
	check_permission(relid, (Form_pg_class) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
}

static void
add_target(Targets *t, Relation rel)
{
	Assert(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	Assert(!list_member_oid(t->relids, RelationGetRelid(rel)));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot truncate temporary tables of other sessions")));
	CheckTableNotInUse(rel, "TRUNCATE");
	t->rels = lappend(t->rels, rel);
	t->relids = lappend_oid(t->relids, RelationGetRelid(rel));
}

/* Children and partitions of a table; the permission for it is that for them. */
static void
add_children(Targets *t, Oid parent)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(parent, AccessExclusiveLock, NULL))
	{
		Relation	rel;

		if (list_member_oid(t->relids, lfirst_oid(lc)))
			continue;
		rel = table_open(lfirst_oid(lc), NoLock);
		if (RELATION_IS_OTHER_TEMP(rel))
		{
			table_close(rel, AccessExclusiveLock);
			continue;
		}
		check_kind(RelationGetRelid(rel), rel->rd_rel);
		add_target(t, rel);
	}
}

static void
add_named(Targets *t, RangeVar *rv)
{
	Oid			relid = RangeVarGetRelidExtended(rv, AccessExclusiveLock, 0, check_before_lock, NULL);
	Relation	rel;

	if (list_member_oid(t->relids, relid))
		return;
	rel = table_open(relid, NoLock);
	if (!rv->inh && rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot truncate only a partitioned table"),
				 errhint("Leave ONLY out, or name its partitions.")));
	add_target(t, rel);
	if (rv->inh)
		add_children(t, relid);
}

/* Tables that reference these, round by round: each is locked before its own are looked for. */
static void
add_referencing(Targets *t)
{
	List	   *more;
	ListCell   *lc;

	while ((more = heap_truncate_find_FKs(t->relids)) != NIL)
		foreach(lc, more)
	{
		Relation	rel = table_open(lfirst_oid(lc), AccessExclusiveLock);

		ereport(NOTICE,
				(errmsg("truncate cascades to table \"%s\"", RelationGetRelationName(rel))));
		check_kind(RelationGetRelid(rel), rel->rd_rel);
		check_permission(RelationGetRelid(rel), rel->rd_rel);
		add_target(t, rel);
	}
}

/* ---------- the statement ---------- */

/* The tables that readers of the WAL are told of. */
static List *
decoded_tables(const Targets *t)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, t->rels)
	{
		Relation	rel = lfirst(lc);

		if (RelationIsLogicallyLogged(rel) && !zen_rel_is_zen(rel))
			relids = lappend_oid(relids, RelationGetRelid(rel));
	}
	return relids;
}

static void
truncate_targets(const Targets *t, TruncateStmt *stmt)
{
	bool		outer = zen_truncate_undecoded;

	Assert(list_length(t->rels) == list_length(t->relids));
	/* triggers may run another one within */
	zen_truncate_undecoded = true;
	PG_TRY();
	{
		zen_execute_truncate(t->rels, t->relids, decoded_tables(t), stmt->behavior, stmt->restart_seqs);
	}
	PG_FINALLY();
	{
		zen_truncate_undecoded = outer;
	}
	PG_END_TRY();
}

/* False if the statement is another, which is left to PostgreSQL. */
static bool
truncate_undecoded(TruncateStmt *stmt)
{
	Targets		t = {NIL, NIL};
	ListCell   *lc;

	if (!zen_hides_changes() || !reaches_zen(stmt))
		return false;
	PreventCommandIfReadOnly("TRUNCATE TABLE");
	PreventCommandIfParallelMode("TRUNCATE TABLE");
	PreventCommandDuringRecovery("TRUNCATE TABLE");
	foreach(lc, stmt->relations)
		add_named(&t, lfirst_node(RangeVar, lc));
	if (stmt->behavior == DROP_CASCADE)
		add_referencing(&t);
	truncate_targets(&t, stmt);
	foreach(lc, t.rels)
		table_close((Relation) lfirst(lc), NoLock);
	CommandCounterIncrement();
	return true;
}

static void
truncate_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
				 ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;

	if (prev_utility_hook != NULL)
		prev_utility_hook(pstmt, query, read_only, context, params, env, dest, qc);
	else if (!IsA(stmt, TruncateStmt) || !truncate_undecoded((TruncateStmt *) stmt))
		standard_ProcessUtility(pstmt, query, read_only, context, params, env, dest, qc);
}

void
zen_truncate_init(void)
{
	Assert(ProcessUtility_hook != truncate_utility);	/* once */
	prev_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = truncate_utility;
}
