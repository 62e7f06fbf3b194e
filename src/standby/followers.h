/*
 * followers.h -- a hot standby: what trees have to hear of rows that redo brings.
 *
 * A tree stands in for an index.  Redo tells it of each row that comes to stand under a TID, and waits for nothing: a
 * tree that is told too much, or for which there is no DRAM, is lost.  Readers bring a tree up to date before they read
 * it.  This folder knows no tree but by its address.
 */
#ifndef ZEN_FOLLOWERS_H
#define ZEN_FOLLOWERS_H

#include "base/compat.h"

#include "base/startup.h"
#include "nvm/htable.h"
#include "port/atomics.h"

/* Rows of n TIDs, one after the other, that a transaction has made. */
typedef struct ZenNews
{
	uint64		full_xid;
	uint64		tidno;
	uint64		n;
} ZenNews;

struct ZenNewsChunk;

/* All but the atomics is under ZEN_LOCK_FOLLOWERS. */
typedef struct ZenFollower
{
	struct ZenFollower *next;	/* of the same table */
	uint32		htable;			/* constant */
	uint64		birth_cts;		/* of the table; constant */
	RelFileLocator loc;			/* of the index; constant */
	void	   *tree;			/* constant once it is ready */
	bool		keepable;		/* a promotion may keep the tree: constant */
	bool		ready;			/* others may read it */
	bool		lost;			/* it is told of nothing any more */
	uint32		pins;			/* readers, and its builder */

	/* news, in the order of redo */
	struct ZenNewsChunk *first;
	struct ZenNewsChunk *last;
	uint64		n;
	uint64		limit;			/* more than that, and it is lost */
	uint64		changes;		/* raised when news are taken away */

	uint64		reused;			/* rows under TIDs that had one before */
	uint64		reused_limit;

	/*
	 * Bit t % nbits is set before a row comes to stand under a TID t that may
	 * have had another one: the tree may have entries of both.
	 */
	pg_atomic_uint32 *doubtful;
	uint64		nbits;			/* a power of 2 */

	/*
	 * 0: a bit was never set, and since the tree was begun no row has gone.
	 * So no entry leads nowhere, or to another row.
	 */
	pg_atomic_uint32 stale;

	/*
	 * The tree has all that transactions have made which had ended when
	 * PostgreSQL's count of ends was this.
	 */
	pg_atomic_uint64 complete;
} ZenFollower;

typedef struct ZenFollowerStats
{
	uint64		trees;
	uint64		news;
	uint64		bytes;			/* of DRAM, trees and all */
	uint64		built;			/* since the server started */
	uint64		lost;
} ZenFollowerStats;

extern const ZenShmem zen_followers_shmem;

/*
 * zen_follower_free_tree, zen_follower_tree_bytes -- free a tree that no other process can reach, and tell its size.
 * admin/ sets them.
 */
extern void (*zen_follower_free_tree) (void *tree);
extern Size (*zen_follower_tree_bytes) (const void *tree);

/* ---------- readers ---------- */

/*
 * zen_follower_begin -- a tree for the index is about to be built: from now on it is told.  Pinned; NULL: DRAM is full,
 * or was so of late.  keepable: it may become the index's own.
 *
 * zen_followers_have_room -- was it not?
 *
 * The caller looks at the table's map afterwards, so it finds each row that is not told.
 *
 * zen_follower_ready -- it has all that stood in the map.  False: it is lost, or another process was first.
 *
 * zen_follower_find -- pin the one that is ready and not lost; NULL: there is none.
 *
 * zen_follower_unpin -- a tree that is lost goes with the last pin.
 *
 * zen_follower_lose -- it is of no use any more.
 *
 * zen_follower_abandon -- nor does the caller need it: its work at the tree has failed.
 */
