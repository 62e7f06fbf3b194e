/*
 * recstate.h -- ZenRecovery: what all processes that recover the pool share, and what the views read.
 */
#ifndef ZEN_RECSTATE_H
#define ZEN_RECSTATE_H

#include "base/compat.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/s_lock.h"

/* NEEDED becomes RUNNING, and RUNNING becomes READY or FAILED; both of these stay until the server restarts. */
typedef enum ZenRecoveryState
{
	ZEN_RECOVERY_NEEDED,
	ZEN_RECOVERY_RUNNING,
	ZEN_RECOVERY_READY,
	ZEN_RECOVERY_FAILED
} ZenRecoveryState;

/* What the leader is doing; recovery.c has the names, and a table of which phase may follow which. */
typedef enum ZenRecoveryPhase
{
	ZEN_DOING_NOTHING,
	ZEN_DOING_DIRECTORIES,
	ZEN_DOING_LOADING,
	ZEN_DOING_COMMITS,
	ZEN_DOING_MAPS,
	ZEN_DOING_LATE,
	ZEN_DOING_SETTLING,
	ZEN_DOING_READY,
	ZEN_DOING_NPHASES
} ZenRecoveryPhase;

/* The passes over the pages, or over the pieces of the saved map, which all participants do together. */
typedef enum ZenRecoveryPass
{
	ZEN_PASS_NONE,
	ZEN_PASS_LOAD,				/* of the saved map; instead of the others */
	ZEN_PASS_COMMITS,			/* which Tx-CTS has each region committed? */
	ZEN_PASS_MAPS,				/* which versions are the newest? */
	ZEN_PASS_LATE				/* the same for large tables */
} ZenRecoveryPass;

/* What recovery knows of a region. */
typedef struct ZenRegionFate
{
	/* the leader sets these before the first pass, raises ts_commit after */
	uint64		ts_commit;		/* R3 */
	uint64		prepared_cts;	/* of a transaction still prepared, or 0 */
	uint64		undone_cts;		/* Tx-CTS of an in-doubt transaction that
								 * pg_xact knows to have failed, or 0 */

	/* first pass, under ZenRecovery.lock */
	uint64		anchor_cts;
	ZenSlot		anchor;
} ZenRegionFate;

/* A piece of the saved map. */
typedef struct ZenMapPiece
{
	uint32		htable;
	uint32		first_leaf;
	uint32		nleaves;
	uint32		crc;
	uint64		offset;			/* in the file */
} ZenMapPiece;

typedef struct ZenRecovery
{
	pg_atomic_uint32 state;		/* ZenRecoveryState */
	pg_atomic_uint32 open;		/* 1: tables that are not late can be read;
								 * set while RUNNING */
	ConditionVariable changed;	/* state, open, work, pages_done or failed */

	/* written by the leader: the process that changed NEEDED to RUNNING */
	int			leader;			/* its process id */
	bool		after_crash;
	ZenRecoveryPhase phase;
	uint32		pages_total;
	uint64		cts_limit;		/* no Tx-CTS is larger than this */
	double		scan_ms;		/* directories and first pass */
	double		map_ms;			/* second pass and what follows */
	double		total_ms;

	ZenMapPiece *pieces;		/* in the arena, while the saved map is loaded */
	uint32		npieces;
	uint64	   *told;			/* in the arena: one bit for each page of
								 * which the map tells that was saved while
								 * the server ran; NULL: there is none */
	Size		told_bytes;

	/* distribution of a pass's pages, or pieces; passes.c */
	pg_atomic_uint64 work;		/* ZenRecoveryPass << 32 | next chunk */
	pg_atomic_uint32 pages_done;	/* of the present pass */
	pg_atomic_uint32 pieces_done;
	pg_atomic_uint32 bad_pieces;	/* that cannot be read */
	pg_atomic_uint32 failed;	/* 1: a participant could not finish its chunk */
	pg_atomic_uint32 processes; /* that have taken a chunk */

	/* added to by all participants */
	pg_atomic_uint64 rows;		/* live rows found */
	pg_atomic_uint64 losers;	/* slots of unfinished transactions scrubbed */
	pg_atomic_uint64 damaged;	/* rows and slots that cannot be read */
	pg_atomic_uint64 repaired;	/* flipped bits set right */
	pg_atomic_uint64 largest_cts;	/* R14; what is no larger than cts_limit */
	pg_atomic_uint32 rebuilt_in_use;	/* a table has been, or will be, while
										 * others may use it; stays set */
	pg_atomic_uint64 index_us;	/* time for rebuilding indexes since */

	slock_t		lock;
	ZenRegionFate fates[ZEN_MAX_REGIONS];
} ZenRecovery;

extern ZenRecovery *zen_recovery;

/* What comments call "the leader": this process recovers the pool now. */
#define ZenAssertRecoveryLeader() \
	Assert(zen_recovery->leader == MyProcPid && \
		   pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_RUNNING)

/* The pass under way. */
static inline ZenRecoveryPass
zen_recovery_pass(void)
{
	return (ZenRecoveryPass) (pg_atomic_read_u64(&zen_recovery->work) >> 32);
}

/* This process is in a chunk of a pass, which cannot end before it has left the chunk, unless recovery has failed. */
#define ZenAssertInPass(condition) \
	Assert((condition) || pg_atomic_read_u32(&zen_recovery->failed))

/* zen_recovery_is_open -- can the table be read already, before the large ones are recovered? */
static inline bool
zen_recovery_is_open(const ZenHTable *ht)
{
	bool		open = pg_atomic_read_u32(&zen_recovery->open) != 0;

	pg_read_barrier();			/* pairs with open_tables() */
	return open && !ht->late;
}

/* Is recovery ended, be it well or not?  A process that waits may have come before the leader. */
static inline bool
zen_recovery_is_over(void)
{
	uint32		state = pg_atomic_read_u32(&zen_recovery->state);

	return state == ZEN_RECOVERY_READY || state == ZEN_RECOVERY_FAILED;
}

/* Raise a shared number to at least value. */
static inline void
zen_recovery_raise(pg_atomic_uint64 *shared, uint64 value)
{
	uint64		now = pg_atomic_read_u64(shared);

	while (now < value && !pg_atomic_compare_exchange_u64(shared, &now, value))
		;
}

#endif							/* ZEN_RECSTATE_H */
