/*
 * mapsave.c -- the map of a stopped server, in a file.
 *
 * Saving.  Each word is reduced to what recovery's second pass and settle_table() would make of it: of a chain of
 * versions the newest committed one, of everything without a row DEAD, with its tombstone if that is still needed (R5).  Free is
 * each slot to which no word leads, and which no prepared transaction has; two words that lead to one slot, or anything else
 * that a scan could judge otherwise, and nothing is saved.
 *
 * Loading.  Directories are read as ever.  What follows is taken from the file, the words by all who recover, one piece at a time,
 * straight into the leaves of the maps.  Every part has a checksum, and one that does not match gives up the file.
 *
 *	header		4 KB, written last
 *	words		the leaves of each table's map, in pieces of up to 1 MB
 *	tail		tables; checksums of pieces; slots of prepared transactions; free-slot bits of each owned page
 */
#include "recovery/mapsave.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guc.h"
#include "cache/spillmap.h"
#include "miscadmin.h"
#include "nvm/pool.h"
#include "nvm/slotalloc.h"
#include "port/pg_crc32c.h"
#include "portability/instr_time.h"
#include "recovery/passes.h"
#include "storage/fd.h"
#include "txn/prepared.h"
#include "utils/memutils.h"

#define MAP_FILE		"zen.map"
#define MAP_MAGIC		UINT64CONST(0x3150414D4E455A)	/* "ZENMAP1" */
#define MAP_VERSION		2
#define HEADER_BYTES	4096
#define LEAF_BYTES		(ZEN_LEAF_WORDS * sizeof(ZenWord))
#define PIECE_LEAVES	256		/* 1 MB */

typedef struct MapHeader
{
	uint64		magic;
	uint32		version;
	uint32		crc;			/* CRC32C of the struct with this field 0 */
	uint64		uuid[2];		/* of the pool */
	uint64		generation;		/* of the run that has ended */
	uint64		npages;			/* of the pool */
	uint64		next_cts;		/* newest Tx-CTS handed out */
	uint64		tail_offset;
	uint64		tail_bytes;
	uint32		tail_crc;
	uint32		directories_crc;	/* of the pool from the Tx-CTS mark to the
									 * first data page */
	uint32		ntables;
	uint32		npieces;
	uint32		nprepared;
	uint32		pad;
	uint64		nbitmap_words;
} MapHeader;

StaticAssertDecl(sizeof(MapHeader) == 104, "header of the saved map");

typedef struct MapTable
{
	uint32		htable;
	uint32		nblocks;
	uint64		birth_cts;
	uint64		bytes_taken;
	uint64		rows;
} MapTable;

typedef struct MapPrepared
{
	uint64		slot;
	uint64		cts;
	uint32		region;
	uint32		pad;
} MapPrepared;

/* The tail as a structure: pointers into one block of memory. */
typedef struct Tail
{
	MapTable   *tables;
	uint32	   *piece_crcs;		/* an even number of places */
	MapPrepared *prepared;
	uint64	   *bitmaps;
} Tail;

struct ZenSavedMap
{
	MapHeader	header;
	Tail		tail;
};

/* What is being saved. */
typedef struct Image
{
	MapHeader	header;
	char	   *memory;			/* the tail */
	Tail		tail;
	uint32	   *first_word;		/* [npages]: place of a page's bits in
								 * tail.bitmaps */
	struct						/* the page that the last slot lay on, since
								 * neighbours mostly share one */
	{
		ZenSlot		begin,
					end;		/* its slots' addresses lie in [begin, end) */
		uint32		units;		/* of a slot, in ZEN_SLOT_UNIT */
		uint32		inverse;	/* 2^32 / units, rounded up */
		uint64	   *bits;
		bool		shared;
	}			page;
	uint32		next_prepared;
	int			fd;
	uint32		next_piece;
	char	   *piece;			/* PIECE_LEAVES leaves */
	const char *why;			/* what has gone wrong, NULL if nothing */
} Image;

/* ---------- both ways ---------- */

static void *
allocate(Size size)
{
	return MemoryContextAllocExtended(TopMemoryContext, Max(size, 1),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
}

static pg_crc32c
checksum(const void *data, Size size)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, size);
	FIN_CRC32C(crc);
	return crc;
}

