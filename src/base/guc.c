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
int			zen_numa_binding = ZEN_NUMA_EVEN;
char	   *zen_pool_path = NULL;
int			zen_pool_size_mb = 1024;
bool		zen_pool_size_is_set = false;
int			zen_pool_max_size_mb = 0;
int			zen_pool_grow_by_mb = 0;
int			zen_pool_mode = ZEN_POOL_AUTO;
int			zen_flush_what = ZEN_FLUSH_AUTO;
int			zen_dram_size_mb = 512;
int			zen_met_cache_size_kb = 128 * 1024;
int			zen_warning_level = 85;
int			zen_key_cache_mb = 64;
bool		zen_point_access = true;
bool		zen_key_join = true;
bool		zen_shapes = true;
int			zen_shape_memory_kb = 4096;
bool		zen_batch_aggregate = true;
bool		zen_track_statements = false;
int			zen_full_timeout_ms = 5000;
int			zen_sequence_log_ahead = 256;
int			zen_vacuum_pin_timeout_ms = 1000;
int			zen_exclusive_memory = 80;
int			zen_exclusive_free_pool = 2;
int			zen_exclusive_failures = 16;
int			zen_exclusive_timeout_ms = 1000;
int			zen_recovery_workers = 3;
int			zen_spill_threshold_kb;
bool		zen_met_cache_split = true;
bool		zen_skip_damaged_rows = false;
static char *loaded_version;
bool		zen_deltas = false;
bool		zen_save_map = true;
int			zen_save_map_interval = 0;
int			zen_default_index = ZEN_INDEX_BTREE;
int			zen_stream = ZEN_STREAM_OFF;
bool		zen_allow_copies_without_rows = false;
bool		zen_standby_reads = false;
bool		zen_standby_indexes = true;

static char *executor;			/* as it was set */

/*
 * What is off may also be said as for a boolean setting of PostgreSQL's.  YAML, in which Patroni and operators of
 * Kubernetes keep settings, makes False of an off without quotes.
 */
#define OFF_BY_OTHER_NAMES(value) \
	{"false", value, true}, {"no", value, true}, {"0", value, true}

