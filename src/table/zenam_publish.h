/*
 * zenam_publish.h -- a publication that could not send a zen table's changes is refused.
 */
#ifndef ZENAM_PUBLISH_H
#define ZENAM_PUBLISH_H

#include "base/compat.h"

#include "access/xlog.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "utils/rel.h"

/*
 * zen_hides_changes -- are changes of tables decoded, but not those of zen tables?  Not in pg_upgrade, which carries
 * publications over with zen.stream off, and whose WAL no client reads.
 */
static inline bool
zen_hides_changes(void)
{
	return XLogLogicalInfoActive() && zen_stream == ZEN_STREAM_OFF && !IsBinaryUpgrade;
}

/*
 * zen_refuse_published -- throws ERRCODE_FEATURE_NOT_SUPPORTED if a publication would send the relation's changes, and
 * it is a zen table: directly, by its schema, by a partition root or as one of all tables.  For zen_hides_changes().
 */
extern void zen_refuse_published(Oid relid);

/* zen_refuse_published_change -- zen_check_change() where changes are hidden. */
extern void zen_refuse_published_change(Relation rel);

/* zen_check_change -- before rows of a zen table change, or it is truncated: throws as zen_refuse_published() does. */
static inline void
zen_check_change(Relation rel)
{
	if (unlikely(zen_hides_changes()))
		zen_refuse_published_change(rel);
}

#endif							/* ZENAM_PUBLISH_H */
