/*
 * equality.c -- do two values of one type that equal the same value of another type equal each other?
 *
 * An operator family may compare values of different types.  PostgreSQL asks of such operators that they agree in one
 * order of all values, but its own do not: a timestamp becomes a timestamptz by the time zone.  Where clocks go forward
 * an hour, two timestamps equal one timestamptz, and later timestamps equal earlier ones.
 *
 * So this is a list of what is known: types of which each value of one is at most one of the other, in the same order.
 * In these families they have PostgreSQL's own operators, which cannot be replaced.  src/exec/README, "One equality",
 * has the argument.
 */
#include "index/equality.h"

#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type_d.h"

/* of pg_opfamily; its header has no names for these */
#define FLOAT_BTREE_FAM_OID		1970
#define DATETIME_BTREE_FAM_OID	434

/* Types with one order, in a family of btree. */
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
