/*
 * zenam_toast.c -- the toaster: long values compressed, cut into chunks, kept in a zen toast table.
 *
 * PostgreSQL's own code chooses values and compresses them (access/toast_helper.h).  A chunk is written by
 * zenam_change.c. src/table/README, "Toast", has the rules: whose a value is, what a toast snapshot sees, which ids are
 * new.
 */
#include "table/zenam_toast.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/toast_helper.h"
#include "access/toast_internals.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "table/standbytoast.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_change.h"
#include "table/zenam_rel.h"
#include "table/zenam_stream.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

/* Columns of every toast table, and of its index without the last. */
enum
{
	CHUNK_ID = 1,
	CHUNK_SEQ,
	CHUNK_DATA,
	CHUNK_NATTS = CHUNK_DATA
};

/* An open toast table. */
typedef struct ToastTable
{
	Relation	rel;
	Relation   *indexes;
	int			nindexes;
	int			valid;			/* the index to search with */
} ToastTable;

/* A row being toasted; about 60 KB, on the stack as heap's. */
typedef struct Toaster
{
	ToastTupleContext ttc;
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	Datum		old_values[MaxHeapAttributeNumber];
	bool		old_isnull[MaxHeapAttributeNumber];
	ToastAttrInfo attrs[MaxHeapAttributeNumber];
} Toaster;

/* Which bytes of a value are wanted, and how far they have been read. */
typedef struct Slice
{
	Relation	toastrel;
	Oid			valueid;
	int32		size;			/* of the whole value */
	int32		begin;			/* bytes begin .. end - 1 of it are wanted */
	int32		end;
	int32		next_chunk;		/* expected next */
	char	   *result;
} Slice;

/* Sees every chunk whose writer has not aborted.  It is never changed. */
static SnapshotData toast_snapshot = {.snapshot_type = SNAPSHOT_TOAST};

/* ---------- toast tables ---------- */

static void
open_toast_table(ToastTable *t, Relation rel, LOCKMODE lockmode)
{
	Assert(rel->rd_rel->relkind == RELKIND_TOASTVALUE);
	Assert(CheckRelationLockedByMe(rel, lockmode, true));

	/* wait for usable indexes first: their rebuild may need the locks */
	(void) zen_rel_htable(rel);
	t->rel = rel;
	t->valid = toast_open_indexes(rel, lockmode, &t->indexes, &t->nindexes);
	Assert(t->valid >= 0 && t->valid < t->nindexes);
}

/* A scan over chunks of one value in order; keys[0] is filled here, the caller may have filled others. */
static SysScanDesc
begin_value_scan(ToastTable *t, Oid valueid, ScanKeyData *keys, int nkeys)
{
	Assert(OidIsValid(valueid));
	ScanKeyInit(&keys[0], CHUNK_ID, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(valueid));
	return systable_beginscan_ordered(t->rel, t->indexes[t->valid], &toast_snapshot, nkeys, keys);
}

/*
 * A transaction's snapshots keep values that it can see from collection; without any, a value may go while it is
 * read.
 */
static void
check_snapshot(void)
{
	if (!HaveRegisteredOrActiveSnapshot())
		elog(ERROR, "cannot fetch toast data without an active snapshot");
}

/* ---------- value ids ---------- */

static bool
value_exists(ToastTable *t, Oid valueid)
{
	ScanKeyData key;
	SysScanDesc scan = begin_value_scan(t, valueid, &key, 1);
	bool		found = systable_getnext_ordered(scan, ForwardScanDirection) != NULL;

	systable_endscan_ordered(scan);
	return found;
}

static bool
value_exists_in(Oid toastrelid, Oid valueid)
{
	Relation	rel = table_open(toastrelid, AccessShareLock);
	ToastTable	t;
	bool		found;

	open_toast_table(&t, rel, AccessShareLock);
	found = value_exists(&t, valueid);
	toast_close_indexes(t.indexes, t.nindexes, AccessShareLock);
	table_close(rel, AccessShareLock);
	return found;
}

