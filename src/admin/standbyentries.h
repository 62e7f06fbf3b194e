/*
 * standbyentries.h -- the entries that a tree of a hot standby has for a row.
 *
 * A tree that stands in for an index has an entry for each key that a committed version of a row has, or had.
 */
#ifndef ZEN_STANDBYENTRIES_H
#define ZEN_STANDBYENTRIES_H

#include "base/compat.h"

#include "index/zentree.h"
#include "row/rowversions.h"
#include "standby/followers.h"
#include "table/zenam_build.h"

/* Functions of users run with the rights of the table's owner, as in a build. */
typedef struct ZenEntriesOwner
{
	bool		is;
	Oid			user;
	int			security;
	int			nest_level;
} ZenEntriesOwner;

typedef struct ZenEntries
{
	Relation	table;
	Relation	index;
	ZenHTable  *ht;
	ZenFollower *follower;
	ZenTree    *tree;
	ZenTreeShape shape;
	ZenIndexEntry form;
	Bitmapset  *columns;		/* of the table, that the index looks at;
								 * offset as in pull_varattnos() */
	ZenRowVersions versions;
	MemoryContext per_row;
	uint64	   *later;			/* TIDs to be entered later */
	uint64		nlater;
	uint64		later_room;
} ZenEntries;

/* zen_entries_become_owner, zen_entries_become_self -- around all that calls functions of the index. */
extern void zen_entries_become_owner(ZenEntriesOwner *owner, Relation table, Relation index);
extern void zen_entries_become_self(ZenEntriesOwner *owner);

/* zen_entries_begin -- memory is of the current context.  The follower's tree may be NULL: then nothing is entered. */
extern void zen_entries_begin(ZenEntries *e, Relation table, Relation index, ZenHTable *ht, ZenFollower *follower);
extern void zen_entries_end(ZenEntries *e);

/*
 * zen_entries_form -- form the entry of a version, in e->form; false: the index has none of it.  zen_entries_done
 * behind it, in either case.
 */
extern bool zen_entries_form(ZenEntries *e, ZenRow *row);
extern void zen_entries_done(ZenEntries *e);

/*
 * zen_entries_enter -- enter all that committed versions under a TID have; readers may be in the tree.
 *
 * zen_entries_note_later, zen_entries_enter_later -- the same, when all that have been noted are entered.
 */
extern void zen_entries_enter(ZenEntries *e, uint64 tidno);
extern void zen_entries_note_later(ZenEntries *e, uint64 tidno);
extern void zen_entries_enter_later(ZenEntries *e);

#endif							/* ZEN_STANDBYENTRIES_H */
