/*
 * falcon.c -- the engine falcon: updates in place, for caches that are persistent.
 *
 * Source of the design: Z. Ji, K. Chen, L. Wang, M. Zhang, Y. Wu: Falcon: Fast OLTP Engine for Persistent Cache and
 * Non-Volatile Memory, SOSP 2023.
 *
 * Small log window: the log is two records long, per thread.  On eADR it is never flushed, and as it is written again
 * and again it stays in the cache: logging costs no write to NVM.
 *
 * Selective flush: changed rows are flushed although nothing demands it, so that the lines of a row reach the
 * medium together and merge into its 256-byte units, instead of being evicted one by one.  Rows that are changed
 * often are left to the cache: each thread remembers the last settings.hot_rows rows that it has changed.
 *
 * Commit on eADR: new rows | fence | log record | fence | changes in place, hinted flushes.  The next record's fence
 * orders the changes before it.  In flush mode the caches lose everything, so log and rows are flushed and fenced as
 * inp does it; what remains is the small window.
 *
 * falcon-all flushes all rows, falcon-none none; both are for eADR.  falcon-all does what inp-window does: without
 * versions and indexes there is no other difference between them.
 */
#include "inplace.h"

const Engine falcon_engine = {
	.name = "falcon",
	.window = true,
	.hints = HINTS_COLD,
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};

const Engine falcon_all_engine = {
	.name = "falcon-all",
	.eadr = true,
	.window = true,
	.hints = HINTS_ALL,
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};

const Engine falcon_none_engine = {
	.name = "falcon-none",
	.eadr = true,
	.window = true,
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};
