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
 * zen_commands_finish -- after: indexes are repaired, and publications looked at.
 * zen_commands_check -- before: what zen cannot do is refused, and the access method of new tables chosen.
 * zen_commands_sync -- before: the commit of what changes catalogs is to be flushed.
 * zen_commands_rebuild -- before: the indexes of the tables that it names are there.
 * zen_commands_end_prepared -- around the end of a prepared transaction.
 * zen_commands_extension -- around the script of an extension: zen is not the default.
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
