/*
 * rowahead.h -- rows that are about to be read: their memory, and the disk, are asked for many of them at once.
 */
#ifndef ZEN_ROWAHEAD_H
#define ZEN_ROWAHEAD_H

#include "base/compat.h"

#include "cache/tidmap.h"
#include "cache/version.h"

#define ZEN_PREFETCH_LINES	3	/* of a row: a version's header and 100 bytes
								 * of data */

/* Ask for so many lines of what a word leads to. */
static inline void
zen_row_prefetch_word(uint64 w, int lines)
{
	const char *p = zen_word_state(w) == ZEN_WORD_ENTRY ? (const char *) zen_word_entry(w) :
	zen_word_state(w) == ZEN_WORD_NVM ? (const char *) zen_slot_ptr(zen_word_ref(w)) : NULL;

	for (int i = 0; p != NULL && i < lines; i++)
		__builtin_prefetch(p + i * ZEN_LINE);
}

/*
 * Inside an epoch, for the words of a block of TIDs; wanted has a bit for each row.
 *
 * zen_row_ask_disk -- ask the disk for them, if this process has waited for a disk lately.
 *
 * zen_row_ask_block -- the same, and ask for their memory.
 */
extern void zen_row_ask_disk(ZenWord *words, uint64 wanted);
extern void zen_row_ask_block(ZenWord *words, uint64 wanted);

/*
 * zen_row_prefetch_block -- both, for a block's rows which the caller is about to read one by one.
 *
 * zen_row_prefetch -- the same for rows anywhere in the table.
 *
 * zen_row_prefetch_words -- only for the memory of their map words, at which zen_row_prefetch() looks: some time
 * before it.  Caller has a lock on the table.
 */
extern void zen_row_prefetch_block(ZenHTable *ht, uint64 block);
extern void zen_row_prefetch(ZenHTable *ht, const uint64 *tidnos, int n);
extern void zen_row_prefetch_words(ZenHTable *ht, const uint64 *tidnos, int n);

/*
 * zen_row_seen -- of up to 64 TIDs those under which every snapshot sees a row, as far as the map tells: bit i for
 * TID i.
 *
 * Caller has a lock on the table.
 */
extern uint64 zen_row_seen(ZenHTable *ht, const ItemPointerData *tids, int n);

#endif							/* ZEN_ROWAHEAD_H */
