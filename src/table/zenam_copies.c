/*
 * zenam_copies.c -- no table becomes zen's while copies of this server would not have its rows.
 *
 * With another zen.stream than replica the changes of the pool are not in the WAL.  A standby gets the catalogs' word
 * for a table then, and not its rows.  So of a zen table and a copy the one that comes second is refused, unless
 * zen.allow_copies_without_rows is on: the table here, the copy in admin/basebackup.c.
 *
 * They may come at once.  The table is in the HTable directory before its maker looks for clients of physical
 * replication, and a client is counted before it looks for tables.  Both are full memory barriers, so one of the two
 * sees the other.
 *
 * A slot keeps the WAL for a standby that is away.  It is looked for, too, and needs no such order: when its standby
 * comes, it is a client.
 *
 * A standby that is fed from an archive is not known here.  A record in the WAL stops it (zen_copy_unseen).
 */
#include "table/zenam_copies.h"

#include "base/guc.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "replication/slot.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "stream/streamcopy.h"
#include "table/zenam_rel.h"

/* Processes that serve clients of physical replication. */
static pg_atomic_uint32 *clients;

Size
zen_copies_shmem_size(void)
{
	return sizeof(pg_atomic_uint32);
}

void
zen_copies_init(void)
{
	bool		found;

	clients = ShmemInitStruct("zen clients of physical replication", zen_copies_shmem_size(), &found);
	if (!found)
		pg_atomic_init_u32(clients, 0);
}

static void
leave(int code, Datum arg)
{
	pg_atomic_fetch_sub_u32(clients, 1);
}

void
zen_copies_client(void)
{
	pg_atomic_fetch_add_u32(clients, 1);	/* a full barrier */
	before_shmem_exit(leave, (Datum) 0);
}

/* What has a copy of this server, or may get one; NULL: nothing. */
static const char *
find_copy(void)
{
	const char *found = NULL;

	pg_memory_barrier();		/* the table is in the directory: see the top */
	if (pg_atomic_read_u32(clients) > 0)
		return pstrdup("A client of physical replication is connected");
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots && found == NULL; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];

		if (slot->in_use && SlotIsPhysical(slot))
			found = psprintf("There is the physical replication slot \"%s\"", NameStr(slot->data.name));
	}
	LWLockRelease(ReplicationSlotControlLock);
	return found;
}

/* Is it the new place of the rows of a zen table: of VACUUM FULL, ALTER TABLE, REFRESH MATERIALIZED VIEW? */
static bool
is_rewrite(Relation rel)
{
	Oid			old;
	char		rest;

	return sscanf(RelationGetRelationName(rel), "pg_temp_%u%c", &old, &rest) == 1 && zen_relid_is_zen(old);
}

void
zen_copies_check_new(Relation rel, char persistence, bool had_one)
{
	const char *copy;

	/* a toast table comes with its table */
	if (zen_copies() || zen_allow_copies_without_rows || IsBinaryUpgrade || had_one ||
		persistence != RELPERSISTENCE_PERMANENT || rel->rd_rel->relkind == RELKIND_TOASTVALUE || is_rewrite(rel))
		return;
	copy = find_copy();
	if (copy != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be a zen table: standbys would not have its rows",
						RelationGetRelationName(rel)),
				 errdetail("%s, and the changes of zen tables are not in the write-ahead log.", copy),
				 errhint("Set zen.stream to replica and restart the server, or make the table USING heap.  To do "
						 "without the rows of zen tables on standbys, set zen.allow_copies_without_rows to on.")));
	zen_copy_unseen();
}
