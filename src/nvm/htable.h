/*
 * htable.h -- the HTable directory: which zen tables exist.
 *
 * An HTable is the NVM side of one relfilenode: TRUNCATE, CLUSTER and rewrites make a new one.  Creation and drop
 * follow the fate of the transaction that does them: the directory carries its xid until that is known.
 */
#ifndef ZEN_HTABLE_H
#define ZEN_HTABLE_H

#include "base/compat.h"
#include "base/startup.h"
#include "nvm/layout.h"
#include "port/atomics.h"

typedef struct ZenHTable
{
	uint32		idx;			/* entry in the directory; constant */

	/* identity, under ZEN_LOCK_HTABLE; constant while in use */
	uint32		in_use;			/* 0: the entry is free, or damaged */
	bool		damaged;		/* found so at start: its rows are not
								 * available, and not touched */
	Oid			db;
	Oid			spc;
	RelFileNumber relnumber;
	uint32		backend;		/* 0, or 1 + backend id of a temporary table */
	uint64		birth_cts;		/* rows have a larger Tx-CTS */
	uint64		create_xid;		/* full xid, 0 once committed */
	uint64		drop_xid;		/* full xid of a drop under way, or 0 */

	bool		late;			/* recovery maps it after the other tables;
								 * leader only, before any table is open */
	bool		has_contexts;	/* of pages of its own (slotalloc.c); under
								 * ZEN_LOCK_ALLOC */

	pg_atomic_uint32 reindex;	/* 0, or else indexes were lost in a crash and
								 * are not rebuilt (zenam_reindex.c) */
	uint64		bytes_taken;	/* of shared pages, up to a threshold; racy on
								 * purpose (slotalloc.c) */
} ZenHTable;

extern ZenHTable *zen_htables;	/* [ZEN_MAX_HTABLES] */

/* zen_htable_shmem -- its part of shared memory. */
extern const ZenShmem zen_htable_shmem;

/*
 * zen_htable_find -- the HTable of a relfilenode, or NULL.
 *
 * backend is rd_backend: relfilenodes of temporary tables are unique within one backend only.
 */
extern ZenHTable *zen_htable_find(RelFileLocator loc, ProcNumber backend);

/* zen_htable_end -- HTables from this one on have not been in use since the start: a walk over all ends here. */
extern uint32 zen_htable_end(void);

/*
 * zen_htable_create -- a new HTable for a relfilenode, that exists if full_xid commits.
 *
 * The entry is durable on return.  Throws ERRCODE_CONFIGURATION_LIMIT_EXCEEDED when the directory is full.
 */
extern ZenHTable *zen_htable_create(RelFileLocator loc, ProcNumber backend, uint64 full_xid);

/* zen_htable_created -- its transaction has committed; durable on return. */
extern void zen_htable_created(ZenHTable *ht);

/* zen_htable_set_drop -- the table goes if full_xid commits; 0: it stays.  Durable on return. */
extern void zen_htable_set_drop(ZenHTable *ht, uint64 full_xid);

/* zen_htable_unlist -- no process finds the table any more; its entry is free, durably, but not yet reused. */
extern void zen_htable_unlist(ZenHTable *ht);

/* zen_htable_reuse -- all its pages and memory are gone: the entry may serve another table. */
extern void zen_htable_reuse(ZenHTable *ht);

/* zen_htable_empty -- all rows so far belong to no table (truncation in place); durable on return. */
extern void zen_htable_empty(ZenHTable *ht);

/* The table moves to another relfilenode (SET TABLESPACE) if full_xid commits. */
extern void zen_htable_move_begin(ZenHTable *ht, RelFileLocator to, uint64 full_xid);
extern void zen_htable_move_end(ZenHTable *ht, bool committed);

/*
 * What an entry in NVM says of a table's indexes, ZEN_HTF_*.  REINDEX: they must be rebuilt.  TREES: some are in DRAM,
 * and each start must make them anew.  A damaged word counts as both.
 *
 * zen_htable_flag -- is a flag set?  zen_htable_set_flag -- set it, or take it away; durable on return.
 */
extern bool zen_htable_flag(ZenHTable *ht, uint64 flag);
extern void zen_htable_set_flag(ZenHTable *ht, uint64 flag, bool on);

/* At a clean stop: the size of the logical-tuple map. */
extern void zen_htable_save_blocks(ZenHTable *ht, uint64 nblocks);

/* At a start: its value then; false if that is damaged. */
extern bool zen_htable_saved_blocks(ZenHTable *ht, uint64 *nblocks);

/* Full xid of a move of the entry that is under way, or 0. */
extern uint64 zen_htable_move_xid(uint32 idx);

/*
 * zen_htable_recover -- read the directory; committed decides the fate of in-doubt entries.
 *
 * The caller has made sure that pg_xact's answers are final.
 */
extern void zen_htable_recover(bool (*committed) (uint64 full_xid), bool (*in_progress) (uint64 full_xid));

/*
 * A hot standby: DRAM follows an entry of the directory that redo may have changed.
 *
 * zen_htable_is_there -- by its entry, can the table be read, now or when the transaction that makes it has committed?
 *
 * zen_htable_has_gone -- has the table that DRAM knows at this entry gone, or lost its rows?
 *
 * zen_htable_forget -- no process finds it any more.  Its map is the caller's.
 *
 * zen_htable_follow -- it is listed if it is there, under the name that it has now.  False if there is no memory.
 *
 * zen_htable_find_moved -- a table of which a transaction that has committed says that it moves to this relfilenode.
 * The entry still has the former name.
 */
extern bool zen_htable_is_there(uint32 idx);
extern bool zen_htable_has_gone(uint32 idx);
extern void zen_htable_forget(uint32 idx);
extern bool zen_htable_follow(uint32 idx);
extern ZenHTable *zen_htable_find_moved(RelFileLocator loc, bool (*committed) (uint64 full_xid));

/*
 * zen_htable_lasting -- how many tables has the directory of a copy, toast tables included?  Not those that a committed
 * transaction has dropped, that none has made, or that are temporary.  The startup process, between two records.
 */
extern uint32 zen_htable_lasting(bool (*committed) (uint64 full_xid));

/*
 * zen_htable_names_database -- may the directory, as it is in NVM, have tables of the database?
 *
 * For callers before recovery, or after it has failed.  True also of a damaged entry, which may be of any database.
 */
extern bool zen_htable_names_database(Oid db);

/*
 * zen_htable_named -- the relfilenode that an entry of the directory names, as it is in NVM.
 *
 * False if the entry is free, damaged, or of a temporary table.  The transaction that makes or drops the table may be
 * under way, or may have aborted.  For a copy in recovery: redo may change the directory meanwhile.
 */
extern bool zen_htable_named(uint32 idx, RelFileLocator *loc);

/*
 * zen_htable_fault -- what is wrong between an entry in NVM and its half in DRAM; NULL if nothing is.
 * zen_htable_copy_fault -- what is wrong with an entry in NVM alone; for a copy in recovery.
 * zen_htable_unsettled -- entries that are neither in use nor free: their tables are being destroyed just now.
 */
extern const char *zen_htable_fault(uint32 idx);
extern const char *zen_htable_copy_fault(uint32 idx);
extern uint32 zen_htable_unsettled(void);

/* The rows of a slot with this Tx-CTS belong to ht. */
static inline bool
zen_htable_owns(const ZenHTable *ht, uint64 cts)
{
	if (!ht->in_use)
		return false;
	pg_read_barrier();			/* pairs with zen_htable_create */
	return cts > ht->birth_cts;
}

#endif							/* ZEN_HTABLE_H */
