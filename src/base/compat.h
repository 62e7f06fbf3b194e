/*
 * compat.h -- every difference between PostgreSQL versions, and nothing else.
 *
 * The rest of zen is written against the newest server's names.  This is the only file that may
 * test PG_VERSION_NUM (tools/check-includes proves it).
 */
#ifndef ZEN_COMPAT_H
#define ZEN_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "zen needs PostgreSQL 15 or newer"
#endif

/* 16 renamed relfilenodes to relfilenumbers and RelFileNode to RelFileLocator. */
#if PG_VERSION_NUM < 160000
#include "storage/relfilenode.h"
typedef RelFileNode RelFileLocator;
typedef Oid RelFileNumber;

#define ZEN_LOCATOR_SPC(loc)		((loc).spcNode)
#define ZEN_LOCATOR_DB(loc)			((loc).dbNode)
#define ZEN_LOCATOR_NUMBER(loc)		((loc).relNode)
#define zen_rel_locator(rel)		((rel)->rd_node)
#define InvalidRelFileNumber		InvalidOid
#define ZEN_INDEX_ATTR_ALL			INDEX_ATTR_BITMAP_ALL
#define ZEN_HAS_NEWPAGE_UPDATE_COUNT 0
#define ZEN_NEW_LOCATOR_SUBID(rel)	((rel)->rd_newRelfilenodeSubid)
#define ZEN_AM_SET_NEW_FILELOCATOR	relation_set_new_filenode
#define RelationSetNewRelfilenumber(rel, persistence) RelationSetNewRelfilenode(rel, persistence)
#define RelidByRelfilenumber(spc, num)	RelidByRelfilenode(spc, num)
#else
#include "storage/relfilelocator.h"

#define ZEN_LOCATOR_SPC(loc)		((loc).spcOid)
#define ZEN_LOCATOR_DB(loc)			((loc).dbOid)
#define ZEN_LOCATOR_NUMBER(loc)		((loc).relNumber)
#define zen_rel_locator(rel)		((rel)->rd_locator)
#define ZEN_INDEX_ATTR_ALL			INDEX_ATTR_BITMAP_HOT_BLOCKING
#define ZEN_HAS_NEWPAGE_UPDATE_COUNT 1
#define ZEN_NEW_LOCATOR_SUBID(rel)	((rel)->rd_newRelfilelocatorSubid)
#define ZEN_AM_SET_NEW_FILELOCATOR	relation_set_new_filelocator
#endif

/* The fast-path locks of a process: 18 made their number a setting. */
#define ZEN_FAST_PATH_SLOTS			FP_LOCK_SLOTS_PER_BACKEND
/* bit (mode - 1) is set for each weak lock mode held in slot i */
#define zen_fast_path_modes(proc, i)	((uint32) ((proc)->fpLockBits >> (3 * (i))) & 7)

#endif							/* ZEN_COMPAT_H */
