/*
 * shapekey.c -- the shape of a query: its tree without the values that change from one execution to the next.
 *
 * README, "Statements that nobody has prepared", says which constants are values, and which queries have a shape.
 */
#include "exec/shapekey.h"

#include "base/guc.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_expr.h"
#include "parser/parser.h"
#include "pgtime.h"
#include "table/zenam_rel.h"
#include "access/transam.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#define MIN_HASHED_LIST	9		/* PostgreSQL's MIN_ARRAY_SIZE_FOR_HASHED_SAOP */

/* What a constant is in some place. */
typedef enum Place
{
	PLACE_SHAPE,				/* part of the shape */
	PLACE_COMPARED,				/* a value, to which something is compared */
	PLACE_STORED,				/* a value that goes into a row */
} Place;

/* Where the walk stands. */
typedef struct Walk
{
	ZenShapeKey *key;
	Place		place;
} Walk;

static void
mix(uint64 *hash, uint64 what)
{
	*hash = (*hash ^ what) * UINT64CONST(0x9E3779B97F4A7C15);
	*hash ^= *hash >> 32;
}

static void
mix_bytes(uint64 *hash, const char *bytes, size_t len)
{
	mix(hash, hash_bytes_extended((const unsigned char *) bytes, (int) len, 0));
}

/* ---------- expressions ---------- */

/*
 * Is a constant a value?  The text of a view, a default or a policy has no location: its constants are always the same.
 * So are those that the parser adds.  A comparison with NULL or a boolean is worth a plan of its own.
 */
static bool
is_shape_value(const Walk *walk, const Const *c)
{
	if (walk->place == PLACE_SHAPE || c->location < 0 || c->consttype == UNKNOWNOID)
		return false;
	return walk->place == PLACE_STORED || !(c->constisnull || c->consttype == BOOLOID);
}

static bool
shape_const(Walk *walk, Const *c)
{
	ZenShapeKey *key = walk->key;

	mix(&key->hash, c->consttype);
	if (is_shape_value(walk, c))
	{
		if (key->nvalues == ZEN_MAX_VALUES)
		{
			key->why = ZEN_WHY_many_values;
			return true;
		}
		key->values[key->nvalues++].where = c;
	}
	else if (!c->constisnull && c->constbyval)
		mix(&key->hash, (uint64) c->constvalue);
	else if (!c->constisnull)
		mix_bytes(&key->hash, DatumGetPointer(c->constvalue), datumGetSize(c->constvalue, false, c->constlen));
	return false;
}

static bool
are_constants(const List *arguments)
{
	ListCell   *lc;

	foreach(lc, arguments)
	{
		if (!IsA(lfirst(lc), Const))
			return false;
	}
	return true;
}

/*
 * What are an operator's constants?  Those of a comparison are values, and so are those of arithmetic: there operands
 * and result have one type.  Constants among themselves, as in WHERE 1 = 1, are for the planner.
 */
static Place
place_in_operator(const OpExpr *op)
{
	ListCell   *lc;

	if (are_constants(op->args))
		return PLACE_SHAPE;
	if (op->opresulttype == BOOLOID)
		return PLACE_COMPARED;
	foreach(lc, op->args)
	{
		if (exprType(lfirst(lc)) != op->opresulttype)
			return PLACE_SHAPE;
	}
	return PLACE_COMPARED;
}

/*
 * A cast hands on what it casts; its further arguments are the parser's.  upper('x') is as good a value as 'X', if it
 * may be computed for each row.  EXTRACT (year FROM ...) and the like need their words as constants.
 */
static Place
place_in_function(const Walk *walk, const FuncExpr *f)
{
	switch (f->funcformat)
	{
		case COERCE_EXPLICIT_CAST:
		case COERCE_IMPLICIT_CAST:
			return walk->place;
		case COERCE_EXPLICIT_CALL:
			return f->funcid < FirstGenbkiObjectId && are_constants(f->args) ? walk->place : PLACE_SHAPE;
		default:
			return PLACE_SHAPE;
	}
}

/*
 * A long list is searched by a hash table, if it is constant.  A list of constants has become one array, or not yet.
 */
static Place
place_in_list(const ScalarArrayOpExpr *op)
{
	const Node *list = lsecond(op->args);
	int			n = 0;

	if (IsA(list, ArrayExpr))
		n = list_length(((const ArrayExpr *) list)->elements);
	else if (IsA(list, Const) && !((const Const *) list)->constisnull)
	{
		ArrayType  *array = DatumGetArrayTypeP(((const Const *) list)->constvalue);

		n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	}
	return n >= MIN_HASHED_LIST ? PLACE_SHAPE : PLACE_COMPARED;
}

