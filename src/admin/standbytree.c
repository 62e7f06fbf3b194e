/*
 * standbytree.c -- trees that stand in for the indexes of a zen table on a hot standby: made, brought up to date, read.
 *
 * The first reader that wants an index makes its tree, from the map.  Redo tells the tree of rows under TIDs that it
 * does not know (standby/followers.h).  A reader enters these before its scan begins, all but those of transactions
 * that run.  So the scan finds what its snapshot sees (S10).  A tree has an entry for each key that a committed version
 * of a row has, or had.  Where a TID may have several, the scan looks at the row (S13).
 *
 * A reader waits for another one that makes the same tree, by a heavyweight lock, which the deadlock detector sees
 * (S4).  It waits for no reader that brings the tree up to date: both do so.
 */
#include "admin/standbytree.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "admin/standbyentries.h"
#include "base/arena.h"
#include "base/fault.h"
#include "base/guc.h"
#include "catalog/index.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "recovery/gate.h"
#include "row/visibility.h"
#include "standby/standbystate.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "table/standbytoast.h"
#include "table/treeindex.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "utils/inval.h"
#include "utils/memutils.h"

#define ATTEMPTS	5			/* at a tree that is lost again and again */
#define OLD_XIDS	(UINT64CONST(1) << 30)	/* 32 bits do not tell xids so far
											 * back from new ones */

/* ---------- up to date ---------- */

/* Has the transaction ended?  Then what it has made is known by its versions. */
static bool
has_ended(uint64 full_xid, uint64 next)
{
	if (ZEN_FAULT(S10_HEARD_EARLY) || full_xid + OLD_XIDS < next)
		return true;
	return !TransactionIdIsInProgress(XidFromFullTransactionId(FullTransactionIdFromU64(full_xid)));
}

static void
enter_news(ZenEntries *e, ZenNewsCopy *copy)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	uint64		xid = 0;		/* asked about last */
	bool		ended = false;

	for (uint64 i = 0; i < copy->n; i++)
	{
		ZenNews    *news = &copy->news[i];

		if (news->full_xid != xid)
			ended = has_ended(news->full_xid, next);
		xid = news->full_xid;
		copy->done[i] = ended;
		for (uint64 t = 0; ended && t < news->n; t++)
		{
			CHECK_FOR_INTERRUPTS();
			zen_entries_enter(e, news->tidno + t);
		}
	}
}

/* False: the tree is lost. */
static bool
catch_up(Relation table, Relation index, ZenHTable *ht, ZenFollower *follower)
{
	ZenNewsCopy copy;
	ZenEntries	e;
	ZenEntriesOwner owner;

	if (!zen_follower_news(follower, &copy))
		return false;
	if (copy.n > 0)
	{
		zen_entries_become_owner(&owner, table, index);
		zen_entries_begin(&e, table, index, ht, follower);
		enter_news(&e, &copy);
		zen_entries_end(&e);
		zen_entries_become_self(&owner);
	}
	zen_follower_heard(follower, &copy);
	return true;
}

/* ---------- a new tree ---------- */

typedef struct TreeBuild
{
	ZenEntries	e;
	IndexBuildCallback give;
	void	   *build;
} TreeBuild;

/* A TID of which a build does not know what stands there. */
static void
build_other(uint64 tidno, void *arg)
{
	TreeBuild  *b = arg;
	ZenEntries *e = &b->e;

	zen_row_versions(e->ht, tidno, &e->versions);
	if (TransactionIdIsValid(e->versions.running))
		zen_follower_note(e->follower, tidno,
						  U64FromFullTransactionId(zen_horizon_widen(e->versions.running)));
	if (e->versions.several)
		zen_follower_doubt(e->follower, tidno);
	if (e->versions.n > 1)
		zen_entries_note_later(e, tidno);
	else if (e->versions.n == 1)
	{
		if (zen_entries_form(e, &e->versions.rows[0]))
		{
			ItemPointerData tid;

			zen_make_tid(&tid, tidno, 0);
			b->give(e->index, &tid, e->form.values, e->form.isnull, true, b->build);
		}
		zen_entries_done(e);
	}
}

