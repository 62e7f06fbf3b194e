/*
 * poolopen.c -- open the NVM pool, or say exactly why not; record a stop.
 *
 * Table data lies in the pool, catalogs and WAL in the data directory; each is worthless without the other of the same
 * moment.  moment.c has the checks.  Each start makes them before anything is changed.
 *
 * Creation.  zen.state is written first, as "creating"; the pool is made under a name that holds the uuid, complete
 * with superblock, and then linked into place, which fails if the name is taken.  A crash leaves "creating" with or
 * without a finished pool, never an unfinished pool under the final name, and no table can exist before zen.state
 * says "open".
 *
 * Start.  The new generation goes into the older superblock copy, then into zen.state, then into the other copy.
 * A crash in between leaves zen.state one behind with one copy that still agrees with it: that start is taken as not
 * begun.  Once all three agree, a zen.state that is one behind can only be an older data directory.
 *
 * src/nvm/README, "Growing" and "Several files", has the steps by which a file becomes larger or is added, and what a
 * crash leaves of them.
 */
#include "nvm/poolopen.h"

#include <unistd.h>

#include "base/guc.h"
#include "base/numa.h"
#include "miscadmin.h"
#include "nvm/moment.h"
#include "nvm/persist.h"
#include "nvm/pool.h"

#define SCRATCH_FILE		"zen.scratch"
#define SCRATCH_BYTES		((Size) 32 * 1024 * 1024)

#define HUGE_FILE		((Size) 2 * 1024 * 1024 * 1024)
#define HUGE_BORDER		((Size) 1024 * 1024 * 1024)

#define MB(bytes)		((unsigned long long) (bytes) / (1024 * 1024))

static uint32 first_page[ZEN_MAX_FILES + 1];	/* [n]: where the numbers end */

/* Fill in zen_files; none is open. */
static void
name_files(void)
{
	ZenPoolName names[ZEN_MAX_FILES];

	zen_files_named = zen_pool_names(names);
	if (zen_files_named == 0)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_path is not a file name"),
				 errhint("Set zen.pool_path to a file name, or to up to %d different ones with commas between them, "
						 "without line breaks, of less than %d bytes with the data directory.  A NUMA node may follow "
						 "each, as in \"/pmem1/zen.pool@1\".", ZEN_MAX_FILES, MAXPGPATH)));
	for (int i = 0; i < zen_files_named; i++)
	{
		if (zen_is_like_relation(names[i].path))
			ereport(FATAL,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("zen pool file \"%s\" looks like a file of a table", names[i].path),
					 errdetail("It is in a directory of tables, where pg_checksums --enable would write to it."),
					 errhint("Put it elsewhere, or give it a name like \"zen.pool\": a dot, not a number next.")));
		strlcpy(zen_files[i].path, names[i].path, MAXPGPATH);
		zen_files[i].node = names[i].node;
		zen_files[i].fd = -1;
	}
}

/* ---------- sizes ---------- */

/* zen.pool_size in bytes. */
static Size
wanted_size(void)
{
	Size		size = TYPEALIGN_DOWN(ZEN_PAGE_SIZE, (Size) zen_pool_size_mb * 1024 * 1024);

	return Min(size, ZEN_MAX_PAGES * ZEN_PAGE_SIZE);
}

/* Bytes of a new file, from zen.pool_size. */
static Size
new_size(void)
{
	Size		size = wanted_size();
	uint64		npages = size / ZEN_PAGE_SIZE;

	if (npages < zen_first_data_page(npages) + ZEN_MIN_DATA_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("zen.pool_size is too small"),
				 errdetail("A pool of %d MB has fewer than %d data pages of 64 KB.",
						   zen_pool_size_mb, ZEN_MIN_DATA_PAGES),
				 errhint("Increase zen.pool_size.")));
	return size;
}

/* Bytes that a file is to have at this start. */
static Size
size_at_start(int file)
{
	if (file >= zen_files_number() && zen_files[file].fd < 0)
		return new_size();
	return zen_pool_size_is_set ? Max(wanted_size(), zen_supers[file].pool_size) : zen_supers[file].pool_size;
}

/*
 * Address space for a file that has so many bytes.  If zen.pool_max_size is not set, that is twice the file.  Its
 * descriptors of pages cost a four hundredth of its size in DRAM.
 */
