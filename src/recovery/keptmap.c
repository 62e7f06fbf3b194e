/*
 * keptmap.c -- recovery at a promotion, with the maps that the hot standby had (S18).
 *
 * The words are there.  What a primary needs beside them is found without the rows: a slot is free if no word leads to
 * it.  Stale headers in free slots are counted by the first pass, as for a saved map (runload.c).
 */
#include "recovery/keptmap.h"

#include "base/arena.h"
#include "base/fault.h"
#include "cache/tidmap.h"
#include "nvm/page.h"
#include "nvm/repair.h"
#include "recovery/recstate.h"
#include "recovery/runmap.h"
#include "standby/followers.h"
#include "standby/standbystate.h"

void
zen_keptmap_begin(ZenKeptMaps *kept)
{
	ZenAssertRecoveryLeader();
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (kept->births[i] != ZEN_NO_BIRTH && (!ht->in_use || ht->birth_cts != kept->births[i]))
		{
			zen_tidmap_drop(ht);
			kept->births[i] = ZEN_NO_BIRTH;
		}
	}
	for (uint32 r = 0; r < ZEN_MAX_REGIONS && !ZEN_FAULT(S18_UNPROVEN); r++)
		zen_recovery->fates[r].ts_commit = Max(zen_recovery->fates[r].ts_commit, zen_standby->proven[r]);
}

static void
forget_kept(ZenKeptMaps *kept)
{
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (kept->births[i] != ZEN_NO_BIRTH)
			zen_tidmap_drop(&zen_htables[i]);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
			zen_page_free_all(p, false);
	zen_arena_free(kept->told, kept->told_bytes);
	/* trees have what the maps had */
	zen_followers_lose(0);
	(void) zen_followers_sweep();
	ereport(LOG,
			(errmsg("zen reads all pages, as the maps of the standby do not fit the pool")));
}

/* The pages that are told of, by what is known of them now: all their slots count as free.  How many are not? */
static uint32
settle_told(ZenKeptMaps *kept, uint32 *nowned)
{
	uint32		nread = 0;

	*nowned = 0;
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		const ZenPage *page = &zen_pages[p];
		uint64		bit = UINT64CONST(1) << (p % 64);

		if (!page->owned || page->lost || kept->births[page->owner.htable] == ZEN_NO_BIRTH)
			kept->told[p / 64] &= ~bit;
		*nowned += page->owned;
		if ((kept->told[p / 64] & bit) != 0)
			zen_page_free_all(p, true);
		else
			nread += page->owned;
	}
	return nread;
}

/* A word that leads to a page that is read leads nowhere until then.  False: two words lead to one slot. */
static bool
claim_slots(const ZenKeptMaps *kept, ZenHTable *ht)
{
	uint64		n = zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK;
	ZenLeaf		leaf = ZEN_NO_LEAF;

	for (uint64 tidno = 0; tidno < n; tidno++)
	{
		ZenWord    *word = zen_tidmap_word_near(ht, tidno, &leaf);
		ZenSlot		slot = zen_word_ref(pg_atomic_read_u64(word));
		uint32		p = zen_slot_page(slot);

		if (slot == InvalidZenSlot)
			continue;
		if (p >= zen_pool_pages())
			return false;
		if ((kept->told[p / 64] >> (p % 64) & 1) == 0)
			pg_atomic_write_u64(word, ZEN_WORD_UNUSED);
		else if (!zen_page_claim(p, zen_page_slot_index(slot)))
			return false;
	}
	return true;
}

bool
zen_keptmap_take(ZenKeptMaps *kept)
{
	bool		sound = zen_damages == 0;
	uint32		nowned = 0,
				nread = 0;

	ZenAssertRecoveryLeader();
	Assert(zen_recovery->told == NULL && zen_recovery_pass() == ZEN_PASS_NONE);
	kept->births[0] = ZEN_NO_BIRTH;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		sound &= !zen_htables[i].damaged;
	if (sound)
		nread = settle_told(kept, &nowned);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES && sound; i++)
		sound = kept->births[i] == ZEN_NO_BIRTH || claim_slots(kept, &zen_htables[i]);
	if (!sound)
	{
		forget_kept(kept);
		return false;
	}
	ereport(LOG,
			(errmsg("zen keeps the maps of the standby, and reads %u of %u pages", nread, nowned)));
	zen_recovery->told = kept->told;
	zen_recovery->told_bytes = kept->told_bytes;
	return true;
}
