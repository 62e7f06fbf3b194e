/*
 * zenam_reindex.c -- rebuild unlogged indexes in place after a crash.
 *
 * The state of a table is in ZenHTable.reindex: sound, to be rebuilt, being rebuilt.  src/table/README, "Index
 * rebuild", tells how processes wait for each other, of prepared transactions, of functions that read tables, and of
 * dropped indexes that a rollback brings back.  A rebuild needs no lock on the table beyond the caller's, since no
 * other process gets past the gate.  An index that cannot be rebuilt is the background worker's (reindexworker.c).
 */
#include "table/zenam_reindex.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "recovery/gate.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "table/ownxact.h"
#include "table/treeindex.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* ZenHTable.reindex; 0 only if sound and not held. */
#define SOUND		0
#define NEEDED		1
#define RUNNING		2
#define STATE		3			/* bits of one of these */
#define AGAIN		4			/* not sound after the rebuild under way; and
								 * others may be using the other indexes */
#define HOLDER		8			/* times the COMMIT PREPAREDs that hold it */

bool		(*zen_reindex_keeps_tree) (Relation table, Relation index, ZenHTable *ht) = NULL;

#define LOCK_SUBID	0x7a65		/* no column of a table has this number */

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

static List *hopeless = NIL;	/* OIDs of indexes that are not valid, and
								 * that this worker could still not build */

static bool
is_given_up(Relation index)
{
	return list_member_oid(hopeless, RelationGetRelid(index));
}

/*
 * How to build an index.  One that is not valid has no readers and must not fail.  That of a toast table is of use even
 * if it has two entries for one chunk: only one value cannot be read.  One that is given up is left empty, and none of
 * its functions is called.
 */
static IndexInfo *
make_info(Relation rel, Relation index)
{
	bool		given_up = is_given_up(index);
	IndexInfo  *info = given_up ? BuildDummyIndexInfo(index) : BuildIndexInfo(index);

	if (!index->rd_index->indisvalid || rel->rd_rel->relkind == RELKIND_TOASTVALUE)
		info->ii_Unique = false;
	if (given_up)
		info->ii_Predicate = list_make1(makeBoolConst(false, false));
	return info;
}

bool
zen_reindex_held_by_prepared(Oid relid, LOCKMODE mode)
{
	LOCKTAG		tag;
	VirtualTransactionId *holders;
	int			n;
	bool		found = false;

	Assert(IsTransactionState());
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
	{
		if (((Shrunk *) lfirst(lc))->table == table)
			return lfirst(lc);
	}
	return NULL;
}

void
zen_reindex_event(XactEvent event)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		shrunk = own_tables = NIL;
}

/*
 * If the drop of an index is rolled back, its lock on the table goes.  If the table was locked before, the index is
 * there again, and indexes that were rebuilt stay so.
 */
void
zen_reindex_subevent(SubXactEvent event, SubTransactionId subxact)
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
zen_reindex_index_dropped(Oid table)
{
	MemoryContext old;
	Shrunk	   *s;

	Assert(OidIsValid(table) && IsTransactionState());
	if (find_shrunk(table) != NULL)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	s = palloc0(sizeof(Shrunk));
	s->table = table;
	s->nest_level = GetCurrentTransactionNestLevel();
	shrunk = lappend(shrunk, s);
	MemoryContextSwitchTo(old);
}

/* ---------- one table ---------- */

/*
 * Open an index to build it in place.  No other process has got past the gate, unless the table was sound before a
 * prepared transaction ended: then its readers are waited for.
 */
static Relation
open_lost_index(Rebuild *r, Oid indexoid, LOCKMODE mode)
{
	Relation	index = index_open(indexoid, mode);

	Assert(CheckRelationLockedByMe(r->rel, AccessShareLock, true));
	if (r->in_use)
		CheckTableNotInUse(index, "rebuild");

	/* files of a transaction: if it aborts, the old, empty ones come back */
	if (index->rd_createSubid != InvalidSubTransactionId || ZEN_NEW_LOCATOR_SUBID(index) != InvalidSubTransactionId)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("index \"%s\" must be rebuilt after the start first", RelationGetRelationName(index)),
				 errhint("Run a query on table \"%s\", then repeat the command.", RelationGetRelationName(r->rel))));
	return index;
}

