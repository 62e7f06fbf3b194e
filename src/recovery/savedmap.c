/*
 * savedmap.c -- the map of a stopped server: written into zen.map, and loaded from it at the next start.
 *
 * src/recovery/README, "The saved map", says to what each word is reduced, when nothing is saved, and why a stale file
 * is never taken.  If two words lead to one slot, or if a scan could judge anything differently, nothing is saved.
 */
#include "recovery/savedmap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/guc.h"
#include "cache/spillmap.h"
#include "nvm/delta.h"
#include "nvm/region.h"
#include "nvm/slotalloc.h"
#include "recovery/recstate.h"
#include "storage/fd.h"
#include "txn/prepared.h"

/* What is being saved. */
typedef struct Image
{
	ZenMapHeader header;
	char	   *memory;			/* the tail */
	ZenMapTail	tail;
	uint32	   *first_word;		/* [npages]: its bits in tail.bitmaps */
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
	char	   *piece;			/* ZEN_MAP_PIECE_LEAVES leaves */
	const char *why;			/* what has gone wrong, NULL if nothing */
} Image;

/* ---------- saving: the image ---------- */

static void
map_give_up(Image *image, const char *why)
{
	if (image->why == NULL)
		image->why = why;
}

/* Turn to the page of a slot; false if there is none. */
static bool
turn_page(Image *image, ZenSlot slot)
{
	uint32		p = zen_slot_page(slot);

	if (slot >= zen_pool_pages() * (ZEN_PAGE_SIZE / ZEN_SLOT_UNIT) || !zen_page_is_data(p) || !zen_pages[p].owned)
		return false;
	image->page.units = (uint32) (zen_slot_size(slot) / ZEN_SLOT_UNIT);
	image->page.inverse = (uint32) ((UINT64CONST(1) << 32) / image->page.units + 1);
	image->page.begin = zen_page_slot(p, 0);
	image->page.end = image->page.begin + zen_pages[p].nslots * image->page.units;
	image->page.bits = &image->tail.bitmaps[image->first_word[p]];
	Assert(image->page.units > 0 && image->first_word[p] < image->header.nbitmap_words);
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
		map_give_up(image, "a row has no place in the pool");
		return;
	}
	/* exact, as the offset is below 2^12 */
	offset = (uint32) (slot - image->page.begin);
	n = (uint32) (((uint64) offset * image->page.inverse) >> 32);
	Assert(n == offset / image->page.units && n < ZEN_PAGE_SIZE / ZEN_SLOT_UNIT);
	bit = UINT64CONST(1) << (n % 64);
	if (n * image->page.units != offset || (image->page.bits[n / 64] & bit) == 0)
		map_give_up(image, "two rows have one place in the pool");
	image->page.bits[n / 64] &= ~bit;
}

/* R22: the base of the version that a word leads to is in use, too. */
static void
claim_base(Image *image, ZenSlot slot)
{
	ZenSlot		base = zen_delta_base(slot);

	if (base == InvalidZenSlot || ZEN_FAULT(R22_NOT_SAVED))
		return;
	claim(image, base);
	/* as it was turned to for the row itself */
	(void) turn_page(image, slot);
}

static bool
in_prepared(uint32 region, uint64 cts)
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
		map_give_up(image, "a deleted row has lost its tombstone");
	return zen_word_with(w, ZEN_WORD_DEAD, tombstone);
}

/* Would a scan take the slot of this version for a version of this row? */
static bool
slot_names_row(const ZenVersion *v, uint32 flags, const ZenHTable *ht, uint64 tidno)
{
	ZenTupleHeader h;

	if (!zen_page_holds(v->slot))
		return false;
	h = zen_tuple_header(v->slot);
	return zen_word1_htable(h.word1) == ht->idx && zen_word1_tidno(h.word1) == tidno &&
		((h.word1 & ZEN_DELETED) != 0) == ((flags & ZEN_V_TOMBSTONE) != 0) &&
		zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK);
}

