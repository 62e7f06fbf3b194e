/*
 * verify_row.c -- map words, version chains and slots of one TID; and findings as rows.
 *
 * src/verify/README, "Beside everything else", says why no change under way is taken for damage.
 */
#include "verify/verify.h"

#include "access/xlog.h"
#include "base/epoch.h"
#include "base/startup.h"
#include "cache/spillmap.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nvm/delta.h"
#include "nvm/slotalloc.h"
#include "nvm/slotread.h"
#include "row/visibility.h"
#include "utils/builtins.h"

#define MAX_CHAIN	(2 * ZEN_MAX_CODE)	/* number_version() and the aborted
										 * versions on top stay below */

/* ---------- findings ---------- */

#define NCOLUMNS	5

void
zen_report_begin(ZenReport *report, FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	report->store = rsinfo->setResult;
	report->desc = rsinfo->setDesc;
	report->n = 0;
	if (report->desc->natts != NCOLUMNS || TupleDescAttr(report->desc, 1)->atttypid != REGCLASSOID ||
		TupleDescAttr(report->desc, 2)->atttypid != TIDOID)
		zen_sql_differs();
}

/* Where a slot is; its page may have no owner. */
static char *
slot_location(ZenSlot slot)
{
	Size		offset = slot * ZEN_SLOT_UNIT;

	if (!zen_page_holds(slot))
		return psprintf("offset %zu", offset);
	return psprintf("page %u, slot %u, offset %zu", zen_slot_page(slot), zen_page_slot_index(slot), offset);
}

void
zen_report(ZenReport *report, const ZenFinding *finding, const char *fmt,...)
{
	Datum		values[NCOLUMNS] = {0};
	bool		isnull[NCOLUMNS] = {false};
	ItemPointerData tid;
	char		detail[1024];
	va_list		args;

	/* it allocates, and may throw */
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(finding->kind != NULL && report->store != NULL);
	va_start(args, fmt);
	vsnprintf(detail, sizeof(detail), fmt, args);
	va_end(args);
	values[0] = CStringGetTextDatum(finding->kind);
	values[1] = ObjectIdGetDatum(finding->relation);
	isnull[1] = !OidIsValid(finding->relation);
	if (finding->has_tid)
	{
		zen_make_tid(&tid, finding->tidno, 0);
		values[2] = PointerGetDatum(&tid);
	}
	isnull[2] = !finding->has_tid;
	if (finding->slot != InvalidZenSlot)
		values[3] = CStringGetTextDatum(slot_location(finding->slot));
	else if (finding->location != NULL)
		values[3] = CStringGetTextDatum(finding->location);
	isnull[3] = finding->slot == InvalidZenSlot && finding->location == NULL;
	values[4] = CStringGetTextDatum(detail);
	tuplestore_putvalues(report->store, report->desc, values, isnull);
	report->n++;
}

/* ---------- slots ---------- */

/* The contents that a word or a version claims for a slot. */
typedef struct Expected
{
	ZenHTable  *ht;
	uint64		tidno;
	int			code;			/* or -1 */
	bool		deleted;
} Expected;

/* Does the entry of the directory stand for the same table as before? */
static bool
is_same_table(const ZenHTable *ht, const ZenHTable *before)
{
	pg_read_barrier();
	return ht->in_use && ht->db == before->db && ht->relnumber == before->relnumber &&
		ht->birth_cts == before->birth_cts;
}

bool
zen_unsound(ZenFault *fault, const char *kind, ZenSlot slot, const char *fmt,...)
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
		return zen_unsound(fault, "map", slot, "the map leads to where no slot is");
	owner = zen_pages[zen_slot_page(slot)].owner.htable;
	h = zen_tuple_header(slot);
	if (owner != 0 && owner != e->ht->idx)
		return zen_unsound(fault, "owner", slot, "the slot lies in a page of HTable %u", owner);
	if ((h.word0 & ZEN_CTS_MASK) == 0)
		return zen_unsound(fault, "owner", slot, "the slot is empty");
	if (zen_word1_htable(h.word1) != e->ht->idx)
		return zen_unsound(fault, "owner", slot, "the slot belongs to HTable %u", zen_word1_htable(h.word1));
	if (!zen_htable_owns(e->ht, h.word0 & ZEN_CTS_MASK))
		return zen_unsound(fault, "owner", slot, "the slot is older than the table: Tx-CTS " UINT64_FORMAT,
						   h.word0 & ZEN_CTS_MASK);
	if (zen_word1_tidno(h.word1) != e->tidno)
		return zen_unsound(fault, "owner", slot, "the slot belongs to row (" UINT64_FORMAT "," UINT64_FORMAT ")",
						   zen_word1_tidno(h.word1) / ZEN_TIDS_PER_BLOCK,
						   zen_word1_tidno(h.word1) % ZEN_TIDS_PER_BLOCK + 1);
	return true;
}

/* R22: check that the base of a version that holds only what changed is in use, and the one that is meant. */
static bool
check_base(ZenSlot slot, ZenFault *fault)
{
	ZenSlot		base = zen_delta_base_of(slot);

	if (!zen_delta_base_fits(slot))
	{
		zen_slot_doubt(slot);
		return zen_unsound(fault, "checksum", slot, "the base of the row version is damaged, or is not there");
	}
	if (!RecoveryInProgress() && zen_slot_is_free(base))
		return zen_unsound(fault, "free", base, "the slot is the base of a row version, and free");
	return true;
}

