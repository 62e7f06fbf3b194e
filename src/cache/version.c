/*
 * version.c -- memory of row versions; telling users of a row that cannot be read.
 *
 * src/cache/README, "Versions", has the three steps in which a version is freed.
 *
 * The sum of bytes decides about eviction only, so processes add to it in steps of STEP.
 */
#include "cache/version.h"

#include "base/guc.h"
#include "nvm/slotalloc.h"
#include "storage/shmem.h"

#define STEP	(64 * 1024)		/* bytes */

static pg_atomic_uint64 *total_bytes;
static int64 my_delta = 0;

static void
version_shmem_init(void)
{
	bool		found;

	total_bytes = ShmemInitStruct("zen version bytes", sizeof(pg_atomic_uint64), &found);
	if (!found)
		pg_atomic_init_u64(total_bytes, 0);
	my_delta = 0;
}

const ZenShmem zen_version_shmem = {.bytes = sizeof(pg_atomic_uint64),.init = version_shmem_init};

static void
account(int64 bytes)
{
	my_delta += bytes;
	if (my_delta >= STEP || my_delta <= -STEP)
	{
		pg_atomic_fetch_add_u64(total_bytes, my_delta);
		my_delta = 0;
	}
}

void
zen_version_detach(void)
{
	if (my_delta != 0)
		pg_atomic_fetch_add_u64(total_bytes, my_delta);
	my_delta = 0;
}

uint64
zen_version_bytes(void)
{
	int64		bytes = (int64) pg_atomic_read_u64(total_bytes) + my_delta;

	return bytes > 0 ? bytes : 0;
}

Size
zen_version_size(const ZenVersion *v)
{
	return zen_arena_rounded(offsetof(ZenVersion, data) + v->len);
}

ZenVersion *
zen_version_alloc(uint32 len)
{
	ZenVersion *v = zen_arena_alloc_row(offsetof(ZenVersion, data) + len);

	ZenAssertNoWordLocked();
	if (v == NULL)
		return NULL;
	memset(v, 0, offsetof(ZenVersion, data));
	pg_atomic_init_u32(&v->flags, 0);
	v->len = len;
	account(zen_version_size(v));
	return v;
}

void
zen_version_free(ZenVersion *v)
{
	ZenAssertNoWordLocked();
	Assert(!(zen_version_flags(v) & ZEN_V_FREE_SLOT));
	account(-(int64) zen_version_size(v));
	zen_arena_free_row(v, offsetof(ZenVersion, data) + v->len);
}

void
zen_version_condemn(ZenVersion *v)
{
	Assert(!(zen_version_flags(v) & ZEN_V_FREE_SLOT));
	if (v->slot != InvalidZenSlot)
	{
		v->slot_generation = zen_slot_generation(v->slot);
		zen_version_set(v, ZEN_V_FREE_SLOT);
	}
}

void
zen_version_retire(ZenVersion *v)
{
	Assert(v->lockers == NULL);
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	v->retired.kind = ZEN_RETIRED_VERSION;
	/* now, so that no process evicts more because the epochs have not passed */
	account(-(int64) zen_version_size(v));
	zen_epoch_retire(&v->retired);
}

uint64
zen_version_slim(uint64 w, ZenVersion *newer, ZenVersion *v, ZenVersion *lean)
{
	Assert(v->slot != InvalidZenSlot && lean->len == 0);
	ZenAssertAnyWordLocked();
	Assert(w & ZEN_WORD_LOCK);
	Assert(newer != NULL ? newer->older == v : zen_word_leads_to(w, v));
	lean->older = v->older;
	lean->slot = v->slot;
	lean->lockers = v->lockers;
	lean->lock_seq = v->lock_seq + 1;
	zen_version_copy_history(lean, v, zen_version_flags(v) | ZEN_V_IN_NVM);
	v->lockers = NULL;
	if (newer == NULL)
		return zen_word_with_entry(w, lean);
	pg_write_barrier();			/* readers follow without the lock */
	newer->older = lean;
	/* a writer that has judged the chain and would push over v judges again */
	zen_word_entry(w)->lock_seq++;
	return w;
}

uint64
zen_version_pop(uint64 w, ZenVersion *v, bool *lone, ZenLockers **lockers, ZenVersion **ended)
{
	ZenVersion *head = v->older;

	ZenAssertAnyWordLocked();
	Assert((w & ZEN_WORD_LOCK) && zen_word_leads_to(w, v));
	zen_chain_check(w);
	*lone = false;
	*ended = NULL;
	*lockers = v->lockers;
	v->lockers = NULL;
	/* an insertion that never was; indexes may hold the TID */
	if (head == NULL)
		return zen_word_with(w, ZEN_WORD_DEAD, 0);
	head->lockers = *lockers;
	pg_write_barrier();			/* pairs with zen_lockers_copy */

	/*
	 * those above head have raised their own: it must not come to one that
	 * was seen before
	 */
	head->lock_seq = v->lock_seq + 1;
	*lockers = NULL;
	zen_version_pass_clock(v, head);
	if (zen_version_is_needless(head))
	{
		*ended = head;
		return zen_word_with(w, ZEN_WORD_NVM, head->slot);
	}
	*lone = zen_version_mark_lone(head);
	return zen_word_with_entry(w, head);
}

void
zen_version_release(ZenRetired *object)
{
	ZenVersion *v = (ZenVersion *) ((char *) object - offsetof(ZenVersion, retired));

	Assert(object->kind == ZEN_RETIRED_VERSION);
	Assert(!(zen_version_flags(v) & ZEN_V_FREE_SLOT) || v->slot != InvalidZenSlot);
	if (zen_version_flags(v) & ZEN_V_FREE_SLOT)
		zen_slot_free_retired(v->slot, v->slot_generation);
	zen_arena_free_row(v, offsetof(ZenVersion, data) + v->len);
}

ZenLockers *
zen_version_lockers_alloc(uint32 n)
{
	uint32		capacity = TYPEALIGN(4, n);
	ZenLockers *lockers = zen_arena_alloc(offsetof(ZenLockers, l) + capacity * sizeof(ZenLocker));

	if (lockers)
	{
		lockers->n = 0;
		lockers->capacity = capacity;
	}
	return lockers;
}

void
zen_version_lockers_free(ZenLockers *lockers)
{
	Assert(lockers->n <= lockers->capacity);
	ZenAssertNoWordLocked();
	zen_arena_free(lockers, offsetof(ZenLockers, l) + lockers->capacity * sizeof(ZenLocker));
}

/* ---------- a row that cannot be read ---------- */

/* It leaves the epoch first: reporting may throw, and takes time. */
static void
report_damage(ZenSlot slot, uint64 tidno, int elevel)
{
	ItemPointerData tid;

	ZenAssertNoWordLocked();
	zen_epoch_reset();
	zen_make_tid(&tid, tidno, 0);
	ereport(elevel,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("checksum of zen row (%u,%u) does not match",
					ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid)),
			 errdetail("The NVM-tuple lies at offset " UINT64_FORMAT " of the pool.", slot * ZEN_SLOT_UNIT),
			 elevel < ERROR ? 0 :
			 errhint("Restore the row from a backup.  With zen.skip_damaged_rows on, scans leave it out.")));
}

void
zen_tuple_corrupted(ZenSlot slot, uint64 tidno)
{
	report_damage(slot, tidno, ERROR);
	pg_unreachable();
}

void
zen_tuple_unreadable(ZenSlot slot, uint64 tidno)
{
	report_damage(slot, tidno, zen_skip_damaged_rows ? WARNING : ERROR);
}
