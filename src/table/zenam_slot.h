/*
 * zenam_slot.h -- the tuple table slot of zen tables.
 */
#ifndef ZENAM_SLOT_H
#define ZENAM_SLOT_H

#include "base/compat.h"

#include "executor/tuptable.h"
#include "row/rowread.h"
#include "utils/rel.h"

extern const TupleTableSlotOps *zenam_slot_callbacks(Relation rel);

/* zenam_slot_row -- the row buffer of a slot, emptied, to be filled by zen_row_fetch. */
extern ZenRow *zenam_slot_row(TupleTableSlot *slot);

/* zenam_slot_store -- the slot now shows the row in its buffer. */
extern void zenam_slot_store(TupleTableSlot *slot, Oid tableoid);

#endif							/* ZENAM_SLOT_H */
