/*
 * wbl.c -- the engine wbl: write-behind logging.
 *
 * Source of the design: J. Arulraj, M. Perron, A. Pavlo: Write-Behind Logging, PVLDB 10(4), 2016; as a peer in the Zen
 * paper.
 *
 * Versions with their metadata lie in NVM and are made durable before anything is logged.  Transactions form groups of
 * settings.group: versions, and ends of the old ones, are stored when a transaction commits, and flushed when its group
 * is closed; then one short record says that all stamps up to this group are committed.  A transaction is
 * visible at once and acknowledged with its group.
 *
 * A stamp begins with the number of the group, so a later transaction that has seen an earlier one is never in an
 * earlier group.  Each thread flushes what it has written itself; the last one to do so writes the record.  At most one
 * group is being closed while the next one fills.
 *
 * After a crash the stamps of groups without a record are the gap that the paper's recovery skips.  Here recovery
 * visits all headers anyway, as it fills the array of rows, and removes them.
 *
 * Metadata of concurrency control lie with the version, in NVM, and are durable: a transaction that reads or changes a
 * row stores to the header of its newest version, flushes and fences that.  A row in DRAM makes no difference there.
 *
 * Lines and fences per group: those of its versions and old versions, one fence per thread; one line and one fence for
 * the record; and one line and one fence for each access.
 */
#include "versions.h"

#include <sched.h>

#define RECORD_LINES	8
#define GROUP_SHIFT		40		/* of a stamp: the group; below, a Tx-CTS */

typedef struct Dirty
{
	void	   *addr;
	Size		len;
} Dirty;

/* What a thread has done in a group. */
typedef struct Work
{
	Dirty	   *dirty;
	uint32		ndirty,
				max_dirty;
	VersionHeader **ended;
	uint32		nended,
				max_ended;
	uint64		commits;		/* of the thread, up to its last one in the
								 * group */
} Work;

typedef struct Member
{
	pg_atomic_uint64 inside;	/* group in which the thread is committing, 0
								 * = none */
	pg_atomic_uint64 flushed;	/* what it did in groups up to this one is
								 * flushed and fenced */
	pg_atomic_uint32 active;	/* has it written anything yet, and not left? */
	uint64		settled;		/* groups up to this one: ended versions are
								 * freed */
	uint64		commits;
	uint64		durable;		/* commits that are */
	Work		work[2];		/* of the open group and the one before, by
								 * the group's lowest bit */
	char		pad[64];
} Member;

static Member members[MAX_THREADS];
static pg_atomic_uint64 open_group;
static pg_atomic_uint64 durable_group;
static pg_atomic_uint32 in_group;	/* commits in the open group */
static pg_atomic_flag recording;
static uint64 *records;			/* in NVM */
static uint64 recovered;

static Size
wbl_size(void)
{
	return pool_carved(RECORD_LINES * ZEN_LINE) + versions_size();
}

static void
wbl_open(bool fresh)
{
	records = pool_carve(RECORD_LINES * ZEN_LINE);
	for (int i = 0; i < RECORD_LINES; i++)
		recovered = Max(recovered, records[i * 8]);
	/* a group may have been open at the crash, and another one being closed */
	pg_atomic_init_u64(&durable_group, recovered + 2);
	pg_atomic_init_u64(&open_group, recovered + 3);
	pg_atomic_init_u32(&in_group, 0);
	pg_atomic_init_flag(&recording);
	for (int t = 0; t < MAX_THREADS; t++)
	{
		pg_atomic_init_u64(&members[t].inside, 0);
		pg_atomic_init_u64(&members[t].flushed, recovered + 2);
		pg_atomic_init_u32(&members[t].active, 0);
		members[t].settled = recovered + 2;
	}
	versions_open(fresh, true);
}

static void
add_dirty(Work *w, void *addr, Size len)
{
	if (w->ndirty == w->max_dirty)
	{
		w->max_dirty = w->max_dirty * 2 + 64;
		w->dirty = realloc(w->dirty, w->max_dirty * sizeof(Dirty));
	}
	w->dirty[w->ndirty++] = (Dirty)
	{
		.addr = addr,.len = len
	};
}

static void
add_ended(Work *w, VersionHeader *v)
{
	if (w->nended == w->max_ended)
	{
		w->max_ended = w->max_ended * 2 + 64;
		w->ended = realloc(w->ended, w->max_ended * sizeof(VersionHeader *));
	}
	w->ended[w->nended++] = v;
}

/* ---------- closing a group ---------- */

/* Everybody has flushed the group, and nobody is in it: write the record.  Any thread may. */
static void
try_record(uint64 group)
{
	if (pg_atomic_read_u64(&durable_group) != group - 1 || !pg_atomic_test_set_flag(&recording))
		return;
	if (pg_atomic_read_u64(&durable_group) == group - 1)
	{
		bool		all = true;

		for (int t = 0; t < settings.threads && all; t++)
			all = pg_atomic_read_u64(&members[t].inside) != group &&
				(pg_atomic_read_u32(&members[t].active) == 0 || pg_atomic_read_u64(&members[t].flushed) >= group);
		if (all)
		{
			uint64	   *record = &records[group % RECORD_LINES * 8];

			nvm_store64(record, group);
			zen_persist(record, sizeof(*record));
			pg_atomic_write_u64(&durable_group, group);
		}
	}
	pg_atomic_clear_flag(&recording);
}

