/*
 * treeshape.h -- keys of a tree: the words that stand for them, and their order.
 *
 * A key is turned into two words of 64 bits that sort as the key does.  There are three kinds of tree:
 *
 *	WORD		one word is the whole key
 *	TWO_WORDS	two words are the whole key
 *	TUPLES		the words are as much of the key as fits; beside them stands an index tuple with all columns
 *
 * Whole keys are made of columns of fixed width.  If keys may be null, a byte ahead of each column says so.  In a tree
 * of TUPLES the words are weak: a smaller key never has larger words.  When words are equal the operator class's
 * comparison function decides.
 */
#ifndef ZEN_TREESHAPE_H
#define ZEN_TREESHAPE_H

#include "base/compat.h"

#include "access/itup.h"
#include "fmgr.h"
#include "utils/rel.h"

typedef enum ZenTreeKind
{
	ZEN_TREE_WORD,
	ZEN_TREE_TWO_WORDS,
	ZEN_TREE_TUPLES
} ZenTreeKind;

/* How a column's values become bytes that sort as they do. */
typedef enum ZenColumnCode
{
	ZEN_CODE_NONE,				/* not at all */
	ZEN_CODE_BYTE,
	ZEN_CODE_INT2,
	ZEN_CODE_INT4,
	ZEN_CODE_INT8,
	ZEN_CODE_OID,
	ZEN_CODE_UUID,
	ZEN_CODE_FLOAT4,			/* weak from here on */
	ZEN_CODE_FLOAT8,
	ZEN_CODE_TEXT,				/* bytes of a varlena */
	ZEN_CODE_PADDED,			/* ... trailing spaces aside */
	ZEN_CODE_NAME
} ZenColumnCode;

typedef struct ZenTreeColumn
{
	FmgrInfo   *order;			/* the relcache's */
	Oid			collation;
	uint8		code;			/* ZenColumnCode */
	bool		desc;
	bool		nulls_first;
} ZenTreeColumn;

typedef struct ZenTreeShape
{
	TupleDesc	desc;			/* the index's */
	int			nkeys;
	int			natts;
	ZenTreeKind kind;
	bool		nulls;			/* whole keys have a byte for null */
	ZenTreeColumn columns[INDEX_MAX_KEYS];
} ZenTreeShape;

/* Bytes of a shape that are in use. */
static inline Size
zen_shape_size(int nkeys)
{
	return offsetof(ZenTreeShape, columns) + nkeys * sizeof(ZenTreeColumn);
}

/*
 * The word of an entry's TID: block and offset in 48 bits, the length of the tuple in 13, and a mark of index builds:
 * the row was dead, so it does not count for uniqueness.
 */
#define ZEN_TREE_TID		((UINT64CONST(1) << 48) - 1)
#define ZEN_TREE_LENGTH		48	/* shift */
#define ZEN_TREE_DEAD		(UINT64CONST(1) << 61)

/* An entry, out of its node. */
typedef struct ZenTreeSlot
{
	uint64		words[2];
	uint64		tid;			/* see above */
	IndexTuple	tuple;			/* of TUPLES only */
} ZenTreeSlot;

/* Where a position stands among entries whose key has the same columns. */
typedef enum ZenTreeTie
{
	ZEN_TIE_BEFORE,
	ZEN_TIE_AFTER,
	ZEN_TIE_TID					/* all columns are given, and the TID */
} ZenTreeTie;

/*
 * A position in a tree: leading columns of a key, and a tie.  Entries with words below low lie before it, those with
 * words above high lie after it.  Of the others the comparison of the first ncmp columns decides, and then the tie.  Of
 * these columns the first `decided` are equal if the words lie between low and high.
 */
typedef struct ZenTreePos
{
	uint64		low[2];
	uint64		high[2];
	uint64		tid;			/* for ZEN_TIE_TID */
	ZenTreeTie	tie;
	int			ncmp;			/* 0: the words have decided */
	int			decided;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	FmgrInfo   *order[INDEX_MAX_KEYS];	/* NULL: the column's own */
} ZenTreePos;

