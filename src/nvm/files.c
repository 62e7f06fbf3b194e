/*
 * files.c -- the further files of a pool: opened, added, mapped, and kept at one moment with file 0.
 *
 * File 0 speaks for the pool: it has the tables, regions and marks, and says how many files there are.  Each further
 * file has pages and their directory, and in its superblock the pool's uuid, its number, its first page's number and
 * the generation.  src/nvm/README, "Several files", says what a crash leaves.
 *
 * Numbers.  A file's first page has a number for ever, since slots are named by it.  So how far a file can grow is
 * settled when the next one is added: zen.pool_max_size, or twice the file, as it is then.
 *
 * Adding.  Files are added at a start, in this order, each step durable before the next one:
 *
 *	1. the file, complete with superblock, under a name that holds the uuid, is linked into place;
 *	2. file 0 says in both copies that the pool has it (R16);
 *	3. the start goes on.
 *
 * A crash before 2 leaves a file that belongs to no pool yet.  The next start takes it, since nothing else can have its
 * uuid, number and generation.
 */
#include "nvm/files.h"

#include <unistd.h>

#include "base/guc.h"
#include "base/numa.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/persist.h"

#define HUGE_FILE		((Size) 2 * 1024 * 1024 * 1024)
#define HUGE_BORDER		((Size) 1024 * 1024 * 1024)

#define MB(bytes)		((unsigned long long) (bytes) / (1024 * 1024))

static uint32 first_page[ZEN_MAX_FILES + 1];	/* [n]: where the numbers end */

/* ---------- sizes ---------- */

/* zen.pool_size in bytes. */
static Size
wanted_size(void)
{
	Size		size = TYPEALIGN_DOWN(ZEN_PAGE_SIZE, (Size) zen_pool_size_mb * 1024 * 1024);

	return Min(size, ZEN_MAX_PAGES * ZEN_PAGE_SIZE);
}

Size
zen_files_new_size(void)
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
		return zen_files_new_size();
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

void
zen_files_check_number(int file)
{
	if (zen_supers[file].file != (uint32) file)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool file \"%s\" is not file %d of its pool", zen_files[file].path, file),
				 errdetail("It is file %u.", zen_supers[file].file),
				 errhint("Name the pool's files in zen.pool_path in the order in which they were made.")));
}

static void
refuse_missing(int file)
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
			 errmsg("zen pool file \"%s\" is not of the pool of \"%s\"", zen_files[file].path, zen_files[0].path),
			 errdetail("It has uuid " ZEN_UUID_FORMAT ", the pool has " ZEN_UUID_FORMAT ".",
					   ZEN_UUID_ARGS(sb->uuid), ZEN_UUID_ARGS(zen_super.uuid)),
			 file < zen_files_number() ? errhint(ZEN_SAME_MOMENT_HINT) : errhint(NEW_FILE_HINT)));
}

/* As undo_interrupted_start() in pool.c: a start that was cut short has not begun. */
static void
undo_interrupted_start(int file, const ZenSuperblockPair *pair)
{
	int			other = 1 - zen_supers_at[file];

	if (zen_supers[file].generation == zen_super.generation + 1 &&
		pair->valid[other] && pair->copy[other].generation == zen_super.generation)
	{
		zen_supers[file] = pair->copy[other];
		zen_supers_at[file] = other;
	}
}

