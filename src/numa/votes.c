/*
 * votes.c -- partition keys of tables, and the values of them that a plan names.
 *
 * The key of a table is a column that bears a security label of the provider "zen".  PostgreSQL has all that such a
 * mark needs: a place in the catalog, pg_dump and pg_upgrade that take it along, and its end with the column or the
 * table.  The label changes no permission.  A table has one key.  Each session keeps those that it has found, until any
 * relation changes.
 *
 * A vote is a value that a partition key must equal: a constant, a parameter of the statement, or each element of an
 * array of these.  The key of each row of an INSERT also votes.  Values that are only found in the execution, as on the
 * inner side of a nested loop, do not vote.
 */
#include "numa/votes.h"

#include "access/genam.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_seclabel.h"
#include "commands/defrem.h"
#include "commands/seclabel.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "numa/partition.h"
#include "parser/parsetree.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(zen_set_partition_key);

#define PROVIDER	"zen"
#define LABEL		"partition key"

/* A table's key, as a session has found it. */
typedef struct KeyColumn
{
	Oid			relid;
	AttrNumber	attno;			/* InvalidAttrNumber: the table has none */
	Oid			collation;
	Oid			opfamily;		/* of hashing */
	Oid			type;			/* that the family hashes the column as */
} KeyColumn;

static HTAB *keys;				/* KeyColumn, by relid */
static bool stale = true;

/* ---------- the catalog ---------- */

/* The column that bears the label; InvalidAttrNumber: none. */
static AttrNumber
labelled_column(Oid relid)
{
	Relation	catalog = table_open(SecLabelRelationId, AccessShareLock);
	AttrNumber	attno = InvalidAttrNumber;
	ScanKeyData skey[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&skey[0], Anum_pg_seclabel_objoid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	ScanKeyInit(&skey[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(catalog, SecLabelObjectIndexId, true, NULL, 2, skey);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		Datum		provider = heap_getattr(tuple, Anum_pg_seclabel_provider, RelationGetDescr(catalog), &isnull);
		int32		column = ((FormData_pg_seclabel *) GETSTRUCT(tuple))->objsubid;

		if (column > 0 && strcmp(TextDatumGetCString(provider), PROVIDER) == 0)
			attno = (AttrNumber) column;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return attno;
}

static TypeCacheEntry *
hashed_as(Oid relid, AttrNumber attno)
{
	return lookup_type_cache(get_atttype(relid, attno), TYPECACHE_HASH_PROC | TYPECACHE_HASH_OPFAMILY);
}

/* elevel: of a column whose values cannot be hashed. */
static void
check_column(Oid relid, AttrNumber attno, int elevel)
{
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("a system column cannot be the partition key of a zen table")));
	if (!OidIsValid(hashed_as(relid, attno)->hash_proc))
		ereport(elevel,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("column \"%s\" cannot be a partition key: values of type %s cannot be hashed",
						get_attname(relid, attno, false), format_type_be(get_atttype(relid, attno)))));
}

/* ---------- labels ---------- */

/*
 * SECURITY LABEL FOR zen: the statement that pg_dump writes.  PostgreSQL has checked that the user owns the table, and
 * has locked it.
 */
static void
check_label(const ObjectAddress *object, const char *label)
{
	AttrNumber	current;

	if (object->classId != RelationRelationId || object->objectSubId == 0 ||
		get_rel_relkind(object->objectId) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("labels of zen are for columns of tables"),
				 errhint("zen_set_partition_key() sets them.")));
	if (label != NULL)
	{
		if (strcmp(label, LABEL) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("zen has no label \"%s\"", label),
					 errhint("The only one is \"%s\", and zen_set_partition_key() sets it.", LABEL)));
		current = labelled_column(object->objectId);
		if (current != InvalidAttrNumber && current != object->objectSubId)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("table \"%s\" has a partition key already: column \"%s\"",
							get_rel_name(object->objectId), get_attname(object->objectId, current, false)),
					 errhint("zen_set_partition_key() replaces it.")));
		/* ALTER TABLE may have left it so, and a dump must go in again */
		check_column(object->objectId, (AttrNumber) object->objectSubId, WARNING);
	}
	CacheInvalidateRelcacheByRelid(object->objectId);
}

