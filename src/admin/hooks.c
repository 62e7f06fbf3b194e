/*
 * hooks.c -- object access, utility and executor hooks.
 *
 * Object access:
 * - an index on a zen table becomes unlogged before it is built;
 * - a dropped relation or database takes its HTables along;
 * - a relation that tools have given the file of a zen table is not dropped;
 * - a base backup that would not have the rows of zen tables is refused.
 *
 * Utility statements:
 * - temporary and unlogged tables, and those of extensions, fall back to heap when zen is only the default;
 * - databases that hold zen tables are not copied or moved;
 * - COMMIT PREPARED and ROLLBACK PREPARED reach zen;
 * - indexes that a command has built as logged ones are repaired after it, or before commit;
 * - a publication that could not send a zen table is refused.
 *
 * Executor:
 * - with zen.numa = soft, the session goes to the node that the first plan of a transaction tells;
 * - tables that a plan writes have their indexes first;
 * - bitmap heap scans must not prefetch from the main fork, which has no contents for a zen table.
 */
#include "base/compat.h"

#include "admin/hooks.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "admin/basebackup.h"
#include "admin/extension.h"
#include "admin/named.h"
#include "admin/replication.h"
#include "admin/standby.h"
#include "admin/swapped.h"
#include "admin/treehooks.h"
#include "admin/votes.h"
#include "base/epoch.h"
#include "base/partition.h"
#include "cache/tidmap.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "exec/exec.h"
#include "executor/executor.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nvm/adopt.h"
#include "parser/parsetree.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "storage/lmgr.h"
#include "table/reindexworker.h"
#include "table/treeindex.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_unlogged.h"
#include "tcop/utility.h"
#include "txn/ddl.h"
#include "txn/twophase.h"
#include "txn/xact.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static object_access_hook_type prev_object_access_hook;
static ProcessUtility_hook_type prev_utility_hook;
static ExecutorStart_hook_type prev_executor_start;

/* ---------- catalogs ---------- */

/* Heap databases come and go while recovery is under way, or has failed. */
static bool
database_has_zen_tables(Oid db)
{
	if (pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY && !zen_htable_names_database(db))
		return false;
	zen_gate();
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && zen_htables[i].db == db)
			return true;
	return false;
}

/* ---------- object access ---------- */

static void
relation_created(Oid relid)
{
	/* the new rows of pg_class and pg_index are not visible yet */
	CommandCounterIncrement();
	zen_extension_created(relid);
	if (zen_relid_is_tree(relid))
	{
		zen_index_check_partition(relid);
		zen_index_borrow_classes(relid);
	}
	else if (get_rel_relkind(relid) == RELKIND_INDEX)
		zen_treehooks_created(relid);
	if (get_rel_relkind(relid) == RELKIND_INDEX && get_rel_persistence(relid) == RELPERSISTENCE_PERMANENT &&
		zen_relid_is_zen(IndexGetRelation(relid, true)))
		zen_index_set_unlogged(relid);
}

/* Only a relation of zen waits for recovery. */
static void
relation_dropped(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	Relation	rel;
	ZenHTable  *ht;

	if (relkind == RELKIND_INDEX)
	{
		Oid			table = IndexGetRelation(relid, true);

		if (zen_relid_is_zen(table))
			zen_reindex_index_dropped(table);
	}
	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW && relkind != RELKIND_TOASTVALUE)
		return;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return;
	if (zen_rel_is_zen(rel))
	{
		Assert(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
		zen_gate();

		/*
		 * the rest of a COMMIT PREPARED in the table is done before it goes
		 */
		zen_twophase_resolve();
		ht = zen_ddl_find(zen_rel_locator(rel), rel->rd_backend);
		if (ht != NULL)
			zen_ddl_drop(ht);
	}
	relation_close(rel, NoLock);
}

static void
zen_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);
	if (subId != 0 || IsBootstrapProcessingMode())
		return;
	if (access == OAT_FUNCTION_EXECUTE)
	{
		zen_standby_check_function(objectId);
		zen_basebackup_check_function(objectId);
		zen_replication_check_function(objectId);
		return;
	}
	if (access == OAT_POST_CREATE && classId == RelationRelationId && OidIsValid(get_table_am_oid("zen", true)))
		relation_created(objectId);
	else if (access == OAT_DROP && classId == RelationRelationId)
	{
		zen_swapped_check(objectId);
		relation_dropped(objectId);
	}
	else if ((access == OAT_TRUNCATE || access == OAT_POST_ALTER) && classId == RelationRelationId)
		zen_swapped_check(objectId);
	else if (access == OAT_DROP && classId == DatabaseRelationId && database_has_zen_tables(objectId))
	{
		zen_twophase_resolve();
		zen_ddl_drop_database(objectId);
		zen_tree_database_dropped(objectId);
	}
}

/* ---------- indexes around commands that replace them ---------- */

/* After a crash the indexes of tables that a statement names must be there before it locks or replaces any. */
static void
rebuild_named(Node *stmt)
{
	List	   *tables = zen_named_tables(stmt);
	ListCell   *lc;

	Assert(IsTransactionState() && !RecoveryInProgress());
	foreach(lc, tables)
		zen_reindex_relation(lfirst_oid(lc));
	list_free(tables);
}

