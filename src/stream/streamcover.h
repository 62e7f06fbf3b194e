/*
 * streamcover.h -- a base backup of a standby ends behind all that it has of the pool.
 *
 * PostgreSQL takes the minRecoveryPoint of pg_control for the end of such a backup, as pg_control is copied last.  So
 * while a session may copy files of this standby, redo raises minRecoveryPoint to the end of a record before it stores
 * what the record says.  src/stream/README, "Copies of a copy", has the argument.
 */
#ifndef ZEN_STREAMCOVER_H
#define ZEN_STREAMCOVER_H

#include "base/compat.h"

#include "access/xlogreader.h"

extern void zen_cover_init(void);

/*
 * zen_cover_begin -- this session may copy files from now on, if the server is a standby.  On return minRecoveryPoint
 * covers all that redo has stored without having looked.  Until zen_cover_end(), or the session's end.  A walsender
 * does not count while it streams.
 */
extern void zen_cover_begin(void);
extern void zen_cover_end(void);

/*
 * zen_cover_redo -- redo, before it stores anything of this record.  zen_cover_redo_done -- when it has stored all.
 */
extern void zen_cover_redo(XLogReaderState *record);
extern void zen_cover_redo_done(XLogReaderState *record);

#endif							/* ZEN_STREAMCOVER_H */
