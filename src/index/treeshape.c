/*
 * treeshape.c -- keys of a tree: the words that stand for them, and their order.
 *
 * A column of fixed width is written big end first, with the sign turned, and inverted if it is descending.  Then bytes
 * sort as values do.
 *
 * Weak words (in trees of TUPLES) have no byte for null.  A null fills all bytes that are left with ones, or with zeros
 * where nulls come first.  A value whose own bytes are all like that does the same: then no later column can tell it
 * from a null in the wrong order.  A column of varying width takes all bytes that are left.  A column whose type has no
 * code here ends the words.
 */
#include "index/treeshape.h"

#include "access/nbtree.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/uuid.h"

#define KEY_BYTES	16

/* ---------- shapes ---------- */

/* How a column with this comparison function is coded in words; ZEN_CODE_NONE: not at all. */
static ZenColumnCode
code_of(Oid order, Oid collation)
{
	switch (order)
	{
		case F_BTBOOLCMP:
		case F_BTCHARCMP:
			return ZEN_CODE_BYTE;
		case F_BTINT2CMP:
			return ZEN_CODE_INT2;
		case F_BTINT4CMP:
		case F_DATE_CMP:
			return ZEN_CODE_INT4;
		case F_BTINT8CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
		case F_TIME_CMP:
		case F_CASH_CMP:
			return ZEN_CODE_INT8;
		case F_BTOIDCMP:
			return ZEN_CODE_OID;
		case F_UUID_CMP:
			return ZEN_CODE_UUID;
		case F_BTFLOAT4CMP:
			return ZEN_CODE_FLOAT4;
		case F_BTFLOAT8CMP:
			return ZEN_CODE_FLOAT8;
		case F_BTTEXTCMP:
			return zen_collation_is_c(collation) ? ZEN_CODE_TEXT : ZEN_CODE_NONE;
		case F_BPCHARCMP:
			return zen_collation_is_c(collation) ? ZEN_CODE_PADDED : ZEN_CODE_NONE;
		case F_BTNAMECMP:
			return zen_collation_is_c(collation) ? ZEN_CODE_NAME : ZEN_CODE_NONE;
		case F_BYTEACMP:
		case F_BTTEXT_PATTERN_CMP:
			return ZEN_CODE_TEXT;
		case F_BTBPCHAR_PATTERN_CMP:
			return ZEN_CODE_PADDED;
		default:
			return ZEN_CODE_NONE;
	}
}

/* Bytes of a column's value; 0: they vary, or there are none. */
static inline int
width_of(ZenColumnCode code)
{
	static const uint8 width[] = {
		[ZEN_CODE_BYTE] = 1,[ZEN_CODE_INT2] = 2,[ZEN_CODE_INT4] = 4,[ZEN_CODE_INT8] = 8,[ZEN_CODE_OID] = 4,
		[ZEN_CODE_UUID] = UUID_LEN,[ZEN_CODE_FLOAT4] = 4,[ZEN_CODE_FLOAT8] = 8,[ZEN_CODE_NAME] = 0
	};

	return width[code];
}

static ZenColumnCode
column_code(Relation index, int column)
{
	return code_of(index_getprocid(index, (AttrNumber) (column + 1), BTORDER_PROC), index->rd_indcollation[column]);
}

ZenTreeKind
zen_shape_kind(Relation index, bool *nulls)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	int			bytes = 0;

	/* a primary key's columns cannot become nullable as long as it is there */
	*nulls = !index->rd_index->indisprimary;
	if (IndexRelationGetNumberOfAttributes(index) > nkeys)
		return ZEN_TREE_TUPLES;
	for (int i = 0; i < nkeys; i++)
	{
		ZenColumnCode code = column_code(index, i);

		if (code == ZEN_CODE_NONE || code >= ZEN_CODE_FLOAT4)
			return ZEN_TREE_TUPLES;
		bytes += width_of(code) + (*nulls ? 1 : 0);
	}
	return bytes <= 8 ? ZEN_TREE_WORD : bytes <= KEY_BYTES ? ZEN_TREE_TWO_WORDS : ZEN_TREE_TUPLES;
}

