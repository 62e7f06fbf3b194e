/*
 * spillmap.c -- spill records.
 *
 * A hash table in shared memory: NBUCKETS chains of records, each under one of NLOCKS spinlocks.  src/cache/README,
 * "Spill records", says what a record must keep, and how readers and writers meet at it.
 */
#include "cache/spillmap.h"

#include "base/locks.h"
#include "common/hashfn.h"
#include "nvm/page.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define NBUCKETS		(256 * 1024)	/* powers of 2 */
#define NLOCKS			1024
#define FIRST_WRITERS	2
#define MAX_WRITERS		(ZEN_TIDS_PER_BLOCK + 1)	/* each TID its own, and
													 * one to come */

typedef struct SpillTable
{
	slock_t		locks[NLOCKS];
	ZenSpill   *volatile buckets[NBUCKETS];
} SpillTable;

static SpillTable *table;

static void
spillmap_shmem_init(void)
{
	bool		found;

	table = ShmemInitStruct("zen spill records", zen_spillmap_shmem.bytes, &found);
	if (found)
		return;
	memset(table, 0, sizeof(SpillTable));
	for (int i = 0; i < NLOCKS; i++)
		SpinLockInit(&table->locks[i]);
}

const ZenShmem zen_spillmap_shmem = {.bytes = sizeof(SpillTable),.init = spillmap_shmem_init};

/* ---------- records ---------- */

static inline uint32
spill_bucket(uint32 htable, uint32 block)
{
	return hash_combine(murmurhash32(htable), murmurhash32(block)) % NBUCKETS;
}

static inline slock_t *
lock_of(uint32 bucket)
{
	return &table->locks[bucket % NLOCKS];
}

static inline Size
record_size(uint32 capacity, bool has_old)
{
	return offsetof(ZenSpill, writers) + capacity * sizeof(ZenSpillWriter) +
		(has_old ? ZEN_TIDS_PER_BLOCK * sizeof(ZenSlot) : 0);
}

static inline ZenSlot *
old_slots(const ZenSpill *s)
{
	return (ZenSlot *) &s->writers[s->capacity];
}

ZenSlot
zen_spillmap_old(const ZenSpill *spill, uint32 i)
{
	return spill->has_old ? old_slots(spill)[i] : InvalidZenSlot;
}

/* The place that leads to the record of a block, or to NULL at the end of the chain. */
static ZenSpill *volatile *
spill_place(uint32 bucket, uint32 htable, uint32 block)
{
	ZenSpill   *volatile *place = &table->buckets[bucket];

	while (*place != NULL && ((*place)->htable != htable || (*place)->block != block))
		place = (ZenSpill *volatile *) &(*place)->next;
	return place;
}

ZenSpill *
zen_spillmap_find(ZenHTable *ht, uint32 block)
{
	ZenSpill   *s = table->buckets[spill_bucket(ht->idx, block)];

	Assert(ht->idx < ZEN_MAX_HTABLES);
	for (;;)
	{
		/* a record is complete before it is linked */
		pg_read_barrier();
		if (s == NULL || (s->htable == ht->idx && s->block == block))
			return s;
		s = *(ZenSpill *volatile *) &s->next;
	}
}

void
zen_spillmap_release(ZenRetired *object)
{
	ZenSpill   *s = (ZenSpill *) object;

	StaticAssertStmt(offsetof(ZenSpill, retired) == 0, "a record begins with what retires it");
	Assert(object->kind == ZEN_RETIRED_SPILL);
	Assert(s->nwriters <= s->capacity);
	zen_arena_free(s, record_size(s->capacity, s->has_old));
}

/* Is the record's entry for its TID number i still needed?  Under the record's lock. */
static bool
is_needed(ZenHTable *ht, const ZenSpill *s, uint32 i)
{
	ZenWord    *word;

	if (s->slot[i] == InvalidZenSlot)
		return false;
	ZenAssertInEpoch();
	ZenAssertSpinLocked(lock_of(spill_bucket(s->htable, s->block)));
	Assert(s->writer_of[i] < s->nwriters);
	if (!(s->writers[s->writer_of[i]].flags & ZEN_SPILL_SETTLED))
		return true;
	word = zen_tidmap_word(ht, (uint64) s->block * ZEN_TIDS_PER_BLOCK + i);
	return word != NULL && zen_word_state(pg_atomic_read_u64(word)) == ZEN_WORD_SPILLED;
}

