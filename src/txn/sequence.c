/*
 * sequence.c -- a number handed out must not be handed out again.
 *
 * There is one position in the WAL for all, `needed`:
 * - a number leaves the session that has taken it only after `needed` covers the record of that number;
 * - no zen-only commit becomes durable before the WAL is flushed up to `needed`.
 *
 * src/txn/README, "Sequences", has the argument, the ways by which numbers leave a session, and why the committer logs
 * further ahead before it waits for the disk.
 *
 * A lock tells that a session has used a sequence: nextval() keeps a RowExclusiveLock on it to the end of the
 * transaction.  The lock is in the process's own fast-path slots.  It is in the main lock table if the slots were
 * taken, or if another process wants a strong lock.  The process that moves it there holds the slots' lock exclusively.
 * A number that nextval() does not have in store costs an access to a shared buffer, so as long as there was no such
 * access there is nothing new.
 */
#include "txn/sequence.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "base/ownwal.h"
#include "catalog/pg_class.h"
#include "catalog/pg_sequence.h"
#include "commands/sequence.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/inval.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#define CACHE_SIZE	64			/* a power of 2 */
#define SMALL_PART	128			/* of a sequence's numbers may be logged ahead */
#ifdef __x86_64__
#define STORES_ARE_IN_ORDER	true
#else
#define STORES_ARE_IN_ORDER	false
#endif
#define FP_ROW_EXCLUSIVE	(UINT64CONST(0x249249249249) << (RowExclusiveLock - 1)) /* of 16 slots, 3 bits
																					 * each */

StaticAssertDecl((CACHE_SIZE & (CACHE_SIZE - 1)) == 0, "the cache is indexed by bits of the oid");

/* The kinds of relations that are locked over and over again. */
typedef struct KnownRelation
{
	Oid			oid;
	bool		is_sequence;	/* whose numbers survive a crash */
	RelFileLocator locator;		/* of a sequence */
	Buffer		buffer;			/* where its page was last */
} KnownRelation;

static KnownRelation known[CACHE_SIZE];
static bool callback_registered = false;

/* How far the WAL must be flushed before a zen-only commit; only grows.  Alone in its line: each commit reads it. */
typedef union Needed
{
	pg_atomic_uint64 lsn;
	char		line[PG_CACHE_LINE_SIZE];
} Needed;

static Needed *needed;

static int64 blocks_seen = 0;	/* accesses to buffers when we last published */
static int64 records_before = 0;	/* WAL records of this process when its
									 * last transaction ended */
static XLogRecPtr own_record = InvalidXLogRecPtr;	/* the last one that was
													 * nextval()'s, and ours */
static Oid	own_sequence;		/* that it is of */
static XLogRecPtr sequence_flushed = InvalidXLogRecPtr; /* at least so far */

/* ---------- kinds of relations ---------- */

static void
forget_known(Datum arg, int cacheid, uint32 hashvalue)
{
	memset(known, 0, sizeof(known));
}

static KnownRelation *
known_place(Oid relid)
{
	return &known[relid & (CACHE_SIZE - 1)];
}

/*
 * Where a relation's page is, if it is a sequence.  A sequence that a crash resets, because it is temporary or
 * unlogged, counts as any other relation.
 */
static KnownRelation
sequence_read_catalog(Oid relid)
{
	KnownRelation k = {.oid = relid,.buffer = InvalidBuffer};
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class c;

	if (!HeapTupleIsValid(tuple))
		return k;
	c = (Form_pg_class) GETSTRUCT(tuple);
	k.is_sequence = c->relkind == RELKIND_SEQUENCE && c->relpersistence == RELPERSISTENCE_PERMANENT;
	ZEN_LOCATOR_SPC(k.locator) = OidIsValid(c->reltablespace) ? c->reltablespace : MyDatabaseTableSpace;
	ZEN_LOCATOR_DB(k.locator) = MyDatabaseId;
	ZEN_LOCATOR_NUMBER(k.locator) = c->relfilenode;
	ReleaseSysCache(tuple);
	return k;
}

