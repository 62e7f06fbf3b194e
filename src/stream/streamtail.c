/*
 * streamtail.c -- records of changes of rows: on their way into the WAL, and kept in NVM until the WAL has them (R17).
 *
 * Each change is logged when it is made, as heap logs its own.  Nothing in the pool depends on these records, and redo
 * does nothing with them.  Those of a zen-only transaction are kept in memory until its end, if they are few.  The
 * commit writes them to NVM, too: into the tail slot.  src/stream/README, "The tail", says how recovery finds out which
 * of them the WAL has lost, and logs these again.
 *
 * The slots that are kept stand in a ring in shared memory, in the order in which their transactions have ended, more
 * or less.  In recovery the ring has the slots found.  Each commit takes the ring's lock, which decides which commit
 * wakes the flusher (streamclients.c) if it sleeps.
 */
#include "stream/streamtail.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/ownwal.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "nvm/slotalloc.h"
#include "nvm/tuple.h"
#include "replication/message.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "stream/streamxids.h"
#include "utils/memutils.h"

#define KEPT_MAX		65000	/* bytes of records that are kept */
#define ROOM			64		/* bytes before them, a multiple of 8 */
#define FIRST_CAPACITY	((Size) 1024)
#define KEEP_CAPACITY	((Size) 128 * 1024) /* a larger buffer is given back
											 * after the transaction */
#define MAX_MARKS		64

#define RING_CAPACITY	16384
#define RING_LAZY		128		/* so few are left alone */
#define RING_STEP		4		/* freed by one commit */
#define RING_BYTES		((Size) 16 * 1024 * 1024)	/* kept at most, but ... */
#define RING_SHARE		32		/* ... not more than this part of the pool */
#define RING_VERSIONS	((Size) 16 * 1024 * 1024)	/* of these transactions,
													 * for copies: one record */
#define TAIL_MAGIC		UINT64CONST(0x4C494154) /* "TAIL" */
#define SMALLEST_SLOT	256


/* ---------- records of a transaction ---------- */

/*
 * The records of this transaction that are kept, and behind them the one that is being built, each behind its length;
 * before them ROOM bytes.  The buffer lives as long as the process.
 */
static char *log_buffer = NULL;
static Size log_capacity = 0;	/* for records */
static Size log_kept = 0;		/* bytes of records in the WAL */
static Size log_used = 0;		/* with the one being built */
static bool log_beyond = false; /* there are records that are not kept */

/* A savepoint that has records: all behind `kept` are its own, or those of savepoints in it. */
typedef struct Mark
{
	int			nest_level;
	Size		kept;
} Mark;

static Mark marks[MAX_MARKS];
static int	nmarks = 0;

static char *
log_records(void)
{
	return log_buffer + ROOM;
}

static void
log_grow(Size needed)
{
	Size		wanted = Max(log_capacity, FIRST_CAPACITY);
	Size		bytes;

	/* a slot is written in words of 8 bytes */
	while (wanted < needed + 8)
		wanted *= 2;
	bytes = wanted + ROOM;
	log_buffer = log_buffer ? repalloc_huge(log_buffer, bytes) : MemoryContextAllocHuge(TopMemoryContext, bytes);
	log_capacity = wanted;
}

static void
log_append(const void *bytes, Size n)
{
	if (unlikely(log_used + n > log_capacity))
		log_grow(log_used + n);
	memcpy(log_records() + log_used, bytes, n);
	log_used += n;
}

static uint32
logged_size(HeapTuple tuple)
{
	Assert(tuple == NULL || tuple->t_len >= SizeofHeapTupleHeader);
	return tuple == NULL ? 0 : tuple->t_len - ZEN_STREAM_OMITTED;
}

static void
append_tuple(HeapTuple tuple)
{
	if (tuple != NULL)
		log_append((char *) tuple->t_data + ZEN_STREAM_OMITTED, logged_size(tuple));
}

