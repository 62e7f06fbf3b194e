/*
 * spill.c -- writing, settling and undoing what a large transaction has spilled.
 *
 * A row is spilled if its newest version is this transaction's, hangs alone or over a version that every snapshot sees,
 * and nobody has locked it.  Other rows stay in DRAM until commit.
 *
 * R2, R3: the slots have LP = 0 and a Tx-CTS of their region that is smaller than the commit's, so they are losers until
 * the commit's LP (or descriptor) is durable, and committed from then on.  R11: the region stays leased.  R15: a row that
 * is written again after it was spilled gets the commit's Tx-CTS, which is larger.
 */
#include "txn/spill.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/guc.h"
#include "cache/metcache.h"
#include "miscadmin.h"
#include "nvm/alloc.h"
#include "nvm/persist.h"
#include "txn/commit.h"
#include "txn/gc.h"
#include "txn/visibility.h"

#define BATCH			1024	/* rows written between two fences */

/* ---------- making entries of spilled rows ---------- */

/* An entry's copy of a version read back; NULL when DRAM is full.  *sound: its data fits its checksum. */
static ZenVersion *
copy_version(ZenVersion *v, bool *sound)
{
	bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
	int64		len = deleted ? 0 : zen_tuple_len(v->slot, zen_slot_size(v->slot));
	ZenVersion *copy;

	*sound = deleted || len > 0;
	copy = *sound ? zen_version_alloc((uint32) len) : NULL;
	if (copy == NULL)
		return NULL;
	copy->slot = v->slot;
	copy->xmin = v->xmin;
	copy->cmin = v->cmin;
	copy->code = v->code;
	copy->depth = v->depth;
	copy->forward_tidno = v->forward_tidno;
	pg_atomic_write_u32(&copy->flags, zen_version_flags(v) & ~ZEN_V_IN_NVM);
	*sound = deleted ||
		zen_tuple_read(v->slot, (MinimalTuple) copy->data, (uint32) len,
					   (zen_version_flags(v) & ZEN_V_FROZEN) ? &copy->xmin : NULL);
	return copy;
}

typedef enum Admission
{
	ADMIT_DONE,					/* or somebody else did */
	ADMIT_FULL,
	ADMIT_ABORTED,				/* its writer is about to take it back */
	ADMIT_DAMAGED
} Admission;

static Admission
try_admit(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSlot *slot)
{
	ZenSpilledChain space;
	ZenVersion *chain,
			   *copies[2] = {NULL, NULL};
	Admission	result = ADMIT_DONE;
	bool		sound = true,
				placed = false;
	int			n = 0;
	uint64		w,
				now;

	zen_epoch_enter();
	chain = zen_word_chain(ht, tidno, word, &w, &space);
	if (chain == NULL || zen_word_state(w) != ZEN_WORD_SPILLED)
	{
		zen_epoch_leave();
		return ADMIT_DONE;
	}
	if (zen_version_state(chain) == ZEN_XID_ABORTED)
		result = ADMIT_ABORTED;
	for (ZenVersion *v = chain; result == ADMIT_DONE && v != NULL; v = v->older)
	{
		copies[n] = copy_version(v, &sound);
		*slot = v->slot;
		if (sound && copies[n] == NULL)
			result = ADMIT_FULL;
		else if (!sound)
			result = zen_version_state(chain) == ZEN_XID_ABORTED ? ADMIT_ABORTED : ADMIT_DAMAGED;
		n++;
	}
	if (result == ADMIT_DONE)
	{
		copies[0]->older = copies[1];
		now = zen_word_lock(word);
		if (zen_word_same(now, w))
		{
			now = zen_word_with_entry(now, copies[0]);
			placed = true;
		}
		zen_word_unlock(word, now);
	}
	zen_epoch_leave();
	for (int i = 0; !placed && i < n; i++)
		if (copies[i] != NULL)
			zen_version_free(copies[i]);
	return result;
}