/*
 * Versions in DRAM: a scan knows only their slots.  The newest committed one is the row (R3), older ones with data are
 * stale (R5), those of prepared transactions wait.  A version without a slot counts for nothing.
 */
static uint64
reduce_chain(Image *image, ZenHTable *ht, uint64 tidno, ZenWord *word, uint64 w)
{
	ZenSpilledChain space;
	ZenVersion *newest = NULL;

	for (ZenVersion *v = zen_spillmap_word_chain(ht, tidno, word, &w, &space); v != NULL; v = v->older)
	{
		uint32		flags = zen_version_flags(v);
		uint32		region;
		uint64		cts;

		if (v->slot == InvalidZenSlot)
			continue;
		if (!slot_names_row(v, flags, ht, tidno))
		{
			map_give_up(image, "a cached row differs from the pool");
			return w;
		}
		region = zen_pages[zen_slot_page(v->slot)].owner.region;
		cts = zen_tuple_header(v->slot).word0 & ZEN_CTS_MASK;
		if (in_prepared(region, cts))
			continue;
		if (cts > zen_regions[region].last_cts)
			map_give_up(image, "the end of a transaction is not settled");
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
		map_give_up(image, "a row is locked by a process that is gone");
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
			map_give_up(image, "a row is in a state that is not saved");
			return w;
	}
}

/* Reduce the words of a table from first on into out; the table's last leaf ends with zeroes. */
static void
reduce_leaves(Image *image, ZenMapTable *table, uint32 first_leaf, uint32 nleaves, uint64 *out)
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
		Assert(leaf != NULL);
		w = reduce_word(image, ht, t, &leaf[t % ZEN_LEAF_WORDS]);
		Assert(image->why != NULL || (w & ZEN_WORD_LOCK) == 0);
		Assert(image->why != NULL || zen_word_state(w) == ZEN_WORD_NVM || zen_word_state(w) == ZEN_WORD_DEAD);
		out[t - begin] = w;
		slot = zen_word_ref(w);
		if (slot == InvalidZenSlot || image->why != NULL)
			continue;
		claim(image, slot);
		if (unlikely(image->header.ndelta_words > 0))
			claim_base(image, slot);
		table->bytes_taken = image->page.shared ? table->bytes_taken + image->page.units * ZEN_SLOT_UNIT :
			Max(table->bytes_taken, ZEN_PRIVATE_BYTES);
		table->rows += zen_word_state(w) == ZEN_WORD_NVM;
	}
	memset(out + (end - begin), 0, (Size) nleaves * ZEN_MAP_LEAF_BYTES - (end - begin) * sizeof(uint64));
}

static void
count_prepared(uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg)
{
	((ZenMapHeader *) arg)->nprepared++;
}

/*
 * A slot of a prepared transaction.  The header that it had before is gone from the medium.  Otherwise the end of the
 * transaction would take it from the count of stale headers; after a restart the transaction knows nothing of it.  So
 * the count goes down here.
 */