static Size
size_to_reserve(Size size)
{
	Size		reserve = zen_pool_max_size_mb > 0 ? (Size) zen_pool_max_size_mb * 1024 * 1024 : 2 * size;

	return Max(TYPEALIGN_DOWN(ZEN_PAGE_SIZE, Min(reserve, ZEN_MAX_PAGES * ZEN_PAGE_SIZE)), size);
}

/* ---------- judging ---------- */

/* Is this the file of its pool that zen.pool_path takes it for? */
static void
check_number(int file)
{
	if (zen_supers[file].file != (uint32) file)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" is not file %d of its pool", zen_files[file].path, file),
				 errdetail("It is file %u.", zen_supers[file].file),
				 errhint("Name the pool's files in zen.pool_path in the order in which they were made.")));
}

static void
refuse_missing_file(int file)
{
	ereport(FATAL,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("zen pool file \"%s\" does not exist", zen_files[file].path),
			 errdetail("It would be file %d of a pool of %d files.", file, zen_files_number()),
			 errhint("Restore the file from a copy of the same moment as the others, or set zen.pool_path to where "
					 "it is.")));
}

/* Where the pool has not got a file yet. */
#define NEW_FILE_HINT \
	"The pool has not got this file yet, and makes it if nothing has its name.  Name another one in zen.pool_path, " \
	"or move this one away if it is not needed."

/* A file that belongs to no pool yet, or to another one. */
static void
refuse_foreign(int file)
{
	const ZenSuperblock *sb = &zen_supers[file];

	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool file \"%s\" is not of the pool of \"%s\"", zen_files[file].path, zen_first_path),
			 errdetail("It has uuid " ZEN_UUID_FORMAT ", the pool has " ZEN_UUID_FORMAT ".",
					   ZEN_UUID_ARGS(sb->uuid), ZEN_UUID_ARGS(zen_super.uuid)),
			 file < zen_files_number() ? errhint(ZEN_SAME_MOMENT_HINT) : errhint(NEW_FILE_HINT)));
}

static void
refuse_moment(int file, const char *detail, const char *hint)
{
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zen pool files \"%s\" and \"%s\" are not of the same moment",
					zen_first_path, zen_files[file].path),
			 errdetail_internal("%s", detail),
			 errhint("%s", hint)));
}

/* Are a file and file 0 of the same moment?  Only one copy tells of the stop; if that is damaged, nothing is known. */
static void
check_moment(int file, const ZenSuperblockPair *pair)
{
	const ZenSuperblock *sb = &zen_supers[file];
	bool		is_older = sb->generation < zen_super.generation;

	if (sb->generation != zen_super.generation)
		refuse_moment(file,
					  psprintf("The first has seen %llu server starts, the other %llu: \"%s\" is an older copy.",
							   (unsigned long long) zen_super.generation, (unsigned long long) sb->generation,
							   zen_files[is_older ? file : 0].path),
					  is_older && file >= zen_files_number() ? NEW_FILE_HINT : ZEN_SAME_MOMENT_HINT);
	if (sb->mark != zen_super.mark && sb->mark != zen_super.mark + 1 && !zen_begins_backup())
		refuse_moment(file,
					  psprintf("Since the last server start the mark of the first has come to %u, the other's to %u: "
							   "\"%s\" is an older copy.",
							   zen_super.mark, sb->mark, zen_files[sb->mark < zen_super.mark ? file : 0].path),
					  ZEN_SAME_MOMENT_HINT);
	if (zen_super.clean && !sb->clean && pair->valid[0] && pair->valid[1])
		refuse_moment(file, "The first was left by an orderly stop, the other is a copy of before that stop.",
					  ZEN_SAME_MOMENT_HINT);
}

/* Its pages begin behind those of the file before. */
static void
check_place(int file)
{
	const ZenSuperblock *before = &zen_supers[file - 1];

	if (zen_supers[file].first_page < before->first_page + before->npages)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("superblock of zen pool file \"%s\" contradicts that of \"%s\"",
						zen_files[file].path, zen_files[file - 1].path),
				 errdetail("It says that its pages begin with number %llu, those of the other end before %llu.",
						   (unsigned long long) zen_supers[file].first_page,
						   (unsigned long long) before->first_page + before->npages),
				 errhint(ZEN_SAME_MOMENT_HINT)));
}

