/*
 * keycache.c -- a lossy hash from (index, key) to TID.
 *
 * src/cache/README, "The key cache", says what an entry is worth.  Two processes that store at once may lose one, which
 * does no harm.
 *
 * In a full bucket an entry is replaced: the first one without the mark, in a search that begins at a place given by
 * the hash.  The search clears the marks that it passes (a CLOCK of eight).  A lookup writes only if the mark is not
 * set yet.
 */
#include "cache/keycache.h"

#include "base/guc.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#define LINE_SIZE	64			/* bytes */
#define ENTRIES		(LINE_SIZE / (int) sizeof(uint64))

/* An entry: bits 0..37 the TID's number plus 1, so that 0 is free; 38 the mark; 39..63 the tag. */
#define TID_BITS	38
#define TID_MASK	((UINT64CONST(1) << TID_BITS) - 1)
#define USED		(UINT64CONST(1) << TID_BITS)
#define TAG_SHIFT	(TID_BITS + 1)
#define TAG_MASK	(~UINT64CONST(0) << TAG_SHIFT)

typedef struct Bucket
{
	pg_atomic_uint64 entries[ENTRIES];
} Bucket;

StaticAssertDecl(sizeof(Bucket) == LINE_SIZE, "a bucket is a cache line");

static Bucket *buckets;
static uint64 nbuckets;			/* 0: there is no cache */

static uint64
count_buckets(void)
{
	return Min((uint64) zen_key_cache_mb * 1024 * 1024 / LINE_SIZE, PG_UINT32_MAX);
}

static Size
keycache_shmem_size(void)
{
	return add_size(mul_size(count_buckets(), LINE_SIZE), LINE_SIZE);
}

static void
keycache_shmem_init(void)
{
	bool		found;
	char	   *raw = ShmemInitStruct("zen key cache", keycache_shmem_size(), &found);

	buckets = (Bucket *) TYPEALIGN(LINE_SIZE, raw);
	nbuckets = count_buckets();
	if (!found)
		memset(buckets, 0, nbuckets * LINE_SIZE);
}

const ZenShmem zen_keycache_shmem = {.size = keycache_shmem_size,.init = keycache_shmem_init};

bool
zen_keycache_enabled(void)
{
	return nbuckets != 0;
}

uint64
zen_keycache_hash(Oid index, uint64 key_hash)
{
	uint64		h = key_hash ^ ((uint64) MyDatabaseId << 32 | index) * UINT64CONST(0x9E3779B97F4A7C15);

	/* odd factors spread each bit upwards, the shifts bring it down again */
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	return h ^ h >> 32;
}

/* The upper half of the hash chooses the bucket, the lower one is the tag's. */
static inline Bucket *
key_bucket(uint64 hash)
{
	Assert(nbuckets != 0);
	return &buckets[(hash >> 32) * nbuckets >> 32];
}

static inline uint64
tag_of(uint64 hash)
{
	return hash << TAG_SHIFT;
}

bool
zen_keycache_lookup(uint64 hash, uint64 *tidno)
{
	Bucket	   *bucket = key_bucket(hash);
	uint64		tag = tag_of(hash);

	for (int i = 0; i < ENTRIES; i++)
	{
		uint64		entry = pg_atomic_read_u64(&bucket->entries[i]);

		if (entry == 0 || (entry & TAG_MASK) != tag)
			continue;
		if ((entry & USED) == 0)
			pg_atomic_write_u64(&bucket->entries[i], entry | USED);
		*tidno = (entry & TID_MASK) - 1;
		return true;
	}
	return false;
}

/* Where a search for an entry that may go begins. */
static inline int
first_candidate(uint64 hash)
{
	return (int) ((hash >> 25) % ENTRIES);
}

/* The key's entry, or a free one, or -1. */
static inline int
own_entry(Bucket *bucket, uint64 hash)
{
	for (int i = 0; i < ENTRIES; i++)
	{
		uint64		entry = pg_atomic_read_u64(&bucket->entries[i]);

		if (entry == 0 || (entry & TAG_MASK) == tag_of(hash))
			return i;
	}
	return -1;
}

/* The entry that a key's new one replaces. */
static int
choose_entry(Bucket *bucket, uint64 hash)
{
	int			i = own_entry(bucket, hash);

	if (i >= 0)
		return i;
	for (i = 0; i < ENTRIES; i++)
	{
		pg_atomic_uint64 *candidate = &bucket->entries[(first_candidate(hash) + i) % ENTRIES];
		uint64		entry = pg_atomic_read_u64(candidate);

		if ((entry & USED) == 0)
			return (first_candidate(hash) + i) % ENTRIES;
		pg_atomic_write_u64(candidate, entry & ~USED);
	}
	return first_candidate(hash);
}

/* An entry without the mark, or -1. */
static int
unused_entry(Bucket *bucket, uint64 hash)
{
	for (int i = 0; i < ENTRIES; i++)
	{
		int			candidate = (first_candidate(hash) + i) % ENTRIES;

		if ((pg_atomic_read_u64(&bucket->entries[candidate]) & USED) == 0)
			return candidate;
	}
	return -1;
}

static inline void
write_entry(Bucket *bucket, int i, uint64 hash, uint64 tidno)
{
	Assert(tidno < TID_MASK && i >= 0 && i < ENTRIES);
	pg_atomic_write_u64(&bucket->entries[i], tag_of(hash) | (tidno + 1));
}

void
zen_keycache_store(uint64 hash, uint64 tidno)
{
	Bucket	   *bucket = key_bucket(hash);

	write_entry(bucket, choose_entry(bucket, hash), hash, tidno);
}

void
zen_keycache_fill(uint64 hash, uint64 tidno)
{
	Bucket	   *bucket = key_bucket(hash);
	int			i = own_entry(bucket, hash);

	if (i < 0)
		i = unused_entry(bucket, hash);
	if (i >= 0)
		write_entry(bucket, i, hash, tidno);
}

uint32
zen_keycache_share(uint64 nrows)
{
	uint64		room = nbuckets * ENTRIES / 2;

	return nrows <= room ? PG_UINT32_MAX : (uint32) (((double) room / nrows) * PG_UINT32_MAX);
}

void
zen_keycache_prefetch(uint64 hash)
{
	__builtin_prefetch(key_bucket(hash), 1);
}
