/*
 * datadir.c -- the data directory's half of what ties it to its pool: pg_control, and the file zen.state.
 *
 * zen.state is replaced as a whole, by a rename, so a crash leaves the old one or the new one.
 */
#include "nvm/datadir.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "base/guc.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/file_utils.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/varlena.h"

#define STATE_FORMAT			"2"
#define STATE_FORMAT_UNMARKED	"1" /* without the line "mark" */

static const char *const state_phase_names[] = {
	[ZEN_PHASE_CREATING] = "creating",
	[ZEN_PHASE_OPEN] = "open",
	[ZEN_PHASE_UPGRADING] = "upgrading",
	[ZEN_PHASE_UPGRADED] = "upgraded",
};

/* GetSystemIdentifier() and friends do not work yet in shmem_startup_hook: read the file. */
ZenClusterFacts
zen_cluster_facts(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	ZenClusterFacts facts;

	if (!crc_ok)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zen cannot use file \"%s/global/pg_control\": incorrect checksum", DataDir)));
	facts.system_id = control->system_identifier;
	facts.checkpoint = control->checkPoint;
	facts.shut_down = (control->state == DB_SHUTDOWNED);
	facts.stopped = facts.shut_down || control->state == DB_SHUTDOWNED_IN_RECOVERY;
	facts.reset = facts.shut_down &&
		XLogSegmentOffset(control->checkPoint, control->xlog_seg_size) == SizeOfXLogLongPHD;
	pfree(control);
	return facts;
}

/* ---------- zen.state ---------- */

/* Read one line "key value" into value (MAXPGPATH bytes); false if it is anything else. */
static bool
read_state_line(FILE *file, const char *key, char *value)
{
	char		line[MAXPGPATH + 32];
	Size		keylen = strlen(key);
	Size		len;

	if (fgets(line, sizeof(line), file) == NULL)
		return false;
	len = strlen(line);
	if (len == 0 || line[len - 1] != '\n')
		return false;
	line[len - 1] = '\0';
	return strncmp(line, key, keylen) == 0 && line[keylen] == ' ' &&
		strlcpy(value, line + keylen + 1, MAXPGPATH) < MAXPGPATH;
}

static bool
read_state_number(FILE *file, const char *key, uint64 *number)
{
	char		value[MAXPGPATH];
	unsigned long long read;

	if (!read_state_line(file, key, value) || strspn(value, "0123456789") != strlen(value) ||
		sscanf(value, "%llu", &read) != 1)
		return false;
	*number = read;
	return true;
}

static bool
read_state_uuid(FILE *file, ZenStateFile *state)
{
	char		value[MAXPGPATH];
	unsigned long long number[2];

	if (!read_state_line(file, "uuid", value) || strlen(value) != 32 || strspn(value, "0123456789abcdef") != 32 ||
		sscanf(value, "%16llx%16llx", &number[0], &number[1]) != 2)
		return false;
	state->uuid[0] = number[0];
	state->uuid[1] = number[1];
	return true;
}

static bool
read_state_phase(FILE *file, ZenStateFile *state)
{
	char		value[MAXPGPATH];

	if (!read_state_line(file, "state", value))
		return false;
	for (int i = 0; i < lengthof(state_phase_names); i++)
		if (strcmp(value, state_phase_names[i]) == 0)
		{
			state->phase = i;
			return true;
		}
	return false;
}

/* Read the lines; the key of the one that cannot be understood, or NULL. */
static const char *
read_state_lines(FILE *file, ZenStateFile *state)
{
	char		format[MAXPGPATH];
	uint64		mark = 0;

	if (!read_state_line(file, "format", format) ||
		(strcmp(format, STATE_FORMAT) != 0 && strcmp(format, STATE_FORMAT_UNMARKED) != 0))
		return "format";
	if (!read_state_uuid(file, state))
		return "uuid";
	if (!read_state_number(file, "generation", &state->generation))
		return "generation";
	state->has_mark = strcmp(format, STATE_FORMAT) == 0;
	if (state->has_mark && (!read_state_number(file, "mark", &mark) || mark > PG_UINT32_MAX))
		return "mark";
	state->mark = (uint32) mark;
	if (!read_state_phase(file, state))
		return "state";
	if (zen_state_is_upgrade(state) && !read_state_number(file, "checkpoint", &state->checkpoint))
		return "checkpoint";
	if (!read_state_line(file, "pool", state->pool_path))
		return "pool";
	return NULL;
}

