/*
 * callbacks.c -- zen's place among the transaction callbacks of all libraries.
 *
 * PostgreSQL runs them last registered first.  So zen's are the last to run if zen is the first library of
 * shared_preload_libraries.  Libraries that are loaded later, by LOAD or session_preload_libraries too, run before it.
 *
 * If zen is not the first, it looks whether the libraries ahead of it have registered any.  PostgreSQL's list
 * starts with zen's own entries by then, and has to end there.
 *
 * The list is private to PostgreSQL, but each entry is a chunk of TopMemoryContext, which hands out the chunk that
 * was freed last.  The chunk's content tells whether it is zen's entry.  If it is not, zen takes it that others
 * follow.  That is always safe: see src/txn/README, "Other libraries".
 */
#include "txn/callbacks.h"

#include <dlfcn.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

/* An entry of PostgreSQL's list (XactCallbackItem). */
typedef struct Entry
{
	struct Entry *next;
	XactCallback callback;
	void	   *arg;
} Entry;

bool		zen_callbacks_last = false;

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

/* The entries behind zen's own; zen may have others, which write nothing. */
static const Entry *
others_behind(const Entry *entry)
{
	Dl_info		zen;
	Dl_info		info;

	Assert(entry->arg == &marker);
	if (dladdr(&marker, &zen) == 0)
		return entry->next;
	do
		entry = entry->next;
	while (entry != NULL && dladdr((void *) entry->callback, &info) != 0 && info.dli_fbase == zen.dli_fbase);
	return entry;
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
zen_callbacks_register(XactCallback xact, SubXactCallback subxact)
{
	const Entry *entry;

	/* each process inherits the list */
	Assert(!IsUnderPostmaster && !zen_callbacks_last);
	entry = register_and_find(xact);
	RegisterSubXactCallback(subxact, NULL);
	zen_callbacks_last = is_first_library() || (entry != NULL && others_behind(entry) == NULL);
	if (zen_callbacks_last)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("libraries with transaction callbacks are ahead of zen in shared_preload_libraries: %s",
					entry ? libraries_of(others_behind(entry)) : "unknown"),
			 errdetail("They act after zen at the end of a transaction, so each commit that changes zen tables "
					   "is written to the WAL and flushed."),
			 errhint("Name zen first in shared_preload_libraries, and restart the server.")));
}
