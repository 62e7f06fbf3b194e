/*
 * run.c -- threads, locks, the model of what was committed, and the comparison with it.
 *
 * A row is key, version, and words that each follow from the key, their place, and the version that was made by the
 * write that changed them last.  A write changes the version and some words after it.  So each row tells whether it is
 * whole.
 *
 * Locks: two-phase, shared or exclusive, never waiting; a transaction that meets a lock lets all its own go and starts
 * again.
 *
 * The model, in memory that outlives the process: of each row the newest version that was ever handed to an engine, and
 * the newest one acknowledged; and of each transaction not acknowledged yet the rows that it writes.  After a crash a
 * row's version must lie between the two, and of a transaction that was under way either all writes are there or none.
 * In tables with cycles a row is absent if its version is a multiple of 3, in others only at version 0.
 */
#include "run.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PENDING			1024	/* transactions per thread that may wait for
								 * their acknowledgement */
#define EXCLUSIVE		PG_UINT32_MAX

typedef struct RowState
{
	pg_atomic_uint32 lock;		/* number of readers, or EXCLUSIVE */
	pg_atomic_uint32 acked;		/* newest version acknowledged */
	uint32		version;		/* newest version handed to the engine; under
								 * the lock */
} RowState;

typedef struct PendingTxn
{
	uint32		n;
	uint32		row[MAX_WRITES];
	uint32		version[MAX_WRITES];
} PendingTxn;

/* A thread's transactions that are not acknowledged, oldest first; written by the thread only. */
typedef struct PendingRing
{
	pg_atomic_uint64 begun;		/* handed to the engine, the last one perhaps
								 * not yet */
	pg_atomic_uint64 acked;
	PendingTxn	txn[PENDING];
} PendingRing;

typedef struct Worker
{
	pthread_t	id;
	int			thread;
	const Engine *engine;
	const Workload *workload;
	pg_atomic_uint32 *progress;
	MediumCounters *nvm;
	ChargeCounters *charged;
	ZenThreadCounters *zen;
	uint64		commits;		/* with writes, handed to the engine */
	uint64		read_only;
	uint64		swallowed;		/* of these, kept from the engine by a fault */
	uint64		aborts;
	uint64		row_bytes;
	uint64		warmed_up;		/* commits before those that count */
	bool		counting;		/* nvm and zen are set */
	char		pad[64];		/* the next one's counters are on another line */
} Worker;

Fault		fault = FAULT_NONE;
bool		checking = false;

static RowState *states;
static PendingRing *rings;
static Worker workers[MAX_THREADS + 1]; /* the last one is the background
										 * thread */
static pg_atomic_uint32 stop;
static pthread_barrier_t barrier;
static pthread_t background_id;

pg_atomic_uint32 stop_background;

void
model_create(void)
{
	Size		size = nrows * sizeof(RowState) + settings.threads * sizeof(PendingRing);

	/* one engine's model at a time */
	if (rings != NULL)
		munmap(rings, size);
	rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (rings == MAP_FAILED)
		die("no memory for the model of %u rows", nrows);
	states = (RowState *) (rings + settings.threads);
}

static double
now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

void
share_of(uint64 n, int thread, uint64 *from, uint64 *to)
{
	*from = n * thread / settings.threads;
	*to = n * (thread + 1) / settings.threads;
}

void
recovery_barrier(void)
{
	pthread_barrier_wait(&barrier);
}

/* ---------- rows ---------- */

/* What the word at an offset of a row is made of, besides the version. */
static uint64
word_base(uint64 key, uint32 at)
{
	uint64		x = key * 1000003 + at;

	x ^= x >> 31;
	x *= UINT64CONST(0x7FB5D329728EA185);
	return x ^ x >> 27;
}

/* Bytes [from, to) of a row as the write that makes this version leaves them. */
static void
fill(char *data, uint64 key, uint64 version, uint32 from, uint32 to)
{
	for (uint32 at = from; at < to; at += 8)
	{
		uint64		word = at == 0 ? key : at == 8 ? version : word_base(key, at) + version;

		memcpy(data + at - from, &word, 8);
	}
}

