/*
 * zentree_keys.c -- the conditions of a scan: the range of the tree to be read, and the further conditions on its
 * entries.
 *
 * The range is made of an equality on each of the leading columns, and of bounds on the column after them.  One
 * condition of each sort is taken.  All others are looked at for each entry.  So it does not matter if conditions
 * contradict or repeat each other.
 *
 * src/index/README, "Scans", says what conditions on later columns, arrays and values of other types do to the range,
 * and where a scan may skip entries.
 */
#include "index/zentree_keys.h"

#include "access/nbtree.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Few scans need it. */
static MemoryContext
context_of(ZenConditions *c)
{
	if (c->mcxt == NULL)
		c->mcxt = AllocSetContextCreate(c->parent, "zen tree scan", ALLOCSET_SMALL_SIZES);
	return c->mcxt;
}

/* ---------- arguments of other types ---------- */

/* The support function that compares two types of the column's operator family, or NULL. */
static FmgrInfo *
order_proc(ZenConditions *c, int column, Oid left, Oid right)
{
	RegProcedure proc = get_opfamily_proc(c->index->rd_opfamily[column], left, right, BTORDER_PROC);
	FmgrInfo   *info;

	if (!RegProcedureIsValid(proc))
		elog(ERROR, "missing support function %d(%u,%u) for column %d of index \"%s\"",
			 BTORDER_PROC, left, right, column + 1, RelationGetRelationName(c->index));
	info = MemoryContextAlloc(context_of(c), sizeof(FmgrInfo));
	fmgr_info_cxt(proc, info, c->mcxt);
	return info;
}

