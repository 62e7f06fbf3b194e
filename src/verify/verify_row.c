/*
 * verify_row.c -- verification of map words, version chains and slots.
 *
 * Everything is read as readers read it, inside an epoch, where nothing that a word leads to is reused.  Two things
 * are not covered by that, and are looked at again under the word's lock before they count: the slot of a tombstone
 * is freed as soon as the word has let it go, and stale headers come and go with their count.  While a word is locked
 * here, headers in NVM are read, never written.
 *
 * A transaction's writes count as committed from the moment that pg_xact says so, while the last part of its commit
 * is still to come.  Its region is leased until then, and zen_region_is_committed() gives it the benefit of the
 * doubt.
 */
#include "verify/verify_row.h"

#include "cache/spillmap.h"
#include "nvm/slotalloc.h"
#include "row/visibility.h"

#define MAX_CHAIN	(2 * ZEN_MAX_CODE)	/* number_version() and the aborted
										 * versions on top stay below */

/* The contents that a word or a version claims for a slot. */
typedef struct Expected
{
	ZenHTable  *ht;
	uint64		tidno;
	int			code;			/* or -1 */
	bool		deleted;
} Expected;

/* Which table an HTable entry stands for. */
typedef struct Identity
{
	uint32		in_use;
	Oid			db;
	RelFileNumber relnumber;
	uint64		birth_cts;
} Identity;

static Identity
identity_of(const ZenHTable *ht)
{
	Identity	id = {.in_use = ht->in_use,.db = ht->db,.relnumber = ht->relnumber,.birth_cts = ht->birth_cts};

	return id;
}

static bool
is_same_table(const ZenHTable *ht, const Identity *id)
{
	pg_read_barrier();
	return ht->in_use && ht->db == id->db && ht->relnumber == id->relnumber && ht->birth_cts == id->birth_cts;
}

static bool fail(ZenFault *fault, const char *kind, ZenSlot slot, const char *fmt,...) pg_attribute_printf(4, 5);

static bool
fail(ZenFault *fault, const char *kind, ZenSlot slot, const char *fmt,...)
{
	va_list		args;

	Assert(kind != NULL);
	fault->kind = kind;
	fault->slot = slot;
	va_start(args, fmt);
	vsnprintf(fault->detail, sizeof(fault->detail), fmt, args);
	va_end(args);
	return false;
}

/* Which row does the slot belong to, by address, directory and header? */
static bool
check_owner(const Expected *e, ZenSlot slot, ZenFault *fault)
{
	ZenTupleHeader h;
	uint32		owner;

	ZenAssertInEpoch();
	if (!zen_page_holds(slot))
		return fail(fault, "map", slot, "the map leads to where no slot is");
	owner = zen_pages[zen_slot_page(slot)].owner.htable;
	h = zen_tuple_header(slot);
	if (owner != 0 && owner != e->ht->idx)
		return fail(fault, "owner", slot, "the slot lies in a page of HTable %u", owner);
	if ((h.word0 & ZEN_CTS_MASK) == 0)
		return fail(fault, "owner", slot, "the slot is empty");
	if (zen_word1_htable(h.word1) != e->ht->idx)
		return fail(fault, "owner", slot, "the slot belongs to HTable %u", zen_word1_htable(h.word1));
	if (!zen_htable_owns(e->ht, h.word0 & ZEN_CTS_MASK))
		return fail(fault, "owner", slot, "the slot is older than the table: Tx-CTS " UINT64_FORMAT,
					h.word0 & ZEN_CTS_MASK);
	if (zen_word1_tidno(h.word1) != e->tidno)
		return fail(fault, "owner", slot, "the slot belongs to row (" UINT64_FORMAT "," UINT64_FORMAT ")",
					zen_word1_tidno(h.word1) / ZEN_TIDS_PER_BLOCK, zen_word1_tidno(h.word1) % ZEN_TIDS_PER_BLOCK + 1);
	return true;
}