static void
build_rows(IndexBuildCallback give, void *build, void *arg)
{
	TreeBuild  *b = arg;

	b->give = give;
	b->build = build;
	zen_build_settled(b->e.table, b->e.form.info, b->e.index, give, build, build_other, b);
}

/* Fill the tree of a follower that is told already. */
static uint64
fill(Relation table, Relation index, ZenHTable *ht, ZenFollower *follower)
{
	TreeBuild  *b = palloc(sizeof(TreeBuild));
	uint64		n;
	ZenEntriesOwner owner;

	zen_entries_become_owner(&owner, table, index);
	zen_horizon_set_now();
	follower->tree = zentree_new(index);
	zen_entries_begin(&b->e, table, index, ht, follower);
	n = zentree_fill(follower->tree, table, index, b->e.form.info, build_rows, b);
	zen_entries_enter_later(&b->e);
	zen_entries_end(&b->e);
	zen_entries_become_self(&owner);
	pfree(b);
	return n;
}

static void
build_failed(int code, Datum arg)
{
	zen_follower_abandon((ZenFollower *) DatumGetPointer(arg));
}

static void
no_room(Relation index)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("there is no memory for the tree of index \"%s\" on this standby", RelationGetRelationName(index)),
			 errhint("Raise zen.dram_size and restart this server, or set zen.standby_indexes to off.")));
}

/* A pinned follower that is ready, perhaps another process's; NULL: it was lost. */
static ZenFollower *
build_tree(Relation table, Relation index, ZenHTable *ht)
{
	RelFileLocator loc = zen_rel_locator(index);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zen standby build", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ZenFollower *follower = zen_follower_begin(ht, loc, zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK,
											   zen_index_is_tree(index));
	uint64		n;

	if (follower == NULL)
		no_room(index);
	PG_ENSURE_ERROR_CLEANUP(build_failed, PointerGetDatum(follower));
	{
		n = fill(table, index, ht, follower);
	}
	PG_END_ENSURE_ERROR_CLEANUP(build_failed, PointerGetDatum(follower));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (zen_follower_ready(follower, n))
		return follower;
	zen_follower_unpin(follower);
	return zen_follower_find(ht, loc);
}

/* One process builds, the others wait.  Those of one parallel query do not wait for each other. */
static ZenFollower *
find_or_build(Relation table, Relation index, ZenHTable *ht)
{
	ZenFollower *follower = zen_follower_find(ht, zen_rel_locator(index));
	LOCKTAG		tag;

	if (follower != NULL)
		return follower;
	SET_LOCKTAG_TUPLE(tag, MyDatabaseId, RelationGetRelid(index), InvalidBlockNumber, FirstOffsetNumber);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	follower = zen_follower_find(ht, zen_rel_locator(index));
	if (follower == NULL)
		follower = build_tree(table, index, ht);
	LockRelease(&tag, ExclusiveLock, false);
	return follower;
}

/* ---------- readers ---------- */

typedef struct TreeReader
{
	ZenFollower *follower;
	ZenHTable  *ht;
	IndexScanDesc scan;
	bool		has_entries;	/* e is set */
	MemoryContext mcxt;
	ZenEntries	e;
} TreeReader;

/* Pin a tree that has all that snapshots see which were taken before.  *pinned is set also if this throws. */
static void
pin_complete(ZenFollower **pinned, Relation table, Relation index, ZenHTable *ht)
{
	for (int i = 0; i < ATTEMPTS; i++)
	{
		*pinned = find_or_build(table, index, ht);
		if (*pinned == NULL)
			continue;
		if (zen_follower_complete(*pinned) || catch_up(table, index, ht, *pinned))
			return;
		zen_follower_unpin(*pinned);
		*pinned = NULL;
	}
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("index \"%s\" changes faster than this standby builds its tree", RelationGetRelationName(index)),
			 errhint("Repeat the transaction.")));
}

