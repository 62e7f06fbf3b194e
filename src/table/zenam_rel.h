/*
 * zenam_rel.h -- a Relation as zen sees it: its HTable, its blocks, and the file that stands for them.
 */
#ifndef ZENAM_REL_H
#define ZENAM_REL_H

#include "base/compat.h"

#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "nvm/htable.h"
#include "table/keyfill.h"
#include "utils/rel.h"

/*
 * zen_rel_htable -- the HTable of an open zen table.
 *
 * Waits until the pool is recovered and, after a crash, until the table's indexes are rebuilt.  Throws
 * ERRCODE_DATA_CORRUPTED when the pool does not know the table.
 */
extern ZenHTable *zen_rel_htable(Relation rel);

/* zen_rel_htable_raw -- the same without waiting for indexes; for the code that rebuilds them. */
extern ZenHTable *zen_rel_htable_raw(Relation rel);

/*
 * zen_rel_key -- the table's primary key, which its rows make known to the key cache; ncolumns 0: they do not.
 *
 * May open indexes, so invalidations are processed.
 */
extern void zen_rel_key(Relation rel, ZenKeyShape *key);

/* The access method: set in the relcache entries of zen tables.  zenam_handler.c fills it in. */
extern TableAmRoutine zenam_routine;

/* Is this relation stored by zen?  (Any relkind; false for indexes and views.) */
extern bool zen_rel_is_zen(Relation rel);
extern bool zen_relid_is_zen(Oid relid);

/* Number of 64-TID blocks, which PostgreSQL takes for the number of pages. */
extern BlockNumber zen_rel_nblocks(Relation rel);

/* zen_rel_extend_file -- make the (empty, sparse) main fork as long as nblocks blocks. */
extern void zen_rel_extend_file(Relation rel, BlockNumber nblocks);

/*
 * zen_rel_cover_block -- have the segment of the main fork to which a block belongs, and those before it.
 *
 * To be called before an index, or a scan, can name the block.  Throws when the file cannot be extended.
 */
extern void zen_rel_cover_block(Relation rel, BlockNumber block);

/*
 * zen_locator_of -- the place of a relation's files, as its row of pg_class tells it; not of a temporary or shared
 * one.
 */
extern RelFileLocator zen_locator_of(Form_pg_class form);

/* Do two relations have the same files? */
static inline bool
zen_same_locator(RelFileLocator a, RelFileLocator b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

#endif							/* ZENAM_REL_H */
