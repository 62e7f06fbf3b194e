/*
 * passes.c -- recovery's passes over the pages, in chunks by several processes, and what becomes of damaged slots.
 *
 * src/recovery/README, "Recovery by several processes", says how a chunk is taken, when a pass is over, and why the
 * result does not depend on the order of the work.  Each process works on pages of its own: no other process writes a
 * slot of this page.  Its descriptor is shared only in the free bits, which are atomic.  Shared are
 *
 *	- the fates of regions: first pass, under a spinlock;
 *	- the map words: second pass, under their lock bits;
 *	- counters, which are atomic.
 *
 * Each slot's CRC is checked.  src/nvm/README, "Damaged slots", says what can be told from a damaged one.
 */
#include "recovery/passes.h"

#include "base/startup.h"
#include "base/fault.h"
#include "base/locks.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "nvm/delta.h"
#include "nvm/persist.h"
#include "nvm/repair.h"
#include "nvm/sink.h"
#include "nvm/slotalloc.h"
#include "nvm/slotread.h"
#include "recovery/runmap.h"
#include "recovery/savedmap.h"
#include "storage/ipc.h"
#include "storage/spin.h"
#include "stream/streamtail.h"
#include "tcop/tcopprot.h"
#include "txn/prepared.h"
#include "txn/xact.h"
#include "utils/wait_event.h"

#define LOOK_MS			10000	/* between two calls of report */
#define LOOK_AHEAD		12		/* slots: as long as a line takes to come */
#define MAX_REPORTS		1000	/* damaged slots named in the log, at most */

/* What a slot is. */
typedef enum SlotFate
{
	SLOT_EMPTY,
	SLOT_VOID,					/* empty, but may be taken for a version */
	SLOT_NEVER,					/* a bit of an empty slot has flipped */
	SLOT_PREPARED,				/* of a transaction that is still prepared */
	SLOT_LOSER,					/* of a transaction that did not commit */
	SLOT_FOREIGN,				/* of a table that is gone; or row locks */
	SLOT_UNTOUCHED,				/* of a table whose directory entry is damaged */
	SLOT_COMMITTED,
	SLOT_DAMAGED
} SlotFate;

static void
note_repair(ZenSlot slot)
{
	Assert(zen_page_holds(slot));
	pg_atomic_fetch_add_u64(&zen_recovery->repaired, 1);
	zen_note_repair(zen_slot_ptr(slot));
}

