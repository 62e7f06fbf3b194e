/*
 * touched.c -- the bits of touched pages, and the line that says since which map they count.
 *
 * Each file has the bits of its own pages.  One spinlock covers them all: a bit changes once for each page and save.
 */
#include "nvm/touched.h"

#include "base/locks.h"
#include "nvm/persist.h"
#include "port/pg_crc32c.h"
#include "storage/shmem.h"

ZenTouched *zen_touched;

/* ---------- bits ---------- */

bool
zen_touched_has_bit(uint32 pageno)
{
	return pageno - zen_pool_file_of(pageno)->first < ZEN_TOUCHED_PAGES;
}

static uint64 *
bits_word(uint32 pageno)
{
	const ZenPoolFile *file = zen_pool_file_of(pageno);

	Assert(zen_touched_has_bit(pageno));
	return (uint64 *) (zen_pool.base + file->first * ZEN_PAGE_SIZE + ZEN_OFF_TOUCHED) + (pageno - file->first) / 64;
}

static uint64
bit_of(uint32 pageno)
{
	return UINT64CONST(1) << ((pageno - zen_pool_file_of(pageno)->first) % 64);
}

bool
zen_touched_bit(uint32 pageno)
{
	return (zen_nvm_load64(bits_word(pageno)) & bit_of(pageno)) != 0;
}

void
zen_touched_store(uint32 pageno, bool on)
{
	uint64	   *word = bits_word(pageno);
	uint64		now = zen_nvm_load64(word);

	ZenAssertSpinLocked(&zen_touched->lock);
	zen_nvm_store64(word, on ? now | bit_of(pageno) : now & ~bit_of(pageno));
}

void
zen_touched_flush(uint32 pageno)
{
	zen_flush(bits_word(pageno), sizeof(uint64));
}

/* ---------- the state line ---------- */

static ZenTouchedState *
state_line(void)
{
	return (ZenTouchedState *) (zen_pool.base + ZEN_OFF_TOUCHED_STATE);
}

static uint64
state_check(const ZenTouchedState *state)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, state, offsetof(ZenTouchedState, check));
	FIN_CRC32C(crc);
	return crc;
}

static void
write_state(uint64 chain, uint64 seq, uint64 generation)
{
	ZenTouchedState *line = state_line();
	ZenTouchedState state = {.chain = chain,.seq = seq,.generation = generation};

	/* torn, the check does not fit */
	state.check = state_check(&state);
	zen_nvm_store64(&line->chain, state.chain);
	zen_nvm_store64(&line->seq, state.seq);
	zen_nvm_store64(&line->generation, state.generation);
	zen_nvm_store64(&line->check, state.check);
	zen_persist_now(line, sizeof(*line));
}

static uint64
this_generation(void)
{
	ZenSuperblock super;

	zen_pool_superblock(0, &super);
	return super.generation;
}

/*
 * The last run that has noted its stores is the one before this, or this one, whose processes have crashed.  Stores are
 * not noted by redo, nor where they are lazy.
 */
static bool
chain_is_unbroken(const ZenTouchedState *state)
{
	uint64		generation = this_generation();

	return state->chain != 0 && state->check == state_check(state) &&
		(state->generation == generation || state->generation + 1 == generation) &&
		zen_nvm_mode() != ZEN_POOL_WAL && !zen_pool_is_replica() && !zen_pool.scratch;
}

void
zen_touched_go_on(uint64 seq)
{
	Assert(zen_touched->unbroken);
	zen_touched->seq = seq;
	if (state_line()->generation != this_generation() || state_line()->seq != seq)
		write_state(zen_touched->chain, seq, this_generation());
	pg_atomic_write_u32(&zen_touched->noted, 1);
}

void
zen_touched_break(void)
{
	zen_touched->unbroken = false;
	if (state_line()->chain != 0)
		write_state(0, 0, 0);
}

void
zen_touched_saved(uint64 chain, uint64 seq)
{
	Assert(pg_atomic_read_u32(&zen_touched->noted) == 1 && chain != 0);
	write_state(chain, seq, this_generation());
	zen_touched->unbroken = true;
	zen_touched->chain = chain;
	zen_touched->seq = seq;
}

/* ---------- start ---------- */

static void
touched_shmem_init(void)
{
	const ZenTouchedState *state = state_line();
	bool		found;

	zen_touched = ShmemInitStruct("zen touched pages", sizeof(ZenTouched), &found);
	SpinLockInit(&zen_touched->lock);
	pg_atomic_init_u32(&zen_touched->noted, 0);
	pg_atomic_init_u32(&zen_touched->npages, 0);
	zen_touched->unbroken = chain_is_unbroken(state);
	zen_touched->chain = state->chain;
	zen_touched->seq = state->seq;

	/*
	 * now, in case this start goes no further; but after a clean stop
	 * zen.map's checksum covers the line
	 */
	if (zen_touched->unbroken && !zen_pool.was_clean)
		zen_touched_go_on(state->seq);
}

const ZenShmem zen_touched_shmem = {.bytes = sizeof(ZenTouched),.init = touched_shmem_init};
