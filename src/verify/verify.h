/*
 * verify.h -- what zen_verify() and zen_verify_pool() share: findings, and the checks of a TID and of an index.
 *
 * Findings are the rows that both functions return: one for each thing found wrong.
 */
#ifndef ZEN_VERIFY_H
#define ZEN_VERIFY_H

#include "base/compat.h"

#include "fmgr.h"
#include "nvm/slotalloc.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

/* ---------- findings (verify_row.c) ---------- */

typedef struct ZenReport
{
	Tuplestorestate *store;
	TupleDesc	desc;
	uint64		n;				/* rows so far */
} ZenReport;

/* Begin the result of a set-returning function; it goes to disk when it grows large. */
extern void zen_report_begin(ZenReport *report, FunctionCallInfo fcinfo);

/* A thing found wrong, and its place. */
typedef struct ZenFinding
{
	const char *kind;
	Oid			relation;		/* or InvalidOid */
	bool		has_tid;
	uint64		tidno;
	ZenSlot		slot;			/* or InvalidZenSlot */
	const char *location;		/* shown if there is no slot; or NULL */
} ZenFinding;

extern void zen_report(ZenReport *report, const ZenFinding *finding, const char *fmt,...) pg_attribute_printf(3, 4);

/* A set of numbers, of TIDs or pages, as bits. */
static inline bool
zen_bit_get(const uint64 *bits, uint64 i)
{
	return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static inline void
zen_bit_set(uint64 *bits, uint64 i)
{
	bits[i / 64] |= UINT64CONST(1) << (i % 64);
}

/* ---------- a TID (verify_row.c) ---------- */

/* Something found wrong with a TID, while nothing can be allocated. */
typedef struct ZenFault
{
	const char *kind;
	ZenSlot		slot;			/* or InvalidZenSlot */
	bool		unreadable;		/* reading the row throws */
	char		detail[160];
} ZenFault;

/* zen_unsound -- describe a fault; false. */
extern bool zen_unsound(ZenFault *fault, const char *kind, ZenSlot slot, const char *fmt,...)
			pg_attribute_printf(4, 5);

/*
 * zen_verify_word -- does a TID's map word lead to the version that it must?  Looks at the word, its versions and their
 * slots; false: *fault describes the finding.
 *
 * Only reads.  It is called outside any epoch, takes no lock on the table, never throws, and does not report a change
 * that another transaction is just making.
 */
extern bool zen_verify_word(ZenHTable *ht, uint64 tidno, ZenFault *fault);

/* ---------- an index (verify_index.c) ---------- */

/*
 * zen_verify_index -- compare an index with its table, both open and locked.
 *
 * skip, if not NULL, has a bit for each TID, of the first nskip, whose row cannot be read.  May throw the errors of
 * reading rows and of evaluating the index's expressions.
 */
extern void zen_verify_index(ZenReport *report, Relation table, ZenHTable *ht, Relation index,
							 const uint64 *skip, uint64 nskip);

/* ---------- a copy (verify_copy.c) ---------- */

/*
 * zen_verify_copy -- look at the pool of a standby, which follows its primary.
 *
 * Waits for no lock, and redo goes on.  ERROR (55000) if the server is promoted meanwhile.
 */
extern void zen_verify_copy(ZenReport *report);

#endif							/* ZEN_VERIFY_H */
