/*
 * explain.h -- EXPLAIN (ANALYZE, ZEN), where the server lets an extension have an option.
 */
#ifndef ZEN_EXPLAIN_H
#define ZEN_EXPLAIN_H

#include "base/compat.h"

/* Make the option known; nothing before PostgreSQL 18.  Once, when all libraries are loaded. */
extern void zen_explain_init(void);

#endif							/* ZEN_EXPLAIN_H */
