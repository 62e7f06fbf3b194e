/*
 * reindexworker.c -- which tables are to be rebuilt after a crash, and the background worker that rebuilds them.
 *
 * One worker per database goes through the HTables of the database, and opens each table that is not sound.  The
 * rebuild itself is in zenam_reindex.c: any backend that comes to a table first does the same.  src/table/README,
 * "Index rebuild", says what becomes of an index that cannot be rebuilt.
 */
#include "table/reindexworker.h"

#include "access/relation.h"
#include "access/xact.h"
#include "base/startup.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "pgstat.h"
#include "recovery/gate.h"
#include "standby/followers.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "table/ownxact.h"
#include "table/treeindex.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "tcop/tcopprot.h"
#include "txn/ddl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define TRIES		5			/* to build an index, or a table */
#define FIRST_PAUSE_MS	250		/* between the first two; then twice as long */

/* ---------- one table ---------- */

/* Is the table, as far as can be seen without a lock, zen's and not sound? */
static bool
is_to_be_rebuilt(Oid relid)
{
	HeapTuple	tuple;
	RelFileLocator loc;
	ZenHTable  *ht;

	Assert(IsTransactionState() && OidIsValid(MyDatabaseId));
	if (!zen_relid_is_zen(relid))
		return false;
	zen_gate();
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	loc = zen_locator_of((Form_pg_class) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	ht = zen_ddl_find(loc, INVALID_PROC_NUMBER);
	return ht != NULL && !zen_reindex_is_sound(ht);
}

/* Rebuild the indexes of a relation, if it is there and no prepared transaction has it locked. */
static void
reindex_relation_now(Oid relid)
{
	Relation	rel = NULL;

	Assert(IsTransactionState());

	/* it may stay prepared for long: a process that needs the table waits */
	if (OidIsValid(relid) && !zen_reindex_held_by_prepared(relid, AccessShareLock))
		rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return;
	if (zen_rel_is_zen(rel))
		(void) zen_rel_htable(rel);
	relation_close(rel, AccessShareLock);
}

void
zen_reindex_relation(Oid relid)
{
	if (is_to_be_rebuilt(relid))
		reindex_relation_now(relid);
}

/*
 * An HTable that no row of pg_class leads to is reported and left as it is.  One that is being created, moved or
 * dropped is not meant: its transaction says so in the entry before it commits.
 */
static void
report_unknown(ZenHTable *ht)
{
	RelFileNumber relnumber = ht->relnumber;
	Oid			spc = ht->spc;
	Oid			relid = zen_reindex_relid(ht);

	if (OidIsValid(relid) || !ht->in_use || ht->relnumber != relnumber || ht->backend != 0 ||
		ht->create_xid != 0 || ht->drop_xid != 0 || zen_htable_move_xid(ht->idx) != 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the zen pool holds a table that the catalog does not know"),
			 errdetail("Entry %u: relfilenode %u in tablespace %u of database %u.", ht->idx, relnumber, spc, ht->db),
			 errhint("Restore pool and data directory from copies of the same moment.  "
					 "Until then its rows stay in the pool.")));
}

static void
report_or_reindex(void *arg)
{
	report_unknown(arg);
	reindex_relation_now(zen_reindex_relid(arg));
}

/* An index that this worker could not build. */
typedef struct Failure
{
	Oid			index;			/* InvalidOid: of the table, not known which */
	ZenHTable  *ht;
	int			tries;
	ErrorData  *error;			/* of the last one */
	bool		kept;			/* it stays valid */
	bool		given_up;		/* it is left empty */
} Failure;

static List *reindex_failures = NIL;	/* in TopMemoryContext */

/* Does the error come from the rows or the index, so that the next try would fail as well? */
static bool
is_lasting_error(ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
			return false;
		default:
			return true;
	}
}

static bool
calls_users(Oid indexoid)
{
	Relation	index = index_open(indexoid, AccessShareLock);
	bool		result = zen_index_calls_users(index);

	index_close(index, AccessShareLock);
	return result;
}

static void
report_failure(const Failure *failed, Oid table)
{
	const ErrorData *error = failed->error;

	ereport(WARNING,
			(errcode(failed->kept ? error->sqlerrcode : ERRCODE_INDEX_CORRUPTED),
			 failed->kept ?
			 errmsg("index \"%s\" could not be rebuilt after the start, and its table \"%s\" is not available",
					get_rel_name(failed->index), get_rel_name(table)) :
			 errmsg("index \"%s\" of table \"%s\" could not be rebuilt after the start and is not valid now",
					get_rel_name(failed->index), get_rel_name(table)),
			 errdetail("The rebuild failed with: %s  %s", error->message, error->detail ? error->detail : ""),
			 failed->kept ?
			 errhint("Remove the cause, or drop the index.  The next process that uses the table tries again.") :
			 errhint("Remove the cause, for example one of two rows with the same key, then REINDEX the index.")));
}

