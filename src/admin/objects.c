/*
 * objects.c -- relations and databases that are created, changed or dropped.
 *
 * - An index on a zen table becomes unlogged before it is built.
 * - A dropped relation or database takes its HTables along.
 * - A relation that bears the file number of a zen table, without being one, is not dropped, truncated or altered.
 *
 * The last is the work of tools that exchange the files of two relations by themselves, such as pg_repack.  They make
 * a copy of a table, let the two exchange their file numbers, and drop the copy, with the old rows.  They update
 * pg_class without a hook and leave relam where it is.  If the copy is a heap table, then the zen table has a file of
 * heap's, and the heap table has the number by which the pool knows the rows.  Those rows must not go with it.  When
 * relam is put right by hand, both tables have their rows back.  commands.c keeps it from coming to that.
 */
#include "admin/objects.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "admin/treehooks.h"
#include "cache/tidmap.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "storage/lmgr.h"
#include "table/treeindex.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_unlogged.h"
#include "txn/ddl.h"
#include "txn/twophase.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* ---------- relations ---------- */

void
zen_objects_created(Oid relid)
{
	if (!OidIsValid(get_table_am_oid("zen", true)))
		return;
	/* the new rows of pg_class and pg_index are not visible yet */
	CommandCounterIncrement();
	if (zen_relid_is_tree(relid))
		zen_index_borrow_classes(relid);
	else if (get_rel_relkind(relid) == RELKIND_INDEX)
		zen_treehooks_created(relid);
	if (get_rel_relkind(relid) == RELKIND_INDEX && get_rel_persistence(relid) == RELPERSISTENCE_PERMANENT &&
		zen_relid_is_zen(IndexGetRelation(relid, true)))
		zen_index_set_unlogged(relid);
}

/* Only a relation of zen waits for recovery. */
void
zen_objects_dropped(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	Relation	rel;
	ZenHTable  *ht;

	if (relkind == RELKIND_INDEX)
	{
		Oid			table = IndexGetRelation(relid, true);

		if (zen_relid_is_zen(table))
			zen_reindex_index_dropped(table);
	}
	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW && relkind != RELKIND_TOASTVALUE)
		return;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return;
	if (zen_rel_is_zen(rel))
	{
		Assert(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
		zen_gate();

		/*
		 * the rest of a COMMIT PREPARED in the table is done before it goes
		 */
		zen_twophase_resolve();
		ht = zen_ddl_find(zen_rel_locator(rel), rel->rd_backend);
		if (ht != NULL)
			zen_ddl_drop(ht);
	}
	relation_close(rel, NoLock);
}

/* ---------- files that were exchanged ---------- */

/* Could rows in the pool be taken for those of this relation, which is not a zen table? */
static bool
may_have_foreign_rows(Oid relid, Form_pg_class form)
{
	return (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW ||
			form->relkind == RELKIND_TOASTVALUE) &&
		form->relpersistence != RELPERSISTENCE_TEMP && form->relfilenode != InvalidRelFileNumber &&
		!form->relisshared && !zen_relid_is_zen(relid);
}

void
zen_objects_check_file(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		foreign;

	Assert(IsTransactionState());

	/*
	 * until the pool is recovered it is not known which of its tables are
	 * there
	 */
	if (!HeapTupleIsValid(tuple))
		return;
	foreign = pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_READY &&
		may_have_foreign_rows(relid, (Form_pg_class) GETSTRUCT(tuple)) &&
		zen_ddl_find(zen_locator_of((Form_pg_class) GETSTRUCT(tuple)), INVALID_PROC_NUMBER) != NULL;
	ReleaseSysCache(tuple);
	if (foreign)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" holds the rows of a zen table, but is none", get_rel_name(relid)),
				 errdetail("A tool has exchanged the files of two tables in pg_class, and not their access methods."),
				 errhint("Let the tables exchange relam in pg_class, too, with allow_system_table_mods = on.  Then "
						 "each has its rows again.")));
}

/* ---------- databases ---------- */

/* Heap databases come and go while recovery is under way, or has failed. */
bool
zen_objects_in_database(Oid db)
{
	if (pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY && !zen_htable_names_database(db))
		return false;
	zen_gate();
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && zen_htables[i].db == db)
			return true;
	return false;
}

void
zen_objects_database_dropped(Oid db)
{
	if (!zen_objects_in_database(db))
		return;
	zen_twophase_resolve();
	zen_ddl_drop_database(db);
	zen_tree_database_dropped(db);
}
