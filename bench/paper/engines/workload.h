/*
 * workload.h -- what transactions do: tables, and a generator per thread.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "engine.h"

#define MAX_REQUESTS	64

typedef struct WorkloadSettings
{
	uint32		rows;			/* of YCSB's table */
	uint32		row_size;		/* bytes */
	uint32		update_bytes;	/* that an update changes */
	uint32		requests;		/* per transaction */
	double		theta;			/* skew: 0 = uniform, below 1 */
	uint32		warehouses;
	double		scale;			/* share of TPC-C's customers, items and stock */
} WorkloadSettings;

extern WorkloadSettings workload_settings;

/* A step of a transaction. */
typedef struct Op
{
	uint32		row;
	bool		write;
	uint32		len;			/* of a write: bytes from the row's version on
								 * that change; 0 = all of the row, which may
								 * be new */
} Op;

/* One thread's state. */
typedef struct Generator
{
	uint64		random;
	int			thread;
	uint32		next_order;		/* of the thread's ring */
	uint32		next_delivery;	/* the oldest order not delivered */
} Generator;

typedef struct Workload
{
	const char *name;
	const char *what;
	void		(*setup) (void);	/* tables[]; settings.max_record */
	int			(*next) (Generator *g, Op *ops);	/* at most MAX_OPS, all
													 * different rows */
} Workload;

extern const Workload workloads[];
extern const int nworkloads;

extern void generator_init(Generator *g, int thread);
extern uint64 random_below(Generator *g, uint64 n);

#endif							/* WORKLOAD_H */
