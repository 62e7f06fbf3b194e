/*
 * standbyadopt.c -- behind a promotion: the tree that stood in for an index of zentree becomes the index's own (S19).
 *
 * The table waits for its indexes, and no prepared transaction has changed it.  So a TID has one row, which has
 * committed, or none.  The tree has the entries of all rows that it was told of, up to its last reader.  It may have
 * others: of rows that have gone, and of rows whose TID has another one now.  src/standby/README, "Promotion", has the
 * argument.
 */
#include "admin/standbyadopt.h"

#include "admin/standbyentries.h"
#include "base/fault.h"
#include "cache/tidmap.h"
#include "index/treedir.h"
#include "recovery/gate.h"
#include "storage/ipc.h"
#include "table/zenam_rel.h"
#include "table/zenam_reindex.h"

/* A row that is entered takes as long as so many that a build sorts, or less.  Few take no time. */
#define ENTRY_COST	32
#define FEW_ROWS	10000

typedef struct Adoption
{
	ZenEntries	e;
	ZenLeaf		leaf;			/* of the TID looked at last */
} Adoption;

static bool
has_row(Adoption *a, uint64 tidno)
{
	ZenWord    *word = zen_tidmap_word_near(a->e.ht, tidno, &a->leaf);

	return word != NULL && zen_word_state(zen_word_read(word)) >= ZEN_WORD_NVM;
}

/* An entry goes if its TID has no row.  If it may be of another row, it goes, and the row's own is entered later. */
static bool
goes(ItemPointer tid, void *arg)
{
	Adoption   *a = arg;
	uint64		tidno = zen_tidno(tid);

	if (!has_row(a, tidno))
		return true;
	if (!zen_follower_doubts(a->e.follower, tidno))
		return false;
	zen_entries_note_later(&a->e, tidno);
	return true;
}

/* Note the rows that no reader has entered.  False: a build takes less time. */
static bool
note_news(Adoption *a)
{
	uint64		most = Max(FEW_ROWS, pg_atomic_read_u64(&a->e.tree->entries) / ENTRY_COST);
	uint64		n = 0;
	ZenNewsCopy copy;

	if (!zen_follower_news(a->e.follower, &copy))
		return false;
	for (uint64 i = 0; i < copy.n; i++)
		n += copy.news[i].n;
	if (n > most)
		return false;
	for (uint64 i = 0; i < copy.n && !ZEN_FAULT(S19_UNHEARD); i++)
		for (uint64 t = 0; t < copy.news[i].n; t++)
			zen_entries_note_later(&a->e, copy.news[i].tidno + t);
	return true;
}

#ifdef USE_ASSERT_CHECKING
static bool
count_entry(ItemPointer tid, void *arg)
{
	(*(uint64 *) arg)++;
	return false;
}

/* An index without a predicate has one entry for each row. */
static void
check_entries(Adoption *a)
{
	uint64		entries = 0,
				rows = 0;

	for (uint64 t = 0; t < zen_tidmap_nblocks(a->e.ht) * ZEN_TIDS_PER_BLOCK; t++)
		rows += has_row(a, t);
	zentree_clean(a->e.tree, a->e.index, count_entry, &entries);
	Assert(entries == rows || a->e.form.info->ii_Predicate != NIL ||
		   ZEN_FAULT(S13_UNDOUBTED) || ZEN_FAULT(S19_UNHEARD) || ZEN_FAULT(S19_UNCLEANED));
}
#endif

/* Make the tree that of the table's rows. */
static bool
make_true(Relation table, Relation index, ZenHTable *ht, ZenFollower *follower)
{
	Adoption   *a = palloc(sizeof(Adoption));
	bool		done;

	a->leaf = (ZenLeaf) ZEN_NO_LEAF;
	zen_entries_begin(&a->e, table, index, ht, follower);
	done = note_news(a);
	if (done)
	{
		if (pg_atomic_read_u32(&follower->stale) != 0 && !ZEN_FAULT(S19_UNCLEANED))
			zentree_clean(a->e.tree, index, goes, a);
		zen_entries_enter_later(&a->e);
#ifdef USE_ASSERT_CHECKING
		check_entries(a);
#endif
	}
	zen_entries_end(&a->e);
	pfree(a);
	return done;
}

static void
adoption_failed(int code, Datum arg)
{
	zen_follower_abandon((ZenFollower *) DatumGetPointer(arg));
}

/* Damage that recovery has found, or set right, may have hidden a row from the standby. */
static bool
was_damaged(void)
{
	return pg_atomic_read_u64(&zen_recovery->damaged) > 0 || pg_atomic_read_u64(&zen_recovery->repaired) > 0;
}

static bool
adopt(Relation table, Relation index, ZenHTable *ht)
{
	RelFileLocator loc = zen_rel_locator(index);
	ZenFollower *follower = was_damaged() || zen_tree_exists(&loc) ? NULL : zen_follower_find(ht, loc);
	ZenTree    *tree = NULL;

	if (follower == NULL)
		return false;
	PG_ENSURE_ERROR_CLEANUP(adoption_failed, PointerGetDatum(follower));
	{
		if (make_true(table, index, ht, follower))
			tree = zen_follower_take(follower);
	}
	PG_END_ENSURE_ERROR_CLEANUP(adoption_failed, PointerGetDatum(follower));
	zen_follower_abandon(follower);
	if (tree == NULL)
		return false;
	zen_tree_adopt(index, tree);
	ereport(DEBUG1,
			(errmsg_internal("index \"%s\" keeps the tree of the standby", RelationGetRelationName(index))));
	return true;
}

void
zen_standbyadopt_init(void)
{
	zen_reindex_keeps_tree = adopt;
}
