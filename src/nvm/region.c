/*
 * region.c -- leases (R11), watermarks, in-doubt descriptors, Tx-CTS (R14); see src/nvm/README, "Regions and Tx-CTS".
 *
 * Some calls need no lease.  At recovery the leader is alone, and the postmaster is at a stop.  A prepared
 * transaction keeps its region leased, and the process that ends it is at work there.
 */
#include "nvm/region.h"

#include "access/twophase.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/numa.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/repair.h"
#include "nvm/sink.h"
#include "nvm/tuple.h"
#include "port/pg_crc32c.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#define CTS_STRIDE	(1 << 20)	/* numbers given out per persistent store of
								 * the mark */

typedef struct RegionControl
{
	pg_atomic_uint64 next_cts;	/* last number given out */
	pg_atomic_uint64 cts_limit; /* numbers up to here are covered by the
								 * persistent mark */
} RegionControl;

ZenRegion  *zen_regions;
uint32		zen_nregions;
int			zen_region_nodes = 1;
static RegionControl *region_control;

/* The region of each node that this process tries first. */
static uint32 my_region[ZEN_MAX_NODES];

/* Else all regions are alike, whatever nodes there are. */
static bool
has_files_on_two_nodes(void)
{
	for (int i = 1; i < zen_pool.nfiles; i++)
		if (zen_pool.files[i].place != zen_pool.files[0].place)
			return true;
	return false;
}

int
zen_region_place_here(void)
{
	return zen_region_nodes == 1 ? 0 : zen_numa_here();
}

/* ---------- marks: values that only grow, in records that are written in turn ---------- */

static inline ZenMarkRecord *
mark_record(ZenMarkRecord *records, int i, Size stride)
{
	Assert((uintptr_t) records % sizeof(ZenMarkRecord) == 0 && stride % sizeof(ZenMarkRecord) == 0);
	return (ZenMarkRecord *) ((char *) records + i * stride);
}

/* Index of the valid record with the largest value, which goes to *value; -1 and 0 when there is none. */
static int
mark_newest(ZenMarkRecord *records, int n, Size stride, uint64 *value)
{
	int			newest = -1;

	*value = 0;
	for (int i = 0; i < n; i++)
	{
		ZenMarkRecord *record = mark_record(records, i, stride);
		uint64		v = zen_nvm_load64(&record->value);

		/*
		 * never written (0, 0) and half written records do not fit; one whose
		 * zeroes have become ones would, but no Tx-CTS is so large
		 */
		if (zen_nvm_load64(&record->check) != ~v || v > ZEN_CTS_MASK)
			continue;
		if (newest < 0 || v > *value)
		{
			newest = i;
			*value = v;
		}
	}
	return newest;
}

/* The largest value ever written, 0 if none was.  It may not be flushed yet (R10). */
static uint64
mark_read(ZenMarkRecord *records, int n, Size stride)
{
	uint64		value;

	mark_newest(records, n, stride, &value);
	return value;
}

/*
 * Raise a mark to value, durable on return.
 *
 * The record after the one in force is overwritten, so a crash at any instant leaves the old value or the new one;
 * rotating also keeps from flushing a line that has just been flushed.  A mark never falls: for a value that is not
 * larger, only the record in force is made durable.  The caller keeps other writers of this mark out.
 */
static void
mark_write(ZenMarkRecord *records, int n, Size stride, uint64 value, void (*persist) (const void *addr, Size len))
{
	uint64		current;
	int			newest = mark_newest(records, n, stride, &current);
	ZenMarkRecord *record;

	Assert(n >= 2);

	if (value > current)
	{
		record = mark_record(records, (newest + 1) % n, stride);

		/*
		 * both words share a line, or the order of the stores would mean
		 * nothing
		 */
		Assert((uintptr_t) record / ZEN_LINE == ((uintptr_t) (record + 1) - 1) / ZEN_LINE);
		zen_nvm_store64(&record->value, value);
		zen_nvm_store64(&record->check, ~value);
	}
	else if (newest >= 0)
		record = mark_record(records, newest, stride);
	else
		return;
	persist(record, sizeof(ZenMarkRecord));
	/* a mark never falls */
	Assert(mark_read(records, n, stride) == Max(value, current));
}

