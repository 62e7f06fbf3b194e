/*
 * extension.h -- zen as a mere default means nothing for the tables of extensions.
 */
#ifndef ZEN_EXTENSION_H
#define ZEN_EXTENSION_H

#include "base/compat.h"

#include "nodes/nodes.h"

/*
 * zen_extension_begin -- before a utility statement: where it runs an extension's script and the default access
 * method is zen, heap is the default until zen_extension_end().
 *
 * Returns the nest level that zen_extension_end() wants.  An error in between is undone by the end of the
 * (sub)transaction.
 */
extern int	zen_extension_begin(Node *stmt);

/*
 * zen_extension_end -- after the statement; a NOTICE if the script has made heap tables for which zen was the
 * default.
 */
extern void zen_extension_end(Node *stmt, int nest_level);

/* zen_extension_created -- a relation was created.  Its row in pg_class is visible. */
extern void zen_extension_created(Oid relid);

#endif							/* ZEN_EXTENSION_H */
