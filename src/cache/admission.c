/*
 * admission.c -- which rows come into the Met-Cache.
 *
 * The rows that were read most often of late are worth their DRAM.  Reads of cached rows are counted in their newest
 * versions (zen_version_touch), reads of other rows in a sketch (sketch.c).  Both counts are halved at the same times.
 *
 * A row that is read in NVM is admitted:
 * - at once, as long as half of the cache is empty;
 * - else from its second read on, and only if room is left or a row can go that was read less (clock.c).
 *
 * A row that is written or locked must be admitted.  So it is on probation first when the cache is full.
 *
 * A row is copied inside an epoch and without a lock.  Its word then takes the copy only if it still leads to the same
 * slot.
 */
#include "cache/admission.h"

#include "cache/clock.h"
#include "cache/damage.h"
#include "cache/sketch.h"
#include "cache/tablestat.h"
#include "nvm/slotalloc.h"

#define AGE_MISSES		10		/* reads that miss for each cached row, until
								 * all counts are halved */
#define LONG_READ		1000	/* misses in one transaction after which it
								 * admits no more rows by reading */

static uint32 misses_in_xact = 0;

/* The result of an attempt to admit a row. */
typedef enum Admission
{
	ADMIT_DONE,					/* by us */
	ADMIT_NOT_NVM,				/* the row is not in NVM only, or has changed */
	ADMIT_FULL,
	ADMIT_DAMAGED
} Admission;

/*
 * Copy the row in a slot into a version that its word may lead to, if it is sound; lean: without the data.  The CRC is
 * checked although readers may have done so: the version lives long, and a writer is about to replace it.
 */
static Admission
read_slot(ZenSlot slot, uint32 reads, bool lean, ZenVersion **result)
{
	int64		len = zen_tuple_len(slot, zen_slot_size(slot));
	ZenVersion *v = len > 0 ? zen_version_alloc(lean ? 0 : (uint32) len) : NULL;
	uint32		flags = ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_CLOCK | (lean ? ZEN_V_IN_NVM : 0);

	ZenAssertInEpoch();
	Assert(reads <= ZEN_SKETCH_MAX);
	*result = v;
	if (v == NULL)
		return len > 0 ? ADMIT_FULL : ADMIT_DAMAGED;
	if (lean ? !zen_tuple_intact(slot, zen_slot_size(slot)) :
		!zen_tuple_read(slot, (MinimalTuple) v->data, (uint32) len, &v->xmin))
	{
		zen_slot_doubt(slot);
		return ADMIT_DAMAGED;
	}
	v->slot = slot;
	v->cmin = FirstCommandId;
	v->code = (uint16) zen_word1_code(zen_tuple_header(slot).word1);
	pg_atomic_write_u32(&v->flags, zen_version_with_reads(flags, reads, zen_sketch_age()));
	return ADMIT_DONE;
}

/* Admit a row that was read so often, without an item.  Outside any epoch; never throws. */
static Admission
try_admit(ZenHTable *ht, ZenWord *word, uint32 reads, bool lean, ZenSlot *slot)
{
	ZenVersion *v = NULL;
	Admission	result = ADMIT_NOT_NVM;
	uint64		w,
				now;

	ZenAssertNoWordLocked();
	zen_epoch_enter();
	w = zen_word_read(word);
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		result = read_slot(*slot, reads, lean, &v);
	}
	if (result == ADMIT_DONE)
	{
		now = zen_word_lock(word);
		if (zen_word_state(now) == ZEN_WORD_NVM && zen_word_ref(now) == v->slot)
			now = zen_word_with_entry(now, v);
		else
			result = ADMIT_NOT_NVM;
		zen_word_unlock(word, now);
	}
	zen_epoch_leave();
	if (result == ADMIT_DONE)
	{
		ZEN_COUNT(metcache_admissions, 1);
		zen_tablestat_add(ht->idx, zen_tablestat_generation(ht->idx), ZEN_T_ADMISSIONS, 1);
	}
	else if (v != NULL)
		zen_version_free(v);
	return result;
}

void
zen_admission_admit(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	uint32		reads = zen_sketch_estimate(zen_sketch_key(ht->idx, tidno));
	ZenSlot		slot = InvalidZenSlot;
	bool		lean = zen_clock_is_overfull();
	TimestampTz since = 0;
	Admission	result;

	ZenAssertNotInEpoch();
	while ((result = try_admit(ht, word, reads, lean, &slot)) == ADMIT_FULL)
	{
		if (!zen_find_room(&since))
			zen_arena_full_error();
		lean = true;
	}
	if (result == ADMIT_DAMAGED)
		zen_tuple_corrupted(slot, tidno);
	if (result == ADMIT_DONE)
		zen_clock_enqueue(ht, tidno);
}

void
zen_admission_missed(ZenHTable *ht, uint64 tidno)
{
	uint64		key = zen_sketch_key(ht->idx, tidno);
	uint32		reads = 1;
	ZenSlot		slot;

	ZenAssertNotInEpoch();
	if (++misses_in_xact > LONG_READ)
		return;
	if (zen_clock_exceeds_half())
	{
		reads = zen_sketch_add(key);
		if (reads < ZEN_ADMIT_READS || zen_clock_is_overfull() ||
			(zen_clock_is_full() && !zen_clock_win_place(ht, tidno, reads)))
			return;
	}

	/*
	 * in vain if DRAM is full or the row has just changed; the reader has its
	 * row
	 */
	if (try_admit(ht, zen_tidmap_word(ht, tidno), reads, false, &slot) == ADMIT_DONE)
		zen_clock_enqueue_kept(ht, tidno);
	if (zen_clock_needs_room())
		zen_clock_evict_now();
}

void
zen_admission_end_xact(void)
{
	misses_in_xact = 0;
}

void
zen_admission_age(void)
{
	static uint64 last = 0;
	uint64		items = zen_clock_items();
	uint64		added = zen_sketch_added();

	if (added - last < AGE_MISSES * Max(items, 1000))
		return;
	last = added;
	zen_sketch_halve();
}
