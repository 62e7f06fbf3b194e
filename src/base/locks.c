/* locks.c -- where zen's LWLocks are: one named tranche of PostgreSQL's, indexed by ZenLockId. */
#include "base/locks.h"

LWLockPadded *zen_locks;

void
zen_locks_request(void)
{
	RequestNamedLWLockTranche(ZEN_LOCK_TRANCHE, ZEN_NLOCKS);
}

void
zen_locks_init(void)
{
	zen_locks = GetNamedLWLockTranche(ZEN_LOCK_TRANCHE);
}