/* Is this a whole row? */
static bool
row_is_whole(const Table *table, uint32 row, const char *data, uint64 *version)
{
	uint64		key;
	uint64		last;

	memcpy(&key, data, 8);
	memcpy(version, data + 8, 8);
	last = *version;
	for (uint32 at = 16; at < table->size; at += 8)
	{
		uint64		v;

		memcpy(&v, data + at, 8);
		v -= word_base(row, at);

		/*
		 * changes begin at the version, so a word is never newer than the one
		 * before
		 */
		if (v == 0 || v > last || (at < 8 + table->min_update && v != *version))
			return false;
		last = v;
	}
	return key == row;
}

/* ---------- locks ---------- */

static bool
try_lock(uint32 row, bool exclusive)
{
	pg_atomic_uint32 *lock = &states[row].lock;
	uint32		old = pg_atomic_read_u32(lock);

	do
	{
		if (old == EXCLUSIVE || (exclusive && old != 0))
			return false;
	} while (!pg_atomic_compare_exchange_u32(lock, &old, exclusive ? EXCLUSIVE : old + 1));
	return true;
}

static void
unlock(uint32 row, bool exclusive)
{
	if (exclusive)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&states[row].lock, 0);
	}
	else
		pg_atomic_fetch_sub_u32(&states[row].lock, 1);
}

/* ---------- the model ---------- */

/* Is the row there at this version? */
static bool
present_at(const Table *table, uint32 version)
{
	return table->cycles ? version % 3 != 0 : version != 0;
}

/* The write that makes the next version of a row. */
static Write
next_write(const Op *op, char *data)
{
	const Table *table = table_of(op->row);
	uint32		version = states[op->row].version + 1;
	Write		w = {.row = op->row,.kind = WRITE_UPDATE,.data = data};
	uint32		end = op->len == 0 ? table->size : Min(table->size, 8 + op->len);

	if (!present_at(table, version))
		w.kind = WRITE_DELETE;
	else if (!present_at(table, version - 1))
		w.kind = WRITE_INSERT;
	else if (op->len != 0)
		w.offset = 8;
	if (w.kind == WRITE_INSERT)
		end = table->size;
	if (w.kind == WRITE_DELETE)
		return w;
	w.len = end - w.offset;
	fill(data, op->row, version, w.offset, end);
	return w;
}

/* Remember a transaction before the engine has it. */
static void
begin_pending(int thread, const Write *writes, int n)
{
	PendingRing *ring = &rings[thread];
	PendingTxn *txn = &ring->txn[pg_atomic_read_u64(&ring->begun) % PENDING];

	txn->n = n;
	for (int i = 0; i < n; i++)
	{
		txn->row[i] = writes[i].row;
		txn->version[i] = ++states[writes[i].row].version;
	}
	pg_write_barrier();
	pg_atomic_write_u64(&ring->begun, pg_atomic_read_u64(&ring->begun) + 1);
}

static void
raise_acked(uint32 row, uint32 version)
{
	pg_atomic_uint32 *acked = &states[row].acked;
	uint32		old = pg_atomic_read_u32(acked);

	while (old < version && !pg_atomic_compare_exchange_u32(acked, &old, version))
		;
}

/* The thread's first n transactions are durable. */
static void
acknowledge(int thread, uint64 n)
{
	PendingRing *ring = &rings[thread];

	for (uint64 i = pg_atomic_read_u64(&ring->acked); i < n; i++)
	{
		PendingTxn *txn = &ring->txn[i % PENDING];

		for (uint32 j = 0; j < txn->n; j++)
			raise_acked(txn->row[j], txn->version[j]);
		pg_write_barrier();
		pg_atomic_write_u64(&ring->acked, i + 1);
	}
}

/* ---------- a worker ---------- */

static void
expect_row(uint32 row, bool found, const char *data)
{
	const Table *table = table_of(row);
	uint32		version = states[row].version;
	uint64		v = 0;

	if (found != present_at(table, version) ||
		(found && (!row_is_whole(table, row, data, &v) || v != version)))
		die("%s, row %u: read version " UINT64_FORMAT " (%s), where %u is committed",
			table->name, row - table->first, v, found ? "found" : "not found", version);
}

