/*
 * collect.c -- collecting a row: versions that every snapshot has passed are cut off.
 *
 * R12: a version is cut off when its successor is committed and older than every snapshot.  R5, I13: its slot is
 * counted in the map word (stale) before it is free.  A tombstone's slot is free when that count is 0.  src/gc/README,
 * "Slots and stale headers", says which process counts and frees.
 *
 * A sweep walks over the map words of all tables, a bounded number per step.  It does to each entry the work of a queue
 * item: freeze, cut off, and take lockers out whose transactions have ended.  It does not care to which region a row
 * belongs.  So it also reaches rows that wait in the queue of a region that a prepared transaction keeps.  Words are
 * looked at inside an epoch, and worked on outside, by functions that look again.
 */
#include "gc/collect.h"

#include "access/xlog.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/stats.h"
#include "cache/clock.h"
#include "cache/spillmap.h"
#include "miscadmin.h"
#include "nvm/delta.h"
#include "nvm/persist.h"
#include "nvm/sink.h"
#include "nvm/slotalloc.h"
#include "port/pg_bitutils.h"
#include "row/lockers.h"
#include "row/visibility.h"

#define BLOCKS_PER_STEP	16384	/* a million rows */

/* ---------- R5: stale headers ---------- */

/* A word without a row and without stale headers needs its tombstone no more.  Under the word's lock. */
static uint64
drop_tombstone(uint64 w, ZenSlot *to_free)
{
	uint64		state = zen_word_state(w);

	ZenAssertAnyWordLocked();
	Assert(w & ZEN_WORD_LOCK);
	*to_free = InvalidZenSlot;
	if (((w & ZEN_WORD_STALE) == 0 || ZEN_FAULT(R5_FREE_TOMBSTONE_EARLY)) && zen_word_ref(w) != 0 &&
		(state == ZEN_WORD_DEAD || state == ZEN_WORD_DYING || state == ZEN_WORD_UNUSED))
	{
		*to_free = zen_word_ref(w);
		w = zen_word_with(w, state, 0);
	}
	return w;
}

/* Free the slot that drop_tombstone() has found.  Inside the epoch: after it the slot's page may change hands. */
static void
free_tombstone(ZenSlot tombstone)
{
	ZenAssertInEpoch();
	ZenAssertNoWordLocked();
	if (tombstone == InvalidZenSlot)
		return;
	zen_slot_free(tombstone);
	ZEN_COUNT(tombstones_freed, 1);
}

void
zen_collect_forget_header(ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	ZenWord    *word;
	ZenSlot		tombstone = InvalidZenSlot;
	uint64		w;

	if ((h.word0 & ZEN_CTS_MASK) == 0 || (h.word1 & ZEN_DELETED) || ht->idx == 0)
		return;
	ZenAssertNoWordLocked();
	zen_epoch_enter();

	/*
	 * while this process is inside the epoch, the table cannot give its map
	 * or its number to another one
	 */
	word = zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK) ? zen_tidmap_word(ht, zen_word1_tidno(h.word1)) : NULL;
	if (word != NULL)
	{
		w = zen_word_lock(word);
		w = drop_tombstone(zen_word_stale_dec(w), &tombstone);
		zen_word_unlock(word, w);
	}
	free_tombstone(tombstone);
	zen_epoch_leave();
}

/* Headers that this process is to forget when the WAL is flushed up to there. */
#define MAX_WAITING		4096
static ZenTupleHeader waiting[MAX_WAITING];
static uint32 nwaiting = 0;
static uint64 waiting_for = 0;	/* for the sink's await() */

void
zen_collect_forget_waiting(bool all)
{
	if (nwaiting == 0)
		return;
	if (!ZEN_FAULT(W4_FORGOTTEN_EARLY))
	{
		if (zen_nvm_is_lazy() && !all && nwaiting < MAX_WAITING / 2 && GetFlushRecPtr(NULL) < waiting_for)
			return;
		zen_sink.await(waiting_for);
	}
	while (nwaiting > 0)
		zen_collect_forget_header(waiting[--nwaiting]);
}

void
zen_collect_forget_when(ZenTupleHeader header, uint64 position)
{
	ZenAssertNotInEpoch();
	/* W4: 0 would wait for nothing */
	Assert(position != 0 || ZEN_FAULT(W2_DOUBT_UNSEEN) || ZEN_FAULT(R9_NO_DESCRIPTOR));
	if ((header.word0 & ZEN_CTS_MASK) == 0)
		return;
	if (nwaiting == MAX_WAITING)
		zen_collect_forget_waiting(true);
	waiting[nwaiting++] = header;
	waiting_for = Max(waiting_for, position);
}