static void
admit_spilled(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenSlot		slot = InvalidZenSlot;
	Admission	result = try_admit(ht, tidno, word, &slot);

	if (result == ADMIT_FULL)
	{
		zen_make_room();
		result = try_admit(ht, tidno, word, &slot);
	}
	if (result == ADMIT_FULL)
		zen_arena_full_error();
	if (result == ADMIT_DAMAGED)
		zen_tuple_corrupted(slot, tidno);
	if (result == ADMIT_ABORTED)
		zen_wait_for_undo();
}

void
zen_row_admit(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	for (;;)
	{
		uint64		state = zen_word_state(zen_word_read(word));

		if (state == ZEN_WORD_NVM)
			zen_metcache_admit(ht, tidno, word);
		else if (state == ZEN_WORD_SPILLED)
			admit_spilled(ht, tidno, word);
		else
			return;
	}
}

void
zen_wait_for_undo(void)
{
	CHECK_FOR_INTERRUPTS();
	pg_usleep(1000L);
}

/* ---------- spilling ---------- */

/* A row about to be spilled. */
typedef struct Row
{
	ZenWrite   *write;
	ZenSlot		slot;
	ZenTupleHeader former;
} Row;

/* May the older version of a spilled one be known by its slot alone? */
static bool
is_plain_old(ZenVersion *v)
{
	return (zen_version_flags(v) & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE | ZEN_V_PENDING | ZEN_V_SPILLED)) == ZEN_V_FROZEN &&
		v->slot != InvalidZenSlot && v->older == NULL;
}

/* The xid whose end decides about a version: a frozen one bears that of another, and is written in one command. */
static TransactionId
deciding_xid(ZenWrite *w)
{
	if (!(zen_version_flags(w->version) & ZEN_V_FROZEN) || TransactionIdIsCurrentTransactionId(w->version->xmin))
		return w->version->xmin;
	return w->nest_level == GetCurrentTransactionNestLevel() ? GetCurrentTransactionId() : InvalidTransactionId;
}

static bool
can_spill(ZenWrite *w, uint64 word)
{
	ZenVersion *v = w->version;
	uint32		flags = zen_version_flags(v);

	if (zen_word_state(word) != ZEN_WORD_ENTRY || zen_word_entry(word) != v || !w->ht->in_use ||
		(flags & (ZEN_V_ABORTED | ZEN_V_SPECULATIVE | ZEN_V_SPILLED)) || v->lockers != NULL)
		return false;
	return v->older == NULL ? !(flags & ZEN_V_TOMBSTONE) : is_plain_old(v->older);
}

static int
compare_rows(const void *a, const void *b)
{
	const ZenWrite *x = ((const Row *) a)->write;
	const ZenWrite *y = ((const Row *) b)->write;

	if (x->ht != y->ht)
		return x->ht < y->ht ? -1 : 1;
	return x->tidno < y->tidno ? -1 : x->tidno > y->tidno;
}

static void
note_block(ZenHTable *ht, uint64 tidno)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		block = (uint32) (tidno / ZEN_TIDS_PER_BLOCK);
	ZenSpilledBlock *last = ws->nblocks > 0 ? &ws->blocks[ws->nblocks - 1] : NULL;

	if (last == NULL || last->ht != ht || last->block != block ||
		last->nest_level != GetCurrentTransactionNestLevel())
		zen_writeset_add_block(ht, block);
}

/* Write the row to its slot, which is ours. */
static void
write_row(Row *row, uint64 cts)
{
	ZenWrite   *w = row->write;
	ZenVersion *v = w->version;
	bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
	uint64		link = 0;
	ZenTombstone tombstone;

	if (zen_version_flags(v) & ZEN_V_FORWARD)
		link = zen_word1(0, v->forward_tidno, 0, false);
	else if (zen_version_flags(v) & ZEN_V_MOVED)
		link = ZEN_LINK_MOVED;
	tombstone = zen_tombstone(link);
	row->former = zen_tuple_header(row->slot);
	zen_tuple_write(row->slot, cts, zen_word1(w->ht->idx, w->tidno, v->code, deleted), v->xmin,
					link ? (MinimalTuple) &tombstone : zen_version_tuple(v), true);
}

