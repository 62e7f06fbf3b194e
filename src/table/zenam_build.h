/*
 * zenam_build.h -- the entry that an index has for a row of a zen table.
 */
#ifndef ZENAM_BUILD_H
#define ZENAM_BUILD_H

#include "base/compat.h"

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

#endif							/* ZENAM_BUILD_H */