/* ---------- collecting ---------- */

/* Retire a list of versions that were cut off, linked by older.  Outside any epoch. */
static void
retire_list(ZenVersion *list)
{
	ZenAssertNotInEpoch();
	while (list != NULL)
	{
		ZenVersion *next = list->older;

		Assert(list->lockers == NULL);
		zen_version_retire(list);
		ZEN_COUNT(versions_freed, 1);
		list = next;
	}
}

/* A slot that goes, and no version with it. */
typedef struct LoneSlot
{
	ZenSlot		slot;			/* or InvalidZenSlot */
	uint32		generation;		/* of its page */
} LoneSlot;

/* Note the slot, inside the epoch in which it was left by all. */
static void
condemn_lone(LoneSlot *lone, ZenSlot slot)
{
	ZenAssertInEpoch();
	Assert(lone->slot == InvalidZenSlot);
	lone->slot = slot;
	if (slot != InvalidZenSlot)
		lone->generation = zen_slot_generation(slot);
}

/* Free it when all readers have left. */
static void
retire_lone(const LoneSlot *lone)
{
	ZenVersion *carrier;

	ZenAssertNotInEpoch();
	if (lone->slot == InvalidZenSlot)
		return;
	carrier = zen_version_alloc(0);
	if (carrier == NULL)
	{
		zen_epoch_wait();
		zen_slot_free_retired(lone->slot, lone->generation);
		return;
	}
	carrier->slot = lone->slot;
	carrier->slot_generation = lone->generation;
	zen_version_set(carrier, ZEN_V_FREE_SLOT);
	zen_version_retire(carrier);
}

/*
 * R22: which base do the versions of a list leave behind, if v, with the base kept, is now the oldest?  It is that of
 * the last one with a slot: the bases of the others are in the list.
 */
static ZenSlot
base_left_behind(ZenVersion *list, ZenSlot kept)
{
	ZenSlot		last = InvalidZenSlot;
	ZenSlot		base;

	for (; list != NULL; list = list->older)
		if (list->slot != InvalidZenSlot && !(zen_version_flags(list) & ZEN_V_ABORTED))
			last = list->slot;
	base = zen_delta_base(last);
	return base != kept ? base : InvalidZenSlot;
}

/*
 * Find the newest version that every snapshot sees, freeze it, and cut off the versions behind it.
 *
 * Under the word's lock, inside the epoch; returns the word's new value.  Sets:
 * - *cut: the list cut off;
 * - *base: the slot of a base that no version needs any more;
 * - *tombstone: a slot to free;
 * - *lone: the version to put into the CLOCK;
 * - *ended: an entry that the word no longer needs, a tombstone or one without data.
 */
static uint64
collect_word(uint64 w, ZenVersion **cut, LoneSlot *base, ZenSlot *tombstone, ZenVersion **lone, ZenVersion **ended)
{
	ZenVersion *head = zen_word_entry(w);
	ZenVersion *v = head;
	uint32		flags = zen_version_flags(v);
	ZenSlot		kept;

	Assert(w & ZEN_WORD_LOCK);
	ZenAssertAnyWordLocked();
	ZenAssertInEpoch();
	zen_chain_check(w);
	/* the item was queued for an earlier table of this number */
	if (flags & ZEN_V_PENDING)
		return w;
	while (v != NULL)
	{
		flags = zen_version_flags(v);
		if ((flags & ZEN_V_FROZEN) ||
			((flags & ZEN_V_COMMITTED) && zen_horizon_has_passed(v->xmin)))
			break;
		v = v->older;
	}
	if (v == NULL)
		return w;
	/* R12: no snapshot needs the versions behind it */
	Assert(!(zen_version_flags(v) & ZEN_V_ABORTED));
	zen_version_set(v, ZEN_V_FROZEN);
	*cut = v->older;
	v->older = NULL;
	kept = *cut != NULL ? zen_delta_base(v->slot) : InvalidZenSlot;
	condemn_lone(base, base_left_behind(*cut, kept));
	for (ZenVersion *c = *cut; c != NULL; c = c->older)
	{
		Assert(c->slot == InvalidZenSlot || c->slot != v->slot || (zen_version_flags(c) & ZEN_V_ABORTED));
		/* R22: the slot stays for v */
		if (likely(kept == InvalidZenSlot || c->slot != kept) || ZEN_FAULT(R22_FREED_EARLY))
			zen_version_condemn(c);
		if (c->slot != InvalidZenSlot && !(zen_version_flags(c) & ZEN_V_TOMBSTONE) && !ZEN_FAULT(R5_NO_COUNT_UP))
			w = zen_word_stale_inc(w);
	}
	if (v != head)
		return w;
	/* it leads to a row that is locked under this TID (src/row/README) */
	if ((zen_version_flags(v) & ZEN_V_FORWARD) && v->lockers != NULL)
		return w;
	if (zen_version_flags(v) & ZEN_V_TOMBSTONE)
	{
		*ended = v;
		w = drop_tombstone(zen_word_with(w, ZEN_WORD_DEAD, v->slot), tombstone);
	}
	else if (v->lockers == NULL && (flags & ZEN_V_IN_NVM))
	{
		*ended = v;
		w = zen_word_with(w, ZEN_WORD_NVM, v->slot);
	}
	else
	{
		w |= ZEN_WORD_SEEN;
		if (zen_version_mark_lone(v))
			*lone = v;
	}
	return w;
}

