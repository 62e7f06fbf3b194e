/*
 * commands.h -- what zen does before and after utility statements.
 */
#ifndef ZEN_COMMANDS_H
#define ZEN_COMMANDS_H

#include "base/compat.h"

#include "access/xact.h"
#include "admin/chain.h"

/* zen_commands_changes -- may zen_commands_check() change the statement? */
extern bool zen_commands_changes(Node *stmt);

/*
 * Links of utility statements.
 *
 * zen_commands_finish -- after: repair indexes, and look at publications.
 * zen_commands_check -- before: refuse statements that zen cannot do, and choose the access method of new tables.
 * zen_commands_sync -- before: have the commit of a statement that changes catalogs flushed.
 * zen_commands_rebuild -- before: rebuild the indexes that a crash has emptied, of the tables that the statement names.
 * zen_commands_end_prepared -- around the end of a prepared transaction.
 * zen_commands_extension -- around the script of an extension: zen is not its default access method.
 */
extern void zen_commands_finish(ZenUtility *u);
extern void zen_commands_check(ZenUtility *u);
extern void zen_commands_sync(ZenUtility *u);
extern void zen_commands_rebuild(ZenUtility *u);
extern void zen_commands_end_prepared(ZenUtility *u);
extern void zen_commands_extension(ZenUtility *u);

/* zen_commands_event -- before a transaction commits or is prepared: the work of zen_commands_finish().  May throw. */
extern void zen_commands_event(XactEvent event);

/* zen_commands_created -- a relation was created.  Its row in pg_class is visible. */
extern void zen_commands_created(Oid relid);

#endif							/* ZEN_COMMANDS_H */
