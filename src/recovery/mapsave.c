/*
 * mapsave.c -- write the map of a stopped server into zen.map (savedmap.h).
 *
 * Each word is reduced to what recovery's second pass and settle_table() would make of it:
 *
 *	- of a chain of versions the newest committed one;
 *	- of all that has no row DEAD, with its tombstone if that is still needed (R5).
 *
 * A slot is free if no word leads to it and no prepared transaction has it.  If two words lead to one slot, or if a
 * scan could judge anything differently, nothing is saved.  The file's header is written last, so an unfinished file
 * has none.
 */
#include "recovery/mapsave.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/guc.h"
#include "cache/spillmap.h"
#include "nvm/slotalloc.h"
#include "recovery/recstate.h"
#include "recovery/savedmap.h"
#include "storage/fd.h"
#include "txn/prepared.h"

/* What is being saved. */
typedef struct Image
{
	ZenMapHeader header;
	char	   *memory;			/* the tail */
	ZenMapTail	tail;
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
	char	   *piece;			/* ZEN_MAP_PIECE_LEAVES leaves */
	const char *why;			/* what has gone wrong, NULL if nothing */
} Image;

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
		give_up(image, "a row has no place in the pool");
		return;
	}
	/* exact, as the offset is below 2^12 */
	offset = (uint32) (slot - image->page.begin);
	n = (uint32) (((uint64) offset * image->page.inverse) >> 32);
	Assert(n == offset / image->page.units && n < ZEN_PAGE_SIZE / ZEN_SLOT_UNIT);
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

/* Would a scan take the slot of this version for a version of this row? */
static bool
names_row(const ZenVersion *v, uint32 flags, const ZenHTable *ht, uint64 tidno)
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

	Assert(image->next_prepared <= image->header.nprepared && is_prepared(region, zen_regions[region].doubt_cts));
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
		if (v->slot != InvalidZenSlot && !is_prepared(zen_pages[zen_slot_page(v->slot)].owner.region,
													  zen_tuple_header(v->slot).word0 & ZEN_CTS_MASK))
			return v;
	return NULL;
}

/*
 * The tombstones that lead from a TID where a prepared transaction has locked a row to where it is now are kept, though
 * no older version is on the medium: each counts as one, as after a scan (zen_prepared_keep_links).
 */
static void
keep_links(ZenHTable *ht, uint64 tidno)
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
		if (link == 0 || link == ZEN_LINK_MOVED)
			return;
		pg_atomic_write_u64(word, zen_word_stale_inc(pg_atomic_read_u64(word)));
		tidno = zen_word1_tidno(link);
	}
}

/* What there is to be saved, in numbers. */
static void
measure(Image *image)
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
			give_up(image, "the page directory differs from what is known of a page");
		if (zen_pages[p].owned)
			h->nbitmap_words += zen_savedmap_bitmap_words(p);
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
		for (uint32 n = zen_pages[p].nslots; n > 0; n -= Min(n, 64))
			image->tail.bitmaps[next++] = n >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << n) - 1;
	}
	/* measure() has counted them */
	Assert(next == image->header.nbitmap_words);
	zen_prepared_walk(save_prepared, keep_links, image);
	Assert(image->next_prepared == image->header.nprepared);
	qsort(image->tail.prepared, image->next_prepared, sizeof(ZenMapPrepared), compare_prepared);
}

/* ---------- saving: the file ---------- */

static void
put(Image *image, const void *data, Size size, uint64 offset)
{
	Assert(image->fd >= 0);
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
		put(image, image->piece, n * ZEN_MAP_LEAF_BYTES, image->header.tail_offset);
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
	put(image, image->memory, image->header.tail_bytes, image->header.tail_offset);
	memset(image->piece, 0, ZEN_MAP_HEADER_BYTES);
	image->header.crc = zen_savedmap_header_crc(&image->header);
	memcpy(image->piece, &image->header, sizeof(ZenMapHeader));
	put(image, image->piece, ZEN_MAP_HEADER_BYTES, 0);
	if (image->why == NULL && pg_fsync(image->fd) != 0)
		give_up(image, strerror(errno));
}

static void
write_file(Image *image)
{
	const char *path = zen_savedmap_path();

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
zen_mapsave_write(void)
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
		give_up(&image, "the pool is damaged");
	measure(&image);
	image.memory = zen_savedmap_alloc(image.header.tail_bytes);
	image.first_word = zen_savedmap_alloc(zen_pool_pages() * sizeof(uint32));
	image.piece = zen_savedmap_alloc(ZEN_MAP_PIECE_LEAVES * ZEN_MAP_LEAF_BYTES);
	if (image.memory == NULL || image.first_word == NULL || image.piece == NULL)
		give_up(&image, "out of memory");
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
