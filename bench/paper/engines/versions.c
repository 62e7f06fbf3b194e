/*
 * versions.c -- row versions in NVM with their metadata.
 *
 * Each table has slots that begin on a cache line: a header of 32 bytes and the row.  A version counts if its begin is
 * committed and its end is not.  Replacing one stores its end in its own line, so that is a second line to flush for
 * each row changed: the price of metadata in NVM.
 *
 * A slot is reused header first: begin, which is not committed yet, then the rest.  The space is managed in DRAM:
 * each thread first takes fresh slots of its share, then those that it has freed; a few go to and fro between threads
 * through a common list.
 */
#include "versions.h"

#include <pthread.h>

#include "nvm/persist.h"

#define LOCAL_LIMIT		256		/* free slots that a thread keeps of a table */

typedef struct FreeList
{
	uint32	   *slots;
	uint32		n,
				max;
} FreeList;

typedef struct TableSlots
{
	char	   *base;
	uint32		nslots;
	uint32		stride;
	FreeList	common;			/* under lock */
	pthread_mutex_t lock;
} TableSlots;

typedef struct ThreadSlots
{
	FreeList	list[MAX_TABLES];
	uint64		fresh[MAX_TABLES],
				fresh_end[MAX_TABLES];
	char		pad[64];
} ThreadSlots;

static TableSlots space[MAX_TABLES];
static ThreadSlots local[MAX_THREADS];
static VersionHeader **newest;	/* by row */
static uint64 largest[MAX_THREADS];

static uint32
slots_of(const Table *table)
{
	return table->nrows + settings.threads * VERSIONS_SPARE;
}

static uint32
stride_of(const Table *table)
{
	return TYPEALIGN(ZEN_LINE, sizeof(VersionHeader) + table->size);
}

Size
versions_size(void)
{
	Size		size = 0;

	for (int t = 0; t < ntables; t++)
		size += pool_carved((Size) slots_of(&tables[t]) * stride_of(&tables[t]));
	return size;
}

void
versions_open(bool fresh, bool cached)
{
	newest = calloc(nrows, sizeof(VersionHeader *));
	for (int t = 0; t < ntables; t++)
	{
		TableSlots *s = &space[t];

		s->nslots = slots_of(&tables[t]);
		s->stride = stride_of(&tables[t]);
		s->base = pool_carve((Size) s->nslots * s->stride);
		pthread_mutex_init(&s->lock, NULL);
		for (int i = 0; fresh && i < settings.threads; i++)
			share_of(s->nslots, i, &local[i].fresh[t], &local[i].fresh_end[t]);
	}
	if (cached)
		cache_open();
}

/* ---------- slots ---------- */

static void
push(FreeList *list, uint32 slot)
{
	if (list->n == list->max)
	{
		list->max = list->max * 2 + 64;
		list->slots = realloc(list->slots, list->max * sizeof(uint32));
	}
	list->slots[list->n++] = slot;
}

static void
move_some(FreeList *from, FreeList *to, uint32 n)
{
	for (n = Min(n, from->n); n > 0; n--)
		push(to, from->slots[--from->n]);
}

static VersionHeader *
take_slot(int thread, int t)
{
	ThreadSlots *mine = &local[thread];
	TableSlots *s = &space[t];
	uint32		slot;

	if (mine->list[t].n == 0 && mine->fresh[t] == mine->fresh_end[t])
	{
		pthread_mutex_lock(&s->lock);
		move_some(&s->common, &mine->list[t], LOCAL_LIMIT / 2);
		pthread_mutex_unlock(&s->lock);
	}
	if (mine->list[t].n > 0)
		slot = mine->list[t].slots[--mine->list[t].n];
	else if (mine->fresh[t] < mine->fresh_end[t])
		slot = mine->fresh[t]++;
	else
		die("the pool is full");
	return (VersionHeader *) (s->base + (Size) slot * s->stride);
}

static void
free_slot(int thread, int t, uint32 slot)
{
	FreeList   *list = &local[thread].list[t];

	push(list, slot);
	if (list->n <= LOCAL_LIMIT)
		return;
	pthread_mutex_lock(&space[t].lock);
	move_some(list, &space[t].common, LOCAL_LIMIT / 2);
	pthread_mutex_unlock(&space[t].lock);
}

void
versions_free(int thread, VersionHeader *v)
{
	int			t = table_of((uint32) v->row) - tables;

	free_slot(thread, t, ((char *) v - space[t].base) / space[t].stride);
}

/* ---------- rows ---------- */

VersionHeader *
version_of(uint32 row)
{
	return newest[row];
}

Size
version_bytes(uint32 row)
{
	return sizeof(VersionHeader) + table_of(row)->size;
}

bool
versions_read(int thread, uint32 row, char *data)
{
	VersionHeader *v = newest[row];

	if (v == NULL)
		return false;
	if (cache_read(row, data))
		return true;
	nvm_read(data, v + 1, table_of(row)->size);
	cache_put(row, data);
	return true;
}

void
versions_write(int thread, const Write *w, uint64 stamp, VersionHeader **made, VersionHeader **ended)
{
	const Table *table = table_of(w->row);
	char		data[MAX_ROW];

	*made = NULL;
	*ended = newest[w->row];
	if (w->kind == WRITE_UPDATE && w->len < table->size)
		versions_read(thread, w->row, data);
	if (*ended != NULL)
		nvm_store64(&(*ended)->end, stamp);
	if (w->kind == WRITE_DELETE)
	{
		cache_drop(w->row);
		return;
	}
	apply_write(data, w);
	*made = take_slot(thread, table - tables);
	nvm_store64(&(*made)->begin, stamp);
	nvm_store64(&(*made)->row, w->row);
	nvm_store64(&(*made)->end, 0);
	nvm_store(*made + 1, data, table->size);
	cache_put(w->row, data);
}

void
versions_publish(const Write *w, VersionHeader *made)
{
	newest[w->row] = made;
}

/* ---------- recovery ---------- */

static void
recover_slot(int thread, int t, uint32 slot, bool (*committed) (uint64 stamp))
{
	VersionHeader *v = (VersionHeader *) (space[t].base + (Size) slot * space[t].stride);
	bool		used = v->begin != 0;
	bool		live = used && committed(v->begin);

	nvm_touch(v, sizeof(*v));
	largest[thread] = Max(largest[thread], Max(v->begin, v->end));

	/*
	 * what is believed is flushed; stamps that may become true later are
	 * removed
	 */
	if (used && !live)
		nvm_store64(&v->begin, 0);
	if (live && v->end != 0 && !committed(v->end))
		nvm_store64(&v->end, 0);
	if (used)
		zen_flush(v, sizeof(*v));
	if (!live || v->end != 0)
	{
		free_slot(thread, t, slot);
		return;
	}
	if (!__sync_bool_compare_and_swap(&newest[v->row], NULL, v))
		die("row " UINT64_FORMAT " has two versions", v->row);
}

void
versions_recover(int thread, bool (*committed) (uint64 stamp))
{
	for (int t = 0; t < ntables; t++)
	{
		uint64		from,
					to;

		share_of(space[t].nslots, thread, &from, &to);
		for (uint64 slot = from; slot < to; slot++)
			recover_slot(thread, t, slot, committed);
	}
	zen_fence();
	recovery_barrier();
}

uint64
versions_newest(void)
{
	uint64		all = 0;

	for (int t = 0; t < MAX_THREADS; t++)
		all = Max(all, largest[t]);
	return all;
}
