/*
 * mapsave.h -- what a scan of the pool would find, saved at an orderly stop and loaded at the next start.
 *
 * The file zen.map lies beside zen.state in the data directory.  It is believed only at the start that follows the stop
 * that wrote it, and only if the pool's directories are bit for bit what they were; whatever else is the case, the
 * pool is scanned.  src/README, "The saved map", says why a stale one cannot be taken.
 */
#ifndef ZEN_MAPSAVE_H
#define ZEN_MAPSAVE_H

#include "base/compat.h"

typedef struct ZenSavedMap ZenSavedMap;

/*
 * zen_savedmap_save -- write the file, as far as zen.save_map wants it; tells the log how it went.
 *
 * Postmaster or single-user process, when nobody else is left, all watermarks are persistent and the pool is marked clean.  Writes
 * nothing to the pool.  A failure leaves no file, or one that will not be believed.  Never throws.
 */
extern void zen_savedmap_save(void);

/*
 * zen_savedmap_open -- leader, after a clean stop, before anything in the pool's directories is set right: read the file but
 * for the words of the maps.  NULL if it is not to be used; *why says why not.
 */
extern ZenSavedMap *zen_savedmap_open(const char **why);

/*
 * zen_savedmap_begin -- leader, when tables and regions are known: make room for the words, and list the pieces in
 * ZenRecovery.  Returns NULL, or why the file does not fit.  Throws when DRAM is full.
 */
extern const char *zen_savedmap_begin(ZenSavedMap *map);

/* zen_savedmap_load -- read one piece; any participant.  What is wrong with it is counted in ZenRecovery.  Never throws. */
extern void zen_savedmap_load(uint32 piece);

/*
 * zen_savedmap_finish -- leader, after all pieces, when pages are known, too: free slots and the slots of prepared transactions.
 *
 * Returns NULL, or why the pool must be scanned; then all is as before zen_savedmap_begin.  Throws when DRAM is full.
 */
extern const char *zen_savedmap_finish(ZenSavedMap *map);

/* zen_savedmap_remove -- the file has served. */
extern void zen_savedmap_remove(void);

#endif							/* ZEN_MAPSAVE_H */
