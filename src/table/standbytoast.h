/*
 * standbytoast.h -- long values on a hot standby, where the index of a toast table is not there.
 */
#ifndef ZEN_STANDBYTOAST_H
#define ZEN_STANDBYTOAST_H

#include "base/compat.h"

#include "executor/tuptable.h"
#include "utils/rel.h"

/* zen_standbytoast_find -- show a chunk of a value in a slot of the toast table; false: there is none. */
extern bool zen_standbytoast_find(Relation toastrel, Oid valueid, int32 seq, TupleTableSlot *slot);

/*
 * zen_standbytoast_read -- a copy of a value stored out of line, which may be compressed; NULL: chunks of it are gone,
 * as no snapshot needs them.
 */
extern struct varlena *zen_standbytoast_read(struct varlena *pointer);

#endif							/* ZEN_STANDBYTOAST_H */
