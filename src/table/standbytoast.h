/*
 * standbytoast.h -- long values on a hot standby, where the index of a toast table is not there.
 */
#ifndef ZEN_STANDBYTOAST_H
#define ZEN_STANDBYTOAST_H

#include "base/compat.h"

#include "executor/tuptable.h"
#include "utils/rel.h"

/* TIDs, in the order of their chunks; a TID may have another chunk, or none, by now. */
typedef struct ZenChunkTids
{
	int			n;
	int			room;
	uint64	   *tidnos;
} ZenChunkTids;

/* Find chunks by a tree; false: there is none.  standbytree.c sets it, as trees stand above this module. */
extern bool (*zen_standbytoast_chunks) (Relation toastrel, Oid valueid, int32 first, int32 last, ZenChunkTids *tids);

/* Some chunks of a value. */
typedef struct ZenStandbyValue
{
	Relation	toastrel;
	Oid			valueid;
	bool		by_tree;
	int			next;			/* of tids */
	ZenChunkTids tids;
} ZenStandbyValue;

/*
 * zen_standbytoast_begin -- look for chunks of a value, from one number to another.
 *
 * zen_standbytoast_find -- show one of them in a slot of the toast table, in the order of their numbers; false: there
 * is none.
 */
extern void zen_standbytoast_begin(ZenStandbyValue *value, Relation toastrel, Oid valueid, int32 first, int32 last);
extern bool zen_standbytoast_find(ZenStandbyValue *value, int32 seq, TupleTableSlot *slot);
extern void zen_standbytoast_end(ZenStandbyValue *value);

/*
 * zen_standbytoast_read -- a copy of a value stored out of line, which may be compressed; NULL: chunks of it are gone,
 * as no snapshot needs them.
 */
extern struct varlena *zen_standbytoast_read(struct varlena *pointer);

#endif							/* ZEN_STANDBYTOAST_H */
