/*
 * layout.h -- every byte that zen keeps in NVM.
 *
 * Nothing else defines a persistent format.  All integers are little-endian (x86-64 only).  A change here
 * is a further ZEN_FORMAT_VERSION, and a pool gets it only when it needs it (doc/versions.md).
 *
 *	offset		size		what
 *	0			4 KB		superblock, copy 0
 *	4 KB		4 KB		superblock, copy 1
 *	8 KB		4 KB		Tx-CTS high-water mark (ZenMarkRecord, R14)
 *	12 KB		64			what recovery must know of the WAL's end (ZenTailState, R17)
 *	64 KB		512 KB		region directory, ZEN_MAX_REGIONS entries of 64 bytes
 *	576 KB		64			which map saved while the server ran fits (ZenTouchedState, R21)
 *	640 KB		1408 KB		in each file: one bit for each of its pages, touched since that map was saved
 *	2 MB		4 MB		HTable directory, ZEN_MAX_HTABLES entries of 128 bytes
 *	6 MB		n * 2 MB	page directory, one 8-byte word per page of the pool
 *	then					data pages of 64 KB, each cut into equal slots of one size class
 *
 * The page directory has room for the n * 16 GB that the pool had when it was made, rounded up.  Beyond, each 16 GB
 * begin with the 2 MB of their own directory.  So the place of a page's word follows from its number and n
 * (zen_page_word).  A pool that reaches so far has ZEN_FORMAT_VERSION_GROWN, which older versions of zen refuse.
 *
 * A pool may have several files (ZEN_FORMAT_VERSION_FILES).  Each has this layout, with the areas of mark, regions and
 * HTables unused but in file 0.  Page numbers go on over all files: a file's superblock says which is its first.
 * Numbers between the end of a file and the first of the next one are those of no page, until the file grows.
 *
 * A pool whose versions may be deltas (ZenDelta) has ZEN_FORMAT_VERSION_DELTAS, of one file or of several.
 */
#ifndef ZEN_LAYOUT_H
#define ZEN_LAYOUT_H

#include "base/compat.h"

#define ZEN_MAGIC				UINT64CONST(0x314C4F4F504E455A) /* "ZENPOOL1" */
#define ZEN_FORMAT_VERSION		2
#define ZEN_FORMAT_VERSION_GROWN	3	/* has grown beyond the directory that
										 * it was made with */

#define ZEN_FORMAT_VERSION_FILES	4	/* has several files */
#define ZEN_FORMAT_VERSION_DELTAS	5	/* may have versions that hold only
										 * what changed */
#define ZEN_FORMAT_VERSION_LAST		ZEN_FORMAT_VERSION_DELTAS	/* that this zen reads */

#define ZEN_MAX_FILES			16
#define ZEN_MAX_NODE			1023

#define ZEN_LINE				64	/* bytes of a cache line, the unit of
									 * write-back */
#define ZEN_PAGE_SIZE			((Size) 64 * 1024)
#define ZEN_AREA_ALIGN			((Size) 2 * 1024 * 1024)	/* areas, and the data,
															 * begin on huge-page
															 * borders */
#define ZEN_DIRECTORY_PAGES		((uint32) (ZEN_AREA_ALIGN / ZEN_PAGE_SIZE)) /* of a directory of 2
																			 * MB */
#define ZEN_DIRECTORY_WORDS		((uint32) (ZEN_AREA_ALIGN / sizeof(uint64)))	/* of it: 16 GB of pages */
#define ZEN_MAX_PAGES			((uint32) 1 << 28)	/* 16 TB: a slot's number
													 * has 40 bits */
#define ZEN_MIN_DATA_PAGES		4
#define ZEN_MAX_REGIONS			8192
#define ZEN_MAX_HTABLES			32768	/* 15 bits of word1; entry 0 is zen's
										 * own */