/* What concurrency control notes of a row that a transaction reads or is about to change. */
static void
note_access(const Worker *w, uint32 row)
{
	uint64	   *word = w->engine->metadata ? w->engine->metadata(row) : NULL;

	if (word == NULL)
		return;
	nvm_store64(word, w->commits + 1);
	if (w->engine->metadata_durable)
		zen_persist(word, sizeof(*word));
}

/*
 * Lock the rows of ops and read those that are only read.  False, and nothing locked, if another transaction is in the
 * way.
 */
static bool
lock_and_read(const Worker *w, const Op *ops, int n)
{
	char		data[MAX_ROW];

	for (int i = 0; i < n; i++)
	{
		if (!try_lock(ops[i].row, ops[i].write))
		{
			while (--i >= 0)
				unlock(ops[i].row, ops[i].write);
			return false;
		}
		if (!ops[i].write)
		{
			bool		found = w->engine->read(w->thread, ops[i].row, data);

			note_access(w, ops[i].row);
			if (checking)
				expect_row(ops[i].row, found, data);
		}
	}
	return true;
}

/* Hand the writes over, or break the promise that a commit is. */
static void
commit(Worker *w, Write *writes, int n)
{
	bool		faulty = fault != FAULT_NONE && w->commits % PROGRESS_STEP == PROGRESS_STEP - 1;

	if (!faulty)
		w->engine->commit(w->thread, writes, n);
	else if (fault == FAULT_LOST)
		w->swallowed++;
	else if (n > 1)
		w->engine->commit(w->thread, writes, n - 1);
	else
	{
		if (writes[0].kind == WRITE_UPDATE)
			writes[0].len = TYPEALIGN(8, writes[0].len / 2);
		w->engine->commit(w->thread, writes, 1);
	}
}

static uint64
durable(Worker *w)
{
	return w->engine->durable ? w->engine->durable(w->thread, w->commits) : w->commits;
}

/* The engine counts its own commits: those of earlier phases are not ours, those that a fault has swallowed not its. */
static void
note_durable(Worker *w, uint64 base)
{
	uint64		n = durable(w);

	if (w->engine->durable)
		n += w->swallowed - base;
	acknowledge(w->thread, Min(n, w->commits));
}

static void
one_transaction(Worker *w, const Op *ops, int n, uint64 base)
{
	static __thread char data[MAX_WRITES][MAX_ROW];
	PendingRing *ring = &rings[w->thread];
	Write		writes[MAX_WRITES];
	int			nwrites = 0;
	uint64		bytes = 0;

	while (!lock_and_read(w, ops, n))
	{
		w->aborts++;
		if (pg_atomic_read_u32(&stop) != 0)
			return;
		/* an engine may need this thread before the others can go on */
		note_durable(w, base);
		sched_yield();
	}
	for (int i = 0; i < n; i++)
		if (ops[i].write)
		{
			note_access(w, ops[i].row);
			writes[nwrites] = next_write(&ops[i], data[nwrites]);
			bytes += writes[nwrites].kind == WRITE_DELETE ? 0 : table_of(ops[i].row)->size;
			nwrites++;
		}
	if (nwrites == 0)
	{
		w->engine->commit(w->thread, writes, 0);
		w->read_only++;
	}
	else
	{
		begin_pending(w->thread, writes, nwrites);
		commit(w, writes, nwrites);
		if (++w->commits % PROGRESS_STEP == 0)
			pg_atomic_fetch_add_u32(w->progress, PROGRESS_STEP);
		w->row_bytes += bytes;
	}
	note_durable(w, base);
	for (int i = 0; i < n; i++)
		unlock(ops[i].row, ops[i].write);
	while (pg_atomic_read_u64(&ring->begun) - pg_atomic_read_u64(&ring->acked) == PENDING)
	{
		sched_yield();
		note_durable(w, base);
	}
}

static void
next_transaction(Worker *w, Generator *g, uint64 base)
{
	Op			ops[MAX_OPS];
	int			n = w->workload->next(g, ops);

	one_transaction(w, ops, n, base);
}

