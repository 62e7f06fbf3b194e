/*
 * shape.c -- plans for statements that nobody has prepared, kept by their shape.
 *
 * A shape is known by three stages, each of which costs more than the one before:
 *
 * * its hash is noted, with how often it has come;
 * * from the SEEN_FIRST-th time on, a Shape has its tree, and what plans for its values cost;
 * * after PLANNED_FIRST such plans, the Shape has a generic plan, if that is not costlier.
 *
 * The generic plan is one that can be kept (pointplan.c), so its executor state is kept, too.  Each execution gets a
 * copy of the uppermost nodes only (zen_point_with_values).  All below is shared.
 */
#include "exec/shape.h"

#include "base/guc.h"
#include "base/stats.h"
#include "base/testing.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "exec/keptnodes.h"
#include "exec/point.h"
#include "lib/ilist.h"
#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/syscache.h"

#define NSEEN			4096	/* hashes of which it is noted how often they
								 * have come */
#define NPLACES			4		/* for those that meet there */
#define SEEN_FIRST		2		/* a shape that has come so often gets a tree */
#define SHAPE_SIZE		(16 * 1024) /* bytes, at most, of most shapes */
#define ADMIT_EVERY		16		/* times that a shape comes, while memory is
								 * full */
#define PLANNED_FIRST	3		/* plans for values before a generic one */
#define HINT_HEAD		1024	/* bytes of a message that may begin with
								 * hints */
#define MAX_RISK		50		/* of a kept plan; the cost of some 12 pages */

typedef struct Shape
{
	uint64		hash;			/* key: of tree, session and options */
	dlist_node	lru;
	MemoryContext context;		/* has all below */
	Size		size;			/* of the context */
	Query	   *tree;			/* with parameters where the values were */

	/* plans for values */
	int			nplanned;
	double		least_cost;		/* of one, planning included */
	uint64		form;			/* of the first one (plan_form) */
	bool		same_form;		/* of all */

	/* the generic plan; plan_context is NULL: none was made yet */
	MemoryContext plan_context;
	PlannedStmt *stmt;			/* NULL: it may not be used */
	ZenPointWhy why;			/* ... for this reason */
	List	   *relations;		/* OIDs on which both depend, and what else */
	List	   *items;			/* (PlanInvalItem) */
	bool		valid;			/* nothing of that has been invalidated */
	LocalTransactionId given;	/* the transaction that has been given it last */
} Shape;

/* How often a hash has come. */
typedef struct Seen
{
	uint32		tag;			/* more of the hash */
	uint32		n;
} Seen;

static HTAB *shapes;
static dlist_head lru = DLIST_STATIC_INIT(lru); /* the one used last is first */
static Size total_size;			/* of all shapes */
static bool making;				/* a generic plan is being made */
static uint64 shape_changes;	/* invalidations heard of */

/* ---------- the shapes of a session ---------- */

/* Statements of this transaction may be executing its plan, if one of them was given it. */
static void
forget_plan(Shape *shape)
{
	if (shape->plan_context != NULL && shape->given == zen_my_lxid())
		MemoryContextSetParent(shape->plan_context, TopTransactionContext);
	else if (shape->plan_context != NULL)
		MemoryContextDelete(shape->plan_context);
	shape->plan_context = NULL;
	shape->stmt = NULL;
	shape->relations = shape->items = NIL;
	shape->why = ZEN_WHY_NONE;
	shape->valid = false;
}

static void
forget_shape(Shape *shape)
{
	forget_plan(shape);
	dlist_delete(&shape->lru);
	total_size -= shape->size;
	MemoryContextDelete(shape->context);
	(void) hash_search(shapes, &shape->hash, HASH_REMOVE, NULL);
}

/* Shapes go, those first that have not been used for the longest time, as long as they take too much; but not keep. */
static void
shape_trim(const Shape *keep)
{
	while (total_size > (Size) zen_shape_memory_kb * 1024)
	{
		Shape	   *last = dlist_tail_element(Shape, lru, &lru);

		if (last == keep)
			break;
		forget_shape(last);
	}
}

/* A shape has become larger or smaller. */
static void
measure(Shape *shape)
{
	total_size -= shape->size;
	shape->size = MemoryContextMemAllocated(shape->context, true);
	if (shape->plan_context != NULL)
		shape->size += MemoryContextMemAllocated(shape->plan_context, true);
	total_size += shape->size;
	shape_trim(shape);
}

