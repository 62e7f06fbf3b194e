/*
 * rowmake.h -- insert a row, copy it, and have it in DRAM if it is only in NVM.
 *
 * Knows no Relation: triggers and predicate locks are the table layer's.  All functions are called outside any epoch,
 * and may throw ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROWMAKE_H
#define ZEN_ROWMAKE_H

#include "cache/spillmap.h"
#include "row/writeset.h"

#include "access/tableam.h"

/*
 * zen_row_make_version -- a version of this transaction with a copy of tuple (NULL: a tombstone), not yet published.
 *
 * Finds or waits for room if DRAM is full.  Throws if that does not help, or if the row is too big.  The caller
 * publishes or frees it.
 */
extern ZenVersion *zen_row_make_version(MinimalTuple tuple, CommandId cid, uint32 flags);

/*
 * zen_row_take_tid -- zen_tidmap_take() for a version.
 *
 * Finds or waits for room if DRAM is full (zen_find_room), and throws if that does not help: an abort must find the
 * version.
 */
extern void zen_row_take_tid(ZenHTable *ht, ZenVersion *v, uint64 *tidno, ZenWord **word);

/*
 * zen_row_insert -- a new row; returns its TID number.  tuple is copied.
 *
 * spec_token 0: an ordinary insertion; else it must be completed by zen_row_complete().  frozen: every snapshot that
 * can reach the table sees the row at once (COPY FREEZE and REFRESH: the table is new in this transaction).
 */
extern uint64 zen_row_insert(ZenHTable *ht, MinimalTuple tuple, CommandId cid, uint32 spec_token, bool frozen);

#define ZEN_INSERT_ROWS		ZEN_TIDS_PER_BLOCK

/* Rows that are inserted together. */
typedef struct ZenNewRows
{
	MinimalTuple *tuples;
	uint32		n;				/* at most ZEN_INSERT_ROWS */
	CommandId	cid;
	bool		frozen;			/* as for zen_row_insert() */
	const TransactionId *xmins; /* of frozen rows: who has written them
								 * before; NULL: this transaction */
} ZenNewRows;

/*
 * zen_row_insert_many -- new rows, as zen_row_insert() makes them; taken tells their TIDs.
 *
 * An error may leave some of them inserted.
 */
extern void zen_row_insert_many(ZenHTable *ht, const ZenNewRows *rows, ZenTakenTid *taken);

/*
 * CLUSTER and VACUUM FULL: take a row to another table with all versions that some snapshot may see, under their own
 * xids.
 *
 * zen_row_clone makes a private copy of the chain, newest first, and returns the link to its head; NULL if there is no
 * row.
 * zen_row_reform replaces one of its versions by the same with other contents.
 * zen_row_place makes the chain a row of the other table.
 * zen_row_abandon frees the chain, and rows that zen_row_insert_many has not placed; abort calls it.
 *
 * One chain is in hand at a time.
 */
extern ZenVersion **zen_row_clone(ZenHTable *from, uint64 tidno);
extern ZenVersion *zen_row_reform(ZenVersion *v, MinimalTuple tuple);
extern void zen_row_place(ZenHTable *to);
extern void zen_row_abandon(void);

/* zen_row_complete -- confirm a speculative insertion, or take it back. */
extern void zen_row_complete(ZenHTable *ht, uint64 tidno, bool succeeded);

/*
 * zen_row_admit -- have a row that is only in NVM in an entry.
 *
 * On return the word was in another state than NVM or SPILLED for a moment.  Throws as zen_admission_admit().  Caller
 * is outside any epoch.
 */
extern void zen_row_admit(ZenHTable *ht, uint64 tidno, ZenWord *word);

/*
 * zen_row_admit_unread -- the same in recovery, while no other process is at work.  False when DRAM is full.
 *
 * The data stays unread in the slots, be it sound or damaged.  A tombstone that says where its row goes on becomes an
 * entry, too.
 */
extern bool zen_row_admit_unread(ZenHTable *ht, uint64 tidno, ZenWord *word);

/* zen_prepared_resolve(), which is above this module; set when shared memory is initialized. */
extern bool (*zen_row_admit_resolve) (void);

/*
 * zen_row_admit_wait_for_undo -- wait a little, because a row was met that an aborted transaction has spilled and has
 * to take back.
 *
 * A row of a prepared transaction is taken back here, if no other process does.  Outside of epochs, without LWLocks.
 */
extern void zen_row_admit_wait_for_undo(void);

#endif							/* ZEN_ROWMAKE_H */
