/*
 * inplace.h -- rows that stay where they are in NVM: inp, falcon and their variants.
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

/*
 * Commit: what is flushed goes by the medium, and by the design's hints.  Where caches survive a power loss the last
 * changes are not fenced: the next record's fence orders them.
 */
extern void inplace_commit(int thread, const Write *writes, int n);

/* Apply the last records of all rings again. */
extern void inplace_recover(int thread);

#endif							/* INPLACE_H */