/* Is there nothing in the slot but one bit of word0, where a Tx-CTS would be?  Its CRC does not fit. */
static bool
never_used(ZenSlot slot, ZenTupleHeader h)
{
	const ZenTupleBody *body = (const ZenTupleBody *) ((const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);

	return zen_one_bit(h.word0) && h.word1 == 0 && body->len == 0 && body->crc == 0;
}

/* ---------- first pass ---------- */

/*
 * Is this slot evidence that its region has committed up to its Tx-CTS?  Caller: it is larger than any seen.
 *
 * LP is set last (R2), so a slot that carries LP was whole once.  If it is not whole now, either something behind its
 * Tx-CTS is damaged, and the LP is good, or the Tx-CTS itself is, by more than one bit.  To disbelieve a good LP loses
 * committed transactions; to believe a bad one makes, at worst, the region's last unfinished transaction
 * visible.  So it is believed.
 *
 * After a clean stop every slot is committed and below the watermark; an intact one that is not shows that the
 * watermark is damaged.
 */
static bool
is_evidence(ZenSlot slot, Size size, ZenRegionFate *fate, uint64 *cts)
{
	ZenTupleHeader h;
	bool		intact = zen_tuple_intact(slot, size);

	if (!intact && !zen_tuple_is_void(slot) && zen_tuple_repairable(slot, size, &h))
	{
		zen_tuple_repair(slot, h);
		note_repair(slot);
		intact = true;
	}
	h = zen_tuple_header(slot);
	*cts = h.word0 & ZEN_CTS_MASK;
	if (*cts == fate->prepared_cts || *cts == fate->undone_cts || *cts > zen_recovery->cts_limit)
		return false;
	if (!zen_recovery->after_crash)
		return intact;
	return (h.word0 & ZEN_LP) != 0;
}

/* Raise the anchor of the page's region.  Flushes every header line after a crash (R10).  Never throws. */
static void
pass_commits(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	ZenRegionFate *fate = &zen_recovery->fates[page->owner.region];
	Size		size = zen_class_size(page->owner.class);
	char	   *at = zen_page_ptr(pageno);
	const char *flushed = NULL;
	uint64		largest = 0,
				best = fate->ts_commit;
	ZenSlot		anchor = InvalidZenSlot;

	ZenAssertInPass(zen_recovery_pass() == ZEN_PASS_COMMITS);
	Assert(page->owned && !page->lost && page->owner.region < ZEN_MAX_REGIONS);
	for (uint32 n = 0; n < page->nslots; n++, at += size)
	{
		uint64		word0 = zen_nvm_load64((uint64 *) at);
		uint64		cts = word0 & ZEN_CTS_MASK;
		const char *line = (const char *) TYPEALIGN_DOWN(ZEN_LINE, (uintptr_t) at);

		__builtin_prefetch(at + LOOK_AHEAD * size);
		if (zen_recovery->after_crash && line != flushed && !ZEN_FAULT(R10_NO_FLUSH_OF_BELIEVED))
		{
			zen_flush(at, ZEN_HEADER_SIZE); /* R10 */
			flushed = line;
		}
		if (cts <= zen_recovery->cts_limit)
			largest = Max(largest, cts);
		if (cts > best && ((word0 & ZEN_LP) || !zen_recovery->after_crash))
		{
			ZenSlot		slot = zen_page_slot(pageno, n);

			if (is_evidence(slot, size, fate, &cts) && cts > best)
			{
				best = cts;
				anchor = slot;
			}
		}
	}
	zen_recovery_raise(&zen_recovery->largest_cts, largest);
	if (anchor == InvalidZenSlot)
		return;
	Assert(best <= zen_recovery->cts_limit && best > fate->ts_commit && best != fate->prepared_cts);
	SpinLockAcquire(&zen_recovery->lock);
	if (best > fate->anchor_cts)
	{
		fate->anchor_cts = best;
		fate->anchor = anchor;
	}
	SpinLockRelease(&zen_recovery->lock);
}

/* ---------- second pass ---------- */

/* R3; the whole region was seen before. */
static bool
is_committed(ZenRegionFate *fate, ZenTupleHeader h)
{
	uint64		cts = h.word0 & ZEN_CTS_MASK;

	Assert(zen_recovery_pass() != ZEN_PASS_COMMITS);
	if (ZEN_FAULT(R3_TRUST_LP_ONLY))
		return (h.word0 & ZEN_LP) != 0;
	if (ZEN_FAULT(R3_DELETED_FIRST) && (h.word1 & ZEN_DELETED))
		return true;
	if (ZEN_FAULT(R3_DECIDE_EARLY) && (h.word0 & ZEN_LP))
		fate->ts_commit = Max(fate->ts_commit, cts);
	return cts <= fate->ts_commit && cts != fate->undone_cts;
}

/* The fate of an intact slot that is not empty. */
static SlotFate
judge_intact(ZenRegionFate *fate, ZenTupleHeader h)
{
	uint64		cts = h.word0 & ZEN_CTS_MASK;
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];

	Assert(cts != 0);
	if (fate->prepared_cts != 0 && cts == fate->prepared_cts)
		return ht->idx == 0 || zen_htable_owns(ht, cts) ? SLOT_PREPARED : SLOT_UNTOUCHED;
	if (cts > zen_recovery->cts_limit)
		return SLOT_DAMAGED;
	if (!is_committed(fate, h))
		return SLOT_LOSER;
	if (ht->damaged)
		return SLOT_UNTOUCHED;
	if (ZEN_FAULT(R5_IGNORE_TOMBSTONES) && (h.word1 & ZEN_DELETED))
		return SLOT_FOREIGN;
	if (ht->idx == 0 || !zen_htable_owns(ht, cts))
		return SLOT_FOREIGN;

	/* strayed from its page: the map of an open table is not changed */
	return zen_recovery_is_open(ht) ? SLOT_DAMAGED : SLOT_COMMITTED;
}

