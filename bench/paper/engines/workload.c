/*
 * workload.c -- YCSB's mixes as the Zen paper has them, TPC-C's five transactions, and two more for tests.
 *
 * YCSB: one table; a request reads a whole row or changes bytes of it; rows are drawn by Zipf's law (J. Gray and
 * others: Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994), hot ones spread over the table.
 *
 * TPC-C: rows have about the specification's sizes, and the reads and writes touch as many rows as there.  Each thread
 * has a ring of orders: when it is full, a new order takes the place of the oldest one.  Delivery marks the row of
 * new_order, which it would delete.  Order-Status and Delivery take orders of their thread, and draw the customers.
 */
#include "workload.h"

#include <math.h>

#define MAX_LINES		15		/* of an order */

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

static void
zipf_setup(uint64 n, double theta)
{
	double		zeta2 = 1 + pow(0.5, theta);

	zipf_zeta = 0;
	for (uint64 i = 1; theta > 0 && i <= n; i++)
		zipf_zeta += pow(1.0 / i, theta);
	zipf_alpha = 1 / (1 - theta);
	zipf_eta = (1 - pow(2.0 / n, 1 - theta)) / (1 - zeta2 / zipf_zeta);
}

static uint32
zipf_row(Generator *g, uint64 n, double theta)
{
	double		u = random_unit(g);
	double		uz = u * zipf_zeta;
	uint64		rank;

	if (theta == 0)
		return (uint32) random_below(g, n);
	if (uz < 1)
		rank = 0;
	else if (uz < 1 + pow(0.5, theta))
		rank = 1;
	else
		rank = Min(n - 1, (uint64) (n * pow(zipf_eta * u - zipf_eta + 1, zipf_alpha)));
	/* a permutation, or nearly: two ranks may share a row */
	return (uint32) ((rank + 1) * UINT64CONST(0x9E3779B97F4A7C15) % n);
}

/* ---------- tables ---------- */

static Table *
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

/* The most bytes that a transaction can log: changed ones, or those of whole rows. */
static void
set_max_record(uint32 writes, uint32 changed, uint32 whole)
{
	settings.max_record = 64 + writes * 24 + (settings.log_whole ? whole : changed);
}

/* ---------- YCSB ---------- */

static void
ycsb_setup(void)
{
	WorkloadSettings *s = &workload_settings;

	add_table("usertable", s->rows, s->row_size, s->update_bytes, true);
	zipf_setup(s->rows, s->theta);
	set_max_record(s->requests, s->requests * (s->update_bytes + 8), s->requests * (s->row_size + 8));
}

/* percent: share of updates */
static int
ycsb_next(Generator *g, Op *ops, uint32 percent)
{
	WorkloadSettings *s = &workload_settings;

	for (uint32 i = 0; i < s->requests;)
	{
		Op			op = {.row = zipf_row(g, s->rows, s->theta)};
		uint32		j = 0;

		while (j < i && ops[j].row != op.row)
			j++;
		if (j < i)
			continue;
		op.write = random_below(g, 100) < percent;
		op.len = s->update_bytes;
		ops[i++] = op;
	}
	return s->requests;
}

static int
ycsb_ro(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 0);
}

static int
ycsb_rh(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 10);
}

static int
ycsb_ba(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 50);
}

static int
ycsb_wh(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 90);
}

static int
ycsb_up(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 100);
}

/* Rows are inserted, updated and deleted in turn (run.c goes by their versions). */
static void
churn_setup(void)
{
	WorkloadSettings *s = &workload_settings;

	ycsb_setup();
	tables[0].cycles = true;
	set_max_record(s->requests, s->requests * (s->row_size + 8), s->requests * (s->row_size + 8));
}

/* ---------- TPC-C ---------- */

enum
{
	WAREHOUSE, DISTRICT, CUSTOMER, ITEM,
				STOCK,
				ORDERS,
				NEW_ORDER,
				ORDER_LINE,
				HISTORY
};

#define DISTRICTS			10	/* of a warehouse */
#define ORDERS_PER_THREAD	4096	/* of a ring */
#define LEVEL_ORDERS		20	/* of which Stock-Level looks at the lines */

static uint32 customers,		/* of a district */
			items;

