/*
 * verify_pool.c -- zen_verify_pool(): the pool as a whole, of all databases.
 *
 * src/verify/README, "What is checked", has the list.  No lock is held that other processes would feel, so pages and
 * slots are seen in the middle of their changes.  One that looks wrong is a suspect; "Beside everything else"
 * (Settling) says when it is a finding.
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "base/epoch.h"
#include "base/locks.h"
#include "cache/spillmap.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nvm/delta.h"
#include "nvm/persist.h"
#include "nvm/poolfile.h"
#include "nvm/slotalloc.h"
#include "recovery/gate.h"
#include "storage/lmgr.h"
#include "stream/streamtail.h"
#include "table/zenam_rel.h"
#include "txn/ddl.h"
#include "txn/prepared.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "verify/verify.h"

#define MAX_SUSPECTS	10000
#define SETTLE_MS		30000	/* longest wait for one region to be idle */

PG_FUNCTION_INFO_V1(zen_verify_pool);

/* A relation of this database, by its file. */
typedef struct CatalogKey
{
	Oid			spc;
	Oid			relnumber;
} CatalogKey;

typedef struct CatalogEntry
{
	CatalogKey	key;
	Oid			relid;
} CatalogEntry;

/* A slot that nothing seems to know. */
typedef struct Suspect
{
	ZenSlot		slot;			/* hash key */
	ZenTupleHeader header;
	uint32		generation;		/* of the page */
	bool		explained;
} Suspect;

/* A page that is not as it should be. */
typedef struct PageSuspect
{
	uint32		pageno;
	const char *what;
	uint32		generation;
	uint64		word;			/* of the directory */
	uint32		owned;
	uint32		nfree;
} PageSuspect;

typedef struct PoolCheck
{
	ZenReport	report;
	MemoryContext context;
	HTAB	   *catalog;
	HTAB	   *suspects;
	PageSuspect *pages;			/* [MAX_SUSPECTS] */
	uint32		npages;
	uint32		end;			/* of the pool when the check began: later
								 * pages are not looked at */
	uint64	   *listed;			/* a bit per page: on the free list, or in a
								 * context */
	bool	   *busy;			/* regions whose contexts could not be read */
	bool		free_list_read;
} PoolCheck;

/* ---------- names ---------- */

static Oid
relation_of(PoolCheck *c, const ZenHTable *ht)
{
	CatalogKey	key = {.spc = ht->spc,.relnumber = ht->relnumber};
	CatalogEntry *entry = ht->db == MyDatabaseId ? hash_search(c->catalog, &key, HASH_FIND, NULL) : NULL;

	return entry != NULL ? entry->relid : InvalidOid;
}

static ZenFinding
about_table(PoolCheck *c, const char *kind, const ZenHTable *ht)
{
	ZenFinding	f = {.kind = kind,.relation = relation_of(c, ht)};

	f.location = psprintf("HTable %u (database %u, tablespace %u, relfilenode %u)", ht->idx, ht->db, ht->spc,
						  ht->relnumber);

	return f;
}

/* ---------- superblock and directories ---------- */

static void
check_superblock(PoolCheck *c)
{
	for (int i = 0; i < 2 * zen_pool.nfiles; i++)
	{
		Size		offset;
		const char *fault = zen_superblock_fault(i / 2, zen_file_base(i / 2), i % 2, &offset);
		ZenFinding	f = {.kind = "superblock",.location = psprintf("offset %zu", offset)};

		if (fault != NULL)
			zen_report(&c->report, &f, "a copy of the superblock is damaged: %s", fault);
	}
}

static void
check_regions(PoolCheck *c)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		const char *fault = zen_region_fault(r);
		ZenFinding	f = {.kind = "region",.location = psprintf("region %u", r)};

		if (fault != NULL)
			zen_report(&c->report, &f, "%s", fault);
	}
}

static void
check_htables(PoolCheck *c)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		const char *fault = zen_htable_fault(i);

		if (fault != NULL)
		{
			ZenFinding	f = about_table(c, "htable", &zen_htables[i]);

			zen_report(&c->report, &f, "the table's entry in the directory is damaged: %s", fault);
		}
	}
}