/* A slot without a Tx-CTS, or with the body of a scrubbed one. */
static SlotFate
judge_empty(ZenSlot slot, ZenTupleHeader h)
{
	bool		is_void = zen_tuple_is_void(slot);

	if (!zen_recovery->after_crash && is_void && h.word0 != 0)
		return SLOT_NEVER;
	if (!zen_tuple_has_body(slot) || (is_void && !zen_recovery->after_crash))
		return SLOT_EMPTY;

	/*
	 * After a crash: a line of a new version without its header, or a scrub
	 * of which a line may not be on the medium (R10).
	 */
	return SLOT_VOID;
}

/*
 * A flipped bit is set right, but not in a loser after a crash.  A write that the crash has cut short may be one bit
 * away from the version that was being written, and from no other.  That version is a loser, so the log says nothing of
 * it.
 */
static SlotFate
judge_repairable(ZenSlot slot, ZenRegionFate *fate, ZenTupleHeader h)
{
	SlotFate	result = judge_intact(fate, h);

	if (result == SLOT_LOSER && zen_recovery->after_crash && (h.word0 & ZEN_LP) == 0)
		return SLOT_LOSER;
	zen_tuple_repair(slot, h);
	note_repair(slot);
	return result;
}

/* The fate of a slot; *h: its header, set right if that can be done. */
static SlotFate
judge_slot(ZenSlot slot, Size size, ZenRegionFate *fate, ZenTupleHeader *h)
{
	ZenTupleHeader repaired;

	*h = zen_tuple_header(slot);
	if ((h->word0 & ZEN_CTS_MASK) == 0 || zen_tuple_is_void(slot))
		return judge_empty(slot, *h);
	if (zen_tuple_intact(slot, size))
		return judge_intact(fate, *h);
	if (zen_tuple_repairable(slot, size, &repaired))
	{
		*h = repaired;
		return judge_repairable(slot, fate, repaired);
	}
	if (never_used(slot, *h))
		return SLOT_NEVER;
	/* torn, as the last transaction of its region may be (R7) */
	if (zen_recovery->after_crash && (h->word0 & ZEN_CTS_MASK) > fate->ts_commit &&
		(h->word0 & ZEN_CTS_MASK) != fate->prepared_cts && (h->word0 & ZEN_CTS_MASK) <= zen_recovery->cts_limit)
		return SLOT_LOSER;
	return SLOT_DAMAGED;
}

/*
 * R15: a transaction writes a row once, so if there are two such slots, one was written over the slot of another row.
 */
static void
report_copy(ZenSlot slot)
{
	pg_atomic_fetch_add_u64(&zen_recovery->damaged, 1);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the slot at offset " UINT64_FORMAT " of the zen pool is damaged", slot * ZEN_SLOT_UNIT),
			 errdetail("It is a copy of another one; which row it held is unknown.")));
}

/*
 * A committed version: the newest of its tuple enters the map, others are stale.  A tombstone's word is DEAD already.
 */
static void
place_version(ZenHTable *ht, ZenSlot slot, ZenTupleHeader h)
{
	ZenWord    *word = zen_tidmap_extend(ht, zen_word1_tidno(h.word1));
	uint64		w = zen_word_lock(word);
	uint64		state = (h.word1 & ZEN_DELETED) ? ZEN_WORD_DEAD : ZEN_WORD_NVM;
	ZenSlot		older = InvalidZenSlot;
	bool		twice = false;

	Assert(zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK) && !ht->damaged);
	/* no reader is at the map that is changed here */
	Assert(!zen_recovery_is_open(ht));
	if (zen_word_ref(w) == 0)
		w = zen_word_with(w, state, slot);
	else
	{
		ZenTupleHeader other = zen_tuple_header(zen_word_ref(w));
		bool		newer = (h.word0 & ZEN_CTS_MASK) > (other.word0 & ZEN_CTS_MASK);

		Assert(zen_word_ref(w) != slot);
		Assert(zen_word_state(w) == ((other.word1 & ZEN_DELETED) ? ZEN_WORD_DEAD : ZEN_WORD_NVM));
		twice = h.word0 == other.word0;
		older = newer ? zen_word_ref(w) : slot;
		if (newer)
			w = zen_word_with(w, state, slot);
		if (!((newer ? other : h).word1 & ZEN_DELETED) && !ZEN_FAULT(R5_NO_RECOUNT))
			w = zen_word_stale_inc(w);
	}
	zen_word_unlock(word, w);
	if (older != InvalidZenSlot)
		zen_slot_free(older);
	if (twice)
		report_copy(older);
}

