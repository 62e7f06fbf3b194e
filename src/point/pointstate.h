/*
 * pointstate.h -- executor state that outlives an execution, kept by the serial number of a plan.
 */
#ifndef ZEN_POINTSTATE_H
#define ZEN_POINTSTATE_H

#include "base/compat.h"

#include "access/genam.h"
#include "executor/execdesc.h"
#include "point/pointplan.h"
#include "utils/resowner.h"

/* How a value of a scan key is hashed. */
typedef struct ZenPointKey
{
	FmgrInfo   *hash;			/* the type's, extended; the type cache's */
	Oid			collation;
} ZenPointKey;

/*
 * The kept state of one plan.
 *
 * It is what ExecutorStart makes of a private copy of the plan, parked: between executions it holds no relation, no
 * lock, no snapshot and nothing else that belongs to a transaction.
 */
typedef struct ZenPoint
{
	uint32		serial;
	bool		valid;			/* nothing has been invalidated since it was
								 * made */
	MemoryContext context;		/* has all of this, and the executor's state */
	MemoryContext run_context;	/* emptied after each execution */
	QueryDesc  *kept;			/* the private copy: estate, planstate,
								 * tupDesc */
	Oid			user;			/* has the permissions that were checked */
	List	   *functions;		/* OIDs; hooks hear of their use */
	List	   *relations;		/* OIDs whose invalidation makes it invalid */

	ZenPointShape shape;
	Oid			relid;
	Relation	rel;			/* the same address while it is valid; open
								 * during an execution only */
	LOCKMODE	index_lock;
	int			nkeys;			/* 0: keys have no place in the key cache */
	ZenPointKey keys[INDEX_MAX_KEYS];
	IndexScanState *scan;		/* NULL: an INSERT */
	ExecRowMark *mark;			/* NULL: no row lock */
	bool		computes;		/* the list of a SELECT has more than columns */
	ModifyTableState *change;	/* NULL: a SELECT */
	ResultRelInfo *target;		/* of change */
	ProjectionInfo *make_row;	/* the new row of an INSERT or UPDATE */
	TupleTableSlot *new_row;
	bool		has_triggers;
	bool		has_expressions;	/* the table, for constraints, generated
									 * columns or triggers */
	bool		looks_beyond;	/* at other relations: by functions in SQL, by
								 * composite types */
	int			nslots;			/* of the executor's, with descriptors of
								 * their own */

	/* the execution under way; query is NULL if there is none */
	QueryDesc  *query;
	SubTransactionId subxact;	/* in which it began */
	bool		skip_triggers;
	bool		done;			/* there is no further row */
} ZenPoint;

/*
 * zen_pointstate_of -- the state kept for a plan that may be executed with it now; NULL if none may.
 *
 * Makes it at the second execution, under query's snapshot.  Permissions are checked then, and whenever they may have
 * changed.  Throws what ExecutorStart throws.
 */
extern ZenPoint *zen_pointstate_of(uint32 serial, QueryDesc *query);

/* zen_pointstate_running -- the state with which a query is being executed; NULL if it is executed otherwise. */
extern ZenPoint *zen_pointstate_running(const QueryDesc *query);

/* zen_pointstate_begin, zen_pointstate_end -- an execution begins, or has ended in an orderly way. */
extern void zen_pointstate_begin(ZenPoint *point, QueryDesc *query, int eflags);
extern void zen_pointstate_end(ZenPoint *point);

/* Register callbacks.  Once a process, before the first call of the above. */
extern void zen_pointstate_init(void);

#endif							/* ZEN_POINTSTATE_H */
