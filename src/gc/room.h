/*
 * room.h -- how much of the pool and of DRAM is taken, what keeps garbage there, and the warnings about both.
 */
#ifndef ZEN_ROOM_H
#define ZEN_ROOM_H

#include "base/compat.h"

#include "access/transam.h"

typedef enum ZenRoomKind
{
	ZEN_ROOM_POOL,				/* pages of the pool */
	ZEN_ROOM_DRAM				/* zen.dram_size */
} ZenRoomKind;

#define ZEN_ROOM_KINDS	2

typedef struct ZenRoom
{
	uint64		size;			/* bytes */
	uint64		used;			/* bytes; of the pool whole pages, however
								 * full */
	uint32		used_percent;	/* rounded up, so that 100 is full or nearly
								 * so */
} ZenRoom;

/* zen_room -- how full it is now; the parts may be of different moments.  The pool must have been recovered. */
extern void zen_room(ZenRoomKind kind, ZenRoom *room);

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
 * zen_room_watch -- the worker, once a round: warn in the server log if pool or DRAM is nearly full.
 *
 * It warns when the setting's share is reached, again for each STEP percent more, and again every REPEAT_MS while it
 * stays so.
 *
 * zen_holder_watch -- the worker, when it has collected all that was due by this horizon: warn if garbage grows large,
 * or room becomes short, while a holder keeps garbage from being collected.
 *
 * It says so once a minute, and at once if the holder is another one.
 */
extern void zen_room_watch(void);
extern void zen_holder_watch(FullTransactionId horizon);

#endif							/* ZEN_ROOM_H */
