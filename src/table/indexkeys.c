/*
 * indexkeys.c -- the entries that an index has for the rows of a block, read where the rows are.
 *
 * An index build needs some columns of each row.  A row that is settled is not copied for that: its key is read from
 * the slot, or the version, inside an epoch.  Nothing is called there that could wait.  So columns are of fixed width,
 * and what is done with the entries comes after the epoch.
 */
#include "table/indexkeys.h"

#include "access/htup_details.h"
#include "cache/tidmap.h"
#include "row/rowread.h"

#define WIDEST	16				/* bytes of a column */

static bool
is_simple(Relation table, const IndexInfo *info)
{
	if (info->ii_Expressions != NIL || info->ii_Predicate != NIL)
		return false;
	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
	{
		AttrNumber	attno = info->ii_IndexAttrNumbers[i];

		if (attno <= 0 || TupleDescAttr(RelationGetDescr(table), attno - 1)->attlen <= 0 ||
			TupleDescAttr(RelationGetDescr(table), attno - 1)->attlen > WIDEST)
			return false;
	}
	return true;
}

void
zen_indexkeys_begin(ZenIndexKeys *keys, Relation table, const IndexInfo *info)
{
	int			n = info->ii_NumIndexAttrs;

	keys->n = 0;
	if (!is_simple(table, info))
		return;
	keys->n = n;
	keys->desc = RelationGetDescr(table);
	keys->values = palloc(ZEN_TIDS_PER_BLOCK * n * sizeof(Datum));
	keys->isnull = palloc(ZEN_TIDS_PER_BLOCK * n * sizeof(bool));
	keys->space = palloc(ZEN_TIDS_PER_BLOCK * n * WIDEST);
	keys->lengths = palloc(n * sizeof(int16));
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(keys->desc, info->ii_IndexAttrNumbers[i] - 1);

		keys->attnos[i] = att->attnum;
		keys->lengths[i] = att->attbyval ? 0 : att->attlen;
	}
}

static void
read_entry(int row, const HeapTupleData *tuple, void *arg)
{
	ZenIndexKeys *keys = arg;
	Datum	   *values = &keys->values[row * keys->n];
	bool	   *isnull = &keys->isnull[row * keys->n];

	for (int i = 0; i < keys->n; i++)
	{
		values[i] = heap_getattr((HeapTuple) tuple, keys->attnos[i], keys->desc, &isnull[i]);
		if (unlikely(keys->lengths[i] > 0) && !isnull[i])
		{
			char	   *copy = &keys->space[(row * keys->n + i) * WIDEST];

			memcpy(copy, DatumGetPointer(values[i]), keys->lengths[i]);
			values[i] = PointerGetDatum(copy);
		}
	}
}

void
zen_indexkeys_read(ZenIndexKeys *keys, ZenHTable *ht, uint64 block, bool believe)
{
	Assert(keys->n > 0);
	keys->found = zen_row_look_block(ht, block, believe, read_entry, keys, &keys->apart);
}

void
zen_indexkeys_end(ZenIndexKeys *keys)
{
	if (keys->n == 0)
		return;
	pfree(keys->values);
	pfree(keys->isnull);
	pfree(keys->space);
	pfree(keys->lengths);
}