void
zen_streamlog_begin(RelFileLocator locator, bool is_toast)
{
	uint32		len = 0;
	ZenStreamHead head = {
		.spc = ZEN_LOCATOR_SPC(locator),.db = ZEN_LOCATOR_DB(locator),.relnumber = ZEN_LOCATOR_NUMBER(locator),
		.flags = is_toast ? ZEN_STREAM_TOAST : 0
	};

	Assert(zen_stream != ZEN_STREAM_OFF && XLogLogicalInfoActive());
	log_used = log_kept;
	log_append(&len, sizeof(len));
	log_append(&head, sizeof(head));
}

void
zen_streamlog_add(ZenStreamKind kind, HeapTuple new, HeapTuple old)
{
	ZenStreamRow row = {.kind = (uint8) kind,.new_len = (uint16) logged_size(new),.old_len = logged_size(old)};

	Assert(log_used >= log_kept + sizeof(uint32) + sizeof(ZenStreamHead));
	Assert((kind == ZEN_STREAM_DELETE) == (new == NULL) && row.new_len == logged_size(new));
	log_append(&row, sizeof(row));
	append_tuple(new);
	append_tuple(old);
}

/* Put the bytes of a record into the WAL. */
static void
log_insert(const char *record, uint32 len)
{
	Assert(CritSectionCount == 0);
	XLogBeginInsert();
	XLogRegisterData((char *) record, len);
	/* a row that was applied does not go back to where it came from */
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	(void) XLogInsert(ZEN_RMGR_ID, ZEN_XLOG_ROWS);
	zen_ownwal_records++;
	ZEN_COUNT(stream_records, 1);
	ZEN_COUNT(stream_bytes, len);
}

/* Before a record of the present (sub)transaction is kept.  False if it is in too many savepoints. */
static bool
mark_savepoint(void)
{
	int			level = GetCurrentTransactionNestLevel();

	Assert(nmarks == 0 || marks[nmarks - 1].nest_level <= level);
	if (level == 1 || (nmarks > 0 && marks[nmarks - 1].nest_level == level))
		return true;
	if (nmarks == MAX_MARKS)
		return false;
	marks[nmarks].nest_level = level;
	marks[nmarks++].kept = log_kept;
	return true;
}

void
zen_streamlog_end(void)
{
	uint32		len = (uint32) (log_used - log_kept - sizeof(uint32));
	XLogRecPtr	before = XactLastRecEnd;

	Assert(len > sizeof(ZenStreamHead) && TransactionIdIsValid(GetCurrentTransactionIdIfAny()));
	memcpy(log_records() + log_kept, &len, sizeof(len));
	log_insert(log_records() + log_kept + sizeof(len), len);
	if (log_beyond || log_used > KEPT_MAX || !mark_savepoint())
	{
		log_beyond = true;
		log_kept = log_used = 0;
		nmarks = 0;
		return;
	}
	log_kept = log_used;
	XactLastRecEnd = before;
}

/* Will log_kept_records() not throw? */
static bool
log_has_room(Size behind)
{
	return log_buffer != NULL && log_kept + behind + 8 <= log_capacity;
}

/*
 * The records kept, in memory: ROOM bytes before them and `behind` bytes behind them are the caller's, until the next
 * record is begun.  May throw, but not if it has been called with as much before.
 */
static char *
log_kept_records(Size behind)
{
	if (!log_has_room(behind))
		log_grow(log_kept + behind);
	log_used = log_kept;
	return log_records();
}

/* The savepoint of this level is released. */
static void
streamlog_subcommit(int nest_level)
{
	if (nmarks == 0 || marks[nmarks - 1].nest_level < nest_level)
		return;
	Assert(marks[nmarks - 1].nest_level == nest_level);
	if (nest_level == 2 || (nmarks > 1 && marks[nmarks - 2].nest_level == nest_level - 1))
		nmarks--;
	else
		marks[nmarks - 1].nest_level--;
}

/* It is rolled back: its records are no longer kept. */
static void
streamlog_subabort(int nest_level)
{
	while (nmarks > 0 && marks[nmarks - 1].nest_level >= nest_level)
		log_kept = marks[--nmarks].kept;
	log_used = log_kept;
}

void
zen_streamlog_reset(void)
{
	log_kept = log_used = 0;
	nmarks = 0;
	log_beyond = false;
	if (log_capacity > KEEP_CAPACITY)
	{
		pfree(log_buffer);
		log_buffer = NULL;
		log_capacity = 0;
	}
}