/* Are a file and file 0 of the same moment?  Only one copy tells of the stop; if that is damaged, nothing is known. */
static void
check_moment(int file, const ZenSuperblockPair *pair)
{
	const ZenSuperblock *sb = &zen_supers[file];

	if (sb->generation != zen_super.generation)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool files \"%s\" and \"%s\" are not of the same moment", zen_files[0].path, zen_files[file].path),
				 errdetail("The first has seen %llu server starts, the other %llu: \"%s\" is an older copy.",
						   (unsigned long long) zen_super.generation, (unsigned long long) sb->generation,
						   zen_files[sb->generation < zen_super.generation ? file : 0].path),
				 sb->generation < zen_super.generation && file >= zen_files_number() ?
				 errhint(NEW_FILE_HINT) : errhint(ZEN_SAME_MOMENT_HINT)));
	if (sb->mark != zen_super.mark && sb->mark != zen_super.mark + 1 && !zen_begins_backup())
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool files \"%s\" and \"%s\" are not of the same moment", zen_files[0].path, zen_files[file].path),
				 errdetail("Since the last server start the mark of the first has come to %u, the other's to %u: "
						   "\"%s\" is an older copy.",
						   zen_super.mark, sb->mark, zen_files[sb->mark < zen_super.mark ? file : 0].path),
				 errhint(ZEN_SAME_MOMENT_HINT)));
	if (zen_super.clean && !sb->clean && pair->valid[0] && pair->valid[1])
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen pool files \"%s\" and \"%s\" are not of the same moment", zen_files[0].path, zen_files[file].path),
				 errdetail("The first was left by an orderly stop, the other is a copy of before that stop."),
				 errhint(ZEN_SAME_MOMENT_HINT)));
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

/* Lock and judge a file that is open. */
static void
judge(int file)
{
	ZenSuperblockPair pair;
	uint64		file_size;

	zen_file_lock(file);
	zen_file_read(file, &pair, &file_size);
	if (memcmp(zen_supers[file].uuid, zen_super.uuid, sizeof(zen_super.uuid)) != 0)
		refuse_foreign(file);
	zen_files_check_number(file);
	zen_file_check_geometry(file, file_size);
	undo_interrupted_start(file, &pair);
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

Size
zen_files_open(void)
{
	int			have = zen_files_number();

	if (zen_files_named < have)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen.pool_path does not name all files of the zen pool"),
				 errdetail("The pool of \"%s\" has %d files, zen.pool_path names %d.",
						   zen_files[0].path, have, zen_files_named),
				 errhint("Name all of them, in the order in which they were made, with commas between them.")));
	first_page[0] = 0;
	for (int i = 1; i < zen_files_named; i++)
	{
		if (zen_file_open(i))
		{
			judge(i);
			first_page[i] = (uint32) zen_supers[i].first_page;
		}
		else if (i < have)
			refuse_missing(i);
		else
			first_page[i] = place_behind(i - 1);
	}
	first_page[zen_files_named] = end_of(zen_files_named - 1);
	return first_page[zen_files_named] * ZEN_PAGE_SIZE;
}

void
zen_files_only(Size reserved)
{
	zen_files_named = 1;
	first_page[0] = 0;
	first_page[1] = (uint32) (reserved / ZEN_PAGE_SIZE);
}

/* ---------- mapping ---------- */

static char *
base_of(char *base, int file)
{
	return base + first_page[file] * ZEN_PAGE_SIZE;
}

void
zen_files_fit(void)
{
	for (int i = 0; i < zen_files_named; i++)
		if (zen_files[i].fd >= 0)
		{
			zen_file_fit(i);
		}
}

/* Each mapping reaches to the end of the reservation, and the next one is laid over it. */
static void
map_one(char *base, int file)
{
	Size		reserve = (Size) (first_page[zen_files_named] - first_page[file]) * ZEN_PAGE_SIZE;

	zen_nvm_map_at(zen_files[file].path, base_of(base, file), reserve, (ZenPoolMode) zen_pool_mode);
	zen_numa_bind(base_of(base, file), reserve, zen_files[file].node);
}

void
zen_files_map(char *base)
{
	for (int i = 1; i < zen_files_number(); i++)
		map_one(base, i);
}

void
zen_files_grow(char *base)
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
		if (from >= to || !zen_file_longer(i, base_of(base, i), from, to, NULL, WARNING))
			continue;
		zen_superblock_resize(&zen_supers[i], to);
		zen_superblock_write_both(i, base_of(base, i));
		ereport(LOG,
				(errmsg("zen pool file \"%s\" has grown from %llu to %llu MB, as zen.pool_size says",
						zen_files[i].path, MB(from), MB(to))));
	}
}

