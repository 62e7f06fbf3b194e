/*
 * deltas.c -- which rows of a transaction are written as what has changed.
 *
 * The conditions, and why the base stays, are in src/row/README, "Versions that hold only what changed".
 */
#include "txn/deltas.h"

#include "base/fault.h"
#include "base/guc.h"
#include "nvm/slotread.h"
#include "utils/memutils.h"

#define MAX_BYTES	(16 * 1024 * 1024)	/* of deltas of one transaction: the
										 * others of its rows are written
										 * whole */

ZenDelta  **zen_my_deltas = NULL;

static uint32 ndeltas = 0;
static uint32 capacity = 0;
static Size bytes_used = 0;
static MemoryContext deltas_context = NULL;

/* Those of the last transaction go. */
static void
forget_deltas(void)
{
	if (deltas_context == NULL)
		deltas_context = AllocSetContextCreate(TopMemoryContext, "zen deltas", ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(deltas_context);
	zen_my_deltas = NULL;
	ndeltas = capacity = 0;
	bytes_used = 0;
}

/* Room for one more; it takes the numbers from 1 on. */
static void
reserve_delta(void)
{
	if (ndeltas + 1 < capacity)
		return;
	capacity = Max(64, 2 * capacity);
	zen_my_deltas = zen_my_deltas == NULL ? MemoryContextAlloc(deltas_context, capacity * sizeof(ZenDelta *)) :
		repalloc_huge(zen_my_deltas, capacity * sizeof(ZenDelta *));
}

/*
 * The version on which a new one may lean, which is whole and has committed; InvalidZenSlot: there is none.
 *
 * Below the versions of this transaction, which have no slots yet, is the one that it has found.
 */
static ZenSlot
find_base(const ZenVersion *v)
{
	const uint32 asked = ZEN_V_COMMITTED | ZEN_V_ABORTED | ZEN_V_PENDING | ZEN_V_TOMBSTONE | ZEN_V_SPILLED;
	ZenVersion *old = v->older;
	ZenSlot		base;

	ZenAssertInEpoch();
	while (old != NULL && old->slot == InvalidZenSlot)
		old = old->older;
	if (old == NULL || (zen_version_flags(old) & asked) != ZEN_V_COMMITTED)
		return InvalidZenSlot;
	base = zen_delta_base(old->slot);
	if (base == InvalidZenSlot)
		base = old->slot;
	return zen_slot_is_sound(base) ? base : InvalidZenSlot;
}

/* Is it the newest version of a row that is wide enough? */
static inline bool
may_be_delta(const ZenWrite *w)
{
	return w->version != NULL && w->version->len >= ZEN_DELTA_MIN && w->version->older != NULL &&
		(zen_version_flags(w->version) & (ZEN_V_ABORTED | ZEN_V_SPECULATIVE)) == 0 &&
		zen_word_leads_to(zen_word_read(w->word), w->version);
}

/* The delta of a write; false if it is to be written whole. */
static bool
make_delta(const ZenWrite *w, ZenDelta *to)
{
	const MinimalTupleData *tuple = zen_version_tuple(w->version);
	ZenSlot		base;
	bool		made;

	zen_epoch_enter();
	base = find_base(w->version);
	made = base != InvalidZenSlot && zen_delta_make(base, tuple, to);
	zen_epoch_leave();
	return made;
}

/* A transaction that has spilled writes whole versions: they may get another Tx-CTS. */
void
zen_deltas_make_all(ZenWriteSet *ws)
{
	static union
	{
		ZenDelta	delta;
		char		bytes[ZEN_DELTA_MAX_BYTES];
	}			space;

	forget_deltas();
	for (ZenWrite *w = ws->writes; ws->nblocks == 0 && w < ws->writes + ws->nwrites; w++)
	{
		w->delta = 0;
		if (!may_be_delta(w) || bytes_used > MAX_BYTES || !make_delta(w, &space.delta))
			continue;
		reserve_delta();
		zen_my_deltas[ndeltas + 1] = MemoryContextAlloc(deltas_context, space.delta.bytes);
		memcpy(zen_my_deltas[++ndeltas], &space, space.delta.bytes);
		bytes_used += space.delta.bytes;
		w->delta = ndeltas;
	}
}