/* A record that is its kind. */
static XLogRecPtr
insert_kind(uint8 kind)
{
	uint32		nothing = 0;

	XLogBeginInsert();
	XLogRegisterData((char *) &nothing, sizeof(nothing));
	zen_ownwal_records++;
	return XLogInsert(ZEN_RMGR_ID, kind);
}

XLogRecPtr
zen_streamlog_mark(bool with_xid)
{
	if (zen_stream == ZEN_STREAM_OFF)
		return zen_log_message(with_xid);
	if (with_xid)
		(void) GetCurrentTransactionId();
	return insert_kind(ZEN_XLOG_XID);
}

/* ---------- tail slots ---------- */

/* The body of a tail slot: a MinimalTuple in form only. */
typedef struct Tail
{
	MinimalTupleData head;
	uint64		magic;
	uint64		full_xid;
	uint64		len;			/* bytes of records */
	char		records[FLEXIBLE_ARRAY_MEMBER];
} Tail;

StaticAssertDecl(offsetof(Tail, magic) == 16 && offsetof(Tail, records) == 40, "tail slots are a format in NVM");
StaticAssertDecl(offsetof(Tail, records) <= ROOM, "it is built where the records are");
StaticAssertDecl(offsetof(Tail, records) + KEPT_MAX <= PG_UINT16_MAX, "a slot says its length in 16 bits");

typedef struct Kept
{
	ZenSlot		slot;
	uint64		until;			/* LSN; in recovery: Tx-CTS */
	uint32		versions;		/* bytes of its versions, if copies are to
								 * know them; not in recovery */
	TimestampTz at;				/* of the commit; not in recovery */
} Kept;

typedef struct Ring
{
	slock_t		lock;			/* of all that follows */
	uint32		first;
	uint32		n;
	Size		bytes;			/* of the slots */
	Size		versions;		/* sum of kept[].versions */
	uint32		again;			/* logged again at this start; leader only */
	bool		armed;			/* the next commit sets the flusher's latch */
	Latch	   *flusher;		/* while armed */
	XLogRecPtr	newest;			/* largest `until` of a commit */
	Kept		kept[RING_CAPACITY + ZEN_MAX_REGIONS];	/* in recovery, with
														 * those that waited for
														 * room */
} Ring;

static Ring *ring = NULL;		/* NULL: zen.stream is off */
static XLogRecPtr tail_flushed = InvalidXLogRecPtr; /* at least up to here */

/* The part of zen_streamtail_begin()'s transaction that copies of the pool are to know. */
static Size refs_bytes = 0;		/* of the slots' numbers, behind its records */
static Size version_bytes = 0;	/* in these slots */

/* ---------- the line in NVM ---------- */

static ZenTailState *
state(void)
{
	return (ZenTailState *) (zen_pool.base + ZEN_OFF_TAIL);
}

static uint64
tail_place(const uint64 *word)
{
	return (uint64) ((const char *) word - zen_pool.base);
}

static uint64
tail_load(uint64 *word)
{
	uint64		value;

	if (!zen_guard_read(word, tail_place(word), &value))
	{
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("what the zen pool says of the end of the write-ahead log is damaged"),
				 errdetail("Readers of logical slots may miss the last changes before the crash."),
				 errhint("Compare the subscribers' tables, or make the subscriptions anew.")));
		return 0;
	}
	return value;
}

static void
tail_store(uint64 *word, uint64 value)
{
	zen_nvm_store64(word, zen_guard(tail_place(word), value));
	zen_persist(word, sizeof(*word));
}

/* ---------- commit ---------- */

/*
 * The records kept, each behind a word: its length, and in the upper byte its kind.  Of TAIL only the slots are kept
 * (streamsink.c): their versions are in the pool already.
 */
#define WORD(len, kind)		((uint32) (len) | (uint32) (kind) << 24)
#define WORD_LEN(word)		((word) & 0xFFFFFF)
#define WORD_KIND(word)		((uint8) ((word) >> 24))

StaticAssertDecl(ZEN_XLOG_ROWS == 0, "records of rows are kept behind their length");

/* Is the commit to wait for a synchronous standby, or for a subscriber that has its rows? */
static bool
commit_waits(void)
{
	return SyncRepRequested() && SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
}

