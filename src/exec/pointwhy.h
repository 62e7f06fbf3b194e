/*
 * pointwhy.h -- why a statement on zen tables is not run with kept executor state.
 */
#ifndef ZEN_POINTWHY_H
#define ZEN_POINTWHY_H

#include "base/compat.h"

#include "base/stats.h"

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

/* zen_point_reason -- what to tell of a reason; not of ZEN_WHY_NONE. */
extern const ZenPointReason *zen_point_reason(ZenPointWhy why);

/* zen_point_count -- count a reason for one plan or one execution; with client_min_messages = debug1, say it. */
extern void zen_point_count(ZenPointWhy why);

#endif							/* ZEN_POINTWHY_H */