/* Make the word SPILLED; false if somebody has locked the row meanwhile, or DRAM is full. */
static bool
publish_row(Row *row, bool *full)
{
	ZenWrite   *w = row->write;
	ZenVersion *v = w->version;
	ZenVersion *old = v->older;
	ZenSpillWriter writer = {.xid = deciding_xid(w),.cmin = v->cmin,.region = zen_my_commit.region};
	bool		ok;
	uint64		word;

	writer.flags = zen_version_flags(v) &
		(ZEN_V_KEY_UPDATE | ZEN_V_FORWARD | ZEN_V_MOVED | ZEN_V_FROZEN | ZEN_V_PENDING);
	if (writer.flags & ZEN_V_FROZEN)
		writer.flags |= ZEN_V_COMMITTED;
	*full = !zen_spill_note(w->ht, w->tidno, row->slot, old ? old->slot : InvalidZenSlot, &writer);
	if (*full)
		return false;
	word = zen_word_lock(w->word);
	ok = can_spill(w, word);
	if (ok)
		word = zen_word_with(word, ZEN_WORD_SPILLED, row->slot);
	zen_word_unlock(w->word, word);
	if (!ok)
	{
		zen_spill_forget(w->ht, w->tidno);
		return false;
	}
	note_block(w->ht, w->tidno);
	w->version = NULL;			/* leaves the write set */
	zen_version_retire(v);
	if (old != NULL)
		zen_version_retire(old);
	ZEN_COUNT(rows_spilled, 1);
	return true;
}

/* A slot that was written, and that nobody knows of: R7. */
static void
withdraw_row(Row *row)
{
	zen_tuple_scrub(row->slot);
	zen_fence();
	zen_slot_free(row->slot);
}

/* Make rows durable and known.  Rows for which DRAM is lacking stay where they are. */
static void
publish_rows(Row *rows, uint32 n)
{
	bool		full = false;

	zen_fence();
	for (uint32 i = 0; i < n; i++)
		zen_gc_forget_header(rows[i].former);
	for (uint32 i = 0; i < n; i++)
		if (full || !publish_row(&rows[i], &full))
			withdraw_row(&rows[i]);
	if (full)
		zen_make_room();
}

static Size
write_size(ZenWrite *w)
{
	ZenVersion *v = w->version;

	return (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? ZEN_TOMBSTONE_SIZE : zen_tuple_size(v->len);
}

/* Take slots and write to them, at most n rows; returns how many found one. */
static uint32
write_rows(Row *rows, uint32 n, uint64 cts)
{
	for (uint32 i = 0; i < n; i++)
	{
		rows[i].slot = zen_slot_alloc(zen_my_commit.region, rows[i].write->ht, write_size(rows[i].write));
		if (rows[i].slot == InvalidZenSlot)
			return i;
		write_row(&rows[i], cts);
	}
	return n;
}

/*
 * From the first store to a slot until an abort can find it, in write_rows() and publish_rows(), nothing throws.
 */
static void
spill_rows(Row *rows, uint32 n)
{
	uint64		cts = zen_cts_next();
	bool		collected = false;

	for (uint32 done = 0; done < n;)
	{
		uint32		written;

		zen_writeset_reserve_blocks(BATCH);
		written = write_rows(&rows[done], Min(BATCH, n - done), cts);
		publish_rows(&rows[done], written);
		done += written;
		CHECK_FOR_INTERRUPTS();
		if (written == 0 && collected)
			zen_pool_full_error();
		if (written == 0)
		{
			zen_gc_region(zen_my_commit.region);
			zen_gc_all();
			zen_gc_pages();
			zen_epoch_flush();
		}
		collected = written == 0;
	}
}

/* What remains in DRAM does not count again before as much has come to it. */
static void
set_next_spill(void)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		n = 0;

	ws->bytes = 0;
	for (uint32 i = 0; i < ws->nwrites; i++)
		if (ws->writes[i].version != NULL)
		{
			ws->bytes += zen_write_bytes(ws->writes[i].version);
			ws->writes[n++] = ws->writes[i];
		}
	ws->nwrites = n;
	ws->spared = ws->bytes;
}

