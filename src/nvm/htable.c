/*
 * htable.c -- the HTable directory.
 *
 * An entry's identity line is durable before its state leaves FREE, and the state changes by one 8-byte store, so a
 * crash finds a whole entry or none.  src/nvm/README, "Tables and their slots", says why an entry is reusable at once.
 *
 * Before a full xid is written to NVM, WAL that bears it is flushed, so that it is not issued again after a crash
 * (txn/ddl.c).  A transaction that creates or drops a table is a mixed one.
 */
#include "nvm/htable.h"

#include "base/fault.h"
#include "base/locks.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/region.h"
#include "nvm/repair.h"
#include "nvm/sink.h"
#include "port/pg_crc32c.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

typedef struct Locator
{
	Oid			db;
	Oid			spc;
	Oid			relnumber;
	uint32		backend;		/* 0, or 1 + backend id of a temporary table */
} Locator;

typedef struct LocatorEntry
{
	Locator		key;
	uint32		idx;
} LocatorEntry;

/* Entries not in use, as a stack. */
typedef struct FreeEntries
{
	uint32		n;
	uint32		idx[ZEN_MAX_HTABLES];
	pg_atomic_uint32 used_end;	/* entries from this one on have not been in
								 * use since the start; read without the lock */
} FreeEntries;

ZenHTable  *zen_htables;
static HTAB *by_locator;		/* under ZEN_LOCK_HTABLE */
static FreeEntries *free_entries;	/* under ZEN_LOCK_HTABLE */

static Size
htable_shmem_size(void)
{
	Size		size = mul_size(ZEN_MAX_HTABLES, sizeof(ZenHTable));

	size = add_size(size, sizeof(FreeEntries));
	return add_size(size, hash_estimate_size(ZEN_MAX_HTABLES, sizeof(LocatorEntry)));
}

static void
htable_shmem_init(void)
{
	HASHCTL		info = {.keysize = sizeof(Locator),.entrysize = sizeof(LocatorEntry)};
	bool		found;

	zen_htables = ShmemInitStruct("zen htables", mul_size(ZEN_MAX_HTABLES, sizeof(ZenHTable)), &found);
	for (uint32 i = 0; i < ZEN_MAX_HTABLES && !found; i++)
	{
		memset(&zen_htables[i], 0, sizeof(ZenHTable));
		zen_htables[i].idx = i;
		pg_atomic_init_u32(&zen_htables[i].reindex, 0);
	}
	free_entries = ShmemInitStruct("zen free htables", sizeof(FreeEntries), &found);
	if (!found)
	{
		free_entries->n = 0;
		pg_atomic_init_u32(&free_entries->used_end, 0);
	}
	by_locator = ShmemInitHash("zen htables by locator", 256, ZEN_MAX_HTABLES, &info, HASH_ELEM | HASH_BLOBS);
}

const ZenShmem zen_htable_shmem = {.size = htable_shmem_size,.init = htable_shmem_init};

/* ---------- the persistent entry ---------- */

static uint32
entry_crc(const ZenHTableEntry *e)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &e->db, sizeof(e->db));
	COMP_CRC32C(crc, &e->spc, sizeof(e->spc));
	COMP_CRC32C(crc, &e->relnumber, sizeof(e->relnumber));
	COMP_CRC32C(crc, &e->birth_cts, sizeof(e->birth_cts));
	COMP_CRC32C(crc, &e->create_xid, sizeof(e->create_xid));
	COMP_CRC32C(crc, &e->backend, sizeof(e->backend));
	FIN_CRC32C(crc);
	return crc;
}

static void
htable_store(uint64 *field, uint64 value)
{
	Assert((char *) field >= (char *) zen_pool.htables && field < (uint64 *) (zen_pool.htables + ZEN_MAX_HTABLES));
	zen_nvm_store64(field, value);
	zen_persist(field, sizeof(*field));
	ZEN_TELL(stored, field, sizeof(*field));
}

