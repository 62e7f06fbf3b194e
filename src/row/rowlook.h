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

#endif							/* ZEN_ROWLOOK_H */
