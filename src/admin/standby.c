/*
 * standby.c -- zen tables that the catalogs name and the pool lacks.
 *
 * Rows of zen tables are in the pool and not in the WAL.  A server that has replayed another server's WAL, a standby or
 * a base backup, therefore has the tables in its catalogs without having their rows.  Their use is an error.  That
 * comes too late for an operator who promotes a standby and then drops on the primary everything that the standby seems
 * to have.  So pg_promote() is an error already.  No extension is called when a server is promoted in another way: then
 * the log says which tables are lacking.
 *
 * pg_class and pg_am of databases other than the session's are read through shared buffers without a relcache entry, as
 * CREATE DATABASE does it.
 */
#include "admin/standby.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "nvm/pool.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "table/ownxact.h"
#include "utils/fmgroids.h"
#include "utils/relmapper.h"
#include "utils/snapmgr.h"

#define CONNLIMIT_INVALID	(-2)	/* of a database whose DROP was cut short */

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

/* ---------- catalogs of any database ---------- */

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

void
zen_standby_check_function(Oid funcid)
{
	if (funcid != F_PG_PROMOTE || zen_allow_copies_without_rows || !RecoveryInProgress())
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
zen_standby_report_lacking(void)
{
	ErrorData  *error;

	zen_own_transaction(report_all_lacking, NULL, &error);
	if (error != NULL)
		FreeErrorData(error);
}