/* Place of a guarded word of an entry, for its check. */
static uint64
guard_place(const uint64 *field)
{
	const ZenHTableEntry *first = zen_pool.htables;
	uint64		place = (const char *) field - (const char *) first;
	const ZenHTableEntry *e = &first[place / sizeof(ZenHTableEntry)];
	uint64		move_to = zen_nvm_load64(&e->move_to);

	Assert(place < ZEN_MAX_HTABLES * sizeof(ZenHTableEntry));
	return field == &e->move_xid ? place ^ (move_to << 20) ^ (move_to >> 44) : place;
}

static void
store_guarded(uint64 *field, uint64 value)
{
	htable_store(field, zen_guard(guard_place(field), value));
	Assert(zen_nvm_load64(field) == zen_guard(guard_place(field), value));
}

/* Store the identity, word by word; the state is not part of it. */
static void
store_identity(ZenHTableEntry *e, const ZenHTable *ht)
{
	ZenHTableEntry image = {0};
	const uint64 *src = (const uint64 *) &image;
	uint64	   *dst = (uint64 *) e;

	image.db = ht->db;
	image.spc = ht->spc;
	image.relnumber = ht->relnumber;
	image.birth_cts = ht->birth_cts;
	image.create_xid = ht->create_xid;
	image.backend = ht->backend;
	image.crc = entry_crc(&image);
	for (int i = 0; i < offsetof(ZenHTableEntry, state) / sizeof(uint64); i++)
		zen_nvm_store64(&dst[i], src[i]);
	Assert(e->crc == entry_crc(e));
}

static void
persist_entry(ZenHTableEntry *e)
{
	zen_persist(e, sizeof(*e));
	ZEN_TELL(stored, e, sizeof(*e));
}

/* ---------- the directory in DRAM ---------- */

static Locator
make_locator(RelFileLocator loc, ProcNumber backend)
{
	Locator		l = {.db = ZEN_LOCATOR_DB(loc),.spc = ZEN_LOCATOR_SPC(loc),.relnumber = ZEN_LOCATOR_NUMBER(loc)};

	l.backend = backend == INVALID_PROC_NUMBER ? 0 : (uint32) backend + 1;
	return l;
}

static Locator
own_locator(const ZenHTable *ht)
{
	Locator		l = {.db = ht->db,.spc = ht->spc,.relnumber = ht->relnumber,.backend = ht->backend};

	return l;
}

uint32
zen_htable_end(void)
{
	return pg_atomic_read_u32(&free_entries->used_end);
}

/* List an HTable under its locator; caller holds ZEN_LOCK_HTABLE exclusively.  False if there is no memory. */
static bool
list_htable(ZenHTable *ht)
{
	Locator		key = own_locator(ht);
	LocatorEntry *entry;

	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE));
	entry = hash_search(by_locator, &key, HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		return false;
	entry->idx = ht->idx;
	if (ht->idx >= zen_htable_end())
		pg_atomic_write_u32(&free_entries->used_end, ht->idx + 1);
	return true;
}

ZenHTable *
zen_htable_find(RelFileLocator loc, ProcNumber backend)
{
	Locator		key = make_locator(loc, backend);
	LocatorEntry *entry;
	ZenHTable  *ht;

	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_SHARED);
	entry = hash_search(by_locator, &key, HASH_FIND, NULL);
	ht = entry ? &zen_htables[entry->idx] : NULL;
	Assert(ht == NULL || (ht->in_use && !ht->damaged));
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return ht;
}

