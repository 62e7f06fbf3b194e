/*
 * passes.h -- what those who recover share; the two passes over a page, and what becomes of damaged slots.
 *
 * zen_passes_commits and zen_passes_maps are called once for each owned page, by any participant; between them lies
 * a barrier.  What they have flushed is durable after the caller's next fence.
 */
#ifndef ZEN_PASSES_H
#define ZEN_PASSES_H

#include "base/compat.h"
#include "nvm/htable.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/s_lock.h"

typedef enum ZenRecoveryState
{
	ZEN_RECOVERY_NEEDED,
	ZEN_RECOVERY_RUNNING,
	ZEN_RECOVERY_READY,
	ZEN_RECOVERY_FAILED
} ZenRecoveryState;

/* The passes over the pages, or over the pieces of the saved map, which all participants do together. */
typedef enum ZenRecoveryPass
{
	ZEN_PASS_NONE,
	ZEN_PASS_LOAD,				/* of the saved map; instead of the others */
	ZEN_PASS_COMMITS,			/* what has each region committed? */
	ZEN_PASS_MAPS,				/* which versions are the newest? */
	ZEN_PASS_LATE				/* the same for large tables */
} ZenRecoveryPass;

/* What recovery knows of a region. */
typedef struct ZenRegionFate
{
	/*
	 * set by the leader before the first pass; ts_commit raised by it after
	 * it
	 */
	uint64		ts_commit;		/* R3 */
	uint64		prepared_cts;	/* Tx-CTS of a transaction still prepared, or
								 * 0 */
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

/* Shared by all who recover, and read by the view. */
typedef struct ZenRecovery
{
	pg_atomic_uint32 state;		/* ZenRecoveryState */
	pg_atomic_uint32 open;		/* 1: tables that are not late can be read;
								 * set while RUNNING */
	ConditionVariable changed;	/* state, open, work, pages_done or failed */

	/* written by the leader: who has changed state from NEEDED to RUNNING */
	bool		after_crash;
	const char *phase;			/* what is being done */
	uint32		pages_total;
	uint64		cts_limit;		/* no Tx-CTS is larger than this */
	double		scan_ms;		/* directories and first pass */
	double		map_ms;			/* second pass and what follows */
	double		total_ms;

	ZenMapPiece *pieces;		/* in the arena, while the saved map is loaded */
	uint32		npieces;

	/* distribution of a pass's pages, or pieces */
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

/* zen_passes_count_damaged -- count something damaged; true if it is to be named in the log, as the first ones are. */
extern bool zen_passes_count_damaged(void);

/* First pass: raise the anchor of the page's region.  Flushes every header line after a crash (R10).  Never throws. */
extern void zen_passes_commits(uint32 pageno);

/*
 * zen_passes_is_open -- can the table be read already, before the others are recovered?
 */
static inline bool
zen_passes_is_open(const ZenHTable *ht)
{
	return pg_atomic_read_u32(&zen_recovery->open) != 0 && !ht->late;
}

/* Second pass: losers are scrubbed, committed versions enter the maps.  Throws when DRAM is full. */
extern void zen_passes_maps(uint32 pageno);

/*
 * After the second pass, leader only: what is to be done with the damaged slots of a page that has some.  Throws when DRAM is
 * full.
 */
extern void zen_passes_damaged(uint32 pageno);

/*
 * The same for a page whose directory word is damaged: each whole version on it that would be its row's newest makes the row
 * an error to read, so that no older one takes its place.
 */
extern void zen_passes_lost(uint32 pageno);

#endif							/* ZEN_PASSES_H */
