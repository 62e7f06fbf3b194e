/*
 * keyfill.h -- keys and the key cache: how they are hashed, and how rows that come into a table or an index make theirs
 * known.
 */
#ifndef ZEN_KEYFILL_H
#define ZEN_KEYFILL_H

#include "base/compat.h"

#include "cache/keycache.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/rel.h"

#define ZEN_FILL_COLUMNS	8	/* of a key that rows make known, at most */
#define ZEN_FILL_ROWS		64	/* whose memory is waited for together */

/* How a value of a key column is hashed. */
typedef struct ZenKeyColumn
{
	FmgrInfo   *hash;			/* the type's, extended; the type cache's,
								 * which stays */
	Oid			collation;
	AttrNumber	attno;			/* of the table */
} ZenKeyColumn;

/* A unique index whose keys rows make known.  Nothing in it can become invalid but the index. */
typedef struct ZenKeyShape
{
	Oid			index;
	int			ncolumns;		/* 0: rows do not make its keys known */
	ZenKeyColumn columns[ZEN_FILL_COLUMNS];
} ZenKeyShape;

/* Keys on their way into the cache. */
typedef struct ZenKeyFill
{
	ZenKeyShape shape;
	uint32		share;			/* of the keys, as zen_keycache_share() tells */
	int			n;
	uint64		hashes[ZEN_FILL_ROWS];
	uint64		tidnos[ZEN_FILL_ROWS];
} ZenKeyFill;

/*
 * zen_key_column_init -- values of a type are compared with a column of an index.
 *
 * False: the column is an expression, or values of the type cannot be hashed.
 */
extern bool zen_key_column_init(ZenKeyColumn *column, Relation index, int n, Oid type, Oid collation);

/* zen_key_hash_add -- the hash of a key's first n values, and value n.  Runs the type's function, which may throw. */
static inline uint64
zen_key_hash_add(const ZenKeyColumn *columns, int n, uint64 hash, Datum value)
{
	uint64		h = DatumGetUInt64(FunctionCall2Coll(columns[n].hash, columns[n].collation, value, UInt64GetDatum(0)));

	return n == 0 ? h : hash_combine64(hash, h);
}

/*
 * zen_key_shape_init -- do rows make the keys of an index known?  For unique, immediate btrees on columns.
 *
 * Not for an index on an expression or a part of the table: its key is not all that a row needs to be the only one.
 */
extern void zen_key_shape_init(ZenKeyShape *shape, Relation index);

/*
 * zen_key_hash_row -- the key cache's hash of the key of a row in a slot, whose TID need not be known yet; false if it
 * has a NULL.  The shape has columns.  As zen_key_hash_add().
 */
extern bool zen_key_hash_row(const ZenKeyShape *shape, TupleTableSlot *row, uint64 *hash);

/* zen_key_fill_begin -- for a fill whose shape is there: nrows rows come, or have come before. */
extern void zen_key_fill_begin(ZenKeyFill *fill, uint64 nrows);

/*
 * zen_key_fill_add -- a row with these values of the key's columns is at a TID.
 * zen_key_fill_add_row -- the same for a row in a slot.
 * zen_key_fill_end -- the last ones come into the cache.
 */
extern void zen_key_fill_add(ZenKeyFill *fill, const Datum *values, const bool *isnull, uint64 tidno);
extern void zen_key_fill_add_row(ZenKeyFill *fill, TupleTableSlot *row);
extern void zen_key_fill_end(ZenKeyFill *fill);

#endif							/* ZEN_KEYFILL_H */