/* If DRAM is full, plans do without trees for a while, and redo gets what they had. */
static void
pin_or_give_room(ZenFollower **pinned, Relation table, Relation index, ZenHTable *ht)
{
	PG_TRY();
	{
		pin_complete(pinned, table, index, ht);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_OUT_OF_MEMORY && zen_followers_have_room())
			(void) zen_followers_give_room();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * The primary drops an index CONCURRENTLY without a lock that ends readers here: from some moment on rows change in its
 * columns under their TIDs.  A plan that was kept may still name it.
 */
static void
check_valid(Relation index)
{
	AcceptInvalidationMessages();
	if (RecoveryInProgress() && !index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" is being dropped", RelationGetRelationName(index)),
				 errhint("Repeat the transaction.")));
}

static ZenTree *
reader_open(IndexScanDesc scan, void **place)
{
	Relation	index = scan->indexRelation;
	Relation	table = scan->heapRelation != NULL ? scan->heapRelation :
	table_open(index->rd_index->indrelid, NoLock);
	ZenHTable  *ht = zen_rel_htable_raw(table);
	ZenTree    *tree = NULL;

	ZenAssertNotInEpoch();
	check_valid(index);
	zen_gate_snapshot(ht, scan->xs_snapshot);
	if (RecoveryInProgress() || zen_standby_has_read())
	{
		TreeReader *r = palloc(sizeof(TreeReader));

		r->follower = NULL;
		r->scan = scan;
		r->ht = ht;
		r->has_entries = false;
		r->mcxt = CurrentMemoryContext;
		*place = r;
		pin_or_give_room(&r->follower, table, index, ht);
		tree = r->follower->tree;
	}
	if (scan->heapRelation == NULL)
		table_close(table, NoLock);
	return tree;
}

static void
reader_close(void *reader, bool failed)
{
	TreeReader *r = reader;

	if (r->follower != NULL)
		zen_follower_unpin(r->follower);
	r->follower = NULL;
	if (failed)
		return;
	if (r->has_entries)
		zen_entries_end(&r->e);
	pfree(r);
}

static bool
reader_doubts(void *reader, ItemPointer tid)
{
	return zen_follower_doubts(((TreeReader *) reader)->follower, zen_tidno(tid));
}

/* S13: the row that the snapshot sees under the entry's TID may have another key. */
static bool
reader_shows(void *reader, const ZenTreeShape *shape, const ZenTreeSlot *slot, IndexTuple *tuple)
{
	TreeReader *r = reader;
	MemoryContext old;
	ItemPointerData tid;
	ZenFetch	f = {.ht = r->ht,.snapshot = r->scan->xs_snapshot,.code = ZEN_ANY_CODE};
	bool		shows;
	ZenEntriesOwner owner;

	if (!r->has_entries)
	{
		old = MemoryContextSwitchTo(r->mcxt);
		zen_entries_begin(&r->e, r->scan->heapRelation, r->scan->indexRelation, r->ht, r->follower);
		MemoryContextSwitchTo(old);
		r->has_entries = true;
	}
	zen_tid_of_word(slot->tid, &tid);
	f.tidno = zen_tidno(&tid);
	f.row = zenam_slot_row(r->e.form.slot);
	if (!zen_row_fetch(&f))
		return false;
	zenam_slot_store(r->e.form.slot, RelationGetRelid(r->e.table));
	zen_entries_become_owner(&owner, r->e.table, r->e.index);
	shows = zen_indexentry_is_wanted(&r->e.form);
	if (shows)
	{
		zen_indexentry_form(&r->e.form);
		shows = zentree_is_of(shape, slot, r->e.form.values, r->e.form.isnull, tuple);
	}
	zen_entries_become_self(&owner);
	ExecClearTuple(r->e.form.slot);
	return shows;
}

static const ZenTreeStandby tree_readers = {
	.open = reader_open,
	.close = reader_close,
	.doubts = reader_doubts,
	.shows = reader_shows,
};

