/*
 * treeindex.c -- which indexes are zentree's, and what their rows of pg_index say.
 *
 * Operator classes of zentree are copies of those of btree (index/zentree.c).  CREATE INDEX finds them by name.
 * Then the index's row of pg_index is changed to name btree's, with the same functions.  So pg_depend says that it
 * depends on these, and on the access method zentree as long as it is a tree.
 */
#include "table/treeindex.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "table/ownxact.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

bool
zen_index_is_tree(Relation index)
{
	return index->rd_rel->relam == get_index_am_oid("zentree", true);
}

bool
zen_index_is_like_btree(Relation index)
{
	return index->rd_rel->relam == BTREE_AM_OID || zen_index_is_tree(index);
}

bool
zen_relid_is_tree(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	bool		is_tree;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	is_tree = (form->relkind == RELKIND_INDEX || form->relkind == RELKIND_PARTITIONED_INDEX) &&
		OidIsValid(form->relam) && form->relam == get_index_am_oid("zentree", true);
	ReleaseSysCache(tuple);
	return is_tree;
}

bool
zen_index_can_stand_in(Relation index)
{
	return index->rd_index->indisvalid && index->rd_rel->relkind == RELKIND_INDEX && zen_index_is_like_btree(index);
}

bool
zen_index_calls_users(Relation index)
{
	HeapTuple	row = index->rd_indextuple;
	bool		result = !heap_attisnull(row, Anum_pg_index_indexprs, NULL) ||
	!heap_attisnull(row, Anum_pg_index_indpred, NULL);

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		result |= index->rd_opfamily[i] >= FirstNormalObjectId;
	return result;
}

/* The class of btree that a class of zentree is a copy of; the class itself if it is btree's. */
static Oid
original(Oid class)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(class));
	Form_pg_opclass form;
	Oid			result = class;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", class);
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	if (form->opcmethod != BTREE_AM_OID)
		result = GetSysCacheOid3(CLAAMNAMENSP, Anum_pg_opclass_oid, ObjectIdGetDatum(BTREE_AM_OID),
								 NameGetDatum(&form->opcname), ObjectIdGetDatum(form->opcnamespace));
	ReleaseSysCache(tuple);
	return OidIsValid(result) ? result : class;
}

bool
zen_index_lacks_class(Oid type)
{
	Oid			wanted = GetDefaultOpClass(type, BTREE_AM_OID);
	Oid			class = GetDefaultOpClass(type, get_index_am_oid("zentree", false));

	return OidIsValid(wanted) && (!OidIsValid(class) || original(class) != wanted);
}

/* Is a class the one that its access method takes for a type by default, and the type's own? */
static bool
is_default_of(Oid class, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(class));
	Form_pg_opclass form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", class);
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	result = form->opcdefault && form->opcintype == getBaseType(type);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * For a type of an extension, zentree may have no class while btree has one.  Then CREATE INDEX would take the class of
 * a type to which this one is binary-coercible, as text for citext, with another equality.
 */
static void
check_class(Oid indexoid, int column, Oid class)
{
	Oid			type = get_atttype(indexoid, (AttrNumber) (column + 1));

	/* mostly so, and the look for a type's default class is a long one */
	if (is_default_of(original(class), type))
		return;
	if (zen_index_lacks_class(type) && class == GetDefaultOpClass(type, get_index_am_oid("zentree", false)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("access method zentree has no operator class that agrees with btree's for type %s",
						format_type_extended(type, -1, FORMAT_TYPE_FORCE_QUALIFY)),
				 errhint("Have a superuser call zen_copy_operator_classes(), or make a btree.")));
}

/* This transaction's relcache entry was made with the classes that the index had. */
static void
mend_relcache(Oid indexoid, const oidvector *classes)
{
	Relation	index = RelationIdGetRelation(indexoid);

	if (index == NULL)
		return;
	for (int i = 0; i < classes->dim1 && index->rd_opfamily != NULL; i++)
		index->rd_opfamily[i] = get_opclass_family(classes->values[i]);
	RelationClose(index);
}

