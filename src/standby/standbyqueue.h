/*
 * standbyqueue.h -- a hot standby: the versions that are not settled, in the order of redo.
 *
 * All of it is under ZEN_LOCK_STANDBY.  A version in a chain knows its item, and the item knows the version, until the
 * version leaves its chain or is settled.
 */
#ifndef ZEN_STANDBYQUEUE_H
#define ZEN_STANDBYQUEUE_H

#include "cache/version.h"

typedef struct ZenDueItem
{
	uint64		full_xid;
	uint64		tidno;
	ZenVersion *version;		/* NULL: it has left its chain */
	uint32		htable;
} ZenDueItem;

struct ZenDueChunk;

/*
 * From the first item to the end.  Those before the mark have been looked at: every new snapshot sees their
 * transactions as ended, and they stay for older snapshots.
 */
typedef struct ZenDueQueue
{
	struct ZenDueChunk *first;
	struct ZenDueChunk *last;
	struct ZenDueChunk *marked; /* the chunk of the mark; NULL: there is none */
	uint32		mark;			/* the place in it */
	uint64		chunks;
	uint64		pending;		/* items in all */
	uint64		looked_at;		/* ... before the mark */
	uint64		empty;			/* ... of which about so many have no version
								 * any more */
} ZenDueQueue;

extern ZenDueQueue *zen_due_queue;	/* in shared memory */

/* A version on a primary notes changes of its lockers, and of its page, in these places. */
static inline ZenDueItem *
zen_due_item(const ZenVersion *v)
{
	return (ZenDueItem *) (uintptr_t) (((uint64) v->slot_generation << 32) | v->lock_seq);
}

static inline void
zen_due_set_item(ZenVersion *v, ZenDueItem *item)
{
	v->lock_seq = (uint32) (uintptr_t) item;
	v->slot_generation = (uint32) ((uint64) (uintptr_t) item >> 32);
	if (item != NULL)
		item->version = v;
}

/*
 * zen_due_place -- a place at the end; NULL: DRAM is full.  It counts when it is filled.
 *
 * zen_due_add -- it is filled.
 *
 * zen_due_oldest -- the first item; NULL: there is none.
 *
 * zen_due_remove -- the first item is done with; was_empty: it had no version before that.
 */
extern ZenDueItem *zen_due_place(void);
extern void zen_due_add(ZenDueItem *place, uint64 full_xid, uint32 htable, uint64 tidno, ZenVersion *v);
extern ZenDueItem *zen_due_oldest(void);
extern void zen_due_remove(bool was_empty);

/*
 * zen_due_at_mark -- the first item that was not looked at; NULL: there is none.
 *
 * zen_due_move_mark -- it has been.
 *
 * zen_due_note_empty -- an item before the mark has lost its version.
 *
 * zen_due_compact -- if most of the items before the mark are empty, these go.
 */
extern ZenDueItem *zen_due_at_mark(void);
extern void zen_due_move_mark(void);
extern void zen_due_note_empty(void);
extern void zen_due_compact(void);

/* zen_due_for_all -- in order; visit() leaves the queue as it is. */
extern void zen_due_for_all(void (*visit) (ZenDueItem *item, uint64 arg), uint64 arg);

/* zen_due_bytes -- the DRAM that it takes; without the lock, about. */
extern Size zen_due_bytes(void);

/* zen_due_remove_all -- versions do not know their items any more. */
extern void zen_due_remove_all(void);

#endif							/* ZEN_STANDBYQUEUE_H */
