/*
 * standby.h -- zen tables that the catalogs name and the pool lacks, as after replay of another server's WAL.
 */
#ifndef ZEN_STANDBY_H
#define ZEN_STANDBY_H

#include "base/compat.h"

/*
 * zen_standby_check_function -- ERROR if the function is pg_promote(), and this standby would lose rows by it.
 *
 * The catalogs of any database name zen tables, and zen.allow_copies_without_rows is off.
 */
extern void zen_standby_check_function(Oid funcid);

/*
 * zen_standby_report_lacking -- tell the log which databases name zen tables that the pool does not have.
 *
 * In the zen worker, outside of a transaction, once the pool is recovered.  Never throws.
 */
extern void zen_standby_report_lacking(void);

#endif							/* ZEN_STANDBY_H */