static bool shape_node(Node *node, void *context);

static bool
shape_below(Node *node, Walk *walk, Place place)
{
	Place		before = walk->place;
	bool		result;

	walk->place = place;
	result = expression_tree_walker(node, shape_node, walk);
	walk->place = before;
	return result;
}

/* What a node is, beside the nodes below it: enough that few different queries have one hash. */
static void
mix_node(uint64 *hash, const Node *node)
{
	mix(hash, nodeTag(node));
	switch (nodeTag(node))
	{
		case T_Var:
			mix(hash, ((uint64) ((const Var *) node)->varno << 32) + (uint32) ((const Var *) node)->varattno);
			break;
		case T_Param:
			mix(hash, (uint64) ((const Param *) node)->paramid);
			break;
		case T_OpExpr:
			mix(hash, ((const OpExpr *) node)->opno);
			break;
		case T_ScalarArrayOpExpr:
			mix(hash, ((const ScalarArrayOpExpr *) node)->opno);
			break;
		case T_FuncExpr:
			mix(hash, ((const FuncExpr *) node)->funcid);
			break;
		case T_Aggref:
			mix(hash, ((const Aggref *) node)->aggfnoid);
			break;
		case T_BoolExpr:
			mix(hash, ((const BoolExpr *) node)->boolop);
			break;
		case T_NullTest:
			mix(hash, ((const NullTest *) node)->nulltesttype);
			break;
		case T_BooleanTest:
			mix(hash, ((const BooleanTest *) node)->booltesttype);
			break;
		case T_JoinExpr:
			mix(hash, ((const JoinExpr *) node)->jointype);
			break;
		case T_SQLValueFunction:
			mix(hash, ((const SQLValueFunction *) node)->op);
			break;
		case T_TargetEntry:
			if (((const TargetEntry *) node)->resname != NULL)
				mix_bytes(hash, ((const TargetEntry *) node)->resname, strlen(((const TargetEntry *) node)->resname));
			break;
		default:
			break;
	}
}

static bool
shape_node(Node *node, void *context)
{
	Walk	   *walk = context;

	if (node == NULL)
		return false;
	mix_node(&walk->key->hash, node);
	switch (nodeTag(node))
	{
		case T_Const:
			return shape_const(walk, (Const *) node);
		case T_Param:
			if (((Param *) node)->paramkind == PARAM_EXTERN && ((Param *) node)->paramid > walk->key->nparams)
				walk->key->why = ZEN_WHY_custom_plan;
			return walk->key->why != ZEN_WHY_NONE;
		case T_OpExpr:
			return shape_below(node, walk, place_in_operator((OpExpr *) node));
		case T_ScalarArrayOpExpr:
			return shape_below(node, walk, place_in_list((ScalarArrayOpExpr *) node));
		case T_DistinctExpr:
		case T_RowCompareExpr:
			return shape_below(node, walk, PLACE_COMPARED);
		case T_FuncExpr:
			return shape_below(node, walk, place_in_function(walk, (FuncExpr *) node));
		case T_List:
		case T_TargetEntry:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CoerceToDomain:
		case T_ArrayExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
			return shape_below(node, walk, walk->place);
		default:
			return shape_below(node, walk, PLACE_SHAPE);
	}
}

/* ---------- queries ---------- */

static bool shape_query(Walk *walk, Query *query);

static bool
refuse(Walk *walk, ZenPointWhy why)
{
	walk->key->why = why;
	return true;
}

static bool
shape_table(Walk *walk, const RangeTblEntry *rte)
{
	Relation	rel;
	bool		is_zen;

	mix(&walk->key->hash, rte->relid);
	/* EXCLUDED is one of the second kind */
	if (rte->relkind == RELKIND_VIEW || rte->relkind == RELKIND_COMPOSITE_TYPE)
		return false;
	walk->key->ntables++;
	if (rte->relkind != RELKIND_RELATION || rte->tablesample != NULL)
		return refuse(walk, rte->relkind == RELKIND_PARTITIONED_TABLE ? ZEN_WHY_append : ZEN_WHY_other_table);
	rel = RelationIdGetRelation(rte->relid);
	is_zen = RelationIsValid(rel) && zen_rel_is_zen(rel);
	if (RelationIsValid(rel))
		RelationClose(rel);
	return is_zen ? false : refuse(walk, ZEN_WHY_other_table);
}

