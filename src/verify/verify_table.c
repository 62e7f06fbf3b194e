/*
 * verify_table.c -- zen_verify(): is a table what it should be, in DRAM, in NVM and in its indexes?
 *
 * src/verify/README, "What is checked" and "Beside everything else".
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "cache/tidmap.h"
#include "cache/version.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "recovery/gate.h"
#include "storage/lmgr.h"
#include "table/zenam_rel.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "verify/verify.h"

#define MAX_STALE_SLOTS	256		/* of one TID, looked at in one go */
#define MAX_SUSPECTS	100000	/* TIDs that share one look at the pages: some
								 * 10 MB */

PG_FUNCTION_INFO_V1(zen_verify);

typedef struct TableCheck
{
	ZenReport  *report;
	Relation	rel;
	ZenHTable  *ht;
	uint64		ntids;
	uint64	   *unreadable;		/* a bit per TID, or NULL if all rows can be
								 * read */
} TableCheck;

static void
report_fault(TableCheck *c, uint64 tidno, const ZenFault *fault)
{
	ZenFinding	f = {.kind = fault->kind,.relation = RelationGetRelid(c->rel),.has_tid = true,.tidno = tidno,
	.slot = fault->slot};

	zen_report(c->report, &f, "%s", fault->detail);
}

/* ---------- map and versions ---------- */

static void
note_unreadable(TableCheck *c, uint64 tidno)
{
	Size		size = TYPEALIGN(64, c->ntids) / 8;

	Assert(tidno < c->ntids);
	if (c->unreadable == NULL)
		c->unreadable = palloc_extended(size, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	zen_bit_set(c->unreadable, tidno);
}

static void
tablecheck_map(TableCheck *c)
{
	for (uint64 t = 0; t < c->ntids; t++)
	{
		ZenFault	fault;

		if (t % ZEN_TIDS_PER_BLOCK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!zen_verify_word(c->ht, t, &fault))
		{
			report_fault(c, t, &fault);
			if (fault.unreadable)
				note_unreadable(c, t);
		}
	}
}

/* ---------- stale headers (R5) ---------- */

/*
 * Does a slot stand free with the intact header of a row version of this table?
 *
 * A page that is given back forgets its headers before it is zeroed, but after its directory word says so.  Read in
 * this order, a header that stands before and after was still to be forgotten in between.
 */
static bool
is_stale(const TableCheck *c, ZenSlot slot, ZenTupleHeader *header)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	ZenTupleHeader again;

	if (!zen_page_holds(slot) || (h.word0 & ZEN_CTS_MASK) == 0 || (h.word1 & ZEN_DELETED) ||
		zen_word1_htable(h.word1) != c->ht->idx || !zen_htable_owns(c->ht, h.word0 & ZEN_CTS_MASK))
		return false;
	pg_read_barrier();
	if (!zen_slot_is_free(slot) || !zen_page_agrees(zen_slot_page(slot)))
		return false;
	pg_read_barrier();
	again = zen_tuple_header(slot);
	*header = h;
	return h.word0 == again.word0 && h.word1 == again.word1;
}

/* How many older versions does a map word count? */
static inline uint32
counted(uint64 w)
{
	return (uint32) ((w & ZEN_WORD_STALE) / ZEN_WORD_STALE_ONE);
}

static uint32
stale_count(ZenHTable *ht, uint64 tidno)
{
	ZenWord    *word;
	uint32		count;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	count = word != NULL ? counted(zen_word_read(word)) : 0;
	zen_epoch_leave();
	return count;
}

/* The Tx-CTS that a version would have to exceed to count after a crash; 0 if any would count.  Inside an epoch. */
static uint64
newest_cts(uint64 w)
{
	uint64		newest = 0;

	ZenAssertInEpoch();
	/* a spilled version is newer than the one that it replaces */
	if (zen_word_state(w) != ZEN_WORD_ENTRY)
		return zen_word_ref(w) == 0 ? 0 : zen_tuple_header(zen_word_ref(w)).word0 & ZEN_CTS_MASK;
	for (ZenVersion *v = zen_word_entry(w); v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot)
			newest = Max(newest, zen_tuple_header(v->slot).word0 & ZEN_CTS_MASK);
	return newest;
}

