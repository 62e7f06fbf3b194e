/*
 * slotread.h -- reading the committed version in a slot.
 */
#ifndef ZEN_SLOTREAD_H
#define ZEN_SLOTREAD_H

#include "nvm/page.h"

/*
 * zen_slot_read -- zen_tuple_read() for a slot to which a map word in state NVM leads.
 *
 * The CRC is computed if the slot has not been checked since it was written, or since the server's start (I20).  With
 * zen.skip_damaged_rows on it always is.  The caller is inside an epoch, and has read the word there.  Never throws.
 */
extern bool zen_slot_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin);

/*
 * zen_slot_look -- the same without a copy: its MinimalTuple has other things in place of the length and the padding.
 * NULL if it is damaged, or holds only what changed.  With believe, a slot that was checked is sound, whatever that
 * setting says.
 */
extern const MinimalTupleData *zen_slot_look(ZenSlot slot, bool believe);

/*
 * zen_slot_build_start -- of a row that is not whole in its slot: the first bytes, at which a reader of columns looks.
 * False if it is damaged, or whole.
 */
extern bool zen_slot_build_start(ZenSlot slot, MinimalTuple buf, uint32 bytes);

/* zen_slot_is_sound -- the same check alone: the slot need not be looked at if it was made before. */
extern bool zen_slot_is_sound(ZenSlot slot);

/* zen_slot_check -- compute its CRC, though it may have been checked: so a change sees damage that came later. */
extern bool zen_slot_check(ZenSlot slot);

/*
 * zen_slot_note_sound -- a start has checked these slots of a page: 64 slots from the first one, which is a multiple of
 * 64.  The caller has the page for itself.
 */
extern void zen_slot_note_sound(uint32 pageno, uint32 first, uint64 slots);

/* zen_slot_unchecked -- redo on a hot standby has stored another version in the slot, at which no reader was. */
extern void zen_slot_unchecked(ZenSlot slot);

/* zen_slot_doubt -- a CRC was computed and does not match: so later readers check it again.  Caller inside an epoch. */
extern void zen_slot_doubt(ZenSlot slot);

#endif							/* ZEN_SLOTREAD_H */
