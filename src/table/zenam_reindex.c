/*
 * zenam_reindex.c -- rebuild unlogged indexes in place after a crash.
 *
 * The state of a table is in ZenHTable.reindex: sound, to be rebuilt, being rebuilt.  Who rebuilds holds a heavyweight lock
 * meanwhile, for which the others wait, so the deadlock detector sees them.  On an error the table is to be rebuilt again,
 * and the next one tries.  The same flag is in NVM, so an unfinished rebuild is remembered over a restart.
 *
 * The rebuild is not transactional: it truncates each index to nothing and builds it into the same files.  It needs no lock
 * on the table beyond the caller's, since nobody else gets past the gate.
 *
 * An index that a prepared transaction has created before the crash is as empty, but nobody can see it before that transaction
 * commits.  It has the table locked, against writers at least, and so long the flag in NVM stays set.  COMMIT PREPARED holds
 * all such tables until it has ended, and then leaves them to be rebuilt once more (zen_reindex_hold).
 *
 * src/README, "Index rebuild", tells of functions that read tables, and of dropped indexes that a rollback brings back.
 * An index that cannot be rebuilt must not keep its table from being used.  A unique one may find two rows with one key,
 * if the medium has lost a tombstone; the function in an expression may fail on rows that it has accepted before.  The
 * background worker marks such an index as not valid, which is what a failed CREATE INDEX CONCURRENTLY leaves, and says
 * so; REINDEX makes it valid again.  An error that may pass is met TRIES times before.
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
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "recovery/gate.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "table/zenam.h"
#include "tcop/tcopprot.h"
#include "txn/ddl.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* ZenHTable.reindex; 0 only if sound and not held. */
#define SOUND		0
#define NEEDED		1
#define RUNNING		2
#define STATE		3			/* bits of one of these */
#define AGAIN		4			/* not sound after the rebuild under way; and
								 * others may be using the other indexes */
#define HOLDER		8			/* times the number of COMMIT PREPAREDs that
								 * hold it */

#define LOCK_SUBID	0x7a65		/* no column of a table has this number */
#define TRIES		5			/* to build an index, or a table */
#define FIRST_PAUSE_MS	250		/* between the first two; then twice as long */

/* A rebuild under way in this process, innermost first: functions in index expressions may read tables. */
typedef struct Rebuild
{
	struct Rebuild *outer;
	Relation	rel;
	ZenHTable  *ht;
	bool		has_indexes;	/* rel's relhasindex */
	bool		in_use;			/* others may be reading the indexes */
	Oid			index;			/* being built, or InvalidOid */
	const char *index_name;
} Rebuild;

static Rebuild *under_way = NULL;

/* The index whose build has raised the last error, and the subtransaction in which it has. */
static Oid	blamed = InvalidOid;
static SubTransactionId blamed_in = InvalidSubTransactionId;

/* A table of which this transaction has dropped an index, so that it has it locked against all others. */
typedef struct Shrunk
{
	Oid			table;
	int			nest_level;		/* of the drop, the first one */
	List	   *built;			/* OIDs of indexes rebuilt for it alone */
} Shrunk;

/* Of this transaction, in TopTransactionContext. */
static List *shrunk = NIL;
static List *own_tables = NIL;	/* HTables with no index left to rebuild */

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

/* ---------- what this transaction has rebuilt for itself ---------- */

static Shrunk *
find_shrunk(Oid table)
{
	ListCell   *lc;

	foreach(lc, shrunk)
		if (((Shrunk *) lfirst(lc))->table == table)
		return lfirst(lc);
	return NULL;
}

static void
forget_own(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		shrunk = own_tables = NIL;
}

/* With a drop, its lock goes; if there was one before, the index is there again, and what is rebuilt already stays so. */
static void
end_subxact(SubXactEvent event, SubTransactionId my_subid, SubTransactionId parent_subid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	ListCell   *lc;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		own_tables = NIL;
	foreach(lc, shrunk)
	{
		Shrunk	   *s = lfirst(lc);

		if (s->nest_level < level)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			shrunk = foreach_delete_current(shrunk, lc);
		else if (event == SUBXACT_EVENT_COMMIT_SUB)
			s->nest_level = level - 1;
	}
}

void
zen_reindex_index_dropped(Oid indexoid)
{
	static bool registered = false;
	Oid			table = IndexGetRelation(indexoid, true);
	MemoryContext old;
	Shrunk	   *s;

	if (!zen_relid_is_zen(table) || find_shrunk(table) != NULL)
		return;
	if (!registered)
	{
		RegisterXactCallback(forget_own, NULL);
		RegisterSubXactCallback(end_subxact, NULL);
	}
	registered = true;
	old = MemoryContextSwitchTo(TopTransactionContext);
	s = palloc0(sizeof(Shrunk));
	s->table = table;
	s->nest_level = GetCurrentTransactionNestLevel();
	shrunk = lappend(shrunk, s);
	MemoryContextSwitchTo(old);
}

