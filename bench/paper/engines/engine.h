/*
 * engine.h -- what an engine is, and what it may use.
 *
 * An engine stores rows of a few tables in one NVM pool.  Everything above it is the same for all: the runner
 * (run.c) generates transactions, locks rows (two-phase, without waiting), keeps a transaction's writes in DRAM, and
 * hands them over at commit.  So engines differ in what they write to NVM, and when.
 *
 * A row is found by its number, in all engines through an array in DRAM or by arithmetic: indexes are not compared
 * here.
 *
 * Stores, flushes and fences go through src/nvm/persist.c (zen_flush, zen_fence, zen_persist) and medium.h.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include "medium.h"

#include "nvm/persist.h"

#undef printf
#undef fprintf
#undef vfprintf
#undef snprintf
#undef vsnprintf
#undef qsort

#define MAX_THREADS		64
#define MAX_TABLES		10
#define MAX_OPS			512		/* of one transaction: rows read or written */
#define MAX_WRITES		192		/* of these, written */
#define MAX_ROW			4096	/* bytes */

/* ---------- tables and settings: constant once the first thread runs ---------- */

typedef struct Table
{
	const char *name;
	uint32		first;			/* number of its first row */
	uint32		nrows;			/* rows that it can have */
	uint32		size;			/* bytes of a row, a multiple of 8 */
	uint32		min_update;		/* bytes from the version on that each update
								 * changes at least */
	bool		loaded;			/* full at the start, or empty */
	bool		cycles;			/* rows are inserted, updated and deleted in
								 * turn */
} Table;

typedef struct Settings
{
	int			threads;
	double		cache;			/* share of the rows that fits into DRAM */
	Size		log_size;		/* bytes of log per thread */
	Size		max_record;		/* bytes of the largest log record that the
								 * workload can make */
	uint32		group;			/* transactions of a group of write-behind
								 * logging */
	uint32		hot_rows;		/* rows per thread that Falcon tracks as hot */
	bool		log_whole;		/* redo records have the whole row, not the
								 * changed bytes alone */
	uint64		transactions;	/* of a counted run: the one thread does the
								 * background's work, too, when it is asked
								 * for; 0: the run is timed */
} Settings;

extern Settings settings;
extern Table tables[MAX_TABLES];
extern int	ntables;
extern uint32 nrows;			/* of all tables */
extern uint32 max_row_size;		/* bytes, of all tables */

extern const Table *table_of(uint32 row);

/* ---------- writes ---------- */

typedef enum WriteKind
{
	WRITE_UPDATE,				/* bytes [offset, offset + len) change */
	WRITE_INSERT,				/* the row did not exist; data is all of it */
	WRITE_DELETE
} WriteKind;

typedef struct Write
{
	WriteKind	kind;
	uint32		row;
	uint32		offset;
	uint32		len;
	const char *data;
} Write;

/* ---------- engines ---------- */

/* Rows that are flushed although nothing demands it, where caches survive a power loss. */
typedef enum Hints
{
	HINTS_NONE,
	HINTS_COLD,					/* those that the thread has not changed
								 * lately */
	HINTS_ALL
} Hints;

typedef struct Engine
{
	const char *name;

	/*
	 * What tells variants of a design apart.
	 */
	bool		eadr;			/* for caches that survive a power loss:
								 * nothing is flushed that need not be,
								 * whatever --mode says */
	bool		window;			/* in place: the log has room for two records,
								 * and is written again and again */
	bool		flush_log;		/* in place: it is flushed there, too */
	Hints		hints;			/* in place */
	bool		keep_log;		/* mmdb: a checkpoint only when the log is
								 * full */
	bool		in_dram;		/* mmdb: all rows are */

	/*
	 * Bytes of NVM that it wants; the pool begins with a header that is not
	 * its own.
	 */
	Size		(*size) (void);

	/*
	 * Lay out the pool that is mapped, and make the structures in DRAM.
	 * fresh: the pool is new and all zero.
	 */
	void		(*open) (bool fresh);

	/*
	 * Store a row durably, at the start; each thread has rows of its own.
	 * load_end: this thread has no more.
	 */
	void		(*load) (int thread, uint32 row, const char *data);
	void		(*load_end) (int thread);

	/*
	 * Copy a row out; false if there is none.  The caller holds at least a
	 * shared lock on it.
	 */
	bool		(*read) (int thread, uint32 row, char *data);

	/*
	 * The word in NVM where concurrency control notes that it has read or
	 * changed a row, such as the timestamp of a reader; NULL: it is in DRAM,
	 * or there is no row.  It means nothing after a crash, but some designs
	 * make it durable.  The callback is NULL for designs that have all such
	 * metadata in DRAM, or write them together with the row.
	 */
	uint64	   *(*metadata) (uint32 row);
	bool		metadata_durable;

	/*
	 * Commit the writes of a transaction, which are to different rows, all
	 * locked exclusively.  They are visible on return, and durable as soon as
	 * durable() says so.  n is 0 for a transaction that only reads.
	 */
	void		(*commit) (int thread, const Write *writes, int n);

	/*
	 * How many of the thread's commits, of which there were n, are durable
	 * now?  NULL: all.  Called again and again, also while the thread waits
	 * for a lock: what the engine expects of each thread is done here.
	 */
	uint64		(*durable) (int thread, uint64 n);

	/*
	 * The thread commits nothing more; what it has committed becomes durable
	 * when all threads have called this.  May be NULL.
	 */
	void		(*leave) (int thread);

	/*
	 * Background work; runs in a thread of its own and returns soon after
	 * stop_background is set.  May be NULL.
	 */
	void		(*background) (void);

	/*
	 * Let the background thread do what the commits so far have left to it.
	 * May be NULL.
	 */
	void		(*drain) (void);

	/*
	 * After open(false): bring everything to the state of the last durable
	 * commits.  Called by each of settings.threads threads, which may meet at
	 * recovery_barrier().
	 */
	void		(*recover) (int thread);
} Engine;

extern const Engine zen_engine,
			zen_none_engine,
			naive_engine,
			mmdb_engine,
			mmdb_log_engine,
			mmdb_ideal_engine,
			wbl_engine,
			foedus_engine,
			inp_engine,
			inp_none_engine,
			inp_window_engine,
			inp_hot_engine,
			outp_engine,
			falcon_engine,
			falcon_all_engine,
			falcon_none_engine;

/* The one that this process runs. */
extern const Engine *design;

extern pg_atomic_uint32 stop_background;
extern void recovery_barrier(void);

/* Rows [*from, *to) of a table, or of anything else that has n parts, are this thread's share. */
extern void share_of(uint64 n, int thread, uint64 *from, uint64 *to);

/* ---------- tools that several engines use ---------- */

extern char *pool_base;
extern Size pool_size;

/* Lay out: the next size bytes of the pool, beginning on a 4 KB border. */
extern void *pool_carve(Size size);
extern Size pool_carved(Size size); /* what pool_carve takes for them */

/* Numbers that only grow, for ordering commits. */
extern uint64 next_cts(void);
extern void restart_cts(uint64 newest);

pg_noreturn extern void die(const char *fmt,...) pg_attribute_printf(1, 2);

/* The row after a write; old is what was there before. */
extern void apply_write(char *row, const Write *w);

/* cache.c: whole rows in DRAM; a row's caller holds its lock. */
extern void cache_open(void);
extern bool cache_read(uint32 row, char *data);
extern void cache_put(uint32 row, const char *data);
extern void cache_drop(uint32 row);

#endif							/* ENGINE_H */
