/*
 * dbx_group.c -- the engine dbx-nvm: DBX with group commit.
 *
 * Source of the design: as dbx.c, and W. Zheng and others: Fast Databases with Fast Durability and Recovery through
 * Multicore Parallelism, OSDI 2014.
 *
 * A transaction leaves its redo record in DRAM, with those of its epoch, and is visible.  When the epoch ends a log
 * thread writes the records of all threads to NVM, one fence for all, and then a mark: all epochs up to this one are
 * durable.  Transactions are acknowledged with their epoch.  The paper's log thread writes to a file system on NVM,
 * whose own costs are not here.
 *
 * An epoch lasts settings.epoch_us; in a counted run, settings.group transactions.  It ends before that for a thread
 * whose records fill their part of the log: the log thread may have been kept from running.
 */
#include "cc.h"
#include "memory.h"

#include <sched.h>
#include <unistd.h>

#define MARK_LINES	8
#define NAP_US		200

/* A thread's records of an epoch, one behind the other. */
typedef struct EpochRecords
{
	char	   *data;
	Size		n,
				max;
	uint64		commits;		/* of the thread, up to its last one here */
} EpochRecords;

typedef struct Member
{
	pg_atomic_uint64 inside;	/* epoch in which the thread adds a record, 0 =
								 * none */
	pg_atomic_uint64 durable;	/* commits that are */
	uint64		commits;
	EpochRecords buffer[2];		/* of the open epoch and the one before, by
								 * the epoch's lowest bit */
	char		pad[64];
} Member;

static Member members[MAX_THREADS];
static pg_atomic_uint64 open_epoch;
static pg_atomic_uint32 is_full;	/* a thread waits for the epoch's end */
static uint32 in_epoch;			/* transactions, in a counted run */
static uint64 *marks;			/* in NVM */

static Size
group_size(void)
{
	return pool_carved(MARK_LINES * ZEN_LINE) + memory_size();
}

static void
group_open(bool fresh)
{
	uint64		newest = 0;

	marks = pool_carve(MARK_LINES * ZEN_LINE);
	for (int i = 0; i < MARK_LINES; i++)
		newest = Max(newest, marks[i * 8]);
	halves_newest_group = (uint32) newest;
	pg_atomic_init_u64(&open_epoch, newest + 1);
	pg_atomic_init_u32(&is_full, 0);
	for (int t = 0; t < MAX_THREADS; t++)
	{
		pg_atomic_init_u64(&members[t].inside, 0);
		pg_atomic_init_u64(&members[t].durable, 0);
	}
	memory_open(fresh);
}

/* ---------- the log thread ---------- */

/* An epoch's records may take so many bytes of a thread's half: so one that is not whole never has to be gleaned. */
static Size
max_records(void)
{
	return halves_capacity() / 2;
}

/* Records in the log that are not of a group to be marked must not reach the checkpoint: so there is room, or a die. */
static void
make_room(uint64 epoch)
{
	bool		room = true;

	for (int tries = 0; tries < 2; tries++)
	{
		room = true;
		for (int t = 0; t < settings.threads; t++)
			room = room && halves_have_room(t, members[t].buffer[epoch & 1].n * 2);
		if (room)
			return;
		halves_glean();
	}
	die("the log has no room for an epoch; --log-mb");
}

static void
write_buffer(int thread, EpochRecords *b, uint64 epoch)
{
	for (Size at = 0; at < b->n;)
	{
		LogRecord  *r = (LogRecord *) (b->data + at);
		Size		next = at + TYPEALIGN(ZEN_LINE, r->len);

		r->group = (uint32) epoch;
		halves_put(thread, r);
		at = next;
	}
	b->n = 0;
}

static void
set_mark(uint64 epoch)
{
	uint64	   *mark = &marks[epoch % MARK_LINES * 8];

	zen_fence();
	nvm_store64(mark, epoch);
	zen_persist(mark, sizeof(*mark));
	halves_newest_group = (uint32) epoch;
}

static bool
is_empty(uint64 epoch)
{
	for (int t = 0; t < settings.threads; t++)
		if (members[t].buffer[epoch & 1].n > 0)
			return false;
	return true;
}