/* Check that a slot holds the version that is expected there, intact and committed. */
static bool
check_slot(const Expected *e, ZenSlot slot, ZenFault *fault)
{
	ZenTupleHeader h;
	uint64		cts;

	fault->unreadable = !e->deleted;
	if (!check_owner(e, slot, fault))
		return false;
	h = zen_tuple_header(slot);
	cts = h.word0 & ZEN_CTS_MASK;
	if (!zen_tuple_intact(slot, zen_slot_size(slot)))
	{
		zen_slot_doubt(slot);
		return fail(fault, "checksum", slot, "the checksum of the row version does not match");
	}
	if (((h.word1 & ZEN_DELETED) != 0) != e->deleted)
		return fail(fault, "tombstone", slot, e->deleted ? "the slot holds a row, not a tombstone" :
					"the slot holds a tombstone, not a row");
	fault->unreadable = false;
	if (e->code >= 0 && zen_word1_code(h.word1) != e->code)
		return fail(fault, "version", slot, "the slot has version code %u, the version in DRAM %d",
					zen_word1_code(h.word1), e->code);
	if (zen_slot_is_free(slot))
		return fail(fault, "free", slot, "the slot is in use and free");
	if (!zen_region_is_committed(zen_pages[zen_slot_page(slot)].owner.region, cts))
		return fail(fault, "commit", slot,
					"the row version is visible, but a crash would lose it: Tx-CTS " UINT64_FORMAT, cts);
	return true;
}

/* ---------- words without a row ---------- */

/* A tombstone is kept if and only if the count says so. */
static bool
check_no_row(const Expected *e, uint64 w, ZenFault *fault)
{
	ZenSlot		slot = zen_word_ref(w);
	bool		counts = (w & ZEN_WORD_STALE) != 0;

	Assert(zen_word_state(w) <= ZEN_WORD_DYING && e->deleted);
	if (slot == InvalidZenSlot)
		return !counts || fail(fault, "stale", slot, "older versions are counted, but no tombstone is kept");
	if (!counts)
		return fail(fault, "tombstone", slot, "a tombstone is kept, but no older version is counted");
	return check_slot(e, slot, fault);
}

/*
 * The slot of a tombstone is not protected by the epoch: if it looks wrong, it is looked at again while it must be
 * right.
 */
static bool
check_no_row_locked(const Expected *e, ZenWord *word, uint64 w, ZenFault *fault)
{
	uint64		now;
	bool		sound;

	ZenAssertNoWordLocked();
	if (check_no_row(e, w, fault))
		return true;
	now = zen_word_lock(word);
	sound = (now & ~ZEN_WORD_LOCK) != (w & ~ZEN_WORD_LOCK) || check_no_row(e, w, fault);
	zen_word_unlock(word, now);
	return sound;
}

/* ---------- chains ---------- */

/* One version whose writer has committed; *newer_cts is that of the next newer one with a slot, or 0. */
static bool
check_committed(const Expected *e, ZenVersion *v, uint64 *newer_cts, ZenFault *fault)
{
	ZenSlot		slot = v->slot;
	Expected	own = *e;
	uint64		cts;

	if (slot == InvalidZenSlot)
		return true;
	Assert(zen_version_state(v) == ZEN_XID_COMMITTED);
	own.code = v->code;
	own.deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
	if (!check_slot(&own, slot, fault))
	{
		fault->unreadable = false;	/* DRAM has the row */
		return false;
	}
	cts = zen_tuple_header(slot).word0 & ZEN_CTS_MASK;
	if (*newer_cts != 0 && cts >= *newer_cts)
		return fail(fault, "order", slot, "an older version has Tx-CTS " UINT64_FORMAT ", a newer one " UINT64_FORMAT,
					cts, *newer_cts);
	*newer_cts = cts;
	return (zen_version_flags(v) & ZEN_V_IN_NVM) ||
		zen_tuple_equals(slot, zen_slot_size(slot), zen_version_tuple(v)) ||
		fail(fault, "version", slot, "the row version in DRAM differs from its slot");
}

