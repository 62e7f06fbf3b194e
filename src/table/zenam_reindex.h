/*
 * zenam_reindex.h -- indexes after a crash, which empties them: src/table/README, "Index rebuild".
 */
#ifndef ZENAM_REINDEX_H
#define ZENAM_REINDEX_H

#include "base/compat.h"

#include "access/xact.h"
#include "nvm/htable.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

/*
 * zen_reindex_table -- rebuild the indexes of a table, or wait until another process has.
 *
 * The table is open and locked.  Returns at once if this process is rebuilding it already.  Throws the errors of a
 * build, and ERRCODE_T_R_DEADLOCK_DETECTED where processes need each other's tables.
 */
extern void zen_reindex_table(Relation rel, ZenHTable *ht);

/* zen_reindex_is_passed -- are the indexes there for this transaction, without waiting? */
extern bool zen_reindex_is_passed(ZenHTable *ht);

/*
 * zen_reindex_hide -- the planner is about to look at the table: if this process is rebuilding its indexes, it sees
 * none.
 */
extern void zen_reindex_hide(Relation rel, ZenHTable *ht);

/*
 * zen_reindex_index_dropped -- this transaction drops an index of a zen table; its abort brings the index back as it
 * is now.
 */
extern void zen_reindex_index_dropped(Oid table);

/*
 * zen_reindex_event, zen_reindex_subevent -- a transaction or subtransaction ends: forget which indexes it has dropped.
 */
extern void zen_reindex_event(XactEvent event);
extern void zen_reindex_subevent(SubXactEvent event, SubTransactionId subxact);

/* zen_reindex_is_sound -- are the indexes of the table there for all, and not held? */
static inline bool
zen_reindex_is_sound(ZenHTable *ht)
{
	bool		sound = pg_atomic_read_u32(&ht->reindex) == 0;

	/* who has rebuilt them has stored all of them: pairs with end_rebuild() */
	pg_read_barrier();
	return sound;
}

/*
 * zen_reindex_blamed -- the index whose build has raised the last error since the last call; InvalidOid: none has.
 */
extern Oid	zen_reindex_blamed(void);

/*
 * zen_reindex_give_up -- an index is not valid and can still not be built: this process leaves it empty from now on, or
 * a unique tree without a tree, so that no process writes to it.
 */
extern void zen_reindex_give_up(Oid index);

/*
 * zen_reindex_keeps_tree -- a promotion may have kept a tree for an index of zentree that is not there: then it is the
 * index's, whole, and true.  False: it must be built.  May throw what a build throws.  admin/ sets it.
 */
extern bool (*zen_reindex_keeps_tree) (Relation table, Relation index, ZenHTable *ht);

/* zen_reindex_relid -- the relation of an HTable of this database; InvalidOid if pg_class does not lead to it. */
extern Oid	zen_reindex_relid(ZenHTable *ht);

/*
 * zen_reindex_held_by_prepared -- has a prepared transaction from before the crash a lock on the table that excludes
 * this mode?
 */
extern bool zen_reindex_held_by_prepared(Oid relid, LOCKMODE mode);

/*
 * zen_reindex_hold -- before COMMIT PREPARED: close the gate of tables of which a prepared transaction from before the
 * crash may have created an index, which has been empty since.  Does not wait.  In a transaction.  A process that ends
 * lets go by itself.
 *
 * zen_reindex_let_go -- after it, or if it has failed: their indexes are rebuilt once more by the first process that
 * comes.  Never throws.
 */
extern void zen_reindex_hold(void);
extern void zen_reindex_let_go(void);

#endif							/* ZENAM_REINDEX_H */