static const struct config_enum_entry numa_options[] = {
	{"off", ZEN_NUMA_OFF, false},
	OFF_BY_OTHER_NAMES(ZEN_NUMA_OFF),
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
	{"wal", ZEN_POOL_WAL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry stream_options[] = {
	{"off", ZEN_STREAM_OFF, false},
	OFF_BY_OTHER_NAMES(ZEN_STREAM_OFF),
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
 * For PostgreSQL every commit of zen is an asynchronous one.  Needless wake-ups of the WAL writer took up to a third of
 * the server's time.  With 0 the WAL writer flushes all that it writes, and is woken once in a page of WAL, some 200
 * transactions.  Only the default changes: a value in the configuration comes before it.
 */
void
zen_guc_tune_wal_writer(void)
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

/* ---------- zen.stream ---------- */

static int	implied_stream = -1;	/* ZenStream; -1: what the setting says */

/* A reload finds the value that is in force. */
static bool
check_stream(int *newval, void **extra, GucSource source)
{
	if (implied_stream != -1)
		*newval = implied_stream;
	return true;
}

void
zen_guc_imply_stream(ZenStream value)
{
	implied_stream = value;
	zen_stream = value;
}

/* ---------- zen.executor ---------- */

/* A word of the list, and what it turns on. */
typedef struct ExecutorPart
{
	const char *name;
	bool	   *used;
} ExecutorPart;

static const ExecutorPart executor_parts[] = {
	{"point", &zen_point_access},
	{"keyjoin", &zen_key_join},
	{"batch", &zen_batch_aggregate},
	{"shape", &zen_shapes},
};

/* Go on to the next word of a list; its length, 0 at the end. */
static size_t
next_word(const char **list)
{
	static const char between[] = ", \t\r\n";

	*list += strspn(*list, between);
	return strcspn(*list, between);
}

/* What a word names; NULL: nothing. */
static const ExecutorPart *
find_part(const char *word, size_t len)
{
	for (int i = 0; i < lengthof(executor_parts); i++)
		if (strlen(executor_parts[i].name) == len && pg_strncasecmp(word, executor_parts[i].name, len) == 0)
			return &executor_parts[i];
	return NULL;
}

static bool
check_executor(char **newval, void **extra, GucSource source)
{
	const char *word = *newval;
	size_t		len;

	if (pg_strcasecmp(word, "none") == 0)
		return true;
	for (; (len = next_word(&word)) > 0; word += len)
		if (find_part(word, len) == NULL)
		{
			GUC_check_errdetail("Unrecognized key word: \"%.*s\".", (int) len, word);
			GUC_check_errhint("Name some of point, keyjoin, batch and shape, or none.");
			return false;
		}
	return true;
}

static void
assign_executor(const char *newval, void *extra)
{
	size_t		len;

	for (int i = 0; i < lengthof(executor_parts); i++)
		*executor_parts[i].used = false;
	for (const char *word = newval; (len = next_word(&word)) > 0; word += len)
	{
		const ExecutorPart *part = find_part(word, len);

		if (part != NULL)
			*part->used = true;
	}
}

/* ---------- the settings ---------- */

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
							 "file, which survives server crashes but not power loss; wal: an ordinary file, "
							 "by the write-ahead log and checkpoints; msync: an ordinary file, by a sync at "
							 "each commit; auto: pmem where the file allows it, else wal.",
							 &zen_pool_mode, ZEN_POOL_AUTO, pool_mode_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.flush",
							 "What a commit flushes from the processor's caches to the NVM pool.",
							 "auto: nothing where the platform flushes its caches at a power loss, else all that "
							 "was written; always: all; never: nothing, whatever the platform says; hint: as "
							 "auto, but rows that are not hot are flushed in any case.  Not in modes wal and msync.",
							 &zen_flush_what, ZEN_FLUSH_AUTO, flush_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
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
	DefineCustomEnumVariable("zen.numa_binding",
							 "The NUMA node on which a session begins.",
							 "even: the one with the fewest sessions; group: the first that has more processors than "
							 "sessions.  Used with zen.numa = soft.",
							 &zen_numa_binding, ZEN_NUMA_EVEN, numa_binding_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
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

/* Waits and warnings, and the numbers that save some. */
static void
define_wait_settings(void)
{
	DefineCustomIntVariable("zen.warning_level",
							"Percent of the pool or of zen.dram_size in use from which the server log warns.",
							"It then also names the holder of an old snapshot that keeps garbage, and in any case one "
							"that keeps very much.  0: no warnings.",
							&zen_warning_level, 85, 0, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
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
	DefineCustomIntVariable("zen.exclusive_memory",
							"Percent of zen.met_cache_size beyond which a transaction's row versions in "
							"DRAM make it privileged.",
							"Other transactions then wait before their first write to a zen table, "
							"until it ends.  0 disables this reason.",
							&zen_exclusive_memory, 80, 0, 100,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.exclusive_free_pool",
							"Percent of the pool that is free below which a transaction that writes becomes "
							"privileged.",
							"Only while garbage is waiting, which is collected at its end.  0 disables this reason.",
							&zen_exclusive_free_pool, 2, 0, 100,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.exclusive_failures",
							"Serialization failures and deadlocks in a row that make a client's next "
							"transaction privileged.",
							"0 disables this reason.",
							&zen_exclusive_failures, 16, 0, INT_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.exclusive_timeout",
							"Time that transactions wait for a privileged one that makes no progress.",
							"After it, or after ten times as much in all, the privileged transaction runs on "
							"as any other.",
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
	DefineCustomBoolVariable("zen.deltas",
							 "Writes of a wide row that was updated only what has changed.",
							 "The pool gets a format that older versions of zen refuse.  Such rows stay "
							 "readable when it is off again.",
							 &zen_deltas, false,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.save_map",
							 "Saves what is known of the pool at an orderly stop, and loads it at the next start.",
							 "Without it, or after a crash, a start reads the whole pool, and checks "
							 "each row as it does so.",
							 &zen_save_map, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("zen.save_map_interval",
							"Time between two saves of the map while the server runs.",
							"A start after a crash loads the last one, and reads only pages that have changed since.  "
							"0: none is saved, and it reads the whole pool.",
							&zen_save_map_interval, 0, 0, INT_MAX / 1000,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/* The executor, statistics, and cases that are normally errors. */
static void
define_user_settings(void)
{
	DefineCustomStringVariable("zen.executor",
							   "Ways of zen's own in which statements are run.",
							   "A list of point: statements on one row, with executor state that is kept; keyjoin: "
							   "nested loops by a unique key; batch: aggregates over a whole table, block by block; "
							   "shape: plans kept for statements that nobody has prepared.  none: PostgreSQL's planner "
							   "and executor do all.",
							   &executor, "point, keyjoin, batch, shape",
							   PGC_USERSET, GUC_LIST_INPUT, check_executor, assign_executor, NULL);
	DefineCustomIntVariable("zen.shape_memory",
							"Memory of a session for plans of statements that nobody has prepared.",
							"Plans that have not been used for the longest time go first.",
							&zen_shape_memory_kb, 4096, 64, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.track_statements",
							 "Counts rows, lines and fences by statement, for zen_stat_statements.",
							 "It needs query ids: compute_query_id must not be off.",
							 &zen_track_statements, false,
							 PGC_SUSET, 0, NULL, want_query_ids, NULL);
	DefineCustomEnumVariable("zen.default_index",
							 "Access method of the indexes that PRIMARY KEY and UNIQUE make.",
							 "zentree: a tree in zen.dram_size, made anew at each start of the server.  Partitioned "
							 "tables, and tables of other access methods, get a btree in any case.",
							 &zen_default_index, ZEN_INDEX_BTREE, default_index_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("zen.stream",
							 "What of the changes of zen tables goes into the write-ahead log.",
							 "off: nothing; logical: what publications and other logical decoding need; replica: also "
							 "what standbys and base backups need.",
							 &zen_stream, ZEN_STREAM_OFF, stream_options,
							 PGC_POSTMASTER, 0, check_stream, NULL, NULL);
	DefineCustomBoolVariable("zen.allow_copies_without_rows",
							 "Lets base backups and standbys be made, follow and be promoted without the rows of zen "
							 "tables.",
							 "Normally each of these is an error, and so is a zen table that copies would not have.",
							 &zen_allow_copies_without_rows, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.standby_reads",
							 "Lets sessions of a hot standby read its zen tables.",
							 "The standby then keeps maps and superseded row versions in zen.dram_size.",
							 &zen_standby_reads, false,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.standby_indexes",
							 "Lets plans on a hot standby use indexes of zen tables.",
							 "The first scan of an index there makes a tree in zen.dram_size.",
							 &zen_standby_indexes, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("zen.skip_damaged_rows",
							 "Leaves out rows whose checksum does not match, with a warning.",
							 "Normally reading such a row is an error.  Meant for saving the other rows of the table.",
							 &zen_skip_damaged_rows, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomStringVariable("zen.version",
							   "Version of the zen library that the server has loaded.", NULL,
							   &loaded_version, ZEN_VERSION,
							   PGC_INTERNAL, GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL, NULL);
}

/* ---------- names from before version 1.0; to be forgotten after it ---------- */

#define CONSTANT	"Remove it: what it set is a constant now."
#define TESTS_ONLY	"Remove it: only builds for tests have it (make ZEN_TESTING=1)."

/* Settings that no build has any more, each with a hint what to do. */
#define OLD_NAMES(X) \
	X(batch_aggregate, "It is the word \"batch\" of zen.executor now.") \
	X(dram_warning, "Set zen.warning_level instead.") \
	X(exclusive_alpha, "Set zen.exclusive_memory instead, in percent.") \
	X(exclusive_beta, "Set zen.exclusive_free_pool instead, in percent.") \
	X(exclusive_gamma, "Set zen.exclusive_failures instead.") \
	X(garbage_warning, "Set zen.warning_level instead.") \
	X(gc_batch, CONSTANT) \
	X(key_join, "It is the word \"keyjoin\" of zen.executor now.") \
	X(max_statements, CONSTANT) \
	X(point_access, "It is the word \"point\" of zen.executor now.") \
	X(pool_warning, "Set zen.warning_level instead.") \
	X(publications, "Remove it.  Publications with zen tables need zen.stream = logical.")

/* Settings that builds for tests still have. */
#ifdef ZEN_TESTING
#define OLD_TEST_NAMES(X)
#else
#define OLD_TEST_NAMES(X) \
	X(debug_keep_plans, TESTS_ONLY) \
	X(fence_delay, TESTS_ONLY) \
	X(flush_delay, TESTS_ONLY) \
	X(freeze_age, TESTS_ONLY) \
	X(numa_partitions, TESTS_ONLY) \
	X(numa_simulate, TESTS_ONLY) \
	X(numa_simulate_load, TESTS_ONLY) \
	X(remote_delay, TESTS_ONLY) \
	X(remote_write_delay, TESTS_ONLY)
#endif

/*
 * An old name of a setting is an error that names the new one.
 *
 * The server does not start with an old name, as it does not with a name that PostgreSQL does not know.  A warning
 * would be overlooked, and the setting be lost.
 */
static bool
refuse_old_name(const char *name, const char *newval, const char *advice)
{
	if (strcmp(newval, advice) == 0)
		return true;			/* the default, which SHOW shows */
	if (process_shared_preload_libraries_in_progress)
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("unrecognized configuration parameter \"%s\"", name),
				 errhint("%s", advice)));
	GUC_check_errcode(ERRCODE_UNDEFINED_OBJECT);
	GUC_check_errmsg("unrecognized configuration parameter \"%s\"", name);
	GUC_check_errhint("%s", advice);
	return false;
}

#define X(old, advice) \
static char *value_of_##old; \
\
static bool \
check_##old(char **newval, void **extra, GucSource source) \
{ \
	return refuse_old_name("zen." #old, *newval, advice); \
}
OLD_NAMES(X)
OLD_TEST_NAMES(X)
#undef X

static void
define_old_names(void)
{
#define X(old, advice) \
	DefineCustomStringVariable("zen." #old, advice, NULL, &value_of_##old, advice, PGC_USERSET, \
							   GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, check_##old, NULL, NULL);
	OLD_NAMES(X);
	OLD_TEST_NAMES(X);
#undef X
}

void
zen_guc_init(void)
{
	zen_testing_init();
	define_old_names();
	define_pool_settings();
	define_numa_settings();
	define_dram_settings();
	define_wait_settings();
	define_exclusive_settings();
	define_start_settings();
	define_user_settings();
	MarkGUCPrefixReserved("zen");
	tune_binary_upgrade();
}
