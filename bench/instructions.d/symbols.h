/*
 * symbols.h -- the functions of a running process, and the groups that they belong to.
 */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdint.h>
#include <sys/types.h>

#define MAX_GROUPS	64
#define NO_GROUP	(-1)

/* Print what is wrong to stderr and exit with status 1. */
extern void die(const char *format,...) __attribute__((format(printf, 1, 2), noreturn));

/* Read the file of groups.  The last group is "the rest", which no function belongs to by name. */
extern void groups_read(const char *path);
extern int	groups_count(void);
extern const char *group_name(int group);

/* Do the instructions of this group count as a transaction's? */
extern int	group_counts(int group);

/* Read the symbols of all files with code that the process has mapped. */
extern void symbols_read(pid_t pid);

/* The address where a function of this name begins, of the first file that has one; 0 if none has. */
extern uint64_t symbol_address(const char *name);

/*
 * The index of the symbol that has this address in it, else -1, and the group that the symbol is of, or NO_GROUP.  Of
 * several names of one function the first counts that has a group.
 */
extern int	symbol_at(uint64_t address, int *group);

/* The number of symbols, and the name of one. */
extern int	symbols_count(void);
extern const char *symbol_name(int symbol);

#endif
