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

ZenSuperblock zen_supers[ZEN_MAX_FILES];
int			zen_supers_at[ZEN_MAX_FILES];

/* As far as the version has it. */
static Size
bytes_of(const ZenSuperblock *sb)
{
	return sb->version >= ZEN_FORMAT_VERSION_FILES ? sizeof(*sb) : ZEN_SUPERBLOCK_OLD_BYTES;
}

uint32
zen_superblock_crc(const ZenSuperblock *sb)
{
	ZenSuperblock copy = *sb;
	pg_crc32c	crc;

	copy.crc = 0;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &copy, bytes_of(sb));
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
		sb->version >= ZEN_FORMAT_VERSION && sb->version <= ZEN_FORMAT_VERSION_FILES;
}

bool
zen_superblock_geometry_fits(const ZenSuperblock *sb)
{
	uint32		whole = zen_first_data_page(sb->npages);

	if (sb->pool_size % ZEN_PAGE_SIZE != 0 || sb->npages != sb->pool_size / ZEN_PAGE_SIZE ||
		sb->npages > ZEN_MAX_PAGES || sb->npages < sb->first_data_page + ZEN_MIN_DATA_PAGES)
		return false;
	if (sb->version == ZEN_FORMAT_VERSION_FILES &&
		(sb->file >= ZEN_MAX_FILES || sb->nfiles > ZEN_MAX_FILES || (sb->nfiles == 0) != (sb->file != 0) ||
		 (sb->first_page == 0) != (sb->file == 0) || sb->first_page % ZEN_DIRECTORY_PAGES != 0 ||
		 sb->first_page > ZEN_MAX_PAGES - sb->npages))
		return false;
	if (sb->version == ZEN_FORMAT_VERSION)
		return sb->first_data_page == whole;
	return (sb->first_data_page < whole ||
			(sb->version == ZEN_FORMAT_VERSION_FILES && sb->first_data_page == whole)) &&
		sb->first_data_page >= zen_first_data_page(1) &&
		sb->first_data_page % ZEN_DIRECTORY_PAGES == 0;
}

void
zen_superblock_resize(ZenSuperblock *sb, Size size)
{
	sb->pool_size = size;
	sb->npages = size / ZEN_PAGE_SIZE;
	if (sb->version == ZEN_FORMAT_VERSION && sb->first_data_page != zen_first_data_page(sb->npages))
		sb->version = ZEN_FORMAT_VERSION_GROWN;
	Assert(zen_superblock_geometry_fits(sb));
}

void
zen_superblock_has_files(ZenSuperblock *sb, uint32 file, int32 node)
{
	sb->version = ZEN_FORMAT_VERSION_FILES;
	sb->file = file;
	if (file == 0)
		sb->nfiles = Max(sb->nfiles, 1);
	sb->node = node;
}

void
zen_superblock_validate(ZenSuperblockPair *pair)
{
	for (int i = 0; i < 2; i++)
	{
		ZenSuperblock *sb = &pair->copy[i];

		pair->valid[i] = (zen_superblock_is_known(sb) && sb->crc == zen_superblock_crc(sb));
		/* no CRC covers them */
		if (sb->version < ZEN_FORMAT_VERSION_FILES)
			memset((char *) sb + ZEN_SUPERBLOCK_OLD_BYTES, 0, sizeof(*sb) - ZEN_SUPERBLOCK_OLD_BYTES);
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
zen_superblock_reload(int file, const char *base)
{
	ZenSuperblockPair pair;
	int			at;

	zen_superblock_look(base, &pair);
	at = zen_superblock_in_force(&pair);
	/* if a wild store has damaged both, the one that was read before stays */
	if (at < 0)
		return;
	zen_supers[file] = pair.copy[at];
	zen_supers_at[file] = at;
}

/* Store the word of a copy that holds version and CRC, durably. */
static void
seal(ZenSuperblock *copy, uint32 version, uint32 crc)
{
	zen_nvm_store64((uint64 *) &copy->version, version | (uint64) crc << 32);
	zen_persist(copy, sizeof(*copy));
}

/*
 * The copy's CRC is 0 while the rest is written, so a write that a crash cuts short leaves nothing that looks like
 * damage.  The copy in force may be in the caches only, after a crash of processes: it is durable before the other one
 * goes (R10).
 */
void
zen_superblock_write(int file, char *base)
{
	ZenSuperblock *sb = &zen_supers[file];
	int			target = 1 - zen_supers_at[file];
	ZenSuperblock *copy = (ZenSuperblock *) (base + zen_super_offsets[target]);

	zen_persist(base + zen_super_offsets[1 - target], sizeof(*sb));
	Assert(target == 0 || target == 1);
	Assert(zen_superblock_is_known(sb) && sb->npages * ZEN_PAGE_SIZE == sb->pool_size);
	sb->seq++;
	sb->crc = 0;
	seal(copy, sb->version, 0);
	zen_nvm_copy(copy, sb, sizeof(*sb));
	zen_persist(copy, sizeof(*sb));
	sb->crc = zen_superblock_crc(sb);
	seal(copy, sb->version, sb->crc);
	Assert(copy->crc == zen_superblock_crc(copy));
	zen_supers_at[file] = target;
}