/* ---------- in-doubt descriptors ---------- */

static uint64
doubt_word(uint64 full_xid, uint64 cts, uint32 kind)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &full_xid, sizeof(full_xid));
	COMP_CRC32C(crc, &cts, sizeof(cts));
	COMP_CRC32C(crc, &kind, sizeof(kind));
	FIN_CRC32C(crc);
	return ((uint64) crc << ZEN_DOUBT_CRC_SHIFT) | kind;
}

/* The part of a region's entry that the descriptor's CRC covers. */
typedef struct Doubt
{
	uint64		xid;
	uint64		cts;
	uint64		word;
} Doubt;

static bool
doubt_fits(const void *image, const void *arg)
{
	const Doubt *d = image;

	return d->word != 0 && d->word == doubt_word(d->xid, d->cts, (uint32) d->word);
}

static Doubt
load_doubt(const ZenRegionEntry *e)
{
	Doubt		d;

	/* torn, it shows 0: the word is cleared first and written last */
	d.xid = zen_nvm_load64(&e->doubt_xid);
	d.cts = zen_nvm_load64(&e->doubt_cts);
	d.word = zen_nvm_load64(&e->doubt);
	return d;
}

/* Set a flipped bit of a descriptor that does not fit right; false if it is damaged in another way. */
static bool
mend_doubt(ZenRegionEntry *e, Doubt *d)
{
	if (zen_one_bit(d->word))
		d->word = 0;
	else if (!zen_repair_bit(d, sizeof(*d), doubt_fits, NULL))
		return false;
	zen_nvm_store64(&e->doubt_xid, d->xid);
	zen_nvm_store64(&e->doubt_cts, d->cts);
	zen_nvm_store64(&e->doubt, d->word);
	zen_persist(e, sizeof(*e));
	return true;
}

/*
 * A base backup may have copied a descriptor while another one took its place.  The old one's transaction has ended,
 * and replay brings the new one (src/stream/README).  So a descriptor that does not fit is not worth a report.
 */
static void
mend_copied(ZenRegionEntry *e)
{
	Doubt		d = load_doubt(e);

	if (d.word == 0 || doubt_fits(&d, NULL) || mend_doubt(e, &d))
		return;
	zen_nvm_store64(&e->doubt, 0);
	zen_persist(e, sizeof(*e));
}

/* ---------- start ---------- */

static void
region_shmem_init(void)
{
	bool		found;

	region_control = ShmemInitStruct("zen regions", zen_region_shmem.bytes, &found);
	zen_regions = (ZenRegion *) ((char *) region_control + MAXALIGN(sizeof(RegionControl)));
	zen_region_nodes = zen_numa_mode != ZEN_NUMA_COUNT && has_files_on_two_nodes() ? zen_numa_nodes : 1;
	zen_nregions = (uint32) Min((int64) zen_nprocs() * zen_region_nodes,
								ZEN_MAX_REGIONS);
	for (int i = 0; i < ZEN_MAX_NODES; i++)
		my_region[i] = i;
	if (zen_nprocs() > ZEN_MAX_REGIONS)
		ereport(FATAL,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("zen supports at most %d concurrent writers", ZEN_MAX_REGIONS),
				 errhint("Lower max_connections, max_worker_processes or max_prepared_transactions.")));
	if (found)
		return;
	memset(zen_regions, 0, mul_size(ZEN_MAX_REGIONS, sizeof(ZenRegion)));
	pg_atomic_init_u64(&region_control->next_cts, 0);
	pg_atomic_init_u64(&region_control->cts_limit, 0);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		pg_atomic_init_u32(&zen_regions[r].leased, 0);
		pg_atomic_init_u32(&zen_regions[r].emptied, 0);
		zen_regions[r].save_no = ZEN_FIRST_SAVE;
		SpinLockInit(&zen_regions[r].room_lock);
		SpinLockInit(&zen_regions[r].line_lock);
		zen_regions[r].watermark = mark_read(zen_pool.regions[r].watermark, 2, sizeof(ZenMarkRecord));
		if (zen_pool.backup)
			mend_copied(&zen_pool.regions[r]);
	}
}

