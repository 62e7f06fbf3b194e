/*
 * standbytoast.c -- long values on a hot standby, where the index of a toast table is not there.
 *
 * A tree stands in for it (standbytree.c).  Where there is no memory for trees, a session that needs a chunk reads the
 * toast table once, and keeps the TIDs of all chunks: 16 bytes each, sorted by value and number.  A TID is a hint: the
 * chunk is read under it and must have the value's id and number.  If there is none, the table is read again.
 *
 * A chunk is visible to each snapshot that sees the row.  If the row was read by another snapshot than the active
 * one, the chunk may be deleted for that.  Then SnapshotToast finds it, as on a primary.
 */
#include "table/standbytoast.h"

#include "access/detoast.h"
#include "access/heaptoast.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_internals.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "recovery/gate.h"
#include "row/rowread.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define FIRST_CHUNKS	1024

typedef struct ChunkTid
{
	Oid			valueid;
	int32		seq;
	uint64		tidno;
} ChunkTid;

/* The chunks of a toast table. */
typedef struct ToastMap
{
	RelFileLocator loc;
	ChunkTid   *chunks;
	Size		n;
	Size		capacity;
} ToastMap;

static List *toast_maps = NIL;	/* in TopMemoryContext */

bool		(*zen_standbytoast_chunks) (Relation toastrel, Oid valueid, int32 first, int32 last,
										ZenChunkTids *tids) = NULL;

static ToastMap *
map_of(Relation toastrel)
{
	RelFileLocator loc = zen_rel_locator(toastrel);
	MemoryContext old;
	ToastMap   *map;
	ListCell   *lc;

	foreach(lc, toast_maps)
	{
		map = lfirst(lc);
		if (zen_same_locator(map->loc, loc))
			return map;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	map = palloc0(sizeof(ToastMap));
	map->loc = loc;
	toast_maps = lappend(toast_maps, map);
	MemoryContextSwitchTo(old);
	return map;
}

static void
add_chunk_tid(ToastMap *map, Oid valueid, int32 seq, uint64 tidno)
{
	if (map->n == map->capacity)
	{
		Size		wanted = Max(FIRST_CHUNKS, 2 * map->capacity);

		map->chunks = map->chunks ? repalloc_huge(map->chunks, wanted * sizeof(ChunkTid)) :
			MemoryContextAllocHuge(TopMemoryContext, wanted * sizeof(ChunkTid));
		map->capacity = wanted;
	}
	map->chunks[map->n++] = (ChunkTid)
	{
		.valueid = valueid,.seq = seq,.tidno = tidno
	};
}

static int
compare_chunks(const void *a, const void *b)
{
	const ChunkTid *x = a;
	const ChunkTid *y = b;

	if (x->valueid != y->valueid)
		return x->valueid < y->valueid ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->tidno < y->tidno ? -1 : x->tidno > y->tidno;
}

/* Which chunk does a slot show? */
static void
chunk_of(TupleTableSlot *slot, Oid *valueid, int32 *seq)
{
	bool		isnull;

	*valueid = DatumGetObjectId(slot_getattr(slot, 1, &isnull));
	*seq = isnull ? -1 : DatumGetInt32(slot_getattr(slot, 2, &isnull));
}

static void
read_toast_table(ToastMap *map, Relation toastrel, Snapshot snapshot, TupleTableSlot *slot)
{
	TableScanDesc scan = table_beginscan(toastrel, snapshot, 0, NULL);

	map->n = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Oid			valueid;
		int32		seq;

		CHECK_FOR_INTERRUPTS();
		chunk_of(slot, &valueid, &seq);
		add_chunk_tid(map, valueid, seq, zen_tidno(&slot->tts_tid));
	}
	table_endscan(scan);
	if (map->n > 1)
		qsort(map->chunks, map->n, sizeof(ChunkTid), compare_chunks);
}

