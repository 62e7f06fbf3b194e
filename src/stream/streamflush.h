/*
 * streamflush.h -- commits reach the readers of the WAL within milliseconds.
 */
#ifndef ZEN_STREAMFLUSH_H
#define ZEN_STREAMFLUSH_H

#include "base/compat.h"

/* zen_streamflush_register -- have the flusher started with the server.  At postmaster start. */
extern void zen_streamflush_register(void);

/* The flusher's main function. */
extern PGDLLEXPORT void zen_streamflush_main(Datum arg);

#endif							/* ZEN_STREAMFLUSH_H */
