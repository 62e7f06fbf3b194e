/*
 * delta.h -- versions that hold only what changed: a base, and the ranges in which they differ from it.
 *
 * src/row/README, "Versions that hold only what changed", has when one is made, and what holds its base (R22).
 */
#ifndef ZEN_DELTA_H
#define ZEN_DELTA_H

#include "nvm/page.h"

#define ZEN_DELTA_MIN		512 /* bytes of a MinimalTuple: shorter ones are
								 * written whole */
#define ZEN_DELTA_SHARE		4	/* a delta has one byte of so many of the
								 * whole tuple, at most */

/* Room for the delta of the longest row. */
#define ZEN_DELTA_MAX_BYTES	(ZEN_MAX_TUPLE / ZEN_DELTA_SHARE)

/*
 * zen_delta_make -- the difference between a row and the whole version in a slot, as a version of its own.
 *
 * Into to, which has room for ZEN_DELTA_MAX_BYTES.  False if it takes more than its share of the row's length, or if
 * the slot's version is not whole.  The caller has seen that the slot's CRC fits, and is inside an epoch.
 */
extern bool zen_delta_make(ZenSlot base, const MinimalTupleData *tuple, ZenDelta *to);

/* The base of the delta in a slot that holds one. */
extern ZenSlot zen_delta_base_of(ZenSlot slot);

/*
 * zen_delta_base -- the slot on which the version in a slot leans; InvalidZenSlot if it is whole.
 *
 * The version is a committed one in use: it was not scrubbed.
 */
static inline ZenSlot
zen_delta_base(ZenSlot slot)
{
	if (likely(slot == InvalidZenSlot || !zen_pages[zen_slot_page(slot)].deltas))
		return InvalidZenSlot;
	return zen_delta_base_of(slot);
}

/* zen_delta_ask_base -- ask for the first lines of the base of the delta in a slot, for a read to come. */
extern void zen_delta_ask_base(ZenSlot slot, int lines);

/*
 * zen_delta_base_fits -- is the base of the delta in a slot there: a whole version of the same row, with the right
 * Tx-CTS, that fits its CRC?
 */
extern bool zen_delta_base_fits(ZenSlot slot);

/*
 * zen_delta_read -- zen_tuple_read() for a delta: both CRCs are computed.
 *
 * zen_delta_build -- the same without CRCs, which the caller knows to fit.
 *
 * zen_delta_build_start -- ... and of the row's first bytes only.  What a MinimalTuple has before its infomask2 is not
 * made.
 *
 * zen_delta_equals -- is the row that it makes this one?
 */
extern bool zen_delta_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin);
extern bool zen_delta_build(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin);
extern bool zen_delta_build_start(ZenSlot slot, MinimalTuple buf, uint32 bytes);
extern bool zen_delta_equals(ZenSlot slot, const MinimalTupleData *tuple);

/* zen_whole_read, zen_whole_equals -- zen_tuple_read() and zen_tuple_equals() for any version, a delta or not. */
static inline bool
zen_whole_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin)
{
	if (unlikely(zen_tuple_is_delta(slot)))
		return zen_delta_read(slot, buf, len, xmin);
	return zen_tuple_read(slot, buf, len, xmin);
}

static inline bool
zen_whole_equals(ZenSlot slot, const MinimalTupleData *tuple)
{
	if (tuple != NULL && zen_tuple_is_delta(slot))
		return zen_delta_equals(slot, tuple);
	return zen_tuple_equals(slot, zen_slot_size(slot), tuple);
}

#endif							/* ZEN_DELTA_H */
