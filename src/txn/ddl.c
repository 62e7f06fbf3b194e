/*
 * ddl.c -- creation and drop of HTables follow their transaction.
 *
 * An HTable entry names its creator's, dropper's or mover's full xid until the end of that transaction is known.
 * src/txn/README, "DDL", says why this xid is made durable first, and in which order a table is destroyed.
 */
#include "txn/ddl.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/fault.h"
#include "base/locks.h"
#include "cache/spillmap.h"
#include "miscadmin.h"
#include "nvm/delta.h"
#include "nvm/persist.h"
#include "nvm/slotalloc.h"
#include "row/writeset.h"
#include "stream/streamtail.h"
#include "txn/spillend.h"
#include "utils/memutils.h"

typedef enum DdlKind
{
	DDL_CREATE,
	DDL_DROP,
	DDL_MOVE
} DdlKind;

typedef struct Ddl
{
	DdlKind		kind;
	ZenHTable  *ht;
	int			nest_level;
	bool		begun;			/* drop: the entry carries the xid */
	RelFileLocator to;			/* move */
} Ddl;

static Ddl *ddl_list = NULL;
static int	ddl_count = 0;
static int	ddl_capacity = 0;
static bool xid_is_durable = false;

/* Note an entry, for which there is room. */
static void
ddl_add(DdlKind kind, ZenHTable *ht)
{
	Ddl			ddl = {.kind = kind,.ht = ht,.nest_level = GetCurrentTransactionNestLevel()};

	Assert(ddl_count < ddl_capacity && ht->in_use && ht->idx != 0);
	/* savepoints end from the last on */
	Assert(ddl_count == 0 || ddl_list[ddl_count - 1].nest_level <= ddl.nest_level);
	ddl_list[ddl_count++] = ddl;
}

static void
ddl_reserve(int n)
{
	int			wanted = Max(16, 2 * (ddl_count + n));

	zen_writeset_check_open();
	if (ddl_count + n <= ddl_capacity)
		return;
	ddl_list = ddl_list ? repalloc(ddl_list, wanted * sizeof(Ddl)) :
		MemoryContextAlloc(TopMemoryContext, wanted * sizeof(Ddl));
	ddl_capacity = wanted;
}

void
zen_xid_make_durable(void)
{
	XLogRecPtr	end;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(CritSectionCount == 0);
	if (xid_is_durable)
		return;
	(void) GetTopTransactionId();
	end = zen_streamlog_mark(true);
	if (!ZEN_FAULT(R9_NO_XID_FLUSH))
		XLogFlush(end);
	xid_is_durable = true;
}

ZenHTable *
zen_ddl_create(RelFileLocator loc, ProcNumber backend)
{
	ZenHTable  *ht;

	ddl_reserve(1);
	zen_xid_make_durable();
	ht = zen_htable_create(loc, backend, U64FromFullTransactionId(GetTopFullTransactionId()));
	ddl_add(DDL_CREATE, ht);
	return ht;
}

/* Is a move of the table to this place under way? */
static bool
moves_to(const ZenHTable *ht, RelFileLocator loc)
{
	uint64		to = ((uint64) ZEN_LOCATOR_SPC(loc) << 32) | ZEN_LOCATOR_NUMBER(loc);

	return ht->db == ZEN_LOCATOR_DB(loc) && zen_nvm_load64(&zen_pool.htables[ht->idx].move_to) == to;
}

/* A table that the leader of this parallel worker has moved: the worker sees the directory, not the leader's list. */
static ZenHTable *
find_moved_by_leader(RelFileLocator loc)
{
	uint64		full_xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());

	Assert(IsParallelWorker());
	for (uint32 i = 1; i < zen_htable_end() && full_xid != 0; i++)
		if (zen_htables[i].in_use && zen_htable_move_xid(i) == full_xid && moves_to(&zen_htables[i], loc))
			return &zen_htables[i];
	return NULL;
}

ZenHTable *
zen_ddl_find(RelFileLocator loc, ProcNumber backend)
{
	ZenHTable  *ht = zen_htable_find(loc, backend);

	for (int i = ddl_count - 1; i >= 0 && ht == NULL; i--)
		if (ddl_list[i].kind == DDL_MOVE && moves_to(ddl_list[i].ht, loc))
			ht = ddl_list[i].ht;
	if (ht == NULL && IsParallelWorker())
		ht = find_moved_by_leader(loc);
	return ht;
}

bool
zen_ddl_is_dropping(const ZenHTable *ht)
{
	for (int i = 0; i < ddl_count; i++)
		if (ddl_list[i].kind == DDL_DROP && ddl_list[i].ht == ht)
			return true;
	return false;
}

void
zen_ddl_drop(ZenHTable *ht)
{
	if (zen_ddl_is_dropping(ht))
		return;
	ddl_reserve(1);
	ddl_add(DDL_DROP, ht);
}

void
zen_ddl_drop_database(Oid db)
{
	for (uint32 i = 1; i < zen_htable_end(); i++)
		if (zen_htables[i].in_use && zen_htables[i].db == db)
			zen_ddl_drop(&zen_htables[i]);
}

