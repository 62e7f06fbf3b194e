/*
 * rowadmit.c -- making entries of rows that are only in NVM, spilled ones too.
 *
 * A row that is only in NVM is copied by the Met-Cache (zen_admission_admit).  A spilled row has a spill record, which
 * may lead to two versions: the entry gets both.
 *
 * - The copies are made inside the epoch and without the word's lock.  They take their place if the word, under its
 *   lock, still leads to the slot that was read; otherwise they are freed, and the caller looks again.
 * - Data that does not fit its checksum is an error, unless the version is replaced: a writer does not need that one's
 *   data.  Such a version becomes lean, and a reader that wants it gets the error.
 * - Rows of a transaction that has aborted are not admitted: the caller waits until they are taken back.
 */
#include "row/rowadmit.h"

#include "access/xact.h"
#include "base/fault.h"
#include "cache/admission.h"
#include "cache/damage.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/slotalloc.h"
#include "row/visibility.h"

#define TRIES_WITHOUT_ROOM	8	/* to admit a row that is gone at once */
#define MAX_TRIES			256

bool		(*zen_row_admit_resolve) (void) = NULL;

/* ---------- making entries of spilled rows ---------- */

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
	copy->xmin = v->xmin;
	copy->cmin = v->cmin;
	copy->code = v->code;
	copy->depth = v->depth;
	copy->forward_tidno = v->forward_tidno;
	pg_atomic_write_u32(&copy->flags, zen_version_flags(v) & ~ZEN_V_IN_NVM);
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
copy_version(ZenVersion *v, bool replaced, bool *sound)
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
		*sound = zen_tuple_read(v->slot, (MinimalTuple) copy->data, (uint32) len, frozen ? &copy->xmin : NULL);
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
try_admit(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSlot *slot)
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
		copies[n] = copy_version(v, v != chain, &sound);
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

	while ((result = try_admit(ht, tidno, word, &slot)) == ADMIT_FULL)
		if (!zen_find_room(&since))
			zen_arena_full_error();
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

/* The version to which a word in state NVM leads, read back as a chain of one. */
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

/* The same for a tombstone that says where its row goes on; NULL if the word has no such tombstone. */
static ZenVersion *
link_chain(uint64 w, ZenSpilledChain *space)
{
	ZenSlot		slot = zen_word_ref(w);
	uint64		link = slot != InvalidZenSlot ? zen_tuple_link(slot, zen_slot_size(slot)) : 0;
	ZenVersion *v;

	if (link == 0 || link == ZEN_LINK_MOVED)
		return NULL;
	v = nvm_chain(w, space);
	v->xmin = FrozenTransactionId;
	v->forward_tidno = zen_word1_tidno(link);
	zen_version_set(v, ZEN_V_TOMBSTONE | ZEN_V_FORWARD | (zen_link_keeps_key(link) ? 0 : ZEN_V_KEY_UPDATE));
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