/* The place of a writer, or that for a new one; -1: there is none left. */
static int
writer_place(const ZenSpill *s, const ZenSpillWriter *writer)
{
	for (int i = 0; i < s->nwriters; i++)
		if (s->writers[i].xid == writer->xid && s->writers[i].cmin == writer->cmin &&
			s->writers[i].region == writer->region && s->writers[i].flags == writer->flags)
			return i;
	return s->nwriters < s->capacity ? s->nwriters : -1;
}

/* Name a writer in a record with room for it. */
static int
note_writer(ZenSpill *s, const ZenSpillWriter *writer)
{
	int			place = writer_place(s, writer);

	Assert(place >= 0 && place < s->capacity);
	s->writers[place] = *writer;
	pg_write_barrier();			/* pairs with mark_aborted */
	s->nwriters = Max(s->nwriters, place + 1);
	return place;
}

/* Write a TID's part. */
static inline void
note(ZenSpill *s, uint32 i, ZenSlot slot, ZenSlot old, int place)
{
	Assert(i < ZEN_TIDS_PER_BLOCK && slot != InvalidZenSlot);
	Assert(place >= 0 && place < s->nwriters);
	Assert(s->has_old || old == InvalidZenSlot);
	s->writer_of[i] = (uint8) place;
	if (s->has_old)
		old_slots(s)[i] = old;
	pg_write_barrier();			/* pairs with rows_of_block */
	s->slot[i] = slot;
}

/* Fill a larger record with all entries of a smaller one that are needed. */
static void
copy_needed(ZenHTable *ht, ZenSpill *to, const ZenSpill *from)
{
	for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		if (is_needed(ht, from, i))
			note(to, i, from->slot[i], zen_spillmap_old(from, i), note_writer(to, &from->writers[from->writer_of[i]]));
}

static ZenSpill *
new_record(ZenHTable *ht, uint32 block, uint32 capacity, bool has_old)
{
	ZenSpill   *s = zen_arena_alloc(record_size(capacity, has_old));

	if (s == NULL)
		return NULL;
	memset(s, 0, record_size(capacity, has_old));
	s->retired.kind = ZEN_RETIRED_SPILL;
	s->htable = ht->idx;
	s->block = block;
	s->capacity = capacity;
	s->has_old = has_old;
	return s;
}

/* What a record must have room for, and a larger one that may take its place. */
typedef struct Wanted
{
	uint32		capacity;		/* of writers */
	bool		has_old;
	ZenSpill   *spare;
	ZenSpill   *replaced;		/* by the spare one */
} Wanted;

/*
 * Under the record's lock: the record at place with room for the writer, and for old slots if has_old.  A spare one may
 * take its place.  NULL if a spare one, as *wanted tells, is lacking.
 */
static ZenSpill *
record_with_room(ZenHTable *ht, uint32 block, ZenSpill *volatile *place, const ZenSpillWriter *writer, bool has_old,
				 Wanted *wanted)
{
	ZenSpill   *s = *place;
	ZenSpill   *larger = wanted->spare;

	ZenAssertSpinLocked(lock_of(spill_bucket(ht->idx, block)));
	wanted->has_old = has_old || (s != NULL && s->has_old);
	wanted->capacity = s == NULL ? FIRST_WRITERS :
		writer_place(s, writer) >= 0 ? s->capacity : Min(4 * s->capacity, MAX_WRITERS);
	if (s != NULL && s->has_old == wanted->has_old && writer_place(s, writer) >= 0)
		return s;
	if (larger == NULL || larger->capacity < wanted->capacity || larger->has_old != wanted->has_old)
		return NULL;
	if (s != NULL)
	{
		copy_needed(ht, larger, s);
		larger->next = s->next;
	}
	wanted->replaced = s;
	wanted->spare = NULL;
	return larger;
}

/* Rows of a block to be noted. */
typedef struct Rows
{
	const ZenTakenTid *tids;
	const ZenSlot *slots;
	const ZenSlot *olds;		/* NULL: they replace no versions */
	uint32		n;
	bool		take;			/* their TIDs are free, and are taken */
} Rows;

/* Is a row's TID free, and the record not needed for it?  Under the record's lock. */
static inline bool
may_take(ZenHTable *ht, const ZenSpill *s, const ZenTakenTid *tid)
{
	return zen_word_is_free(pg_atomic_read_u64(tid->word)) &&
		(s == NULL || !is_needed(ht, s, tid->tidno % ZEN_TIDS_PER_BLOCK));
}

/*
 * Is there a row to be noted?  If not, each TID of the block may have a writer of its own, and a record has no place
 * for one more.
 */
static bool
has_row_to_note(ZenHTable *ht, const ZenSpill *s, const Rows *rows)
{
	for (uint32 r = 0; r < rows->n; r++)
		if (!rows->take || may_take(ht, s, &rows->tids[r]))
			return true;
	return false;
}