void
zen_ddl_move(ZenHTable *ht, RelFileLocator to)
{
	ddl_reserve(1);
	zen_xid_make_durable();
	zen_htable_move_begin(ht, to, U64FromFullTransactionId(GetTopFullTransactionId()));
	ddl_add(DDL_MOVE, ht);
	ddl_list[ddl_count - 1].to = to;
}

/* Free a slot of a table that is going; those in its own pages go with the pages. */
static void
free_shared(ZenSlot slot)
{
	if (slot == InvalidZenSlot || zen_pages[zen_slot_page(slot)].owner.htable != 0)
		return;
	/* the page may be another region's, which gives it away when it is empty */
	zen_epoch_enter();
	zen_slot_free(slot);
	zen_epoch_leave();
}

/* R22: what the oldest version of a list leaves: the bases of the others are in it. */
static ZenSlot
last_base(const ZenVersion *v)
{
	ZenSlot		last = InvalidZenSlot;

	for (; v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot)
			last = v->slot;
	return zen_delta_base(last);
}

/* Empty one word of a table that no process reads any more; replaced: the slot that a spilled version has replaced. */
static void
empty_word(ZenWord *word, ZenSlot replaced)
{
	uint64		w = zen_word_lock(word);
	uint64		state = zen_word_state(w);
	ZenVersion *v = state == ZEN_WORD_ENTRY ? zen_word_entry(w) : NULL;
	ZenSlot		slot = state == ZEN_WORD_ENTRY ? InvalidZenSlot : zen_word_ref(w);

	zen_chain_check(w);
	zen_word_unlock_empty(word);
	free_shared(v != NULL ? last_base(v) : zen_delta_base(slot));
	free_shared(slot);
	/* else the collector has come, and taken it */
	if (state == ZEN_WORD_SPILLED)
	{
		free_shared(zen_delta_base(replaced));
		free_shared(replaced);
	}
	while (v != NULL)
	{
		ZenVersion *older = v->older;

		if (v->lockers)
			zen_version_lockers_free(v->lockers);
		v->lockers = NULL;
		if (v->slot != InvalidZenSlot && zen_pages[zen_slot_page(v->slot)].owner.htable == 0)
			zen_version_condemn(v);
		zen_version_retire(v);
		v = older;
	}
}

#define WORDS_AHEAD	12

/* The slots that the spilled versions of a block of such a table replace; none elsewhere. */
static void
find_replaced(ZenHTable *ht, uint32 block, ZenSlot *replaced)
{
	ZenSpill   *s;

	zen_epoch_enter();
	s = zen_spillmap_find(ht, block);
	for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		replaced[i] = s != NULL ? zen_spillmap_old(s, i) : InvalidZenSlot;
	zen_epoch_leave();
}

/* Is a version of a block of such a table in NVM alone, before its commit was settled? */
static bool
has_spilled(ZenWord *words)
{
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		if (zen_word_state(zen_word_read(&words[i])) == ZEN_WORD_SPILLED)
			return true;
	return false;
}

/* Free versions and slots of such a block.  Versions are asked for some words ahead. */
static void
empty_block(ZenHTable *ht, uint32 block)
{
	ZenWord    *words = zen_tidmap_word(ht, (uint64) block * ZEN_TIDS_PER_BLOCK);
	ZenSlot		replaced[ZEN_TIDS_PER_BLOCK] = {InvalidZenSlot};
	bool		spilled;

	/* every block that was handed out has its words */
	Assert(words != NULL);
	spilled = has_spilled(words);
	if (spilled)
		find_replaced(ht, block, replaced);
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		uint64		next = i + WORDS_AHEAD < ZEN_TIDS_PER_BLOCK ? zen_word_read(&words[i + WORDS_AHEAD]) : 0;

		if (zen_word_state(next) == ZEN_WORD_ENTRY)
			zen_version_ask(zen_word_entry(next));
		if (pg_atomic_read_u64(&words[i]) != 0)
			empty_word(&words[i], replaced[i]);
	}
	if (spilled)
		zen_spillmap_trim(ht, block, true);
}

/* Free versions, slots and map of a table that is going, and then its own pages. */
static void
empty_table(ZenHTable *ht)
{
	uint64		n = zen_tidmap_nblocks(ht);

	for (uint64 block = 0; block < n; block++)
		empty_block(ht, (uint32) block);
	zen_tidmap_drop(ht);
	zen_slotalloc_drop_htable(ht->idx);
}

static void
destroy(ZenHTable *ht)
{
	Assert(ht->in_use && ht->idx != 0);
	ZenAssertNotInEpoch();
	zen_htable_unlist(ht);
	empty_table(ht);
	zen_htable_reuse(ht);
}

