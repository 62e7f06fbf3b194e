/*
 * replication.c -- copies of this server's tables elsewhere, and this server as a copy: none may lack rows unnoticed.
 *
 * README, "Publications" and "Physical copies", says what is refused, and why at that moment.
 */
#include "admin/replication.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "base/ownwal.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/filetime.h"
#include "nvm/htable.h"
#include "nvm/pool.h"
#include "replication/walsender.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "stream/streamclients.h"
#include "table/ownxact.h"
#include "table/zenam_stream.h"
#include "tcop/tcopprot.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/relmapper.h"
#include "utils/snapmgr.h"

#define CONNLIMIT_INVALID	(-2)	/* of a database whose DROP was cut short */

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
check_published(Oid relid)
{
	if (OidIsValid(relid))
		refuse_each(find_all_inheritors(relid, NoLock, NULL));
}

static void
check_named(const RangeVar *table)
{
	check_published(RangeVarGetRelid(table, NoLock, true));
}

/* Not by its name alone, as search_path may lead to another one. */
static void
check_created(const RangeVar *table)
{
	check_published(get_relname_relid(table->relname, RangeVarGetCreationNamespace(table)));
}

/* It becomes a zen table, or gets a partition. */
static void
check_altered(const ZenAlterTable *alter)
{
	ListCell   *lc;

	if (alter->am != NULL)
		check_named(alter->stmt->relation);
	if (!alter->attaches)
		return;
	foreach(lc, alter->partitions)
		check_named(lfirst_node(RangeVar, lc));
}

static void
check_moved(AlterObjectSchemaStmt *stmt)
{
	if (stmt->objectType == OBJECT_TABLE)
		check_published(get_relname_relid(stmt->relation->relname, get_namespace_oid(stmt->newschema, true)));
}

void
zen_replication_check(Node *stmt, const ZenAlterTable *alter)
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
			check_altered(alter);
			break;
		case T_AlterObjectSchemaStmt:
			check_moved((AlterObjectSchemaStmt *) stmt);
			break;
		default:
			break;
	}
}

/* ---------- what a copy would have ---------- */

/* The reason why the readers of the WAL do not get the changes of the pool; NULL: they do. */
static char *
lacks_stream(void)
{
	if (!RecoveryInProgress() && zen_stream != ZEN_STREAM_REPLICA)
		return pstrdup("The changes of zen tables are not in the write-ahead log: zen.stream is not \"replica\".");
	if (RecoveryInProgress() && !(zen_pool_is_replica() && zen_pool_is_copied()))
		return pstrdup("The pool of this standby does not follow its primary server.");
	return NULL;
}

/* All is in the WAL, but a base backup needs a copy of the pool to begin with. */
static char *
lacks_file(void)
{
	ZenPoolName names[ZEN_MAX_FILES];
	int			n = zen_pool_names(names);

	for (int i = 0; i < n; i++)
	{
		if (zen_is_in_base_backup(names[i].path))
			continue;
		if (path_is_prefix_of_path(DataDir, names[i].path) && zen_is_linked(names[i].path))
			return psprintf("The pool file \"%s\" is reached by a symbolic link, which pg_basebackup does not follow.",
							names[i].path);
		return psprintf("The pool file \"%s\" is neither in the data directory, where pg_basebackup looks, nor in the "
						"directory \"" TABLESPACE_VERSION_DIRECTORY "\" of a tablespace.", names[i].path);
	}
	if (!zen_pool_is_copied())
		return pstrdup("The pool has not been recovered with zen.stream = replica yet.");
	return NULL;
}

char *
zen_replication_lacks(void)
{
	char	   *why;

	if (!zen_pool_has_tables())
		return NULL;
	why = lacks_stream();
	return why != NULL ? why : lacks_file();
}

static void
refuse_copy(int elevel, const char *what, char *why)
{
	bool		is_of_stream;

	if (why == NULL || zen_allow_copies_without_rows)
		return;
	is_of_stream = lacks_stream() != NULL;
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s would not have the rows of zen tables", what),
			 errdetail("%s", why),
			 is_of_stream ?
			 errhint("Set zen.stream to replica and restart the server, or back zen tables up with pg_dump.  To do "
					 "without their rows in the copy, set zen.allow_copies_without_rows to on.") :
			 errhint("With zen.stream = replica, move the file into the data directory while the server is stopped, "
					 "and set zen.pool_path.  If the copy may lack it, set zen.allow_copies_without_rows to on.")));
}

/* ---------- backups that begin ---------- */

static bool backup_begins = false;

/*
 * After the checkpoint of the backup, and before its client hears of it: the files that the client lists from now on
 * have the times of all stores.
 */
void
zen_replication_note_backup(void)
{
	if (likely(!backup_begins))
		return;
	backup_begins = false;
	zen_filetime_backup_begins();
}

/* The function may have run without an executor. */
void
zen_replication_event(XactEvent event)
{
	if (event == XACT_EVENT_PRE_COMMIT)
		zen_replication_note_backup();
	backup_begins = false;
}

/* ---------- clients of physical replication ---------- */