static bool
is_int(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static int64
get_int(Oid type, Datum value)
{
	return type == INT2OID ? DatumGetInt16(value) : type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
}

/* An integer as one of another width, if it has the place. */
static bool
convert_int(Oid from, Oid to, Datum value, Datum *result)
{
	int64		i = get_int(from, value);

	if ((to == INT2OID && (i < PG_INT16_MIN || i > PG_INT16_MAX)) ||
		(to == INT4OID && (i < PG_INT32_MIN || i > PG_INT32_MAX)))
		return false;
	*result = to == INT2OID ? Int16GetDatum((int16) i) : to == INT4OID ? Int32GetDatum((int32) i) : Int64GetDatum(i);
	return true;
}

/* The value of a condition, for a position; *order is set if it is of another type than the column. */
static Datum
argument(const ZenConditions *c, const ZenCondition *cond, FmgrInfo **order)
{
	Oid			type = c->index->rd_opcintype[cond->key.sk_attno - 1];
	Datum		result;

	*order = NULL;
	if (cond->order == NULL)
		return cond->key.sk_argument;
	if (is_int(type) && is_int(cond->key.sk_subtype) &&
		convert_int(cond->key.sk_subtype, type, cond->key.sk_argument, &result))
		return result;
	*order = cond->order;
	return cond->key.sk_argument;
}

/* ---------- arrays ---------- */

typedef struct ElementOrder
{
	FmgrInfo   *order;
	Oid			collation;
	bool		reverse;
} ElementOrder;

static int
keys_compare_elements(const void *a, const void *b, void *arg)
{
	ElementOrder *o = arg;
	int32		result = DatumGetInt32(FunctionCall2Coll(o->order, o->collation,
														 *(const Datum *) a, *(const Datum *) b));

	return o->reverse ? (result < 0) - (result > 0) : result;
}

/* Sort elements, and leave one of those that are equal. */
static int
sort_elements(ElementOrder *order, Datum *elems, int n)
{
	int			kept = 0;

	qsort_arg(elems, n, sizeof(Datum), keys_compare_elements, order);
	for (int i = 0; i < n; i++)
		if (kept == 0 || keys_compare_elements(&elems[kept - 1], &elems[i], order) != 0)
			elems[kept++] = elems[i];
	return kept;
}

/* Take the array of a condition apart. */
static void
take_array(ZenConditions *c, const ZenTreeShape *shape, ZenCondition *cond)
{
	int			column = cond->key.sk_attno - 1;
	ArrayType  *array = DatumGetArrayTypeP(cond->key.sk_argument);
	Oid			type = ARR_ELEMTYPE(array);
	Oid			in_type = OidIsValid(cond->key.sk_subtype) ? cond->key.sk_subtype : c->index->rd_opcintype[column];
	ElementOrder order = {.collation = cond->key.sk_collation,.reverse = shape->columns[column].desc};
	int16		length;
	bool		byval;
	char		align;
	bool	   *nulls;
	int			n;
	int			kept = 0;

	get_typlenbyvalalign(type, &length, &byval, &align);
	deconstruct_array(array, type, length, byval, align, &cond->elems, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			cond->elems[kept++] = cond->elems[i];
	cond->key.sk_flags &= ~SK_SEARCHARRAY;
	if (kept == 0)
	{
		c->never = true;
		return;
	}
	order.order = in_type == c->index->rd_opcintype[column] ? shape->columns[column].order :
		order_proc(c, column, in_type, in_type);
	cond->nelems = sort_elements(&order, cond->elems, kept);
	if (cond->key.sk_strategy == BTEqualStrategyNumber || cond->inexact)
		return;
	/* any of the elements: the one that asks least */
	if ((cond->key.sk_strategy < BTEqualStrategyNumber) == !shape->columns[column].desc)
		cond->elems[0] = cond->elems[cond->nelems - 1];
	cond->key.sk_argument = cond->elems[0];
	cond->nelems = 0;
}

/* ---------- the range ---------- */

static bool
is_equality(const ZenCondition *cond)
{
	if (cond->key.sk_flags & SK_SEARCHNULL)
		return true;
	return !(cond->key.sk_flags & SK_SEARCHNOTNULL) && cond->key.sk_strategy == BTEqualStrategyNumber;
}

/* A condition that is an equality on a column, or NULL; among those that are exact, or among the others. */
static ZenCondition *
find_equality(ZenConditions *c, int column, bool inexact)
{
	for (int i = 0; i < c->n; i++)
		if (c->conditions[i].key.sk_attno == column + 1 && is_equality(&c->conditions[i]) &&
			c->conditions[i].inexact == inexact &&
			(c->conditions[i].nelems == 0 || c->conditions[i].stepped))
			return &c->conditions[i];
	return NULL;
}

static void
add_equality(ZenConditions *c, ZenTreePos *pos, ZenCondition *cond)
{
	int			column = cond->key.sk_attno - 1;

	pos->isnull[column] = (cond->key.sk_flags & SK_SEARCHNULL) != 0;
	pos->order[column] = NULL;
	pos->values[column] = pos->isnull[column] ? (Datum) 0 : argument(c, cond, &pos->order[column]);
}

/* A bound on a column, towards the beginning or the end of the tree; NULL: none.  Exact or not, as above. */
static ZenCondition *
find_bound(ZenConditions *c, const ZenTreeShape *shape, int column, bool from, bool inexact)
{
	for (int i = 0; i < c->n; i++)
	{
		ZenCondition *cond = &c->conditions[i];
		StrategyNumber s = cond->key.sk_strategy;

		if (cond->key.sk_attno != column + 1 || cond->nelems > 0 || cond->inexact != inexact ||
			(cond->key.sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL)) || s == BTEqualStrategyNumber)
			continue;

		/*
		 * in the index's order a "less than" on a descending column is a
		 * lower bound
		 */
		if (((s > BTEqualStrategyNumber) != shape->columns[column].desc) == from)
			return cond;
	}
	return NULL;
}

/* Does any condition on the column exclude nulls? */
static bool
excludes_nulls(ZenConditions *c, int column)
{
	for (int i = 0; i < c->n; i++)
		if (c->conditions[i].key.sk_attno == column + 1 && !(c->conditions[i].key.sk_flags & SK_SEARCHNULL))
			return true;
	return false;
}

/* The exact condition on a column that bounds one end of a range in it, if other columns are equal. */
static ZenCondition *
find_limit(ZenConditions *c, const ZenTreeShape *shape, int column, bool from)
{
	ZenCondition *equality = find_equality(c, column, false);

	return equality != NULL ? equality : find_bound(c, shape, column, from, false);
}

/* The condition that bounds the range on the first column without an exact equality. */
static ZenCondition *
find_first_limit(ZenConditions *c, const ZenTreeShape *shape, int column, bool from)
{
	ZenCondition *limit = find_bound(c, shape, column, from, false);

	Assert(find_equality(c, column, false) == NULL);
	if (limit == NULL)
		limit = find_equality(c, column, true);
	return limit != NULL ? limit : find_bound(c, shape, column, from, true);
}

static bool
is_inclusive(const ZenCondition *cond)
{
	StrategyNumber s = cond->key.sk_strategy;

	return is_equality(cond) || s == BTLessEqualStrategyNumber || s == BTGreaterEqualStrategyNumber;
}

/* Add a limit on a column and those on the next ones, as long as they include their values, and make the position. */
static void
add_limits(ZenConditions *c, const ZenTreeShape *shape, ZenCondition *limit, bool from, ZenTreePos *pos)
{
	int			column = limit->key.sk_attno - 1;
	bool		inclusive;

	do
	{
		add_equality(c, pos, limit);
		inclusive = is_inclusive(limit);
		column++;

		/*
		 * entries that equal an inexact value do not have the next column in
		 * order
		 */
	} while (inclusive && !limit->inexact && column < shape->nkeys &&
			 (limit = find_limit(c, shape, column, from)) != NULL);
	zen_shape_pos(shape, pos, column, from == inclusive ? ZEN_TIE_BEFORE : ZEN_TIE_AFTER, 0);
}

/* Set one end of the range: equalities on n columns, and maybe a bound on the next one. */
static bool
set_end(ZenConditions *c, const ZenTreeShape *shape, int n, bool from, ZenTreePos *pos)
{
	ZenCondition *bound = n < shape->nkeys ? find_first_limit(c, shape, n, from) : NULL;

	for (int i = 0; i < n; i++)
		add_equality(c, pos, find_equality(c, i, false));
	if (bound != NULL)
	{
		bound->bound = !bound->inexact;
		add_limits(c, shape, bound, from, pos);
		return true;
	}
	if (n < shape->nkeys && (shape->nulls || shape->kind == ZEN_TREE_TUPLES) && excludes_nulls(c, n) &&
		shape->columns[n].nulls_first == from)
	{
		pos->isnull[n] = true;
		pos->order[n] = NULL;
		zen_shape_pos(shape, pos, n + 1, from ? ZEN_TIE_AFTER : ZEN_TIE_BEFORE, 0);
		return true;
	}
	if (n == 0)
		return false;
	zen_shape_pos(shape, pos, n, from ? ZEN_TIE_BEFORE : ZEN_TIE_AFTER, 0);
	return true;
}

void
zen_conditions_range(ZenConditions *c, const ZenTreeShape *shape)
{
	ZenCondition *equality;
	int			n = 0;

	if (c->never)
		return;
	for (int i = 0; i < c->n; i++)
	{
		c->conditions[i].bound = false;
		if (c->conditions[i].stepped)
			c->conditions[i].key.sk_argument = c->conditions[i].elems[c->conditions[i].at];
	}
	while (n < shape->nkeys && (equality = find_equality(c, n, false)) != NULL)
	{
		equality->bound = true;
		n++;
	}
	c->has_from = set_end(c, shape, n, true, &c->from);
	if (n == shape->nkeys)
	{
		zen_pos_copy(&c->to, &c->from);
		c->to.tie = ZEN_TIE_AFTER;
		c->has_to = true;
	}
	else
		c->has_to = set_end(c, shape, n, false, &c->to);
	c->nequal = n;
	c->skip_column = n + 1;
	c->any_filter = false;
	for (int i = 0; i < c->n; i++)
		c->any_filter |= !c->conditions[i].bound;
}

/*
 * All entries that are left lie behind the fence, or with backward before it.  Those of them that have its first
 * columns are of no use if a limit on the next column is beyond it.
 */
void
zen_conditions_skip(ZenConditions *c, const ZenTreeShape *shape, const ZenTreeSlot *fence, bool backward,
					ZenTreePos *pos)
{
	int			column = c->skip_column;
	ZenTreePos	limit;
	bool		from = !backward;
	ZenCondition *to_come;
	ZenCondition *last;

	if (!c->any_filter || column >= shape->nkeys)
		return;
	to_come = find_limit(c, shape, column, from);
	last = find_limit(c, shape, column, !from);
	if (to_come == NULL && last == NULL)
		return;
	for (int i = 0; i < column; i++)
	{
		limit.values[i] = zen_shape_value(shape, fence, i, &limit.isnull[i]);
		limit.order[i] = NULL;
	}
	/* the limit that is still to come */
	if (to_come != NULL)
	{
		add_limits(c, shape, to_come, from, &limit);
		if ((zen_slot_compare(shape, fence, &limit) < 0) == from)
		{
			zen_pos_copy(pos, &limit);
			return;
		}
	}
	/* the one that ends these first columns */
	if (last != NULL)
	{
		add_limits(c, shape, last, !from, &limit);
		if ((zen_slot_compare(shape, fence, &limit) < 0) == !from)
		{
			zen_shape_pos(shape, &limit, column, from ? ZEN_TIE_AFTER : ZEN_TIE_BEFORE, 0);
			zen_pos_copy(pos, &limit);
		}
	}
}

void
zen_conditions_first(ZenConditions *c, const ZenTreeShape *shape, bool backward)
{
	for (int i = 0; i < c->n; i++)
		c->conditions[i].at = backward ? c->conditions[i].nelems - 1 : 0;
	zen_conditions_range(c, shape);
}

bool
zen_conditions_next(ZenConditions *c, const ZenTreeShape *shape, bool backward)
{
	/* the last column's elements change first */
	for (int i = c->n - 1; i >= 0; i--)
	{
		ZenCondition *cond = &c->conditions[i];

		if (!cond->stepped)
			continue;
		cond->at += backward ? -1 : 1;
		if (cond->at >= 0 && cond->at < cond->nelems)
		{
			zen_conditions_range(c, shape);
			return true;
		}
		cond->at = backward ? cond->nelems - 1 : 0;
	}
	return false;
}

/* ---------- setting ---------- */

/* An array whose elements a column is to equal, or NULL; an exact one if there is one. */
static ZenCondition *
find_array(ZenConditions *c, int column)
{
	ZenCondition *array = NULL;

	for (int i = 0; i < c->n; i++)
	{
		ZenCondition *cond = &c->conditions[i];

		if (cond->key.sk_attno == column + 1 && cond->nelems > 0 && is_equality(cond) &&
			(array == NULL || (array->inexact && !cond->inexact)))
			array = cond;
	}
	return array;
}

/* Which arrays are stepped: those on leading columns, one for each. */
static void
choose_stepped(ZenConditions *c, const ZenTreeShape *shape)
{
	bool		any = false;

	c->stepped = false;
	for (int i = 0; i < c->n; i++)
		any |= c->conditions[i].nelems > 0;
	if (!any)
		return;
	for (int column = 0; column < shape->nkeys; column++)
	{
		ZenCondition *array;

		if (find_equality(c, column, false) != NULL)
			continue;
		array = find_array(c, column);
		if (array == NULL)
			break;
		array->stepped = true;
		c->stepped = true;
		if (array->inexact)
			break;
	}
}

/* Make a condition of a scan key. */
static void
take_key(ZenConditions *c, const ZenTreeShape *shape, ZenCondition *cond, ScanKey key)
{
	int			column = key->sk_attno - 1;
	Oid			type = c->index->rd_opcintype[column];

	memset(cond, 0, sizeof(*cond));
	cond->key = *key;
	c->for_null |= (key->sk_flags & SK_SEARCHNULL) != 0;
	if (key->sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL))
		return;
	if (key->sk_flags & SK_ROW_HEADER)
		elog(ERROR, "zentree cannot search for rows");
	/* operators are strict */
	if (key->sk_flags & SK_ISNULL)
	{
		c->never = true;
		return;
	}
	if (OidIsValid(key->sk_subtype) && key->sk_subtype != type)
	{
		cond->order = order_proc(c, column, type, key->sk_subtype);
		cond->inexact = !zen_equality_is_exact(c->index->rd_opfamily[column], type, key->sk_subtype);
	}
	if (key->sk_flags & SK_SEARCHARRAY)
	{
		MemoryContext old = MemoryContextSwitchTo(context_of(c));

		take_array(c, shape, cond);
		MemoryContextSwitchTo(old);
	}
}

