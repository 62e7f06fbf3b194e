/*
 * zentree_build.c -- a new tree, from the rows of its table: src/index/README, "Builds", has the steps and arguments.
 *
 * Rows often come in the order of their keys, in parts at least.  Then a few entries are collected, which stay in the
 * processor's cache and need no sorting.
 *
 * Packing.  Entries that come in many runs, each of them all over the keys, split leaves that are full, and more at a
 * time than single ones would.  So the leaves of each node above them are filled anew.  Inner nodes stay: they are few.
 */
#include "index/zentree.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/arena.h"
#include "base/fault.h"
#include "catalog/index.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "optimizer/optimizer.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define KEY_SHARED	UINT64CONST(1)	/* in the table of contents of a parallel
									 * build */
#define SORT_FEW	32			/* entries that are not divided */
#define WORD_BYTES	16
#define ORDERED_RUN	4096		/* so many entries that came in order do not
								 * wait for others */

/* One process's part of a build. */
typedef struct Build
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	ZenTree    *tree;
	ZenTreeShape shape;
	uint64		entries;		/* put into the tree so far */

	/*
	 * Two entries with the same words have met: two keys may be equal.  If no
	 * process that fills the tree has seen any, all keys differ.
	 */
	bool		met;

	/* entries collected */
	Size		limit;			/* bytes */
	ZenTreeSlot *slots;
	Size		n;
	Size		room;
	Size		bytes;			/* with tuples */
	bool		in_order;
	MemoryContext tuples;
} Build;

/* ---------- the order of entries ---------- */

