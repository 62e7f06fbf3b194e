/*
 * zenam_reindex.c -- rebuild unlogged indexes in place after a crash.
 *
 * The state of a table is in ZenHTable.reindex: 0 sound, 1 to be rebuilt, 2 being rebuilt.  Whoever changes it from 1 to
 * 2 does the work; the others sleep on the recovery condition variable.  On an error it goes back to 1, and the next
 * one tries.  The same flag is in NVM, so an unfinished rebuild is remembered over a restart.
 *
 * The rebuild is not transactional: it truncates each index to nothing and builds it into the same files, as a crash
 * before its end would leave it to be done again.  It needs no lock on the table beyond the caller's, since
 * nobody else gets past the gate.
 *
 * An index that a prepared transaction has created before the crash is as empty, but nobody can see it before that transaction
 * commits.  It has the table locked, against writers at least, and as long as it has, the flag in NVM stays set
 * although the others were rebuilt.  COMMIT PREPARED takes all such tables for being rebuilt until it has ended, and then
 * leaves them to be rebuilt once more (zen_reindex_hold): who sees the index has passed the gate after that, or waits there.
 *
 * An index that cannot be rebuilt must not keep its table from being used.  A unique one may find two rows with one key,
 * if the medium has lost a tombstone; the function in an expression may fail on rows that it has accepted before.  The
 * background worker marks such an index as not valid, which is what a failed CREATE INDEX CONCURRENTLY leaves, and says
 * so; REINDEX makes it valid again.  The mark is committed before the table is open to anyone without the index.
 */
#include "table/zenam_reindex.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/bgworker.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "table/zenam.h"
#include "tcop/tcopprot.h"
#include "txn/recovery.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define SOUND		0
#define NEEDED		1
#define RUNNING		2

static ZenHTable *rebuilding = NULL;	/* by this process: functions in index
										 * expressions may read the table */

static Oid	index_in_hand = InvalidOid; /* this process is building it */
static List *hopeless = NIL;	/* OIDs of indexes that are not valid and that
								 * this worker could not build even so */

/*
 * An index that is not valid is read by nobody and must not fail.  That of a toast table is of use even if it has two
 * entries for one chunk: only one value cannot be read.
 */
static void
relax(Relation rel, Relation index, IndexInfo *info)
{
	if (!index->rd_index->indisvalid || rel->rd_rel->relkind == RELKIND_TOASTVALUE)
		info->ii_Unique = false;
	if (list_member_oid(hopeless, RelationGetRelid(index)))
		info->ii_Predicate = list_make1(makeBoolConst(false, false));
}

/* Does a prepared transaction that the server has found at its start have a lock on the table that excludes this one? */
static bool
held_by_prepared(Oid relid, LOCKMODE mode)
{
	LOCKTAG		tag;
	VirtualTransactionId *holders;
	int			n;
	bool		found = false;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	holders = GetLockConflicts(&tag, mode, &n);
	for (int i = 0; i < n; i++)
		found |= VirtualTransactionIdIsRecoveredPreparedXact(holders[i]);
	return found;
}

static void
rebuild_index(Relation rel, Oid indexoid)
{
	Relation	index;

	/*
	 * nobody else can open it before that ends, and then all are rebuilt
	 * again; whoever ends it waits for us
	 */
	if (held_by_prepared(indexoid, RowExclusiveLock))
		return;
	index = index_open(indexoid, RowExclusiveLock);

	/*
	 * files of an unfinished transaction: if it aborts, the old, empty ones
	 * come back
	 */
	if (index->rd_createSubid != InvalidSubTransactionId || ZEN_NEW_LOCATOR_SUBID(index) != InvalidSubTransactionId)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("index \"%s\" must be rebuilt after the crash first", RelationGetRelationName(index)),
				 errhint("Run a query on table \"%s\", then repeat the command.", RelationGetRelationName(rel))));
	if (index->rd_index->indisready)
	{
		IndexInfo  *info = BuildIndexInfo(index);

		Oid			outer = index_in_hand;	/* functions may need another
											 * table */

		index_in_hand = indexoid;
		relax(rel, index, info);
		/* an init fork's contents may already be in the main fork */
		RelationTruncate(index, 0);
		index->rd_indam->ambuild(rel, index, info);
		index_in_hand = outer;
	}
	index_close(index, NoLock);
}

static void
rebuild_context(void *arg)
{
	errcontext("rebuilding the indexes of table \"%s\" after a crash", RelationGetRelationName((Relation) arg));
}

