/*
 * main.c -- options, processes, the report.
 *
 * Each engine works in a process of its own, which loads the pool and runs the workload.  Another process, which has
 * nothing but the pool file and the model, recovers it and compares.  With --kill the first process is killed in the
 * middle, and so is each of those that follow, after it has recovered; the last one only compares.
 */
#include "run.h"
#include "base/delay.h"

#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const Engine *const engines[] = {
	&zen_engine, &naive_engine, &mmdb_engine, &wbl_engine, &foedus_engine, &inp_engine, &outp_engine, &falcon_engine,
	&zen_none_engine, &zen_hint_engine, &mmdb_log_engine, &mmdb_ideal_engine, &inp_none_engine, &inp_window_engine,
	&inp_hot_engine,
	&falcon_all_engine, &falcon_none_engine, &dbx_dram_engine, &dbx_nvm_engine, &dbx_naive_engine, &dbxn_engine,
	&dbxn_store_engine, &dbxn_64_engine, &dbxn_stream_engine, &dbxn_nvm_engine,
	&dbxn_nvm_64_engine, &pisces_engine
};

/* Those that designs can share. */
static const CcMethod *const methods[] = {&cc_2pl, &cc_to, &cc_occ, &cc_mvcc, &cc_mv2pl, &cc_mvocc, &cc_si};

#define KILL_AFTER	(4 * PROGRESS_STEP) /* commits */
#define NENGINES	((int) lengthof(engines))

Settings	settings = {.threads = 2,.cache = 0.25,.log_size = 8 << 20,.group = 64,.epoch_us = 40000,.hot_rows = 256};
Table		tables[MAX_TABLES];
int			ntables;
uint32		nrows;
uint32		max_row_size;
char	   *pool_base;
Size		pool_size;
const Engine *design;

static pg_atomic_uint64 last_cts;
static Size carved;
static char pool_path[1024];
static bool pool_made = false;
static const Engine *chosen[NENGINES];
static int	nchosen;
static const Workload *workload;
static const CcMethod *method = &cc_2pl;
static double seconds = 1;
static bool verify = false;
static bool header = true;
static int	kills = 0;
static bool kill_power = false;
static bool eadr = false;		/* by --mode */
static uint64 seed = 0;

/* Shared by all processes. */
typedef struct Shared
{
	pg_atomic_uint32 progress;	/* commits of the run */
	pg_atomic_uint32 same;		/* the comparison found no difference */
	MediumCut	cut;
	RunResult	run;
	RunResult	recovery;
} Shared;

static Shared *shared;

void
die(const char *fmt,...)
{
	char		what[500];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	fprintf(stderr, "engines: %s\n", what);
	_exit(2);
}

/* ---------- what engines use ---------- */

const Table *
table_of(uint32 row)
{
	int			t = ntables - 1;

	while (row < tables[t].first)
		t--;
	return &tables[t];
}

Size
pool_carved(Size size)
{
	return TYPEALIGN(4096, size);
}

void *
pool_carve(Size size)
{
	char	   *at = pool_base + carved;

	carved += pool_carved(size);
	if (carved > pool_size)
		die("the pool is too small");
	return at;
}

uint64
next_cts(void)
{
	return pg_atomic_add_fetch_u64(&last_cts, 1);
}

void
restart_cts(uint64 newest)
{
	pg_atomic_write_u64(&last_cts, newest);
}

void
apply_write(char *row, const Write *w)
{
	memcpy(row + w->offset, w->data, w->len);
}

/* ---------- processes ---------- */

static void
map_pool(const Engine *engine, bool fresh)
{
	carved = 4096;
	pg_atomic_init_u64(&last_cts, 0);
	if (fresh)
	{
		pool_size = TYPEALIGN(ZEN_AREA_ALIGN, engine->size() + carved);
		pool_base = zen_nvm_create(pool_path, pool_size, ZEN_POOL_EMULATED);
	}
	else
	{
		engine->size();
		pool_base = zen_nvm_map(pool_path, NULL, &pool_size, 0, ZEN_POOL_EMULATED);
	}
	charge_open(pool_base, pool_size);
}

