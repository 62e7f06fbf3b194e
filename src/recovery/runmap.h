/*
 * runmap.h -- the map that is saved while the server runs: its file, saving, loading.
 *
 * It tells of pages of which nothing has changed since.  A start after a crash loads what it tells, and reads the other
 * pages only (R21).  src/recovery/README, "The map saved while the server runs", has the argument.
 *
 *	header		4 KB
 *	words		the leaves of each table's map, in pieces of up to 1 MB; stale counts are 0
 *	tail		tables; checksums of pieces; the pages of which the file tells; their free-slot bits
 */
#ifndef ZEN_RUNMAP_H
#define ZEN_RUNMAP_H

#include "nvm/touched.h"
#include "recovery/savedmap.h"

/* Base backups and pg_rewind leave out what begins like this. */
#define ZEN_RUNMAP_FILE		"pgsql_tmp_zen.map"
#define ZEN_RUNMAP_MAGIC	UINT64CONST(0x314E55524E455A)	/* "ZENRUN1" */
#define ZEN_RUNMAP_VERSION	1

typedef struct ZenRunMapHeader
{
	uint64		magic;
	uint32		version;
	uint32		crc;			/* CRC32C of the struct with this field 0 */
	uint64		uuid[2];		/* of the pool */
	uint64		chain;			/* as in ZenTouchedState */
	uint64		seq;
	uint64		tail_offset;
	uint64		tail_bytes;
	uint32		tail_crc;
	uint32		ntables;
	uint32		npieces;
	uint32		npages;
	uint64		nbitmap_words;
} ZenRunMapHeader;

StaticAssertDecl(sizeof(ZenRunMapHeader) == 88, "header of the map saved while the server runs");

/* A page of which the file tells. */
typedef struct ZenRunMapPage
{
	uint64		word;			/* of the page directory */
	uint32		pageno;
	uint32		nwords;			/* of its free-slot bits */
} ZenRunMapPage;

StaticAssertDecl(sizeof(ZenRunMapPage) == 16, "page of the map saved while the server runs");

/* The tail as a structure: pointers into one block of memory. */
typedef struct ZenRunMapTail
{
	ZenMapTable *tables;
	uint32	   *piece_crcs;		/* an even number of places */
	ZenRunMapPage *pages;
	uint64	   *bitmaps;
} ZenRunMapTail;

typedef struct ZenRunMap
{
	ZenRunMapHeader header;
	ZenRunMapTail tail;
} ZenRunMap;

static inline Size
zen_runmap_tail_size(const ZenRunMapHeader *header)
{
	return header->ntables * sizeof(ZenMapTable) + TYPEALIGN(2, header->npieces) * sizeof(uint32) +
		header->npages * sizeof(ZenRunMapPage) + header->nbitmap_words * sizeof(uint64);
}

static inline ZenRunMapTail
zen_runmap_tail(const ZenRunMapHeader *header, char *memory)
{
	ZenRunMapTail tail;

	tail.tables = (ZenMapTable *) memory;
	tail.piece_crcs = (uint32 *) (tail.tables + header->ntables);
	tail.pages = (ZenRunMapPage *) (tail.piece_crcs + TYPEALIGN(2, header->npieces));
	tail.bitmaps = (uint64 *) (tail.pages + header->npages);
	return tail;
}

static inline pg_crc32c
zen_runmap_header_crc(const ZenRunMapHeader *header)
{
	ZenRunMapHeader copy = *header;

	copy.crc = 0;
	return zen_savedmap_crc(&copy, sizeof(copy));
}

/* ---------- saving (runmap.c) ---------- */

/* zen_runmap_shmem -- its part of shared memory. */
extern const ZenShmem zen_runmap_shmem;

/*
 * zen_runmap_save -- save the map now.  NULL, or why that cannot be done; the last one stays in force then.
 *
 * Any process that is attached, when the pool is recovered; it holds no region, and one process at a time.  Throws if
 * it is cancelled.
 */
extern const char *zen_runmap_save(void);

/* zen_runmap_step -- zen's worker, each round: if a save is due, begin a process that does it. */
extern void zen_runmap_step(void);

extern PGDLLEXPORT void zen_runmap_worker_main(Datum arg);

/* ---------- loading (runload.c) ---------- */

/*
 * zen_runmap_open -- leader, before anything in the pool is set right: read the file but for the words.  NULL if it is
 * not in force; *why says why not, or is NULL if there never was one.
 *
 * zen_runmap_settle -- leader, when tables and pages are known: which pages does it tell of?  The chain goes on, or is
 * broken if map is NULL.
 *
 * zen_runmap_begin -- leader, after a crash: list the pieces to be loaded.  Throws when DRAM is full.
 *
 * zen_runmap_end -- leader, after all pieces: free slots of the pages.  False: the file is damaged, the chain is
 * broken, and all pages must be read.
 *
 * zen_runmap_close -- frees the memory.
 */
extern ZenRunMap *zen_runmap_open(const char **why);
extern ZenRunMap *zen_runmap_settle(ZenRunMap *map);
extern void zen_runmap_begin(ZenRunMap *map);
extern bool zen_runmap_end(ZenRunMap *map);
extern void zen_runmap_close(ZenRunMap *map);

/* zen_runmap_load_piece -- any participant: read one piece, and count a fault in it.  Never throws. */
extern void zen_runmap_load_piece(uint32 piece);

/* zen_runmap_tells -- does the map that is being loaded tell of the page? */
extern bool zen_runmap_tells(uint32 pageno);

/*
 * zen_runmap_count_stale -- a participant, before the second pass: the free slots of such a page that have headers of
 * older versions are counted (R5).  Throws when DRAM is full.
 */
extern void zen_runmap_count_stale(uint32 pageno);

/* zen_runmap_check -- leader, in builds that check assertions, when all is settled: is all as a scan finds it? */
extern void zen_runmap_check(void);

#endif							/* ZEN_RUNMAP_H */