/* Build all indexes as the table's owner would, like REINDEX. */
static void
rebuild(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	Oid			user;
	int			security;
	int			nest_level;
	bool		pushed = false;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zen reindex", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ErrorContextCallback callback = {.callback = rebuild_context,.arg = rel,.previous = error_context_stack};

	error_context_stack = &callback;
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(rel->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	zen_restrict_search_path();
	/* the other rows must stay readable: a damaged one is in no index */
	(void) set_config_option("zen.skip_damaged_rows", "on", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (!ActiveSnapshotSet())
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		pushed = true;
	}
	foreach(lc, indexes)
		rebuild_index(rel, lfirst_oid(lc));
	if (pushed)
		PopActiveSnapshot();
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	error_context_stack = callback.previous;
}

static void
set_reindex_state(ZenHTable *ht, uint32 state)
{
	pg_atomic_write_u32(&ht->reindex, state);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* All indexes that can be seen were rebuilt. */
static void
rebuilt(Relation rel, ZenHTable *ht)
{
	if (!held_by_prepared(RelationGetRelid(rel), RowExclusiveLock))
		zen_htable_set_reindex(ht, false);
	set_reindex_state(ht, SOUND);
}

/* The rebuild has failed, or this process is ending in the middle of it: someone else may try. */
static void
give_up(int code, Datum arg)
{
	rebuilding = NULL;
	set_reindex_state((ZenHTable *) DatumGetPointer(arg), NEEDED);
}

void
zen_reindex_table(Relation rel, ZenHTable *ht)
{
	uint32		needed = NEEDED;

	if (rebuilding == ht)
		return;
	if (pg_atomic_compare_exchange_u32(&ht->reindex, &needed, RUNNING))
	{
		ZenHTable  *outer = rebuilding;
		TimestampTz start = GetCurrentTimestamp();

		PG_ENSURE_ERROR_CLEANUP(give_up, PointerGetDatum(ht));
		{
			rebuilding = ht;
			rebuild(rel);
		}
		PG_END_ENSURE_ERROR_CLEANUP(give_up, PointerGetDatum(ht));
		rebuilding = outer;
		pg_atomic_fetch_add_u64(&zen_recovery->index_us, GetCurrentTimestamp() - start);
		rebuilt(rel, ht);
		return;
	}

	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (pg_atomic_read_u32(&ht->reindex) == RUNNING)
		ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	if (pg_atomic_read_u32(&ht->reindex) == NEEDED)
		zen_reindex_table(rel, ht);
}

/* ---------- prepared transactions ---------- */

static List *held = NIL;		/* HTables, in TopMemoryContext */

/* Take a table that may have to be rebuilt again; false if somebody is at it. */
static bool
try_hold(ZenHTable *ht)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	List	   *longer = lappend(held, ht); /* what can fail comes first */
	uint32		state = SOUND;
	bool		taken = pg_atomic_compare_exchange_u32(&ht->reindex, &state, RUNNING) ||
	(state == NEEDED && pg_atomic_compare_exchange_u32(&ht->reindex, &state, RUNNING));

	held = taken ? longer : list_delete_last(longer);
	MemoryContextSwitchTo(old);
	return taken;
}

static Oid
relid_of(ZenHTable *ht)
{
	return RelidByRelfilenumber(ht->spc == MyDatabaseTableSpace ? InvalidOid : ht->spc, ht->relnumber);
}

/* Take all of this database that such a transaction has locked, up to one that somebody is at, which is returned. */
static ZenHTable *
try_hold_all(void)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (ht->in_use && ht->db == MyDatabaseId && zen_htable_reindex_noted(ht) &&
			held_by_prepared(relid_of(ht), RowExclusiveLock) && !try_hold(ht))
			return ht;
	}
	return NULL;
}

static void
let_go_at_exit(int code, Datum arg)
{
	zen_reindex_let_go();
}

void
zen_reindex_hold(void)
{
	static bool prepared_to_end = false;
	ZenHTable  *busy;

	if (!prepared_to_end)
		before_shmem_exit(let_go_at_exit, 0);
	prepared_to_end = true;
	while ((busy = try_hold_all()) != NULL)
	{
		/* whoever rebuilds one may need another */
		zen_reindex_let_go();
		ConditionVariablePrepareToSleep(&zen_recovery->changed);
		while (pg_atomic_read_u32(&busy->reindex) == RUNNING)
			ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
}

void
zen_reindex_let_go(void)
{
	ListCell   *lc;

	foreach(lc, held)
		set_reindex_state(lfirst(lc), NEEDED);
	list_free(held);
	held = NIL;
}

/* ---------- background ---------- */

/* Rebuild one table by its relfilenode, if it is still there. */
static void
reindex_one(ZenHTable *ht)
{
	Oid			relid = relid_of(ht);
	Relation	rel = NULL;

	/* it may stay prepared for long: the next who needs the table waits */
	if (OidIsValid(relid) && !held_by_prepared(relid, AccessShareLock))
		rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return;
	if (zen_rel_is_zen(rel))
		(void) zen_rel_htable(rel);
	relation_close(rel, AccessShareLock);
}

void
zen_reindex_database(void)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (!ht->in_use || ht->db != MyDatabaseId || pg_atomic_read_u32(&ht->reindex) == SOUND)
			continue;
		CHECK_FOR_INTERRUPTS();
		reindex_one(ht);
	}
}

