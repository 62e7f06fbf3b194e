/*
 * standbykeep.h -- the end of a hot standby: what a promotion keeps of its maps.
 */
#ifndef ZEN_STANDBYKEEP_H
#define ZEN_STANDBYKEEP_H

#include "base/compat.h"

/* Maps whose words lead to slots and to no versions, or to nothing.  They are as if saved at this moment. */
typedef struct ZenKeptMaps
{
	uint64	   *births;			/* of the tables, by HTable; ZEN_NO_BIRTH: it
								 * has no map */
	uint64	   *told;			/* in the arena: one bit for each page on
								 * which nothing counts but what words lead to */
	Size		told_bytes;
} ZenKeptMaps;

#define ZEN_NO_BIRTH	PG_UINT64_MAX

/*
 * zen_standby_promote -- recovery of the pool is about to begin: readers are ended.
 *
 * If maps are to be kept and can be, they are returned.  Tables and pages have no DRAM half any more.  NULL: nothing
 * of the standby's is left in DRAM.
 */
extern ZenKeptMaps *zen_standby_promote(bool keep);

#endif							/* ZEN_STANDBYKEEP_H */
