/*
 * chain.h -- chains of links: how a statement goes through the parts of zen that take part in it.
 *
 * A link does its work before and after the rest of the chain, which it calls once.  The last link goes on to the hook
 * of another library, or to PostgreSQL.  Which links there are, in which order and why: dispatch.c.
 */
#ifndef ZEN_CHAIN_H
#define ZEN_CHAIN_H

#include "base/compat.h"

#include "admin/named.h"
#include "executor/executor.h"
#include "tcop/utility.h"

/* ---------- utility statements ---------- */

typedef struct ZenUtility ZenUtility;
typedef void (*ZenUtilityLink) (ZenUtility *u);

struct ZenUtility
{
	const ZenUtilityLink *rest; /* links that are still to be called */
	Node	   *stmt;			/* pstmt's; links may change those of
								 * zen_commands_changes() */
	ZenAlterTable alter;

	/* what ProcessUtility is called with */
	PlannedStmt *pstmt;
	const char *query;
	bool		read_only;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *env;
	DestReceiver *dest;
	QueryCompletion *qc;
};

static inline void
zen_utility_rest(ZenUtility *u)
{
	(*u->rest++) (u);
}

/* ---------- executions ---------- */

/* A link is called with the links behind it. */
typedef struct ZenStartLink
{
	void		(*start) (const struct ZenStartLink *rest, QueryDesc *query, int eflags);
} ZenStartLink;

typedef struct ZenRunLink
{
	void		(*run) (const struct ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS);
} ZenRunLink;

typedef struct ZenFinishLink
{
	void		(*finish) (const struct ZenFinishLink *rest, QueryDesc *query);
} ZenFinishLink;

static inline void
zen_start_rest(const ZenStartLink *rest, QueryDesc *query, int eflags)
{
	rest->start(rest + 1, query, eflags);
}

static inline void
zen_run_rest(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS)
{
	rest->run(rest + 1, ZEN_EXECUTOR_RUN_PASS);
}

static inline void
zen_finish_rest(const ZenFinishLink *rest, QueryDesc *query)
{
	rest->finish(rest + 1, query);
}

#endif							/* ZEN_CHAIN_H */
