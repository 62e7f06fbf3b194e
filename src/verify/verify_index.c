/*
 * verify_index.c -- compare an index with the rows of its table.
 *
 * A pass over the index notes all TIDs to which entries lead, in a bitmap.  Then a pass over the rows that a snapshot
 * sees finds those without an entry.  How entries are read depends on the access method.  src/verify/README, "Indexes",
 * has the ways, and the arguments why no change beside it is taken for damage.
 */
#include "verify/verify.h"

#include "access/brin_internal.h"
#include "access/brin_revmap.h"
#include "access/brin_tuple.h"
#include "access/genam.h"
#include "access/hash.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "base/epoch.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "row/rowread.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "table/treeindex.h"
#include "table/zenam_build.h"
#include "table/zenam_fetch.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

typedef struct IndexCheck
{
	ZenReport  *report;
	Relation	table;
	ZenHTable  *ht;
	Relation	index;
	Snapshot	snapshot;
	const uint64 *skip;
	uint64		nskip;

	ZenIndexEntry row;			/* the row looked at, and its entry */

	/* TIDs of this pass, and which of them stand in the index */
	uint64		first;
	uint64		n;
	uint64	   *present;

	bool		has_unused;		/* an entry seems to lead to an UNUSED TID */
	bool		again;			/* VACUUM is held off, so that is a finding */
} IndexCheck;

static void
indexcheck_report(IndexCheck *c, const char *kind, uint64 tidno, const char *detail)
{
	ZenFinding	f = {.kind = kind,.relation = RelationGetRelid(c->index),.has_tid = true,.tidno = tidno};

	zen_report(c->report, &f, "%s", detail);
}

/* ---------- rows ---------- */

/* Fetch the row that the snapshot sees, if the index should know it; form: also the entry that it should have. */
static bool
indexcheck_fetch_row(IndexCheck *c, uint64 tidno, bool form)
{
	ZenFetch	f = {.ht = c->ht,.tidno = tidno,.snapshot = c->snapshot,.code = ZEN_ANY_CODE};

	if (c->skip != NULL && tidno < c->nskip && zen_bit_get(c->skip, tidno))
		return false;
	f.row = zenam_slot_row(c->row.slot);
	if (!zen_row_fetch(&f))
		return false;
	zenam_slot_store(c->row.slot, RelationGetRelid(c->table));
	if (!zen_indexentry_is_wanted(&c->row))
		return false;
	if (form)
		zen_indexentry_form(&c->row);
	return true;
}

static bool
same_key(IndexCheck *c, IndexTuple itup)
{
	TupleDesc	desc = RelationGetDescr(c->index);
	bool		same = true;
	MemoryContext old = MemoryContextSwitchTo(c->row.econtext->ecxt_per_tuple_memory);

	Assert(!TTS_EMPTY(c->row.slot));
	for (int i = 0; i < desc->natts && same; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		isnull;
		Datum		value = index_getattr(itup, i + 1, desc, &isnull);

		same = isnull == c->row.isnull[i] &&
			(isnull || datum_image_eq(value, c->row.values[i], att->attbyval, att->attlen));
	}
	MemoryContextSwitchTo(old);
	return same;
}

/* ---------- entries ---------- */

/* The address that an entry holds; false if it cannot be one. */
static bool
check_address(IndexCheck *c, ItemPointer tid, uint64 *tidno)
{
	ZenFinding	f = {.kind = "index_tid",.relation = RelationGetRelid(c->index)};
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	*tidno = offset == 0 ? 0 : zen_tidno(tid);
	if (offset >= 1 && offset <= ZEN_TIDS_PER_BLOCK && *tidno < zen_tidmap_nblocks(c->ht) * ZEN_TIDS_PER_BLOCK)
		return true;
	if (c->first == 0 && !c->again)
		zen_report(c->report, &f, "an entry leads to (%u,%u), which was never handed out",
				   ItemPointerGetBlockNumberNoCheck(tid), offset);
	return false;
}

/* No index may lead to this TID. */
static bool
is_unused(ZenHTable *ht, uint64 tidno)
{
	ZenWord    *word;
	bool		unused;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	unused = word == NULL || zen_word_state(zen_word_read(word)) == ZEN_WORD_UNUSED;
	zen_epoch_leave();
	return unused;
}