static void
save_prepared(uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg)
{
	Image	   *image = arg;
	ZenMapPrepared *p = &image->tail.prepared[image->next_prepared++];
	ZenHTable  *ht = &zen_htables[zen_word1_htable(former.word1)];
	ZenWord    *word;

	Assert(image->next_prepared <= image->header.nprepared && in_prepared(region, zen_regions[region].doubt_cts));
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

/* The newest committed version of a row that is in NVM, NULL if there is none. */
static ZenVersion *
newest_committed(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSpilledChain *space)
{
	uint64		w;

	for (ZenVersion *v = zen_spillmap_word_chain(ht, tidno, word, &w, space); v != NULL; v = v->older)
		if (v->slot != InvalidZenSlot && !in_prepared(zen_pages[zen_slot_page(v->slot)].owner.region,
													  zen_tuple_header(v->slot).word0 & ZEN_CTS_MASK))
			return v;
	return NULL;
}

/*
 * The tombstones that lead from a TID where a prepared transaction has locked a row to where it is now are kept, though
 * no older version is on the medium: each counts as one, as after a scan (zen_prepared_keep_links).
 */
static void
map_keep_links(ZenHTable *ht, uint64 tidno)
{
	for (;;)
	{
		ZenSpilledChain space;
		ZenWord    *word = zen_tidmap_word(ht, tidno);
		ZenVersion *v = word != NULL ? newest_committed(ht, tidno, word, &space) : NULL;
		uint64		link;

		if (v == NULL || !(zen_version_flags(v) & ZEN_V_TOMBSTONE))
			return;
		link = zen_tuple_link(v->slot, zen_slot_size(v->slot));
		if (!zen_link_leads_on(link))
			return;
		pg_atomic_write_u64(word, zen_word_stale_inc(pg_atomic_read_u64(word)));
		tidno = zen_word1_tidno(link);
	}
}

/* What there is to be saved, in numbers. */
static void
map_measure(Image *image)
{
	ZenMapHeader *h = &image->header;
	ZenSuperblock super;

	zen_pool_superblock(0, &super);
	Assert(super.clean == 1);
	h->magic = ZEN_MAP_MAGIC;
	h->version = ZEN_MAP_VERSION;
	memcpy(h->uuid, super.uuid, sizeof(h->uuid));
	h->generation = super.generation;
	h->npages = zen_pool_pages();
	h->next_cts = zen_cts_now();
	h->directories_crc = zen_savedmap_directories_crc();
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
		{
			h->ntables++;
			h->npieces += zen_savedmap_pieces(zen_tidmap_nblocks(&zen_htables[i]));
		}
	zen_prepared_walk(count_prepared, NULL, h);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		if (zen_page_is_data(p) && !zen_page_agrees(p))
			map_give_up(image, "the page directory differs from what is known of a page");
		if (zen_pages[p].owned)
			h->nbitmap_words += zen_savedmap_bitmap_words(p);
		if (zen_pages[p].owned && zen_pages[p].deltas)
			h->ndelta_words = (zen_pool_pages() + 63) / 64;
	}
	h->tail_offset = ZEN_MAP_HEADER_BYTES;
	h->tail_bytes = zen_savedmap_tail_size(h);
}

static int
compare_prepared(const void *a, const void *b)
{
	uint64		left = ((const ZenMapPrepared *) a)->slot,
				right = ((const ZenMapPrepared *) b)->slot;

	return left < right ? -1 : left > right;
}

/* All slots are free but those of prepared transactions, which are listed in the order in which a scan meets them. */
static void
begin_bitmaps(Image *image)
{
	uint32		next = 0;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		if (!zen_pages[p].owned)
			continue;
		image->first_word[p] = next;
		if (zen_pages[p].deltas)
			image->tail.deltas[p / 64] |= UINT64CONST(1) << (p % 64);
		for (uint32 n = zen_pages[p].nslots; n > 0; n -= Min(n, 64))
			image->tail.bitmaps[next++] = n >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << n) - 1;
	}
	/* map_measure() has counted them */
	Assert(next == image->header.nbitmap_words);
	zen_prepared_walk(save_prepared, map_keep_links, image);
	Assert(image->next_prepared == image->header.nprepared);
	qsort(image->tail.prepared, image->next_prepared, sizeof(ZenMapPrepared), compare_prepared);
}

/* ---------- saving: the file ---------- */

bool
zen_savedmap_put(int fd, const void *data, Size size, uint64 offset)
{
	while (size > 0)
	{
		ssize_t		n = pg_pwrite(fd, data, size, offset);

		if (n == 0)
			errno = ENOSPC;
		if (n <= 0 && errno != EINTR)
			return false;
		if (n <= 0)
			continue;
		data = (const char *) data + n;
		size -= n;
		offset += n;
	}
	return true;
}

static void
map_put(Image *image, const void *data, Size size, uint64 offset)
{
	Assert(image->fd >= 0);
	if (image->why == NULL && !zen_savedmap_put(image->fd, data, size, offset))
		map_give_up(image, strerror(errno));
}