/* Judge a file that is open. */
static void
judge_file(int file)
{
	ZenSuperblockPair pair;

	zen_file_read(file, &pair);
	if (memcmp(zen_supers[file].uuid, zen_super.uuid, sizeof(zen_super.uuid)) != 0)
		refuse_foreign(file);
	check_number(file);
	zen_superblock_undo_start(file, &pair, zen_super.generation);
	check_moment(file, &pair);
	check_place(file);
}

/* Number of the first page of the file behind this one, if that is not there yet. */
static uint32
place_behind(int file)
{
	Size		reserve = size_to_reserve(size_at_start(file));
	Size		border = reserve >= HUGE_FILE ? HUGE_BORDER : ZEN_AREA_ALIGN;
	Size		end = TYPEALIGN(border, first_page[file] * ZEN_PAGE_SIZE + reserve);

	return (uint32) Min(end / ZEN_PAGE_SIZE, (Size) ZEN_MAX_PAGES);
}

/* For the file with the largest number: its address space goes on to the end of the reservation. */
static uint32
end_of(int file)
{
	Size		end = first_page[file] + size_to_reserve(size_at_start(file)) / ZEN_PAGE_SIZE;

	if (end > ZEN_MAX_PAGES && first_page[file] + size_at_start(file) / ZEN_PAGE_SIZE <= ZEN_MAX_PAGES)
		end = ZEN_MAX_PAGES;
	if (end > ZEN_MAX_PAGES)
		ereport(FATAL,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("zen pool file \"%s\" would be behind the last page number", zen_files[file].path),
				 errdetail("A zen pool with the space that its files have to grow has at most 16 TB."),
				 errhint("Lower zen.pool_max_size before files are added.")));
	return (uint32) end;
}

/*
 * Open, lock and judge files 1 and on, and say which numbers and addresses all files get.  File 0 has been judged.
 * Nothing is changed.  Returns the bytes of address space that the pool needs.
 */
static Size
open_files(void)
{
	int			have = zen_files_number();

	if (zen_files_named < have)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen.pool_path does not name all files of the zen pool"),
				 errdetail("The pool of \"%s\" has %d files, zen.pool_path names %d.",
						   zen_first_path, have, zen_files_named),
				 errhint("Name all of them, in the order in which they were made, with commas between them.")));
	first_page[0] = 0;
	for (int i = 1; i < zen_files_named; i++)
	{
		if (zen_file_open(i))
		{
			judge_file(i);
			first_page[i] = (uint32) zen_supers[i].first_page;
		}
		else if (i < have)
			refuse_missing_file(i);
		else
			first_page[i] = place_behind(i - 1);
	}
	first_page[zen_files_named] = end_of(zen_files_named - 1);
	return first_page[zen_files_named] * ZEN_PAGE_SIZE;
}

/* ---------- creation ---------- */

static void
refuse_missing_pool(const ZenStateFile *state)
{
	if (zen_state_is_upgrade(state))
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("zen pool file \"%s\" does not exist", zen_first_path),
				 errdetail("pg_upgrade has made this cluster of one whose zen pool was \"%s\".", state->pool_path),
				 errhint("Set zen.pool_path to where that pool is now.")));
	ereport(FATAL,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("zen pool file \"%s\" does not exist", zen_first_path),
			 errdetail("According to \"%s/%s\" this cluster has a zen pool, last used as \"%s\".",
					   DataDir, ZEN_STATE_FILE, state->pool_path),
			 errhint("Restore the pool file from a copy of the same moment as the data directory, or set "
					 "zen.pool_path to where it is.  Remove \"%s\" only if the contents of all zen tables are "
					 "to be given up.",
					 ZEN_STATE_FILE)));
}

static void
describe_pool(const ZenStateFile *state, const ZenClusterFacts *facts, Size size)
{
	memset(&zen_super, 0, sizeof(zen_super));
	zen_super.magic = ZEN_MAGIC;
	zen_super.version = ZEN_FORMAT_VERSION;
	zen_super.system_id = facts->system_id;
	memcpy(zen_super.uuid, state->uuid, sizeof(zen_super.uuid));
	zen_super.pool_size = size;
	zen_super.npages = size / ZEN_PAGE_SIZE;
	zen_super.first_data_page = zen_first_data_page(zen_super.npages);
	zen_super.generation = state->generation;
	zen_super.wal_position = facts->checkpoint;
	zen_super.clean = 1;
}