extern ZenFollower *zen_follower_begin(const ZenHTable *ht, RelFileLocator loc, uint64 ntids, bool keepable);
extern bool zen_followers_have_room(void);
extern bool zen_follower_ready(ZenFollower *f, uint64 nentries);
extern ZenFollower *zen_follower_find(const ZenHTable *ht, RelFileLocator loc);
extern void zen_follower_unpin(ZenFollower *f);
extern void zen_follower_lose(ZenFollower *f);
extern void zen_follower_abandon(ZenFollower *f);

/* zen_follower_complete -- has the tree all that snapshots see which were taken before? */
extern bool zen_follower_complete(ZenFollower *f);

/* zen_follower_count_ends -- PostgreSQL's count: a transaction that a snapshot taken before sees has been counted. */
extern uint64 zen_follower_count_ends(void);

/*
 * zen_follower_news -- a palloced copy of what the tree was told of; false: it is lost.
 *
 * zen_follower_heard -- the tree has what done[] says of these news; the others stay.  All that had ended when the ends
 * were counted is done.
 */
typedef struct ZenNewsCopy
{
	ZenNews    *news;
	bool	   *done;
	uint64		n;
	uint64		changes;
	uint64		ends;
} ZenNewsCopy;

extern bool zen_follower_news(ZenFollower *f, ZenNewsCopy *copy);
extern void zen_follower_heard(ZenFollower *f, const ZenNewsCopy *copy);

/*
 * zen_follower_note -- the builder has met a row of a transaction that has not ended.
 *
 * zen_follower_doubt -- the tree may have more than one entry for the TID.
 */
extern void zen_follower_note(ZenFollower *f, uint64 tidno, uint64 full_xid);

static inline void
zen_follower_doubt(ZenFollower *f, uint64 tidno)
{
	uint64		bit = tidno & (f->nbits - 1);

	pg_atomic_fetch_or_u32(&f->doubtful[bit / 32], (uint32) 1 << (bit % 32));
	pg_atomic_write_u32(&f->stale, 1);
}

/* zen_follower_doubts -- may the tree have an entry of another row, or another key, for the TID? */
static inline bool
zen_follower_doubts(const ZenFollower *f, uint64 tidno)
{
	uint64		bit = tidno & (f->nbits - 1);

	return (pg_atomic_read_u32(&f->doubtful[bit / 32]) >> (bit % 32) & 1) != 0;
}

/* ---------- redo, and the standby's worker ---------- */

/*
 * zen_followers_tell -- a row of full_xid, which has not ended, stands under the TID; reused: perhaps not the first.
 * It was pushed before.
 *
 * zen_followers_row_goes -- a row's tombstone was pushed, which may abort.
 *
 * zen_followers_lose -- those of a table, or of all tables (0), are of no use any more.
 *
 * zen_followers_sweep -- free those that are lost; true if there were any.
 *
 * zen_followers_give_room -- DRAM is full: all are lost, and none is built for a while.  True: some memory is free.
 *
 * zen_followers_forget_files -- those go whose index has gone; exists() tells.
 *
 * zen_followers_stats -- for views.
 */
extern void zen_followers_tell(uint32 htable, uint64 tidno, uint64 full_xid, bool reused);
extern void zen_followers_row_goes(uint32 htable);
extern void zen_followers_lose(uint32 htable);
extern bool zen_followers_sweep(void);
extern bool zen_followers_give_room(void);
extern void zen_followers_forget_files(bool (*exists) (RelFileLocator loc));
extern void zen_followers_stats(ZenFollowerStats *stats);

/* ---------- a promotion ---------- */

/*
 * zen_followers_promote -- replay is over, and its readers have ended.  Those whose trees nobody can keep are lost.
 *
 * zen_follower_take -- the tree of a follower that the caller has pinned: it is the caller's, and the follower is lost.
 * NULL: it is lost already.
 *
 * zen_followers_lose_database -- the tables of a database have the indexes that they need: what is left is lost.
 */
extern void zen_followers_promote(void);
extern void *zen_follower_take(ZenFollower *f);
extern void zen_followers_lose_database(Oid db);

#endif							/* ZEN_FOLLOWERS_H */
