/*
 * pisces.c -- the engine pisces: two versions of a row, in place and in a redo log.
 *
 * Source of the design: J. Gu and others: Pisces: A Scalable and Efficient Persistent Transactional Memory, USENIX ATC
 * 2019; as a peer in DBXN's paper.  All rows are in NVM, and are read there.
 *
 * Commit: whole new rows to the log | fence | rows in place, flushed | fence.  Between the two fences a row has two
 * versions.  Transactions that have begun before read the older one (cc_snapshot.c): Pisces leaves it in place, and
 * writes back when nobody reads it any more.  Here a copy of it is in DRAM, and rows are written back at once; what is
 * written to NVM is the same.
 */
#include "cc.h"
#include "inplace.h"

const Engine pisces_engine = {
	.name = "pisces",
	.cc = &cc_si,
	.log_whole = true,
	.size = inplace_size,
	.open = inplace_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = inplace_commit,
	.recover = inplace_recover,
};
