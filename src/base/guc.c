/*
 * guc.c -- definitions of the zen.* settings.
 *
 * Settings that decide where data lies are fixed at server start; settings that only tune can be reloaded.  The
 * defaults suit a small server: 1 GB of NVM, and 512 MB of DRAM reserved (touched lazily).
 */
#include "base/guc.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

int			zen_numa_mode = ZEN_NUMA_LOCAL;
int			zen_numa_simulate = 0;
char	   *zen_numa_simulate_load = NULL;
int			zen_numa_partitions = 2048;
int			zen_numa_binding = ZEN_NUMA_EVEN;
int			zen_remote_delay_ns = 0;
int			zen_remote_write_delay_ns = -1;
char	   *zen_pool_path = NULL;
int			zen_pool_size_mb = 1024;
bool		zen_pool_size_is_set = false;
int			zen_pool_max_size_mb = 0;
int			zen_pool_grow_by_mb = 0;
int			zen_pool_mode = ZEN_POOL_AUTO;
int			zen_flush_what = ZEN_FLUSH_AUTO;
int			zen_flush_delay_ns = 0;
int			zen_fence_delay_ns = 0;
int			zen_dram_size_mb = 512;
int			zen_met_cache_size_kb = 128 * 1024;
int			zen_gc_batch = 64;
int			zen_garbage_warning = 1000000;
int			zen_pool_warning = 85;
int			zen_dram_warning = 85;
int			zen_key_cache_mb = 64;
bool		zen_point_access = true;
bool		zen_debug_keep_plans = false;
bool		zen_key_join = true;
bool		zen_batch_aggregate = true;
bool		zen_track_statements = false;
int			zen_max_statements = 1000;
int			zen_freeze_age = 100 * 1000 * 1000;
int			zen_full_timeout_ms = 5000;
int			zen_sequence_log_ahead = 256;
int			zen_vacuum_pin_timeout_ms = 1000;
double		zen_exclusive_alpha = 0.8;
double		zen_exclusive_beta = 0.02;
int			zen_exclusive_gamma = 16;
int			zen_exclusive_timeout_ms = 1000;
int			zen_recovery_workers = 3;
int			zen_spill_threshold_kb;
bool		zen_met_cache_split = true;
bool		zen_skip_damaged_rows = false;
bool		zen_save_map = true;
int			zen_default_index = ZEN_INDEX_BTREE;
int			zen_stream = ZEN_STREAM_OFF;
bool		zen_allow_copies_without_rows = false;

