/*
 * zenam_publish.c -- a publication that could not send a zen table's changes is refused.
 *
 * Logical decoding reads the WAL, and with zen.stream = off zen tables write none.  Then commands that bring a zen
 * table and a publication together are refused (admin/replication.c).  Some ways lead past that:
 *
 * - the server was started with zen.stream = logical, or with a wal_level too low for decoding, and is not any more;
 * - one session makes the publication, another one the table, and neither sees what the other has not committed;
 * - C code makes one of them without a statement.
 *
 * So each change of a row, and TRUNCATE, check it again, as PostgreSQL checks for a replica identity.  The answer is
 * kept in the relcache entry, which every change of publications invalidates.
 */
#include "table/zenam_publish.h"

#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "table/zenam_rel.h"
#include "utils/lsyscache.h"

static bool
sends_anything(const PublicationActions *actions)
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

void
zen_refuse_published(Oid relid)
{
	List	   *publications;
	ListCell   *lc;

	Assert(zen_hides_changes());
	if (!is_publishable(relid))
		return;
	publications = publications_naming(relid);
	if (get_rel_relispartition(relid))
		foreach(lc, get_partition_ancestors(relid))
			publications = list_concat(publications, publications_naming(lfirst_oid(lc)));
	publications = list_concat(publications, GetAllTablesPublications());
	foreach(lc, publications)
	{
		Publication *pub = GetPublication(lfirst_oid(lc));

		if (sends_anything(&pub->pubactions))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("publication \"%s\" cannot send the changes of zen table \"%s\"",
							pub->name, get_rel_name(relid)),
					 errdetail("Logical replication reads the write-ahead log, and with zen.stream = off zen tables "
							   "are not in it."),
					 errhint("Set zen.stream = logical, and restart the server; publications FOR ALL TABLES need "
							 "that.  Or leave the table out of publications, or use heap for it.  To move shards "
							 "of Citus, use shard_transfer_mode => 'block_writes'.")));
	}
}

void
zen_refuse_published_change(Relation rel)
{
	PublicationDesc desc;

	Assert(zen_rel_is_zen(rel));
	/* a rewrite is not decoded: its rows were sent as they came */
	if (OidIsValid(rel->rd_rel->relrewrite))
		return;
	RelationBuildPublicationDesc(rel, &desc);
	if (sends_anything(&desc.pubactions))
		zen_refuse_published(RelationGetRelid(rel));
}
