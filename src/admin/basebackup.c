/*
 * basebackup.c -- physical copies that would not hold the rows of zen tables are refused.
 *
 * pg_basebackup, standbys and archives get files and WAL.  Zen tables are in both with zen.stream = replica and a pool
 * in the data directory.  Otherwise a restored server would lack the rows, and its operator would learn of it too late.
 * So, while there are zen tables, and unless zen.allow_copies_without_rows is on:
 *
 * - without the stream no client of physical replication is let in: no answer that it can get holds a row.  Nor is it
 *   while the server is a standby whose pool does not follow;
 * - with the stream and a pool elsewhere a client may be a standby, which does not need the file.  BASE_BACKUP is an
 *   error;
 * - pg_backup_start() is an error.  So is pg_backup_stop(), since a table may have been made during the backup.
 *
 * table/zenam_ddl.c refuses the tables that come later.
 *
 * PostgreSQL has no hook in BASE_BACKUP.  But its first answer goes through PqCommMethods, and that is sent before any
 * file.
 *
 * On a standby, redo is told while a session may copy files (stream/streamcover.h).
 */
#include "admin/basebackup.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/guc.h"
#include "common/relpath.h"
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/filetime.h"
#include "nvm/pool.h"
#include "replication/walsender.h"
#include "stream/streamcover.h"
#include "tcop/tcopprot.h"
#include "utils/fmgroids.h"

static bool backup_begins = false;

/* ---------- what a copy would have ---------- */

/* The reason why the readers of the WAL do not get the changes of the pool; NULL: they do. */
static char *
lacks_stream(void)
{
	if (!RecoveryInProgress() && zen_stream != ZEN_STREAM_REPLICA)
		return pstrdup("The changes of zen tables are not in the write-ahead log: zen.stream is not \"replica\".");
	if (RecoveryInProgress() && !(zen_pool_is_replica() && zen_pool_is_copied()))
		return pstrdup("The pool of this standby does not follow its primary server.");
	return NULL;
}

/* All is in the WAL, but a base backup needs a copy of the pool to begin with. */
static char *
lacks_file(void)
{
	ZenPoolName names[ZEN_MAX_FILES];
	int			n = zen_pool_names(names);

	for (int i = 0; i < n; i++)
	{
		if (zen_is_in_base_backup(names[i].path))
			continue;
		if (path_is_prefix_of_path(DataDir, names[i].path) && zen_is_linked(names[i].path))
			return psprintf("The pool file \"%s\" is reached by a symbolic link, which pg_basebackup does not follow.",
							names[i].path);
		return psprintf("The pool file \"%s\" is neither in the data directory, where pg_basebackup looks, nor in the "
						"directory \"" TABLESPACE_VERSION_DIRECTORY "\" of a tablespace.", names[i].path);
	}
	if (!zen_pool_is_copied())
		return pstrdup("The pool has not been recovered with zen.stream = replica yet.");
	return NULL;
}

char *
zen_basebackup_lacks(void)
{
	char	   *why;

	if (!zen_pool_has_tables())
		return NULL;
	why = lacks_stream();
	return why != NULL ? why : lacks_file();
}

static void
refuse(int elevel, const char *what, char *why)
{
	bool		is_of_stream;

	if (why == NULL || zen_allow_copies_without_rows)
		return;
	is_of_stream = lacks_stream() != NULL;
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s would not have the rows of zen tables", what),
			 errdetail("%s", why),
			 is_of_stream ?
			 errhint("Set zen.stream to replica and restart the server, or back zen tables up with pg_dump.  To do "
					 "without their rows in the copy, set zen.allow_copies_without_rows to on.") :
			 errhint("With zen.stream = replica, move the file into the data directory while the server is stopped, "
					 "and set zen.pool_path.  If the copy may lack it, set zen.allow_copies_without_rows to on.")));
}

void
zen_basebackup_check_function(Oid function)
{
	switch (function)
	{
		case F_PG_BACKUP_START:
			refuse(ERROR, "a base backup", zen_basebackup_lacks());
			zen_cover_begin();
			backup_begins = true;
			break;
		case F_PG_BACKUP_STOP:	/* pg_control has been copied */
			refuse(ERROR, "a base backup", zen_basebackup_lacks());
			zen_cover_end();
			break;
		case F_PG_READ_BINARY_FILE_TEXT:
		case F_PG_READ_BINARY_FILE_TEXT_INT8_INT8:
		case F_PG_READ_BINARY_FILE_TEXT_INT8_INT8_BOOL: /* pg_rewind copies so */
			zen_cover_begin();
			break;
		default:
			break;
	}
}

/*
 * After the checkpoint of the backup, and before its client hears of it: the files that the client lists from now on
 * have the times of all stores.
 */
static void
note_begin(void)
{
	backup_begins = false;
	zen_filetime_backup_begins();
}

void
zen_basebackup_run(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS)
{
	zen_run_rest(rest, ZEN_EXECUTOR_RUN_PASS);
	if (unlikely(backup_begins))
		note_begin();
}

/* The function may have run without an executor. */
void
zen_basebackup_event(XactEvent event)
{
	if (backup_begins && event == XACT_EVENT_PRE_COMMIT)
		note_begin();
	backup_begins = false;
}

/* ---------- clients of physical replication ---------- */

static const PQcommMethods *sent_by;	/* NULL: not replaced */
static PQcommMethods methods;

static bool
is_base_backup(const char *command)
{
	static const char begin[] = "BASE_BACKUP";

	if (command == NULL)
		return false;
	command += strspn(command, " \t\r\n\f");
	return pg_strncasecmp(command, begin, sizeof(begin) - 1) == 0;
}

/* The first message of BASE_BACKUP describes a row.  Messages that report an error are let through. */
static int
put_message(char kind, const char *s, size_t len)
{
	if (kind == 'T' && is_base_backup(debug_query_string))
		refuse(ERROR, "a base backup", zen_basebackup_lacks());
	return sent_by->putmessage(kind, s, len);
}

static void
look_at_answers(void)
{
	if (sent_by != NULL)
		return;
	sent_by = PqCommMethods;
	methods = *sent_by;
	methods.putmessage = put_message;
	PqCommMethods = &methods;
}

void
zen_basebackup_client(void)
{
	zen_cover_begin();
	if (am_db_walsender)
		return;
	if (zen_pool_has_tables())
		refuse(FATAL, "a base backup or standby over this connection", lacks_stream());
	look_at_answers();
}
