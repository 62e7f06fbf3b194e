/*
 * standbyrows.h -- a hot standby: redo keeps maps and row versions, for readers beside it.
 *
 * The startup process calls these around what it stores to the pool.  Outside of a record, or if tables are not read
 * here, they do nothing.  src/standby/README says why readers see what they should.
 */
#ifndef ZEN_STANDBYROWS_H
#define ZEN_STANDBYROWS_H

#include "nvm/tuple.h"

/*
 * zen_standby_begin -- a record of zen is about to be replayed.  From here on to zen_standby_end no other process
 * changes maps.  Waits for a scan, or for a step of the worker.
 *
 * zen_standby_follows -- does this process keep maps, in this record?
 */
extern void zen_standby_begin(void);
extern void zen_standby_end(void);
extern bool zen_standby_follows(void);

/*
 * zen_standby_leaves -- the slot is about to lose what it has: to the version with the header next, of the
 * transaction full_xid, or to nothing (NULL).  No row leads there any more on return, unless it is the same version
 * again.
 *
 * zen_standby_await_readers -- S2: return when no reader can be at what rows have led to.  Before the first store.
 *
 * zen_standby_stored -- a version of full_xid, which has not ended, is in the slot now.
 */
extern void zen_standby_leaves(ZenSlot slot, uint64 full_xid, const ZenTupleHeader *next);
extern void zen_standby_await_readers(void);
extern void zen_standby_stored(ZenSlot slot, uint64 full_xid);

/*
 * zen_standby_decides -- the region's transaction is full_xid, and all that it has written there beyond the Tx-CTS
 * `committed` depends on it.  Before the record's versions are stored.
 */
extern void zen_standby_decides(uint32 region, uint64 committed, uint64 full_xid);

/*
 * zen_standby_page_leaves -- zen_standby_leaves() for all slots of a page that becomes zero, and the wait for
 * readers.
 *
 * zen_standby_page_changed -- the page's word in its directory was stored.
 *
 * zen_standby_bytes_changed -- bytes outside of pages were stored, among them perhaps words or entries of directories.
 */
extern void zen_standby_page_leaves(uint32 pageno);
extern void zen_standby_page_changed(uint32 pageno);
extern void zen_standby_bytes_changed(uint64 offset, Size len);

/*
 * zen_standby_anew -- what comes cannot be told row by row: readers are ended, and the maps are made anew.  Before
 * the first store.
 */
extern void zen_standby_anew(const char *why);

/* zen_standby_forgets -- S6: pg_xact is not to be asked of xids before this one any more. */
extern void zen_standby_forgets(uint64 oldest);

/*
 * zen_standby_drop -- maps, tables and pages have no DRAM half any more.  No reader is left, and the lock is held.
 *
 * zen_standby_push_found -- a scan has found a version of full_xid: it is the newest of its row if its Tx-CTS says
 * so, as a transaction may have spilled a row more than once.  False: DRAM is full, or a slot is damaged.
 */
extern void zen_standby_drop(void);
extern bool zen_standby_push_found(ZenSlot slot, uint64 full_xid);

/* zen_standby_owner -- the table of a row version, by its header; NULL: of none that there is. */
struct ZenHTable;
extern struct ZenHTable *zen_standby_owner(ZenTupleHeader h);

#endif							/* ZEN_STANDBYROWS_H */
