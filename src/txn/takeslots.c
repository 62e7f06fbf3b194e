/*
 * takeslots.c -- a commit takes the slots that its writes need.
 *
 * R1: only the last version of each tuple is written.  R11: the region is ours.
 */
#include "txn/takeslots.h"

#include "base/fault.h"
#include "gc/reclaim.h"
#include "nvm/slotalloc.h"
#include "txn/deltas.h"

/* Is there an older version with a slot?  Inside an epoch: the version below may be made lean. */
static bool
replaces_slot(ZenVersion *v)
{
	ZenAssertInEpoch();
	for (v = v->older; v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot)
			return true;
	return false;
}

static inline bool
is_tombstone(const ZenWrite *w)
{
	return (zen_version_flags(w->version) & ZEN_V_TOMBSTONE) != 0;
}

/*
 * Is w the newest version of its tuple, and worth a slot?  spilled: the transaction has spilled rows.  Inside an epoch,
 * if it is a tombstone.
 */
static bool
needs_slot(ZenWrite *w, bool spilled)
{
	uint64		now = zen_word_read(w->word);
	ZenVersion *v = w->version;

	if (zen_word_state(now) != ZEN_WORD_ENTRY || (zen_word_entry(now) != v && !ZEN_FAULT(R15_SAME_CTS_TWICE)) ||
		(zen_version_flags(v) & ZEN_V_ABORTED) || !w->ht->in_use)
		return false;
	if (!is_tombstone(w))
		return true;
	/* a spilled tombstone may say that the row has gone here */
	if (spilled && (zen_version_flags(v) & (ZEN_V_FORWARD | ZEN_V_MOVED)))
		return true;

	/*
	 * a row inserted and deleted by this transaction leaves nothing to be
	 * deleted in NVM
	 */
	return replaces_slot(v);
}

void
zen_return_slots(ZenWriteSet *ws)
{
	for (ZenWrite *w = ws->writes; w < ws->writes + ws->nwrites; w++)
		if (w->slot != InvalidZenSlot)
		{
			zen_slot_free(w->slot);
			w->slot = InvalidZenSlot;
			if (w->version != NULL)
				w->version->slot = InvalidZenSlot;
		}
}

#define RUN		ZEN_TIDS_PER_BLOCK	/* slots that are taken at once */

/* How many writes, from w on, take slots of one class, as rows of one table or its tombstones?  0: w needs none. */
static uint32
run_length(ZenWrite *w, const ZenWrite *end, bool spilled)
{
	bool		deleted = is_tombstone(w);
	uint32		class = zen_class_of(zen_write_size(w));
	uint32		n = 0;

	if (deleted)
		zen_epoch_enter();
	for (ZenWrite *next = w; n < RUN && next < end; next++, n++)
	{
		zen_ask_ahead(next, end);
		if (next->ht != w->ht || is_tombstone(next) != deleted ||
			zen_class_of(zen_write_size(next)) != class || !needs_slot(next, spilled))
			break;
	}
	if (deleted)
		zen_epoch_leave();
	return n;
}

/* Take slots for n writes that take the same; returns how many got one. */
static uint32
take_run(uint32 region, ZenWrite *w, uint32 n)
{
	ZenSlot		slots[RUN];
	Size		size = zen_write_size(w);
	uint32		got;

	if (n > 1)
		got = zen_slot_alloc_many(region, w->ht, size, n, slots);
	else
	{
		slots[0] = zen_slot_alloc(region, w->ht, size);
		got = slots[0] != InvalidZenSlot ? 1 : 0;
	}
	for (uint32 i = 0; i < got; i++)
	{
		Assert(w[i].slot == InvalidZenSlot);
		Assert(zen_pages[zen_slot_page(slots[i])].owner.region == region);
		w[i].slot = slots[i];
		if (ZEN_FAULT(R5_COUNT_DOWN_EARLY))
			zen_collect_forget_header(zen_tuple_header(w[i].slot));
	}
	return got;
}

/* Take slots for all writes from the leased region; none are taken on failure. */
static bool
take_all(uint32 region, ZenWriteSet *ws)
{
	const ZenWrite *end = ws->writes + ws->nwrites;
	bool		spilled = ws->nblocks > 0;

	for (ZenWrite *w = ws->writes; w < end;)
	{
		uint32		n = run_length(w, end, spilled);
		uint32		got = n > 0 ? take_run(region, w, n) : 1;

		Assert(n > 0 || w->slot == InvalidZenSlot);
		if (got == 0)
		{
			zen_return_slots(ws);
			return false;
		}
		w += got;
	}
	return true;
}

/*
 * The pool is full for the leased region: collect all garbage, then try with any other region that is free.  *region is
 * the one that is leased, before and behind.
 */
static bool
take_of_any(uint32 *region, ZenWriteSet *ws)
{
	uint32		own = *region;

	ZenAssertRegionMine(own);
	zen_reclaim_for_slots(own);
	if (take_all(own, ws))
		return true;
	/* R3: rows spilled have bound the transaction to its region */
	if (ws->nblocks > 0)
		return false;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		if (!zen_region_try_lease(r))
			continue;
		if (take_all(r, ws))
		{
			zen_region_release(own);
			*region = r;
			return true;
		}
		zen_region_release(r);
	}
	return false;
}

bool
zen_take_slots(uint32 *region, ZenWriteSet *ws)
{
	return take_all(*region, ws) || take_of_any(region, ws);
}
