/*
 * basebackup.c -- physical copies that will not hold zen tables: say so when one begins.
 *
 * pg_basebackup, standbys and archives get files and WAL.  Zen tables are in both with zen.stream = replica and a pool
 * in the data directory.  Else the restored server is missing them, which is late to hear of it.  So the server log has
 * a warning
 *
 * - when a client connects for physical replication: what it will ask for is not known yet, but no answer can hold
 *   a zen table;
 * - when pg_backup_start() is called, which the caller sees, too.
 *
 * PostgreSQL has no hook in BASE_BACKUP itself.
 */
#include "admin/basebackup.h"

#include "base/guc.h"
#include "common/relpath.h"
#include "libpq/auth.h"
#include "nvm/datadir.h"
#include "nvm/htable.h"
#include "replication/walsender.h"
#include "utils/fmgroids.h"

static ClientAuthentication_hook_type prev_authentication_hook;

/* Tables, toast tables left out where that is known without a catalog: an estimate for a message. */
static uint32
count_tables(void)
{
	uint32		n = 0;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		n += zen_htables[i].in_use;
	return n;
}

/* All is in the WAL, but a base backup needs a copy of the pool to begin with. */
static void
warn_if_outside(const char *what)
{
	ZenPoolName names[ZEN_MAX_FILES];
	int			n = zen_pool_names(names);

	for (int i = 0; i < n; i++)
		if (!zen_is_in_base_backup(names[i].path))
		{
			ereport(WARNING,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s will not have the rows of zen tables", what),
					 errdetail("The pool file \"%s\" is neither in the data directory, where pg_basebackup looks, nor "
							   "in the directory \"" TABLESPACE_VERSION_DIRECTORY "\" of a tablespace.",
							   names[i].path),
					 errhint("Stop the server, move the file there, and set zen.pool_path.")));
			return;
		}
}

static void
warn(const char *what)
{
	uint32		n = count_tables();

	if (n == 0)
		return;
	if (zen_stream == ZEN_STREAM_REPLICA)
	{
		warn_if_outside(what);
		return;
	}
	ereport(WARNING,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s will not have the rows of zen tables", what),
			 errdetail("There are %u zen tables, toast tables included.  They are neither in the data directory "
					   "nor in the write-ahead log.", n),
			 errhint("Back zen tables up with pg_dump, or copy data directory and pool while the server is stopped.")));
}

void
zen_basebackup_check_function(Oid function)
{
	if (function == F_PG_BACKUP_START)
		warn("a base backup");
}

static void
authentication(Port *port, int status)
{
	if (prev_authentication_hook)
		prev_authentication_hook(port, status);
	if (status == STATUS_OK && am_walsender && !am_db_walsender)
		warn("a base backup or standby over this connection");
}

void
zen_basebackup_init(void)
{
	Assert(ClientAuthentication_hook != authentication);	/* once */
	prev_authentication_hook = ClientAuthentication_hook;
	ClientAuthentication_hook = authentication;
}
