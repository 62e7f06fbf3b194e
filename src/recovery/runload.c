/*
 * runload.c -- a start loads the map that was saved while the server ran (R21).
 *
 * All pages but those that the file tells of are read by the passes.  A word of the file remains if it leads to a page
 * that the file tells of.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/guc.h"
#include "nvm/delta.h"
#include "nvm/persist.h"
#include "nvm/repair.h"
#include "nvm/slotalloc.h"
#include "recovery/recstate.h"
#include "recovery/runmap.h"
#include "storage/fd.h"
#include "utils/hsearch.h"

/* ---------- the file ---------- */

static const char *
runmap_path(void)
{
	static char path[MAXPGPATH + 64];

	snprintf(path, sizeof(path), "%s/%s", DataDir, ZEN_RUNMAP_FILE);
	return path;
}

/* Is this the header of the map in force?  If the save was cut short behind the file, its line is one behind. */
static const char *
runmap_fault(const ZenRunMapHeader *header, off_t file_size)
{
	ZenSuperblock super;

	zen_pool_superblock(0, &super);
	if (header->magic != ZEN_RUNMAP_MAGIC || header->version != ZEN_RUNMAP_VERSION)
		return "it is of another version";
	if (header->crc != zen_runmap_header_crc(header))
		return "its header is damaged";
	if (header->uuid[0] != super.uuid[0] || header->uuid[1] != super.uuid[1])
		return "it belongs to another pool";
	if (header->chain != zen_touched->chain ||
		(header->seq != zen_touched->seq && header->seq != zen_touched->seq + 1 && !ZEN_FAULT(R21_OLD_MAP)))
		return "it is of another moment";
	if (header->tail_bytes != zen_runmap_tail_size(header) ||
		header->tail_offset + header->tail_bytes != (uint64) file_size)
		return "its size is wrong";
	return NULL;
}

static const char *
read_runmap_tail(int fd, ZenRunMap *map)
{
	ZenRunMapHeader *h = &map->header;
	char	   *memory = zen_savedmap_alloc(h->tail_bytes);

	if (memory == NULL)
		return "out of memory";
	if (!zen_savedmap_get(fd, memory, h->tail_bytes, h->tail_offset) ||
		zen_savedmap_crc(memory, h->tail_bytes) != h->tail_crc)
	{
		pfree(memory);
		return "it is damaged";
	}
	map->tail = zen_runmap_tail(h, memory);
	return NULL;
}

static const char *
read_runmap(ZenRunMap *map)
{
	int			fd = BasicOpenFile(runmap_path(), O_RDONLY | PG_BINARY);
	struct stat st;
	const char *why;

	if (fd < 0)
		return errno == ENOENT ? "there is none" : strerror(errno);
	if (fstat(fd, &st) != 0 || !zen_savedmap_get(fd, &map->header, sizeof(map->header), 0))
		why = "it is not complete";
	else
		why = runmap_fault(&map->header, st.st_size);
	if (why == NULL)
		why = read_runmap_tail(fd, map);
	close(fd);
	return why;
}

ZenRunMap *
zen_runmap_open(const char **why)
{
	ZenRunMap  *map;

	ZenAssertRecoveryLeader();
	*why = NULL;
	if (!zen_touched->unbroken || !zen_save_map)
		return NULL;
	map = zen_savedmap_alloc(sizeof(ZenRunMap));
	*why = map == NULL ? "out of memory" : read_runmap(map);
	if (*why == NULL)
		return map;
	if (map != NULL)
		pfree(map);
	return NULL;
}

void
zen_runmap_close(ZenRunMap *map)
{
	if (zen_recovery->told != NULL)
		zen_arena_free(zen_recovery->told, zen_recovery->told_bytes);
	zen_recovery->told = NULL;
	if (map == NULL)
		return;
	pfree(map->tail.tables);
	pfree(map);
}

/* ---------- which pages it tells of ---------- */

bool
zen_runmap_tells(uint32 pageno)
{
	return zen_recovery->told != NULL && (zen_recovery->told[pageno / 64] >> (pageno % 64) & 1) != 0;
}

/* Is the table the one that was saved? */
static bool
table_is_saved(const ZenMapTable *table)
{
	return table->htable > 0 && table->htable < ZEN_MAX_HTABLES && zen_htables[table->htable].in_use &&
		zen_htables[table->htable].birth_cts == table->birth_cts;
}

