/*
 * zenam_stream.h -- changes of zen tables for logical decoding: which are logged, and which are refused.
 */
#ifndef ZENAM_STREAM_H
#define ZENAM_STREAM_H

#include "base/compat.h"

#include "access/htup.h"
#include "access/xlog.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "utils/rel.h"

/*
 * zenam_stream_logs -- do changes of this table go into the WAL?  Then zenam_stream_insert() or zenam_stream_change()
 * is called behind each change that was made, with the table still open.  Both may throw.
 */
extern bool zenam_stream_logs_table(Relation rel);

static inline bool
zenam_stream_logs(Relation rel)
{
	return unlikely(zen_stream != ZEN_STREAM_OFF) && zenam_stream_logs_table(rel);
}

/* zenam_stream_insert -- rows were inserted, as they are stored. */
extern void zenam_stream_insert(Relation rel, HeapTuple *stored, uint32 n);

/*
 * zenam_stream_change -- a row was updated, or deleted if stored is NULL.
 *
 * old: as it was stored.  identity_needed: the new row does not tell the old one's replica identity.
 */
extern void zenam_stream_change(Relation rel, HeapTuple old, HeapTuple stored, bool identity_needed);

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

#endif							/* ZENAM_STREAM_H */
