/*
 * mmdb.c -- the engine mmdb: a main-memory database whose memory is DRAM and, beyond that, NVM (memory.c).
 *
 * Source of the design: the engine of this name in G. Liu, L. Chen, S. Chen: Zen+, VLDB Journal 2022.
 *
 * mmdb-log takes a checkpoint only when its log is full: with a large one (--log-mb) there is none, as in the paper's
 * measurements of throughput, and recovery has all of the log to apply.  mmdb-ideal is that with all rows in DRAM.
 *
 * Commit: log record | fence, then the rows in memory.
 */
#include "memory.h"

static void
mmdb_commit(int thread, const Write *writes, int n)
{
	if (n == 0)
		return;
	halves_append(thread, writes, n);
	memory_apply(thread, writes, n);
}

const Engine mmdb_engine = {
	.name = "mmdb",
	.size = memory_size,
	.open = memory_open,
	.load = memory_load,
	.load_end = memory_load_end,
	.read = memory_read,
	.metadata = memory_metadata,
	.commit = mmdb_commit,
	.background = halves_gleaner,
	.drain = halves_drain,
	.recover = memory_recover,
};

const Engine mmdb_log_engine = {
	.name = "mmdb-log",
	.keep_log = true,
	.size = memory_size,
	.open = memory_open,
	.load = memory_load,
	.load_end = memory_load_end,
	.read = memory_read,
	.metadata = memory_metadata,
	.commit = mmdb_commit,
	.background = halves_gleaner,
	.recover = memory_recover,
};

const Engine mmdb_ideal_engine = {
	.name = "mmdb-ideal",
	.keep_log = true,
	.in_dram = true,
	.size = memory_size,
	.open = memory_open,
	.load = memory_load,
	.load_end = memory_load_end,
	.read = memory_read,
	.metadata = memory_metadata,
	.commit = mmdb_commit,
	.background = halves_gleaner,
	.recover = memory_recover,
};