void
zen_shape_make(ZenTreeShape *shape, Relation index, ZenTreeKind kind, bool nulls)
{
	shape->desc = RelationGetDescr(index);
	shape->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	shape->natts = IndexRelationGetNumberOfAttributes(index);
	shape->kind = kind;
	shape->nulls = nulls;
	for (int i = 0; i < shape->nkeys; i++)
	{
		ZenTreeColumn *c = &shape->columns[i];

		c->order = index_getprocinfo(index, (AttrNumber) (i + 1), BTORDER_PROC);
		c->collation = index->rd_indcollation[i];
		c->code = code_of(c->order->fn_oid, c->collation);
		c->desc = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
		c->nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
	}
}

/* ---------- bytes of a value ---------- */

/* A value of up to eight bytes as a number that sorts as it does. */
static inline uint64
fixed_number(ZenColumnCode code, Datum value)
{
	switch (code)
	{
		case ZEN_CODE_BYTE:
			return (uint8) DatumGetChar(value);
		case ZEN_CODE_INT2:
			return (uint16) DatumGetInt16(value) ^ (1 << 15);
		case ZEN_CODE_INT4:
			return (uint32) DatumGetInt32(value) ^ (uint32) 1 << 31;
		case ZEN_CODE_INT8:
			return (uint64) DatumGetInt64(value) ^ UINT64CONST(1) << 63;
		case ZEN_CODE_OID:
			return DatumGetObjectId(value);
		default:
			elog(ERROR, "no number for key code %d", code);
	}
}

static inline void
put_big_endian(uint8 *bytes, uint64 value, int width)
{
	value = pg_hton64(value << (64 - 8 * width));
	memcpy(bytes, &value, width);
}

static inline uint64
get_big_endian(const uint8 *bytes, int width)
{
	uint64		value = 0;

	memcpy(&value, bytes, width);
	return pg_ntoh64(value) >> (64 - 8 * width);
}

static uint64
turn_float8(double d)
{
	uint64		u;

	if (isnan(d))
		return PG_UINT64_MAX;
	if (d == 0)
		d = 0;					/* -0 is 0 */
	memcpy(&u, &d, sizeof(u));
	return u >> 63 ? ~u : u | UINT64CONST(1) << 63;
}

static uint32
turn_float4(float f)
{
	uint32		u;

	if (isnan(f))
		return PG_UINT32_MAX;
	if (f == 0)
		f = 0;
	memcpy(&u, &f, sizeof(u));
	return u >> 31 ? ~u : u | (uint32) 1 << 31;
}

/* Bytes of a column of fixed width. */
static void
fixed_bytes(ZenColumnCode code, Datum value, uint8 *bytes)
{
	switch (code)
	{
		case ZEN_CODE_UUID:
			memcpy(bytes, DatumGetUUIDP(value)->data, UUID_LEN);
			break;
		case ZEN_CODE_FLOAT4:
			put_big_endian(bytes, turn_float4(DatumGetFloat4(value)), 4);
			break;
		case ZEN_CODE_FLOAT8:
			put_big_endian(bytes, turn_float8(DatumGetFloat8(value)), 8);
			break;
		default:
			put_big_endian(bytes, fixed_number(code, value), width_of(code));
	}
}

/* The first bytes of a value of varying width, followed by zeros. */
static void
varying_bytes(ZenColumnCode code, Datum value, uint8 *bytes, int room)
{
	const char *data;
	Size		n;
	struct varlena *v = NULL;

	if (code == ZEN_CODE_NAME)
	{
		data = DatumGetCString(value);
		n = strnlen(data, room);
	}
	else
	{
		v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(value));
		data = VARDATA_ANY(v);
		n = VARSIZE_ANY_EXHDR(v);
		while (code == ZEN_CODE_PADDED && n > 0 && data[n - 1] == ' ')
			n--;
	}
	memset(bytes, 0, room);
	memcpy(bytes, data, Min(n, (Size) room));
	if (v != NULL && (Pointer) v != DatumGetPointer(value))
		pfree(v);
}