/* A table of this transaction's own is being emptied in place: forget what was written to it. */
static void
forget_writes(ZenHTable *ht)
{
	ZenWriteSet *ws = &zen_writeset;
	uint32		n = 0;

	Assert(!ws->writes_closed);
	for (uint32 i = 0; i < ws->nwrites; i++)
		if (ws->writes[i].ht != ht)
			ws->writes[n++] = ws->writes[i];
	ws->nwrites = n;
	n = 0;
	for (uint32 i = 0; i < ws->nlocks; i++)
		if (ws->locks[i].ht != ht)
			ws->locks[n++] = ws->locks[i];
	ws->nlocks = n;
}

/* Was the table made in this (sub)transaction, so that a rollback takes it away with all rows? */
static bool
is_own(const ZenHTable *ht)
{
	for (int i = 0; i < ddl_count; i++)
		if (ddl_list[i].kind == DDL_CREATE && ddl_list[i].ht == ht)
			return ddl_list[i].nest_level == GetCurrentTransactionNestLevel();
	return false;
}

bool
zen_ddl_truncate(ZenHTable *ht)
{
	ZenAssertNotInEpoch();
	if (!is_own(ht))
		return false;
	zen_writeset_check_open();
	zen_htable_empty(ht);
	zen_spillend_forget_table(ht);
	forget_writes(ht);
	empty_table(ht);
	ht->bytes_taken = 0;
	return true;
}

bool
zen_ddl_pending(void)
{
	return ddl_count > 0;
}

void
zen_ddl_precommit(uint64 full_xid)
{
	Assert(ddl_count == 0 || full_xid == U64FromFullTransactionId(GetTopFullTransactionIdIfAny()));
	for (int i = 0; i < ddl_count; i++)
		if (ddl_list[i].kind == DDL_DROP)
		{
			Assert(!ddl_list[i].begun);
			zen_xid_make_durable();
			ddl_list[i].begun = true;
			zen_htable_set_drop(ddl_list[i].ht, full_xid);
		}
}

/* A move is undone.  An earlier move of the same transaction stays: the entry has forgotten it for the later one. */
static void
undo_move(ZenHTable *ht)
{
	for (int i = ddl_count - 1; i >= 0; i--)
		if (ddl_list[i].kind == DDL_MOVE && ddl_list[i].ht == ht)
		{
			zen_htable_move_begin(ht, ddl_list[i].to, U64FromFullTransactionId(GetTopFullTransactionIdIfAny()));
			return;
		}
	zen_htable_move_end(ht, false);
}

/* Undo one entry, which is no longer in the list: its (sub)transaction has aborted. */
static void
ddl_undo(Ddl *ddl)
{
	Assert(ddl->ht->in_use);
	switch (ddl->kind)
	{
		case DDL_CREATE:
			destroy(ddl->ht);
			break;
		case DDL_DROP:
			if (ddl->begun)
				zen_htable_set_drop(ddl->ht, 0);
			break;
		case DDL_MOVE:
			undo_move(ddl->ht);
			break;
	}
}

static void
ddl_commit(void)
{
	/* the xid that these entries bear in NVM will not be issued again */
	Assert(ddl_count == 0 || xid_is_durable);
	/* in order: a table may be created, moved and dropped by one transaction */
	for (int i = 0; i < ddl_count; i++)
		switch (ddl_list[i].kind)
		{
			case DDL_CREATE:
				zen_htable_created(ddl_list[i].ht);
				break;
			case DDL_MOVE:
				zen_htable_move_end(ddl_list[i].ht, true);
				break;
			case DDL_DROP:
				destroy(ddl_list[i].ht);
				break;
		}
}

/* Undo the entries of the (sub)transactions from this nest level on. */
static void
ddl_abort(int nest_level)
{
	while (ddl_count > 0 && ddl_list[ddl_count - 1].nest_level >= nest_level)
		ddl_undo(&ddl_list[--ddl_count]);
}

void
zen_ddl_end(XactEvent event)
{
	if (event == XACT_EVENT_COMMIT)
		ddl_commit();
	else if (event == XACT_EVENT_ABORT)
		ddl_abort(0);
	ddl_count = 0;
	xid_is_durable = false;
}

void
zen_ddl_subend(SubXactEvent event, int nest_level)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		ddl_abort(nest_level);
	for (int i = ddl_count; i > 0 && ddl_list[i - 1].nest_level >= nest_level; i--)
		ddl_list[i - 1].nest_level = nest_level - 1;
	Assert(ddl_count == 0 || ddl_list[ddl_count - 1].nest_level < nest_level);
}

void
zen_ddl_resolve(uint64 full_xid, bool committed)
{
	Assert(full_xid != 0 && LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_RECOVERY), LW_EXCLUSIVE));
	for (uint32 i = 1; i < zen_htable_end(); i++)
	{
		ZenHTable  *ht = &zen_htables[i];

		if (!ht->in_use)
			continue;
		if (zen_htable_move_xid(i) == full_xid)
			zen_htable_move_end(ht, committed);
		if (committed && ht->create_xid == full_xid)
			zen_htable_created(ht);
		if ((committed ? ht->drop_xid : ht->create_xid) == full_xid)
			destroy(ht);
		else if (ht->drop_xid == full_xid)
			zen_htable_set_drop(ht, 0);
	}
}
