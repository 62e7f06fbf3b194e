/*
 * xact.h -- zen's part in PostgreSQL's transactions.
 */
#ifndef ZEN_XACT_H
#define ZEN_XACT_H

#include "base/compat.h"

#include "access/xact.h"

/*
 * No library acts after zen at the end of a transaction, so none writes anything after zen's PRE_COMMIT.  Set in the
 * postmaster, before it has children.
 */
extern bool zen_xact_is_last;

/*
 * zen_xact_event, zen_xact_subevent -- zen's part in the end of a transaction, and of a subtransaction.  An event
 * before the end throws if something keeps the transaction from ending so; the others never throw.
 */
extern void zen_xact_event(XactEvent event);
extern void zen_xact_subevent(SubXactEvent event, SubTransactionId subxact);

/*
 * zen_xact_attach -- make this process ready to use zen: counters, epoch, clean-up at its end.
 *
 * Cheap when done already; every entry point calls it (through zen_gate).
 */
extern void zen_xact_attach(void);

#endif							/* ZEN_XACT_H */
