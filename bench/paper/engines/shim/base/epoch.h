/*
 * epoch.h -- stands in for src/base/epoch.h: a reader here holds a lock on its row, so nobody reads what was unlinked.
 */
#ifndef ZEN_EPOCH_H
#define ZEN_EPOCH_H

#define zen_epoch_enter()	((void) 0)
#define zen_epoch_leave()	((void) 0)
#define zen_epoch_wait()	((void) 0)

/* With no epochs nobody is in one: src/nvm waits only outside of them, which needs no check here. */
#define ZenAssertNotInEpoch()	((void) 0)
#define ZenAssertInEpoch()		((void) 0)

#endif							/* ZEN_EPOCH_H */
