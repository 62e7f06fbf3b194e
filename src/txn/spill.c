/*
 * spill.c -- choosing rows, writing them, and making them known as spilled.
 *
 * src/txn/README, "Large transactions" and "Rows of a load", says which rows are spilled, and what a crash leaves.
 *
 * R2, R3: the slots have LP = 0, and a Tx-CTS of their region that is smaller than the commit's.  So they are
 * losers until the commit's LP (or descriptor) is durable, and committed from then on.  R11: the region stays
 * leased.  R15: a row that is written again after it was spilled gets the commit's Tx-CTS, which is larger.
 */
#include "txn/spill.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/ownwal.h"
#include "cache/spillmap.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/sink.h"
#include "nvm/slotalloc.h"
#include "port/pg_bitutils.h"
#include "row/visibility.h"
#include "txn/commit.h"

#define BATCH			1024	/* rows written between two fences */
#define LOAD_BYTES		(256 * 1024)	/* of DRAM: a transaction that has
										 * written more is a load, or deletes
										 * many rows */

/*
 * Set while rows are spilled.  The rows that are spilled already then stand in the write set without a version.  If an
 * error or the end of the session comes between, zen_spill_abandon() takes them out.
 */
static bool spilling = false;

/* A row about to be spilled. */
typedef struct Row
{
	ZenWrite   *write;
	ZenSlot		slot;
	ZenTupleHeader former;		/* what was in the slot */
} Row;

/* May the older version of a spilled one be known by its slot alone? */
static bool
is_plain_old(ZenVersion *v)
{
	return (zen_version_flags(v) & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE | ZEN_V_PENDING | ZEN_V_SPILLED)) == ZEN_V_FROZEN &&
		v->slot != InvalidZenSlot && v->older == NULL;
}

/*
 * The xid whose end decides about a version.  A frozen one bears the xid of another transaction, and is written in
 * one command.  None for a copy that CLUSTER has made of another's version for older snapshots: the record has no
 * place for both xids.
 */
static TransactionId
deciding_xid(ZenWrite *w)
{
	ZenAssertNotInEpoch();		/* it may take an xid */
	if (TransactionIdIsCurrentTransactionId(w->version->xmin))
		return w->version->xmin;
	if (!(zen_version_flags(w->version) & ZEN_V_FROZEN))
		return InvalidTransactionId;
	return w->nest_level == GetCurrentTransactionNestLevel() ? GetCurrentTransactionId() : InvalidTransactionId;
}

/*
 * Is it a row to be spilled?  Inside the epoch, if it replaces a version, or under the word's lock; word: its value.
 */