/* An entry of the index; itup is NULL if the access method does not give it. */
static void
visit_entry(IndexCheck *c, ItemPointer tid, IndexTuple itup)
{
	uint64		tidno;

	if (!check_address(c, tid, &tidno) || tidno < c->first || tidno - c->first >= c->n)
		return;
	if (is_unused(c->ht, tidno))
	{
		c->has_unused = true;
		if (c->again)
			indexcheck_report(c, "index_unused", tidno,
							  "an entry leads to an address that may be given to another row");
		return;
	}
	if (c->again)
		return;
	if (itup != NULL && indexcheck_fetch_row(c, tidno, true))
	{
		if (!same_key(c, itup))
		{
			indexcheck_report(c, "index_key", tidno, "an entry has another key than its row");
			return;
		}
		if (zen_bit_get(c->present, tidno - c->first))
			indexcheck_report(c, "index_duplicate", tidno, "two entries with one key lead to one row");
	}
	Assert(tidno - c->first < c->n);
	zen_bit_set(c->present, tidno - c->first);
}

static void
visit_by_scan(IndexCheck *c)
{
	bool		keys = zen_index_is_like_btree(c->index);
	IndexScanDesc scan = zen_index_beginscan(c->table, c->index, SnapshotAny, 0);
	ItemPointer tid;

	scan->xs_want_itup = keys;
	scan->ignore_killed_tuples = false;
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		visit_entry(c, tid, keys ? scan->xs_itup : NULL);
	}
	index_endscan(scan);
}

/* A page of the bitmap without single TIDs stands for all of them: it did not fit into memory. */
static void
visit_bitmap_page(IndexCheck *c, TBMIterateResult *page)
{
	bool		lossy = zen_bitmap_is_lossy(page);
	OffsetNumber offsets[ZEN_TIDS_PER_BLOCK];
	int			n = lossy ? 0 : zen_bitmap_offsets(page, offsets, lengthof(offsets));

	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid;

		ItemPointerSet(&tid, page->blockno, offsets[i]);
		visit_entry(c, &tid, NULL);
	}
	for (int i = 0; lossy && i < ZEN_TIDS_PER_BLOCK; i++)
	{
		uint64		tidno = (uint64) page->blockno * ZEN_TIDS_PER_BLOCK + i;

		if (tidno >= c->first && tidno - c->first < c->n)
			zen_bit_set(c->present, tidno - c->first);
	}
}

static void
visit_by_bitmap(IndexCheck *c)
{
	TIDBitmap  *bitmap = tbm_create(maintenance_work_mem * 1024L, NULL);
	IndexScanDesc scan = zen_index_beginscan_bitmap(c->index, SnapshotAny);
	ZenBitmapIterator *iterator;
	TBMIterateResult space;
	TBMIterateResult *page;

	index_rescan(scan, NULL, 0, NULL, 0);
	index_getbitmap(scan, bitmap);
	index_endscan(scan);
	iterator = zen_bitmap_begin(bitmap);
	while ((page = zen_bitmap_next(iterator, &space)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		visit_bitmap_page(c, page);
	}
	zen_bitmap_end(iterator);
	tbm_free(bitmap);
}

static void
visit_hash_page(IndexCheck *c, BlockNumber block, BufferAccessStrategy strategy)
{
	Buffer		buffer = ReadBufferExtended(c->index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page))
	{
		uint16		type = HashPageGetOpaque(page)->hasho_flag & LH_PAGE_TYPE;
		OffsetNumber max = PageGetMaxOffsetNumber(page);

		for (OffsetNumber o = FirstOffsetNumber; o <= max && (type & (LH_BUCKET_PAGE | LH_OVERFLOW_PAGE)); o++)
		{
			IndexTuple	itup = (IndexTuple) PageGetItem(page, PageGetItemId(page, o));

			visit_entry(c, &itup->t_tid, NULL);
		}
	}
	UnlockReleaseBuffer(buffer);
}

static void
visit_hash(IndexCheck *c)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber n = RelationGetNumberOfBlocks(c->index);

	for (BlockNumber block = HASH_METAPAGE + 1; block < n; block++)
	{
		CHECK_FOR_INTERRUPTS();
		visit_hash_page(c, block, strategy);
	}
	FreeAccessStrategy(strategy);
}