static void
put_label(Oid relid, AttrNumber attno, const char *label)
{
	ObjectAddress object;

	ObjectAddressSubSet(object, RelationRelationId, relid, attno);
	SetSecurityLabel(&object, PROVIDER, label);
}

static AttrNumber
column_named(Relation rel, const char *name)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(rel), name);

	if (attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name, RelationGetRelationName(rel))));
	check_column(RelationGetRelid(rel), attno, ERROR);
	return attno;
}

/* zen_set_partition_key -- see doc/functions.md. */
Datum
zen_set_partition_key(PG_FUNCTION_ARGS)
{
	Oid			relid;
	Relation	rel;
	AttrNumber	attno = InvalidAttrNumber,
				current;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the table must not be null")));
	relid = PG_GETARG_OID(0);

	/*
	 * a user without permission shall not wait for the lock, nor make others
	 * wait
	 */
	if (!zen_is_owner(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	rel = relation_open(relid, ShareUpdateExclusiveLock);
	current = labelled_column(relid);
	/* one that has become a heap table may lose its key */
	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		(rel->rd_rel->relam != get_table_am_oid("zen", true) && !(PG_ARGISNULL(1) && current != InvalidAttrNumber)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a zen table", RelationGetRelationName(rel)),
				 errdetail("Partition keys of a partitioned table are those of its partitions.")));
	if (!PG_ARGISNULL(1))
		attno = column_named(rel, NameStr(*PG_GETARG_NAME(1)));
	if (current != InvalidAttrNumber && current != attno)
		put_label(relid, current, NULL);
	if (attno != InvalidAttrNumber && current != attno)
		put_label(relid, attno, LABEL);
	CacheInvalidateRelcache(rel);
	/* the statement may call it once more */
	CommandCounterIncrement();
	relation_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* ---------- keys that a session has found ---------- */

static void
votes_relation_changed(Datum arg, Oid relid)
{
	stale = true;
}

/* Changes of catalogs since the last call count from now on: keys found before are void. */
static void
forget_stale_keys(void)
{
	static bool watching = false;
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(KeyColumn)};

	if (!watching)
		CacheRegisterRelcacheCallback(votes_relation_changed, (Datum) 0);
	watching = true;
	if (!stale)
		return;
	if (keys != NULL)
		hash_destroy(keys);
	keys = NULL;
	keys = hash_create("zen partition keys", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	stale = false;
}

/* The key of a table that the caller has locked; never NULL.  May read the catalog. */
static const KeyColumn *
find_key(Oid relid)
{
	KeyColumn  *key = hash_search(keys, &relid, HASH_FIND, NULL);
	KeyColumn	found = {.relid = relid};

	if (key != NULL)
		return key;
	found.attno = labelled_column(relid);
	if (found.attno != InvalidAttrNumber)
	{
		TypeCacheEntry *type = hashed_as(relid, found.attno);
		int32		typmod;
		Oid			declared;

		get_atttypetypmodcoll(relid, found.attno, &declared, &typmod, &found.collation);
		found.opfamily = type->hash_opf;
		found.type = type->hash_opintype;
		/* its type may have changed since */
		if (!OidIsValid(type->hash_proc))
			found.attno = InvalidAttrNumber;
	}
	key = hash_search(keys, &relid, HASH_ENTER, NULL);
	*key = found;
	return key;
}

/* ---------- values that a plan names ---------- */

typedef struct Collector
{
	List	   *rtable;
	ParamListInfo params;
	ZenPartitionVotes votes;
} Collector;

/* Casts that change nothing are no concern. */
static Node *
strip(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* A value that is known before the execution, and is not null. */
static bool
known_value(Collector *c, Node *node, Datum *value)
{
	ParamExternData workspace,
			   *param;

	node = strip(node);
	if (node != NULL && IsA(node, Const))
	{
		*value = ((Const *) node)->constvalue;
		return !((Const *) node)->constisnull;
	}
	if (node == NULL || !IsA(node, Param) || ((Param *) node)->paramkind != PARAM_EXTERN || c->params == NULL ||
		((Param *) node)->paramid <= 0 || ((Param *) node)->paramid > c->params->numParams)
		return false;
	param = &c->params->params[((Param *) node)->paramid - 1];
	if (c->params->paramFetch != NULL)
		param = c->params->paramFetch(c->params, ((Param *) node)->paramid, true, &workspace);
	*value = param->value;
	return !param->isnull && param->ptype == ((Param *) node)->paramtype;
}

/* A value that a key is equal to votes if the family hashes its type. */
static void
vote(Collector *c, const KeyColumn *key, Oid type, Datum value)
{
	Oid			function;

	if (c->votes.n == ZEN_MAX_VOTES)
		return;
	function = get_opfamily_proc(key->opfamily, type, type, HASHSTANDARD_PROC);
	if (OidIsValid(function))
		c->votes.hash[c->votes.n++] = DatumGetUInt32(OidFunctionCall1Coll(function, key->collation, value));
}

static void
vote_elements(Collector *c, const KeyColumn *key, Oid type, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int16		length;
	bool		by_value,
			   *nulls;
	char		align;
	Datum	   *elements;
	int			n;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			vote(c, key, type, elements[i]);
}

/* ---------- conditions ---------- */

/* The columns of an index: conditions of an index-only scan name those in place of the table's. */
static AttrNumber
column_of_index(Oid index, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	AttrNumber	column = InvalidAttrNumber;

	if (!HeapTupleIsValid(tuple))
		return InvalidAttrNumber;
	if (attno > 0 && attno <= ((Form_pg_index) GETSTRUCT(tuple))->indnatts)
		column = ((Form_pg_index) GETSTRUCT(tuple))->indkey.values[attno - 1];
	ReleaseSysCache(tuple);
	return column;
}

static bool
is_key(const KeyColumn *key, Oid index, Node *node)
{
	Var		   *var = (Var *) strip(node);

	if (var == NULL || !IsA(var, Var))
		return false;
	return (var->varno == INDEX_VAR ? column_of_index(index, var->varattno) : var->varattno) == key->attno;
}

/* One condition.  index: that of an index-only scan. */
static void
look_at_condition(Collector *c, const KeyColumn *key, Oid index, Node *condition)
{
	bool		is_list = IsA(condition, ScalarArrayOpExpr);
	List	   *args;
	Oid			op,
				left,
				right;
	Datum		value;

	if (is_list && ((ScalarArrayOpExpr *) condition)->useOr)
	{
		op = ((ScalarArrayOpExpr *) condition)->opno;
		args = ((ScalarArrayOpExpr *) condition)->args;
	}
	else if (IsA(condition, OpExpr) && list_length(((OpExpr *) condition)->args) == 2)
	{
		op = ((OpExpr *) condition)->opno;
		args = ((OpExpr *) condition)->args;
		if (!is_key(key, index, linitial(args)) && is_key(key, index, lsecond(args)))
		{
			op = get_commutator(op);
			args = list_make2(lsecond(args), linitial(args));
		}
	}
	else
		return;
	if (!is_key(key, index, linitial(args)) || !OidIsValid(op) ||
		get_op_opfamily_strategy(op, key->opfamily) != HTEqualStrategyNumber ||
		!known_value(c, lsecond(args), &value))
		return;
	op_input_types(op, &left, &right);
	if (is_list)
		vote_elements(c, key, right, value);
	else
		vote(c, key, right, value);
}

static const KeyColumn *
votes_key_of(Collector *c, Index rti)
{
	RangeTblEntry *rte = rti > 0 && rti <= list_length(c->rtable) ? rt_fetch(rti, c->rtable) : NULL;
	const KeyColumn *key;

	if (rte == NULL || rte->rtekind != RTE_RELATION || rte->relid < FirstNormalObjectId)
		return NULL;
	key = find_key(rte->relid);
	return key->attno != InvalidAttrNumber ? key : NULL;
}

static void
look_at_scan(Collector *c, Plan *plan, Oid index, List *conditions)
{
	const KeyColumn *key = votes_key_of(c, ((Scan *) plan)->scanrelid);
	ListCell   *lc;

	if (key == NULL)
		return;
	foreach(lc, conditions)
		look_at_condition(c, key, index, lfirst(lc));
	foreach(lc, plan->qual)
		look_at_condition(c, key, index, lfirst(lc));
}

/* ---------- rows that are inserted ---------- */

/* The expression from which a column of a plan's rows is computed.  *plan becomes the plan below that computes it. */
static Node *
origin(Plan **plan, Node *node)
{
	for (node = strip(node); node != NULL && IsA(node, Var); node = strip(node))
	{
		Var		   *var = (Var *) node;
		Plan	   *below = IsA(*plan, SubqueryScan) && var->varno == ((Scan *) *plan)->scanrelid ?
		((SubqueryScan *) *plan)->subplan : var->varno == OUTER_VAR ? outerPlan(*plan) : NULL;

		if (below == NULL || var->varattno <= 0 || var->varattno > list_length(below->targetlist))
			break;
		*plan = below;
		node = (Node *) list_nth_node(TargetEntry, below->targetlist, var->varattno - 1)->expr;
	}
	return node;
}

/* A column of the rows of VALUES. */
static void
look_at_values(Collector *c, const KeyColumn *key, ValuesScan *scan, AttrNumber column)
{
	ListCell   *lc;
	Datum		value;

	foreach(lc, scan->values_lists)
	{
		if (column > 0 && column <= list_length(lfirst(lc)) &&
			known_value(c, list_nth(lfirst(lc), column - 1), &value))
			vote(c, key, key->type, value);
	}
}

static void
look_at_insert(Collector *c, ModifyTable *change)
{
	const KeyColumn *key = votes_key_of(c, (Index) linitial_int(change->resultRelations));
	Plan	   *source = outerPlan(change);
	ListCell   *lc;
	Datum		value;

	if (key == NULL || source == NULL)
		return;
	foreach(lc, source->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Plan	   *plan = source;
		Node	   *node = entry->resno == key->attno ? origin(&plan, (Node *) entry->expr) : NULL;

		if (node == NULL)
			continue;
		if (IsA(plan, ValuesScan) && IsA(node, Var))
			look_at_values(c, key, (ValuesScan *) plan, ((Var *) node)->varattno);
		else if (known_value(c, node, &value))
			vote(c, key, key->type, value);
	}
}

/* ---------- plans ---------- */

static void look_at_plan(Collector *c, Plan *plan);

static void
look_at_plans(Collector *c, List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		look_at_plan(c, lfirst(lc));
}

/* Look at a plan node and at all below it. */
static void
look_at_plan(Collector *c, Plan *plan)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_SeqScan:
			look_at_scan(c, plan, InvalidOid, NIL);
			break;
		case T_IndexScan:
			look_at_scan(c, plan, InvalidOid, ((IndexScan *) plan)->indexqualorig);
			break;
		case T_IndexOnlyScan:
			look_at_scan(c, plan, ((IndexOnlyScan *) plan)->indexid, ((IndexOnlyScan *) plan)->indexqual);
			break;
		case T_BitmapHeapScan:
			look_at_scan(c, plan, InvalidOid, ((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		case T_ModifyTable:
			if (((ModifyTable *) plan)->operation == CMD_INSERT)
				look_at_insert(c, (ModifyTable *) plan);
			break;
		case T_Append:
			look_at_plans(c, ((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			look_at_plans(c, ((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			look_at_plan(c, ((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			look_at_plans(c, ((CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
	look_at_plan(c, plan->lefttree);
	look_at_plan(c, plan->righttree);
}

/* A plan of SELECT f(1) looks at none: the first of its transaction is the first one in the function. */
static bool
looks_at_table(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		if (lfirst_node(RangeTblEntry, lc)->rtekind == RTE_RELATION)
			return true;
	}
	return false;
}

void
zen_votes_begin(QueryDesc *query, ParamListInfo params, int eflags)
{
	static LocalTransactionId last = InvalidLocalTransactionId;
	Collector	c = {.rtable = query->plannedstmt->rtable,.params = params};

	/*
	 * parallel workers stay where they are started, and so do processes that
	 * serve no client
	 */
	if (last == zen_my_lxid() || MyBackendType != B_BACKEND || MyProc == NULL ||
		(eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 || !looks_at_table(query->plannedstmt))
		return;
	last = zen_my_lxid();
	forget_stale_keys();
	look_at_plan(&c, query->plannedstmt->planTree);
	look_at_plans(&c, query->plannedstmt->subplans);
	zen_partition_begin(&c.votes);
}

void
zen_votes_init(void)
{
	register_label_provider(PROVIDER, check_label);
}