/* Find the lost transactions of a page of HTable 0. */
static void
look_for_tail(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	ZenRegionFate *fate = &zen_recovery->fates[page->owner.region];
	Size		size = zen_class_size(page->owner.class);

	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE && page->owned && !page->lost);
	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h;

		if (judge_slot(slot, size, fate, &h) == SLOT_FOREIGN && zen_word1_htable(h.word1) == 0)
			zen_streamtail_found(slot, h.word0 & ZEN_CTS_MASK);
	}
}

void
zen_passes_tail(void)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned && !zen_pages[p].lost && zen_pages[p].owner.htable == 0)
			look_for_tail(p);
}

static void
scrub_and_free(ZenSlot slot)
{
	Assert(zen_page_holds(slot) && !zen_slot_is_free(slot));
	if (!ZEN_FAULT(R7_LOSERS_STAY))
		zen_tuple_scrub(slot);
	zen_slot_free(slot);
}

/* Slots of a page that copies of the pool may have in use. */
static void
scrub_and_free_all(uint32 pageno, const uint16 *slots, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
		ZEN_TELL(vanishing, zen_page_slot(pageno, slots[i]));
	ZEN_TELL(vanish, zen_pages[pageno].owner.region, 0);
	for (uint32 i = 0; i < n; i++)
		scrub_and_free(zen_page_slot(pageno, slots[i]));
	if (zen_sink.done != NULL)
		zen_fence();
	ZEN_TELL(done);
}

/* Losers are scrubbed, committed versions enter the maps.  Throws when DRAM is full. */
static void
pass_maps(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	ZenRegionFate *fate = &zen_recovery->fates[page->owner.region];
	Size		size = zen_class_size(page->owner.class);
	uint32		losers = 0,
				nvanishing = 0;
	uint16		vanishing[ZEN_PAGE_SIZE / ZEN_TOMBSTONE_SIZE];
	uint64		sound = 0;		/* of 64 slots */

	ZenAssertInPass(zen_recovery_pass() == (zen_htables[page->owner.htable].late ? ZEN_PASS_LATE : ZEN_PASS_MAPS));
	Assert(page->owned && !page->lost);
	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h;

		switch (judge_slot(slot, size, fate, &h))
		{
			case SLOT_COMMITTED:
				place_version(&zen_htables[zen_word1_htable(h.word1)], slot, h);
				if (unlikely(zen_tuple_is_delta(slot)))
					zen_page_has_deltas(slot);	/* I20: its base was not seen */
				else
					sound |= UINT64CONST(1) << (n % 64);	/* I20 */
				break;
			case SLOT_FOREIGN:
				if (zen_word1_htable(h.word1) != 0 || !zen_streamtail_is_lost(slot))
					zen_slot_free(slot);
				break;
			case SLOT_EMPTY:
				zen_slot_free(slot);
				break;
			case SLOT_VOID:
				scrub_and_free(slot);
				break;
			case SLOT_NEVER:
				note_repair(slot);
				vanishing[nvanishing++] = n;
				break;
			case SLOT_LOSER:
				vanishing[nvanishing++] = n;
				losers++;
				break;
			case SLOT_PREPARED:
				LWLockAcquire(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE);
				zen_prepared_found(page->owner.region, slot);
				LWLockRelease(zen_lock(ZEN_LOCK_RECOVERY));
				break;
			case SLOT_UNTOUCHED:
				break;
			case SLOT_DAMAGED:
				page->suspect = true;
				break;
		}
		if (n % 64 == 63 || n + 1 == page->nslots)
		{
			zen_slot_note_sound(pageno, n - n % 64, sound);
			sound = 0;
		}
	}
	if (nvanishing > 0)
		scrub_and_free_all(pageno, vanishing, nvanishing);
	if (losers > 0)
		pg_atomic_fetch_add_u64(&zen_recovery->losers, losers);
}