static bool
is_base_backup(const char *command)
{
	static const char begin[] = "BASE_BACKUP";

	if (command == NULL)
		return false;
	command += strspn(command, " \t\r\n\f");
	return pg_strncasecmp(command, begin, sizeof(begin) - 1) == 0;
}

/* PostgreSQL has no hook in BASE_BACKUP.  Its first message describes a row, and is sent before any file. */
void
zen_replication_row_described(void)
{
	if (!am_db_walsender && is_base_backup(debug_query_string))
		refuse_copy(ERROR, "a base backup", zen_replication_lacks());
}

void
zen_replication_client(void)
{
	zen_cover_begin();
	if (!am_db_walsender && zen_pool_has_tables())
		refuse_copy(FATAL, "a base backup or standby over this connection", lacks_stream());
}

/* ---------- zen tables that the catalogs of any database name and the pool lacks ---------- */

/*
 * pg_class and pg_am of databases other than the session's are read through shared buffers without a relcache entry, as
 * CREATE DATABASE does it.
 */

/* The search in one database. */
typedef struct Search
{
	Oid			db;
	Oid			spc;			/* its default tablespace */
	Oid			am;				/* zen, in this database */
	RelFileLocator am_table;	/* pg_am */
	bool		all;			/* whatever the pool has */
	List	   *before;			/* file numbers that an earlier search has
								 * found, NIL: none */
	bool		again;			/* only those count */
	List	   *found;			/* file numbers */
} Search;

static RelFileLocator
locator(Oid spc, Oid db, RelFileNumber number)
{
	RelFileLocator loc;

	ZEN_LOCATOR_SPC(loc) = spc;
	ZEN_LOCATOR_DB(loc) = db;
	ZEN_LOCATOR_NUMBER(loc) = number;
	return loc;
}

static void
scan_page(Buffer buffer, Oid relid, Snapshot snapshot, void (*visit) (Search *search, HeapTuple tuple), Search *search)
{
	Page		page = BufferGetPage(buffer);
	HeapTupleData tuple;

	Assert(BufferIsValid(buffer) && OidIsValid(search->db));
	if (PageIsNew(page) || PageIsEmpty(page))
		return;
	for (OffsetNumber n = FirstOffsetNumber; n <= PageGetMaxOffsetNumber(page); n = OffsetNumberNext(n))
	{
		ItemId		item = PageGetItemId(page, n);

		if (!ItemIdIsNormal(item))
			continue;
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), n);
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = relid;
		if (HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			visit(search, &tuple);
	}
}

/* Show all rows of a catalog of the database to visit(), under a lock on the page. */
static void
scan_catalog(RelFileLocator loc, Oid relid, void (*visit) (Search *search, HeapTuple tuple), Search *search)
{
	LockRelId	lock = {.dbId = search->db,.relId = relid};
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	Snapshot	snapshot;
	SMgrRelation smgr;
	BlockNumber nblocks;

	ZenAssertNotInEpoch();
	LockRelationId(&lock, AccessShareLock);
	smgr = smgropen(loc, INVALID_PROC_NUMBER);
	nblocks = smgrnblocks(smgr, MAIN_FORKNUM);
	smgrclose(smgr);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	for (BlockNumber b = 0; b < nblocks; b++)
	{
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBufferWithoutRelcache(loc, MAIN_FORKNUM, b, RBM_NORMAL, strategy, true);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		scan_page(buffer, relid, snapshot, visit, search);
		UnlockReleaseBuffer(buffer);
	}
	UnregisterSnapshot(snapshot);
	UnlockRelationId(&lock, AccessShareLock);
	FreeAccessStrategy(strategy);
}

static void
find_am_table(Search *search, HeapTuple tuple)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

	if (form->oid == AccessMethodRelationId)
		search->am_table = locator(OidIsValid(form->reltablespace) ? form->reltablespace : search->spc, search->db,
								   form->relfilenode);
}

static void
find_am(Search *search, HeapTuple tuple)
{
	Form_pg_am	form = (Form_pg_am) GETSTRUCT(tuple);

	if (strcmp(NameStr(form->amname), "zen") == 0)
		search->am = form->oid;
}

/* Is it a zen table that the pool lacks? */
static void
find_table(Search *search, HeapTuple tuple)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

	Assert(OidIsValid(search->am));
	if (form->relam != search->am || !RELKIND_HAS_STORAGE(form->relkind) ||
		form->relpersistence == RELPERSISTENCE_TEMP)
		return;
	if (!search->all &&
		zen_htable_find(locator(OidIsValid(form->reltablespace) ? form->reltablespace : search->spc, search->db,
								form->relfilenode), INVALID_PROC_NUMBER) != NULL)
		return;
	if (search->again && !list_member_oid(search->before, form->relfilenode))
		return;
	search->found = lappend_oid(search->found, form->relfilenode);
}

