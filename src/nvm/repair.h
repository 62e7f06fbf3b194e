/*
 * repair.h -- find a flipped bit by the checksum that it broke.
 *
 * All that zen trusts in NVM has a checksum.  A CRC32C says more than "damaged": if one bit flipped, it is the one
 * whose reversal makes the checksum fit again.  Records of up to 50 bytes have some 400 bits.  So bytes that are
 * damaged otherwise are taken for such a record once in ten million times, and once in a thousand for the words with
 * a check of 16 bits.
 */
#ifndef ZEN_REPAIR_H
#define ZEN_REPAIR_H

#include "nvm/layout.h"

/* Does the checksum of the image fit? */
typedef bool (*ZenFits) (const void *image, const void *arg);

/*
 * zen_repair_bit -- flip the one bit of the image that makes it fit; false, with the image as before, if there is
 * none.
 */
extern bool zen_repair_bit(void *image, Size len, ZenFits fits, const void *arg);

/* Damage that this process has met. */
extern uint32 zen_repairs;
extern uint32 zen_damages;

/* zen_note_repair -- tell the log that a flipped bit was set right at this place of the pool, and count it. */
extern void zen_note_repair(const void *at);

/*
 * A guarded word: 48 bits of value and a check of 16 bits.  The check also covers the word's place, so that a word that
 * was written elsewhere is noticed.  Value 0 is the word 0.
 *
 * zen_guard_read -- the value of a guarded word in NVM; a flipped bit is set right, durably.  False if more is damaged.
 */
extern uint64 zen_guard(uint64 place, uint64 value);
extern bool zen_guard_read(uint64 *nvm, uint64 place, uint64 *value);

static inline uint64
zen_guard_value(uint64 word)
{
	return word & ZEN_GUARD_VALUE;
}

/* Is exactly one bit set? */
static inline bool
zen_one_bit(uint64 word)
{
	return word != 0 && (word & (word - 1)) == 0;
}

#endif							/* ZEN_REPAIR_H */
