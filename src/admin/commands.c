/*
 * commands.c -- what zen does when a utility statement runs, and when a relation or database comes or goes.
 *
 * zen_commands_utility() has the order of what is done before and after a statement, zen_commands_object() of what is
 * done at a change of the catalogs, with statement or without.  README, "What hooks do", has the list.
 */
#include "admin/commands.h"

#include <ctype.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "admin/replication.h"
#include "admin/statements.h"
#include "admin/treehooks.h"
#include "admin/utility.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_inherits.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "nvm/moment.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "storage/lmgr.h"
#include "table/reindexworker.h"
#include "table/treeindex.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_unlogged.h"
#include "txn/ddl.h"
#include "txn/prepared.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
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
 * exchange the files of the two, and drop the copy (check_file).  They name the copy after the OID of the table.
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

/*
 * Has the database zen tables?  Waits for recovery only if the pool names it: heap databases come and go while recovery
 * is under way, or has failed.
 */
static bool
has_zen_tables(Oid db)
{
	if (pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY && !zen_htable_names_database(db))
		return false;
	zen_gate();
	for (uint32 i = 1; i < zen_htable_end(); i++)
		if (zen_htables[i].in_use && zen_htables[i].db == db)
			return true;
	return false;
}

/* what: would be done with it, and must not be. */
static void
check_database(const char *what, const char *name)
{
	Oid			db = get_database_oid(name, true);

	if (!OidIsValid(db) || !has_zen_tables(db))
		return;
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

	foreach(lc, stmt->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "template") == 0 && def->arg != NULL)
			template = defGetString(def);
	}
	check_database("copied", template);
}

static void
check_alterdb(AlterDatabaseStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
			check_database("moved to another tablespace", stmt->dbname);
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

/* ---------- what ALTER TABLE does ---------- */

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

/* The summary of a statement, read in place of its commands.  It points into the statement.  Locks nothing. */
static ZenAlterTable
summarize_alter(Node *stmt)
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

/* ---------- tables that a statement names, and their indexes after a crash ---------- */

/*
 * A command that locks or replaces indexes must find those of its tables rebuilt (zenam_reindex.c).  Tables that the
 * command does not name are not its business: one whose index cannot be built must not keep it from running.
 *
 * Some commands are not listed, since they need no index that was there before:
 * - DROP, and ALTER TABLE ... DROP CONSTRAINT alone;
 * - TRUNCATE, which makes new tables;
 * - VACUUM and CLUSTER of all tables, which come to each table in a transaction of its own;
 * - ALTER ... ALL IN TABLESPACE, which moves files as they are.
 */

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

/*
 * OIDs of the tables, and their toast tables, whose old indexes must be there before the statement runs.  NIL for
 * statements that use no index of the tables that they name.  Locks nothing, so the list may be out of date.
 */
static List *
named_tables(Node *stmt, const ZenAlterTable *alter)
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

static void
rebuild_named(Node *stmt, const ZenAlterTable *alter)
{
	List	   *tables;
	ListCell   *lc;

	if (!IsTransactionState() || RecoveryInProgress())
		return;
	tables = named_tables(stmt, alter);
	foreach(lc, tables)
		zen_reindex_relation(lfirst_oid(lc));
	list_free(tables);
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

static void
end_prepared(ZenUtility *u)
{
	if (!is_recovered())
	{
		zen_statements_utility(u);
		return;
	}
	PG_TRY();
	{
		zen_reindex_hold();
		zen_statements_utility(u);
	}
	PG_FINALLY();
	{
		zen_reindex_let_go();
	}
	PG_END_TRY();
	zen_prepared_resolve();
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

static bool
runs_script(Node *stmt)
{
	return (IsA(stmt, CreateExtensionStmt) || IsA(stmt, AlterExtensionStmt)) &&
		strcmp(default_table_access_method, "zen") == 0;
}

/*
 * While the script of an extension runs, heap is the default (src/admin/README, "Extensions").  USING zen in the script
 * still means zen.
 *
 * An error in between is undone by the end of the (sub)transaction.
 */
static void
run_script(ZenUtility *u)
{
	int			nest_level = NewGUCNestLevel();

	has_heap_table = false;
	(void) set_config_option("default_table_access_method", DEFAULT_TABLE_ACCESS_METHOD, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	Assert(nest_level > 0);
	zen_statements_utility(u);
	AtEOXact_GUC(true, nest_level);
	if (has_heap_table)
		tell_of_heap_tables(u->pstmt->utilityStmt);
}

/* A relation was created.  Its row in pg_class is visible. */
static void
note_heap_table(Oid relid)
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

/* ---------- relations ---------- */

/*
 * ALTER TABLE may give the file of an index that it drops to one that it creates, if their definitions agree.  It does
 * not compare access methods.  The constraint's index that it makes is a btree: it becomes what the file is.
 */
static void
keep_tree(Oid indexoid)
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

static void
relation_created(Oid relid)
{
	if (!OidIsValid(get_table_am_oid("zen", true)))
		return;
	/* the new rows of pg_class and pg_index are not visible yet */
	CommandCounterIncrement();
	if (zen_relid_is_tree(relid))
		zen_index_borrow_classes(relid);
	else if (get_rel_relkind(relid) == RELKIND_INDEX)
		keep_tree(relid);
	if (get_rel_relkind(relid) == RELKIND_INDEX && get_rel_persistence(relid) == RELPERSISTENCE_PERMANENT &&
		zen_relid_is_zen(IndexGetRelation(relid, true)))
		zen_index_set_unlogged(relid);
}

/* A relation is about to be dropped, and is locked.  Only one of zen waits for recovery. */
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
		zen_prepared_resolve();
		ht = zen_ddl_find(zen_rel_locator(rel), rel->rd_backend);
		if (ht != NULL)
			zen_ddl_drop(ht);
	}
	relation_close(rel, NoLock);
}

/* ---------- files that were exchanged ---------- */

/* Could rows in the pool be taken for those of this relation, which is not a zen table? */
static bool
may_have_foreign_rows(Oid relid, Form_pg_class form)
{
	return (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW ||
			form->relkind == RELKIND_TOASTVALUE) &&
		form->relpersistence != RELPERSISTENCE_TEMP && form->relfilenode != InvalidRelFileNumber &&
		!form->relisshared && !zen_relid_is_zen(relid);
}

/*
 * A relation is dropped, truncated or altered: is it none of zen's, but bears the file number of a zen table?
 *
 * Then its rows in the pool are the zen table's, and must not go with it (src/admin/README, "Exchanged files").
 * is_stand_in() keeps it from coming to that.
 */
static void
check_file(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		foreign;

	Assert(IsTransactionState());

	/*
	 * until the pool is recovered it is not known which of its tables are
	 * there
	 */
	if (!HeapTupleIsValid(tuple))
		return;
	foreign = pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_READY &&
		may_have_foreign_rows(relid, (Form_pg_class) GETSTRUCT(tuple)) &&
		zen_ddl_find(zen_locator_of((Form_pg_class) GETSTRUCT(tuple)), INVALID_PROC_NUMBER) != NULL;
	ReleaseSysCache(tuple);
	if (foreign)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" holds the rows of a zen table, but is none", get_rel_name(relid)),
				 errdetail("A tool has exchanged the files of two tables in pg_class, and not their access methods."),
				 errhint("Let the tables exchange relam in pg_class, too, with allow_system_table_mods = on.  Then "
						 "each has its rows again.")));
}

