/*
 * rowmake.c -- having rows in DRAM: new ones, copies of others', and those that are only in NVM.
 *
 * Other processes see a new row, as uncommitted, when a TID's map word leads to it.  Rows that other processes may
 * know are changed by rowchange.c.
 *
 * - A version has the xid of its writer, its data and its flags before it is published.
 * - Room in the write set is reserved before a TID is taken, so no error can part the row from its entry there.
 * - A chain that is copied to another table is private to this process until it is placed.  So are rows that are
 *   inserted together, until they have TIDs.  After an error the end of the (sub)transaction frees them.
 *
 * A row that is only in NVM gets an entry before it is changed or locked.  The Met-Cache copies it
 * (zen_admission_admit).  A spilled row has a spill record, which may lead to two versions: the entry gets both.
 *
 * - The copies are made inside the epoch and without the word's lock.  They take their place if the word, under its
 *   lock, still leads to the slot that was read; otherwise they are freed, and the caller looks again.
 * - Data that does not fit its checksum is an error, unless the version is replaced: a writer does not need that one's
 *   data.  Such a version becomes lean, and a reader that wants it gets the error.
 * - Rows of a transaction that has aborted are not admitted: the caller waits until they are taken back.
 */
#include "row/rowmake.h"

#include "access/xact.h"
#include "base/fault.h"
#include "base/ownwal.h"
#include "cache/clock.h"
#include "cache/spillmap.h"
#include "cache/version.h"
#include "cache/tablestat.h"
#include "miscadmin.h"
#include "nvm/delta.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "nvm/slotalloc.h"
#include "row/visibility.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define TRIES_WITHOUT_ROOM	8	/* to admit a row that is gone at once */
#define MAX_TRIES			256

bool		(*zen_row_admit_resolve) (void) = NULL;

/* ---------- versions of versions ---------- */

/* The version to which a word in state NVM leads (I10), read back as a chain of one. */
static ZenVersion *
nvm_chain(uint64 w, ZenSpilledChain *space)
{
	ZenVersion *v = &space->newest;

	memset(v, 0, sizeof(*v));
	v->slot = zen_word_ref(w);
	v->cmin = FirstCommandId;
	v->code = (uint16) zen_word1_code(zen_tuple_header(v->slot).word1);
	pg_atomic_init_u32(&v->flags, ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_NVM);
	return v;
}

/* ---------- inserting ---------- */

static void
row_check_size(MinimalTuple tuple)
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
		zen_find_room_or_error(&since);
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
	row_check_size(tuple);
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

/* zen_tidmap_take(), which finds or waits for room if DRAM is full, and throws if that does not help. */
static uint32
take_tids(ZenHTable *ht, const uint64 *refs, uint32 n, ZenTakenTid *taken)
{
	TimestampTz since = 0;
	uint32		got;

	ZenAssertNotInEpoch();
	while (unlikely((got = zen_tidmap_take(ht, refs, n, taken)) == 0))
		if (!zen_find_room(&since))
			zen_tidmap_full_error(ht);
	return got;
}

void
zen_row_take_tid(ZenHTable *ht, ZenVersion *v, uint64 *tidno, ZenWord **word)
{
	uint64		ref = zen_arena_ref(v);
	ZenTakenTid taken;

	Assert(TransactionIdIsValid(v->xmin));	/* it is complete */
	(void) take_tids(ht, &ref, 1, &taken);
	*tidno = taken.tidno;
	*word = taken.word;
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
	v = make_version(tuple, xid, cid, (spec_token ? ZEN_V_SPECULATIVE : 0) | zen_new_row_flags(frozen));
	v->spec_token = spec_token;
	Assert(first_in_hand == end_in_hand);
	rows_in_hand[0] = v;
	first_in_hand = 0;
	end_in_hand = 1;
	zen_row_take_tid(ht, v, &tidno, &word);
	first_in_hand = 1;
	zen_writeset_add(ht, tidno, word, v);
	return tidno;
}

