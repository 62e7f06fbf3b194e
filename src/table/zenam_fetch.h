/*
 * zenam_fetch.h -- one row, fetched by TID, in a slot.
 */
#ifndef ZENAM_FETCH_H
#define ZENAM_FETCH_H

#include "base/compat.h"

#include "pgstat.h"
#include "table/zenam_slot.h"
#include "utils/rel.h"

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

/*
 * zen_fetch_show_parts -- from now on the slot of an index scan may show only the first columns of a row, and fetch it
 * when others are asked for (README, "Scans that read columns").
 *
 * So the scan, its snapshot and the lock on the table stay as long as the slot shows a row, and the slot is the same
 * for all rows.  Call it as often as you like.
 */
extern void zen_fetch_show_parts(IndexScanDesc scan);

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
