/*
 * poolfile.h -- one file of the pool: open and lock it, read, judge and write its superblock, make it longer.
 *
 * Opening is the postmaster's.  Whatever is wrong then is a FATAL that names the file.
 */
#ifndef ZEN_POOLFILE_H
#define ZEN_POOLFILE_H

#include "nvm/layout.h"

/* Hint for every mismatch between pool and data directory. */
#define ZEN_SAME_MOMENT_HINT \
	"Restore the pool file and the data directory from copies made at the same moment, or set zen.pool_path to " \
	"the pool that belongs to this data directory."

typedef struct ZenFile
{
	char		path[MAXPGPATH];	/* absolute */
	int32		node;			/* that zen.pool_path says, or else that of
								 * its device; -1: none */
	int			fd;				/* keeps the flock; never closed.  -1: not
								 * open */
} ZenFile;

/* The files that zen.pool_path names, in that order: the place is the file's number. */
extern ZenFile zen_files[ZEN_MAX_FILES];
extern int	zen_files_named;

/* Both copies of a superblock as read. */
typedef struct ZenSuperblockPair
{
	ZenSuperblock copy[2];
	bool		valid[2];
} ZenSuperblockPair;

/* The superblock in force, and which copy holds it, as this process has read or written it last. */
extern ZenSuperblock zen_supers[ZEN_MAX_FILES]; /* by file */
extern int	zen_supers_at[ZEN_MAX_FILES];

/* Those of file 0, which speaks for the pool. */
#define zen_super		(zen_supers[0])
#define zen_super_at	(zen_supers_at[0])
#define zen_first_path	(zen_files[0].path)

/* zen_files_number -- how many files the pool has, as file 0 says. */
extern int	zen_files_number(void);

/* zen_file_place -- where a file is mapped, in a pool that is mapped at base. */
extern char *zen_file_place(char *base, int file);

/* zen_first_data_page -- of a pool of so many pages. */
extern uint32 zen_first_data_page(uint64 npages);

/* zen_superblock_resize -- make the superblock that of a larger pool.  In memory only. */
extern void zen_superblock_resize(ZenSuperblock *sb, Size size);

/*
 * zen_superblock_read -- read and validate both copies of a pool file; never fails.
 * zen_superblock_in_force -- 0 or 1, or -1 if neither copy is whole.
 * zen_superblock_same -- do two copies say the same?  Their versions, and with these the checksums, may differ.
 */
extern void zen_superblock_read(int fd, ZenSuperblockPair *pair);
extern int	zen_superblock_in_force(const ZenSuperblockPair *pair);
extern bool zen_superblock_same(const ZenSuperblock *a, const ZenSuperblock *b);

/*
 * zen_superblock_undo_start -- take a start that was cut short as not begun, in memory: the newest copy is one ahead of
 * this generation, and the other copy still agrees with it.
 *
 * Nothing was done under the new generation.  zen.state has it, durably, before a start goes on.
 */
extern void zen_superblock_undo_start(int file, const ZenSuperblockPair *pair, uint64 generation);

/*
 * A superblock in the mapped pool; `at` is where its file is mapped.
 *
 * zen_superblock_reload -- read the copy in force again.  No process writes during the call.
 * zen_files_reload -- of all files, in a pool that is mapped at base.
 *
 * zen_superblock_write -- write zen_supers[file] as the next version into the copy that is not in force; durable and in
 * force on return.  zen_superblock_write_both -- into one copy after the other.  The postmaster at start and stop, or
 * under ZEN_LOCK_SUPER, exclusively, after zen_superblock_reload().
 *
 * zen_superblock_fault -- what is wrong with copy 0 or 1; NULL if nothing is.  *offset: its place in the pool.  Takes
 * ZEN_LOCK_SUPER.
 */
extern void zen_superblock_reload(int file, const char *at);
extern void zen_files_reload(char *base);
extern void zen_superblock_write(int file, char *at);
extern void zen_superblock_write_both(int file, char *at);

/*
 * zen_superblock_raise -- in memory: a file's superblock is of this version, or a later one that it has; of
 * ZEN_FORMAT_VERSION_FILES at least.
 */
extern void zen_superblock_raise(int file, uint32 version);

extern const char *zen_superblock_fault(int file, const char *at, int copy, Size *offset);

/* zen_file_open -- open one for reading and writing; false if there is none. */
extern bool zen_file_open(int file);

/*
 * zen_file_read -- lock the file for this server, read both superblock copies, put the one in force into zen_supers.
 * It must fit itself and the file.
 *
 * Through the file: what is wrong with it shows as an error here and not as a SIGBUS in the mapping.
 */
extern void zen_file_read(int file, ZenSuperblockPair *pair);

/* zen_file_fit -- cut off what a crash has left behind the end of a file that was judged, and fill its holes. */
extern void zen_file_fit(int file);

/*
 * zen_file_longer -- make a file that is mapped at `at` longer: zeroes, allocated and durable on return.
 *
 * The file is `from` bytes long for its pool; what lies behind that is cut off first.  progress is called with the size
 * so far between two steps; it may throw, and if it returns false the extension is given up.  If it fails, false, after
 * a report of that level; the file is as long as before, unless it cannot be cut.  No process uses bytes behind `from`.
 */
extern bool zen_file_longer(int file, char *at, Size from, Size to, bool (*progress) (Size done), int elevel);

/* zen_file_link -- give a finished file its name, durably, unless the name is taken; open it, and lock it. */
extern void zen_file_link(int file, const char *temp);

#endif							/* ZEN_POOLFILE_H */
