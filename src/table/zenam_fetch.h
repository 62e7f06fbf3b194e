/*
 * zenam_fetch.h -- one row, fetched by TID, in the tuple table slot of zen tables.
 */
#ifndef ZENAM_FETCH_H
#define ZENAM_FETCH_H

#include "base/compat.h"

#include "access/tableam.h"
#include "executor/tuptable.h"
#include "pgstat.h"
#include "row/rowread.h"
#include "utils/rel.h"

typedef struct ZenTupleSlot
{
	HeapTupleTableSlot base;	/* tuple is &tupdata when the slot shows row */
	ZenRow		row;
	ZenRowBlock *block;			/* rows that a scan has fetched ahead, or NULL */
} ZenTupleSlot;

/* zenam_slot_row -- the row buffer of a slot, emptied, to be filled by zen_row_fetch. */
extern ZenRow *zenam_slot_row(TupleTableSlot *slot);

/* zenam_slot_store -- the slot now shows the row in its buffer. */
extern void zenam_slot_store(TupleTableSlot *slot, Oid tableoid);

/*
 * zenam_slot_block -- the block buffer of a slot, emptied, to be filled by zen_row_fetch_block.
 *
 * zenam_slot_find_block -- what is in the buffer, if it has this serial number; else NULL.
 *
 * zenam_slot_show -- the slot now shows a row of its block buffer.  zenam_slot_point: the same for a slot that has
 * nothing to free.
 */
extern ZenRowBlock *zenam_slot_block(TupleTableSlot *slot);

extern TupleTableSlotOps zenam_slot_ops;

static inline ZenRowBlock *
zenam_slot_find_block(TupleTableSlot *slot, uint64 serial)
{
	ZenRowBlock *block = slot->tts_ops == &zenam_slot_ops ? ((ZenTupleSlot *) slot)->block : NULL;

	return block != NULL && block->serial == serial ? block : NULL;
}

static inline void
zenam_slot_point(TupleTableSlot *slot, HeapTuple tuple, Oid tableoid)
{
	HeapTupleTableSlot *hslot = (HeapTupleTableSlot *) slot;

	Assert(((ZenTupleSlot *) slot)->block != NULL && tuple->t_len >= SizeofHeapTupleHeader);
	Assert(!TTS_SHOULDFREE(slot));
	tuple->t_tableOid = tableoid;
	hslot->tuple = tuple;
	hslot->off = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tableoid;
}

static inline void
zenam_slot_show(TupleTableSlot *slot, HeapTuple tuple, Oid tableoid)
{
	/* the rest of clearing is done there */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	zenam_slot_point(slot, tuple, tableoid);
}

/* The purpose of a read. */
typedef enum ZenReadKind
{
	ZEN_READ_TABLE,				/* a scan of the table, whose predicate lock
								 * stands for all rows */
	ZEN_READ_RANGE,				/* a scan of much of it: a predicate lock for
								 * each row */
	ZEN_READ_POINT				/* the same, and the row may be worth a place
								 * in the Met-Cache */
} ZenReadKind;

/* Does the TID have a form that zen hands out? */
static inline bool
zen_tid_has_form(ItemPointer tid)
{
	return ItemPointerIsValid(tid) && zen_tid_code(tid) <= ZEN_MAX_CODE;
}

/*
 * Fetch a logical tuple (code ZEN_ANY_CODE) or one version of it into a slot, and see to predicate locks.
 *
 * A serializable reader reads twice.  The second time it sees a writer that came after the first time and did not see
 * the lock.
 */
extern bool zen_fetch(Relation rel, ZenFetch *f, TupleTableSlot *slot, ZenReadKind kind);

/*
 * zen_fetch_hinted -- fetch the row at a TID that a hint has led to, as an index scan does; false if there is none.
 *
 * ht is the table's, by zen_rel_htable().
 */
extern bool zen_fetch_hinted(Relation rel, ZenHTable *ht, uint64 tidno, Snapshot snapshot, TupleTableSlot *slot);

/* ERROR if the session decodes changes: zen does not keep the versions of a snapshot of the past. */
extern void zen_refuse_while_decoding(Relation rel);

/* pg_statio_user_tables: as often as heap would look up a buffer, and always found. */
static inline void
zen_count_block(Relation rel)
{
	pgstat_count_buffer_read(rel);
	pgstat_count_buffer_hit(rel);
}

/*
 * May the transaction's snapshot see two rows with one key of a unique index?  One was deleted by another transaction
 * after the snapshot was taken, the other one is its own.
 */
extern bool zen_fetch_sees_key_twice(void);

/* What an index-only scan finds under the TID of an entry. */
typedef enum ZenEntrySight
{
	ZEN_ENTRY_SEEN,				/* a row that every snapshot sees */
	ZEN_ENTRY_VISIBLE,			/* one that the scan's snapshot sees: versions
								 * were looked at */
	ZEN_ENTRY_HIDDEN,			/* none */
	ZEN_ENTRY_DEAD				/* none, and no snapshot ever will */
} ZenEntrySight;

/*
 * zen_fetch_see_entry -- an index scan that wants no row (zen_index_wants_no_row) has come to an entry: what is there?
 *
 * The index learns of an entry that is dead when the scan goes on.
 */
extern ZenEntrySight zen_fetch_see_entry(IndexScanDesc scan);

#endif							/* ZENAM_FETCH_H */
