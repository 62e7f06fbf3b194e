/*
 * grow.c -- the pool grows while the server runs.
 *
 * src/nvm/README, "Growing", has the steps (R16), what a crash at each point leaves, and who asks for more.
 *
 * One process at a time grows: zen_pool_grow(), or the worker, which keeps zen.pool_grow_by.  If that one ends by an
 * error the file is cut to its size again.
 */
#include "nvm/grow.h"

#include <unistd.h>

#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "nvm/pool.h"
#include "nvm/poolfile.h"
#include "nvm/sink.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define RETRY_MS		60000	/* the worker after a failure */
#define FREE_SHARE		16		/* the worker acts when one page in so many is
								 * free, besides those kept for tombstones */

typedef struct Growth
{
	pg_atomic_uint32 end;		/* of the page numbers; written by the grower */
	pg_atomic_uint32 npages[ZEN_MAX_FILES]; /* by file; written by the grower */
	pg_atomic_uint32 growing;	/* a process is the grower; compare-and-swap */
	pg_atomic_uint32 file;		/* that grows */
	pg_atomic_uint64 target;	/* bytes; 0: no file is being extended */
	pg_atomic_uint64 done;		/* bytes of the file so far */
	pg_atomic_uint32 asked;		/* the worker is to look; it clears that */
	pg_atomic_uint64 failed[ZEN_MAX_FILES]; /* when the worker has failed, by
											 * file; 0: it has not */
	Latch	   *worker;			/* NULL: there is none */
	ConditionVariable ended;	/* growing has become 0 */
} Growth;

static Growth *growth;

Size
zen_grow_max_size(int file)
{
	return (Size) (zen_pool.files[file].limit - zen_pool.files[file].first) * ZEN_PAGE_SIZE;
}

/* ---------- one grower ---------- */

static void
grow_begin(void)
{
	uint32		none = 0;

	ConditionVariablePrepareToSleep(&growth->ended);
	while (!pg_atomic_compare_exchange_u32(&growth->growing, &none, 1))
	{
		none = 0;
		ConditionVariableSleep(&growth->ended, zen_wait_event("ZenPoolGrow"));
	}
	ConditionVariableCancelSleep();
}

static void
grow_end(void)
{
	pg_atomic_write_u64(&growth->target, 0);
	pg_memory_barrier();		/* the next grower finds all that this one has
								 * done */
	pg_atomic_write_u32(&growth->growing, 0);
	ConditionVariableBroadcast(&growth->ended);
}

/* The process that grows the pool ends by an error, or its session ends.  The superblock is not written yet. */
static void
grow_give_up(int code, Datum arg)
{
	int			file = DatumGetInt32(arg);

	if (ftruncate(zen_files[file].fd, zen_file_size(file)) != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not truncate the zen pool to %zu bytes: %m", zen_file_size(file))));
	grow_end();
}

/* ---------- to grow ---------- */

/* Between two steps of extending the file: false if the server stops. */
static bool
show_progress(Size done)
{
	pg_atomic_write_u64(&growth->done, done);
	CHECK_FOR_INTERRUPTS();
	/* an orphan must not write to a file that the next server may have open */
	return !ShutdownRequestPending && PostmasterIsAlive();
}

/* R16: the new size becomes durable in both copies, before any page is used. */
static void
grow_write_size(int file, Size size)
{
	LWLockAcquire(zen_lock(ZEN_LOCK_SUPER), LW_EXCLUSIVE);
	zen_superblock_reload(file, zen_file_base(file));
	zen_superblock_resize(&zen_supers[file], size);
	if (!ZEN_FAULT(R16_NO_SUPERBLOCK))
		zen_superblock_write_both(file, zen_file_base(file));
	LWLockRelease(zen_lock(ZEN_LOCK_SUPER));
}

static bool
grow_file(int file, Size from, Size to, int elevel)
{
	if (ZEN_FAULT(R16_SIZE_FIRST))
		grow_write_size(file, to);
	pg_atomic_write_u32(&growth->file, file);
	pg_atomic_write_u64(&growth->done, from);
	pg_atomic_write_u64(&growth->target, to);
	if (!zen_file_longer(file, zen_file_base(file), from, to, show_progress, elevel))
		return false;
	/* nothing from here on throws */
	HOLD_INTERRUPTS();
	grow_write_size(file, to);
	ZEN_TELL(grown, file, (uint32) (to / ZEN_PAGE_SIZE));
	zen_page_add(file, (uint32) (to / ZEN_PAGE_SIZE));
	RESUME_INTERRUPTS();
	return true;
}

Size
zen_grow_to(int file, Size size, int elevel)
{
	Size		from;

	Assert(size % ZEN_PAGE_SIZE == 0 && size <= zen_grow_max_size(file));
	grow_begin();
	PG_ENSURE_ERROR_CLEANUP(grow_give_up, Int32GetDatum(file));
	{
		from = zen_file_size(file);
		if (from < size && grow_file(file, from, size, elevel))
			pg_atomic_write_u64(&growth->failed[file], 0);
	}
	PG_END_ENSURE_ERROR_CLEANUP(grow_give_up, Int32GetDatum(file));
	grow_end();
	return zen_file_size(file);
}

bool
zen_grow_replay(int file, uint32 npages)
{
	Size		from = zen_file_size(file);
	Size		to = npages * ZEN_PAGE_SIZE;

	Assert(zen_pool_is_replica() && from < to);
	if (to > zen_grow_max_size(file) ||
		!zen_file_longer(file, zen_file_base(file), from, to, NULL, PANIC))
		return false;
	grow_write_size(file, to);
	zen_page_describe_grown(file, npages);
	return true;
}

bool
zen_grow_progress(int *file, Size *target, Size *done)
{
	*file = (int) pg_atomic_read_u32(&growth->file);
	*target = pg_atomic_read_u64(&growth->target);
	*done = pg_atomic_read_u64(&growth->done);
	return *target != 0;
}

/* ---------- the worker ---------- */

/* Has the worker just failed to make a file larger? */
static bool
has_failed(int file)
{
	uint64		failed = pg_atomic_read_u64(&growth->failed[file]);

	return failed != 0 && !TimestampDifferenceExceeds((TimestampTz) failed, GetCurrentTimestamp(), RETRY_MS);
}

/*
 * The file that the worker would make larger: of those that can grow, the one with the fewest free pages.  A file that
 * has no room on its file system is passed over for the others.  Bytes.
 */
static Size
step_size(int *file)
{
	uint32		fewest = PG_UINT32_MAX;
	Size		step = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		Size		room = zen_grow_max_size(i) - zen_file_size(i);
		uint32		total;
		uint32		nfree = zen_page_free_of(i, &total);

		if (room == 0 || nfree >= fewest || has_failed(i))
			continue;
		fewest = nfree;
		*file = i;
		step = Min((Size) zen_pool_grow_by_mb * 1024 * 1024, room);
	}
	return step;
}

