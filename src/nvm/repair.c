/*
 * repair.c -- find a flipped bit by the checksum that it broke.
 *
 * By trial: damage is rare, and a record has few bits.
 */
#include "nvm/repair.h"

bool
zen_repair_bit(void *image, Size len, ZenFits fits, const void *arg)
{
	uint8	   *bytes = image;

	for (Size i = 0; i < len * 8; i++)
	{
		bytes[i / 8] ^= 1 << (i % 8);
		if (fits(image, arg))
			return true;
		bytes[i / 8] ^= 1 << (i % 8);
	}
	return false;
}
