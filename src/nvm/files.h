/*
 * files.h -- the further files of a pool: opened, added, mapped, and kept at one moment with file 0.
 *
 * The postmaster only, in zen_pool_open() and at a stop; pool.c says when.  Whatever is wrong is a FATAL.
 */
#ifndef ZEN_FILES_H
#define ZEN_FILES_H

#include "nvm/poolfile.h"

/* zen_files_check_number -- is this the file of its pool that zen.pool_path takes it for? */
extern void zen_files_check_number(int file);

/* zen_files_new_size -- bytes of a new file, from zen.pool_size. */
extern Size zen_files_new_size(void);

/*
 * zen_files_open -- open, lock and judge files 1 and on, and say which numbers and addresses all files get.
 *
 * File 0 has been judged.  Nothing is changed.  Returns the bytes of address space that the pool needs.
 */
extern Size zen_files_open(void);

/* zen_files_only -- the same for a pool of one file that was made by the caller, with so much address space. */
extern void zen_files_only(Size reserved);

/*
 * zen_files_fit -- cut off what a crash has left behind the ends of the pool's files, and fill their holes.
 */
extern void zen_files_fit(void);

/* zen_files_map -- file 0 is mapped, with the address space for all: map the others. */
extern void zen_files_map(char *base);

/*
 * zen_files_grow -- if zen.pool_size was raised, make the files larger (R16).  A file whose file system is full stays
 * as it is.
 */
extern void zen_files_grow(char *base);

/* zen_files_add -- make and map the files that zen.pool_path names and the pool has not got yet (R16). */
extern void zen_files_add(char *base);

/* zen_files_like_first -- the same in memory only. */
extern void zen_files_like_first(void);

/*
 * While the server runs, under ZEN_LOCK_SUPER, or at its stop:
 *
 * zen_files_reload -- read the superblocks in force again.
 *
 * zen_files_mark -- write all superblocks, with this mark, into both copies, file 0 last; durable on return.
 */
extern void zen_files_reload(char *base);
extern void zen_files_mark(char *base, uint32 mark);

/* zen_files_same_moment -- give the further files file 0's generation, and the rest of its moment. */
extern void zen_files_same_moment(char *base);

/* zen_files_first_page -- number of a file's first page; with zen_files_number(): where the numbers end. */
extern uint32 zen_files_first_page(int file);

/* zen_files_reopen -- after the crash of a backend: judge all files again, and make both copies know their sizes. */
extern void zen_files_reopen(char *base);

#endif							/* ZEN_FILES_H */
