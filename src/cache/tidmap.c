/*
 * tidmap.c -- the logical-tuple map.
 *
 * Two levels: a table's directory points to leaves of ZEN_LEAF_WORDS words (4 KB).  src/cache/README says how both grow
 * ("Map words"), and how processes take TIDs by whole blocks ("TIDs and version codes").
 *
 * A TID is not handed out while an index may hold it, or while its tombstone is needed (I14).
 */
#include "cache/tidmap.h"

#include "base/epoch.h"
#include "base/guc.h"
#include "cache/tablestat.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/memutils.h"

#define FIRST_DIR		8		/* leaves in a table's first directory */
#define MAX_DIRS		32
#define MAX_BLOCKS		((uint64) MaxBlockNumber)
#define FIRST_FREE		16		/* places in a table's first list of free
								 * blocks */

#ifdef USE_ASSERT_CHECKING
ZenWord    *zen_word_held = NULL;
#endif

volatile uint8 *zen_leaf_quiet;

typedef ZenWord *Leaf;

typedef struct TidMap
{
	Leaf	   *dir;			/* current directory; published under lock,
								 * read without */
	slock_t		lock;			/* protects growth and the fields below */
	uint32		ndirs;			/* directories made so far; number i has
								 * FIRST_DIR << i leaves */
	Leaf	   *dirs[MAX_DIRS];
	pg_atomic_uint32 nleaves;	/* leaves that exist; they cover all of
								 * nblocks */
	pg_atomic_uint32 nblocks;	/* blocks handed out */
	uint32	   *free_blocks;	/* stack of blocks with UNUSED words: found by
								 * VACUUM, given back by processes that end */
	uint32		nfree;
	uint32		free_capacity;
	uint32		generation;		/* raised when the table goes; invalidates
								 * what processes remember */
} TidMap;

/* The block of one table that this process is filling. */
typedef struct MyBlock
{
	uint32		generation;
	uint32		block;
	uint32		next;			/* offset - 1 to try next; TIDS_PER_BLOCK also
								 * stands for none */
} MyBlock;

#define CHUNK_TABLES	64		/* tables whose blocks share an allocation */

StaticAssertDecl(ZEN_MAX_HTABLES % CHUNK_TABLES == 0, "each table has a place in a chunk");

static TidMap *maps;			/* [ZEN_MAX_HTABLES] */
static MyBlock *my_blocks[ZEN_MAX_HTABLES / CHUNK_TABLES];	/* NULL: none of these
															 * tables was written */

static Size
quiet_bytes(void)
{
	return (Size) zen_dram_size_mb * 1024 * 1024 / ZEN_LEAF_BYTES;
}

static Size
tidmap_shmem_size(void)
{
	return add_size(ZEN_MAX_HTABLES * sizeof(TidMap), quiet_bytes());
}

static void
tidmap_shmem_init(void)
{
	bool		found;

	zen_leaf_quiet = ShmemInitStruct("zen quiet leaves", quiet_bytes(), &found);
	if (!found)
		memset(unvolatize(uint8 *, zen_leaf_quiet), 0, quiet_bytes());
	maps = ShmemInitStruct("zen tid maps", ZEN_MAX_HTABLES * sizeof(TidMap), &found);
	if (!found)
		for (uint32 i = 0; i < ZEN_MAX_HTABLES; i++)
		{
			memset(&maps[i], 0, sizeof(TidMap));
			SpinLockInit(&maps[i].lock);
			pg_atomic_init_u32(&maps[i].nleaves, 0);
			pg_atomic_init_u32(&maps[i].nblocks, 0);
		}
}

const ZenShmem zen_tidmap_shmem = {.size = tidmap_shmem_size,.init = tidmap_shmem_init};

uint64
zen_tidmap_nblocks(ZenHTable *ht)
{
	uint32		nblocks = pg_atomic_read_u32(&maps[ht->idx].nblocks);

	/* what is below has its words: pairs with take_tid_block */
	pg_read_barrier();
	return nblocks;
}