ZenHTable *
zen_htable_create(RelFileLocator loc, ProcNumber backend, uint64 full_xid)
{
	ZenHTable  *ht;
	ZenHTableEntry *e;
	Locator		key = make_locator(loc, backend);

	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	if (free_entries->n == 0)
	{
		LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the zen pool already holds its maximum of %d tables", ZEN_MAX_HTABLES - 1),
				 errhint("Drop zen tables that are no longer needed, or create this one USING heap.")));
	}
	ht = &zen_htables[free_entries->idx[free_entries->n - 1]];
	Assert(ht->idx != 0 && !ht->in_use && !ht->damaged);
	Assert(zen_nvm_load64(&zen_pool.htables[ht->idx].state) == ZEN_HT_FREE);
	ht->db = key.db;
	ht->spc = key.spc;
	ht->relnumber = key.relnumber;
	ht->backend = key.backend;
	ht->birth_cts = zen_cts_now();
	ht->create_xid = full_xid;
	ht->drop_xid = 0;
	ht->bytes_taken = 0;
	pg_atomic_write_u32(&ht->reindex, 0);
	if (!list_htable(ht))
	{
		LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of shared memory for zen tables")));
	}
	free_entries->n--;

	e = &zen_pool.htables[ht->idx];
	store_identity(e, ht);
	zen_nvm_store64(&e->drop_xid, 0);
	zen_nvm_store64(&e->move_xid, 0);
	zen_nvm_store64(&e->flags, 0);
	zen_nvm_store64(&e->nblocks, 0);
	persist_entry(e);
	htable_store(&e->state, ZEN_HT_CREATING);
	pg_write_barrier();			/* pairs with zen_htable_owns */
	ht->in_use = 1;
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return ht;
}

void
zen_htable_created(ZenHTable *ht)
{
	Assert(zen_nvm_load64(&zen_pool.htables[ht->idx].state) == ZEN_HT_CREATING);
	ht->create_xid = 0;
	htable_store(&zen_pool.htables[ht->idx].state, ZEN_HT_LIVE);
}

void
zen_htable_set_drop(ZenHTable *ht, uint64 full_xid)
{
	Assert(ht->in_use || full_xid == 0);
	ht->drop_xid = full_xid;
	store_guarded(&zen_pool.htables[ht->idx].drop_xid, full_xid);
}

void
zen_htable_unlist(ZenHTable *ht)
{
	Locator		key = own_locator(ht);

	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	Assert(ht->in_use);
	htable_store(&zen_pool.htables[ht->idx].state, ZEN_HT_FREE);
	hash_search(by_locator, &key, HASH_REMOVE, NULL);
	ht->in_use = 0;
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
}

void
zen_htable_reuse(ZenHTable *ht)
{
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	Assert(!ht->in_use && !ht->damaged && ht->idx != 0 && free_entries->n < ZEN_MAX_HTABLES - 1);
	Assert(zen_nvm_load64(&zen_pool.htables[ht->idx].state) == ZEN_HT_FREE);
	free_entries->idx[free_entries->n++] = ht->idx;
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
}

void
zen_htable_empty(ZenHTable *ht)
{
	ZenHTableEntry *e = &zen_pool.htables[ht->idx];
	uint64		state = zen_nvm_load64(&e->state);

	/*
	 * identity changes only while the entry is FREE: a crash in between loses
	 * the table, whose creation (or whose truncation) belongs to the same
	 * unfinished transaction
	 */
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	Assert(ht->in_use && state != ZEN_HT_FREE);
	htable_store(&e->state, ZEN_HT_FREE);
	/* R14: rows of the former owner are not above it */
	Assert(ht->birth_cts <= zen_cts_now());
	ht->birth_cts = zen_cts_now();
	store_identity(e, ht);
	persist_entry(e);
	htable_store(&e->state, state);
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
}

void
zen_htable_move_begin(ZenHTable *ht, RelFileLocator to, uint64 full_xid)
{
	ZenHTableEntry *e = &zen_pool.htables[ht->idx];

	Assert(ht->in_use && full_xid != 0);
	store_guarded(&e->move_xid, 0);
	htable_store(&e->move_to, ((uint64) ZEN_LOCATOR_SPC(to) << ZEN_MOVE_SPC_SHIFT) | ZEN_LOCATOR_NUMBER(to));
	store_guarded(&e->move_xid, full_xid);
}