/* Bring the keys into the order of columns, in which the planner gives them. */
static void
sort_keys(ScanKey keys, int n)
{
	for (int i = 1; i < n; i++)
	{
		for (int j = i; j > 0 && keys[j].sk_attno < keys[j - 1].sk_attno; j--)
		{
			ScanKeyData key = keys[j];

			keys[j] = keys[j - 1];
			keys[j - 1] = key;
		}
	}
}

void
zen_conditions_set(ZenConditions *c, const ZenTreeShape *shape, ScanKey keys, int nkeys)
{
	if (c->mcxt != NULL)
		MemoryContextReset(c->mcxt);
	c->never = c->for_null = false;
	c->n = nkeys;
	c->conditions = c->few;
	if (nkeys > ZEN_FEW_CONDITIONS)
		c->conditions = MemoryContextAlloc(context_of(c), nkeys * sizeof(ZenCondition));
	sort_keys(keys, nkeys);
	for (int i = 0; i < nkeys; i++)
		take_key(c, shape, &c->conditions[i], &keys[i]);
	choose_stepped(c, shape);
}

/* ---------- one entry ---------- */

/* Is the value one of the first n elements?  They are few, and mostly it is looked at entries in order. */
static bool
is_element(ZenCondition *cond, int n, Datum value)
{
	for (int i = 0; i < n; i++)
		if (DatumGetBool(FunctionCall2Coll(&cond->key.sk_func, cond->key.sk_collation, value, cond->elems[i])))
			return true;
	return false;
}

