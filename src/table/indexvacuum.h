/*
 * indexvacuum.h -- VACUUM of the indexes of a zen table.
 */
#ifndef ZEN_INDEXVACUUM_H
#define ZEN_INDEXVACUUM_H

#include "base/compat.h"

#include "access/genam.h"

/* The work that VACUUM gives an index. */
typedef struct ZenIndexVacuum
{
	IndexVacuumInfo info;
	Relation	table;
	IndexBulkDeleteCallback is_dead;	/* NULL: clean up only */
	void	   *arg;			/* of is_dead */
} ZenIndexVacuum;

/*
 * zen_index_vacuum -- have one index remove its entries of dead rows, and clean up.
 *
 * False, with a message, if the index was given up: another session has stayed on one of its pages for
 * zen.vacuum_pin_timeout.  Some of the entries may be removed.  *stats is the index's result, or NULL.  In a
 * transaction without subtransactions under way; throws the errors of the index.
 */
extern bool zen_index_vacuum(ZenIndexVacuum *v, IndexBulkDeleteResult **stats);

#endif							/* ZEN_INDEXVACUUM_H */