/* ---------- catalogs ---------- */

/* All relations that have a file and a table AM; in *relids, those that zen may store. */
static void
poolcheck_read_catalog(PoolCheck *c, List **relids)
{
	HASHCTL		info = {.keysize = sizeof(CatalogKey),.entrysize = sizeof(CatalogEntry),.hcxt = c->context};
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(pg_class, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;

	c->catalog = hash_create("zen verify catalog", 1024, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_class rel = (Form_pg_class) GETSTRUCT(tuple);
		CatalogKey	key = {.spc = rel->reltablespace ? rel->reltablespace : MyDatabaseTableSpace,
		.relnumber = rel->relfilenode};
		CatalogEntry *entry;

		if (!RELKIND_HAS_TABLE_AM(rel->relkind) || rel->relfilenode == 0)
			continue;
		entry = hash_search(c->catalog, &key, HASH_ENTER, NULL);
		entry->relid = rel->oid;
		if (rel->relam != HEAP_TABLE_AM_OID && rel->relpersistence != RELPERSISTENCE_TEMP)
			*relids = lappend_oid(*relids, rel->oid);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(pg_class, AccessShareLock);
}

/*
 * Relations without an entry.  A transaction that creates, rewrites or moves a relation holds a lock until its entry
 * is listed, or, if it was prepared, until zen_prepared_resolve() can do it.  This process has the lock now, so the
 * entry must be there.
 */
static void
check_relations(PoolCheck *c, List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
	{
		Oid			relid = lfirst_oid(lc);
		Relation	rel;

		CHECK_FOR_INTERRUPTS();
		if (!ConditionalLockRelationOid(relid, AccessShareLock))
			continue;
		rel = try_relation_open(relid, NoLock);
		if (rel != NULL)
		{
			if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && zen_rel_is_zen(rel) &&
				zen_ddl_find(zen_rel_locator(rel), rel->rd_backend) == NULL)
			{
				ZenFinding	f = {.kind = "htable",.relation = relid};

				zen_prepared_resolve();
				if (zen_ddl_find(zen_rel_locator(rel), rel->rd_backend) == NULL)
					zen_report(&c->report, &f, "the pool does not know the table: no entry for relfilenode %u",
							   ZEN_LOCATOR_NUMBER(zen_rel_locator(rel)));
			}
			relation_close(rel, NoLock);
		}
		UnlockRelationOid(relid, AccessShareLock);
	}
}

/* Is no transaction creating, dropping or moving it?  Only then must the catalogs know it. */
static bool
poolcheck_is_settled(const ZenHTable *ht)
{
	return ht->in_use && ht->backend == 0 && ht->create_xid == 0 && ht->drop_xid == 0 &&
		zen_nvm_load64(&zen_pool.htables[ht->idx].move_xid) == 0 && !zen_ddl_is_dropping(ht);
}

/* Is this the catalog's row of the database, or of the relation, that the entry names? */
static bool
is_row_of(const ZenHTable *ht, HeapTuple tuple)
{
	Form_pg_class rel = (Form_pg_class) GETSTRUCT(tuple);

	if (ht->db != MyDatabaseId)
		return ((Form_pg_database) GETSTRUCT(tuple))->oid == ht->db;
	return rel->relfilenode == ht->relnumber &&
		(rel->reltablespace ? rel->reltablespace : MyDatabaseTableSpace) == ht->spc;
}

/* A new snapshot, and no cache: all that is committed by now is seen. */
static bool
catalog_knows(const ZenHTable *ht)
{
	Relation	catalog = table_open(ht->db == MyDatabaseId ? RelationRelationId : DatabaseRelationId, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;
	bool		found = false;

	while (!found && (tuple = systable_getnext(scan)) != NULL)
		found = is_row_of(ht, tuple);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * An entry without a relation.  The entry bears the xid of a transaction that drops or moves the table before the
 * catalogs show that to others, and that of its creator until they do.  So an entry that bears none before and after
 * the look at the catalogs must stand there.
 */
static void
check_orphan(PoolCheck *c, ZenHTable *ht)
{
	ZenHTable	before = *ht;

	Assert(ht->idx > 0);
	pg_read_barrier();
	if (!poolcheck_is_settled(ht) || relation_of(c, ht) != InvalidOid || catalog_knows(&before))
		return;
	pg_read_barrier();
	if (poolcheck_is_settled(ht) && ht->birth_cts == before.birth_cts && ht->relnumber == before.relnumber &&
		ht->spc == before.spc && ht->db == before.db)
	{
		ZenFinding	f = about_table(c, "htable", ht);

		zen_report(&c->report, &f, "the catalogs do not know the table");
	}
}

/*
 * An entry whose relation is none of zen's: its file was given to another by hand.  File number and access method are
 * of one row of pg_class, so a rewrite to another access method is not taken for that.
 */
static void
check_access_method(PoolCheck *c, ZenHTable *ht)
{
	Oid			relid = relation_of(c, ht);
	Oid			zen = get_table_am_oid("zen", false);
	HeapTuple	tuple = OidIsValid(relid) ? SearchSysCache1(RELOID, ObjectIdGetDatum(relid)) : NULL;
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (form->relam != zen && poolcheck_is_settled(ht) && is_row_of(ht, tuple))
	{
		ZenFinding	f = about_table(c, "htable", ht);

		zen_report(&c->report, &f, "the catalogs give the table's rows to a relation that is no zen table");
	}
	ReleaseSysCache(tuple);
}

static void
check_catalogs(PoolCheck *c)
{
	List	   *relids = NIL;

	poolcheck_read_catalog(c, &relids);
	check_relations(c, relids);
	list_free(relids);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!zen_htables[i].in_use)
			continue;
		check_orphan(c, &zen_htables[i]);
		check_access_method(c, &zen_htables[i]);
	}
}

/* ---------- maps ---------- */

static void
poolcheck_map(PoolCheck *c, ZenHTable *ht)
{
	/* the table may go any time: only zen_verify_word() looks at a word */
	uint64		ntids = zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK;

	for (uint64 t = 0; t < ntids && ht->in_use; t++)
	{
		ZenFault	fault;

		if (t % ZEN_TIDS_PER_BLOCK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!zen_verify_word(ht, t, &fault))
		{
			ZenFinding	f = about_table(c, fault.kind, ht);

			f.has_tid = true;
			f.tidno = t;
			f.slot = fault.slot;
			zen_report(&c->report, &f, "%s", fault.detail);
		}
	}
}

/* ---------- settling ---------- */

static bool
is_idle(uint32 region)
{
	return pg_atomic_read_u32(&zen_regions[region].leased) != ZEN_LEASE_BUSY || zen_prepared_is_waiting(region);
}

/* Wait until all that was under way in any region has ended, and readers have left; false if that takes too long. */
static bool
poolcheck_settle(void)
{
	TimestampTz start = GetCurrentTimestamp();

	ZenAssertNotInEpoch();
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		while (!is_idle(r))
		{
			CHECK_FOR_INTERRUPTS();
			if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), SETTLE_MS))
				return false;
			pg_usleep(100);
		}
	}
	zen_epoch_wait();
	return true;
}

