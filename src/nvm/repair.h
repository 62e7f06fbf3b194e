/*
 * repair.h -- find a flipped bit by the checksum that it broke.
 *
 * All that zen trusts in NVM has a checksum.  A CRC32C says more than "damaged": if one bit flipped, it is the one whose
 * reversal makes the checksum fit again.  Records of up to 50 bytes have some 400 bits, so bytes that are damaged otherwise
 * are taken for such a record once in ten million times (once in a thousand for the words with a check of 16 bits).
 */
#ifndef ZEN_REPAIR_H
#define ZEN_REPAIR_H

#include "base/compat.h"

/* Does the checksum of the image fit? */
typedef bool (*ZenFits) (const void *image, const void *arg);

/* zen_repair_bit -- flip the one bit of the image that makes it fit; false, and the image as it was, if there is none. */
extern bool zen_repair_bit(void *image, Size len, ZenFits fits, const void *arg);

/* Is exactly one bit set? */
static inline bool
zen_one_bit(uint64 word)
{
	return word != 0 && (word & (word - 1)) == 0;
}

#endif							/* ZEN_REPAIR_H */