static Shape *
shape_by_hash(uint64 hash)
{
	return shapes != NULL ? hash_search(shapes, &hash, HASH_FIND, NULL) : NULL;
}

/* How often has a hash come?  As far as it is known, and this time included. */
static uint32
times_seen(uint64 hash)
{
	static Seen seen[NSEEN / NPLACES][NPLACES]; /* each set: the last one
												 * first */
	Seen	   *set = seen[hash % lengthof(seen)];
	Seen		found = {.tag = (uint32) (hash >> 32)};
	int			i = 0;

	while (i < NPLACES - 1 && set[i].tag != found.tag)
		i++;
	if (set[i].tag == found.tag)
		found.n = set[i].n;
	found.n++;
	memmove(&set[1], &set[0], (size_t) i * sizeof(Seen));
	set[0] = found;
	return found.n;
}

/*
 * Is a shape that has come n times worth its memory?
 *
 * If others would have to go for it, it gets in once in a while only.  Else a session whose statements have some more
 * shapes than there is room for would do nothing but make and forget them.
 */
static bool
is_admitted(uint32 n)
{
	bool		full = total_size + SHAPE_SIZE > (Size) zen_shape_memory_kb * 1024;

	return (n >= SEEN_FIRST && (!full || n % ADMIT_EVERY == 0)) || zen_debug_keep_plans;
}

/* query is a shape: its values are out. */
static Shape *
new_shape(uint64 hash, Query *query)
{
	MemoryContext context = AllocSetContextCreate(CacheMemoryContext, "zen shape", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Query	   *tree = copyObject(query);
	Shape	   *shape;

	MemoryContextSwitchTo(old);
	if (shapes == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(Shape)};

		shapes = hash_create("zen shapes", 256, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	shape = hash_search(shapes, &hash, HASH_ENTER, NULL);
	memset(shape, 0, sizeof(*shape));
	shape->hash = hash;
	shape->context = context;
	shape->tree = tree;
	dlist_push_head(&lru, &shape->lru);
	measure(shape);
	return shape;
}

/*
 * The shape of a query whose values are out.  Another one may have the hash: it goes.
 *
 * stmt_len is the one field of a position that equal() compares.
 */
static Shape *
shape_of(uint64 hash, Query *query)
{
	Shape	   *shape = shape_by_hash(hash);
	int			len = query->stmt_len;

	query->stmt_len = 0;
	if (shape != NULL && !equal(shape->tree, query))
	{
		forget_shape(shape);
		shape = NULL;
	}
	if (shape == NULL)
		shape = new_shape(hash, query);
	else
		dlist_move_head(&lru, &shape->lru);
	query->stmt_len = len;
	return shape;
}

/* ---------- the generic plan ---------- */

static int
number_of_tables(const List *rtable)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		n += rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION;
	}
	return n;
}

/* Two plans of one query with the same form do the same, but for their values. */
static uint64
plan_form(const Plan *plan)
{
	uint64		form;

	if (plan == NULL)
		return 0;
	form = hash_combine64(nodeTag(plan), hash_combine64(plan_form(outerPlan(plan)), plan_form(innerPlan(plan))));
	if (IsA(plan, IndexScan))
		form = hash_combine64(form, ((uint64) list_length(((const IndexScan *) plan)->indexqual) << 32) +
							  ((const IndexScan *) plan)->indexid);
	else if (IsA(plan, IndexOnlyScan))
		form = hash_combine64(form, ((uint64) list_length(((const IndexOnlyScan *) plan)->indexqual) << 32) +
							  ((const IndexOnlyScan *) plan)->indexid);
	return form;
}

/*
 * What a plan may cost for some values, if it reads a whole table, or hopes to stop early; 0: it does neither.
 *
 * A few values may have so few rows that another plan would cost next to nothing, and this one all that it can.
 */
static double
risk(const Plan *plan)
{
	double		below;

	if (plan == NULL)
		return 0;
	if (IsA(plan, SeqScan))
		return plan->total_cost;
	if (IsA(plan, Limit))
		return outerPlan(plan)->total_cost;
	below = risk(outerPlan(plan));
	return below > 0 ? below : risk(innerPlan(plan));
}

/* What making a plan costs, as PostgreSQL's plan cache sees it. */
static double
planning_cost(const PlannedStmt *stmt)
{
	return 1000.0 * cpu_operator_cost * (list_length(stmt->rtable) + 1);
}

