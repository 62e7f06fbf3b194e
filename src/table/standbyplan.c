/*
 * standbyplan.c -- plans on a hot standby: zen tables have no indexes there.
 *
 * Their indexes are unlogged, and the planner would open files that are not there.  It asks the table for its size,
 * then looks in the relcache entry if there are indexes, and calls get_relation_info_hook at the end.  From the first
 * to the last of these steps the entry says that there are none.  No other process sees that, and in this one nobody
 * else looks in between, as the relation is being planned.
 *
 * After an error the entry is set right while the planner still has the relation open.  So the entry is never left as
 * it is when the server is promoted, and the session inserts into the table.
 */
#include "table/standbyplan.h"

#include "nodes/pg_list.h"
#include "utils/memutils.h"

static List *hidden = NIL;		/* Relations, in TopMemoryContext */
static int	depth = 0;			/* of plans that are made within plans */

static void
show_last(void)
{
	Relation	rel = llast(hidden);

	rel->rd_rel->relhasindex = true;
	hidden = list_delete_last(hidden);
}

int
zen_standbyplan_begin(void)
{
	depth++;
	return list_length(hidden);
}

void
zen_standbyplan_end(int begun)
{
	Assert(depth > 0 && list_length(hidden) >= begun);
	depth--;
	while (list_length(hidden) > begun)
		show_last();
}

void
zen_standbyplan_hide(Relation rel)
{
	MemoryContext old;

	if (depth == 0 || !rel->rd_rel->relhasindex)
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	hidden = lappend(hidden, rel);
	MemoryContextSwitchTo(old);
	rel->rd_rel->relhasindex = false;
}

void
zen_standbyplan_show(Oid relid)
{
	if (hidden != NIL && RelationGetRelid((Relation) llast(hidden)) == relid)
		show_last();
}
