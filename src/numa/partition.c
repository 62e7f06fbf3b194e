/*
 * partition.c -- the soft partition (Zen+, 4.2.2): where a session runs, and which node has which partition.
 *
 * A session chooses its node by the paper's Algorithm 3, and the worker keeps the map by Algorithm 4.  src/numa/README
 * has both, and says how sessions read map and load without a lock.
 */
#include "numa/partition.h"

#include "base/guc.h"
#include "base/numa.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define DELTA		0.3			/* the paper's: a node is overloaded with so
								 * much more load than the mean */
#define ETA			1.2			/* the paper's */
#define BUSY		0.8			/* with less load than that no node is
								 * overloaded: it has time to spare */
#define MARGIN		1.5			/* random votes for two nodes reach it once in
								 * 2^7 transactions */
#define KEEP		0.875		/* of a score, from one transaction to the
								 * next */
#define AGE			0.5			/* of a partition's rate, from look to look */
#define FEW			100			/* accesses say nothing: more must come */
#define BALANCED	0.05		/* of the mean: good enough to stop */
#define MOST		(2.0 / 3)	/* of the difference that a partition may
								 * have: a move is to take off at least what
								 * is moved */
#define STEPS		256			/* partitions moved in a tick at most */
#define TICK_MS		1000

typedef struct Partition
{
	pg_atomic_uint64 accesses;	/* by sessions */
	/* written by the worker alone */
	pg_atomic_uint32 place;
	uint32		moves;
	uint64		seen;			/* of accesses */
	double		rate;
} Partition;

/* A line each: sessions of different nodes count in different ones. */
typedef union PartitionLine
{
	Partition	p;
	char		line[64];
} PartitionLine;

typedef struct PartitionControl
{
	pg_atomic_uint32 load[ZEN_MAX_NODES];	/* in thousandths */
	pg_atomic_uint32 tokens;	/* sessions that may move because of load,
								 * until the next tick */
	int			nplaces;		/* nodes with a file, from now on constant */
	int			places[ZEN_MAX_NODES];
} PartitionControl;

/* What a session knows of itself. */
typedef struct Session
{
	bool		began;
	bool		relieved;		/* it is away from its home because of load */
	int			home;			/* -1: none */
	int			here;			/* where it runs; -1: wherever it was started */
	double		score[ZEN_MAX_NODES];
} Session;

bool		zen_partition_soft = false;

static PartitionControl *soft;
static PartitionLine *partitions;
static Session session = {.home = -1,.here = -1};

Size
zen_partition_shmem_size(void)
{
	if (zen_numa_mode != ZEN_NUMA_SOFT || zen_numa_nodes == 1)
		return 0;
	return add_size(sizeof(PartitionControl) + sizeof(PartitionLine),
					mul_size(zen_numa_partitions, sizeof(PartitionLine)));
}

void
zen_partition_init(uint32 places)
{
	bool		found;

	zen_partition_soft = zen_partition_shmem_size() > 0 && pg_popcount32(places) > 1;
	if (!zen_partition_soft)
		return;
	soft = ShmemInitStruct("zen partitions", zen_partition_shmem_size(), &found);
	partitions = (PartitionLine *) TYPEALIGN(sizeof(PartitionLine), soft + 1);
	if (found)
		return;
	memset(soft, 0, zen_partition_shmem_size());
	for (int i = 0; i < zen_numa_nodes; i++)
	{
		pg_atomic_init_u32(&soft->load[i], 0);
		if ((places & (1U << i)) != 0)
			soft->places[soft->nplaces++] = i;
	}
	pg_atomic_init_u32(&soft->tokens, 1);
	for (int i = 0; i < zen_numa_partitions; i++)
	{
		pg_atomic_init_u64(&partitions[i].p.accesses, 0);
		pg_atomic_init_u32(&partitions[i].p.place, soft->places[i % soft->nplaces]);
	}
}

ZenPartitionInfo
zen_partition_look(int partition)
{
	Partition  *p = &partitions[partition].p;
	ZenPartitionInfo info = {.place = (int) pg_atomic_read_u32(&p->place),
	.accesses = pg_atomic_read_u64(&p->accesses),.moves = *(volatile uint32 *) &p->moves};

	Assert(zen_partition_soft && partition >= 0 && partition < zen_numa_partitions);
	return info;
}

/* ---------- load ---------- */

double
zen_partition_load(int place)
{
	Assert(zen_partition_soft && place >= 0 && place < zen_numa_nodes);
	return pg_atomic_read_u32(&soft->load[place]) / 1000.0;
}

static double
mean_load(void)
{
	double		sum = 0;

	for (int i = 0; i < soft->nplaces; i++)
		sum += zen_partition_load(soft->places[i]);
	return sum / soft->nplaces;
}

static bool
is_overloaded(int place)
{
	return zen_partition_load(place) >= BUSY && zen_partition_load(place) > (1 + DELTA) * mean_load();
}

static int
least_loaded(void)
{
	int			best = soft->places[0];

	for (int i = 1; i < soft->nplaces; i++)
		if (zen_partition_load(soft->places[i]) < zen_partition_load(best))
			best = soft->places[i];
	return best;
}

static bool
take_token(void)
{
	uint32		n = pg_atomic_read_u32(&soft->tokens);

	while (n > 0)
		if (pg_atomic_compare_exchange_u32(&soft->tokens, &n, n - 1))
			return true;
	return false;
}

/* ---------- sessions ---------- */

