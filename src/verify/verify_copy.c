/*
 * verify_copy.c -- zen_verify_pool() on a standby: the copy of the primary's pool, beside redo.
 *
 * Nothing of a copy is in DRAM, so it is judged by what NVM has alone, and as recovery would judge it after a
 * promotion: src/verify/README, "A copy".
 */
#include "verify/verify.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "base/fault.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/poolfile.h"
#include "nvm/region.h"
#include "nvm/tuple.h"

#define MAX_TRIES	10000		/* looks at something that redo may be
								 * changing */
#define WAIT_US		1000		/* between two of them */

typedef enum PlaceKind
{
	PLACE_SUPERBLOCK,
	PLACE_REGION,
	PLACE_HTABLE,
	PLACE_PAGE,
	PLACE_SLOT
} PlaceKind;

/* Something that is looked at. */
typedef struct Place
{
	PlaceKind	kind;
	uint64		number;			/* copy of a superblock, region, HTable, page
								 * or ZenSlot */
} Place;

typedef struct CopyCheck
{
	ZenReport  *report;
	uint64	   *committed;		/* per region: what is known to have committed */
} CopyCheck;

/* ---------- looks: what is wrong with a place?  NULL if nothing is ---------- */

/* Owner, and size of the slots, of a page; false if it has none. */
static bool
page_in_copy(uint32 pageno, ZenPageOwner *owner, Size *size)
{
	uint64		word = zen_nvm_load64(zen_page_word(pageno));

	if (word == 0 || word == ZEN_PAGE_ZEROING || !zen_page_word_fits(pageno, word))
		return false;
	*owner = zen_page_word_owner(word);
	*size = zen_class_size(owner->class);
	return true;
}

/* A slot without a Tx-CTS, or scrubbed, holds nothing.  Of those beyond `committed` recovery keeps none. */
static const char *
slot_fault(const CopyCheck *c, ZenSlot slot)
{
	ZenPageOwner owner;
	Size		size;
	uint64		cts = zen_tuple_header(slot).word0 & ZEN_CTS_MASK;

	if (cts == 0 || !page_in_copy(zen_slot_page(slot), &owner, &size) || cts > c->committed[owner.region] ||
		zen_tuple_is_void(slot) || zen_tuple_intact(slot, size))
		return NULL;
	return "the checksum of the row version does not match";
}

static const char *
look(const CopyCheck *c, Place p)
{
	Size		offset;

	switch (p.kind)
	{
		case PLACE_SUPERBLOCK:
			return zen_superblock_fault((int) p.number / 2, zen_file_base((int) p.number / 2), p.number % 2, &offset);
		case PLACE_REGION:
			return zen_region_copy_fault((uint32) p.number);
		case PLACE_HTABLE:
			return zen_htable_copy_fault((uint32) p.number);
		case PLACE_PAGE:
			return zen_page_word_fits((uint32) p.number, zen_nvm_load64(zen_page_word((uint32) p.number))) ? NULL :
				"the page's word in the directory is damaged";
		case PLACE_SLOT:
			return slot_fault(c, p.number);
	}
	Assert(false);
	return NULL;
}

/* ---------- findings ---------- */

/* The relation of this database whose rows a page has, if it has those of one table only. */
static Oid
relation_of_page(uint32 pageno)
{
	ZenPageOwner owner;
	Size		size;
	RelFileLocator loc;

	if (!page_in_copy(pageno, &owner, &size) || owner.htable == 0 || !zen_htable_named(owner.htable, &loc) ||
		ZEN_LOCATOR_DB(loc) != MyDatabaseId)
		return InvalidOid;
	return RelidByRelfilenumber(ZEN_LOCATOR_SPC(loc) == MyDatabaseTableSpace ? InvalidOid : ZEN_LOCATOR_SPC(loc),
								ZEN_LOCATOR_NUMBER(loc));
}

