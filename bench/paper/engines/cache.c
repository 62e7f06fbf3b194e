/*
 * cache.c -- rows in DRAM: settings.cache times the number of rows has room.
 *
 * CLOCK within sets: a row belongs to one set of WAYS places.  A hand goes round each set: it passes by a row that was
 * read since it came by last, and turns out the next one that was not.  A row that has just come was not read yet, so
 * rows that are read once do not stay.  The product has one hand for many places, and counts reads.
 */
#include "engine.h"

#include <sched.h>

#define NO_ROW	PG_UINT32_MAX
#define WAYS	8

typedef struct Set
{
	pg_atomic_flag lock;
	uint32		hand;
	uint32		row[WAYS];
	bool		used[WAYS];		/* read since the hand passed */
} Set;

static Set *sets;
static char *rows;
static uint32 nsets;

void
cache_open(void)
{
	nsets = (uint32) (nrows * settings.cache) / WAYS;
	if (nsets == 0)
		return;
	sets = calloc(nsets, sizeof(Set));
	rows = malloc((Size) nsets * WAYS * max_row_size);
	if (sets == NULL || rows == NULL)
		die("no memory for a cache of %u rows", nsets * WAYS);
	for (uint32 i = 0; i < nsets; i++)
	{
		pg_atomic_init_flag(&sets[i].lock);
		for (int way = 0; way < WAYS; way++)
			sets[i].row[way] = NO_ROW;
	}
}

/* Which rows are hot does not depend on their numbers, so neighbours may be neighbours here. */
static Set *
lock_set(uint32 row)
{
	Set		   *set = &sets[row % nsets];
	int			tries = 0;

	while (!pg_atomic_test_set_flag(&set->lock))
		if (++tries % 64 == 0)
			sched_yield();
	return set;
}

/* WAYS if the row is not there. */
static int
find(const Set *set, uint32 row)
{
	int			way = 0;

	while (way < WAYS && set->row[way] != row)
		way++;
	return way;
}

static int
find_victim(Set *set)
{
	int			way = find(set, NO_ROW);

	while (way == WAYS)
	{
		uint32		at = set->hand++ % WAYS;

		if (!set->used[at])
			way = at;
		set->used[at] = false;
	}
	return way;
}

static char *
data_of(const Set *set, int way)
{
	return rows + (Size) ((set - sets) * WAYS + way) * max_row_size;
}

bool
cache_read(uint32 row, char *data)
{
	Set		   *set;
	int			way;

	if (nsets == 0)
		return false;
	set = lock_set(row);
	way = find(set, row);
	if (way < WAYS)
	{
		set->used[way] = true;
		memcpy(data, data_of(set, way), table_of(row)->size);
	}
	pg_atomic_clear_flag(&set->lock);
	return way < WAYS;
}

void
cache_put(uint32 row, const char *data)
{
	Set		   *set;
	int			way;

	if (nsets == 0)
		return;
	set = lock_set(row);
	way = find(set, row);
	if (way == WAYS)
	{
		way = find_victim(set);
		set->row[way] = row;
		set->used[way] = false;
	}
	memcpy(data_of(set, way), data, table_of(row)->size);
	pg_atomic_clear_flag(&set->lock);
}

void
cache_drop(uint32 row)
{
	Set		   *set;
	int			way;

	if (nsets == 0)
		return;
	set = lock_set(row);
	way = find(set, row);
	if (way < WAYS)
		set->row[way] = NO_ROW;
	pg_atomic_clear_flag(&set->lock);
}