/* Collect one row: cut off its old versions under the entry lock, and retire them after it. */
static void
collect_row(ZenHTable *ht, uint64 tidno)
{
	ZenVersion *cut = NULL,
			   *lone = NULL,
			   *ended = NULL;
	ZenLockers *lockers = NULL;
	ZenSlot		tombstone = InvalidZenSlot;
	LoneSlot	base = {InvalidZenSlot, 0};
	ZenLockedEntry e;

	ZenAssertNotInEpoch();
	zen_epoch_enter();
	if (zen_entry_lock(ht, tidno, &e))
	{
		e.w = collect_word(e.w, &cut, &base, &tombstone, &lone, &ended);
		if (ended != NULL)
		{
			lockers = ended->lockers;
			ended->lockers = NULL;
		}
		zen_entry_unlock(&e);
	}
	free_tombstone(tombstone);
	zen_epoch_leave();
	if (lone != NULL)
		zen_clock_enqueue(ht, tidno);
	if (ended != NULL)
		zen_version_retire(ended);
	if (lockers != NULL)
		zen_version_lockers_free(lockers);
	retire_list(cut);
	retire_lone(&base);
}

/*
 * A spilled row that every snapshot sees needs its record no more.  The version replaced is cut off, and the word leads
 * to its slot like that of any other row.
 *
 * False if it must be tried again: DRAM is full.
 */
static bool
collect_spilled(ZenHTable *ht, uint64 tidno)
{
	ZenSpilledChain space;
	ZenVersion *cut = NULL;
	ZenVersion *v;
	ZenWord    *word;
	ZenSlot		tombstone = InvalidZenSlot;
	LoneSlot	base = {InvalidZenSlot, 0};
	bool		again = false,
				done = false;
	uint64		w,
				now;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	v = word != NULL ? zen_spillmap_word_chain(ht, tidno, word, &w, &space) : NULL;
	if (v != NULL && zen_word_state(w) == ZEN_WORD_SPILLED &&
		(zen_version_flags(v) & (ZEN_V_COMMITTED | ZEN_V_PENDING)) == ZEN_V_COMMITTED &&
		((zen_version_flags(v) & ZEN_V_FROZEN) || zen_horizon_has_passed(v->xmin)))
	{
		cut = v->older != NULL ? zen_version_alloc(0) : NULL;
		again = v->older != NULL && cut == NULL;
	}
	else
		v = NULL;
	if (v != NULL && !again)
	{
		bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;

		now = zen_word_lock(word);
		done = zen_word_same(now, w);
		if (done)
		{
			Assert(zen_word_state(now) == ZEN_WORD_SPILLED && zen_word_ref(now) == v->slot);
			if (cut != NULL && !ZEN_FAULT(R5_NO_COUNT_UP))
				now = zen_word_stale_inc(now);
			now = zen_word_with(now, deleted ? ZEN_WORD_DEAD : ZEN_WORD_NVM, v->slot);
			now = drop_tombstone(now, &tombstone);
		}
		zen_word_unlock(word, now);
		/* inside: after the epoch the slots' pages may change hands */
		if (done && cut != NULL)
		{
			cut->slot = v->older->slot;
			zen_version_condemn(cut);
			/* R22: a version that was spilled is whole */
			condemn_lone(&base, zen_delta_base(cut->slot));
		}
		free_tombstone(tombstone);
	}
	zen_epoch_leave();
	retire_lone(&base);
	if (done && cut != NULL)
		retire_list(cut);
	else if (cut != NULL)
		zen_version_free(cut);
	return !again;
}

