/*
 * pointkeys.c -- the keys that a point access names: one, or one for each element of a list.
 *
 * An index scan with a list meets its rows in the order of the index, each once.  So the elements are sorted by the
 * index's own order, equal ones become one, and NULLs go; nbtree does the same.
 */
#include "exec/pointkeys.h"

#include "access/nbtree.h"
#include "access/stratnum.h"
#include "cache/keycache.h"
#include "executor/executor.h"
#include "executor/nodeIndexscan.h"
#include "lib/qunique.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

static void
init_list(ZenPoint *point, int nkey)
{
	Relation	index = point->scan->iss_RelationDesc;
	ScanKey		key = &point->scan->iss_ScanKeys[nkey];
	int			column = key->sk_attno - 1;
	Oid			type = zen_keyprobe_type(index, key);
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
	zen_keyprobe_init(&point->probe, point->scan->iss_RelationDesc, point->scan->iss_ScanKeys,
					  point->scan->iss_NumScanKeys);
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