const ZenShmem zen_region_shmem = {
	.bytes = MAXALIGN(sizeof(RegionControl)) + ZEN_MAX_REGIONS * sizeof(ZenRegion),
	.init = region_shmem_init
};

int
zen_region_place(uint32 region)
{
	return zen_region_nodes == 1 ? 0 : (int) (region % zen_region_nodes);
}

bool
zen_region_try_lease(uint32 region)
{
	ZenRegion  *r = &zen_regions[region];
	uint32		free = 0;

	Assert(region < ZEN_MAX_REGIONS);
	if (pg_atomic_read_u32(&r->leased) != 0 || !pg_atomic_compare_exchange_u32(&r->leased, &free, ZEN_LEASE_BUSY))
		return false;
	pg_write_barrier();			/* pairs with zen_region_is_committed */
	r->holder = MyProcPid;
	return true;
}

uint32
zen_region_lease(uint32 preferred)
{
	int			place = zen_region_place_here();

	if (unlikely(preferred != ZEN_NO_REGION))
	{
		Assert(preferred < zen_nregions);
		my_region[zen_region_place(preferred)] = preferred;
	}
	Assert(zen_region_place(my_region[place]) == place);
	if (zen_region_try_lease(my_region[place]))
		return my_region[place];
	ZEN_COUNT(region_waits, 1);
	for (;;)
	{
		for (uint32 r = place; r < zen_nregions; r += zen_region_nodes)
			if (zen_region_try_lease(r))
				return my_region[place] = r;

		/* only if there are more possible writers than regions of a node */
		for (uint32 r = 0; zen_region_nodes > 1 && r < zen_nregions; r++)
			if (zen_region_try_lease(r))
				return r;

		/*
		 * there is one region per possible writer: only a race with the
		 * collector can bring us here
		 */
		pg_spin_delay();
	}
}

void
zen_region_release(uint32 region)
{
	ZenAssertRegionHeld(region);
	/* what the holder wrote to the region is seen by the next one */
	pg_write_barrier();
	pg_atomic_write_u32(&zen_regions[region].leased, 0);
}

void
zen_region_rest(uint32 region, bool rest)
{
	Assert(pg_atomic_read_u32(&zen_regions[region].leased) != 0);
	Assert(zen_regions[region].holder == MyProcPid);
	pg_memory_barrier();		/* what was done is done before it shows */
	pg_atomic_write_u32(&zen_regions[region].leased, rest ? ZEN_LEASE_REST : ZEN_LEASE_BUSY);
	pg_memory_barrier();
}

void
zen_region_take_over(uint32 region)
{
	ZenRegion  *r = &zen_regions[region];

	Assert(pg_atomic_read_u32(&r->leased) != ZEN_LEASE_BUSY);
	r->holder = MyProcPid;
	pg_memory_barrier();		/* as in zen_region_rest() */
	pg_atomic_write_u32(&r->leased, ZEN_LEASE_BUSY);
	pg_memory_barrier();
}

/* Raise the persistent mark so that it covers cts and a stride more. */
static void
cts_raise_mark(uint64 cts)
{
	Assert((cts & ZEN_LP) == 0);
	LWLockAcquire(zen_lock(ZEN_LOCK_MARK), LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&region_control->cts_limit) < cts)
	{
		if (!ZEN_FAULT(R14_NO_MARK))
			mark_write(zen_pool.cts_mark, 4, ZEN_LINE, cts + CTS_STRIDE, zen_persist_now);
		ZEN_TELL(stored, zen_pool.cts_mark, 4 * ZEN_LINE);
		pg_atomic_write_u64(&region_control->cts_limit, cts + CTS_STRIDE);
	}
	LWLockRelease(zen_lock(ZEN_LOCK_MARK));
}