static bool
shape_rte(Walk *walk, RangeTblEntry *rte)
{
	mix(&walk->key->hash, rte->rtekind);
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			return shape_table(walk, rte);
		case RTE_SUBQUERY:
			return shape_query(walk, rte->subquery);
		case RTE_VALUES:
			walk->place = PLACE_STORED;
			return shape_node((Node *) rte->values_lists, walk);
		case RTE_JOIN:
		case RTE_RESULT:
			return false;
		case RTE_CTE:
			return refuse(walk, ZEN_WHY_subquery);
		default:
			return refuse(walk, ZEN_WHY_other_node);
	}
}

/*
 * Where a query has groups, the planner finds their expressions again by comparing trees.  Two constants that are equal
 * today would be two parameters.  Plans with groups are not kept in any case; those with aggregates of all rows may.
 */
static ZenPointWhy
query_refuses(const Query *query)
{
	if (query->commandType == CMD_UTILITY)
		return ZEN_WHY_other_node;
	if (query->commandType == CMD_MERGE)
		return ZEN_WHY_merge;
	if (query->hasWindowFuncs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->distinctClause != NIL || query->havingQual != NULL)
		return ZEN_WHY_aggregate;
	if (query->setOperations != NULL)
		return ZEN_WHY_append;
	if (query->hasSubLinks || query->cteList != NIL)
		return ZEN_WHY_subquery;
	return query->hasTargetSRFs ? ZEN_WHY_other_node : ZEN_WHY_NONE;
}

static bool
has_parameter(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, has_parameter, context);
}

/* The conditions of ON CONFLICT that name an index have to be the index's own. */
static bool
shape_conflict(Walk *walk, OnConflictExpr *conflict)
{
	if (conflict == NULL)
		return false;
	/* the planner finds the index by the values of parameters in it */
	if (has_parameter(conflict->arbiterWhere, NULL) || has_parameter((Node *) conflict->arbiterElems, NULL))
		return refuse(walk, ZEN_WHY_custom_plan);
	mix(&walk->key->hash, conflict->action);
	mix(&walk->key->hash, conflict->constraint);
	walk->place = PLACE_STORED;
	if (shape_node((Node *) conflict->onConflictSet, walk))
		return true;
	walk->place = PLACE_SHAPE;
	return shape_node(conflict->onConflictWhere, walk);
}

static void
mix_clauses(uint64 *hash, const Query *query)
{
	ListCell   *lc;

	foreach(lc, query->sortClause)
	{
		mix(hash, lfirst_node(SortGroupClause, lc)->tleSortGroupRef);
		mix(hash, lfirst_node(SortGroupClause, lc)->sortop);
		mix(hash, lfirst_node(SortGroupClause, lc)->nulls_first);
	}
	foreach(lc, query->rowMarks)
	{
		mix(hash, lfirst_node(RowMarkClause, lc)->rti);
		mix(hash, lfirst_node(RowMarkClause, lc)->strength);
		mix(hash, lfirst_node(RowMarkClause, lc)->waitPolicy);
	}
}

/* True: the query has no shape. */
static bool
shape_query(Walk *walk, Query *query)
{
	ZenShapeKey *key = walk->key;
	ListCell   *lc;

	key->why = query_refuses(query);
	if (key->why != ZEN_WHY_NONE)
		return true;
	mix(&key->hash, ((uint64) query->commandType << 32) + (uint32) query->resultRelation);
	foreach(lc, query->rtable)
	{
		if (shape_rte(walk, lfirst_node(RangeTblEntry, lc)))
			return true;
	}
	mix_clauses(&key->hash, query);
	walk->place = query->commandType == CMD_INSERT || query->commandType == CMD_UPDATE ? PLACE_STORED : PLACE_SHAPE;
	if (shape_node((Node *) query->targetList, walk))
		return true;
	walk->place = PLACE_SHAPE;
	return shape_node((Node *) query->jointree, walk) || shape_node((Node *) query->returningList, walk) ||
		shape_conflict(walk, query->onConflict) || shape_node(query->limitOffset, walk) ||
		shape_node(query->limitCount, walk);
}

void
zen_shapekey_find(ZenShapeKey *key, Query *query, int nparams)
{
	Walk		walk = {.key = key};

	key->why = ZEN_WHY_NONE;
	key->hash = 0;
	key->ntables = 0;
	key->nparams = nparams;
	key->nvalues = 0;
	if (shape_query(&walk, query))
		Assert(key->why != ZEN_WHY_NONE);
	else if (key->ntables == 0)
		key->why = ZEN_WHY_no_table;
}

