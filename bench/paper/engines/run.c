/*
 * run.c -- threads: they load, run transactions, recover, compare; and what they have done, added up.
 */
#include "run.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

/* A thread's clocks, in ns. */
typedef struct Clocks
{
	uint64		medium;			/* charged for */
	uint64		wall;
} Clocks;

typedef struct Worker
{
	pthread_t	id;
	int			thread;
	const Engine *engine;
	const Workload *workload;
	pg_atomic_uint32 *progress;
	MediumCounters *nvm;
	ChargeCounters *charged;
	HtmCounters *htm;
	ZenThreadCounters *zen;
	uint64		commits;		/* with writes, handed to the engine */
	uint64		read_only;
	uint64		swallowed;		/* of these, kept from the engine by a fault */
	bool		ending;			/* this is the run's last transaction */
	uint64		aborts;
	uint64		row_bytes;
	uint64		warmed_up;		/* commits before those that count */
	bool		counting;		/* nvm and zen are set */
	Clocks		begun[MODEL_PENDING];	/* of those not acknowledged */
	Latencies	medium;			/* by the medium's clock */
	Latencies	wall;
	char		pad[64];		/* the next one's counters are on another line */
} Worker;

static Worker workers[MAX_THREADS + 1]; /* the last one is the background
										 * thread */
static pg_atomic_uint32 stop;
static pthread_barrier_t barrier;
static pthread_t background_id;

pg_atomic_uint32 stop_background;

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

static Clocks
read_clocks(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (Clocks)
	{
		.medium = charge_counters.ns,.wall = t.tv_sec * UINT64CONST(1000000000) + t.tv_nsec
	};
}

static void
note_latency(Worker *w, const Clocks *begun)
{
	Clocks		c = read_clocks();

	latency_add(&w->medium, c.medium - begun->medium);
	latency_add(&w->wall, c.wall - begun->wall);
}

/* The thread's first n transactions are durable. */
static void
acknowledge(Worker *w, uint64 n)
{
	for (uint64 i = model_acknowledged(w->thread); i < n; i++)
	{
		note_latency(w, &w->begun[i % MODEL_PENDING]);
		model_acknowledge(w->thread);
	}
}

/* ---------- a worker ---------- */

/* Does this run break the promise that a commit is? */
static bool
breaks_promises(void)
{
	return fault == FAULT_LOST || fault == FAULT_TORN;
}

/* Hand the writes over, or break the promise: now and then, and at the end, where no later commit can hide it. */
static void
commit(Worker *w, Write *writes, int n)
{
	bool		faulty = breaks_promises() && (w->ending || w->commits % PROGRESS_STEP == PROGRESS_STEP - 1);

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
	acknowledge(w, Min(n, w->commits));
}

/* Run it up to where nobody else can be in the way.  False: somebody was. */
static bool
attempt(CcTxn *txn)
{
	static __thread uint32 attempts;

	cc->begin(txn);
	if (!cc->execute(txn))
		return false;
	/* a test wants others to come in between, now and then */
	if (checking && attempts++ % 16 == 0)
		sched_yield();
	return cc->validate(txn);
}

/* False if the run has ended before that. */
static bool
try_until_valid(Worker *w, CcTxn *txn, uint64 base)
{
	while (!attempt(txn))
	{
		w->aborts++;
		if (pg_atomic_read_u32(&stop) != 0)
			return false;
		/* an engine may need this thread before the others can go on */
		note_durable(w, base);
		sched_yield();
	}
	return true;
}

static int
make_writes(Worker *w, const CcTxn *txn, Write *writes)
{
	static __thread char data[MAX_WRITES][MAX_ROW];
	int			n = 0;

	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
		{
			cc_note_write(txn, i);
			writes[n] = model_next_write(&txn->ops[i], data[n]);
			w->row_bytes += writes[n].kind == WRITE_DELETE ? 0 : table_of(writes[n].row)->size;
			n++;
		}
	return n;
}

