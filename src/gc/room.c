/*
 * room.c -- how much of the pool and of DRAM is taken, and the warning before either is full.
 *
 * A transaction that finds the pool or DRAM full fails (53100, 53200), after it has collected all that it may.  An
 * operator wants to know before.  So the worker looks at both once a round.  It warns when the share that
 * zen.warning_level names is in use.
 */
#include "gc/room.h"

#include "base/arena.h"
#include "base/guc.h"
#include "nvm/grow.h"
#include "nvm/page.h"
#include "utils/timestamp.h"

#define STEP		5			/* percent between two warnings */
#define REPEAT_MS	(60 * 60 * 1000)

/* The worker's last warning of one of them; 0 percent: none since there was room. */
typedef struct Warned
{
	uint32		percent;
	TimestampTz at;
} Warned;

void
zen_room(ZenRoomKind kind, ZenRoom *room)
{
	if (kind == ZEN_ROOM_POOL)
	{
		uint32		total,
					nfree;

		zen_page_free(&total, &nfree);
		room->size = total * ZEN_PAGE_SIZE;
		room->used = (total - Min(nfree, total)) * ZEN_PAGE_SIZE;
	}
	else
	{
		uint64		taken;

		room->size = (uint64) zen_dram_size_mb * 1024 * 1024;
		zen_arena_usage(&taken, &room->used);
		room->used = Min(room->used, room->size);
	}
}

uint32
zen_room_used_percent(const ZenRoom *room)
{
	return 100 - zen_room_free_percent(room);
}

uint32
zen_room_free_percent(const ZenRoom *room)
{
	Assert(room->used <= room->size);
	return (uint32) ((room->size - room->used) * 100 / Max(room->size, 1));
}

bool
zen_room_is_low(const ZenRoom *room)
{
	return zen_warning_level > 0 && zen_room_used_percent(room) >= (uint32) zen_warning_level;
}

static void
warn(ZenRoomKind kind, const ZenRoom *room)
{
	uint64		mb = 1024 * 1024;

	if (kind == ZEN_ROOM_POOL)
		ereport(WARNING,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("%u %% of the zen pool is in use", zen_room_used_percent(room)),
				 errdetail("Rows and garbage take pages of " UINT64_FORMAT " of " UINT64_FORMAT " MB.  "
						   "A transaction that finds no room will fail.",
						   room->used / mb, room->size / mb),
				 errhint("See zen_stat_tables for the largest tables and zen_stat_garbage for what waits to be "
						 "collected.  Drop or truncate what is not needed, or make the pool larger with "
						 "zen_pool_grow().")));
	else
		ereport(WARNING,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("%u %% of zen.dram_size is in use", zen_room_used_percent(room)),
				 errdetail("Maps, row versions and garbage take " UINT64_FORMAT " of " UINT64_FORMAT " MB.  "
						   "A transaction that finds no room will fail.",
						   room->used / mb, room->size / mb),
				 errhint("Lower zen.met_cache_size, or raise zen.dram_size and restart.  "
						 "Each row takes 8 bytes at all times.")));
}

static void
watch(ZenRoomKind kind)
{
	static Warned warned[ZEN_ROOM_KINDS];
	Warned	   *last = &warned[kind];
	ZenRoom		room;
	uint32		percent;

	Assert(kind < ZEN_ROOM_KINDS);
	/* nothing is short that the worker will get more of */
	if (kind == ZEN_ROOM_POOL && zen_grow_may())
		return;
	zen_room(kind, &room);
	percent = zen_room_used_percent(&room);
	if (zen_warning_level == 0 || percent + STEP <= (uint32) zen_warning_level)
		last->percent = 0;		/* it has come down: a rise is new */
	if (!zen_room_is_low(&room))
		return;
	if (last->percent != 0 && percent < last->percent + STEP &&
		!TimestampDifferenceExceeds(last->at, GetCurrentTimestamp(), REPEAT_MS))
		return;
	warn(kind, &room);
	last->percent = percent;
	last->at = GetCurrentTimestamp();
}

void
zen_room_watch(void)
{
	watch(ZEN_ROOM_POOL);
	watch(ZEN_ROOM_DRAM);
}