uint64
zen_cts_next(void)
{
	uint64		cts;

	/* one with a single bit would be none at all if that bit flips */
	do
		cts = pg_atomic_add_fetch_u64(&region_control->next_cts, 1);
	while (zen_one_bit(cts));

	/*
	 * zen_cts_restart() has been called: no process writes before recovery is
	 * over
	 */
	Assert(pg_atomic_read_u64(&region_control->cts_limit) != 0);

	if (unlikely(cts > pg_atomic_read_u64(&region_control->cts_limit)))
		cts_raise_mark(cts);
	/* R14: a number is given out only when the mark covers it */
	Assert(cts <= pg_atomic_read_u64(&region_control->cts_limit));
	return cts;
}

uint64
zen_cts_now(void)
{
	return pg_atomic_read_u64(&region_control->next_cts);
}

uint64
zen_cts_limit(void)
{
	uint64		largest = mark_read(zen_pool.cts_mark, 4, ZEN_LINE);

	/* zen_cts_restart() has not been */
	Assert(pg_atomic_read_u64(&region_control->cts_limit) == 0);

	/*
	 * if the newest record is damaged, the one before it counts; if all are,
	 * the regions' own watermarks do
	 */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		largest = Max(largest, zen_regions[r].watermark);
	return largest + 2 * CTS_STRIDE;
}

void
zen_cts_restart(uint64 largest_seen)
{
	uint64		mark = mark_read(zen_pool.cts_mark, 4, ZEN_LINE);
	uint64		start = ZEN_FAULT(R14_IGNORE_MARK) ? largest_seen : Max(mark, largest_seen);

	/* R14: numbers only grow */
	Assert(start >= largest_seen && start >= zen_cts_now());
	pg_atomic_write_u64(&region_control->next_cts, start);
	cts_raise_mark(start + 1);
}

/* Raise a watermark in NVM; false if that is not needed.  The caller has ZEN_LOCK_MARK. */
static bool
raise_watermark(uint32 region, uint64 cts)
{
	ZenRegion  *r = &zen_regions[region];
	ZenMarkRecord *records = zen_pool.regions[region].watermark;

	if (cts <= r->watermark)
		return false;
	mark_write(records, 2, sizeof(ZenMarkRecord), cts, zen_persist);
	r->watermark = cts;
	Assert(mark_read(records, 2, sizeof(ZenMarkRecord)) == cts);
	return true;
}

static void
persist_watermark(uint32 region)
{
	ZenRegion  *r = &zen_regions[region];

	LWLockAcquire(zen_lock(ZEN_LOCK_MARK), LW_EXCLUSIVE);
	if (raise_watermark(region, r->last_cts))
		ZEN_TELL(covered, region, r->watermark);
	LWLockRelease(zen_lock(ZEN_LOCK_MARK));
}

void
zen_region_persist_watermark(uint32 region)
{
	/* where stores are lazy no slot's LP is evidence */
	if (!zen_nvm_is_lazy())
		persist_watermark(region);
}

static void
store_doubt(ZenRegionEntry *e, uint64 full_xid, uint64 cts, uint32 kind)
{
	zen_nvm_store64(&e->doubt, 0);
	zen_nvm_store64(&e->doubt_xid, full_xid);
	zen_nvm_store64(&e->doubt_cts, cts);
	zen_nvm_store64(&e->doubt, doubt_word(full_xid, cts, kind));
	zen_persist(e, sizeof(*e));
}

void
zen_region_doubt_set(uint32 region, uint64 full_xid, uint64 cts, uint32 kind)
{
	ZenRegionEntry *e = &zen_pool.regions[region];
	ZenRegion  *r = &zen_regions[region];

	ZenAssertRegionMine(region);
	Assert(full_xid != 0 && cts > r->last_cts);
	Assert(kind == ZEN_DOUBT_COMMIT || kind == ZEN_DOUBT_PREPARED);
	if (!zen_nvm_is_lazy())
	{
		store_doubt(e, full_xid, cts, kind);
		Assert(zen_region_doubt_written(region));
	}
	SpinLockAcquire(&r->line_lock);
	r->doubt_xid = full_xid;
	r->doubt_cts = cts;
	r->doubt_kind = kind;
	r->doubt_end = InvalidXLogRecPtr;
	SpinLockRelease(&r->line_lock);
}

