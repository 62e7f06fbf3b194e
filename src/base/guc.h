/*
 * guc.h -- the settings of zen (all under the prefix "zen."); those for tests and measurements are in testing.h.
 *
 * Each variable is written by PostgreSQL's GUC machinery only.
 */
#ifndef ZEN_GUC_H
#define ZEN_GUC_H

#include "base/compat.h"

#include "base/testing.h"

#define ZEN_VERSION			"1.0"	/* of the library; zen.control and
									 * META.json have it, too */

/* How far the pool's medium can be trusted; see doc of zen.pool_mode. */
typedef enum ZenPoolMode
{
	ZEN_POOL_AUTO,				/* pmem if the file is on DAX, else wal */
	ZEN_POOL_PMEM,				/* real persistent memory, or refuse to start */
	ZEN_POOL_EMULATED,			/* same instructions on any file: survives
								 * crashes, not power loss */
	ZEN_POOL_MSYNC,				/* ordinary file made durable by msync */
	ZEN_POOL_WAL				/* ordinary file made durable by PostgreSQL's
								 * WAL */
} ZenPoolMode;

/* Do writers keep to their NUMA node? */
typedef enum ZenNumaMode
{
	ZEN_NUMA_OFF,
	ZEN_NUMA_COUNT,				/* no, but what is remote is counted */
	ZEN_NUMA_LOCAL,				/* each writes to the files of its node */
	ZEN_NUMA_SOFT				/* and runs where its rows are */
} ZenNumaMode;

/* On which node does a session begin? */
typedef enum ZenNumaBinding
{
	ZEN_NUMA_EVEN,				/* on the one with the fewest sessions */
	ZEN_NUMA_GROUP				/* on the first with a processor to spare */
} ZenNumaBinding;

extern int	zen_numa_mode;		/* ZenNumaMode */
extern int	zen_numa_binding;	/* ZenNumaBinding */

/* What a commit writes back from the processor's caches; see doc of zen.flush. */
typedef enum ZenFlush
{
	ZEN_FLUSH_AUTO,				/* what the persistence domain leaves to do */
	ZEN_FLUSH_ALWAYS,			/* all */
	ZEN_FLUSH_NEVER,			/* nothing: caches survive, whatever the
								 * platform says of them */
	ZEN_FLUSH_HINT				/* as AUTO; where that is nothing, rows that
								 * are not hot, without waiting for it */
} ZenFlush;

extern char *zen_pool_path;		/* file names; relative to the data directory */
extern int	zen_pool_size_mb;	/* megabytes; of a new pool, or for one to
								 * grow to */
extern bool zen_pool_size_is_set;	/* it is not the default */
extern int	zen_pool_max_size_mb;	/* megabytes; 0: twice the pool */
extern int	zen_pool_grow_by_mb;	/* megabytes; 0: never by itself */
extern int	zen_pool_mode;		/* ZenPoolMode */
extern int	zen_flush_what;		/* ZenFlush */
extern int	zen_dram_size_mb;	/* megabytes of shared DRAM reserved for zen */
extern int	zen_met_cache_size_kb;	/* kilobytes of it that row versions may
									 * fill before eviction */
extern int	zen_spill_threshold_kb;
extern bool zen_met_cache_split;	/* divide that among tables */
extern int	zen_warning_level;	/* percent of the pool or of zen.dram_size in
								 * use; 0: no warnings */
extern int	zen_key_cache_mb;

/* the words of zen.executor */
extern bool zen_point_access;	/* run point accesses with kept state */
extern bool zen_key_join;		/* inner rows of nested loops by the key cache */
extern bool zen_batch_aggregate;	/* aggregate tables block by block */
extern bool zen_shapes;			/* plans for statements nobody has prepared */
extern int	zen_shape_memory_kb;

extern bool zen_track_statements;

/* the exclusive stage; 0 = not for this reason */
extern int	zen_exclusive_memory;	/* percent of the Met-Cache that one
									 * transaction may hold in DRAM: alpha of
									 * the paper */
extern int	zen_exclusive_free_pool;	/* percent of the pool that is to be
										 * free: beta */
extern int	zen_exclusive_failures; /* transactions that a client may lose in
									 * a row: gamma */
extern int	zen_vacuum_pin_timeout_ms;	/* that VACUUM waits for an index page */
extern int	zen_full_timeout_ms;	/* that garbage is waited for in a full
									 * pool */
extern int	zen_exclusive_timeout_ms;	/* that a writer is held back at most */

extern int	zen_sequence_log_ahead; /* numbers of a sequence, when one must be
									 * waited for */
extern int	zen_recovery_workers;	/* background workers that help to recover */
extern bool zen_skip_damaged_rows;	/* leave damaged rows out instead of an
									 * error */
extern bool zen_allow_copies_without_rows;	/* backups and standbys, though
											 * they do not have the rows of
											 * zen tables */
extern bool zen_standby_reads;	/* zen tables are read on a hot standby */
extern bool zen_standby_indexes;	/* ... with trees in place of indexes */
extern bool zen_deltas;			/* wide rows are written as what has changed */
extern bool zen_save_map;		/* save the map at an orderly stop, and use it */
extern int	zen_save_map_interval;	/* seconds between two saves while the
									 * server runs; 0: none */

/* The access method of PRIMARY KEY and UNIQUE. */
typedef enum ZenDefaultIndex
{
	ZEN_INDEX_BTREE,
	ZEN_INDEX_ZENTREE
} ZenDefaultIndex;

extern int	zen_default_index;	/* ZenDefaultIndex */

/* What of the changes of zen tables is in the WAL. */
typedef enum ZenStream
{
	ZEN_STREAM_OFF,				/* nothing */
	ZEN_STREAM_LOGICAL,			/* what logical decoding needs */
	ZEN_STREAM_REPLICA			/* that, and what copies of the pool need */
} ZenStream;

extern int	zen_stream;			/* ZenStream; constant once the server runs */

#define ZEN_MAX_RECOVERY_WORKERS	128

/* zen_guc_init -- define all settings.  Called once from _PG_init in the postmaster. */
extern void zen_guc_init(void);

/* zen_guc_tune_wal_writer -- then, unless zen.pool_mode is wal: no commit of zen waits for the WAL writer. */
extern void zen_guc_tune_wal_writer(void);

/* zen_guc_imply_stream -- zen.stream has this value, whatever the configuration says.  Once, from _PG_init. */
extern void zen_guc_imply_stream(ZenStream value);

#endif							/* ZEN_GUC_H */