static void
put_table(Image *image, ZenHTable *ht, ZenMapTable *table)
{
	uint32		nleaves;

	table->htable = ht->idx;
	table->nblocks = (uint32) zen_tidmap_nblocks(ht);
	table->birth_cts = ht->birth_cts;
	nleaves = zen_savedmap_leaves(table->nblocks);
	for (uint32 first = 0; first < nleaves && image->why == NULL; first += ZEN_MAP_PIECE_LEAVES)
	{
		uint32		n = Min(ZEN_MAP_PIECE_LEAVES, nleaves - first);

		Assert(image->next_piece < image->header.npieces);
		reduce_leaves(image, table, first, n, (uint64 *) image->piece);
		image->tail.piece_crcs[image->next_piece++] = zen_savedmap_crc(image->piece, n * ZEN_MAP_LEAF_BYTES);
		map_put(image, image->piece, n * ZEN_MAP_LEAF_BYTES, image->header.tail_offset);
		image->header.tail_offset += n * ZEN_MAP_LEAF_BYTES;
	}
}

/* The header comes last: a file that was not finished has none. */
static void
put_all(Image *image)
{
	ZenMapTable *table = image->tail.tables;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES && image->why == NULL; i++)
		if (zen_htables[i].in_use)
			put_table(image, &zen_htables[i], table++);
	Assert(image->why != NULL || image->next_piece == image->header.npieces);
	Assert(image->why != NULL || table == image->tail.tables + image->header.ntables);
	image->header.tail_crc = zen_savedmap_crc(image->memory, image->header.tail_bytes);
	map_put(image, image->memory, image->header.tail_bytes, image->header.tail_offset);
	memset(image->piece, 0, ZEN_MAP_HEADER_BYTES);
	image->header.crc = zen_savedmap_header_crc(&image->header);
	memcpy(image->piece, &image->header, sizeof(ZenMapHeader));
	map_put(image, image->piece, ZEN_MAP_HEADER_BYTES, 0);
	if (image->why == NULL && pg_fsync(image->fd) != 0)
		map_give_up(image, strerror(errno));
}

static void
write_file(Image *image)
{
	const char *path = zen_savedmap_path();

	(void) unlink(path);
	image->fd = BasicOpenFile(path, O_WRONLY | O_CREAT | O_EXCL | PG_BINARY);
	if (image->fd < 0)
	{
		map_give_up(image, strerror(errno));
		return;
	}
	put_all(image);
	if (close(image->fd) != 0)
		map_give_up(image, strerror(errno));
	if (image->why != NULL)
		(void) unlink(path);
	else
		(void) fsync_fname_ext(DataDir, true, true, LOG);
}

/* All that regions have committed is persistent in their watermarks (R13). */
static void
check_watermarks(void)
{
#ifdef USE_ASSERT_CHECKING
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		Assert(zen_regions[r].watermark >= zen_regions[r].last_cts);
#endif
}

void
zen_savedmap_write(void)
{
	Image		image = {0};
	instr_time	start;

	if (!zen_save_map)
		return;
	Assert(!IsUnderPostmaster && !zen_pool.scratch);
	Assert(pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_READY);
	check_watermarks();
	INSTR_TIME_SET_CURRENT(start);
	/* what is wrong is to be found, and told, at the next start as well */
	if (pg_atomic_read_u64(&zen_recovery->damaged) > 0)
		map_give_up(&image, "the pool is damaged");
	map_measure(&image);
	image.memory = zen_savedmap_alloc(image.header.tail_bytes);
	image.first_word = zen_savedmap_alloc(zen_pool_pages() * sizeof(uint32));
	image.piece = zen_savedmap_alloc(ZEN_MAP_PIECE_LEAVES * ZEN_MAP_LEAF_BYTES);
	if (image.memory == NULL || image.first_word == NULL || image.piece == NULL)
		map_give_up(&image, "out of memory");
	if (image.why == NULL)
	{
		image.tail = zen_savedmap_tail(&image.header, image.memory);
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
						(image.header.tail_offset + image.header.tail_bytes) / 1024, zen_savedmap_ms(start))));
}

