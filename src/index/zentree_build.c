/*
 * zentree_build.c -- a new tree, from the rows of its table.
 *
 * Several processes read the table in parts, and each puts the entries of its rows into the tree (treefill.c).  They
 * note if two entries have met that may have the same key.  Then one walk over the tree finds keys that are not unique.
 */
#include "index/zentree.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/defrem.h"
#include "index/treefill.h"
#include "index/treeread.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "optimizer/optimizer.h"
#include "storage/spin.h"
#include "utils/snapmgr.h"

#define KEY_SHARED	UINT64CONST(1)	/* in the table of contents of a parallel
									 * build */

/* What the processes of one build share. */
typedef struct SharedBuild
{
	/* constant */
	Oid			table;
	Oid			index;
	bool		concurrent;
	bool		unique;
	ZenTree    *tree;
	int			limit_kb;

	/* what workers have found, under lock */
	slock_t		lock;
	double		rows;
	uint64		entries;
	bool		met;
	bool		broken_chain;
} SharedBuild;

#define SCAN_OF(shared)		((ParallelTableScanDesc) ((char *) (shared) + MAXALIGN(sizeof(SharedBuild))))

typedef struct Build
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	ZenTree    *tree;
	ZenTreeShape shape;
	ZenTreeFill fill;
} Build;

/*
 * The whole keys of a primary key have no nulls.  Such a row is dead, and only older transactions see it, which do not
 * use the index (ii_BrokenHotChain), or else ALTER TABLE looks for nulls after the index is built, and refuses it.
 */
static bool
has_place(const ZenTreeShape *shape, const bool *isnull)
{
	if (shape->nulls || shape->kind == ZEN_TREE_TUPLES)
		return true;
	for (int i = 0; i < shape->nkeys; i++)
		if (isnull[i])
			return false;
	return true;
}

static void
build_collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Build	   *build = state;

	if (has_place(&build->shape, isnull))
		zen_fill_add(&build->fill, values, isnull, zen_tid_word(tid) | (alive ? 0 : ZEN_TREE_DEAD));
}

/* ---------- uniqueness ---------- */

static void
refuse_duplicate(Build *build, const ZenTreeSlot *slot)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	char	   *key;

	for (int i = 0; i < build->shape.natts; i++)
		values[i] = zen_shape_value(&build->shape, slot, i, &isnull[i]);
	key = BuildIndexValueDescription(build->index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"", RelationGetRelationName(build->index)),
			 key ? errdetail("Key %s is duplicated.", key) : errdetail("Duplicate keys exist."),
			 errtableconstraint(build->table, RelationGetRelationName(build->index))));
}

/* The last entry that counts, and its tuple, which is palloced. */
static void
build_remember(ZenTreeSlot *last, const ZenTreeSlot *slot)
{
	if (last->tuple != NULL)
		pfree(last->tuple);
	*last = *slot;
	if (slot->tuple != NULL)
		last->tuple = CopyIndexTuple(slot->tuple);
}

/* Read the new tree in order, and raise an error if two live neighbours have the same key. */
static void
check_unique(Build *build, bool nulls_not_distinct)
{
	ZenTreeBatch *batch = palloc(sizeof(ZenTreeBatch));
	ZenTreeSlot last = {.tuple = NULL};
	bool		have_last = false;
	ZenTreePos	pos;

	zen_batch_init(batch);
	zen_tree_read(build->tree, &build->shape, NULL, NULL, false, batch);
	for (;;)
	{
		for (int i = 0; i < batch->n; i++)
		{
			ZenTreeSlot *slot = &batch->slots[i];
			bool		has_null;

			if (slot->tid & ZEN_TREE_DEAD)
				continue;
			if (have_last && zen_shape_same_key(&build->shape, &last, slot, &has_null) &&
				(!has_null || nulls_not_distinct))
				refuse_duplicate(build, slot);
			build_remember(&last, slot);
			have_last = true;
		}
		if (!batch->more)
			break;
		zen_batch_next(&build->shape, batch, &pos);
		zen_tree_read(build->tree, &build->shape, &pos, NULL, false, batch);
	}
	zen_batch_end(batch);
	pfree(batch);
}

/* ---------- several processes ---------- */

/* Put the rows of a scan, or of the table, into the tree; returns the number of rows. */
static double
fill_tree(Build *build, int limit_kb, bool progress, TableScanDesc scan)
{
	double		rows;

	zen_fill_begin(&build->fill, build->tree, &build->shape, (Size) limit_kb * 1024);
	rows = table_index_build_scan(build->table, build->index, build->info, true, progress, build_collect, build, scan);
	zen_fill_end(&build->fill);
	return rows;
}

/*
 * How many workers are to help?  None if the caller is parallel already, or has given the index a predicate that is not
 * its own.
 */
static int
choose_workers(Build *build)
{
	if (max_parallel_maintenance_workers == 0 || IsInParallelMode() || IsBootstrapProcessingMode() ||
		!ActiveSnapshotSet() ||
		!equal(build->info->ii_Predicate, RelationGetIndexPredicate(build->index)))
		return 0;
	return plan_create_index_workers(RelationGetRelid(build->table), RelationGetRelid(build->index));
}