static void
spill(void)
{
	ZenWriteSet *ws = &zen_writeset;
	Row		   *rows = MemoryContextAllocHuge(CurrentMemoryContext, Max(ws->nwrites, 1) * sizeof(Row));
	uint32		n = 0;

	for (uint32 i = 0; i < ws->nwrites; i++)
	{
		ZenWrite   *w = &ws->writes[i];

		if (can_spill(w, zen_word_read(w->word)) && TransactionIdIsValid(deciding_xid(w)))
			rows[n++].write = w;
	}
	if (n > 0)
	{
		qsort(rows, n, sizeof(Row), compare_rows);
		zen_commit_begin(&zen_my_commit);
		PG_TRY();
		{
			spill_rows(rows, n);
		}
		PG_FINALLY();
		{
			set_next_spill();
		}
		PG_END_TRY();
		zen_gc_run(zen_my_commit.region, n);
		zen_region_rest(zen_my_commit.region, true);
	}
	else
		ws->spared = ws->bytes;
	pfree(rows);
}

void
zen_spill_if_large(void)
{
	ZenWriteSet *ws = &zen_writeset;

	/*
	 * what the last one has left is looked at again only when a good part has
	 * come to it
	 */
	if (zen_spill_threshold_kb >= 0 &&
		ws->bytes - ws->spared > Max((Size) zen_spill_threshold_kb * 1024, ws->spared / 4))
		spill();
}

/* ---------- the end ---------- */

/* What a record says of a row that this transaction has spilled. */
typedef struct Spilled
{
	ZenHTable  *ht;
	uint64		tidno;
	ZenSlot		slot;
	ZenSlot		old;
} Spilled;

/*
 * The rows of a block that a region's transaction has spilled and not settled: all, or those of writers that are not this
 * transaction's any more.  *newest, if not NULL: the newest xid among them.
 */
static uint32
rows_of_block(ZenSpilledBlock *b, uint32 region, bool all, Spilled *rows, TransactionId *newest)
{
	ZenSpill   *s;
	uint32		n = 0;

	zen_epoch_enter();
	s = zen_spill_find(b->ht, b->block);
	for (uint32 i = 0; s != NULL && i < ZEN_TIDS_PER_BLOCK; i++)
	{
		ZenSpillWriter *writer = &s->writers[s->writer_of[i]];

		if (s->slot[i] == InvalidZenSlot || writer->region != region || (writer->flags & ZEN_SPILL_SETTLED) ||
			!(all || !TransactionIdIsCurrentTransactionId(writer->xid)))
			continue;
		rows[n].ht = b->ht;
		rows[n].tidno = (uint64) b->block * ZEN_TIDS_PER_BLOCK + i;
		rows[n].slot = s->slot[i];
		rows[n++].old = zen_spill_old(s, i);
		if (newest != NULL && (!TransactionIdIsValid(*newest) || TransactionIdPrecedes(*newest, writer->xid)))
			*newest = writer->xid;
	}
	zen_epoch_leave();
	return n;
}

/* The version of a chain whose slot was written when it was spilled; *newer: the one above it. */
static ZenVersion *
find_spilled(ZenVersion *head, ZenSlot slot, ZenVersion **newer)
{
	*newer = NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (v->slot == slot && (zen_version_flags(v) & ZEN_V_SPILLED))
			return v;
		*newer = v;
	}
	return NULL;
}

/* A row of which somebody has made an entry: leave the hint there. */
static void
mark_committed(Spilled *row)
{
	ZenWord    *word = zen_tidmap_word(row->ht, row->tidno);
	ZenVersion *newer,
			   *v = NULL;
	uint64		w;

	if (word == NULL || zen_word_state(zen_word_read(word)) != ZEN_WORD_ENTRY)
		return;
	w = zen_word_lock(word);
	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		v = find_spilled(zen_word_entry(w), row->slot, &newer);
	if (v != NULL)
	{
		zen_version_set(v, ZEN_V_COMMITTED);
		zen_version_clear(v, ZEN_V_PENDING);
	}
	zen_word_unlock(word, w);
}

