/*
 * mmdb.c -- the engine mmdb: a main-memory database whose memory is DRAM and, beyond that, NVM.
 *
 * Source of the design: the engine of this name in G. Liu, L. Chen, S. Chen: Zen+, VLDB Journal 2022.
 *
 * All rows are in memory that does not survive: a share of settings.cache of them in DRAM, the others in NVM that is
 * used as if it were DRAM, stored to and never flushed.  Durable are a redo log in NVM and a checkpoint there: a copy
 * of every row, in place, to which a background thread applies the log.
 *
 * Metadata of concurrency control lie with the row in memory, which is NVM for most rows: reading such a row stores to
 * it.  Nothing of that is flushed.  The paper's engine makes a new version of the row for each change; with --log whole
 * all of the row is written, here in the place of the old version.
 *
 * mmdb-log takes a checkpoint only when its log is full: with a large one (--log-mb) there is none, as in the paper's
 * measurements of throughput, and recovery has all of the log to apply.  mmdb-ideal is that with all rows in DRAM.
 *
 * Commit: log record | fence, then the rows in memory.  Recovery: the log is applied to the checkpoint, and all rows
 * are copied back into memory.
 */
#include "log.h"

typedef struct CheckpointRow
{
	uint64		present;
} CheckpointRow;

/* A row in memory, fast or slow. */
typedef struct MemoryRow
{
	uint64		noted;			/* by concurrency control */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} MemoryRow;

static char *checkpoint[MAX_TABLES];
static char *slow;				/* rows in NVM as in DRAM */
static char *fast;				/* rows in DRAM */
static MemoryRow **place;		/* by row: its memory, be it fast or slow */
static bool *present;			/* by row */

static Size
checkpoint_stride(const Table *table)
{
	return TYPEALIGN(ZEN_LINE, sizeof(CheckpointRow) + table->size);
}

static bool
is_fast(uint32 row)
{
	return design->in_dram || (row * UINT64CONST(0x9E3779B97F4A7C15) >> 40) % 1000 < settings.cache * 1000;
}

static Size
memory_size(bool of_fast)
{
	Size		size = 0;

	for (uint32 row = 0; row < nrows; row++)
		if (is_fast(row) == of_fast)
			size += sizeof(MemoryRow) + table_of(row)->size;
	return size;
}

static Size
mmdb_size(void)
{
	Size		size = halves_size() + pool_carved(memory_size(false));

	for (int t = 0; t < ntables; t++)
		size += pool_carved(checkpoint_stride(&tables[t]) * tables[t].nrows);
	return size;
}

static CheckpointRow *
checkpoint_of(uint32 row)
{
	const Table *table = table_of(row);

	return (CheckpointRow *) (checkpoint[table - tables] + checkpoint_stride(table) * (row - table->first));
}

/* Store to a row in memory. */
static void
put(uint32 row, const char *data, uint32 offset, uint32 len)
{
	if (is_fast(row))
		memcpy(place[row]->data + offset, data, len);
	else
		nvm_store(place[row]->data + offset, data, len);
}

static uint64 *
mmdb_metadata(uint32 row)
{
	return is_fast(row) ? NULL : &place[row]->noted;
}

static bool
mmdb_read(int thread, uint32 row, char *data)
{
	if (!present[row])
		return false;
	if (is_fast(row))
		memcpy(data, place[row]->data, table_of(row)->size);
	else
		nvm_read(data, place[row]->data, table_of(row)->size);
	return true;
}

/* Make a write in memory: of the changed bytes, or as a new version. */
static void
change(int thread, const Write *w)
{
	char		data[MAX_ROW];

	if (w->kind == WRITE_DELETE)
		return;
	if (!settings.log_whole || w->kind == WRITE_INSERT)
	{
		put(w->row, w->data, w->offset, w->len);
		return;
	}
	mmdb_read(thread, w->row, data);
	apply_write(data, w);
	put(w->row, data, 0, table_of(w->row)->size);
}

static void
mmdb_commit(int thread, const Write *writes, int n)
{
	if (n == 0)
		return;
	halves_append(thread, writes, n);
	for (int i = 0; i < n; i++)
	{
		change(thread, &writes[i]);
		present[writes[i].row] = writes[i].kind != WRITE_DELETE;
	}
}

