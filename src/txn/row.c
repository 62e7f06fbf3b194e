/*
 * row.c -- making rows.
 *
 * A new row becomes visible to others, as uncommitted, when a TID's map word leads to it.  Changes to rows that
 * others may know are rowchange.c's.
 */
#include "txn/row.h"

#include "access/xact.h"
#include "cache/metcache.h"
#include "cache/tablestat.h"
#include "nvm/page.h"
#include "storage/procarray.h"
#include "txn/spill.h"
#include "txn/spilled.h"
#include "txn/visibility.h"
#include "txn/writeset.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* ---------- inserting ---------- */

static void
check_size(MinimalTuple tuple)
{
	if (tuple != NULL && zen_class_of(zen_tuple_size(tuple->t_len)) == ZEN_MAX_CLASSES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %u, maximum size %zu", tuple->t_len, ZEN_MAX_TUPLE)));
}

ZenVersion *
zen_row_make_version(MinimalTuple tuple, CommandId cid, uint32 flags)
{
	uint32		len = tuple ? tuple->t_len : 0;
	ZenVersion *v;

	check_size(tuple);
	v = zen_version_alloc(len);
	if (v == NULL)
	{
		zen_make_room();
		v = zen_version_alloc(len);
	}
	if (v == NULL)
		zen_arena_full_error();
	if (len > 0)
		memcpy(v->data, tuple, len);
	v->xmin = GetCurrentTransactionId();
	v->cmin = cid;
	pg_atomic_write_u32(&v->flags, flags);
	return v;
}

uint64
zen_row_insert(ZenHTable *ht, MinimalTuple tuple, CommandId cid, uint32 spec_token, bool frozen)
{
	TransactionId xid = GetCurrentTransactionId();
	ZenVersion *v;
	ZenWord    *word;
	uint64		tidno;

	(void) xid;					/* assigned before anything is shared */
	zen_spill_if_large();
	zen_writeset_reserve(1, 0);
	v = zen_row_make_version(tuple, cid, (spec_token ? ZEN_V_SPECULATIVE : 0) |
							 (frozen ? ZEN_V_FROZEN | ZEN_V_COMMITTED | ZEN_V_PENDING : 0));
	v->spec_token = spec_token;
	if (!zen_tidmap_take(ht, zen_arena_ref(v), &tidno, &word))
	{
		zen_version_free(v);
		zen_tidmap_full_error(ht);
	}
	zen_writeset_add(ht, tidno, word, v);
	return tidno;
}

/* ---------- copying ---------- */

/* The chain being copied, which nobody else knows: the end of the (sub)transaction frees it. */
static ZenVersion *chain_in_hand = NULL;

/* A private copy of one version, with its place in history but no slot. */
static ZenVersion *
clone_version(ZenVersion *v, uint64 tidno)
{
	bool		lean = (zen_version_flags(v) & ZEN_V_IN_NVM) != 0;
	int64		len = lean ? zen_tuple_len(v->slot, zen_slot_size(v->slot)) : v->len;
	TransactionId xmin = v->xmin;
	ZenVersion *copy;

	if (lean && len <= 0)
		zen_tuple_corrupted(v->slot, tidno);
	copy = zen_version_alloc((uint32) len);
	if (copy == NULL)
		return NULL;
	if (!lean)
		memcpy(copy->data, v->data, len);
	else if (!zen_tuple_read(v->slot, (MinimalTuple) copy->data, (uint32) len,
							 (zen_version_flags(v) & ZEN_V_FROZEN) ? &xmin : NULL))
	{
		zen_version_free(copy);
		zen_tuple_corrupted(v->slot, tidno);
	}
	copy->xmin = xmin;
	copy->cmin = v->cmin;
	copy->code = v->code;
	copy->depth = v->depth;
	pg_atomic_write_u32(&copy->flags, zen_version_flags(v) &
						(ZEN_V_TOMBSTONE | ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_KEY_UPDATE));
	/* the link leads nowhere here, so nobody may pass */
	if (zen_version_flags(v) & ZEN_V_FORWARD)
		zen_version_set(copy, ZEN_V_KEY_UPDATE);
	return copy;
}

void
zen_row_abandon(void)
{
	while (chain_in_hand != NULL)
	{
		ZenVersion *v = chain_in_hand;

		chain_in_hand = v->older;
		zen_version_free(v);
	}
}

/* Does every snapshot see v, so that nobody needs an older one?  *horizon: InvalidTransactionId at first. */
static bool
everyone_sees(ZenVersion *v, TransactionId *horizon)
{
	if (zen_version_flags(v) & ZEN_V_FROZEN)
		return true;
	if (v->older == NULL || zen_version_state(v) != ZEN_XID_COMMITTED)
		return false;
	if (!TransactionIdIsValid(*horizon))
		*horizon = GetOldestNonRemovableTransactionId(NULL);
	return TransactionIdPrecedes(v->xmin, *horizon);
}

/*
 * Copy a chain, aborted versions left out, down to the first version that everyone sees.  What is behind that one has only not
 * been collected yet; its toast values may have been.  False if DRAM is full.
 */
static bool
clone_chain(ZenVersion *head, uint64 tidno)
{
	ZenVersion **link = &chain_in_hand;
	TransactionId horizon = InvalidTransactionId;

	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (zen_version_state(v) == ZEN_XID_ABORTED)
			continue;
		*link = clone_version(v, tidno);
		if (*link == NULL)
			return false;
		if (everyone_sees(v, &horizon))
			break;
		link = &(*link)->older;
	}
	return true;
}

