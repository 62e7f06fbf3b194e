/*
 * standbyqueue.c -- a hot standby: the versions that are not settled, in the order of redo.
 *
 * The queue is a list of chunks.  An item takes a place at its end and goes at its beginning.  One that is empty stays
 * until then, or until most of those before the mark are empty: these are moved together.
 */
#include "standby/standbyqueue.h"

#include "base/arena.h"
#include "base/locks.h"

#define CHUNK_ITEMS		127
#define COMPACT_LEAST	(8 * CHUNK_ITEMS)	/* empty items that are worth it */

typedef struct ZenDueChunk
{
	struct ZenDueChunk *next;
	uint32		begin;			/* the items that there are */
	uint32		end;
	ZenDueItem	items[CHUNK_ITEMS];
} ZenDueChunk;

ZenDueQueue *zen_due_queue;

static void
free_chunk(ZenDueChunk *chunk)
{
	zen_arena_free(chunk, sizeof(ZenDueChunk));
	zen_due_queue->chunks--;
}

/* ---------- the end and the beginning ---------- */

ZenDueItem *
zen_due_place(void)
{
	ZenDueChunk *chunk = zen_due_queue->last;

	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE));
	if (chunk != NULL && chunk->end < CHUNK_ITEMS)
		return &chunk->items[chunk->end];
	chunk = zen_arena_alloc(sizeof(ZenDueChunk));
	if (chunk == NULL)
		return NULL;
	zen_due_queue->chunks++;
	chunk->next = NULL;
	chunk->begin = chunk->end = 0;
	if (zen_due_queue->last != NULL)
		zen_due_queue->last->next = chunk;
	else
		zen_due_queue->first = chunk;
	zen_due_queue->last = chunk;
	if (zen_due_queue->marked == NULL)
	{
		zen_due_queue->marked = chunk;
		zen_due_queue->mark = 0;
	}
	return &chunk->items[0];
}

void
zen_due_add(ZenDueItem *place, uint64 full_xid, uint32 htable, uint64 tidno, ZenVersion *v)
{
	Assert(place == &zen_due_queue->last->items[zen_due_queue->last->end]);
	place->full_xid = full_xid;
	place->tidno = tidno;
	place->htable = htable;
	zen_due_set_item(v, place);
	zen_due_queue->last->end++;
	zen_due_queue->pending++;
}

ZenDueItem *
zen_due_oldest(void)
{
	ZenDueChunk *chunk = zen_due_queue->first;

	if (zen_due_queue->pending == 0)
		return NULL;
	Assert(chunk->begin < chunk->end);
	return &chunk->items[chunk->begin];
}

/* A chunk whose items have gone goes, too. */
static void
drop_first_chunk(void)
{
	ZenDueChunk *chunk = zen_due_queue->first;

	zen_due_queue->first = chunk->next;
	if (zen_due_queue->last == chunk)
		zen_due_queue->last = NULL;
	if (zen_due_queue->marked == chunk)
	{
		zen_due_queue->marked = chunk->next;
		zen_due_queue->mark = chunk->next != NULL ? chunk->next->begin : 0;
	}
	free_chunk(chunk);
}

void
zen_due_remove(bool was_empty)
{
	ZenDueChunk *chunk = zen_due_queue->first;

	Assert(zen_due_queue->pending > 0 && chunk->begin < chunk->end);
	if (zen_due_queue->looked_at > 0)
	{
		zen_due_queue->looked_at--;
		zen_due_queue->empty -= was_empty && zen_due_queue->empty > 0;
	}
	else
	{
		(void) zen_due_at_mark();
		zen_due_queue->mark++;
	}
	zen_due_queue->pending--;
	if (++chunk->begin == chunk->end)
		drop_first_chunk();
}

/* ---------- the mark ---------- */

ZenDueItem *
zen_due_at_mark(void)
{
	if (zen_due_queue->looked_at == zen_due_queue->pending)
		return NULL;
	if (zen_due_queue->mark == zen_due_queue->marked->end)
	{
		zen_due_queue->marked = zen_due_queue->marked->next;
		zen_due_queue->mark = zen_due_queue->marked->begin;
	}
	return &zen_due_queue->marked->items[zen_due_queue->mark];
}

void
zen_due_move_mark(void)
{
	ZenDueItem *item = zen_due_at_mark();

	Assert(item != NULL);
	if (item->version == NULL)
		zen_due_queue->empty++;
	zen_due_queue->mark++;
	zen_due_queue->looked_at++;
}

void
zen_due_note_empty(void)
{
	zen_due_queue->empty++;
}

/* The chunks before that of the mark are filled anew, from the first on, with the items that have versions. */
void
zen_due_compact(void)
{
	ZenDueChunk *to = zen_due_queue->first;
	ZenDueChunk *stop = zen_due_queue->marked;
	ZenDueChunk *from,
			   *next;
	uint32		n = 0,
				gone = 0;

	if (zen_due_queue->empty < COMPACT_LEAST || zen_due_queue->empty < zen_due_queue->looked_at / 2 || to == stop)
		return;
	for (from = to; from != stop; from = next)
	{
		next = from->next;
		for (uint32 i = from->begin; i < from->end; i++)
		{
			if (from->items[i].version == NULL)
			{
				gone++;
				continue;
			}
			if (n == CHUNK_ITEMS)
			{
				to->begin = 0;
				to->end = n;
				to = to->next;
				n = 0;
			}
			to->items[n] = from->items[i];
			zen_due_set_item(to->items[n].version, &to->items[n]);
			n++;
		}
	}
	for (from = to->next; from != stop; from = next)
	{
		next = from->next;
		free_chunk(from);
	}
	to->begin = 0;
	to->end = n;
	to->next = stop;
	zen_due_queue->pending -= gone;
	zen_due_queue->looked_at -= gone;
	zen_due_queue->empty -= Min(zen_due_queue->empty, gone);
	if (n == 0)
		drop_first_chunk();
}

/* ---------- all ---------- */

void
zen_due_for_all(void (*visit) (ZenDueItem *item, uint64 arg), uint64 arg)
{
	for (ZenDueChunk *c = zen_due_queue->first; c != NULL; c = c->next)
		for (uint32 i = c->begin; i < c->end; i++)
			visit(&c->items[i], arg);
}

Size
zen_due_bytes(void)
{
	return zen_due_queue->chunks * sizeof(ZenDueChunk);
}

void
zen_due_remove_all(void)
{
	while (zen_due_queue->first != NULL)
		drop_first_chunk();
	memset(zen_due_queue, 0, sizeof(ZenDueQueue));
}
