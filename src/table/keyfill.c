/*
 * keyfill.c -- keys and the key cache.
 *
 * Rows make their key known when they come into a table (its primary key), and all rows of a table when one of its
 * unique indexes is built.  So the first read of a row finds it without the index, also after a crash.
 *
 * What this costs is waiting for the cache's memory, which no two keys share.  So the hashes of some rows are
 * collected, all their lines are asked for, and then all are entered.
 *
 * The cache may be smaller than the table.  Then only a part of the keys is entered, chosen by the hash, and no key in
 * use is evicted.  Rows that are inserted one by one all come in: they are likely to be read soon.
 */
#include "table/keyfill.h"

#include "cache/tidmap.h"
#include "table/treeindex.h"
#include "utils/typcache.h"

bool
zen_key_column_init(ZenKeyColumn *column, Relation index, int n, Oid type, Oid collation)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC_FINFO);

	Assert(n >= 0 && n < IndexRelationGetNumberOfKeyAttributes(index));
	column->hash = &entry->hash_extended_proc_finfo;
	column->collation = collation;
	column->attno = index->rd_index->indkey.values[n];
	return column->attno != 0 && OidIsValid(entry->hash_extended_proc_finfo.fn_oid);
}

void
zen_key_shape_init(ZenKeyShape *shape, Relation index)
{
	Form_pg_index form = index->rd_index;
	int			n = IndexRelationGetNumberOfKeyAttributes(index);

	shape->index = RelationGetRelid(index);
	shape->ncolumns = 0;
	if (!zen_keycache_enabled() || !form->indisunique || !form->indimmediate || !zen_index_is_like_btree(index) ||
		n > ZEN_FILL_COLUMNS || RelationGetIndexPredicate(index) != NIL)
		return;
	for (int i = 0; i < n; i++)
		if (!zen_key_column_init(&shape->columns[i], index, i, index->rd_opcintype[i], index->rd_indcollation[i]))
			return;
	shape->ncolumns = n;
}

void
zen_key_fill_begin(ZenKeyFill *fill, uint64 nrows)
{
	fill->n = 0;
	fill->share = fill->shape.ncolumns > 0 ? zen_keycache_share(nrows) : 0;
}

void
zen_key_fill_end(ZenKeyFill *fill)
{
	Assert(fill->n <= ZEN_FILL_ROWS);
	for (int i = 0; i < fill->n; i++)
		zen_keycache_prefetch(fill->hashes[i]);
	for (int i = 0; i < fill->n; i++)
		zen_keycache_fill(fill->hashes[i], fill->tidnos[i]);
	fill->n = 0;
}

static inline void
add_hash(ZenKeyFill *fill, uint64 hash, uint64 tidno)
{
	if ((uint32) hash > fill->share)
		return;
	fill->hashes[fill->n] = hash;
	fill->tidnos[fill->n] = tidno;
	if (++fill->n == ZEN_FILL_ROWS)
		zen_key_fill_end(fill);
}

void
zen_key_fill_add(ZenKeyFill *fill, const Datum *values, const bool *isnull, uint64 tidno)
{
	uint64		hash = 0;

	if (fill->shape.ncolumns == 0)
		return;
	for (int i = 0; i < fill->shape.ncolumns; i++)
	{
		if (isnull[i])
			return;				/* equals nothing */
		hash = zen_key_hash_add(fill->shape.columns, i, hash, values[i]);
	}
	add_hash(fill, zen_keycache_hash(fill->shape.index, hash), tidno);
}

bool
zen_key_hash_row(const ZenKeyShape *shape, TupleTableSlot *row, uint64 *hash)
{
	uint64		key_hash = 0;

	Assert(shape->ncolumns > 0);
	for (int i = 0; i < shape->ncolumns; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(row, shape->columns[i].attno, &isnull);

		if (isnull)
			return false;		/* equals nothing */
		key_hash = zen_key_hash_add(shape->columns, i, key_hash, value);
	}
	*hash = zen_keycache_hash(shape->index, key_hash);
	return true;
}

void
zen_key_fill_add_row(ZenKeyFill *fill, TupleTableSlot *row)
{
	uint64		hash;

	Assert(ItemPointerIsValid(&row->tts_tid));
	if (fill->shape.ncolumns > 0 && zen_key_hash_row(&fill->shape, row, &hash))
		add_hash(fill, hash, zen_tidno(&row->tts_tid));
}
