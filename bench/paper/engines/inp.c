/*
 * inp.c -- the engine inp: updates in place, behind a redo log in NVM.
 *
 * Source of the design: the engine of this name in Z. Ji, K. Chen, L. Wang, M. Zhang, Y. Wu: Falcon: Fast OLTP Engine
 * for Persistent Cache and Non-Volatile Memory, SOSP 2023; the in-place engine of J. Arulraj, A. Pavlo, S. Dulloor:
 * Let's Talk About Storage & Recovery Methods for Non-Volatile Memory Database Systems, SIGMOD 2015.
 *
 * Commit: new rows, if there are any | fence | log record | fence | changes in place, flushed | fence.  The log is
 * large (--log-mb per thread), so each record goes to lines that have left the caches long ago.
 */
#include "inplace.h"

static Size
inp_size(void)
{
	return ring_size(settings.log_size) + inplace_size();
}

static void
inp_open(bool fresh)
{
	ring_open(settings.log_size);
	inplace_open(fresh);
}

const Engine inp_engine = {
	.name = "inp",
	.size = inp_size,
	.open = inp_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit_flushed,
	.recover = inplace_recover,
};
