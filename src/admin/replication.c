/*
 * replication.c -- publications that could not send a zen table, and readers of the WAL.
 *
 * Logical decoding reads the WAL, and with zen.stream = off zen tables write none.  Then a statement that brings a zen
 * table into a publication is refused, whichever of the two is there first:
 *
 * - a publication is created, gets tables or schemas, or begins to send anything;
 * - a table is created or becomes a zen table;
 * - a table moves to another schema, or is attached to a partitioned table.
 *
 * It is looked at when the statement has run, since only then the catalogs show its result.  A table that an earlier
 * configuration has brought into a publication can be altered, and taken out.  Changes of its rows are refused
 * (table/zenam_stream.c).
 *
 * While wal_level is too low for decoding, nothing is decoded and PostgreSQL says so itself.
 */
#include "base/compat.h"

#include "admin/replication.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/ownwal.h"
#include "catalog/namespace.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "table/zenam_stream.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* ---------- publications ---------- */

static void
refuse_each(List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		zen_refuse_published(lfirst_oid(lc));
}

static void
check_publication(const char *name)
{
	Publication *pub = GetPublicationByName(name, true);

	if (pub == NULL)
		return;
	/* partitions, as theirs are the rows; also where a root is to be named */
	if (pub->alltables)
		refuse_each(GetAllTablesPublicationRelations(false));
	else
	{
		refuse_each(GetPublicationRelations(pub->oid, PUBLICATION_PART_LEAF));
		refuse_each(GetAllSchemaPublicationRelations(pub->oid, PUBLICATION_PART_LEAF));
	}
}

/* A table and its partitions. */
static void
check_table(Oid relid)
{
	if (OidIsValid(relid))
		refuse_each(find_all_inheritors(relid, NoLock, NULL));
}

static void
check_named(const RangeVar *table)
{
	check_table(RangeVarGetRelid(table, NoLock, true));
}

/* Not by its name alone, as search_path may lead to another one. */
static void
check_created(const RangeVar *table)
{
	check_table(get_relname_relid(table->relname, RangeVarGetCreationNamespace(table)));
}

static void
check_altered(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_SetAccessMethod)
			check_named(stmt->relation);
		else if (cmd->subtype == AT_AttachPartition)
			check_named(castNode(PartitionCmd, cmd->def)->name);
	}
}

static void
check_moved(AlterObjectSchemaStmt *stmt)
{
	if (stmt->objectType == OBJECT_TABLE)
		check_table(get_relname_relid(stmt->relation->relname, get_namespace_oid(stmt->newschema, true)));
}

void
zen_replication_check(Node *stmt)
{
	if (!zen_hides_changes() || !IsTransactionState())
		return;
	CommandCounterIncrement();
	switch (nodeTag(stmt))
	{
		case T_CreatePublicationStmt:
			check_publication(((CreatePublicationStmt *) stmt)->pubname);
			break;
		case T_AlterPublicationStmt:
			if (((AlterPublicationStmt *) stmt)->action != AP_DropObjects)
				check_publication(((AlterPublicationStmt *) stmt)->pubname);
			break;
		case T_CreateStmt:
			check_created(((CreateStmt *) stmt)->relation);
			break;
		case T_CreateTableAsStmt:
			check_created(((CreateTableAsStmt *) stmt)->into->rel);
			break;
		case T_AlterTableStmt:
			check_altered((AlterTableStmt *) stmt);
			break;
		case T_AlterObjectSchemaStmt:
			check_moved((AlterObjectSchemaStmt *) stmt);
			break;
		default:
			break;
	}
}

/* ---------- readers of the WAL ---------- */

/*
 * A client that waits until a subscriber has all that is committed calls pg_current_wal_lsn(): Citus, for one, before
 * it drops a shard that it has moved.  Commits of heap tables are in what is written by then.
 */
void
zen_replication_check_function(Oid function)
{
	switch (function)
	{
		case F_PG_CURRENT_WAL_LSN:
		case F_PG_LOGICAL_SLOT_GET_CHANGES:
		case F_PG_LOGICAL_SLOT_PEEK_CHANGES:
		case F_PG_LOGICAL_SLOT_GET_BINARY_CHANGES:
		case F_PG_LOGICAL_SLOT_PEEK_BINARY_CHANGES:
			if (zen_stream != ZEN_STREAM_OFF && !RecoveryInProgress())
				XLogFlush(zen_wal_end());
			break;
		default:
			break;
	}
}