/* The index depends on the access method as long as it is a tree; on classes it depends in any case. */
static void
depend_on_method(Oid indexoid, bool is_tree)
{
	ObjectAddress index,
				method;

	ObjectAddressSet(index, RelationRelationId, indexoid);
	ObjectAddressSet(method, AccessMethodRelationId, get_index_am_oid("zentree", false));
	(void) deleteDependencyRecordsForSpecific(RelationRelationId, indexoid, DEPENDENCY_NORMAL,
											  AccessMethodRelationId, method.objectId);
	if (is_tree)
		recordDependencyOn(&index, &method, DEPENDENCY_NORMAL);
}

/* Refuse a unique tree of a partition where PostgreSQL cannot use it. */
static void
check_partition(Oid indexoid)
{
	Relation	index = index_open(indexoid, NoLock);

	if (ZEN_CONFLICT_WANTS_BTREE && index->rd_index->indisunique &&
		get_rel_relispartition(index->rd_index->indrelid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method zentree does not support unique indexes of partitions before PostgreSQL 18"),
				 errhint("Make a btree.")));
	index_close(index, NoLock);
}

void
zen_index_borrow_classes(Oid indexoid)
{
	Relation	pg_index;
	HeapTuple	tuple;
	oidvector  *classes;
	bool		isnull;
	List	   *borrowed = NIL;

	check_partition(indexoid);
	pg_index = table_open(IndexRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexoid);
	/* they are changed in the tuple, as all classes have the same width */
	classes = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass, &isnull));
	for (int i = 0; i < classes->dim1; i++)
	{
		Oid			class = original(classes->values[i]);

		check_class(indexoid, i, classes->values[i]);
		if (class != classes->values[i] && !list_member_oid(borrowed, class))
		{
			(void) changeDependencyFor(RelationRelationId, indexoid, OperatorClassRelationId,
									   classes->values[i], class);
			borrowed = lappend_oid(borrowed, class);
		}
		classes->values[i] = class;
	}
	if (borrowed != NIL)
		CatalogTupleUpdate(pg_index, &tuple->t_self, tuple);
	table_close(pg_index, RowExclusiveLock);
	depend_on_method(indexoid, true);
	CommandCounterIncrement();
	if (borrowed != NIL)
		mend_relcache(indexoid, classes);
	heap_freetuple(tuple);
}

/*
 * Up to 17 PostgreSQL looks at rd_rel->relam of each unique index and takes btree only.  So the relcache says btree
 * at that moment: an invalidation that comes at any lock or look at a catalog would have it say zentree again.
 */
static void
find_operators(Relation index, IndexInfo *info)
{
	Oid			am = index->rd_rel->relam;

	PG_TRY();
	{
		index->rd_rel->relam = BTREE_AM_OID;
		BuildSpeculativeIndexInfo(index, info);
	}
	PG_FINALLY();
	{
		index->rd_rel->relam = am;
	}
	PG_END_TRY();
}

static bool
has_unique_tree(Relation rel)
{
	bool		result = false;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), RowExclusiveLock);

		result |= index->rd_index->indisunique && zen_index_is_tree(index);
		index_close(index, RowExclusiveLock);
	}
	return result;
}

void
zen_index_open_for_conflict(ResultRelInfo *target)
{
	Relation	rel = target->ri_RelationDesc;

	if (!ZEN_CONFLICT_WANTS_BTREE || target->ri_IndexRelationDescs != NULL ||
		rel->rd_rel->relkind != RELKIND_RELATION || !has_unique_tree(rel))
		return;
	ExecOpenIndices(target, false);
	for (int i = 0; i < target->ri_NumIndices; i++)
		if (target->ri_IndexRelationInfo[i]->ii_Unique &&
			!target->ri_IndexRelationDescs[i]->rd_index->indisexclusion)
			find_operators(target->ri_IndexRelationDescs[i], target->ri_IndexRelationInfo[i]);
}

void
zen_index_build_again(Oid indexoid)
{
	ReindexParams params = {0};
	bool		pushed;

	CommandCounterIncrement();

	/* VACUUM leaves no snapshot, and a parallel build cannot take the first */
	pushed = zen_own_snapshot();
	zen_reindex_index(indexoid, RELPERSISTENCE_UNLOGGED, &params);
	if (pushed)
		PopActiveSnapshot();
}

/* The catalog's row alone; the classes are btree's in either case. */
static void
set_access_method(Oid indexoid, Oid am)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(indexoid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexoid);
	((Form_pg_class) GETSTRUCT(tuple))->relam = am;
	CatalogTupleUpdate(pg_class, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);
	depend_on_method(indexoid, am != BTREE_AM_OID);
	CommandCounterIncrement();
}