ZenWord *
zen_tidmap_word(ZenHTable *ht, uint64 tidno)
{
	TidMap	   *map = &maps[ht->idx];
	uint32		leafno = (uint32) (tidno / ZEN_LEAF_WORDS);

	Assert(ht->idx < ZEN_MAX_HTABLES);
	if (leafno >= pg_atomic_read_u32(&map->nleaves))
		return NULL;

	/*
	 * nleaves is raised after the directory that holds the leaf is published:
	 * pairs with add_leaf
	 */
	pg_read_barrier();
	return ((Leaf *volatile *) &map->dir)[0][leafno] + tidno % ZEN_LEAF_WORDS;
}

/* A leaf has a byte of its own among the quiet ones: it is aligned to its size, as spans are. */
static void
begin_leaf(Leaf leaf)
{
	Assert(((char *) leaf - zen_arena_base) % ZEN_LEAF_BYTES == 0);
	*zen_leaf_quiet_of(leaf) = 0;
}

static void
free_leaf(Leaf leaf, Leaf *dir, Size dir_bytes)
{
	if (leaf != NULL)
		zen_arena_free(leaf, ZEN_LEAF_BYTES);
	if (dir != NULL)
		zen_arena_free(dir, dir_bytes);
}

/* Add leaves until leafno exists.  False when the arena is full. */
static bool
add_leaf(TidMap *map, uint32 leafno)
{
	while (leafno >= pg_atomic_read_u32(&map->nleaves))
	{
		uint32		n = pg_atomic_read_u32(&map->nleaves);
		uint32		ndirs = map->ndirs;
		Size		capacity = ndirs == 0 ? 0 : (Size) FIRST_DIR << (ndirs - 1);
		bool		grow = n >= capacity;
		Size		dir_bytes = ((Size) FIRST_DIR << ndirs) * sizeof(Leaf);
		Leaf		leaf = zen_arena_alloc(ZEN_LEAF_BYTES);
		Leaf	   *dir = grow ? zen_arena_alloc(dir_bytes) : NULL;
		bool		used = false;

		if (leaf == NULL || (grow && dir == NULL))
		{
			free_leaf(leaf, dir, dir_bytes);
			return false;
		}
		begin_leaf(leaf);
		for (int i = 0; i < ZEN_LEAF_WORDS; i++)
			pg_atomic_init_u64(&leaf[i], 0);

		SpinLockAcquire(&map->lock);
		if (n == pg_atomic_read_u32(&map->nleaves) && ndirs == map->ndirs)
		{
			Assert(ndirs < MAX_DIRS || !grow);
			Assert(grow || n < (Size) FIRST_DIR << (ndirs - 1));
			if (grow)
			{
				if (capacity)
					memcpy(dir, map->dir, capacity * sizeof(Leaf));
				map->dirs[map->ndirs++] = dir;
				dir[n] = leaf;
				pg_write_barrier();
				map->dir = dir;
			}
			else
				map->dir[n] = leaf;
			pg_write_barrier();
			pg_atomic_write_u32(&map->nleaves, n + 1);
			used = true;
		}
		SpinLockRelease(&map->lock);
		if (!used)
			free_leaf(leaf, dir, dir_bytes);
	}
	return true;
}

/* Take a block to fill: one that VACUUM has found room in, else a new one. */
static bool
take_tid_block(ZenHTable *ht, MyBlock *mine)
{
	TidMap	   *map = &maps[ht->idx];
	bool		got = false;
	uint32		block = 0;

	if (map->nfree > 0)
	{
		SpinLockAcquire(&map->lock);
		if (map->nfree > 0)
		{
			block = map->free_blocks[map->nfree - 1];
			/* the fault: two processes fill it */
			if (!ZEN_FAULT(SHARED_BLOCKS) || block == mine->block)
				map->nfree--;
			got = true;
		}
		SpinLockRelease(&map->lock);
	}
	if (!got)
	{
		/*
		 * make the leaf first, so that a block below nblocks always has its
		 * words
		 */
		for (;;)
		{
			block = pg_atomic_read_u32(&map->nblocks);
			if (block >= MAX_BLOCKS ||
				!add_leaf(map, (uint32) ((uint64) block * ZEN_TIDS_PER_BLOCK / ZEN_LEAF_WORDS)))
				return false;
			if (pg_atomic_compare_exchange_u32(&map->nblocks, &block, block + 1))
				break;
		}
	}
	Assert(block < pg_atomic_read_u32(&map->nblocks) || mine->generation != map->generation);
	mine->generation = map->generation;
	mine->block = block;
	mine->next = 0;
	return true;
}

