/*
 * bulkinsert.c -- rows that PostgreSQL inserts one by one, and that may wait for each other.
 *
 * Rows may wait if nobody asks for their TIDs: the caller says that it makes a new table (TABLE_INSERT_SKIP_FSM, with a
 * BulkInsertState), and the table has no index and no trigger.  Such a caller ends with table_finish_bulk_insert().
 *
 * No other transaction sees the rows before this one ends.  This one sees them because a scan of the table inserts
 * them first (zen_bulk_before_read).  src/table/README, "Rows that wait", has the argument.
 */
#include "table/bulkinsert.h"

#include "access/relation.h"
#include "base/epoch.h"
#include "base/ownwal.h"
#include "pgstat.h"
#include "row/rowmake.h"
#include "table/zenam_change.h"
#include "table/zenam_stream.h"
#include "table/zenam_toast.h"
#include "utils/memutils.h"

Oid			zen_bulk_relid = InvalidOid;

/* Rows of zen_bulk_relid, all of one command. */
static struct
{
	int			nest_level;		/* of the (sub)transaction that inserts */
	CommandId	cid;
	int			options;
	uint32		n;
	HeapTuple	rows[ZEN_INSERT_ROWS];	/* as they are to be stored */
	MemoryContext mcxt;			/* of these; lives as long as the process */
}			waiting;

/* Forget the table, with rows that wait. */
static void
forget(void)
{
	zen_bulk_relid = InvalidOid;
	waiting.n = 0;
	if (waiting.mcxt != NULL)
		MemoryContextReset(waiting.mcxt);
}

/* The rows leave even if that fails: the transaction cannot commit then. */
static void
insert_waiting(Relation rel)
{
	uint32		n = waiting.n;

	Assert(RelationGetRelid(rel) == zen_bulk_relid);
	Assert(waiting.nest_level == GetCurrentTransactionNestLevel());
	waiting.n = 0;
	if (n == 0)
		return;
	zenam_change_insert_many(rel, waiting.rows, n, waiting.cid, waiting.options, NULL);
	if (zenam_stream_logs(rel))
		zenam_stream_insert(rel, waiting.rows, n);
	MemoryContextReset(waiting.mcxt);
}

/* May the rows of a caller with these options wait? */
static bool
may_wait(Relation rel, int options)
{
	return (options & TABLE_INSERT_SKIP_FSM) && !rel->rd_rel->relhasindex && rel->trigdesc == NULL &&
		(!OidIsValid(zen_bulk_relid) ||
		 (zen_bulk_relid == RelationGetRelid(rel) && waiting.nest_level == GetCurrentTransactionNestLevel()));
}

static void
begin(Relation rel)
{
	Assert(waiting.n == 0);
	/* the rows may be inserted when a parallel scan of the table begins */
	(void) zen_xid_assign();
	if (waiting.mcxt == NULL)
		waiting.mcxt = AllocSetContextCreate(TopMemoryContext, "zen rows that wait", ALLOCSET_DEFAULT_SIZES);
	waiting.nest_level = GetCurrentTransactionNestLevel();
	zen_bulk_relid = RelationGetRelid(rel);
}

/* The row as it is to be stored; long values go into the toast table at once. */
static HeapTuple
stored_row(Relation rel, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(waiting.mcxt);
	HeapTuple	row = ExecCopySlotHeapTuple(slot);

	row->t_tableOid = RelationGetRelid(rel);
	if (zen_toast_needed(rel, row))
		row = zen_toast_insert_or_update(rel, row, NULL);
	MemoryContextSwitchTo(old);
	return row;
}

bool
zen_bulk_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options)
{
	ZenAssertNotInEpoch();
	if (!may_wait(rel, options))
		return false;
	zen_check_change(rel);
	if (!OidIsValid(zen_bulk_relid))
		begin(rel);
	else if (waiting.n == ZEN_INSERT_ROWS || waiting.cid != cid || waiting.options != options)
		insert_waiting(rel);
	waiting.cid = cid;
	waiting.options = options;
	waiting.rows[waiting.n] = stored_row(rel, slot);
	waiting.n++;
	slot->tts_tableOid = RelationGetRelid(rel);
	ItemPointerSetInvalid(&slot->tts_tid);
	pgstat_count_heap_insert(rel, 1);
	return true;
}

void
zen_bulk_insert_waiting(Relation rel)
{
	if (waiting.nest_level != GetCurrentTransactionNestLevel())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot read table \"%s\" in a subtransaction while it is being filled",
						RelationGetRelationName(rel)),
				 errhint("Read it without a savepoint or an exception block, or when it is complete.")));
	insert_waiting(rel);
}

void
zen_bulk_finish(Relation rel)
{
	if (zen_bulk_relid != RelationGetRelid(rel) || waiting.nest_level != GetCurrentTransactionNestLevel())
		return;
	insert_waiting(rel);
	forget();
}

/* ---------- ends ---------- */

/* A caller that has not finished its insertion; PostgreSQL's own do.  Its rows must not get lost without a word. */
static void
finish_for_caller(void)
{
	if (waiting.n > 0)
	{
		Relation	rel = try_relation_open(zen_bulk_relid, NoLock);

		if (rel == NULL)
			elog(ERROR, "%u rows wait for table %u, which has gone without table_finish_bulk_insert()",
				 waiting.n, zen_bulk_relid);
		insert_waiting(rel);
		relation_close(rel, NoLock);
	}
	forget();
}

void
zen_bulk_event(XactEvent event)
{
	if (!OidIsValid(zen_bulk_relid))
		return;
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		finish_for_caller();
	else if (event == XACT_EVENT_ABORT)
		forget();
}

void
zen_bulk_subevent(SubXactEvent event, SubTransactionId subxact)
{
	if (!OidIsValid(zen_bulk_relid) || waiting.nest_level < GetCurrentTransactionNestLevel())
		return;
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
		finish_for_caller();
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		forget();
}