/* ---------- slots that nothing knows ---------- */

/* The version in a slot is a prepared transaction's, which the region's descriptor names. */
static bool
poolcheck_is_prepared(ZenSlot slot, ZenTupleHeader h)
{
	ZenRegion  *r = &zen_regions[zen_pages[zen_slot_page(slot)].owner.region];

	return r->doubt_kind == ZEN_DOUBT_PREPARED && r->doubt_cts == (h.word0 & ZEN_CTS_MASK);
}

/* Is it the slot of a version, or that of the base on which the version leans (R22)? */
static inline bool
leans_on(ZenSlot version, ZenSlot slot)
{
	return version == slot || zen_delta_base(version) == slot;
}

/* Does the word lead to the slot?  Inside an epoch. */
static bool
leads_to(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSlot slot)
{
	ZenSpilledChain space;
	uint64		w;
	ZenVersion *v = zen_spillmap_word_chain(ht, tidno, word, &w, &space);

	ZenAssertInEpoch();
	Assert(slot != InvalidZenSlot);
	if (v == NULL)
		return leans_on(zen_word_ref(w), slot);
	for (; v != NULL; v = v->older)
		if (leans_on(v->slot, slot))
			return true;
	return false;
}

/* Does the map lead to the slot with this header? */
static bool
is_referenced(ZenSlot slot, ZenTupleHeader header)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(header.word1)];
	ZenWord    *word;
	bool		referenced;

	if (ht->idx == 0)
		return false;
	zen_epoch_enter();
	word = zen_htable_owns(ht, header.word0 & ZEN_CTS_MASK) ? zen_tidmap_word(ht, zen_word1_tidno(header.word1)) : NULL;
	referenced = word != NULL && leads_to(ht, zen_word1_tidno(header.word1), word, slot);
	zen_epoch_leave();
	return referenced;
}

