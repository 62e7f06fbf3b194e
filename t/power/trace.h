/*
 * trace.h -- what medium.c records and cut.c reads.
 *
 * A run leaves a directory with two files: control, words that the processes of the server and the driver of
 * the test share, and log, one record after the other in the one order in which everything happened.
 */
#ifndef ZEN_TRACE_H
#define ZEN_TRACE_H

#include <stdint.h>

#define LINE		64			/* bytes of a cache line */
#define WORD		8			/* bytes that the medium takes as one */
#define MAX_POOLS	8
#define MAX_PIDS	8192

/* Words of the control file; t/lib/PowerMedium.pm has the same list. */
enum
{
	W_WANT,						/* WANT_*; written by the driver */
	W_CUT_AT,					/* crash point of WANT_CUT; by the driver */
	W_FENCES,					/* fences and syncs of pools so far */
	W_SYNCS,					/* flushes of WAL and pg_control so far */
	W_STORES,					/* stores so far */
	W_LOG_USED,					/* bytes of the log that are complete */
	W_CUT,						/* not 0: the power is off, nothing moves any more */
	W_PIDS,						/* processes that have ever been, pids[] */
	W_POOLS,					/* pools that have ever been mapped, pools[] */
	W_ACKED,					/* not used here: statements that clients were
								 * told the end of */
	W_RESET,					/* by the driver: count fences, syncs and stores
								 * anew */
	W_HOLD,						/* HOLD_*; by the driver */
	W_HOLD_PID,					/* the process to be held */
	W_HOLD_AFTER,				/* so many of these places are passed before */
	W_HELD,						/* 1: it is held, until W_HOLD is another one */
	W_FLUSHED,					/* not used here: of the statements of W_ACKED
								 * those that cannot be lost */
	N_WORDS
};

/* Where a process can be held: before it does this. */
enum
{
	HOLD_NOTHING,
	HOLD_STORE,					/* to a pool */
	HOLD_WAL_WRITE,
	HOLD_WAL_SYNC,
	HOLD_POOL_SYNC,
	HOLD_NOTIFY,				/* writes to pg_notify */
	HOLD_SETTINGS				/* reads postgresql.conf */
};

#define CUT_BY_DEATH	2		/* of W_CUT: a process died in here */

enum
{
	WANT_NOTHING,
	WANT_PHOTO,					/* at each crash point let the driver copy files */
	WANT_CUT					/* cut at crash point W_CUT_AT */
};

/* A crash point is the instant before a fence, a sync of a pool, or a flush of WAL or pg_control takes effect. */
typedef enum RecordType
{
	R_PROCESS = 1,				/* a process begins: nothing is pending in it */
	R_STORE,					/* payload: the bytes stored */
	R_FILL,						/* payload: one byte, repeated len times */
	R_FLUSH,
	R_FENCE,
	R_WAL_WRITE,				/* payload: file name (32 bytes), then the
								 * bytes that were there before */
	R_WAL_SYNC,					/* payload: file name (32 bytes) */
	R_LINE,						/* payload: a line that is in the caches since
								 * before the record began */
	R_SYNC						/* of a range of a pool's file */
} RecordType;

#define NAME_BYTES	32

typedef struct Record
{
	uint32_t	size;			/* of record and payload, multiple of 8 */
	uint16_t	type;
	uint16_t	pool;			/* number of the pool, in order of first mapping */
	int32_t		pid;
	uint32_t	payload;		/* bytes */
	uint64_t	offset;			/* in the pool, or in the WAL file */
	uint64_t	len;
} Record;

#endif							/* ZEN_TRACE_H */