/* ---------- values ---------- */

StaticAssertDecl(sizeof(Param) <= sizeof(Const), "a Param has room where a Const was");

void
zen_shapekey_take_out(ZenShapeKey *key)
{
	for (int i = 0; i < key->nvalues; i++)
	{
		ZenShapeValue *value = &key->values[i];
		Param		param = {.xpr.type = T_Param,.paramkind = PARAM_EXTERN,.location = -1};

		Assert(IsA(value->where, Const));
		value->was = *value->where;
		param.paramid = key->nparams + i + 1;
		param.paramtype = value->was.consttype;
		param.paramtypmod = value->was.consttypmod;
		param.paramcollid = value->was.constcollid;
		memcpy(value->where, &param, sizeof(param));
	}
}

void
zen_shapekey_put_back(ZenShapeKey *key)
{
	for (int i = 0; i < key->nvalues; i++)
		*key->values[i].where = key->values[i].was;
}

/* ---------- the session ---------- */

/* A setting that the planner asks. */
typedef struct Setting
{
	const void *variable;
	size_t		size;			/* of a bool, an int or a double */
} Setting;

static bool
concerns_planner(const struct config_generic *setting)
{
	switch (setting->group)
	{
		case QUERY_TUNING_METHOD:
		case QUERY_TUNING_COST:
		case QUERY_TUNING_GEQO:
		case QUERY_TUNING_OTHER:
		case RESOURCES_MEM:
			return true;
		default:
			/* its group was renamed */
			return strcmp(setting->name, "max_parallel_workers_per_gather") == 0;
	}
}

static Setting
setting_of(const struct config_generic *setting)
{
	Setting		result = {NULL, 0};

	switch (setting->vartype)
	{
		case PGC_BOOL:
			result = (Setting)
			{
				((const struct config_bool *) setting)->variable, sizeof(bool)
			};
			break;
		case PGC_INT:
			result = (Setting)
			{
				((const struct config_int *) setting)->variable, sizeof(int)
			};
			break;
		case PGC_REAL:
			result = (Setting)
			{
				((const struct config_real *) setting)->variable, sizeof(double)
			};
			break;
		case PGC_ENUM:
			result = (Setting)
			{
				((const struct config_enum *) setting)->variable, sizeof(int)
			};
			break;
		case PGC_STRING:
			break;
	}
	return result;
}

#define MAX_PATH		64		/* schemas of a search path by which shapes
								 * are told apart */

/* The planner's settings, found once; *n gets their number. */
static const Setting *
planner_settings(int *n)
{
	static Setting *found = NULL;
	static int	nfound = 0;

	if (found == NULL)
	{
		int			nall;
		struct config_generic **all = zen_get_guc_variables(&nall);
		Setting    *list = MemoryContextAlloc(TopMemoryContext, (Size) nall * sizeof(Setting));

		for (int i = 0; i < nall; i++)
		{
			Setting		setting = setting_of(all[i]);

			if (concerns_planner(all[i]) && setting.variable != NULL)
				list[nfound++] = setting;
		}
		found = list;
	}
	*n = nfound;
	return found;
}

uint64
zen_shapekey_session(void)
{
	Oid			path[MAX_PATH];
	int			n = fetch_search_path_array(path, lengthof(path));
	uint64		hash = GetUserId();
	const Setting *setting;

	if (n > MAX_PATH)
		return 0;
	for (int i = 0; i < n; i++)
		mix(&hash, path[i]);
	/* by these constants in the bodies of functions are read */
	mix(&hash, (uint64) session_timezone);
	mix(&hash, ((uint64) DateStyle << 32) + ((uint64) DateOrder << 16) + (uint64) IntervalStyle);
	mix(&hash, ((uint64) Array_nulls << 2) + ((uint64) Transform_null_equals << 1) + standard_conforming_strings);
	mix(&hash, ((uint64) zen_key_join << 1) + zen_batch_aggregate);
	setting = planner_settings(&n);
	for (; n > 0; n--, setting++)
	{
		uint64		value;

		if (setting->size == sizeof(bool))
			value = *(const bool *) setting->variable;
		else if (setting->size == sizeof(int))
			value = *(const uint32 *) setting->variable;
		else
			value = *(const uint64 *) setting->variable;
		/* cheaper than mix() */
		hash = (hash + value) * UINT64CONST(0x9E3779B97F4A7C15);
	}
	mix(&hash, 0);
	return hash;
}
