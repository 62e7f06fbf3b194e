/*
 * streamrmgr.h -- the resource manager of zen's records.
 */
#ifndef ZEN_STREAMRMGR_H
#define ZEN_STREAMRMGR_H

/*
 * zen_streamrmgr_register -- tell PostgreSQL of the resource manager.  Called once from _PG_init, when the settings
 * are known, and whatever zen.stream is: the WAL may hold records of an earlier start.
 *
 * Throws if the server cannot do what zen.stream asks for.
 */
extern void zen_streamrmgr_register(void);

#endif							/* ZEN_STREAMRMGR_H */