static void
set_for_rebuild(const char *name, const char *setting, GucContext context)
{
	(void) set_config_option(name, setting, context, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * As many processes build an index as have recovered the pool.  Functions of users may read this table, which is
 * possible in this process only: its workers would wait for the rebuild.
 */
static void
set_workers(Relation index)
{
	char		n[12];

	snprintf(n, sizeof(n), "%d", zen_index_calls_users(index) ? 0 : zen_recovery_workers);
	set_for_rebuild("max_parallel_maintenance_workers", n, PGC_USERSET);
}

/*
 * Is it a unique tree that is given up?  Its builds have left none.  A tree without the rows could not tell that a new
 * row's key exists already, so it takes no row (zen_tree_need).
 */
static bool
is_to_refuse_rows(Relation index)
{
	return index->rd_index->indisunique && zen_index_is_tree(index) && is_given_up(index);
}

/* The table was never sound, and no row of it is in doubt: has the promotion kept a tree for the index? */
static bool
keeps_tree(Rebuild *r, Relation index)
{
	return zen_index_is_tree(index) && index->rd_index->indisvalid && !r->in_use &&
		!zen_reindex_held_by_prepared(RelationGetRelid(r->rel), ShareLock) &&
		zen_reindex_keeps_tree(r->rel, index, r->ht);
}

/* Rebuild one index of the table, unless it is not lost, is held by a prepared transaction, or was just built. */
static void
rebuild_index(Rebuild *r, Oid indexoid)
{
	Shrunk	   *own = find_shrunk(RelationGetRelid(r->rel));
	LOCKMODE	mode = r->in_use ? AccessExclusiveLock : RowExclusiveLock;
	Relation	index;

	Assert(under_way == r && !OidIsValid(r->index));

	/* no other opens it before that one ends; then all are built again */
	if (zen_reindex_held_by_prepared(indexoid, RowExclusiveLock))
		return;
	if (own != NULL && list_member_oid(own->built, indexoid))
		return;
	index = open_lost_index(r, indexoid, mode);
	/* a crash takes all indexes away, an orderly stop those in DRAM */
	if (index->rd_index->indisready && (zen_htable_flag(r->ht, ZEN_HTF_REINDEX) || zen_index_is_tree(index)))
	{
		IndexInfo  *info;

		r->index = indexoid;
		r->index_name = RelationGetRelationName(index);
		/* calls functions, if they have constant arguments */
		info = make_info(r->rel, index);
		Assert(index->rd_index->indrelid == RelationGetRelid(r->rel));
		set_workers(index);
		/* an init fork's contents may already be in the main fork */
		RelationTruncate(index, 0);
		if (!is_to_refuse_rows(index) && !keeps_tree(r, index))
			index->rd_indam->ambuild(r->rel, index, info);
		r->index = InvalidOid;
		r->index_name = NULL;
	}

	/* let go: this process may come to wait for a rebuild that needs it */
	index_close(index, mode);
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
		errcontext("rebuilding index \"%s\" of table \"%s\" after a start",
				   r->index_name, RelationGetRelationName(r->rel));
	else
		errcontext("rebuilding the indexes of table \"%s\" after a start", RelationGetRelationName(r->rel));
}

/*
 * The indexes of a table whose rebuild has begun.  This process may have opened the table before a COMMIT PREPARED,
 * and waited since without taking in the invalidations of that one.  They were sent before the table was let go, so
 * before begin_rebuild() could succeed.  A COMMIT PREPARED that holds the table from now on has the rebuild done AGAIN.
 */
static List *
current_indexes(Rebuild *r)
{
	Assert(under_way == r && (pg_atomic_read_u32(&r->ht->reindex) & STATE) == RUNNING);
	AcceptInvalidationMessages();
	r->has_indexes = r->rel->rd_rel->relhasindex;
	return RelationGetIndexList(r->rel);
}

/* Build all indexes as the table's owner would, like REINDEX. */
static void
rebuild(Rebuild *r)
{
	List	   *indexes = current_indexes(r);
	ListCell   *lc;
	Oid			user;
	int			security;
	int			nest_level;
	bool		pushed;
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
	/* workers of a function's query would wait for this rebuild */
	set_for_rebuild("max_parallel_workers_per_gather", "0", PGC_USERSET);
	pushed = zen_own_snapshot();
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

/* Take a table that is to be rebuilt and not held; *in_use: it was sound once. */
static bool
begin_rebuild(ZenHTable *ht, bool *in_use)
{
	uint32		word = pg_atomic_read_u32(&ht->reindex);

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
end_rebuild(Rebuild *r, bool whole)
{
	uint32		word = pg_atomic_read_u32(&r->ht->reindex);
	uint32		state,
				next;

	Assert((word & STATE) == RUNNING);
	do
	{
		state = whole && (word & AGAIN) == 0 ? SOUND : NEEDED;
		next = (word & ~STATE) | state | (r->in_use && state == NEEDED ? AGAIN : 0);
	} while (!pg_atomic_compare_exchange_u32(&r->ht->reindex, &word, next));
	Assert(!whole || r->index == InvalidOid);
	ConditionVariableBroadcast(&zen_recovery->changed);
	return state == SOUND;
}

static bool
is_busy(ZenHTable *ht)
{
	uint32		word = pg_atomic_read_u32(&ht->reindex);

	return (word & STATE) == RUNNING || word >= HOLDER;
}

static void
wait_while_busy(ZenHTable *ht)
{
	ZenAssertNotInEpoch();
	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (is_busy(ht))
	{
		ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/* ---------- rebuild, or wait ---------- */

static bool
is_rebuilding(ZenHTable *ht)
{
	for (Rebuild *r = under_way; r != NULL; r = r->outer)
		if (r->ht == ht)
			return true;
	return false;
}

static void
enter_rebuild(Rebuild *r)
{
	Assert(!is_rebuilding(r->ht));
	r->outer = under_way;
	under_way = r;
	ResetPlanCache();			/* plans with its indexes */
}

static void
leave_rebuild(Rebuild *r)
{
	Assert(under_way == r);
	under_way = r->outer;
	r->rel->rd_rel->relhasindex = r->has_indexes;
	ResetPlanCache();			/* plans without them */
}

/* The rebuild has failed, or this process is ending in the middle of it: another process may try. */
static void
rebuild_failed(int code, Datum arg)
{
	Rebuild    *r = (Rebuild *) DatumGetPointer(arg);
	SubTransactionId now = GetCurrentSubTransactionId();

	/* an error that comes from a rebuild inside passes in one subtransaction */
	if (blamed_in != now)
		blamed = r->index;
	blamed_in = now;
	leave_rebuild(r);
	(void) end_rebuild(r, false);
}

/* All indexes that can be seen were rebuilt. */
static void
rebuilt(Rebuild *r)
{
	/* locks of prepared transactions from before the crash only go */
	bool		held = zen_reindex_held_by_prepared(RelationGetRelid(r->rel), RowExclusiveLock);

	if (find_shrunk(RelationGetRelid(r->rel)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		Assert(CheckRelationLockedByMe(r->rel, AccessExclusiveLock, true));
		own_tables = lappend(own_tables, r->ht);
		MemoryContextSwitchTo(old);
		(void) end_rebuild(r, false);
	}
	else if (end_rebuild(r, true) && !held)
		zen_htable_set_flag(r->ht, ZEN_HTF_REINDEX, false);
}

static void
rebuild_table(Relation rel, ZenHTable *ht, bool in_use)
{
	Rebuild		r = {.rel = rel,.ht = ht,.in_use = in_use,.has_indexes = rel->rd_rel->relhasindex};
	TimestampTz start = GetCurrentTimestamp();

	PG_ENSURE_ERROR_CLEANUP(rebuild_failed, PointerGetDatum(&r));
	{
		enter_rebuild(&r);
		rebuild(&r);
	}
	PG_END_ENSURE_ERROR_CLEANUP(rebuild_failed, PointerGetDatum(&r));
	leave_rebuild(&r);
	pg_atomic_fetch_add_u64(&zen_recovery->index_us, GetCurrentTimestamp() - start);
	rebuilt(&r);
}

void
zen_reindex_table(Relation rel, ZenHTable *ht)
{
	LOCKTAG		tag;
	bool		in_use;

	ZenAssertNotInEpoch();
	Assert(ht->in_use && ht->db == MyDatabaseId);
	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, RelationGetRelid(rel), LOCK_SUBID);
	while (!zen_reindex_is_sound(ht) && !is_rebuilding(ht) && !list_member_ptr(own_tables, ht))
	{
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
		if (begin_rebuild(ht, &in_use))
			rebuild_table(rel, ht, in_use);
		LockRelease(&tag, ExclusiveLock, false);

		/* COMMIT PREPARED; or parallel workers, which the lock lets pass */
		wait_while_busy(ht);
	}
}

void
zen_reindex_hide(Relation rel, ZenHTable *ht)
{
	if (unlikely(under_way != NULL) && is_rebuilding(ht))
		rel->rd_rel->relhasindex = false;
}

/* ---------- what has failed, for the background worker ---------- */

Oid
zen_reindex_blamed(void)
{
	Oid			index = blamed;

	blamed = InvalidOid;
	blamed_in = InvalidSubTransactionId;
	return index;
}

void
zen_reindex_give_up(Oid index)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	Assert(OidIsValid(index) && !list_member_oid(hopeless, index));
	hopeless = lappend_oid(hopeless, index);
	MemoryContextSwitchTo(old);
}

bool
zen_reindex_is_passed(ZenHTable *ht)
{
	return zen_reindex_is_sound(ht) || list_member_ptr(own_tables, ht);
}

/* ---------- prepared transactions ---------- */

static List *held = NIL;		/* HTables, in TopMemoryContext */

/* Close the gate of a table. */
static void
hold_table(ZenHTable *ht)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	uint32		word = pg_atomic_read_u32(&ht->reindex);

	held = lappend(held, ht);	/* the step that can fail comes first */
	pg_atomic_write_u32(&zen_recovery->rebuilt_in_use, 1);
	Assert(ht->in_use && ht->db == MyDatabaseId);
	while (!pg_atomic_compare_exchange_u32(&ht->reindex, &word, (word | AGAIN) + HOLDER))
		;
	MemoryContextSwitchTo(old);
}

/* Open it; its indexes are to be rebuilt once more. */
static void
let_go_table(ZenHTable *ht)
{
	uint32		word = pg_atomic_read_u32(&ht->reindex);
	uint32		next;

	do
	{
		Assert(word >= HOLDER && (word & AGAIN) != 0);
		next = word - HOLDER;
		if ((next & STATE) == SOUND)
			next |= NEEDED;
	} while (!pg_atomic_compare_exchange_u32(&ht->reindex, &word, next));
}

Oid
zen_reindex_relid(ZenHTable *ht)
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

	Assert(IsTransactionState() && held == NIL);
	if (!prepared_to_end)
		before_shmem_exit(let_go_at_exit, 0);
	prepared_to_end = true;
	for (uint32 i = 1; i < zen_htable_end(); i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (ht->in_use && ht->db == MyDatabaseId && zen_htable_flag(ht, ZEN_HTF_REINDEX | ZEN_HTF_TREES) &&
			zen_reindex_held_by_prepared(zen_reindex_relid(ht), RowExclusiveLock))
			hold_table(ht);
	}
}

void
zen_reindex_let_go(void)
{
	ListCell   *lc;

	if (held == NIL)
		return;
	foreach(lc, held)
		let_go_table(lfirst(lc));
	list_free(held);
	held = NIL;
	ConditionVariableBroadcast(&zen_recovery->changed);
}
