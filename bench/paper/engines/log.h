/*
 * log.h -- redo records in NVM, and two ways to keep them: a ring per thread, and halves that a gleaner empties.
 */
#ifndef LOG_H
#define LOG_H

#include "engine.h"

typedef struct LogRecord
{
	uint32		crc;			/* CRC32C of the rest */
	uint32		len;			/* bytes, this header included */
	uint64		tag;			/* ring: number of the record; halves: epoch */
	uint64		cts;
	uint32		nentries;
	uint32		group;			/* of dbx_group.c, else 0 */
} LogRecord;

typedef struct LogEntry
{
	uint32		row;
	uint32		kind;			/* WriteKind */
	uint32		offset;
	uint32		len;			/* bytes of the row that follow, padded to 8 */
} LogEntry;

/* The entry after e. */
static inline const LogEntry *
log_next(const LogEntry *e)
{
	return (const LogEntry *) ((const char *) (e + 1) + TYPEALIGN(8, e->len));
}

/* Bytes of the largest record of a workload. */
extern Size log_max_record(void);

/* An entry as a write; its data lies in the log. */
extern Write log_write_of(const LogEntry *e);

/* log_form -- make a record in the thread's DRAM; what completes it is up to the caller. */
extern LogRecord *log_form(int thread, const Write *writes, int n, bool insert_data);

/* ---------- ring: the last record is what recovery needs ---------- */

extern Size ring_size(Size per_thread);
extern void ring_open(Size per_thread);

typedef void (*RangeFlush) (const void *addr, Size len);

/*
 * ring_append -- write a record and have it flushed; not fenced.  Inserts are logged without their data.
 *
 * The record before is overwritten soon: what it says must be durable before the next record is.
 */
extern void ring_append(int thread, const Write *writes, int n, uint64 cts, RangeFlush flush);

/* ring_last -- after a crash: a thread's last record, or NULL.  Appending goes on behind it. */
extern const LogRecord *ring_last(int thread);

/* ---------- halves: one is written while the other is gleaned ---------- */

typedef struct Gleaned
{
	uint32		row;
	uint64		cts;
	const LogEntry *entry;
} Gleaned;

/*
 * Apply entries, in the order of rows and, within a row, of commits.  Durable after a fence, except for what the callee
 * has fenced itself.  May see entries that were applied before.
 */
typedef void (*GleanApply) (const Gleaned *entries, uint64 n);

extern Size halves_size(void);
extern void halves_open(bool fresh, GleanApply apply);

/*
 * halves_append -- log writes, durable on return.  Gives the epoch; waits when both halves are full.
 *
 * The caller holds the rows, so the order of Tx-CTS and of epochs is that of conflicting transactions.
 */
extern uint64 halves_append(int thread, const Write *writes, int n);

/*
 * For a thread that writes records of others in groups.  halves_capacity: bytes of a thread's half.  halves_put: not
 * fenced; there is room.  A group counts after a crash if halves_newest_group says so, which is to be set before
 * recovery.
 */
extern Size halves_capacity(void);
extern bool halves_have_room(int thread, Size bytes);
extern void halves_put(int thread, LogRecord *r);
extern uint32 halves_newest_group;

/* halves_glean -- apply the current epoch, by the caller. */
extern void halves_glean(void);

/* The newest epoch whose records are applied, durably. */
extern uint64 halves_gleaned(void);

/*
 * Ask the background thread to apply the current epoch.  In a counted run it is applied on return.  The caller is not
 * inside halves_append(), and holds nothing that apply wants.
 */
extern void halves_want_glean(void);

/* The body of the background thread. */
extern void halves_gleaner(void);

/* Wait until the gleaner has done all that was logged so far.  In a counted run, do it. */
extern void halves_drain(void);

/* Apply all that is in the log, by all threads; part gives each row to one of them. */
extern void halves_recover(int thread, uint32 (*part) (uint32 row));

#endif							/* LOG_H */