void
zen_spill_settle(uint32 region, ZenSpilledBlock *blocks, uint32 n)
{
	for (uint32 b = 0; b < n; b++)
	{
		Spilled		rows[ZEN_TIDS_PER_BLOCK];
		TransactionId newest = InvalidTransactionId;
		uint32		nrows = rows_of_block(&blocks[b], region, true, rows, &newest);

		if (nrows == 0)
			continue;
		for (uint32 i = 0; i < nrows; i++)
			mark_committed(&rows[i]);
		zen_spill_mark(blocks[b].ht, blocks[b].block, region, InvalidTransactionId,
					   ZEN_V_COMMITTED | ZEN_SPILL_SETTLED);
		zen_gc_push_block(region, blocks[b].ht, blocks[b].block, newest);
	}
}

/* Give a slot back that readers may still look at. */
static void
free_later(ZenSlot slot)
{
	ZenVersion *carrier = zen_version_alloc(0);

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

/* Take an entry's version out; under the word's lock.  *lone: what may be evicted now; *lockers: to be freed. */
static uint64
unlink_version(uint64 w, ZenVersion *v, ZenVersion *newer, ZenVersion **lone, ZenLockers **lockers)
{
	ZenVersion *head = v->older;

	if (newer != NULL)
	{
		newer->older = v->older;
		return w;
	}
	*lockers = v->lockers;
	v->lockers = NULL;
	if (head == NULL)
		return zen_word_with(w, ZEN_WORD_DEAD, 0);
	head->lockers = *lockers;
	head->lock_seq++;
	*lockers = NULL;
	if (head->older == NULL && head->lockers == NULL &&
		(zen_version_flags(head) & (ZEN_V_FROZEN | ZEN_V_IN_CLOCK | ZEN_V_TOMBSTONE)) == ZEN_V_FROZEN)
	{
		zen_version_set(head, ZEN_V_IN_CLOCK);
		*lone = head;
	}
	return zen_word_with_entry(w, head);
}

/* Take back a row whose slot was scrubbed. */
static void
pop_row(Spilled *row)
{
	ZenWord    *word = zen_tidmap_word(row->ht, row->tidno);
	ZenVersion *v = NULL,
			   *newer = NULL,
			   *lone = NULL;
	ZenLockers *lockers = NULL;
	uint64		w = zen_word_lock(word);

	if (zen_word_state(w) == ZEN_WORD_SPILLED && zen_word_ref(w) == row->slot)
		w = row->old != InvalidZenSlot ? zen_word_with(w, ZEN_WORD_NVM, row->old) : zen_word_with(w, ZEN_WORD_DEAD, 0);
	else if (zen_word_state(w) == ZEN_WORD_ENTRY)
		v = find_spilled(zen_word_entry(w), row->slot, &newer);
	if (v != NULL)
		w = unlink_version(w, v, newer, &lone, &lockers);
	zen_word_unlock(word, w);
	if (lockers != NULL)
		zen_lockers_free(lockers);
	if (lone != NULL)
		zen_metcache_enqueue(row->ht, row->tidno, lone);
	if (v == NULL)
		free_later(row->slot);
	else
	{
		zen_version_condemn(v);
		zen_version_retire(v);
	}
}

/* The writers of a block that rows_of_block() has looked at have nothing left there. */
static void
mark_aborted(ZenSpilledBlock *b, uint32 region, bool all)
{
	TransactionId xids[PG_UINT8_MAX];
	uint32		n = 0;
	ZenSpill   *s;

	zen_epoch_enter();
	s = zen_spill_find(b->ht, b->block);
	for (uint32 i = 0; s != NULL && i < s->nwriters; i++)
		if (s->writers[i].region == region && (all || !TransactionIdIsCurrentTransactionId(s->writers[i].xid)))
			xids[n++] = s->writers[i].xid;
	zen_epoch_leave();
	for (uint32 i = 0; i < n; i++)
		zen_spill_mark(b->ht, b->block, region, xids[i], ZEN_V_ABORTED | ZEN_SPILL_SETTLED);
	zen_spill_trim(b->ht, b->block, false);
}

void
zen_spill_undo(uint32 region, ZenSpilledBlock *blocks, uint32 n, bool all)
{
	for (uint32 b = 0; b < n; b++)
	{
		Spilled		rows[ZEN_TIDS_PER_BLOCK];
		uint32		nrows = rows_of_block(&blocks[b], region, all, rows, NULL);

		if (nrows == 0)
			continue;
		for (uint32 i = 0; i < nrows; i++)
			zen_tuple_scrub(rows[i].slot);
		zen_fence();
		for (uint32 i = 0; i < nrows; i++)
			pop_row(&rows[i]);
		mark_aborted(&blocks[b], region, all);
	}
}

/* Leave out of the write set, from a place on, the blocks in which nothing of this transaction's is left. */
static void
drop_blocks(uint32 from)
{
	ZenWriteSet *ws = &zen_writeset;
	Spilled		rows[ZEN_TIDS_PER_BLOCK];
	uint32		n = from;

	for (uint32 b = from; b < ws->nblocks; b++)
		if (rows_of_block(&ws->blocks[b], zen_my_commit.region, true, rows, NULL) > 0)
			ws->blocks[n++] = ws->blocks[b];
	ws->nblocks = n;
}

/* Undo while the transaction goes on. */
static void
undo_part(uint32 first, uint32 n, bool all)
{
	if (n == 0)
		return;
	zen_region_rest(zen_my_commit.region, false);
	zen_spill_undo(zen_my_commit.region, &zen_writeset.blocks[first], n, all);
	zen_region_rest(zen_my_commit.region, true);
}

void
zen_spill_subabort(int nest_level)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		from = ws->nblocks;

	while (from > 0 && ws->blocks[from - 1].nest_level >= nest_level)
		ws->blocks[--from].nest_level = nest_level - 1;
	undo_part(from, ws->nblocks - from, false);
	drop_blocks(from);
}

