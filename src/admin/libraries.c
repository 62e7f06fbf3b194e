/*
 * libraries.c -- zen's place among the libraries of shared_preload_libraries.
 *
 * Transaction callbacks.
 *
 * PostgreSQL runs them last registered first.  So zen's are the last to run if zen is the first library of
 * shared_preload_libraries.  Libraries that are loaded later, by LOAD or session_preload_libraries too, run before it.
 *
 * If zen is not the first, it looks whether the libraries ahead of it have registered any.  PostgreSQL's list
 * starts with zen's own entry by then, and has to end there.
 *
 * The list is private to PostgreSQL, but each entry is a chunk of TopMemoryContext, which hands out the chunk that was
 * freed last.  The chunk's content tells whether it is zen's entry.  If it is not, zen assumes that callbacks of others
 * run after its own.  That is always safe: see src/txn/README, "Other libraries".
 *
 * Innermost hooks.  A hook that stands for PostgreSQL's own code must be there before a library behind zen sets its
 * own, which then calls it.  But a library may insist on finding no hook, and nothing tells which one does.  So zen
 * tries: zen loads the libraries behind it, as PostgreSQL is about to do, while its hooks are set.  If one refuses, zen
 * gives the hooks back, and leaves that library and the rest to PostgreSQL.
 */
#include "admin/libraries.h"

#include <dlfcn.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "txn/xact.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

/* ---------- transaction callbacks ---------- */

/* An entry of PostgreSQL's list (XactCallbackItem). */
typedef struct Entry
{
	struct Entry *next;
	XactCallback callback;
	void	   *arg;
} Entry;

static char marker;				/* zen's entry bears its address */

/* The name of a library, as "zen" for "$libdir/zen.so".  Changes path. */
static const char *
library_name(char *path)
{
	char	   *slash = strrchr(path, '/');
	char	   *name = slash ? slash + 1 : path;
	char	   *suffix = strstr(name, DLSUFFIX);

	if (suffix != NULL && suffix[strlen(DLSUFFIX)] == '\0')
		*suffix = '\0';
	return name;
}

/* Is zen the first of shared_preload_libraries? */
static bool
is_first_library(void)
{
	char	   *list = pstrdup(shared_preload_libraries_string);
	List	   *paths = NIL;
	bool		first = SplitDirectoriesString(list, ',', &paths) && paths != NIL &&
	strcmp(library_name(linitial(paths)), "zen") == 0;

	list_free_deep(paths);
	pfree(list);
	return first;
}

/* Register the callback; returns its entry in PostgreSQL's list, or NULL if it is not where it was expected. */
static const Entry *
register_and_find(XactCallback callback)
{
	volatile Entry *entry = MemoryContextAlloc(TopMemoryContext, sizeof(Entry));

	pfree((void *) entry);
	RegisterXactCallback(callback, &marker);
	if (entry->callback != callback || entry->arg != &marker)
		return NULL;
	return (const Entry *) entry;
}

/* The libraries whose callbacks these are, each once. */
static char *
libraries_of(const Entry *entry)
{
	StringInfoData names;
	char	   *last = NULL;

	initStringInfo(&names);
	for (; entry != NULL; entry = entry->next)
	{
		Dl_info		info;
		char	   *name;

		if (dladdr((void *) entry->callback, &info) == 0 || info.dli_fname == NULL)
			continue;
		name = (char *) library_name(pstrdup(info.dli_fname));
		if (last == NULL || strcmp(name, last) != 0)
			appendStringInfo(&names, "%s\"%s\"", last ? ", " : "", name);
		last = name;
	}
	return names.len > 0 ? names.data : pstrdup("unknown");
}

void
zen_libraries_register(XactCallback xact, SubXactCallback subxact)
{
	const Entry *entry;

	/* each process inherits the list */
	Assert(!IsUnderPostmaster && !zen_xact_is_last);
	entry = register_and_find(xact);
	RegisterSubXactCallback(subxact, NULL);
	zen_xact_is_last = is_first_library() || (entry != NULL && entry->next == NULL);
	if (zen_xact_is_last)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("libraries with transaction callbacks are ahead of zen in shared_preload_libraries: %s",
					entry ? libraries_of(entry->next) : "unknown"),
			 errdetail("They act after zen at the end of a transaction, so each commit that changes zen tables "
					   "is written to the WAL and flushed."),
			 errhint("Name zen first in shared_preload_libraries, and restart the server.")));
}

/* ---------- innermost hooks ---------- */

/* Load a library, as PostgreSQL does; false if it has raised an error. */
static bool
try_to_load(const char *path)
{
	MemoryContext old = CurrentMemoryContext;
	volatile bool loaded = true;
	ErrorData  *error;

	PG_TRY();
	{
		load_file(path, false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		ereport(LOG,
				(errmsg("library \"%s\" refuses to be loaded behind executor hooks of zen: %s", path, error->message),
				 errdetail("It is loaded again without them.")));
		FreeErrorData(error);
		loaded = false;
	}
	PG_END_TRY();
	return loaded;
}

void
zen_libraries_try(void (*yield) (void))
{
	char	   *list = pstrdup(shared_preload_libraries_string);
	List	   *paths = NIL;
	bool		behind = false;
	ListCell   *lc;

	Assert(process_shared_preload_libraries_in_progress);
	if (SplitDirectoriesString(list, ',', &paths))
		foreach(lc, paths)
	{
		if (behind && !try_to_load(lfirst(lc)))
		{
			yield();
			break;
		}
		behind = behind || strcmp(library_name(pstrdup(lfirst(lc))), "zen") == 0;
	}
	list_free_deep(paths);
	pfree(list);
}
