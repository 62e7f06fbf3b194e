/*
 * region.h -- writer regions and the Tx-CTS counter.
 *
 * A region is leased to one writer at a time (R11), from its first slot write to the end of its commit or abort;
 * a prepared transaction keeps its region.  Regions know what they have committed (R3), so recovery can tell
 * winners from losers without a log.
 */
#ifndef ZEN_REGION_H
#define ZEN_REGION_H

#include "base/compat.h"
#include "access/xlogdefs.h"
#include "base/startup.h"
#include "miscadmin.h"
#include "nvm/layout.h"
#include "port/atomics.h"
#include "storage/spin.h"

#define ZEN_LEASE_BUSY	1		/* the holder may be at work in the region */
#define ZEN_LEASE_REST	2		/* a large transaction holds it between two
								 * spillings, or a prepared one */

typedef struct ZenRegion
{
	pg_atomic_uint32 leased;	/* 0 free, else ZEN_LEASE_*; taken by
								 * compare-and-swap */
	pg_atomic_uint32 emptied;	/* 1: a page has become empty since the last
								 * look; set by any process, cleared by the
								 * lease holder */

	int			holder;			/* process that has leased it, or been at work
								 * in it after a rest, last */

	uint32		save_no;		/* R21: a page is touched since the region was
								 * last at rest for a save of the map if its
								 * number is the same; lease holder only */

	slock_t		room_lock;		/* lists of pages with room, slotalloc.c */

	/* written by the lease holder only; others may read last_cts */
	uint64		last_cts;		/* newest Tx-CTS whose commit is durable here */
	ZenSlot		anchor;			/* R4: the slot that carries the newest LP */
	uint64		doubt_xid;		/* full xid of an in-doubt transaction whose
								 * descriptor is in NVM */
	uint64		doubt_cts;
	uint32		doubt_kind;		/* ZEN_DOUBT_* */

	/* under ZEN_LOCK_MARK */
	uint64		watermark;		/* what is persistent of last_cts */

	/*
	 * Where stores are lazy.  The lock is held while last_cts, the doubt and
	 * these change, so that the syncer reads what belongs together (W3).
	 */
	slock_t		line_lock;
	XLogRecPtr	commit_end;		/* of the record that committed last_cts */
	XLogRecPtr	doubt_end;		/* of SLOTS, which says the same as the doubt;
								 * 0: it is not in the WAL yet;
								 * ZEN_LONG_FLUSHED */
} ZenRegion;

#define ZEN_FIRST_SAVE		1	/* save_no until the first save of this run */

#define ZEN_LONG_FLUSHED	((XLogRecPtr) 1)	/* before this start */

#define ZEN_NO_REGION	PG_UINT32_MAX

/* What comments call "the lease holder": this process has leased the region, and it is at work there. */
#define ZenAssertRegionMine(r) \
	Assert((r) < ZEN_MAX_REGIONS && zen_regions[r].holder == MyProcPid && \
		   pg_atomic_read_u32(&zen_regions[r].leased) == ZEN_LEASE_BUSY)

/*
 * What comments call "the caller holds the region": this process has leased it, and may have left it alone for a
 * while.
 */
#define ZenAssertRegionHeld(r) \
	Assert((r) < ZEN_MAX_REGIONS && zen_regions[r].holder == MyProcPid && \
		   pg_atomic_read_u32(&zen_regions[r].leased) != 0)

extern ZenRegion *zen_regions;
extern uint32 zen_nregions;		/* regions that writers of this server may
								 * lease */

/* zen_region_shmem -- its part of shared memory. */
extern const ZenShmem zen_region_shmem;

/*
 * zen_region_lease -- lease a free region; there are as many as there can be writers.  Never throws.
 *
 * Where there are several NUMA nodes there are as many for each, and it is one of the node that this process runs on.
 * preferred is tried first, now and later, or the one of the last time if it is ZEN_NO_REGION.
 */
extern uint32 zen_region_lease(uint32 preferred);

/*
 * zen_region_nodes -- nodes that the regions are divided among: one, if all files of the pool are on one node.
 *
 * zen_region_place -- the place of the node to which a region belongs; zen_region_place_here -- of those for this
 * process.
 */
extern int	zen_region_nodes;
extern int	zen_region_place(uint32 region);
extern int	zen_region_place_here(void);

/* zen_region_try_lease -- lease this one, or return false. */
extern bool zen_region_try_lease(uint32 region);
extern void zen_region_release(uint32 region);

/*
 * zen_region_rest -- the holder leaves the region alone for a while, or is at work again.
 *
 * Another process may be at work after the rest: it ends a prepared transaction.
 */
extern void zen_region_rest(uint32 region, bool rest);

/*
 * zen_region_take_over -- a prepared transaction's region is at rest, or recovery finds it: this process is at work
 * there from now on.
 */
extern void zen_region_take_over(uint32 region);

