/*
 * utility.h -- a utility statement, on its way through the parts of zen that take part in it.
 */
#ifndef ZEN_UTILITY_H
#define ZEN_UTILITY_H

#include "base/compat.h"

#include "nodes/parsenodes.h"
#include "tcop/utility.h"

/* An ALTER TABLE, as far as zen asks. */
typedef struct ZenAlterTable
{
	const AlterTableStmt *stmt; /* NULL: the statement is another one */
	Oid			relid;			/* InvalidOid: nothing has this name */
	char		relkind;
	const char *am;				/* of SET ACCESS METHOD; NULL: it stays */
	bool		am_is_default;	/* it is not named */
	bool		moves;			/* SET TABLESPACE */
	bool		attaches;		/* ATTACH PARTITION */
	bool		only_drops_constraints;
	List	   *added;			/* ColumnDef and Constraint */
	List	   *partitions;		/* RangeVar: attached or detached */
} ZenAlterTable;

typedef struct ZenUtility
{
	/* what ProcessUtility is called with */
	PlannedStmt *pstmt;			/* may be changed unless read_only */
	const char *query;
	bool		read_only;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *env;
	DestReceiver *dest;
	QueryCompletion *qc;

	ProcessUtility_hook_type others;	/* hook of another library, or
										 * PostgreSQL itself */
} ZenUtility;

#endif							/* ZEN_UTILITY_H */
