/*
 * mapload.h -- the map saved at the last orderly stop, loaded instead of a scan of the pool.
 */
#ifndef ZEN_MAPLOAD_H
#define ZEN_MAPLOAD_H

#include "recovery/savedmap.h"

/*
 * zen_mapload_open -- leader, after a clean stop, before anything in the pool's directories is set right: read the
 * file but for the words of the maps.  NULL if it is not to be used; *why says why not.
 */
extern ZenSavedMap *zen_mapload_open(const char **why);

/*
 * zen_mapload_begin -- leader, when tables and regions are known: make room for the words, and list the pieces in
 * ZenRecovery.  Returns NULL, or why the file does not fit.  Throws when DRAM is full.
 */
extern const char *zen_mapload_begin(ZenSavedMap *map);

/* zen_mapload_piece -- read one piece; any participant.  A fault in it is counted in ZenRecovery.  Never throws. */
extern void zen_mapload_piece(uint32 piece);

/*
 * zen_mapload_finish -- leader, after all pieces, when pages are known, too: free slots and the slots of prepared
 * transactions.
 *
 * Returns NULL, or why the pool must be scanned; then all is as before zen_mapload_begin.  Throws when DRAM is full.
 */
extern const char *zen_mapload_finish(ZenSavedMap *map);

/* zen_mapload_remove -- the file has served. */
extern void zen_mapload_remove(void);

#endif							/* ZEN_MAPLOAD_H */