static bool
can_spill(ZenWrite *w, uint64 word)
{
	ZenVersion *v = w->version;
	uint32		flags = zen_version_flags(v);

	Assert(w->nest_level <= GetCurrentTransactionNestLevel());
	if (!zen_word_leads_to(word, v) || !w->ht->in_use ||
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

/*
 * Write the row to its slot, which is ours; row->former is what was there.  *cts: of the row before; a new one if that
 * is too near to the slot's.
 */
static void
write_row(Row *row, uint64 *cts, ZenFlushRange *pending)
{
	ZenWrite   *w = row->write;
	ZenVersion *v = w->version;
	bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
	uint64		link = 0;
	ZenTombstone tombstone;

	if (zen_version_flags(v) & ZEN_V_FORWARD)
		link = zen_link(v->forward_tidno, !(zen_version_flags(v) & ZEN_V_KEY_UPDATE));
	else if (zen_version_flags(v) & ZEN_V_MOVED)
		link = ZEN_LINK_MOVED;
	tombstone = zen_tombstone(link);
	Assert(!(zen_version_flags(v) & (ZEN_V_ABORTED | ZEN_V_SPECULATIVE)));
	Assert(zen_pages[zen_slot_page(row->slot)].owner.region == zen_my_commit.region);
	if (zen_tuple_is_near(row->former, *cts))
		*cts = zen_cts_next();
	zen_tuple_write_among(row->slot, *cts, zen_word1(w->ht->idx, w->tidno, v->code, deleted), v->xmin,
						  link ? (MinimalTuple) &tombstone : zen_version_tuple(v), pending);
}

/* What the record says of a row's writer. */
static ZenSpillWriter
writer_of(ZenWrite *w)
{
	ZenSpillWriter writer = {.xid = deciding_xid(w),.cmin = w->version->cmin,.region = zen_my_commit.region};

	Assert(TransactionIdIsValid(writer.xid));
	writer.flags = zen_version_flags(w->version) &
		(ZEN_V_KEY_UPDATE | ZEN_V_FORWARD | ZEN_V_MOVED | ZEN_V_FROZEN | ZEN_V_PENDING);
	if (writer.flags & ZEN_V_FROZEN)
		writer.flags |= ZEN_V_COMMITTED;
	return writer;
}

/*
 * How many rows, from the first on, are noted together?  They are of one block and one writer, and either all replace a
 * version or none does.  No other process changes what is asked here: a version replaced is plain, and stays.
 */
static uint32
rows_alike(const Row *rows, uint32 n, const ZenSpillWriter *writer)
{
	ZenWrite   *first = rows[0].write;
	uint32		alike = 1;

	for (; alike < Min(n, ZEN_TIDS_PER_BLOCK); alike++)
	{
		ZenWrite   *w = rows[alike].write;
		ZenSpillWriter its;

		if (w->ht != first->ht || w->tidno / ZEN_TIDS_PER_BLOCK != first->tidno / ZEN_TIDS_PER_BLOCK ||
			(w->version->older != NULL) != (first->version->older != NULL))
			break;
		its = writer_of(w);
		if (its.xid != writer->xid || its.cmin != writer->cmin || its.flags != writer->flags)
			break;
	}
	return alike;
}

/* The record knows all about rows; false if DRAM is full. */
static bool
note_together(const Row *rows, uint32 n, const ZenSpillWriter *writer)
{
	bool		replace = rows[0].write->version->older != NULL;
	ZenTakenTid tids[ZEN_TIDS_PER_BLOCK];
	ZenSlot		slots[ZEN_TIDS_PER_BLOCK];
	ZenSlot		olds[ZEN_TIDS_PER_BLOCK];

	for (uint32 i = 0; i < n; i++)
	{
		ZenVersion *old = rows[i].write->version->older;

		Assert(!replace || is_plain_old(old));
		tids[i].tidno = rows[i].write->tidno;
		tids[i].word = rows[i].write->word;
		slots[i] = rows[i].slot;
		olds[i] = replace ? old->slot : InvalidZenSlot;
	}
	return zen_spillmap_note(rows[0].write->ht, tids, slots, replace ? olds : NULL, n, writer);
}

/* Make the word SPILLED; false if another transaction has locked the row since it was chosen. */
static bool
publish_row(Row *row)
{
	ZenWrite   *w = row->write;
	ZenVersion *v = w->version;
	ZenVersion *old = v->older;
	uint64		word;
	bool		ok;

	word = zen_word_lock(w->word);
	zen_chain_check(word);
	ok = can_spill(w, word);
	if (ok)
		word = zen_word_with(word, ZEN_WORD_SPILLED, row->slot);
	zen_word_unlock(w->word, word);
	if (!ok)
	{
		zen_spillmap_forget(w->ht, w->tidno);
		return false;
	}
	zen_writeset_add_block(w->ht, (uint32) (w->tidno / ZEN_TIDS_PER_BLOCK));
	w->version = NULL;			/* leaves the write set */
	zen_version_retire(v);
	if (old != NULL)
		zen_version_retire(old);
	ZEN_COUNT(rows_spilled, 1);
	return true;
}

/* R7: a slot was written, and no word leads to it. */
static void
withdraw(ZenSlot slot)
{
	zen_tuple_vanish(slot, zen_my_commit.region);
	zen_slot_free(slot);
}

/*
 * Tell the sink that the rows written are durable.  Returns the position that await() wants before the headers that
 * they have overwritten are forgotten; 0 = none.
 */
static uint64
tell_spilled(void)
{
	return unlikely(zen_sink.spilled != NULL) ? zen_sink.spilled(zen_my_commit.region) : 0;
}

/*
 * The row over a slot is durable; told: the result of tell_spilled() for it.  No copy may have the header for longer
 * than it counts, so it is forgotten when the row's record is flushed (R18).
 */
static void
note_former(const ZenTupleHeader *former, uint64 told)
{
	if (told == 0 || ZEN_FAULT(R18_FORGOTTEN_EARLY))
		zen_collect_forget_header(*former);
	else
		zen_collect_forget_when(*former, told);
}

/* Make rows durable and known.  Rows for which DRAM is lacking stay where they are. */
static void
publish_rows(Row *rows, uint32 n)
{
	bool		full = false;
	uint32		done = 0;
	uint64		told;

	ZenAssertNotInEpoch();
	if (!ZEN_FAULT(R2_SPILL_NO_FENCE))
		zen_fence();
	told = tell_spilled();
	for (uint32 i = 0; i < n; i++)
		note_former(&rows[i].former, told);
	while (done < n)
	{
		ZenSpillWriter writer = writer_of(rows[done].write);
		uint32		end = done + rows_alike(&rows[done], n - done, &writer);

		full = full || !note_together(&rows[done], end - done, &writer);
		for (; done < end; done++)
			if (full || !publish_row(&rows[done]))
				withdraw(rows[done].slot);
	}
	if (full)
		zen_make_room();
}

/* Would a row take a slot of this class, as one of this table's? */
static inline bool
takes_alike(const Row *row, const ZenHTable *ht, uint32 class)
{
	return row->write->ht == ht && zen_class_of(zen_write_nvm_size(row->write->version)) == class;
}

/* Take slots for rows; returns how many found one. */
static uint32
take_slots(Row *rows, uint32 n)
{
	uint32		done = 0;

	while (done < n)
	{
		ZenSlot		slots[ZEN_TIDS_PER_BLOCK];
		ZenHTable  *ht = rows[done].write->ht;
		Size		size = zen_write_nvm_size(rows[done].write->version);
		uint32		alike = 1;
		uint32		got;

		while (alike < Min(n - done, lengthof(slots)) && takes_alike(&rows[done + alike], ht, zen_class_of(size)))
			alike++;
		got = zen_slot_alloc_many(zen_my_commit.region, ht, size, alike, slots);
		if (got == 0)
			break;
		for (uint32 i = 0; i < got; i++)
			rows[done + i].slot = slots[i];
		done += got;
	}
	return done;
}

/*
 * Take slots and write to them, at most n rows; returns how many found one.
 *
 * All slots are taken first, and their headers read.  An atomic or a load between two slots' stores would wait for
 * the lines of the first.
 */
static uint32
write_rows(Row *rows, uint32 n, uint64 *cts)
{
	ZenFlushRange pending = {0};
	uint32		taken;

	Assert(n <= BATCH && *cts > zen_regions[zen_my_commit.region].last_cts);
	ZenAssertRegionMine(zen_my_commit.region);
	taken = take_slots(rows, n);
	for (uint32 i = 0; i < taken; i++)
		rows[i].former = zen_tuple_header(rows[i].slot);
	for (uint32 i = 0; i < taken; i++)
		write_row(&rows[i], cts, &pending);
	zen_flush_pending(&pending);
	return taken;
}

/*
 * From the first store to a slot until an abort can find it nothing throws: in write_rows() and publish_rows().
 *
 * Between two batches the session may be ended, and FATAL passes no PG_FINALLY().  So zen_spill_abandon() does what
 * an abort must do.
 */
static void
spill_rows(Row *rows, uint32 n)
{
	uint64		cts = zen_cts_next();
	TimestampTz since = 0;
	bool		collected = false;

	for (uint32 done = 0; done < n;)
	{
		uint32		written;

		zen_writeset_reserve_blocks(BATCH);
		written = write_rows(&rows[done], Min(BATCH, n - done), &cts);
		Assert(zen_writeset.nblocks + written <= zen_writeset.blocks_capacity);
		publish_rows(&rows[done], written);
		done += written;
		CHECK_FOR_INTERRUPTS();
		/* R3: the Tx-CTS is for this region */
		if (written == 0 && collected)
			zen_commit_await_slots(&zen_my_commit, true, &since);
		if (written == 0)
			zen_reclaim_for_slots(zen_my_commit.region);
		collected = written == 0;
	}
}

/* What a spilling has left is not looked at again before the transaction has grown. */
static void
spare_rest(bool only_bare)
{
	ZenWriteSet *ws = &zen_writeset;

	ws->spared = only_bare ? Min(ws->spared, ws->bytes) : ws->bytes;
	ws->bare_spared = ws->bare;
}

/* Leave spilled rows out of the write set. */
static void
leave_out_spilled(void)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		n = 0;

	Assert(spilling);
	ws->bytes = ws->bare = 0;
	zen_epoch_enter();			/* the version below may be made lean */
	for (uint32 i = 0; i < ws->nwrites; i++)
		if (ws->writes[i].version != NULL)
		{
			Size		bytes = zen_write_bytes(ws->writes[i].version);

			ws->bytes += bytes;
			if (zen_write_is_bare(ws->writes[i].version))
				ws->bare += bytes;
			ws->writes[n++] = ws->writes[i];
		}
	zen_epoch_leave();
	ws->nwrites = n;
	spilling = false;
}

/*
 * The version that a row replaces may be older than all snapshots, and only wait for the collector to freeze it.
 * Inside the epoch.
 */
static inline bool
may_be_collected(const ZenWrite *w)
{
	ZenVersion *old = w->version->older;

	return old != NULL && !is_plain_old(old) && (zen_version_flags(old) & ZEN_V_COMMITTED);
}

/* Does a row stay where it is, since only bare ones are spilled?  Inside the epoch. */
static inline bool
stays_in_dram(const ZenWrite *w, bool only_bare)
{
	return only_bare && !zen_write_is_bare(w->version);
}

/*
 * Those of up to 64 writes that may be spilled, after the collector has been asked where it may help; how many?
 *
 * Without the words' locks: inside the epoch, as the version below a row's may change.  Outside it is whatever may take
 * an xid, which may wait, or throw.
 */
static uint32
choose_among(ZenWrite *first, uint32 n, bool only_bare, Row *rows)
{
	uint32		chosen = 0;
	uint64		collect = 0,
				may = 0;

	Assert(n <= 64);
	zen_epoch_enter();
	for (uint32 i = 0; i < n; i++)
		zen_version_ask(first[i].version);
	for (uint32 i = 0; i < n; i++)
		if (first[i].version->older != NULL)
			__builtin_prefetch(&first[i].version->older->flags);
	for (uint32 i = 0; i < n; i++)
	{
		ZenWrite   *w = &first[i];

		Assert(w->version != NULL && w->slot == InvalidZenSlot);
		if (stays_in_dram(w, only_bare))
			continue;
		if (may_be_collected(w))
			collect |= UINT64CONST(1) << i;
		else if (can_spill(w, zen_word_read(w->word)))
			may |= UINT64CONST(1) << i;
	}
	zen_epoch_leave();
	for (; collect != 0; collect &= collect - 1)
	{
		int			i = pg_rightmost_one_pos64(collect);

		(void) zen_collect_item(first[i].ht, first[i].tidno, false);
		zen_epoch_enter();
		if (can_spill(&first[i], zen_word_read(first[i].word)))
			may |= UINT64CONST(1) << i;
		zen_epoch_leave();
	}
	for (; may != 0; may &= may - 1)
	{
		ZenWrite   *w = &first[pg_rightmost_one_pos64(may)];

		if (TransactionIdIsValid(deciding_xid(w)))
			rows[chosen++].write = w;
	}
	return chosen;
}

/*
 * Choose the rows of the write set that may be spilled, write them, and take them out of the write set.  only_bare: of
 * these, rows that have no data in DRAM.
 */
static void
spill(bool only_bare)
{
	ZenWriteSet *ws = &zen_writeset;
	Row		   *rows = MemoryContextAllocHuge(CurrentMemoryContext, Max(ws->nwrites, 1) * sizeof(Row));
	uint32		n = 0;

	Assert(!spilling);
	Assert(zen_my_commit.stage == ZEN_STAGE_NONE || zen_my_commit.stage == ZEN_STAGE_LEASED);
	(void) zen_horizon_look();
	/* pages, maps and records are taken where no room can be made */
	if (zen_arena_lacks_spans())
		zen_make_room();
	for (uint32 i = 0; i < ws->nwrites; i += 64)
		n += choose_among(&ws->writes[i], Min(64, ws->nwrites - i), only_bare, rows + n);
	if (n > 0)
	{
		qsort(rows, n, sizeof(Row), compare_rows);
		zen_commit_begin(&zen_my_commit);
		Assert(ws->nblocks == 0 || ws->region == zen_my_commit.region);
		ws->region = zen_my_commit.region;
		spilling = true;
		spill_rows(rows, n);
		leave_out_spilled();
		spare_rest(only_bare);
		zen_collect_run(zen_my_commit.region, n);
		zen_region_rest(zen_my_commit.region, true);
	}
	else
		spare_rest(only_bare);
	pfree(rows);
}

void
zen_spill_abandon(void)
{
	if (!spilling)
		return;
	Assert(zen_my_commit.stage == ZEN_STAGE_LEASED && zen_writeset.region == zen_my_commit.region);
	leave_out_spilled();
	spare_rest(false);
	zen_region_rest(zen_my_commit.region, true);
}

/* Bytes of DRAM that the versions of a transaction may take. */
static Size
threshold(void)
{
	return Min((Size) zen_spill_threshold_kb, (Size) zen_met_cache_size_kb / 8) * 1024;
}

void
zen_spill_if_large(void)
{
	ZenWriteSet *ws = &zen_writeset;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(ws->spared <= ws->bytes && ws->bare_spared <= ws->bare && ws->bare <= ws->bytes && !spilling);
	zen_writeset_check_open();
	if (zen_spill_threshold_kb < 0)
		return;

	/*
	 * rows that the last spill has left are looked at again only when the
	 * transaction has grown by a good part
	 */
	if (ws->bytes - ws->spared > Max(threshold(), ws->spared / 4))
		spill(false);
	else if (ws->bare - ws->bare_spared > Max(Min(threshold(), LOAD_BYTES), ws->bytes / 4))
		spill(true);
}

/* ---------- rows of a load ---------- */

/* New rows of one block on their way into NVM. */
typedef struct Load
{
	ZenHTable  *ht;
	ZenTakenTid *tids;			/* found free, not taken yet */
	MinimalTuple *tuples;
	const TransactionId *xmins; /* or NULL: the writer's */
	uint32		n;
	ZenSlot		slots[ZEN_TIDS_PER_BLOCK];
	ZenTupleHeader former[ZEN_TIDS_PER_BLOCK];
} Load;

/* Take slots for the rows, as many as there are. */
static uint32
load_take_slots(Load *load)
{
	uint32		n = 0;

	while (n < load->n)
	{
		Size		size = zen_tuple_size(load->tuples[n]->t_len);
		uint32		class = zen_class_of(size);
		uint32		alike = 1;
		uint32		got;

		while (n + alike < load->n && zen_class_of(zen_tuple_size(load->tuples[n + alike]->t_len)) == class)
			alike++;
		got = zen_slot_alloc_many(zen_my_commit.region, load->ht, size, alike, &load->slots[n]);
		if (got == 0)
			break;
		n += got;
	}
	return n;
}

/* As write_row(). */
static void
write_load(Load *load, const ZenSpillWriter *writer, uint64 *cts)
{
	ZenFlushRange pending = {0};

	Assert(*cts > zen_regions[zen_my_commit.region].last_cts);
	for (uint32 i = 0; i < load->n; i++)
		load->former[i] = zen_tuple_header(load->slots[i]);
	for (uint32 i = 0; i < load->n; i++)
	{
		ZenSlot		slot = load->slots[i];

		Assert(zen_pages[zen_slot_page(slot)].owner.region == zen_my_commit.region);
		if (zen_tuple_is_near(load->former[i], *cts))
			*cts = zen_cts_next();
		zen_tuple_write_among(slot, *cts, zen_word1(load->ht->idx, load->tids[i].tidno, 0, false),
							  load->xmins != NULL ? load->xmins[i] : writer->xid, load->tuples[i], &pending);
	}
	zen_flush_pending(&pending);
}

/* As publish_rows().  A bit for each row that has got its TID; the others are gone. */
static uint64
publish_load(Load *load, const ZenSpillWriter *writer)
{
	uint32		block = (uint32) (load->tids[0].tidno / ZEN_TIDS_PER_BLOCK);
	uint64		placed,
				told;

	ZenAssertNotInEpoch();
	if (!ZEN_FAULT(R2_LOAD_NO_FENCE))
		zen_fence();
	told = tell_spilled();
	for (uint32 i = 0; i < load->n; i++)
		note_former(&load->former[i], told);
	placed = zen_spillmap_take(load->ht, load->tids, load->slots, load->n, writer);
	for (uint32 i = 0; i < load->n; i++)
		if (!(placed >> i & 1))
			withdraw(load->slots[i]);
	if (placed != 0)
		zen_writeset_add_block(load->ht, block);
	else
		zen_spillmap_trim(load->ht, block, false);
	ZEN_COUNT(rows_spilled, pg_popcount64(placed));
	return placed;
}

/* Does a transaction insert so much that its rows need not wait for the commit in DRAM? */
static bool
is_load(void)
{
	ZenWriteSet *ws = &zen_writeset;

	return zen_spill_threshold_kb >= 0 && (ws->nblocks > 0 || ws->bytes >= Min(threshold(), LOAD_BYTES));
}

/*
 * From the first store to a slot until an abort can find it nothing throws: from write_load() to publish_load().  *lost
 * gets the number of rows whose TIDs others have taken.
 */
static uint64
load_rows(ZenHTable *ht, const ZenNewRows *rows, ZenTakenTid *taken, uint32 *lost)
{
	ZenSpillWriter writer = {.xid = zen_xid_assign(),.cmin = rows->cid,.region = zen_my_commit.region,
	.flags = zen_new_row_flags(rows->frozen)};
	uint64		cts = zen_cts_next();
	uint64		placed = 0;
	uint32		done = 0;

	Assert(rows->n <= ZEN_TIDS_PER_BLOCK && (rows->frozen || rows->xmins == NULL));
	zen_writeset_reserve_blocks(rows->n);
	while (done < rows->n)
	{
		Load		load = {.ht = ht,.tids = taken + done,.tuples = rows->tuples + done,
		.xmins = rows->xmins != NULL ? rows->xmins + done : NULL};
		uint32		found = zen_tidmap_find_free(ht, rows->n - done, load.tids);
		uint64		bits;

		load.n = found;
		load.n = found > 0 ? load_take_slots(&load) : 0;
		if (load.n == 0)
			break;
		write_load(&load, &writer, &cts);
		bits = publish_load(&load, &writer);
		placed |= bits << done;
		*lost += load.n - pg_popcount64(bits);
		done += load.n;
		if (load.n < found)
			break;
	}
	return placed;
}

uint64
zen_spill_new_rows(ZenHTable *ht, const ZenNewRows *rows, ZenTakenTid *taken)
{
	ZenWriteSet *ws = &zen_writeset;
	uint64		placed;
	uint32		lost = 0;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	if (!is_load() || zen_arena_lacks_spans())
		return 0;
	zen_commit_begin(&zen_my_commit);
	Assert(ws->nblocks == 0 || ws->region == zen_my_commit.region);
	ws->region = zen_my_commit.region;
	placed = load_rows(ht, rows, taken, &lost);
	zen_region_rest(zen_my_commit.region, true);
	if (lost > 0)
		elog(DEBUG1, "other processes have taken the TIDs of %u rows of a load", lost);
	return placed;
}