/*
 * Freeze the newest version of a row that is behind the horizon, and collect all that it superseded, spilled or not.
 *
 * False if that must be tried again, when there is more DRAM.  Outside any epoch.  Never throws.
 */
static bool
collect_tuple(ZenHTable *ht, uint64 tidno)
{
	bool		done;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	done = collect_spilled(ht, tidno);
	collect_row(ht, tidno);
	return done;
}

/* Does a word lead to a spilled row that replaces none, and that every snapshot sees?  s: the block's record. */
static inline bool
is_new_to_all(const ZenSpill *s, uint32 i, uint64 w)
{
	const uint32 settled = ZEN_SPILL_SETTLED | ZEN_V_COMMITTED;
	const ZenSpillWriter *writer = &s->writers[s->writer_of[i]];

	return s->slot[i] == zen_word_ref(w) && (writer->flags & settled) == settled &&
		zen_spillmap_old(s, i) == InvalidZenSlot && (zen_tuple_header(s->slot[i]).word1 & ZEN_DELETED) == 0 &&
		((writer->flags & ZEN_V_FROZEN) || zen_horizon_has_passed(writer->xid));
}

/* Make a word NVM, if it still is what it was: then the record has said the same of it all the time. */
static inline bool
settle_word(ZenWord *word, uint64 w)
{
	uint64		now = zen_word_lock(word);
	bool		same = zen_word_same(now, w);

	zen_word_unlock(word, same ? zen_word_with(now, ZEN_WORD_NVM, zen_word_ref(now)) : now);
	return same;
}

/*
 * The rows of a load, which are most of those that are spilled: a block's are collected together.  A bit for each TID
 * that wants a closer look.
 */
static uint64
collect_new_rows(ZenHTable *ht, uint64 first)
{
	uint64		others = 0;
	ZenWord    *words;
	ZenSpill   *s;

	zen_epoch_enter();
	words = zen_tidmap_word(ht, first);
	s = zen_spillmap_find(ht, (uint32) (first / ZEN_TIDS_PER_BLOCK));
	for (uint32 i = 0; words != NULL && i < ZEN_TIDS_PER_BLOCK; i++)
	{
		uint64		w = zen_word_read(&words[i]);
		bool		spilled = zen_word_state(w) == ZEN_WORD_SPILLED;

		if (!spilled && zen_word_state(w) != ZEN_WORD_ENTRY)
			continue;
		if (!spilled || s == NULL || !is_new_to_all(s, i, w) || !settle_word(&words[i], w))
			others |= UINT64CONST(1) << i;
	}
	zen_epoch_leave();
	return others;
}

/* False if the block must be tried again. */
static bool
collect_block(ZenHTable *ht, uint64 first)
{
	bool		all = true;

	Assert(first % ZEN_TIDS_PER_BLOCK == 0);
	for (uint64 left = collect_new_rows(ht, first); left != 0; left &= left - 1)
		all &= collect_tuple(ht, first + pg_rightmost_one_pos64(left));
	zen_spillmap_trim(ht, (uint32) (first / ZEN_TIDS_PER_BLOCK), false);
	return all;
}

bool
zen_collect_item(ZenHTable *ht, uint64 tidno, bool block)
{
	if (block)
		return collect_block(ht, tidno);
	collect_row(ht, tidno);
	return true;
}

/* ---------- the sweep ---------- */

ZenSweepShared *zen_sweep;

/* The sweep under way; the worker's own.  A worker that is started again begins anew. */
static bool sweeping = false;
static uint32 sweep_htable;
static uint64 sweep_block_no;
static FullTransactionId sweep_limit;	/* the horizon when it began */
static FullTransactionId sweep_begun;	/* the next xid when the last one
										 * began */

