/*
 * xact.h -- zen's part in PostgreSQL's transactions.
 */
#ifndef ZEN_XACT_H
#define ZEN_XACT_H

#include "base/compat.h"

/* Work of upper layers before a transaction commits or is prepared, which may throw; set in the postmaster. */
extern void (*zen_before_commit) (void);

/* Register the transaction callbacks; once, in the postmaster, before any other library may register some. */
extern void zen_xact_init(void);

/*
 * zen_xact_attach -- make this process ready to use zen: counters, epoch, clean-up at its end.
 *
 * Cheap when done already; every entry point calls it (through zen_gate).
 */
extern void zen_xact_attach(void);

#endif							/* ZEN_XACT_H */