static inline bool
same_words(const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* Does an entry lie before another, as far as can be told without comparison functions? */
static inline bool
is_before(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	if (a->words[0] != b->words[0])
		return a->words[0] < b->words[0];
	if (a->words[1] != b->words[1])
		return a->words[1] < b->words[1];
	return shape->kind != ZEN_TREE_TUPLES && (a->tid & ZEN_TREE_TID) < (b->tid & ZEN_TREE_TID);
}

static int
slot_order(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	ZenTreePos	pos;

	if (is_before(shape, a, b))
		return -1;
	if (shape->kind != ZEN_TREE_TUPLES || !same_words(a, b))
		return is_before(shape, b, a);
	zen_shape_pos_of(shape, &pos, b);
	return zen_shape_compare(shape, a, &pos);
}

static int
sort_compare(const void *a, const void *b, void *arg)
{
	return slot_order(arg, a, b);
}

static void
sort_few(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n)
{
	for (Size i = 1; i < n; i++)
	{
		ZenTreeSlot slot = slots[i];
		Size		at = i;

		for (; at > 0 && slot_order(shape, &slots[at - 1], &slot) > 0; at--)
			slots[at] = slots[at - 1];
		slots[at] = slot;
	}
}

/* Byte 0 is the highest one of the first word. */
static inline uint8
byte_of(const ZenTreeSlot *slot, int byte)
{
	return (uint8) (slot->words[byte / 8] >> (56 - 8 * (byte % 8)));
}

/* The first byte, from one on, in which entries differ; WORD_BYTES: none. */
static int
first_difference(const ZenTreeSlot *slots, Size n, int byte)
{
	ZenTreeSlot differ = {{0, 0}};

	for (Size i = 1; i < n; i++)
	{
		differ.words[0] |= slots[i].words[0] ^ slots[0].words[0];
		differ.words[1] |= slots[i].words[1] ^ slots[0].words[1];
	}
	while (byte < WORD_BYTES && byte_of(&differ, byte) == 0)
		byte++;
	return byte;
}

/* Sort entries that agree in the bytes before this one.  The depth of the recursion is at most that of the bytes. */
static void
sort_from(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n, int byte)
{
	Size		begin[256];
	Size		end[256];
	Size		at = 0;

	if (n <= SORT_FEW)
	{
		sort_few(shape, slots, n);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	byte = first_difference(slots, n, byte);
	if (byte == WORD_BYTES)
	{
		qsort_arg(slots, n, sizeof(ZenTreeSlot), sort_compare, (void *) shape);
		return;
	}
	memset(end, 0, sizeof(end));
	for (Size i = 0; i < n; i++)
		end[byte_of(&slots[i], byte)]++;
	for (int b = 0; b < 256; b++)
	{
		begin[b] = at;
		at += end[b];
		end[b] = at;
	}
	/* each entry that is not in its part changes places with one there */
	for (int b = 0; b < 256; b++)
	{
		while (begin[b] < end[b])
		{
			ZenTreeSlot *slot = &slots[begin[b]];
			uint8		to = byte_of(slot, byte);

			if (to != b)
			{
				ZenTreeSlot other = slots[begin[to]];

				slots[begin[to]] = *slot;
				*slot = other;
			}
			begin[to]++;
		}
	}
	for (int b = 0; b < 256; b++)
	{
		Size		from = b == 0 ? 0 : end[b - 1];

		if (end[b] - from > 1)
			sort_from(shape, slots + from, end[b] - from, byte + 1);
	}
}

/* ---------- a leaf ---------- */

/* What bounds the entries of a leaf. */
typedef struct Bounds
{
	bool		has_low,
				has_high;
	ZenTreeSlot low,
				high;
} Bounds;

static bool
fill_copy_fence(const ZenTree *tree, const ZenTreeFence *fence, bool *has, ZenTreeSlot *slot)
{
	*has = fence->node != NULL;
	if (!*has)
		return true;
	zen_node_get(tree, fence->node, tree->inner_room, fence->i, slot);
	return zen_node_is(fence->node, fence->version);
}

/* Where an entry goes among those of a leaf, from one on. */
static int
fill_find_place(const Build *build, const ZenNode *leaf, int from, const ZenTreeSlot *slot)
{
	int			end = leaf->n;

	while (from < end)
	{
		int			middle = (from + end) / 2;
		ZenTreeSlot other;

		zen_node_get(build->tree, leaf, build->tree->leaf_room, middle, &other);
		if (is_before(&build->shape, &other, slot))
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

/*
 * Has the entry the words of one of its neighbours?  If not, no other entry of the tree has them: those between the two
 * would have them, too, and so would the bound of a leaf between the two.
 */
static bool
meets(const ZenTree *tree, const ZenNode *leaf, int i, const ZenTreeSlot *slot, const Bounds *bounds)
{
	ZenTreeSlot other;

	if (i == 0 && bounds->has_low && same_words(&bounds->low, slot) && !ZEN_FAULT(TREE_FENCE_UNASKED))
		return true;
	if (i > 0)
	{
		zen_node_get(tree, leaf, tree->leaf_room, i - 1, &other);
		if (same_words(&other, slot))
			return true;
	}
	if (i == leaf->n)
		return bounds->has_high && same_words(&bounds->high, slot) && !ZEN_FAULT(TREE_FENCE_UNASKED);
	zen_node_get(tree, leaf, tree->leaf_room, i, &other);
	return same_words(&other, slot);
}

/* Put entries into a leaf that this process holds: all that belong there and fit.  Returns their number. */
static Size
put_many(Build *build, ZenNode *leaf, const ZenTreeSlot *slots, Size n, const Bounds *bounds)
{
	ZenTree    *tree = build->tree;
	Size		done = 0;
	int			i = 0;

	while (done < n && leaf->n < tree->leaf_room &&
		   (!bounds->has_high || is_before(&build->shape, &slots[done], &bounds->high)))
	{
		i = fill_find_place(build, leaf, i, &slots[done]);
		build->met |= meets(tree, leaf, i, &slots[done], bounds);
		if (i < leaf->n)
			zen_node_move(tree, leaf, i + 1, leaf, i, leaf->n - i, 0);
		zen_node_put(tree, leaf, tree->leaf_room, i, &slots[done]);
		leaf->n++;
		done++;
		i++;
		ZEN_TREE_MEET();
	}
	return done;
}

/*
 * Split a full node on the way to the leaf that has the first of some entries.  If the second entry goes to the same
 * place, more are likely to follow: then the node is split there, and they fill the left half.
 */
static void
split_for(Build *build, ZenTreePath *path, const ZenTreePos *pos, const ZenTreeSlot *slots, Size n,
		  TimestampTz *since)
{
	ZenTree    *tree = build->tree;
	int			room = zen_node_room(tree, path->level);
	int			i = zen_tree_find(tree, &build->shape, path->node, path->version, path->level, path->n, pos, false,
								  NULL);
	int			at = zen_split_point(path->n, i);

	if (i > 0 && i < path->n && path->level == 0 && n > 1)
	{
		ZenTreeSlot next;

		zen_node_get(tree, path->node, room, i, &next);
		if (is_before(&build->shape, &slots[1], &next))
			at = i;
	}
	if (i >= 0 && zen_node_is(path->node, path->version) && !zen_tree_split(tree, path, at))
		zen_find_room_or_error(since);
}

/* One attempt to put entries of a tree of whole keys into the leaf that has the first; returns how many are there. */
static Size
put_next(Build *build, const ZenTreeSlot *slots, Size n, TimestampTz *since)
{
	ZenTree    *tree = build->tree;
	ZenTreePos	pos;
	ZenTreePath path;
	Bounds		bounds = {0};
	Size		done;

	zen_shape_pos_of(&build->shape, &pos, slots);
	if (!zen_tree_descend(tree, &build->shape, &pos, false, 0, true, &path))
		return 0;
	if (path.n == zen_node_room(tree, path.level))
	{
		split_for(build, &path, &pos, slots, n, since);
		return 0;
	}
	if (!fill_copy_fence(tree, &path.low, &bounds.has_low, &bounds.low) ||
		!fill_copy_fence(tree, &path.high, &bounds.has_high, &bounds.high) ||
		!zen_node_try_lock(path.node, path.version))
		return 0;
	done = put_many(build, path.node, slots, n, &bounds);
	zen_node_unlock(path.node, path.version);
	Assert(done > 0);
	return done;
}

static void
put_tuple(Build *build, const ZenTreeSlot *slot)
{
	ZenTreePos	pos;

	zen_shape_pos_of(&build->shape, &pos, slot);
	(void) zen_tree_put(build->tree, &build->shape, &pos, slot->tid & ZEN_TREE_DEAD, slot->tuple, NULL);
	build->met = true;
}

/* ---------- collecting ---------- */

/* Put what was collected into the tree. */
static void
fill_flush(Build *build)
{
	TimestampTz since = 0;
	Size		done = 0;

	if (!build->in_order)
		sort_from(&build->shape, build->slots, build->n, 0);
	while (done < build->n)
	{
		CHECK_FOR_INTERRUPTS();
		if (build->tree->kind == ZEN_TREE_TUPLES)
			put_tuple(build, &build->slots[done++]);
		else
			done += put_next(build, build->slots + done, build->n - done, &since);
	}
	build->entries += build->n;
	build->n = 0;
	build->bytes = 0;
	build->in_order = true;
	MemoryContextReset(build->tuples);
}

/* One more entry, which is not yet in the tree.  Throws as zen_tree_put(). */
static void
fill_add(Build *build, const Datum *values, const bool *isnull, uint64 tid)
{
	const ZenTreeShape *shape = &build->shape;
	ZenTreeSlot *slot;

	if (build->n == build->room)
	{
		build->room *= 2;
		build->slots = repalloc_huge(build->slots, build->room * sizeof(ZenTreeSlot));
	}
	slot = &build->slots[build->n];
	slot->tuple = NULL;
	if (shape->kind == ZEN_TREE_TUPLES)
	{
		MemoryContext old = MemoryContextSwitchTo(build->tuples);

		slot->tuple = index_form_tuple(shape->desc, (Datum *) values, (bool *) isnull);
		build->bytes += IndexTupleSize(slot->tuple) + sizeof(void *);
		MemoryContextSwitchTo(old);
	}
	zen_shape_words(shape, values, isnull, slot->words);
	slot->tid = tid;
	build->bytes += sizeof(ZenTreeSlot);
	build->in_order &= build->n == 0 || is_before(shape, slot - 1, slot);
	build->n++;
	if (build->bytes >= build->limit || (build->in_order && build->n >= ORDERED_RUN))
		fill_flush(build);
}

/* ---------- packing ---------- */

/* Entries of the leaves of one node, and the bounds that these leaves are to get. */
typedef struct Packer
{
	ZenTree    *tree;
	int			n;
	int			nleaves;		/* wanted */
	ZenTreeSlot bounds[ZEN_NODE_SLOTS];
	ZenTreeSlot slots[ZEN_NODE_SLOTS * (ZEN_NODE_SLOTS + 1)];
} Packer;

static int
pack_first(const Packer *packer, int leaf)
{
	return (int) ((int64) packer->n * leaf / packer->nleaves);
}

static void
read_leaves(Packer *packer, ZenNode *parent)
{
	ZenTree    *tree = packer->tree;
	int			full = tree->leaf_room - tree->leaf_room / 16;

	packer->n = 0;
	for (int c = 0; c <= parent->n; c++)
	{
		ZenNode    *leaf = zen_node_children(tree, parent)[c];

		for (int i = 0; i < leaf->n; i++)
			zen_node_get(tree, leaf, tree->leaf_room, i, &packer->slots[packer->n++]);
	}
	packer->nleaves = Max((packer->n + full - 1) / full, 1);
}

/* The least entries of all leaves but the first, with tuples of their own; false: no DRAM. */
static bool
make_bounds(Packer *packer)
{
	for (int leaf = 1; leaf < packer->nleaves; leaf++)
	{
		ZenTreeSlot *bound = &packer->bounds[leaf - 1];

		*bound = packer->slots[pack_first(packer, leaf)];
		if (packer->tree->kind != ZEN_TREE_TUPLES || zen_tree_tuple_copy(packer->tree, bound))
			continue;
		while (--leaf > 0)
			zen_tree_tuple_free(packer->tree, &packer->bounds[leaf - 1]);
		return false;
	}
	return true;
}

/* Put the packed entries into the leaves of a parent.  Leaves that are left over are freed. */
static void
write_leaves(Packer *packer, ZenNode *parent)
{
	ZenTree    *tree = packer->tree;
	ZenTreeSlot old;

	for (int c = 0; c <= parent->n; c++)
	{
		ZenNode    *leaf = zen_node_children(tree, parent)[c];

		if (c < parent->n)
		{
			zen_node_get(tree, parent, tree->inner_room, c, &old);
			zen_tree_tuple_free(tree, &old);
		}
		if (c >= packer->nleaves)
		{
			zen_arena_free(leaf, ZEN_NODE_SIZE);
			pg_atomic_fetch_sub_u32(&tree->nodes, 1);
			continue;
		}
		leaf->n = pack_first(packer, c + 1) - pack_first(packer, c);
		for (int i = 0; i < leaf->n; i++)
			zen_node_put(tree, leaf, tree->leaf_room, i, &packer->slots[pack_first(packer, c) + i]);
	}
	parent->n = packer->nleaves - 1;
	for (int i = 0; i < parent->n; i++)
		zen_node_put(tree, parent, tree->inner_room, i, &packer->bounds[i]);
}

static void
pack_below(Packer *packer, ZenNode *node)
{
	if (node->level > 1)
	{
		for (int c = 0; c <= node->n; c++)
			pack_below(packer, zen_node_children(packer->tree, node)[c]);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	read_leaves(packer, node);
	if (packer->nleaves <= node->n && make_bounds(packer))
		write_leaves(packer, node);
}

/* The tree has so many entries now, and is the caller's alone: if its nodes are far from full, some of them go. */
static void
pack(ZenTree *tree, uint64 entries)
{
	uint64		room = (uint64) pg_atomic_read_u32(&tree->nodes) * tree->leaf_room;
	Packer	   *packer;

	if (tree->root->level == 0 || entries >= room / 4 * 3)
		return;
	packer = palloc(sizeof(Packer));
	packer->tree = tree;
	pack_below(packer, tree->root);
	pfree(packer);
}

/* ---------- rows ---------- */

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

/*
 * The whole keys of a primary key have no nulls.  Such a row is dead, and only older transactions see it, which do not
 * use the index (ii_BrokenHotChain), or else ALTER TABLE looks for nulls after the index is built, and refuses it.
 */
static bool
has_place(const ZenTreeShape *shape, const bool *isnull)
{
	return shape->nulls || shape->kind == ZEN_TREE_TUPLES || !zen_shape_any_null(shape, isnull);
}

static void
build_collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Build	   *build = state;

	if (has_place(&build->shape, isnull))
		fill_add(build, values, isnull, zen_tid_word(tid) | (alive ? 0 : ZEN_TREE_DEAD));
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

/* Collect entries, up to so many bytes before they go into the tree. */
static void
fill_begin(Build *build, int limit_kb)
{
	build->limit = (Size) limit_kb * 1024;
	build->in_order = true;
	build->room = ORDERED_RUN;
	build->slots = palloc(build->room * sizeof(ZenTreeSlot));
	build->tuples = AllocSetContextCreate(CurrentMemoryContext, "zen tree build", ALLOCSET_DEFAULT_SIZES);
}

static void
fill_end(Build *build)
{
	fill_flush(build);
	MemoryContextDelete(build->tuples);
	pfree(build->slots);
}

/* Put the rows of a scan, or of the table, into the tree; returns the number of rows. */
static double
fill_tree(Build *build, int limit_kb, bool progress, TableScanDesc scan)
{
	double		rows;

	fill_begin(build, limit_kb);
	rows = table_index_build_scan(build->table, build->index, build->info, true, progress, build_collect, build, scan);
	fill_end(build);
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
		build->entries += shared->entries;
		build->met |= shared->met;
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
	shared->entries += build.entries;
	shared->met |= build.met;
	shared->broken_chain |= build.info->ii_BrokenHotChain;
	SpinLockRelease(&shared->lock);
	index_close(build.index, RowExclusiveLock);
	table_close(build.table, AccessShareLock);
}

/* ---------- the callback ---------- */

IndexBuildResult *
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
	pack(build->tree, build->entries);
	if (info->ii_Unique && build->met)
		check_unique(build, info->ii_NullsNotDistinct);
	pg_atomic_write_u64(&build->tree->entries, build->entries);
	zen_tree_is_built(build->tree);
	result->index_tuples = (double) build->entries;
	pfree(build);
	return result;
}

/* ---------- a hot standby ---------- */

ZenTree *
zentree_new(Relation index)
{
	ZenTree    *tree = zen_arena_alloc_or_error(sizeof(ZenTree));
	bool		nulls;
	ZenTreeKind kind = zen_shape_kind(index, &nulls);

	memset(tree, 0, sizeof(ZenTree));
	SpinLockInit(&tree->lock);
	if (!zen_tree_setup(tree, kind, nulls))
	{
		zen_arena_free(tree, sizeof(ZenTree));
		zen_arena_full_error();
	}
	return tree;
}

void
zentree_drop(ZenTree *tree)
{
	zen_tree_clear(tree);
#if defined(CLOBBER_FREED_MEMORY) || defined(ZEN_FAULTS)
	memset(tree, 0x7F, sizeof(ZenTree));
#endif
	zen_arena_free(tree, sizeof(ZenTree));
}

uint64
zentree_fill(ZenTree *tree, Relation table, Relation index, struct IndexInfo *info, ZenTreeRows rows, void *arg)
{
	Build	   *build = palloc0(sizeof(Build));
	uint64		entries;

	build->table = table;
	build->index = index;
	build->info = info;
	build->tree = tree;
	zen_shape_make(&build->shape, index, tree->kind, tree->nulls);
	fill_begin(build, maintenance_work_mem);
	rows(build_collect, build, arg);
	fill_end(build);
	pack(tree, build->entries);
	entries = build->entries;
	pg_atomic_write_u64(&tree->entries, entries);
	pfree(build);
	return entries;
}
