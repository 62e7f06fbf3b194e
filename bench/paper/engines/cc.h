/*
 * cc.h -- concurrency control: how transactions keep out of each other's way.
 *
 * All methods work in DRAM and never wait: who meets another one starts again.  What a design keeps of them with its
 * rows in NVM is stored there by cc_read() and cc_note_write().
 */
#ifndef CC_H
#define CC_H

#include "history.h"
#include "model.h"

typedef enum Fault
{
	FAULT_NONE,
	FAULT_LOST,					/* now and then a commit is acknowledged that
								 * never was */
	FAULT_TORN,					/* now and then a commit lacks a part */
	FAULT_BLIND					/* nobody is found in the way when a
								 * transaction is validated */
} Fault;

extern Fault fault;
extern bool checking;			/* rows are compared while they are read, too */

/* What concurrency control knows of a row. */
typedef struct CcRow
{
	pg_atomic_uint32 latch;		/* number of readers, or exclusive */
	pg_atomic_uint64 write_ts;	/* of the newest version; under the latch */
	pg_atomic_uint64 read_ts;	/* of its latest reader */
	struct OldVersion *old;		/* chain.h; under the latch */
} CcRow;

extern CcRow *cc_rows;

typedef struct CcTxn
{
	int			thread;
	const Op   *ops;
	int			n;
	uint64		ts;
	uint64		serial;			/* the medium's clock when the transaction
								 * entered the region */
	bool		in_region;		/* cc_htm.c */
	bool		silent;			/* it stores nothing to metadata */
	uint64		seen[MAX_OPS];	/* by validation: write_ts as it was read */
	uint32		version[MAX_OPS];	/* the model's, as it was read */
} CcTxn;

typedef struct CcMethod
{
	const char *name;
	const char *what;
	bool		notes_reads;	/* a reader stores to the row's metadata */
	bool		write_skew;		/* two transactions may each miss what the
								 * other one writes */

	/* Anew for each attempt. */
	void		(*begin) (CcTxn *txn);

	/*
	 * Read; false, and nothing is latched: somebody is in the way.
	 */
	bool		(*execute) (CcTxn *txn);

	/*
	 * On true the rows to write are latched exclusively, and those read are
	 * as they were; on false nothing is latched.
	 */
	bool		(*validate) (CcTxn *txn);

	/* The writes are visible, or there were none. */
	void		(*end) (CcTxn *txn);

	/* The region that validate() has entered ends.  May be NULL. */
	void		(*leave) (CcTxn *txn);
} CcMethod;

extern const CcMethod cc_2pl,
			cc_to,
			cc_occ,
			cc_mvcc,
			cc_mv2pl,
			cc_mvocc,
			cc_si,
			cc_htm;

extern const CcMethod *cc;		/* that of this run */

extern void cc_open(void);
extern void cc_prepare(CcTxn *txn, int thread, const Op *ops, int n);
extern void cc_leave(CcTxn *txn);

/* ---------- what methods have in common ---------- */

extern bool cc_latch(uint32 row, bool exclusive);
extern void cc_unlatch(uint32 row, bool exclusive);

/* Latches on all rows to write, or on none. */
extern bool cc_latch_writes(const CcTxn *txn);
extern void cc_unlatch_writes(const CcTxn *txn);

/* Does a step read?  A write may read its row first. */
extern bool cc_reads(const Op *op);

/* Read a row that is latched. */
extern void cc_read(CcTxn *txn, int op);

/* The row of a step is about to be changed. */
extern void cc_note_write(const CcTxn *txn, int op);

/* What validation has found; a fault makes it blind. */
extern bool cc_valid(bool found);

/* Times that only grow.  cc_now() is the last one given out. */
extern uint64 cc_next_ts(void);
extern uint64 cc_now(void);

#endif							/* CC_H */