void
zen_htable_move_end(ZenHTable *ht, bool committed)
{
	ZenHTableEntry *e = &zen_pool.htables[ht->idx];

	zen_fault_stop(ZEN_FAULT(R18_STOP_MOVED) && committed);
	if (committed)
	{
		Locator		key = own_locator(ht);
		uint64		to = zen_nvm_load64(&e->move_to);

		/*
		 * The identity line is rewritten under the protection of move_xid: a
		 * crash in between finds it torn, and zen_htable_recover() completes
		 * it from move_to.  A table that one transaction has moved twice
		 * comes here twice, and is there the second time.
		 */
		Assert(zen_htable_move_xid(ht->idx) != 0 ||
			   (ht->spc == (Oid) (to >> ZEN_MOVE_SPC_SHIFT) && ht->relnumber == (RelFileNumber) to));
		LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
		hash_search(by_locator, &key, HASH_REMOVE, NULL);
		ht->spc = (Oid) (to >> ZEN_MOVE_SPC_SHIFT);
		ht->relnumber = (RelFileNumber) to;
		list_htable(ht);		/* the entry just removed is free for it */
		store_identity(e, ht);
		persist_entry(e);
		LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	}
	store_guarded(&e->move_xid, 0);
}

/* A damaged word counts as the flag set that asks for more work. */
static uint64
read_flags(ZenHTable *ht)
{
	uint64	   *flags = &zen_pool.htables[ht->idx].flags;
	uint64		value;

	return zen_guard_read(flags, guard_place(flags), &value) ? value : ZEN_HTF_REINDEX | ZEN_HTF_TREES;
}

bool
zen_htable_flag(ZenHTable *ht, uint64 flag)
{
	return (read_flags(ht) & flag) != 0;
}

void
zen_htable_set_flag(ZenHTable *ht, uint64 flag, bool on)
{
	uint64		flags = read_flags(ht) & ~flag;

	store_guarded(&zen_pool.htables[ht->idx].flags, on ? flags | flag : flags);
	Assert(zen_htable_flag(ht, flag) == on);
}

void
zen_htable_save_blocks(ZenHTable *ht, uint64 nblocks)
{
	store_guarded(&zen_pool.htables[ht->idx].nblocks, nblocks);
}

bool
zen_htable_saved_blocks(ZenHTable *ht, uint64 *nblocks)
{
	return zen_guard_read(&zen_pool.htables[ht->idx].nblocks, guard_place(&zen_pool.htables[ht->idx].nblocks), nblocks);
}

uint64
zen_htable_move_xid(uint32 idx)
{
	return zen_guard_value(zen_nvm_load64(&zen_pool.htables[idx].move_xid));
}

/* ---------- recovery ---------- */

static void
damaged_entry(uint32 idx, const char *what)
{
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("entry %u of the zen table directory is damaged: %s", idx, what),
			 errhint("Restore the pool from a backup of the same moment as the data directory.")));
}

static bool
state_fits(const void *image, const void *arg)
{
	uint64		state = *(const uint64 *) image;

	return state == ZEN_HT_FREE || state == ZEN_HT_CREATING || state == ZEN_HT_LIVE;
}

static bool
identity_fits(const void *image, const void *arg)
{
	const ZenHTableEntry *e = image;

	return e->crc == entry_crc(e);
}

/* Read an entry's state; a flipped bit is set right.  False if it makes no sense. */
static bool
read_entry_state(ZenHTableEntry *e, uint64 *state)
{
	*state = zen_nvm_load64(&e->state);
	if (state_fits(state, NULL))
		return true;
	if (!zen_repair_bit(state, sizeof(*state), state_fits, NULL))
		return false;
	htable_store(&e->state, *state);
	zen_note_repair(&e->state);
	return true;
}