static void
invert(uint8 *bytes, int n)
{
	for (int i = 0; i < n; i++)
		bytes[i] = ~bytes[i];
}

static bool
are_all(const uint8 *bytes, int n, uint8 byte)
{
	for (int i = 0; i < n; i++)
		if (bytes[i] != byte)
			return false;
	return true;
}

/* Add a column to a weak key; the number of bytes, or -1 if this column ends the words and has filled all. */
static int
add_weak(const ZenTreeColumn *c, Datum value, bool isnull, uint8 *bytes, Size room)
{
	uint8		null_byte = c->nulls_first ? 0 : 0xFF;
	Size		width = (Size) width_of(c->code);
	uint8		buffer[KEY_BYTES];

	if (isnull)
	{
		memset(bytes, null_byte, room);
		return -1;
	}
	if (width > 0)
		fixed_bytes(c->code, value, buffer);
	else
		varying_bytes(c->code, value, buffer, (int) (width = room));
	if (c->desc)
		invert(buffer, (int) width);
	memcpy(bytes, buffer, Min(width, room));
	if (width >= room)
		return -1;
	if (are_all(buffer, (int) width, null_byte))
	{
		memset(bytes, null_byte, room);
		return -1;
	}
	return (int) width;
}

/* ---------- positions ---------- */

/* Add a column to a key of up to eight bytes, which has so many yet. */
static inline uint64
add_to_word(const ZenTreeShape *shape, const ZenTreeColumn *c, Datum value, bool isnull, uint64 word, int *n)
{
	int			width = width_of(c->code);
	uint64		number = isnull ? 0 : fixed_number(c->code, value);

	Assert(shape->nulls || !isnull);
	if (c->desc && !isnull)
		number = ~number & PG_UINT64_MAX >> (64 - 8 * width);
	if (shape->nulls)
		word = word << 8 | (isnull == c->nulls_first ? 0 : 1);
	*n += width + (shape->nulls ? 1 : 0);
	return (width == 8 ? 0 : word << 8 * width) | number;
}

/* The same of up to 16 bytes. */
static inline uint128
add_to_words(const ZenTreeShape *shape, const ZenTreeColumn *c, Datum value, bool isnull, uint128 words, int *n)
{
	uint64		halves[2] = {0, 0};
	uint64		number;

	Assert(shape->nulls || !isnull);
	if (shape->nulls)
		words = words << 8 | (isnull == c->nulls_first ? 0 : 1);
	*n += shape->nulls ? 1 : 0;
	if (c->code != ZEN_CODE_UUID)
	{
		int			width = width_of(c->code);

		number = isnull ? 0 : fixed_number(c->code, value);
		if (c->desc && !isnull)
			number = ~number & PG_UINT64_MAX >> (64 - 8 * width);
		*n += width;
		return words << 8 * width | number;
	}
	if (!isnull)
	{
		memcpy(halves, DatumGetUUIDP(value)->data, UUID_LEN);
		halves[0] = pg_ntoh64(halves[0]) ^ (c->desc ? PG_UINT64_MAX : 0);
		halves[1] = pg_ntoh64(halves[1]) ^ (c->desc ? PG_UINT64_MAX : 0);
	}
	*n += UUID_LEN;
	/* it stands alone, as it has 16 bytes */
	return (uint128) halves[0] << 64 | halves[1];
}

/* The columns of a position that its words stand for: the whole keys of this tree may have no nulls. */
static inline int
columns_in_words(const ZenTreeShape *shape, const ZenTreePos *pos, int n)
{
	for (int i = 0; i < n; i++)
		if (pos->isnull[i] ? !shape->nulls : pos->order[i] != NULL)
			return i;
	return n;
}

/* The first columns of a key in one word, from the highest byte on; *n: how many bytes they take. */
static inline uint64
word_of(const ZenTreeShape *shape, int columns, const Datum *values, const bool *isnull, int *n)
{
	uint64		word = 0;

	*n = 0;
	for (int i = 0; i < columns; i++)
		word = add_to_word(shape, &shape->columns[i], values[i], isnull[i], word, n);
	return *n > 0 ? word << (64 - 8 * *n) : 0;
}