/* Is it known that a relation is no sequence whose numbers survive a crash? */
static inline bool
is_known_other(Oid relid)
{
	KnownRelation *k = known_place(relid);

	return k->oid == relid && !k->is_sequence;
}

static KnownRelation *
sequence_look_up(Oid relid)
{
	KnownRelation *k = known_place(relid);

	if (!callback_registered)
	{
		CacheRegisterSyscacheCallback(RELOID, forget_known, (Datum) 0);
		callback_registered = true;
	}
	if (k->oid != relid)
	{
		XLogRecPtr	end = XactLastRecEnd;
		int64		records = pgWalUsage.wal_records;

		*k = sequence_read_catalog(relid);
		/* to read a catalog's page may prune it: that is no change */
		records_before += pgWalUsage.wal_records - records;
		XactLastRecEnd = end;
	}
	Assert(k->oid == relid);
	return k;
}

/* ---------- relations locked ---------- */

/* Relations that this process has locked as nextval() does. */
typedef struct Locked
{
	Oid			oids[64];
	int			n;
	bool		more;			/* there are more, or may be */
} Locked;

static void
add_locked(Locked *locked, Oid relid)
{
	Assert(OidIsValid(relid));
	if (locked->n < lengthof(locked->oids))
		locked->oids[locked->n++] = relid;
	else
		locked->more = true;
}

/* The slot of a group to which the first of these bits belongs. */
static inline int
fast_path_slot(int group, uint64 bits)
{
	return group * FP_LOCK_SLOTS_PER_GROUP + pg_rightmost_one_pos64(bits) / 3;
}

static void
add_fast_path(Locked *locked)
{
	for (int group = 0; group < FastPathLockGroupsPerBackend; group++)
		for (uint64 bits = zen_fast_path_bits(MyProc, group) & FP_ROW_EXCLUSIVE; bits != 0; bits &= bits - 1)
			add_locked(locked, MyProc->fpRelId[fast_path_slot(group, bits)]);
}

static void
add_main_table(Locked *locked)
{
	for (int p = 0; p < NUM_LOCK_PARTITIONS; p++)
	{
		PROCLOCK   *l;

		zen_foreach_proclock(l, MyProc, p)
		{
			const LOCKTAG *tag = &l->tag.myLock->tag;

			if (tag->locktag_type == LOCKTAG_RELATION && tag->locktag_field1 == MyDatabaseId &&
				(l->holdMask & LOCKBIT_ON(RowExclusiveLock)))
				add_locked(locked, tag->locktag_field2);
		}
	}
}

/* The relations locked.  With `wait` false the caller may hold any LWLock. */
static void
find_locked(Locked *locked, bool wait)
{
	locked->n = 0;
	locked->more = false;
	Assert(!wait || !LWLockHeldByMe(&MyProc->fpInfoLock));

	/*
	 * shared, so that no other process moves one from here to the main table
	 * between the two reads; apart from that, only this process changes its
	 * lists there
	 */
	if (wait)
		LWLockAcquire(&MyProc->fpInfoLock, LW_SHARED);
	else if (!LWLockConditionalAcquire(&MyProc->fpInfoLock, LW_SHARED))
	{
		locked->more = true;
		return;
	}
	add_fast_path(locked);
	add_main_table(locked);
	LWLockRelease(&MyProc->fpInfoLock);
}

/*
 * In a partition of the main table, does this process have one lock only, and is that on a transaction?
 *
 * Asked without the partition's lock.  The first lock of the list stays, as only we remove it.  Another process may be
 * adding one behind it.  So links of locks are not followed: the list's two ends tell if there is one alone.
 */
