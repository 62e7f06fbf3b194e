/*
 * planhook.h -- the hooks of parser and planner.
 */
#ifndef ZEN_PLANHOOK_H
#define ZEN_PLANHOOK_H

#include "base/compat.h"

/* Plans are marked, and statements run by the plan of their shape: the hooks of the executor are taken (exec.c). */
extern bool zen_planhook_marks;

/* zen_planhook_init -- take the hooks of parser and planner; after other libraries have taken theirs. */
extern void zen_planhook_init(void);

#endif							/* ZEN_PLANHOOK_H */