int64
zen_streamtail_begin(Size refs, Size versions)
{
	Size		len;
	int64		size = SMALLEST_SLOT;

	refs_bytes = refs == 0 ? 0 : sizeof(uint32) + refs;
	version_bytes = versions;
	len = log_kept + refs_bytes;
	if (log_beyond || len > KEPT_MAX || (len > 0 && commit_waits()))
		return ZEN_SINK_BY_RECORD;
	if (len == 0 || ZEN_FAULT(R17_NO_TAIL))
		return 0;
	(void) log_kept_records(refs_bytes);
	/* few sizes, since each takes a page of its region */
	while (size < zen_tuple_size(offsetof(Tail, records) + len))
		size *= 2;
	return size;
}

void
zen_streamtail_write(ZenSlot slot, uint64 cts, uint64 full_xid, const void *refs, Size refs_len)
{
	PG_USED_FOR_ASSERTS_ONLY bool reserved = log_has_room(refs_bytes);
	Size		len = log_kept;
	char	   *records = log_kept_records(refs_bytes);
	Tail	   *tail = (Tail *) (records - offsetof(Tail, records));

	/* slots are being written: nothing may throw */
	Assert(reserved && full_xid != 0);
	if (refs_len > 0)
	{
		uint32		word = WORD (refs_len, ZEN_XLOG_TAIL);

		Assert(sizeof(word) + refs_len <= refs_bytes);
		memcpy(records + len, &word, sizeof(word));
		memcpy(records + len + sizeof(word), refs, refs_len);
		len += sizeof(word) + refs_len;
	}
	Assert(len > 0 && len <= KEPT_MAX);
	Assert(zen_tuple_size(offsetof(Tail, records) + len) <= zen_slot_size(slot));
	memset(tail, 0, offsetof(Tail, records));
	tail->head.t_len = offsetof(Tail, records) + len;
	tail->magic = TAIL_MAGIC;
	tail->full_xid = full_xid;
	tail->len = len;
	zen_tuple_write(slot, cts, zen_word1(0, 0, 0, false), InvalidTransactionId, &tail->head, true);
}

/*
 * Put an entry in, if there is room; take out what may go, into out[RING_STEP].  True if it is in.
 *
 * *wake: the flusher, if it sleeps and is to be woken by this process.
 */
static bool
turn_ring(const Kept *new, Kept *out, uint32 *nout, XLogRecPtr *oldest, Latch **wake)
{
	Size		size = zen_slot_size(new->slot);
	bool		room;

	*nout = 0;
	SpinLockAcquire(&ring->lock);
	while (*nout < RING_STEP && ring->n > 0 && ring->kept[ring->first].until <= tail_flushed)
	{
		out[(*nout)++] = ring->kept[ring->first];
		ring->first = (ring->first + 1) % RING_CAPACITY;
		ring->n--;
	}
	room = ring->n < RING_CAPACITY && ring->bytes + size <= Min(RING_BYTES, zen_pool_size() / RING_SHARE) &&
		ring->versions + new->versions <= RING_VERSIONS;
	if (room)
	{
		ring->kept[(ring->first + ring->n++) % RING_CAPACITY] = *new;
		ring->bytes += size;
		ring->versions += new->versions;
		ring->newest = Max(ring->newest, new->until);
		if (ring->armed)
			*wake = ring->flusher;
		ring->armed = false;
	}
	*oldest = ring->n > RING_LAZY || !room ? ring->kept[ring->first].until : InvalidXLogRecPtr;
	SpinLockRelease(&ring->lock);
	return room;
}

/* Slots that are out of the ring.  The page may be another region's, which gives it away when it is empty. */
static void
free_slots(const Kept *kept, uint32 n)
{
	Size		bytes = 0;
	Size		versions = 0;

	if (n == 0)
		return;
	zen_epoch_enter();
	for (uint32 i = 0; i < n; i++)
	{
		bytes += zen_slot_size(kept[i].slot);
		versions += kept[i].versions;
		zen_slot_free(kept[i].slot);
	}
	zen_epoch_leave();
	SpinLockAcquire(&ring->lock);
	ring->bytes -= bytes;
	ring->versions -= versions;
	SpinLockRelease(&ring->lock);
}