/* Is there work to do at the version that the word leads to?  Inside the epoch. */
static bool
needs_work(uint64 w)
{
	ZenVersion *v;

	ZenAssertInEpoch();
	if (zen_word_state(w) == ZEN_WORD_SPILLED)
		return true;
	if (zen_word_state(w) != ZEN_WORD_ENTRY)
		return false;
	v = zen_word_entry(w);
	return !(zen_version_flags(v) & ZEN_V_FROZEN) || v->older != NULL || v->lockers != NULL;
}

static void
sweep_block(ZenHTable *ht, uint64 block)
{
	uint64		found = 0;

	zen_epoch_enter();
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		ZenWord    *word = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK + i);

		if (word != NULL && needs_work(zen_word_read(word)))
			found |= UINT64CONST(1) << i;
	}
	zen_epoch_leave();
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK && found != 0; i++)
	{
		uint64		tidno = block * ZEN_TIDS_PER_BLOCK + i;

		if ((found >> i & 1) == 0)
			continue;
		zen_lockers_prune(ht, tidno);
		(void) collect_tuple(ht, tidno);
	}
}

/* Is it time for another sweep?  Begins it. */
static bool
sweep_begin(void)
{
	FullTransactionId next = ReadNextFullTransactionId();

	/* versions in DRAM when a worker starts are younger than the last start */
	if (!FullTransactionIdIsValid(sweep_begun))
		sweep_begun = next;
	if (U64FromFullTransactionId(next) - U64FromFullTransactionId(sweep_begun) < (uint64) zen_freeze_age)
		return false;
	sweep_begun = next;
	sweep_limit = zen_horizon_look();
	sweep_htable = 1;
	sweep_block_no = 0;
	return true;
}

static void
sweep_finish(void)
{
	pg_atomic_write_u64(&zen_sweep->frozen_to, U64FromFullTransactionId(sweep_limit));
	pg_atomic_fetch_add_u64(&zen_sweep->sweeps, 1);
	zen_epoch_flush();
}

bool
zen_sweep_step(void)
{
	ZenAssertNotInEpoch();
	Assert(!sweeping || sweep_htable > 0);
	if (!sweeping && !sweep_begin())
		return false;
	sweeping = true;
	for (uint32 n = 0; n < BLOCKS_PER_STEP; n++)
	{
		while (sweep_htable < ZEN_MAX_HTABLES &&
			   (!zen_htables[sweep_htable].in_use || sweep_block_no >= zen_tidmap_nblocks(&zen_htables[sweep_htable])))
		{
			sweep_htable++;
			sweep_block_no = 0;
		}
		if (sweep_htable == ZEN_MAX_HTABLES)
		{
			sweep_finish();
			sweeping = false;
			return false;
		}
		sweep_block(&zen_htables[sweep_htable], sweep_block_no++);
	}
	return true;
}

/* ---------- counting ---------- */

static void
note_xid(ZenVersionCounts *counts, TransactionId xid)
{
	if (!TransactionIdIsValid(counts->oldest) || TransactionIdPrecedes(xid, counts->oldest))
		counts->oldest = xid;
}

/* Count the versions and lockers of one row.  Inside the epoch. */
static void
count_word(ZenWord *word, ZenVersionCounts *counts, ZenLockerCopy *lockers)
{
	uint64		w = zen_word_read(word);
	ZenVersion *head;

	ZenAssertInEpoch();
	if (zen_word_state(w) != ZEN_WORD_ENTRY)
		return;
	head = zen_word_entry(w);
	counts->entries++;
	if (!(zen_version_flags(head) & ZEN_V_FROZEN))
		counts->unfrozen++;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (!(zen_version_flags(v) & ZEN_V_FROZEN))
			note_xid(counts, v->xmin);
		if (v != head)
		{
			counts->superseded++;
			counts->superseded_bytes += zen_version_footprint(v);
		}
	}
	(void) zen_lockers_copy(word, head, lockers);
	for (uint32 i = 0; i < lockers->n; i++)
		note_xid(counts, lockers->l[i].xid);
	counts->lockers += lockers->n;
}

void
zen_sweep_count(ZenHTable *ht, ZenVersionCounts *counts)
{
	static ZenLockerCopy lockers;

	ZenAssertNotInEpoch();
	memset(counts, 0, sizeof(*counts));
	for (uint64 block = 0; block < zen_tidmap_nblocks(ht); block++)
	{
		CHECK_FOR_INTERRUPTS();
		zen_epoch_enter();
		for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		{
			ZenWord    *word = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK + i);

			if (word != NULL)
				count_word(word, counts, &lockers);
		}
		zen_epoch_leave();
	}
}
