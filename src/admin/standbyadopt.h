/*
 * standbyadopt.h -- behind a promotion: a tree that stood in for an index becomes its own.
 */
#ifndef ZEN_STANDBYADOPT_H
#define ZEN_STANDBYADOPT_H

#include "base/compat.h"

/* zen_standbyadopt_init -- tell rebuilds of indexes that there may be such trees; in the postmaster. */
extern void zen_standbyadopt_init(void);

#endif							/* ZEN_STANDBYADOPT_H */
