/*
 * streamformat.h -- zen's records in PostgreSQL's WAL, and reading them: for redo and for decoding.
 *
 * The record kind ROWS: changes of rows of one table, in the order in which they were made.  Nothing in it is
 * aligned; all is read by memcpy.
 *
 *	ZenStreamHead	the table
 *	then, for each row
 *	ZenStreamRow	what was done, and the lengths of
 *	new row			the bytes of its tuple from t_infomask2 on
 *	old row			the same of the replica identity, or of the whole old row
 *
 * The record bears the xid of the (sub)transaction that has made the change, as heap's do.
 */
#ifndef ZEN_STREAMFORMAT_H
#define ZEN_STREAMFORMAT_H

#include "base/compat.h"

#include "access/htup_details.h"
#include "access/rmgr.h"
#include "access/xlogreader.h"

/*
 * The number of the resource manager.  128 is PostgreSQL's for experiments: one is to be reserved at
 * https://wiki.postgresql.org/wiki/CustomWALResourceManagers, and to take its place here (README, "The number of the
 * resource manager").
 */
#define ZEN_RMGR_ID			RM_EXPERIMENTAL_ID

/* Record kinds: the upper half of a record's info. */
#define ZEN_XLOG_ROWS		0x00
#define ZEN_XLOG_XID		0x10	/* no changes: its place in the WAL, and
									 * its xid, are all that counts */
#define ZEN_XLOG_GAP		0x20	/* changes before it are missing: the
									 * stream was off */

/* Of the pool itself, for its copies: zen.stream = replica. */
#define ZEN_XLOG_SLOTS		0x30	/* versions in slots: ZenCopyHead, then
									 * for each ZenCopySlot and its bytes */
#define ZEN_XLOG_SCRUB		0x40	/* slots made empty: ZenCopyHead, then
									 * their numbers (8 bytes each) */
#define ZEN_XLOG_BYTES		0x50	/* of a directory: offset (8 bytes), bytes */
#define ZEN_XLOG_ZERO		0x60	/* a page is zero and free: number (4) */
#define ZEN_XLOG_PAGES		0x70	/* part of the page directory, at a start:
									 * number of the first (4), then words */
#define ZEN_XLOG_TABLES		0x80	/* part of the HTable directory, at a
									 * start: numbers from (4) and up to (4),
									 * then of those that are not all zero the
									 * number (4) and the entry */
#define ZEN_XLOG_RECOVERED	0x90	/* the end of these: a ZenCopyHead for
									 * each prepared transaction */
#define ZEN_XLOG_GROWN		0xA0	/* a file's number, its first page's, and
									 * how many it has (4 each) */
#define ZEN_XLOG_COVERED	0xC0	/* a watermark: ZenCopyHead of which
									 * region and cts count */
#define ZEN_XLOG_TAIL		0xD0	/* the tail, at a start, all of it: for
									 * each transaction ZenCopyLost, then as
									 * in SLOTS */
#define ZEN_XLOG_UNCOPIED	0xB0	/* from here on changes of the pool are
									 * not in the WAL: 1 (4 bytes) if it has
									 * tables */

#define ZEN_XLOG_NOTE		0xE0	/* what the primary server says of itself:
									 * ZenCopyNote */

/*
 * The version of all these records.  A change of any of them is a further version, and one that an older zen cannot
 * ignore is also a further format version of the pool (nvm/layout.h): a base backup may begin behind the note that
 * says it.  A newer zen reads all versions from 1 on.
 */
#define ZEN_STREAM_VERSION	2	/* that this zen reads */
#define ZEN_STREAM_VERSION_WHOLE	1	/* all versions in SLOTS and TAIL are
										 * whole: of a pool of a format before
										 * ZEN_FORMAT_VERSION_DELTAS */

/* What a note says. */
#define ZEN_NOTE_EMPTY		1	/* the pool has no rows and no tables: a copy
								 * may begin here.  Behind it for each file
								 * ZenCopyLayout */
#define ZEN_NOTE_DRAM		2	/* what copies will need to open the tables */
#define ZEN_NOTE_UNSEEN		3	/* a table is made whose rows are not in the
								 * WAL.  Of any zen.stream but replica */
