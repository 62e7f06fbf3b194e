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

/* zen_point_reason -- what to tell of a reason, numbered from 1 on; NULL: there are no more (pointplan.c). */
extern const ZenPointReason *zen_point_reason(int why);

#endif							/* ZEN_POINTWHY_H */