void
zen_region_doubt_logged(uint32 region, XLogRecPtr end)
{
	ZenRegion  *r = &zen_regions[region];

	ZenAssertRegionMine(region);
	/* W2: while a checkpoint that begins behind SLOTS waits for this process */
	Assert(zen_nvm_is_lazy() && (MyProc->delayChkptFlags & DELAY_CHKPT_START));
	SpinLockAcquire(&r->line_lock);
	Assert(r->doubt_kind != ZEN_DOUBT_NONE && XLogRecPtrIsInvalid(r->doubt_end));
	r->doubt_end = end;
	SpinLockRelease(&r->line_lock);
}

/* ---------- redo on a copy of the pool: the startup process is alone with it ---------- */

void
zen_region_replay_doubt(uint32 region, uint64 full_xid, uint64 cts, uint32 kind)
{
	Assert(region < ZEN_MAX_REGIONS && full_xid != 0 && kind != ZEN_DOUBT_NONE);
	store_doubt(&zen_pool.regions[region], full_xid, cts, kind);
}

void
zen_region_replay_committed(uint32 region, uint64 cts)
{
	Assert(region < ZEN_MAX_REGIONS);
	zen_regions[region].last_cts = Max(zen_regions[region].last_cts, cts);
	zen_region_persist_watermark(region);
}

uint64
zen_region_replayed(uint32 region)
{
	Assert(region < ZEN_MAX_REGIONS);
	return *(volatile uint64 *) &zen_regions[region].watermark;
}

bool
zen_region_replay_is_committed(uint32 region, uint64 cts)
{
	return cts <= zen_region_replayed(region);
}

void
zen_region_replay_decided(uint32 region)
{
	ZenRegionEntry *e = &zen_pool.regions[region];
	Doubt		d = load_doubt(e);

	if ((uint32) d.word != ZEN_DOUBT_PREPARED || !doubt_fits(&d, NULL))
		return;
	zen_nvm_store64(&e->doubt, doubt_word(d.xid, d.cts, ZEN_DOUBT_COMMIT));
	zen_persist(e, sizeof(*e));
}

void
zen_region_replay_none(void)
{
	zen_nvm_zero(zen_pool.regions, ZEN_MAX_REGIONS * sizeof(ZenRegionEntry));
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		zen_regions[r].watermark = zen_regions[r].last_cts = 0;
		Assert(zen_regions[r].doubt_kind == ZEN_DOUBT_NONE);
	}
}

static void
clear_doubt(uint32 region, bool in_nvm)
{
	ZenRegionEntry *e = &zen_pool.regions[region];

	if (in_nvm)
	{
		zen_nvm_store64(&e->doubt, 0);
		zen_persist(e, sizeof(*e));
	}
	SpinLockAcquire(&zen_regions[region].line_lock);
	zen_regions[region].doubt_kind = ZEN_DOUBT_NONE;
	SpinLockRelease(&zen_regions[region].line_lock);
}

void
zen_region_doubt_clear(uint32 region)
{
	/* the holder, or recovery's leader, which needs no lease */
	Assert(region < ZEN_MAX_REGIONS);
	clear_doubt(region, !zen_nvm_is_lazy());
}

void
zen_region_doubt_committed(uint32 region, uint64 cts, XLogRecPtr commit_end)
{
	ZenRegion  *r = &zen_regions[region];

	ZenAssertRegionMine(region);

	/*
	 * a watermark with a flipped bit may be ahead of a prepared transaction;
	 * R13: it does not go back
	 */
	cts = Max(r->last_cts, cts);
	if (zen_nvm_is_lazy())
	{
		SpinLockAcquire(&r->line_lock);
		r->last_cts = cts;
		r->commit_end = Max(r->commit_end, commit_end);
		r->doubt_kind = ZEN_DOUBT_NONE;
		SpinLockRelease(&r->line_lock);
		return;
	}
	r->last_cts = cts;
	persist_watermark(region);
	/* R10: the watermark covers it before the descriptor goes */
	Assert(r->watermark >= r->doubt_cts);
	clear_doubt(region, true);
}

