/*
 * visibility.h -- which version of a row does a snapshot see?
 *
 * The caller is inside an epoch for as long as it uses the chain.
 */
#ifndef ZEN_VISIBILITY_H
#define ZEN_VISIBILITY_H

#include "cache/version.h"
#include "utils/snapshot.h"

typedef enum ZenXidState
{
	ZEN_XID_CURRENT,			/* this transaction or a live subtransaction
								 * of it */
	ZEN_XID_IN_PROGRESS,
	ZEN_XID_COMMITTED,
	ZEN_XID_ABORTED
} ZenXidState;

/* zen_version_state -- how the version's writer has ended, if it has; leaves hint bits. */
extern ZenXidState zen_version_state(ZenVersion *v);

/* zen_xid_in_progress_elsewhere -- is a transaction other than this one running under xid? */
extern bool zen_xid_in_progress_elsewhere(TransactionId xid);

/* zen_snapshot_sees -- does a snapshot (MVCC, SELF or ANY) see the writer of v?  A tombstone may be seen. */
extern bool zen_snapshot_sees(ZenVersion *v, Snapshot snapshot);

/*
 * zen_visible_version -- the version of the chain that the snapshot sees, or NULL.
 *
 * Never a tombstone.  SnapshotAny gives the newest version that has not aborted.  SnapshotDirty sets the snapshot's
 * xmin, xmax and speculativeToken.  *successor: the next newer version that has not aborted, or NULL.
 */
extern ZenVersion *zen_visible_version(ZenVersion *head, Snapshot snapshot, ZenVersion **successor);

/* zen_find_version -- the version with this code, aborted ones included, or NULL; and its successor as above. */
extern ZenVersion *zen_find_version(ZenVersion *head, uint32 code, ZenVersion **successor);

/* zen_top_version -- the newest version that has not aborted, or NULL. */
extern ZenVersion *zen_top_version(ZenVersion *head);

#endif							/* ZEN_VISIBILITY_H */
