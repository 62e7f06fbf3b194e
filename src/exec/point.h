/*
 * point.h -- the kept state of one plan, and what the point* modules do with plans and states.
 */
#ifndef ZEN_POINT_H
#define ZEN_POINT_H

#include "base/compat.h"

#include "access/genam.h"
#include "exec/keyprobe.h"
#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

/* How a plan is executed with kept state. */
typedef enum ZenPointKind
{
	ZEN_POINT_NONE,
	ZEN_POINT_ROW,				/* rows by their keys, by one function
								 * (ZenPointShape) */
	ZEN_POINT_PLAN,				/* any rows, by the executor's own nodes */
} ZenPointKind;

/* The plan below the node, by its parts; those that it does not have are NULL. */
typedef struct ZenPointShape
{
	IndexScan  *scan;			/* of the one table; NULL: an INSERT */
	LockRows   *lock;			/* SELECT ... FOR UPDATE and the like */
	ModifyTable *change;
	Index		rti;			/* of the table */
} ZenPointShape;

/* The values that a key column is to equal: WHERE id = ANY (array). */
typedef struct ZenPointList
{
	int			nkey;			/* of the scan keys; -1: none is a list */
	bool		reverse;		/* the scan meets greater values first */
	FmgrInfo	compare;		/* two elements */
	Oid			collation;
	Oid			element_type;	/* of the array seen last, and its storage */
	int16		length;
	bool		by_value;
	char		align;
	MemoryContext context;		/* has elements; emptied after each execution */
	Datum	   *elements;		/* in the order of the scan, each once */
	int			n;
	int			next;
} ZenPointList;

/* A table of a kept plan. */
typedef struct ZenPointTable
{
	Oid			relid;
	Relation	rel;			/* the same address while the state is valid */
} ZenPointTable;

/* Where functions and expressions of a state remember something while it is executed. */
typedef struct ZenPointMemory
{
	List	   *places;			/* their addresses (void **); NULL in each:
								 * nothing is remembered */
	int			nlate;			/* expressions and trigger functions of the
								 * target that have been looked up */
	bool		unknown;		/* not all places are known */
} ZenPointMemory;

/*
 * The kept state of one plan.
 *
 * It is what ExecutorStart makes of a private copy of the plan, parked: between executions it holds no relation, no
 * lock, no snapshot and nothing else that belongs to a transaction.
 */
typedef struct ZenPoint
{
	ZenPointKind kind;
	bool		valid;			/* nothing has been invalidated since it was
								 * made */
	MemoryContext context;		/* has all of this, and the executor's state */
	MemoryContext run_context;	/* emptied after each execution */
	QueryDesc  *kept;			/* the private copy: estate, planstate,
								 * tupDesc */
	Oid			user;			/* has the permissions that were checked */
	int			track_functions;	/* as expressions were compiled */
	List	   *functions;		/* OIDs; hooks hear of their use */
	List	   *relations;		/* OIDs whose invalidation makes it invalid */

	int			ntables;
	ZenPointTable *tables;		/* open during an execution only */

	/* a plan kept whole */
	List	   *nodes;			/* with something to open or to close
								 * (keptnodes.c) */

	/* a point access */
	ZenPointShape shape;
	Oid			relid;
	Relation	rel;
	LOCKMODE	index_lock;
	Relation	parked_index;	/* closed; the relcache has it while the state
								 * is valid */
	ZenKeyProbe probe;			/* nkeys is 0: keys have no place in the key
								 * cache */
	IndexScanState *scan;		/* NULL: an INSERT */
	ScanKey		scan_keys;		/* those of scan, or for a list a copy */
	ZenPointList list;
	Relation	index;			/* open if an execution has had to ask it */
	IndexScanDesc index_scan;
	ExecRowMark *mark;			/* NULL: no row lock */
	bool		computes;		/* the list of a SELECT has more than columns */
	ProjectionInfo *make_row;	/* the new row of an INSERT or UPDATE */
	TupleTableSlot *new_row;

	/* either */
	ModifyTableState *change;	/* NULL: a SELECT */
	ResultRelInfo *target;		/* of change */
	bool		writes;			/* changes or locks rows */
	bool		has_triggers;
	bool		has_expressions;	/* the table may, for constraints,
									 * generated columns or triggers */
	bool		knows_catalogs; /* expressions have been compiled from what
								 * catalogs said */
	ZenPointMemory memory;
	int			nslots;			/* of the executor's, with descriptors of
								 * their own */

	/* the execution under way; query is NULL if there is none */
	QueryDesc  *query;
	SubTransactionId subxact;	/* in which it began */
	bool		skip_triggers;
	bool		started;		/* keys are known, or nodes stand at the
								 * beginning; or further */
	bool		done;			/* there is no further row */
} ZenPoint;

