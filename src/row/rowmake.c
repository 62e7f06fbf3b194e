/*
 * rowmake.c -- making rows.
 *
 * Other processes see a new row, as uncommitted, when a TID's map word leads to it.  Rows that other processes may
 * know are changed by rowchange.c.
 *
 * - A version has the xid of its writer, its data and its flags before it is published.
 * - Room in the write set is reserved before a TID is taken, so no error can part the row from its entry there.
 * - A chain that is copied to another table is private to this process until it is placed.  So are rows that are
 *   inserted together, until they have TIDs.  After an error the end of the (sub)transaction frees them.
 */
#include "row/rowmake.h"

#include "access/xact.h"
#include "base/ownwal.h"
#include "cache/damage.h"
#include "cache/spillmap.h"
#include "cache/tablestat.h"
#include "row/horizon.h"
#include "nvm/page.h"
#include "row/rowadmit.h"
#include "row/visibility.h"
#include "row/writeset.h"
#include "storage/procarray.h"
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

static ZenVersion *
alloc_version(uint32 len)
{
	ZenVersion *v;
	TimestampTz since = 0;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	while (unlikely((v = zen_version_alloc(len)) == NULL))
		if (!zen_find_room(&since))
			zen_arena_full_error();
	return v;
}

static inline ZenVersion *
make_version(MinimalTuple tuple, TransactionId xid, CommandId cid, uint32 flags)
{
	uint32		len = tuple ? tuple->t_len : 0;
	ZenVersion *v;

	/* a tombstone, and nothing else, has no data */
	Assert((tuple == NULL) == ((flags & ZEN_V_TOMBSTONE) != 0));
	Assert(!(flags & (ZEN_V_FORWARD | ZEN_V_MOVED)) || (flags & ZEN_V_TOMBSTONE));
	check_size(tuple);
	v = alloc_version(len);
	if (len > 0)
		memcpy(v->data, tuple, len);
	v->xmin = xid;
	v->cmin = cid;
	pg_atomic_write_u32(&v->flags, flags);
	return v;
}

ZenVersion *
zen_row_make_version(MinimalTuple tuple, CommandId cid, uint32 flags)
{
	return make_version(tuple, GetCurrentTransactionId(), cid, flags);
}

/* zen_tidmap_take(), which finds or waits for room if DRAM is full. */
static uint32
take_tids(ZenHTable *ht, const uint64 *refs, uint32 n, ZenTakenTid *taken)
{
	TimestampTz since = 0;
	uint32		got;

	ZenAssertNotInEpoch();
	while (unlikely((got = zen_tidmap_take(ht, refs, n, taken)) == 0))
		if (!zen_find_room(&since))
			break;
	return got;
}

bool
zen_row_take_tid(ZenHTable *ht, ZenVersion *v, uint64 *tidno, ZenWord **word)
{
	uint64		ref = zen_arena_ref(v);
	ZenTakenTid taken;

	Assert(TransactionIdIsValid(v->xmin));	/* it is complete */
	if (take_tids(ht, &ref, 1, &taken) == 0)
		return false;
	*tidno = taken.tidno;
	*word = taken.word;
	return true;
}

/* The flags of a row that every snapshot is to see at once. */
static inline uint32
frozen_flags(bool frozen)
{
	return frozen ? ZEN_V_FROZEN | ZEN_V_COMMITTED | ZEN_V_PENDING : 0;
}

/* Rows that have no TID yet.  No other process knows them.  The end of the (sub)transaction frees them. */
static ZenVersion *rows_in_hand[ZEN_INSERT_ROWS];
static uint32 first_in_hand = 0;
static uint32 end_in_hand = 0;

static void
abandon_rows(void)
{
	while (first_in_hand < end_in_hand)
		zen_version_free(rows_in_hand[first_in_hand++]);
}

uint64
zen_row_insert(ZenHTable *ht, MinimalTuple tuple, CommandId cid, uint32 spec_token, bool frozen)
{
	TransactionId xid = zen_xid_assign();	/* assigned before anything is
											 * shared */
	ZenVersion *v;
	ZenWord    *word;
	uint64		tidno;

	zen_writeset_check_open();
	zen_writeset_reserve(1, 0);
	v = make_version(tuple, xid, cid, (spec_token ? ZEN_V_SPECULATIVE : 0) | frozen_flags(frozen));
	v->spec_token = spec_token;
	Assert(first_in_hand == end_in_hand);
	rows_in_hand[0] = v;
	first_in_hand = 0;
	end_in_hand = 1;
	if (!zen_row_take_tid(ht, v, &tidno, &word))
		zen_tidmap_full_error(ht);
	first_in_hand = 1;
	zen_writeset_add(ht, tidno, word, v);
	return tidno;
}

void
zen_row_insert_many(ZenHTable *ht, MinimalTuple *tuples, uint32 n, CommandId cid, bool frozen, ZenTakenTid *taken)
{
	TransactionId xid = zen_xid_assign();
	uint64		refs[ZEN_INSERT_ROWS];

	Assert(n <= ZEN_INSERT_ROWS && first_in_hand == end_in_hand);
	zen_writeset_reserve(n, 0);
	first_in_hand = end_in_hand = 0;
	while (end_in_hand < n)
	{
		ZenVersion *v = make_version(tuples[end_in_hand], xid, cid, frozen_flags(frozen));

		refs[end_in_hand] = zen_arena_ref(v);
		rows_in_hand[end_in_hand++] = v;
	}
	while (first_in_hand < n)
	{
		uint32		i = first_in_hand;
		uint32		got = take_tids(ht, refs + i, n - i, taken + i);

		if (got == 0)
			zen_tidmap_full_error(ht);
		zen_writeset_add_rows(ht, taken + i, rows_in_hand + i, got);
		first_in_hand += got;
	}
}