/* A counted run's transactions, with all that they leave to do: so what comes next is not charged for it. */
static void
run_counted(Worker *w, Generator *g, uint64 base)
{
	for (uint64 i = 0; i < settings.transactions; i++)
		next_transaction(w, g, base);
	if (settings.transactions > 0 && w->engine->drain)
		w->engine->drain();
}

static void *
work(void *arg)
{
	Worker	   *w = arg;
	Generator	g;
	uint64		base = w->engine->durable ? w->engine->durable(w->thread, 0) : 0;

	w->nvm = &medium_counters;
	w->charged = &charge_counters;
	w->zen = &zen_thread_counters;
	generator_init(&g, w->thread);
	if (settings.transactions == 0)
		g.random ^= (uint64) (now(CLOCK_REALTIME) * 1e6) << 8;
	run_counted(w, &g, base);
	w->warmed_up = w->commits + w->read_only;
	w->row_bytes = 0;
	pthread_barrier_wait(&barrier); /* ready */
	pthread_barrier_wait(&barrier); /* go */
	if (settings.transactions == 0)
		while (pg_atomic_read_u32(&stop) == 0)
			next_transaction(w, &g, base);
	run_counted(w, &g, base);
	if (w->engine->leave)
		w->engine->leave(w->thread);
	note_durable(w, base);
	pthread_barrier_wait(&barrier); /* done */
	pthread_barrier_wait(&barrier); /* counted */
	return NULL;
}

static void *
work_in_background(void *arg)
{
	Worker	   *w = arg;

	w->nvm = &medium_counters;
	w->charged = &charge_counters;
	w->zen = &zen_thread_counters;
	pg_write_barrier();
	*(volatile bool *) &w->counting = true;
	w->engine->background();
	return NULL;
}

static bool
has_background(const Engine *engine)
{
	return engine->background != NULL && settings.transactions == 0;
}

static void
start_background(const Engine *engine)
{
	Worker	   *w = &workers[MAX_THREADS];

	*w = (Worker)
	{
		.engine = engine
	};
	pg_atomic_init_u32(&stop_background, 0);
	if (!has_background(engine))
		return;
	pthread_create(&background_id, NULL, work_in_background, w);
	while (!*(volatile bool *) &w->counting)
		sched_yield();
}

static void
end_background(const Engine *engine)
{
	pg_atomic_write_u32(&stop_background, 1);
	if (has_background(engine))
		pthread_join(background_id, NULL);
}

/* Run a function in as many threads as there shall be. */
static void
in_threads(const Engine *engine, void *(*function) (void *))
{
	pthread_barrier_init(&barrier, NULL, settings.threads);
	for (int t = 0; t < settings.threads; t++)
	{
		workers[t] = (Worker)
		{
			.thread = t,.engine = engine
		};
		pthread_create(&workers[t].id, NULL, function, &workers[t]);
	}
	for (int t = 0; t < settings.threads; t++)
		pthread_join(workers[t].id, NULL);
}

/* ---------- load ---------- */

static void *
load(void *arg)
{
	Worker	   *w = arg;
	char		data[MAX_ROW];

	for (int t = 0; t < ntables; t++)
	{
		uint64		from,
					to;

		share_of(tables[t].nrows, w->thread, &from, &to);
		for (uint32 row = tables[t].first + from; tables[t].loaded && row < tables[t].first + to; row++)
		{
			fill(data, row, 1, 0, tables[t].size);
			w->engine->load(w->thread, row, data);
			states[row].version = 1;
			pg_atomic_write_u32(&states[row].acked, 1);
		}
	}
	w->engine->load_end(w->thread);
	return NULL;
}

void
run_load(const Engine *engine)
{
	engine->open(true);
	start_background(engine);
	in_threads(engine, load);
}

/* ---------- recovery and comparison ---------- */

static uint32 *found_version;	/* by row; NOT_KNOWN if an absent row's cannot
								 * be told */
static pg_atomic_uint32 differences;

#define NOT_KNOWN	PG_UINT32_MAX

