/*
 * zenam_stream.c -- changes of zen tables for logical decoding: which are logged, and which are refused.
 *
 * The rules are heapam's (RelationIsLogicallyLogged, ExtractReplicaIdentity), so that a reader of changes finds no
 * difference between a heap table and a zen table.  src/stream/README, "What is logged", lists them.  Of long values
 * only chunks are logged, when they are inserted: a value that an update leaves as it was is not in the new row of the
 * record.  The old row has long values in full.
 *
 * Where changes are hidden (zen_hides_changes), each change of a row, and TRUNCATE, check again that no publication
 * sends them: src/table/README, "Publications".
 */
#include "table/zenam_stream.h"

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "base/epoch.h"
#include "catalog/catalog.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "stream/streamtail.h"
#include "table/zenam_rel.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

/* ---------- what is logged ---------- */

bool
zenam_stream_logs_table(Relation rel)
{
	Assert(zen_stream != ZEN_STREAM_OFF);
	return RelationIsLogicallyLogged(rel) && !OidIsValid(rel->rd_rel->relrewrite);
}

/* A tuple with all of its values in it. */
static HeapTuple
flatten(Relation rel, HeapTuple tuple)
{
	return HeapTupleHasExternal(tuple) ? toast_flatten_tuple(tuple, RelationGetDescr(rel)) : tuple;
}

/* The columns of the replica identity's index, the others NULL; NULL if there is no such index. */
static HeapTuple
identity_key(Relation rel, HeapTuple old)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *columns = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];

	if (bms_is_empty(columns))
		return NULL;
	heap_deform_tuple(old, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (!bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, columns))
			isnull[i] = true;
	bms_free(columns);
	return flatten(rel, heap_form_tuple(desc, values, isnull));
}

/* The part of the old row that is in a record; NULL for none.  needed: the key has changed, or the row is gone. */
static HeapTuple
old_identity(Relation rel, HeapTuple old, bool needed)
{
	switch (rel->rd_rel->relreplident)
	{
		case REPLICA_IDENTITY_NOTHING:
			return NULL;
		case REPLICA_IDENTITY_FULL:
			return flatten(rel, old);
		default:
			return needed ? identity_key(rel, old) : NULL;
	}
}

static void
begin_log(Relation rel)
{
	ZenAssertNotInEpoch();
	zen_streamlog_begin(zen_rel_locator(rel), rel->rd_rel->relkind == RELKIND_TOASTVALUE);
}

void
zenam_stream_insert(Relation rel, HeapTuple *stored, uint32 n)
{
	Assert(zenam_stream_logs(rel) && n > 0);
	begin_log(rel);
	for (uint32 i = 0; i < n; i++)
		zen_streamlog_add(ZEN_STREAM_INSERT, stored[i], NULL);
	zen_streamlog_end();
}

void
zenam_stream_change(Relation rel, HeapTuple old, HeapTuple stored, bool identity_needed)
{
	HeapTuple	identity = old_identity(rel, old, identity_needed);

	Assert(zenam_stream_logs(rel) && (stored != NULL || rel->rd_rel->relkind != RELKIND_TOASTVALUE));
	begin_log(rel);
	zen_streamlog_add(stored != NULL ? ZEN_STREAM_UPDATE : ZEN_STREAM_DELETE, stored, identity);
	zen_streamlog_end();
	if (identity != NULL && identity != old)
		heap_freetuple(identity);
}

/* ---------- what is refused ---------- */

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