/* R5: would a free slot's header of this table be superseded after a crash? */
static bool
check_header(const TableCheck *c, ZenSlot slot, ZenFault *fault)
{
	ZenTupleHeader h;
	ZenWord    *word;
	uint64		w,
				cts;
	bool		sound = true;

	if (!is_stale(c, slot, &h))
		return true;
	cts = h.word0 & ZEN_CTS_MASK;
	zen_epoch_enter();
	word = zen_tidmap_word(c->ht, zen_word1_tidno(h.word1));
	if (word == NULL)
		sound = zen_unsound(fault, "stale", slot, "the slot is free, but its row, which has no TID, would come back");
	else if (cts >= newest_cts(zen_word_read(word)))
	{
		w = zen_word_lock(word);
		if (is_stale(c, slot, &h) && cts == (h.word0 & ZEN_CTS_MASK) && cts >= newest_cts(w))
			sound = zen_unsound(fault, "stale", slot, "the slot is free, but would supersede the row: Tx-CTS "
								UINT64_FORMAT " over " UINT64_FORMAT, cts, newest_cts(w));
		zen_word_unlock(word, w);
	}
	zen_epoch_leave();
	return sound;
}

/*
 * Call visit for each free slot with the intact header of a version of a TID of [first, first + n).
 *
 * Pages may change hands during the walk: a slot is only looked at, and judged again when it seems wrong.
 */
static void
for_stale_headers(TableCheck *c, uint64 first, uint64 n,
				  void (*visit) (TableCheck *c, ZenSlot slot, uint64 tidno, void *arg), void *arg)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		ZenPage    *page = &zen_pages[p];
		uint32		owner = page->owner.htable;

		if (!page->owned || (owner != 0 && owner != c->ht->idx))
			continue;
		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < page->nslots; i++)
		{
			ZenTupleHeader h;
			uint64		t;
			bool		stale;

			/* inside, so that the page keeps its descriptor */
			zen_epoch_enter();
			stale = zen_page_holds(zen_page_slot(p, i)) && is_stale(c, zen_page_slot(p, i), &h);
			zen_epoch_leave();
			if (!stale)
				continue;
			t = zen_word1_tidno(h.word1);
			if (t >= first && t - first < n)
				visit(c, zen_page_slot(p, i), t, arg);
		}
	}
}

typedef struct Counts
{
	uint64		first;
	uint16	   *count;			/* of intact headers, by TID */
} Counts;

static void
count_header(TableCheck *c, ZenSlot slot, uint64 tidno, void *arg)
{
	Counts	   *counts = arg;
	ZenFault	fault;

	if (!check_header(c, slot, &fault))
		report_fault(c, tidno, &fault);
	Assert(tidno >= counts->first && tidno < c->ntids);
	if (counts->count[tidno - counts->first] < PG_UINT16_MAX)
		counts->count[tidno - counts->first]++;
}

/* A TID with more intact headers than are counted, it seems, and its slots. */
typedef struct Suspect
{
	uint64		tidno;			/* hash key */
	uint32		n;
	uint32		capacity;
	ZenSlot    *slots;
} Suspect;