ZenVersion **
zen_row_clone(ZenHTable *from, uint64 tidno)
{
	ZenWord    *word = zen_tidmap_word(from, tidno);
	bool		done = true;
	ZenVersion *chain;
	uint64		w;

	Assert(chain_in_hand == NULL);
	if (word == NULL)
		return NULL;
	zen_row_admit(from, tidno, word);
	zen_epoch_enter();
	w = zen_word_read(word);
	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		done = clone_chain(zen_word_entry(w), tidno);
	zen_epoch_leave();
	if (!done)
		zen_arena_full_error();
	chain = chain_in_hand;
	if (chain != NULL && (zen_version_flags(chain) & ZEN_V_TOMBSTONE) &&
		((zen_version_flags(chain) & ZEN_V_FROZEN) || chain->older == NULL))
		zen_row_abandon();
	return chain_in_hand != NULL ? &chain_in_hand : NULL;
}

ZenVersion *
zen_row_reform(ZenVersion *v, MinimalTuple tuple)
{
	ZenVersion *copy;

	check_size(tuple);
	copy = zen_version_alloc(tuple->t_len);
	if (copy == NULL)
		zen_arena_full_error();
	memcpy(copy->data, tuple, tuple->t_len);
	copy->older = v->older;
	copy->xmin = v->xmin;
	copy->cmin = v->cmin;
	copy->code = v->code;
	copy->depth = v->depth;
	pg_atomic_write_u32(&copy->flags, zen_version_flags(v));
	zen_version_free(v);
	return copy;
}

void
zen_row_place(ZenHTable *to)
{
	ZenVersion *chain = chain_in_hand;
	ZenWord    *word;
	uint64		tidno;

	Assert(chain != NULL);
	(void) GetCurrentTransactionId();
	zen_spill_if_large();
	zen_writeset_reserve(1, 0);
	zen_version_set(chain, ZEN_V_PENDING);
	if (!zen_tidmap_take(to, zen_arena_ref(chain), &tidno, &word))
		zen_tidmap_full_error(to);
	chain_in_hand = NULL;
	zen_writeset_add(to, tidno, word, chain);
}

void
zen_row_complete(ZenHTable *ht, uint64 tidno, bool succeeded)
{
	ZenWord    *word = zen_tidmap_word(ht, tidno);
	uint64		w = zen_word_lock(word);
	ZenVersion *v = zen_word_entry(w);

	Assert(zen_version_flags(v) & ZEN_V_SPECULATIVE);
	if (succeeded)
		zen_version_clear(v, ZEN_V_SPECULATIVE);
	else
		zen_version_set(v, ZEN_V_ABORTED);	/* commit and abort both pop it */
	zen_word_unlock(word, w);
}
