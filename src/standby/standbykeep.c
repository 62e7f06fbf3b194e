/*
 * standbykeep.c -- the end of a hot standby: what a promotion keeps of its maps (S18).
 *
 * Replay is over, and no reader is left.  So of each row the newest committed version is all that is needed: its word
 * leads to the slot, and versions in DRAM go.  Recovery takes these words as it takes a saved map's.  It reads the
 * pages where something may count, or must be taken away, to which no word leads.  All others are told of.
 */
#include "standby/standbykeep.h"

#include "access/xlog.h"
#include "base/arena.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "cache/tidmap.h"
#include "cache/version.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "standby/followers.h"
#include "standby/standbycollect.h"
#include "standby/standbyrows.h"
#include "standby/standbystate.h"

/* ---------- pages ---------- */

/*
 * Small tables share pages with what is no row.  Bases are found by the versions that lean on them (R22).  A word that
 * is not as DRAM knows it says that the page is going.
 */
static bool
tells_of(uint32 pageno)
{
	const ZenPage *page = &zen_pages[pageno];

	return zen_page_is_data(pageno) && page->owned && page->owner.htable != 0 && !page->suspect &&
		!page->deltas && zen_page_agrees(pageno);
}

/* A version of a transaction that has not committed: it is prepared, or its slot has to be scrubbed. */
static void
doubt_item(ZenDueItem *item, uint64 arg)
{
	if (item->version != NULL && item->version->slot != InvalidZenSlot &&
		!zen_standby_writer_committed(item->version) && !ZEN_FAULT(S18_LOSERS_TOLD))
		zen_page_doubt(zen_slot_page(item->version->slot));
}

/* NULL: DRAM is full. */
static uint64 *
list_told(Size bytes)
{
	uint64	   *told = zen_arena_alloc(bytes);

	if (told == NULL)
		return NULL;
	memset(told, 0, bytes);
	zen_due_for_all(doubt_item, 0);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (tells_of(p))
			told[p / 64] |= UINT64CONST(1) << (p % 64);
	return told;
}

/* ---------- words ---------- */

/* Has the slot still the version?  The newest committed one leans on it. */
static bool
slot_has(const ZenHTable *ht, uint64 tidno, ZenVersion *v)
{
	ZenTupleHeader h;

	if (!zen_page_holds(v->slot))
		return false;
	h = zen_tuple_header(v->slot);
	return zen_standby_owner(h) == ht && zen_word1_tidno(h.word1) == tidno && zen_word1_code(h.word1) == v->code &&
		((h.word1 & ZEN_DELETED) != 0) == ((zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0);
}

/* A row's versions go, and the word leads to the slot of the newest committed one.  False: it has no slot. */
static bool
reduce_entry(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenVersion *head = zen_word_entry(pg_atomic_read_u64(word));
	ZenVersion *newest = head;
	uint64		w;

	while (newest != NULL && !zen_standby_writer_committed(newest))
		newest = newest->older;
	if (newest != NULL && newest->slot == InvalidZenSlot && (zen_version_flags(newest) & ZEN_V_TOMBSTONE) != 0)
		newest = NULL;
	if (newest != NULL && !slot_has(ht, tidno, newest))
		return false;
	w = zen_word_lock(word);
	if (newest == NULL)
		w = zen_word_with(w, ZEN_WORD_DEAD, 0);
	else
		w = zen_word_with(w, (zen_version_flags(newest) & ZEN_V_TOMBSTONE) ? ZEN_WORD_DEAD : ZEN_WORD_NVM,
						  newest->slot);
	zen_word_unlock(word, w);
	zen_standby_retire_all(head);
	return true;
}

static bool
reduce_map(ZenHTable *ht)
{
	uint64		n = zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK;
	ZenLeaf		leaf = ZEN_NO_LEAF;

	for (uint64 tidno = 0; tidno < n; tidno++)
	{
		ZenWord    *word = zen_tidmap_word_near(ht, tidno, &leaf);

		if (zen_word_state(pg_atomic_read_u64(word)) == ZEN_WORD_ENTRY && !reduce_entry(ht, tidno, word))
			return false;
	}
	return true;
}

static bool
reduce_maps(void)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && !reduce_map(&zen_htables[i]))
			return false;
	return true;
}

/* ---------- the whole ---------- */

/* The halves in DRAM of tables and pages are recovery's to make. */
static void
forget_directories(ZenKeptMaps *kept)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		kept->births[i] = zen_htables[i].in_use ? zen_htables[i].birth_cts : ZEN_NO_BIRTH;
		if (zen_htables[i].in_use)
			zen_htable_forget(i);
	}
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_page_is_data(p))
			zen_page_forget(p);
}

/* NULL: it cannot be done, and the maps are of no use. */
static ZenKeptMaps *
keep_maps(void)
{
	Size		bytes = (zen_pool_pages() + 63) / 64 * sizeof(uint64);
	uint64	   *told = list_told(bytes);
	ZenKeptMaps *kept;

	if (told == NULL)
		return NULL;
	if (!reduce_maps())
	{
		zen_arena_free(told, bytes);
		return NULL;
	}
	zen_due_remove_all();
	zen_epoch_wait();
	zen_epoch_flush();
	zen_standby_dirty = false;
	kept = palloc(sizeof(ZenKeptMaps));
	kept->births = palloc(ZEN_MAX_HTABLES * sizeof(uint64));
	kept->told = told;
	kept->told_bytes = bytes;
	forget_directories(kept);
	return kept;
}

ZenKeptMaps *
zen_standby_promote(bool keep)
{
	ZenKeptMaps *kept = NULL;

	Assert(!RecoveryInProgress());
	if (!zen_standby_reads || !IsUnderPostmaster)
		return NULL;
	LWLockAcquire(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE);
	if (zen_standby_state() == ZEN_STANDBY_LIVE)
	{
		zen_standby_become(ZEN_STANDBY_WAITING);
		zen_standby_end_readers();
		/* pinned: by a reader that has ended, and is about to let go */
		if (keep)
			zen_followers_promote();
		else
			zen_followers_lose(0);
		if (keep)
			kept = keep_maps();
		if (kept == NULL)
		{
			zen_followers_lose(0);
			zen_standby_drop();
		}
		(void) zen_followers_sweep();
	}
	if (zen_standby_state() != ZEN_STANDBY_ENDED)
		zen_standby_become(ZEN_STANDBY_ENDED);
	LWLockRelease(zen_lock(ZEN_LOCK_STANDBY));
	return kept;
}