/* Does the value of the condition's column satisfy it? */
static bool
holds(ZenCondition *cond, Datum value, bool isnull)
{
	if (cond->key.sk_flags & SK_SEARCHNULL)
		return isnull;
	if (isnull)
		return false;
	if (cond->key.sk_flags & SK_SEARCHNOTNULL)
		return true;
	if (cond->nelems > 0 && !cond->stepped)
		return is_element(cond, cond->nelems, value);
	if (!DatumGetBool(FunctionCall2Coll(&cond->key.sk_func, cond->key.sk_collation, value, cond->key.sk_argument)))
		return false;

	/*
	 * several elements may equal an inexact value: the range of the first one
	 * gives the entry
	 */
	return cond->nelems == 0 || !cond->inexact || !is_element(cond, cond->at, value);
}

bool
zen_conditions_hold(ZenConditions *c, const ZenTreeShape *shape, const ZenTreeSlot *slot)
{
	if (!c->any_filter)
		return true;
	for (int i = 0; i < c->n; i++)
	{
		ZenCondition *cond = &c->conditions[i];
		int			column = cond->key.sk_attno - 1;
		bool		isnull;
		bool		result;
		Datum		value;

		if (cond->bound)
			continue;
		value = zen_shape_value(shape, slot, column, &isnull);
		result = holds(cond, value, isnull);
		zen_shape_free_value(shape, column, value, isnull);
		if (!result)
			return false;
	}
	return true;
}