static bool
is_lone_transaction(int partition)
{
	const void *first = zen_proclock_list(MyProc, partition)->next;
	const PROCLOCK *l = (const PROCLOCK *) ((const char *) first - offsetof(PROCLOCK, procLink));

	return l->tag.myLock->tag.locktag_type == LOCKTAG_TRANSACTION &&
		zen_proclock_list(MyProc, partition)->prev == first;
}

static bool
slots_have_no_sequence(void)
{
	for (int group = 0; group < FastPathLockGroupsPerBackend; group++)
		for (uint64 bits = zen_fast_path_bits(MyProc, group) & FP_ROW_EXCLUSIVE; bits != 0; bits &= bits - 1)
			if (!is_known_other(MyProc->fpRelId[fast_path_slot(group, bits)]))
				return false;
	return true;
}

/*
 * Is it plain that no sequence is locked?  So it is after most reads and writes: all that this process has locked as
 * nextval() does are relations known to be others, and its locks in the main table are on transactions.
 *
 * A process that moves a lock of ours from our slots to the main table adds it there first.  So the slots are read
 * first.  No other process removes locks of ours, and none changes what a slot's bits have said to be in it.
 *
 * FastPathTransferRelationLocks, which moves it, has no barrier between the two.  x86 keeps its stores in order.
 * Elsewhere its lock on the slots is taken.
 */
static bool
has_no_sequence(void)
{
	bool		none;

	if (!STORES_ARE_IN_ORDER)
		LWLockAcquire(&MyProc->fpInfoLock, LW_SHARED);
	none = slots_have_no_sequence();
	if (!STORES_ARE_IN_ORDER)
		LWLockRelease(&MyProc->fpInfoLock);
	pg_read_barrier();
	if (!none)
		return false;
	for (int p = 0; p < NUM_LOCK_PARTITIONS; p++)
		if (!zen_has_no_proclocks(MyProc, p) && !is_lone_transaction(p))
			return false;
	return true;
}

/* ---------- publishing ---------- */

static void
raise_needed(XLogRecPtr lsn)
{
	uint64		old = pg_atomic_read_u64(&needed->lsn);

	if (lsn <= old)
		return;
	/* a damaged page may say anything, and must not stop all commits */
	lsn = Min(lsn, zen_wal_end());
	while (old < lsn && !pg_atomic_compare_exchange_u64(&needed->lsn, &old, lsn))
		;
	Assert(pg_atomic_read_u64(&needed->lsn) >= lsn);
}

/* Pin the sequence's page; InvalidBuffer if it is not where it was, and may not be looked for. */
static Buffer
pin_page(KnownRelation *k, bool may_read)
{
	if (BufferIsValid(k->buffer) && ReadRecentBuffer(k->locator, MAIN_FORKNUM, 0, k->buffer))
		return k->buffer;
	if (!may_read)
		return InvalidBuffer;
	k->buffer = ReadBufferWithoutRelcache(k->locator, MAIN_FORKNUM, 0, RBM_NORMAL, NULL, true);
	return k->buffer;
}