void
zen_tidmap_full_error(ZenHTable *ht)
{
	if (zen_tidmap_nblocks(ht) >= MAX_BLOCKS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("zen table has reached its maximum of " UINT64_FORMAT " blocks", MAX_BLOCKS),
				 errhint("Run VACUUM, or divide the table into partitions.")));
	zen_arena_full_error();
}

/* NULL if this process has no memory left. */
static MyBlock *
block_to_fill(ZenHTable *ht)
{
	MyBlock   **chunk = &my_blocks[ht->idx / CHUNK_TABLES];

	if (unlikely(*chunk == NULL))
	{
		*chunk = MemoryContextAllocExtended(TopMemoryContext, CHUNK_TABLES * sizeof(MyBlock), MCXT_ALLOC_NO_OOM);
		for (uint32 i = 0; *chunk != NULL && i < CHUNK_TABLES; i++)
			(*chunk)[i].next = ZEN_TIDS_PER_BLOCK;
	}
	return *chunk ? &(*chunk)[ht->idx % CHUNK_TABLES] : NULL;
}

/* The words of the block that this process fills, another one if that is full; NULL if there is none. */
static inline ZenWord *
words_to_fill(ZenHTable *ht, MyBlock *mine)
{
	ZenWord    *words;

	if (mine == NULL || ((mine->next == ZEN_TIDS_PER_BLOCK || mine->generation != maps[ht->idx].generation) &&
						 !take_tid_block(ht, mine)))
		return NULL;
	words = zen_tidmap_word(ht, (uint64) mine->block * ZEN_TIDS_PER_BLOCK);
	Assert(words != NULL);
	return words;
}

uint32
zen_tidmap_take(ZenHTable *ht, const uint64 *entry_refs, uint32 n, ZenTakenTid *taken)
{
	MyBlock    *mine = block_to_fill(ht);
	uint32		got = 0;

	ZenAssertNoWordLocked();
	Assert(n > 0);
	while (got == 0)
	{
		ZenWord    *words = words_to_fill(ht, mine);

		if (words == NULL)
			return 0;
		for (; got < n && mine->next < ZEN_TIDS_PER_BLOCK; mine->next++)
			if (zen_word_take(&words[mine->next], ZEN_WORD_ENTRY, entry_refs[got]))
			{
				taken[got].tidno = (uint64) mine->block * ZEN_TIDS_PER_BLOCK + mine->next;
				taken[got++].word = &words[mine->next];
			}
	}
	return got;
}

uint32
zen_tidmap_find_free(ZenHTable *ht, uint32 n, ZenTakenTid *found)
{
	MyBlock    *mine = block_to_fill(ht);
	uint32		got = 0;

	Assert(n > 0);
	while (got == 0)
	{
		ZenWord    *words = words_to_fill(ht, mine);

		if (words == NULL)
			return 0;
		for (uint32 i = mine->next; got < n && i < ZEN_TIDS_PER_BLOCK; i++)
			if (zen_word_is_free(pg_atomic_read_u64(&words[i])))
			{
				found[got].tidno = (uint64) mine->block * ZEN_TIDS_PER_BLOCK + i;
				found[got++].word = &words[i];
			}

		/*
		 * the search need not meet the TIDs before the first of these again,
		 * whichever process takes them
		 */
		mine->next = got > 0 ? (uint32) (found[0].tidno % ZEN_TIDS_PER_BLOCK) : ZEN_TIDS_PER_BLOCK;
	}
	return got;
}

ZenWord *
zen_tidmap_try_extend(ZenHTable *ht, uint64 tidno)
{
	TidMap	   *map = &maps[ht->idx];
	uint32		block = (uint32) (tidno / ZEN_TIDS_PER_BLOCK);
	uint32		n;

	Assert(tidno / ZEN_TIDS_PER_BLOCK < MAX_BLOCKS);
	if (!add_leaf(map, (uint32) (tidno / ZEN_LEAF_WORDS)))
		return NULL;
	n = pg_atomic_read_u32(&map->nblocks);
	while (n <= block && !pg_atomic_compare_exchange_u32(&map->nblocks, &n, block + 1))
		;
	return zen_tidmap_word(ht, tidno);
}