static void
database_dropped(Oid db)
{
	if (!has_zen_tables(db))
		return;
	zen_prepared_resolve();
	zen_ddl_drop_database(db);
	zen_tree_database_dropped(db);
}

/* ---------- what is called, first to last ---------- */

void
zen_commands_object(ObjectAccessType access, Oid class, Oid object)
{
	if (class == DatabaseRelationId && access == OAT_DROP)
		database_dropped(object);
	if (class != RelationRelationId)
		return;
	switch (access)
	{
		case OAT_POST_CREATE:
			/* it makes the new rows of the catalogs visible */
			relation_created(object);
			note_heap_table(object);
			break;
		case OAT_DROP:
			/* what may refuse comes before what acts */
			check_file(object);
			relation_dropped(object);
			break;
		case OAT_TRUNCATE:
		case OAT_POST_ALTER:
			check_file(object);
			break;
		default:
			break;
	}
}

static void
finish_statement(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	zen_index_repair();
}

/* For changes made without a statement. */
void
zen_commands_event(XactEvent event)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		finish_statement();
}

void
zen_commands_utility(ZenUtility *u)
{
	Node	   *stmt;
	ZenAlterTable alter;
	List	   *moved;

	ZenAssertNotInEpoch();
	/* a copy to change, which PostgreSQL would make later */
	if (u->read_only)
		u->pstmt = copyObject(u->pstmt);
	u->read_only = false;
	stmt = u->pstmt->utilityStmt;
	alter = summarize_alter(stmt);

	/*
	 * first, it refuses statements, and chooses the access method by which
	 * others go
	 */
	check_statement(stmt, &alter);
	/* trees become btrees, before any of these is rebuilt */
	moved = zen_treehooks_before(stmt, &alter);
	/* the statement may commit by itself */
	if (changes_catalog(stmt))
		ForceSyncCommit();
	rebuild_named(stmt, &alter);

	/*
	 * next to the statement: they change settings that hold while it runs,
	 * and no longer
	 */
	if (ends_prepared(stmt))
		end_prepared(u);
	else if (runs_script(stmt))
		run_script(u);
	else
		zen_statements_utility(u);

	/* trees are built, with heap no more the default */
	zen_treehooks_after(stmt, moved);
	/* everything else is done, and its results can be judged and repaired */
	zen_replication_check(stmt, &alter);
	finish_statement();
}