static void
publish_sequence(KnownRelation *k, bool may_read)
{
	Buffer		buffer = pin_page(k, may_read);
	XLogRecPtr	lsn;

	Assert(k->is_sequence && OidIsValid(k->oid));
	if (!BufferIsValid(buffer))
	{
		raise_needed(zen_wal_end());
		return;
	}
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	lsn = PageGetLSN(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	if (lsn == XactLastRecEnd)
	{
		own_record = lsn;
		own_sequence = k->oid;
	}
	raise_needed(lsn);
}

/* What the caller allows: each value includes those before it. */
typedef enum Freedom
{
	LOOK_ONLY,					/* any lock may be held */
	PIN_KNOWN,					/* no LWLock is held, but catalogs must not be
								 * read */
	READ_CATALOGS
} Freedom;

static int64
blocks_accessed(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

/* Raise `needed` so that it covers all sequences that this process has locked; to the end of the WAL if in doubt. */
static void
sequence_publish(Freedom freedom)
{
	Locked		locked;

	/* an error may be reported from within an epoch: then we only look */
	if (freedom != LOOK_ONLY)
		ZenAssertNotInEpoch();
	Assert(freedom != READ_CATALOGS || (IsTransactionState() && CritSectionCount == 0));
	/* on a standby no number is taken, and the WAL has no end of its own */
	if (has_no_sequence() || RecoveryInProgress())
	{
		blocks_seen = blocks_accessed();
		return;
	}
	find_locked(&locked, freedom > LOOK_ONLY);
	for (int i = 0; i < locked.n && !locked.more; i++)
	{
		KnownRelation *k = freedom == READ_CATALOGS ? sequence_look_up(locked.oids[i]) : known_place(locked.oids[i]);

		if (k->oid != locked.oids[i] || (k->is_sequence && freedom == LOOK_ONLY))
			locked.more = true;
		else if (k->is_sequence)
			publish_sequence(k, freedom == READ_CATALOGS);
	}
	if (locked.more)
		raise_needed(zen_wal_end());
	blocks_seen = blocks_accessed();
}

/*
 * To read a catalog may prune its page, and the record would bear the xid that PREPARE has given to the transaction.
 * If it has changed nothing, a decoder that has met the xid tells its readers COMMIT PREPARED, but not PREPARE: they
 * would not go on.  What cannot be looked up costs nothing there, as PREPARE flushes the WAL.
 *
 * An abort cannot read catalogs.
 */
static Freedom
freedom_at(XactEvent event)
{
	if (event == XACT_EVENT_PRE_COMMIT)
		return READ_CATALOGS;
	return CurrentResourceOwner != NULL ? PIN_KNOWN : LOOK_ONLY;
}

void
zen_sequence_publish(XactEvent event)
{
	if (blocks_accessed() != blocks_seen)
		sequence_publish(freedom_at(event));
}

/* ---------- messages to the client ---------- */

/* The freedom before a message of this type is sent.  Errors are sent before locks are released. */
static Freedom
freedom_of_message(char type)
{
	if (type == 'E' || InterruptHoldoffCount > 0 || CritSectionCount > 0 || !IsTransactionState() ||
		CurrentResourceOwner == NULL)
		return LOOK_ONLY;
	return type == 'D' || type == 'd' ? READ_CATALOGS : PIN_KNOWN;
}

static bool
may_bear_number(char type)
{
	switch (type)
	{
		case 'D':				/* DataRow */
		case 'd':				/* CopyData */
		case 'V':				/* FunctionCallResponse */
		case 'E':				/* ErrorResponse */
		case 'N':				/* NoticeResponse */
		case 'S':				/* ParameterStatus */
			return true;
		default:
			return false;
	}
}

void
zen_sequence_message(char type)
{
	if (blocks_accessed() != blocks_seen && may_bear_number(type) && MyProc != NULL && OidIsValid(MyDatabaseId))
		sequence_publish(freedom_of_message(type));
}

/* ---------- commit ---------- */

bool
zen_sequence_logged_alone(void)
{
	return XactLastRecEnd == own_record && zen_ownwal_others() - records_before == 1;
}

/* Numbers to log ahead: a small part of the sequence, as a crash loses them, and not more than are left. */
static int64
choose_ahead(const FormData_pg_sequence *s, int64 last)
{
	uint64		step = s->seqincrement > 0 ? s->seqincrement : -(uint64) s->seqincrement;
	uint64		all = ((uint64) s->seqmax - (uint64) s->seqmin) / step;
	uint64		to_end = s->seqincrement > 0 ? (uint64) s->seqmax - (uint64) last : (uint64) last - (uint64) s->seqmin;
	uint64		left = to_end / step;

	Assert(step > 0 && s->seqmin < s->seqmax && last >= s->seqmin && last <= s->seqmax);
	return Min(Min((uint64) zen_sequence_log_ahead, all / SMALL_PART), left);
}

/*
 * Log that `ahead` numbers behind the last one are taken, and remember on the page that they are not, as nextval()
 * does.  The caller has locked the page exclusively.
 */
static XLogRecPtr
log_numbers(const RelFileLocator *locator, Buffer buffer, HeapTupleHeader tuple, Size len,
			int64 increment, int64 ahead)
{
	xl_seq_rec	head = ZEN_SEQ_REC(*locator);
	HeapTupleHeader logged = palloc(len);
	Form_pg_sequence_data taken = (Form_pg_sequence_data) ((char *) logged + tuple->t_hoff);
	XLogRecPtr	lsn;

	Assert(ahead > 0 && increment != 0 && CritSectionCount == 0);
	memcpy(logged, tuple, len);
	taken->last_value += increment * ahead;
	taken->log_cnt = 0;

	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	XLogRegisterData((char *) &head, sizeof(head));
	XLogRegisterData((char *) logged, len);
	lsn = XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
	PageSetLSN(BufferGetPage(buffer), lsn);
	((Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff))->log_cnt = ahead;
	END_CRIT_SECTION();
	pfree(logged);
	return lsn;
}

/* Log ahead, unless the page, locked, says that another process has logged since, or set the sequence. */
static void
log_page_ahead(const RelFileLocator *locator, Buffer buffer, const FormData_pg_sequence *s)
{
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, FirstOffsetNumber);
	HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);
	Form_pg_sequence_data now = (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
	int64		ahead;

	if (PageGetLSN(page) != own_record || !now->is_called ||
		now->last_value < s->seqmin || now->last_value > s->seqmax)
		return;
	ahead = choose_ahead(s, now->last_value);
	if (ahead > now->log_cnt)
		raise_needed(log_numbers(locator, buffer, tuple, ItemIdGetLength(item), s->seqincrement, ahead));
}

/* Log numbers ahead in the sequence that zen_sequence_logged_alone() has told of. */
static void
log_ahead(void)
{
	HeapTuple	tuple;
	KnownRelation *k;
	Buffer		buffer;

	Assert(zen_sequence_logged_alone() && OidIsValid(own_sequence));
	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(own_sequence));
	if (!HeapTupleIsValid(tuple))
		return;
	k = sequence_look_up(own_sequence);
	if (k->is_sequence)
	{
		buffer = pin_page(k, true);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		log_page_ahead(&k->locator, buffer, (Form_pg_sequence) GETSTRUCT(tuple));
		UnlockReleaseBuffer(buffer);
	}
	ReleaseSysCache(tuple);
}