/* Do the words alone decide what lies before a position? */
static inline bool
zen_pos_by_words(const ZenTreePos *pos)
{
	return pos->ncmp == 0 && pos->tie != ZEN_TIE_TID;
}

/* Copy those fields of a position that a search needs.  It is large, and mostly little of it is in use. */
static inline void
zen_pos_copy(ZenTreePos *to, const ZenTreePos *from)
{
	memcpy(to, from, offsetof(ZenTreePos, values));
	for (int i = 0; i < from->ncmp; i++)
	{
		to->values[i] = from->values[i];
		to->isnull[i] = from->isnull[i];
		to->order[i] = from->order[i];
	}
}

/*
 * zen_shape_kind -- which kind of tree suits an index; *nulls is set for ZenTreeShape.
 *
 * zen_shape_make -- the shape of an index whose tree is of this kind.
 */
extern ZenTreeKind zen_shape_kind(Relation index, bool *nulls);
extern void zen_shape_make(ZenTreeShape *shape, Relation index, ZenTreeKind kind, bool nulls);

/*
 * zen_shape_pos -- make a position of the first n of pos->values and pos->isnull.  pos->order[i] is not NULL where the
 * value is of another type than the column.  With ZEN_TIE_TID all columns are given.
 *
 * zen_shape_pos_of -- the position of an entry, whose tuple must live as long.  NULL bytes and all.
 */
extern void zen_shape_pos(const ZenTreeShape *shape, ZenTreePos *pos, int n, ZenTreeTie tie, uint64 tid);
extern void zen_shape_pos_of(const ZenTreeShape *shape, ZenTreePos *pos, const ZenTreeSlot *slot);

/* zen_shape_any_null -- is a column of a key null? */
static inline bool
zen_shape_any_null(const ZenTreeShape *shape, const bool *isnull)
{
	for (int i = 0; i < shape->nkeys; i++)
		if (isnull[i])
			return true;
	return false;
}

/* zen_shape_words -- the words of a key, all of whose columns are given.  Whole keys without nulls have none. */
extern void zen_shape_words(const ZenTreeShape *shape, const Datum *values, const bool *isnull, uint64 *words);

/*
 * zen_shape_value -- one column of an entry.  A value by reference points into the entry's tuple, or is palloced.
 *
 * zen_shape_free_value -- the value is not needed any more.
 */
extern Datum zen_shape_value(const ZenTreeShape *shape, const ZenTreeSlot *slot, int column, bool *isnull);

static inline void
zen_shape_free_value(const ZenTreeShape *shape, int column, Datum value, bool isnull)
{
	if (shape->kind != ZEN_TREE_TUPLES && shape->columns[column].code == ZEN_CODE_UUID && !isnull)
		pfree(DatumGetPointer(value));
}

/*
 * zen_shape_compare -- does the entry lie before (< 0) or after (> 0) a position that its words do not decide?  0: it
 * is at it (ZEN_TIE_TID).  Runs the comparison function: no latch is held.
 */
extern int	zen_shape_compare(const ZenTreeShape *shape, const ZenTreeSlot *slot, const ZenTreePos *pos);

/* zen_slot_compare -- the same of any entry. */
static inline int
zen_slot_compare(const ZenTreeShape *shape, const ZenTreeSlot *slot, const ZenTreePos *pos)
{
	if (slot->words[0] != pos->low[0] ? slot->words[0] < pos->low[0] : slot->words[1] < pos->low[1])
		return -1;
	if (slot->words[0] != pos->high[0] ? slot->words[0] > pos->high[0] : slot->words[1] > pos->high[1])
		return 1;
	return zen_shape_compare(shape, slot, pos);
}

/* zen_shape_same_key -- do two entries have the same key?  *has_null: it has a null. */
extern bool zen_shape_same_key(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b, bool *has_null);

/*
 * zen_equality_is_exact -- do the values of two types stand in one order of a btree operator family?
 *
 * If so, two values of one type that equal the same value of the other equal each other.  So the key of a unique index
 * that equals a value of the other type is the only one.  True for one type.  Never throws, and looks at no catalog.
 */
extern bool zen_equality_is_exact(Oid family, Oid a, Oid b);

#endif							/* ZEN_TREESHAPE_H */