/* The trees of a table, which the caller has locked, or those that are unique. */
static List *
trees_of(Oid relid, bool unique)
{
	Relation	rel = table_open(relid, NoLock);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if ((index->rd_index->indisunique || !unique) && zen_index_is_tree(index))
			result = lappend_oid(result, RelationGetRelid(index));
		index_close(index, NoLock);
	}
	table_close(rel, NoLock);
	return result;
}

/*
 * PostgreSQL keeps the relcache entry of an index with files of this transaction, with the access method that it had.
 * So it is told the new one here.  A rollback to a savepoint would not take that back.
 */
static void
mend_access_method(Oid indexoid)
{
	Relation	index = index_open(indexoid, NoLock);
	SubTransactionId since = index->rd_createSubid;

	if (since == InvalidSubTransactionId)
		since = ZEN_NEW_LOCATOR_SUBID(index);
	if (since != InvalidSubTransactionId && since != GetCurrentSubTransactionId())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" of this transaction cannot become a btree after a savepoint",
						RelationGetRelationName(index)),
				 errhint("Run the command before the savepoint, or in another transaction.")));
	if (since != InvalidSubTransactionId)
		*index->rd_indam = *GetIndexAmRoutineByAmId(BTREE_AM_OID, false);
	Assert(index->rd_rel->relam == BTREE_AM_OID && index->rd_indam->ambuild == GetIndexAmRoutineByAmId(BTREE_AM_OID,
																									   false)->ambuild);
	index_close(index, NoLock);
}

/* Make a tree a btree, and build it.  The caller has locked its table against all others. */
static void
make_btree(Oid indexoid)
{
	LockRelationOid(indexoid, AccessExclusiveLock);
	set_access_method(indexoid, BTREE_AM_OID);
	mend_access_method(indexoid);
	zen_index_build_again(indexoid);
}

/* The trees of a table, all or those that are unique, which become btrees: the caller tells of each. */
static List *
trees_to_leave(Oid relid, bool unique)
{
	Relation	rel = table_open(relid, NoLock);

	/* a cursor would go on with an index as it was */
	CheckTableNotInUse(rel, "ALTER TABLE");
	table_close(rel, NoLock);
	return trees_of(relid, unique);
}

void
zen_index_fit_partition(Oid whole, Oid partition)
{
	ListCell   *lc;

	/* the core will say what is wrong with others */
	if (get_rel_relkind(whole) != RELKIND_PARTITIONED_TABLE || get_rel_relkind(partition) != RELKIND_RELATION ||
		get_rel_relispartition(partition) || !zen_is_owner(whole) || !zen_is_owner(partition))
		return;
	LockRelationOid(whole, AccessShareLock);
	LockRelationOid(partition, AccessExclusiveLock);
	if (trees_of(whole, true) != NIL)
		return;
	foreach(lc, trees_to_leave(partition, true))
	{
		ereport(NOTICE,
				(errmsg("index \"%s\" becomes a btree, as unique indexes of partitioned table \"%s\" are",
						get_rel_name(lfirst_oid(lc)), get_rel_name(whole))));
		make_btree(lfirst_oid(lc));
	}
}

void
zen_index_leave_zen(Oid relid)
{
	ListCell   *lc;

	/* the core will say what is wrong */
	if (!zen_is_owner(relid))
		return;
	LockRelationOid(relid, AccessExclusiveLock);
	foreach(lc, trees_to_leave(relid, false))
	{
		ereport(NOTICE,
				(errmsg("index \"%s\" becomes a btree, as table \"%s\" is no longer zen's",
						get_rel_name(lfirst_oid(lc)), get_rel_name(relid))));
		make_btree(lfirst_oid(lc));
	}
}

void
zen_index_make_tree(Relation index)
{
	Oid			am = get_index_am_oid("zentree", false);

	Assert(index->rd_rel->relam == BTREE_AM_OID && index->rd_createSubid != InvalidSubTransactionId);
	set_access_method(RelationGetRelid(index), am);
	/* a relcache entry that is in use keeps its access method */
	*index->rd_indam = *GetIndexAmRoutineByAmId(am, false);
}
