/*
 * rowversions.h -- all committed versions of a row, for the indexes of a hot standby.
 *
 * Knows no Relation, as rowread.h.  Called outside any epoch.
 */
#ifndef ZEN_ROWVERSIONS_H
#define ZEN_ROWVERSIONS_H

#include "row/rowread.h"

typedef struct ZenRowVersions
{
	MemoryContext mcxt;			/* set by the caller; all else is zero at
								 * first */
	int			n;
	int			room;
	ZenRow	   *rows;			/* n with data, the newest first */
	bool		several;		/* there is, or was, more than one version of
								 * any kind */
	TransactionId running;		/* has made versions of the row and has not
								 * ended; or InvalidTransactionId */
} ZenRowVersions;

/*
 * zen_row_versions -- copy all versions under a TID that are committed and that some snapshot may see, tombstones left
 * out, at one moment.  Damaged ones are left out, too.
 */
extern void zen_row_versions(ZenHTable *ht, uint64 tidno, ZenRowVersions *versions);

#endif							/* ZEN_ROWVERSIONS_H */
