/*
 * zen_am.c -- entry point of the extension: settings, shared memory, hooks.
 */
#include "base/compat.h"

#include "admin/dispatch.h"
#include "admin/replication.h"
#include "admin/standbyadopt.h"
#include "admin/standbytree.h"
#include "admin/statements.h"
#include "base/arena.h"
#include "base/delay.h"
#include "base/guc.h"
#include "base/numa.h"
#include "base/startup.h"
#include "base/stats.h"
#include "cache/clock.h"
#include "cache/keycache.h"
#include "cache/spillmap.h"
#include "exec/exec.h"
#include "fmgr.h"
#include "gc/reclaim.h"
#include "index/treedir.h"
#include "index/zentree.h"
#include "miscadmin.h"
#include "numa/partition.h"
#include "numa/votes.h"
#include "nvm/filetime.h"
#include "nvm/grow.h"
#include "nvm/poolopen.h"
#include "nvm/slotalloc.h"
#include "nvm/touched.h"
#include "recovery/recovery.h"
#include "recovery/runmap.h"
#include "recovery/standbyworker.h"
#include "recovery/syncer.h"
#include "row/visibility.h"
#include "standby/followers.h"
#include "standby/standbystate.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "stream/streamclients.h"
#include "stream/streamredo.h"
#include "stream/streamsink.h"
#include "stream/streamtail.h"
#include "table/indexahead.h"
#include "table/reindexworker.h"
#include "txn/exclusive.h"
#include "txn/prepared.h"
#include "txn/sequence.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request;
static shmem_startup_hook_type prev_shmem_startup;

/* ---------- shared memory ---------- */

/* The release of retired objects, by kind. */
static void (*const release[ZEN_RETIRED_KINDS]) (ZenRetired *object) =
{
	[ZEN_RETIRED_VERSION] = zen_version_release,
		[ZEN_RETIRED_SPILL] = zen_spillmap_release,
};

static void
init_epochs(void)
{
	zen_epoch_init(release);
}

static const ZenShmem epochs = {.size = zen_epoch_shmem_size,.init = init_epochs};

/* The NUMA nodes on which files of the pool are. */
static void
init_partition(void)
{
	uint32		places = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
		if (zen_pool.files[i].place >= 0)
			places |= 1U << zen_pool.files[i].place;
	zen_partition_init(places);
}

static const ZenShmem partition = {.size = zen_partition_shmem_size,.init = init_partition};

/* Those that take none. */
static const ZenShmem delay = {.init = zen_delay_calibrate};
static const ZenShmem locks = {.init = zen_locks_init};
static const ZenShmem pool = {.init = zen_pool_open};
static const ZenShmem streamsink = {.init = zen_streamsink_install};

/*
 * What each module takes of shared memory, and how it begins with it: in the order of the layers.  Where a line says
 * why, another order would fail.
 */
static const ZenShmem *const modules[] = {
	&delay,						/* before the first fence */
	&locks,						/* before the first lock */
	&zen_stats_shmem,			/* before the first count */
	&zen_numa_shmem,
	&zen_arena_shmem,			/* before the first DRAM is taken */
	&epochs,
	&zen_grow_shmem,			/* has the sizes that the pool's opening sets */
	&pool,
	&zen_filetime_shmem,		/* the files are open */
	&partition,					/* likewise */
	&zen_tuple_shmem,
	&zen_region_shmem,			/* as many as nodes with files */
	&zen_touched_shmem,			/* of an open pool */
	&zen_page_shmem,			/* for the pages of all files */
	&zen_htable_shmem,
	&zen_slotalloc_shmem,
	&zen_tidmap_shmem,
	&zen_version_shmem,
	&zen_clock_shmem,
	&zen_keycache_shmem,
	&zen_spillmap_shmem,
	&zen_horizon_shmem,
	&zen_reclaim_shmem,
	&zen_standbystate_shmem,	/* the pool is open */
	&zen_followers_shmem,
	&zen_streamtail_shmem,
	&zen_clients_shmem,
	&streamsink,
	&zen_sequence_shmem,
	&zen_exclusive_shmem,
	&zen_prepared_shmem,
	&zen_recovery_shmem,
	&zen_runmap_shmem,
	&zen_syncer_shmem,			/* the pool is open */
	&zen_treedir_shmem,
	&zen_statements_shmem,
};

static void
zen_shmem_request(void)
{
	if (prev_shmem_request)
		prev_shmem_request();

	/*
	 * Not in _PG_init: zen is to be loaded first, and other libraries may
	 * refuse to be loaded when a hook has been set.
	 */
	zen_dispatch_install();
	zen_numa_detect();			/* before sizes, which go by the nodes */
	for (int i = 0; i < lengthof(modules); i++)
		RequestAddinShmemSpace(modules[i]->size ? modules[i]->size() : modules[i]->bytes);
	zen_locks_request();
}

static void
zen_at_exit(int code, Datum arg)
{
	zen_recovery_shutdown();
}

/* Once at start, and again in the same postmaster after a backend has crashed: everything is made afresh. */
static void
zen_shmem_startup(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(modules); i++)
		modules[i]->init();
	LWLockRelease(AddinShmemInitLock);
	on_shmem_exit(zen_at_exit, (Datum) 0);
}

/* ---------- the library ---------- */

/* The worker's task once the pool is recovered; false: it must come again. */
static bool
zen_after_recovery(void)
{
	static bool reported = false;

	if (!reported)
		zen_replication_report_lacking();
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
	zen_dispatch_register();	/* before any other library, and before
								 * anything here may fail */
	zen_guc_init();
	zen_pool_choose_mode();
	if (zen_pool_wanted_mode() != ZEN_POOL_WAL)
		zen_guc_tune_wal_writer();
	zen_votes_init();
	zen_streamrmgr_register();
	zen_worker_after_recovery = zen_after_recovery;
	zen_index_tree_ahead = zentree_ahead;
	zen_standbytree_init();
	zen_standbyadopt_init();
	zen_worker_register();
	zen_standby_worker_register();
	zen_syncer_register();		/* before what is needed less */
	zen_streamflush_register();
	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = zen_shmem_request;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = zen_shmem_startup;
	zen_dispatch_install_innermost();	/* last: loads other libraries */
}
