/*
 * keyprobe.c -- a key of a unique index: does a scan name one, what is its hash, and has the row that the key cache
 * leads to this key?
 *
 * Point accesses and key joins find their rows so.  README, "Keys: why the answers are the same", has the arguments.
 */
#include "exec/keyprobe.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/stratnum.h"
#include "cache/keycache.h"
#include "cache/tablestat.h"
#include "index/treeshape.h"
#include "optimizer/optimizer.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_fetch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* ---------- what a scan names ---------- */

/* What a qual compares: a column with a value, or with each element of an array. */
typedef struct Compared
{
	Var		   *column;
	Expr	   *with;
	bool		list;
	Oid			operator;
	Oid			collation;
} Compared;

/* Take apart a condition "column operator value" or "column operator ANY (array)"; false if it is neither. */
static bool
take_apart(Expr *qual, Compared *c)
{
	List	   *args;

	if (IsA(qual, OpExpr))
	{
		OpExpr	   *op = (OpExpr *) qual;

		c->operator = op->opno;
		c->collation = op->inputcollid;
		c->list = false;
		args = op->args;
	}
	else if (IsA(qual, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) qual)->useOr)
	{
		ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) qual;

		c->operator = op->opno;
		c->collation = op->inputcollid;
		c->list = true;
		args = op->args;
	}
	else
		return false;
	if (list_length(args) != 2 || !IsA(linitial(args), Var))
		return false;
	c->column = linitial(args);
	c->with = lsecond(args);
	return true;
}

/*
 * Are two keys of a column that satisfy a comparison one key to the unique index?  They are if it is the equality of
 * the index's operator class, or one between types that stand in one order; by the index's collation.
 */
static bool
is_same_equality(const Compared *c, Relation index, int column)
{
	Oid			family = index->rd_opfamily[column];
	Oid			type = index->rd_opcintype[column];
	Oid			collation = index->rd_indcollation[column];
	int			strategy;
	Oid			left,
				right;

	if (get_op_opfamily_strategy(c->operator, family) != BTEqualStrategyNumber)
		return false;
	get_op_opfamily_properties(c->operator, family, false, &strategy, &left, &right);
	if (!zen_equality_is_exact(family, type, left) || !zen_equality_is_exact(family, type, right))
		return false;
	/* elements are put in order */
	if (c->list && !OidIsValid(get_opfamily_proc(family, right, right, BTORDER_PROC)))
		return false;
	return !OidIsValid(collation) || c->collation == collation;
}

/*
 * Does a qual demand that a key column of the index equals a value that does not depend on the table's row?  Which
 * column?
 */
static int
equal_column(Expr *qual, Relation index, bool *list)
{
	Compared	c;
	int			attno;

	if (!take_apart(qual, &c))
		return 0;
	*list = c.list;
	attno = c.column->varattno;
	if (attno < 1 || attno > IndexRelationGetNumberOfKeyAttributes(index) || contain_var_clause((Node *) c.with))
		return 0;
	return is_same_equality(&c, index, attno - 1) ? attno : 0;
}

/* Has the key cache keys of an index: is it on columns, and of the whole table?  Only then a key stands for one row. */
static bool
has_cached_keys(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (index->rd_index->indkey.values[i] == 0)
			return false;
	}
	return zen_keycache_enabled() && RelationGetIndexPredicate(index) == NIL;
}

ZenPointWhy
zen_keyprobe_refuses(Oid indexid, List *indexqual, bool join)
{
	Relation	index = index_open(indexid, AccessShareLock);
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	Bitmapset  *seen = NULL;
	int			nlists = 0;
	ZenPointWhy why = ZEN_WHY_NONE;
	ListCell   *lc;

	if (!zen_index_is_like_btree(index) || !index->rd_index->indisunique || (join && !has_cached_keys(index)))
		why = ZEN_WHY_not_by_key;
	foreach(lc, indexqual)
	{
		bool		list = false;
		int			attno = why == ZEN_WHY_NONE ? equal_column(lfirst(lc), index, &list) : 0;

		nlists += list;
		if (attno == 0 || nlists > (join ? 0 : 1) || bms_is_member(attno, seen))
		{
			why = ZEN_WHY_not_by_key;
			break;
		}
		seen = bms_add_member(seen, attno);
	}
	if (why == ZEN_WHY_NONE && bms_num_members(seen) != nkeys)
		why = ZEN_WHY_not_by_key;
	if (why == ZEN_WHY_NONE && (!index->rd_index->indimmediate || !index->rd_index->indisvalid))
		why = ZEN_WHY_deferrable_key;
	bms_free(seen);
	index_close(index, NoLock);
	return why;
}

/* ---------- hashes ---------- */

void
zen_keyprobe_init(ZenKeyProbe *probe, Relation index, const ScanKeyData *keys, int nkeys)
{
	probe->index = RelationGetRelid(index);
	probe->nkeys = 0;
	if (!has_cached_keys(index))
		return;
	for (int i = 0; i < nkeys; i++)
	{
		/* the executor sets it, unlike others that search an index */
		Assert(OidIsValid(keys[i].sk_subtype));
		if (!zen_key_column_init(&probe->keys[i], index, keys[i].sk_attno - 1, keys[i].sk_subtype,
								 keys[i].sk_collation))
			return;
	}
	probe->nkeys = nkeys;
}

uint64
zen_keyprobe_hash(const ZenKeyProbe *probe, const ScanKeyData *keys)
{
	uint64		hash = 0;

	Assert(probe->nkeys > 0);
	for (int i = 0; i < probe->nkeys; i++)
		hash = zen_key_hash_add(probe->keys, i, hash, keys[i].sk_argument);
	return zen_keycache_hash(probe->index, hash);
}

/* ---------- the row ---------- */

static void
probe_count(ZenHTable *ht, ZenTableCounter counter)
{
	zen_tablestat_add(ht->idx, zen_tablestat_generation(ht->idx), counter, 1);
}

bool
zen_keyprobe_hint(ZenHTable *ht, uint64 hash, uint64 *tidno)
{
	if (zen_keycache_lookup(hash, tidno))
		return true;
	probe_count(ht, ZEN_T_KEY_MISSES);
	return false;
}

static bool
has_key(const ZenKeyProbe *probe, const ScanKeyData *keys, TupleTableSlot *row)
{
	Assert(probe->nkeys > 0);
	for (int i = 0; i < probe->nkeys; i++)
	{
		const ScanKeyData *key = &keys[i];
		bool		isnull;
		Datum		value = slot_getattr(row, probe->keys[i].attno, &isnull);

		if (isnull || !DatumGetBool(FunctionCall2Coll((FmgrInfo *) &key->sk_func, key->sk_collation, value,
													  key->sk_argument)))
			return false;
	}
	return true;
}

bool
zen_keyprobe_fetch(const ZenKeyProbe *probe, Relation rel, const ScanKeyData *keys, uint64 tidno,
				   Snapshot snapshot, TupleTableSlot *slot)
{
	ZenHTable  *ht = zen_rel_htable(rel);
	bool		found = zen_fetch_hinted(rel, ht, tidno, snapshot, slot) && has_key(probe, keys, slot);

	probe_count(ht, found ? ZEN_T_KEY_HITS : ZEN_T_KEY_STALE);
	return found;
}
