/*
 * spillend.c -- the end of spilled rows: they are settled, taken back, or stamped anew.
 *
 * The transaction that has spilled a row is the only one to scrub its slot.  It finds the slot by the spill record,
 * also when another process has made an entry of the row.  So no other process leaves that version out of its
 * chain: a writer that meets it waits until it is taken back (zen_row_admit_wait_for_undo).
 *
 * R7: a row taken back is scrubbed, durably, before its word shows the older version again.  R15: if a row was written
 * again after it was spilled, only one of its slots bears the Tx-CTS of the prepared transaction.
 */
#include "txn/spillend.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/fault.h"
#include "cache/clock.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/sink.h"
#include "nvm/slotalloc.h"

/* A row that this transaction has spilled, as its record says. */
typedef struct Spilled
{
	ZenHTable  *ht;
	uint64		tidno;
	ZenSlot		slot;
	ZenSlot		old;
} Spilled;

/*
 * The rows of a block that a region's transaction has spilled and not settled: all, or those of writers that are no
 * longer this transaction's.  *newest, if not NULL: the newest xid among them.
 */
static uint32
rows_of_block(ZenSpilledBlock *b, uint32 region, bool all, Spilled *rows, TransactionId *newest)
{
	ZenSpill   *s;
	uint32		n = 0;

	zen_epoch_enter();
	s = zen_spillmap_find(b->ht, b->block);
	for (uint32 i = 0; s != NULL && i < ZEN_TIDS_PER_BLOCK; i++)
	{
		ZenSlot		slot = s->slot[i];
		ZenSpillWriter *writer;

		pg_read_barrier();		/* others may note theirs just now */
		writer = &s->writers[s->writer_of[i]];
		Assert(slot == InvalidZenSlot || TransactionIdIsValid(writer->xid));
		if (slot == InvalidZenSlot || writer->region != region || (writer->flags & ZEN_SPILL_SETTLED) ||
			!(all || !TransactionIdIsCurrentTransactionId(writer->xid)))
			continue;
		rows[n].ht = b->ht;
		rows[n].tidno = (uint64) b->block * ZEN_TIDS_PER_BLOCK + i;
		Assert(n < ZEN_TIDS_PER_BLOCK);
		rows[n].slot = slot;
		rows[n++].old = zen_spillmap_old(s, i);
		if (newest != NULL && (!TransactionIdIsValid(*newest) || TransactionIdPrecedes(*newest, writer->xid)))
			*newest = writer->xid;
	}
	zen_epoch_leave();
	return n;
}

void
zen_spillend_walk(uint32 region, ZenSpilledBlock *block,
				  void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg)
{
	Spilled		rows[ZEN_TIDS_PER_BLOCK];
	uint32		n = rows_of_block(block, region, true, rows, NULL);
	ZenTupleHeader none = {0};

	for (uint32 i = 0; i < n; i++)
		visit(region, rows[i].slot, none, arg);
}

/*
 * The version of a chain whose slot was written when it was spilled; *newer: the one above it.  Under the word's
 * lock.
 */
static ZenVersion *
find_spilled(ZenVersion *head, ZenSlot slot, ZenVersion **newer)
{
	Assert(zen_word_held != NULL);
	*newer = NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (v->slot == slot && (zen_version_flags(v) & ZEN_V_SPILLED))
			return v;
		*newer = v;
	}
	return NULL;
}

/* If a process has made an entry of the row, leave the hint there. */
static void
spillend_mark_row(Spilled *row)
{
	ZenLockedEntry e;
	ZenVersion *newer,
			   *v;

	if (!zen_entry_lock(row->ht, row->tidno, &e))
		return;
	zen_chain_check(e.w);
	v = find_spilled(e.head, row->slot, &newer);
	if (v != NULL)
	{
		Assert(!(zen_version_flags(v) & ZEN_V_ABORTED));
		zen_version_set(v, ZEN_V_COMMITTED);
		zen_version_clear(v, ZEN_V_PENDING | ZEN_V_SPILLED);
	}
	zen_entry_unlock(&e);
}