#define ZEN_OFF_SUPER			((Size) 0)
#define ZEN_OFF_SUPER2			((Size) 4096)
#define ZEN_OFF_CTS_MARK		((Size) 8192)
#define ZEN_OFF_TAIL			((Size) 12288)
#define ZEN_OFF_REGIONS			((Size) 64 * 1024)
#define ZEN_OFF_TOUCHED_STATE	((Size) 576 * 1024)
#define ZEN_OFF_TOUCHED			((Size) 640 * 1024)
#define ZEN_OFF_HTABLES			ZEN_AREA_ALIGN
#define ZEN_OFF_PAGES			(3 * ZEN_AREA_ALIGN)

/* ---------- superblock: written at creation, start, stop and growth; two copies ---------- */

typedef struct ZenSuperblock
{
	uint64		magic;
	uint32		version;
	uint32		crc;			/* CRC32C of the struct with this field 0, as
								 * far as the version has it */
	uint64		seq;			/* the valid copy with the larger one counts */
	uint64		system_id;		/* of the PostgreSQL cluster */
	uint64		uuid[2];		/* random, made at creation */
	uint64		pool_size;		/* bytes */
	uint64		npages;			/* pool_size / ZEN_PAGE_SIZE, header pages
								 * included */
	uint64		first_data_page;	/* number of the first data page; stays
									 * when the pool grows */
	uint64		generation;		/* +1 at every server start; also in the data
								 * directory */
	uint64		wal_position;	/* a WAL position that the cluster had reached
								 * at the last start or stop */
	uint32		clean;			/* 1: stopped in order, nothing is in doubt */
	uint32		mark;			/* raised from time to time while the server
								 * runs, and at a stop; 0 at a start; also in
								 * the data directory */

	/* from ZEN_FORMAT_VERSION_FILES on; else 0, and not under the CRC */
	uint64		first_page;		/* number of the file's first page; what is
								 * said above of size and pages is of the file
								 * alone */
	uint32		file;			/* its number */
	uint32		nfiles;			/* of the pool; in file 0 only, which decides
								 * if a file belongs to the pool */
	int32		node;			/* NUMA node as it was at the last start; -1:
								 * none */
	uint32		pad2;
} ZenSuperblock;

#define ZEN_SUPERBLOCK_OLD_BYTES	96	/* before ZEN_FORMAT_VERSION_FILES */

StaticAssertDecl(sizeof(ZenSuperblock) == 120 &&
				 offsetof(ZenSuperblock, first_page) == ZEN_SUPERBLOCK_OLD_BYTES, "superblock layout");

StaticAssertDecl(offsetof(ZenSuperblock, version) % 8 == 0 &&
				 offsetof(ZenSuperblock, crc) == offsetof(ZenSuperblock, version) + 4,
				 "version and CRC of a superblock are one word");

/* ---------- guarded words: 48 bits of value, 16 bits of check (nvm/repair.h) ---------- */

#define ZEN_GUARD_BITS			48
#define ZEN_GUARD_VALUE			((UINT64CONST(1) << ZEN_GUARD_BITS) - 1)

/* ---------- a value that only grows, rewritten in place without tearing ---------- */

/*
 * Four records of one line each are written in turn; the largest one whose check fits counts.  Within a record
 * value is stored before check, so that a torn record does not fit.
 */
typedef struct ZenMarkRecord
{
	uint64		value;
	uint64		check;			/* ~value, so that zeroes are a valid
								 * 'nothing' only by both being 0 */
} ZenMarkRecord;

StaticAssertDecl(sizeof(ZenMarkRecord) == 16 && ZEN_LINE % sizeof(ZenMarkRecord) == 0,
				 "a mark record lies in one line");

/* ---------- region directory ---------- */

/* Bits of ZenRegionEntry.doubt, whose other bits are a CRC32C of (xid, cts, kind). */
#define ZEN_DOUBT_NONE			0
#define ZEN_DOUBT_COMMIT		1	/* mixed commit under way: pg_xact decides */
#define ZEN_DOUBT_PREPARED		2	/* PREPARE TRANSACTION done or under way:
									 * pg_xact decides */
