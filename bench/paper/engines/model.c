/*
 * model.c -- the model of what was committed, and the comparison with it.
 *
 * A row is key, version, and words that each follow from the key, their place, and the version that was made by the
 * write that changed them last.  A write changes the version and some words after it.  So each row tells whether it is
 * whole.
 *
 * The model, in memory that outlives the process: of each row the newest version that was ever handed to an engine, and
 * the newest one acknowledged; and of each transaction not acknowledged yet the rows that it writes.  After a crash a
 * row's version must lie between the two, and of a transaction that was under way either all writes are there or none.
 * In tables with cycles a row is absent if its version is a multiple of 3, in others only at version 0.
 */
#include "model.h"

#include <sys/mman.h>

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
	PendingTxn	txn[MODEL_PENDING];
} PendingRing;

typedef struct RowState
{
	pg_atomic_uint32 acked;		/* newest version acknowledged */
	uint32		version;		/* newest version handed to the engine; under
								 * the row's exclusive latch */
} RowState;

static RowState *states;
static PendingRing *rings;

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

/* ---------- the model ---------- */

/* Is the row there at this version? */
static bool
present_at(const Table *table, uint32 version)
{
	return table->cycles ? version % 3 != 0 : version != 0;
}

Write
model_next_write(const Op *op, char *data)
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

void
model_begin(int thread, const Write *writes, int n)
{
	PendingRing *ring = &rings[thread];
	PendingTxn *txn = &ring->txn[pg_atomic_read_u64(&ring->begun) % MODEL_PENDING];

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

void
model_acknowledge(int thread)
{
	PendingRing *ring = &rings[thread];
	uint64		oldest = pg_atomic_read_u64(&ring->acked);
	PendingTxn *txn = &ring->txn[oldest % MODEL_PENDING];

	Assert(oldest < pg_atomic_read_u64(&ring->begun));
	for (uint32 j = 0; j < txn->n; j++)
		raise_acked(txn->row[j], txn->version[j]);
	pg_write_barrier();
	pg_atomic_write_u64(&ring->acked, oldest + 1);
}

uint64
model_begun(int thread)
{
	return pg_atomic_read_u64(&rings[thread].begun);
}

uint64
model_acknowledged(int thread)
{
	return pg_atomic_read_u64(&rings[thread].acked);
}

uint32
model_version(uint32 row)
{
	return states[row].version;
}

void
model_load(uint32 row, char *data)
{
	fill(data, row, 1, 0, table_of(row)->size);
	states[row].version = 1;
	pg_atomic_write_u32(&states[row].acked, 1);
}

void
model_expect(uint32 row, uint32 version, bool found, const char *data)
{
	const Table *table = table_of(row);
	uint64		v = 0;

	if (found != present_at(table, version) ||
		(found && (!row_is_whole(table, row, data, &v) || v != version)))
		die("%s, row %u: read version " UINT64_FORMAT " (%s), where %u is committed",
			table->name, row - table->first, v, found ? "found" : "not found", version);
}

/* ---------- comparison ---------- */

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

void
model_compare_row(int thread, uint32 row)
{
	const Table *table = table_of(row);
	uint32		acked = pg_atomic_read_u32(&states[row].acked);
	uint32		newest = states[row].version;
	char		data[MAX_ROW];
	uint64		version = 0;
	int			candidates = 0;

	if (design->read(thread, row, data))
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
		PendingTxn *txn = &ring->txn[i % MODEL_PENDING];
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
	}
	for (int t = 0; t < settings.threads; t++)
	{
		pg_atomic_write_u64(&rings[t].begun, 0);
		pg_atomic_write_u64(&rings[t].acked, 0);
	}
}

void
model_compare_begin(void)
{
	found_version = malloc(nrows * sizeof(uint32));
	pg_atomic_init_u32(&differences, 0);
}

bool
model_compare_end(void)
{
	for (int t = 0; t < settings.threads; t++)
		compare_pending(t);
	if (pg_atomic_read_u32(&differences) > 0)
	{
		fprintf(stderr, "engines: %s: %u differences\n", design->name, pg_atomic_read_u32(&differences));
		return false;
	}
	reset_model();
	free(found_version);
	return true;
}
