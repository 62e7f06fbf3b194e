/*
 * ownxact.c -- work in a transaction, or with a snapshot, of its own.
 */
#include "table/ownxact.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

bool
zen_own_snapshot(void)
{
	if (ActiveSnapshotSet())
		return false;
	Assert(IsTransactionState());
	PushActiveSnapshot(GetTransactionSnapshot());
	return true;
}

void
zen_own_transaction(void (*work) (void *), void *arg, ErrorData **error)
{
	MemoryContext context = CurrentMemoryContext;

	Assert(!IsTransactionState());
	*error = NULL;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PG_TRY();
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		work(arg);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	Assert(!IsTransactionState());
	MemoryContextSwitchTo(context);
}