static HTAB *
make_suspects(void)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(Suspect),.hcxt = CurrentMemoryContext};

	return hash_create("zen verify suspects", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
add_suspect(HTAB *suspects, uint64 tidno)
{
	bool		found PG_USED_FOR_ASSERTS_ONLY;
	Suspect    *s = hash_search(suspects, &tidno, HASH_ENTER, &found);

	Assert(!found);
	s->n = s->capacity = 0;
	s->slots = NULL;
}

static void
collect_slot(TableCheck *c, ZenSlot slot, uint64 tidno, void *arg)
{
	Suspect    *s = hash_search(arg, &tidno, HASH_FIND, NULL);

	if (s == NULL || s->n == MAX_STALE_SLOTS)
		return;
	if (s->n == s->capacity)
	{
		s->capacity = s->capacity ? s->capacity * 2 : 8;
		s->slots = s->slots ? repalloc(s->slots, s->capacity * sizeof(ZenSlot)) : palloc(s->capacity * sizeof(ZenSlot));
	}
	Assert(s->n < s->capacity);
	s->slots[s->n++] = slot;
}

/* I13: does the TID's count cover the intact headers in its free slots? */
static bool
check_count(const TableCheck *c, const Suspect *s, ZenFault *fault)
{
	ZenWord    *word;
	ZenTupleHeader h;
	uint32		found = 0;
	uint64		w;

	zen_epoch_enter();
	word = zen_tidmap_word(c->ht, s->tidno);
	if (word == NULL)
	{
		zen_epoch_leave();
		return true;
	}
	/* no process counts up or down while we hold the lock */
	w = zen_word_lock(word);
	for (uint32 i = 0; i < s->n; i++)
		if (is_stale(c, s->slots[i], &h) && zen_word1_tidno(h.word1) == s->tidno)
			found++;
	zen_word_unlock(word, w);
	zen_epoch_leave();
	return counted(w) >= found ||
		zen_unsound(fault, "stale", s->n > 0 ? s->slots[0] : InvalidZenSlot,
					"%u older versions are counted, but %u are intact in free slots", counted(w), found);
}

/* Some counts seemed too small: look at the slots of each TID again, all at one moment.  Ends the suspects. */
static void
check_suspects(TableCheck *c, HTAB *suspects)
{
	HASH_SEQ_STATUS seq;
	Suspect    *s;

	if (hash_get_num_entries(suspects) > 0)
		for_stale_headers(c, 0, c->ntids, collect_slot, suspects);
	hash_seq_init(&seq, suspects);
	while ((s = hash_seq_search(&seq)) != NULL)
	{
		ZenFault	fault;

		if (!check_count(c, s, &fault))
			report_fault(c, s->tidno, &fault);
		if (s->slots)
			pfree(s->slots);
	}
	hash_destroy(suspects);
}

/* Beside a load many counts move while headers are counted, so suspects share one more look at the pages. */
static void
check_stale(TableCheck *c)
{
	uint64		window = Min(Max(c->ntids, 1), (uint64) maintenance_work_mem * 1024 / sizeof(uint16));
	Counts		counts = {.count = palloc_extended(window * sizeof(uint16), MCXT_ALLOC_HUGE)};

	for (counts.first = 0; counts.first < c->ntids; counts.first += window)
	{
		uint64		n = Min(window, c->ntids - counts.first);
		HTAB	   *suspects = make_suspects();

		memset(counts.count, 0, window * sizeof(uint16));
		for_stale_headers(c, counts.first, n, count_header, &counts);
		for (uint64 t = counts.first; t < counts.first + n; t++)
		{
			if (counts.count[t - counts.first] > stale_count(c->ht, t))
				add_suspect(suspects, t);
			if (hash_get_num_entries(suspects) == MAX_SUSPECTS)
			{
				check_suspects(c, suspects);
				suspects = make_suspects();
			}
		}
		check_suspects(c, suspects);
	}
	pfree(counts.count);
}

/* ---------- indexes ---------- */

/*
 * The kind of finding that an error in an index's check is; NULL if it is none, but an error of the statement: a
 * cancel, DRAM that is full, a function of the index that fails.
 *
 * An access method that answers only certain scans (the nearest neighbours of a vector) says so when it is asked for
 * all entries.  Those of PostgreSQL itself are known not to.
 */
static const char *
finding_of_error(Relation index, ErrorData *error)
{
	switch (error->sqlerrcode)
	{
		case ERRCODE_DATA_CORRUPTED:
		case ERRCODE_INDEX_CORRUPTED:
			return "index_error";
		case ERRCODE_INTERNAL_ERROR:
		case ERRCODE_FEATURE_NOT_SUPPORTED:
			return index->rd_rel->relam >= FirstNormalObjectId ? "unchecked" : NULL;
		default:
			return NULL;
	}
}

/* An error that is a finding is the end of this index's check. */
static void
check_index_caught(TableCheck *c, Relation index)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int			level PG_USED_FOR_ASSERTS_ONLY = GetCurrentTransactionNestLevel();

	ZenAssertNotInEpoch();
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		zen_verify_index(c->report, c->rel, c->ht, index, c->unreadable, c->ntids);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;
		ZenFinding	f = {.relation = RelationGetRelid(index)};

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		/* for any error: only this function ends the subtransaction */
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		f.kind = finding_of_error(index, error);
		if (f.kind == NULL)
			ReThrowError(error);
		zen_report(c->report, &f, "the index cannot be compared with its table: %s", error->message);
		FreeErrorData(error);
	}
	PG_END_TRY();
	Assert(GetCurrentTransactionNestLevel() == level);
}

