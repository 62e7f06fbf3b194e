/*
 * rowahead.c -- rows that are about to be read: their memory, and the disk, are asked for many of them at once.
 *
 * Memory.  A version or a slot is seldom near the one before.  So all map words are asked for, then what they lead to.
 *
 * The disk.  In modes wal and msync the pool is a mapped file, and may be larger than memory.  The kernel reads the
 * page that a process touches, and nothing around it (zen_nvm_will_need).  A scan that read one page after the other
 * would wait for the disk each time.  So as soon as it has waited once, it asks for all rows of a block before it reads
 * the first.
 *
 * Slots of rows that were loaded one after the other stand one after the other, too.  If most pages of a block's rows
 * follow each other, the scan asks for some more of the pool, far enough ahead that the disk is always at work.
 */
#include "row/rowahead.h"

#include "base/epoch.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "port/pg_bitutils.h"

#define DISK_PAGE	4096
#define WINDOW		(1024 * 1024)	/* bytes that a sequential scan asks for
									 * at once */

/* The pages that were asked for. */
typedef struct Asked
{
	uintptr_t	last;			/* end of the last one */
	int			pages;
	int			in_order;		/* of them: the one after the last */
} Asked;

/* Ask for the slot that a word leads to, if it was not asked for. */
static void
ask_for(Asked *asked, uint64 w)
{
	uintptr_t	begin,
				end;
	ZenSlot		slot = zen_word_ref(w);

	ZenAssertInEpoch();
	if (zen_word_state(w) != ZEN_WORD_NVM && zen_word_state(w) != ZEN_WORD_SPILLED)
		return;
	begin = (uintptr_t) zen_slot_ptr(slot);
	end = TYPEALIGN(DISK_PAGE, begin + zen_slot_size(slot));
	begin = TYPEALIGN_DOWN(DISK_PAGE, begin);
	if (begin < asked->last && end <= asked->last && begin + WINDOW > asked->last)
		return;
	if (begin == asked->last || begin + DISK_PAGE == asked->last)
		asked->in_order++;
	asked->pages++;
	asked->last = end;
	zen_nvm_will_need((void *) begin, end - begin);
}

/* The rows seem to stand in order: what follows them is for the next blocks.  It was asked for up to `until`. */
static void
ask_beyond(const Asked *asked)
{
	static uintptr_t until = 0;

	if (asked->last + WINDOW / 2 < until && until <= asked->last + WINDOW)
		return;
	zen_nvm_will_need((void *) asked->last, WINDOW);
	until = asked->last + WINDOW;
}

void
zen_row_ask_disk(ZenWord *words, uint64 wanted)
{
	Asked		asked = {0};

	if (!zen_nvm_reads_disk())
		return;
	for (uint64 left = wanted; left != 0; left &= left - 1)
		ask_for(&asked, zen_word_read(&words[pg_rightmost_one_pos64(left)]));
	if (asked.pages > 0 && 2 * (asked.in_order + 1) > asked.pages)
		ask_beyond(&asked);
}

void
zen_row_ask_block(ZenWord *words, uint64 wanted)
{
	zen_row_ask_disk(words, wanted);
	for (uint64 left = wanted; left != 0; left &= left - 1)
		zen_row_prefetch_word(zen_word_read(&words[pg_rightmost_one_pos64(left)]), ZEN_PREFETCH_LINES);
}

void
zen_row_prefetch_block(ZenHTable *ht, uint64 block)
{
	ZenWord    *words;

	zen_epoch_enter();
	words = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK);
	if (words != NULL)
		zen_row_ask_block(words, PG_UINT64_MAX);
	zen_epoch_leave();
}

void
zen_row_prefetch_words(ZenHTable *ht, const uint64 *tidnos, int n)
{
	ZenLeaf		leaf = ZEN_NO_LEAF;

	for (int i = 0; i < n; i++)
		__builtin_prefetch(zen_tidmap_word_near(ht, tidnos[i], &leaf));
}

void
zen_row_prefetch(ZenHTable *ht, const uint64 *tidnos, int n)
{
	Asked		asked = {0};
	ZenLeaf		leaf = ZEN_NO_LEAF;
	bool		disk = zen_nvm_reads_disk();

	zen_epoch_enter();
	for (int i = 0; i < n; i++)
	{
		ZenWord    *word = zen_tidmap_word_near(ht, tidnos[i], &leaf);

		if (word == NULL)
			continue;
		zen_row_prefetch_word(zen_word_read(word), ZEN_PREFETCH_LINES);
		if (disk)
			ask_for(&asked, zen_word_read(word));
	}
	zen_epoch_leave();
}

uint64
zen_row_seen(ZenHTable *ht, const ItemPointerData *tids, int n)
{
	ZenWord    *words[64];
	ZenLeaf		leaf = ZEN_NO_LEAF;
	uint64		seen = 0;

	Assert(n <= lengthof(words));
	for (int i = 0; i < n; i++)
	{
		words[i] = zen_tidmap_word_near(ht, zen_tidno(&tids[i]), &leaf);
		__builtin_prefetch(words[i]);
	}
	for (int i = 0; i < n; i++)
		if (words[i] != NULL && zen_word_is_seen(pg_atomic_read_u64(words[i])))
			seen |= UINT64CONST(1) << i;
	return seen;
}