/* The same in two. */
static inline uint128
words_of(const ZenTreeShape *shape, int columns, const Datum *values, const bool *isnull, int *n)
{
	uint128		words = 0;

	*n = 0;
	for (int i = 0; i < columns; i++)
		words = add_to_words(shape, &shape->columns[i], values[i], isnull[i], words, n);
	return *n > 0 ? words << (128 - 8 * *n) : 0;
}

static void
pos_of_word(const ZenTreeShape *shape, ZenTreePos *pos, int columns)
{
	int			n;

	pos->low[0] = pos->high[0] = word_of(shape, columns, pos->values, pos->isnull, &n);
	pos->low[1] = pos->high[1] = 0;
	if (columns < shape->nkeys)
		pos->high[0] |= PG_UINT64_MAX >> 8 * n;
}

static void
pos_of_words(const ZenTreeShape *shape, ZenTreePos *pos, int columns)
{
	int			n;
	uint128		words = words_of(shape, columns, pos->values, pos->isnull, &n);

	pos->low[0] = (uint64) (words >> 64);
	pos->low[1] = (uint64) words;
	if (columns < shape->nkeys)
		words |= ~(uint128) 0 >> 8 * n;
	pos->high[0] = (uint64) (words >> 64);
	pos->high[1] = (uint64) words;
}

static void
bytes_to_words(const uint8 *bytes, uint64 *words)
{
	memcpy(words, bytes, KEY_BYTES);
	words[0] = pg_ntoh64(words[0]);
	words[1] = pg_ntoh64(words[1]);
}

/* The position of a key in a tree with weak words: bounds of its words, and how many columns these decide. */
static pg_noinline void
pos_of_weak(const ZenTreeShape *shape, ZenTreePos *pos, int n)
{
	uint8		bytes[KEY_BYTES];
	Size		used = 0;
	int			i;

	pos->decided = 0;
	for (i = 0; i < n && used < KEY_BYTES; i++)
	{
		const ZenTreeColumn *c = &shape->columns[i];
		int			added;

		if (!pos->isnull[i] && (c->code == ZEN_CODE_NONE || pos->order[i] != NULL))
			break;
		added = add_weak(c, pos->values[i], pos->isnull[i], bytes + used, KEY_BYTES - used);
		used = added < 0 ? KEY_BYTES : used + (Size) added;
		/* no other value, and no null, has these bytes */
		if (added > 0)
			pos->decided = i + 1;
	}
	memset(bytes + used, 0, KEY_BYTES - used);
	bytes_to_words(bytes, pos->low);
	if (i < n || n < shape->nkeys)
		memset(bytes + used, 0xFF, KEY_BYTES - used);
	bytes_to_words(bytes, pos->high);
	pos->ncmp = pos->decided == n ? 0 : n;
}

void
zen_shape_pos(const ZenTreeShape *shape, ZenTreePos *pos, int n, ZenTreeTie tie, uint64 tid)
{
	Assert(n <= shape->nkeys && (tie != ZEN_TIE_TID || n == shape->nkeys));
	pos->tie = tie;
	pos->tid = tid;
	if (shape->kind == ZEN_TREE_TUPLES)
	{
		pos_of_weak(shape, pos, n);
		return;
	}
	pos->decided = columns_in_words(shape, pos, n);
	pos->ncmp = pos->decided == n ? 0 : n;
	if (shape->kind == ZEN_TREE_WORD)
		pos_of_word(shape, pos, pos->decided);
	else
		pos_of_words(shape, pos, pos->decided);
}