/* Commits before a run may end: enough for a mean, and for a fault to happen.  One that is killed does not end. */
static uint32
min_progress(void)
{
	if (kills > 0)
		return PG_UINT32_MAX;
	return strcmp(workload->name, "ro") == 0 ? 0 : 4 * PROGRESS_STEP;
}

/* The whole life of a process: load or recover, then perhaps run. */
static void
session(const Engine *engine, bool fresh, bool run)
{
	design = engine;
	cc = engine->cc ? engine->cc : method;
	medium.power = kill_power && run;
	map_pool(engine, fresh);
	if (fresh)
		run_load(engine);
	else
		pg_atomic_write_u32(&shared->same, run_recover(engine, verify, &shared->recovery));
	if (run && (fresh || pg_atomic_read_u32(&shared->same)))
		run_transactions(engine, workload, seconds, min_progress(), &shared->run, &shared->progress);
	fflush(stderr);
	_exit(0);
}

static pid_t
start_session(const Engine *engine, bool fresh, bool run)
{
	pid_t		pid;

	pg_atomic_write_u32(&shared->progress, 0);
	pg_atomic_write_u32(&shared->same, 0);
	pg_atomic_write_u32(&shared->cut.wanted, 0);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("could not fork: %m");
	if (pid == 0)
	{
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		session(engine, fresh, run);
	}
	return pid;
}

static void
remove_pool(void)
{
	if (pool_made)
		unlink(pool_path);
	pool_made = false;
}

/* Has a process that has ended done all that it had to?  One that has crashed is no answer. */
static bool
has_succeeded(int status)
{
	if (!WIFSIGNALED(status))
		return status == 0;
	remove_pool();
	die("a process was ended by signal %d", WTERMSIG(status));
}

/* Wait for a process that is to end by itself. */
static bool
finish_session(pid_t pid)
{
	int			status;

	return waitpid(pid, &status, 0) == pid && has_succeeded(status);
}