/* An id that is new to the toast table and, while its owner is being rewritten, to the one it replaces. */
static Oid
new_value_id(ToastTable *t, Oid replaced)
{
	Oid			valueid;

	do
	{
		CHECK_FOR_INTERRUPTS();
		valueid = GetNewObjectId();
	} while (value_exists(t, valueid) || (OidIsValid(replaced) && value_exists_in(replaced, valueid)));
	return valueid;
}

/* The id that a value had in toast table toastrelid, or InvalidOid. */
static Oid
former_value_id(Oid toastrelid, struct varlena *oldexternal)
{
	struct varatt_external pointer;

	if (oldexternal == NULL || !VARATT_IS_EXTERNAL_ONDISK(oldexternal))
		return InvalidOid;
	VARATT_EXTERNAL_GET_POINTER(pointer, oldexternal);
	return pointer.va_toastrelid == toastrelid ? pointer.va_valueid : InvalidOid;
}

/* ---------- saving ---------- */

/* Fill size and compression method of a toast pointer; returns the bytes to be saved. */
static char *
describe_value(struct varlena *value, struct varatt_external *pointer, int32 *size)
{
	char	   *data;

	Assert(!VARATT_IS_EXTERNAL(value));
	if (VARATT_IS_COMPRESSED(value))
	{
		data = VARDATA(value);
		*size = VARSIZE(value) - VARHDRSZ;
		pointer->va_rawsize = VARDATA_COMPRESSED_GET_EXTSIZE(value) + VARHDRSZ;
		VARATT_EXTERNAL_SET_SIZE_AND_COMPRESS_METHOD(*pointer, *size, VARDATA_COMPRESSED_GET_COMPRESS_METHOD(value));
	}
	else
	{
		data = VARDATA_ANY(value);
		*size = VARSIZE_ANY_EXHDR(value);
		pointer->va_rawsize = *size + VARHDRSZ; /* as if its header were long */
		pointer->va_extinfo = *size;
	}
	return data;
}

/* Insert one chunk and enter it into the indexes, whose columns are the first ones of the table. */
static void
insert_chunk(ToastTable *t, Datum *values, CommandId cid)
{
	bool		isnull[CHUNK_NATTS] = {false};
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(t->rel), values, isnull);

	Assert(tuple->t_len <= TOAST_TUPLE_THRESHOLD);	/* needs no toasting */
	zenam_change_insert(t->rel, tuple, cid, 0, 0);
	if (zenam_stream_logs(t->rel))
		zenam_stream_insert(t->rel, &tuple, 1);
	pgstat_count_heap_insert(t->rel, 1);
	for (int i = 0; i < t->nindexes; i++)
	{
		Form_pg_index index = t->indexes[i]->rd_index;

		/* one that is not ready is being built, and will find the row */
		if (index->indisready)
			index_insert(t->indexes[i], values, isnull, &tuple->t_self, t->rel,
						 index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, NULL);
	}
	heap_freetuple(tuple);
}

/* Insert a long value into the toast table, chunk by chunk. */
static void
insert_chunks(ToastTable *t, Oid valueid, const char *data, int32 size)
{
	CommandId	cid = GetCurrentCommandId(true);
	Datum		values[CHUNK_NATTS];
	union
	{
		struct varlena header;
		char		bytes[VARHDRSZ + TOAST_MAX_CHUNK_SIZE];
		int32		aligned;	/* as VARSIZE reads it */
	}			chunk;

	Assert(OidIsValid(valueid) && size > 0);
	values[CHUNK_ID - 1] = ObjectIdGetDatum(valueid);
	values[CHUNK_DATA - 1] = PointerGetDatum(&chunk);
	for (int32 seq = 0, done = 0; done < size; seq++)
	{
		int32		n = Min(size - done, (int32) TOAST_MAX_CHUNK_SIZE);

		CHECK_FOR_INTERRUPTS();
		values[CHUNK_SEQ - 1] = Int32GetDatum(seq);
		SET_VARSIZE(&chunk, n + VARHDRSZ);
		memcpy(VARDATA(&chunk), data + done, n);
		insert_chunk(t, values, cid);
		done += n;
	}
}