/*
 * Redo on a copy of the pool, where every transaction is in doubt until its region's next one (src/stream/README).
 *
 * zen_region_replay_doubt -- the region's newest transaction: pg_xact decides on it.
 *
 * zen_region_replay_committed -- all up to here has committed: the watermark covers it.
 *
 * zen_region_replay_none -- nothing of any region has committed, and nothing is in doubt.
 *
 * zen_region_replayed -- up to which Tx-CTS it covers all.
 * zen_region_replay_is_committed -- does it cover this Tx-CTS?
 *
 * zen_region_replay_decided -- it covers the descriptor's transaction, which is prepared no longer.  The descriptor
 * stays, by one store.
 *
 * All are durable on return, and need no lease.
 */
extern void zen_region_replay_doubt(uint32 region, uint64 full_xid, uint64 cts, uint32 kind);
extern void zen_region_replay_committed(uint32 region, uint64 cts);
extern void zen_region_replay_none(void);
extern uint64 zen_region_replayed(uint32 region);
extern bool zen_region_replay_is_committed(uint32 region, uint64 cts);
extern void zen_region_replay_decided(uint32 region);

/* zen_cts_next -- a fresh Tx-CTS; the caller holds a region.  Never throws. */
extern uint64 zen_cts_next(void);

/* zen_cts_now -- the newest Tx-CTS handed out. */
extern uint64 zen_cts_now(void);

/*
 * zen_cts_limit -- no Tx-CTS in NVM is larger, by R14, even if one of the mark's records is damaged.  Before
 * zen_cts_restart().
 */
extern uint64 zen_cts_limit(void);

/* zen_cts_restart -- at recovery: start above this one and above the persistent mark (R14). */
extern void zen_cts_restart(uint64 largest_seen);

/*
 * zen_region_persist_watermark -- R13: make last_cts evidence of its own; durable on return.
 *
 * For any region: also of others, at recovery, and when pages of a dropped table go.
 */
extern void zen_region_persist_watermark(uint32 region);

/*
 * Where stores are lazy, watermark and descriptor stay in DRAM, and the syncer alone stores them (W3).  Then no call
 * that changes them makes anything durable.
 *
 * zen_region_doubt_set -- write the in-doubt descriptor; durable on return.  Lazily: before SLOTS is in the WAL.
 * zen_region_doubt_logged -- lazily: SLOTS is in the WAL, and ends here.
 * zen_region_doubt_clear -- remove it; durable on return.
 * zen_region_doubt_read -- read it from NVM; ZEN_DOUBT_NONE if there is none, or if it is torn or damaged beyond
 * repair.
 */
extern void zen_region_doubt_set(uint32 region, uint64 full_xid, uint64 cts, uint32 kind);
extern void zen_region_doubt_logged(uint32 region, XLogRecPtr end);
extern void zen_region_doubt_clear(uint32 region);

/*
 * zen_region_doubt_committed -- the transaction in doubt, with this Tx-CTS, has committed, by a record that ends there:
 * raise last_cts and the watermark, and remove the descriptor, both durable on return.
 */
extern void zen_region_doubt_committed(uint32 region, uint64 cts, XLogRecPtr commit_end);

/*
 * zen_region_store_lines -- the syncer: store the watermarks and descriptors of all regions.  flush: is called before
 * the first store, with the end of the last record that any of them depends on.
 *
 * A descriptor whose transaction the watermark covers stays, as in redo: a backup tool may copy the line in between.
 * last: at a stop, it goes.
 */
extern void zen_region_store_lines(void (*flush) (XLogRecPtr upto), bool last);
extern uint32 zen_region_doubt_read(uint32 region, uint64 *full_xid, uint64 *cts);

/* zen_region_doubt_written -- does NVM hold anything in the descriptor's place, be it damaged? */
extern bool zen_region_doubt_written(uint32 region);

/*
 * zen_region_committed -- at recovery: what the watermark says, but not more than limit.
 *
 * Of a record in which one bit has flipped, the larger of its two halves counts.  If the record is torn and not
 * damaged, that is the value that was being written.  It is as true: it was the Tx-CTS of a durable commit.
 */
extern uint64 zen_region_committed(uint32 region, uint64 limit);

/*
 * zen_region_fault -- what is wrong with a region; NULL if nothing is, or if that cannot be told because it is at work.
 * zen_region_copy_fault -- the same by NVM alone; for a copy in recovery.
 *
 * zen_region_is_committed -- R3: has the region committed cts?  True also while it is leased, when that cannot be told.
 */
extern const char *zen_region_fault(uint32 region);
extern const char *zen_region_copy_fault(uint32 region);
extern bool zen_region_is_committed(uint32 region, uint64 cts);

/* zen_cts_is_known -- R14: is cts covered by the persistent mark? */
extern bool zen_cts_is_known(uint64 cts);

#endif							/* ZEN_REGION_H */
