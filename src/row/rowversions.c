/*
 * rowversions.c -- all committed versions of a row, for the indexes of a hot standby.
 *
 * An index there has an entry for each key that some snapshot may look for.  A writer that has ended between two looks
 * at its versions is no harm: the caller asks again about a row with a writer that was running.
 */
#include "row/rowversions.h"

#include "base/epoch.h"
#include "cache/spillmap.h"
#include "row/visibility.h"

static ZenRow *
next_copy(ZenRowVersions *versions)
{
	if (versions->n == versions->room)
	{
		int			room = Max(4, 2 * versions->room);

		versions->rows = versions->rows ? repalloc(versions->rows, room * sizeof(ZenRow)) :
			MemoryContextAlloc(versions->mcxt, room * sizeof(ZenRow));
		memset(versions->rows + versions->room, 0, (room - versions->room) * sizeof(ZenRow));
		for (int i = versions->room; i < room; i++)
			versions->rows[i].mcxt = versions->mcxt;
		versions->room = room;
	}
	return &versions->rows[versions->n];
}

static void
copy_chain(ZenRowVersions *versions, uint64 tidno, ZenVersion *head)
{
	versions->several = head->older != NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		switch (zen_version_state(v))
		{
			case ZEN_XID_CURRENT:
			case ZEN_XID_IN_PROGRESS:
				versions->running = v->xmin;
				continue;
			case ZEN_XID_ABORTED:
				continue;
			case ZEN_XID_COMMITTED:
				break;
		}
		if (zen_row_copy(next_copy(versions), tidno, v, NULL))
			versions->n++;
		/* nobody sees what is behind it */
		if (zen_version_flags(v) & ZEN_V_FROZEN)
			break;
	}
}

void
zen_row_versions(ZenHTable *ht, uint64 tidno, ZenRowVersions *versions)
{
	ZenSpilledChain space;
	ZenVersion *head;
	uint64		w;

	ZenAssertNotInEpoch();
	versions->n = 0;
	versions->several = false;
	versions->running = InvalidTransactionId;
	zen_epoch_enter();
	head = zen_spillmap_tid_chain(ht, tidno, &w, &space);
	if (head != NULL)
		copy_chain(versions, tidno, head);
	else if (zen_word_state(w) == ZEN_WORD_NVM &&
			 zen_row_copy_stored(next_copy(versions), tidno, zen_word_ref(w)))
		versions->n++;
	zen_epoch_leave();
}