/*
 * Save a value in the toast table of rel; returns a palloc'd toast pointer.
 *
 * While rel is being rewritten to replace a table (rd_toastoid is set), its toast table will end up under the name of
 * the replaced one: pointers bear that name, and values that come from there (oldexternal) keep their ids.  A value
 * that several versions of a row share is then saved with the first of them.
 */
static Datum
save_value(Relation rel, Datum value, struct varlena *oldexternal)
{
	Oid			replaced = rel->rd_toastoid;
	Relation	toastrel = table_open(rel->rd_rel->reltoastrelid, RowExclusiveLock);
	ToastTable	t;
	struct varatt_external pointer;
	struct varlena *result;
	char	   *data;
	int32		size;

	Assert(OidIsValid(rel->rd_rel->reltoastrelid));
	open_toast_table(&t, toastrel, RowExclusiveLock);
	data = describe_value((struct varlena *) DatumGetPointer(value), &pointer, &size);
	pointer.va_toastrelid = OidIsValid(replaced) ? replaced : RelationGetRelid(toastrel);
	pointer.va_valueid = OidIsValid(replaced) ? former_value_id(replaced, oldexternal) : InvalidOid;

	if (!OidIsValid(pointer.va_valueid))
	{
		pointer.va_valueid = new_value_id(&t, replaced);
		insert_chunks(&t, pointer.va_valueid, data, size);
	}
	else if (!value_exists(&t, pointer.va_valueid))
		insert_chunks(&t, pointer.va_valueid, data, size);

	/* locked until the transaction ends: a REINDEX must wait for that */
	toast_close_indexes(t.indexes, t.nindexes, NoLock);
	table_close(toastrel, NoLock);

	result = palloc(TOAST_POINTER_SIZE);
	SET_VARTAG_EXTERNAL(result, VARTAG_ONDISK);
	memcpy(VARDATA_EXTERNAL(result), &pointer, sizeof(pointer));
	return PointerGetDatum(result);
}

/* ---------- deleting ---------- */

/* Delete a chunk, which no other transaction can be changing. */
static void
delete_chunk(Relation toastrel, ItemPointer tid, CommandId cid)
{
	ZenChange	c;
	TM_Result	result;

	zenam_change_begin(&c, toastrel, tid, cid, LockTupleExclusive, InvalidSnapshot);
	result = zenam_change_delete(&c, toastrel, true);
	Assert(toastrel->rd_rel->relkind == RELKIND_TOASTVALUE);
	if (result != TM_Ok)
		elog(ERROR, "tuple of relation \"%s\" could not be deleted: result %d",
			 RelationGetRelationName(toastrel), (int) result);
	pgstat_count_heap_delete(toastrel);
}

/*
 * Delete the chunks of a value of rel, if it is out of line.
 *
 * The chunks of a speculative insertion were written by this very command; their deletion must count as later than
 * that.
 */
static void
delete_value(Relation rel, Datum value, bool is_speculative)
{
	struct varlena *attr = (struct varlena *) DatumGetPointer(value);
	struct varatt_external pointer;
	CommandId	cid;
	Relation	toastrel;
	ToastTable	t;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	chunk;

	if (!VARATT_IS_EXTERNAL_ONDISK(attr))
		return;
	VARATT_EXTERNAL_GET_POINTER(pointer, attr);
	/* a row not yet stored may hold pointers to values of other tables */
	if (pointer.va_toastrelid != rel->rd_rel->reltoastrelid)
		return;
	check_snapshot();
	cid = GetCurrentCommandId(true) + (is_speculative ? 1 : 0);
	toastrel = table_open(pointer.va_toastrelid, RowExclusiveLock);
	open_toast_table(&t, toastrel, RowExclusiveLock);
	scan = begin_value_scan(&t, pointer.va_valueid, &key, 1);
	while ((chunk = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		delete_chunk(toastrel, &chunk->t_self, cid);
	}
	systable_endscan_ordered(scan);
	toast_close_indexes(t.indexes, t.nindexes, NoLock);
	table_close(toastrel, NoLock);
}

void
zen_toast_delete(Relation rel, HeapTuple oldtup, bool is_speculative)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];

	Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	if (!HeapTupleHasExternal(oldtup))
		return;
	heap_deform_tuple(oldtup, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attlen == -1 && !isnull[i])
			delete_value(rel, values[i], is_speculative);
}