void
zen_spillend_settle(uint32 region, ZenSpilledBlock *blocks, uint32 n)
{
	ZenAssertRegionMine(region);
	ZenAssertNotInEpoch();
	for (uint32 b = 0; b < n; b++)
	{
		Spilled		rows[ZEN_TIDS_PER_BLOCK];
		TransactionId newest = InvalidTransactionId;
		uint32		nrows = rows_of_block(&blocks[b], region, true, rows, &newest);
		ZenGcItem	item = {.htable = blocks[b].ht->idx,.spilled = true};
		Size		superseded = 0;

		if (nrows == 0)
			continue;
		for (uint32 i = 0; i < nrows; i++)
		{
			spillend_mark_row(&rows[i]);
			if (rows[i].old != InvalidZenSlot)
				superseded += zen_slot_size(rows[i].old);
		}
		zen_spillmap_mark(blocks[b].ht, blocks[b].block, region, InvalidTransactionId,
						  ZEN_V_COMMITTED | ZEN_SPILL_SETTLED);
		item.tidno = (uint64) blocks[b].block * ZEN_TIDS_PER_BLOCK;
		zen_gcqueue_push(region, item, newest, superseded);
	}
}

/* Give a slot back that readers may still look at. */
static void
free_later(ZenSlot slot)
{
	ZenVersion *carrier = zen_version_alloc(0);

	ZenAssertNotInEpoch();
	if (carrier != NULL)
	{
		carrier->slot = slot;
		zen_version_condemn(carrier);
		zen_version_retire(carrier);
	}
	else
	{
		zen_epoch_wait();
		zen_slot_free(slot);
	}
}

/* Take back a row whose slot was scrubbed. */
static void
pop_row(Spilled *row)
{
	ZenWord    *word = zen_tidmap_word(row->ht, row->tidno);
	ZenVersion *v = NULL,
			   *newer = NULL,
			   *ended = NULL;
	ZenLockers *lockers = NULL;
	bool		lone = false;
	uint64		w = zen_word_lock(word);

	zen_chain_check(w);
	if (zen_word_state(w) == ZEN_WORD_SPILLED && zen_word_ref(w) == row->slot)
		w = row->old != InvalidZenSlot ? zen_word_with(w, ZEN_WORD_NVM, row->old) : zen_word_with(w, ZEN_WORD_DEAD, 0);
	else if (zen_word_state(w) == ZEN_WORD_ENTRY)
		v = find_spilled(zen_word_entry(w), row->slot, &newer);
	if (v != NULL && newer != NULL)
		newer->older = v->older;
	else if (v != NULL)
		w = zen_version_pop(w, v, &lone, &lockers, &ended);
	zen_chain_check(w);
	zen_word_unlock(word, w);
	if (lockers != NULL)
		zen_version_lockers_free(lockers);
	if (lone)
		zen_clock_enqueue(row->ht, row->tidno);
	if (v == NULL)
		free_later(row->slot);
	else
	{
		zen_version_condemn(v);
		zen_version_retire(v);
	}
	if (ended != NULL)
		zen_version_retire(ended);
}

/* The writers of a block that rows_of_block() has looked at have nothing left there. */
static void
mark_aborted(ZenSpilledBlock *b, uint32 region, bool all)
{
	TransactionId xids[PG_UINT8_MAX];
	uint32		n = 0;
	ZenSpill   *s;

	zen_epoch_enter();
	s = zen_spillmap_find(b->ht, b->block);
	for (uint32 i = 0; s != NULL && i < s->nwriters; i++)
	{
		pg_read_barrier();		/* others may note theirs just now */
		if (s->writers[i].region == region && (all || !TransactionIdIsCurrentTransactionId(s->writers[i].xid)))
		{
			Assert(n < lengthof(xids));
			xids[n++] = s->writers[i].xid;
		}
	}
	zen_epoch_leave();
	for (uint32 i = 0; i < n; i++)
		zen_spillmap_mark(b->ht, b->block, region, xids[i], ZEN_V_ABORTED | ZEN_SPILL_SETTLED);
	zen_spillmap_trim(b->ht, b->block, false);
}

