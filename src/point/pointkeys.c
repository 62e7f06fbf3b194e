/*
 * pointkeys.c -- the keys that a point access names: one, or one for each element of a list.
 *
 * An index scan with a list meets its rows in the order of the index, each once.  So the elements are sorted by the
 * index's own order, equal ones become one, and NULLs go; nbtree does the same.
 */
#include "point/pointkeys.h"

#include "access/nbtree.h"
#include "access/stratnum.h"
#include "cache/keycache.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/nodeIndexscan.h"
#include "lib/qunique.h"
#include "table/treeindex.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

static Oid
value_type(Relation index, ScanKey key)
{
	return OidIsValid(key->sk_subtype) ? key->sk_subtype : index->rd_opcintype[key->sk_attno - 1];
}

/* How a column's values of a type are hashed.  False: it is an expression, or they cannot be. */
static bool
init_key(ZenPointKey *key, Relation index, int column, Oid type, Oid collation)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC_FINFO);

	key->hash = &entry->hash_extended_proc_finfo;
	key->collation = collation;
	key->attno = index->rd_index->indkey.values[column];
	return key->attno != 0 && OidIsValid(entry->hash_extended_proc_finfo.fn_oid);
}

/*
 * How keys are hashed for the key cache.  Not for an index on an expression or a part of the table: its key is not all
 * that a row needs to be the only one.
 */
static void
init_hashing(ZenPoint *point)
{
	Relation	index = point->scan->iss_RelationDesc;

	if (!zen_keycache_enabled() || RelationGetIndexPredicate(index) != NIL)
		return;
	for (int i = 0; i < point->scan->iss_NumScanKeys; i++)
	{
		ScanKey		key = &point->scan->iss_ScanKeys[i];

		if (!init_key(&point->keys[i], index, key->sk_attno - 1, value_type(index, key), key->sk_collation))
			return;
	}
	point->key_index = RelationGetRelid(index);
	point->nkeys = point->scan->iss_NumScanKeys;
}

void
zen_pointkeys_init_insert(ZenPoint *point)
{
	Oid			key_index = zen_primary_key(point->rel);
	Relation	index;
	int			n;

	if (!zen_keycache_enabled() || !OidIsValid(key_index))
		return;
	index = index_open(key_index, AccessShareLock);
	n = IndexRelationGetNumberOfKeyAttributes(index);
	for (int i = 0; i < n; i++)
		if (!init_key(&point->keys[i], index, i, index->rd_opcintype[i], index->rd_indcollation[i]))
			n = 0;
	if (index->rd_index->indimmediate && zen_index_is_like_btree(index))
		point->nkeys = n;
	point->key_index = key_index;
	point->relations = lappend_oid(point->relations, key_index);
	index_close(index, AccessShareLock);
}

static void
init_list(ZenPoint *point, int nkey)
{
	Relation	index = point->scan->iss_RelationDesc;
	ScanKey		key = &point->scan->iss_ScanKeys[nkey];
	int			column = key->sk_attno - 1;
	Oid			type = value_type(index, key);
	bool		backward = ScanDirectionIsBackward(point->shape.scan->indexorderdir);
	bool		descending = (index->rd_indoption[column] & INDOPTION_DESC) != 0;
	ZenPointList *list = &point->list;

	Assert((key->sk_flags & SK_SEARCHARRAY) != 0);
	Assert(OidIsValid(type) && column < IndexRelationGetNumberOfKeyAttributes(index));
	list->nkey = nkey;
	list->reverse = backward != descending;
	fmgr_info(get_opfamily_proc(index->rd_opfamily[column], type, type, BTORDER_PROC), &list->compare);
	list->context = AllocSetContextCreate(point->context, "zen point access, list", ALLOCSET_SMALL_SIZES);
	point->scan_keys = palloc(point->scan->iss_NumScanKeys * sizeof(ScanKeyData));
	memcpy(point->scan_keys, point->scan->iss_ScanKeys, point->scan->iss_NumScanKeys * sizeof(ScanKeyData));
	point->scan_keys[nkey].sk_flags &= ~SK_SEARCHARRAY;
}

void
zen_pointkeys_init(ZenPoint *point)
{
	point->scan_keys = point->scan->iss_ScanKeys;
	point->list.nkey = -1;
	init_hashing(point);
	for (int i = 0; i < point->scan->iss_NumScanKeys; i++)
		if (point->scan->iss_ScanKeys[i].sk_flags & SK_SEARCHARRAY)
		{
			Assert(point->list.nkey < 0);
			init_list(point, i);
		}
}

/* ---------- an execution ---------- */

typedef struct Order
{
	ZenPointList *list;
	Oid			collation;
} Order;