/*
 * Why may a generic plan, made for a shape, not be used?  marked: what the mark says of it.
 *
 * If the plans for values were the same plan, only estimates differ.  Else costs decide.  The plan cache compares with
 * the mean cost of plans for values, and this with the least: who prepares no statement may count on such plans.
 */
static ZenPointWhy
plan_refuses(const Shape *shape, const PlannedStmt *stmt, ZenPointWhy marked, int ntables)
{
	const Plan *plan = stmt->planTree;

	if (zen_point_serial(stmt) == 0)
		return marked != ZEN_WHY_NONE ? marked : ZEN_WHY_other_node;
	/* a function in SQL brings tables, which no execution would lock */
	if (number_of_tables(stmt->rtable) != ntables || stmt->transientPlan)
		return ZEN_WHY_other_node;
	if (zen_debug_keep_plans || zen_point_kind(stmt) == ZEN_POINT_ROW ||
		plan_cache_mode == PLAN_CACHE_MODE_FORCE_GENERIC_PLAN)
		return ZEN_WHY_NONE;
	if (risk(plan) > MAX_RISK)
		return ZEN_WHY_values_matter;
	if (shape->same_form && plan_form(outerPlan(plan)) == shape->form)
		return ZEN_WHY_NONE;
	return plan->total_cost < shape->least_cost ? ZEN_WHY_NONE : ZEN_WHY_values_matter;
}

