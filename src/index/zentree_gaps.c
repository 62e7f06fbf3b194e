/*
 * zentree_gaps.c -- predicate locks of a tree, for SERIALIZABLE.
 *
 * Values that are equal have the same words (treeshape.h).  So the number of a gap is a hash of the words that its
 * columns make alone.  Columns without a code add nothing to the words: gaps that differ in these only are one, as are
 * those with the same hash.  That is a lock on more than was read, which is right.
 *
 * Gaps do not depend on nodes.  So splits and merges move no lock.
 */
#include "index/zentree_gaps.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "storage/predicate.h"

/* The gap of the first n columns; the position's other fields are of no meaning afterwards. */
static BlockNumber
gap_of(const ZenTreeShape *shape, ZenTreePos *pos, int n)
{
	uint64		words[3];

	zen_shape_pos(shape, pos, n, ZEN_TIE_BEFORE, 0);
	words[0] = pos->low[0];
	words[1] = pos->low[1];
	words[2] = (uint64) n;
	return (BlockNumber) (hash_bytes_extended((const unsigned char *) words, sizeof(words), 0) % MaxBlockNumber);
}

/* The first columns of a position, up to one that was not given in the column's own type. */
static int
copy_columns(ZenTreePos *to, const ZenTreePos *from, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (from->order[i] != NULL)
			return i;
		to->values[i] = from->values[i];
		to->isnull[i] = from->isnull[i];
		to->order[i] = NULL;
	}
	return n;
}

void
zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenConditions *c, Snapshot snapshot)
{
	ZenTreePos	pos;
	int			n;

	if (!IsolationIsSerializable())
		return;
	n = c->nequal > 0 ? copy_columns(&pos, &c->from, c->nequal) : 0;
	if (n > 0)
		PredicateLockPage(index, gap_of(shape, &pos, n), snapshot);
	else
		PredicateLockRelation(index, snapshot);
}

void
zen_gap_check(Relation index, const ZenTreeShape *shape, const ZenTreePos *pos)
{
	ZenTreePos	columns;

	if (!IsolationIsSerializable())
		return;
	if (copy_columns(&columns, pos, shape->nkeys) < shape->nkeys)
		elog(ERROR, "an entry of index \"%s\" has a value of another type", RelationGetRelationName(index));
	for (int n = 1; n <= shape->nkeys; n++)
		CheckForSerializableConflictIn(index, NULL, gap_of(shape, &columns, n));
}
