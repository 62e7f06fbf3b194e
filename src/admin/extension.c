/*
 * extension.c -- zen as a mere default means nothing for the tables of extensions.
 *
 * Code of extensions reads their catalogs with heap's functions, which crash on any other table.  An operator who
 * made zen the default meant tables of users.  So while a script runs, heap is the default; USING zen in the script
 * still means zen.  As it is the setting that changes, it does not matter how the script makes its tables:
 * statements, functions, DO, C code; and partitions, since 17, still follow their parents.
 */
#include "admin/extension.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"
#include "utils/syscache.h"

/* The script that runs has made a permanent table of heap. */
static bool has_heap_table = false;

int
zen_extension_begin(Node *stmt)
{
	int			nest_level;

	if (!IsA(stmt, CreateExtensionStmt) && !IsA(stmt, AlterExtensionStmt))
		return 0;
	if (strcmp(default_table_access_method, "zen") != 0)
		return 0;
	has_heap_table = false;
	nest_level = NewGUCNestLevel();
	(void) set_config_option("default_table_access_method", DEFAULT_TABLE_ACCESS_METHOD, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	Assert(nest_level > 0);
	return nest_level;
}

void
zen_extension_end(Node *stmt, int nest_level)
{
	const char *name;

	if (nest_level == 0)
		return;
	Assert(IsA(stmt, CreateExtensionStmt) || IsA(stmt, AlterExtensionStmt));
	AtEOXact_GUC(true, nest_level);
	if (!has_heap_table)
		return;
	name = IsA(stmt, CreateExtensionStmt) ? ((CreateExtensionStmt *) stmt)->extname :
		((AlterExtensionStmt *) stmt)->extname;
	ereport(NOTICE,
			(errmsg("tables of extension \"%s\" are heap tables", name),
			 errdetail("default_table_access_method is zen, which does not count in the scripts of extensions: "
					   "their code may read tables as heap's."),
			 errhint("Use ALTER TABLE ... SET ACCESS METHOD zen for tables that only SQL reads.")));
}

void
zen_extension_created(Oid relid)
{
	HeapTuple	tuple;
	Form_pg_class class;

	if (!creating_extension)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return;
	class = (Form_pg_class) GETSTRUCT(tuple);
	if ((class->relkind == RELKIND_RELATION || class->relkind == RELKIND_MATVIEW) &&
		class->relpersistence == RELPERSISTENCE_PERMANENT && class->relam == HEAP_TABLE_AM_OID)
		has_heap_table = true;
	ReleaseSysCache(tuple);
}