/* ---------- lines that are kept in DRAM (W3) ---------- */

/* What the syncer has read of a region. */
typedef struct Line
{
	uint64		last_cts;
	XLogRecPtr	needs;			/* the WAL is to be flushed up to here */
	uint32		kind;			/* of the descriptor */
	uint64		xid;
	uint64		cts;
} Line;

/*
 * A doubt whose record is not in the WAL is none yet: the record will come behind the redo pointer for which the syncer
 * is at work, and replay stores it.
 */
static Line
look_at_line(ZenRegion *r)
{
	Line		line;

	SpinLockAcquire(&r->line_lock);
	line.last_cts = r->last_cts;
	line.needs = r->commit_end;
	line.kind = r->doubt_kind;
	line.xid = r->doubt_xid;
	line.cts = r->doubt_cts;
	if (line.kind != ZEN_DOUBT_NONE && XLogRecPtrIsInvalid(r->doubt_end))
		line.kind = ZEN_DOUBT_NONE;
	else if (line.kind != ZEN_DOUBT_NONE)
		line.needs = Max(line.needs, r->doubt_end);
	SpinLockRelease(&r->line_lock);
	return line;
}

static void
store_line(uint32 region, const Line *line, bool last)
{
	ZenRegionEntry *e = &zen_pool.regions[region];
	uint64		word = line->kind == ZEN_DOUBT_NONE ? 0 : doubt_word(line->xid, line->cts, line->kind);

	(void) raise_watermark(region, line->last_cts);
	if (zen_nvm_load64(&e->doubt) == word)
		return;
	if (word != 0)
		store_doubt(e, line->xid, line->cts, line->kind);
	else if (!last && zen_nvm_load64(&e->doubt_cts) <= line->last_cts)
		zen_region_replay_decided(region);
	else
		zen_nvm_store64(&e->doubt, 0);
}

void
zen_region_store_lines(void (*flush) (XLogRecPtr upto), bool last)
{
	static Line lines[ZEN_MAX_REGIONS];
	XLogRecPtr	upto = InvalidXLogRecPtr;

	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		lines[r] = look_at_line(&zen_regions[r]);
		upto = Max(upto, lines[r].needs);
	}
	if (!ZEN_FAULT(W3_LINES_UNFLUSHED))
		flush(upto);
	LWLockAcquire(zen_lock(ZEN_LOCK_MARK), LW_EXCLUSIVE);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		store_line(r, &lines[r], last);
	LWLockRelease(zen_lock(ZEN_LOCK_MARK));
}

uint32
zen_region_doubt_read(uint32 region, uint64 *full_xid, uint64 *cts)
{
	ZenRegionEntry *e = &zen_pool.regions[region];
	Doubt		d = load_doubt(e);

	if (d.word == 0)
		return ZEN_DOUBT_NONE;
	if (!doubt_fits(&d, NULL))
	{
		if (!mend_doubt(e, &d))
		{
			zen_damages++;
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("the descriptor of an in-doubt transaction in zen region %u is damaged", region),
					 errdetail("If that transaction had committed, what it wrote to zen tables is lost.")));
			return ZEN_DOUBT_NONE;
		}
		zen_note_repair(&e->doubt_xid);
		if (d.word == 0)
			return ZEN_DOUBT_NONE;
	}
	*full_xid = d.xid;
	*cts = d.cts;
	return (uint32) d.word;
}

bool
zen_region_doubt_written(uint32 region)
{
	return zen_nvm_load64(&zen_pool.regions[region].doubt) != 0;
}