static pg_crc32c
header_checksum(const MapHeader *header)
{
	MapHeader	copy = *header;

	copy.crc = 0;
	return checksum(&copy, sizeof(copy));
}

/* All that ties words and bits to this pool: whoever changes an owner, a table, a watermark or a descriptor changes it. */
static pg_crc32c
directories_checksum(void)
{
	return checksum(zen_pool.base + ZEN_OFF_CTS_MARK,
					(Size) zen_pool.first_data_page * ZEN_PAGE_SIZE - ZEN_OFF_CTS_MARK);
}

static Size
tail_size(const MapHeader *header)
{
	return header->ntables * sizeof(MapTable) + TYPEALIGN(2, header->npieces) * sizeof(uint32) +
		header->nprepared * sizeof(MapPrepared) + header->nbitmap_words * sizeof(uint64);
}

static Tail
tail_of(const MapHeader *header, char *memory)
{
	Tail		tail;

	tail.tables = (MapTable *) memory;
	tail.piece_crcs = (uint32 *) (tail.tables + header->ntables);
	tail.prepared = (MapPrepared *) (tail.piece_crcs + TYPEALIGN(2, header->npieces));
	tail.bitmaps = (uint64 *) (tail.prepared + header->nprepared);
	return tail;
}

static uint32
leaves_of(uint64 nblocks)
{
	return (uint32) ((nblocks * ZEN_TIDS_PER_BLOCK + ZEN_LEAF_WORDS - 1) / ZEN_LEAF_WORDS);
}

static uint32
pieces_of(uint64 nblocks)
{
	return (leaves_of(nblocks) + PIECE_LEAVES - 1) / PIECE_LEAVES;
}

static uint32
bitmap_words(uint32 pageno)
{
	return (zen_pages[pageno].nslots + 63) / 64;
}

static const char *
file_path(void)
{
	static char path[MAXPGPATH + 32];

	snprintf(path, sizeof(path), "%s/%s", DataDir, MAP_FILE);
	return path;
}

/* ---------- saving: the image ---------- */

static void
give_up(Image *image, const char *why)
{
	if (image->why == NULL)
		image->why = why;
}

/* Turn to the page of a slot; false if there is none. */
static bool
turn_page(Image *image, ZenSlot slot)
{
	uint32		p = zen_slot_page(slot);

	if (slot >= zen_pool.size / ZEN_SLOT_UNIT || p < zen_pool.first_data_page || !zen_pages[p].owned)
		return false;
	image->page.units = (uint32) (zen_slot_size(slot) / ZEN_SLOT_UNIT);
	image->page.inverse = (uint32) ((UINT64CONST(1) << 32) / image->page.units + 1);
	image->page.begin = zen_page_slot(p, 0);
	image->page.end = image->page.begin + zen_pages[p].nslots * image->page.units;
	image->page.bits = &image->tail.bitmaps[image->first_word[p]];
	image->page.shared = zen_pages[p].owner.htable == 0;
	return slot < image->page.end;
}

/* A word or a prepared transaction has this slot. */
static void
claim(Image *image, ZenSlot slot)
{
	uint32		offset,
				n;
	uint64		bit;

	if ((slot < image->page.begin || slot >= image->page.end) && !turn_page(image, slot))
	{
		give_up(image, "a row has no place in the pool");
		return;
	}
	/* exact, as the offset is below 2^12 */
	offset = (uint32) (slot - image->page.begin);
	n = (uint32) (((uint64) offset * image->page.inverse) >> 32);
	bit = UINT64CONST(1) << (n % 64);
	if (n * image->page.units != offset || (image->page.bits[n / 64] & bit) == 0)
		give_up(image, "two rows have one place in the pool");
	image->page.bits[n / 64] &= ~bit;
}

static bool
is_prepared(uint32 region, uint64 cts)
{
	return zen_regions[region].doubt_kind != ZEN_DOUBT_NONE && zen_regions[region].doubt_cts == cts;
}

