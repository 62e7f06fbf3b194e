/*
 * ddl.h -- tables that this transaction creates, drops or moves.
 *
 * Creation is durable at once, under the transaction's xid.  A drop or a move is noted, and happens after commit.
 */
#ifndef ZEN_DDL_H
#define ZEN_DDL_H

#include "nvm/htable.h"

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

/* zen_ddl_is_own -- was the table made in this (sub)transaction, so that a rollback takes it away with all rows? */
extern bool zen_ddl_is_own(const ZenHTable *ht);

/*
 * zen_ddl_truncate -- take all rows out at once, also if the transaction aborts later: it made the table
 * (zen_ddl_is_own).
 */
extern void zen_ddl_truncate(ZenHTable *ht);

/* zen_ddl_is_dropping -- has this transaction dropped the table? */
extern bool zen_ddl_is_dropping(const ZenHTable *ht);

/* zen_ddl_pending -- is there anything that the end of the transaction must see to? */
extern bool zen_ddl_pending(void);

/* Before commit: drops are durable under the xid.  May throw. */
extern void zen_ddl_precommit(uint64 full_xid);

/* After commit, after abort, after a savepoint's end.  Never throw. */
extern void zen_ddl_commit(void);
extern void zen_ddl_abort(void);
extern void zen_ddl_subcommit(int nest_level);
extern void zen_ddl_subabort(int nest_level);

/*
 * A prepared transaction's tables: forget them here; resolve those that carry full_xid, under ZEN_LOCK_RECOVERY held
 * exclusively.
 */
extern void zen_ddl_forget(void);
extern void zen_ddl_resolve(uint64 full_xid, bool committed);

/* zen_xid_make_durable -- WAL that bears this transaction's xid is flushed, once.  Outside any epoch.  May throw. */
extern void zen_xid_make_durable(void);

/* At the end of a transaction. */
extern void zen_ddl_reset(void);

#endif							/* ZEN_DDL_H */
