/*
 * run.h -- runs a workload on an engine, remembers what was committed, and compares.
 */
#ifndef RUN_H
#define RUN_H

#include "workload.h"

typedef enum Fault
{
	FAULT_NONE,
	FAULT_LOST,					/* now and then a commit is acknowledged that
								 * never was */
	FAULT_TORN					/* now and then a commit lacks a part */
} Fault;

/* What the threads of a run have done, added up. */
typedef struct RunResult
{
	uint64		commits;		/* durable ones */
	uint64		aborts;
	uint64		row_bytes;		/* of rows changed by commits */
	MediumCounters nvm;
	ChargeCounters charged;
	uint64		bytes_stored;
	uint64		persist_lines;	/* by persist.c's own counters */
	uint64		persist_fences;
	double		seconds;
	double		cpu_s;
	double		open_s;			/* of a recovery, without verification */
} RunResult;

extern Fault fault;
extern bool checking;			/* rows are compared while they are read, too */

/* Memory for the model, shared with processes forked later. */
extern void model_create(void);

/*
 * Open a new pool and load it; or recover an old one and, if so told, compare it with the model.  False: they differ.
 */
extern void run_load(const Engine *engine);
extern bool run_recover(const Engine *engine, bool verify, RunResult *result);

/*
 * Run for so long, and until there are some commits, which are counted in *progress, in steps.  A counted run
 * (settings.transactions) has as many transactions as that before the first one that counts.
 */
#define PROGRESS_STEP	64		/* commits of one thread */

extern void run_transactions(const Engine *engine, const Workload *workload, double seconds, uint32 min_progress,
							 RunResult *result, pg_atomic_uint32 *progress);

#endif							/* RUN_H */
