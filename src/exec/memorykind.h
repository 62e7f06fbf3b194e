/*
 * memorykind.h -- what an expression has in it for as long as it stays compiled, beside what its functions remember.
 */
#ifndef ZEN_MEMORYKIND_H
#define ZEN_MEMORYKIND_H

#include "base/compat.h"

#include "nodes/nodes.h"
#include "utils/relcache.h"

typedef enum ZenMemoryKind
{
	ZEN_MEMORY_NONE,
	ZEN_MEMORY_CATALOGS,		/* what catalogs said when it was compiled */
	ZEN_MEMORY_ANY				/* nobody knows: it may not stay */
} ZenMemoryKind;

/* How far an expression is on its way. */
typedef enum ZenExprStage
{
	ZEN_EXPR_STORED,			/* the bodies of functions in SQL may come
								 * into it yet */
	ZEN_EXPR_PLANNED,
	ZEN_EXPR_COMPILED			/* so are the constraints of its domains */
} ZenExprStage;

typedef struct ZenMemoryJudgement
{
	ZenMemoryKind kind;			/* the most that has been seen */
	ZenExprStage stage;
} ZenMemoryJudgement;

/*
 * zen_memory_judge -- look at an expression, or a list of some; the walker of a tree.
 *
 * Result: it may remember anything, so there is no need to look on.  Looks at catalogs.  Runs no functions: domains are
 * looked into only where they have been compiled.
 */
extern bool zen_memory_judge(Node *node, void *judgement);

/* zen_memory_judge_table -- look at what is evaluated when a row of the table changes, as it is stored. */
extern void zen_memory_judge_table(Relation rel, ZenMemoryJudgement *judgement);

#endif							/* ZEN_MEMORYKIND_H */
