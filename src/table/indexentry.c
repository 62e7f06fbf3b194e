/*
 * indexentry.c -- the entry that an index has for a row of a zen table.
 *
 * The executor forms entries of rows that it writes.  Index builds, their validation and zen_verify() form them here:
 * from the row in a slot, by the predicate and the expressions of the index.
 */
#include "table/indexentry.h"

#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "utils/memutils.h"

void
zen_indexentry_begin(ZenIndexEntry *e, Relation table, IndexInfo *info)
{
	e->table = table;
	e->info = info;
	e->estate = CreateExecutorState();
	e->econtext = GetPerTupleExprContext(e->estate);
	e->slot = table_slot_create(table, NULL);
	e->econtext->ecxt_scantuple = e->slot;
	e->predicate = ExecPrepareQual(info->ii_Predicate, e->estate);
}

bool
zen_indexentry_is_wanted(ZenIndexEntry *e)
{
	Assert(!TTS_EMPTY(e->slot));
	Assert(e->econtext->ecxt_scantuple == e->slot);
	MemoryContextReset(e->econtext->ecxt_per_tuple_memory);
	return e->predicate == NULL || ExecQual(e->predicate, e->econtext);
}

void
zen_indexentry_form(ZenIndexEntry *e)
{
	Assert(!TTS_EMPTY(e->slot));
	FormIndexDatum(e->info, e->slot, e->estate, e->values, e->isnull);
}

void
zen_indexentry_end(ZenIndexEntry *e)
{
	ExecDropSingleTupleTableSlot(e->slot);
	FreeExecutorState(e->estate);
	/* they were in the executor's state */
	e->info->ii_ExpressionsState = NIL;
	e->info->ii_PredicateState = NULL;
}