/* What was planned: it is kept, or only why it may not be. */
static void
keep_plan(Shape *shape, PlannedStmt *stmt, ZenPointWhy why)
{
	MemoryContext old;

	forget_plan(shape);
	shape->plan_context = AllocSetContextCreate(CacheMemoryContext, "zen plan of a shape", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(shape->plan_context);
	shape->relations = list_copy(stmt->relationOids);
	shape->items = copyObject(stmt->invalItems);
	shape->stmt = why == ZEN_WHY_NONE ? copyObject(stmt) : NULL;
	shape->why = why;
	MemoryContextSwitchTo(old);
	measure(shape);
}

/*
 * The plan is not valid if something has changed while it was made: what it depends on was not known before.
 *
 * An error leaves the shape without a plan, so that not each of its statements meets it.
 */
static void
make_generic_plan(Shape *shape, int ntables, const char *source, int options, ZenMakePlan make_plan)
{
	uint64		before = shape_changes;
	ZenPointWhy why = ZEN_WHY_NONE;
	PlannedStmt *volatile stmt = NULL;

	Assert(!making);
	forget_plan(shape);
	shape->why = ZEN_WHY_changed;
	shape->valid = true;
	making = true;
	PG_TRY();
	{
		stmt = make_plan(copyObject(shape->tree), source, options, &why);
	}
	PG_FINALLY();
	{
		making = false;
	}
	PG_END_TRY();

	keep_plan(shape, stmt, plan_refuses(shape, stmt, why, ntables));
	shape->valid = shape_changes == before;
	ZEN_COUNT(shape_plans_made, 1);
}

/* ---------- one execution ---------- */

/* The plan for one query, whose values are in their places again. */
static PlannedStmt *
plan_for(const Shape *shape, const ZenShapeKey *key, const Query *query)
{
	List	   *values = NIL;
	PlannedStmt *stmt;

	for (int i = 0; i < key->nvalues; i++)
		values = lappend(values, key->values[i].where);
	stmt = zen_point_with_values(shape->stmt, values);
	stmt->queryId = query->queryId;
	stmt->stmt_location = query->stmt_location;
	stmt->stmt_len = query->stmt_len;
	return stmt;
}

/* Has the query a shape that has come so often that it has a tree?  NULL: no; key->why says why. */
static Shape *
known_shape(ZenShapeKey *key, Query *query, int options, ParamListInfo params)
{
	Shape	   *shape;
	uint64		session;

	zen_shapekey_find(key, query, params != NULL ? params->numParams : 0);
	if (key->why != ZEN_WHY_NONE)
		return NULL;
	session = zen_shapekey_session();
	if (session == 0)
	{
		key->why = ZEN_WHY_other_node;
		return NULL;
	}
	key->hash = hash_combine64(hash_combine64(key->hash, session), (uint64) options);
	key->why = ZEN_WHY_new_shape;
	shape = shape_by_hash(key->hash);
	if (shape == NULL && !is_admitted(times_seen(key->hash)))
		return NULL;
	if (shape != NULL && shape->valid && shape->why != ZEN_WHY_NONE)
	{
		key->why = shape->why;
		return NULL;
	}
	zen_shapekey_take_out(key);
	shape = shape_of(key->hash, query);
	zen_shapekey_put_back(key);
	return shape;
}

/* Does a text have the beginning of hints? */
static bool
has_hint(const char *text, size_t len)
{
	const char *end = text +len;

	for (; end - text >=3 && (text = memchr(text, '/', (size_t) (end - text -2))) !=NULL; text ++)
	{
		if (text[1] == '*' && text[2] == '+')
			return true;
	}
	return false;
}

/*
 * Has a statement hints in a comment, as pg_hint_plan reads them?
 *
 * They stand in it, or at the head of the message.  A search of the whole message would be long, for each of many
 * statements.
 */
static bool
has_hints(const Query *query, const char *source)
{
	const char *own;

	if (source == NULL)
		return false;
	own = source + Max(query->stmt_location, 0);
	return has_hint(own, query->stmt_len > 0 ? (size_t) query->stmt_len : strlen(own)) ||
		has_hint(source, strnlen(source, HINT_HEAD));
}

PlannedStmt *
zen_shape_plan(ZenShapeKey *key, Query *query, const char *source, int options, ParamListInfo params,
			   ZenMakePlan make_plan)
{
	Shape	   *shape;

	key->why = ZEN_WHY_NONE;
	if (making || !zen_shapes || plan_cache_mode == PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN)
		return NULL;
	shape_trim(NULL);			/* the setting may have changed */
	shape = known_shape(key, query, options, params);
	if (shape == NULL || has_hints(query, source))
		return NULL;
	if (!shape->valid && shape->plan_context != NULL)
	{
		/* a table has another index, or other statistics: learn anew */
		forget_plan(shape);
		shape->nplanned = 0;
	}
	if (shape->nplanned < PLANNED_FIRST && !zen_debug_keep_plans)
		return NULL;
	if (!shape->valid)
		make_generic_plan(shape, key->ntables, source, options, make_plan);
	key->why = shape->why;
	if (shape->why != ZEN_WHY_NONE || !shape->valid)
		return NULL;
	ZEN_COUNT(shape_runs, 1);
	shape->given = zen_my_lxid();
	return plan_for(shape, key, query);
}

/* A plan for values, not marked. */
static void
note_plan(Shape *shape, const PlannedStmt *stmt)
{
	double		cost = stmt->planTree->total_cost + planning_cost(stmt);
	uint64		form = plan_form(stmt->planTree);
	bool		first = shape->nplanned++ == 0;

	shape->least_cost = first ? cost : Min(cost, shape->least_cost);
	shape->same_form = first || (shape->same_form && form == shape->form);
	shape->form = form;
}

void
zen_shape_learn(const ZenShapeKey *key, PlannedStmt *stmt)
{
	Shape	   *shape = key->why == ZEN_WHY_new_shape && !making ? shape_by_hash(key->hash) : NULL;
	ZenPointWhy why;

	if (shape == NULL)
		return;
	note_plan(shape, stmt);
	if (shape->nplanned < PLANNED_FIRST)
		return;
	/* a plan for values that cannot be kept tells that a generic one cannot */
	why = zen_point_refuses(stmt);
	if (why != ZEN_WHY_NONE)
	{
		keep_plan(shape, stmt, why);
		shape->valid = true;
	}
}

/* ---------- invalidations ---------- */

void
zen_shape_relation_changed(Oid relid)
{
	dlist_iter	i;

	shape_changes++;
	dlist_foreach(i, &lru)
	{
		Shape	   *shape = dlist_container(Shape, lru, i.cur);

		if (relid == InvalidOid || list_member_oid(shape->relations, relid))
			shape->valid = false;
	}
}

void
zen_shape_type_changed(uint32 hash)
{
	dlist_iter	i;

	shape_changes++;
	dlist_foreach(i, &lru)
	{
		Shape	   *shape = dlist_container(Shape, lru, i.cur);
		ListCell   *lc;

		foreach(lc, shape->items)
		{
			const PlanInvalItem *item = lfirst_node(PlanInvalItem, lc);

			if (item->cacheId == TYPEOID && (hash == 0 || item->hashValue == hash))
				shape->valid = false;
		}
	}
}