static int
compare_elements(const void *a, const void *b, void *arg)
{
	Order	   *order = arg;
	int			result = DatumGetInt32(FunctionCall2Coll(&order->list->compare, order->collation,
														 *(const Datum *) a, *(const Datum *) b));

	return order->list->reverse ? -result : result;
}

/* Its elements that are not NULL, sorted, each once. */
static void
take_elements(ZenPoint *point, ArrayType *array)
{
	ZenPointList *list = &point->list;
	Order		order = {list, point->scan_keys[list->nkey].sk_collation};
	bool	   *nulls;
	int			all;

	if (list->element_type != ARR_ELEMTYPE(array))
	{
		get_typlenbyvalalign(ARR_ELEMTYPE(array), &list->length, &list->by_value, &list->align);
		list->element_type = ARR_ELEMTYPE(array);
	}
	deconstruct_array(array, list->element_type, list->length, list->by_value, list->align,
					  &list->elements, &nulls, &all);
	Assert(CurrentMemoryContext == list->context);
	list->n = 0;
	for (int i = 0; i < all; i++)
		if (!nulls[i])
			list->elements[list->n++] = list->elements[i];
	if (list->n < 2)
		return;
	qsort_arg(list->elements, list->n, sizeof(Datum), compare_elements, &order);
	list->n = qunique_arg(list->elements, list->n, sizeof(Datum), compare_elements, &order);
}

static void
begin_list(ZenPoint *point)
{
	IndexScanState *scan = point->scan;
	Datum		array = scan->iss_ScanKeys[point->list.nkey].sk_argument;
	MemoryContext old = MemoryContextSwitchTo(point->list.context);

	for (int i = 0; i < scan->iss_NumScanKeys; i++)
		if (i != point->list.nkey)
			point->scan_keys[i].sk_argument = scan->iss_ScanKeys[i].sk_argument;
	take_elements(point, DatumGetArrayTypeP(array));
	MemoryContextSwitchTo(old);
}

bool
zen_pointkeys_begin(ZenPoint *point)
{
	IndexScanState *scan = point->scan;

	if (scan->iss_NumRuntimeKeys != 0)
	{
		ResetExprContext(scan->iss_RuntimeContext);
		ExecIndexEvalRuntimeKeys(scan->iss_RuntimeContext, scan->iss_RuntimeKeys, scan->iss_NumRuntimeKeys);
	}
	for (int i = 0; i < scan->iss_NumScanKeys; i++)
		if (scan->iss_ScanKeys[i].sk_flags & SK_ISNULL)
			return false;
	point->list.n = 1;
	point->list.next = 0;
	if (point->list.nkey >= 0)
		begin_list(point);
	return point->list.n > 0;
}

bool
zen_pointkeys_next(ZenPoint *point)
{
	ZenPointList *list = &point->list;

	Assert(list->next < list->n);
	if (list->nkey >= 0)
		point->scan_keys[list->nkey].sk_argument = list->elements[list->next];
	return ++list->next < list->n;
}

void
zen_pointkeys_end(ZenPoint *point)
{
	if (point->scan->iss_RuntimeContext != NULL)
		ResetExprContext(point->scan->iss_RuntimeContext);
	if (point->list.context != NULL)
		MemoryContextReset(point->list.context);
}

/* ---------- the key cache ---------- */

static uint64
add_to_hash(const ZenPoint *point, uint64 hash, int nkey, Datum value)
{
	const ZenPointKey *key = &point->keys[nkey];
	uint64		h = DatumGetUInt64(FunctionCall2Coll(key->hash, key->collation, value, UInt64GetDatum(0)));

	return nkey == 0 ? h : hash_combine64(hash, h);
}

uint64
zen_pointkeys_hash(const ZenPoint *point)
{
	uint64		hash = 0;

	Assert(point->nkeys > 0);
	for (int i = 0; i < point->nkeys; i++)
		hash = add_to_hash(point, hash, i, point->scan_keys[i].sk_argument);
	return zen_keycache_hash(point->key_index, hash);
}

uint64
zen_pointkeys_hash_row(const ZenPoint *point, TupleTableSlot *row)
{
	uint64		hash = 0;

	Assert(point->nkeys > 0);
	for (int i = 0; i < point->nkeys; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(row, point->keys[i].attno, &isnull);

		Assert(!isnull);
		hash = add_to_hash(point, hash, i, value);
	}
	return zen_keycache_hash(point->key_index, hash);
}

bool
zen_pointkeys_equal(const ZenPoint *point)
{
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;

	Assert(point->nkeys > 0);
	for (int i = 0; i < point->nkeys; i++)
	{
		ScanKey		key = &point->scan_keys[i];
		bool		isnull;
		Datum		value = slot_getattr(slot, point->keys[i].attno, &isnull);

		if (isnull || !DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, key->sk_argument)))
			return false;
	}
	return true;
}
