/*
 * chain.h -- old versions of rows in DRAM, for those who have begun before the newest one.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "cc.h"

typedef struct OldVersion
{
	struct OldVersion *older;
	uint64		begin_ts;		/* of its writer */
	uint64		end_ts;			/* of the next one's */
	uint32		version;		/* the model's */
	bool		present;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} OldVersion;

/* The thread may read what was committed up to a time that it has not drawn yet, until chain_done(). */
extern void chain_reader(int thread);
extern void chain_done(int thread);

/* The version of a time, or NULL if it is gone; the caller has a latch on the row. */
extern OldVersion *chain_find(uint32 row, uint64 ts);

/* Keep the newest version, which ends at a time; the caller has the row's exclusive latch, as for chain_trim(). */
extern void chain_push(int thread, uint32 row, uint64 end_ts);

/* Free what nobody can read any more.  How many versions are left? */
extern int	chain_trim(uint32 row);

#endif							/* CHAIN_H */