bool
zen_state_read(ZenStateFile *state, int elevel)
{
	char		path[MAXPGPATH + 32];
	const char *wrong;
	FILE	   *file;

	memset(state, 0, sizeof(ZenStateFile));
	snprintf(path, sizeof(path), "%s/%s", DataDir, ZEN_STATE_FILE);
	file = AllocateFile(path, "r");
	if (file == NULL && errno == ENOENT)
		return true;
	if (file == NULL)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
		return false;
	}
	state->found = true;
	wrong = read_state_lines(file, state);
	FreeFile(file);
	if (wrong != NULL)
		ereport(elevel,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not understand file \"%s\"", path),
				 errdetail("The line \"%s\" is missing, malformed or of another format version.", wrong),
				 errhint("Restore the file from a copy of the data directory of the same moment.")));
	return wrong == NULL;
}

struct timespec
zen_time_after(time_t last)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec <= last)
	{
		now.tv_sec = last + 1;
		now.tv_nsec = 0;
	}
	return now;
}

/* The time of the file that is replaced tells of it, as that of the pool does (filetime.h). */
static void
make_later(int fd, const char *former)
{
	struct stat st;
	struct timespec both[2] = {{.tv_nsec = UTIME_OMIT}};

	if (stat(former, &st) != 0)
		return;
	both[1] = zen_time_after(st.st_mtim.tv_sec);
	(void) futimens(fd, both);
}

/* All of a new file, with that text; false, and errno, if it cannot be written. */
static bool
write_text(const char *name, const char *text, const char *former)
{
	int			fd = OpenTransientFile(name, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	ssize_t		len = strlen(text);
	bool		written;
	int			save_errno;

	if (fd < 0)
		return false;
	errno = 0;
	written = write(fd, text, len) == len;
	/* a short write without errno is a full disk */
	save_errno = errno != 0 ? errno : ENOSPC;
	make_later(fd, former);
	if (CloseTransientFile(fd) != 0 && written)
		return false;
	errno = save_errno;
	return written;
}

bool
zen_state_write(const ZenStateFile *state, int elevel)
{
	char		path[MAXPGPATH + 32];
	char		temp[MAXPGPATH + 40];
	char		content[MAXPGPATH + 256];
	char		checkpoint[64] = "";

	Assert(state->found && state->phase < lengthof(state_phase_names));
	Assert(strpbrk(state->pool_path, "\r\n") == NULL);
	if (zen_state_is_upgrade(state))
		snprintf(checkpoint, sizeof(checkpoint), "checkpoint %llu\n", (unsigned long long) state->checkpoint);
	snprintf(path, sizeof(path), "%s/%s", DataDir, ZEN_STATE_FILE);
	snprintf(temp, sizeof(temp), "%s.tmp", path);
	snprintf(content, sizeof(content),
			 "format %s\nuuid " ZEN_UUID_FORMAT "\ngeneration %llu\nmark %u\nstate %s\n%spool %s\n",
			 STATE_FORMAT, ZEN_UUID_ARGS(state->uuid), (unsigned long long) state->generation, state->mark,
			 state_phase_names[state->phase], checkpoint, state->pool_path);
	if (!write_text(temp, content, path))
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temp)));
		return false;
	}
	return durable_rename(temp, path, elevel) == 0;
}

/* ---------- backup_label ---------- */

bool
zen_begins_backup(void)
{
	return access("backup_label", F_OK) == 0 || access("tablespace_map", F_OK) == 0;
}

/* ---------- zen.pool_path ---------- */

/* What a path is called below a directory, both without symbolic links; NULL: it is not there. */
static const char *
below(const char *real_path, const char *directory)
{
	char		real_directory[PATH_MAX];
	Size		len;

	if (realpath(directory, real_directory) == NULL)
		return NULL;
	len = strlen(real_directory);
	return strncmp(real_path, real_directory, len) == 0 && real_path[len] == '/' ? real_path + len + 1 : NULL;
}

/* The directory in a line "oid path" of tablespace_map, where a backslash stands before what would end the line. */
static void
mapped_directory(const char *line, char *path)
{
	const char *from = strchr(line, ' ');
	char	   *to = path;

	for (from = from == NULL ? "" : from + 1; *from != '\0' && to < path + MAXPGPATH - 1; from++)
	{
		if (*from == '\\' && from[1] != '\0')
			from++;
		*to++ = *from;
	}
	*to = '\0';
}

/* Until a backup's first start has begun, only tablespace_map may tell where its tablespaces are. */
static bool
is_in_mapped_tablespace(const char *real_path)
{
	FILE	   *file = AllocateFile("tablespace_map", "r");
	char		line[MAXPGPATH + 64];
	bool		found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
	{
		char		path[MAXPGPATH + sizeof(TABLESPACE_VERSION_DIRECTORY) + 1];

		line[strcspn(line, "\n")] = '\0';
		mapped_directory(line, path);
		strcat(path, "/" TABLESPACE_VERSION_DIRECTORY);
		found = below(real_path, path) != NULL;
	}
	FreeFile(file);
	return found;
}