/* ---------- damaged slots ---------- */

bool
zen_passes_count_damaged(void)
{
	return pg_atomic_add_fetch_u64(&zen_recovery->damaged, 1) <= MAX_REPORTS;
}

static void
report_row(ZenHTable *ht, ZenSlot slot, ZenTupleHeader h)
{
	uint64		tidno = zen_word1_tidno(h.word1);

	if (zen_passes_count_damaged())
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row (" UINT64_FORMAT "," UINT64_FORMAT ") of zen table %u/%u/%u is damaged",
						tidno / ZEN_TIDS_PER_BLOCK, tidno % ZEN_TIDS_PER_BLOCK + 1, ht->spc, ht->db, ht->relnumber),
				 errdetail("The checksum of its slot at offset " UINT64_FORMAT " of the pool does not match.",
						   slot * ZEN_SLOT_UNIT),
				 errhint("Other rows of the table stay readable; restore this one from a backup.")));
}

static void
report_slot(ZenSlot slot, uint32 owner)
{
	ZenHTable  *ht = &zen_htables[owner];

	if (zen_passes_count_damaged())
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the slot at offset " UINT64_FORMAT " of the zen pool is damaged", slot * ZEN_SLOT_UNIT),
				 ht->in_use ?
				 errdetail("It holds an unknown row of zen table %u/%u/%u.", ht->spc, ht->db, ht->relnumber) :
				 errdetail("Its page is shared by small tables; which row it holds is unknown.")));
}

/*
 * What a crash may leave in a slot that was free and about to be reused: the old header, with parts of a new body
 * behind it (R6).  The old version counts for nothing, so the slot is made empty.  After a clean stop there is no
 * such slot.
 */
static void
discard_remains(ZenSlot slot)
{
	uint16		n = (uint16) zen_page_slot_index(slot);

	if (!zen_recovery->after_crash)
		report_slot(slot, zen_pages[zen_slot_page(slot)].owner.htable);
	else
		ereport(DEBUG1,
				(errmsg_internal("torn old version at offset " UINT64_FORMAT " of the zen pool discarded",
								 slot * ZEN_SLOT_UNIT)));
	scrub_and_free_all(zen_slot_page(slot), &n, 1);
}

/* May the header of a damaged slot be believed when it names a row of a table? */
static bool
may_name_row(ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	uint64		cts = h.word0 & ZEN_CTS_MASK;

	return ht->idx != 0 && !ht->damaged && !zen_recovery_is_open(ht) &&
		zen_htable_owns(ht, cts) && cts <= zen_recovery->cts_limit &&
		zen_word1_tidno(h.word1) / ZEN_TIDS_PER_BLOCK < zen_tidmap_nblocks(ht) + ZEN_DAMAGED_GAP;
}

/*
 * The newest version of its row, as far as can be told: from now on reading the row is an error.  An older version is
 * neither shown instead nor given up, in case it is the row's number that is damaged.  False if a newer one is there.
 */
static bool
place_damaged_row(ZenHTable *ht, ZenSlot slot, ZenTupleHeader h)
{
	ZenWord    *word = zen_tidmap_extend(ht, zen_word1_tidno(h.word1));
	uint64		w = pg_atomic_read_u64(word);
	bool		known = false;

	Assert(!zen_recovery_is_open(ht) && (w & ZEN_WORD_LOCK) == 0);
	if (zen_word_ref(w) != 0)
	{
		ZenTupleHeader other = zen_tuple_header(zen_word_ref(w));

		if ((other.word0 & ZEN_CTS_MASK) >= (h.word0 & ZEN_CTS_MASK))
			return false;
		known = zen_pages[zen_slot_page(zen_word_ref(w))].lost;
		if (!(other.word1 & ZEN_DELETED))
			w = zen_word_stale_inc(w);
	}
	pg_atomic_write_u64(word, zen_word_with(w, (h.word1 & ZEN_DELETED) ? ZEN_WORD_DEAD : ZEN_WORD_NVM, slot));
	if (!known)
		report_row(ht, slot, h);
	return true;
}