/* ---------- copying ---------- */

/* The chain being copied, which no other process knows: the end of the (sub)transaction frees it. */
static ZenVersion *chain_in_hand = NULL;

/* A private copy of one version, with its place in history but no slot. */
static ZenVersion *
clone_version(ZenVersion *v, uint64 tidno)
{
	/* a spilled tombstone is in its slot, and has no data */
	bool		lean = (zen_version_flags(v) & (ZEN_V_IN_NVM | ZEN_V_TOMBSTONE)) == ZEN_V_IN_NVM;
	int64		len = lean ? zen_tuple_len(v->slot, zen_slot_size(v->slot)) : v->len;
	TransactionId xmin = v->xmin;
	ZenVersion *copy;

	ZenAssertInEpoch();
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
	/* the link leads nowhere here, so no lock may pass over this version */
	if (zen_version_flags(v) & ZEN_V_FORWARD)
		zen_version_set(copy, ZEN_V_KEY_UPDATE);
	return copy;
}

void
zen_row_abandon(void)
{
	abandon_rows();
	while (chain_in_hand != NULL)
	{
		ZenVersion *v = chain_in_hand;

		chain_in_hand = v->older;
		zen_version_free(v);
	}
}

/* Does every snapshot see v, so that none needs an older version? */
static bool
everyone_sees(ZenVersion *v)
{
	return (zen_version_flags(v) & ZEN_V_FROZEN) ||
		(zen_version_state(v) == ZEN_XID_COMMITTED && zen_horizon_has_passed(v->xmin));
}

/* The version in a slot that a word in state NVM leads to (I10). */
static ZenVersion *
version_in_nvm(ZenSlot slot, ZenVersion *space)
{
	memset(space, 0, sizeof(*space));
	space->slot = slot;
	space->code = (uint16) zen_word1_code(zen_tuple_header(slot).word1);
	pg_atomic_init_u32(&space->flags, ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_NVM);
	return space;
}

/*
 * Copy a chain, aborted versions left out, down to the first version that every snapshot sees.  False if DRAM is full.
 *
 * Versions behind that one only wait for the collector, and their toast values may be gone already.  That version is
 * frozen in the copy, so that the row can be spilled.
 */
static bool
clone_chain(ZenVersion *head, uint64 tidno)
{
	ZenVersion **link = &chain_in_hand;

	ZenAssertInEpoch();
	Assert(chain_in_hand == NULL);
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (zen_version_state(v) == ZEN_XID_ABORTED)
			continue;
		*link = clone_version(v, tidno);
		if (*link == NULL)
			return false;
		if (everyone_sees(v))
		{
			zen_version_set(*link, ZEN_V_COMMITTED | ZEN_V_FROZEN);
			break;
		}
		link = &(*link)->older;
	}
	return true;
}

/*
 * Copy the chain of a row; false if DRAM is full.
 *
 * Rows that have no entry get none: a rewrite reads each row once.  The versions to which a word leads when it is read
 * stay until the epoch is left, even if another process admits or evicts the row before that.
 */
static bool
try_clone(ZenHTable *from, uint64 tidno, ZenWord *word)
{
	ZenSpilledChain space;
	ZenVersion *head;
	bool		done = true;
	uint64		w;

	zen_epoch_enter();
	head = zen_spillmap_word_chain(from, tidno, word, &w, &space);
	if (head == NULL && zen_word_state(w) == ZEN_WORD_NVM)
		head = version_in_nvm(zen_word_ref(w), &space.newest);
	if (head != NULL)
		done = clone_chain(head, tidno);
	zen_epoch_leave();
	return done;
}

ZenVersion **
zen_row_clone(ZenHTable *from, uint64 tidno)
{
	ZenWord    *word = zen_tidmap_word(from, tidno);
	ZenVersion *chain;
	TimestampTz since = 0;

	Assert(chain_in_hand == NULL);
	if (word == NULL)
		return NULL;
	while (!try_clone(from, tidno, word))
	{
		zen_row_abandon();
		if (!zen_find_room(&since))
			zen_arena_full_error();
	}
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

	Assert(!(zen_version_flags(v) & ZEN_V_TOMBSTONE) && v->lockers == NULL && v->slot == InvalidZenSlot);
	check_size(tuple);
	copy = alloc_version(tuple->t_len);
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

	ZenAssertNotInEpoch();
	Assert(chain != NULL && !(zen_version_flags(chain) & ZEN_V_ABORTED));
	(void) zen_xid_assign();
	zen_writeset_check_open();
	zen_writeset_reserve(1, 0);
	zen_version_set(chain, ZEN_V_PENDING);
	if (!zen_row_take_tid(to, chain, &tidno, &word))
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

	ZenAssertWordLocked(word);
	Assert(zen_version_flags(v) & ZEN_V_SPECULATIVE);
	Assert(v->older == NULL && TransactionIdIsCurrentTransactionId(v->xmin));
	if (succeeded)
		zen_version_clear(v, ZEN_V_SPECULATIVE);
	else
		zen_version_set(v, ZEN_V_ABORTED);	/* commit and abort both pop it */
	zen_word_unlock(word, w);
}
