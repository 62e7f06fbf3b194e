/*
 * takeslots.h -- a commit takes the slots that its writes need.
 */
#ifndef ZEN_TAKESLOTS_H
#define ZEN_TAKESLOTS_H

#include "row/writeset.h"

#define ZEN_WRITES_AHEAD	8	/* writes of which something is asked for
								 * before one is looked at */

/*
 * zen_ask_ahead -- a loop over the write set is at w: ask for what it looks at soon.  That is a version, and later the
 * one below it.
 *
 * If the transaction is visible, the version may have been collected: what is read of it only says what is asked for.
 */
static inline void
zen_ask_ahead(const ZenWrite *w, const ZenWrite *end)
{
	if (end - w > 2 * ZEN_WRITES_AHEAD)
		zen_version_ask(w[2 * ZEN_WRITES_AHEAD].version);
	if (end - w > ZEN_WRITES_AHEAD && w[ZEN_WRITES_AHEAD].version != NULL)
		zen_version_ask(w[ZEN_WRITES_AHEAD].version->older);
}

/*
 * zen_take_slots -- slots for all writes that need one, of a leased region; or none, and false, if the pool is full.
 *
 * Before that it collects garbage, and tries other regions.  The caller has leased *region, and has leased what it is
 * on return.  Outside any epoch.
 */
extern bool zen_take_slots(uint32 *region, ZenWriteSet *ws);

/* zen_return_slots -- give back slots that hold nothing: not written, or scrubbed. */
extern void zen_return_slots(ZenWriteSet *ws);

#endif							/* ZEN_TAKESLOTS_H */