#define ZEN_NOTE_VERSION	4	/* at a start, before all others: the version
								 * of the records from here on */

typedef struct ZenCopyNote
{
	uint32		what;			/* ZEN_NOTE_* */
	uint32		number;			/* EMPTY: of files.  VERSION: of the version */
	uint64		dram_size;		/* bytes of zen.dram_size; 0: not told */
	uint64		dram_needs;		/* bytes of it without row versions */
} ZenCopyNote;

/* Of a file of the pool.  A copy has it as well: places in the directories follow from it. */
typedef struct ZenCopyLayout
{
	uint32		first;
	uint32		first_data;
} ZenCopyLayout;

StaticAssertDecl(sizeof(ZenCopyNote) == 24 && sizeof(ZenCopyLayout) == 8, "formats in the WAL");

/* What a transaction has done in a region. */
typedef struct ZenCopyHead
{
	uint16		region;
	uint16		kind;			/* ZEN_DOUBT_*; NONE: nothing is decided yet */
	uint32		since;			/* SLOTS: cts minus this is the last Tx-CTS
								 * that the region has committed before; 0 =
								 * not said */
	uint64		full_xid;		/* SLOTS: that decides, now or, of kind NONE,
								 * later.  SCRUB: that is undone. 0 = none */
	uint64		cts;			/* all of the region up to here depend on it */
} ZenCopyHead;

typedef struct ZenCopySlot
{
	uint64		slot;
	uint16		len;			/* bytes that follow, from word0 on; 0: it is
								 * made empty */
}			pg_attribute_packed()
ZenCopySlot;

/* A transaction that is committed, whatever pg_xact says. */
typedef struct ZenCopyLost
{
	uint32		region;
	uint32		len;			/* bytes that follow, of slots */
	uint64		cts;
} ZenCopyLost;

StaticAssertDecl(sizeof(ZenCopyLost) == 16, "a format in the WAL");
StaticAssertDecl(sizeof(ZenCopyHead) == 24 && sizeof(ZenCopySlot) == 10, "formats in the WAL");

typedef struct ZenStreamHead
{
	uint32		spc;
	uint32		db;
	uint32		relnumber;
	uint32		flags;			/* ZEN_STREAM_* */
} ZenStreamHead;

#define ZEN_STREAM_TOAST	1	/* the rows are chunks of a toast table */

typedef enum ZenStreamKind
{
	ZEN_STREAM_INSERT = 1,
	ZEN_STREAM_UPDATE,
	ZEN_STREAM_DELETE
} ZenStreamKind;

typedef struct ZenStreamRow
{
	uint8		kind;			/* ZenStreamKind */
	uint8		pad;
	uint16		new_len;		/* bytes; 0 = none */
	uint32		old_len;		/* bytes; 0 = none.  A whole old row has its
								 * long values in it */
} ZenStreamRow;

StaticAssertDecl(sizeof(ZenStreamHead) == 16 && sizeof(ZenStreamRow) == 8, "a format in the WAL");

/* The part of a heap tuple that is in a record. */
#define ZEN_STREAM_OMITTED	offsetof(HeapTupleHeaderData, t_infomask2)

/* ---------- reading a record from its first byte to its last ---------- */

typedef struct ZenRecordReader
{
	const char *at;
	const char *end;
	XLogRecPtr	lsn;
} ZenRecordReader;

static inline ZenRecordReader
zen_record_begin(XLogReaderState *record)
{
	ZenRecordReader r;

	r.at = XLogRecGetData(record);
	r.end = r.at + XLogRecGetDataLen(record);
	r.lsn = record->ReadRecPtr;
	return r;
}

/* zen_record_left -- bytes that have not been read. */
static inline Size
zen_record_left(const ZenRecordReader *r)
{
	return r->end - r->at;
}

/* zen_record_take -- copy the next n bytes; false if there are not so many, and then nothing is done. */
static inline bool
zen_record_take(ZenRecordReader *r, void *to, Size n)
{
	if (zen_record_left(r) < n)
		return false;
	memcpy(to, r->at, n);
	r->at += n;
	return true;
}

#endif							/* ZEN_STREAMFORMAT_H */
