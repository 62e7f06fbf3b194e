/*
 * mapload.c -- read zen.map (savedmap.h), check it, and make maps and free slots of it.
 *
 * The leader reads the pool's directories as ever.  All else is taken from the file: the processes that recover read
 * the words, one piece at a time, straight into the leaves of the maps.  Every part has a checksum.  If one does not
 * match, the file is given up.  The leader then scans the pool, as if there were none.
 */
#include "recovery/mapload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/guc.h"
#include "nvm/region.h"
#include "nvm/slotalloc.h"
#include "recovery/recstate.h"
#include "storage/fd.h"
#include "txn/prepared.h"

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
	if (!get(fd, memory, h->tail_bytes, h->tail_offset))
		return "it cannot be read";
	if (zen_savedmap_crc(memory, h->tail_bytes) != h->tail_crc)
		return "it is damaged";
	map->tail = zen_savedmap_tail(h, memory);
	return NULL;
}

ZenSavedMap *
zen_mapload_open(const char **why)
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
	else if (fstat(fd, &st) != 0 || !get(fd, &map->header, sizeof(ZenMapHeader), 0))
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
zen_mapload_begin(ZenSavedMap *map)
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
zen_mapload_piece(uint32 number)
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

		/* zen_mapload_begin() has made room */
		Assert(leaf != NULL);
		sound = get(fd, leaf, ZEN_MAP_LEAF_BYTES, piece->offset + i * ZEN_MAP_LEAF_BYTES);
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

static void
abandon(ZenSavedMap *map)
{
	for (uint32 i = 0; i < map->header.ntables; i++)
		zen_tidmap_drop(&zen_htables[map->tail.tables[i].htable]);
	free_pieces();
	close_map(map);
}

const char *
zen_mapload_finish(ZenSavedMap *map)
{
	const uint64 *bits = map->tail.bitmaps;

	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == ZEN_PASS_NONE);
	Assert(pg_atomic_read_u32(&zen_recovery->pieces_done) == map->header.npieces);
	if (pg_atomic_read_u32(&zen_recovery->bad_pieces) > 0 || !pages_fit(map))
	{
		abandon(map);
		return "it is damaged";
	}
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
		{
			zen_page_set_free(p, bits);
			bits += zen_savedmap_bitmap_words(p);
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
zen_mapload_remove(void)
{
	ZenAssertRecoveryLeader();
	if (unlink(zen_savedmap_path()) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", zen_savedmap_path())));
}