/* Under the record's lock: note rows, and take their TIDs.  A bit for each that was noted. */
static uint64
note_rows(ZenHTable *ht, ZenSpill *s, const Rows *rows, const ZenSpillWriter *writer)
{
	int			place = note_writer(s, writer);
	uint64		noted = 0;

	for (uint32 r = 0; r < rows->n; r++)
	{
		uint32		i = rows->tids[r].tidno % ZEN_TIDS_PER_BLOCK;

		if (rows->take && !may_take(ht, s, &rows->tids[r]))
			continue;
		Assert(rows->olds == NULL || (rows->olds[r] != InvalidZenSlot && rows->olds[r] != rows->slots[r]));
		note(s, i, rows->slots[r], rows->olds != NULL ? rows->olds[r] : InvalidZenSlot, place);
		if (rows->take && !zen_word_take(rows->tids[r].word, ZEN_WORD_SPILLED, rows->slots[r]))
		{
			s->slot[i] = InvalidZenSlot;
			continue;
		}
		noted |= UINT64CONST(1) << r;
	}
	return noted;
}

/* Note rows of one block, all or none but those whose TIDs are taken; 0 when DRAM is full. */
static uint64
note_in_record(ZenHTable *ht, const Rows *rows, const ZenSpillWriter *writer)
{
	uint32		block = (uint32) (rows->tids[0].tidno / ZEN_TIDS_PER_BLOCK);
	uint32		bucket = spill_bucket(ht->idx, block);
	Wanted		wanted = {0};

	ZenAssertNoWordLocked();
	for (;;)
	{
		ZenSpill   *volatile *place;
		ZenSpill   *s = NULL;
		uint64		noted = 0;
		bool		any;

		zen_epoch_enter();		/* for the words */
		SpinLockAcquire(lock_of(bucket));
		place = spill_place(bucket, ht->idx, block);
		any = has_row_to_note(ht, *place, rows);
		if (any)
			s = record_with_room(ht, block, place, writer, rows->olds != NULL, &wanted);
		if (s != NULL && s != *place)
		{
			/* readers of words that are taken below must find it */
			pg_write_barrier(); /* pairs with zen_spillmap_find */
			*place = s;
		}
		if (s != NULL)
			noted = note_rows(ht, s, rows, writer);
		SpinLockRelease(lock_of(bucket));
		zen_epoch_leave();
		if (wanted.spare != NULL)
			zen_spillmap_release(&wanted.spare->retired);
		if (wanted.replaced != NULL)
			zen_epoch_retire(&wanted.replaced->retired);
		if (s != NULL || !any)
			return noted;
		wanted.spare = new_record(ht, block, wanted.capacity, wanted.has_old);
		if (wanted.spare == NULL)
			return 0;
	}
}

/* Are there rows, and all of one block? */
static inline bool
are_of_one_block(const ZenTakenTid *tids, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
		if (tids[i].tidno / ZEN_TIDS_PER_BLOCK != tids[0].tidno / ZEN_TIDS_PER_BLOCK)
			return false;
	return n > 0 && n <= ZEN_TIDS_PER_BLOCK;
}

bool
zen_spillmap_note(ZenHTable *ht, const ZenTakenTid *tids, const ZenSlot *slots, const ZenSlot *olds, uint32 n,
				  const ZenSpillWriter *writer)
{
	Rows		rows = {.tids = tids,.slots = slots,.olds = olds,.n = n};

	Assert(are_of_one_block(tids, n));
	return note_in_record(ht, &rows, writer) != 0;
}

uint64
zen_spillmap_take(ZenHTable *ht, const ZenTakenTid *tids, const ZenSlot *slots, uint32 n,
				  const ZenSpillWriter *writer)
{
	Rows		rows = {.tids = tids,.slots = slots,.n = n,.take = true};

	Assert(are_of_one_block(tids, n));
	return note_in_record(ht, &rows, writer);
}

void
zen_spillmap_mark(ZenHTable *ht, uint32 block, uint32 region, TransactionId xid, uint32 flags)
{
	uint32		bucket = spill_bucket(ht->idx, block);
	ZenSpill   *s;

	ZenAssertNotInEpoch();
	SpinLockAcquire(lock_of(bucket));
	s = *spill_place(bucket, ht->idx, block);
	for (int i = 0; s != NULL && i < s->nwriters; i++)
		if (s->writers[i].region == region && !(s->writers[i].flags & ZEN_SPILL_SETTLED) &&
			(xid == InvalidTransactionId || s->writers[i].xid == xid))
			s->writers[i].flags |= flags;
	SpinLockRelease(lock_of(bucket));
}