/* Is the page as the file says? */
static bool
page_is_saved(const ZenRunMapPage *saved, const bool *tables)
{
	uint32		p = saved->pageno;

	return p < zen_pool_pages() && zen_page_is_data(p) && zen_pages[p].owned && zen_touched_has_bit(p) &&
		!zen_touched_bit(p) && zen_nvm_load64(zen_page_word(p)) == saved->word &&
		tables[zen_pages[p].owner.htable] && saved->nwords == zen_savedmap_bitmap_words(p);
}

/* Is anything damaged of which it is not known what it was?  Then a scan finds out. */
static bool
is_unsound(void)
{
	if (zen_damages > 0)
		return true;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].damaged)
			return true;
	return false;
}

/* Set the bits of the pages that the file tells of; returns how many. */
static uint32
find_told(const ZenRunMap *map)
{
	bool	   *tables = palloc0(ZEN_MAX_HTABLES);
	uint32		n = 0;

	zen_recovery->told_bytes = (zen_pool_pages() + 63) / 64 * sizeof(uint64);
	zen_recovery->told = zen_arena_alloc_or_error(zen_recovery->told_bytes);
	memset(zen_recovery->told, 0, zen_recovery->told_bytes);
	for (uint32 i = 0; i < map->header.ntables; i++)
		if (table_is_saved(&map->tail.tables[i]))
			tables[map->tail.tables[i].htable] = true;
	for (uint32 i = 0; i < map->header.npages; i++)
	{
		const ZenRunMapPage *saved = &map->tail.pages[i];

		if (!page_is_saved(saved, tables))
			continue;
		zen_recovery->told[saved->pageno / 64] |= UINT64CONST(1) << (saved->pageno % 64);
		n++;
	}
	pfree(tables);
	return n;
}

ZenRunMap *
zen_runmap_settle(ZenRunMap *map)
{
	uint32		nowned = 0,
				ntold = 0;

	ZenAssertRecoveryLeader();
	if (map != NULL && is_unsound())
	{
		zen_runmap_close(map);
		map = NULL;
	}
	if (map == NULL)
		zen_touched_break();
	else
	{
		ntold = find_told(map);
		zen_touched_go_on(map->header.seq);
	}
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
		{
			zen_page_note_touched(p, !zen_runmap_tells(p));
			nowned++;
		}
	if (map != NULL && zen_recovery->after_crash)
		ereport(LOG,
				(errmsg("zen reads %u of %u pages: those that may have changed since its map was saved",
						nowned - ntold, nowned)));
	return map;
}

/* ---------- loading ---------- */

/* Lists the pieces of a table; of one that has gone they are not read. */
static ZenMapPiece *
list_told_pieces(const ZenMapTable *table, ZenMapPiece *piece, uint64 *offset)
{
	uint32		nleaves = zen_savedmap_leaves(table->nblocks);
	bool		saved = table_is_saved(table);

	if (saved)
		zen_tidmap_reserve_words(&zen_htables[table->htable], table->nblocks);
	for (uint32 first = 0; first < nleaves; first += ZEN_MAP_PIECE_LEAVES)
	{
		piece->htable = saved ? table->htable : 0;
		piece->first_leaf = first;
		piece->nleaves = Min(ZEN_MAP_PIECE_LEAVES, nleaves - first);
		piece->offset = *offset;
		*offset += piece->nleaves * ZEN_MAP_LEAF_BYTES;
		piece++;
	}
	return piece;
}

void
zen_runmap_begin(ZenRunMap *map)
{
	const ZenRunMapHeader *h = &map->header;
	ZenMapPiece *piece;
	uint64		offset = ZEN_MAP_HEADER_BYTES;

	ZenAssertRecoveryLeader();
	Assert(zen_recovery->pieces == NULL && zen_recovery->npieces == 0);
	piece = zen_recovery->pieces = zen_arena_alloc_or_error(Max(h->npieces, 1) * sizeof(ZenMapPiece));
	for (uint32 i = 0; i < h->ntables; i++)
		piece = list_told_pieces(&map->tail.tables[i], piece, &offset);
	Assert(piece == zen_recovery->pieces + h->npieces);
	for (uint32 i = 0; i < h->npieces; i++)
		zen_recovery->pieces[i].crc = map->tail.piece_crcs[i];
	zen_recovery->npieces = h->npieces;
	pg_atomic_write_u32(&zen_recovery->pieces_done, 0);
}

/* A leaf: the words that lead to pages that the file tells of.  The table has the blocks up to the last of them. */
static void
keep_told(ZenHTable *ht, uint32 leafno, const uint64 *words)
{
	uint64		first = (uint64) leafno * ZEN_LEAF_WORDS;
	ZenWord    *leaf = zen_tidmap_word(ht, first);
	int			last = -1;

	for (int i = 0; i < ZEN_LEAF_WORDS; i++)
	{
		uint64		w = words[i];

		if (w != 0 && !zen_runmap_tells(zen_slot_page(zen_word_ref(w))))
			w = 0;
		if (w != 0)
			last = i;
		pg_atomic_write_u64(&leaf[i], w);
	}
	if (last >= 0)
		(void) zen_tidmap_extend(ht, first + last);
}