/*
 * A page whose directory word is damaged: each whole version on it that would be its row's newest makes the row an
 * error to read, so that no older one takes its place.
 */
static void
settle_lost_page(uint32 pageno)
{
	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE && zen_pages[pageno].lost);
	for (Size at = 0; at + ZEN_TOMBSTONE_SIZE <= ZEN_PAGE_SIZE; at += ZEN_SLOT_UNIT)
	{
		ZenSlot		slot = ((Size) pageno * ZEN_PAGE_SIZE + at) / ZEN_SLOT_UNIT;
		ZenTupleHeader h = zen_tuple_header(slot);
		ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
		uint64		cts = h.word0 & ZEN_CTS_MASK;

		if (cts != 0 && cts <= zen_recovery->cts_limit && ht->idx != 0 && zen_htable_owns(ht, cts) &&
			zen_tuple_intact(slot, ZEN_PAGE_SIZE - at))
			(void) place_damaged_row(ht, slot, h);
	}
}

/*
 * May torn versions of no table stand on a page?  Small tables share pages, and take the slots of those that have gone.
 * In mode wal a page of a table that has gone may be zero in part, and have its word of before: that the page changes
 * hands is durable only when it is taken again (W5).
 */
static inline bool
may_have_remains(const ZenPage *page)
{
	const ZenHTable *owner = &zen_htables[page->owner.htable];

	return page->owner.htable == 0 || (!owner->in_use && !owner->damaged);
}

/* A page that has damaged slots. */
static void
settle_damaged_page(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	ZenRegionFate *fate = &zen_recovery->fates[page->owner.region];
	Size		size = zen_class_size(page->owner.class);

	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE && page->suspect && !page->lost);
	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h;
		ZenHTable  *ht;

		if (judge_slot(slot, size, fate, &h) != SLOT_DAMAGED)
			continue;
		ht = &zen_htables[zen_word1_htable(h.word1)];
		if (fate->prepared_cts != 0 && (h.word0 & ZEN_CTS_MASK) == fate->prepared_cts)
			zen_prepared_found(page->owner.region, slot);
		else if (may_name_row(h))
		{
			if (!place_damaged_row(ht, slot, h))
				discard_remains(slot);
		}
		else if (zen_recovery->after_crash && may_have_remains(page) && !ht->damaged &&
				 !zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK))
			discard_remains(slot);
		else
			report_slot(slot, page->owner.htable);
	}
}

void
zen_passes_damaged(void)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		if (!zen_pages[p].owned)
			continue;
		if (zen_pages[p].lost)
			settle_lost_page(p);
		else if (zen_pages[p].suspect)
			settle_damaged_page(p);
	}
	zen_fence();
}

/* ---------- bases ---------- */

/*
 * R22: the base of a version that is its row's newest is in use.  If it is not there, or damaged, so is the row: to
 * read it is an error, and no older version takes its place.
 */
static void
settle_base(ZenSlot slot)
{
	ZenTupleHeader h = zen_tuple_header(slot);

	if (zen_delta_base_fits(slot))
		zen_slot_take_back(zen_delta_base_of(slot));
	else
		report_row(&zen_htables[zen_word1_htable(h.word1)], slot, h);
}

void
zen_passes_bases(void)
{
	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		Size		size;

		if (!zen_pages[p].owned || zen_pages[p].lost || !zen_pages[p].deltas || ZEN_FAULT(R22_NOT_FOUND))
			continue;
		size = zen_class_size(zen_pages[p].owner.class);
		for (uint32 n = 0; n < zen_pages[p].nslots; n++)
		{
			ZenSlot		slot = zen_page_slot(p, n);

			if (!zen_slot_is_free(slot) && zen_tuple_is_delta(slot) && zen_tuple_intact(slot, size))
				settle_base(slot);
		}
	}
}