/* ---------- making a row fit ---------- */

static void
init_toaster(Toaster *t, Relation rel, HeapTuple newtup, HeapTuple oldtup)
{
	TupleDesc	desc = RelationGetDescr(rel);

	heap_deform_tuple(newtup, desc, t->values, t->isnull);
	if (oldtup != NULL)
		heap_deform_tuple(oldtup, desc, t->old_values, t->old_isnull);
	t->ttc.ttc_rel = rel;
	t->ttc.ttc_values = t->values;
	t->ttc.ttc_isnull = t->isnull;
	t->ttc.ttc_oldvalues = oldtup ? t->old_values : NULL;
	t->ttc.ttc_oldisnull = oldtup ? t->old_isnull : NULL;
	t->ttc.ttc_attr = t->attrs;

	/*
	 * fetches values that are another row's, a foreign table's or only in
	 * memory: they are saved anew below
	 */
	toast_tuple_init(&t->ttc);
}

/* The data of a row of target bytes may take this many, header and null bitmap left out. */
static Size
data_limit(Toaster *t, Size target)
{
	Size		header = SizeofHeapTupleHeader;

	if (t->ttc.ttc_flags & TOAST_HAS_NULLS)
		header += BITMAPLEN(RelationGetNumberOfAttributes(t->ttc.ttc_rel));
	header = MAXALIGN(header);
	return target > header ? target - header : 0;
}

static bool
toast_exceeds(Toaster *t, Size limit)
{
	return heap_compute_data_size(RelationGetDescr(t->ttc.ttc_rel), t->values, t->isnull) > limit;
}

static bool
can_move_out(Toaster *t)
{
	return OidIsValid(t->ttc.ttc_rel->rd_rel->reltoastrelid);
}

static void
move_out(Toaster *t, int attno)
{
	ToastAttrInfo *attr = &t->attrs[attno];
	Datum		value = t->values[attno];

	Assert(can_move_out(t) && !t->isnull[attno]);
	attr->tai_colflags |= TOASTCOL_IGNORE;
	t->values[attno] = save_value(t->ttc.ttc_rel, value, attr->tai_oldexternal);
	if (attr->tai_colflags & TOASTCOL_NEEDS_FREE)
		pfree(DatumGetPointer(value));
	attr->tai_colflags |= TOASTCOL_NEEDS_FREE;
	t->ttc.ttc_flags |= TOAST_NEEDS_CHANGE | TOAST_NEEDS_FREE;
}

/*
 * Compress columns, biggest first: those of storage EXTENDED and EXTERNAL, or those of storage MAIN.
 *
 * A value that is by itself too big for the row, EXTERNAL or incompressible, is moved out at once unless it is MAIN.
 * So smaller columns need not be compressed for its sake.
 */
static void
compress_biggest(Toaster *t, Size limit, bool of_main)
{
	while (toast_exceeds(t, limit))
	{
		int			attno = toast_tuple_find_biggest_attribute(&t->ttc, true, of_main);

		if (attno < 0)
			break;
		if (TupleDescAttr(RelationGetDescr(t->ttc.ttc_rel), attno)->attstorage != TYPSTORAGE_EXTERNAL)
			toast_tuple_try_compression(&t->ttc, attno);
		else
			t->attrs[attno].tai_colflags |= TOASTCOL_INCOMPRESSIBLE;
		if (!of_main && (Size) t->attrs[attno].tai_size > limit && can_move_out(t))
			move_out(t, attno);
	}
}

/* Move columns out, biggest first: those of storage EXTENDED and EXTERNAL, or those of storage MAIN. */
static void
move_out_biggest(Toaster *t, Size limit, bool of_main)
{
	while (can_move_out(t) && toast_exceeds(t, limit))
	{
		int			attno = toast_tuple_find_biggest_attribute(&t->ttc, false, of_main);

		if (attno < 0)
			break;
		move_out(t, attno);
	}
}

