/*
 * verify_index.h -- does an index of a zen table fit its rows?
 */
#ifndef ZEN_VERIFY_INDEX_H
#define ZEN_VERIFY_INDEX_H

#include "verify/verify_report.h"

#include "nvm/htable.h"
#include "utils/rel.h"

/*
 * zen_verify_index -- compare an index with its table, both open and locked.
 *
 * skip, if not NULL, has a bit for each TID, of the first nskip, whose row cannot be read.  May throw the errors of
 * reading rows and of evaluating the index's expressions.
 */
extern void zen_verify_index(ZenReport *report, Relation table, ZenHTable *ht, Relation index,
							 const uint64 *skip, uint64 nskip);

#endif							/* ZEN_VERIFY_INDEX_H */