void
zen_runmap_load_piece(uint32 number)
{
	static char *buffer = NULL;
	const ZenMapPiece *piece = &zen_recovery->pieces[number];
	Size		bytes = piece->nleaves * ZEN_MAP_LEAF_BYTES;
	int			fd;
	bool		sound;

	ZenAssertInPass(zen_recovery_pass() == ZEN_PASS_LOAD);
	Assert(number < zen_recovery->npieces);
	if (piece->htable == 0)
		return;
	if (buffer == NULL)
		buffer = zen_savedmap_alloc(ZEN_MAP_PIECE_LEAVES * ZEN_MAP_LEAF_BYTES);
	fd = BasicOpenFile(runmap_path(), O_RDONLY | PG_BINARY);
	sound = fd >= 0 && buffer != NULL && zen_savedmap_get(fd, buffer, bytes, piece->offset) &&
		zen_savedmap_crc(buffer, bytes) == piece->crc;
	for (uint32 i = 0; i < piece->nleaves && sound; i++)
		keep_told(&zen_htables[piece->htable], piece->first_leaf + i, (uint64 *) (buffer + i * ZEN_MAP_LEAF_BYTES));
	if (fd >= 0)
		close(fd);
	if (!sound)
		pg_atomic_fetch_add_u32(&zen_recovery->bad_pieces, 1);
}

/* A piece cannot be read: all is as if there were no file. */
static void
forget_map(const ZenRunMap *map)
{
	for (uint32 i = 0; i < map->header.ntables; i++)
		if (table_is_saved(&map->tail.tables[i]))
			zen_tidmap_drop(&zen_htables[map->tail.tables[i].htable]);
	zen_touched_break();
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
			zen_page_note_touched(p, true);
	ereport(LOG,
			(errmsg("zen reads all pages, as the map that was saved while it ran is damaged")));
}

bool
zen_runmap_end(ZenRunMap *map)
{
	const uint64 *bits = map->tail.bitmaps;
	bool		sound = pg_atomic_read_u32(&zen_recovery->bad_pieces) == 0;

	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE);
	zen_arena_free(zen_recovery->pieces, Max(zen_recovery->npieces, 1) * sizeof(ZenMapPiece));
	zen_recovery->pieces = NULL;
	zen_recovery->npieces = 0;
	if (!sound)
		forget_map(map);
	for (uint32 i = 0; i < map->header.npages && sound; i++)
	{
		const ZenRunMapPage *saved = &map->tail.pages[i];

		if (zen_runmap_tells(saved->pageno))
			zen_page_set_free(saved->pageno, bits);
		bits += saved->nwords;
	}
	return sound;
}

/* ---------- stale headers ---------- */

/* Has a free slot the header of an older version? */
static bool
has_former(ZenSlot slot, ZenTupleHeader *h)
{
	const ZenHTable *ht;

	*h = zen_tuple_header(slot);
	ht = &zen_htables[zen_word1_htable(h->word1)];
	return (h->word0 & ZEN_CTS_MASK) != 0 && ht->idx != 0 && zen_htable_owns(ht, h->word0 & ZEN_CTS_MASK) &&
		!zen_tuple_is_void(slot);
}

void
zen_runmap_count_stale(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	ZenAssertInPass(zen_recovery_pass() == ZEN_PASS_COMMITS);
	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h;
		ZenWord    *word;

		if (pg_atomic_read_u64(&page->free[n / 64]) == 0)
		{
			n |= 63;
			continue;
		}
		if (!zen_slot_is_free(slot) || !has_former(slot, &h))
			continue;
		word = zen_tidmap_extend(&zen_htables[zen_word1_htable(h.word1)], zen_word1_tidno(h.word1));
		/* as in place_version() */
		if (!(h.word1 & ZEN_DELETED) && !ZEN_FAULT(R5_NO_RECOUNT))
			zen_word_unlock(word, zen_word_stale_inc(zen_word_lock(word)));
	}
}

/* ---------- the same as by a scan ---------- */

#ifdef USE_ASSERT_CHECKING

/* Headers of older versions that stand in free slots, by row. */
typedef struct StaleRow
{
	uint64		row;			/* as word1 without its code */
	uint64		n;
} StaleRow;