/* The newest committed version must be in NVM, unless it is a tombstone over nothing that is. */
static bool
check_newest(ZenVersion *v, ZenFault *fault)
{
	if (v->slot != InvalidZenSlot)
		return true;
	if (!(zen_version_flags(v) & ZEN_V_TOMBSTONE))
		return fail(fault, "version", InvalidZenSlot, "the newest committed version is not in NVM");
	for (v = v->older; v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot)
			return fail(fault, "version", v->slot, "the row is deleted, but its tombstone is not in NVM");
	return true;
}

static bool
check_codes(ZenVersion **chain, uint32 n, ZenFault *fault)
{
	bool		seen[ZEN_MAX_CODE + 1] = {false};

	for (uint32 i = 0; i < n; i++)
	{
		uint32		code = chain[i]->code;

		if (code > ZEN_MAX_CODE)
			return fail(fault, "version", chain[i]->slot, "a version has the impossible code %u", code);
		if (seen[code])
			return fail(fault, "version", chain[i]->slot, "two versions have code %u", code);
		seen[code] = true;
		if (!(zen_version_flags(chain[i]) & ZEN_V_IN_NVM) &&
			((zen_version_flags(chain[i]) & ZEN_V_TOMBSTONE) != 0) != (chain[i]->len == 0))
			return fail(fault, "version", chain[i]->slot, "a version with %u bytes of data is %s", chain[i]->len,
						chain[i]->len == 0 ? "no tombstone" : "a tombstone");
	}
	return true;
}

/* Is v one of space, if there is one, or does it lie in DRAM with its data? */
static bool
is_within(ZenVersion *v, const ZenSpilledChain *space)
{
	if (space != NULL && (v == &space->newest || v == &space->older))
		return true;
	return zen_arena_holds(v, sizeof(*v)) && zen_arena_holds(v, sizeof(*v) + v->len);
}

/*
 * States are looked at from the oldest version to the newest: a transaction that commits during the look is then never
 * taken for committed in an older version alone, which it would not have written to NVM.
 */
static bool
check_chain(const Expected *e, ZenVersion *head, const ZenSpilledChain *space, ZenFault *fault)
{
	static ZenVersion *chain[MAX_CHAIN];
	static bool committed[MAX_CHAIN];
	uint64		newer_cts = 0;
	bool		newest = true;
	uint32		n = 0;

	ZenAssertInEpoch();
	Assert(head != NULL);
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (n == MAX_CHAIN || !is_within(v, space))
			return fail(fault, "version", InvalidZenSlot, "the version chain does not end");
		chain[n++] = v;
	}
	for (uint32 i = n; i-- > 0;)
		committed[i] = zen_version_state(chain[i]) == ZEN_XID_COMMITTED;
	if (!check_codes(chain, n, fault))
		return false;
	for (uint32 i = 0; i < n; i++)
	{
		if (!committed[i])
			continue;
		if (newest && !check_newest(chain[i], fault))
			return false;
		newest = false;
		if (!check_committed(e, chain[i], &newer_cts, fault))
			return false;
	}
	return true;
}

/* ---------- words ---------- */

