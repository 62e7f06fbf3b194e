/*
 * batchagg.c -- the aggregate functions that take many values at once.
 *
 * Each does for an array of values what PostgreSQL's transition function does for one after the other, in the same
 * order, and then what the final function does.  So sums of floats are the same to the last bit, and so are errors.
 * The comment above each group names the functions that it stands for.
 */
#include "exec/batchagg.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/cash.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* ---------- count(*), count(x): int8inc, int8inc_any ---------- */

static void
add_count(ZenAggTotal *total, const Datum *values, int n)
{
	total->n += n;
}

static Datum
count_result(const ZenAggTotal *total)
{
	return Int64GetDatum(total->n);
}

/* ---------- sums of integers ---------- */

/* int2_sum, int4_sum, int2_avg_accum, int4_avg_accum: none of them looks for an overflow */
static void
add_int2(ZenAggTotal *total, const Datum *values, int n)
{
	uint64		sum = (uint64) total->sum;

	for (int i = 0; i < n; i++)
		sum += (uint64) (int64) DatumGetInt16(values[i]);
	total->sum = (int64) sum;
	total->n += n;
}

static void
add_int4(ZenAggTotal *total, const Datum *values, int n)
{
	uint64		sum = (uint64) total->sum;

	for (int i = 0; i < n; i++)
		sum += (uint64) (int64) DatumGetInt32(values[i]);
	total->sum = (int64) sum;
	total->n += n;
}

static Datum
sum_result(const ZenAggTotal *total)
{
	return Int64GetDatum(total->sum);
}

/* int8_avg */
static Datum
average(Numeric sum, int64 n)
{
	return DirectFunctionCall2(numeric_div, NumericGetDatum(sum), NumericGetDatum(int64_to_numeric(n)));
}

static Datum
avg_result(const ZenAggTotal *total)
{
	return average(int64_to_numeric(total->sum), total->n);
}

/* int8_avg_accum */
static void
add_int8(ZenAggTotal *total, const Datum *values, int n)
{
	int128		sum = total->wide_sum;

	for (int i = 0; i < n; i++)
		sum += (int128) DatumGetInt64(values[i]);
	total->wide_sum = sum;
	total->n += n;
}

static Numeric
wide_numeric(int128 value)
{
	char		digits[48];		/* 39, a sign, and the end */
	char	   *p = digits + sizeof(digits);
	bool		negative = value < 0;

	if (value >= PG_INT64_MIN && value <= PG_INT64_MAX)
		return int64_to_numeric((int64) value);
	*--p = '\0';
	for (; value != 0; value /= 10)
		*--p = (char) ('0' + (int) (negative ? -(value % 10) : value % 10));
	if (negative)
		*--p = '-';
	return DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(p), ObjectIdGetDatum(InvalidOid),
											   Int32GetDatum(-1)));
}

/* numeric_poly_sum, numeric_poly_avg */
static Datum
wide_sum_result(const ZenAggTotal *total)
{
	return NumericGetDatum(wide_numeric(total->wide_sum));
}

static Datum
wide_avg_result(const ZenAggTotal *total)
{
	return average(wide_numeric(total->wide_sum), total->n);
}

/* ---------- sums of floats ---------- */

/* float4pl, float8pl: strict, so the first value is the first sum */
static void
add_float4(ZenAggTotal *total, const Datum *values, int n)
{
	float4		sum = (float4) total->float_sum;
	int			i = 0;

	if (total->n == 0 && n > 0)
		sum = DatumGetFloat4(values[i++]);
	for (; i < n; i++)
		sum = float4_pl(sum, DatumGetFloat4(values[i]));
	total->float_sum = sum;
	total->n += n;
}

static void
add_float8(ZenAggTotal *total, const Datum *values, int n)
{
	float8		sum = total->float_sum;
	int			i = 0;

	if (total->n == 0 && n > 0)
		sum = DatumGetFloat8(values[i++]);
	for (; i < n; i++)
		sum = float8_pl(sum, DatumGetFloat8(values[i]));
	total->float_sum = sum;
	total->n += n;
}

static Datum
float4_sum_result(const ZenAggTotal *total)
{
	return Float4GetDatum((float4) total->float_sum);
}

static Datum
float8_sum_result(const ZenAggTotal *total)
{
	return Float8GetDatum(total->float_sum);
}

/* float4_accum, float8_accum: the squares are not asked for, but they may overflow */
static inline void
accumulate(ZenAggTotal *total, float8 value)
{
	float8		before = total->float_sum;
	float8		n = (float8) total->n + 1.0;

	total->float_sum += value;
	if (total->n > 0)
	{
		float8		tmp = value * n - total->float_sum;

		total->squares += tmp * tmp / (n * (float8) total->n);
		if (isinf(total->float_sum) || isinf(total->squares))
		{
			if (!isinf(before) && !isinf(value))
				float_overflow_error();
			total->squares = get_float8_nan();
		}
	}
	else if (isnan(value) || isinf(value))
		total->squares = get_float8_nan();
	total->n++;
}

static void
accumulate_float4(ZenAggTotal *total, const Datum *values, int n)
{
	for (int i = 0; i < n; i++)
		accumulate(total, DatumGetFloat4(values[i]));
}

static void
accumulate_float8(ZenAggTotal *total, const Datum *values, int n)
{
	for (int i = 0; i < n; i++)
		accumulate(total, DatumGetFloat8(values[i]));
}

/* float8_avg */
static Datum
float_avg_result(const ZenAggTotal *total)
{
	return Float8GetDatum(total->float_sum / (float8) total->n);
}

