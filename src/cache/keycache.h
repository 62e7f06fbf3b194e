/*
 * keycache.h -- where the row of a key was found last: a lossy hash in DRAM from (index, key) to TID.
 *
 * Its answer is a hint.  The reader fetches the row under that TID.  If the version that its snapshot sees has the key,
 * it is the answer, since the index is unique.  Anything else sends the reader to the index.  So an entry may be wrong
 * in any way: left by a row that was deleted or never committed, by a table that was truncated, by an index whose OID
 * another has by now.  It needs no recovery, no vacuum and no latch.
 */
#ifndef ZEN_KEYCACHE_H
#define ZEN_KEYCACHE_H

#include "base/compat.h"
#include "base/startup.h"
#include "port/atomics.h"

/* zen_keycache_shmem -- make an empty cache of zen.key_cache_size or attach to it. */
extern const ZenShmem zen_keycache_shmem;

/* Is there a cache? */
extern bool zen_keycache_enabled(void);

/* zen_keycache_hash -- what stands for a key: of this database's index, and of a hash of the key; well mixed. */
extern uint64 zen_keycache_hash(Oid index, uint64 key_hash);

/* zen_keycache_lookup -- where the key's row was; false if the cache has no entry. */
extern bool zen_keycache_lookup(uint64 hash, uint64 *tidno);

/* zen_keycache_store -- the key's row is there: it was read. */
extern void zen_keycache_store(uint64 hash, uint64 tidno);

/*
 * zen_keycache_fill -- enter a key whose row is there, but that no query has looked up.  No key goes that was looked up
 * since the last search for a place in its bucket.
 *
 * zen_keycache_share -- which of nrows keys are to be filled in, so that they take half of the entries at most: those
 * whose hash has a lower half up to this.
 *
 * zen_keycache_prefetch -- ask for the memory that one of these, or a lookup, will look at.
 */
extern void zen_keycache_fill(uint64 hash, uint64 tidno);
extern uint32 zen_keycache_share(uint64 nrows);
extern void zen_keycache_prefetch(uint64 hash);

#endif							/* ZEN_KEYCACHE_H */
