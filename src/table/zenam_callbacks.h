/*
 * zenam_callbacks.h -- the parts of the access method's routine.
 *
 * Each module fills in the callbacks that it has.  PostgreSQL's access/tableam.h describes their arguments and results.
 */
#ifndef ZENAM_CALLBACKS_H
#define ZENAM_CALLBACKS_H

#include "base/compat.h"

#include "access/tableam.h"

extern void zenam_fetch_callbacks(TableAmRoutine *routine);
extern void zenam_scan_callbacks(TableAmRoutine *routine);
extern void zenam_toast_callbacks(TableAmRoutine *routine);
extern void zenam_dml_callbacks(TableAmRoutine *routine);
extern void zenam_ddl_callbacks(TableAmRoutine *routine);
extern void zenam_rewrite_callbacks(TableAmRoutine *routine);
extern void zenam_vacuum_callbacks(TableAmRoutine *routine);
extern void zenam_build_callbacks(TableAmRoutine *routine);

#endif							/* ZENAM_CALLBACKS_H */
