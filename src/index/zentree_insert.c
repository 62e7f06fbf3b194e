/*
 * zentree_insert.c -- one entry, the check that its key is unique (by the gate), and predicate locks (of gaps).
 *
 * src/index/README, "Unique keys" and "Scans" (SSI), has the arguments.
 */
#include "index/zentree.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/snapmgr.h"

/* ---------- gaps ---------- */

/* The gap of the first n columns; the position's other fields are of no meaning afterwards. */
static BlockNumber
gap_of(const ZenTreeShape *shape, ZenTreePos *pos, int n)
{
	uint64		words[3];

	zen_shape_pos(shape, pos, n, ZEN_TIE_BEFORE, 0);
	words[0] = pos->low[0];
	words[1] = pos->low[1];
	words[2] = (uint64) n;
	return (BlockNumber) (hash_bytes_extended((const unsigned char *) words, sizeof(words), 0) % MaxBlockNumber);
}

/* The first columns of a position, up to one that was not given in the column's own type. */
static int
copy_columns(ZenTreePos *to, const ZenTreePos *from, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (from->order[i] != NULL)
			return i;
		to->values[i] = from->values[i];
		to->isnull[i] = from->isnull[i];
		to->order[i] = NULL;
	}
	return n;
}

void
zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenTreePos *from, int nequal, Snapshot snapshot)
{
	ZenTreePos	pos;
	int			n;

	if (!IsolationIsSerializable())
		return;
	n = copy_columns(&pos, from, nequal);
	if (n > 0)
		PredicateLockPage(index, gap_of(shape, &pos, n), snapshot);
	else
		PredicateLockRelation(index, snapshot);
}

/* Has another transaction locked a gap to which a key belongs?  Its entry is in the tree.  May throw. */
static void
gap_check(Relation index, const ZenTreeShape *shape, const ZenTreePos *pos)
{
	ZenTreePos	columns;

	if (!IsolationIsSerializable())
		return;
	if (copy_columns(&columns, pos, shape->nkeys) < shape->nkeys)
		elog(ERROR, "an entry of index \"%s\" has a value of another type", RelationGetRelationName(index));
	for (int n = 1; n <= shape->nkeys; n++)
		CheckForSerializableConflictIn(index, NULL, gap_of(shape, &columns, n));
}

/* ---------- uniqueness ---------- */

typedef struct Insert
{
	Relation	index;
	Relation	table;
	ZenTree    *tree;
	const ZenTreeShape *shape;
	ZenTreeBatch *batch;
	const ZenTreePos *pos;
	Datum	   *values;
	bool	   *isnull;
	ItemPointer tid;
	IndexUniqueCheck check;
} Insert;

typedef enum Verdict
{
	UNIQUE,						/* as long as the gate does not change */
	NOT_UNIQUE,					/* or not known to be */
	LOOK_AGAIN
} Verdict;

static void
insert_refuse(Insert *in)
{
	char	   *key;

	/* a transaction that was waited for may have read what this one writes */
	gap_check(in->index, in->shape, in->pos);
	key = BuildIndexValueDescription(in->index, in->values, in->isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"", RelationGetRelationName(in->index)),
			 key ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(in->table, RelationGetRelationName(in->index))));
}

static void
insert_wait_for(Insert *in, const SnapshotData *dirty, TransactionId xid, ItemPointer tid)
{
	if (dirty->speculativeToken != 0)
		SpeculativeInsertionWait(xid, dirty->speculativeToken);
	else
		XactLockTableWait(xid, in->table, tid, XLTW_InsertIndex);
}

/* Another entry of the key: in what state is its row?  *dead: no snapshot can see it. */
static Verdict
insert_judge(Insert *in, const ZenTreeSlot *slot, bool *dead)
{
	SnapshotData dirty;
	ItemPointerData tid;
	ItemPointerData own = *in->tid;
	TransactionId xid;

	*dead = false;
	InitDirtySnapshot(dirty);
	zen_tid_of_word(slot->tid, &tid);
	if (!table_index_fetch_tuple_check(in->table, &tid, &dirty, dead))
		return UNIQUE;
	if (in->check == UNIQUE_CHECK_PARTIAL)
		return NOT_UNIQUE;
	if (!zen_node_is(in->batch->path.node, in->batch->path.version))
		return LOOK_AGAIN;
	xid = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	if (TransactionIdIsValid(xid))
	{
		insert_wait_for(in, &dirty, xid, &tid);
		return LOOK_AGAIN;
	}

	/*
	 * the row to be inserted may be gone: CREATE INDEX CONCURRENTLY, deferred
	 * checks
	 */
	if (!table_index_fetch_tuple_check(in->table, &own, SnapshotSelf, NULL))
		return UNIQUE;
	insert_refuse(in);
	return NOT_UNIQUE;
}

/* Look at the entries of one leaf. */
static Verdict
check_batch(Insert *in)
{
	ZenTreeBatch *batch = in->batch;
	bool		dead[ZEN_NODE_SLOTS];
	bool		any = false;

	for (int i = 0; i < batch->n; i++)
	{
		Verdict		verdict = UNIQUE;

		dead[i] = false;
		if ((batch->slots[i].tid & ZEN_TREE_TID) != zen_tid_word(in->tid))
			verdict = insert_judge(in, &batch->slots[i], &dead[i]);
		if (verdict != UNIQUE)
			return verdict;
		any |= dead[i];
	}

	/*
	 * if the leaf has changed, the gate has changed as well, or it does not
	 * matter
	 */
	if (any)
		(void) zen_tree_delete(in->tree, batch, dead);
	return UNIQUE;
}