static void
check_indexes(TableCheck *c)
{
	List	   *indexes = RelationGetIndexList(c->rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = try_relation_open(lfirst_oid(lc), AccessShareLock);

		if (index == NULL)
			continue;			/* dropped by another session */
		if (index->rd_index->indisvalid && index->rd_index->indisready)
			check_index_caught(c, index);
		relation_close(index, AccessShareLock);
	}
	list_free(indexes);
}

/* ---------- the whole ---------- */

static Relation
open_zen_table(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || !zen_rel_is_zen(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a zen table", RelationGetRelationName(rel)),
				 errhint(rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "Verify its partitions one by one." :
						 "Use amcheck for tables and indexes that PostgreSQL stores.")));
	return rel;
}

static void
pass_gate(void)
{
	if (RecoveryInProgress())
		zen_gate_read();
	else
		zen_gate();
}

/* A standby counts no stale headers, and has no indexes. */
static void
tablecheck_run(ZenReport *report, Oid relid, bool standby)
{
	TableCheck	c = {.report = report,.rel = open_zen_table(relid)};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zen verify", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Oid			toast = c.rel->rd_rel->reltoastrelid;

	pass_gate();
	Assert(CheckRelationLockedByMe(c.rel, AccessShareLock, true));
	c.ht = standby ? zen_rel_htable_raw(c.rel) : zen_rel_htable(c.rel);
	c.ntids = zen_tidmap_nblocks(c.ht) * ZEN_TIDS_PER_BLOCK;
	tablecheck_map(&c);
	if (!standby)
	{
		check_stale(&c);
		check_indexes(&c);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (OidIsValid(toast))
		tablecheck_run(report, toast, standby);
	relation_close(c.rel, AccessShareLock);
}

/*
 * zen_verify -- see doc/functions.md.
 *
 * Index expressions run as the table's owner and may change nothing, as in REINDEX.
 */
Datum
zen_verify(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	ZenReport	report;
	Relation	rel;
	Oid			user;
	int			security;
	int			nest_level;
	bool		standby = RecoveryInProgress();

	if (standby && zen_pool_is_replica() && !zen_standby_reads)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a zen table cannot be verified while the server is in recovery"),
				 errdetail("The map of a table is made when the server is promoted."),
				 errhint("zen_verify_pool() looks at the copy of the pool.")));
	pass_gate();
	zen_report_begin(&report, fcinfo);
	rel = open_zen_table(relid);
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(rel->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	tablecheck_run(&report, relid, standby);
	if (standby && !RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server was promoted while a zen table was verified"),
				 errhint("Repeat the statement.")));
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
