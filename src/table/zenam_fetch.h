/*
 * zenam_fetch.h -- one row, fetched by TID.
 */
#ifndef ZENAM_FETCH_H
#define ZENAM_FETCH_H

#include "base/compat.h"

#include "access/tableam.h"
#include "pgstat.h"
#include "row/rowread.h"

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

#endif							/* ZENAM_FETCH_H */
