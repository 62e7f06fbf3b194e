/*
 * guc.c -- definitions of the zen.* settings.
 *
 * Everything that decides where data lies is fixed at server start; what only tunes is reloadable.
 * The defaults suit a small server: 1 GB of NVM, 512 MB of DRAM reserved (touched lazily).
 */
#include "base/guc.h"

#include <limits.h>

#include "utils/guc.h"

char	   *zen_pool_path = NULL;
int			zen_pool_size_mb = 1024;
int			zen_pool_mode = ZEN_POOL_AUTO;
int			zen_dram_size_mb = 512;
int			zen_met_cache_size_kb = 128 * 1024;
int			zen_gc_batch = 64;
int			zen_recovery_workers = 3;
bool		zen_skip_damaged_rows = false;
bool		zen_save_map = true;

static const struct config_enum_entry pool_mode_options[] = {
	{"auto", ZEN_POOL_AUTO, false},
	{"pmem", ZEN_POOL_PMEM, false},
	{"emulated", ZEN_POOL_EMULATED, false},
	{"msync", ZEN_POOL_MSYNC, false},
	{NULL, 0, false}
};

void
zen_guc_init(void)
{
	DefineCustomStringVariable("zen.pool_path",
							   "File that holds the NVM pool.",
							   "Relative names are relative to the data directory.",
							   &zen_pool_path, "zen.pool",
							   PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.pool_size",
							"Size of the NVM pool when it is created.",
							"An existing pool keeps the size it was created with.",
							&zen_pool_size_mb, 1024, 32, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.pool_mode",
							 "How stores to the NVM pool are made durable.",
							 "pmem: cache-line flushes on persistent memory; emulated: the same on any "
							 "file, which survives server crashes but not power loss; msync: an ordinary "
							 "file; auto: pmem where the file allows it, else msync.",
							 &zen_pool_mode, ZEN_POOL_AUTO, pool_mode_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.dram_size",
							"Shared DRAM reserved for zen's cache, maps and queues.",
							"Reserved at server start, used only as needed.",
							&zen_dram_size_mb, 512, 16, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.met_cache_size",
							"Part of zen.dram_size that cached row versions may fill.",
							"Beyond it, versions that every snapshot sees are evicted to NVM.",
							&zen_met_cache_size_kb, 128 * 1024, 64, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.gc_batch",
							"Garbage items that one commit handles at most.",
							"A commit frees old versions of earlier transactions up to this number.",
							&zen_gc_batch, 64, 1, 100000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.recovery_workers",
							"Background workers that help to recover the pool when the server starts.",
							"Taken from max_worker_processes until recovery is done.  Sessions that wait for "
							"recovery help as well.",
							&zen_recovery_workers, 3, 0, ZEN_MAX_RECOVERY_WORKERS,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.save_map",
							 "Saves what is known of the pool at an orderly stop, and loads it at the next start.",
							 "Without it, or after a crash, a start reads the whole pool, and checks each row as it does so.",
							 &zen_save_map, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.skip_damaged_rows",
							 "Leaves out rows whose checksum does not match, with a warning.",
							 "Normally reading such a row is an error.  Meant for saving the other rows of the table.",
							 &zen_skip_damaged_rows, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	MarkGUCPrefixReserved("zen");
}