static void
end_epoch(void)
{
	uint64		epoch;

	in_epoch = 0;
	/* before the next epoch is open: what says that one is full stays */
	pg_atomic_write_u32(&is_full, 0);
	epoch = pg_atomic_fetch_add_u64(&open_epoch, 1);
	for (int t = 0; t < settings.threads; t++)
		while (pg_atomic_read_u64(&members[t].inside) == epoch)
			sched_yield();
	if (is_empty(epoch))
		return;
	make_room(epoch);
	for (int t = 0; t < settings.threads; t++)
		write_buffer(t, &members[t].buffer[epoch & 1], epoch);
	set_mark(epoch);
	/* of a thread that had nothing to write the number is an older one */
	for (int t = 0; t < settings.threads; t++)
		pg_atomic_write_u64(&members[t].durable, Max(pg_atomic_read_u64(&members[t].durable),
													 members[t].buffer[epoch & 1].commits));
}

static void
log_thread(void)
{
	uint64		slept = 0;

	while (pg_atomic_read_u32(&stop_background) == 0)
	{
		uint32		nap = Min(NAP_US, settings.epoch_us);

		usleep(nap);
		slept += nap;
		if (slept < settings.epoch_us && pg_atomic_read_u32(&is_full) == 0)
			continue;
		end_epoch();
		slept = 0;
	}
}

/* ---------- commit ---------- */

static void
leave_epoch(Member *m)
{
	pg_write_barrier();
	pg_atomic_write_u64(&m->inside, 0);
}

static uint64
enter_epoch(Member *m)
{
	for (;;)
	{
		uint64		epoch = pg_atomic_read_u64(&open_epoch);

		pg_atomic_write_u64(&m->inside, epoch);
		/* pairs with the full barrier of end_epoch's fetch-and-add */
		pg_memory_barrier();
		if (pg_atomic_read_u64(&open_epoch) == epoch)
			return epoch;
	}
}

static Size
padded(const LogRecord *r)
{
	return TYPEALIGN(ZEN_LINE, r->len);
}

/* Its records of the open epoch, in which the thread is now; there is room for this one. */
static EpochRecords *
enter_with_room(Member *m, const LogRecord *r)
{
	for (;;)
	{
		uint64		epoch = enter_epoch(m);
		EpochRecords *b = &m->buffer[epoch & 1];

		if (b->n == 0 || b->n + padded(r) <= max_records())
			return b;
		leave_epoch(m);
		pg_atomic_write_u32(&is_full, 1);
		while (pg_atomic_read_u64(&open_epoch) == epoch)
			if (settings.transactions > 0)
				end_epoch();
			else
				sched_yield();
	}
}

/* A copy, with room for what pads it in the log. */
static void
add_record(EpochRecords *b, LogRecord *r)
{
	Size		end = b->n + padded(r);

	if (end > b->max)
	{
		b->max = end * 2;
		b->data = realloc(b->data, b->max);
		if (b->data == NULL)
			die("no memory for an epoch");
	}
	memcpy(b->data + b->n, r, end - b->n);
	b->n = end;
}

static void
group_commit(int thread, const Write *writes, int n)
{
	Member	   *m = &members[thread];
	EpochRecords *b;
	LogRecord  *r;

	if (n == 0)
		return;
	r = log_form(thread, writes, n, true);
	b = enter_with_room(m, r);
	r->cts = next_cts();
	add_record(b, r);
	b->commits = ++m->commits;
	leave_epoch(m);
	if (settings.transactions > 0 && ++in_epoch >= settings.group)
		end_epoch();
}

static uint64
group_durable(int thread, uint64 n)
{
	return pg_atomic_read_u64(&members[thread].durable);
}

static void
group_leave(int thread)
{
	Member	   *m = &members[thread];

	while (pg_atomic_read_u64(&m->durable) < m->commits)
	{
		if (settings.transactions > 0)
			end_epoch();
		else
			usleep(NAP_US);
	}
}

const Engine dbx_nvm_engine = {
	.name = "dbx-nvm",
	.cc = &cc_htm,
	.in_dram = true,
	.keep_log = true,
	.size = group_size,
	.open = group_open,
	.load = memory_load,
	.load_end = memory_load_end,
	.read = memory_read,
	.apply = memory_apply,
	.commit = group_commit,
	.durable = group_durable,
	.leave = group_leave,
	.background = log_thread,
	.recover = memory_recover,
};