/* Make the file that zen_supers describes, complete, under its name and open on return.  It is not mapped. */
static void
make_file(int file)
{
	char		temp[MAXPGPATH + 64];
	const ZenSuperblock *sb = &zen_supers[file];
	char	   *at;

	/*
	 * the uuid makes the name ours: what lies there is left from an earlier
	 * try
	 */
	snprintf(temp, sizeof(temp), "%s." ZEN_UUID_FORMAT ".tmp", zen_files[file].path, ZEN_UUID_ARGS(sb->uuid));
	unlink(temp);
	zen_numa_prefer(zen_files[file].node);
	at = zen_nvm_create(temp, sb->pool_size, zen_pool_wanted_mode());
	zen_numa_prefer(-1);
	zen_supers_at[file] = 0;
	zen_superblock_write_both(file, at);
	zen_nvm_unmap(at, sb->pool_size);
	zen_file_link(file, temp);
}

static void
create_pool(ZenStateFile *state, const ZenClusterFacts *facts)
{
	Size		size = new_size();

	if (!state->found)
	{
		if (!pg_strong_random(state->uuid, sizeof(state->uuid)))
			ereport(FATAL,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random uuid for the zen pool")));
		state->found = true;
		state->phase = ZEN_PHASE_CREATING;
		state->generation = 0;
	}
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	(void) zen_state_write(state, FATAL);
	describe_pool(state, facts, size);
	make_file(0);
	ereport(LOG,
			(errmsg("created zen pool file \"%s\" of %llu MB", zen_first_path, MB(size))));
}

/* Open file 0, after making it on the very first start; true if it was made. */
static bool
open_or_create(ZenStateFile *state, const ZenClusterFacts *facts)
{
	if (zen_file_open(0))
		return false;
	if (state->found && state->phase != ZEN_PHASE_CREATING)
		refuse_missing_pool(state);
	create_pool(state, facts);
	return true;
}

/* ---------- mapping ---------- */

/* Each mapping reaches to the end of the reservation, and the next one is laid over it. */
static void
map_further_file(char *base, int file)
{
	char	   *at = base + first_page[file] * ZEN_PAGE_SIZE;
	Size		reserve = (Size) (first_page[zen_files_named] - first_page[file]) * ZEN_PAGE_SIZE;
	Size		size;

	(void) zen_nvm_map(zen_files[file].path, at, &size, reserve, zen_pool_wanted_mode());
	Assert(size == zen_supers[file].pool_size);
	zen_numa_bind(at, reserve, zen_files[file].node);
}

/* Map all files in one reservation. */
static char *
map_files(Size reserve)
{
	Size		mapped;
	char	   *base = zen_nvm_map(zen_first_path, NULL, &mapped, reserve, zen_pool_wanted_mode());

	Assert(mapped == zen_super.pool_size);
	zen_numa_bind(base, reserve, zen_files[0].node);
	for (int i = 1; i < zen_files_number(); i++)
		map_further_file(base, i);
	return base;
}

/*
 * If zen.pool_size was raised, make the files larger (R16).  A file whose file system is full stays as it is.
 */
static void
grow_files(char *base)
{
	for (int i = 0; i < zen_files_number(); i++)
	{
		Size		from = zen_supers[i].pool_size;
		Size		limit = (Size) (first_page[i + 1] - first_page[i]) * ZEN_PAGE_SIZE;
		Size		to = Min(size_at_start(i), limit);

		if (size_at_start(i) > limit)
			ereport(LOG,
					(errmsg("zen pool file \"%s\" cannot become larger than %llu MB, as zen.pool_size says",
							zen_files[i].path, MB(limit)),
					 errdetail("Another one was added behind it.")));
		if (from >= to || !zen_file_longer(i, zen_file_place(base, i), from, to, NULL, WARNING))
			continue;
		zen_superblock_resize(&zen_supers[i], to);
		zen_superblock_write_both(i, zen_file_place(base, i));
		ereport(LOG,
				(errmsg("zen pool file \"%s\" has grown from %llu to %llu MB, as zen.pool_size says",
						zen_files[i].path, MB(from), MB(to))));
	}
}

/* Make a further file. */
static void
create_file(int file)
{
	ZenSuperblock *sb = &zen_supers[file];

	*sb = zen_super;
	sb->pool_size = new_size();
	sb->npages = sb->pool_size / ZEN_PAGE_SIZE;
	sb->first_data_page = zen_first_data_page(sb->npages);
	sb->first_page = first_page[file];
	sb->file = file;
	sb->nfiles = 0;
	sb->node = zen_files[file].node;
	zen_superblock_raise(file, ZEN_FORMAT_VERSION_FILES);
	make_file(file);
}

/* R16: file 0 says that the pool has one file more, before any page of that file is used. */
static void
count_file(char *base, int file)
{
	zen_superblock_raise(0, ZEN_FORMAT_VERSION_FILES);
	zen_super.node = zen_files[0].node;
	zen_super.nfiles = file + 1;
	zen_superblock_write_both(0, base);
}

/* Make and map the files that zen.pool_path names and the pool has not got yet (R16). */
static void
add_files(char *base)
{
	for (int i = zen_files_number(); i < zen_files_named; i++)
	{
		if (zen_files[i].fd < 0)
			create_file(i);
		count_file(base, i);
		map_further_file(base, i);
		ereport(LOG,
				(errmsg("zen pool has got file \"%s\" of %llu MB", zen_files[i].path, MB(zen_supers[i].pool_size))));
	}
}

/* ---------- a generation ---------- */

/* Give the further files file 0's generation, and the rest of its moment, in memory. */
static void
like_first(void)
{
	for (int i = 1; i < zen_files_number(); i++)
	{
		zen_supers[i].system_id = zen_super.system_id;
		zen_supers[i].generation = zen_super.generation;
		zen_supers[i].mark = zen_super.mark;
		zen_supers[i].wal_position = zen_super.wal_position;
		zen_supers[i].clean = zen_super.clean;
		zen_supers[i].node = zen_files[i].node;
	}
}

static void
write_like_first(char *base)
{
	like_first();
	for (int i = 1; i < zen_files_number(); i++)
		zen_superblock_write(i, zen_file_place(base, i));
}

/* Make the new generation durable in pool and data directory; the order is explained at the top. */
static void
begin_generation(char *base, ZenStateFile *state, const ZenClusterFacts *facts)
{
	zen_super.system_id = facts->system_id;
	zen_super.generation = state->generation + 1;
	zen_super.mark = 0;
	zen_super.wal_position = facts->checkpoint;
	zen_super.clean = 0;
	/* R22: before the first delta */
	for (int i = 0; zen_deltas && i < zen_files_number(); i++)
		zen_superblock_raise(i, ZEN_FORMAT_VERSION_DELTAS);
	if (zen_super.version >= ZEN_FORMAT_VERSION_FILES)
		zen_super.node = zen_files[0].node;
	write_like_first(base);
	zen_superblock_write(0, base);

	state->phase = ZEN_PHASE_OPEN;
	state->generation = zen_super.generation;
	state->mark = 0;
	strlcpy(state->pool_path, zen_pool_path, MAXPGPATH);
	(void) zen_state_write(state, FATAL);

	zen_superblock_write(0, base);
	write_like_first(base);
}

/* Fill in zen_pool.files. */
static void
publish_files(char *base)
{
	uint32		end = 0;

	zen_pool.nfiles = zen_files_number();
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		const ZenSuperblock *sb = &zen_supers[i];
		ZenPoolFile *file = &zen_pool.files[i];

		file->first = first_page[i];
		file->limit = first_page[i + 1];
		Assert(sb->first_page == file->first && sb->first_page + sb->npages <= file->limit);
		Assert(sb->first_data_page * ZEN_PAGE_SIZE % ZEN_AREA_ALIGN == 0 && sb->first_data_page < sb->npages);
		file->first_data = file->first + (uint32) sb->first_data_page;
		file->near_end = file->first +
			(uint32) ((sb->first_data_page * ZEN_PAGE_SIZE - ZEN_OFF_PAGES) / sizeof(uint64));
		file->words = (uint64 *) (base + file->first * ZEN_PAGE_SIZE + ZEN_OFF_PAGES);
		file->node = zen_files[i].node;
		file->place = zen_numa_place(file->node);
		pg_atomic_write_u32(file->npages, (uint32) sb->npages);
		end = file->first + (uint32) sb->npages;
	}
	zen_pool.max_pages = first_page[zen_pool.nfiles];
	pg_atomic_write_u32(zen_pool.npages, end);
}