void
zen_sequence_flush(void)
{
	XLogRecPtr	lsn;

	Assert(CritSectionCount == 0);
	if (XactLastRecEnd != 0)
		log_ahead();
	lsn = pg_atomic_read_u64(&needed->lsn);
	Assert(lsn >= sequence_flushed);
	if (lsn > sequence_flushed)
	{
		XLogFlush(lsn);
		sequence_flushed = lsn;
	}
	XactLastRecEnd = 0;
}

/*
 * PostgreSQL has written the record before it calls us.  If there is no other one, XactLastRecEnd was 0 before.
 */
void
zen_sequence_subabort(void)
{
	if (!TransactionIdIsValid(GetCurrentTransactionIdIfAny()) || zen_ownwal_others() - records_before != 1)
		return;
	records_before++;
	XactLastRecEnd = 0;
}

void
zen_sequence_end(void)
{
	records_before = zen_ownwal_others();
}

/* ---------- shared memory ---------- */

static void
sequence_shmem_init(void)
{
	bool		found;
	char	   *raw = ShmemInitStruct("zen sequences", zen_sequence_shmem.bytes, &found);

	needed = (Needed *) TYPEALIGN(PG_CACHE_LINE_SIZE, raw);
	if (!found)
		pg_atomic_init_u64(&needed->lsn, InvalidXLogRecPtr);
}

const ZenShmem zen_sequence_shmem = {.bytes = 2 * sizeof(Needed),.init = sequence_shmem_init};
