/*
 * bulkinsert.h -- rows of CREATE TABLE AS, REFRESH MATERIALIZED VIEW and table rewrites are inserted together.
 *
 * PostgreSQL hands them over one by one.  As many as a block has go into the table at once, as rows of COPY do.  They
 * wait in this process until then.
 */
#ifndef ZEN_TABLE_BULKINSERT_H
#define ZEN_TABLE_BULKINSERT_H

#include "base/compat.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"

/*
 * zen_bulk_insert -- take a row that may wait; false if it may not, and the caller inserts it.  Called for rows that
 * come with a BulkInsertState.
 *
 * A row that waits has no TID.  May insert the rows that wait, and throw what that throws.
 */
extern bool zen_bulk_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options);

/* zen_bulk_finish -- no more rows come: insert those that wait. */
extern void zen_bulk_finish(Relation rel);

/* The table whose rows may wait, or InvalidOid; its owner is bulkinsert.c. */
extern Oid	zen_bulk_relid;

/*
 * zen_bulk_before_read -- insert the rows of a table that wait, before this transaction reads the table.
 *
 * Throws ERRCODE_OBJECT_IN_USE in a subtransaction of the one that inserts: its rollback would take them back.
 */
extern void zen_bulk_insert_waiting(Relation rel);

static inline void
zen_bulk_before_read(Relation rel)
{
	if (unlikely(OidIsValid(zen_bulk_relid)) && zen_bulk_relid == RelationGetRelid(rel))
		zen_bulk_insert_waiting(rel);
}

/* zen_bulk_event, zen_bulk_subevent -- transactions and subtransactions end. */
extern void zen_bulk_event(XactEvent event);
extern void zen_bulk_subevent(SubXactEvent event, SubTransactionId subxact);

#endif							/* ZEN_TABLE_BULKINSERT_H */