static void
pool_publish(char *base, bool was_clean)
{
	Assert((uintptr_t) base % ZEN_OFF_SUPER2 == 0);
	publish_files(base);
	zen_pool.first_data_page = zen_pool.files[0].first_data;
	zen_pool.was_clean = was_clean;
	zen_pool.regions = (ZenRegionEntry *) (base + ZEN_OFF_REGIONS);
	zen_pool.htables = (ZenHTableEntry *) (base + ZEN_OFF_HTABLES);
	zen_pool.cts_mark = (ZenMarkRecord *) (base + ZEN_OFF_CTS_MARK);
	zen_pool.base = base;
}

/* Log which guarantees the medium gives, and which were asked for and are not given. */
static void
log_what_is_open(void)
{
	if (zen_nvm_mode() == ZEN_POOL_EMULATED)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" is emulated: it survives server crashes, not power loss",
						zen_first_path)));
	else if (zen_nvm_mode() == ZEN_POOL_WAL && zen_pool_mode == ZEN_POOL_AUTO)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" is not on persistent memory: the write-ahead log makes it durable",
						zen_first_path)));
	if (zen_nvm_domain() != NULL && strcmp(zen_nvm_domain(), "cpu_cache") == 0)
		ereport(LOG,
				(errmsg("zen takes the processor's caches to survive a power loss: commits do not flush them")));

	if (zen_pool_size_is_set && zen_super.pool_size / (1024 * 1024) > (uint64) zen_pool_size_mb)
		ereport(LOG,
				(errmsg("zen.pool_size is less than what zen pool file \"%s\" has: it keeps its %llu MB",
						zen_first_path, (unsigned long long) zen_super.pool_size / (1024 * 1024))));
}