bool
zen_grow_may(void)
{
	int			file;

	return step_size(&file) > 0;
}

/* Is so little free that the pool is to grow? */
static bool
is_short(void)
{
	uint32		total,
				nfree;
	int			file;

	zen_page_free(&total, &nfree);
	return nfree < zen_page_reserve() + Max(total / FREE_SHARE, step_size(&file) / ZEN_PAGE_SIZE / 2);
}

static void
tell_worker(void)
{
	Latch	   *worker = growth->worker;

	if (worker != NULL && pg_atomic_exchange_u32(&growth->asked, 1) == 0)
		SetLatch(worker);
}

/* A page has been taken. */
static void
grow_look(void)
{
	if (zen_pool_grow_by_mb > 0 && pg_atomic_read_u32(&growth->asked) == 0 && is_short() && zen_grow_may())
		tell_worker();
}

ZenGrowHope
zen_grow_ask(void)
{
	static uint32 seen = 0;
	uint32		npages = zen_pool_count_pages();

	if (pg_atomic_read_u64(&growth->target) != 0)
		return ZEN_GROW_GROWING;
	if (npages != seen)
	{
		/* it may have grown since the caller has looked for a page */
		seen = npages;
		return ZEN_GROW_ASKED;
	}
	if (growth->worker == NULL || !zen_grow_may())
		return ZEN_GROW_NOT;
	tell_worker();
	return ZEN_GROW_ASKED;
}

static void
grow_stop_serving(int code, Datum arg)
{
	growth->worker = NULL;
}

void
zen_grow_serve(void)
{
	pg_atomic_write_u32(&growth->asked, 0);
	growth->worker = MyLatch;
	before_shmem_exit(grow_stop_serving, (Datum) 0);
}

bool
zen_grow_is_asked(void)
{
	return pg_atomic_read_u32(&growth->asked) != 0;
}

void
zen_grow_step(void)
{
	Size		step;
	int			file;

	pg_atomic_write_u32(&growth->asked, 0);
	pg_memory_barrier();		/* a process that takes pages from here on
								 * asks again */

	/*
	 * nor does it wait for another grower: it has other work, and is asked
	 * again
	 */
	while ((step = step_size(&file)) > 0 && is_short() && !ShutdownRequestPending &&
		   pg_atomic_read_u32(&growth->growing) == 0)
	{
		Size		from = zen_file_size(file);
		Size		to = zen_grow_to(file, from + step, WARNING);

		if (to == from)
		{
			pg_atomic_write_u64(&growth->failed[file], (uint64) GetCurrentTimestamp());
			continue;
		}
		ereport(LOG,
				(errmsg("zen pool file \"%s\" has grown from %zu to %zu MB", zen_files[file].path,
						from / (1024 * 1024), to / (1024 * 1024)),
				 errdetail("zen.pool_grow_by is %d MB, zen.pool_max_size %zu MB.",
						   zen_pool_grow_by_mb, zen_grow_max_size(file) / (1024 * 1024))));
	}
}

static void
grow_shmem_init(void)
{
	bool		found;

	growth = ShmemInitStruct("zen growth", sizeof(Growth), &found);
	pg_atomic_init_u32(&growth->end, 0);
	for (int i = 0; i < ZEN_MAX_FILES; i++)
	{
		pg_atomic_init_u32(&growth->npages[i], 0);
		pg_atomic_init_u64(&growth->failed[i], 0);
		zen_pool.files[i].npages = &growth->npages[i];
	}
	pg_atomic_init_u32(&growth->file, 0);
	pg_atomic_init_u32(&growth->growing, 0);
	pg_atomic_init_u64(&growth->target, 0);
	pg_atomic_init_u64(&growth->done, 0);
	pg_atomic_init_u32(&growth->asked, 0);
	growth->worker = NULL;
	ConditionVariableInit(&growth->ended);
	zen_pool.npages = &growth->end;
	zen_page_taken = grow_look;
}

const ZenShmem zen_grow_shmem = {.bytes = sizeof(Growth),.init = grow_shmem_init};
