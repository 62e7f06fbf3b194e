/*
 * zenam_build.h -- the entry that an index has for a row of a zen table.
 */
#ifndef ZENAM_BUILD_H
#define ZENAM_BUILD_H

#include "base/compat.h"

#include "access/tableam.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"

typedef struct ZenIndexEntry
{
	Relation	table;
	IndexInfo  *info;
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *predicate;
	TupleTableSlot *slot;		/* the caller stores the row here */
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
} ZenIndexEntry;

/*
 * zen_indexentry_is_wanted -- should the index have an entry for the row in the slot?
 * zen_indexentry_form -- fill in values and isnull for a row that is wanted; they live until the next one is asked for.
 *
 * Both run the index's expressions, which may throw anything.
 */
extern void zen_indexentry_begin(ZenIndexEntry *e, Relation table, IndexInfo *info);
extern bool zen_indexentry_is_wanted(ZenIndexEntry *e);
extern void zen_indexentry_form(ZenIndexEntry *e);
extern void zen_indexentry_end(ZenIndexEntry *e);

/*
 * zen_build_settled -- on a hot standby: give the entries of rows that every snapshot sees, as far as they can be read
 * where they are, and name the TIDs of all others, which may have no row.
 */
extern void zen_build_settled(Relation table, IndexInfo *info, Relation index, IndexBuildCallback give, void *build,
							  void (*other) (uint64 tidno, void *arg), void *arg);

#endif							/* ZENAM_BUILD_H */