/* Is the slot used by something?  By a table found damaged at start is use, too. */
static bool
poolcheck_is_known(ZenSlot slot, ZenTupleHeader h)
{
	return zen_slot_is_free(slot) || zen_htables[zen_word1_htable(h.word1)].damaged ||
		is_referenced(slot, h) || poolcheck_is_prepared(slot, h) || zen_streamtail_keeps(slot);
}

/* Is the suspect as it was, and of a region where no process can be about to change that? */
static bool
is_unchanged(Suspect *s)
{
	uint32		pageno = zen_slot_page(s->slot);

	for (int i = 0; i < 2; i++)
	{
		ZenTupleHeader h;

		if (pg_atomic_read_u32(&zen_pages[pageno].generation) != s->generation || !zen_page_holds(s->slot))
			return false;
		h = zen_tuple_header(s->slot);
		if (h.word0 != s->header.word0 || h.word1 != s->header.word1 || poolcheck_is_known(s->slot, h))
			return false;
		pg_read_barrier();
		if (i == 0 && pg_atomic_read_u32(&zen_regions[zen_pages[pageno].owner.region].leased) != 0)
			return false;
		pg_read_barrier();
	}
	return true;
}

/* The table is being destroyed or emptied, which frees its slots one by one. */
static bool
is_going(ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];

	return ht->idx != 0 && ht->create_xid != 0;
}

static void
explain_retired(ZenRetired *object, void *arg)
{
	ZenVersion *v = (ZenVersion *) ((char *) object - offsetof(ZenVersion, retired));
	Suspect    *s = NULL;

	if (zen_arena_holds(v, sizeof(*v)) && object->kind == ZEN_RETIRED_VERSION)
	{
		ZenSlot		slot = v->slot;

		s = hash_search((HTAB *) arg, &slot, HASH_FIND, NULL);
	}
	if (s != NULL)
		s->explained = true;
}

static void
report_lost(PoolCheck *c, Suspect *s)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(s->header.word1)];
	uint64		cts = s->header.word0 & ZEN_CTS_MASK;
	ZenFinding	f = {.kind = "lost",.slot = s->slot};

	Assert(!s->explained);
	if (cts != 0 && ht->idx != 0 && zen_htable_owns(ht, cts))
	{
		f.relation = relation_of(c, ht);
		f.has_tid = true;
		f.tidno = zen_word1_tidno(s->header.word1);
	}
	zen_report(&c->report, &f, "the slot is not free, but nothing uses it: Tx-CTS " UINT64_FORMAT ", HTable %u",
			   cts, ht->idx);
}