static void
pg_attribute_printf(2, 3)
differ(uint32 row, const char *fmt,...)
{
	const Table *table = table_of(row);
	char		what[200];
	va_list		args;

	if (pg_atomic_fetch_add_u32(&differences, 1) >= 5)
		return;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	fprintf(stderr, "engines: %s, row %u: %s\n", table->name, row - table->first, what);
}

/* Which version does the engine have, and may it? */
static void
compare_row(const Worker *w, uint32 row)
{
	const Table *table = table_of(row);
	uint32		acked = pg_atomic_read_u32(&states[row].acked);
	uint32		newest = states[row].version;
	char		data[MAX_ROW];
	uint64		version = 0;
	int			candidates = 0;

	if (w->engine->read(w->thread, row, data))
	{
		if (!row_is_whole(table, row, data, &version))
			differ(row, "the row is not whole");
		else if (version < acked || version > newest)
			differ(row, "version " UINT64_FORMAT " is found, where %u is acknowledged and %u the newest", version,
				   acked, newest);
		else if (!present_at(table, version))
			differ(row, "version " UINT64_FORMAT " is found, which deletes the row", version);
		found_version[row] = version;
		return;
	}
	for (uint32 v = acked; v <= newest; v++)
		if (!present_at(table, v))
		{
			found_version[row] = v;
			candidates++;
		}
	if (candidates == 0)
		differ(row, "the row is not found, where version %u is acknowledged and %u the newest", acked, newest);
	if (candidates != 1)
		found_version[row] = NOT_KNOWN;
}

/* All or nothing of each transaction that was under way. */
static void
compare_pending(int thread)
{
	PendingRing *ring = &rings[thread];

	for (uint64 i = pg_atomic_read_u64(&ring->acked); i < pg_atomic_read_u64(&ring->begun); i++)
	{
		PendingTxn *txn = &ring->txn[i % PENDING];
		uint32		known = 0,
					there = 0;

		for (uint32 j = 0; j < txn->n; j++)
		{
			uint32		v = found_version[txn->row[j]];

			known += v != NOT_KNOWN;
			there += v != NOT_KNOWN && v >= txn->version[j];
		}
		if (there != 0 && there != known)
			differ(txn->row[0], "of a transaction's %u writes %u are there", known, there);
	}
}

static void *
recover(void *arg)
{
	Worker	   *w = arg;

	w->engine->recover(w->thread);
	return NULL;
}

static void *
compare(void *arg)
{
	Worker	   *w = arg;
	uint64		from,
				to;

	share_of(nrows, w->thread, &from, &to);
	for (uint64 row = from; row < to; row++)
		compare_row(w, row);
	return NULL;
}

/* What was found is what is expected from now on.  An unknown version is that of an absent row: any such will do. */
static void
reset_model(void)
{
	for (uint32 row = 0; row < nrows; row++)
	{
		uint32		v = found_version[row];

		for (uint32 known = pg_atomic_read_u32(&states[row].acked); v == NOT_KNOWN; known++)
			if (!present_at(table_of(row), known))
				v = known;
		states[row].version = v;
		pg_atomic_write_u32(&states[row].acked, v);
		pg_atomic_write_u32(&states[row].lock, 0);
	}
	for (int t = 0; t < settings.threads; t++)
	{
		pg_atomic_write_u64(&rings[t].begun, 0);
		pg_atomic_write_u64(&rings[t].acked, 0);
	}
}

bool
run_recover(const Engine *engine, bool verify, RunResult *result)
{
	double		start = now(CLOCK_MONOTONIC);

	engine->open(false);
	in_threads(engine, recover);
	result->open_s = now(CLOCK_MONOTONIC) - start;
	start_background(engine);
	if (!verify)
		return true;
	found_version = malloc(nrows * sizeof(uint32));
	pg_atomic_init_u32(&differences, 0);
	in_threads(engine, compare);
	for (int t = 0; t < settings.threads; t++)
		compare_pending(t);
	if (pg_atomic_read_u32(&differences) > 0)
	{
		fprintf(stderr, "engines: %s: %u differences\n", engine->name, pg_atomic_read_u32(&differences));
		return false;
	}
	reset_model();
	free(found_version);
	return true;
}

/* ---------- a run ---------- */