/* ---------- chunks ---------- */

static uint32
nchunks(ZenRecoveryPass pass)
{
	return pass == ZEN_PASS_LOAD ? zen_recovery->npieces :
		(zen_recovery->pages_total + ZEN_CHUNK_PAGES - 1) / ZEN_CHUNK_PAGES;
}

static bool
pass_is_done(ZenRecoveryPass pass)
{
	return pass == ZEN_PASS_LOAD ? pg_atomic_read_u32(&zen_recovery->pieces_done) >= zen_recovery->npieces :
		pg_atomic_read_u32(&zen_recovery->pages_done) >= zen_recovery->pages_total;
}

/* Take a chunk of the pass under way; false if there is none left. */
static bool
take_chunk(ZenRecoveryPass *pass, uint32 *chunk)
{
	uint64		work = pg_atomic_read_u64(&zen_recovery->work);

	/* looked at before, so that the counter cannot run over into the pass */
	*pass = (ZenRecoveryPass) (work >> 32);
	if (*pass == ZEN_PASS_NONE || (uint32) work >= nchunks(*pass) || pg_atomic_read_u32(&zen_recovery->failed))
		return false;
	work = pg_atomic_fetch_add_u64(&zen_recovery->work, 1);
	*pass = (ZenRecoveryPass) (work >> 32);
	*chunk = (uint32) work;
	return *pass != ZEN_PASS_NONE && *chunk < nchunks(*pass);
}