/* ---------- utility statements ---------- */

/* Is a table to be created neither temporary nor unlogged? */
static bool
is_permanent(RangeVar *rel)
{
	/* pg_temp may be named, or be where search_path leads */
	return rel->relpersistence == RELPERSISTENCE_PERMANENT && !isAnyTempNamespace(RangeVarGetCreationNamespace(rel));
}

static void
refuse_am(char persistence)
{
	bool		unlogged = persistence == RELPERSISTENCE_UNLOGGED;

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("zen tables cannot be %s", unlogged ? "unlogged" : "temporary"),
			 errdetail("Every zen table is durable, and none writes WAL."),
			 errhint("Use a permanent zen table, or CREATE %s TABLE ... USING heap.",
					 unlogged ? "UNLOGGED" : "TEMPORARY")));
}

/*
 * The access method for a new table: zen as the default is not meant for tables that zen does not hold, and asking for
 * such a one by name is an error.
 */
static char *
choose_am(RangeVar *rel, char *given)
{
	if (given == NULL && rel != NULL && zen_swapped_is_copy(rel))
		return pstrdup("zen");
	if (rel == NULL || is_permanent(rel))
		return given;
	if (given == NULL && strcmp(default_table_access_method, "zen") == 0)
		return pstrdup(DEFAULT_TABLE_ACCESS_METHOD);
	if (given != NULL && strcmp(given, "zen") == 0)
		refuse_am(rel->relpersistence);
	return given;
}

static void
refuse_database(const char *what, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("database \"%s\" cannot be %s: it holds zen tables", name, what),
			 errdetail("PostgreSQL copies the files of a database, and zen tables are not in them."),
			 errhint("Make an empty database, and fill it with pg_dump and pg_restore or psql.")));
}

static void
check_createdb(CreatedbStmt *stmt)
{
	const char *template = "template1";
	ListCell   *lc;
	Oid			db;

	foreach(lc, stmt->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "template") == 0 && def->arg != NULL)
			template = defGetString(def);
	}
	db = get_database_oid(template, true);
	if (OidIsValid(db) && database_has_zen_tables(db))
		refuse_database("copied", template);
}

static void
check_alterdb(AlterDatabaseStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
	{
		Oid			db = get_database_oid(stmt->dbname, true);

		if (OidIsValid(db) && database_has_zen_tables(db))
			refuse_database("moved to another tablespace", stmt->dbname);
	}
}

/* A temporary table is refused zen here as well. */
static void
check_alter_table(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		/* SET ACCESS METHOD DEFAULT gives no name */
		const char *am = cmd->name ? cmd->name : default_table_access_method;
		Oid			relid;

		if (cmd->subtype != AT_SetAccessMethod || strcmp(am, "zen") != 0)
			continue;
		relid = RangeVarGetRelid(stmt->relation, NoLock, true);
		if (!OidIsValid(relid) || get_rel_persistence(relid) != RELPERSISTENCE_TEMP)
			continue;
		/* a partitioned table takes that as none of its own */
		if (cmd->name == NULL && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
			continue;
		refuse_am(RELPERSISTENCE_TEMP);
	}
}

/*
 * pg_upgrade, and pg_upgrade --check, load all libraries of the old cluster into the new one and report each failure.
 * This is the first moment at which to say that this cluster could not have the rows.
 */
static void
check_load(LoadStmt *stmt)
{
	const char *slash = last_dir_separator(stmt->filename);
	const char *name = slash ? slash + 1 : stmt->filename;

	if (IsBinaryUpgrade && (strcmp(name, "zen") == 0 || strcmp(name, "zen" DLSUFFIX) == 0))
		zen_adopt_check();
}

/* Look at a statement before it runs; may change the (private) tree. */
static void
before_utility(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			{
				CreateStmt *create = (CreateStmt *) stmt;

				/*
				 * a partitioned table has none but by name, for its
				 * partitions
				 */
				if (create->partspec == NULL || create->accessMethod != NULL)
					create->accessMethod = choose_am(create->relation, create->accessMethod);
				break;
			}
		case T_CreateTableAsStmt:
			{
				IntoClause *into = ((CreateTableAsStmt *) stmt)->into;

				into->accessMethod = choose_am(into->rel, into->accessMethod);
				break;
			}
		case T_AlterTableStmt:
			check_alter_table((AlterTableStmt *) stmt);
			break;
		case T_ExplainStmt:
			{
				Node	   *query = ((ExplainStmt *) stmt)->query;

				if (IsA(query, Query) && ((Query *) query)->utilityStmt != NULL)
					before_utility(((Query *) query)->utilityStmt);
				break;
			}
		case T_LoadStmt:
			check_load((LoadStmt *) stmt);
			break;
		case T_CreateAmStmt:
			/* pg_upgrade makes the extension's objects one by one */
			if (IsBinaryUpgrade && strcmp(((CreateAmStmt *) stmt)->amname, "zen") == 0)
				zen_adopt_note();
			break;
		case T_CreatedbStmt:
			check_createdb((CreatedbStmt *) stmt);
			break;
		case T_AlterDatabaseStmt:
			check_alterdb((AlterDatabaseStmt *) stmt);
			break;
		default:
			break;
	}
}

