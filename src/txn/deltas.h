/*
 * deltas.h -- which rows of a transaction are written as what has changed.
 */
#ifndef ZEN_DELTAS_H
#define ZEN_DELTAS_H

#include "nvm/delta.h"
#include "row/writeset.h"

extern ZenDelta **zen_my_deltas;	/* of this transaction, numbered from 1 */

/*
 * zen_deltas_make -- before slots are taken: find the rows that are to be written so, if zen.deltas is on.
 *
 * Not for PREPARE, whose versions come back as versions of a transaction in progress.  Outside any epoch.  Throws only
 * if memory is short.
 */
extern void zen_deltas_make_all(ZenWriteSet *ws);

static inline void
zen_deltas_make(ZenWriteSet *ws)
{
	if (unlikely(zen_deltas))
		zen_deltas_make_all(ws);
}

/* The bytes that a write takes in NVM. */
static inline Size
zen_write_size(const ZenWrite *w)
{
	if (unlikely(w->delta != 0))
		return ZEN_HEADER_SIZE + zen_my_deltas[w->delta]->bytes;
	return zen_write_nvm_size(w->version);
}

#endif							/* ZEN_DELTAS_H */