static void
do_piece(uint32 piece)
{
	uint32		done;

	if (zen_recovery->told != NULL)
		zen_runmap_load_piece(piece);
	else
		zen_savedmap_load_piece(piece);
	done = pg_atomic_add_fetch_u32(&zen_recovery->pieces_done, 1);
	Assert(done <= zen_recovery->npieces);
	if (done == zen_recovery->npieces)
		ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Is the page one that this pass is for? */
static bool
is_for_pass(const ZenPage *page, ZenRecoveryPass pass)
{
	if (!page->owned || page->lost)
		return false;
	return pass == ZEN_PASS_COMMITS || (pass == ZEN_PASS_LATE) == zen_htables[page->owner.htable].late;
}

/*
 * R21: a page of which the map tells.  All on it has committed.  Its free slots are counted before the second pass,
 * which frees some more and counts these itself.
 */
static void
count_told(uint32 pageno, ZenRecoveryPass pass)
{
	if (pass == ZEN_PASS_COMMITS && pg_atomic_read_u32(&zen_pages[pageno].nfree) > 0)
		zen_runmap_count_stale(pageno);
}

/* Do the pass for n pages in a row, and count them as done. */
static void
do_pages(ZenRecoveryPass pass, uint32 first, uint32 n)
{
	uint32		done;

	Assert(n > 0 && first >= zen_pool.first_data_page && first + n <= zen_pool_pages());
	for (uint32 p = first; p < first + n; p++)
		if (is_for_pass(&zen_pages[p], pass) && !zen_runmap_tells(p))
			zen_nvm_will_need(zen_page_ptr(p), ZEN_PAGE_SIZE);
	for (uint32 p = first; p < first + n; p++)
	{
		if (!is_for_pass(&zen_pages[p], pass))
			continue;
		if (zen_runmap_tells(p))
			count_told(p, pass);
		else if (pass == ZEN_PASS_COMMITS)
			pass_commits(p);
		else
			pass_maps(p);
	}

	/* R10: durable before the pages count; only this process can fence it */
	zen_fence();
	zen_nvm_let_go(zen_page_ptr(first), (Size) n * ZEN_PAGE_SIZE);
	done = pg_atomic_add_fetch_u32(&zen_recovery->pages_done, n);
	Assert(done <= zen_recovery->pages_total);
	if (done == zen_recovery->pages_total)
		ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Do one chunk: a piece of the saved map, or some pages. */
static void
do_chunk(ZenRecoveryPass pass, uint32 chunk)
{
	uint32		next,
				end;

	/* the pass cannot end without this chunk, unless recovery has failed */
	Assert(pass == zen_recovery_pass() || pg_atomic_read_u32(&zen_recovery->failed));
	Assert(chunk < nchunks(pass));
	Assert(InterruptHoldoffCount > 0);
	if (pass == ZEN_PASS_LOAD)
	{
		do_piece(chunk);
		return;
	}
	next = chunk * ZEN_CHUNK_PAGES;
	end = Min(next + ZEN_CHUNK_PAGES, zen_recovery->pages_total);
	while (next < end)
	{
		uint32		run;
		uint32		first = zen_page_nth(next, &run);

		run = Min(run, end - next);
		do_pages(pass, first, run);
		next += run;
	}
}

/* A chunk that was taken will not be done. */
static void
give_chunk_up(int code, Datum arg)
{
	pg_atomic_write_u32(&zen_recovery->failed, 1);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Do one chunk, if there is one. */
static bool
take_part(void)
{
	static bool counted = false;
	ZenRecoveryPass pass;
	uint32		chunk;
	bool		taken;

	/* nothing may come between taking a chunk and doing it */
	HOLD_INTERRUPTS();
	taken = take_chunk(&pass, &chunk);
	if (taken)
	{
		if (!counted)
			pg_atomic_fetch_add_u32(&zen_recovery->processes, 1);
		counted = true;
		PG_ENSURE_ERROR_CLEANUP(give_chunk_up, (Datum) 0);
		{
			do_chunk(pass, chunk);
		}
		PG_END_ENSURE_ERROR_CLEANUP(give_chunk_up, (Datum) 0);
	}
	RESUME_INTERRUPTS();
	return taken;
}

void
zen_passes_begin(ZenRecoveryPass pass, uint32 nhelpers)
{
	BackgroundWorker worker;

	ZenAssertRecoveryLeader();
	/* one pass at a time, and no page of the last one counts for this one */
	Assert(zen_recovery_pass() == ZEN_PASS_NONE && pass != ZEN_PASS_NONE);
	Assert(pass == ZEN_PASS_LOAD ? zen_recovery->pieces != NULL : zen_recovery->npieces == 0);
	Assert(pg_atomic_read_u32(&zen_recovery->pages_done) == 0);
	/* what the leader has found is seen by each process that takes a chunk */
	pg_write_barrier();
	pg_atomic_write_u64(&zen_recovery->work, (uint64) pass << 32);
	ConditionVariableBroadcast(&zen_recovery->changed);
	zen_bgworker_describe(&worker, "zen recovery", "zen_passes_worker_main", (Datum) 0, BGW_NEVER_RESTART);
	while (nhelpers > 0 && RegisterDynamicBackgroundWorker(&worker, NULL))
		nhelpers--;
}

void
zen_passes_end(ZenRecoveryPass pass, void (*report) (void))
{
	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == pass);
	while (take_part())
		report();

	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (!pass_is_done(pass) && !pg_atomic_read_u32(&zen_recovery->failed))
	{
		ConditionVariableTimedSleep(&zen_recovery->changed, LOOK_MS, PG_WAIT_EXTENSION);
		report();
	}
	ConditionVariableCancelSleep();
	pg_atomic_write_u64(&zen_recovery->work, (uint64) ZEN_PASS_NONE << 32);
	if (pg_atomic_read_u32(&zen_recovery->failed))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery of the zen pool has failed in another process"),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
	/* what all have found is seen by the leader */
	pg_memory_barrier();
}

void
zen_passes_help(bool (*enough) (void))
{
	/* the leader would wait for itself */
	Assert(zen_recovery->leader != MyProcPid || zen_recovery_is_over());
	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (!enough())
	{
		if (take_part())
			CHECK_FOR_INTERRUPTS();
		else
			ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	/* pairs with the barriers in open_tables() and set_state() */
	pg_read_barrier();
}

void
zen_passes_worker_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	zen_xact_attach();
	zen_passes_help(zen_recovery_is_over);
	proc_exit(0);
}