static void
tpcc_setup(void)
{
	uint32		w = workload_settings.warehouses;
	uint32		orders = settings.threads * ORDERS_PER_THREAD;

	customers = Max(10, (uint32) (3000 * workload_settings.scale));
	items = Max(100, (uint32) (100000 * workload_settings.scale));
	add_table("warehouse", w, 96, 16, true);
	add_table("district", w * DISTRICTS, 112, 16, true);
	add_table("customer", w * DISTRICTS * customers, 680, 40, true);
	add_table("item", items, 88, 16, true);
	add_table("stock", w * items, 320, 24, true);
	add_table("orders", orders, 40, 16, false);
	add_table("new_order", orders, 24, 16, false);
	add_table("order_line", orders * MAX_LINES, 64, 16, false);
	add_table("history", orders, 56, 16, false);
	/* Delivery changes most rows, New-Order most bytes of whole ones */
	set_max_record(DISTRICTS * (3 + MAX_LINES), DISTRICTS * (3 + MAX_LINES) * 24,
				   DISTRICTS * (680 + 40 + 24 + MAX_LINES * 64));
}

static Op
read_of(int table, uint32 n)
{
	Op			op = {.row = tables[table].first + n};

	return op;
}

static Op
write_of(int table, uint32 n, uint32 len)
{
	Op			op = {.row = tables[table].first + n,.write = true,.len = len};

	return op;
}

/* The place of a thread's order. */
static uint32
place_of(const Generator *g, uint32 order)
{
	return g->thread * ORDERS_PER_THREAD + order % ORDERS_PER_THREAD;
}

static uint32
next_place(Generator *g)
{
	return place_of(g, g->next_order++);
}

/* Lines of the order at a place: 5 to 15, the same in each lap of the ring. */
static uint32
lines_of(uint32 place)
{
	return 5 + (uint32) (place * UINT64CONST(0x9E3779B97F4A7C15) >> 40) % 11;
}

static int
new_order(Generator *g, Op *ops)
{
	uint32		w = random_below(g, workload_settings.warehouses);
	uint32		d = w * DISTRICTS + random_below(g, DISTRICTS);
	uint32		order = next_place(g);
	uint32		lines = lines_of(order);
	uint32		first = random_below(g, items);
	uint32		step = 1 + random_below(g, items / MAX_LINES - 1);
	int			n = 0;

	ops[n++] = read_of(WAREHOUSE, w);
	ops[n++] = read_of(CUSTOMER, d * customers + random_below(g, customers));
	for (uint32 i = 0; i < lines; i++)
		ops[n++] = read_of(ITEM, (first + i * step) % items);
	for (uint32 i = 0; i < lines; i++)
	{
		/* 1 % of the lines are from another warehouse */
		uint32		from = random_below(g, 100) == 0 ? random_below(g, workload_settings.warehouses) : w;

		ops[n++] = write_of(STOCK, from * items + (first + i * step) % items, 24);
		ops[n++] = write_of(ORDER_LINE, order * MAX_LINES + i, 0);
	}
	ops[n++] = write_of(ORDERS, order, 0);
	ops[n++] = write_of(NEW_ORDER, order, 0);
	/* the district last: all of its orders meet there */
	ops[n++] = write_of(DISTRICT, d, 16);
	return n;
}

static int
payment(Generator *g, Op *ops)
{
	uint32		w = random_below(g, workload_settings.warehouses);
	uint32		d = w * DISTRICTS + random_below(g, DISTRICTS);

	/*
	 * 15 % of the customers belong to another warehouse, 10 % have bad
	 * credit, which is 500 bytes more
	 */
	uint32		other = random_below(g, 100) < 15 ? random_below(g, workload_settings.warehouses) * DISTRICTS +
	random_below(g, DISTRICTS) : d;
	int			n = 0;

	ops[n++] = write_of(CUSTOMER, other * customers + random_below(g, customers), random_below(g, 10) == 0 ? 540 : 40);
	ops[n++] = write_of(HISTORY, next_place(g), 0);
	ops[n++] = write_of(DISTRICT, d, 24);
	ops[n++] = write_of(WAREHOUSE, w, 16);
	return n;
}

/* An order of the thread that it has made; false if it has made none. */
static bool
draw_order(Generator *g, uint32 *place)
{
	if (g->next_order == 0)
		return false;
	*place = place_of(g, g->next_order - 1 - random_below(g, Min(g->next_order, ORDERS_PER_THREAD)));
	return true;
}

