/*
 * memory.h -- rows in memory that does not survive, behind a redo log and a checkpoint.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "log.h"

/* As in Engine. */
extern Size memory_size(void);
extern void memory_open(bool fresh);
extern void memory_load(int thread, uint32 row, const char *data);
extern void memory_load_end(int thread);
extern bool memory_read(int thread, uint32 row, char *data);
extern uint64 *memory_metadata(uint32 row);
extern void memory_recover(int thread);

/* Make the writes in memory; the log is not written. */
extern void memory_apply(int thread, const Write *writes, int n);

#endif							/* MEMORY_H */
