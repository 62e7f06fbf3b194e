/*
 * inp.c -- the engine inp: updates in place, behind a redo log in NVM.
 *
 * Source of the design: the engine of this name in Z. Ji, K. Chen, L. Wang, M. Zhang, Y. Wu: Falcon: Fast OLTP Engine
 * for Persistent Cache and Non-Volatile Memory, SOSP 2023; the in-place engine of J. Arulraj, A. Pavlo, S. Dulloor:
 * Let's Talk About Storage & Recovery Methods for Non-Volatile Memory Database Systems, SIGMOD 2015.
 *
 * Commit: new rows, if there are any | fence | log record | fence | changes in place, flushed | fence.  The log is
 * large (--log-mb per thread), so each record goes to lines that have left the caches long ago.
 *
 * Falcon's paper (figures 10 and 11) takes it apart on eADR, where these variants leave out some of what inp flushes:
 * inp-none flushes nothing; inp-window has a log of two records, not flushed, and flushes rows; inp-hot flushes log and
 * rows, but for rows that the thread has changed lately.
 */
#include "inplace.h"

const Engine inp_engine = {
	.name = "inp",
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};

const Engine inp_none_engine = {
	.name = "inp-none",
	.eadr = true,
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};

const Engine inp_window_engine = {
	.name = "inp-window",
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

const Engine inp_hot_engine = {
	.name = "inp-hot",
	.eadr = true,
	.flush_log = true,
	.hints = HINTS_COLD,
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};