#define ZEN_DOUBT_CRC_SHIFT		32

typedef struct ZenRegionEntry
{
	ZenMarkRecord watermark[2]; /* R3, R13: commits up to here need no LP
								 * evidence */
	uint64		doubt_xid;		/* full transaction id of the in-doubt
								 * transaction */
	uint64		doubt_cts;		/* its Tx-CTS */
	uint64		doubt;			/* kind | CRC32C << ZEN_DOUBT_CRC_SHIFT;
								 * stored last, cleared first */
	uint64		pad;
} ZenRegionEntry;

StaticAssertDecl(sizeof(ZenRegionEntry) == ZEN_LINE, "region entry is one line");
StaticAssertDecl(offsetof(ZenRegionEntry, doubt) == 48, "region entry layout");
StaticAssertDecl(ZEN_OFF_REGIONS + ZEN_MAX_REGIONS * sizeof(ZenRegionEntry) <= ZEN_OFF_HTABLES,
				 "regions end before HTables");

/* ---------- the WAL's lost end (R17); all zero if zen.stream was never on ---------- */

#define ZEN_TAIL_NEVER	UINT64CONST(0)	/* it never was */
#define ZEN_TAIL_ON		UINT64CONST(1)
#define ZEN_TAIL_OFF	UINT64CONST(2)	/* it was, and is not: changes are not
										 * in the WAL */

/*
 * A copy follows the WAL of another server.  It becomes a primary's pool when zen has recovered it.  A lazy one is a
 * primary's whose stores become durable at checkpoints (mode wal): after a crash it is a copy of itself, which replays
 * the server's own WAL.  These values differ in many bits.
 */
#define ZEN_ROLE_PRIMARY	UINT64CONST(0)
#define ZEN_ROLE_REPLICA	UINT64CONST(0x4143494C50455220) /* " REPLICA" */
#define ZEN_ROLE_LAZY		UINT64CONST(0x20595A414C207369) /* "is LAZY " */
#define ZEN_COPIED_NOT		UINT64CONST(0)
#define ZEN_COPIED			UINT64CONST(0x20444549504F4320) /* " COPIED " */

/* Beside a place of the WAL: replay has not ended before it. */
#define ZEN_REPLAYED_JUDGED	(UINT64CONST(1) << 63)

/* One line.  The first three are guarded words, stored in the order in which they are to become durable. */
typedef struct ZenTailState
{
	uint64		in_use;			/* ZEN_TAIL_*: is zen.stream on? */
	uint64		again_xid;		/* full xid under which a recovery logs lost
								 * transactions again; 0 = none */
	uint64		lost_xid;		/* a recovery is not over: the first full xid
								 * that the WAL does not know; 0 = none */
	uint64		role;			/* ZEN_ROLE_* */
	uint64		copied;			/* ZEN_COPIED: all changes of the pool are in
								 * the WAL; or ZEN_COPIED_NOT */
	uint64		replayed;		/* of a copy: redo has stored records up to
								 * this place of the WAL; ZEN_REPLAYED_JUDGED */
	uint64		primary_dram;	/* bytes of zen.dram_size on the primary
								 * server; 0 = not told */
	uint64		primary_needs;	/* bytes of it that the rows need there */
} ZenTailState;

StaticAssertDecl(sizeof(ZenTailState) == ZEN_LINE && ZEN_OFF_TAIL % ZEN_LINE == 0, "the tail's state is one line");

/* ---------- pages that were touched since the map was saved while the server ran (R21) ---------- */

/*
 * One line; it counts only if the check fits.  Versions of zen that do not know it leave it as it is.  They raise the
 * generation of the pool and not this one, so what they have stored breaks the chain.
 */
typedef struct ZenTouchedState
{
	uint64		chain;			/* generation of the run that saved the first
								 * map since which all stores are noted; 0:
								 * none */
	uint64		seq;			/* of the newest map, counted from there */
	uint64		generation;		/* of the last run that has noted its stores */
	uint64		check;			/* CRC32C of the three */
} ZenTouchedState;