/* *read: the word's value. */
static bool
check_word_once(const Expected *e, ZenWord *word, uint64 *read, ZenFault *fault)
{
	Expected	tombstone = *e;
	ZenSpilledChain space;
	ZenVersion *head;
	uint64		w = zen_word_read(word);

	ZenAssertInEpoch();
	ZenAssertNoWordLocked();
	*read = w;
	switch (zen_word_state(w))
	{
		case ZEN_WORD_UNUSED:
		case ZEN_WORD_DEAD:
		case ZEN_WORD_DYING:
			tombstone.deleted = true;
			return check_no_row_locked(&tombstone, word, w, fault);
		case ZEN_WORD_NVM:
			return check_slot(e, zen_word_ref(w), fault);
		case ZEN_WORD_ENTRY:
			if (zen_word_ref(w) == 0 || !zen_arena_holds(zen_arena_ptr(zen_word_ref(w)), sizeof(*head)))
				return fail(fault, "map", InvalidZenSlot, "the map leads outside of DRAM");
			return check_chain(e, zen_word_entry(w), NULL, fault);
		case ZEN_WORD_SPILLED:
			head = zen_spillmap_word_chain(e->ht, e->tidno, word, read, &space);
			return head == NULL || check_chain(e, head, &space, fault);
		default:
			return fail(fault, "map", InvalidZenSlot, "the map word is in no known state: %016llx",
						(unsigned long long) w);
	}
}

/*
 * A fault counts only if the word still leads there.  A transaction that was seen at work may have put another version
 * on top and committed, before its state was looked at: then the last version that it wrote is in NVM, and the one
 * below is not.
 */
static bool
check_word(const Expected *e, ZenWord *word, ZenFault *fault)
{
	uint64		w;

	while (!check_word_once(e, word, &w, fault))
	{
		pg_read_barrier();
		if (zen_word_same(zen_word_read(word), w))
			return false;
		fault->unreadable = false;
	}
	return true;
}

bool
zen_verify_word(ZenHTable *ht, uint64 tidno, ZenFault *fault)
{
	Expected	e = {.ht = ht,.tidno = tidno,.code = -1};
	Identity	id = identity_of(ht);
	bool		committed = ht->create_xid == 0;
	bool		sound = true;
	ZenWord    *word;

	Assert(ht->idx > 0);

	/*
	 * COPY FREEZE and REFRESH write rows into a table of their own that count
	 * as committed at once: nothing is known of them before the table is
	 */
	pg_read_barrier();
	fault->unreadable = false;
	zen_epoch_enter();
	word = id.in_use && committed ? zen_tidmap_word(ht, tidno) : NULL;
	if (word != NULL)
		sound = check_word(&e, word, fault) || !is_same_table(ht, &id);
	zen_epoch_leave();
	return sound;
}

/* ---------- stale headers (R5) ---------- */

/*
 * A page that is given back forgets its headers before it is zeroed, but after its directory word says so.  Read in
 * this order, a header that stands before and after was still to be forgotten in between.
 */
bool
zen_verify_stale_header(ZenSlot slot, ZenTupleHeader *header)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	ZenTupleHeader again;

	if (!zen_page_holds(slot) || (h.word0 & ZEN_CTS_MASK) == 0 || (h.word1 & ZEN_DELETED) ||
		zen_word1_htable(h.word1) == 0)
		return false;
	pg_read_barrier();
	if (!zen_slot_is_free(slot) || !zen_page_agrees(zen_slot_page(slot)))
		return false;
	pg_read_barrier();
	again = zen_tuple_header(slot);
	*header = h;
	return h.word0 == again.word0 && h.word1 == again.word1;
}

/* The Tx-CTS that a version would have to exceed to count after a crash; 0 if any would count.  Inside an epoch. */
static uint64
newest_cts(uint64 w)
{
	uint64		newest = 0;

	ZenAssertInEpoch();
	/* a spilled version is newer than the one that it replaces */
	if (zen_word_state(w) != ZEN_WORD_ENTRY)
		return zen_word_ref(w) == 0 ? 0 : zen_tuple_header(zen_word_ref(w)).word0 & ZEN_CTS_MASK;
	for (ZenVersion *v = zen_word_entry(w); v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot)
			newest = Max(newest, zen_tuple_header(v->slot).word0 & ZEN_CTS_MASK);
	return newest;
}