/* ---------- loading ---------- */

bool
zen_savedmap_get(int fd, void *data, Size size, uint64 offset)
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

/* Is this a header, and was it written by the stop before this start? */
static const char *
header_fault(const ZenMapHeader *header, off_t file_size)
{
	ZenSuperblock super;

	zen_pool_superblock(0, &super);
	if (header->magic != ZEN_MAP_MAGIC)
		return "it is not complete";
	if (header->version != ZEN_MAP_VERSION)
		return "it is of another format version";
	if (header->crc != zen_savedmap_header_crc(header))
		return "its header is damaged";
	if (header->uuid[0] != super.uuid[0] || header->uuid[1] != super.uuid[1])
		return "it belongs to another pool";
	if (header->generation + 1 != super.generation)
		return "it is not of the last stop";
	/* pages that the pool has got at this start are free */
	if (header->npages > zen_pool_pages() || header->tail_bytes != zen_savedmap_tail_size(header) ||
		header->tail_offset + header->tail_bytes != (uint64) file_size)
		return "its size is wrong";
	if (header->directories_crc != zen_savedmap_directories_crc())
		return "the pool has changed since";
	return NULL;
}

static const char *
read_tail(int fd, ZenSavedMap *map)
{
	ZenMapHeader *h = &map->header;
	char	   *memory = zen_savedmap_alloc(h->tail_bytes);

	if (memory == NULL)
		return "out of memory";
	if (!zen_savedmap_get(fd, memory, h->tail_bytes, h->tail_offset))
		return "it cannot be read";
	if (zen_savedmap_crc(memory, h->tail_bytes) != h->tail_crc)
		return "it is damaged";
	map->tail = zen_savedmap_tail(h, memory);
	return NULL;
}

ZenSavedMap *
zen_savedmap_open(const char **why)
{
	ZenSavedMap *map;
	struct stat st;
	int			fd;

	ZenAssertRecoveryLeader();
	Assert(!zen_recovery->after_crash);
	*why = "zen.save_map is off";
	if (!zen_save_map)
		return NULL;
	*why = "out of memory";
	map = zen_savedmap_alloc(sizeof(ZenSavedMap));
	if (map == NULL)
		return NULL;
	fd = BasicOpenFile(zen_savedmap_path(), O_RDONLY | PG_BINARY);
	if (fd < 0)
		*why = errno == ENOENT ? "there is none" : strerror(errno);
	else if (fstat(fd, &st) != 0 || !zen_savedmap_get(fd, &map->header, sizeof(ZenMapHeader), 0))
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
		ZenMapPrepared *p = &map->tail.prepared[i];

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
		ZenMapTable *t = &map->tail.tables[i];
		uint64		saved_blocks;

		if (t->htable >= ZEN_MAX_HTABLES || !zen_htables[t->htable].in_use ||
			zen_htables[t->htable].birth_cts != t->birth_cts ||
			!zen_htable_saved_blocks(&zen_htables[t->htable], &saved_blocks) || saved_blocks != t->nblocks)
			return false;
		npieces += zen_savedmap_pieces(t->nblocks);
	}
	return npieces == map->header.npieces;
}

/* Pages and their classes are those that were saved. */
static bool
pages_fit(const ZenSavedMap *map)
{
	uint64		n = 0;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		if (!zen_pages[p].owned)
			continue;
		if (zen_pages[p].lost)
			return false;
		n += zen_savedmap_bitmap_words(p);
	}
	return n == map->header.nbitmap_words;
}

