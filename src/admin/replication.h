/*
 * replication.h -- copies of this server's tables elsewhere, and this server as a copy: none may lack rows unnoticed.
 */
#ifndef ZEN_REPLICATION_H
#define ZEN_REPLICATION_H

#include "base/compat.h"

#include "access/xact.h"
#include "admin/utility.h"

/*
 * zen_replication_check -- a statement has run: throws ERRCODE_FEATURE_NOT_SUPPORTED if it has brought a zen table into
 * a publication that could not send the table's changes.
 */
extern void zen_replication_check(Node *stmt, const ZenAlterTable *alter);

/*
 * zen_replication_check_function -- a function is about to be called.
 *
 * ERROR if it begins or ends a base backup without the rows, or promotes a standby that would lose rows by it.  If its
 * caller relies on the position up to which WAL is written, all WAL is flushed first: an acknowledged zen-only commit
 * may not be written yet.
 */
extern void zen_replication_check_function(Oid function);

/*
 * zen_replication_note_backup -- an execution is done: if it has begun a base backup, the pool's files get their times.
 * zen_replication_event -- the same before a commit, for a backup that was begun without the executor.
 */
extern void zen_replication_note_backup(void);
extern void zen_replication_event(XactEvent event);

/*
 * zen_replication_client -- this process is a walsender, and counted (zen_clients_enter).
 *
 * FATAL if its client could get nothing but copies without the rows.
 */
extern void zen_replication_client(void);

/* zen_replication_row_described -- a walsender is about to describe a row: ERROR if that begins such a BASE_BACKUP. */
extern void zen_replication_row_described(void);

/*
 * zen_replication_lacks -- why a base backup that is taken now would not have the rows of zen tables, as a sentence;
 * NULL: it would, or there are none.
 */
extern char *zen_replication_lacks(void);

/*
 * zen_replication_report_lacking -- tell the log which databases name zen tables that the pool does not have.
 *
 * In the zen worker, outside of a transaction, once the pool is recovered.  Never throws.
 */
extern void zen_replication_report_lacking(void);

#endif							/* ZEN_REPLICATION_H */