/* The first chunk that is not before this one. */
static Size
lower_bound(const ToastMap *map, Oid valueid, int32 seq)
{
	ChunkTid	key = {.valueid = valueid,.seq = seq};
	Size		low = 0,
				high = map->n;

	while (low < high)
	{
		Size		middle = low + (high - low) / 2;

		if (compare_chunks(&map->chunks[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool
show_chunk(Relation toastrel, const ChunkTid *chunk, Snapshot snapshot, TupleTableSlot *slot)
{
	ZenFetch	f = {.ht = zen_rel_htable_raw(toastrel),.tidno = chunk->tidno,.snapshot = snapshot,
	.code = ZEN_ANY_CODE};
	Oid			valueid;
	int32		seq;

	if (!zen_fetch(toastrel, &f, slot, ZEN_READ_TABLE))
		return false;
	chunk_of(slot, &valueid, &seq);
	return valueid == chunk->valueid && seq == chunk->seq;
}

static bool
find_chunk(const ToastMap *map, Relation toastrel, Oid valueid, int32 seq, Snapshot snapshot, TupleTableSlot *slot)
{
	for (Size i = lower_bound(map, valueid, seq);
		 i < map->n && map->chunks[i].valueid == valueid && map->chunks[i].seq == seq; i++)
		if (show_chunk(toastrel, &map->chunks[i], snapshot, slot))
			return true;
	return false;
}

/* ---------- finding ---------- */

/* The snapshots by which a chunk may be seen: the active one, or NULL, and SnapshotToast. */
typedef struct ChunkSnapshots
{
	SnapshotData toast;
	Snapshot	by[2];
} ChunkSnapshots;

static void
get_snapshots(ChunkSnapshots *s)
{
	s->toast = (SnapshotData)
	{
		.snapshot_type = SNAPSHOT_TOAST
	};
	s->by[0] = ActiveSnapshotSet() ? GetActiveSnapshot() : NULL;
	s->by[1] = &s->toast;
}

static bool
find_by_map(Relation toastrel, Oid valueid, int32 seq, TupleTableSlot *slot)
{
	ToastMap   *map = map_of(toastrel);
	ChunkSnapshots s;

	get_snapshots(&s);
	for (int i = 0; i < 2; i++)
		if (s.by[i] != NULL && find_chunk(map, toastrel, valueid, seq, s.by[i], slot))
			return true;
	for (int i = 0; i < 2; i++)
	{
		if (s.by[i] == NULL)
			continue;
		read_toast_table(map, toastrel, s.by[i], slot);
		if (find_chunk(map, toastrel, valueid, seq, s.by[i], slot))
			return true;
	}
	return false;
}

/* TIDs of the chunks before it are passed over: their chunks have gone, or are another value's. */
static bool
find_by_tree(ZenStandbyValue *value, int32 seq, TupleTableSlot *slot)
{
	ChunkSnapshots s;

	get_snapshots(&s);
	for (; value->next < value->tids.n; value->next++)
	{
		ChunkTid	chunk = {.valueid = value->valueid,.seq = seq,.tidno = value->tids.tidnos[value->next]};

		for (int i = 0; i < 2; i++)
			if (s.by[i] != NULL && show_chunk(value->toastrel, &chunk, s.by[i], slot))
			{
				value->next++;
				return true;
			}
	}
	return false;
}

void
zen_standbytoast_begin(ZenStandbyValue *value, Relation toastrel, Oid valueid, int32 first, int32 last)
{
	memset(value, 0, sizeof(*value));
	value->toastrel = toastrel;
	value->valueid = valueid;
	value->by_tree = zen_standbytoast_chunks(toastrel, valueid, first, last, &value->tids);
}

bool
zen_standbytoast_find(ZenStandbyValue *value, int32 seq, TupleTableSlot *slot)
{
	return value->by_tree ? find_by_tree(value, seq, slot) :
		find_by_map(value->toastrel, value->valueid, seq, slot);
}

void
zen_standbytoast_end(ZenStandbyValue *value)
{
	if (value->tids.tidnos != NULL)
		pfree(value->tids.tidnos);
}

/* ---------- a whole value ---------- */

/* The bytes of the next chunk go to *to; false: there is none, or it does not fit. */
static bool
read_chunk(ZenStandbyValue *value, int32 seq, TupleTableSlot *slot, char *to, int32 size)
{
	struct varlena *chunk;
	bool		isnull;

	if (!zen_standbytoast_find(value, seq, slot))
		return false;
	chunk = (struct varlena *) DatumGetPointer(slot_getattr(slot, 3, &isnull));
	if (isnull || VARATT_IS_EXTERNAL(chunk) || VARATT_IS_COMPRESSED(chunk) || VARSIZE_ANY_EXHDR(chunk) != size)
		return false;
	memcpy(to, VARDATA_ANY(chunk), size);
	return true;
}

struct varlena *
zen_standbytoast_read(struct varlena *pointer)
{
	struct varatt_external p;
	ZenStandbyValue chunks;
	struct varlena *value;
	Relation	toastrel;
	TupleTableSlot *slot;
	int32		size;
	int32		done = 0;
	bool		whole = true;

	VARATT_EXTERNAL_GET_POINTER(p, pointer);
	size = VARATT_EXTERNAL_GET_EXTSIZE(p);
	value = palloc(size + VARHDRSZ);
	if (VARATT_EXTERNAL_IS_COMPRESSED(p))
		SET_VARSIZE_COMPRESSED(value, size + VARHDRSZ);
	else
		SET_VARSIZE(value, size + VARHDRSZ);
	toastrel = table_open(p.va_toastrelid, AccessShareLock);
	slot = table_slot_create(toastrel, NULL);
	zen_standbytoast_begin(&chunks, toastrel, p.va_valueid, 0, (size - 1) / TOAST_MAX_CHUNK_SIZE);
	for (int32 seq = 0; whole && done < size; seq++)
	{
		int32		n = Min((int32) TOAST_MAX_CHUNK_SIZE, size - done);

		whole = read_chunk(&chunks, seq, slot, VARDATA(value) + done, n);
		done += n;
	}
	zen_standbytoast_end(&chunks);
	ExecDropSingleTupleTableSlot(slot);
	table_close(toastrel, AccessShareLock);
	return whole ? value : NULL;
}
