/*
 * sequence.c -- a number handed out must not be handed out again.
 *
 * nextval() writes WAL once for 32 numbers, in whichever transaction comes first; the others write none, and PostgreSQL
 * relies on their commit records to flush what stands before them in the WAL.  A zen-only transaction is durable without
 * its commit record: if it has used a number, it flushes the WAL first.
 *
 * Who has used a sequence is told by the lock that nextval() keeps on it to the end of the transaction, a RowExclusiveLock:
 * in the process's own fast-path slots, or in the main lock table, where it is if the slots were taken or somebody wants
 * a strong lock.  Whoever moves it there holds the slots' lock exclusively.
 */
#include "base/compat.h"

#include "txn/sequence.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define CACHE_SIZE	64			/* a power of 2 */

/* What kind of relations are locked over and over again. */
typedef struct KnownRelation
{
	Oid			oid;
	bool		is_sequence;
} KnownRelation;

static KnownRelation known[CACHE_SIZE];
static bool callback_registered = false;

static void
forget_known(Datum arg, int cacheid, uint32 hashvalue)
{
	memset(known, 0, sizeof(known));
}

static bool
is_sequence(Oid relid)
{
	KnownRelation *k = &known[relid & (CACHE_SIZE - 1)];

	if (!callback_registered)
	{
		CacheRegisterSyscacheCallback(RELOID, forget_known, (Datum) 0);
		callback_registered = true;
	}
	if (k->oid != relid)
	{
		k->is_sequence = get_rel_relkind(relid) == RELKIND_SEQUENCE;
		k->oid = relid;
	}
	return k->is_sequence;
}

/* Relations that this process has locked as nextval() does. */
typedef struct Locked
{
	Oid			oids[64];
	int			n;
	bool		more;			/* there are more */
} Locked;

static void
add_locked(Locked *locked, Oid relid)
{
	if (locked->n < lengthof(locked->oids))
		locked->oids[locked->n++] = relid;
	else
		locked->more = true;
}

static void
add_fast_path(Locked *locked)
{
	for (int group = 0; group < FastPathLockGroupsPerBackend; group++)
		for (int i = 0; i < FP_LOCK_SLOTS_PER_GROUP; i++)
			if (zen_fast_path_modes(MyProc, group, i) & (1 << (RowExclusiveLock - 1)))
				add_locked(locked, MyProc->fpRelId[group * FP_LOCK_SLOTS_PER_GROUP + i]);
}

static void
add_main_table(Locked *locked)
{
	for (int p = 0; p < NUM_LOCK_PARTITIONS; p++)
	{
		PROCLOCK   *l;

		zen_foreach_proclock(l, MyProc, p)
		{
			const LOCKTAG *tag = &l->tag.myLock->tag;

			if (tag->locktag_type == LOCKTAG_RELATION && tag->locktag_field1 == MyDatabaseId &&
				(l->holdMask & LOCKBIT_ON(RowExclusiveLock)))
				add_locked(locked, tag->locktag_field2);
		}
	}
}

/* Does this process hold a lock as nextval() takes it, or can that not be told? */
static bool
may_have_used_sequence(void)
{
	Locked		locked = {.n = 0};

	/*
	 * shared, so that nobody moves one from here to there meanwhile; our
	 * lists in the main table only we ourselves change else
	 */
	LWLockAcquire(&MyProc->fpInfoLock, LW_SHARED);
	add_fast_path(&locked);
	add_main_table(&locked);
	LWLockRelease(&MyProc->fpInfoLock);
	if (locked.more)
		return true;
	for (int i = 0; i < locked.n; i++)
		if (is_sequence(locked.oids[i]))
			return true;
	return false;
}

/* Flush all WAL that exists. */
static void
flush_wal(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();

	/*
	 * at the start of a page it points behind the page header, which does not
	 * exist yet
	 */
	if (XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD)
		end -= SizeOfXLogLongPHD;
	else if (end % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		end -= SizeOfXLogShortPHD;
	XLogFlush(end);
}

void
zen_flush_sequences(void)
{
	if (may_have_used_sequence())
		flush_wal();
}
