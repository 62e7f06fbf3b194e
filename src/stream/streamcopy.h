/*
 * streamcopy.h -- changes of the pool on their way into the WAL, for copies of the pool: zen.stream = replica.
 *
 * src/stream/README, "Copies of the pool", has the rules.  All state is process-local, but for the WAL.
 */
#ifndef ZEN_STREAMCOPY_H
#define ZEN_STREAMCOPY_H

#include "base/compat.h"

#include "lib/stringinfo.h"
#include "base/guc.h"
#include "nvm/sink.h"

static inline bool
zen_copies(void)
{
	return unlikely(zen_stream == ZEN_STREAM_REPLICA);
}

/* ---------- versions ---------- */

/* zen_copy_install -- fill in the members of the sink that tell copies of changes: all but those of a transaction. */
extern void zen_copy_install(ZenSink *sink);

/*
 * zen_copy_forget -- the transaction has ended: versions that it has written and not logged are undone, and need no
 * record.
 */
extern void zen_copy_forget(void);

/*
 * zen_copy_decide -- all versions written since are made durable, and logged; the transaction depends on full_xid.  A
 * checkpoint waits until the sink's done(): LP, or the descriptor, is durable.
 *
 * tail: the one of these slots that is to be empty in copies, or InvalidZenSlot.  If the changes are too long for one
 * record, their earlier parts have been logged.
 *
 * zen_copy_is_one_record -- are n versions, that take `bytes` in their slots, few enough for one record?
 */
extern void zen_copy_decide(uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot tail);
extern bool zen_copy_is_one_record(uint32 n, Size bytes);

#define ZEN_COPY_VERSIONS	1000
#define ZEN_COPY_BYTES		((Size) 65000)

/* ---------- the tail ---------- */

/*
 * While the WAL may still lose a record, NVM keeps its region (uint32) and the slots that were written since.
 *
 * zen_copy_refs -- store this, of n slots at most, where there is room for zen_copy_refs_size(n) bytes.  Returns how
 * many it takes.
 *
 * zen_copy_again -- after a crash, before anything is scrubbed: add to a record the versions of the transaction with
 * this Tx-CTS that the slots still have; it is committed.  tail: the slot of the tail, which is to be empty in copies.
 * May throw.
 *
 * zen_copy_again_end -- log that record, and empty it.  May throw.
 */
extern Size zen_copy_refs_size(uint32 n);
extern uint32 zen_copy_refs(uint32 region, char *refs);
extern void zen_copy_again(StringInfo record, const char *refs, uint32 len, uint64 cts, ZenSlot tail);
extern void zen_copy_again_end(StringInfo record);

/* ---------- start ---------- */

/*
 * zen_copy_recovering -- recovery's leader, before it tells of the tail: copies follow no longer if zen.stream has
 * another value now.
 *
 * zen_copy_pages -- when it has told of the tail, before it takes anything away: tell copies how large the files are,
 * and which region and table have each page.  Durable on return.
 *
 * zen_copy_recovered -- recovery's leader, before any process can write: tell copies of the other directories; the pool
 * is a primary's.  Durable on return.
 */
extern void zen_copy_recovering(void);
extern void zen_copy_pages(void);
extern void zen_copy_recovered(void);

/* ---------- notes ---------- */

/*
 * zen_copy_dram_needs -- bytes of zen.dram_size that a server needs to open the tables: what is in use now, without row
 * versions.
 *
 * zen_copy_tell_dram -- zen's worker, once a round: tell copies of that number if it has grown by an eighth since they
 * were last told.
 *
 * zen_copy_unseen -- a table is made whose rows will not be in the WAL: a server that replays this WAL from an archive,
 * and would lack the rows, stops.  Nothing if there is no archive, or zen.allow_copies_without_rows is on.
 */
extern uint64 zen_copy_dram_needs(void);
extern void zen_copy_tell_dram(void);
extern void zen_copy_unseen(void);

#endif							/* ZEN_STREAMCOPY_H */