/* A word without a row: its tombstone is needed as long as older versions are on the medium (R5). */
static uint64
without_row(Image *image, uint64 w, ZenSlot tombstone)
{
	if ((w & ZEN_WORD_STALE) == 0)
		tombstone = InvalidZenSlot;
	else if (tombstone == InvalidZenSlot)
		give_up(image, "a deleted row has lost its tombstone");
	return zen_word_with(w, ZEN_WORD_DEAD, tombstone);
}

/* Is what NVM holds of a version what a scan would take for a version of this row? */
static bool
names_row(const ZenVersion *v, uint32 flags, const ZenHTable *ht, uint64 tidno)
{
	ZenTupleHeader h;

	if (!zen_page_holds(v->slot))
		return false;
	h = zen_tuple_header(v->slot);
	return zen_word1_htable(h.word1) == ht->idx && zen_word1_tidno(h.word1) == tidno &&
		((h.word1 & ZEN_DELETED) != 0) == ((flags & ZEN_V_TOMBSTONE) != 0) && zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK);
}

/*
 * Versions in DRAM: what a scan knows of them are their slots.  The newest committed one is the row (R3), older ones with data are
 * stale (R5), those of prepared transactions wait.  A version without a slot is nowhere.
 */
static uint64
reduce_chain(Image *image, ZenHTable *ht, uint64 tidno, ZenWord *word, uint64 w)
{
	ZenSpilledChain space;
	ZenVersion *newest = NULL;

	for (ZenVersion *v = zen_word_chain(ht, tidno, word, &w, &space); v != NULL; v = v->older)
	{
		uint32		flags = zen_version_flags(v);
		uint32		region;
		uint64		cts;

		if (v->slot == InvalidZenSlot)
			continue;
		if (!names_row(v, flags, ht, tidno))
		{
			give_up(image, "a cached row differs from the pool");
			return w;
		}
		region = zen_pages[zen_slot_page(v->slot)].owner.region;
		cts = zen_tuple_header(v->slot).word0 & ZEN_CTS_MASK;
		if (is_prepared(region, cts))
			continue;
		if (cts > zen_regions[region].last_cts)
			give_up(image, "the end of a transaction is not settled");
		if (newest == NULL)
			newest = v;
		else if (!(flags & ZEN_V_TOMBSTONE))
			w = zen_word_stale_inc(w);
	}
	if (newest == NULL || (zen_version_flags(newest) & ZEN_V_TOMBSTONE))
		return without_row(image, w, newest ? newest->slot : InvalidZenSlot);
	return zen_word_with(w, ZEN_WORD_NVM, newest->slot);
}

/* The word as recovery by a scan would leave it. */
static uint64
reduce_word(Image *image, ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	uint64		w = pg_atomic_read_u64(word);

	if (w & ZEN_WORD_LOCK)
		give_up(image, "a row is locked by a process that is gone");
	switch (zen_word_state(w))
	{
		case ZEN_WORD_NVM:
			return w;
		case ZEN_WORD_UNUSED:
		case ZEN_WORD_DEAD:
		case ZEN_WORD_DYING:
			return without_row(image, w, zen_word_ref(w));
		case ZEN_WORD_ENTRY:
		case ZEN_WORD_SPILLED:
			return reduce_chain(image, ht, tidno, word, w);
		default:
			give_up(image, "a row is in a state that is not saved");
			return w;
	}
}

/* Reduce the words of a table from first on into out; the table's last leaf ends with zeroes. */
static void
reduce_leaves(Image *image, MapTable *table, uint32 first_leaf, uint32 nleaves, uint64 *out)
{
	ZenHTable  *ht = &zen_htables[table->htable];
	ZenWord    *leaf = NULL;
	uint64		begin = (uint64) first_leaf * ZEN_LEAF_WORDS;
	uint64		end = Min(begin + (uint64) nleaves * ZEN_LEAF_WORDS, (uint64) table->nblocks * ZEN_TIDS_PER_BLOCK);

	for (uint64 t = begin; t < end && image->why == NULL; t++)
	{
		ZenSlot		slot;
		uint64		w;

		if (t % ZEN_LEAF_WORDS == 0)
			leaf = zen_tidmap_word(ht, t);
		w = reduce_word(image, ht, t, &leaf[t % ZEN_LEAF_WORDS]);
		out[t - begin] = w;
		slot = zen_word_ref(w);
		if (slot == InvalidZenSlot || image->why != NULL)
			continue;
		claim(image, slot);
		table->bytes_taken = image->page.shared ? table->bytes_taken + image->page.units * ZEN_SLOT_UNIT :
			Max(table->bytes_taken, ZEN_PRIVATE_BYTES);
		table->rows += zen_word_state(w) == ZEN_WORD_NVM;
	}
	memset(out + (end - begin), 0, (Size) nleaves * LEAF_BYTES - (end - begin) * sizeof(uint64));
}

