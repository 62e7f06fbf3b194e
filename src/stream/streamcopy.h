/*
 * streamcopy.h -- changes of the pool on their way into the WAL, for copies of the pool: zen.stream = replica.
 *
 * src/stream/README, "Copies of the pool", has the rules.  Process-local but for what is in the WAL.
 */
#ifndef ZEN_STREAMCOPY_H
#define ZEN_STREAMCOPY_H

#include "base/guc.h"
#include "nvm/layout.h"

static inline bool
zen_copies(void)
{
	return unlikely(zen_stream == ZEN_STREAM_REPLICA);
}

/* ---------- versions ---------- */

/* zen_copy_attach -- once in each process that writes versions: later nothing throws for lack of memory.  May throw. */
extern void zen_copy_attach(void);

/*
 * zen_copy_spilled -- versions written so far, durable by now, are logged; the transaction goes on.
 */
extern void zen_copy_spilled(uint32 region);

/* zen_copy_forget -- what was written since is undone. */
extern void zen_copy_forget(void);

/*
 * zen_copy_build -- the record of all versions written since; the transaction depends on full_xid from its end on.
 *
 * tail: a slot that is to be empty in copies, or InvalidZenSlot.  Returns the record, and its length in *len.  Earlier
 * parts of what is too long for one record are logged.
 *
 * zen_copy_decide -- insert it.  All slots are durable.  A checkpoint waits until zen_copy_decided(): LP, or the
 * descriptor, is durable.
 */
extern const char *zen_copy_build(uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot tail, uint32 *len);
extern void zen_copy_decide(void);
extern void zen_copy_decided(void);

/*
 * zen_copy_size -- bytes of the record of n versions that take `bytes` in their slots, and of a tail slot.
 *
 * ZEN_COPY_VERSIONS: so many are in one record, and in no earlier one, if they have no more bytes than are kept.
 */
extern Size zen_copy_size(uint32 n, Size bytes);

#define ZEN_COPY_VERSIONS	1000

/*
 * zen_copy_again -- the record, kept in NVM, of a transaction that the WAL has lost: insert it for the present one,
 * after recovery has scrubbed the losers.  Changes the bytes.
 */
extern void zen_copy_again(char *record, uint32 len);

/* zen_copy_waits -- is the commit to wait for a synchronous standby, or for a subscriber that has its rows? */
extern bool zen_copy_waits(void);

/* ---------- slots that become empty ---------- */

/*
 * Slots are scrubbed so, as nothing in NVM tells of it after a crash:
 *
 *	zen_copy_vanish		for each slot: into a record
 *	zen_copy_vanish_begin	that is flushed; a checkpoint waits from here on.  full_xid: of the transaction that ends by
 *							it; 0 = none
 *	...						they are scrubbed, durably
 *	zen_copy_vanish_end
 */
extern void zen_copy_vanish(ZenSlot slot);
extern void zen_copy_vanish_begin(uint32 region, uint64 full_xid);
extern void zen_copy_vanish_end(void);

/* ---------- start ---------- */

/*
 * zen_copy_recovered -- recovery's leader, before anybody can write: tell copies of all directories; the pool is a
 * primary's.  Durable on return.
 */
extern void zen_copy_recovered(void);

extern void zen_copy_install(void);

#endif							/* ZEN_STREAMCOPY_H */
