/*
 * room.h -- how much of the pool and of DRAM is taken, and the warning before either is full.
 */
#ifndef ZEN_ROOM_H
#define ZEN_ROOM_H

#include "base/compat.h"

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
} ZenRoom;

/* zen_room -- how full it is now; the parts may be of different moments.  The pool must have been recovered. */
extern void zen_room(ZenRoomKind kind, ZenRoom *room);

/*
 * zen_room_used_percent -- percent used, rounded up, so that 100 is full or nearly so.
 * zen_room_free_percent -- percent free, rounded down.
 * zen_room_is_low -- is zen.warning_level reached?
 */
extern uint32 zen_room_used_percent(const ZenRoom *room);
extern uint32 zen_room_free_percent(const ZenRoom *room);
extern bool zen_room_is_low(const ZenRoom *room);

/*
 * zen_room_watch -- zen's worker, once a round: warn in the server log if pool or DRAM is nearly full.
 *
 * It warns when the setting's share is reached, again for each STEP percent more, and again every REPEAT_MS while it
 * stays so.
 */
extern void zen_room_watch(void);

#endif							/* ZEN_ROOM_H */