/* Do what is due: flush my part of a closed group, take note of a durable one.  The thread is not inside. */
static void
poll_groups(int thread)
{
	Member	   *m = &members[thread];
	uint64		group = pg_atomic_read_u64(&m->flushed) + 1;

	if (group < pg_atomic_read_u64(&open_group))
	{
		Work	   *w = &m->work[group & 1];

		for (uint32 i = 0; i < w->ndirty; i++)
			zen_flush(w->dirty[i].addr, w->dirty[i].len);
		if (w->ndirty > 0)
			zen_fence();
		w->ndirty = 0;
		pg_atomic_write_u64(&m->flushed, group);
	}
	group = m->settled + 1;
	if (group > pg_atomic_read_u64(&m->flushed))
		return;
	try_record(group);
	if (pg_atomic_read_u64(&durable_group) >= group)
	{
		Work	   *w = &m->work[group & 1];

		for (uint32 i = 0; i < w->nended; i++)
			versions_free(thread, w->ended[i]);
		w->nended = 0;
		m->durable = Max(m->durable, w->commits);
		m->settled = group;
	}
}

/* Begin the next group, unless the one before is not durable yet. */
static bool
close_group(uint64 group)
{
	if (pg_atomic_read_u64(&durable_group) != group - 1)
		return false;
	if (!pg_atomic_compare_exchange_u64(&open_group, &group, group + 1))
		return false;
	pg_atomic_write_u32(&in_group, 0);
	return true;
}

/* ---------- commit ---------- */

static uint64
enter_group(Member *m)
{
	for (;;)
	{
		uint64		group = pg_atomic_read_u64(&open_group);

		pg_atomic_write_u64(&m->inside, group);

		/*
		 * pairs with the full barrier of close_group's compare-and-swap: it
		 * is before this, or try_record waits
		 */
		pg_memory_barrier();
		if (pg_atomic_read_u64(&open_group) == group)
			return group;
	}
}

static void
wbl_commit(int thread, const Write *writes, int n)
{
	Member	   *m = &members[thread];
	uint64		group,
				stamp;
	Work	   *w;

	/*
	 * The thread's part of the group before last must be out of the way; and
	 * if some other thread has not run for long, the groups have grown: slots
	 * that wait for them must not use up the spare ones.
	 */
	while (poll_groups(thread), m->settled + 2 < pg_atomic_read_u64(&open_group) ||
		   m->work[0].nended + m->work[1].nended > VERSIONS_SPARE / 2)
	{
		if (pg_atomic_read_u32(&in_group) >= settings.group)
			close_group(pg_atomic_read_u64(&open_group));
		sched_yield();
	}
	if (n == 0)
		return;
	pg_atomic_write_u32(&m->active, 1);
	group = enter_group(m);
	while (m->settled + 2 < group)
	{
		/* the group has changed just now */
		pg_atomic_write_u64(&m->inside, 0);
		poll_groups(thread);
		sched_yield();
		group = enter_group(m);
	}
	w = &m->work[group & 1];
	stamp = group << GROUP_SHIFT | next_cts();
	for (int i = 0; i < n; i++)
	{
		VersionHeader *made;
		VersionHeader *ended;

		versions_write(thread, &writes[i], stamp, &made, &ended);
		if (made != NULL)
			add_dirty(w, made, version_bytes(writes[i].row));
		if (ended != NULL)
		{
			add_dirty(w, ended, sizeof(VersionHeader));
			add_ended(w, ended);
		}
		versions_publish(&writes[i], made);
	}
	w->commits = ++m->commits;
	pg_write_barrier();
	pg_atomic_write_u64(&m->inside, 0);
	if (pg_atomic_add_fetch_u32(&in_group, 1) >= settings.group)
		close_group(group);
}

static uint64
wbl_durable(int thread, uint64 n)
{
	poll_groups(thread);
	return members[thread].durable;
}

static void
wbl_leave(int thread)
{
	Member	   *m = &members[thread];

	while (m->durable < m->commits)
	{
		close_group(pg_atomic_read_u64(&open_group));
		poll_groups(thread);
		sched_yield();
	}
	pg_atomic_write_u32(&m->active, 0);
}

static uint64 *
wbl_metadata(uint32 row)
{
	VersionHeader *v = version_of(row);

	return v != NULL ? &v->noted : NULL;
}

static void
wbl_load(int thread, uint32 row, const char *data)
{
	Write		w = {.kind = WRITE_INSERT,.row = row,.len = table_of(row)->size,.data = data};

	wbl_commit(thread, &w, 1);
}

static bool
wbl_committed(uint64 stamp)
{
	return stamp >> GROUP_SHIFT <= recovered;
}

static void
wbl_recover(int thread)
{
	versions_recover(thread, wbl_committed);
	if (thread == 0)
		restart_cts(versions_newest() & ((UINT64CONST(1) << GROUP_SHIFT) - 1));
}

const Engine wbl_engine = {
	.name = "wbl",
	.size = wbl_size,
	.open = wbl_open,
	.load = wbl_load,
	.load_end = wbl_leave,
	.read = versions_read,
	.metadata = wbl_metadata,
	.metadata_durable = true,
	.commit = wbl_commit,
	.durable = wbl_durable,
	.leave = wbl_leave,
	.recover = wbl_recover,
};