uint64
zen_region_committed(uint32 region, uint64 limit)
{
	ZenMarkRecord *records = zen_pool.regions[region].watermark;
	uint64		best = Min(zen_regions[region].watermark, limit);

	for (int i = 0; i < 2; i++)
	{
		uint64		value = zen_nvm_load64(&records[i].value);
		uint64		check = ~zen_nvm_load64(&records[i].check);

		if (!zen_one_bit(value ^ check))
			continue;
		if (value <= limit)
			best = Max(best, value);
		if (check <= limit)
			best = Max(best, check);
	}
	return best;
}

/* ---------- verification ---------- */

bool
zen_region_is_committed(uint32 region, uint64 cts)
{
	ZenRegion  *r = &zen_regions[region];

	/* the caller has seen cts in a slot: pairs with zen_region_try_lease */
	pg_read_barrier();
	if (cts <= r->last_cts)
		return true;

	/*
	 * the writer of cts held the lease until last_cts told of it: pairs with
	 * the barrier in zen_region_release
	 */
	if (pg_atomic_read_u32(&r->leased) != 0)
		return true;
	pg_read_barrier();
	return cts <= *(volatile uint64 *) &r->last_cts;
}

bool
zen_cts_is_known(uint64 cts)
{
	/* the caller has seen cts in a slot: pairs with the fence of mark_write() */
	pg_read_barrier();
	return cts <= mark_read(zen_pool.cts_mark, 4, ZEN_LINE);
}

/* The descriptor; it is written word by word, and its last word is 0 until the others are written. */
static const char *
doubt_fault(uint32 region)
{
	ZenRegionEntry *e = &zen_pool.regions[region];
	uint64		word = zen_nvm_load64(&e->doubt);
	uint64		full_xid,
				cts;

	pg_read_barrier();			/* pairs with the stores of store_doubt() */
	full_xid = zen_nvm_load64(&e->doubt_xid);
	cts = zen_nvm_load64(&e->doubt_cts);
	pg_read_barrier();
	if (word == 0)
		return NULL;
	if (word != doubt_word(full_xid, cts, (uint32) word))
		return zen_nvm_load64(&e->doubt) == word ? "the checksum of its in-doubt descriptor does not match" : NULL;
	if (zen_nvm_is_lazy() || pg_atomic_read_u32(&zen_regions[region].leased) != 0)
		return NULL;
	pg_read_barrier();
	return zen_nvm_load64(&e->doubt) == word ? "its in-doubt descriptor is that of no transaction" : NULL;
}

/* Can a restart tell what an idle region, which the caller has leased, has committed (R3, R4)? */
static const char *
evidence_fault(uint32 region)
{
	ZenRegion  *r = &zen_regions[region];
	ZenTupleHeader h;

	ZenAssertRegionMine(region);
	if (r->last_cts <= r->watermark || zen_nvm_is_lazy())
		return NULL;
	if (r->anchor == InvalidZenSlot || r->anchor * ZEN_SLOT_UNIT >= zen_pool_pages() * ZEN_PAGE_SIZE)
		return "nothing in NVM proves its newest commit";
	h = zen_tuple_header(r->anchor);
	return h.word0 == (r->last_cts | ZEN_LP) ? NULL : "its anchor does not prove its newest commit";
}

const char *
zen_region_copy_fault(uint32 region)
{
	ZenRegionEntry *e = &zen_pool.regions[region];
	Doubt		d = load_doubt(e);

	if (d.word != 0 && !doubt_fits(&d, NULL))
		return "the checksum of its in-doubt descriptor does not match";
	return NULL;
}

const char *
zen_region_fault(uint32 region)
{
	ZenRegion  *r = &zen_regions[region];
	const char *fault = doubt_fault(region);
	uint64		persistent;

	if (fault != NULL)
		return fault;
	LWLockAcquire(zen_lock(ZEN_LOCK_MARK), LW_SHARED);
	persistent = mark_read(zen_pool.regions[region].watermark, 2, sizeof(ZenMarkRecord));
	if (persistent != r->watermark)
		fault = "its watermark in NVM is not what was written";
	LWLockRelease(zen_lock(ZEN_LOCK_MARK));
	if (fault == NULL && zen_region_try_lease(region))
	{
		fault = evidence_fault(region);
		zen_region_release(region);
	}
	return fault;
}
