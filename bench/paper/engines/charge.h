/*
 * charge.h -- what stores and reads of NVM cost below the program: a cache per thread, and a medium of units.
 */
#ifndef CHARGE_H
#define CHARGE_H

#include "postgres.h"

#define CHARGE_MAX_WAYS		64
#define CHARGE_MAX_BUFFER	256

typedef struct ChargeSettings
{
	Size		cache;			/* bytes of each thread's cache; 0: nothing is
								 * charged */
	uint32		ways;			/* lines of a set of it */
	uint32		unit;			/* bytes that the medium reads or writes at
								 * once: 64 or 256 */
	uint32		buffer;			/* units that each thread has of the medium's
								 * buffer */
	uint32		write_ns;		/* a unit is written */
	uint32		read_ns;		/* a unit is read */
	bool		wait;			/* for these times; else they are only added
								 * up */
} ChargeSettings;

/* What one thread has caused. */
typedef struct ChargeCounters
{
	uint64		lines_in;		/* read into the cache: by a read, or by a
								 * store to a part of a line */
	uint64		lines_evicted;	/* changed lines that the cache has written
								 * back by itself */
	uint64		lines_cleaned;	/* changed lines written back by a flush */
	uint64		units_read;
	uint64		units_filled;	/* of these, read because only a part of the
								 * unit was to be written */
	uint64		units_written;
	uint64		ns;
} ChargeCounters;

extern ChargeSettings charge_settings;
extern __thread ChargeCounters charge_counters;

/* charge_open -- from now on this memory is charged for, if the settings say so. */
extern void charge_open(const void *base, Size size);

/*
 * A range is read, stored to, flushed (it stays in the cache), or written past the cache.  Memory that is not charged
 * for is left out.
 */
extern void charge_read(const void *addr, Size len);
extern void charge_store(const void *addr, Size len);
extern void charge_flush(const void *addr, Size len);
extern void charge_stream(const void *addr, Size len);

#endif							/* CHARGE_H */
