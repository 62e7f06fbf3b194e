/* holder.h -- the holder of the horizon, which keeps garbage from being collected, and the warning about it. */
#ifndef ZEN_HOLDER_H
#define ZEN_HOLDER_H

#include "base/compat.h"

#include "access/transam.h"

/* Kinds of holders of the xid horizon. */
typedef enum ZenHolderKind
{
	ZEN_HOLDER_NONE,			/* the horizon is at the next xid */
	ZEN_HOLDER_PROCESS,			/* a process, by its snapshot or its xid */
	ZEN_HOLDER_PREPARED,		/* a prepared transaction */
	ZEN_HOLDER_SLOT				/* a replication slot */
} ZenHolderKind;

typedef struct ZenHolder
{
	ZenHolderKind kind;
	int			pid;			/* of a PROCESS, else 0 */
	TransactionId xid;			/* that it keeps from being passed */
	uint64		age;			/* transactions begun since */
	NameData	name;			/* of a SLOT */
} ZenHolder;

/* zen_holder_kind -- as users read it; NULL for NONE. */
extern const char *zen_holder_kind(ZenHolderKind kind);

/*
 * zen_holder_find -- the holder of the oldest xid that some snapshot may not see, as of about now.  Outside any epoch.
 */
extern void zen_holder_find(ZenHolder *holder);

/*
 * zen_holder_watch -- the worker, when it has collected all that was due by this horizon.
 *
 * It warns in the server log if garbage grows large, or room becomes short, while a holder keeps garbage from being
 * collected.  It says so once a minute, and at once if the holder is another one.
 */
extern void zen_holder_watch(FullTransactionId horizon);

#endif							/* ZEN_HOLDER_H */
