/*
 * zenam_publish.h -- without zen.stream logical replication does not carry zen tables: no change is lost in silence.
 */
#ifndef ZENAM_PUBLISH_H
#define ZENAM_PUBLISH_H

#include "base/compat.h"

#include "access/xlog.h"
#include "base/guc.h"
#include "catalog/pg_publication.h"
#include "utils/rel.h"

/* zen_hides_changes -- are changes decoded, and zen's are not among them? */
static inline bool
zen_hides_changes(void)
{
	return XLogLogicalInfoActive() && zen_stream == ZEN_STREAM_OFF;
}

/* zen_sends_anything -- does a publication with these actions send any change? */
extern bool zen_sends_anything(const PublicationActions *actions);

/*
 * zen_publication_of -- the name of a publication that would send changes of the zen table: directly, by its schema,
 * by a partition root or as one of all tables.  NULL if there is none, or the relation is no zen table or gone.
 * Palloc'd.
 */
extern char *zen_publication_of(Oid relid);

/*
 * zen_report_published -- the publication would send the zen table: throws ERRCODE_FEATURE_NOT_SUPPORTED, or warns
 * where zen.publications asks for that.
 */
extern void zen_report_published(Oid relid, const char *publication);

/* True while a TRUNCATE runs that does not name zen tables to readers of the WAL; set by admin/truncate.c. */
extern bool zen_truncate_undecoded;

/* zen_refuse_published_truncate -- zen_check_truncate() where changes are decoded. */
extern void zen_refuse_published_truncate(Relation rel);

/* zen_refuse_published_change -- zen_check_change() where changes are decoded. */
extern void zen_refuse_published_change(Relation rel);

/*
 * zen_check_change -- before a change of a zen table's rows: throws if a publication would send the change, unless
 * zen.publications allows such tables.
 */
static inline void
zen_check_change(Relation rel)
{
	if (unlikely(zen_hides_changes()))
		zen_refuse_published_change(rel);
}

/*
 * zen_check_truncate -- before a zen table is truncated: throws as zen_check_change() does.  Where zen.publications
 * allows such tables, throws if a publication would send the TRUNCATE, after changes that it has not sent.
 */
static inline void
zen_check_truncate(Relation rel)
{
	if (unlikely(zen_hides_changes()))
		zen_refuse_published_truncate(rel);
}

#endif							/* ZENAM_PUBLISH_H */