static const struct config_enum_entry numa_options[] = {
	{"off", ZEN_NUMA_OFF, false},
	{"count", ZEN_NUMA_COUNT, false},
	{"local", ZEN_NUMA_LOCAL, false},
	{"soft", ZEN_NUMA_SOFT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry numa_binding_options[] = {
	{"even", ZEN_NUMA_EVEN, false},
	{"group", ZEN_NUMA_GROUP, false},
	{NULL, 0, false}
};

static const struct config_enum_entry pool_mode_options[] = {
	{"auto", ZEN_POOL_AUTO, false},
	{"pmem", ZEN_POOL_PMEM, false},
	{"emulated", ZEN_POOL_EMULATED, false},
	{"msync", ZEN_POOL_MSYNC, false},
	{NULL, 0, false}
};

static const struct config_enum_entry stream_options[] = {
	{"off", ZEN_STREAM_OFF, false},
	{"logical", ZEN_STREAM_LOGICAL, false},
	{"replica", ZEN_STREAM_REPLICA, false},
	{NULL, 0, false}
};

static const struct config_enum_entry flush_options[] = {
	{"auto", ZEN_FLUSH_AUTO, false},
	{"always", ZEN_FLUSH_ALWAYS, false},
	{"never", ZEN_FLUSH_NEVER, false},
	{"hint", ZEN_FLUSH_HINT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry default_index_options[] = {
	{"btree", ZEN_INDEX_BTREE, false},
	{"zentree", ZEN_INDEX_ZENTREE, false},
	{NULL, 0, false}
};

/*
 * For PostgreSQL every commit of zen is an asynchronous one.  Waking the WAL writer in vain took up to a third of the
 * server's time.  With 0 the WAL writer flushes all that it writes, and is woken once in a page of WAL, some 200
 * transactions.  Only the default changes: a value in the configuration comes before it.
 */
static void
tune_wal_writer(void)
{
	if (ZEN_COMMITS_WAKE_WAL_WRITER)
		SetConfigOption("wal_writer_flush_after", "0", PGC_POSTMASTER, PGC_S_DYNAMIC_DEFAULT);
}

/* With compute_query_id = auto statements have an id only if a module has asked for it. */
static void
want_query_ids(bool track, void *extra)
{
	if (track)
		EnableQueryId();
}

/*
 * A server that pg_upgrade runs makes indexes with files that pg_upgrade has numbered.  So zen cannot exchange them for
 * unlogged ones.  With wal_level = minimal PostgreSQL would note them as files to be synced at commit for lack of WAL.
 * For unlogged files it must not.
 */
static void
tune_binary_upgrade(void)
{
	if (IsBinaryUpgrade)
		SetConfigOption("wal_level", "replica", PGC_POSTMASTER, PGC_S_OVERRIDE);
}

/* The default is no wish: it makes no pool larger. */
static bool
note_pool_size(int *newval, void **extra, GucSource source)
{
	if (source > PGC_S_DEFAULT)
		zen_pool_size_is_set = true;
	return true;
}

/* The pool and its medium. */
static void
define_pool_settings(void)
{
	DefineCustomStringVariable("zen.pool_path",
							   "File that holds the NVM pool, or several.",
							   "Relative names are relative to the data directory.",
							   &zen_pool_path, "zen.pool",
							   PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.pool_size",
							"Size of the NVM pool when it is created.",
							"If it is set, a smaller pool grows to it at the start; a larger one keeps its size.",
							&zen_pool_size_mb, 1024, 32, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_MB, note_pool_size, NULL, NULL);
	DefineCustomIntVariable("zen.pool_max_size",
							"Size that the NVM pool can grow to while the server runs.",
							"Address space is reserved for it.  0: twice the pool's size at the start.",
							&zen_pool_max_size_mb, 0, 0, 16 * 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.pool_grow_by",
							"How much the NVM pool grows by itself when little of it is free.",
							"0: it does not.",
							&zen_pool_grow_by_mb, 0, 0, 1024 * 1024,
							PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.pool_mode",
							 "How stores to the NVM pool are made durable.",
							 "pmem: cache-line flushes on persistent memory; emulated: the same on any "
							 "file, which survives server crashes but not power loss; msync: an ordinary "
							 "file; auto: pmem where the file allows it, else msync.",
							 &zen_pool_mode, ZEN_POOL_AUTO, pool_mode_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.flush",
							 "What a commit flushes from the processor's caches to the NVM pool.",
							 "auto: nothing where the platform flushes its caches at a power loss, else all that "
							 "was written; always: all; never: nothing, whatever the platform says; hint: as "
							 "auto, but rows that are not hot are flushed in any case.  Not in msync mode.",
							 &zen_flush_what, ZEN_FLUSH_AUTO, flush_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.flush_delay",
							"Nanoseconds added for each cache line that is flushed to the pool.",
							"For measurements: a pool in DRAM then takes the time of a slower medium.  Not "
							"in msync mode.",
							&zen_flush_delay_ns, 0, 0, 1000 * 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.fence_delay",
							"Nanoseconds added for each fence after flushes.",
							"For measurements, like zen.flush_delay.",
							&zen_fence_delay_ns, 0, 0, 1000 * 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* NUMA nodes. */
static void
define_numa_settings(void)
{
	DefineCustomEnumVariable("zen.numa",
							 "Whether sessions write to the NVM of the NUMA node that they run on.",
							 "local: each writes to the pool files of its node while there is room; soft: and it "
							 "moves to the node of the rows that it names; off: nodes do not matter; count: neither, "
							 "but what is remote is counted.  With one node all are the same.",
							 &zen_numa_mode, ZEN_NUMA_LOCAL, numa_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.numa_simulate",
							"Sets of processors that count as NUMA nodes.",
							"For tests on a machine with one node.  0: the machine's nodes.",
							&zen_numa_simulate, 0, 0, 16,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("zen.numa_simulate_load",
							   "Load of each simulated NUMA node, in percent, with commas between.",
							   "For tests of zen.numa = soft.  auto: what the processors do.",
							   &zen_numa_simulate_load, "auto",
							   PGC_SIGHUP, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.numa_partitions",
							"Partitions that the values of partition keys are divided into.",
							"Each belongs to a NUMA node.  Used with zen.numa = soft.",
							&zen_numa_partitions, 2048, 1, 16384,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.numa_binding",
							 "The NUMA node on which a session begins.",
							 "even: the one with the fewest sessions; group: the first that has more processors than "
							 "sessions.  Used with zen.numa = soft.",
							 &zen_numa_binding, ZEN_NUMA_EVEN, numa_binding_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.remote_delay",
							"Nanoseconds added for each cache line of a row read from or written to another NUMA node.",
							"For measurements: simulated nodes then take the time of a second socket.",
							&zen_remote_delay_ns, 0, 0, 1000 * 1000,
							PGC_SIGHUP, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.remote_write_delay",
							"Nanoseconds added for each cache line of a row written to another NUMA node.",
							"-1: as zen.remote_delay says, which else is for lines that are read.",
							&zen_remote_write_delay_ns, -1, -1, 1000 * 1000,
							PGC_SIGHUP, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

/* DRAM, and the row versions in it. */
static void
define_dram_settings(void)
{
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
	DefineCustomIntVariable("zen.key_cache_size",
							"Memory, beside zen.dram_size, in which statements on one row look for its place first.",
							"8 bytes a key.  What is not there is looked up in the index.  0 disables it.",
							&zen_key_cache_mb, 64, 0, 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.spill_threshold",
							"DRAM that the row versions of one transaction may take before they are written to NVM.",
							"Rows written so far then leave DRAM, not yet committed.  At most an eighth of "
							"zen.met_cache_size counts; -1 keeps rows in DRAM until commit.",
							&zen_spill_threshold_kb, 16 * 1024, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.met_cache_split",
							 "Divides zen.met_cache_size among the tables.",
							 "Those with the most reads for their size get room for all their rows first, and each "
							 "table has a minimum.  Off: rows compete by how often they are read alone.",
							 &zen_met_cache_split, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Collecting, and the warnings of it. */
static void
define_collector_settings(void)
{
	DefineCustomIntVariable("zen.gc_batch",
							"Row changes whose old versions one commit frees at most.",
							"If it has itself changed more rows than half of that, twice as many as it has changed.",
							&zen_gc_batch, 64, 1, 100000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.garbage_warning",
							"Row changes waiting to be collected beyond which the server log names who keeps them.",
							"The same is said when less than a tenth of the pool or of zen.dram_size is "
							"free.  0 disables the warning.",
							&zen_garbage_warning, 1000000, 0, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.pool_warning",
							"Percent of the pool in use from which the server log warns.",
							"It warns again for each five percent more, and once an hour.  0 disables the warning.",
							&zen_pool_warning, 85, 0, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.dram_warning",
							"Percent of zen.dram_size in use from which the server log warns.",
							"It warns again for each five percent more, and once an hour.  0 disables the warning.",
							&zen_dram_warning, 85, 0, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.freeze_age",
							"Transactions after which all row versions in DRAM are looked at for old transaction ids.",
							"Versions are normally frozen, and row locks forgotten, long before.",
							&zen_freeze_age, 100 * 1000 * 1000, 1, 1000 * 1000 * 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Waits, and the numbers that save some. */
static void
define_wait_settings(void)
{
	DefineCustomIntVariable("zen.full_timeout",
							"Time that a transaction waits for room while others keep garbage or free pages.",
							"After it, or at once if nothing can come free, it fails.  0 never waits.",
							&zen_full_timeout_ms, 5000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.vacuum_pin_timeout",
							"Time that VACUUM waits for a page of an index that a cursor or a query is on.",
							"Then it leaves the index, and the dead rows to the next VACUUM.  0 waits without end.",
							&zen_vacuum_pin_timeout_ms, 1000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.sequence_log_ahead",
							"Numbers of a sequence that a transaction on zen tables logs ahead when it has "
							"to wait for the WAL.",
							"At most a 128th of those that the sequence has.  A crash leaves them out.  "
							"PostgreSQL itself logs 32, also with 0.",
							&zen_sequence_log_ahead, 256, 0, 1000 * 1000,
							PGC_USERSET, 0, NULL, NULL, NULL);
}

/* The exclusive stage. */
static void
define_exclusive_settings(void)
{
	DefineCustomRealVariable("zen.exclusive_alpha",
							 "Share of zen.met_cache_size beyond which a transaction's row versions in "
							 "DRAM make it privileged.",
							 "Other transactions then wait before their first write to a zen table, "
							 "until it ends.  0 disables this reason.",
							 &zen_exclusive_alpha, 0.8, 0, 1,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("zen.exclusive_beta",
							 "Share of the pool below which a transaction that writes becomes privileged.",
							 "Only while garbage is waiting, which is collected at its end.  0 disables this reason.",
							 &zen_exclusive_beta, 0.02, 0, 1,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.exclusive_gamma",
							"Serialization failures and deadlocks in a row that make a client's next "
							"transaction privileged.",
							"0 disables this reason.",
							&zen_exclusive_gamma, 16, 0, INT_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.exclusive_timeout",
							"Time that a transaction waits for a privileged one at most.",
							"After it the privileged transaction runs on as any other.",
							&zen_exclusive_timeout_ms, 1000, 1, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* Recovery, and the map saved for it. */
static void
define_start_settings(void)
{
	DefineCustomIntVariable("zen.recovery_workers",
							"Background workers that help to recover the pool when the server starts.",
							"Taken from max_worker_processes until recovery is done.  Sessions that wait for "
							"recovery help as well.",
							&zen_recovery_workers, 3, 0, ZEN_MAX_RECOVERY_WORKERS,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.save_map",
							 "Saves what is known of the pool at an orderly stop, and loads it at the next start.",
							 "Without it, or after a crash, a start reads the whole pool, and checks "
							 "each row as it does so.",
							 &zen_save_map, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Statistics, and cases that are normally errors. */
static void
define_user_settings(void)
{
	DefineCustomBoolVariable("zen.point_access",
							 "Runs statements on one row, named by a unique key, with executor state that is kept.",
							 "For plans that are executed more than once.  EXPLAIN shows them as ZenPointAccess.",
							 &zen_point_access, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.debug_keep_plans",
							 "Keeps executor state of all plans that allow it, from their first execution on.",
							 "For tests of zen.point_access.  It makes statements that run once slower.",
							 &zen_debug_keep_plans, false,
							 PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.key_join",
							 "Finds the inner rows of nested loops by the key cache.",
							 "For loops whose inner side is a unique index of a zen table.  EXPLAIN shows them as "
							 "ZenKeyJoin.",
							 &zen_key_join, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.batch_aggregate",
							 "Computes aggregates over a whole table block by block.",
							 "For count, sum, avg, min and max of common types without GROUP BY.  EXPLAIN shows "
							 "such plans as ZenBatchAggregate.",
							 &zen_batch_aggregate, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.track_statements",
							 "Counts rows, lines and fences by statement, for zen_stat_statements().",
							 "It needs query ids: compute_query_id must not be off.",
							 &zen_track_statements, false,
							 PGC_SUSET, 0, NULL, want_query_ids, NULL);
	DefineCustomIntVariable("zen.max_statements",
							"Statements that zen_stat_statements() keeps.",
							"When there are more, those with the fewest calls are forgotten.",
							&zen_max_statements, 1000, 100, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.default_index",
							 "Access method of the indexes that PRIMARY KEY and UNIQUE make.",
							 "zentree: a tree in zen.dram_size, made anew at each start of the server.  Partitioned "
							 "tables, and tables of other access methods, get a btree in any case.",
							 &zen_default_index, ZEN_INDEX_BTREE, default_index_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.stream",
							 "What of the changes of zen tables goes into the write-ahead log.",
							 "off: nothing; logical: what publications and other logical decoding need.",
							 &zen_stream, ZEN_STREAM_OFF, stream_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.allow_copies_without_rows",
							 "Lets base backups and standbys be made, follow and be promoted without the rows of zen "
							 "tables.",
							 "Normally each of these is an error, and so is a zen table that copies would not have.",
							 &zen_allow_copies_without_rows, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.skip_damaged_rows",
							 "Leaves out rows whose checksum does not match, with a warning.",
							 "Normally reading such a row is an error.  Meant for saving the other rows of the table.",
							 &zen_skip_damaged_rows, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

void
zen_guc_init(void)
{
	define_pool_settings();
	define_numa_settings();
	define_dram_settings();
	define_collector_settings();
	define_wait_settings();
	define_exclusive_settings();
	define_start_settings();
	define_user_settings();
	MarkGUCPrefixReserved("zen");
	tune_wal_writer();
	tune_binary_upgrade();
}
