/*
 * superblock.c -- what a superblock must be like.
 *
 * Two copies in different 4 KB pages are written in turn (pool.c); a copy counts if its checksum is right, and of two
 * such the one with the larger seq.
 */
#include "nvm/superblock.h"

#include <unistd.h>

#include "port/pg_crc32c.h"

const Size	zen_super_offsets[2] = {ZEN_OFF_SUPER, ZEN_OFF_SUPER2};

uint32
zen_superblock_crc(const ZenSuperblock *sb)
{
	ZenSuperblock copy = *sb;
	pg_crc32c	crc;

	copy.crc = 0;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &copy, sizeof(copy));
	FIN_CRC32C(crc);
	return crc;
}

uint32
zen_first_data_page(uint64 npages)
{
	Size		directory = npages * sizeof(uint64);

	StaticAssertStmt(ZEN_OFF_PAGES % ZEN_AREA_ALIGN == 0 && ZEN_AREA_ALIGN % ZEN_PAGE_SIZE == 0,
					 "data pages begin on a huge-page border");
	return (ZEN_OFF_PAGES + TYPEALIGN(ZEN_AREA_ALIGN, directory)) / ZEN_PAGE_SIZE;
}

void
zen_superblock_validate(ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		ZenSuperblock *sb = &pair->copy[i];

		pair->valid[i] = (sb->magic == ZEN_MAGIC && sb->version == ZEN_FORMAT_VERSION &&
						  sb->crc == zen_superblock_crc(sb));
	}
}

void
zen_superblock_read(int fd, ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		/* an unreadable copy is a damaged copy */
		if (pread(fd, &pair->copy[i], sizeof(ZenSuperblock), zen_super_offsets[i]) != sizeof(ZenSuperblock))
			memset(&pair->copy[i], 0, sizeof(ZenSuperblock));
	}
	zen_superblock_validate(pair);
}

int
zen_superblock_in_force(const ZenSuperblockPair *pair)
{
	if (pair->valid[0] && pair->valid[1])
		return (pair->copy[1].seq > pair->copy[0].seq) ? 1 : 0;
	return pair->valid[0] ? 0 : pair->valid[1] ? 1 : -1;
}