/* Check that a slot holds the version that is expected there, intact and committed. */
static bool
rowcheck_slot(const Expected *e, ZenSlot slot, ZenFault *fault)
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
		return zen_unsound(fault, "checksum", slot, "the checksum of the row version does not match");
	}
	if (zen_tuple_is_delta(slot) && !check_base(slot, fault))
		return false;
	if (((h.word1 & ZEN_DELETED) != 0) != e->deleted)
		return zen_unsound(fault, "tombstone", slot, e->deleted ? "the slot holds a row, not a tombstone" :
						   "the slot holds a tombstone, not a row");
	fault->unreadable = false;
	if (e->code >= 0 && zen_word1_code(h.word1) != e->code)
		return zen_unsound(fault, "version", slot, "the slot has version code %u, the version in DRAM %d",
						   zen_word1_code(h.word1), e->code);
	/* neither bitmaps nor watermarks say that on a standby */
	if (RecoveryInProgress())
		return true;
	if (zen_slot_is_free(slot))
		return zen_unsound(fault, "free", slot, "the slot is in use and free");
	if (!zen_region_is_committed(zen_pages[zen_slot_page(slot)].owner.region, cts))
		return zen_unsound(fault, "commit", slot,
						   "the row version is visible, but a crash would lose it: Tx-CTS " UINT64_FORMAT, cts);
	return true;
}

/* ---------- words without a row ---------- */

/* A tombstone is kept if and only if the count says so.  A standby counts nothing, and keeps all that there are. */
static bool
check_no_row(const Expected *e, uint64 w, ZenFault *fault)
{
	ZenSlot		slot = zen_word_ref(w);
	bool		counts = (w & ZEN_WORD_STALE) != 0;

	Assert(zen_word_state(w) <= ZEN_WORD_DYING && e->deleted);
	if (slot == InvalidZenSlot)
		return !counts || zen_unsound(fault, "stale", slot, "older versions are counted, but no tombstone is kept");
	if (!counts && !RecoveryInProgress())
		return zen_unsound(fault, "tombstone", slot, "a tombstone is kept, but no older version is counted");
	return rowcheck_slot(e, slot, fault);
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
	if (!rowcheck_slot(&own, slot, fault))
	{
		fault->unreadable = false;	/* DRAM has the row */
		return false;
	}
	cts = zen_tuple_header(slot).word0 & ZEN_CTS_MASK;
	if (*newer_cts != 0 && cts >= *newer_cts)
		return zen_unsound(fault, "order", slot, "an older version has Tx-CTS " UINT64_FORMAT ", a newer one "
						   UINT64_FORMAT, cts, *newer_cts);
	*newer_cts = cts;
	return (zen_version_flags(v) & ZEN_V_IN_NVM) ||
		zen_whole_equals(slot, zen_version_tuple(v)) ||
		zen_unsound(fault, "version", slot, "the row version in DRAM differs from its slot");
}

/* The newest committed version must be in NVM, unless it is a tombstone over nothing that is. */
static bool
check_newest(ZenVersion *v, ZenFault *fault)
{
	if (v->slot != InvalidZenSlot)
		return true;
	if (!(zen_version_flags(v) & ZEN_V_TOMBSTONE))
		return zen_unsound(fault, "version", InvalidZenSlot, "the newest committed version is not in NVM");
	for (v = v->older; v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot)
			return zen_unsound(fault, "version", v->slot, "the row is deleted, but its tombstone is not in NVM");
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
			return zen_unsound(fault, "version", chain[i]->slot, "a version has the impossible code %u", code);
		if (seen[code])
			return zen_unsound(fault, "version", chain[i]->slot, "two versions have code %u", code);
		seen[code] = true;
		if (!(zen_version_flags(chain[i]) & ZEN_V_IN_NVM) &&
			((zen_version_flags(chain[i]) & ZEN_V_TOMBSTONE) != 0) != (chain[i]->len == 0))
			return zen_unsound(fault, "version", chain[i]->slot, "a version with %u bytes of data is %s", chain[i]->len,
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
			return zen_unsound(fault, "version", InvalidZenSlot, "the version chain does not end");
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

/*
 * On a hot standby only the newest committed version, and those above it, lead to slots, and codes may come twice
 * (src/standby/README).
 */
static bool
check_chain_on_standby(const Expected *e, ZenVersion *head, ZenFault *fault)
{
	Expected	own = *e;
	bool		committed = false;

	ZenAssertInEpoch();
	for (ZenVersion *v = head; v != NULL && !committed; v = v->older)
	{
		if (!is_within(v, NULL))
			return zen_unsound(fault, "version", InvalidZenSlot, "the version chain leads outside of DRAM");
		committed = zen_version_state(v) == ZEN_XID_COMMITTED;
		own.code = v->code;
		own.deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
		if (v->slot != InvalidZenSlot && !rowcheck_slot(&own, v->slot, fault))
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
			return rowcheck_slot(e, zen_word_ref(w), fault);
		case ZEN_WORD_ENTRY:
			if (zen_word_ref(w) == 0 || !zen_arena_holds(zen_arena_ptr(zen_word_ref(w)), sizeof(*head)))
				return zen_unsound(fault, "map", InvalidZenSlot, "the map leads outside of DRAM");
			return RecoveryInProgress() ? check_chain_on_standby(e, zen_word_entry(w), fault) :
				check_chain(e, zen_word_entry(w), NULL, fault);
		case ZEN_WORD_SPILLED:
			head = zen_spillmap_word_chain(e->ht, e->tidno, word, read, &space);
			return head == NULL || check_chain(e, head, &space, fault);
		default:
			return zen_unsound(fault, "map", InvalidZenSlot, "the map word is in no known state: %016llx",
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
	ZenHTable	before = *ht;
	bool		committed = ht->create_xid == 0 || RecoveryInProgress();
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
	word = before.in_use && committed ? zen_tidmap_word(ht, tidno) : NULL;
	if (word != NULL)
		sound = check_word(&e, word, fault) || !is_same_table(ht, &before);
	zen_epoch_leave();
	return sound;
}
