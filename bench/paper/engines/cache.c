/*
 * cache.c -- rows in DRAM: settings.cache times the number of rows has room.
 *
 * Direct-mapped: a row has one place, whose tenant it turns out.  Simpler than CLOCK, and nearly as good for rows that
 * are drawn by a skewed distribution, as the hot ones take their places back at once.
 */
#include "engine.h"

#include <sched.h>

#define NO_ROW	PG_UINT32_MAX

typedef struct Place
{
	pg_atomic_flag lock;
	uint32		row;
} Place;

static Place *places;
static char *rows;
static uint32 nplaces;

void
cache_open(void)
{
	nplaces = (uint32) (nrows * settings.cache);
	if (nplaces == 0)
		return;
	places = malloc(nplaces * sizeof(Place));
	rows = malloc((Size) nplaces * max_row_size);
	if (places == NULL || rows == NULL)
		die("no memory for a cache of %u rows", nplaces);
	for (uint32 i = 0; i < nplaces; i++)
	{
		pg_atomic_init_flag(&places[i].lock);
		places[i].row = NO_ROW;
	}
}

/* Which rows are hot does not depend on their numbers, so neighbours may be neighbours here. */
static Place *
lock_place(uint32 row)
{
	Place	   *p = &places[row % nplaces];
	int			tries = 0;

	while (!pg_atomic_test_set_flag(&p->lock))
		if (++tries % 64 == 0)
			sched_yield();
	return p;
}

bool
cache_read(uint32 row, char *data)
{
	Place	   *p;
	bool		found;

	if (nplaces == 0)
		return false;
	p = lock_place(row);
	found = p->row == row;
	if (found)
		memcpy(data, rows + (Size) (p - places) * max_row_size, table_of(row)->size);
	pg_atomic_clear_flag(&p->lock);
	return found;
}

void
cache_put(uint32 row, const char *data)
{
	Place	   *p;

	if (nplaces == 0)
		return;
	p = lock_place(row);
	p->row = row;
	memcpy(rows + (Size) (p - places) * max_row_size, data, table_of(row)->size);
	pg_atomic_clear_flag(&p->lock);
}

void
cache_drop(uint32 row)
{
	Place	   *p;

	if (nplaces == 0)
		return;
	p = lock_place(row);
	if (p->row == row)
		p->row = NO_ROW;
	pg_atomic_clear_flag(&p->lock);
}