/* What is loaded goes to the checkpoint at once. */
static void
mmdb_load(int thread, uint32 row, const char *data)
{
	CheckpointRow *c = checkpoint_of(row);
	uint32		size = table_of(row)->size;

	nvm_store64(&c->present, 1);
	nvm_store(c + 1, data, size);
	zen_flush(c, sizeof(*c) + size);
	put(row, data, 0, size);
	present[row] = true;
}

static void
mmdb_load_end(int thread)
{
	zen_fence();
}

/*
 * The checkpointer.  All entries of a row are put together in DRAM first, so that its lines in the checkpoint are
 * written and flushed once.
 */
static void
apply_to_checkpoint(const Gleaned *entries, uint64 n)
{
	char		data[MAX_ROW];

	for (uint64 i = 0, next; i < n; i = next)
	{
		uint32		row = entries[i].row;
		CheckpointRow *c = checkpoint_of(row);
		bool		was_present = c->present != 0;
		bool		now_present = was_present;
		uint32		from = MAX_ROW,
					to = 0;

		for (next = i; next < n && entries[next].row == row; next++)
		{
			Write		w = log_write_of(entries[next].entry);

			now_present = w.kind != WRITE_DELETE;
			if (w.kind == WRITE_DELETE)
				continue;
			/* what is between two ranges must be what it was */
			if (from > to)
				memcpy(data, c + 1, table_of(row)->size);
			memcpy(data + w.offset, w.data, w.len);
			from = Min(from, w.offset);
			to = Max(to, w.offset + w.len);
		}
		if (now_present != was_present)
		{
			nvm_store64(&c->present, now_present);
			zen_flush(c, sizeof(*c));
		}
		if (from < to)
		{
			nvm_store((char *) (c + 1) + from, data + from, to - from);
			zen_flush((char *) (c + 1) + from, to - from);
		}
	}
}

static void
mmdb_open(bool fresh)
{
	char	   *next_slow;
	char	   *next_fast;

	halves_open(fresh, apply_to_checkpoint);
	for (int t = 0; t < ntables; t++)
		checkpoint[t] = pool_carve(checkpoint_stride(&tables[t]) * tables[t].nrows);
	next_slow = slow = pool_carve(memory_size(false));
	next_fast = fast = malloc(memory_size(true) + 1);
	place = malloc(nrows * sizeof(MemoryRow *));
	present = calloc(nrows, sizeof(bool));
	for (uint32 row = 0; row < nrows; row++)
	{
		char	  **next = is_fast(row) ? &next_fast : &next_slow;

		place[row] = (MemoryRow *) *next;
		*next += sizeof(MemoryRow) + table_of(row)->size;
	}
}

static uint32
part_of(uint32 row)
{
	return row;
}

static void
mmdb_recover(int thread)
{
	uint64		from,
				to;

	halves_recover(thread, part_of);
	share_of(nrows, thread, &from, &to);
	for (uint64 row = from; row < to; row++)
	{
		CheckpointRow *c = checkpoint_of(row);

		present[row] = c->present != 0;
		if (!present[row])
			continue;
		nvm_touch(c, sizeof(*c) + table_of(row)->size);
		put(row, (char *) (c + 1), 0, table_of(row)->size);
	}
}

const Engine mmdb_engine = {
	.name = "mmdb",
	.size = mmdb_size,
	.open = mmdb_open,
	.load = mmdb_load,
	.load_end = mmdb_load_end,
	.read = mmdb_read,
	.metadata = mmdb_metadata,
	.commit = mmdb_commit,
	.background = halves_gleaner,
	.drain = halves_drain,
	.recover = mmdb_recover,
};

const Engine mmdb_log_engine = {
	.name = "mmdb-log",
	.keep_log = true,
	.size = mmdb_size,
	.open = mmdb_open,
	.load = mmdb_load,
	.load_end = mmdb_load_end,
	.read = mmdb_read,
	.metadata = mmdb_metadata,
	.commit = mmdb_commit,
	.background = halves_gleaner,
	.recover = mmdb_recover,
};

const Engine mmdb_ideal_engine = {
	.name = "mmdb-ideal",
	.keep_log = true,
	.in_dram = true,
	.size = mmdb_size,
	.open = mmdb_open,
	.load = mmdb_load,
	.load_end = mmdb_load_end,
	.read = mmdb_read,
	.metadata = mmdb_metadata,
	.commit = mmdb_commit,
	.background = halves_gleaner,
	.recover = mmdb_recover,
};
