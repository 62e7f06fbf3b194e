/*
 * fileopen.h -- one file of the pool: open and lock it, and judge its superblock.
 *
 * The postmaster only.  Whatever is wrong is a FATAL that names the file.
 */
#ifndef ZEN_FILEOPEN_H
#define ZEN_FILEOPEN_H

#include "nvm/superblock.h"

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

/* zen_files_name -- fill in the names; none is open. */
extern void zen_files_name(void);

/* zen_file_open -- open one for reading and writing; false if there is none. */
extern bool zen_file_open(int file);

/*
 * zen_file_lock -- lock it for this server.  Waits a while, because the children of a killed postmaster hold the lock
 * until they have noticed its death.
 */
extern void zen_file_lock(int file);

/* zen_file_read -- read both superblock copies, and put the one in force into zen_supers; the file's size, too. */
extern void zen_file_read(int file, ZenSuperblockPair *pair, uint64 *file_size);

/* zen_file_check_geometry -- does the superblock in force fit itself and the file? */
extern void zen_file_check_geometry(int file, uint64 file_size);

/* zen_file_cut -- cut off the part that a crash has left while the file was made larger; it is zero, as was checked. */
extern void zen_file_cut(int file);

/* zen_file_allocate -- fill holes that a copy has made, so that no store to the file will find its file system full. */
extern void zen_file_allocate(int file);

/* zen_file_longer -- zen_file_extend() for a file of the pool; reports name the file. */
extern bool zen_file_longer(int file, char *base, Size from, Size to, bool (*progress) (Size done), int elevel);

/* zen_file_link -- give a finished file its name, durably, unless the name is taken. */
extern void zen_file_link(int file, const char *temp);

#endif							/* ZEN_FILEOPEN_H */