static pg_noinline void
weak_words(const ZenTreeShape *shape, const Datum *values, const bool *isnull, uint64 *words)
{
	ZenTreePos	pos;

	memcpy(pos.values, values, shape->nkeys * sizeof(Datum));
	memcpy(pos.isnull, isnull, shape->nkeys * sizeof(bool));
	memset(pos.order, 0, shape->nkeys * sizeof(FmgrInfo *));
	pos_of_weak(shape, &pos, shape->nkeys);
	words[0] = pos.low[0];
	words[1] = pos.low[1];
}

void
zen_shape_words(const ZenTreeShape *shape, const Datum *values, const bool *isnull, uint64 *words)
{
	uint128		both;
	int			n;

	if (shape->kind == ZEN_TREE_TUPLES)
	{
		weak_words(shape, values, isnull, words);
		return;
	}
	if (shape->kind == ZEN_TREE_WORD)
	{
		words[0] = word_of(shape, shape->nkeys, values, isnull, &n);
		words[1] = 0;
		return;
	}
	both = words_of(shape, shape->nkeys, values, isnull, &n);
	words[0] = (uint64) (both >> 64);
	words[1] = (uint64) both;
}

void
zen_shape_pos_of(const ZenTreeShape *shape, ZenTreePos *pos, const ZenTreeSlot *slot)
{
	memcpy(pos->low, slot->words, sizeof(pos->low));
	memcpy(pos->high, slot->words, sizeof(pos->high));
	pos->tie = ZEN_TIE_TID;
	pos->tid = slot->tid & ZEN_TREE_TID;
	pos->ncmp = pos->decided = 0;
	if (shape->kind != ZEN_TREE_TUPLES)
		return;
	pos->ncmp = shape->nkeys;
	for (int i = 0; i < shape->nkeys; i++)
	{
		pos->values[i] = zen_shape_value(shape, slot, i, &pos->isnull[i]);
		pos->order[i] = NULL;
	}
}

/* ---------- entries ---------- */

/* The value of a column of fixed width, decoded from its bytes, which are changed. */
static Datum
whole_value(const ZenTreeColumn *c, uint8 *bytes)
{
	int			width = width_of(c->code);

	if (c->desc)
		invert(bytes, width);
	switch ((ZenColumnCode) c->code)
	{
		case ZEN_CODE_BYTE:
			return CharGetDatum((char) bytes[0]);
		case ZEN_CODE_INT2:
			return Int16GetDatum((int16) (get_big_endian(bytes, 2) ^ (1 << 15)));
		case ZEN_CODE_INT4:
			return Int32GetDatum((int32) ((uint32) get_big_endian(bytes, 4) ^ (uint32) 1 << 31));
		case ZEN_CODE_INT8:
			return Int64GetDatum((int64) (get_big_endian(bytes, 8) ^ UINT64CONST(1) << 63));
		case ZEN_CODE_OID:
			return ObjectIdGetDatum((Oid) get_big_endian(bytes, 4));
		case ZEN_CODE_UUID:
			{
				pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

				memcpy(uuid->data, bytes, UUID_LEN);
				return UUIDPGetDatum(uuid);
			}
		default:
			elog(ERROR, "no whole key of code %d", c->code);
	}
}

Datum
zen_shape_value(const ZenTreeShape *shape, const ZenTreeSlot *slot, int column, bool *isnull)
{
	uint64		words[2];
	uint8		bytes[KEY_BYTES];
	int			at = 0;

	if (shape->kind == ZEN_TREE_TUPLES)
		return index_getattr(slot->tuple, column + 1, shape->desc, isnull);
	words[0] = pg_hton64(slot->words[0]);
	words[1] = pg_hton64(slot->words[1]);
	memcpy(bytes, words, KEY_BYTES);
	for (int i = 0; i < column; i++)
		at += width_of(shape->columns[i].code) + (shape->nulls ? 1 : 0);
	*isnull = false;
	if (shape->nulls)
		*isnull = (bytes[at++] == 0) == shape->columns[column].nulls_first;
	return *isnull ? (Datum) 0 : whole_value(&shape->columns[column], bytes + at);
}