/* ---------- adding ---------- */

/* Make a file complete and under its name. */
static void
create_file(int file)
{
	char		temp[MAXPGPATH + 64];
	Size		size = zen_files_new_size();
	char	   *base;

	snprintf(temp, sizeof(temp), "%s." ZEN_UUID_FORMAT ".tmp", zen_files[file].path, ZEN_UUID_ARGS(zen_super.uuid));
	unlink(temp);
	zen_numa_prefer(zen_files[file].node);
	base = zen_nvm_create(temp, size, (ZenPoolMode) zen_pool_mode);
	zen_numa_prefer(-1);
	zen_supers[file] = zen_super;
	zen_supers[file].pool_size = size;
	zen_supers[file].npages = size / ZEN_PAGE_SIZE;
	zen_supers[file].first_data_page = zen_first_data_page(zen_supers[file].npages);
	zen_supers[file].first_page = first_page[file];
	zen_supers[file].nfiles = 0;
	zen_superblock_has_files(&zen_supers[file], file, zen_files[file].node);
	zen_supers_at[file] = 0;
	zen_superblock_write_both(file, base);
	zen_nvm_unmap(base, size);
	zen_file_link(file, temp);
	if (!zen_file_open(file))
		ereport(FATAL,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("zen pool file \"%s\" vanished while it was created", zen_files[file].path)));
	zen_file_lock(file);
}

/* R16: file 0 says that the pool has one file more, before any page of that file is used. */
static void
count_file(char *base, int file)
{
	zen_superblock_has_files(&zen_super, 0, zen_files[0].node);
	zen_super.nfiles = file + 1;
	zen_superblock_write_both(0, base);
}

void
zen_files_add(char *base)
{
	for (int i = zen_files_number(); i < zen_files_named; i++)
	{
		if (zen_files[i].fd < 0)
			create_file(i);
		count_file(base, i);
		map_one(base, i);
		ereport(LOG,
				(errmsg("zen pool has got file \"%s\" of %llu MB", zen_files[i].path, MB(zen_supers[i].pool_size))));
	}
}

/* ---------- the moment ---------- */

void
zen_files_like_first(void)
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

void
zen_files_same_moment(char *base)
{
	zen_files_like_first();
	for (int i = 1; i < zen_files_number(); i++)
		zen_superblock_write(i, base_of(base, i));
}

void
zen_files_reload(char *base)
{
	for (int i = 0; i < zen_files_number(); i++)
		zen_superblock_reload(i, base_of(base, i));
}

static void
mark_copies(char *base, uint32 mark)
{
	for (int i = zen_files_number() - 1; i >= 0; i--)
	{
		zen_supers[i].mark = mark;
		zen_superblock_write(i, base_of(base, i));
	}
}

/*
 * Both copies: if one is damaged later, the other one has no older mark.  A base backup that has read the first copy
 * torn has read the second one before that is written.
 */
void
zen_files_mark(char *base, uint32 mark)
{
	mark_copies(base, mark);
	if (IsUnderPostmaster)
		pg_usleep(1000L);
	mark_copies(base, mark);
}

/* ---------- in force ---------- */

uint32
zen_files_first_page(int file)
{
	return first_page[file];
}

void
zen_files_reopen(char *base)
{
	for (int i = 0; i < zen_files_number(); i++)
	{
		ZenSuperblockPair pair;
		uint64		file_size;
		int			other;

		zen_file_read(i, &pair, &file_size);
		zen_file_check_geometry(i, file_size);
		zen_file_fit(i);
		/* R16: a process that was making the file larger has written one copy */
		other = 1 - zen_supers_at[i];
		if (!pair.valid[other] || pair.copy[other].pool_size != zen_supers[i].pool_size)
			zen_superblock_write(i, base_of(base, i));
	}
}
