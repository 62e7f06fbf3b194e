/*
 * sink.h -- the functions that are told of changes of the pool, and of the transactions that make them.
 *
 * With zen.stream that is the WAL.  The engine knows nothing of it.  At each moment of which the WAL may have to know,
 * it calls a function of this table (ZEN_TELL).  A member that is NULL is not called, and costs a test.
 * stream/streamsink fills the table at the start; src/stream/README, "What the engine tells", says which rule rests on
 * which moment.
 *
 * No function throws but begin().
 */
#ifndef ZEN_SINK_H
#define ZEN_SINK_H

#include "nvm/layout.h"

#define ZEN_SINK_BY_RECORD	((int64) -1)

typedef struct ZenSink
{
	/* ---------- directories and pages ---------- */

	/* bytes of a directory are stored, durably; nothing relies on them yet */
	void		(*stored) (const void *at, Size len);

	/*
	 * a watermark is durable: from now on other evidence of what it says may
	 * go
	 */
	void		(*covered) (uint32 region, uint64 cts);

	/*
	 * a page is zero, and about to be free; returns what await() wants before
	 * it has a new owner: recovery could not tell it from the old one
	 */
	uint64		(*zeroed) (uint32 pageno);

	/*
	 * a file of the pool has so many pages, durably; none of the new ones is
	 * used before this returns
	 */
	void		(*grown) (int file, uint32 npages);

	/* ---------- versions ---------- */

	/* a version is about to be written to this slot, with so many bytes */
	void		(*written) (ZenSlot slot, Size size);

	/*
	 * all versions written since are durable, and their transaction goes on;
	 * returns what await() wants before the headers that they have
	 * overwritten are forgotten (R5)
	 */
	uint64		(*spilled) (uint32 region);

	/*
	 * await: position was returned by a function of this table; on return
	 * that change survives a crash.  0 = nothing to wait for.  flush: so does
	 * all that this process has told
	 */
	void		(*await) (uint64 position);
	void		(*flush) (void);

	/* ---------- slots that become empty ---------- */

	/*
	 * Nothing in NVM tells of these after a crash.  So:
	 *
	 * vanishing for each slot; vanish, which makes sure that a crash forgets
	 * none of them; the slots are scrubbed, durably; done.
	 *
	 * full_xid: of the transaction that ends by it, if decide() has told of
	 * it; 0 = none.
	 */
	void		(*vanishing) (ZenSlot slot);
	void		(*vanish) (uint32 region, uint64 full_xid);

	/* what decide() or vanish() has told of is stored, durably */
	void		(*done) (void);

	/* ---------- a transaction ---------- */

	/*
	 * It would commit by LP, with at most nversions slots that take so many
	 * bytes; spilled: and some that were written before.  Nothing is taken
	 * yet.
	 *
	 * Returns the bytes of a slot of HTable 0 that the sink wants beside the
	 * rows'; 0: none; ZEN_SINK_BY_RECORD: the commit record must decide.  May
	 * throw.
	 */
	int64		(*begin) (uint32 nversions, Size bytes, bool spilled);

	/*
	 * All its versions are written, and flushed if there is written().  LP or
	 * the descriptor follows, and then done().  The sink writes its slot, if
	 * it has one.  Returns true if all is durable, false if the caller is to
	 * fence.
	 */
	bool		(*decide) (uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot slot);

	/*
	 * It has committed, and PostgreSQL has inserted the commit record.  The
	 * sink's slot is the sink's to free.  Outside any epoch; may wait for the
	 * disk.
	 */
	void		(*settle) (ZenSlot slot);

	/*
	 * a savepoint of this level is released, or was rolled back; the
	 * transaction has ended
	 */
	void		(*subcommit) (int nest_level);
	void		(*subabort) (int nest_level);
	void		(*end) (void);
} ZenSink;

extern ZenSink zen_sink;		/* constant once the server runs */

/* ZEN_TELL -- call a function of the sink that returns nothing, if there is one. */
#define ZEN_TELL(member, ...) \
	do { \
		if (unlikely(zen_sink.member != NULL)) \
			zen_sink.member(__VA_ARGS__); \
	} while (0)

#endif							/* ZEN_SINK_H */
