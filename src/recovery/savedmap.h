/*
 * savedmap.h -- the format of zen.map: what a scan of the pool would find, as a file.
 *
 * The file lies beside zen.state in the data directory.  It is written at an orderly stop and read at the next start,
 * instead of a scan of the pool.  It is believed only at the start that follows the stop that wrote it, and only if the
 * pool's directories are bit for bit the same; in all other cases the pool is scanned.  src/recovery/README,
 * "The saved map", says why a stale file cannot be taken.
 *
 *	header		4 KB, written last
 *	words		the leaves of each table's map, in pieces of up to 1 MB
 *	tail		tables; checksums of pieces; slots of prepared transactions; free-slot bits of each owned page; which
 *				pages may have versions that hold only what changed, if there are any
 */
#ifndef ZEN_SAVEDMAP_H
#define ZEN_SAVEDMAP_H

#include "cache/tidmap.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "nvm/pool.h"
#include "port/pg_bitutils.h"
#include "port/pg_crc32c.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"

#define ZEN_MAP_FILE		"zen.map"
#define ZEN_MAP_MAGIC		UINT64CONST(0x3150414D4E455A)	/* "ZENMAP1" */
#define ZEN_MAP_VERSION		3
#define ZEN_MAP_HEADER_BYTES	4096
#define ZEN_MAP_LEAF_BYTES		(ZEN_LEAF_WORDS * sizeof(ZenWord))
#define ZEN_MAP_PIECE_LEAVES	256 /* 1 MB */

typedef struct ZenMapHeader
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
	uint32		directories_crc;	/* of all from the Tx-CTS mark to the
									 * first data page, and of directories
									 * behind */
	uint32		ntables;
	uint32		npieces;
	uint32		nprepared;
	uint32		ndelta_words;	/* 0: no page may have deltas */
	uint64		nbitmap_words;
} ZenMapHeader;

StaticAssertDecl(sizeof(ZenMapHeader) == 104, "header of the saved map");

/* A table; its words are the file's next nblocks blocks, rounded up to whole leaves. */
typedef struct ZenMapTable
{
	uint32		htable;
	uint32		nblocks;
	uint64		birth_cts;
	uint64		bytes_taken;
	uint64		rows;
} ZenMapTable;

StaticAssertDecl(sizeof(ZenMapTable) == 32, "table of the saved map");

/* A slot of a prepared transaction. */
typedef struct ZenMapPrepared
{
	uint64		slot;
	uint64		cts;
	uint32		region;
	uint32		pad;
} ZenMapPrepared;

StaticAssertDecl(sizeof(ZenMapPrepared) == 24, "slot of a prepared transaction in the saved map");

/* The tail as a structure: pointers into one block of memory. */
typedef struct ZenMapTail
{
	ZenMapTable *tables;
	uint32	   *piece_crcs;		/* an even number of places */
	ZenMapPrepared *prepared;
	uint64	   *bitmaps;
	uint64	   *deltas;			/* one bit for each page of the pool: may it
								 * have deltas? */
} ZenMapTail;

/* All of the file but the words of the maps. */
typedef struct ZenSavedMap
{
	ZenMapHeader header;
	ZenMapTail	tail;
} ZenSavedMap;

/* ---------- sizes and places ---------- */

/* Leaves that the words of so many blocks take in the file, and the pieces that these are cut into. */
static inline uint32
zen_savedmap_leaves(uint64 nblocks)
{
	return (uint32) ((nblocks * ZEN_TIDS_PER_BLOCK + ZEN_LEAF_WORDS - 1) / ZEN_LEAF_WORDS);
}

static inline uint32
zen_savedmap_pieces(uint64 nblocks)
{
	return (zen_savedmap_leaves(nblocks) + ZEN_MAP_PIECE_LEAVES - 1) / ZEN_MAP_PIECE_LEAVES;
}

/* Words of free-slot bits that an owned page has in the tail. */
static inline uint32
zen_savedmap_bitmap_words(uint32 pageno)
{
	return (zen_pages[pageno].nslots + 63) / 64;
}

static inline Size
zen_savedmap_tail_size(const ZenMapHeader *header)
{
	return header->ntables * sizeof(ZenMapTable) + TYPEALIGN(2, header->npieces) * sizeof(uint32) +
		header->nprepared * sizeof(ZenMapPrepared) + (header->nbitmap_words + header->ndelta_words) * sizeof(uint64);
}

static inline ZenMapTail
zen_savedmap_tail(const ZenMapHeader *header, char *memory)
{
	ZenMapTail	tail;

	tail.tables = (ZenMapTable *) memory;
	tail.piece_crcs = (uint32 *) (tail.tables + header->ntables);
	tail.prepared = (ZenMapPrepared *) (tail.piece_crcs + TYPEALIGN(2, header->npieces));
	tail.bitmaps = (uint64 *) (tail.prepared + header->nprepared);
	tail.deltas = tail.bitmaps + header->nbitmap_words;
	return tail;
}

