/*
 * standbyworker.h -- the background process of a hot standby whose zen tables are read.
 */
#ifndef ZEN_STANDBYWORKER_H
#define ZEN_STANDBYWORKER_H

#include "base/compat.h"

/* zen_standby_worker_register -- at postmaster start, if zen.standby_reads is on. */
extern void zen_standby_worker_register(void);

PGDLLEXPORT extern void zen_standby_worker_main(Datum arg);

#endif							/* ZEN_STANDBYWORKER_H */
