/*
 * commands.c -- what zen does before and after utility statements.
 *
 * - Temporary and unlogged tables, and those of extensions, fall back to heap when zen is only the default.
 * - Databases that hold zen tables are not copied or moved.
 * - A statement that changes catalogs is on disk when it has committed.
 * - After a crash the tables that a statement names have their indexes rebuilt before it locks or replaces any.
 * - COMMIT PREPARED and ROLLBACK PREPARED reach zen.
 * - Indexes that a statement has built as logged ones are repaired after it, or before the commit.
 * - A statement that brings a table into a publication that could not send it is refused.
 *
 * If zen is only the default, it does not count for the tables of extensions.  Code of extensions reads their catalogs
 * with heap's functions, which crash on any other table.  An operator who made zen the default meant tables of users.
 * So while a script runs, heap is the default; USING zen in the script still means zen.  As it is the setting that
 * changes, it does not matter how the script makes its tables: statements, functions, DO, C code; and partitions, since
 * 17, still follow their parents.
 */
#include "admin/commands.h"

#include <ctype.h>

#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "admin/objects.h"
#include "admin/replication.h"
#include "admin/treehooks.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "nvm/moment.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "table/reindexworker.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_unlogged.h"
#include "txn/twophase.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* ---------- access methods of new tables ---------- */

/* Is the table to be created permanent, that is, neither temporary nor unlogged? */
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
 * The access method for a new table: where zen is only the default, a table that zen does not hold gets heap.  To ask
 * for such a table by USING zen is an error.
 */
static char *
choose_am(RangeVar *rel, char *given)
{
	if (rel == NULL || is_permanent(rel))
		return given;
	if (given == NULL && strcmp(default_table_access_method, "zen") == 0)
		return pstrdup(DEFAULT_TABLE_ACCESS_METHOD);
	if (given != NULL && strcmp(given, "zen") == 0)
		refuse_am(rel->relpersistence);
	return given;
}

/*
 * Is a table made to take the place of a zen table?  Tools that rewrite a table while it is in use fill a copy from it,
 * exchange the files of the two, and drop the copy (objects.c).  They name the copy after the OID of the table.
 */
static bool
is_stand_in(const RangeVar *rel, const Node *query)
{
	const char *oid = rel->relname + strlen(rel->relname);
	ListCell   *lc;

	while (oid > rel->relname && isdigit((unsigned char) oid[-1]))
		oid--;
	if (*oid == '\0' || !IsA(query, Query))
		return false;
	foreach(lc, ((const Query *) query)->rtable)
	{
		RangeTblEntry *from = lfirst_node(RangeTblEntry, lc);

		if (from->rtekind == RTE_RELATION && from->relid == atooid(oid))
			return zen_relid_is_zen(from->relid);
	}
	return false;
}

static void
choose_for_query(CreateTableAsStmt *stmt)
{
	IntoClause *into = stmt->into;

	if (stmt->objtype == OBJECT_TABLE && into->accessMethod == NULL && is_stand_in(into->rel, stmt->query) &&
		is_permanent(into->rel))
		into->accessMethod = pstrdup("zen");
	else
		into->accessMethod = choose_am(into->rel, into->accessMethod);
}

/* A temporary table is refused zen here as well. */
static void
check_alter_table(const ZenAlterTable *alter)
{
	if (alter->am == NULL || strcmp(alter->am, "zen") != 0 || !OidIsValid(alter->relid) ||
		get_rel_persistence(alter->relid) != RELPERSISTENCE_TEMP)
		return;
	/* a partitioned table takes the default as none of its own */
	if (!alter->am_is_default || alter->relkind != RELKIND_PARTITIONED_TABLE)
		refuse_am(RELPERSISTENCE_TEMP);
}

/* ---------- databases ---------- */

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
	if (OidIsValid(db) && zen_objects_in_database(db))
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

		if (OidIsValid(db) && zen_objects_in_database(db))
			refuse_database("moved to another tablespace", stmt->dbname);
	}
}