void
zen_spillend_undo(uint32 region, ZenSpilledBlock *blocks, uint32 n, bool all)
{
	Spilled		rows[ZEN_TIDS_PER_BLOCK];

	ZenAssertRegionMine(region);
	ZenAssertNotInEpoch();
	/* in the WAL at once, as it is flushed before the first goes */
	for (uint32 b = 0; b < n && zen_sink.vanishing != NULL; b++)
	{
		uint32		nrows = rows_of_block(&blocks[b], region, all, rows, NULL);

		for (uint32 i = 0; i < nrows; i++)
			zen_sink.vanishing(rows[i].slot);
	}
	ZEN_TELL(vanish, region, 0);
	for (uint32 b = 0; b < n; b++)
	{
		uint32		nrows = rows_of_block(&blocks[b], region, all, rows, NULL);

		if (nrows == 0)
			continue;
		for (uint32 i = 0; i < nrows && !ZEN_FAULT(R7_SPILLED_STAY); i++)
			zen_tuple_scrub(rows[i].slot);
		zen_fence();
		for (uint32 i = 0; i < nrows; i++)
			pop_row(&rows[i]);
		mark_aborted(&blocks[b], region, all);
	}
	ZEN_TELL(done);
}

/* Leave out of the write set, from a place on, the blocks in which nothing of this transaction's is left. */
static void
drop_blocks(uint32 from)
{
	ZenWriteSet *ws = &zen_writeset;
	Spilled		rows[ZEN_TIDS_PER_BLOCK];
	uint32		n = from;

	Assert(from <= ws->nblocks);
	for (uint32 b = from; b < ws->nblocks; b++)
		if (rows_of_block(&ws->blocks[b], zen_writeset.region, true, rows, NULL) > 0)
			ws->blocks[n++] = ws->blocks[b];
	ws->nblocks = n;
}

/* Undo while the transaction goes on. */
static void
undo_part(uint32 first, uint32 n, bool all)
{
	if (n == 0)
		return;
	Assert(first + n <= zen_writeset.nblocks);
	zen_region_rest(zen_writeset.region, false);
	zen_spillend_undo(zen_writeset.region, &zen_writeset.blocks[first], n, all);
	zen_region_rest(zen_writeset.region, true);
}

void
zen_spillend_subabort(int nest_level)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		from = ws->nblocks;

	Assert(nest_level > 1);
	while (from > 0 && ws->blocks[from - 1].nest_level >= nest_level)
		ws->blocks[--from].nest_level = nest_level - 1;
	undo_part(from, ws->nblocks - from, false);
	drop_blocks(from);
}

void
zen_spillend_forget_table(ZenHTable *ht)
{
	ZenWriteSet *ws = &zen_writeset;

	for (uint32 b = 0; b < ws->nblocks; b++)
		if (ws->blocks[b].ht == ht)
			undo_part(b, 1, true);
	drop_blocks(0);
}

/*
 * A row written again after it was spilled: one slot of it gets the commit's Tx-CTS (R15), so the earlier one
 * goes.  Its version is taken off the chain and returned; no record or word leads to it.  NULL: the row is as it was
 * spilled.
 */
static ZenVersion *
take_superseded(Spilled *row)
{
	ZenWord    *word = zen_tidmap_word(row->ht, row->tidno);
	ZenVersion *newer = NULL,
			   *v = NULL;
	uint64		w = zen_word_lock(word);

	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		v = find_spilled(zen_word_entry(w), row->slot, &newer);
	if (newer == NULL)
		v = NULL;
	if (v != NULL)
	{
		newer->older = v->older;
		/* writers that have judged the chain look again */
		zen_word_entry(w)->lock_seq++;
	}
	zen_chain_check(w);
	zen_word_unlock(word, w);
	return v;
}

void
zen_spillend_restamp(uint32 region, uint64 cts, ZenSpilledBlock *blocks, uint32 n)
{
	ZenAssertRegionMine(region);
	ZenAssertNotInEpoch();
	Assert(cts > zen_regions[region].last_cts);
	for (uint32 b = 0; b < n; b++)
	{
		Spilled		rows[ZEN_TIDS_PER_BLOCK];
		uint32		nrows = rows_of_block(&blocks[b], region, true, rows, NULL);
		bool		forgotten = false;

		for (uint32 i = 0; i < nrows; i++)
		{
			ZenVersion *v = take_superseded(&rows[i]);

			if (v == NULL)
			{
				zen_tuple_restamp(rows[i].slot, cts);
				continue;
			}
			zen_spillmap_forget(rows[i].ht, rows[i].tidno);
			forgotten = true;
			zen_tuple_vanish(rows[i].slot, region);
			zen_version_condemn(v);
			zen_version_retire(v);
		}
		if (forgotten)
			zen_spillmap_trim(blocks[b].ht, blocks[b].block, false);
	}
}
