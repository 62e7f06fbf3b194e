/*
 * holder.h -- who keeps garbage from being collected, and the warning about it.
 */
#ifndef ZEN_HOLDER_H
#define ZEN_HOLDER_H

#include "base/compat.h"

#include "access/transam.h"

/* What may hold the xid horizon back. */
typedef enum ZenHolderKind
{
	ZEN_HOLDER_NONE,			/* nobody: the horizon is at the next xid */
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

extern const char *zen_holder_kind(ZenHolderKind kind);

/* zen_holder_find -- who holds the oldest xid that some snapshot may not see, as of about now. */
extern void zen_holder_find(ZenHolder *holder);

/*
 * zen_holder_watch -- the worker, when it has collected what was due by this horizon: warn in the server log if garbage
 * grows large, or room becomes short, while somebody keeps it from being collected.  Says it once a minute, and at once
 * if it is somebody else.
 */
extern void zen_holder_watch(FullTransactionId horizon);

#endif							/* ZEN_HOLDER_H */
