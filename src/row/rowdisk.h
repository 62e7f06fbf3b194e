/*
 * rowdisk.h -- rows of a pool on a disk that are about to be read: the disk is asked for many of them at once.
 */
#ifndef ZEN_ROWDISK_H
#define ZEN_ROWDISK_H

#include "base/compat.h"

#include "cache/tidmap.h"

/*
 * zen_row_disk_block -- rows of a block of TIDs: words are those of the block, wanted has a bit for each row.
 *
 * zen_row_disk_some -- n rows anywhere in a table.
 *
 * Both do nothing if this process has not waited for a disk lately.  Inside an epoch.  They never throw.
 */
extern void zen_row_disk_block(ZenWord *words, uint64 wanted);
extern void zen_row_disk_some(ZenHTable *ht, const uint64 *tidnos, int n);

#endif							/* ZEN_ROWDISK_H */