/* Look at all entries of the key. */
static Verdict
check_key(Insert *in, const ZenTreePos *key, ZenTreeGate *gate)
{
	ZenTreePos	from;
	ZenTreePos	to;
	bool		first = true;

	zen_pos_copy(&from, key);
	zen_pos_copy(&to, key);
	from.tie = ZEN_TIE_BEFORE;
	to.tie = ZEN_TIE_AFTER;
	for (;;)
	{
		Verdict		verdict;

		zen_tree_read(in->tree, in->shape, &from, &to, false, in->batch);
		verdict = check_batch(in);
		if (verdict != UNIQUE)
			return verdict;
		if (first)
		{
			gate->node = in->batch->path.node;
			gate->version = in->batch->path.version;
			gate->n = in->batch->more ? -1 : in->batch->path.n;
		}
		first = false;
		if (!in->batch->more)
			return UNIQUE;
		zen_batch_next(in->shape, in->batch, &from);
	}
}

/* ---------- insertion ---------- */

/* Insert the entry, if it is to be inserted; false: its key is not known to be unique. */
static bool
insert_entry(Insert *in, const ZenTreePos *pos, IndexTuple tuple, bool unique)
{
	for (;;)
	{
		ZenTreeGate gate;
		Verdict		verdict = unique ? check_key(in, pos, &gate) : NOT_UNIQUE;

		if (verdict == LOOK_AGAIN)
			continue;
		if (in->check == UNIQUE_CHECK_EXISTING)
			return true;
		if (ZEN_FAULT(TREE_NO_GATE))
			unique = false;
		if (zen_tree_put(in->tree, in->shape, pos, 0, tuple, verdict == UNIQUE && unique ? &gate : NULL) ==
			ZEN_TREE_RETRY)
			continue;

		/* a scan that locks its gap from now on finds the entry */
		gap_check(in->index, in->shape, pos);
		return verdict == UNIQUE;
	}
}

static void
fill_pos(const ZenTreeShape *shape, ZenTreePos *pos, Datum *values, bool *isnull, IndexTuple tuple, ItemPointer tid)
{
	for (int i = 0; i < shape->nkeys; i++)
	{
		pos->order[i] = NULL;
		pos->values[i] = values[i];
		pos->isnull[i] = isnull[i];
		/* not a toasted value again and again */
		if (tuple != NULL)
			pos->values[i] = index_getattr(tuple, i + 1, shape->desc, &pos->isnull[i]);
	}
	zen_shape_pos(shape, pos, shape->nkeys, ZEN_TIE_TID, zen_tid_word(tid));
}

bool
zentree_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
			   IndexUniqueCheck check, bool unchanged, struct IndexInfo *info)
{
	Insert		in = {.index = index,.table = table,.values = values,.isnull = isnull,.tid = tid,.check = check};
	ZenTreeShape shape;
	ZenTreeBatch batch;
	IndexTuple	tuple = NULL;
	ZenTreePos	pos;
	bool		unique = check != UNIQUE_CHECK_NO;
	bool		known;

	in.tree = zen_tree_need(index);
	zen_tree_shape(index, in.tree, &shape);
	zen_batch_init(&batch);
	in.shape = &shape;
	in.batch = &batch;
	in.pos = &pos;
	if (in.shape->kind == ZEN_TREE_TUPLES)
		tuple = index_form_tuple(in.shape->desc, values, isnull);
	fill_pos(in.shape, &pos, values, isnull, tuple, tid);
	if (unique && !index->rd_index->indnullsnotdistinct && zen_shape_any_null(in.shape, isnull))
		unique = false;
	known = insert_entry(&in, &pos, tuple, unique);
	zen_batch_end(in.batch);
	if (tuple != NULL)
		pfree(tuple);
	/* a key with a null is unique: nothing is to be looked at later */
	return unique ? known : check != UNIQUE_CHECK_NO;
}

/* ---------- a hot standby ---------- */

void
zentree_enter(ZenTree *tree, const ZenTreeShape *shape, Datum *values, bool *isnull, ItemPointer tid)
{
	IndexTuple	tuple = NULL;
	ZenTreePos	pos;

	/* of before the index was a primary key's; who sees it is older */
	if (shape->kind != ZEN_TREE_TUPLES && !shape->nulls && zen_shape_any_null(shape, isnull))
		return;
	if (shape->kind == ZEN_TREE_TUPLES)
		tuple = index_form_tuple(shape->desc, values, isnull);
	fill_pos(shape, &pos, values, isnull, tuple, tid);
	(void) zen_tree_put(tree, shape, &pos, 0, tuple, NULL);
	if (tuple != NULL)
		pfree(tuple);
}

bool
zentree_is_of(const ZenTreeShape *shape, const ZenTreeSlot *slot, Datum *values, bool *isnull, IndexTuple *tuple)
{
	IndexTuple	formed = NULL;
	ItemPointerData tid;
	ZenTreePos	pos;
	bool		same;

	if (tuple != NULL)
		*tuple = NULL;
	if (shape->kind != ZEN_TREE_TUPLES && !shape->nulls && zen_shape_any_null(shape, isnull))
		return false;
	zen_tid_of_word(slot->tid, &tid);
	if (shape->kind == ZEN_TREE_TUPLES)
		formed = index_form_tuple(shape->desc, values, isnull);
	fill_pos(shape, &pos, values, isnull, formed, &tid);
	same = zen_slot_compare(shape, slot, &pos) == 0;
	if (tuple != NULL && same)
		*tuple = formed;
	else if (formed != NULL)
		pfree(formed);
	return same;
}