/* The pieces of a table, in the order in which put_table() has written them. */
static ZenMapPiece *
list_pieces(const ZenMapTable *table, ZenMapPiece *piece, uint64 *offset)
{
	uint32		nleaves = zen_savedmap_leaves(table->nblocks);

	for (uint32 first = 0; first < nleaves; first += ZEN_MAP_PIECE_LEAVES, piece++)
	{
		piece->htable = table->htable;
		piece->first_leaf = first;
		piece->nleaves = Min(ZEN_MAP_PIECE_LEAVES, nleaves - first);
		piece->offset = *offset;
		*offset += piece->nleaves * ZEN_MAP_LEAF_BYTES;
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
	const ZenMapHeader *h = &map->header;
	ZenMapPiece *piece;
	uint64		offset = ZEN_MAP_HEADER_BYTES;

	ZenAssertRecoveryLeader();
	Assert(zen_recovery->pieces == NULL && zen_recovery->phase == ZEN_DOING_DIRECTORIES);
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
	/* tables_fit() has counted them */
	Assert(piece == zen_recovery->pieces + h->npieces);
	for (uint32 i = 0; i < h->npieces; i++)
		zen_recovery->pieces[i].crc = map->tail.piece_crcs[i];
	zen_recovery->npieces = h->npieces;
	return NULL;
}

void
zen_savedmap_load_piece(uint32 number)
{
	const ZenMapPiece *piece = &zen_recovery->pieces[number];
	ZenHTable  *ht = &zen_htables[piece->htable];
	int			fd = BasicOpenFile(zen_savedmap_path(), O_RDONLY | PG_BINARY);
	bool		sound = fd >= 0;
	pg_crc32c	crc;

	ZenAssertInPass(zen_recovery_pass() == ZEN_PASS_LOAD);
	Assert(number < zen_recovery->npieces);
	INIT_CRC32C(crc);
	for (uint32 i = 0; i < piece->nleaves && sound; i++)
	{
		ZenWord    *leaf = zen_tidmap_word(ht, (uint64) (piece->first_leaf + i) * ZEN_LEAF_WORDS);

		/* zen_savedmap_begin() has made room */
		Assert(leaf != NULL);
		sound = zen_savedmap_get(fd, leaf, ZEN_MAP_LEAF_BYTES, piece->offset + i * ZEN_MAP_LEAF_BYTES);
		COMP_CRC32C(crc, leaf, ZEN_MAP_LEAF_BYTES);
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

const char *
zen_savedmap_finish(ZenSavedMap *map)
{
	const uint64 *bits = map->tail.bitmaps;

	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE);
	Assert(pg_atomic_read_u32(&zen_recovery->pieces_done) == map->header.npieces);
	if (pg_atomic_read_u32(&zen_recovery->bad_pieces) > 0 || !pages_fit(map))
	{
		for (uint32 i = 0; i < map->header.ntables; i++)
			zen_tidmap_drop(&zen_htables[map->tail.tables[i].htable]);
		free_pieces();
		close_map(map);
		return "it is damaged";
	}
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
		{
			zen_page_set_free(p, bits);
			bits += zen_savedmap_bitmap_words(p);
			zen_pages[p].deltas = p / 64 < map->header.ndelta_words &&
				(map->tail.deltas[p / 64] >> (p % 64) & 1) != 0;
		}
	/* pages_fit() has counted them */
	Assert(bits == map->tail.bitmaps + map->header.nbitmap_words);
	for (uint32 i = 0; i < map->header.ntables; i++)
	{
		ZenMapTable *t = &map->tail.tables[i];

		if (pg_atomic_read_u32(&zen_htables[t->htable].reindex) != 0)
			continue;			/* settle_table() counts */
		zen_htables[t->htable].bytes_taken = t->bytes_taken;
		pg_atomic_fetch_add_u64(&zen_recovery->rows, t->rows);
	}
	for (uint32 i = 0; i < map->header.nprepared; i++)
		zen_prepared_found(map->tail.prepared[i].region, map->tail.prepared[i].slot);
	zen_recovery_raise(&zen_recovery->largest_cts, map->header.next_cts);
	free_pieces();
	close_map(map);
	return NULL;
}

void
zen_savedmap_remove(void)
{
	ZenAssertRecoveryLeader();
	if (unlink(zen_savedmap_path()) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", zen_savedmap_path())));
}