static void
count_prepared(uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg)
{
	((MapHeader *) arg)->nprepared++;
}

/*
 * A slot of a prepared transaction.  The header that it had before is gone from the medium; to count it down is left to the end
 * of the transaction, which after a restart knows nothing of it.
 */
static void
save_prepared(uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg)
{
	Image	   *image = arg;
	MapPrepared *p = &image->tail.prepared[image->next_prepared++];
	ZenHTable  *ht = &zen_htables[zen_word1_htable(former.word1)];
	ZenWord    *word;

	p->slot = slot;
	p->region = region;
	p->cts = zen_regions[region].doubt_cts;
	claim(image, slot);
	if ((former.word0 & ZEN_CTS_MASK) == 0 || (former.word1 & ZEN_DELETED) || ht->idx == 0 ||
		!zen_htable_owns(ht, former.word0 & ZEN_CTS_MASK))
		return;
	word = zen_tidmap_word(ht, zen_word1_tidno(former.word1));
	if (word != NULL)
		pg_atomic_write_u64(word, zen_word_stale_dec(pg_atomic_read_u64(word)));
}

/* What there is to be saved, in numbers. */
static void
measure(Image *image)
{
	MapHeader  *h = &image->header;
	ZenSuperblock super;

	zen_pool_superblock(&super);
	h->magic = MAP_MAGIC;
	h->version = MAP_VERSION;
	memcpy(h->uuid, super.uuid, sizeof(h->uuid));
	h->generation = super.generation;
	h->npages = zen_pool.npages;
	h->next_cts = zen_cts_now();
	h->directories_crc = directories_checksum();
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
		{
			h->ntables++;
			h->npieces += pieces_of(zen_tidmap_nblocks(&zen_htables[i]));
		}
	zen_prepared_walk(count_prepared, h);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
	{
		if (!zen_page_agrees(p))
			give_up(image, "the page directory differs from what is known of a page");
		if (zen_pages[p].owned)
			h->nbitmap_words += bitmap_words(p);
	}
	h->tail_offset = HEADER_BYTES;
	h->tail_bytes = tail_size(h);
}

static int
compare_prepared(const void *a, const void *b)
{
	uint64		left = ((const MapPrepared *) a)->slot,
				right = ((const MapPrepared *) b)->slot;

	return left < right ? -1 : left > right;
}

/* All slots are free but those of prepared transactions, which are listed in the order in which a scan meets them. */
static void
begin_bitmaps(Image *image)
{
	uint32		next = 0;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
	{
		if (!zen_pages[p].owned)
			continue;
		image->first_word[p] = next;
		for (uint32 n = zen_pages[p].nslots; n > 0; n -= Min(n, 64))
			image->tail.bitmaps[next++] = n >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << n) - 1;
	}
	zen_prepared_walk(save_prepared, image);
	qsort(image->tail.prepared, image->next_prepared, sizeof(MapPrepared), compare_prepared);
}

/* ---------- saving: the file ---------- */

static void
put(Image *image, const void *data, Size size, uint64 offset)
{
	while (size > 0 && image->why == NULL)
	{
		ssize_t		n = pg_pwrite(image->fd, data, size, offset);

		if (n <= 0 && errno != EINTR)
			give_up(image, n == 0 ? strerror(ENOSPC) : strerror(errno));
		if (n <= 0)
			continue;
		data = (const char *) data + n;
		size -= n;
		offset += n;
	}
}