/* Where there are several nodes: tell which of them have no file of the pool, and which files have no node. */
static void
log_nodes(void)
{
	bool		has[ZEN_MAX_NODES] = {false};

	if (zen_numa_nodes == 1)
		return;
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		int			place = zen_pool.files[i].place;

		if (place >= 0)
			has[place] = true;
		else
			ereport(LOG,
					(errmsg("the NUMA node of zen pool file \"%s\" is not known", zen_files[i].path),
					 errhint("Write @ and the number of a node behind its name in zen.pool_path.")));
	}
	for (int i = 0; i < zen_numa_nodes; i++)
	{
		if (!has[i])
			ereport(LOG,
					(errmsg("the zen pool has no file on NUMA node %d: sessions there write to other nodes",
							zen_numa_number(i))));
	}
}

/* For a server that pg_upgrade runs: does zen.pool_path name a pool that this cluster has opened before? */
static bool
names_own_pool(const ZenStateFile *state, const ZenClusterFacts *facts)
{
	ZenSuperblockPair pair;
	int			at;

	if (!state->found || zen_state_is_upgrade(state) || !zen_file_open(0))
		return false;
	zen_superblock_read(zen_files[0].fd, &pair);
	at = zen_superblock_in_force(&pair);
	close(zen_files[0].fd);
	zen_files[0].fd = -1;
	return at >= 0 && pair.copy[at].system_id == facts->system_id;
}

/*
 * For the servers that pg_upgrade runs on a new cluster: a pool without rows, in a file that has no name.  It is gone
 * with the server.
 */
