/*
 * keptmap.h -- recovery at a promotion, with the maps that the hot standby had (S18).
 *
 * To the passes it is the same as a map that was saved while the server ran: ZenRecovery.told says which pages they
 * need not read.
 */
#ifndef ZEN_KEPTMAP_H
#define ZEN_KEPTMAP_H

#include "standby/standbykeep.h"

/*
 * zen_keptmap_begin -- leader, when tables are known and regions have been read: maps of tables that are not there go,
 * and regions have committed what the standby has found that they have.
 *
 * zen_keptmap_take -- leader, when pages are known: words lead to pages that are told of, whose other slots are free.
 * False: something is damaged, or the words do not fit the pages; nothing is left, and all pages must be read.
 *
 * zen_runmap_close() frees the rest.
 */
extern void zen_keptmap_begin(ZenKeptMaps *kept);
extern bool zen_keptmap_take(ZenKeptMaps *kept);

#endif							/* ZEN_KEPTMAP_H */
