/*
 * zenam_stream.c -- changes of zen tables for logical decoding: which are logged, and how much of the old row.
 *
 * The rules are heapam's (RelationIsLogicallyLogged, ExtractReplicaIdentity), so that a reader of changes finds no
 * difference between a heap table and a zen table.
 *
 * - What a rewrite copies is not logged: the rows were sent as they came.
 * - Chunks of long values are logged when they are inserted, and not when they are deleted.  A value that an update
 *   leaves as it was is not in the new row of the record.
 * - The old row is in the record in as far as the replica identity wants it, long values in full.
 */
#include "table/zenam_stream.h"

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "base/epoch.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "stream/streamlog.h"
#include "utils/relcache.h"

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
key_of(Relation rel, HeapTuple old)
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
identity_of(Relation rel, HeapTuple old, bool needed)
{
	switch (rel->rd_rel->relreplident)
	{
		case REPLICA_IDENTITY_NOTHING:
			return NULL;
		case REPLICA_IDENTITY_FULL:
			return flatten(rel, old);
		default:
			return needed ? key_of(rel, old) : NULL;
	}
}

static void
begin(Relation rel)
{
	ZenAssertNotInEpoch();
	zen_streamlog_begin(zen_rel_locator(rel), rel->rd_rel->relkind == RELKIND_TOASTVALUE);
}

void
zenam_stream_insert(Relation rel, HeapTuple *stored, uint32 n)
{
	Assert(zenam_stream_logs(rel) && n > 0);
	begin(rel);
	for (uint32 i = 0; i < n; i++)
		zen_streamlog_add(ZEN_STREAM_INSERT, stored[i], NULL);
	zen_streamlog_end();
}

void
zenam_stream_update(Relation rel, HeapTuple old, HeapTuple stored, bool identity_needed)
{
	HeapTuple	identity = identity_of(rel, old, identity_needed);

	Assert(zenam_stream_logs(rel));
	begin(rel);
	zen_streamlog_add(ZEN_STREAM_UPDATE, stored, identity);
	zen_streamlog_end();
	if (identity != NULL && identity != old)
		heap_freetuple(identity);
}

void
zenam_stream_delete(Relation rel, HeapTuple old)
{
	HeapTuple	identity = identity_of(rel, old, true);

	Assert(zenam_stream_logs(rel) && rel->rd_rel->relkind != RELKIND_TOASTVALUE);
	begin(rel);
	zen_streamlog_add(ZEN_STREAM_DELETE, NULL, identity);
	zen_streamlog_end();
	if (identity != NULL && identity != old)
		heap_freetuple(identity);
}
