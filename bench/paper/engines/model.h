/*
 * model.h -- what was committed, in memory that outlives a process, and whether an engine has it.
 */
#ifndef MODEL_H
#define MODEL_H

#include "workload.h"

#define MODEL_PENDING	1024	/* transactions of a thread that may wait for
								 * their acknowledgement */

/* Memory for the model, shared with processes forked later. */
extern void model_create(void);

/* The first version of a row, which the engine is about to load. */
extern void model_load(uint32 row, char *data);

/* The newest version that an engine was given; the caller has a latch on the row. */
extern uint32 model_version(uint32 row);

/* The write that makes the next version of a row; the caller has its exclusive latch. */
extern Write model_next_write(const Op *op, char *data);

/* Remember a transaction before the engine has it. */
extern void model_begin(int thread, const Write *writes, int n);

/* A thread's oldest transaction that was not acknowledged is. */
extern void model_acknowledge(int thread);

/* How many transactions of the thread were begun, and acknowledged? */
extern uint64 model_begun(int thread);
extern uint64 model_acknowledged(int thread);

/* Ends the process if an engine's row is not that version, whole. */
extern void model_expect(uint32 row, uint32 version, bool found, const char *data);

/*
 * After a recovery: compare all rows, each once, in any threads; then say whether they are as they may be.  From then
 * on the model has what was found.
 */
extern void model_compare_begin(void);
extern void model_compare_row(int thread, uint32 row);
extern bool model_compare_end(void);

#endif							/* MODEL_H */
