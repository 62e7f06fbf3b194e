/*
 * superblock.h -- the two copies of the superblock, and which of them can be believed.
 */
#ifndef ZEN_SUPERBLOCK_H
#define ZEN_SUPERBLOCK_H

#include "nvm/layout.h"

/* Both copies as read. */
typedef struct ZenSuperblockPair
{
	ZenSuperblock copy[2];
	bool		valid[2];
} ZenSuperblockPair;

extern const Size zen_super_offsets[2];

/* The superblock in force, and which copy holds it, as this process has read or written it last. */
extern ZenSuperblock zen_supers[ZEN_MAX_FILES]; /* by file */
extern int	zen_supers_at[ZEN_MAX_FILES];

/* Those of file 0, which speaks for the pool. */
#define zen_super		(zen_supers[0])
#define zen_super_at	(zen_supers_at[0])

extern uint32 zen_superblock_crc(const ZenSuperblock *sb);

/* zen_first_data_page -- of a pool of so many pages. */
extern uint32 zen_first_data_page(uint64 npages);

/* zen_superblock_is_known -- do magic number and format version say that this zen can read the superblock? */
extern bool zen_superblock_is_known(const ZenSuperblock *sb);

/* zen_superblock_geometry_fits -- do size, number of pages and place of the first data page agree? */
extern bool zen_superblock_geometry_fits(const ZenSuperblock *sb);

/* zen_superblock_resize -- make the superblock that of a larger pool.  In memory only. */
extern void zen_superblock_resize(ZenSuperblock *sb, Size size);

/* zen_superblock_validate -- which copies are whole?  With another format version only the first fields are valid. */
extern void zen_superblock_validate(ZenSuperblockPair *pair);

/* zen_superblock_read -- read and validate both copies of a pool file; never fails. */
extern void zen_superblock_read(int fd, ZenSuperblockPair *pair);

/* zen_superblock_in_force -- 0 or 1, or -1 if neither copy is whole. */
extern int	zen_superblock_in_force(const ZenSuperblockPair *pair);

/* zen_superblock_look -- both copies as the mapped pool shows them.  No process writes them during the call. */
extern void zen_superblock_look(const char *base, ZenSuperblockPair *pair);

/* zen_superblock_has_files -- make the superblock that of a pool of several files.  In memory only. */
extern void zen_superblock_has_files(ZenSuperblock *sb, uint32 file, int32 node);

/*
 * zen_superblock_reload -- read a file's superblock in force again, from the mapped file.  No process writes it during
 * the call.
 */
extern void zen_superblock_reload(int file, const char *base);

/*
 * zen_superblock_write -- write zen_supers[file] as the next version into the copy that is not in force; durable and in
 * force on return.
 *
 * The postmaster at start and stop, or under ZEN_LOCK_SUPER, exclusively, after zen_superblock_reload().
 */
extern void zen_superblock_write(int file, char *base);

#endif							/* ZEN_SUPERBLOCK_H */
