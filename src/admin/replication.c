/*
 * replication.c -- logical replication does not carry zen tables: say so.
 *
 * Logical decoding reads the WAL, and zen tables write none.  A publication may name them all the same (it may be for all
 * tables), so that is a warning, given where PostgreSQL does not warn itself that nothing is decoded (wal_level).  The
 * first copy to a subscriber would make a table look replicated that never changes again, so that is an error.
 */
#include "base/compat.h"

#include "admin/replication.h"

#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_publication.h"
#include "replication/walsender.h"
#include "table/zenam.h"
#include "utils/lsyscache.h"

void
zen_replication_check_copy(CopyStmt *stmt)
{
	Oid			relid;

	if (!am_walsender || stmt->is_from || stmt->relation == NULL)
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (OidIsValid(relid) && zen_relid_is_zen(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zen table \"%s\" cannot be replicated", stmt->relation->relname),
				 errdetail("Logical replication reads the write-ahead log, and zen tables are not in it."),
				 errhint("Take it out of the publication, or use ALTER TABLE ... SET ACCESS METHOD heap.")));
}

void
zen_replication_check_publication(const char *name)
{
	Publication *pub;
	List	   *relids;
	ListCell   *lc;

	if (wal_level < WAL_LEVEL_LOGICAL)
		return;
	pub = GetPublicationByName(name, true);
	if (pub == NULL)
		return;
	if (pub->alltables)
		relids = GetAllTablesPublicationRelations(pub->pubviaroot);
	else
		relids = list_concat(GetPublicationRelations(pub->oid, PUBLICATION_PART_LEAF),
							 GetAllSchemaPublicationRelations(pub->oid, PUBLICATION_PART_LEAF));
	foreach(lc, relids)
	{
		if (!zen_relid_is_zen(lfirst_oid(lc)))
			continue;
		ereport(WARNING,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("publication \"%s\" has zen tables, whose changes are not sent", name),
				 errdetail("One of them is \"%s\".  Logical replication reads the write-ahead log, and zen tables are not in it.",
						   get_rel_name(lfirst_oid(lc))),
				 errhint("Use heap for tables that are to be replicated.")));
		break;
	}
	list_free(relids);
}
