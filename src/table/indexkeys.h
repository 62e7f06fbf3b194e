/*
 * indexkeys.h -- the entries that an index has for the rows of a block, read where the rows are.
 */
#ifndef ZEN_INDEXKEYS_H
#define ZEN_INDEXKEYS_H

#include "base/compat.h"

#include "nodes/execnodes.h"
#include "nvm/htable.h"
#include "utils/rel.h"

/* Entries of one block: those of rows whose bit is in found.  Entry i has its columns from values[i * n] on. */
typedef struct ZenIndexKeys
{
	int			n;				/* columns; 0: the index is not of this kind */
	uint64		found;
	uint64		apart;			/* bit i: there may be another row, not looked
								 * at */
	Datum	   *values;
	bool	   *isnull;

	/* private */
	TupleDesc	desc;
	int16	   *lengths;		/* of columns by reference, 0 for others */
	char	   *space;
	AttrNumber	attnos[INDEX_MAX_KEYS];
} ZenIndexKeys;

/*
 * zen_indexkeys_begin -- prepare to read entries of an index.  Only those of columns of fixed width are read here.
 *
 * zen_indexkeys_read -- the entries of a block's rows that all snapshots see, and that no transaction is changing.
 * With believe, no CRC is computed of rows that were found sound since the server's start.
 */
extern void zen_indexkeys_begin(ZenIndexKeys *keys, Relation table, const IndexInfo *info);
extern void zen_indexkeys_read(ZenIndexKeys *keys, ZenHTable *ht, uint64 block, bool believe);
extern void zen_indexkeys_end(ZenIndexKeys *keys);

#endif							/* ZEN_INDEXKEYS_H */