/* ---------- checks before a statement ---------- */

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
check_statement(Node *stmt, const ZenAlterTable *alter)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			{
				CreateStmt *create = (CreateStmt *) stmt;

				/*
				 * a partitioned table has an access method only if USING
				 * names one, for its partitions
				 */
				if (create->partspec == NULL || create->accessMethod != NULL)
					create->accessMethod = choose_am(create->relation, create->accessMethod);
				break;
			}
		case T_CreateTableAsStmt:
			choose_for_query((CreateTableAsStmt *) stmt);
			break;
		case T_AlterTableStmt:
			check_alter_table(alter);
			break;
		case T_ExplainStmt:
			{
				Node	   *query = ((ExplainStmt *) stmt)->query;

				if (IsA(query, Query) && ((Query *) query)->utilityStmt != NULL)
					check_statement(((Query *) query)->utilityStmt, alter);
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

bool
zen_commands_changes(Node *stmt)
{
	return IsA(stmt, CreateStmt) || IsA(stmt, CreateTableAsStmt) || IsA(stmt, ExplainStmt);
}

void
zen_commands_check(ZenUtility *u)
{
	check_statement(u->stmt, &u->alter);
	zen_utility_rest(u);
}

/* ---------- catalogs on disk ---------- */

/*
 * Rows of zen tables outlive a crash from their commit on, so the catalog that tells their format must, too, even with
 * synchronous_commit off.  Temporary tables do not count.
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

void
zen_commands_sync(ZenUtility *u)
{
	if (changes_catalog(u->stmt))
		ForceSyncCommit();
	zen_utility_rest(u);
}

/* ---------- indexes after a crash ---------- */

void
zen_commands_rebuild(ZenUtility *u)
{
	List	   *tables = NIL;
	ListCell   *lc;

	if (IsTransactionState() && !RecoveryInProgress())
		tables = zen_named_tables(u->stmt, &u->alter);
	foreach(lc, tables)
		zen_reindex_relation(lfirst_oid(lc));
	list_free(tables);
	zen_utility_rest(u);
}

/* ---------- prepared transactions ---------- */

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

void
zen_commands_end_prepared(ZenUtility *u)
{
	if (!ends_prepared(u->stmt) || !is_recovered())
	{
		zen_utility_rest(u);
		return;
	}
	PG_TRY();
	{
		zen_reindex_hold();
		zen_utility_rest(u);
	}
	PG_FINALLY();
	{
		zen_reindex_let_go();
	}
	PG_END_TRY();
	zen_twophase_resolve();
	zen_tree_settle();
}

/* ---------- extensions ---------- */

/* The script of an extension has made a permanent table with heap. */
static bool has_heap_table = false;

static void
tell_of_heap_tables(Node *stmt)
{
	ereport(NOTICE,
			(errmsg("tables of extension \"%s\" are heap tables",
					IsA(stmt, CreateExtensionStmt) ? ((CreateExtensionStmt *) stmt)->extname :
					((AlterExtensionStmt *) stmt)->extname),
			 errdetail("default_table_access_method is zen, which does not count in the scripts of extensions: "
					   "their code may read tables as heap's."),
			 errhint("Use ALTER TABLE ... SET ACCESS METHOD zen for tables that only SQL reads.")));
}

/* An error in between is undone by the end of the (sub)transaction. */
void
zen_commands_extension(ZenUtility *u)
{
	int			nest_level;

	if ((!IsA(u->stmt, CreateExtensionStmt) && !IsA(u->stmt, AlterExtensionStmt)) ||
		strcmp(default_table_access_method, "zen") != 0)
	{
		zen_utility_rest(u);
		return;
	}
	has_heap_table = false;
	nest_level = NewGUCNestLevel();
	(void) set_config_option("default_table_access_method", DEFAULT_TABLE_ACCESS_METHOD, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	Assert(nest_level > 0);
	zen_utility_rest(u);
	AtEOXact_GUC(true, nest_level);
	if (has_heap_table)
		tell_of_heap_tables(u->stmt);
}

void
zen_commands_created(Oid relid)
{
	HeapTuple	tuple;
	Form_pg_class class;

	if (!creating_extension)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return;
	class = (Form_pg_class) GETSTRUCT(tuple);
	if ((class->relkind == RELKIND_RELATION || class->relkind == RELKIND_MATVIEW) &&
		class->relpersistence == RELPERSISTENCE_PERMANENT && class->relam == HEAP_TABLE_AM_OID)
		has_heap_table = true;
	ReleaseSysCache(tuple);
}

/* ---------- after a statement ---------- */

static void
finish_statement(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	zen_index_repair();
}

void
zen_commands_finish(ZenUtility *u)
{
	zen_utility_rest(u);
	zen_replication_check(u->stmt);
	finish_statement();
}

/* For changes made without a statement. */
void
zen_commands_event(XactEvent event)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		finish_statement();
}
