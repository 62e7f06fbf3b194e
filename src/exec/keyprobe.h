/*
 * keyprobe.h -- a key of a unique index: does a scan name one, what is its hash, and has the row that the key cache
 * leads to this key?
 */
#ifndef ZEN_KEYPROBE_H
#define ZEN_KEYPROBE_H

#include "base/compat.h"

#include "access/skey.h"
#include "exec/pointwhy.h"
#include "executor/tuptable.h"
#include "nodes/plannodes.h"
#include "nvm/htable.h"
#include "pgstat.h"
#include "table/keyfill.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* What is to be known of an index in order to look its keys up in the key cache. */
typedef struct ZenKeyProbe
{
	Oid			index;
	int			nkeys;			/* 0: keys have no place in the key cache */
	ZenKeyColumn keys[INDEX_MAX_KEYS];
} ZenKeyProbe;

/*
 * zen_keyprobe_refuses -- why quals of an index scan do not name keys of a unique, valid and immediate index;
 * ZEN_WHY_NONE if they do.
 *
 * Each of its columns must equal a value that does not depend on the table's row.  One of them may equal each element
 * of an array, but not for a key join; that wants an index of which the key cache has keys.  Caller holds a lock on the
 * table.
 */
extern ZenPointWhy zen_keyprobe_refuses(Oid index, List *indexqual, bool join);

/* zen_keyprobe_init -- prepare for keys that a scan node of the executor names; its index is open. */
extern void zen_keyprobe_init(ZenKeyProbe *probe, Relation index, const ScanKeyData *keys, int nkeys);

/* zen_keyprobe_hash -- what stands for a key in the key cache; nkeys is not 0. */
extern uint64 zen_keyprobe_hash(const ZenKeyProbe *probe, const ScanKeyData *keys);

/* zen_keyprobe_hint -- where the key cache says that the key's row is; false if it does not know. */
extern bool zen_keyprobe_hint(ZenHTable *ht, uint64 hash, uint64 *tidno);

/*
 * zen_keyprobe_fetch -- bring the row at that TID, as the snapshot sees it, into a slot of the table.
 *
 * False if there is none, or if it has another key: the index is to be asked.
 */
extern bool zen_keyprobe_fetch(const ZenKeyProbe *probe, Relation rel, const ScanKeyData *keys, uint64 tidno,
							   Snapshot snapshot, TupleTableSlot *slot);

/*
 * zen_keyprobe_count -- a row was found without a search of its index: count what the search would have counted.
 *
 * The index may be closed, if the relcache has it yet.  What relation_open() does at each opening is then done when
 * statistics are written, once a second at most.
 */
static inline void
zen_keyprobe_count(Relation index)
{
	if (!pgstat_track_counts)
		return;
	if (unlikely(index->pgstat_info == NULL))
		pgstat_init_relation(index);
	pgstat_count_index_scan(index);
	pgstat_count_index_tuples(index, 1);
	pgstat_count_heap_fetch(index);
}

#endif							/* ZEN_KEYPROBE_H */