/* ---------- min and max: int4larger, float8smaller and the like ---------- */

#define GREATER(a, b)	((a) > (b))
#define LESS(a, b)		((a) < (b))

/* The earlier value stays only if it is beyond the new one: -0 and 0 are equal, and the later counts. */
#define DEFINE_EXTREME(name, type, get, put, beyond) \
static void \
name(ZenAggTotal *total, const Datum *values, int n) \
{ \
	type		best; \
	if (n == 0) \
		return; \
	best = get(total->n > 0 ? total->extreme : values[0]); \
	for (int i = total->n > 0 ? 0 : 1; i < n; i++) \
	{ \
		type		value = get(values[i]); \
		best = beyond(best, value) ? best : value; \
	} \
	total->extreme = put(best); \
	total->n += n; \
}

DEFINE_EXTREME(max_int2, int16, DatumGetInt16, Int16GetDatum, GREATER)
DEFINE_EXTREME(min_int2, int16, DatumGetInt16, Int16GetDatum, LESS)
DEFINE_EXTREME(max_int4, int32, DatumGetInt32, Int32GetDatum, GREATER)
DEFINE_EXTREME(min_int4, int32, DatumGetInt32, Int32GetDatum, LESS)
DEFINE_EXTREME(max_int8, int64, DatumGetInt64, Int64GetDatum, GREATER)
DEFINE_EXTREME(min_int8, int64, DatumGetInt64, Int64GetDatum, LESS)
DEFINE_EXTREME(max_oid, Oid, DatumGetObjectId, ObjectIdGetDatum, GREATER)
DEFINE_EXTREME(min_oid, Oid, DatumGetObjectId, ObjectIdGetDatum, LESS)
DEFINE_EXTREME(max_float4, float4, DatumGetFloat4, Float4GetDatum, float4_gt)
DEFINE_EXTREME(min_float4, float4, DatumGetFloat4, Float4GetDatum, float4_lt)
DEFINE_EXTREME(max_float8, float8, DatumGetFloat8, Float8GetDatum, float8_gt)
DEFINE_EXTREME(min_float8, float8, DatumGetFloat8, Float8GetDatum, float8_lt)

static Datum
extreme_result(const ZenAggTotal *total)
{
	return total->extreme;
}

StaticAssertDecl(sizeof(DateADT) == sizeof(int32), "dates are compared as int4");
StaticAssertDecl(sizeof(TimeADT) == sizeof(int64) && sizeof(Timestamp) == sizeof(int64),
				 "times and timestamps are compared as int8");
StaticAssertDecl(sizeof(Cash) == sizeof(int64), "money is compared as int8");

/* ---------- the list ---------- */

static const ZenAggKind kinds[] = {
	{F_COUNT_, add_count, count_result},
	{F_COUNT_ANY, add_count, count_result},
	{F_SUM_INT2, add_int2, sum_result},
	{F_SUM_INT4, add_int4, sum_result},
	{F_SUM_INT8, add_int8, wide_sum_result},
	{F_SUM_FLOAT4, add_float4, float4_sum_result},
	{F_SUM_FLOAT8, add_float8, float8_sum_result},
	{F_AVG_INT2, add_int2, avg_result},
	{F_AVG_INT4, add_int4, avg_result},
	{F_AVG_INT8, add_int8, wide_avg_result},
	{F_AVG_FLOAT4, accumulate_float4, float_avg_result},
	{F_AVG_FLOAT8, accumulate_float8, float_avg_result},
	{F_MAX_INT2, max_int2, extreme_result},
	{F_MIN_INT2, min_int2, extreme_result},
	{F_MAX_INT4, max_int4, extreme_result},
	{F_MIN_INT4, min_int4, extreme_result},
	{F_MAX_INT8, max_int8, extreme_result},
	{F_MIN_INT8, min_int8, extreme_result},
	{F_MAX_OID, max_oid, extreme_result},
	{F_MIN_OID, min_oid, extreme_result},
	{F_MAX_FLOAT4, max_float4, extreme_result},
	{F_MIN_FLOAT4, min_float4, extreme_result},
	{F_MAX_FLOAT8, max_float8, extreme_result},
	{F_MIN_FLOAT8, min_float8, extreme_result},
	{F_MAX_DATE, max_int4, extreme_result},
	{F_MIN_DATE, min_int4, extreme_result},
	{F_MAX_TIME, max_int8, extreme_result},
	{F_MIN_TIME, min_int8, extreme_result},
	{F_MAX_TIMESTAMP, max_int8, extreme_result},
	{F_MIN_TIMESTAMP, min_int8, extreme_result},
	{F_MAX_TIMESTAMPTZ, max_int8, extreme_result},
	{F_MIN_TIMESTAMPTZ, min_int8, extreme_result},
	{F_MAX_MONEY, max_int8, extreme_result},
	{F_MIN_MONEY, min_int8, extreme_result},
};

const ZenAggKind *
zen_batchagg_kind(Oid function)
{
	for (int i = 0; i < lengthof(kinds); i++)
		if (kinds[i].function == function)
			return &kinds[i];
	return NULL;
}

bool
zen_batchagg_counts(const ZenAggKind *kind)
{
	return kind->add == add_count;
}

Datum
zen_batchagg_result(const ZenAggKind *kind, const ZenAggTotal *total, bool *isnull)
{
	*isnull = total->n == 0 && !zen_batchagg_counts(kind);
	return *isnull ? (Datum) 0 : kind->result(total);
}