/*
 * An HTable that no row of pg_class leads to is reported and left as it is.  One that is being created, moved or dropped
 * is not meant: its transaction says so in the entry before it commits.
 */
static void
report_unknown(ZenHTable *ht)
{
	RelFileNumber relnumber = ht->relnumber;
	Oid			spc = ht->spc;
	Oid			relid = RelidByRelfilenumber(spc == MyDatabaseTableSpace ? InvalidOid : spc, relnumber);

	if (OidIsValid(relid) || !ht->in_use || ht->relnumber != relnumber || ht->backend != 0 ||
		ht->create_xid != 0 || ht->drop_xid != 0 || zen_nvm_load64(&zen_pool.htables[ht->idx].move_xid) != 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the zen pool holds a table that the catalog does not know"),
			 errdetail("Entry %u: relfilenode %u in tablespace %u of database %u.", ht->idx, relnumber, spc, ht->db),
			 errhint("Restore pool and data directory from copies of the same moment.  Until then its rows stay in the pool.")));
}

/* Do something in a transaction of its own; *error, in the caller's context, and a report if that fails, else NULL. */
static void
in_transaction(void (*work) (void *), void *arg, ErrorData **error)
{
	MemoryContext context = CurrentMemoryContext;

	*error = NULL;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PG_TRY();
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		work(arg);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

static void
report_or_reindex(void *arg)
{
	report_unknown(arg);
	reindex_one(arg);
}

typedef struct FailedIndex
{
	Oid			index;
	ErrorData  *error;
} FailedIndex;

/* Take an index that could not be rebuilt out of use; if it is already, the next rebuild leaves it empty. */
static void
retire_index(void *arg)
{
	FailedIndex *failed = arg;
	Oid			table = IndexGetRelation(failed->index, true);
	HeapTuple	tuple;
	bool		valid;

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
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		hopeless = lappend_oid(hopeless, failed->index);
		MemoryContextSwitchTo(old);
		return;
	}
	index_set_state_flags(failed->index, INDEX_DROP_CLEAR_VALID);
	CacheInvalidateRelcacheByRelid(table);
	ereport(WARNING,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" of table \"%s\" could not be rebuilt after the crash and is not valid now",
					get_rel_name(failed->index), get_rel_name(table)),
			 errdetail("The rebuild failed with: %s  %s", failed->error->message,
					   failed->error->detail ? failed->error->detail : ""),
			 errhint("Remove the cause, for example one of two rows with the same key, then REINDEX the index.")));
}

/* Is it the rows' fault, or the index's, so that the next try would fail as well? */
static bool
is_lasting(ErrorData *error)
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

/* Rebuild one table, without those of its indexes that cannot be; false if that cannot be done now. */
static bool
reindex_worker_table(ZenHTable *ht)
{
	FailedIndex failed;
	ErrorData  *error;

	for (;;)
	{
		index_in_hand = InvalidOid;
		in_transaction(report_or_reindex, ht, &failed.error);
		if (failed.error == NULL)
			return pg_atomic_read_u32(&ht->reindex) == SOUND;
		failed.index = index_in_hand;
		/* the next who needs this table will be told again */
		if (!OidIsValid(failed.index) || !is_lasting(failed.error) || list_member_oid(hopeless, failed.index))
			return false;
		in_transaction(retire_index, &failed, &error);
		if (error != NULL)
			return false;
	}
}

void
zen_reindex_worker_main(Datum arg)
{
	Oid			db = DatumGetObjectId(arg);
	TimestampTz start = GetCurrentTimestamp();
	uint32		rebuilt = 0;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (!ht->in_use || ht->db != db || pg_atomic_read_u32(&ht->reindex) == SOUND)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (reindex_worker_table(ht))
			rebuilt++;
	}
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

	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (ht->in_use && pg_atomic_read_u32(&ht->reindex) != SOUND && ht->db > after &&
			(!OidIsValid(found) || ht->db < found))
			found = ht->db;
	}
	return found;
}

bool
zen_reindex_start_workers(void)
{
	static Oid	last = InvalidOid;	/* databases up to this one have had their
									 * worker */
	BackgroundWorker worker;
	Oid			db;

	while (OidIsValid(db = next_database(last)))
	{
		zen_bgworker_describe(&worker, "zen index rebuild", "zen_reindex_worker_main", ObjectIdGetDatum(db),
							  BGW_NEVER_RESTART);

		/*
		 * without a free slot the backends that need a table rebuild it, and
		 * we try again later
		 */
		if (!RegisterDynamicBackgroundWorker(&worker, NULL))
			return false;
		last = db;
	}
	return true;
}