/* Is the identity line as it was written?  A flipped bit is set right. */
static bool
mend_identity(ZenHTableEntry *e)
{
	ZenHTableEntry copy = *e;

	if (identity_fits(&copy, NULL))
		return true;
	if (!zen_repair_bit(&copy, offsetof(ZenHTableEntry, state), identity_fits, NULL))
		return false;
	for (int i = 0; i < offsetof(ZenHTableEntry, state) / sizeof(uint64); i++)
		zen_nvm_store64(&((uint64 *) e)[i], ((uint64 *) &copy)[i]);
	zen_persist(e, sizeof(*e));
	zen_note_repair(e);
	return true;
}

static void
load_identity(ZenHTable *ht, const ZenHTableEntry *e)
{
	ht->db = e->db;
	ht->spc = e->spc;
	ht->relnumber = e->relnumber;
	ht->backend = (uint32) e->backend;
	ht->birth_cts = e->birth_cts;
	ht->create_xid = e->create_xid;
}

/*
 * A move that has been decided is completed.  A crash while zen_htable_move_end() rewrote the identity line may have
 * torn it: what is new in it comes from move_to, and the rest never changes.
 */
static void
complete_move(ZenHTableEntry *e, bool committed)
{
	if (committed)
	{
		ZenHTable	identity;
		uint64		to = zen_nvm_load64(&e->move_to);

		load_identity(&identity, e);
		identity.spc = (Oid) (to >> ZEN_MOVE_SPC_SHIFT);
		identity.relnumber = (RelFileNumber) to;
		store_identity(e, &identity);
		persist_entry(e);		/* copies must not have the end without it */
	}
	store_guarded(&e->move_xid, 0);
}

/*
 * The entry is not free, but it is damaged and its table is unknown: its number is not used, its pages are not touched.
 */
static bool
give_up_entry(ZenHTable *ht, const char *what)
{
	zen_damages++;
	damaged_entry(ht->idx, what);
	ht->in_use = 0;
	ht->damaged = true;
	return true;
}

/* Load one entry; returns false if it is (or becomes) free.  Caller holds ZEN_LOCK_HTABLE. */
static bool
recover_entry(uint32 idx, bool (*committed) (uint64), bool (*in_progress) (uint64))
{
	ZenHTableEntry *e = &zen_pool.htables[idx];
	ZenHTable  *ht = &zen_htables[idx];
	uint64		state,
				move_xid,
				drop_xid,
				flags;

	Assert(LWLockHeldByMe(zen_lock(ZEN_LOCK_HTABLE)) && idx != 0);
	if (!read_entry_state(e, &state))
		return give_up_entry(ht, "it has an unknown state");
	if (state == ZEN_HT_FREE)
		return false;
	if (!zen_guard_read(&e->move_xid, guard_place(&e->move_xid), &move_xid))
		return give_up_entry(ht, "it is not known where the table has moved to");
	if (move_xid != 0 && !in_progress(move_xid))
		complete_move(e, committed(move_xid));
	if (!mend_identity(e))
		return give_up_entry(ht, "checksum does not match");
	load_identity(ht, e);

	if (ht->backend != 0)
	{
		/* its backend is gone, and no other process could read it */
		htable_store(&e->state, ZEN_HT_FREE);
		return false;
	}
	if (state == ZEN_HT_CREATING && !in_progress(e->create_xid))
	{
		if (!committed(e->create_xid))
		{
			htable_store(&e->state, ZEN_HT_FREE);
			return false;
		}
		zen_htable_created(ht);
	}
	else if (state == ZEN_HT_LIVE)
		ht->create_xid = 0;
	if (!zen_guard_read(&e->drop_xid, guard_place(&e->drop_xid), &drop_xid))
	{
		damaged_entry(idx, "a drop of the table may be lost");
		drop_xid = 0;
		zen_htable_set_drop(ht, 0);
	}
	if (drop_xid != 0 && !in_progress(drop_xid))
	{
		if (committed(drop_xid))
		{
			htable_store(&e->state, ZEN_HT_FREE);
			return false;
		}
		zen_htable_set_drop(ht, 0);
	}
	else
		ht->drop_xid = drop_xid;
	ht->in_use = 1;
	/* a damaged flag counts as set: to rebuild indexes is never wrong */
	if (!zen_guard_read(&e->flags, guard_place(&e->flags), &flags))
		flags = ZEN_HTF_REINDEX;
	pg_atomic_write_u32(&ht->reindex, (flags & ZEN_HTF_REINDEX) ? 1 : 0);
	return true;
}

