/*
 * chain.h -- invariants of a row's chain of versions, checked in assert builds when a transaction ends.
 */
#ifndef ZEN_CHAIN_H
#define ZEN_CHAIN_H

#include "cache/version.h"

#ifdef USE_ASSERT_CHECKING

#define ZEN_CHAIN_CHECKED	32	/* versions; longer chains cost no more */

/* One version: what its flags imply and exclude. */
static inline void
zen_chain_check_version(ZenVersion *v)
{
	uint32		flags = zen_version_flags(v);
	bool		deleted = (flags & ZEN_V_TOMBSTONE) != 0;

	Assert(!(flags & ZEN_V_COMMITTED) || !(flags & ZEN_V_ABORTED));
	Assert(!(flags & ZEN_V_FROZEN) || (flags & ZEN_V_COMMITTED));
	Assert(!(flags & ZEN_V_FORWARD) || !(flags & ZEN_V_MOVED));
	Assert(deleted || !(flags & (ZEN_V_FORWARD | ZEN_V_MOVED)));
	Assert(!deleted || (v->len == 0 && !(flags & (ZEN_V_SPECULATIVE | ZEN_V_IN_NVM))));
	Assert(!(flags & ZEN_V_IN_NVM) || v->len == 0);
	Assert(!(flags & (ZEN_V_IN_NVM | ZEN_V_SPILLED)) || v->slot != InvalidZenSlot);
	/* its slot goes with it only when it is no longer in a chain */
	Assert(!(flags & ZEN_V_FREE_SLOT));
	Assert(v->code <= ZEN_MAX_CODE);
	/* that of a frozen one is only for show */
	Assert((flags & ZEN_V_FROZEN) || TransactionIdIsNormal(v->xmin));
}

/* zen_chain_check -- the versions that a word leads to, if it is in state ENTRY; under the word's lock. */
static inline void
zen_chain_check(uint64 w)
{
	ZenVersion *head = zen_word_state(w) == ZEN_WORD_ENTRY ? zen_word_entry(w) : NULL;
	ZenVersion *newer = NULL;
	uint32		n = 0;

	Assert(w & ZEN_WORD_LOCK);
	for (ZenVersion *v = head; v != NULL && n < ZEN_CHAIN_CHECKED; v = v->older)
	{
		zen_chain_check_version(v);
		n++;
		if (newer != NULL)
		{
			/* these belong to the newest version, and codes tell apart */
			Assert(v->lockers == NULL && !(zen_version_flags(v) & (ZEN_V_IN_CLOCK | ZEN_V_SPECULATIVE)));
			Assert(v->code != newer->code && v->code != head->code);
			/* a writer leaves out aborted versions */
			Assert(!(zen_version_flags(newer) & ZEN_V_COMMITTED) || !(zen_version_flags(v) & ZEN_V_ABORTED));
		}
		newer = v;
	}
	Assert(head == NULL || n <= (uint32) head->depth + 1);
}

/* zen_chain_has -- is a version among the first that a word leads to?  Under the word's lock. */
static inline bool
zen_chain_has(uint64 w, const ZenVersion *version)
{
	ZenVersion *v = zen_word_state(w) == ZEN_WORD_ENTRY ? zen_word_entry(w) : NULL;

	for (uint32 n = 0; v != NULL && n < ZEN_CHAIN_CHECKED; v = v->older, n++)
		if (v == version)
			return true;
	return false;
}

#else
#define zen_chain_check(w)	((void) 0)
#endif

#endif							/* ZEN_CHAIN_H */
