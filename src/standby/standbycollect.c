/*
 * standbycollect.c -- a hot standby: versions leave their chains when no snapshot needs them.
 *
 * An item of the queue is done in order, when every snapshot sees its transaction as ended: its version is frozen, and
 * all behind it go.  That may take as long as somebody holds a snapshot.
 *
 * S8: so that rows which change often meanwhile do not gather versions, an item is looked at once before that, when
 * every snapshot sees it but those of readers that have one only, of which it is known what they see.  Then a version
 * behind the item's goes if none of these readers sees it as its row's newest.
 */
#include "standby/standbycollect.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/locks.h"
#include "cache/tidmap.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "row/visibility.h"
#include "standby/standbystate.h"
#include "storage/proc.h"
#include "utils/snapmgr.h"

#define STEP		1024		/* items that the worker does under the lock */
#define MAX_HOLDERS	64			/* readers whose snapshots are told apart */
#define LOOK_BELOW	8			/* versions behind an item's */

bool		(*zen_standby_committed) (uint64 full_xid) = NULL;
bool		zen_standby_dirty = false;

/* ---------- chains ---------- */

void
zen_standby_retire(ZenVersion *v)
{
	ZenDueItem *item = zen_due_item(v);

	if (item != NULL)
		item->version = NULL;
	zen_due_set_item(v, NULL);
	zen_version_retire(v);
	zen_standby_dirty = true;
}

void
zen_standby_retire_all(ZenVersion *list)
{
	while (list != NULL)
	{
		ZenVersion *older = list->older;

		zen_standby_retire(list);
		list = older;
	}
}

/*
 * TransactionIdIsInProgress() is of no use here: the startup process has no snapshot by which it knows old xids.
 */
bool
zen_standby_writer_committed(ZenVersion *v)
{
	uint64		full_xid;

	if (zen_version_flags(v) & (ZEN_V_COMMITTED | ZEN_V_FROZEN))
		return true;
	if (zen_version_flags(v) & ZEN_V_ABORTED)
		return false;
	Assert(zen_due_item(v) != NULL);
	full_xid = zen_due_item(v)->full_xid;
	if (!zen_standby_committed(full_xid))
		return false;
	zen_version_set(v, ZEN_V_COMMITTED);
	return true;
}

/*
 * Under the word's lock: if every snapshot sees the newest version, and there is no other, the word needs none.
 * *ended: it is to be retired.
 */
static uint64
without_needless(uint64 w, ZenVersion **ended)
{
	ZenVersion *head = zen_word_entry(w);

	*ended = NULL;
	if (head->older != NULL || (zen_version_flags(head) & ZEN_V_FROZEN) == 0)
		return w;
	if (zen_version_flags(head) & ZEN_V_TOMBSTONE)
		w = zen_word_with(w, ZEN_WORD_DEAD, ZEN_FAULT(S18_TOMBSTONES_FORGOTTEN) ? 0 : head->slot);
	else if (head->slot != InvalidZenSlot)
		w = zen_word_with(w, ZEN_WORD_NVM, head->slot);
	else
		return w;
	*ended = head;
	return w;
}

void
zen_standby_unlink(ZenWord *word, ZenVersion *newer, ZenVersion *v)
{
	ZenVersion *ended = NULL;
	uint64		w = zen_word_lock(word);

	Assert(newer != NULL ? newer->older == v : zen_word_leads_to(w, v));
	if (newer != NULL)
		newer->older = v->older;
	else if (v->older != NULL)
		w = without_needless(zen_word_with_entry(w, v->older), &ended);
	else
		w = zen_word_with(w, ZEN_WORD_DEAD, 0);
	zen_word_unlock(word, w);
	zen_standby_retire(v);
	if (ended != NULL)
		zen_standby_retire(ended);
}

/* ---------- all snapshots have passed ---------- */

/* The version's writer has aborted, and its slot may still have it: SCRUB comes behind the abort record. */
static void
doubt_slot(const ZenVersion *v)
{
	if (v->slot != InvalidZenSlot && !ZEN_FAULT(S18_ABORTED_FORGOTTEN))
		zen_page_doubt(zen_slot_page(v->slot));
}

/* The item's transaction has aborted. */
static void
end_aborted(ZenDueItem *item, ZenWord *word)
{
	ZenVersion *v = item->version;

	doubt_slot(v);
	zen_version_set(v, ZEN_V_ABORTED);
	if (zen_word_leads_to(zen_word_read(word), v))
		zen_standby_unlink(word, NULL, v);
	else
	{
		/* it goes when a newer one is settled */
		zen_due_set_item(v, NULL);
		item->version = NULL;
	}
}

/* Every snapshot sees the transaction of the item as ended. */
static void
settle(ZenDueItem *item)
{
	ZenVersion *v = item->version;
	ZenVersion *cut,
			   *ended;
	ZenWord    *word;
	uint64		w;

	if (v == NULL)
		return;
	word = zen_tidmap_word(&zen_htables[item->htable], item->tidno);
	if (!zen_standby_writer_committed(v))
	{
		end_aborted(item, word);
		return;
	}
	zen_due_set_item(v, NULL);
	w = zen_word_lock(word);
	zen_version_set(v, ZEN_V_COMMITTED | ZEN_V_FROZEN);
	cut = v->older;
	v->older = NULL;
	w = without_needless(w, &ended);
	zen_word_unlock(word, w);
	zen_standby_retire_all(cut);
	if (ended != NULL)
		zen_standby_retire(ended);
}

/* ---------- old snapshots ---------- */