/* Free the values made on the way, and delete the old row's values that the new one does not keep. */
static void
clean_up(Toaster *t)
{
	int			natts = RelationGetNumberOfAttributes(t->ttc.ttc_rel);

	if (t->ttc.ttc_flags & TOAST_NEEDS_FREE)
		for (int i = 0; i < natts; i++)
			if (t->attrs[i].tai_colflags & TOASTCOL_NEEDS_FREE)
				pfree(DatumGetPointer(t->values[i]));
	if (t->ttc.ttc_flags & TOAST_NEEDS_DELETE_OLD)
		for (int i = 0; i < natts; i++)
			if (t->attrs[i].tai_colflags & TOASTCOL_NEEDS_DELETE_OLD)
				delete_value(t->ttc.ttc_rel, t->old_values[i], false);
}

HeapTuple
zen_toast_insert_or_update(Relation rel, HeapTuple newtup, HeapTuple oldtup)
{
	Toaster		t;
	HeapTuple	result = newtup;
	Size		limit;

	Assert(rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW);
	ZenAssertNotInEpoch();
	Assert(oldtup == NULL || ItemPointerIsValid(&oldtup->t_self));
	init_toaster(&t, rel, newtup, oldtup);
	limit = data_limit(&t, RelationGetToastTupleTarget(rel, TOAST_TUPLE_TARGET));
	compress_biggest(&t, limit, false);
	move_out_biggest(&t, limit, false);
	compress_biggest(&t, limit, true);

	/* MAIN stays in line, unless the row would not fit a heap page */
	move_out_biggest(&t, data_limit(&t, TOAST_TUPLE_TARGET_MAIN), true);
	if (t.ttc.ttc_flags & TOAST_NEEDS_CHANGE)
	{
		result = heap_form_tuple(RelationGetDescr(rel), t.values, t.isnull);
		result->t_self = newtup->t_self;
		result->t_tableOid = newtup->t_tableOid;
	}
	clean_up(&t);
	return result;
}

bool
zen_toast_needed(Relation rel, HeapTuple tup)
{
	/* the rows of a toast table are made to measure */
	if (rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_MATVIEW)
	{
		Assert(!HeapTupleHasExternal(tup));
		return false;
	}
	return HeapTupleHasExternal(tup) || tup->t_len > TOAST_TUPLE_THRESHOLD;
}

/* ---------- fetching ---------- */

static void
bad_value(Slice *s, const char *what, int32 chunk)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("%s chunk %d of toast value %u in \"%s\"", what, chunk, s->valueid,
					RelationGetRelationName(s->toastrel))));
}

/* The bytes of a chunk. */
static char *
chunk_bytes(Slice *s, HeapTuple tuple, int32 seq, int32 *size)
{
	bool		isnull;
	struct varlena *chunk = (struct varlena *)
	DatumGetPointer(fastgetattr(tuple, CHUNK_DATA, RelationGetDescr(s->toastrel), &isnull));

	if (isnull || VARATT_IS_EXTERNAL(chunk) || VARATT_IS_COMPRESSED(chunk))
		bad_value(s, "unexpected form of", seq);
	*size = VARSIZE_ANY_EXHDR(chunk);
	return VARDATA_ANY(chunk);
}

/* Copy the wanted part of the next chunk. */
static void
copy_chunk(Slice *s, HeapTuple tuple)
{
	bool		isnull;
	int32		seq = DatumGetInt32(fastgetattr(tuple, CHUNK_SEQ, RelationGetDescr(s->toastrel), &isnull));
	int32		last = (s->end - 1) / TOAST_MAX_CHUNK_SIZE;
	int32		offset;			/* of the chunk within the value */
	int32		size;
	char	   *data;
	int32		from,
				to;

	if (isnull || seq != s->next_chunk || seq > last)
		bad_value(s, "unexpected", isnull ? -1 : seq);
	offset = seq * TOAST_MAX_CHUNK_SIZE;
	data = chunk_bytes(s, tuple, seq, &size);
	if (size != Min((int32) TOAST_MAX_CHUNK_SIZE, s->size - offset))
		bad_value(s, "unexpected size of", seq);
	from = Max(s->begin, offset);
	to = Min(s->end, offset + size);
	Assert(from >= s->begin && from < to && to <= s->end);
	memcpy(s->result + (from - s->begin), data + (from - offset), to - from);
	s->next_chunk++;
}

