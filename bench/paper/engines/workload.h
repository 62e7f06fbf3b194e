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
	bool		read;			/* a write reads the row first */
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
	uint32		inserted;		/* YCSB: rows */
} Generator;

typedef struct Workload
{
	const char *name;
	const char *what;
	void		(*setup) (void);	/* tables[]; settings.max_record */


	/*
	 * At most MAX_OPS; a row that is written is in no other of them.
	 */
	int			(*next) (Generator *g, Op *ops);
} Workload;

extern const Workload workloads[];
extern const int nworkloads;

extern void generator_init(Generator *g, int thread);
extern uint64 random_below(Generator *g, uint64 n);

/* Zipf's law over n things, uniform if theta is 0: by rank, the most frequent first, or with these spread. */
extern void zipf_setup(uint64 n, double theta);
extern uint32 zipf_rank(Generator *g, uint64 n, double theta);
extern uint32 zipf_row(Generator *g, uint64 n, double theta);

extern Table *add_table(const char *name, uint32 n, uint32 size, uint32 min_update, bool loaded);

/* The most bytes that a transaction can log: changed ones, or those of whole rows. */
extern void set_max_record(uint32 writes, uint32 changed, uint32 whole);

/* Steps about a table's n-th row. */
extern Op	read_of(int table, uint32 n);
extern Op	write_of(int table, uint32 n, uint32 len);

/* ycsb.c */
extern void ycsb_setup(void);
extern void ycsb_insert_setup(void);
extern void churn_setup(void);
extern int	ycsb_ro(Generator *g, Op *ops);
extern int	ycsb_rh(Generator *g, Op *ops);
extern int	ycsb_ba(Generator *g, Op *ops);
extern int	ycsb_wh(Generator *g, Op *ops);
extern int	ycsb_up(Generator *g, Op *ops);
extern int	ycsb_b(Generator *g, Op *ops);
extern int	ycsb_d(Generator *g, Op *ops);
extern int	ycsb_e(Generator *g, Op *ops);
extern int	ycsb_f(Generator *g, Op *ops);

/* tpcc.c */
extern void tpcc_setup(void);
extern int	tpcc(Generator *g, Op *ops);
extern int	tpcc_writes(Generator *g, Op *ops);
extern int	new_order(Generator *g, Op *ops);
extern int	payment(Generator *g, Op *ops);

/* smallbank.c */
extern void smallbank_setup(void);
extern int	smallbank(Generator *g, Op *ops);

#endif							/* WORKLOAD_H */