bool
zen_htable_names_database(Oid db)
{
	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
	{
		ZenHTableEntry copy = zen_pool.htables[idx];

		if (copy.state != ZEN_HT_FREE && (copy.db == db || !identity_fits(&copy, NULL)))
			return true;
	}
	return false;
}

void
zen_htable_recover(bool (*committed) (uint64), bool (*in_progress) (uint64))
{
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	free_entries->n = 0;

	/*
	 * entry 0 is zen's own: the owner of shared pages; low numbers are handed
	 * out first
	 */
	for (uint32 idx = ZEN_MAX_HTABLES - 1; idx > 0; idx--)
	{
		zen_htables[idx].in_use = 0;
		if (!recover_entry(idx, committed, in_progress))
			free_entries->idx[free_entries->n++] = idx;
		else if (zen_htables[idx].in_use && !list_htable(&zen_htables[idx]))
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of shared memory for zen tables")));
	}
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
}

/* ---------- a hot standby ---------- */

bool
zen_htable_is_there(uint32 idx)
{
	const ZenHTableEntry *e = &zen_pool.htables[idx];
	uint64		state = zen_nvm_load64(&e->state);

	return (state == ZEN_HT_CREATING || state == ZEN_HT_LIVE) && e->backend == 0 && identity_fits(e, NULL);
}

bool
zen_htable_has_gone(uint32 idx)
{
	const ZenHTable *ht = &zen_htables[idx];
	const ZenHTableEntry *e = &zen_pool.htables[idx];

	return ht->in_use && (!zen_htable_is_there(idx) || e->birth_cts != ht->birth_cts || e->db != ht->db);
}

void
zen_htable_forget(uint32 idx)
{
	ZenHTable  *ht = &zen_htables[idx];
	Locator		key = own_locator(ht);

	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	if (ht->in_use)
		hash_search(by_locator, &key, HASH_REMOVE, NULL);
	ht->in_use = 0;
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
}

bool
zen_htable_follow(uint32 idx)
{
	ZenHTable  *ht = &zen_htables[idx];
	const ZenHTableEntry *e = &zen_pool.htables[idx];
	bool		listed = true;

	Assert(idx != 0 && !zen_htable_has_gone(idx));
	if (!zen_htable_is_there(idx) || (ht->in_use && ht->spc == e->spc && ht->relnumber == e->relnumber))
		return true;
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_EXCLUSIVE);
	if (ht->in_use)
	{
		/* it has moved: whoever holds on to it goes on with it */
		Locator		key = own_locator(ht);

		hash_search(by_locator, &key, HASH_REMOVE, NULL);
	}
	load_identity(ht, e);
	ht->drop_xid = 0;
	ht->late = false;
	pg_atomic_write_u32(&ht->reindex, 0);
	listed = list_htable(ht);
	pg_write_barrier();			/* pairs with zen_htable_owns */
	ht->in_use = listed;
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return listed;
}

