/*
 * zentree_vacuum.c -- VACUUM of a tree.
 *
 * It walks over the leaves from left to right.  The callback judges the entries of a copy, and those that lead nowhere
 * leave the leaf if it is still what was copied; else the leaf is read again.  The walk goes on from the leaf's fence,
 * so a leaf that is split or merged during the walk is not missed.  It holds nothing while it calls back, and waits for
 * no other process.
 */
#include "index/zentree.h"

#include "commands/vacuum.h"
#include "index/treedelete.h"
#include "miscadmin.h"

typedef struct Walk
{
	ZenTree    *tree;
	ZenTreeShape shape;
	ZenTreeBatch batch;
	ZenTreePos	pos;
	bool		begun;			/* pos is set */
	IndexBulkDeleteCallback callback;
	void	   *state;
	IndexBulkDeleteResult *stats;
} Walk;

/* Ask about each entry of the batch; the number of those that go. */
static int
judge(Walk *w, bool *wanted)
{
	int			n = 0;

	for (int i = 0; i < w->batch.n; i++)
	{
		ItemPointerData tid;

		zen_tid_of_word(w->batch.slots[i].tid, &tid);
		wanted[i] = w->callback(&tid, w->state);
		n += wanted[i];
	}
	return n;
}

/* One leaf; false: it is to be read again. */
static bool
visit(Walk *w)
{
	bool		wanted[ZEN_NODE_SLOTS];
	int			n;

	zen_tree_read(w->tree, &w->shape, w->begun ? &w->pos : NULL, NULL, false, &w->batch);
	n = judge(w, wanted);
	if (n > 0 && !zen_tree_delete(w->tree, &w->batch, wanted))
		return false;
	w->stats->tuples_removed += n;
	w->stats->num_index_tuples += w->batch.n - n;
	(void) zen_tree_merge_left(w->tree, &w->batch.path);
	return true;
}

IndexBulkDeleteResult *
zentree_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback, void *state)
{
	Walk	   *w = palloc0(sizeof(Walk));

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->num_index_tuples = 0;
	w->tree = zen_tree_open(info->index);
	/* it could not be built: no process reads or writes it */
	if (w->tree == NULL || w->tree->root == NULL)
	{
		Assert(!info->index->rd_index->indisvalid);
		return stats;
	}
	zen_shape_make(&w->shape, info->index, w->tree->kind, w->tree->nulls);
	w->callback = callback;
	w->state = state;
	w->stats = stats;
	zen_batch_init(&w->batch);
	do
	{
		zen_vacuum_delay_point();
		while (!visit(w))
			;
		if (w->batch.more)
			zen_batch_next(&w->shape, &w->batch, &w->pos);
		w->begun = true;
	} while (w->batch.more);
	zen_tree_shrink(w->tree, &w->shape);
	pg_atomic_write_u64(&w->tree->entries, (uint64) stats->num_index_tuples);
	stats->num_pages = (BlockNumber) ((uint64) pg_atomic_read_u32(&w->tree->nodes) * ZEN_NODE_SIZE / BLCKSZ + 1);
	zen_batch_end(&w->batch);
	pfree(w);
	return stats;
}

IndexBulkDeleteResult *
zentree_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	return stats;
}
