/*
 * zenam_publish.c -- a change of a zen table that a publication would send is refused.
 *
 * Logical decoding reads the WAL, and with zen.stream = off zen tables write none.  Then commands that bring a zen
 * table and a publication together are refused (admin/replication.c).  Some ways lead past that:
 *
 * - the publication was made while wal_level was too low for decoding, or by an earlier version of zen;
 * - one session makes the publication, another one the table, and neither sees what the other has not committed;
 * - zen.publications is set back.
 *
 * So each change of a row, and TRUNCATE, ask, too, as PostgreSQL asks for a replica identity.  The answer is kept in
 * the relcache entry, which every change of publications invalidates.
 */
#include "table/zenam_publish.h"

#include "base/guc.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "miscadmin.h"
#include "table/zenam_rel.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

bool		zen_truncate_undecoded = false;

bool
zen_sends_anything(const PublicationActions *actions)
{
	return actions->pubinsert || actions->pubupdate || actions->pubdelete || actions->pubtruncate;
}

/* The publications that send the table, or its partitions in its name. */
static List *
publications_naming(Oid relid)
{
	return list_concat(GetRelationPublications(relid), GetSchemaPublications(get_rel_namespace(relid)));
}

/* The relation kinds that publications skip are materialized views, toast tables, and tables that are not permanent. */
static bool
is_publishable(Oid relid)
{
	return zen_relid_is_zen(relid) && get_rel_relkind(relid) == RELKIND_RELATION &&
		get_rel_persistence(relid) == RELPERSISTENCE_PERMANENT;
}

char *
zen_publication_of(Oid relid)
{
	List	   *publications;
	ListCell   *lc;

	if (!is_publishable(relid))
		return NULL;
	publications = publications_naming(relid);
	if (get_rel_relispartition(relid))
		foreach(lc, get_partition_ancestors(relid))
			publications = list_concat(publications, publications_naming(lfirst_oid(lc)));
	publications = list_concat(publications, GetAllTablesPublications());
	foreach(lc, publications)
	{
		Publication *pub = GetPublication(lfirst_oid(lc));

		if (zen_sends_anything(&pub->pubactions))
			return pub->name;
	}
	return NULL;
}

static void
explain(void)
{
	errcode(ERRCODE_FEATURE_NOT_SUPPORTED);
	errdetail("Logical replication reads the write-ahead log, and zen tables are not in it.");
	errhint("Set zen.stream = logical, or use heap for tables that are to be replicated.  To move shards of Citus, "
			"use shard_transfer_mode => 'block_writes'.  For a publication that is meant for its heap tables, set "
			"zen.publications = 'warning'.");
}

void
zen_report_published(Oid relid, const char *publication)
{
	Assert(publication != NULL && zen_relid_is_zen(relid));
	/* pg_upgrade carries over publications that the old cluster has allowed */
	if (zen_publications == ZEN_PUBLICATIONS_WARNING || IsBinaryUpgrade)
		ereport(WARNING,
				(errmsg("publication \"%s\" does not send the changes of zen table \"%s\"",
						publication, get_rel_name(relid)),
				 explain()));
	else
		ereport(ERROR,
				(errmsg("publication \"%s\" cannot send the changes of zen table \"%s\"",
						publication, get_rel_name(relid)),
				 explain()));
}

void
zen_refuse_published_change(Relation rel)
{
	PublicationDesc desc;
	char	   *publication;

	Assert(zen_hides_changes() && zen_rel_is_zen(rel));
	/* a rewrite is not decoded: its rows were sent as they came */
	if (zen_publications == ZEN_PUBLICATIONS_WARNING || OidIsValid(rel->rd_rel->relrewrite))
		return;
	RelationBuildPublicationDesc(rel, &desc);
	if (!zen_sends_anything(&desc.pubactions))
		return;
	publication = zen_publication_of(RelationGetRelid(rel));
	if (publication != NULL)
		zen_report_published(RelationGetRelid(rel), publication);
}

void
zen_refuse_published_truncate(Relation rel)
{
	PublicationDesc desc;

	zen_refuse_published_change(rel);
	if (zen_publications != ZEN_PUBLICATIONS_WARNING || zen_truncate_undecoded)
		return;
	RelationBuildPublicationDesc(rel, &desc);
	if (desc.pubactions.pubtruncate)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a publication would send TRUNCATE of zen table \"%s\", but not its other changes",
						RelationGetRelationName(rel)),
				 errdetail("TRUNCATE statements of clients are not sent, if zen comes before other "
						   "libraries with utility hooks."),
				 errhint("Put zen first in shared_preload_libraries, publish without truncate, or use DELETE.")));
}
