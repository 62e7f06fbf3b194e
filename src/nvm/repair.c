/*
 * repair.c -- find a flipped bit by the checksum that it broke.
 *
 * By trial: damage is rare, and a record has few bits.
 */
#include "nvm/repair.h"

#include "nvm/persist.h"
#include "nvm/pool.h"
#include "port/pg_crc32c.h"

uint32		zen_repairs = 0;
uint32		zen_damages = 0;

bool
zen_repair_bit(void *image, Size len, ZenFits fits, const void *arg)
{
	uint8	   *bytes = image;

	Assert(len > 0 && len <= 64);
	for (Size i = 0; i < len * 8; i++)
	{
		bytes[i / 8] ^= 1 << (i % 8);
		if (fits(image, arg))
			return true;
		bytes[i / 8] ^= 1 << (i % 8);
	}
	return false;
}

void
zen_note_repair(const void *at)
{
	Assert((const char *) at >= zen_pool.base && (const char *) at < zen_pool.base + zen_pool_pages() * ZEN_PAGE_SIZE);
	zen_repairs++;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a flipped bit in the zen pool was found and set right"),
			 errdetail("It was in the record at offset %zu of the pool.", (Size) ((const char *) at - zen_pool.base))));
}

uint64
zen_guard(uint64 place, uint64 value)
{
	pg_crc32c	crc;

	Assert(zen_guard_value(value) == value);
	if (value == 0)
		return 0;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &place, sizeof(place));
	COMP_CRC32C(crc, &value, sizeof(value));
	FIN_CRC32C(crc);
	return value | ((uint64) (crc & 0xFFFF) << ZEN_GUARD_BITS);
}

static bool
guard_fits(const void *image, const void *place)
{
	uint64		word = *(const uint64 *) image;

	return word == zen_guard(*(const uint64 *) place, zen_guard_value(word));
}

bool
zen_guard_read(uint64 *nvm, uint64 place, uint64 *value)
{
	uint64		word = zen_nvm_load64(nvm);

	if (!guard_fits(&word, &place))
	{
		if (!zen_repair_bit(&word, sizeof(word), guard_fits, &place))
		{
			zen_damages++;
			return false;
		}
		Assert(zen_one_bit(word ^ zen_nvm_load64(nvm)));
		zen_nvm_store64(nvm, word);
		zen_persist(nvm, sizeof(*nvm));
		zen_note_repair(nvm);
	}
	*value = zen_guard_value(word);
	return true;
}