/*
 * The transaction has committed: the slot is free when the WAL is flushed behind its commit record.  Frees slots of
 * earlier transactions.  Waits for the WAL if too many are kept.  Outside any epoch.
 */
static void
streamtail_keep(ZenSlot slot)
{
	XLogRecPtr	lsn = XactLastCommitEnd;
	Kept		new = {.slot = slot,.versions = (uint32) version_bytes,.at = GetCurrentTransactionStopTimestamp()};
	Latch	   *wake = NULL;
	bool		in = false;

	Assert(ring != NULL && slot != InvalidZenSlot && !XLogRecPtrIsInvalid(lsn) && version_bytes <= RING_VERSIONS);
	ZenAssertNotInEpoch();
	if (ZEN_FAULT(R17_FREE_EARLY))
		lsn = 1;
	new.until = lsn;
	while (!in)
	{
		Kept		out[RING_STEP];
		uint32		nout;
		XLogRecPtr	oldest;

		in = turn_ring(&new, out, &nout, &oldest, &wake);
		free_slots(out, nout);
		if (!in && nout == 0)
			XLogFlush(Max(lsn, oldest));
		if (oldest > tail_flushed)
			tail_flushed = GetFlushRecPtr(NULL);
	}
	if (unlikely(wake != NULL))
		SetLatch(wake);
}

XLogRecPtr
zen_streamtail_arm(XLogRecPtr done, Latch *latch)
{
	XLogRecPtr	newest;

	Assert(ring != NULL);
	SpinLockAcquire(&ring->lock);
	newest = ring->newest;
	ring->flusher = latch;
	ring->armed = latch != NULL && newest <= done;
	SpinLockRelease(&ring->lock);
	return newest;
}

bool
zen_streamtail_keeps(ZenSlot slot)
{
	bool		found = false;

	if (ring == NULL)
		return false;
	SpinLockAcquire(&ring->lock);
	for (uint32 i = 0; i < ring->n && !found; i++)
		found = ring->kept[(ring->first + i) % RING_CAPACITY].slot == slot;
	SpinLockRelease(&ring->lock);
	return found;
}

/* The transactions in the ring whose commit records are not flushed.  Under the ring's lock. */
static void
look_unflushed(XLogRecPtr upto, ZenTailLook *look)
{
	ZenAssertSpinLocked(&ring->lock);
	for (uint32 i = 0; i < ring->n; i++)
	{
		const Kept *k = &ring->kept[(ring->first + i) % RING_CAPACITY];

		if (k->until <= upto)
			continue;
		if (look->unflushed++ == 0 || k->at < look->unflushed_since)
			look->unflushed_since = k->at;
	}
	if (ring->newest > upto)
		look->unflushed_bytes = ring->newest - upto;
}

void
zen_streamtail_look(ZenTailLook *look)
{
	XLogRecPtr	upto;

	memset(look, 0, sizeof(*look));
	if (ring == NULL)
		return;
	upto = RecoveryInProgress() ? PG_UINT64_MAX : GetFlushRecPtr(NULL);
	SpinLockAcquire(&ring->lock);
	look->kept = ring->n;
	look->bytes = ring->bytes;
	look->again = ring->again;
	look_unflushed(upto, look);
	SpinLockRelease(&ring->lock);
}

/* ---------- start: what is lost ---------- */

/* A note that an earlier recovery has made, and not finished with, stays: xids have been given out since. */
void
zen_streamtail_replayed(void)
{
	if (zen_pool.base == NULL || zen_pool.scratch || zen_pool_is_replica() ||
		tail_load(&state()->in_use) != ZEN_TAIL_ON)
		return;
	if (tail_load(&state()->lost_xid) == 0)
		tail_store(&state()->lost_xid, U64FromFullTransactionId(ReadNextFullTransactionId()));
	/* else it is left, and has committed, even when pg_xact has forgotten it */
	if (tail_load(&state()->again_xid) != 0 && !zen_xids_committed(tail_load(&state()->again_xid)))
		tail_store(&state()->again_xid, 0);
}

