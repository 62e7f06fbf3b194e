/*
 * hooks.h -- statements that zen must see, and that do not pass the table access method.
 */
#ifndef ZEN_HOOKS_H
#define ZEN_HOOKS_H

/* Install all hooks; once, when all libraries are loaded. */
extern void zen_hooks_init(void);

#endif							/* ZEN_HOOKS_H */