/* ---------- one table ---------- */

/*
 * Open an index to build it in place.  Nobody else has got past the gate, unless the table was sound before a prepared
 * transaction ended: then whoever reads it is waited for.
 */
static Relation
open_index(Rebuild *r, Oid indexoid)
{
	Relation	index = index_open(indexoid, r->in_use ? AccessExclusiveLock : RowExclusiveLock);

	if (r->in_use)
		CheckTableNotInUse(index, "rebuild");

	/*
	 * files of an unfinished transaction: if it aborts, the old, empty ones
	 * come back
	 */
	if (index->rd_createSubid != InvalidSubTransactionId || ZEN_NEW_LOCATOR_SUBID(index) != InvalidSubTransactionId)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("index \"%s\" must be rebuilt after the crash first", RelationGetRelationName(index)),
				 errhint("Run a query on table \"%s\", then repeat the command.", RelationGetRelationName(r->rel))));
	return index;
}

static void
rebuild_index(Rebuild *r, Oid indexoid)
{
	Shrunk	   *own = find_shrunk(RelationGetRelid(r->rel));
	Relation	index;

	/*
	 * nobody else can open it before that ends, and then all are rebuilt
	 * again
	 */
	if (held_by_prepared(indexoid, RowExclusiveLock))
		return;
	if (own != NULL && list_member_oid(own->built, indexoid))
		return;
	index = open_index(r, indexoid);
	if (index->rd_index->indisready)
	{
		IndexInfo  *info = BuildIndexInfo(index);

		r->index = indexoid;
		r->index_name = RelationGetRelationName(index);
		relax(r->rel, index, info);
		/* an init fork's contents may already be in the main fork */
		RelationTruncate(index, 0);
		index->rd_indam->ambuild(r->rel, index, info);
		r->index = InvalidOid;
		r->index_name = NULL;
	}
	index_close(index, NoLock);
	if (own != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		own->built = lappend_oid(own->built, indexoid);
		MemoryContextSwitchTo(old);
	}
}

static void
rebuild_context(void *arg)
{
	Rebuild    *r = arg;

	if (r->index_name != NULL)
		errcontext("rebuilding index \"%s\" of table \"%s\" after a crash", r->index_name, RelationGetRelationName(r->rel));
	else
		errcontext("rebuilding the indexes of table \"%s\" after a crash", RelationGetRelationName(r->rel));
}

