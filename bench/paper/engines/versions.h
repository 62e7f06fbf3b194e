/*
 * versions.h -- row versions in NVM with their metadata: what outp and wbl have in common.
 *
 * A version says who made it and who ended it; both are stamps, that the engine calls committed or not.
 */
#ifndef VERSIONS_H
#define VERSIONS_H

#include "engine.h"

typedef struct VersionHeader
{
	uint64		begin;			/* stamp of the writer; 0 = the slot is empty */
	uint64		end;			/* stamp of who has replaced or deleted it; 0
								 * = nobody */
	uint64		row;
	uint64		noted;			/* by concurrency control, if it has its
								 * metadata here */
} VersionHeader;

/* Slots of a table beyond those that its rows fill, per thread. */
#define VERSIONS_SPARE	4096

extern Size versions_size(void);
extern void versions_open(bool fresh, bool cached); /* in DRAM, as cache.c has
													 * it */

/* The newest version of a row, or NULL.  versions_read also copies it, from DRAM if it is cached. */
extern VersionHeader *version_of(uint32 row);
extern bool versions_read(int thread, uint32 row, char *data);

/*
 * versions_write -- write the version that a write makes, and end the one before.  Neither is flushed.
 *
 * *made is NULL for a delete and *ended for an insert.  Bytes from *made on that were written: version_bytes().
 */
extern void versions_write(int thread, const Write *w, uint64 stamp, VersionHeader **made, VersionHeader **ended);
extern Size version_bytes(uint32 row);

/* The write is visible from now on. */
extern void versions_publish(const Write *w, VersionHeader *made);

/* An ended version's slot may be used again, by this thread first. */
extern void versions_free(int thread, VersionHeader *v);

/* Recovery by all threads: committed versions enter the array, the others' stamps are removed, durably. */
extern void versions_recover(int thread, bool (*committed) (uint64 stamp));

/* After it: the largest stamp met. */
extern uint64 versions_newest(void);

#endif							/* VERSIONS_H */