static void
commit_writes(Worker *w, CcTxn *txn, const Clocks *begun)
{
	Write		writes[MAX_WRITES];
	int			n = make_writes(w, txn, writes);

	if (n == 0)
	{
		cc_leave(txn);
		w->engine->commit(w->thread, writes, 0);
		w->read_only++;
		note_latency(w, begun);
		return;
	}
	w->begun[model_begun(w->thread) % MODEL_PENDING] = *begun;
	model_begin(w->thread, writes, n);
	if (w->engine->apply)
		w->engine->apply(w->thread, writes, n);
	if (!w->engine->log_in_region)
		cc_leave(txn);
	commit(w, writes, n);
	cc_leave(txn);
	if (++w->commits % PROGRESS_STEP == 0)
		pg_atomic_fetch_add_u32(w->progress, PROGRESS_STEP);
}

static void
one_transaction(Worker *w, const Op *ops, int n, uint64 base)
{
	static __thread CcTxn txn;
	Clocks		begun = read_clocks();

	cc_prepare(&txn, w->thread, ops, n);
	if (!try_until_valid(w, &txn, base))
		return;
	commit_writes(w, &txn, &begun);
	history_note(&txn);
	note_durable(w, base);
	cc->end(&txn);
	while (model_begun(w->thread) - model_acknowledged(w->thread) == MODEL_PENDING)
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

/* All others have ended: the run's last commit. */
static void
break_last_promise(Worker *w, Generator *g, uint64 base)
{
	uint64		before = w->commits;

	w->ending = true;
	while (w->commits == before)
		next_transaction(w, g, base);
}

static void *
work(void *arg)
{
	Worker	   *w = arg;
	Generator	g;
	uint64		base = w->engine->durable ? w->engine->durable(w->thread, 0) : 0;

	w->nvm = &medium_counters;
	w->charged = &charge_counters;
	w->htm = &htm_counters;
	w->zen = &zen_thread_counters;
	generator_init(&g, w->thread);
	if (settings.transactions == 0)
		g.random ^= (uint64) (now(CLOCK_REALTIME) * 1e6) << 8;
	run_counted(w, &g, base);
	w->warmed_up = w->commits + w->read_only;
	w->row_bytes = 0;
	memset(&w->medium, 0, sizeof(w->medium));
	memset(&w->wall, 0, sizeof(w->wall));
	pthread_barrier_wait(&barrier); /* ready */
	pthread_barrier_wait(&barrier); /* go */
	if (settings.transactions == 0)
		while (pg_atomic_read_u32(&stop) == 0)
			next_transaction(w, &g, base);
	run_counted(w, &g, base);
	if (breaks_promises())
	{
		pthread_barrier_wait(&barrier); /* ended */
		if (w->thread == 0)
			break_last_promise(w, &g, base);
	}
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
	w->htm = &htm_counters;
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
			model_load(row, data);
			w->engine->load(w->thread, row, data);
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

/* ---------- recovery ---------- */

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
		model_compare_row(w->thread, row);
	return NULL;
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
	model_compare_begin();
	in_threads(engine, compare);
	return model_compare_end();
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
	to->htm.commits += w->htm->commits;
	to->htm.aborts += w->htm->aborts;
	to->htm.fallbacks += w->htm->fallbacks;
	to->htm.region_ns += w->htm->region_ns;
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
	from->htm.commits -= before->htm.commits;
	from->htm.aborts -= before->htm.aborts;
	from->htm.fallbacks -= before->htm.fallbacks;
	from->htm.region_ns -= before->htm.region_ns;
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

	cc_open();
	history_open();
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
	if (breaks_promises())
		pthread_barrier_wait(&barrier); /* ended */
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
		latency_merge(&result->medium, &workers[t].medium);
		latency_merge(&result->wall, &workers[t].wall);
	}
	end_background(engine);
	subtract_counters(result, &before);
	history_judge();
}