static void
add_counters(RunResult *to, const Worker *w)
{
	if (w->nvm == NULL)
		return;
	to->nvm.lines += w->nvm->lines;
	to->nvm.fences += w->nvm->fences;
	to->nvm.units += w->nvm->units;
	to->nvm.lines_read += w->nvm->lines_read;
	to->charged.lines_in += w->charged->lines_in;
	to->charged.lines_evicted += w->charged->lines_evicted;
	to->charged.lines_cleaned += w->charged->lines_cleaned;
	to->charged.units_read += w->charged->units_read;
	to->charged.units_filled += w->charged->units_filled;
	to->charged.units_written += w->charged->units_written;
	to->charged.ns += w->charged->ns;
	to->bytes_stored += w->nvm->bytes_stored + w->zen->bytes_written;
	to->persist_lines += w->zen->lines_flushed;
	to->persist_fences += w->zen->fences;
}

static void
count_all(RunResult *to)
{
	memset(to, 0, sizeof(*to));
	for (int t = 0; t < settings.threads; t++)
		add_counters(to, &workers[t]);
	add_counters(to, &workers[MAX_THREADS]);
	to->seconds = now(CLOCK_MONOTONIC);
	to->cpu_s = now(CLOCK_PROCESS_CPUTIME_ID);
}

static void
let_run(double seconds, uint32 min_progress, pg_atomic_uint32 *progress)
{
	do
		usleep((useconds_t) (seconds * 1e6));
	while (pg_atomic_read_u32(progress) < min_progress);
	pg_atomic_write_u32(&stop, 1);
}

static void
subtract_counters(RunResult *from, const RunResult *before)
{
	from->nvm.lines -= before->nvm.lines;
	from->nvm.fences -= before->nvm.fences;
	from->nvm.units -= before->nvm.units;
	from->nvm.lines_read -= before->nvm.lines_read;
	from->charged.lines_in -= before->charged.lines_in;
	from->charged.lines_evicted -= before->charged.lines_evicted;
	from->charged.lines_cleaned -= before->charged.lines_cleaned;
	from->charged.units_read -= before->charged.units_read;
	from->charged.units_filled -= before->charged.units_filled;
	from->charged.units_written -= before->charged.units_written;
	from->charged.ns -= before->charged.ns;
	from->bytes_stored -= before->bytes_stored;
	from->persist_lines -= before->persist_lines;
	from->persist_fences -= before->persist_fences;
	from->seconds -= before->seconds;
	from->cpu_s -= before->cpu_s;
}

void
run_transactions(const Engine *engine, const Workload *workload, double seconds, uint32 min_progress,
				 RunResult *result, pg_atomic_uint32 *progress)
{
	RunResult	before;
	double		elapsed;

	for (uint32 row = 0; row < nrows; row++)
		pg_atomic_write_u32(&states[row].lock, 0);
	pg_atomic_init_u32(&stop, 0);
	pthread_barrier_init(&barrier, NULL, settings.threads + 1);
	for (int t = 0; t < settings.threads; t++)
	{
		workers[t] = (Worker)
		{
			.thread = t,.engine = engine,.workload = workload,.progress = progress
		};
		pthread_create(&workers[t].id, NULL, work, &workers[t]);
	}
	pthread_barrier_wait(&barrier); /* ready */
	count_all(&before);
	pthread_barrier_wait(&barrier); /* go */
	if (settings.transactions == 0)
		let_run(seconds, min_progress, progress);
	pthread_barrier_wait(&barrier); /* done */
	elapsed = now(CLOCK_MONOTONIC);

	/*
	 * what is left to the background is counted, as it is part of each
	 * commit's traffic; the time for it is not
	 */
	if (engine->drain && settings.transactions == 0)
		engine->drain();
	count_all(result);
	result->seconds = elapsed;
	pthread_barrier_wait(&barrier); /* counted */
	for (int t = 0; t < settings.threads; t++)
	{
		pthread_join(workers[t].id, NULL);
		result->commits += workers[t].commits + workers[t].read_only - workers[t].warmed_up;
		result->aborts += workers[t].aborts;
		result->row_bytes += workers[t].row_bytes;
	}
	end_background(engine);
	subtract_counters(result, &before);
}
