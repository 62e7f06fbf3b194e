/*
 * streamclients.c -- which processes serve clients of replication, and which may copy files of this server.
 *
 * - A walsender counts from its authentication to its end.  While there is none, the flusher sleeps (streamflush.c).
 * - One of physical replication keeps tables from becoming zen's whose rows its client could not get
 *   (table/zenam_ddl.c).
 * - On a standby redo asks whether any process may copy files: walsenders, and sessions that have called
 *   pg_backup_start() or read files as pg_rewind does (streamcover.c).  A walsender that streams does not count.  So it
 *   is known by its pid.
 */
#include "stream/streamclients.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"

typedef struct Clients
{
	pg_atomic_uint32 readers;	/* walsenders */
	pg_atomic_uint32 physical;	/* of these, of physical replication */
	PGPROC	   *volatile flusher;	/* NULL before its first start */
	pg_atomic_uint32 sessions;	/* that may copy, and have no entry of pids */
	pg_atomic_uint32 walsenders;	/* that may copy, with an entry of pids */
	pg_atomic_uint32 pids[FLEXIBLE_ARRAY_MEMBER];	/* of these, 0: none;
													 * [max_wal_senders] */
} Clients;

static Clients *clients;
static bool copies = false;		/* this process may */
static int	my_place = -1;		/* of pids */

Size
zen_clients_shmem_size(void)
{
	return add_size(offsetof(Clients, pids), mul_size(max_wal_senders, sizeof(pg_atomic_uint32)));
}

void
zen_clients_init(void)
{
	bool		found;

	clients = ShmemInitStruct("zen clients", zen_clients_shmem_size(), &found);
	if (found)
		return;
	pg_atomic_init_u32(&clients->readers, 0);
	pg_atomic_init_u32(&clients->physical, 0);
	clients->flusher = NULL;
	pg_atomic_init_u32(&clients->sessions, 0);
	pg_atomic_init_u32(&clients->walsenders, 0);
	for (int i = 0; i < max_wal_senders; i++)
		pg_atomic_init_u32(&clients->pids[i], 0);
}

/* ---------- walsenders ---------- */

/* The latch of a process that has ended belongs to no process, or to another one, which it does no harm to wake. */
static void
wake_flusher(void)
{
	PGPROC	   *flusher = clients->flusher;

	if (flusher != NULL)
		SetLatch(&flusher->procLatch);
}

static void
leave(int code, Datum arg)
{
	if (!am_db_walsender)
		pg_atomic_fetch_sub_u32(&clients->physical, 1);
	pg_atomic_fetch_sub_u32(&clients->readers, 1);
	wake_flusher();
}

void
zen_clients_enter(void)
{
	Assert(am_walsender);
	pg_atomic_fetch_add_u32(&clients->readers, 1);
	if (!am_db_walsender)
		pg_atomic_fetch_add_u32(&clients->physical, 1);
	before_shmem_exit(leave, (Datum) 0);
	wake_flusher();
}

bool
zen_clients_physical(void)
{
	pg_memory_barrier();
	return pg_atomic_read_u32(&clients->physical) > 0;
}

bool
zen_clients_readers(void)
{
	return pg_atomic_read_u32(&clients->readers) > 0;
}

void
zen_clients_watch(PGPROC *flusher)
{
	clients->flusher = flusher;
	pg_memory_barrier();		/* a reader finds it, or is found */
}

/* ---------- processes that may copy ---------- */

void
zen_clients_copy_end(void)
{
	if (!copies)
		return;
	pg_atomic_fetch_sub_u32(my_place >= 0 ? &clients->walsenders : &clients->sessions, 1);
	if (my_place >= 0)
		pg_atomic_write_u32(&clients->pids[my_place], 0);
	my_place = -1;
	copies = false;
}

static void
end_at_exit(int code, Datum arg)
{
	zen_clients_copy_end();
}

/* A walsender without a place counts as any session does, even while it streams. */
static void
find_place(void)
{
	for (int i = 0; i < max_wal_senders && my_place < 0; i++)
	{
		uint32		free = 0;

		if (pg_atomic_compare_exchange_u32(&clients->pids[i], &free, (uint32) MyProcPid))
			my_place = i;
	}
}

bool
zen_clients_copy_begin(void)
{
	static bool registered = false;

	if (copies)
		return false;
	if (!registered)
		before_shmem_exit(end_at_exit, (Datum) 0);
	registered = true;
	copies = true;
	if (am_walsender)
		find_place();
	pg_atomic_fetch_add_u32(my_place >= 0 ? &clients->walsenders : &clients->sessions, 1);
	return true;
}

/* A walsender that has streamed may take a backup later: by then its state is BACKUP. */
static bool
streams(uint32 pid)
{
	for (int i = 0; i < max_wal_senders; i++)
	{
		volatile WalSnd *walsender = &WalSndCtl->walsnds[i];

		if (walsender->pid == (pid_t) pid)
			return walsender->state == WALSNDSTATE_CATCHUP || walsender->state == WALSNDSTATE_STREAMING;
	}
	return false;
}

bool
zen_clients_may_copy(void)
{
	if (pg_atomic_read_u32(&clients->sessions) > 0)
		return true;
	if (likely(pg_atomic_read_u32(&clients->walsenders) == 0))
		return false;
	for (int i = 0; i < max_wal_senders; i++)
	{
		uint32		pid = pg_atomic_read_u32(&clients->pids[i]);

		if (pid != 0 && !streams(pid))
			return true;
	}
	return false;
}