/* The order of two values of a column, of which the second may be of another type. */
static int
compare_values(const ZenTreeColumn *c, FmgrInfo *order, Datum a, bool a_null, Datum b, bool b_null)
{
	int32		result;

	if (a_null || b_null)
	{
		if (a_null && b_null)
			return 0;
		return a_null == c->nulls_first ? -1 : 1;
	}
	if (order == NULL && c->code > ZEN_CODE_NONE && c->code < ZEN_CODE_UUID)
	{
		uint64		x = fixed_number(c->code, a);
		uint64		y = fixed_number(c->code, b);

		result = (x > y) - (x < y);
	}
	else
		result = DatumGetInt32(FunctionCall2Coll(order ? order : c->order, c->collation, a, b));
	/* not -result: it may be the least integer */
	return c->desc ? (result < 0) - (result > 0) : result;
}

int
zen_shape_compare(const ZenTreeShape *shape, const ZenTreeSlot *slot, const ZenTreePos *pos)
{
	uint64		tid = slot->tid & ZEN_TREE_TID;

	for (int i = pos->decided; i < pos->ncmp; i++)
	{
		bool		isnull;
		Datum		value = zen_shape_value(shape, slot, i, &isnull);
		int			order = compare_values(&shape->columns[i], pos->order[i], value, isnull,
										   pos->values[i], pos->isnull[i]);

		if (order != 0)
			return order;
	}
	if (pos->tie != ZEN_TIE_TID)
		return pos->tie == ZEN_TIE_BEFORE ? 1 : -1;
	return tid < pos->tid ? -1 : tid > pos->tid ? 1 : 0;
}

bool
zen_shape_same_key(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b, bool *has_null)
{
	*has_null = false;
	if (a->words[0] != b->words[0] || a->words[1] != b->words[1])
		return false;
	for (int i = 0; i < shape->nkeys; i++)
	{
		bool		a_null,
					b_null;
		Datum		a_value = zen_shape_value(shape, a, i, &a_null);
		Datum		b_value = zen_shape_value(shape, b, i, &b_null);

		if (compare_values(&shape->columns[i], NULL, a_value, a_null, b_value, b_null) != 0)
			return false;
		*has_null |= a_null;
	}
	return true;
}

/* ---------- types with one order ---------- */

/* of pg_opfamily; its header has no names for these */
#define FLOAT_BTREE_FAM_OID		1970
#define DATETIME_BTREE_FAM_OID	434

/*
 * An operator family may compare values of different types.  PostgreSQL asks of such operators that they agree in one
 * order of all values, but its own do not: a timestamp becomes a timestamptz by the time zone.  Where clocks go forward
 * an hour, two timestamps equal one timestamptz, and later timestamps equal earlier ones.
 *
 * So this is a list of what is known: types of which each value of one is at most one of the other, in the same order.
 * In these families they have PostgreSQL's own operators, which cannot be replaced.  src/exec/README, "One equality",
 * has the argument.
 */
typedef struct ExactTypes
{
	Oid			family;
	Oid			types[3];
} ExactTypes;

static const ExactTypes exact[] = {
	{INTEGER_BTREE_FAM_OID, {INT2OID, INT4OID, INT8OID}},
	/* NaN equals NaN, and 0 equals -0, in both */
	{FLOAT_BTREE_FAM_OID, {FLOAT4OID, FLOAT8OID}},
	/* the same bytes, by the same collation */
	{TEXT_BTREE_FAM_OID, {TEXTOID, NAMEOID}},
	/* a date is its first moment, or is later than any timestamp */
	{DATETIME_BTREE_FAM_OID, {DATEOID, TIMESTAMPOID}},
};

static bool
has_type(const ExactTypes *e, Oid type)
{
	for (int i = 0; i < lengthof(e->types); i++)
		if (e->types[i] == type)
			return true;
	return false;
}

bool
zen_equality_is_exact(Oid family, Oid a, Oid b)
{
	Assert(OidIsValid(a) && OidIsValid(b));
	if (a == b)
		return true;
	for (int i = 0; i < lengthof(exact); i++)
		if (exact[i].family == family)
			return has_type(&exact[i], a) && has_type(&exact[i], b);
	return false;
}
