/*
 * history.h -- was a verified run serializable?
 */
#ifndef HISTORY_H
#define HISTORY_H

#include "engine.h"

struct CcTxn;

/* For a run that is verified; else the others do nothing. */
extern void history_open(void);

/* A transaction has committed; it still has what it has latched. */
extern void history_note(const struct CcTxn *txn);

/* Ends the process if the order of some transactions is a circle. */
extern void history_judge(void);

#endif							/* HISTORY_H */
