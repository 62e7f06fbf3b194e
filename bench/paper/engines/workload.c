/*
 * workload.c -- random numbers, Zipf's law, tables; which workloads there are.
 *
 * Rows are drawn by Zipf's law (J. Gray and others: Quickly Generating Billion-Record Synthetic Databases, SIGMOD
 * 1994), hot ones spread over the table.
 */
#include "workload.h"

#include <math.h>

WorkloadSettings workload_settings;

/* ---------- random numbers ---------- */

static uint64
next_random(Generator *g)
{
	uint64		x = g->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return g->random = x;
}

uint64
random_below(Generator *g, uint64 n)
{
	return (uint64) (((unsigned __int128) next_random(g) * n) >> 64);
}

static double
random_unit(Generator *g)
{
	return (next_random(g) >> 11) * (1.0 / (UINT64CONST(1) << 53));
}

void
generator_init(Generator *g, int thread)
{
	memset(g, 0, sizeof(*g));
	g->thread = thread;
	g->random = (thread + 1) * UINT64CONST(0x9E3779B97F4A7C15) + UINT64CONST(0xD1B54A32D192ED03);
	for (int i = 0; i < 10; i++)
		next_random(g);
}

/* ---------- Zipf ---------- */

static double zipf_zeta,
			zipf_alpha,
			zipf_eta;

void
zipf_setup(uint64 n, double theta)
{
	double		zeta2 = 1 + pow(0.5, theta);

	zipf_zeta = 0;
	for (uint64 i = 1; theta > 0 && i <= n; i++)
		zipf_zeta += pow(1.0 / i, theta);
	zipf_alpha = 1 / (1 - theta);
	zipf_eta = (1 - pow(2.0 / n, 1 - theta)) / (1 - zeta2 / zipf_zeta);
}

uint32
zipf_rank(Generator *g, uint64 n, double theta)
{
	double		u = random_unit(g);
	double		uz = u * zipf_zeta;

	if (theta == 0)
		return (uint32) random_below(g, n);
	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, theta))
		return 1;
	return (uint32) Min(n - 1, (uint64) (n * pow(zipf_eta * u - zipf_eta + 1, zipf_alpha)));
}

uint32
zipf_row(Generator *g, uint64 n, double theta)
{
	uint32		rank = zipf_rank(g, n, theta);

	if (theta == 0)
		return rank;
	/* a permutation, or nearly: two ranks may share a row */
	return (uint32) ((rank + UINT64CONST(1)) * UINT64CONST(0x9E3779B97F4A7C15) % n);
}

/* ---------- tables ---------- */

Table *
add_table(const char *name, uint32 n, uint32 size, uint32 min_update, bool loaded)
{
	Table	   *t = &tables[ntables++];

	*t = (Table)
	{
		.name = name,.first = nrows,.nrows = n,.size = size,.min_update = min_update,
			.loaded = loaded
	};
	nrows += n;
	max_row_size = Max(max_row_size, size);
	return t;
}

void
set_max_record(uint32 writes, uint32 changed, uint32 whole)
{
	settings.max_record = 64 + writes * 24 + changed;
	settings.max_whole_record = 64 + writes * 24 + whole;
}

Op
read_of(int table, uint32 n)
{
	Op			op = {.row = tables[table].first + n};

	return op;
}

Op
write_of(int table, uint32 n, uint32 len)
{
	Op			op = {.row = tables[table].first + n,.write = true,.len = len};

	return op;
}

/* ---------- all ---------- */

const Workload workloads[] = {
	{"ro", "YCSB, read only", ycsb_setup, ycsb_ro},
	{"rh", "YCSB, read heavy: 10 % updates", ycsb_setup, ycsb_rh},
	{"ba", "YCSB, balanced: 50 % updates", ycsb_setup, ycsb_ba},
	{"wh", "YCSB, write heavy: 90 % updates", ycsb_setup, ycsb_wh},
	{"up", "YCSB, updates only", ycsb_setup, ycsb_up},
	{"ycsb-b", "YCSB B: 5 % updates", ycsb_setup, ycsb_b},
	{"ycsb-d", "YCSB D: 5 % inserts, the others read the newest rows", ycsb_insert_setup, ycsb_d},
	{"ycsb-e", "YCSB E: 5 % inserts, the others scan up to 100 rows", ycsb_insert_setup, ycsb_e},
	{"ycsb-f", "YCSB F: half of the requests read a row and change it", ycsb_setup, ycsb_f},
	{"tpcc", "TPC-C's five transactions, 45, 43, 4, 4, 4", tpcc_setup, tpcc},
	{"tpcc-writes", "TPC-C's New-Order and Payment, 45 to 43", tpcc_setup, tpcc_writes},
	{"new-order", "TPC-C's New-Order", tpcc_setup, new_order},
	{"payment", "TPC-C's Payment", tpcc_setup, payment},
	{"smallbank", "Smallbank's six transactions, 15, 15, 15, 25, 15, 15", smallbank_setup, smallbank},
	{"churn", "rows are inserted, updated and deleted in turn", churn_setup, ycsb_ba},
};
const int	nworkloads = lengthof(workloads);
