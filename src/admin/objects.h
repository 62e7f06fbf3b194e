/*
 * objects.h -- relations and databases that are created, changed or dropped.
 */
#ifndef ZEN_OBJECTS_H
#define ZEN_OBJECTS_H

#include "base/compat.h"

/* zen_objects_created -- a relation was created.  Its new catalog rows become visible. */
extern void zen_objects_created(Oid relid);

/* zen_objects_dropped -- a relation is about to be dropped; it is locked. */
extern void zen_objects_dropped(Oid relid);

/*
 * zen_objects_check_file -- a relation is dropped, truncated or altered: throws
 * ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE if it is none of zen's, but bears the file number of a zen table, whose rows
 * the command would lose.
 */
extern void zen_objects_check_file(Oid relid);

/* zen_objects_database_dropped -- a database is about to be dropped. */
extern void zen_objects_database_dropped(Oid db);

/* zen_objects_in_database -- has it zen tables?  Waits for recovery if the pool names it. */
extern bool zen_objects_in_database(Oid db);

#endif							/* ZEN_OBJECTS_H */
