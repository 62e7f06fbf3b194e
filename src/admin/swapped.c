/*
 * swapped.c -- tools that exchange the files of two relations in pg_class by themselves.
 *
 * pg_repack and its kind make a copy of a table, let the two exchange their file numbers, and drop the copy, with the
 * old rows.  They update pg_class without a hook and leave relam where it is.  If the copy is a heap table, then the
 * zen table has a file of heap's, and the heap table has the number by which the pool knows the rows.  Those rows
 * must not go with it: the heap table is not dropped, truncated or altered before relam is put right by hand.  That
 * gives both tables their rows back.
 *
 * It does not come to that with pg_repack: copies that it makes of zen tables are zen tables.
 */
#include "admin/swapped.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "table/zenam_rel.h"
#include "txn/ddl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Could rows in the pool be taken for those of this relation, which is none of zen's? */
static bool
may_have_foreign_rows(Oid relid, Form_pg_class form)
{
	return (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW ||
			form->relkind == RELKIND_TOASTVALUE) &&
		form->relpersistence != RELPERSISTENCE_TEMP && form->relfilenode != InvalidRelFileNumber &&
		!form->relisshared && !zen_relid_is_zen(relid);
}

void
zen_swapped_check(Oid relid)
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

bool
zen_swapped_is_copy(RangeVar *rel)
{
	Oid			relid;
	int			end = 0;

	return rel->schemaname != NULL && strcmp(rel->schemaname, "repack") == 0 &&
		sscanf(rel->relname, "table_%u%n", &relid, &end) == 1 && rel->relname[end] == '\0' && zen_relid_is_zen(relid);
}