static void
open_scratch_pool(ZenStateFile *state, const ZenClusterFacts *facts)
{
	char	   *base;

	zen_adopt_server_starts(state, facts);
	snprintf(zen_first_path, MAXPGPATH, "%s/%s", DataDir, SCRATCH_FILE);
	unlink(zen_first_path);		/* left by one that was killed */
	base = zen_nvm_create(zen_first_path, SCRATCH_BYTES, ZEN_POOL_EMULATED);
	memset(state, 0, sizeof(ZenStateFile));
	describe_pool(state, facts, SCRATCH_BYTES);
	zen_super_at = 0;
	zen_superblock_write_both(0, base);
	if (!zen_file_open(0))
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("file \"%s\" vanished while it was created", zen_first_path)));
	unlink(zen_first_path);
	zen_files_named = 1;
	first_page[0] = 0;
	first_page[1] = (uint32) (SCRATCH_BYTES / ZEN_PAGE_SIZE);
	pool_publish(base, true);
	zen_pool.scratch = true;
	ereport(LOG,
			(errmsg("zen has an empty pool while the server runs in binary-upgrade mode")));
}

/*
 * After the crash of a backend: mapping and lock are still held.  A process that went wild may have written over a copy
 * of the superblock, and the crash may have been a SIGBUS, because another program has cut the file short: all of it is
 * checked again, and in the file, since another SIGBUS would end in a crash here.
 */
static void
reopen_pool(void)
{
	for (int i = 0; i < zen_files_number(); i++)
	{
		ZenSuperblockPair pair;
		int			other;

		zen_file_read(i, &pair);
		zen_file_fit(i);

		/*
		 * R16, R20: who made the file larger, or raised the mark, has written
		 * one copy
		 */
		other = 1 - zen_supers_at[i];
		if (pair.valid[other] && zen_superblock_same(&pair.copy[other], &zen_supers[i]))
			continue;
		zen_superblock_write(i, zen_file_base(i));
		ereport(LOG,
				(errmsg("a copy of the superblock of zen pool file \"%s\" was written again", zen_files[i].path),
				 errdetail("The crash came before both copies had been written.")));
	}
	pool_publish(zen_pool.base, false);
	zen_pool.backup = zen_pool_reopen_role(zen_pool.base);
}

void
zen_pool_open(void)
{
	ZenSuperblockPair pair;
	ZenClusterFacts facts;
	ZenStateFile state;
	Size		reserve;
	bool		as_left,
				upgraded,
				created,
				replica;
	char	   *base;

	Assert(!IsUnderPostmaster);

	/* after the crash of a process the words are in memory that is gone */
	zen_nvm_watch(NULL, NULL);
	zen_nvm_lazy_when(NULL);
	if (zen_pool.base != NULL)
	{
		reopen_pool();
		return;
	}

	facts = zen_cluster_facts();
	(void) zen_state_read(&state, FATAL);
	upgraded = zen_state_is_upgrade(&state);
	name_files();
	if (IsBinaryUpgrade && !names_own_pool(&state, &facts))
	{
		open_scratch_pool(&state, &facts);
		return;
	}
	created = open_or_create(&state, &facts);

	zen_file_read(0, &pair);
	as_left = zen_moment_check(&pair, &state, &facts);
	check_number(0);

	reserve = open_files();
	for (int i = 0; i < zen_files_named; i++)
	{
		if (zen_files[i].fd >= 0)
			zen_file_fit(i);
	}
	base = map_files(reserve);
	replica = zen_pool_settle_role(base, &as_left, created);
	grow_files(base);
	add_files(base);
	zen_pool_spread_role(base);
	begin_generation(base, &state, &facts);
	pool_publish(base, as_left);
	zen_pool.backup |= replica && (zen_begins_backup() || zen_nvm_mode() == ZEN_POOL_WAL);
	if (upgraded)
		ereport(LOG,
				(errmsg("zen pool file \"%s\" was taken over from the cluster that pg_upgrade has upgraded",
						zen_first_path)));
	log_what_is_open();
	log_nodes();
}

void
zen_pool_stopped(bool clean)
{
	ZenClusterFacts facts = zen_cluster_facts();

	Assert(!IsUnderPostmaster && zen_pool.base != NULL);
	zen_files_reload(zen_pool.base);
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		/*
		 * should both copies be damaged, what this process knows is of before
		 * the file grew
		 */
		zen_superblock_resize(&zen_supers[i], zen_file_size(i));
	}
	if (clean)
	{
		zen_super.wal_position = Max(zen_super.wal_position, facts.checkpoint);
		zen_super.clean = 1;
		like_first();
	}
	zen_moment_stop(zen_pool.base);
}
