/*
 * sequence.c -- a number handed out must not be handed out again.
 *
 * nextval() writes WAL once for 32 numbers, in whichever transaction comes first; the others write none, and PostgreSQL
 * relies on their commit records to flush what stands before them in the WAL.  A zen-only transaction is durable without
 * its commit record: if it has used a number, it flushes the WAL first.
 *
 * Who has used a sequence is told by the lock that nextval() keeps on it to the end of the transaction, a RowExclusiveLock
 * in the process's own table of locks.  If there are very many of that mode the WAL is flushed to be safe.
 */
#include "base/compat.h"

#include "txn/sequence.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lock.h"
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

/* Does this process hold a lock as nextval() takes it, or can that not be told? */
static bool
may_have_used_sequence(void)
{
	Oid			locked[64];
	int			n = 0;
	bool		unsure = false;
	HASH_SEQ_STATUS scan;
	LOCALLOCK  *l;

	hash_seq_init(&scan, GetLockMethodLocalHash());
	while ((l = hash_seq_search(&scan)) != NULL)
	{
		if (l->nLocks == 0 || l->tag.mode != RowExclusiveLock || l->tag.lock.locktag_type != LOCKTAG_RELATION ||
			l->tag.lock.locktag_field1 != MyDatabaseId)
			continue;
		if (n < lengthof(locked))
			locked[n++] = l->tag.lock.locktag_field2;
		else
			unsure = true;
	}
	if (unsure)
		return true;
	for (int i = 0; i < n; i++)
		if (is_sequence(locked[i]))
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