StaticAssertDecl(sizeof(ZenTouchedState) <= ZEN_LINE && ZEN_OFF_TOUCHED_STATE % ZEN_LINE == 0 &&
				 ZEN_OFF_TOUCHED_STATE >= ZEN_OFF_REGIONS + ZEN_MAX_REGIONS * sizeof(ZenRegionEntry) &&
				 ZEN_OFF_TOUCHED_STATE + ZEN_LINE <= ZEN_OFF_TOUCHED && ZEN_OFF_TOUCHED < ZEN_OFF_HTABLES,
				 "touched pages lie between regions and HTables");

/* Pages of a file that have a bit; pages behind them count as touched at any time. */
#define ZEN_TOUCHED_PAGES		((uint32) ((ZEN_OFF_HTABLES - ZEN_OFF_TOUCHED) * 8))

/* ---------- HTable directory ---------- */

/* State of an entry; they differ in many bits, so that no flipped bit makes one another. */
#define ZEN_HT_FREE				UINT64CONST(0)
#define ZEN_HT_CREATING			UINT64CONST(0x474E495441455243) /* "CREATING": exists if
																 * create_xid committed */
#define ZEN_HT_LIVE				UINT64CONST(0x6C65206576696C20) /* " live el" */

typedef struct ZenHTableEntry
{
	/*
	 * line 0: identity, durable before state leaves FREE; constant while not
	 * FREE
	 */
	uint32		db;
	uint32		spc;
	uint32		relnumber;
	uint32		crc;			/* CRC32C of the other fields of line 0, state
								 * and crc left out */
	uint64		birth_cts;		/* slots with Tx-CTS <= this belong to an
								 * earlier owner of the entry */
	uint64		create_xid;		/* full transaction id */
	uint64		backend;		/* 0, or 1 + backend id of a temporary table:
								 * gone at the next start */
	uint64		state;			/* ZEN_HT_*; one 8-byte store */
	uint64		pad0[2];

	/*
	 * line 1: each field changes by one 8-byte store; all but move_to are
	 * guarded words (nvm/repair.h)
	 */
	uint64		drop_xid;		/* full xid of a drop that pg_xact decides; 0
								 * = none */
	uint64		nblocks;		/* blocks of the logical-tuple map at the last
								 * clean stop */
	uint64		flags;			/* ZEN_HTF_* */
	uint64		move_xid;		/* full xid of a move to (move_spc,
								 * move_relnumber); 0 = none; its check covers
								 * move_to */
	uint64		move_to;		/* move_spc << ZEN_MOVE_SPC_SHIFT |
								 * move_relnumber */
	uint64		pad1[3];
} ZenHTableEntry;

#define ZEN_MOVE_SPC_SHIFT		32
#define ZEN_HTF_REINDEX			1	/* indexes were lost in a crash and are
									 * not rebuilt yet */
#define ZEN_HTF_TREES			2	/* some indexes are in DRAM, and lost with
									 * each stop */

StaticAssertDecl(sizeof(ZenHTableEntry) == 2 * ZEN_LINE, "HTable entry is two lines");
StaticAssertDecl(offsetof(ZenHTableEntry, state) == 40 && offsetof(ZenHTableEntry, drop_xid) == ZEN_LINE,
				 "HTable entry: identity and state in line 0");
StaticAssertDecl(ZEN_OFF_HTABLES + ZEN_MAX_HTABLES * sizeof(ZenHTableEntry) <= ZEN_OFF_PAGES,
				 "HTables end before pages");

/* ---------- page directory: one word, so that a change of owner is one 8-byte store ---------- */

/*
 * bits 0..14 HTable (0: shared by small tables), 15..28 region, 29..38 slot class, 39 owned,
 * 48..63 check = low 16 bits of CRC32C over (page number, bits 0..47).  All zero = free.
 */
