/*
 * superblock.c -- what a superblock must be like, and how it is written.
 *
 * Two copies in different 4 KB pages are written in turn, never both at once; a copy counts if its checksum is right,
 * and of two such the one with the larger seq.
 *
 * The postmaster writes at start and stop, when no other process can; the process that makes the pool larger writes in
 * between, under ZEN_LOCK_SUPER (grow.c).  So what a process has in memory may be old: it reads the copy in force again
 * before it writes.
 */
#include "nvm/superblock.h"

#include <unistd.h>

#include "nvm/persist.h"
#include "port/pg_crc32c.h"

const Size	zen_super_offsets[2] = {ZEN_OFF_SUPER, ZEN_OFF_SUPER2};

ZenSuperblock zen_super;
int			zen_super_at;

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

bool
zen_superblock_is_known(const ZenSuperblock *sb)
{
	return sb->magic == ZEN_MAGIC &&
		(sb->version == ZEN_FORMAT_VERSION || sb->version == ZEN_FORMAT_VERSION_GROWN);
}

bool
zen_superblock_geometry_fits(const ZenSuperblock *sb)
{
	uint32		whole = zen_first_data_page(sb->npages);

	if (sb->pool_size % ZEN_PAGE_SIZE != 0 || sb->npages != sb->pool_size / ZEN_PAGE_SIZE ||
		sb->npages > ZEN_MAX_PAGES || sb->npages < sb->first_data_page + ZEN_MIN_DATA_PAGES)
		return false;
	if (sb->version == ZEN_FORMAT_VERSION)
		return sb->first_data_page == whole;
	return sb->first_data_page < whole && sb->first_data_page >= zen_first_data_page(1) &&
		sb->first_data_page % ZEN_DIRECTORY_PAGES == 0;
}

void
zen_superblock_resize(ZenSuperblock *sb, Size size)
{
	sb->pool_size = size;
	sb->npages = size / ZEN_PAGE_SIZE;
	if (sb->first_data_page != zen_first_data_page(sb->npages))
		sb->version = ZEN_FORMAT_VERSION_GROWN;
	Assert(zen_superblock_geometry_fits(sb));
}

void
zen_superblock_validate(ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		ZenSuperblock *sb = &pair->copy[i];

		pair->valid[i] = (zen_superblock_is_known(sb) && sb->crc == zen_superblock_crc(sb));
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

void
zen_superblock_look(const char *base, ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
		memcpy(&pair->copy[i], base + zen_super_offsets[i], sizeof(ZenSuperblock));
	zen_superblock_validate(pair);
}

void
zen_superblock_reload(const char *base)
{
	ZenSuperblockPair pair;
	int			at;

	zen_superblock_look(base, &pair);
	at = zen_superblock_in_force(&pair);
	/* if a wild store has damaged both, the one that was read before stays */
	if (at < 0)
		return;
	zen_super = pair.copy[at];
	zen_super_at = at;
}

/* Store the word of a copy that holds version and CRC, durably. */
static void
seal(ZenSuperblock *copy, uint32 crc)
{
	zen_nvm_store64((uint64 *) &copy->version, zen_super.version | (uint64) crc << 32);
	zen_persist(copy, sizeof(*copy));
}

/* The copy's CRC is 0 meanwhile, so a cut leaves nothing that looks like damage. */
void
zen_superblock_write(char *base)
{
	int			target = 1 - zen_super_at;
	ZenSuperblock *copy = (ZenSuperblock *) (base + zen_super_offsets[target]);

	Assert(zen_super_at == 0 || zen_super_at == 1);
	Assert(zen_superblock_is_known(&zen_super) && zen_super.npages * ZEN_PAGE_SIZE == zen_super.pool_size);

	/*
	 * R10: a process may have been killed before it had flushed the copy that
	 * is believed
	 */
	zen_persist(base + zen_super_offsets[zen_super_at], sizeof(ZenSuperblock));
	zen_super.seq++;
	zen_super.crc = 0;
	seal(copy, 0);
	zen_nvm_copy(copy, &zen_super, sizeof(zen_super));
	zen_persist(copy, sizeof(zen_super));
	zen_super.crc = zen_superblock_crc(&zen_super);
	seal(copy, zen_super.crc);
	Assert(copy->crc == zen_superblock_crc(copy));
	zen_super_at = target;
}