static void
clear_suspects(PoolCheck *c)
{
	HASHCTL		info = {.keysize = sizeof(ZenSlot),.entrysize = sizeof(Suspect),.hcxt = c->context};

	if (c->suspects != NULL)
		hash_destroy(c->suspects);
	c->suspects = hash_create("zen verify suspects", 1024, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* The slots that were suspect have had their time. */
static void
judge_slots(PoolCheck *c)
{
	HASH_SEQ_STATUS seq;
	Suspect    *s;
	int			tries = 1000;

	if (hash_get_num_entries(c->suspects) == 0)
		return;
	if (!poolcheck_settle())
	{
		clear_suspects(c);
		return;
	}
	hash_seq_init(&seq, c->suspects);
	while ((s = hash_seq_search(&seq)) != NULL)
		s->explained = !is_unchanged(s) || is_going(s->header);
	while (!zen_epoch_visit(explain_retired, c->suspects) && --tries > 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
	if (tries > 0 && zen_htable_unsettled() == 0)
	{
		hash_seq_init(&seq, c->suspects);
		while ((s = hash_seq_search(&seq)) != NULL)
			if (!s->explained && is_unchanged(s))
				report_lost(c, s);
	}
	clear_suspects(c);
}

/* ---------- slots ---------- */

static void
check_slot_cts(PoolCheck *c, uint32 region, ZenSlot slot, ZenTupleHeader h)
{
	uint64		cts = h.word0 & ZEN_CTS_MASK;
	ZenFinding	f = {.kind = "region",.slot = slot};

	if ((h.word0 & ZEN_LP) && !zen_region_is_committed(region, cts) && zen_tuple_header(slot).word0 == h.word0)
		zen_report(&c->report, &f, "LP says that Tx-CTS " UINT64_FORMAT " is committed, region %u has not got so far",
				   cts, region);
	if (!zen_cts_is_known(cts) && zen_tuple_header(slot).word0 == h.word0)
		zen_report(&c->report, &f, "Tx-CTS " UINT64_FORMAT " is beyond the persistent mark", cts);
}

static void
poolcheck_slot(PoolCheck *c, uint32 pageno, uint32 n)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		generation = pg_atomic_read_u32(&page->generation);
	ZenSlot		slot = zen_page_slot(pageno, n);
	ZenTupleHeader h = zen_tuple_header(slot);
	Suspect    *s;

	check_slot_cts(c, page->owner.region, slot, h);
	if (poolcheck_is_known(slot, h) || !zen_page_holds(slot))
		return;
	s = hash_search(c->suspects, &slot, HASH_ENTER, NULL);
	s->header = h;
	s->generation = generation;
	s->explained = false;
}

/* ---------- pages ---------- */

static void
suspect_page(PoolCheck *c, uint32 pageno, const char *what)
{
	ZenPage    *page = &zen_pages[pageno];
	PageSuspect s = {.pageno = pageno,.what = what,.generation = pg_atomic_read_u32(&page->generation),
	.word = zen_nvm_load64(zen_page_word(pageno)),.owned = page->owned,.nfree = pg_atomic_read_u32(&page->nfree)};

	Assert(pageno < c->end && what != NULL);
	if (c->npages < MAX_SUSPECTS)
		c->pages[c->npages++] = s;
}

static void
note_listed(uint32 pageno, void *arg)
{
	PoolCheck  *c = arg;

	/* the pool may have grown */
	if (pageno < c->end)
		zen_bit_set(c->listed, pageno);
}

/* Which pages are on the free list or in a context?  Contexts are read while their region is ours. */
static void
read_lists(PoolCheck *c)
{
	int			tries = 100;

	memset(c->listed, 0, TYPEALIGN(64, c->end) / 8);
	do
	{
		CHECK_FOR_INTERRUPTS();
		c->free_list_read = zen_page_walk_free(note_listed, c);
	} while (!c->free_list_read && --tries > 0);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		c->busy[r] = true;
		for (int i = 0; i < 100 && c->busy[r]; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (zen_region_try_lease(r))
			{
				ZenAssertRegionMine(r);
				zen_slotalloc_walk_region(r, note_listed, c);
				zen_region_release(r);
				c->busy[r] = false;
			}
			else if (zen_prepared_is_waiting(r))
				break;
			else
				pg_usleep(100);
		}
	}
}

static bool
is_listed(PoolCheck *c, uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	Assert(pageno >= zen_pool.first_data_page && pageno < c->end);
	if (page->owned ? c->busy[page->owner.region] : !c->free_list_read)
		return true;
	return zen_bit_get(c->listed, pageno);
}

/* Is there something wrong with a page?  NULL if not. */
static const char *
page_fault(PoolCheck *c, uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	if (!zen_page_agrees(pageno))
		return "the page directory is damaged, or does not say what the server has made of it";
	if (!is_listed(c, pageno))
		return page->owned ? "the page is owned, but its region does not know it" :
			"the page has no owner, but is not on the free list";
	if (page->owned && zen_page_count_free(pageno) != pg_atomic_read_u32(&page->nfree))
		return "the number of the page's free slots is wrong";
	return NULL;
}

/* The same state as before, and no process at work that may change it. */
static bool
page_is_unchanged(const PageSuspect *s)
{
	ZenPage    *page = &zen_pages[s->pageno];
	ZenHTable  *ht = &zen_htables[page->owner.htable];

	if (pg_atomic_read_u32(&page->generation) != s->generation || page->owned != s->owned ||
		zen_nvm_load64(zen_page_word(s->pageno)) != s->word || pg_atomic_read_u32(&page->nfree) != s->nfree)
		return false;
	if (!page->owned)
		return true;
	return pg_atomic_read_u32(&zen_regions[page->owner.region].leased) == 0 &&
		(ht->idx == 0 || ht->damaged || (ht->in_use && ht->create_xid == 0));
}

/* Drop from the suspects those pages that no longer look wrong. */
static void
judge_pages_once(PoolCheck *c)
{
	uint32		n = 0;

	read_lists(c);
	for (uint32 i = 0; i < c->npages; i++)
	{
		PageSuspect s = c->pages[i];

		Assert(n <= i);
		if (page_is_unchanged(&s) && page_fault(c, s.pageno) == s.what && page_is_unchanged(&s))
			c->pages[n++] = s;
	}
	c->npages = n;
}

/*
 * The pages that were suspect have had their time.  Twice: one may have been on its way from the free list, which no
 * region tells, at the moment of the first look.
 */
static void
judge_pages(PoolCheck *c)
{
	for (int i = 0; i < 2 && c->npages > 0; i++)
	{
		if (!poolcheck_settle())
			c->npages = 0;
		judge_pages_once(c);
	}
	for (uint32 i = 0; i < c->npages; i++)
	{
		ZenFinding	f = {.kind = "page",.location = psprintf("page %u", c->pages[i].pageno)};

		zen_report(&c->report, &f, "%s", c->pages[i].what);
	}
	c->npages = 0;
}

static void
check_page(PoolCheck *c, uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	const char *fault;

	CHECK_FOR_INTERRUPTS();
	fault = page_fault(c, pageno);
	if (fault != NULL)
		suspect_page(c, pageno, fault);
	for (uint32 n = 0; page->owned && n < page->nslots; n++)
		poolcheck_slot(c, pageno, n);
	if (hash_get_num_entries(c->suspects) > MAX_SUSPECTS)
		judge_slots(c);
	Assert(c->npages <= MAX_SUSPECTS);
	if (c->npages == MAX_SUSPECTS)
		judge_pages(c);
}

static void
check_pages(PoolCheck *c)
{
	c->end = zen_pool_pages();
	c->listed = palloc_extended(TYPEALIGN(64, c->end) / 8, MCXT_ALLOC_HUGE);
	c->busy = palloc(ZEN_MAX_REGIONS * sizeof(bool));
	c->pages = palloc(MAX_SUSPECTS * sizeof(PageSuspect));
	clear_suspects(c);
	read_lists(c);
	for (uint32 p = zen_pool.first_data_page; p < c->end; p = zen_page_after(p))
		if (zen_page_is_data(p))
			check_page(c, p);
	judge_slots(c);
	judge_pages(c);
}

/* ---------- the whole ---------- */

/* zen_verify_pool -- see doc/functions.md. */
Datum
zen_verify_pool(PG_FUNCTION_ARGS)
{
	PoolCheck	c = {0};
	MemoryContext old;

	if (RecoveryInProgress() && zen_pool_is_replica() && zen_pool_is_copied())
	{
		zen_report_begin(&c.report, fcinfo);
		zen_verify_copy(&c.report);
		return (Datum) 0;
	}
	zen_gate();
	ZenAssertNotInEpoch();
	zen_report_begin(&c.report, fcinfo);
	c.context = AllocSetContextCreate(CurrentMemoryContext, "zen verify pool", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(c.context);
	check_catalogs(&c);
	check_superblock(&c);
	check_regions(&c);
	check_htables(&c);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		poolcheck_map(&c, &zen_htables[i]);
	check_pages(&c);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(c.context);
	return (Datum) 0;
}