#define ZEN_PAGE_HTABLE_BITS	15
#define ZEN_PAGE_REGION_SHIFT	15
#define ZEN_PAGE_REGION_BITS	14
#define ZEN_PAGE_CLASS_SHIFT	29
#define ZEN_PAGE_CLASS_BITS		10
#define ZEN_PAGE_OWNED			(UINT64CONST(1) << 39)
#define ZEN_PAGE_ZEROING		(UINT64CONST(1) << 40)	/* alone: on its way to
														 * free, not all zero
														 * yet (R8) */

/* The unsigned number in bits [shift, shift + bits) of a word. */
static inline uint32
zen_bits(uint64 word, int shift, int bits)
{
	return (uint32) ((word >> shift) & ((UINT64CONST(1) << bits) - 1));
}

StaticAssertDecl(ZEN_OFF_PAGES % ZEN_AREA_ALIGN == 0 && ZEN_AREA_ALIGN % ZEN_PAGE_SIZE == 0,
				 "areas are whole pages");
StaticAssertDecl(ZEN_MAX_HTABLES == 1 << ZEN_PAGE_HTABLE_BITS, "an HTable's number fits its bits of a page word");
StaticAssertDecl(ZEN_MAX_REGIONS <= 1 << ZEN_PAGE_REGION_BITS, "a region's number fits its bits of a page word");
StaticAssertDecl(ZEN_PAGE_REGION_SHIFT == ZEN_PAGE_HTABLE_BITS &&
				 ZEN_PAGE_CLASS_SHIFT == ZEN_PAGE_REGION_SHIFT + ZEN_PAGE_REGION_BITS &&
				 ZEN_PAGE_OWNED == UINT64CONST(1) << (ZEN_PAGE_CLASS_SHIFT + ZEN_PAGE_CLASS_BITS) &&
				 ZEN_PAGE_ZEROING < UINT64CONST(1) << ZEN_GUARD_BITS,
				 "fields of a page word do not overlap");

/* ---------- NVM-tuple ---------- */

/*
 * word0: bit 63 LP, bits 0..62 Tx-CTS (0 = slot is empty)
 * word1: bit 63 Deleted, bits 48..62 HTable entry, bits 0..47 versioned TID (block << 16 | offset)
 *
 * A live version's body is a PostgreSQL MinimalTuple whose length and padding carry length, xmin and CRC.  16 bytes of
 * header put the column data of a tuple without nulls at byte 32, 8-byte aligned.
 *
 * A tombstone has length 0 and no data, or the length of a ZenTombstone.  Then its last 6 bytes say where the row has
 * gone.  Only a prepared transaction's waiters need that after a crash.  It costs no byte, since no slot is smaller.
 */
typedef struct ZenTupleHeader
{
	uint64		word0;
	uint64		word1;
} ZenTupleHeader;

typedef struct ZenTupleBody
{
	uint16		len;			/* bytes of the MinimalTuple; of a tombstone 0
								 * or sizeof(ZenTombstone); of a delta
								 * ZEN_DELTA_MARK */
	uint16		xmin_low;		/* 32-bit xid of the writer, for the system
								 * column xmin only: after a crash it may have
								 * been issued again, and nothing in zen
								 * relies on it */
	uint32		crc;			/* CRC32C of Tx-CTS, word1, len, xmin_low and
								 * everything after this field */
	uint16		xmin_high;
	uint16		infomask2;		/* from here on as in a MinimalTuple */
} ZenTupleBody;

/*
 * The first word of a scrubbed slot's body: a length that no version has, so that its CRC fits no header (R7).  A slot
 * with this word holds nothing, whatever its word0 says.
 */
#define ZEN_SCRUBBED			UINT64CONST(1)

/* The body of a tombstone with a link, a MinimalTuple in form. */
typedef struct ZenTombstone
{
	uint32		len;			/* as MinimalTupleData.t_len */
	uint16		pad[3];
	uint16		link[3];		/* where the row has gone: bits 0..47, low
								 * ones first, of a word1 (zen_link), or
								 * ZEN_LINK_MOVED */
} ZenTombstone;

