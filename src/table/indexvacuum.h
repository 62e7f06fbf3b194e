/*
 * indexvacuum.h -- VACUUM of the indexes of a zen table.
 */
#ifndef ZEN_INDEXVACUUM_H
#define ZEN_INDEXVACUUM_H

#include "base/compat.h"

#include "access/genam.h"

/* What VACUUM has an index do. */
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
 * False, with a message, if the index was given up because somebody has stayed on one of its pages for
 * zen.vacuum_pin_timeout; some of the entries may be removed.  *stats is the index's result, or NULL.  In a transaction without
 * subtransactions under way; throws what the index throws.
 */
extern bool zen_index_vacuum(ZenIndexVacuum *v, IndexBulkDeleteResult **stats);

#endif							/* ZEN_INDEXVACUUM_H */
