/*
 * pointwhy.h -- is a statement on zen tables run with kept executor state, and why not?
 */
#ifndef ZEN_POINTWHY_H
#define ZEN_POINTWHY_H

#include "base/compat.h"

#include "base/stats.h"
#include "nodes/plannodes.h"

typedef enum ZenPointWhy
{
	ZEN_WHY_NONE,
#define X(name) ZEN_WHY_##name,
	ZEN_POINT_REASONS(X)
#undef X
	ZEN_NWHYS
} ZenPointWhy;

/* A reason as people see it. */
typedef struct ZenPointReason
{
	const char *name;
	const char *outcome;		/* what the statement is not */
	const char *hint;			/* what it means, and what to do */
} ZenPointReason;

/* zen_point_reason -- what to tell of a reason, numbered from 1 on; NULL: there are no more (pointplan.c). */
extern const ZenPointReason *zen_point_reason(int why);

/*
 * zen_point_count_reason -- count a reason for one plan or one execution, if there is one (pointplan.c).
 *
 * With client_min_messages = debug1, say it.
 */
extern void zen_point_count_reason(ZenPointWhy why);

/*
 * zen_point_serial -- the number of a plan whose executor state is kept; 0 of any other (pointplan.c).
 *
 * Plans with the same number are copies of one.  Such a plan has no bitmap scan.
 */
extern uint32 zen_point_serial(const PlannedStmt *stmt);

#endif							/* ZEN_POINTWHY_H */
