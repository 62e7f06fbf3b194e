/*
 * standbystate.h -- reads on a hot standby: may zen tables be read, who reads them, and what redo and readers share.
 *
 * src/standby/README has the rules (S1 to S16).
 */
#ifndef ZEN_STANDBYSTATE_H
#define ZEN_STANDBYSTATE_H

#include "base/startup.h"
#include "miscadmin.h"
#include "nvm/layout.h"
#include "port/atomics.h"
#include "standby/standbyqueue.h"
#include "storage/condition_variable.h"
#include "utils/snapshot.h"

typedef enum ZenStandbyState
{
	ZEN_STANDBY_OFF,			/* no process of zen has come for it yet */
	ZEN_STANDBY_WAITING,		/* the maps are to be made */
	ZEN_STANDBY_SCANNING,		/* ... and are being made; redo stands */
	ZEN_STANDBY_LIVE,			/* tables can be read */
	ZEN_STANDBY_STARVED,		/* DRAM was full; tried again later */
	ZEN_STANDBY_ENDED,			/* promoted */
	ZEN_STANDBY_NSTATES
} ZenStandbyState;

/* What a process has read in recovery, by PGPROC number. */
typedef struct ZenStandbyReader
{
	pg_atomic_uint32 transaction;	/* lxid of the one that reads zen tables,
									 * or of the last that has */
	pg_atomic_uint32 only;		/* S8: lxid of one that reads them by a single
								 * snapshot, which is: */
	TransactionId xmin;
	TransactionId xmax;
} ZenStandbyReader;

/* All but the atomics is under ZEN_LOCK_STANDBY. */
typedef struct ZenStandby
{
	pg_atomic_uint32 state;		/* ZenStandbyState; changed under the lock */
	ConditionVariable changed;	/* state */

	uint64		mark;			/* an earlier start has stored what the WAL
								 * says up to here; constant */

	/* S14: the snapshot taken when the scan began */
	TransactionId since_xmax;
	int32		since_count;

	/*
	 * regions where the scan has found versions of a transaction that it
	 * cannot name, which has spilled them; the region's next decision does
	 */
	bool		unnamed[ZEN_MAX_REGIONS];

	/*
	 * up to which Tx-CTS the scan has found each region to have committed, by
	 * its watermark or by LP
	 */
	uint64		proven[ZEN_MAX_REGIONS];

	ZenDueQueue due;			/* versions that are not settled */

	/* S8 */
	pg_atomic_uint64 seen_by_new;	/* every new snapshot sees xids before
									 * this one as ended */
	pg_atomic_uint64 cut_until; /* versions were cut from behind such of xids
								 * up to this one */
	uint32		snapshot_changes;	/* raised when a reader turns out to have
									 * more than one snapshot */

	/* counters; read without the lock */
	uint64		scans;
	uint64		pushed;			/* versions that redo has made */
	uint64		copied;			/* ... and copied to DRAM */
	uint64		cut;			/* ... and taken from the middle of chains */
	uint64		conflicts;		/* readers ended for room */
	uint64		kept;			/* slots that went while their version was
								 * needed: redo has copied that first */

	ZenStandbyReader readers[FLEXIBLE_ARRAY_MEMBER];
} ZenStandby;

extern ZenStandby *zen_standby;

/* zen_standbystate_shmem -- its part of shared memory; the pool is open. */
extern const ZenShmem zen_standbystate_shmem;

static inline ZenStandbyState
zen_standby_state(void)
{
	ZenStandbyState state = (ZenStandbyState) pg_atomic_read_u32(&zen_standby->state);

	pg_read_barrier();			/* the maps of LIVE: pairs with
								 * zen_standby_become */
	return state;
}

extern const char *zen_standby_state_name(void);

/* zen_standby_become -- all that belongs to the new state is stored.  Under the lock. */
extern void zen_standby_become(ZenStandbyState state);

/*
 * zen_standby_enter -- this transaction is about to read a zen table in recovery: true if it may.
 *
 * From then on it is known as a reader, until it ends.  False: not now; the caller waits, or throws.
 *
 * zen_standby_has_read -- has this transaction done so?
 */
extern bool zen_standby_enter(void);
extern bool zen_standby_has_read(void);

/* zen_standby_count_readers -- transactions that have read zen tables here, and are under way. */
extern uint32 zen_standby_count_readers(void);

/*
 * zen_standby_only_snapshot -- S8: does the process, which has a snapshot, read zen tables by that one only, for as
 * long as its transaction takes?  Then it sees what has ended before *xmin, and nothing from *xmax on.
 */
extern bool zen_standby_only_snapshot(int procno, TransactionId *xmin, TransactionId *xmax);

/*
 * zen_standby_check -- S14, S15: throws 40001 if a snapshot that was taken in recovery cannot read zen tables: it is
 * older than the maps, or they have gone with a promotion.
 */
extern void zen_standby_check(Snapshot snapshot);

/*
 * zen_standby_check_table -- throws 40001 if an MVCC snapshot does not see the transaction that has made the table, or
 * has rewritten it: the table's rows bear its xid, whatever they bore before.
 */
extern void zen_standby_check_table(uint64 create_xid, Snapshot snapshot);

/*
 * zen_standby_end_readers -- end all other transactions that have a snapshot and have read zen tables here; returns
 * when they have ended.  The state is not LIVE any more.
 */
extern void zen_standby_end_readers(void);

#endif							/* ZEN_STANDBYSTATE_H */