/*
 * Rows of zen tables outlive a crash from their commit on, so the catalog that tells their format must, too, even with
 * synchronous_commit off.  Temporary tables are not meant.
 */
static bool
changes_catalog(Node *stmt)
{
	if (IsA(stmt, CreateStmt) && ((CreateStmt *) stmt)->relation->relpersistence == RELPERSISTENCE_TEMP)
		return false;
	if (IsA(stmt, CreateTableAsStmt) && ((CreateTableAsStmt *) stmt)->into->rel->relpersistence == RELPERSISTENCE_TEMP)
		return false;
	return GetCommandLogLevel(stmt) == LOGSTMT_DDL;
}

static bool
ends_prepared(Node *stmt)
{
	return IsA(stmt, TransactionStmt) &&
		(((TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED ||
		 ((TransactionStmt *) stmt)->kind == TRANS_STMT_ROLLBACK_PREPARED);
}

/* Before a prepared transaction ends: recovery must have decided about it.  False if the pool cannot be recovered. */
static bool
is_recovered(void)
{
	if (RecoveryInProgress() || pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		return false;
	zen_gate();
	return true;
}

/* The work that a statement leaves.  Also before commit, for changes made without a statement. */
static void
finish_statement(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	zen_index_repair();
}

static void
zen_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context,
			ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	ProcessUtility_hook_type run = prev_utility_hook ? prev_utility_hook : standard_ProcessUtility;
	int			extension;
	List	   *moved;

	ZenAssertNotInEpoch();
	if (IsA(stmt, CreateStmt) || IsA(stmt, CreateTableAsStmt) || IsA(stmt, ExplainStmt) || zen_treehooks_changes(stmt))
	{
		if (readOnlyTree)
		{
			pstmt = copyObject(pstmt);
			stmt = pstmt->utilityStmt;
			readOnlyTree = false;
		}
	}
	before_utility(stmt);
	moved = zen_treehooks_before(stmt);
	if (changes_catalog(stmt))
		ForceSyncCommit();
	if (IsTransactionState() && !RecoveryInProgress())
		rebuild_named(stmt);
	if (ends_prepared(stmt) && is_recovered())
	{
		PG_TRY();
		{
			zen_reindex_hold();
			run(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		}
		PG_FINALLY();
		{
			zen_reindex_let_go();
		}
		PG_END_TRY();
		zen_twophase_resolve();
		zen_tree_settle();
		return;
	}
	extension = zen_extension_begin(stmt);
	run(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	zen_extension_end(stmt, extension);
	zen_treehooks_after(stmt, moved);
	zen_replication_check(stmt);
	finish_statement();
}

/* ---------- executor ---------- */

static bool
stop_prefetch(PlanState *state, void *context)
{
	if (state == NULL)
		return false;
	if (IsA(state, BitmapHeapScanState))
	{
		BitmapHeapScanState *scan = (BitmapHeapScanState *) state;

		if (zen_rel_is_zen(scan->ss.ss_currentRelation))
			zen_stop_prefetch(scan);
	}
	return planstate_tree_walker(state, stop_prefetch, context);
}

/*
 * The tables that a plan writes pass their gates before the executor opens their indexes: one that must be rebuilt
 * while others may use it (zenam_reindex.c) must not be open here.  The planner has locked them.
 */
static void
enter_targets(PlannedStmt *stmt)
{
	ListCell   *lc;

	if (stmt->resultRelations == NIL || pg_atomic_read_u32(&zen_recovery->rebuilt_in_use) == 0)
		return;
	foreach(lc, stmt->resultRelations)
	{
		Relation	rel = table_open(rt_fetch(lfirst_int(lc), stmt->rtable)->relid, NoLock);

		if (zen_rel_is_zen(rel))
			(void) zen_rel_htable(rel);
		table_close(rel, NoLock);
	}
}

static void
zen_executor_start(QueryDesc *queryDesc, int eflags)
{
	ZenAssertNotInEpoch();
	if (unlikely(zen_partition_soft))
		zen_votes_started(queryDesc, eflags);
	enter_targets(queryDesc->plannedstmt);
	if (prev_executor_start)
		prev_executor_start(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
	zen_treehooks_started(queryDesc, eflags);
	/* a plan that is kept has no bitmap scan */
	if (!zen_exec_keeps(queryDesc->plannedstmt))
		stop_prefetch(queryDesc->planstate, NULL);
}

void
zen_hooks_init(void)
{
	Assert(object_access_hook != zen_object_access && zen_before_commit == NULL);	/* once */
	prev_object_access_hook = object_access_hook;
	object_access_hook = zen_object_access;
	prev_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = zen_utility;
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = zen_executor_start;
	zen_basebackup_init();
	zen_before_commit = finish_statement;
}