static void
put_table(Image *image, ZenHTable *ht, MapTable *table)
{
	uint32		nleaves;

	table->htable = ht->idx;
	table->nblocks = (uint32) zen_tidmap_nblocks(ht);
	table->birth_cts = ht->birth_cts;
	nleaves = leaves_of(table->nblocks);
	for (uint32 first = 0; first < nleaves && image->why == NULL; first += PIECE_LEAVES)
	{
		uint32		n = Min(PIECE_LEAVES, nleaves - first);

		reduce_leaves(image, table, first, n, (uint64 *) image->piece);
		image->tail.piece_crcs[image->next_piece++] = checksum(image->piece, n * LEAF_BYTES);
		put(image, image->piece, n * LEAF_BYTES, image->header.tail_offset);
		image->header.tail_offset += n * LEAF_BYTES;
	}
}

/* The header comes last: a file that was not finished has none. */
static void
put_all(Image *image)
{
	MapTable   *table = image->tail.tables;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES && image->why == NULL; i++)
		if (zen_htables[i].in_use)
			put_table(image, &zen_htables[i], table++);
	image->header.tail_crc = checksum(image->memory, image->header.tail_bytes);
	put(image, image->memory, image->header.tail_bytes, image->header.tail_offset);
	memset(image->piece, 0, HEADER_BYTES);
	image->header.crc = header_checksum(&image->header);
	memcpy(image->piece, &image->header, sizeof(MapHeader));
	put(image, image->piece, HEADER_BYTES, 0);
	if (image->why == NULL && pg_fsync(image->fd) != 0)
		give_up(image, strerror(errno));
}

static void
write_file(Image *image)
{
	const char *path = file_path();

	(void) unlink(path);
	image->fd = BasicOpenFile(path, O_WRONLY | O_CREAT | O_EXCL | PG_BINARY);
	if (image->fd < 0)
	{
		give_up(image, strerror(errno));
		return;
	}
	put_all(image);
	if (close(image->fd) != 0)
		give_up(image, strerror(errno));
	if (image->why != NULL)
		(void) unlink(path);
	else
		(void) fsync_fname_ext(DataDir, true, true, LOG);
}

static double
ms_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_MILLISEC(now);
}

void
zen_savedmap_save(void)
{
	Image		image = {0};
	instr_time	start;

	if (!zen_save_map)
		return;
	INSTR_TIME_SET_CURRENT(start);
	/* what is wrong is to be found, and told, at the next start as well */
	if (pg_atomic_read_u64(&zen_recovery->damaged) > 0)
		give_up(&image, "the pool is damaged");
	measure(&image);
	image.memory = allocate(image.header.tail_bytes);
	image.first_word = allocate(zen_pool.npages * sizeof(uint32));
	image.piece = allocate(PIECE_LEAVES * LEAF_BYTES);
	if (image.memory == NULL || image.first_word == NULL || image.piece == NULL)
		give_up(&image, "out of memory");
	if (image.why == NULL)
	{
		image.tail = tail_of(&image.header, image.memory);
		begin_bitmaps(&image);
	}
	if (image.why == NULL)
		write_file(&image);
	if (image.why != NULL)
		ereport(LOG,
				(errmsg("zen has not saved its map: %s", image.why),
				 errdetail("The next start scans the pool.")));
	else
		ereport(LOG,
				(errmsg("zen has saved its map: " UINT64_FORMAT " kB in %.0f ms",
						(image.header.tail_offset + image.header.tail_bytes) / 1024, ms_since(start))));
}

/* ---------- loading ---------- */

/* Read size bytes at offset; false if there are not so many, or on an error. */
static bool
get(int fd, void *data, Size size, uint64 offset)
{
	while (size > 0)
	{
		ssize_t		n = pg_pread(fd, data, size, offset);

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		if (n < 0)
			continue;
		data = (char *) data + n;
		size -= n;
		offset += n;
	}
	return true;
}