/*
 * The body of a version that holds only what changed (src/row/README, "Versions that hold only what changed").  The
 * ranges follow, each a ZenDeltaRange and its bytes, in ascending order of their places.
 */
typedef struct ZenDelta
{
	uint16		mark;			/* ZEN_DELTA_MARK, in the place of len */
	uint16		xmin_low;		/* as in ZenTupleBody, like the next two */
	uint32		crc;
	uint16		xmin_high;
	uint16		bytes;			/* of this body, ranges included */
	uint16		len;			/* of the whole MinimalTuple */
	uint16		nranges;
	uint64		base_cts;		/* of the base, the row's version from which
								 * it differs; LP is 0 */
	uint64		base;			/* its slot; 0 in the bits above */
} ZenDelta;

typedef struct ZenDeltaRange
{
	uint16		at;				/* byte of the MinimalTuple */
	uint16		len;
} ZenDeltaRange;

#define ZEN_DELTA_MARK			2	/* no length of a version, two bits away
									 * from ZEN_SCRUBBED */

StaticAssertDecl(sizeof(ZenDelta) == 32 && offsetof(ZenDelta, crc) == offsetof(ZenTupleBody, crc) &&
				 offsetof(ZenDelta, xmin_high) == offsetof(ZenTupleBody, xmin_high) &&
				 offsetof(ZenDelta, bytes) == offsetof(ZenTupleBody, infomask2), "a delta begins like any body");
StaticAssertDecl(sizeof(ZenDeltaRange) == 4, "range of a delta");

#define ZEN_LINK_MOVED			ZEN_TID_MASK	/* to another partition: the
												 * offset of no TID */
#define ZEN_LP					(UINT64CONST(1) << 63)
#define ZEN_CTS_MASK			(~ZEN_LP)
#define ZEN_DELETED				(UINT64CONST(1) << 63)
#define ZEN_HTABLE_SHIFT		48	/* in word1 */
#define ZEN_BLOCK_SHIFT			16	/* in word1 */
#define ZEN_OFFSET_MASK			UINT64CONST(0xFFFF)
#define ZEN_TID_MASK			((UINT64CONST(1) << ZEN_HTABLE_SHIFT) - 1)

StaticAssertDecl((((uint64) ZEN_MAX_HTABLES - 1) << ZEN_HTABLE_SHIFT) + ZEN_TID_MASK == ~ZEN_DELETED,
				 "fields of word1 fill it");

#define ZEN_HEADER_SIZE			((Size) sizeof(ZenTupleHeader))
#define ZEN_TOMBSTONE_SIZE		((Size) 32)

StaticAssertDecl(sizeof(ZenTupleHeader) == 16, "NVM-tuple header");
StaticAssertDecl(sizeof(ZenTupleBody) == 12, "NVM-tuple body prefix");
StaticAssertDecl(offsetof(ZenTupleBody, crc) == 4 && offsetof(ZenTupleBody, infomask2) == 10,
				 "length, xmin's low half and CRC of an NVM-tuple are one word");
StaticAssertDecl(sizeof(ZenTombstone) == 16 && offsetof(ZenTombstone, link) == 10, "tombstone with a link");
StaticAssertDecl(ZEN_TOMBSTONE_SIZE == sizeof(ZenTupleHeader) + sizeof(ZenTombstone), "tombstone with a link");
StaticAssertDecl(ZEN_PAGE_SIZE - 64 <= PG_UINT16_MAX, "the length of a tuple fits 16 bits");

/* A slot is named by its offset in the pool in units of 16 bytes; 0 is none (the superblock lies there). */
typedef uint64 ZenSlot;

#define InvalidZenSlot			((ZenSlot) 0)
#define ZEN_SLOT_UNIT			16

StaticAssertDecl(ZEN_LINE % ZEN_SLOT_UNIT == 0 && ZEN_SLOT_UNIT >= sizeof(ZenTupleHeader),
				 "word0 and word1 of a slot lie in one line");

#endif							/* ZEN_LAYOUT_H */
