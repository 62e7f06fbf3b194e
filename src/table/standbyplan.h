/*
 * standbyplan.h -- plans on a hot standby: which indexes of zen tables they may use.
 */
#ifndef ZEN_STANDBYPLAN_H
#define ZEN_STANDBYPLAN_H

#include "base/compat.h"

#include "nodes/pathnodes.h"
#include "utils/rel.h"

/*
 * zen_standbyplan_begin -- a statement is planned in recovery, maybe within the planning of another one.
 * zen_standbyplan_end -- it is planned, or has failed; begun: what zen_standbyplan_begin() has returned.
 *
 * zen_standbyplan_hide -- the planner asks next if the table has indexes: it has none.
 *
 * zen_standbyplan_described -- the planner has asked: rel gets the indexes that trees stand in for.
 */
extern int	zen_standbyplan_begin(void);
extern void zen_standbyplan_end(int begun);
extern void zen_standbyplan_hide(Relation rel);
extern void zen_standbyplan_described(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);

#endif							/* ZEN_STANDBYPLAN_H */