/* The zen tables of a database, toast tables included, that the pool lacks, or all. */
static List *
search_database(Search *search)
{
	char	   *path = GetDatabasePath(search->db, search->spc);
	RelFileLocator pg_class = locator(search->spc, search->db,
									  RelationMapOidToFilenumberForDatabase(path, RelationRelationId));

	Assert(!search->again || (search->before != NIL && !search->all));
	search->found = NIL;
	search->am = InvalidOid;
	scan_catalog(pg_class, RelationRelationId, find_am_table, search);
	scan_catalog(search->am_table, AccessMethodRelationId, find_am, search);
	if (OidIsValid(search->am))
		scan_catalog(pg_class, RelationRelationId, find_table, search);
	pfree(path);
	return search->found;
}

/*
 * How many zen tables does the database lack?  A table that is dropped or moved while the search runs may count as
 * lacking.  The next search, whose snapshot is newer, does not count it.
 */
static int
count_lacking(Oid db, Oid spc, bool all)
{
	Search		search = {.db = db,.spc = spc,.all = all};
	int			n;

	LockSharedObject(DatabaseRelationId, db, 0, AccessShareLock);
	n = list_length(search_database(&search));
	if (n > 0 && !all)
	{
		search.before = search.found;
		search.again = true;
		n = list_length(search_database(&search));
	}
	UnlockSharedObject(DatabaseRelationId, db, 0, AccessShareLock);
	return n;
}

/* Call report() for each database with zen tables that the pool lacks, or with any. */
static void
for_each_lacking(bool all, void (*report) (const char *database, int n))
{
	Relation	pg_database = table_open(DatabaseRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(pg_database, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	Assert(IsTransactionState());
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		int			n;

		if (form->datconnlimit == CONNLIMIT_INVALID)
			continue;
		n = count_lacking(form->oid, form->dattablespace, all);
		if (n > 0)
			report(NameStr(form->datname), n);
	}
	systable_endscan(scan);
	table_close(pg_database, AccessShareLock);
}

/* ---------- promotion ---------- */

static void
refuse_promotion(const char *database, int n)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("a server that does not have the rows of its zen tables cannot be promoted"),
			 errdetail_plural("Database \"%s\" has %d zen table, toast tables included, whose rows are in the primary "
							  "server's pool, and not in the WAL.",
							  "Database \"%s\" has %d zen tables, toast tables included, whose rows are in the primary "
							  "server's pool, and not in the WAL.", n, database, n),
			 errhint("On the primary server, move them by ALTER TABLE ... SET ACCESS METHOD heap, or drop them, and "
					 "let this server replay that.  To do without their rows, set zen.allow_copies_without_rows to "
					 "on here, and reload.")));
}

static void
check_promotion(void)
{
	if (zen_allow_copies_without_rows || !RecoveryInProgress())
		return;
	if (zen_pool_is_replica() && zen_pool_is_copied())
		return;
	for_each_lacking(true, refuse_promotion);
}

/* ---------- start ---------- */

static void
report_lacking(const char *database, int n)
{
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg_plural("database \"%s\" has %d zen table, toast tables included, that the zen pool does not know",
						   "database \"%s\" has %d zen tables, toast tables included, that the zen pool does not know",
						   n, database, n),
			 errdetail("Their rows are not here: each use of them is an error."),
			 errhint("Use the server that has the pool with their rows, or drop the tables.")));
}

static void
report_all_lacking(void *arg)
{
	for_each_lacking(false, report_lacking);
}

void
zen_replication_report_lacking(void)
{
	ErrorData  *error;

	zen_own_transaction(report_all_lacking, NULL, &error);
	if (error != NULL)
		FreeErrorData(error);
}

/* ---------- functions ---------- */

void
zen_replication_check_function(Oid function)
{
	switch (function)
	{
		case F_PG_PROMOTE:
			check_promotion();
			break;
		case F_PG_BACKUP_START:
			refuse_copy(ERROR, "a base backup", zen_replication_lacks());
			zen_cover_begin();
			backup_begins = true;
			break;
		case F_PG_BACKUP_STOP:	/* pg_control has been copied */
			refuse_copy(ERROR, "a base backup", zen_replication_lacks());
			zen_cover_end();
			break;
		case F_PG_READ_BINARY_FILE_TEXT:
		case F_PG_READ_BINARY_FILE_TEXT_INT8_INT8:
		case F_PG_READ_BINARY_FILE_TEXT_INT8_INT8_BOOL: /* pg_rewind copies so */
			/* redo is told while a session may copy files */
			zen_cover_begin();
			break;
		case F_PG_CURRENT_WAL_LSN:

			/*
			 * a client that waits until a subscriber has all that is
			 * committed calls it: Citus, for one, before it drops a shard
			 * that it has moved
			 */
		case F_PG_LOGICAL_SLOT_GET_CHANGES:
		case F_PG_LOGICAL_SLOT_PEEK_CHANGES:
		case F_PG_LOGICAL_SLOT_GET_BINARY_CHANGES:
		case F_PG_LOGICAL_SLOT_PEEK_BINARY_CHANGES:
			/* commits of heap tables are in what is written by then */
			if (zen_stream != ZEN_STREAM_OFF && !RecoveryInProgress())
				XLogFlush(zen_wal_end());
			break;
		default:
			break;
	}
}