static void
report_place(CopyCheck *c, Place p, const char *fault)
{
	static const char *const kinds[] = {"superblock", "region", "htable", "page", "checksum"};
	static const char *const names[] = {"copy", "region", "HTable", "page", NULL};
	ZenFinding	f = {.kind = kinds[p.kind]};

	Assert(p.kind < lengthof(kinds) && fault != NULL);
	if (p.kind == PLACE_SLOT)
	{
		f.slot = p.number;
		f.relation = relation_of_page(zen_slot_page(p.number));
	}
	else
		f.location = psprintf("%s " UINT64_FORMAT, names[p.kind], p.number);
	zen_report(c->report, &f, "%s", fault);
}

/* A promotion turns the copy into the server's own pool, which recovery changes. */
static void
check_still_copy(void)
{
	CHECK_FOR_INTERRUPTS();
	if (!RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server was promoted while zen_verify_pool() looked at its copy"),
				 errhint("Call it again.")));
}

/*
 * Redo replays one record after the other, and each leaves the copy sound.  What looks wrong is a finding if it looks
 * so while no record is replayed: the end of the last one that redo has done, read before the look, is that of the last
 * one that it has begun, read after the look.
 */
static void
look_beside_redo(CopyCheck *c, PlaceKind kind, uint64 number)
{
	Place		p = {.kind = kind,.number = number};
	const char *fault = look(c, p);

	if (fault != NULL && ZEN_FAULT(COPY_SEEN_TORN))
	{
		report_place(c, p, fault);
		return;
	}
	for (int i = 0; fault != NULL && i < MAX_TRIES; i++)
	{
		XLogRecPtr	done;

		check_still_copy();
		done = GetXLogReplayRecPtr(NULL);
		pg_read_barrier();
		fault = look(c, p);
		pg_read_barrier();
		if (fault != NULL && GetCurrentReplayRecPtr(NULL) == done)
		{
			report_place(c, p, fault);
			return;
		}
		if (fault != NULL)
			pg_usleep(WAIT_US);
	}
}

/* ---------- passes ---------- */

/* LP is the evidence that a region has committed so far (R2, R3); so is its watermark. */
static void
find_committed(CopyCheck *c, uint32 pageno)
{
	ZenPageOwner owner;
	Size		size;

	if (!page_in_copy(pageno, &owner, &size))
		return;
	for (Size at = 0; at + size <= ZEN_PAGE_SIZE; at += size)
	{
		ZenSlot		slot = ((Size) pageno * ZEN_PAGE_SIZE + at) / ZEN_SLOT_UNIT;
		uint64		word0 = zen_tuple_header(slot).word0;

		if ((word0 & ZEN_LP) && (word0 & ZEN_CTS_MASK) > c->committed[owner.region] && zen_tuple_intact(slot, size))
			c->committed[owner.region] = word0 & ZEN_CTS_MASK;
	}
}

static void
check_slots(CopyCheck *c, uint32 pageno)
{
	ZenPageOwner owner;
	Size		size;

	look_beside_redo(c, PLACE_PAGE, pageno);
	if (!page_in_copy(pageno, &owner, &size))
		return;
	for (Size at = 0; at + size <= ZEN_PAGE_SIZE; at += size)
		look_beside_redo(c, PLACE_SLOT, ((Size) pageno * ZEN_PAGE_SIZE + at) / ZEN_SLOT_UNIT);
}

static void
for_data_pages(CopyCheck *c, uint32 end, void (*visit) (CopyCheck *, uint32))
{
	for (uint32 p = zen_pool.first_data_page; p < end; p = zen_page_after(p))
	{
		check_still_copy();
		if (zen_page_is_data(p))
			visit(c, p);
	}
}

void
zen_verify_copy(ZenReport *report)
{
	CopyCheck	c = {.report = report,.committed = palloc(ZEN_MAX_REGIONS * sizeof(uint64))};
	uint32		end = zen_pool_pages(); /* the pool may grow meanwhile */

	Assert(zen_pool_is_replica() && zen_pool_is_copied());
	for (int i = 0; i < 2 * zen_pool.nfiles; i++)
		look_beside_redo(&c, PLACE_SUPERBLOCK, (uint64) i);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		c.committed[r] = zen_region_replayed(r);
		look_beside_redo(&c, PLACE_REGION, r);
	}
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		look_beside_redo(&c, PLACE_HTABLE, i);
	for_data_pages(&c, end, find_committed);
	for_data_pages(&c, end, check_slots);
	pfree(c.committed);
}