void
zen_spill_forget_table(ZenHTable *ht)
{
	ZenWriteSet *ws = &zen_writeset;

	for (uint32 b = 0; b < ws->nblocks; b++)
		if (ws->blocks[b].ht == ht)
			undo_part(b, 1, true);
	drop_blocks(0);
}

/*
 * A row written again after it was spilled: one slot of it gets the commit's Tx-CTS (R15), so the earlier one goes.  Its
 * version stays, like others that were never written.
 */
static bool
superseded(Spilled *row)
{
	ZenWord    *word = zen_tidmap_word(row->ht, row->tidno);
	ZenVersion *newer = NULL,
			   *v = NULL;
	uint64		w = zen_word_lock(word);

	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		v = find_spilled(zen_word_entry(w), row->slot, &newer);
	if (newer != NULL && v != NULL)
	{
		v->slot = InvalidZenSlot;
		zen_version_clear(v, ZEN_V_SPILLED);
	}
	zen_word_unlock(word, w);
	return newer != NULL && v != NULL;
}

void
zen_spill_restamp(uint32 region, uint64 cts, ZenSpilledBlock *blocks, uint32 n)
{
	for (uint32 b = 0; b < n; b++)
	{
		Spilled		rows[ZEN_TIDS_PER_BLOCK];
		uint32		nrows = rows_of_block(&blocks[b], region, true, rows, NULL);

		for (uint32 i = 0; i < nrows; i++)
			if (superseded(&rows[i]))
			{
				zen_spill_forget(rows[i].ht, rows[i].tidno);
				zen_tuple_scrub(rows[i].slot);
				zen_fence();
				free_later(rows[i].slot);
			}
			else
				zen_tuple_restamp(rows[i].slot, cts);
	}
}
