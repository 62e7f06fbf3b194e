/*
 * zen_am.c -- entry point of the extension: settings, shared memory, hooks, in the order of the layers.
 */
#include "base/compat.h"

#include "admin/explain.h"
#include "admin/hooks.h"
#include "admin/partitionkey.h"
#include "admin/standby.h"
#include "admin/statements.h"
#include "base/arena.h"
#include "base/delay.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/numa.h"
#include "base/partition.h"
#include "base/stats.h"
#include "cache/clock.h"
#include "cache/keycache.h"
#include "cache/spillmap.h"
#include "exec/exec.h"
#include "fmgr.h"
#include "gc/gcqueue.h"
#include "gc/reclaim.h"
#include "gc/sweep.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "nvm/filetime.h"
#include "nvm/grow.h"
#include "nvm/pool.h"
#include "nvm/slotalloc.h"
#include "recovery/recovery.h"
#include "recovery/worker.h"
#include "row/horizon.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "stream/streamcover.h"
#include "stream/streamflush.h"
#include "stream/streamrmgr.h"
#include "stream/streamsink.h"
#include "stream/streamtail.h"
#include "table/reindexworker.h"
#include "table/zenam_copies.h"
#include "table/zenam_unlogged.h"
#include "txn/exclusive.h"
#include "txn/prepared.h"
#include "txn/sequence.h"
#include "txn/twophase.h"
#include "txn/xact.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request;
static shmem_startup_hook_type prev_shmem_startup;

static void
zen_shmem_request(void)
{
	if (prev_shmem_request)
		prev_shmem_request();

	/*
	 * Not in _PG_init, as zen is to be loaded first, and there are libraries
	 * that refuse to be loaded when a hook has been set.
	 */
	zen_exec_install();
	zen_statements_init();
	zen_exclusive_install();
	zen_sequence_install();
	zen_hooks_init();
	zen_streamflush_hooks();
	zen_explain_init();
	zen_exec_init();
	zen_numa_detect();
	RequestAddinShmemSpace(zen_numa_shmem_size());
	RequestAddinShmemSpace(zen_partition_shmem_size());
	RequestAddinShmemSpace(zen_stats_shmem_size());
	RequestAddinShmemSpace(zen_arena_shmem_size());
	RequestAddinShmemSpace(zen_epoch_shmem_size());
	RequestAddinShmemSpace(zen_grow_shmem_size());
	RequestAddinShmemSpace(zen_filetime_shmem_size());
	RequestAddinShmemSpace(zen_tuple_shmem_size());
	RequestAddinShmemSpace(zen_region_shmem_size());
	RequestAddinShmemSpace(zen_page_shmem_size());
	RequestAddinShmemSpace(zen_htable_shmem_size());
	RequestAddinShmemSpace(zen_slotalloc_shmem_size());
	RequestAddinShmemSpace(zen_tidmap_shmem_size());
	RequestAddinShmemSpace(zen_version_shmem_size());
	RequestAddinShmemSpace(zen_clock_shmem_size());
	RequestAddinShmemSpace(zen_keycache_shmem_size());
	RequestAddinShmemSpace(zen_spillmap_shmem_size());
	RequestAddinShmemSpace(zen_gcqueue_shmem_size());
	RequestAddinShmemSpace(zen_sweep_shmem_size());
	RequestAddinShmemSpace(zen_streamtail_shmem_size());
	RequestAddinShmemSpace(zen_streamflush_shmem_size());
	RequestAddinShmemSpace(zen_cover_shmem_size());
	RequestAddinShmemSpace(zen_sequence_shmem_size());
	RequestAddinShmemSpace(zen_exclusive_shmem_size());
	RequestAddinShmemSpace(zen_prepared_shmem_size());
	RequestAddinShmemSpace(zen_recovery_shmem_size());
	RequestAddinShmemSpace(zen_treedir_shmem_size());
	RequestAddinShmemSpace(zen_copies_shmem_size());
	RequestAddinShmemSpace(zen_statements_shmem_request());
	zen_locks_request();
}

static void
zen_at_exit(int code, Datum arg)
{
	zen_recovery_shutdown();
}

/* The release of retired objects, by kind. */
static void (*const release[ZEN_RETIRED_KINDS]) (ZenRetired *object) =
{
	[ZEN_RETIRED_VERSION] = zen_version_release,
		[ZEN_RETIRED_SPILL] = zen_spillmap_release,
};

/* The bit of each NUMA node on which a file of the pool is. */
static uint32
places_with_files(void)
{
	uint32		places = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
		if (zen_pool.files[i].place >= 0)
			places |= 1U << zen_pool.files[i].place;
	return places;
}

/* Once at start, and again in the same postmaster after a backend has crashed: everything is made afresh. */
static void
zen_shmem_startup(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	zen_delay_calibrate();
	zen_locks_init();
	zen_stats_init();
	zen_numa_init();
	zen_arena_init();
	zen_epoch_init(release);
	zen_grow_init();
	zen_filetime_init();
	zen_pool_open();
	zen_filetime_begin();
	zen_partition_init(places_with_files());
	zen_tuple_init();
	zen_region_init();
	zen_page_init();
	zen_htable_init();
	zen_slotalloc_init();
	zen_tidmap_init();
	zen_version_init();
	zen_clock_init();
	zen_keycache_init();
	zen_spillmap_init();
	zen_horizon_init();
	zen_gcqueue_init();
	zen_reclaim_init();
	zen_sweep_init();
	zen_streamtail_init();
	zen_streamflush_init();
	zen_cover_init();
	zen_streamsink_install();
	zen_sequence_init();
	zen_exclusive_init();
	zen_prepared_init();
	zen_twophase_init();
	zen_recovery_init();
	zen_treedir_init();
	zen_copies_init();
	zen_statements_shmem_init();
	LWLockRelease(AddinShmemInitLock);
	on_shmem_exit(zen_at_exit, (Datum) 0);
}

/* The worker's task once the pool is recovered; false: it must come again. */
static bool
zen_after_recovery(void)
{
	static bool reported = false;

	if (!reported)
		zen_standby_report_lacking();
	reported = true;
	return zen_reindex_start_workers();
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen must be loaded when the server starts"),
				 errdetail("It maps its memory before any connection is made."),
				 errhint("Add zen to shared_preload_libraries in postgresql.conf and restart the server.")));
	zen_statements_register();
	zen_xact_init();
	zen_treedir_register();
	zen_fault_init();
	zen_guc_init();
	zen_partitionkey_init();
	zen_streamrmgr_register();
	zen_exec_install_early();
	zen_worker_after_recovery = zen_after_recovery;
	zen_worker_register();
	zen_streamflush_register();
	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = zen_shmem_request;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = zen_shmem_startup;
}
