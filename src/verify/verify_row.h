/*
 * verify_row.h -- does a map word lead to the version that it must?
 *
 * Only reads.  All functions are called outside any epoch, take no lock on the table, and never throw; none reports a
 * change that another transaction is just making.
 */
#ifndef ZEN_VERIFY_ROW_H
#define ZEN_VERIFY_ROW_H

#include "cache/version.h"
#include "nvm/slotalloc.h"

/* Something found wrong. */
typedef struct ZenFault
{
	const char *kind;
	ZenSlot		slot;			/* or InvalidZenSlot */
	bool		unreadable;		/* reading the row throws */
	char		detail[160];
} ZenFault;

/* A TID's word, versions and slots; false: *fault describes the finding. */
extern bool zen_verify_word(ZenHTable *ht, uint64 tidno, ZenFault *fault);

/*
 * zen_verify_stale -- R5: would a free slot's header of this table be superseded after a crash?
 *
 * zen_verify_stale_count -- I13: does the TID's count cover the intact headers in n of its free slots?
 */
extern bool zen_verify_stale(ZenHTable *ht, ZenSlot slot, ZenFault *fault);
extern bool zen_verify_stale_count(ZenHTable *ht, uint64 tidno, const ZenSlot *slots, uint32 n, ZenFault *fault);

/* zen_verify_stale_header -- does a slot stand free with the intact header of a row version of a table? */
extern bool zen_verify_stale_header(ZenSlot slot, ZenTupleHeader *header);

/* zen_verify_count -- the TID's stale count. */
extern uint32 zen_verify_count(ZenHTable *ht, uint64 tidno);

/* zen_verify_is_unused -- no index may lead to this TID. */
extern bool zen_verify_is_unused(ZenHTable *ht, uint64 tidno);

/* zen_verify_referenced -- does the map lead to the slot with this header? */
extern bool zen_verify_referenced(ZenSlot slot, ZenTupleHeader header);

#endif							/* ZEN_VERIFY_ROW_H */