/* Kill it at some time after its first commits.  False if it has not come to that. */
static bool
kill_session(pid_t pid)
{
	int			status;

	while (pg_atomic_read_u32(&shared->progress) < KILL_AFTER)
	{
		if (waitpid(pid, &status, WNOHANG) != 0)
		{
			(void) has_succeeded(status);
			return false;
		}
		usleep(1000);
	}
	usleep((useconds_t) (seconds * 1e6 * (0.1 + 0.8 * (rand() / (RAND_MAX + 1.0)))));
	medium_cut_power();
	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

static void
on_signal(int signo)
{
	remove_pool();
	signal(signo, SIG_DFL);
	raise(signo);
}

/* ---------- one engine ---------- */

static void
print_header(void)
{
	puts("engine,workload,theta,threads,requests,row_bytes,update_bytes,mode,line_ns,fence_ns,read_ns,cache,"
		 "txn_per_s,lines_per_txn,fences_per_txn,bytes_per_txn,write_amp,line_amp,units256_per_txn,lines_read_per_txn,"
		 "aborts_per_txn,commits,seconds,cpu_us_per_txn,recovery_s,checked,log,cache_kb,unit,"
		 "units_read_per_txn,units_written_per_txn,units_filled_per_txn,lines_in_per_txn,lines_evicted_per_txn,"
		 "lines_cleaned_per_txn,medium_us_per_txn,cc,region_us_per_txn,medium_p50_us,medium_p99_us,"
		 "latency_p50_us,latency_p99_us,"
		 "htm_commits_per_txn,htm_aborts_per_txn,fallbacks_per_txn");
}

static double
ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* Zero if nothing is charged for. */
static void
print_charged(const ChargeCounters *c, double n)
{
	printf("%zu,%u,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,", charge_settings.cache / 1024, charge_settings.unit,
		   ratio(c->units_read, n), ratio(c->units_written, n), ratio(c->units_filled, n), ratio(c->lines_in, n),
		   ratio(c->lines_evicted, n), ratio(c->lines_cleaned, n), ratio(c->ns / 1e3, n));
}

static void
print_latencies(const RunResult *r)
{
	printf("%.3f,%.3f,%.3f,%.3f,", latency_percentile(&r->medium, 0.5) / 1e3,
		   latency_percentile(&r->medium, 0.99) / 1e3, latency_percentile(&r->wall, 0.5) / 1e3,
		   latency_percentile(&r->wall, 0.99) / 1e3);
}

static void
print_result(const Engine *engine)
{
	const RunResult *r = &shared->run;
	const WorkloadSettings *w = &workload_settings;
	bool		ycsb = strcmp(tables[0].name, "usertable") == 0;
	double		n = r->commits;

	printf("%s,%s,%g,%d,%u,%u,%u,%s,%u,%u,%u,%g,", engine->name, workload->name, ycsb ? w->theta : 0, settings.threads,
		   ycsb ? w->requests : 0, ycsb ? w->row_size : 0, ycsb ? w->update_bytes : 0, medium.eadr ? "eadr" : "flush",
		   medium.line_ns, medium.fence_ns, medium.read_ns, settings.cache);
	printf("%.0f,%.3f,%.3f,%.1f,%.3f,%.3f,%.3f,%.3f,%.4f,%.0f,%.3f,%.3f,%.4f,%s,%s,", ratio(n, r->seconds),
		   ratio(r->nvm.lines, n), ratio(r->nvm.fences, n), ratio(r->bytes_stored, n),
		   ratio(r->bytes_stored, r->row_bytes), ratio(r->nvm.lines * 64.0, r->row_bytes), ratio(r->nvm.units, n),
		   ratio(r->nvm.lines_read, n), ratio(r->aborts, n), n, r->seconds, ratio(r->cpu_s * 1e6, n),
		   shared->recovery.open_s, verify ? "yes" : "no", settings.log_whole ? "whole" : "changed");
	print_charged(&r->charged, n);
	printf("%s,%.3f,", engine->cc ? engine->cc->name : method->name, ratio(r->htm.region_ns / 1e3, n));
	print_latencies(r);
	printf("%.3f,%.3f,%.3f\n", ratio(r->htm.commits, n), ratio(r->htm.aborts, n), ratio(r->htm.fallbacks, n));
	fflush(stdout);
}

/* zen's persist module and the medium below it must have seen the same. */
static bool
counters_agree(const Engine *engine)
{
	const RunResult *r = &shared->run;

	if (medium.eadr || (r->persist_lines == r->nvm.lines && r->persist_fences == r->nvm.fences))
		return true;
	fprintf(stderr, "engines: %s: persist.c has counted " UINT64_FORMAT " lines and " UINT64_FORMAT " fences, "
			"the medium " UINT64_FORMAT " and " UINT64_FORMAT "\n",
			engine->name, r->persist_lines, r->persist_fences, r->nvm.lines,
			r->nvm.fences);
	return false;
}

static bool
measure(const Engine *engine)
{
	if (!finish_session(start_session(engine, true, true)))
		return false;
	if (!finish_session(start_session(engine, false, false)) || !pg_atomic_read_u32(&shared->same))
		return false;
	print_result(engine);
	return counters_agree(engine);
}

static bool
kill_often(const Engine *engine)
{
	for (int i = 0; i < kills; i++)
		if (!kill_session(start_session(engine, i == 0, true)))
			return false;
	if (!finish_session(start_session(engine, false, false)) || !pg_atomic_read_u32(&shared->same))
		return false;
	printf("%s,%s,killed %d times%s,ok\n", engine->name, workload->name, kills, kill_power ? " without power" : "");
	fflush(stdout);
	return true;
}

static bool
run_engine(const Engine *engine)
{
	bool		ok;

	fprintf(stderr, "%s ...\n", engine->name);
	medium.eadr = eadr || engine->eadr;
	model_create();
	pool_made = true;
	ok = kills > 0 ? kill_often(engine) : measure(engine);
	remove_pool();
	if (!ok)
		fprintf(stderr, "engines: %s has failed\n", engine->name);
	return ok;
}

/* ---------- options ---------- */

static const char help_text[] =
"engines -- designs of OLTP engines for NVM, compared by their traffic and throughput\n"
"\n"
"  engines [OPTION...]    one CSV line per engine on stdout; exit status 1 if a check fails\n"
"\n"
"  --engines LIST     zen naive mmdb wbl foedus inp outp falcon, separated by commas [all of these];\n"
"                     also mmdb-log mmdb-ideal, and for caches that are persistent zen-none zen-hint inp-none\n"
"                     inp-window inp-hot falcon-all falcon-none; and dbxn dbxn-store dbxn-64 dbxn-stream dbxn-nvm\n"
"                     dbxn-nvm-64 dbx-naive dbx-nvm dbx-dram pisces\n"
"  --workload NAME    %s [ba]\n"
"  --theta X          skew of YCSB's keys, 0 <= X < 1 [0]\n"
"  --rows N           rows of YCSB's table [100000]\n"
"  --tuple-size N     bytes of a row, a multiple of 8 [1024]\n"
"  --update-bytes N   bytes that an update changes, 16 to tuple size - 8, in multiples of 8 [104,\n"
"                     or less in small rows]\n"
"  --requests N       of a YCSB transaction [16]\n"
"  --warehouses N     of TPC-C [2]\n"
"  --scale X          share of TPC-C's customers, items and stock [0.1]\n"
"  --threads N        [2]\n"
"  --seconds X        [1]\n"
"  --transactions N   a counted run: N transactions that do not count, then N that do, by one thread that does the\n"
"                     background's work, too; the same counts in each run\n"
"  --cc METHOD        concurrency control, but for dbx and pisces, which have their own: 2pl, to, occ, mvcc, mv2pl,\n"
"                     mvocc, si [2pl]\n"
"  --cache X          share of rows or pages that fits into DRAM [0.25]\n"
"  --log-mb N         log per thread: inp, mmdb, foedus [8]\n"
"  --log WHAT         redo records have the whole row or the changed bytes: whole, changed [changed]\n"
"  --group N          transactions of a group: wbl; of an epoch, in a counted run: dbx-nvm [64]\n"
"  --epoch-us N       time of an epoch: dbx-nvm [40000]\n"
"  --hot-rows N       rows that a thread of falcon tracks [256]\n"
"  --mode MODE        flush, or eadr: caches are persistent [flush]\n"
"  --line-ns N        delay per line flushed [0]\n"
"  --fence-ns N       delay per fence [0]\n"
"  --read-ns N        delay per line read from NVM [0]\n"
"  --cpu-cache KB     cache of each thread: what it writes back by itself is charged for, too, and what it has\n"
"                     to read; 0: no model of what lies below the program [0]\n"
"  --cpu-ways N       lines of a set of that cache [16]\n"
"  --unit N           bytes that the medium reads or writes at once: 64 or 256 [256]\n"
"  --unit-buffer N    units in the medium's buffer, of each thread [16]\n"
"  --unit-write-ns N  a unit is written [356]\n"
"  --unit-read-ns N   a unit is read [195]\n"
"  --pool PATH        file to make, and to remove [/dev/shm/zen-engines.PID]\n"
"  --verify           compare all rows after recovery, and rows while they are read\n"
"  --kill N           instead of measuring: kill the engine N times, recover, verify\n"
"  --power            the killed process loses what was not flushed and fenced\n"
"  --seed N           for the moments at which it is killed [by the clock]\n"
"  --fault WHAT       to see the checks fail, now and then: a commit is lost, a commit is torn, or, with --power,\n"
"                     a flush is forgotten; or always: blind, transactions are not validated\n"
"  --no-header        no first CSV line\n";

static void
print_help(void)
{
	char		names[256] = "";

	for (int i = 0; i < nworkloads; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? " " : "", workloads[i].name);
	printf(help_text, names);
	puts("\nworkloads");
	for (int i = 0; i < nworkloads; i++)
		printf("  %-11s  %s\n", workloads[i].name, workloads[i].what);
	exit(0);
}

static double
number(const char *option, const char *value, double min, double max)
{
	char	   *end;
	double		x = strtod(value, &end);

	if (end == value || *end != '\0' || !(x >= min && x <= max))
		die("--%s wants a number from %g to %g, not \"%s\"", option, min, max, value);
	return x;
}

static uint32
whole(const char *option, const char *value, double min, double max)
{
	double		x = number(option, value, min, max);

	if (x != (uint32) x)
		die("--%s wants a whole number, not \"%s\"", option, value);
	return (uint32) x;
}

static void
choose_engines(const char *list)
{
	char	   *copy = strdup(list);

	nchosen = 0;
	for (char *name = strtok(copy, ","); name != NULL; name = strtok(NULL, ","))
	{
		int			i = 0;

		while (i < NENGINES && strcmp(engines[i]->name, name) != 0)
			i++;
		if (i == NENGINES)
			die("there is no engine \"%s\"; --help tells which there are", name);
		if (nchosen == NENGINES)
			die("too many engines");
		chosen[nchosen++] = engines[i];
	}
	if (nchosen == 0)
		die("--engines wants a name");
	free(copy);
}

static void
choose_workload(const char *name)
{
	workload = NULL;
	for (int i = 0; i < nworkloads; i++)
		if (strcmp(workloads[i].name, name) == 0)
			workload = &workloads[i];
	if (workload == NULL)
		die("there is no workload \"%s\"; --help tells which there are", name);
}

static void
choose_method(const char *name)
{
	method = NULL;
	for (int i = 0; i < (int) lengthof(methods); i++)
		if (strcmp(methods[i]->name, name) == 0)
			method = methods[i];
	if (method == NULL)
		die("--cc is 2pl, to, occ, mvcc, mv2pl, mvocc or si, not \"%s\"", name);
}

enum
{
	O_ENGINES = 1, O_WORKLOAD, O_THETA, O_ROWS, O_TUPLE_SIZE, O_UPDATE_BYTES, O_REQUESTS, O_WAREHOUSES, O_SCALE,
	O_THREADS,
	O_SECONDS, O_CACHE, O_LOG_MB, O_GROUP, O_HOT_ROWS, O_MODE, O_LINE_NS, O_FENCE_NS, O_READ_NS, O_POOL, O_VERIFY,
	O_KILL, O_POWER, O_FAULT, O_NO_HEADER, O_SEED, O_HELP,
	O_CC, O_EPOCH_US, O_LOG, O_TRANSACTIONS, O_CPU_CACHE, O_CPU_WAYS, O_UNIT, O_UNIT_BUFFER, O_UNIT_WRITE_NS,
	O_UNIT_READ_NS
};

static const struct option options[] = {
	{"engines", 1, NULL, O_ENGINES}, {"workload", 1, NULL, O_WORKLOAD}, {"theta", 1, NULL, O_THETA},
	{"rows", 1, NULL, O_ROWS}, {"tuple-size", 1, NULL, O_TUPLE_SIZE}, {"update-bytes", 1, NULL, O_UPDATE_BYTES},
	{"requests", 1, NULL, O_REQUESTS}, {"warehouses", 1, NULL, O_WAREHOUSES}, {"scale", 1, NULL, O_SCALE},
	{"threads", 1, NULL, O_THREADS}, {"seconds", 1, NULL, O_SECONDS}, {"cache", 1, NULL, O_CACHE},
	{"cc", 1, NULL, O_CC}, {"epoch-us", 1, NULL, O_EPOCH_US},
	{"log", 1, NULL, O_LOG}, {"log-mb", 1, NULL, O_LOG_MB}, {"group", 1, NULL, O_GROUP},
	{"hot-rows", 1, NULL, O_HOT_ROWS},
	{"mode", 1, NULL, O_MODE}, {"line-ns", 1, NULL, O_LINE_NS}, {"fence-ns", 1, NULL, O_FENCE_NS},
	{"read-ns", 1, NULL, O_READ_NS}, {"transactions", 1, NULL, O_TRANSACTIONS},
	{"cpu-cache", 1, NULL, O_CPU_CACHE}, {"cpu-ways", 1, NULL, O_CPU_WAYS}, {"unit", 1, NULL, O_UNIT},
	{"unit-buffer", 1, NULL, O_UNIT_BUFFER}, {"unit-write-ns", 1, NULL, O_UNIT_WRITE_NS},
	{"unit-read-ns", 1, NULL, O_UNIT_READ_NS},
	{"pool", 1, NULL, O_POOL}, {"verify", 0, NULL, O_VERIFY},
	{"kill", 1, NULL, O_KILL}, {"power", 0, NULL, O_POWER}, {"fault", 1, NULL, O_FAULT},
	{"no-header", 0, NULL, O_NO_HEADER}, {"seed", 1, NULL, O_SEED}, {"help", 0, NULL, O_HELP}, {NULL, 0, NULL, 0}
};

static void
set_mode(const char *value)
{
	if (strcmp(value, "flush") != 0 && strcmp(value, "eadr") != 0)
		die("--mode is flush or eadr, not \"%s\"", value);
	eadr = strcmp(value, "eadr") == 0;
}

static void
set_log(const char *value)
{
	if (strcmp(value, "whole") != 0 && strcmp(value, "changed") != 0)
		die("--log is whole or changed, not \"%s\"", value);
	settings.log_whole = strcmp(value, "whole") == 0;
}

static void
set_fault(const char *value)
{
	if (strcmp(value, "lost") == 0)
		fault = FAULT_LOST;
	else if (strcmp(value, "torn") == 0)
		fault = FAULT_TORN;
	else if (strcmp(value, "forgotten") == 0)
		medium.forgetful = true;
	else if (strcmp(value, "blind") == 0)
		fault = FAULT_BLIND;
	else
		die("--fault is lost, torn, forgotten or blind, not \"%s\"", value);
}

static void
set_option(int option, const char *name, const char *value)
{
	WorkloadSettings *w = &workload_settings;

	switch (option)
	{
		case O_ENGINES:
			choose_engines(value);
			break;
		case O_WORKLOAD:
			choose_workload(value);
			break;
		case O_THETA:
			w->theta = number(name, value, 0, 0.9999);
			break;
		case O_ROWS:
			w->rows = whole(name, value, 100, 1e9);
			break;
		case O_TUPLE_SIZE:
			w->row_size = whole(name, value, 24, MAX_ROW - 8);
			break;
		case O_UPDATE_BYTES:
			w->update_bytes = whole(name, value, 16, MAX_ROW);
			break;
		case O_REQUESTS:
			w->requests = whole(name, value, 1, MAX_REQUESTS);
			break;
		case O_WAREHOUSES:
			w->warehouses = whole(name, value, 1, 10000);
			break;
		case O_SCALE:
			w->scale = number(name, value, 0.001, 1);
			break;
		case O_THREADS:
			settings.threads = whole(name, value, 1, MAX_THREADS);
			break;
		case O_SECONDS:
			seconds = number(name, value, 0.01, 86400);
			break;
		case O_CACHE:
			settings.cache = number(name, value, 0, 1);
			break;
		case O_LOG_MB:
			settings.log_size = (Size) whole(name, value, 1, 4096) << 20;
			break;
		case O_LOG:
			set_log(value);
			break;
		case O_GROUP:
			settings.group = whole(name, value, 1, 512);
			break;
		case O_EPOCH_US:
			settings.epoch_us = whole(name, value, 1, 1e7);
			break;
		case O_CC:
			choose_method(value);
			break;
		case O_HOT_ROWS:
			settings.hot_rows = whole(name, value, 4, 1e6);
			break;
		case O_MODE:
			set_mode(value);
			break;
		case O_LINE_NS:
			medium.line_ns = whole(name, value, 0, 1e6);
			break;
		case O_FENCE_NS:
			medium.fence_ns = whole(name, value, 0, 1e6);
			break;
		case O_READ_NS:
			medium.read_ns = whole(name, value, 0, 1e6);
			break;
		case O_TRANSACTIONS:
			settings.transactions = whole(name, value, 1, 1e9);
			break;
		case O_CPU_CACHE:
			charge_settings.cache = (Size) whole(name, value, 0, 1 << 20) << 10;
			break;
		case O_CPU_WAYS:
			charge_settings.ways = whole(name, value, 1, CHARGE_MAX_WAYS);
			break;
		case O_UNIT:
			charge_settings.unit = whole(name, value, 64, 256);
			break;
		case O_UNIT_BUFFER:
			charge_settings.buffer = whole(name, value, 1, CHARGE_MAX_BUFFER);
			break;
		case O_UNIT_WRITE_NS:
			charge_settings.write_ns = whole(name, value, 0, 1e6);
			break;
		case O_UNIT_READ_NS:
			charge_settings.read_ns = whole(name, value, 0, 1e6);
			break;
		case O_POOL:
			snprintf(pool_path, sizeof(pool_path), "%s", value);
			break;
		case O_VERIFY:
			verify = true;
			break;
		case O_KILL:
			kills = whole(name, value, 1, 10000);
			break;
		case O_POWER:
			kill_power = true;
			break;
		case O_FAULT:
			set_fault(value);
			break;
		case O_NO_HEADER:
			header = false;
			break;
		case O_SEED:
			seed = whole(name, value, 1, 4e9);
			break;
		case O_HELP:
			print_help();
			break;
		default:
			_exit(2);			/* getopt has said what is wrong */
	}
}

static void
check_options(void)
{
	WorkloadSettings *w = &workload_settings;
	char		directory[sizeof(pool_path)];
	struct stat st;

	if (w->row_size % 8 != 0 || w->update_bytes % 8 != 0)
		die("--tuple-size and --update-bytes want multiples of 8");
	if (w->update_bytes == 0)
		w->update_bytes = Min(104, w->row_size - 8);
	if (w->update_bytes > w->row_size - 8)
		die("--update-bytes %u is too much for rows of %u bytes", w->update_bytes, w->row_size);
	if (w->requests > w->rows / 4)
		die("--requests %u is too much for %u rows", w->requests, w->rows);
	if (kill_power && kills == 0)
		die("--power wants --kill");
	if ((kills > 0 || fault != FAULT_NONE) && strcmp(workload->name, "ro") == 0)
		die("--kill and --fault want a workload that writes");
	for (int i = 0; kill_power && i < nchosen; i++)
		if (eadr || chosen[i]->eadr)
			die("--power is for --mode flush: with eadr, or for %s, the caches are kept", chosen[i]->name);
	for (int i = 0; i < nchosen; i++)
	{
		if (chosen[i]->forgets && (verify || kills > 0 || fault != FAULT_NONE))
			die("%s loses what it commits: not for --verify, --kill and --fault", chosen[i]->name);
		if (fault == FAULT_BLIND && (method == &cc_2pl || method == &cc_mv2pl) && chosen[i]->cc == NULL)
			die("--fault blind wants a --cc that validates");
	}
	if (medium.forgetful && !kill_power)
		die("--fault forgotten wants --power");
	if (charge_settings.unit != 64 && charge_settings.unit != 256)
		die("--unit is 64 or 256, not %u", charge_settings.unit);
	if (settings.transactions > 0 && settings.threads != 1)
		die("--transactions wants --threads 1");
	if ((settings.transactions > 0 || charge_settings.cache > 0) && kills > 0)
		die("--transactions and --cpu-cache are not for --kill");
	if (charge_settings.cache > 0 && (medium.line_ns > 0 || medium.read_ns > 0))
		die("--line-ns and --read-ns are not for --cpu-cache, which has --unit-write-ns and --unit-read-ns");
	if (pool_path[0] == '\0')
		snprintf(pool_path, sizeof(pool_path), "/dev/shm/zen-engines.%d", (int) getpid());
	if (stat(pool_path, &st) == 0)
		die("\"%s\" exists", pool_path);
	snprintf(directory, sizeof(directory), "%s", pool_path);
	if (access(dirname(directory), W_OK) != 0)
		die("no file can be made in \"%s\": %m", directory);
	if (!__builtin_cpu_supports("sse4.2"))
		die("this processor has no CRC32C instruction");
}

int
main(int argc, char **argv)
{
	int			option,
				index;
	bool		ok = true;

	workload_settings = (WorkloadSettings)
	{
		.rows = 100000,.row_size = 1024,.requests = 16,.warehouses = 2,.scale = 0.1
	};
	choose_engines("zen,naive,mmdb,wbl,foedus,inp,outp,falcon");
	choose_workload("ba");
	while ((option = getopt_long(argc, argv, "", options, &index)) != -1)
		set_option(option, option != '?' ? options[index].name : "", optarg);
	if (optind < argc)
		die("what is \"%s\"? --help tells", argv[optind]);
	check_options();
	verify |= kills > 0 || fault != FAULT_NONE;
	checking = verify;
	medium.charged = charge_settings.cache > 0;
	charge_settings.wait = settings.transactions == 0;
	srand(seed ? seed : (unsigned) time(NULL) ^ getpid());
	workload->setup();
	zen_delay_calibrate();
	shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("no memory: %m");
	medium_cut = &shared->cut;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (header && kills == 0)
		print_header();
	for (int i = 0; i < nchosen; i++)
		ok &= run_engine(chosen[i]);
	return ok ? 0 : 1;
}
