/*
 * dbx.c -- the engines dbxn, dbx-naive, dbx-dram and variants: rows in memory, optimistic transactions in hardware
 * transactional memory (cc_htm.c), a redo log.
 *
 * Source of the designs: X. Wei, F. Lu, R. Chen, H. Chen, B. Zang: Reducing Transaction Processing Latency in Hardware
 * Transactional Memory-based Database with Non-volatile Memory, International Journal of Software and Informatics,
 * 2022; Z. Wang and others: Using Restricted Transactional Memory to Build a Scalable In-Memory Database, EuroSys 2014.
 *
 * dbxn writes its log when the rows have changed, outside of the memory transaction, past the caches, and padded: to
 * lines, or to units of 256 bytes if it is larger than one.  Its variants have a part of that:
 *
 *   dbxn-store    a log through the caches, flushed, each record right behind the one before
 *   dbxn-64       that with records on lines of their own
 *   dbxn-stream   that past the caches
 *   dbxn-nvm      dbxn with all rows in NVM
 *   dbxn-nvm-64   dbxn-stream with all rows in NVM
 *
 * dbx-naive writes the log, as dbxn-store does, inside the memory transaction.  dbx-dram writes none, so nothing that
 * was committed survives.  The papers' engines swap pointers to rows; here rows are copied.
 *
 * Commit: rows in memory | log record | fence.
 */
#include "cc.h"
#include "memory.h"

static void
dbx_commit(int thread, const Write *writes, int n)
{
	if (n > 0)
		halves_append(thread, writes, n);
}

static void
no_commit(int thread, const Write *writes, int n)
{
}

#define IN_MEMORY \
	.cc = &cc_htm, \
	.keep_log = true, \
	.size = memory_size, \
	.open = memory_open, \
	.load = memory_load, \
	.load_end = memory_load_end, \
	.read = memory_read, \
	.apply = memory_apply, \
	.background = halves_gleaner, \
	.recover = memory_recover

const Engine dbxn_engine = {
	IN_MEMORY,
	.name = "dbxn",
	.in_dram = true,
	.stream_log = true,
	.log_pad = 256,
	.commit = dbx_commit,
};

const Engine dbxn_stream_engine = {
	IN_MEMORY,
	.name = "dbxn-stream",
	.in_dram = true,
	.stream_log = true,
	.commit = dbx_commit,
};

const Engine dbxn_64_engine = {
	IN_MEMORY,
	.name = "dbxn-64",
	.in_dram = true,
	.commit = dbx_commit,
};

const Engine dbxn_store_engine = {
	IN_MEMORY,
	.name = "dbxn-store",
	.in_dram = true,
	.log_pad = 8,
	.commit = dbx_commit,
};

const Engine dbxn_nvm_engine = {
	IN_MEMORY,
	.name = "dbxn-nvm",
	.in_nvm = true,
	.stream_log = true,
	.log_pad = 256,
	.metadata = memory_metadata,
	.commit = dbx_commit,
};

const Engine dbxn_nvm_64_engine = {
	IN_MEMORY,
	.name = "dbxn-nvm-64",
	.in_nvm = true,
	.stream_log = true,
	.metadata = memory_metadata,
	.commit = dbx_commit,
};

const Engine dbx_naive_engine = {
	IN_MEMORY,
	.name = "dbx-naive",
	.in_dram = true,
	.log_pad = 8,
	.log_in_region = true,
	.commit = dbx_commit,
};

const Engine dbx_dram_engine = {
	IN_MEMORY,
	.name = "dbx-dram",
	.in_dram = true,
	.forgets = true,
	.commit = no_commit,
};