bool
zen_verify_stale(ZenHTable *ht, ZenSlot slot, ZenFault *fault)
{
	ZenTupleHeader h;
	ZenWord    *word;
	uint64		w,
				cts;
	bool		sound = true;

	fault->unreadable = false;
	if (!zen_verify_stale_header(slot, &h) || zen_word1_htable(h.word1) != ht->idx ||
		!zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK))
		return true;
	cts = h.word0 & ZEN_CTS_MASK;
	zen_epoch_enter();
	word = zen_tidmap_word(ht, zen_word1_tidno(h.word1));
	if (word == NULL)
		sound = fail(fault, "stale", slot, "the slot is free, but its row, which has no TID, would come back");
	else if (cts >= newest_cts(zen_word_read(word)))
	{
		w = zen_word_lock(word);
		if (zen_verify_stale_header(slot, &h) && cts == (h.word0 & ZEN_CTS_MASK) && cts >= newest_cts(w))
			sound = fail(fault, "stale", slot, "the slot is free, but would supersede the row: Tx-CTS "
						 UINT64_FORMAT " over " UINT64_FORMAT, cts, newest_cts(w));
		zen_word_unlock(word, w);
	}
	zen_epoch_leave();
	return sound;
}

uint32
zen_verify_count(ZenHTable *ht, uint64 tidno)
{
	uint32		count = 0;
	ZenWord    *word;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	if (word != NULL)
		count = (uint32) ((zen_word_read(word) & ZEN_WORD_STALE) / ZEN_WORD_STALE_ONE);
	zen_epoch_leave();
	return count;
}

bool
zen_verify_stale_count(ZenHTable *ht, uint64 tidno, const ZenSlot *slots, uint32 n, ZenFault *fault)
{
	ZenWord    *word;
	ZenTupleHeader h;
	uint32		found = 0,
				count;
	uint64		w;

	fault->unreadable = false;
	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	if (word == NULL)
	{
		zen_epoch_leave();
		return true;
	}
	/* no process counts up or down while we hold the lock */
	w = zen_word_lock(word);
	for (uint32 i = 0; i < n; i++)
		if (zen_verify_stale_header(slots[i], &h) && zen_word1_htable(h.word1) == ht->idx &&
			zen_word1_tidno(h.word1) == tidno && zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK))
			found++;
	zen_word_unlock(word, w);
	zen_epoch_leave();
	count = (uint32) ((w & ZEN_WORD_STALE) / ZEN_WORD_STALE_ONE);
	return count >= found ||
		fail(fault, "stale", n > 0 ? slots[0] : InvalidZenSlot,
			 "%u older versions are counted, but %u are intact in free slots", count, found);
}

/* ---------- one question each ---------- */

bool
zen_verify_is_unused(ZenHTable *ht, uint64 tidno)
{
	ZenWord    *word;
	bool		unused;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	unused = word == NULL || zen_word_state(zen_word_read(word)) == ZEN_WORD_UNUSED;
	zen_epoch_leave();
	return unused;
}

/* Inside an epoch. */
static bool
leads_to(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSlot slot)
{
	ZenSpilledChain space;
	uint64		w;
	ZenVersion *v = zen_spillmap_word_chain(ht, tidno, word, &w, &space);

	ZenAssertInEpoch();
	Assert(slot != InvalidZenSlot);
	if (v == NULL)
		return zen_word_ref(w) == slot;
	for (; v != NULL; v = v->older)
		if (v->slot == slot)
			return true;
	return false;
}

bool
zen_verify_referenced(ZenSlot slot, ZenTupleHeader header)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(header.word1)];
	ZenWord    *word;
	bool		referenced;

	if (ht->idx == 0)
		return false;
	zen_epoch_enter();
	word = zen_htable_owns(ht, header.word0 & ZEN_CTS_MASK) ? zen_tidmap_word(ht, zen_word1_tidno(header.word1)) : NULL;
	referenced = word != NULL && leads_to(ht, zen_word1_tidno(header.word1), word, slot);
	zen_epoch_leave();
	return referenced;
}
