/*
 * commands.h -- what zen does when a utility statement runs, and when a relation or database comes or goes.
 */
#ifndef ZEN_COMMANDS_H
#define ZEN_COMMANDS_H

#include "base/compat.h"

#include "access/xact.h"
#include "admin/utility.h"
#include "catalog/objectaccess.h"

/*
 * zen_commands_utility -- run a utility statement, with all that zen does before and after it.
 *
 * Goes on to zen_statements_utility().  u has a copy of the statement then, if it was not to be changed.
 */
extern void zen_commands_utility(ZenUtility *u);

/* zen_commands_event -- before a transaction commits or is prepared: indexes are repaired.  May throw. */
extern void zen_commands_event(XactEvent event);

/*
 * zen_commands_object -- a relation was created, and its new catalog rows become visible; or a relation, which is
 * locked, or database is about to be changed or dropped.
 *
 * Throws ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE if a relation that is none of zen's bears the file number of a zen
 * table, whose rows the command would lose.
 */
extern void zen_commands_object(ObjectAccessType access, Oid class, Oid object);

#endif							/* ZEN_COMMANDS_H */