ZenHTable *
zen_htable_find_moved(RelFileLocator loc, bool (*committed) (uint64 full_xid))
{
	uint64		to = ((uint64) ZEN_LOCATOR_SPC(loc) << ZEN_MOVE_SPC_SHIFT) | ZEN_LOCATOR_NUMBER(loc);

	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
	{
		uint64		xid;

		if (!zen_htables[idx].in_use || zen_htables[idx].db != ZEN_LOCATOR_DB(loc))
			continue;
		xid = zen_htable_move_xid(idx);
		if (xid != 0 && zen_nvm_load64(&zen_pool.htables[idx].move_to) == to && committed(xid))
			return &zen_htables[idx];
	}
	return NULL;
}

static bool
entry_is_lasting(ZenHTableEntry *e, bool (*committed) (uint64))
{
	uint64		state = zen_nvm_load64(&e->state);
	uint64		drop_xid;

	if (state == ZEN_HT_FREE || e->backend != 0 || (state == ZEN_HT_CREATING && !committed(e->create_xid)))
		return false;
	return !zen_guard_read(&e->drop_xid, guard_place(&e->drop_xid), &drop_xid) || drop_xid == 0 || !committed(drop_xid);
}

uint32
zen_htable_lasting(bool (*committed) (uint64))
{
	uint32		n = 0;

	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
		n += entry_is_lasting(&zen_pool.htables[idx], committed);
	return n;
}

bool
zen_htable_named(uint32 idx, RelFileLocator *loc)
{
	const ZenHTableEntry *e = &zen_pool.htables[idx];
	ZenHTableEntry copy;

	Assert(idx > 0 && idx < ZEN_MAX_HTABLES);
	if (zen_nvm_load64(&e->state) == ZEN_HT_FREE)
		return false;
	/* what redo changes meanwhile does not fit its CRC */
	pg_read_barrier();
	copy = *e;
	if (copy.backend != 0 || copy.crc != entry_crc(&copy))
		return false;
	ZEN_LOCATOR_DB(*loc) = copy.db;
	ZEN_LOCATOR_SPC(*loc) = copy.spc;
	ZEN_LOCATOR_NUMBER(*loc) = copy.relnumber;
	return true;
}

/* ---------- verification ---------- */

/* Caller holds ZEN_LOCK_HTABLE, under which identity and state change together. */
static const char *
entry_fault(const ZenHTable *ht, const ZenHTableEntry *e)
{
	uint64		state = zen_nvm_load64(&e->state);

	Assert(LWLockHeldByMe(zen_lock(ZEN_LOCK_HTABLE)));
	if (ht->damaged)
		return "it was found damaged when the server was started";
	if (!ht->in_use)
		return state == ZEN_HT_FREE ? NULL : "it is free, but not so in NVM";
	if (state != ZEN_HT_CREATING && state != ZEN_HT_LIVE)
		return "it is in use, but not so in NVM";
	if (e->crc != entry_crc(e))
		return "its checksum does not match";
	if (e->db != ht->db || e->spc != ht->spc || e->relnumber != ht->relnumber || e->birth_cts != ht->birth_cts ||
		e->backend != ht->backend)
		return "it names another table in NVM";
	return NULL;
}

const char *
zen_htable_fault(uint32 idx)
{
	const char *fault;

	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_SHARED);
	fault = entry_fault(&zen_htables[idx], &zen_pool.htables[idx]);
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return fault;
}

const char *
zen_htable_copy_fault(uint32 idx)
{
	const ZenHTableEntry *e = &zen_pool.htables[idx];
	uint64		state = zen_nvm_load64(&e->state);

	if (state == ZEN_HT_FREE)
		return NULL;
	if (state != ZEN_HT_CREATING && state != ZEN_HT_LIVE)
		return "it is neither free nor in use";
	return e->crc == entry_crc(e) ? NULL : "its checksum does not match";
}

uint32
zen_htable_unsettled(void)
{
	uint32		n;

	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_SHARED);
	n = ZEN_MAX_HTABLES - 1 - free_entries->n;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use || zen_htables[i].damaged)
			n--;
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return n;
}
