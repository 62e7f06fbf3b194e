/*
 * ddl.h -- tables that this transaction creates, drops or moves.
 *
 * Creation is durable at once, under the transaction's xid.  A drop or a move is noted, and happens after commit.
 */
#ifndef ZEN_DDL_H
#define ZEN_DDL_H

#include "nvm/htable.h"

#include "access/xact.h"

/* zen_ddl_create -- make the HTable of a relfilenode; throws. */
extern ZenHTable *zen_ddl_create(RelFileLocator loc, ProcNumber backend);

/* zen_ddl_find -- zen_htable_find() that also knows this transaction's uncommitted moves; in parallel workers, too. */
extern ZenHTable *zen_ddl_find(RelFileLocator loc, ProcNumber backend);

/* zen_ddl_drop -- the HTable goes at commit; harmless if it is noted already. */
extern void zen_ddl_drop(ZenHTable *ht);

/* zen_ddl_drop_database -- all HTables of a database go at commit. */
extern void zen_ddl_drop_database(Oid db);

/* zen_ddl_move -- the HTable goes to another relfilenode at commit. */
extern void zen_ddl_move(ZenHTable *ht, RelFileLocator to);

/*
 * zen_ddl_truncate -- take all rows out at once, also if the transaction aborts later.
 *
 * False, with nothing done, unless the table was made in this (sub)transaction: then a rollback takes it away with all
 * rows.
 */
extern bool zen_ddl_truncate(ZenHTable *ht);

/* zen_ddl_is_dropping -- has this transaction dropped the table? */
extern bool zen_ddl_is_dropping(const ZenHTable *ht);

/* zen_ddl_pending -- is there anything that the end of the transaction must see to? */
extern bool zen_ddl_pending(void);

/* Before commit: drops are durable under the xid.  May throw. */
extern void zen_ddl_precommit(uint64 full_xid);

/*
 * zen_ddl_end -- after the commit, the abort, or PREPARE, which leaves the tables to zen_ddl_resolve().
 * zen_ddl_subend -- after the end of the savepoint of this nest level.
 *
 * Never throw.
 */
extern void zen_ddl_end(XactEvent event);
extern void zen_ddl_subend(SubXactEvent event, int nest_level);

/* zen_ddl_resolve -- a prepared transaction's tables.  Under ZEN_LOCK_RECOVERY, exclusive. */
extern void zen_ddl_resolve(uint64 full_xid, bool committed);

/* zen_xid_make_durable -- WAL that bears this transaction's xid is flushed, once.  Outside any epoch.  May throw. */
extern void zen_xid_make_durable(void);

#endif							/* ZEN_DDL_H */
