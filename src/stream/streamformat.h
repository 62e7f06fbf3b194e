/*
 * streamformat.h -- zen's records in PostgreSQL's WAL.
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

/*
 * The number of the resource manager.  128 is PostgreSQL's for experiments: before a release one is to be reserved
 * at https://wiki.postgresql.org/wiki/CustomWALResourceManagers, and to take its place here, and nowhere else.
 */
#define ZEN_RMGR_ID			RM_EXPERIMENTAL_ID

/* Record kinds: the upper half of a record's info. */
#define ZEN_XLOG_ROWS		0x00
#define ZEN_XLOG_XID		0x10	/* no changes: its place in the WAL, and
									 * its xid, are all that counts */
#define ZEN_XLOG_GAP		0x20	/* changes before it are missing: the
									 * stream was off */

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

/* What of a heap tuple is in a record. */
#define ZEN_STREAM_OMITTED	offsetof(HeapTupleHeaderData, t_infomask2)

#endif							/* ZEN_STREAMFORMAT_H */