/* Is it below the directory that is PostgreSQL's in a tablespace? */
static bool
is_in_tablespace(const char *real_path)
{
	DIR		   *dir = AllocateDir("pg_tblspc");
	struct dirent *entry;
	bool		found = false;

	while (!found && (entry = ReadDirExtended(dir, "pg_tblspc", LOG)) != NULL)
	{
		char		link[MAXPGPATH];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(link, sizeof(link), "pg_tblspc/%s/%s", entry->d_name, TABLESPACE_VERSION_DIRECTORY);
		found = below(real_path, link) != NULL;
	}
	FreeDir(dir);
	return found || is_in_mapped_tablespace(real_path);
}

/* Directories whose contents pg_basebackup leaves out. */
static const char *const left_out[] = {
	"pg_wal", "pg_stat_tmp", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_subtrans",
	"pg_tblspc",
};

static bool
is_left_out(const char *name)
{
	char	   *copy = pstrdup(name);
	bool		found = false;

	for (char *part = strtok(copy, "/"); part != NULL; part = strtok(NULL, "/"))
	{
		found |= strncmp(part, PG_TEMP_FILE_PREFIX, strlen(PG_TEMP_FILE_PREFIX)) == 0;
		for (int i = 0; i < lengthof(left_out); i++)
			found |= strcmp(part, left_out[i]) == 0;
	}
	pfree(copy);
	return found;
}

bool
zen_is_in_base_backup(const char *path)
{
	char		real_path[PATH_MAX];
	const char *name;

	if (realpath(path, real_path) == NULL)
		return false;
	name = below(real_path, DataDir);
	return (name != NULL && !is_left_out(name)) || is_in_tablespace(real_path);
}

bool
zen_is_linked(const char *path)
{
	char		real_path[PATH_MAX];

	return realpath(path, real_path) != NULL && below(real_path, DataDir) == NULL;
}

bool
zen_is_like_relation(const char *path)
{
	const char *name = last_dir_separator(path) + 1;
	const char *dot = strchr(name, '.');
	char		directory[MAXPGPATH];
	char		real_path[PATH_MAX + 2];

	strlcpy(directory, path, MAXPGPATH);
	get_parent_directory(directory);
	if ((dot != NULL && atoi(dot + 1) == 0) || realpath(directory, real_path) == NULL)
		return false;
	strcat(real_path, "/x");
	return below(real_path, "base") != NULL || below(real_path, "global") != NULL || is_in_tablespace(real_path);
}

/* Take "@12" off the end of a name; -1 if there is none, -2 if it is no node. */
static int32
split_node(char *name)
{
	char	   *at = strrchr(name, '@');
	unsigned long node;

	if (at == NULL || at[1] == '\0' || strspn(at + 1, "0123456789") != strlen(at + 1))
		return -1;
	node = strtoul(at + 1, NULL, 10);
	if (strlen(at + 1) > 4 || node > ZEN_MAX_NODE)
		return -2;
	*at = '\0';
	return (int32) node;
}

/* An absolute name from one that may be relative to the data directory; false if it is too long, or none. */
static bool
make_absolute(char *path, const char *name)
{
	int			len;

	if (is_absolute_path(name))
		len = snprintf(path, MAXPGPATH, "%s", name);
	else
		len = snprintf(path, MAXPGPATH, "%s/%s", DataDir, name);
	if (name[0] == '\0' || len >= MAXPGPATH)
		return false;
	canonicalize_path(path);
	return true;
}

int
zen_pool_names(ZenPoolName names[ZEN_MAX_FILES])
{
	char	   *copy;
	List	   *list = NIL;
	ListCell   *cell;
	int			n = 0;

	if (zen_pool_path == NULL || strlen(zen_pool_path) >= MAXPGPATH || strpbrk(zen_pool_path, "\r\n") != NULL)
		return 0;
	copy = pstrdup(zen_pool_path);
	if (!SplitDirectoriesString(copy, ',', &list) || list_length(list) > ZEN_MAX_FILES)
		return 0;
	foreach(cell, list)
	{
		char	   *name = lfirst(cell);

		names[n].node = split_node(name);
		if (names[n].node < -1 || !make_absolute(names[n].path, name))
			return 0;
		for (int i = 0; i < n; i++)
			if (strcmp(names[i].path, names[n].path) == 0)
				return 0;
		n++;
	}
	list_free_deep(list);
	pfree(copy);
	return n;
}