/* What a reader that has one snapshot sees: all that has ended before xmin, and nothing from xmax on. */
typedef struct Holder
{
	uint64		xmin;
	uint64		xmax;
} Holder;

static Holder holders[MAX_HOLDERS];
static uint32 nholders = 0;
static uint64 seen_by_others = 0;	/* every other snapshot, now and later,
									 * sees xids before this one as ended */
static uint32 looked_changes = 0;	/* zen_standby->snapshot_changes then */

void
zen_standby_note_new(void)
{
	Snapshot	snapshot = GetLatestSnapshot();

	zen_horizon.now = ReadNextFullTransactionId();
	pg_atomic_write_u64(&zen_standby->seen_by_new, U64FromFullTransactionId(zen_horizon_widen(snapshot->xmin)));
}

/* A snapshot that a process takes later is a new one: so what new ones see is asked first. */
static void
look_at_holders(void)
{
	looked_changes = zen_standby->snapshot_changes;
	seen_by_others = pg_atomic_read_u64(&zen_standby->seen_by_new);
	pg_memory_barrier();
	nholders = 0;
	for (int i = 0; i < zen_nprocs(); i++)
	{
		TransactionId xmin = ((volatile PGPROC *) GetPGProcByNumber(i))->xmin;
		TransactionId only[2];

		if (!TransactionIdIsValid(xmin))
			continue;
		if (nholders < MAX_HOLDERS && zen_standby_only_snapshot(i, &only[0], &only[1]))
		{
			holders[nholders].xmin = U64FromFullTransactionId(zen_horizon_widen(only[0]));
			holders[nholders++].xmax = U64FromFullTransactionId(zen_horizon_widen(only[1]));
		}
		else
			seen_by_others = Min(seen_by_others, U64FromFullTransactionId(zen_horizon_widen(xmin)));
	}
}

void
zen_standby_look(void)
{
	(void) zen_horizon_look();
	look_at_holders();
	if (ZEN_FAULT(S8_CUT_EARLY))
		zen_horizon.passed = FullTransactionIdFromU64(U64FromFullTransactionId(zen_horizon.now) - 1);
}

/* Does a holder see v as its row's newest version, which `newer` has superseded?  Both have ended. */
static bool
is_held(const ZenVersion *v, const ZenVersion *newer)
{
	uint64		from = zen_due_item(v) != NULL ? zen_due_item(v)->full_xid : 0;
	uint64		until = zen_due_item(newer) != NULL ? zen_due_item(newer)->full_xid : 0;

	for (uint32 i = 0; i < nholders; i++)
		if (from < holders[i].xmax && until >= holders[i].xmin && !ZEN_FAULT(S8_CUT_HELD))
			return true;
	return false;
}

/* The item's transaction has ended for all but the holders. */
static void
cut_behind(ZenDueItem *item)
{
	ZenVersion *newer = item->version;
	ZenWord    *word;
	uint32		n = 0;

	if (newer == NULL)
		return;
	word = zen_tidmap_word(&zen_htables[item->htable], item->tidno);
	if (!zen_standby_writer_committed(newer))
	{
		end_aborted(item, word);
		return;
	}
	for (ZenVersion *v = newer->older; v != NULL && n < LOOK_BELOW; v = newer->older, n++)
	{
		/* an aborted one is nobody's, and supersedes nothing */
		if (!zen_standby_writer_committed(v))
			doubt_slot(v);
		else if (is_held(v, newer))
		{
			newer = v;
			continue;
		}
		if (zen_due_item(v) != NULL)
			zen_due_note_empty();
		zen_standby_unlink(word, newer, v);
		zen_standby->cut++;
	}
}

/* ---------- steps ---------- */

bool
zen_standby_settle(uint32 n)
{
	ZenDueItem *item;
	uint32		done = 0;

	if (ZEN_FAULT(S6_UNSETTLED) || ZEN_FAULT(S6_FORGOTTEN))
		return false;
	for (; done < n && (item = zen_due_oldest()) != NULL; done++)
	{
		bool		was_empty = item->version == NULL;

		if (item->full_xid > U64FromFullTransactionId(zen_horizon.passed))
			break;
		settle(item);
		zen_due_remove(was_empty);
	}
	if (nholders == 0)
		return done == n;
	/* a holder reads by another snapshot, too */
	if (looked_changes != zen_standby->snapshot_changes)
		look_at_holders();
	for (done = 0; done < n && (item = zen_due_at_mark()) != NULL && item->full_xid < seen_by_others; done++)
	{
		pg_atomic_write_u64(&zen_standby->cut_until, Max(pg_atomic_read_u64(&zen_standby->cut_until), item->full_xid));
		cut_behind(item);
		zen_due_move_mark();
	}
	zen_due_compact();
	return done == n;
}

void
zen_standby_settle_due(void)
{
	zen_standby_look();
	while (zen_standby_settle(STEP))
		;
	zen_epoch_wait();
	zen_epoch_flush();
	zen_standby_dirty = false;
}

bool
zen_standby_collect(void)
{
	bool		more = false;

	if (zen_standby->due.pending == 0 || !LWLockConditionalAcquire(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE))
		return false;
	if (zen_standby_state() == ZEN_STANDBY_LIVE)
	{
		zen_standby_look();
		more = zen_standby_settle(STEP);
		/* redo does not know what this process has taken out */
		if (zen_standby_dirty)
			zen_epoch_wait();
		zen_standby_dirty = false;
	}
	LWLockRelease(zen_lock(ZEN_LOCK_STANDBY));
	zen_epoch_flush();
	return more;
}