/* The name of the file; valid until the next call. */
static inline const char *
zen_savedmap_path(void)
{
	static char path[MAXPGPATH + 32];

	snprintf(path, sizeof(path), "%s/%s", DataDir, ZEN_MAP_FILE);
	return path;
}

/* ---------- checksums ---------- */

static inline pg_crc32c
zen_savedmap_crc(const void *data, Size size)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, size);
	FIN_CRC32C(crc);
	return crc;
}

static inline pg_crc32c
zen_savedmap_header_crc(const ZenMapHeader *header)
{
	ZenMapHeader copy = *header;

	copy.crc = 0;
	return zen_savedmap_crc(&copy, sizeof(copy));
}

/* Mix a directory of pages in, unless it is empty: so one that the pool has got since changes nothing. */
static inline uint32
zen_savedmap_mix_directory(uint32 crc, uint64 pageno, const char *directory, Size size)
{
	if (directory[0] == 0 && memcmp(directory, directory + 1, size - 1) == 0)
		return crc;
	return pg_rotate_left32(crc, 1) ^ (uint32) (pageno * 0x9E3779B1) ^ zen_savedmap_crc(directory, size);
}

/*
 * All that ties words and bits to this pool: a change of an owner, a table, a watermark or a descriptor changes it.
 * Pages that were free at the stop, and those that the pool has got since, do not count.
 */
static inline pg_crc32c
zen_savedmap_directories_crc(void)
{
	uint32		crc = zen_savedmap_crc(zen_pool.base + ZEN_OFF_CTS_MARK,
									   (Size) zen_pool.first_data_page * ZEN_PAGE_SIZE - ZEN_OFF_CTS_MARK);

	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		const ZenPoolFile *file = &zen_pool.files[i];
		uint64		end = (uint64) file->first + zen_file_pages(i);

		if (i > 0)
			crc = zen_savedmap_mix_directory(crc, file->first, (const char *) file->words,
											 (file->near_end - file->first) * sizeof(uint64));
		for (uint64 p = file->near_end; p + ZEN_DIRECTORY_PAGES < end; p += ZEN_DIRECTORY_WORDS)
			crc = zen_savedmap_mix_directory(crc, p, zen_page_ptr((uint32) p), ZEN_AREA_ALIGN);
	}
	return crc;
}

/* ---------- memory, files and time ---------- */

/*
 * zen_savedmap_get -- read size bytes at offset; false if there are not so many, or on an error.
 * zen_savedmap_put -- write them; false, with errno, if that cannot be done.
 */
extern bool zen_savedmap_get(int fd, void *data, Size size, uint64 offset);
extern bool zen_savedmap_put(int fd, const void *data, Size size, uint64 offset);

/* Zeroed memory that the process frees itself; NULL if there is none. */
static inline void *
zen_savedmap_alloc(Size size)
{
	return MemoryContextAllocExtended(TopMemoryContext, Max(size, 1),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
}

static inline double
zen_savedmap_ms(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_MILLISEC(now);
}

/* ---------- saving and loading ---------- */

/*
 * zen_savedmap_write -- write zen.map, if zen.save_map wants it; tells the log how it went.
 *
 * Postmaster or single-user process, when no other process is left, all watermarks are persistent and the pool is
 * marked clean.  Writes nothing to the pool.  A failure leaves no file, or one that will not be believed.  Never
 * throws.
 */
extern void zen_savedmap_write(void);

/*
 * zen_savedmap_open -- leader, after a clean stop, before anything in the pool's directories is set right: read the
 * file but for the words of the maps.  NULL if it is not to be used; *why says why not.
 */
extern ZenSavedMap *zen_savedmap_open(const char **why);

/*
 * zen_savedmap_begin -- leader, when tables and regions are known: make room for the words, and list the pieces in
 * ZenRecovery.  Returns NULL, or why the file does not fit.  Throws when DRAM is full.
 */
extern const char *zen_savedmap_begin(ZenSavedMap *map);

/* zen_savedmap_load_piece -- any participant: read one piece, and count a fault in it.  Never throws. */
extern void zen_savedmap_load_piece(uint32 piece);

/*
 * zen_savedmap_finish -- leader, after all pieces, when pages are known, too: free slots and the slots of prepared
 * transactions.
 *
 * Returns NULL, or why the pool must be scanned; then all is as before zen_savedmap_begin.  Throws when DRAM is full.
 */
extern const char *zen_savedmap_finish(ZenSavedMap *map);

/* zen_savedmap_remove -- the file has served. */
extern void zen_savedmap_remove(void);

#endif							/* ZEN_SAVEDMAP_H */