ZenWord *
zen_tidmap_extend(ZenHTable *ht, uint64 tidno)
{
	ZenWord    *word = zen_tidmap_try_extend(ht, tidno);

	if (word == NULL)
		zen_arena_full_error();
	return word;
}

/* A directory larger than the last. */
static void
add_directory(TidMap *map)
{
	Size		leaves = (Size) FIRST_DIR << map->ndirs;
	Leaf	   *dir = zen_arena_alloc_or_error(leaves * sizeof(Leaf));

	Assert(map->ndirs < MAX_DIRS);
	map->dirs[map->ndirs++] = map->dir = dir;
}

void
zen_tidmap_reserve_words(ZenHTable *ht, uint64 nblocks)
{
	TidMap	   *map = &maps[ht->idx];
	uint32		nleaves = (uint32) ((nblocks * ZEN_TIDS_PER_BLOCK + ZEN_LEAF_WORDS - 1) / ZEN_LEAF_WORDS);

	Assert(map->ndirs == 0 && nblocks <= MAX_BLOCKS);

	/*
	 * all the directories that a table has grown through, as add_leaf() makes
	 * them
	 */
	while (nleaves > 0 && (map->ndirs == 0 || nleaves > (Size) FIRST_DIR << (map->ndirs - 1)))
		add_directory(map);
	for (uint32 i = 0; i < nleaves; i++)
	{
		map->dir[i] = zen_arena_alloc_or_error(ZEN_LEAF_BYTES);
		begin_leaf(map->dir[i]);
	}
	pg_atomic_write_u32(&map->nleaves, nleaves);
}

void
zen_tidmap_reserve(ZenHTable *ht, uint64 nblocks)
{
	zen_tidmap_reserve_words(ht, nblocks);
	pg_atomic_write_u32(&maps[ht->idx].nblocks, (uint32) nblocks);
}

/* A word that is locked may be about to change. */
static bool
all_are_seen(const Leaf leaf)
{
	for (int i = 0; i < ZEN_LEAF_WORDS; i++)
	{
		uint64		w = pg_atomic_read_u64(&leaf[i]);

		if (!zen_word_is_seen(w) || (w & ZEN_WORD_LOCK))
			return false;
	}
	return true;
}

#ifdef USE_ASSERT_CHECKING
/* Whoever has changed a word has stirred the leaf before.  One that is locked may be about to change. */
static void
check_quiet(const Leaf leaf, volatile uint8 *quiet)
{
	for (int i = 0; i < ZEN_LEAF_WORDS; i++)
	{
		uint64		w = zen_word_read(&leaf[i]);

		Assert(zen_word_is_seen(w) || (w & ZEN_WORD_LOCK) || !*quiet);
	}
}
#endif

bool
zen_tidmap_leaf_is_full(ZenHTable *ht, uint64 tidno)
{
	Leaf		leaf = zen_tidmap_word(ht, tidno);
	volatile uint8 *quiet = zen_leaf_quiet_of(leaf);

	Assert(leaf != NULL && tidno % ZEN_LEAF_WORDS == 0);
	if (*quiet)
	{
#ifdef USE_ASSERT_CHECKING
		check_quiet(leaf, quiet);
#endif
		return true;
	}
	*quiet = 1;
	pg_memory_barrier();		/* who locks a word after the look finds its
								 * leaf quiet */
	if (all_are_seen(leaf))
		return true;
	*quiet = 0;
	return false;
}