bool
zen_streamtail_expected(void)
{
	return ring != NULL && !zen_pool.was_clean && tail_load(&state()->lost_xid) != 0;
}

/* Is the transaction's commit record in the WAL? */
static bool
is_in_wal(uint64 full_xid)
{
	if (full_xid >= tail_load(&state()->lost_xid) && !ZEN_FAULT(R17_NO_LOST_XID))
		return false;
	return zen_xids_committed(full_xid);
}

void
zen_streamtail_found(ZenSlot slot, uint64 cts)
{
	const Tail *tail = (const Tail *) ((const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);

	Assert(zen_streamtail_expected() && ring->first == 0 && ring->bytes == 0);
	Assert(ring->n == 0 || ring->kept[ring->n - 1].slot < slot);
	if (ZEN_FAULT(R17_FORGET_TAIL) || zen_tuple_len(slot, zen_slot_size(slot)) < (int64) offsetof(Tail, records) ||
		tail->magic != TAIL_MAGIC || is_in_wal(tail->full_xid))
		return;
	if (ring->n == lengthof(ring->kept))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the zen pool has more lost transactions than it can have")));
	ring->kept[ring->n].slot = slot;
	ring->kept[ring->n++].until = cts;
}

/* ---------- start: logging again ---------- */

static int
compare_cts(const void *a, const void *b)
{
	const Kept *x = a;
	const Kept *y = b;

	return x->until < y->until ? -1 : x->until > y->until;
}

static int
compare_slots(const void *a, const void *b)
{
	const Kept *x = a;
	const Kept *y = b;

	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/*
 * Log the rows of a transaction again, under the present transaction, and tell of the slots that copies of the pool
 * are to know.
 */
static void
log_tail(ZenSlot slot, uint64 cts, ZenTailAgain again)
{
	Size		size = (Size) zen_tuple_len(slot, zen_slot_size(slot));
	Tail	   *tail = palloc(size);
	char	   *at = tail->records;

	if (!zen_tuple_read(slot, &tail->head, (uint32) size, NULL) || tail->len != size - offsetof(Tail, records))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the slot at offset " UINT64_FORMAT " of the zen pool is damaged", slot * ZEN_SLOT_UNIT)));
	while (at < tail->records + tail->len)
	{
		uint32		word;

		memcpy(&word, at, sizeof(word));
		if (WORD_KIND(word) == ZEN_XLOG_ROWS)
			log_insert(at + sizeof(word), WORD_LEN(word));
		else if (WORD_KIND(word) == ZEN_XLOG_TAIL && again != NULL)
			again(at + sizeof(word), WORD_LEN(word), cts, slot);
		at += sizeof(word) + WORD_LEN(word);
	}
	pfree(tail);
}

/*
 * The xid is in flushed WAL before it is noted: so it is not given out again after a crash, and pg_xact's answer means
 * this transaction.
 */
static void
log_again(ZenTailAgain again, void (*told_all) (void))
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XLogFlush(zen_streamlog_mark(true));
	if (!ZEN_FAULT(R17_AGAIN_TWICE))
		tail_store(&state()->again_xid, U64FromFullTransactionId(GetTopFullTransactionId()));
	zen_fault_stop(ZEN_FAULT(R17_STOP_NOTED));
	for (uint32 i = 0; i < ring->n; i++)
		log_tail(ring->kept[i].slot, ring->kept[i].until, again);
	told_all();
	ForceSyncCommit();
	CommitTransactionCommand();
	ring->again = ring->n;
	ereport(LOG,
			(errmsg("zen has logged %u transactions again, of which the write-ahead log was lost", ring->n)));
	zen_fault_stop(ZEN_FAULT(R17_STOP_LOGGED) || ZEN_FAULT(R17_AGAIN_TWICE));
}

/* All of the tail is in the WAL. */
static void
forget_tail(void)
{
	/* R7: durably empty, before anything says that they are dealt with */
	for (uint32 i = 0; i < ring->n; i++)
		zen_tuple_scrub(ring->kept[i].slot);
	zen_fence();
	for (uint32 i = 0; i < ring->n; i++)
		zen_slot_free(ring->kept[i].slot);
	ring->n = 0;
	zen_fault_stop(ZEN_FAULT(R17_STOP_SCRUBBED));
	/* in this order, within one line */
	tail_store(&state()->again_xid, 0);
	tail_store(&state()->lost_xid, 0);
}

void
zen_streamtail_log(ZenTailAgain again, void (*told_all) (void))
{
	uint64		again_xid = tail_load(&state()->again_xid);

	Assert(!IsTransactionState() && zen_streamtail_expected());
	qsort(ring->kept, ring->n, sizeof(Kept), compare_cts);
	if (ring->n > 0 && (again_xid == 0 || !zen_xids_committed(again_xid)))
		log_again(again, told_all);
	qsort(ring->kept, ring->n, sizeof(Kept), compare_slots);
}

bool
zen_streamtail_is_lost(ZenSlot slot)
{
	Kept		key = {.slot = slot};

	return zen_streamtail_expected() && bsearch(&key, ring->kept, ring->n, sizeof(Kept), compare_slots) != NULL;
}

/*
 * The stream is off.  OFF is first: a tail is given up only when slots will be told.
 *
 * In the server that pg_upgrade runs no session changes rows, and replication slots are to go on behind it.
 */
static void
note_off(void)
{
	uint64		before = tail_load(&state()->in_use);

	if (before == ZEN_TAIL_NEVER || IsBinaryUpgrade)
		return;
	if (before == ZEN_TAIL_ON)
	{
		ereport(LOG,
				(errmsg("zen.stream was on, and is off: changes of zen tables are no longer in the write-ahead log"),
				 errhint("When it is on again, logical slots from before end with an error.")));
		if (!ZEN_FAULT(R17_OFF_LATE))
			tail_store(&state()->in_use, ZEN_TAIL_OFF);
		zen_fault_stop(ZEN_FAULT(R17_STOP_OFF));
	}
	tail_store(&state()->again_xid, 0);
	tail_store(&state()->lost_xid, 0);
	zen_fault_stop(ZEN_FAULT(R17_STOP_GIVEN_UP) || ZEN_FAULT(R17_OFF_LATE));
}

/* The record is flushed first: so older replication slots meet it, whatever happens then.  It may be there twice. */
static void
note_on(void)
{
	uint64		before = tail_load(&state()->in_use);

	if (before == ZEN_TAIL_ON)
		return;
	if (before == ZEN_TAIL_OFF)
	{
		XLogRecPtr	gap = insert_kind(ZEN_XLOG_GAP);

		if (!ZEN_FAULT(R17_GAP_UNFLUSHED))
			XLogFlush(gap);
		zen_fault_stop(ZEN_FAULT(R17_STOP_GAP));
	}
	tail_store(&state()->in_use, ZEN_TAIL_ON);
	zen_fault_stop(ZEN_FAULT(R17_STOP_ON) || ZEN_FAULT(R17_GAP_UNFLUSHED));
}

/*
 * The last record makes sure that there is something to be replayed after the next crash: only then does replay have an
 * end of which the startup process tells us.
 */
void
zen_streamtail_recover(void)
{
	if (ring == NULL)
	{
		note_off();
		return;
	}
	if (zen_streamtail_expected())
		forget_tail();
	note_on();
	XLogFlush(zen_streamlog_mark(false));
}

/* ---------- shared memory ---------- */

static Size
streamtail_shmem_size(void)
{
	return zen_stream == ZEN_STREAM_OFF ? 0 : sizeof(Ring);
}

static void
streamtail_shmem_init(void)
{
	bool		found;

	if (zen_stream == ZEN_STREAM_OFF)
		return;
	ring = ShmemInitStruct("zen tail of the WAL", sizeof(Ring), &found);
	ring->first = ring->n = ring->again = 0;
	ring->bytes = ring->versions = 0;
	ring->armed = false;
	ring->flusher = NULL;
	ring->newest = InvalidXLogRecPtr;
	SpinLockInit(&ring->lock);
}

const ZenShmem zen_streamtail_shmem = {.size = streamtail_shmem_size,.init = streamtail_shmem_init};

void
zen_streamtail_install(ZenSink *sink)
{
	sink->settle = streamtail_keep;
	sink->subcommit = streamlog_subcommit;
	sink->subabort = streamlog_subabort;
}