/* ---------- chunks of long values ---------- */

/* The index by which a toast table finds chunks. */
static Relation
open_toast_index(Relation toastrel)
{
	List	   *indexes = RelationGetIndexList(toastrel);
	Relation	found = NULL;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (found == NULL && zen_index_can_stand_in(index))
			found = index;
		else
			index_close(index, NoLock);
	}
	list_free(indexes);
	return found;
}

static void
add_chunks(ZenChunkTids *tids, const ZenTreeBatch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		ItemPointerData tid;

		if (tids->n == tids->room)
		{
			tids->room = Max(16, 2 * tids->room);
			tids->tidnos = tids->tidnos ? repalloc(tids->tidnos, tids->room * sizeof(uint64)) :
				palloc(tids->room * sizeof(uint64));
		}
		zen_tid_of_word(batch->slots[i].tid, &tid);
		tids->tidnos[tids->n++] = zen_tidno(&tid);
	}
}

/* Read the entries of a value's chunks, from one number to another. */
static void
read_chunks(ZenTree *tree, const ZenTreeShape *shape, Oid valueid, int32 first, int32 last, ZenChunkTids *tids)
{
	ZenTreeBatch *batch = palloc(sizeof(ZenTreeBatch));
	ZenTreePos	from = {.values = {ObjectIdGetDatum(valueid), Int32GetDatum(first)}};
	ZenTreePos	to = {.values = {ObjectIdGetDatum(valueid), Int32GetDatum(last)}};

	zen_shape_pos(shape, &from, 2, ZEN_TIE_BEFORE, 0);
	zen_shape_pos(shape, &to, 2, ZEN_TIE_AFTER, 0);
	zen_batch_init(batch);
	for (;;)
	{
		zen_tree_read(tree, shape, &from, &to, false, batch);
		add_chunks(tids, batch);
		if (!batch->more)
			break;
		zen_batch_next(shape, batch, &from);
	}
	zen_batch_end(batch);
	pfree(batch);
}

typedef struct ChunkLook
{
	ZenFollower *follower;
} ChunkLook;

static void
end_look(int code, Datum arg)
{
	ChunkLook  *look = (ChunkLook *) DatumGetPointer(arg);

	if (look->follower != NULL)
		zen_follower_unpin(look->follower);
	look->follower = NULL;
}

static bool
find_chunks(Relation toastrel, Oid valueid, int32 first, int32 last, ZenChunkTids *tids)
{
	ZenHTable  *ht = zen_rel_htable_raw(toastrel);
	ChunkLook	look = {NULL};
	ZenTreeShape shape;
	Relation	index;

	if (!zen_standby_indexes || !zen_followers_have_room())
		return false;
	index = open_toast_index(toastrel);
	if (index == NULL)
		return false;
	PG_ENSURE_ERROR_CLEANUP(end_look, PointerGetDatum(&look));
	{
		pin_or_give_room(&look.follower, toastrel, index, ht);
		zen_tree_shape(index, look.follower->tree, &shape);
		read_chunks(look.follower->tree, &shape, valueid, first, last, tids);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_look, PointerGetDatum(&look));
	end_look(0, PointerGetDatum(&look));
	index_close(index, NoLock);
	return true;
}

/* ---------- the layers below ---------- */

static void
drop_tree(void *tree)
{
	zentree_drop(tree);
}

static Size
tree_bytes(const void *arg)
{
	ZenTree    *tree = (ZenTree *) arg;

	return sizeof(ZenTree) + (Size) pg_atomic_read_u32(&tree->nodes) * ZEN_NODE_SIZE +
		pg_atomic_read_u64(&tree->tuple_bytes);
}

void
zen_standbytree_init(void)
{
	zen_tree_standby = &tree_readers;
	zen_standbytoast_chunks = find_chunks;
	zen_follower_free_tree = drop_tree;
	zen_follower_tree_bytes = tree_bytes;
}