static int
order_status(Generator *g, Op *ops)
{
	uint32		d = random_below(g, workload_settings.warehouses * DISTRICTS);
	uint32		place;
	int			n = 0;

	ops[n++] = read_of(CUSTOMER, d * customers + random_below(g, customers));
	if (!draw_order(g, &place))
		return n;
	ops[n++] = read_of(ORDERS, place);
	for (uint32 i = 0; i < lines_of(place); i++)
		ops[n++] = read_of(ORDER_LINE, place * MAX_LINES + i);
	return n;
}

/* The oldest order of each district of a warehouse. */
static int
delivery(Generator *g, Op *ops)
{
	uint32		w = random_below(g, workload_settings.warehouses);
	int			n = 0;

	/* those whose places have newer ones */
	if (g->next_order > ORDERS_PER_THREAD)
		g->next_delivery = Max(g->next_delivery, g->next_order - ORDERS_PER_THREAD);
	for (uint32 d = 0; d < DISTRICTS && g->next_delivery < g->next_order; d++)
	{
		uint32		place = place_of(g, g->next_delivery++);

		ops[n++] = write_of(NEW_ORDER, place, 16);
		ops[n++] = write_of(ORDERS, place, 16);
		for (uint32 i = 0; i < lines_of(place); i++)
			ops[n++] = write_of(ORDER_LINE, place * MAX_LINES + i, 16);
		ops[n++] = write_of(CUSTOMER, (w * DISTRICTS + d) * customers + random_below(g, customers), 40);
	}
	return n;
}

/* The lines of the last orders, and the stock of their items. */
static int
stock_level(Generator *g, Op *ops)
{
	uint32		w = random_below(g, workload_settings.warehouses);
	uint32		orders = Min(g->next_order, LEVEL_ORDERS);
	uint32		lines = 0;
	uint32		first = random_below(g, items);
	int			n = 0;

	ops[n++] = read_of(DISTRICT, w * DISTRICTS + random_below(g, DISTRICTS));
	for (uint32 o = 0; o < orders; o++)
	{
		uint32		place = place_of(g, g->next_order - 1 - o);

		for (uint32 i = 0; i < lines_of(place) && lines < Min(200, items); i++, lines++)
			ops[n++] = read_of(ORDER_LINE, place * MAX_LINES + i);
	}
	for (uint32 i = 0; i < lines; i++)
		ops[n++] = read_of(STOCK, w * items + (first + i * Max(1, items / 200)) % items);
	return n;
}

/* The mix of TPC-C: 45, 43, 4, 4, 4. */
static int
tpcc(Generator *g, Op *ops)
{
	uint32		dice = random_below(g, 100);

	if (dice < 45)
		return new_order(g, ops);
	if (dice < 88)
		return payment(g, ops);
	if (dice < 92)
		return order_status(g, ops);
	return dice < 96 ? delivery(g, ops) : stock_level(g, ops);
}

/* The two most frequent ones, as often as in that mix. */
static int
tpcc_writes(Generator *g, Op *ops)
{
	return random_below(g, 88) < 45 ? new_order(g, ops) : payment(g, ops);
}

const Workload workloads[] = {
	{"ro", "YCSB, read only", ycsb_setup, ycsb_ro},
	{"rh", "YCSB, read heavy: 10 % updates", ycsb_setup, ycsb_rh},
	{"ba", "YCSB, balanced: 50 % updates", ycsb_setup, ycsb_ba},
	{"wh", "YCSB, write heavy: 90 % updates", ycsb_setup, ycsb_wh},
	{"up", "YCSB, updates only", ycsb_setup, ycsb_up},
	{"tpcc", "TPC-C's five transactions, 45, 43, 4, 4, 4", tpcc_setup, tpcc},
	{"tpcc-writes", "TPC-C's New-Order and Payment, 45 to 43", tpcc_setup, tpcc_writes},
	{"new-order", "TPC-C's New-Order", tpcc_setup, new_order},
	{"payment", "TPC-C's Payment", tpcc_setup, payment},
	{"churn", "rows are inserted, updated and deleted in turn", churn_setup, ycsb_ba},
};
const int	nworkloads = lengthof(workloads);