/* Is this a header, and one of the stop before this start? */
static const char *
header_fault(const MapHeader *header, off_t file_size)
{
	ZenSuperblock super;

	zen_pool_superblock(&super);
	if (header->magic != MAP_MAGIC)
		return "it is not complete";
	if (header->version != MAP_VERSION)
		return "it is of another format version";
	if (header->crc != header_checksum(header))
		return "its header is damaged";
	if (header->uuid[0] != super.uuid[0] || header->uuid[1] != super.uuid[1])
		return "it belongs to another pool";
	if (header->generation + 1 != super.generation)
		return "it is not of the last stop";
	if (header->npages != zen_pool.npages || header->tail_bytes != tail_size(header) ||
		header->tail_offset + header->tail_bytes != (uint64) file_size)
		return "its size is wrong";
	if (header->directories_crc != directories_checksum())
		return "the pool has changed since";
	return NULL;
}

static const char *
read_tail(int fd, ZenSavedMap *map)
{
	MapHeader  *h = &map->header;
	char	   *memory = allocate(h->tail_bytes);

	if (memory == NULL)
		return "out of memory";
	if (!get(fd, memory, h->tail_bytes, h->tail_offset))
		return "it cannot be read";
	if (checksum(memory, h->tail_bytes) != h->tail_crc)
		return "it is damaged";
	map->tail = tail_of(h, memory);
	return NULL;
}

ZenSavedMap *
zen_savedmap_open(const char **why)
{
	ZenSavedMap *map;
	struct stat st;
	int			fd;

	*why = "zen.save_map is off";
	if (!zen_save_map)
		return NULL;
	*why = "out of memory";
	map = allocate(sizeof(ZenSavedMap));
	if (map == NULL)
		return NULL;
	fd = BasicOpenFile(file_path(), O_RDONLY | PG_BINARY);
	if (fd < 0)
		*why = errno == ENOENT ? "there is none" : strerror(errno);
	else if (fstat(fd, &st) != 0 || !get(fd, &map->header, sizeof(MapHeader), 0))
		*why = "it is not complete";
	else
		*why = header_fault(&map->header, st.st_size);
	if (*why == NULL)
		*why = read_tail(fd, map);
	if (fd >= 0)
		close(fd);
	return *why == NULL ? map : NULL;
}

/* Regions in doubt are those whose slots are listed, and their transactions are still prepared. */
static bool
doubts_fit(const ZenSavedMap *map)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		if (zen_region_doubt_written(r) && zen_recovery->fates[r].prepared_cts == 0)
			return false;
	for (uint32 i = 0; i < map->header.nprepared; i++)
	{
		MapPrepared *p = &map->tail.prepared[i];

		if (p->region >= ZEN_MAX_REGIONS || p->cts == 0 || zen_recovery->fates[p->region].prepared_cts != p->cts)
			return false;
	}
	return true;
}

/* Tables are those that were saved. */
static bool
tables_fit(const ZenSavedMap *map)
{
	uint32		n = 0;
	uint32		npieces = 0;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		n += zen_htables[i].in_use || zen_htables[i].damaged;
	if (n != map->header.ntables)
		return false;
	for (uint32 i = 0; i < n; i++)
	{
		MapTable   *t = &map->tail.tables[i];
		uint64		saved_blocks;

		if (t->htable >= ZEN_MAX_HTABLES || !zen_htables[t->htable].in_use ||
			zen_htables[t->htable].birth_cts != t->birth_cts ||
			!zen_htable_saved_blocks(&zen_htables[t->htable], &saved_blocks) || saved_blocks != t->nblocks)
			return false;
		npieces += pieces_of(t->nblocks);
	}
	return npieces == map->header.npieces;
}

/* Pages and their classes are those that were saved. */
static bool
pages_fit(const ZenSavedMap *map)
{
	uint64		n = 0;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
	{
		if (!zen_pages[p].owned)
			continue;
		if (zen_pages[p].lost)
			return false;
		n += bitmap_words(p);
	}
	return n == map->header.nbitmap_words;
}

/* The pieces of a table, in the order in which put_table() has written them. */
static ZenMapPiece *
list_pieces(const MapTable *table, ZenMapPiece *piece, uint64 *offset)
{
	uint32		nleaves = leaves_of(table->nblocks);

	for (uint32 first = 0; first < nleaves; first += PIECE_LEAVES, piece++)
	{
		piece->htable = table->htable;
		piece->first_leaf = first;
		piece->nleaves = Min(PIECE_LEAVES, nleaves - first);
		piece->offset = *offset;
		*offset += piece->nleaves * LEAF_BYTES;
	}
	return piece;
}