/* The node on which a session begins, before it has named any row. */
static int
first_place(void)
{
	int			best = soft->places[0];
	int			fewest = zen_numa_sessions(best);

	if (zen_numa_binding == ZEN_NUMA_GROUP && fewest < zen_numa_processors(best))
		return best;
	for (int i = 1; i < soft->nplaces; i++)
	{
		int			place = soft->places[i];
		int			n = zen_numa_sessions(place);

		if (zen_numa_binding == ZEN_NUMA_GROUP && n < zen_numa_processors(place))
			return place;
		if (n < fewest)
		{
			best = place;
			fewest = n;
		}
	}
	return best;
}

static void
count_votes(const ZenPartitionVotes *votes)
{
	for (int i = 0; i < zen_numa_nodes; i++)
		session.score[i] *= KEEP;
	for (int i = 0; i < votes->n; i++)
	{
		Partition  *p = &partitions[votes->hash[i] % (uint32) zen_numa_partitions].p;

		pg_atomic_fetch_add_u64(&p->accesses, 1);
		session.score[pg_atomic_read_u32(&p->place)] += (1 - KEEP) / votes->n;
	}
}

static void
choose_home(void)
{
	int			best = soft->places[0];

	for (int i = 1; i < soft->nplaces; i++)
		if (session.score[soft->places[i]] > session.score[best])
			best = soft->places[i];
	if (session.home < 0 || session.score[best] > MARGIN * session.score[session.home])
	{
		session.relieved = false;
		session.home = best;
	}
}

/* Where to run: at home, if that is not overloaded. */
static int
place_for_home(void)
{
	int			home = session.home;

	if (is_overloaded(home))
	{
		int			other = least_loaded();

		if (session.relieved || !take_token())
			return session.here < 0 ? home : session.here;
		session.relieved = true;
		return other;
	}
	if (session.relieved && (zen_partition_load(home) > mean_load() || !take_token()))
		return session.here;
	session.relieved = false;
	return home;
}

void
zen_partition_begin(const ZenPartitionVotes *votes)
{
	int			place = session.here;

	if (votes->n > 0)
	{
		count_votes(votes);
		choose_home();
		place = place_for_home();
	}
	else if (!session.began)
		place = first_place();
	session.began = true;
	if (place != session.here && zen_numa_run_on(place))
		session.here = place;
}

/* ---------- the worker ---------- */

static void
measure_load(void)
{
	int			sessions = 0;

	for (int i = 0; i < zen_numa_nodes; i++)
	{
		/*
		 * Max() would look twice, and the second time no tick would have
		 * passed
		 */
		double		load = zen_numa_load(i);

		/* what is not known is as it was */
		if (load >= 0)
			pg_atomic_write_u32(&soft->load[i], (uint32) (load * 1000));
		sessions += zen_numa_sessions(i);
	}
	pg_atomic_write_u32(&soft->tokens, (uint32) Max(1, sessions / 8));
}

/* The rate of accesses of each node; their sum is the result. */
static double
weigh(double *weight)
{
	double		total = 0;

	for (int i = 0; i < zen_numa_partitions; i++)
	{
		Partition  *p = &partitions[i].p;
		uint64		now = pg_atomic_read_u64(&p->accesses);

		p->rate = p->rate * AGE + (double) (now - p->seen);
		p->seen = now;
		weight[pg_atomic_read_u32(&p->place)] += p->rate;
		total += p->rate;
	}
	return total;
}

/* The partition of a node whose move takes most of a difference between two; -1: none makes it less. */
static int
best_to_move(int from, double difference)
{
	int			best = -1;
	double		left = difference;

	for (int i = 0; i < zen_numa_partitions; i++)
		if (pg_atomic_read_u32(&partitions[i].p.place) == (uint32) from && partitions[i].p.rate > 0 &&
			partitions[i].p.rate <= MOST * difference)
		{
			double		after = difference - 2 * partitions[i].p.rate;

			after = after < 0 ? -after : after;
			if (after < left)
			{
				left = after;
				best = i;
			}
		}
	return best;
}

/* Move one partition from the heaviest node to the lightest.  False: there is no need, or no suitable partition. */
static bool
move_one(double *weight, double enough)
{
	int			heavy = soft->places[0],
				light = heavy,
				i;

	for (int k = 1; k < soft->nplaces; k++)
	{
		if (weight[soft->places[k]] > weight[heavy])
			heavy = soft->places[k];
		if (weight[soft->places[k]] < weight[light])
			light = soft->places[k];
	}
	if (weight[heavy] - weight[light] <= enough)
		return false;
	i = best_to_move(heavy, weight[heavy] - weight[light]);
	if (i < 0)
		return false;
	weight[heavy] -= partitions[i].p.rate;
	weight[light] += partitions[i].p.rate;
	partitions[i].p.moves++;
	pg_atomic_write_u32(&partitions[i].p.place, light);
	return true;
}

/* Accesses of which the rates know nothing yet. */
static uint64
count_unseen(void)
{
	uint64		n = 0;

	for (int i = 0; i < zen_numa_partitions; i++)
		n += pg_atomic_read_u64(&partitions[i].p.accesses) - partitions[i].p.seen;
	return n;
}

static void
balance(void)
{
	double		weight[ZEN_MAX_NODES] = {0};
	double		mean,
				most = 0;

	if (count_unseen() < FEW)
		return;
	mean = weigh(weight) / soft->nplaces;
	for (int i = 0; i < soft->nplaces; i++)
		most = Max(most, weight[soft->places[i]]);
	if (most <= ETA * mean)
		return;
	for (int i = 0; i < STEPS && move_one(weight, BALANCED * mean); i++)
		;
}

void
zen_partition_tick(void)
{
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (!zen_partition_soft || !TimestampDifferenceExceeds(last, now, TICK_MS))
		return;
	last = now;
	measure_load();
	balance();
}