/* On a hot standby. */
static void
fetch_without_index(Slice *s, int32 last)
{
	TupleTableSlot *slot = table_slot_create(s->toastrel, NULL);
	ZenStandbyValue value;

	zen_standbytoast_begin(&value, s->toastrel, s->valueid, s->next_chunk, last);
	while (s->next_chunk <= last)
	{
		if (!zen_standbytoast_find(&value, s->next_chunk, slot))
			bad_value(s, "missing", s->next_chunk);
		copy_chunk(s, ExecFetchSlotHeapTuple(slot, false, NULL));
	}
	zen_standbytoast_end(&value);
	ExecDropSingleTupleTableSlot(slot);
}

static void
zenam_relation_fetch_toast_slice(Relation toastrel, Oid valueid, int32 attrsize, int32 sliceoffset,
								 int32 slicelength, struct varlena *result)
{
	Slice		s = {.toastrel = toastrel,.valueid = valueid,.size = attrsize,.begin = sliceoffset,
	.end = sliceoffset + slicelength,.result = VARDATA(result)};
	int32		first = s.begin / TOAST_MAX_CHUNK_SIZE;
	int32		last = (s.end - 1) / TOAST_MAX_CHUNK_SIZE;
	bool		whole = first == 0 && last == (attrsize - 1) / TOAST_MAX_CHUNK_SIZE;
	ToastTable	t;
	ScanKeyData keys[3];
	SysScanDesc scan;
	HeapTuple	tuple;

	Assert(sliceoffset >= 0 && slicelength > 0 && s.end <= attrsize);
	check_snapshot();
	s.next_chunk = first;
	if (RecoveryInProgress())
	{
		fetch_without_index(&s, last);
		return;
	}
	open_toast_table(&t, toastrel, AccessShareLock);
	ScanKeyInit(&keys[1], CHUNK_SEQ, BTGreaterEqualStrategyNumber, F_INT4GE, Int32GetDatum(first));
	ScanKeyInit(&keys[2], CHUNK_SEQ, BTLessEqualStrategyNumber, F_INT4LE, Int32GetDatum(last));
	/* without bounds a chunk too many is noticed */
	scan = begin_value_scan(&t, valueid, keys, whole ? 1 : 3);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
		copy_chunk(&s, tuple);
	if (s.next_chunk != last + 1)
		bad_value(&s, "missing", s.next_chunk);
	systable_endscan_ordered(scan);
	toast_close_indexes(t.indexes, t.nindexes, AccessShareLock);
}

/* ---------- what toast tables there are ---------- */

/*
 * As heap decides: a table needs one if it has columns that can be toasted and a row might become longer than the
 * toaster leaves it.
 */
static bool
zenam_relation_needs_toast_table(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int32		length = 0;		/* of the longest row's data */
	bool		toastable = false,
				unlimited = false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int32		size = att->attlen;

		if (att->attisdropped)
			continue;
		if (size <= 0)
		{
			size = type_maximum_size(att->atttypid, att->atttypmod);
			toastable |= att->attstorage != TYPSTORAGE_PLAIN;
		}
		length = att_align_nominal(length, att->attalign);
		if (size < 0)
			unlimited = true;
		else
			length += size;
	}
	if (!toastable || unlimited)
		return toastable;
	return MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(desc->natts)) + MAXALIGN(length) > TOAST_TUPLE_THRESHOLD;
}

/* Values of a zen table are in a zen table, so that they stay off the WAL. */
static Oid
zenam_relation_toast_am(Relation rel)
{
	return rel->rd_rel->relam;
}

void
zenam_toast_callbacks(TableAmRoutine *routine)
{
	routine->relation_needs_toast_table = zenam_relation_needs_toast_table;
	routine->relation_toast_am = zenam_relation_toast_am;
	routine->relation_fetch_toast_slice = zenam_relation_fetch_toast_slice;
}