/* Take an index that could not be rebuilt out of use; if it is already, the next rebuild leaves it empty. */
static void
retire_index(void *arg)
{
	Failure    *failed = arg;
	Oid			table = IndexGetRelation(failed->index, true);
	HeapTuple	tuple;
	bool		valid;

	Assert(OidIsValid(failed->index) && failed->error != NULL);
	failed->kept = false;
	if (!OidIsValid(table))
		return;
	LockRelationOid(table, ShareUpdateExclusiveLock);
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(failed->index));
	if (!HeapTupleIsValid(tuple))
		return;
	valid = ((Form_pg_index) GETSTRUCT(tuple))->indisvalid;
	ReleaseSysCache(tuple);
	if (!valid)
	{
		zen_reindex_give_up(failed->index);
		failed->given_up = true;
		return;
	}
	failed->kept = !is_lasting_error(failed->error) && !calls_users(failed->index);
	if (!failed->kept)
	{
		index_set_state_flags(failed->index, INDEX_DROP_CLEAR_VALID);
		CacheInvalidateRelcacheByRelid(table);
	}
	report_failure(failed, table);
}

static Failure *
find_failure(ZenHTable *ht, Oid index)
{
	MemoryContext old;
	Failure    *f;
	ListCell   *lc;

	foreach(lc, reindex_failures)
	{
		f = lfirst(lc);
		if (f->ht == ht && f->index == index)
			return f;
	}
	Assert(ht->idx > 0);
	old = MemoryContextSwitchTo(TopMemoryContext);
	f = palloc0(sizeof(Failure));
	f->ht = ht;
	f->index = index;
	reindex_failures = lappend(reindex_failures, f);
	MemoryContextSwitchTo(old);
	return f;
}

/*
 * Rebuild one table, without those of its indexes that cannot be.
 *
 * True if it has failed and is worth another try.  If it has failed and is not, the next process that needs the table
 * gets the error again.
 */
static bool
reindex_worker_table(ZenHTable *ht, uint32 *rebuilt)
{
	for (;;)
	{
		Failure    *failed;
		ErrorData  *error;
		Oid			index;

		zen_own_transaction(report_or_reindex, ht, &error);
		index = zen_reindex_blamed();
		if (error == NULL)
		{
			*rebuilt += zen_reindex_is_sound(ht);
			return false;
		}
		failed = find_failure(ht, index);
		failed->error = error;
		failed->tries++;
		if (failed->given_up)
			return false;
		if (failed->tries < TRIES && !(OidIsValid(index) && is_lasting_error(error)))
			return true;
		if (!OidIsValid(index))
			return false;
		zen_own_transaction(retire_index, failed, &error);
		if (error != NULL || failed->kept)
			return false;
	}
}

/* One look at all tables of the database; true if some of them are worth another one. */
static bool
reindex_worker_round(Oid db, uint32 *rebuilt)
{
	bool		later = false;

	for (uint32 i = 1; i < zen_htable_end(); i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (!ht->in_use || ht->db != db || zen_reindex_is_sound(ht))
			continue;
		CHECK_FOR_INTERRUPTS();
		later |= reindex_worker_table(ht, rebuilt);
	}
	return later;
}

void
zen_reindex_worker_main(Datum arg)
{
	Oid			db = DatumGetObjectId(arg);
	TimestampTz start = GetCurrentTimestamp();
	uint32		rebuilt = 0;
	long		ms = FIRST_PAUSE_MS;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);
	while (reindex_worker_round(db, &rebuilt))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		ms = Min(2 * ms, FIRST_PAUSE_MS << (TRIES - 2));
	}
	zen_followers_lose_database(db);
	ereport(LOG,
			(errmsg("zen has rebuilt the indexes of %u tables of database %u in %ld ms", rebuilt, db,
					TimestampDifferenceMilliseconds(start, GetCurrentTimestamp()))));
	proc_exit(0);
}

/* The next database, by OID, of a table that needs a rebuild; InvalidOid if there is none after this one. */
static Oid
next_database(Oid after)
{
	Oid			found = InvalidOid;

	for (uint32 i = 1; i < zen_htable_end(); i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (ht->in_use && !zen_reindex_is_sound(ht) && ht->db > after &&
			(!OidIsValid(found) || ht->db < found))
			found = ht->db;
	}
	return found;
}

bool
zen_reindex_start_workers(void)
{
	static Oid	last = InvalidOid;	/* databases up to it have had a worker */
	BackgroundWorker worker;
	Oid			db;

	while (OidIsValid(db = next_database(last)))
	{
		zen_bgworker_describe(&worker, "zen index rebuild", "zen_reindex_worker_main", ObjectIdGetDatum(db),
							  BGW_NEVER_RESTART);

		/* no free slot: backends rebuild what they need, and we try again */
		if (!RegisterDynamicBackgroundWorker(&worker, NULL))
			return false;
		last = db;
	}
	return true;
}