static void
set_for_rebuild(const char *name, const char *setting, GucContext context)
{
	(void) set_config_option(name, setting, context, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Build all indexes as the table's owner would, like REINDEX. */
static void
rebuild(Rebuild *r)
{
	List	   *indexes = RelationGetIndexList(r->rel);
	ListCell   *lc;
	Oid			user;
	int			security;
	int			nest_level;
	bool		pushed = false;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zen reindex", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ErrorContextCallback callback = {.callback = rebuild_context,.arg = r,.previous = error_context_stack};

	error_context_stack = &callback;
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(r->rel->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	zen_restrict_search_path();
	/* the other rows must stay readable: a damaged one is in no index */
	set_for_rebuild("zen.skip_damaged_rows", "on", PGC_SUSET);
	/* workers of a function's query would wait here for what this one does */
	set_for_rebuild("max_parallel_workers_per_gather", "0", PGC_USERSET);
	if (!ActiveSnapshotSet())
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		pushed = true;
	}
	foreach(lc, indexes)
		rebuild_index(r, lfirst_oid(lc));
	if (pushed)
		PopActiveSnapshot();
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	error_context_stack = callback.previous;
}

/* ---------- the state of a table ---------- */

static uint32
read_state(ZenHTable *ht)
{
	return pg_atomic_read_u32(&ht->reindex);
}

static bool
is_busy(ZenHTable *ht)
{
	uint32		word = read_state(ht);

	return (word & STATE) == RUNNING || word >= HOLDER;
}

/* Take a table that is to be rebuilt and not held; *in_use: it was sound once. */
static bool
begin(ZenHTable *ht, bool *in_use)
{
	uint32		word = read_state(ht);

	while (word == NEEDED || word == (NEEDED | AGAIN))
	{
		*in_use = (word & AGAIN) != 0;
		if (pg_atomic_compare_exchange_u32(&ht->reindex, &word, RUNNING))
			return true;
	}
	return false;
}

/* The rebuild has ended, well or not; true if the table is sound now. */
static bool
end(Rebuild *r, bool whole)
{
	uint32		word = read_state(r->ht);
	uint32		state,
				next;

	Assert((word & STATE) == RUNNING);
	do
	{
		state = whole && (word & AGAIN) == 0 ? SOUND : NEEDED;
		next = (word & ~STATE) | state | (r->in_use && state == NEEDED ? AGAIN : 0);
	} while (!pg_atomic_compare_exchange_u32(&r->ht->reindex, &word, next));
	ConditionVariableBroadcast(&zen_recovery->changed);
	return state == SOUND;
}

static void
wait_while_busy(ZenHTable *ht)
{
	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (is_busy(ht))
		ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

/* ---------- rebuild, or wait ---------- */

static void
enter(Rebuild *r)
{
	r->outer = under_way;
	under_way = r;
	ResetPlanCache();			/* plans with its indexes */
}

static void
leave(Rebuild *r)
{
	Assert(under_way == r);
	under_way = r->outer;
	r->rel->rd_rel->relhasindex = r->has_indexes;
	ResetPlanCache();			/* plans without them */
}

/* The rebuild has failed, or this process is ending in the middle of it: someone else may try. */
static void
give_up(int code, Datum arg)
{
	Rebuild    *r = (Rebuild *) DatumGetPointer(arg);
	SubTransactionId now = GetCurrentSubTransactionId();

	/* an error that comes from a rebuild inside passes in one subtransaction */
	if (blamed_in != now)
		blamed = r->index;
	blamed_in = now;
	leave(r);
	(void) end(r, false);
}

/* All indexes that can be seen were rebuilt. */
static void
rebuilt(Rebuild *r)
{
	/* locks of prepared transactions from before the crash only go */
	bool		held = held_by_prepared(RelationGetRelid(r->rel), RowExclusiveLock);

	if (find_shrunk(RelationGetRelid(r->rel)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		Assert(CheckRelationLockedByMe(r->rel, AccessExclusiveLock, true));
		own_tables = lappend(own_tables, r->ht);
		MemoryContextSwitchTo(old);
		(void) end(r, false);
	}
	else if (end(r, true) && !held)
		zen_htable_reindex_done(r->ht);
}

static void
rebuild_table(Relation rel, ZenHTable *ht, bool in_use)
{
	Rebuild		r = {.rel = rel,.ht = ht,.in_use = in_use,.has_indexes = rel->rd_rel->relhasindex};
	TimestampTz start = GetCurrentTimestamp();

	PG_ENSURE_ERROR_CLEANUP(give_up, PointerGetDatum(&r));
	{
		enter(&r);
		rebuild(&r);
	}
	PG_END_ENSURE_ERROR_CLEANUP(give_up, PointerGetDatum(&r));
	leave(&r);
	pg_atomic_fetch_add_u64(&zen_recovery->index_us, GetCurrentTimestamp() - start);
	rebuilt(&r);
}

static bool
is_rebuilding(ZenHTable *ht)
{
	for (Rebuild *r = under_way; r != NULL; r = r->outer)
		if (r->ht == ht)
			return true;
	return false;
}

void
zen_reindex_table(Relation rel, ZenHTable *ht)
{
	LOCKTAG		tag;
	bool		in_use;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, RelationGetRelid(rel), LOCK_SUBID);
	while (read_state(ht) != SOUND && !is_rebuilding(ht) && !list_member_ptr(own_tables, ht))
	{
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
		if (begin(ht, &in_use))
			rebuild_table(rel, ht, in_use);
		LockRelease(&tag, ExclusiveLock, false);

		/*
		 * COMMIT PREPARED; or processes of one parallel query, whom the lock
		 * does not keep apart
		 */
		wait_while_busy(ht);
	}
}

void
zen_reindex_hide(Relation rel, ZenHTable *ht)
{
	if (unlikely(under_way != NULL) && is_rebuilding(ht))
		rel->rd_rel->relhasindex = false;
}

bool
zen_reindex_is_passed(ZenHTable *ht)
{
	return read_state(ht) == SOUND || list_member_ptr(own_tables, ht);
}

/* ---------- prepared transactions ---------- */

static List *held = NIL;		/* HTables, in TopMemoryContext */

/* Close the gate of a table. */
static void
hold(ZenHTable *ht)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	uint32		word = read_state(ht);

	held = lappend(held, ht);	/* what can fail comes first */
	pg_atomic_write_u32(&zen_recovery->rebuilt_in_use, 1);
	while (!pg_atomic_compare_exchange_u32(&ht->reindex, &word, (word | AGAIN) + HOLDER))
		;
	MemoryContextSwitchTo(old);
}

/* Open it; its indexes are to be rebuilt once more. */
static void
let_go(ZenHTable *ht)
{
	uint32		word = read_state(ht);
	uint32		next;

	do
	{
		Assert(word >= HOLDER && (word & AGAIN) != 0);
		next = word - HOLDER;
		if ((next & STATE) == SOUND)
			next |= NEEDED;
	} while (!pg_atomic_compare_exchange_u32(&ht->reindex, &word, next));
}

static Oid
relid_of(ZenHTable *ht)
{
	return RelidByRelfilenumber(ht->spc == MyDatabaseTableSpace ? InvalidOid : ht->spc, ht->relnumber);
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

	if (!prepared_to_end)
		before_shmem_exit(let_go_at_exit, 0);
	prepared_to_end = true;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (ht->in_use && ht->db == MyDatabaseId && zen_htable_reindex_noted(ht) &&
			held_by_prepared(relid_of(ht), RowExclusiveLock))
			hold(ht);
	}
}

void
zen_reindex_let_go(void)
{
	ListCell   *lc;

	if (held == NIL)
		return;
	foreach(lc, held)
		let_go(lfirst(lc));
	list_free(held);
	held = NIL;
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* ---------- background ---------- */

/* Is the table, as far as can be seen without a lock, zen's and not sound? */
static bool
is_to_be_rebuilt(Oid relid)
{
	HeapTuple	tuple;
	RelFileLocator loc;
	ZenHTable  *ht;

	if (!zen_relid_is_zen(relid))
		return false;
	zen_gate();
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	ZEN_LOCATOR_DB(loc) = MyDatabaseId;
	ZEN_LOCATOR_SPC(loc) = ((Form_pg_class) GETSTRUCT(tuple))->reltablespace;
	ZEN_LOCATOR_NUMBER(loc) = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
	ReleaseSysCache(tuple);
	if (!OidIsValid(ZEN_LOCATOR_SPC(loc)))
		ZEN_LOCATOR_SPC(loc) = MyDatabaseTableSpace;
	ht = zen_ddl_find(loc, INVALID_PROC_NUMBER);
	return ht != NULL && read_state(ht) != SOUND;
}

/* Rebuild the indexes of a relation, if it is there and nobody prepared has it. */
static void
reindex_relation_now(Oid relid)
{
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
zen_reindex_relation(Oid relid)
{
	if (is_to_be_rebuilt(relid))
		reindex_relation_now(relid);
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
	reindex_relation_now(relid_of(arg));
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

/* What this worker could not build, and how often it has tried. */
typedef struct Failure
{
	Oid			index;			/* InvalidOid: of the table, nobody knows
								 * which */
	ZenHTable  *ht;
	int			tries;
} Failure;

static List *failures = NIL;	/* in TopMemoryContext */

static Failure *
find_failure(ZenHTable *ht, Oid index)
{
	MemoryContext old;
	Failure    *f;
	ListCell   *lc;

	foreach(lc, failures)
	{
		f = lfirst(lc);
		if (f->ht == ht && f->index == index)
			return f;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	f = palloc0(sizeof(Failure));
	f->ht = ht;
	f->index = index;
	failures = lappend(failures, f);
	MemoryContextSwitchTo(old);
	return f;
}

typedef enum Outcome
{
	DONE,
	LATER,						/* worth another try */
	LEFT						/* the next who needs it will be told again */
} Outcome;

/* Rebuild one table, without those of its indexes that cannot be. */
static Outcome
reindex_worker_table(ZenHTable *ht)
{
	FailedIndex failed;
	ErrorData  *error;

	for (;;)
	{
		Failure    *failure;

		blamed = InvalidOid;
		blamed_in = InvalidSubTransactionId;
		in_transaction(report_or_reindex, ht, &failed.error);
		if (failed.error == NULL)
			return read_state(ht) == SOUND ? DONE : LEFT;
		failed.index = blamed;
		failure = find_failure(ht, failed.index);
		failure->tries++;
		if (list_member_oid(hopeless, failed.index))
			return LEFT;
		if (failure->tries < TRIES && !(OidIsValid(failed.index) && is_lasting(failed.error)))
			return LATER;
		if (!OidIsValid(failed.index))
			return LEFT;
		in_transaction(retire_index, &failed, &error);
		if (error != NULL)
			return LEFT;
	}
}

/* One look at all tables of the database; true if some of them are worth another one. */
static bool
reindex_worker_round(Oid db, uint32 *rebuilt)
{
	bool		later = false;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (!ht->in_use || ht->db != db || read_state(ht) == SOUND)
			continue;
		CHECK_FOR_INTERRUPTS();
		switch (reindex_worker_table(ht))
		{
			case DONE:
				(*rebuilt)++;
				break;
			case LATER:
				later = true;
				break;
			case LEFT:
				break;
		}
	}
	return later;
}

static void
pause_worker(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
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
		pause_worker(ms);
		ms = Min(2 * ms, FIRST_PAUSE_MS << (TRIES - 2));
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