/* ---------- pointplan.c: which plans ---------- */

/*
 * zen_point_mark -- put a node on top of a plan that is a point access, or can be kept whole.
 *
 * once: why the plan is made for one execution; ZEN_WHY_NONE: it is not.  again: it will be executed again, even if it
 * has no parameters.  Result: why it is no point access, or not kept at all; ZEN_WHY_NONE: it is one, or it has nothing
 * to do with zen tables.
 *
 * zen_point_refuses -- why a plan that is not marked could not be kept; ZEN_WHY_NONE: it could.
 *
 * Caller holds the locks that the plan needs.
 */
extern ZenPointWhy zen_point_mark(PlannedStmt *stmt, ZenPointWhy once, bool again);
extern ZenPointWhy zen_point_refuses(PlannedStmt *stmt);

/* zen_point_kind -- of a marked plan. */
extern ZenPointKind zen_point_kind(const PlannedStmt *stmt);

/*
 * zen_point_with_values -- a marked plan for an execution with these values (a list of Const).
 *
 * All but the uppermost nodes is stmt's own.  The values are parameters behind those that come with the query.
 */
extern PlannedStmt *zen_point_with_values(const PlannedStmt *stmt, List *values);

/* zen_point_params -- the parameters of a marked plan: given, those of the query, and its values.  Made in context. */
extern ParamListInfo zen_point_params(const Plan *plan, ParamListInfo given, MemoryContext context);

/* zen_point_copy -- a copy of a marked plan, without values. */
extern PlannedStmt *zen_point_copy(const PlannedStmt *stmt);

/*
 * zen_point_still_fits -- is a marked plan yet what it was marked as, as its tables and indexes are defined now?
 *
 * Caller holds the locks that the plan needs.  *shape gets the parts of a point access.
 */
extern bool zen_point_still_fits(PlannedStmt *stmt, ZenPointShape *shape);

/* zen_pointplan_init -- register the nodes.  Once a process, before any plan. */
extern void zen_pointplan_init(void);

/* ---------- pointmemory.c: what a state remembers ---------- */

/* What an expression has in it for as long as it stays compiled, beside what its functions remember. */
typedef enum ZenMemoryKind
{
	ZEN_MEMORY_NONE,
	ZEN_MEMORY_CATALOGS,		/* what catalogs said when it was compiled */
	ZEN_MEMORY_ANY				/* unknown: the state may not stay */
} ZenMemoryKind;

/*
 * zen_memory_kind -- the most that expressions of a plan, and of the table that it changes, have in them.
 *
 * What domains and functions in SQL bring in is not all seen (zen_memory_find).  Looks at catalogs.  Caller holds the
 * locks that the plan needs.
 */
extern ZenMemoryKind zen_memory_kind(const PlannedStmt *stmt, Plan *plan);

/*
 * zen_memory_find -- note all places of a state, just made, where functions and expressions remember something.
 *
 * Sets memory.unknown if that is not possible: the state serves one execution.
 */
extern void zen_memory_find(ZenPoint *point);

/* zen_memory_forget -- an execution has ended, its tables are open yet: nothing of it is remembered. */
extern void zen_memory_forget(ZenPoint *point);

/* ---------- pointrow.c: the rows of a point access ---------- */

/* zen_pointrow_init -- find the parts of a state that is being made; source, just started, gives the rows. */
extern void zen_pointrow_init(ZenPoint *point, PlanState *source);

/*
 * zen_pointrow_run -- read or change the next rows, as ExecutorRun does; count 0: all that are left.
 *
 * The table is open.  With each change goes all that hangs on it: generated columns, constraints, indexes, triggers.
 */
extern void zen_pointrow_run(ZenPoint *point, bool send, uint64 count);

#endif							/* ZEN_POINT_H */