static void
close_map(ZenSavedMap *map)
{
	pfree(map->tail.tables);
	pfree(map);
}

const char *
zen_savedmap_begin(ZenSavedMap *map)
{
	const MapHeader *h = &map->header;
	ZenMapPiece *piece;
	uint64		offset = HEADER_BYTES;

	if (!tables_fit(map) || !doubts_fit(map))
	{
		close_map(map);
		return "tables or transactions have changed since";
	}
	piece = zen_recovery->pieces = zen_arena_alloc_or_error(Max(h->npieces, 1) * sizeof(ZenMapPiece));
	for (uint32 i = 0; i < h->ntables; i++)
	{
		zen_tidmap_reserve(&zen_htables[map->tail.tables[i].htable], map->tail.tables[i].nblocks);
		piece = list_pieces(&map->tail.tables[i], piece, &offset);
	}
	for (uint32 i = 0; i < h->npieces; i++)
		zen_recovery->pieces[i].crc = map->tail.piece_crcs[i];
	zen_recovery->npieces = h->npieces;
	return NULL;
}

void
zen_savedmap_load(uint32 number)
{
	const ZenMapPiece *piece = &zen_recovery->pieces[number];
	ZenHTable  *ht = &zen_htables[piece->htable];
	int			fd = BasicOpenFile(file_path(), O_RDONLY | PG_BINARY);
	bool		sound = fd >= 0;
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	for (uint32 i = 0; i < piece->nleaves && sound; i++)
	{
		ZenWord    *leaf = zen_tidmap_word(ht, (uint64) (piece->first_leaf + i) * ZEN_LEAF_WORDS);

		sound = get(fd, leaf, LEAF_BYTES, piece->offset + i * LEAF_BYTES);
		COMP_CRC32C(crc, leaf, LEAF_BYTES);
	}
	FIN_CRC32C(crc);
	if (fd >= 0)
		close(fd);
	if (!sound || crc != piece->crc)
		pg_atomic_fetch_add_u32(&zen_recovery->bad_pieces, 1);
}

static void
free_pieces(void)
{
	zen_arena_free(zen_recovery->pieces, Max(zen_recovery->npieces, 1) * sizeof(ZenMapPiece));
	zen_recovery->pieces = NULL;
	zen_recovery->npieces = 0;
}

static void
raise_largest_cts(uint64 cts)
{
	if (pg_atomic_read_u64(&zen_recovery->largest_cts) < cts)
		pg_atomic_write_u64(&zen_recovery->largest_cts, cts);
}

static void
abandon(ZenSavedMap *map)
{
	for (uint32 i = 0; i < map->header.ntables; i++)
		zen_tidmap_drop(&zen_htables[map->tail.tables[i].htable]);
	free_pieces();
	close_map(map);
}

const char *
zen_savedmap_finish(ZenSavedMap *map)
{
	const uint64 *bits = map->tail.bitmaps;

	if (pg_atomic_read_u32(&zen_recovery->bad_pieces) > 0 || !pages_fit(map))
	{
		abandon(map);
		return "it is damaged";
	}
	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
		if (zen_pages[p].owned)
		{
			zen_page_set_free(p, bits);
			bits += bitmap_words(p);
		}
	for (uint32 i = 0; i < map->header.ntables; i++)
	{
		MapTable   *t = &map->tail.tables[i];

		if (pg_atomic_read_u32(&zen_htables[t->htable].reindex) != 0)
			continue;			/* settle_table() counts */
		zen_htables[t->htable].bytes_taken = t->bytes_taken;
		pg_atomic_fetch_add_u64(&zen_recovery->rows, t->rows);
	}
	for (uint32 i = 0; i < map->header.nprepared; i++)
		zen_prepared_found(map->tail.prepared[i].region, map->tail.prepared[i].slot);
	raise_largest_cts(map->header.next_cts);
	free_pieces();
	close_map(map);
	return NULL;
}

void
zen_savedmap_remove(void)
{
	if (unlink(file_path()) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", file_path())));
}
