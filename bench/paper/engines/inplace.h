/*
 * inplace.h -- rows that stay where they are in NVM: what inp and falcon have in common.
 */
#ifndef INPLACE_H
#define INPLACE_H

#include "log.h"

typedef struct RowHeader
{
	uint64		cts;			/* of the last write */
	uint64		present;
} RowHeader;

extern Size inplace_size(void);
extern void inplace_open(bool fresh);
extern void inplace_load(int thread, uint32 row, const char *data);
extern void inplace_load_end(int thread);
extern bool inplace_read(int thread, uint32 row, char *data);

/* New rows are written, durably, before the commit makes them present. */
extern void inplace_write_inserts(const Write *writes, int n);

/* Apply a write of a transaction that is in the log; flush is called for each range changed. */
extern void inplace_apply(const Write *w, uint64 cts, void (*flush) (const void *addr, Size len));

/* Commit with the log flushed, and then the rows. */
extern void inplace_commit_flushed(int thread, const Write *writes, int n);

/* Apply the last records of all rings again. */
extern void inplace_recover(int thread);

#endif							/* INPLACE_H */