void
zen_tidmap_set_free_blocks(ZenHTable *ht, const uint32 *blocks, uint32 n)
{
	TidMap	   *map = &maps[ht->idx];
	uint32	   *copy = NULL,
			   *old;
	uint32		old_capacity;

	if (n > 0)
	{
		copy = zen_arena_alloc(n * sizeof(uint32));
		if (copy == NULL)
			n = 0;				/* room stays unused until the next VACUUM */
		else
			memcpy(copy, blocks, n * sizeof(uint32));
	}
	for (uint32 i = 0; i < n; i++)
		Assert(blocks[i] < pg_atomic_read_u32(&map->nblocks));
	SpinLockAcquire(&map->lock);
	old = map->free_blocks;
	old_capacity = map->free_capacity;
	map->free_blocks = copy;
	map->nfree = map->free_capacity = n;
	SpinLockRelease(&map->lock);
	if (old)
		zen_arena_free(old, old_capacity * sizeof(uint32));
}

void
zen_tidmap_drop(ZenHTable *ht)
{
	TidMap	   *map = &maps[ht->idx];
	uint32		nleaves = pg_atomic_read_u32(&map->nleaves);

	ZenAssertNotInEpoch();
	/* first: no process gives back a block of this table from now on */
	SpinLockAcquire(&map->lock);
	map->generation++;
	SpinLockRelease(&map->lock);
	zen_tidmap_set_free_blocks(ht, NULL, 0);
	pg_atomic_write_u32(&map->nblocks, 0);
	pg_atomic_write_u32(&map->nleaves, 0);

	/*
	 * collectors that still follow an old queue item are inside: this waits
	 * for them
	 */
	zen_tablestat_drop(ht->idx);
	Assert(pg_atomic_read_u32(&map->nblocks) == 0);
	for (uint32 i = 0; i < nleaves; i++)
		zen_arena_free(map->dir[i], ZEN_LEAF_BYTES);
	for (uint32 i = 0; i < map->ndirs; i++)
		zen_arena_free(map->dirs[i], ((Size) FIRST_DIR << i) * sizeof(Leaf));
	map->dir = NULL;
	map->ndirs = 0;
}

/*
 * Make a table's list of free blocks longer than capacity, unless another process just has.  False when DRAM is full.
 */
static bool
grow_free_blocks(TidMap *map, uint32 capacity)
{
	uint32		wanted = Max(FIRST_FREE, 2 * capacity);
	uint32	   *unused = zen_arena_alloc(wanted * sizeof(uint32));

	if (unused == NULL)
		return false;
	SpinLockAcquire(&map->lock);
	if (map->free_capacity == capacity)
	{
		uint32	   *longer = unused;

		if (capacity > 0)
			memcpy(longer, map->free_blocks, map->nfree * sizeof(uint32));
		unused = map->free_blocks;
		map->free_blocks = longer;
		map->free_capacity = wanted;
		wanted = capacity;
	}
	SpinLockRelease(&map->lock);
	if (unused != NULL)
		zen_arena_free(unused, wanted * sizeof(uint32));
	return true;
}

/* The rest of a block is for the next process that needs one.  Without DRAM for the list it waits for VACUUM. */
static void
give_block_back(TidMap *map, MyBlock *mine)
{
	bool		settled;
	uint32		capacity;

	do
	{
		SpinLockAcquire(&map->lock);
		settled = mine->generation != map->generation;
		capacity = map->free_capacity;
		Assert(map->nfree <= map->free_capacity);
		if (!settled && map->nfree < capacity)
		{
			map->free_blocks[map->nfree++] = mine->block;
			settled = true;
		}
		SpinLockRelease(&map->lock);
	} while (!settled && grow_free_blocks(map, capacity));
}

/* By chunks: most processes have filled blocks of few tables, and each of them ends. */
void
zen_tidmap_detach(void)
{
	for (uint32 c = 0; c < lengthof(my_blocks); c++)
		for (uint32 i = 0; my_blocks[c] != NULL && i < CHUNK_TABLES; i++)
			if (my_blocks[c][i].next < ZEN_TIDS_PER_BLOCK)
				give_block_back(&maps[c * CHUNK_TABLES + i], &my_blocks[c][i]);
}

uint64
zen_tidmap_bytes(ZenHTable *ht)
{
	TidMap	   *map = &maps[ht->idx];
	uint64		bytes = (uint64) pg_atomic_read_u32(&map->nleaves) * ZEN_LEAF_BYTES;

	for (uint32 i = 0; i < map->ndirs; i++)
		bytes += ((uint64) FIRST_DIR << i) * sizeof(Leaf);
	return bytes;
}
