/*
 * zenam_stream.h -- changes of zen tables for logical decoding.
 *
 * To be called behind each change that was made, with the table still open.  All may throw.
 */
#ifndef ZENAM_STREAM_H
#define ZENAM_STREAM_H

#include "base/compat.h"

#include "access/htup.h"
#include "base/guc.h"
#include "utils/rel.h"

/* zenam_stream_logs -- do changes of this table go into the WAL?  Else the functions below need not be called. */
extern bool zenam_stream_logs_table(Relation rel);

static inline bool
zenam_stream_logs(Relation rel)
{
	return unlikely(zen_stream != ZEN_STREAM_OFF) && zenam_stream_logs_table(rel);
}

/* zenam_stream_insert -- rows were inserted, as they are stored. */
extern void zenam_stream_insert(Relation rel, HeapTuple *stored, uint32 n);

/*
 * zenam_stream_update -- a row was updated.  old: as it was stored; identity_needed: the new row does not tell the old
 * one's replica identity.
 */
extern void zenam_stream_update(Relation rel, HeapTuple old, HeapTuple stored, bool identity_needed);

/* zenam_stream_delete -- a row was deleted. */
extern void zenam_stream_delete(Relation rel, HeapTuple old);

#endif							/* ZENAM_STREAM_H */
