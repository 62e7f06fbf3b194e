/*
 * datadir.h -- what the data directory says of itself and of its pool.
 */
#ifndef ZEN_DATADIR_H
#define ZEN_DATADIR_H

#include "nvm/layout.h"

#define ZEN_STATE_FILE			"zen.state"
#define ZEN_UUID_FORMAT			"%016llx%016llx"
#define ZEN_UUID_ARGS(u)		(unsigned long long) (u)[0], (unsigned long long) (u)[1]

/* How far data directory and pool have come with each other. */
typedef enum ZenPhase
{
	ZEN_PHASE_CREATING,			/* no pool has been opened under this uuid yet */
	ZEN_PHASE_OPEN,
	ZEN_PHASE_UPGRADING,		/* pg_upgrade makes this cluster of the one
								 * whose pool is named */
	ZEN_PHASE_UPGRADED			/* it has finished, and started the cluster
								 * for a last look */
} ZenPhase;

/* What zen.state says. */
typedef struct ZenStateFile
{
	bool		found;
	ZenPhase	phase;
	uint64		uuid[2];
	uint64		generation;
	uint32		mark;			/* of the pool, when it was raised last */
	bool		has_mark;		/* false: a former version of zen wrote the
								 * file */
	uint64		checkpoint;		/* ZEN_PHASE_UPGRADED: where pg_upgrade's last
								 * server has stopped */
	char		pool_path[MAXPGPATH];	/* zen.pool_path at the last start,
										 * for messages */
} ZenStateFile;

/* What pg_control says. */
typedef struct ZenClusterFacts
{
	uint64		system_id;
	uint64		checkpoint;		/* XLogRecPtr of the last checkpoint record */
	bool		shut_down;
	bool		stopped;		/* the same, or a standby was stopped in order */
	bool		reset;			/* pg_resetwal was the last to write it */
} ZenClusterFacts;

/* zen_cluster_facts -- pg_control as it is on disk now; FATAL if it cannot be read. */
extern ZenClusterFacts zen_cluster_facts(void);

/*
 * zen_state_read -- read zen.state; found = false if there is none.
 *
 * zen_state_write -- replace zen.state, durable on return (as far as fsync = on).
 *
 * If that fails, or the file cannot be understood: a report of that level, and false.
 */
extern bool zen_state_read(ZenStateFile *state, int elevel);
extern bool zen_state_write(const ZenStateFile *state, int elevel);

/* zen_time_after -- now, or the second after `last` if that is later. */
extern struct timespec zen_time_after(time_t last);

/* Is the cluster one that pg_upgrade has made, and that has not taken its pool over yet? */
static inline bool
zen_state_is_upgrade(const ZenStateFile *state)
{
	return state->found && (state->phase == ZEN_PHASE_UPGRADING || state->phase == ZEN_PHASE_UPGRADED);
}

/* What zen.pool_path says of one file: "path" or "path@node". */
typedef struct ZenPoolName
{
	char		path[MAXPGPATH];	/* absolute */
	int32		node;			/* NUMA node; -1: not said */
} ZenPoolName;

/* zen_pool_names -- the files that zen.pool_path names; how many, or 0 if it cannot be understood. */
extern int	zen_pool_names(ZenPoolName names[ZEN_MAX_FILES]);

/*
 * zen_begins_backup -- is the data directory a copy that was made of a running server, and has not been started yet?
 * Postmaster.
 */
extern bool zen_begins_backup(void);

/*
 * zen_is_in_base_backup -- does pg_basebackup send this file?  It sends what is in the data directory, but for some of
 * its directories, and in tablespaces what is in the directory that is PostgreSQL's.  Current directory: DataDir.
 *
 * zen_is_linked -- does a symbolic link lead from a name in the data directory out of it?
 *
 * zen_is_like_relation -- would pg_checksums take a file of this absolute name for a relation's, and write to it?
 */
extern bool zen_is_in_base_backup(const char *path);
extern bool zen_is_linked(const char *path);
extern bool zen_is_like_relation(const char *path);

#endif							/* ZEN_DATADIR_H */
