/*
 * named.h -- what a utility statement names: tables, and what ALTER TABLE does to one.
 */
#ifndef ZEN_NAMED_H
#define ZEN_NAMED_H

#include "base/compat.h"

#include "nodes/parsenodes.h"

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

/*
 * zen_named_alter -- the summary of a statement, which others read instead of its commands.  Made once, before the
 * statement runs.  It points into the statement.  Locks nothing.
 */
extern ZenAlterTable zen_named_alter(Node *stmt);

/*
 * zen_named_tables -- OIDs of the tables, and their toast tables, whose old indexes must be there before the
 * statement runs.  alter: its summary.
 *
 * NIL for statements that use no index of the tables that they name.  Locks nothing, so the list may be out of date.
 * In a transaction.
 */
extern List *zen_named_tables(Node *stmt, const ZenAlterTable *alter);

#endif							/* ZEN_NAMED_H */