static uint64
cts_of(ZenSlot slot)
{
	return zen_tuple_header(slot).word0 & ZEN_CTS_MASK;
}

static uint64
row_of(uint32 htable, uint64 tidno)
{
	return (uint64) htable << ZEN_HTABLE_SHIFT | tidno;
}

/*
 * R22: does the row's word lead to a version that leans on this slot?  Else a slot in use is the word's own, or that of
 * a prepared transaction, whose row may not be in the map yet.
 */
static bool
is_base(ZenSlot slot, ZenTupleHeader h)
{
	ZenWord    *word = zen_tidmap_word(&zen_htables[zen_word1_htable(h.word1)], zen_word1_tidno(h.word1));
	uint64		w = word != NULL ? pg_atomic_read_u64(word) : ZEN_WORD_UNUSED;

	return zen_word_state(w) == ZEN_WORD_NVM && zen_delta_base(zen_word_ref(w)) == slot;
}

/* A slot of a page that was not read, as the scan would judge it. */
static void
check_told_slot(ZenSlot slot)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	uint32		region = zen_pages[zen_slot_page(slot)].owner.region;
	uint64		cts = h.word0 & ZEN_CTS_MASK;
	uint64		w;

	if (cts == 0 || zen_tuple_is_void(slot))
	{
		Assert(zen_slot_is_free(slot));
		return;
	}
	Assert(cts <= zen_recovery->fates[region].ts_commit && cts != zen_recovery->fates[region].prepared_cts &&
		   cts != zen_recovery->fates[region].undone_cts);
	Assert(zen_htable_owns(&zen_htables[zen_word1_htable(h.word1)], cts));
	w = pg_atomic_read_u64(zen_tidmap_word(&zen_htables[zen_word1_htable(h.word1)], zen_word1_tidno(h.word1)));
	if (!zen_slot_is_free(slot) && !is_base(slot, h))
		Assert(zen_word_ref(w) == slot && (zen_word_state(w) == ZEN_WORD_NVM) == !(h.word1 & ZEN_DELETED));
	else if (zen_word_ref(w) == InvalidZenSlot)
		Assert(h.word1 & ZEN_DELETED);
	else
		Assert(cts_of(zen_word_ref(w)) > cts);
}

static void
note_stale(HTAB *rows, ZenSlot slot)
{
	ZenTupleHeader h;
	StaleRow   *row;
	uint64		key;
	bool		found;

	if (!has_former(slot, &h) || (h.word1 & ZEN_DELETED))
		return;
	if (!zen_slot_is_free(slot) && !is_base(slot, h))
		return;
	key = row_of(zen_word1_htable(h.word1), zen_word1_tidno(h.word1));
	row = hash_search(rows, &key, HASH_ENTER, &found);
	row->n = found ? row->n + 1 : 1;
}

/* Each count is the number of such headers. */
static void
check_counts(HTAB *rows, ZenHTable *ht)
{
	for (uint64 t = 0; t < zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK; t++)
	{
		uint64		w = pg_atomic_read_u64(zen_tidmap_word(ht, t));
		uint64		key = row_of(ht->idx, t);
		StaleRow   *row = hash_search(rows, &key, HASH_FIND, NULL);

		Assert((w & ZEN_WORD_STALE) == ZEN_WORD_STALE ||
			   (w & ZEN_WORD_STALE) / ZEN_WORD_STALE_ONE == (row != NULL ? row->n : 0));
	}
}

/* A prepared transaction's links count as headers. */
static bool
have_prepared(void)
{
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		if (zen_recovery->fates[r].prepared_cts != 0)
			return true;
	return false;
}

#endif

void
zen_runmap_check(void)
{
#ifdef USE_ASSERT_CHECKING
	HASHCTL		info = {.keysize = sizeof(uint64),.entrysize = sizeof(StaleRow),.hcxt = CurrentMemoryContext};
	HTAB	   *rows;

	if (zen_recovery->told == NULL || !zen_recovery->after_crash || ZEN_FAULT_IS_SET() ||
		pg_atomic_read_u64(&zen_recovery->damaged) > 0)
		return;
	rows = hash_create("zen stale headers", 1024, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		for (uint32 n = 0; zen_pages[p].owned && n < zen_pages[p].nslots; n++)
		{
			if (zen_runmap_tells(p))
				check_told_slot(zen_page_slot(p, n));
			note_stale(rows, zen_page_slot(p, n));
		}
	for (uint32 i = 1; i < ZEN_MAX_HTABLES && !have_prepared(); i++)
		if (zen_htables[i].in_use)
			check_counts(rows, &zen_htables[i]);
	hash_destroy(rows);
#endif
}