void
zen_row_insert_many(ZenHTable *ht, const ZenNewRows *rows, ZenTakenTid *taken)
{
	TransactionId xid = zen_xid_assign();
	uint32		flags = zen_new_row_flags(rows->frozen);
	uint32		n = rows->n;
	uint64		refs[ZEN_INSERT_ROWS];

	Assert(n <= ZEN_INSERT_ROWS && first_in_hand == end_in_hand);
	Assert(rows->frozen || rows->xmins == NULL);
	zen_writeset_reserve(n, 0);
	first_in_hand = end_in_hand = 0;
	while (end_in_hand < n)
	{
		TransactionId xmin = rows->xmins != NULL ? rows->xmins[end_in_hand] : xid;
		ZenVersion *v = make_version(rows->tuples[end_in_hand], xmin, rows->cid, flags);

		refs[end_in_hand] = zen_arena_ref(v);
		rows_in_hand[end_in_hand++] = v;
	}
	while (first_in_hand < n)
	{
		uint32		i = first_in_hand;
		uint32		got = take_tids(ht, refs + i, n - i, taken + i);

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
	else if (!zen_whole_read(v->slot, (MinimalTuple) copy->data, (uint32) len,
							 (zen_version_flags(v) & ZEN_V_FROZEN) ? &xmin : NULL))
	{
		zen_version_free(copy);
		zen_tuple_corrupted(v->slot, tidno);
	}
	zen_version_copy_history(copy, v, zen_version_flags(v) &
							 (ZEN_V_TOMBSTONE | ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_KEY_UPDATE));
	copy->xmin = xmin;
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
		head = nvm_chain(w, &space);
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
		zen_find_room_or_error(&since);
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
	row_check_size(tuple);
	copy = alloc_version(tuple->t_len);
	memcpy(copy->data, tuple, tuple->t_len);
	copy->older = v->older;
	zen_version_copy_history(copy, v, zen_version_flags(v));
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
	zen_row_take_tid(to, chain, &tidno, &word);
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

/* ---------- having rows of NVM in DRAM ---------- */

/* An entry's version like one read back, with room for len bytes of data, still empty; NULL when DRAM is full. */
static ZenVersion *
like_version(ZenVersion *v, uint32 len)
{
	ZenVersion *copy = zen_version_alloc(len);

	ZenAssertInEpoch();
	ZenAssertNoWordLocked();
	Assert(zen_version_flags(v) & ZEN_V_IN_NVM);
	if (copy == NULL)
		return NULL;
	copy->slot = v->slot;
	copy->forward_tidno = v->forward_tidno;
	zen_version_copy_history(copy, v, zen_version_flags(v) & ~ZEN_V_IN_NVM);
	return copy;
}

/* The same, without its data, which need not be sound. */
static ZenVersion *
lean_version(ZenVersion *v)
{
	ZenVersion *copy = like_version(v, 0);

	if (copy != NULL && !(zen_version_flags(v) & ZEN_V_TOMBSTONE))
		zen_version_set(copy, ZEN_V_IN_NVM);
	return copy;
}

/* The same, with its data.  *sound: the data fits its checksum, or the version is replaced and has become lean. */
static ZenVersion *
copy_spilled(ZenVersion *v, bool replaced, bool *sound)
{
	bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
	bool		frozen = (zen_version_flags(v) & ZEN_V_FROZEN) != 0;
	int64		len = deleted ? 0 : zen_tuple_len(v->slot, zen_slot_size(v->slot));
	ZenVersion *copy;

	*sound = deleted || len > 0;
	copy = *sound ? like_version(v, (uint32) len) : NULL;
	if (*sound && copy == NULL)
		return NULL;
	if (*sound && !deleted)
		*sound = zen_whole_read(v->slot, (MinimalTuple) copy->data, (uint32) len, frozen ? &copy->xmin : NULL);
	if (*sound || !replaced)
		return copy;
	if (copy != NULL)
		zen_version_free(copy);
	*sound = true;
	return lean_version(v);
}

typedef enum Admission
{
	ADMIT_DONE,					/* by this process or another */
	ADMIT_FULL,
	ADMIT_ABORTED,				/* its writer has aborted, and is about to
								 * take it back */
	ADMIT_DAMAGED
} Admission;

/* One attempt to copy a spilled row into DRAM.  If the word has changed, nothing is done: ADMIT_DONE. */
static Admission
try_admit_spilled(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSlot *slot)
{
	ZenSpilledChain space;
	ZenVersion *chain,
			   *copies[2] = {NULL, NULL};
	Admission	result = ADMIT_DONE;
	bool		sound = true,
				placed = false;
	int			n = 0;
	uint64		w,
				now;

	zen_epoch_enter();
	chain = zen_spillmap_word_chain(ht, tidno, word, &w, &space);
	if (chain == NULL || zen_word_state(w) != ZEN_WORD_SPILLED)
	{
		zen_epoch_leave();
		return ADMIT_DONE;
	}
	if (zen_version_state(chain) == ZEN_XID_ABORTED)
		result = ADMIT_ABORTED;
	for (ZenVersion *v = chain; result == ADMIT_DONE && v != NULL; v = v->older)
	{
		Assert(n < lengthof(copies) && v->slot != InvalidZenSlot);
		copies[n] = copy_spilled(v, v != chain, &sound);
		*slot = v->slot;
		if (sound && copies[n] == NULL)
			result = ADMIT_FULL;
		else if (!sound)
			result = zen_version_state(chain) == ZEN_XID_ABORTED ? ADMIT_ABORTED : ADMIT_DAMAGED;
		n++;
	}
	if (result == ADMIT_DONE)
	{
		Assert(n > 0 && copies[0]->lockers == NULL);
		copies[0]->older = copies[1];
		now = zen_word_lock(word);
		if (zen_word_same(now, w))
		{
			now = zen_word_with_entry(now, copies[0]);
			placed = true;
		}
		zen_word_unlock(word, now);
	}
	zen_epoch_leave();
	for (int i = 0; !placed && i < n; i++)
		if (copies[i] != NULL)
			zen_version_free(copies[i]);
	return result;
}

static void
admit_spilled(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenSlot		slot = InvalidZenSlot;
	TimestampTz since = 0;
	Admission	result;

	while ((result = try_admit_spilled(ht, tidno, word, &slot)) == ADMIT_FULL)
		zen_find_room_or_error(&since);
	if (result == ADMIT_DAMAGED)
		zen_tuple_corrupted(slot, tidno);
	if (result == ADMIT_ABORTED)
		zen_row_admit_wait_for_undo();
}

/*
 * A row that has come in may be gone when it is looked for: other processes evict.  If DRAM has no place for its item
 * in the CLOCK, it goes at once.  A writer that finds it gone again and again makes room, and gives up at last.
 */
void
zen_row_admit(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(word == zen_tidmap_word(ht, tidno));
	for (int tries = 1;; tries++)
	{
		uint64		state = zen_word_state(zen_word_read(word));

		if (state == ZEN_WORD_NVM)
			zen_admission_admit(ht, tidno, word);
		else if (state == ZEN_WORD_SPILLED)
			admit_spilled(ht, tidno, word);
		else
			return;
		if (tries == 1)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (tries == MAX_TRIES)
			zen_arena_full_error();
		if (tries % TRIES_WITHOUT_ROOM == 0)
			zen_make_room();
	}
}

/* A tombstone that says where its row goes on, read back likewise; NULL if the word has none. */
static ZenVersion *
link_chain(uint64 w, ZenSpilledChain *space)
{
	ZenSlot		slot = zen_word_ref(w);
	uint64		link = slot != InvalidZenSlot ? zen_tuple_link(slot, zen_slot_size(slot)) : 0;
	ZenVersion *v;

	if (!zen_link_leads_on(link))
		return NULL;
	v = nvm_chain(w, space);
	v->xmin = FrozenTransactionId;
	v->forward_tidno = zen_word1_tidno(link);
	zen_version_set(v, ZEN_V_TOMBSTONE | zen_version_link_flags(link));
	return v;
}

bool
zen_row_admit_unread(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenSpilledChain space;
	ZenVersion *first = NULL,
			  **link = &first;
	ZenVersion *chain;
	uint64		w;

	Assert(word == zen_tidmap_word(ht, tidno));
	zen_epoch_enter();
	chain = zen_spillmap_word_chain(ht, tidno, word, &w, &space);
	if (zen_word_state(w) == ZEN_WORD_NVM)
		chain = nvm_chain(w, &space);
	else if (zen_word_state(w) == ZEN_WORD_DEAD || zen_word_state(w) == ZEN_WORD_UNUSED)
		chain = link_chain(w, &space);
	if (chain == NULL || zen_word_state(w) == ZEN_WORD_ENTRY)
	{
		zen_epoch_leave();
		return true;
	}
	for (ZenVersion *v = chain; v != NULL; v = v->older)
	{
		*link = lean_version(v);
		if (*link == NULL)
			break;
		link = &(*link)->older;
	}
	if (first != NULL && (chain->older == NULL) == (first->older == NULL))
	{
		w = zen_word_lock(word);
		zen_word_unlock(word, zen_word_with_entry(w, first));
		first = NULL;
		chain = NULL;
	}
	zen_epoch_leave();
	if (first != NULL)
		zen_version_free(first);
	return chain == NULL;
}

void
zen_row_admit_wait_for_undo(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	CHECK_FOR_INTERRUPTS();

	/*
	 * if no process is ending a prepared transaction: a process that applies
	 * a replication stream may end one without telling zen
	 */
	(void) zen_row_admit_resolve();
	pg_usleep(1000L);
}
