/*
 * zentree_build.c -- a new tree, from the rows of its table.
 *
 * Entries are collected up to maintenance_work_mem, sorted, and inserted in order.  Insertions in order meet the same
 * nodes again and leave them almost full.  When all are there, one walk over the tree finds keys that are not unique.
 */
#include "index/zentree.h"

#include "access/tableam.h"
#include "catalog/index.h"
#include "commands/defrem.h"
#include "index/treeread.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "utils/memutils.h"

#define FIRST_ROOM	1024

typedef struct Build
{
	Relation	table;
	Relation	index;
	ZenTree    *tree;
	ZenTreeShape shape;
	double		ntuples;

	/* entries collected */
	ZenTreeSlot *slots;
	Size		n;
	Size		room;
	Size		bytes;			/* with tuples */
	MemoryContext tuples;
} Build;

static int
compare_slots(const void *a, const void *b, void *arg)
{
	const ZenTreeSlot *left = a;
	const ZenTreeSlot *right = b;
	Build	   *build = arg;
	ZenTreePos	pos;

	for (int i = 0; i < 2; i++)
		if (left->words[i] != right->words[i])
			return left->words[i] < right->words[i] ? -1 : 1;
	zen_shape_pos_of(&build->shape, &pos, right);
	return zen_shape_compare(&build->shape, left, &pos);
}

/* Insert what was collected. */
static void
flush(Build *build)
{
	ZenTreePos	pos;

	qsort_arg(build->slots, build->n, sizeof(ZenTreeSlot), compare_slots, build);
	for (Size i = 0; i < build->n; i++)
	{
		ZenTreeSlot *slot = &build->slots[i];

		zen_shape_pos_of(&build->shape, &pos, slot);
		(void) zen_tree_put(build->tree, &build->shape, &pos, slot->tid & ZEN_TREE_DEAD, slot->tuple, NULL);
	}
	build->n = 0;
	build->bytes = 0;
	MemoryContextReset(build->tuples);
}

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
collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Build	   *build = state;
	ZenTreeSlot *slot;
	ZenTreePos	pos;

	if (!has_place(&build->shape, isnull))
		return;
	if (build->n == build->room)
	{
		build->room *= 2;
		build->slots = repalloc_huge(build->slots, build->room * sizeof(ZenTreeSlot));
	}
	slot = &build->slots[build->n];
	slot->tuple = NULL;
	if (build->shape.kind == ZEN_TREE_TUPLES)
	{
		MemoryContext old = MemoryContextSwitchTo(build->tuples);

		slot->tuple = index_form_tuple(build->shape.desc, values, isnull);
		build->bytes += IndexTupleSize(slot->tuple) + sizeof(void *);
		MemoryContextSwitchTo(old);
	}
	memcpy(pos.values, values, build->shape.nkeys * sizeof(Datum));
	memcpy(pos.isnull, isnull, build->shape.nkeys * sizeof(bool));
	memset(pos.order, 0, build->shape.nkeys * sizeof(FmgrInfo *));
	zen_shape_pos(&build->shape, &pos, build->shape.nkeys, ZEN_TIE_TID, zen_tid_word(tid));
	slot->words[0] = pos.low[0];
	slot->words[1] = pos.low[1];
	slot->tid = pos.tid | (alive ? 0 : ZEN_TREE_DEAD);
	build->n++;
	build->bytes += sizeof(ZenTreeSlot);
	build->ntuples++;
	if (build->bytes >= (Size) maintenance_work_mem * 1024)
		flush(build);
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
remember(ZenTreeSlot *last, const ZenTreeSlot *slot)
{
	if (last->tuple != NULL)
		pfree(last->tuple);
	*last = *slot;
	if (slot->tuple != NULL)
		last->tuple = CopyIndexTuple(slot->tuple);
}

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
			remember(&last, slot);
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

/* ---------- the callbacks ---------- */

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
	kind = zen_shape_kind(index, &nulls);
	build->tree = zen_tree_create(index, kind, nulls);
	zen_shape_make(&build->shape, index, kind, nulls);
	build->room = FIRST_ROOM;
	build->slots = palloc(build->room * sizeof(ZenTreeSlot));
	build->tuples = AllocSetContextCreate(CurrentMemoryContext, "zen tree build", ALLOCSET_DEFAULT_SIZES);
	result->heap_tuples = table_index_build_scan(table, index, info, true, true, collect, build, NULL);
	flush(build);
	if (info->ii_Unique)
		check_unique(build, info->ii_NullsNotDistinct);
	pg_atomic_write_u64(&build->tree->entries, (uint64) build->ntuples);
	result->index_tuples = build->ntuples;
	MemoryContextDelete(build->tuples);
	pfree(build->slots);
	pfree(build);
	return result;
}

/* After a crash the file is as empty as it always is. */
void
zentree_buildempty(Relation index)
{
}
