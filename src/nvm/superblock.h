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

extern uint32 zen_superblock_crc(const ZenSuperblock *sb);

/* zen_first_data_page -- of a pool of so many pages. */
extern uint32 zen_first_data_page(uint64 npages);

/* zen_superblock_validate -- which copies are whole?  With another format version only the first fields are valid. */
extern void zen_superblock_validate(ZenSuperblockPair *pair);

/* zen_superblock_read -- read and validate both copies of a pool file; never fails. */
extern void zen_superblock_read(int fd, ZenSuperblockPair *pair);

/* zen_superblock_in_force -- 0 or 1, or -1 if neither copy is whole. */
extern int	zen_superblock_in_force(const ZenSuperblockPair *pair);

#endif							/* ZEN_SUPERBLOCK_H */
