/*
 * sweep.c -- no xid stays in DRAM for as long as xids can be compared.
 *
 * A sweep walks over the map words of all tables, a bounded number per step.  It does to each entry the work of a queue
 * item: freeze, cut off, and take lockers out whose transactions have ended.  It does not care to which region a row
 * belongs.  So it also reaches rows that wait in the queue of a region that a prepared transaction keeps.
 *
 * Words are looked at inside an epoch, and worked on outside, by functions that look again.
 */
#include "gc/sweep.h"

#include "base/guc.h"
#include "gc/collect.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "row/lockers.h"
#include "row/visibility.h"
#include "storage/shmem.h"

#define BLOCKS_PER_STEP	16384	/* a million rows */

ZenSweepShared *zen_sweep;

/* The sweep under way; the worker's own.  A worker that is started again begins anew. */
static bool running = false;
static uint32 next_htable;
static uint64 next_block;
static FullTransactionId limit; /* the horizon when it began */
static FullTransactionId begun; /* the next xid when the last one began */

Size
zen_sweep_shmem_size(void)
{
	return sizeof(ZenSweepShared);
}

void
zen_sweep_init(void)
{
	bool		found;

	zen_sweep = ShmemInitStruct("zen sweep", sizeof(ZenSweepShared), &found);
	zen_lockers_collect = zen_collect_tuple;
	running = false;
	begun = InvalidFullTransactionId;
	if (found)
		return;
	pg_atomic_init_u64(&zen_sweep->sweeps, 0);
	pg_atomic_init_u64(&zen_sweep->frozen_to, 0);
}

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
		(void) zen_collect_tuple(ht, tidno);
	}
}

/* Is it time for another sweep?  Begins it. */
static bool
begin(void)
{
	FullTransactionId next = ReadNextFullTransactionId();

	/* versions in DRAM when a worker starts are younger than the last start */
	if (!FullTransactionIdIsValid(begun))
		begun = next;
	if (U64FromFullTransactionId(next) - U64FromFullTransactionId(begun) < (uint64) zen_freeze_age)
		return false;
	begun = next;
	limit = zen_horizon_look();
	next_htable = 1;
	next_block = 0;
	return true;
}

static void
finish(void)
{
	pg_atomic_write_u64(&zen_sweep->frozen_to, U64FromFullTransactionId(limit));
	pg_atomic_fetch_add_u64(&zen_sweep->sweeps, 1);
	zen_epoch_flush();
}

bool
zen_sweep_step(void)
{
	ZenAssertNotInEpoch();
	Assert(!running || next_htable > 0);
	if (!running && !begin())
		return false;
	running = true;
	for (uint32 n = 0; n < BLOCKS_PER_STEP; n++)
	{
		while (next_htable < ZEN_MAX_HTABLES &&
			   (!zen_htables[next_htable].in_use || next_block >= zen_tidmap_nblocks(&zen_htables[next_htable])))
		{
			next_htable++;
			next_block = 0;
		}
		if (next_htable == ZEN_MAX_HTABLES)
		{
			finish();
			running = false;
			return false;
		}
		sweep_block(&zen_htables[next_htable], next_block++);
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