/* Look the row that was fetched up by its value. */
static bool
hash_finds(IndexCheck *c, uint64 tidno)
{
	IndexScanDesc scan;
	ItemPointer tid;
	ScanKeyData key;
	Oid			type = c->index->rd_opcintype[0];
	Oid			eq = get_opfamily_member(c->index->rd_opfamily[0], type, type, HTEqualStrategyNumber);
	bool		found = false;

	Assert(!c->row.isnull[0]);
	ScanKeyEntryInitialize(&key, 0, 1, HTEqualStrategyNumber, type, c->index->rd_indcollation[0], get_opcode(eq),
						   c->row.values[0]);
	scan = zen_index_beginscan(c->table, c->index, SnapshotAny, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (!found && (tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		found = zen_tidno(tid) == tidno;
	}
	index_endscan(scan);
	return found;
}

/* ---------- rows without entry ---------- */

static void
find_missing(IndexCheck *c)
{
	bool		hash = c->index->rd_rel->relam == HASH_AM_OID;

	for (uint64 t = c->first; t < c->first + c->n; t++)
	{
		if (t % ZEN_TIDS_PER_BLOCK == 0)
			CHECK_FOR_INTERRUPTS();
		if (zen_bit_get(c->present, t - c->first) || !indexcheck_fetch_row(c, t, hash))
			continue;
		if (hash && (c->row.isnull[0] || hash_finds(c, t)))
			continue;
		indexcheck_report(c, "index_missing", t, "the row has no entry in the index");
	}
}

/* One pass over index and table, or several if the bitmap would be too large. */
static void
indexcheck_compare(IndexCheck *c, uint64 ntids, void (*visit) (IndexCheck *c))
{
	uint64		window = Min(Max(ntids, 64), (uint64) maintenance_work_mem * 1024 * 8);

	Assert(window > 0);
	c->present = palloc_extended(TYPEALIGN(64, window) / 8, MCXT_ALLOC_HUGE);
	for (c->first = 0; c->first == 0 || c->first < ntids; c->first += window)
	{
		c->n = Min(window, ntids - c->first);
		memset(c->present, 0, TYPEALIGN(64, window) / 8);
		c->has_unused = false;
		visit(c);
		if (c->has_unused)
		{
			LockRelation(c->table, ShareUpdateExclusiveLock);
			c->again = true;
			visit(c);
			c->again = false;
			UnlockRelation(c->table, ShareUpdateExclusiveLock);
		}
		Assert(!c->again);
		find_missing(c);
	}
	pfree(c->present);
}

/* ---------- BRIN ---------- */

typedef struct BrinCheck
{
	BrinDesc   *desc;
	BrinRevmap *revmap;
	BlockNumber pages_per_range;
	int			nkeys;
	FmgrInfo   *consistent[INDEX_MAX_KEYS];
	StrategyNumber equal[INDEX_MAX_KEYS];	/* 0: this column cannot be asked
											 * for equality */
	Oid			type[INDEX_MAX_KEYS];
	BlockNumber range;			/* of summary */
	BrinMemTuple *summary;		/* NULL: the range is not summarized */
	Buffer		buffer;
} BrinCheck;

static void
brin_columns(BrinCheck *b, Relation index)
{
	b->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	for (int i = 0; i < b->nkeys; i++)
	{
		Oid			type = index->rd_opcintype[i];
		TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR);

		b->type[i] = type;
		b->consistent[i] = index_getprocinfo(index, i + 1, BRIN_PROCNUM_CONSISTENT);
		b->equal[i] = OidIsValid(entry->eq_opr) ?
			get_op_opfamily_strategy(entry->eq_opr, index->rd_opfamily[i]) : InvalidStrategy;
	}
}

static void
brin_read_summary(IndexCheck *c, BrinCheck *b, BlockNumber block)
{
	BrinTuple  *tuple;
	OffsetNumber offset;
	Size		size;

	Assert(block / b->pages_per_range != b->range);
	b->summary = NULL;
	b->range = block / b->pages_per_range;
	tuple = zen_brin_tuple(b->revmap, block, &b->buffer, &offset, &size, BUFFER_LOCK_SHARE,
						   c->snapshot);
	if (tuple == NULL)
		return;
	tuple = brin_copy_tuple(tuple, size, NULL, NULL);
	LockBuffer(b->buffer, BUFFER_LOCK_UNLOCK);
	b->summary = brin_deform_tuple(b->desc, tuple, NULL);
	if (b->summary->bt_placeholder)
		b->summary = NULL;
}

/* Would a search for this column's value look at the range? */
static bool
brin_column_fits(IndexCheck *c, BrinCheck *b, int i)
{
	BrinValues *summary = &b->summary->bt_columns[i];
	Oid			collation = c->index->rd_indcollation[i];
	ScanKeyData key;
	ScanKey		keys[1] = {&key};
	Oid			equal;

	Assert(b->summary != NULL && i < b->nkeys);
	if (c->row.isnull[i])
		return summary->bv_allnulls || summary->bv_hasnulls;
	if (summary->bv_allnulls)
		return false;
	if (b->equal[i] == InvalidStrategy)
		return true;
	equal = get_opfamily_member(c->index->rd_opfamily[i], b->type[i], b->type[i], b->equal[i]);
	ScanKeyEntryInitialize(&key, 0, i + 1, b->equal[i], b->type[i], collation, get_opcode(equal), c->row.values[i]);
	if (b->consistent[i]->fn_nargs >= 4)
		return DatumGetBool(FunctionCall4Coll(b->consistent[i], collation, PointerGetDatum(b->desc),
											  PointerGetDatum(summary), PointerGetDatum(keys), Int32GetDatum(1)));
	return DatumGetBool(FunctionCall3Coll(b->consistent[i], collation, PointerGetDatum(b->desc),
										  PointerGetDatum(summary), PointerGetDatum(&key)));
}

/* Check that the summaries of a BRIN index cover all rows of the table. */
static void
check_brin(IndexCheck *c, uint64 ntids)
{
	BrinCheck	b = {.buffer = InvalidBuffer,.range = InvalidBlockNumber};
	MemoryContext per_range = AllocSetContextCreate(CurrentMemoryContext, "zen verify range", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;

	b.desc = brin_build_desc(c->index);
	b.revmap = zen_brin_revmap(c->index, &b.pages_per_range, c->snapshot);
	brin_columns(&b, c->index);
	for (uint64 t = 0; t < ntids; t++)
	{
		BlockNumber block = (BlockNumber) (t / ZEN_TIDS_PER_BLOCK);

		if (t % ZEN_TIDS_PER_BLOCK == 0)
			CHECK_FOR_INTERRUPTS();
		if (block / b.pages_per_range != b.range)
		{
			MemoryContextReset(per_range);
			MemoryContextSwitchTo(per_range);
			brin_read_summary(c, &b, block);
			MemoryContextSwitchTo(old);
		}
		if (b.summary == NULL || !indexcheck_fetch_row(c, t, true))
			continue;
		MemoryContextSwitchTo(c->row.econtext->ecxt_per_tuple_memory);
		for (int i = 0; i < b.nkeys; i++)
		{
			if (!brin_column_fits(c, &b, i))
			{
				indexcheck_report(c, "index_missing", t,
								  psprintf("the summary of blocks %u to %u leaves the row out",
										   b.range * b.pages_per_range, (b.range + 1) * b.pages_per_range - 1));
				break;
			}
		}
		MemoryContextSwitchTo(old);
	}
	if (BufferIsValid(b.buffer))
		ReleaseBuffer(b.buffer);
	brinRevmapTerminate(b.revmap);
	brin_free_desc(b.desc);
	MemoryContextDelete(per_range);
}

/* ---------- the whole ---------- */

static void
check_by_method(IndexCheck *c)
{
	uint64		ntids = zen_tidmap_nblocks(c->ht) * ZEN_TIDS_PER_BLOCK;
	IndexAmRoutine *am = c->index->rd_indam;

	if (c->index->rd_rel->relam == BRIN_AM_OID)
		check_brin(c, ntids);
	else if (c->index->rd_rel->relam == HASH_AM_OID)
		indexcheck_compare(c, ntids, visit_hash);
	else if (am->amgettuple != NULL && am->amoptionalkey)
		indexcheck_compare(c, ntids, visit_by_scan);
	else if (am->amgetbitmap != NULL && am->amoptionalkey)
		indexcheck_compare(c, ntids, visit_by_bitmap);
	else
	{
		ZenFinding	f = {.kind = "unchecked",.relation = RelationGetRelid(c->index)};

		zen_report(c->report, &f, "access method \"%s\" does not tell all entries of an index",
				   get_am_name(c->index->rd_rel->relam));
	}
}

void
zen_verify_index(ZenReport *report, Relation table, ZenHTable *ht, Relation index, const uint64 *skip, uint64 nskip)
{
	IndexCheck	c = {.report = report,.table = table,.ht = ht,.index = index,.skip = skip,.nskip = nskip};

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(table, AccessShareLock, true));
	Assert(CheckRelationLockedByMe(index, AccessShareLock, true));
	Assert(index->rd_index->indrelid == RelationGetRelid(table));
	zen_indexentry_begin(&c.row, table, BuildIndexInfo(index));

	/*
	 * a new one at any isolation level: an index may be younger than an old
	 * one
	 */
	c.snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(c.snapshot);
	check_by_method(&c);
	PopActiveSnapshot();
	UnregisterSnapshot(c.snapshot);
	zen_indexentry_end(&c.row);
}
