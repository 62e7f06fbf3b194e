/*
 * rowlook.h -- look at the rows of a block where they are.
 *
 * Knows no Relation, as rowread.h.  All functions are called outside any epoch.
 */
#ifndef ZEN_ROWLOOK_H
#define ZEN_ROWLOOK_H

#include "base/compat.h"

#include "access/htup.h"
#include "cache/tidmap.h"

/*
 * zen_row_look_block -- look, in place, at the rows of a block that every snapshot sees, and that no transaction is
 * changing; returns their bits.  *apart: bits of others that may be there, for zen_row_fetch() or zen_row_inspect().
 *
 * look() is called inside an epoch, with the row's place in the block: it may not wait, nor throw.  Of the tuple it may
 * read columns and nulls.  With believe as zen_slot_look().
 */
typedef void (*ZenRowLook) (int i, const HeapTupleData *tuple, void *arg);
extern uint64 zen_row_look_block(ZenHTable *ht, uint64 block, bool believe, ZenRowLook look, void *arg,
								 uint64 *apart);

/* What is done with the rows of a block where they are. */
typedef struct ZenRowView
{
	/*
	 * Called once a block, inside an epoch: it may not wait, nor throw, nor
	 * allocate.  Of the tuples it may read columns and nulls, and keep
	 * nothing that leads there.  False: it cannot do without copies.
	 */
	bool		(*use) (HeapTupleData *rows, int n, void *arg);
	void	   *arg;
	int			lines;			/* of a row that use() looks at; 0: only the
								 * number of rows is wanted, and use() is not
								 * called */
} ZenRowView;

/*
 * zen_row_view_block -- view the rows of a block that an MVCC snapshot sees, in order of their TIDs; returns how many.
 *
 * -1: the rows have to be fetched, as zen_row_fetch_block() does.  Some may be seen by some snapshots only, or one is
 * damaged, or use() has said so.  The rows count as scanned, unless it is -1.
 */
extern int	zen_row_view_block(ZenHTable *ht, uint64 block, const ZenRowView *view);

#define ZEN_MAX_ROW_COLUMNS		16

/* A column of fixed width that is passed by value, as are all before it. */
typedef struct ZenRowColumn
{
	int16		offset;			/* in the data of a row without NULLs */
	int16		len;
	char		align;			/* as pg_attribute.attalign */
} ZenRowColumn;

/* The first columns of the rows of a block. */
typedef struct ZenRowColumns
{
	/* what is wanted: the first natts columns */
	int			natts;
	ZenRowColumn columns[ZEN_MAX_ROW_COLUMNS];

	/* what there is */
	uint64		found;			/* bit i: row i is the one at offset i + 1 */
	uint16		codes[ZEN_TIDS_PER_BLOCK];	/* of the rows' versions */
	uint16		nulls[ZEN_TIDS_PER_BLOCK];	/* bit a: column a is NULL */
	Datum		values[FLEXIBLE_ARRAY_MEMBER];	/* natts for each row */
} ZenRowColumns;

StaticAssertDecl(ZEN_MAX_ROW_COLUMNS <= 16, "a column has a bit");

/*
 * zen_row_read_columns -- read the first columns of the rows of a block that an MVCC snapshot sees.
 *
 * False: the rows have to be fetched, as zen_row_fetch_block() does.  Some may be seen by some snapshots only, one is
 * damaged, or older than a column.  Otherwise the rows count as scanned.
 */
extern bool zen_row_read_columns(ZenHTable *ht, uint64 block, ZenRowColumns *columns);

/*
 * zen_row_read_columns_of -- the same of one row, as a point read, if it is in DRAM.  It becomes row 0.
 *
 * False: the row has to be read by zen_row_read().
 */
extern bool zen_row_read_columns_of(ZenHTable *ht, uint64 tidno, ZenRowColumns *columns);

#endif							/* ZEN_ROWLOOK_H */