void
zen_spillmap_forget(ZenHTable *ht, uint64 tidno)
{
	uint32		block = (uint32) (tidno / ZEN_TIDS_PER_BLOCK);
	uint32		bucket = spill_bucket(ht->idx, block);
	ZenSpill   *s;

	ZenAssertNotInEpoch();
	SpinLockAcquire(lock_of(bucket));
	s = *spill_place(bucket, ht->idx, block);
	if (s != NULL)
		s->slot[tidno % ZEN_TIDS_PER_BLOCK] = InvalidZenSlot;
	SpinLockRelease(lock_of(bucket));
}

void
zen_spillmap_trim(ZenHTable *ht, uint32 block, bool gone)
{
	uint32		bucket = spill_bucket(ht->idx, block);
	ZenSpill   *volatile *place;
	ZenSpill   *s;
	bool		needed = false;

	zen_epoch_enter();			/* for the words */
	SpinLockAcquire(lock_of(bucket));
	place = spill_place(bucket, ht->idx, block);
	s = *place;
	for (uint32 i = 0; s != NULL && !gone && !needed && i < ZEN_TIDS_PER_BLOCK; i++)
		needed = is_needed(ht, s, i);
	if (s != NULL && !needed)
		*place = s->next;
	SpinLockRelease(lock_of(bucket));
	zen_epoch_leave();
	if (s != NULL && !needed)
		zen_epoch_retire(&s->retired);
}

/* ---------- reading back ---------- */

static void
read_version(ZenVersion *v, ZenSlot slot, uint32 flags)
{
	ZenTupleHeader h = zen_tuple_header(slot);

	Assert(slot != InvalidZenSlot);
	memset(v, 0, sizeof(*v));
	v->slot = slot;
	v->code = (uint16) zen_word1_code(h.word1);
	if (h.word1 & ZEN_DELETED)
		flags |= ZEN_V_TOMBSTONE;
	if (flags & ZEN_V_FORWARD)
		v->forward_tidno = zen_word1_tidno(zen_tuple_link(slot, zen_slot_size(slot)));
	pg_atomic_init_u32(&v->flags, flags | ZEN_V_IN_NVM);
}

/* Read a chain back; false if the record says nothing of this TID. */
static bool
read_chain(ZenHTable *ht, uint64 tidno, ZenSlot slot, ZenSpilledChain *chain)
{
	ZenSpill   *s = zen_spillmap_find(ht, (uint32) (tidno / ZEN_TIDS_PER_BLOCK));
	uint32		i = tidno % ZEN_TIDS_PER_BLOCK;
	ZenSpillWriter *writer;
	ZenSlot		old;
	uint32		flags;

	if (s == NULL || s->slot[i] != slot)
		return false;
	Assert(s->writer_of[i] < s->nwriters);
	writer = &s->writers[s->writer_of[i]];
	flags = *(volatile uint32 *) &writer->flags;
	if (flags & ZEN_SPILL_SETTLED)
		flags &= ~(ZEN_SPILL_SETTLED | ZEN_V_PENDING);
	else
		flags |= ZEN_V_SPILLED;
	old = zen_spillmap_old(s, i);
	read_version(&chain->newest, slot, flags);
	chain->newest.xmin = writer->xid;
	chain->newest.cmin = writer->cmin;
	if (old != InvalidZenSlot)
	{
		read_version(&chain->older, old, ZEN_V_COMMITTED | ZEN_V_FROZEN);
		chain->newest.older = &chain->older;
		chain->newest.depth = 1;
	}
	return true;
}

/*
 * The reader looks at the record between two looks at the word.  If both find the same slot, the word has led there all
 * the time: the slot cannot be used again while the reader is inside.  The record says the same of a TID as long as its
 * word is SPILLED.
 */
ZenVersion *
zen_spillmap_word_chain(ZenHTable *ht, uint64 tidno, ZenWord *word, uint64 *w, ZenSpilledChain *space)
{
	ZenAssertInEpoch();
	for (;;)
	{
		bool		complete;

		*w = zen_word_read(word);
		if (zen_word_state(*w) == ZEN_WORD_ENTRY)
			return zen_word_entry(*w);
		if (zen_word_state(*w) != ZEN_WORD_SPILLED)
			return NULL;
		complete = read_chain(ht, tidno, zen_word_ref(*w), space);
		pg_read_barrier();
		if (zen_word_same(pg_atomic_read_u64(word), *w) && complete)
			return &space->newest;
	}
}