/* A context with memory for a build, and its snapshot; NULL: there is no memory. */
static ParallelContext *
make_context(Build *build, int nworkers, Snapshot snapshot, SharedBuild **shared)
{
	ParallelContext *context = CreateParallelContext("zen", "zentree_build_worker", nworkers);
	Size		size = add_size(MAXALIGN(sizeof(SharedBuild)), table_parallelscan_estimate(build->table, snapshot));

	shm_toc_estimate_chunk(&context->estimator, size);
	shm_toc_estimate_keys(&context->estimator, 1);
	InitializeParallelDSM(context);
	if (context->seg == NULL)
	{
		DestroyParallelContext(context);
		return NULL;
	}
	*shared = shm_toc_allocate(context->toc, size);
	memset(*shared, 0, sizeof(SharedBuild));
	(*shared)->table = RelationGetRelid(build->table);
	(*shared)->index = RelationGetRelid(build->index);
	(*shared)->concurrent = build->info->ii_Concurrent;
	(*shared)->unique = build->info->ii_Unique;
	(*shared)->tree = build->tree;
	SpinLockInit(&(*shared)->lock);
	table_parallelscan_initialize(build->table, SCAN_OF(*shared), snapshot);
	shm_toc_insert(context->toc, KEY_SHARED, *shared);
	return context;
}

/* Fill the tree with the help of workers; returns the number of rows, or -1 if there are no workers. */
static double
fill_with_workers(Build *build, int nworkers)
{
	bool		mvcc = build->info->ii_Concurrent;
	Snapshot	snapshot = mvcc ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;
	double		rows = -1;
	ParallelContext *context;
	SharedBuild *shared;

	EnterParallelMode();
	context = make_context(build, nworkers, snapshot, &shared);
	if (context != NULL)
	{
		shared->limit_kb = maintenance_work_mem / (nworkers + 1);
		LaunchParallelWorkers(context);
		rows = fill_tree(build, shared->limit_kb, true, table_beginscan_parallel(build->table, SCAN_OF(shared)));
		WaitForParallelWorkersToFinish(context);
		rows += shared->rows;
		build->fill.entries += shared->entries;
		build->fill.met |= shared->met;
		build->info->ii_BrokenHotChain |= shared->broken_chain;
		DestroyParallelContext(context);
	}
	ExitParallelMode();
	if (mvcc)
		UnregisterSnapshot(snapshot);
	return rows;
}

PGDLLEXPORT extern void zentree_build_worker(dsm_segment *segment, shm_toc *toc);

/*
 * The leader has stronger locks, and those of its workers do not conflict with them.  Locks as weak as can be do not
 * conflict with those of processes that wait for the rebuild after a crash.
 */
void
zentree_build_worker(dsm_segment *segment, shm_toc *toc)
{
	SharedBuild *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	Build		build = {.table = table_open(shared->table, AccessShareLock),
	.index = index_open(shared->index, RowExclusiveLock),.tree = shared->tree};
	double		rows;

	build.info = BuildIndexInfo(build.index);
	build.info->ii_Concurrent = shared->concurrent;
	build.info->ii_Unique = shared->unique;
	zen_shape_make(&build.shape, build.index, build.tree->kind, build.tree->nulls);
	rows = fill_tree(&build, shared->limit_kb, false, table_beginscan_parallel(build.table, SCAN_OF(shared)));
	SpinLockAcquire(&shared->lock);
	shared->rows += rows;
	shared->entries += build.fill.entries;
	shared->met |= build.fill.met;
	shared->broken_chain |= build.info->ii_BrokenHotChain;
	SpinLockRelease(&shared->lock);
	index_close(build.index, RowExclusiveLock);
	table_close(build.table, AccessShareLock);
}

/* ---------- the callbacks ---------- */

static IndexBuildResult *
zentree_build(Relation table, Relation index, struct IndexInfo *info)
{
	IndexBuildResult *result = palloc(sizeof(IndexBuildResult));
	Build	   *build = palloc0(sizeof(Build));
	BlockNumber pages;
	double		tuples,
				visible;
	ZenTreeKind kind;
	bool		nulls;
	int			nworkers;

	if (table->rd_rel->relam != get_table_am_oid("zen", true))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot have an index of access method zentree", RelationGetRelationName(table)),
				 errdetail("The method is for zen tables."),
				 errhint("Use btree.")));
	/* the table may exchange the index's file at this moment, as for a btree */
	estimate_rel_size(table, NULL, &pages, &tuples, &visible);

	build->table = table;
	build->index = index;
	build->info = info;
	kind = zen_shape_kind(index, &nulls);
	build->tree = zen_tree_create(index, kind, nulls);
	zen_shape_make(&build->shape, index, kind, nulls);
	nworkers = choose_workers(build);
	result->heap_tuples = nworkers > 0 ? fill_with_workers(build, nworkers) : -1;
	if (result->heap_tuples < 0)
		result->heap_tuples = fill_tree(build, maintenance_work_mem, true, NULL);
	zen_tree_pack(build->tree, build->fill.entries);
	if (info->ii_Unique && build->fill.met)
		check_unique(build, info->ii_NullsNotDistinct);
	pg_atomic_write_u64(&build->tree->entries, build->fill.entries);
	zen_tree_is_built(build->tree);
	result->index_tuples = (double) build->fill.entries;
	pfree(build);
	return result;
}

/* After a crash the file is as empty as it always is. */
static void
zentree_buildempty(Relation index)
{
}

void
zentree_build_callbacks(IndexAmRoutine *am)
{
	am->ambuild = zentree_build;
	am->ambuildempty = zentree_buildempty;
}
