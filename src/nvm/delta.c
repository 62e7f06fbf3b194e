/*
 * delta.c -- versions that hold only what changed: made, and made whole again.
 *
 * A delta that is read has its bounds checked at each step, as it may be read before its CRC is known to fit.
 */
#include "nvm/delta.h"

#include "base/fault.h"
#include "nvm/tuple.h"

#define GAP		sizeof(ZenDeltaRange)	/* bytes alike that are not worth a
										 * range of their own */

StaticAssertDecl(ZEN_DELTA_MIN / ZEN_DELTA_SHARE > sizeof(ZenDelta), "a delta fits its share");

/* ---------- made ---------- */

/* A delta being made. */
typedef struct Making
{
	ZenDelta   *delta;
	uint32		limit;			/* bytes that it may have */
	const char *from;			/* the row, as a MinimalTuple */
} Making;

/* False if it has become too long. */
static bool
add_range(Making *m, uint32 at, uint32 len)
{
	ZenDelta   *d = m->delta;
	ZenDeltaRange range = {.at = (uint16) at,.len = (uint16) len};

	if (d->bytes + sizeof(range) + len > m->limit)
		return false;
	memcpy((char *) d + d->bytes, &range, sizeof(range));
	memcpy((char *) d + d->bytes + sizeof(range), m->from + at, len);
	d->bytes += sizeof(range) + len;
	d->nranges++;
	return true;
}

/* The first byte from at on, before end, that differs; end if there is none. */
static uint32
next_difference(const char *a, const char *b, uint32 at, uint32 end)
{
	while (at + sizeof(uint64) <= end && memcmp(a + at, b + at, sizeof(uint64)) == 0)
		at += sizeof(uint64);
	while (at < end && a[at] == b[at])
		at++;
	return at;
}

/* The end of a range that begins at at: behind it more than GAP bytes are alike. */
static uint32
range_end(const char *a, const char *b, uint32 at, uint32 end)
{
	uint32		last = at;

	for (uint32 i = at + 1; i < end && i - last <= GAP + 1; i++)
		if (a[i] != b[i])
			last = i;
	return last + 1;
}

bool
zen_delta_make(ZenSlot base, const MinimalTupleData *tuple, ZenDelta *to)
{
	const ZenTupleBody *old = zen_tuple_body(base);
	const char *a = (const char *) old;
	const char *b = (const char *) tuple;
	uint32		common = Min(old->len, tuple->t_len);
	Making		m = {.delta = to,.limit = tuple->t_len / ZEN_DELTA_SHARE,.from = b};

	Assert(tuple->t_len >= ZEN_DELTA_MIN && tuple->t_len <= ZEN_MAX_TUPLE);
	if (old->len < SizeofMinimalTupleHeader || zen_tuple_size(old->len) > zen_slot_size(base))
		return false;
	memset(to, 0, sizeof(*to));
	to->mark = ZEN_DELTA_MARK;
	to->bytes = sizeof(*to);
	to->len = (uint16) tuple->t_len;
	to->base = base;
	to->base_cts = zen_tuple_header(base).word0 & ZEN_CTS_MASK;
	for (uint32 at = next_difference(a, b, ZEN_BODY_PREFIX, common); at < common;)
	{
		uint32		end = range_end(a, b, at, common);

		if (!add_range(&m, at, end - at))
			return false;
		at = next_difference(a, b, end, common);
	}
	return common == tuple->t_len || add_range(&m, common, tuple->t_len - common);
}

/* ---------- its base ---------- */

ZenSlot
zen_delta_base_of(ZenSlot slot)
{
	const ZenDelta *d = (const ZenDelta *) zen_tuple_body(slot);

	return d->mark == ZEN_DELTA_MARK ? (ZenSlot) d->base : InvalidZenSlot;
}

/* May a slot have this number?  What a damaged delta says may be none. */
static inline bool
is_slot_number(uint64 slot)
{
	return slot != InvalidZenSlot && slot < (uint64) zen_pool_pages() * (ZEN_PAGE_SIZE / ZEN_SLOT_UNIT);
}

void
zen_delta_ask_base(ZenSlot slot, int lines)
{
	ZenSlot		base = zen_delta_base_of(slot);

	for (int i = 0; is_slot_number(base) && i < lines; i++)
		__builtin_prefetch((const char *) zen_slot_ptr(base) + i * ZEN_LINE);
}

/* Does the base's slot have what the delta in a slot says?  Its CRC is not looked at. */
static bool
base_is_there(ZenSlot slot, const ZenDelta *d)
{
	ZenTupleHeader own = zen_tuple_header(slot);
	ZenTupleHeader h;
	ZenSlot		base = (ZenSlot) d->base;
	uint32		len;

	if (base == slot || !is_slot_number(d->base) ||
		!zen_page_is_data(zen_slot_page(base)) || !zen_pages[zen_slot_page(base)].owned ||
		zen_pages[zen_slot_page(base)].lost || !zen_page_holds(base))
		return false;
	if (ZEN_FAULT(R22_ANY_BASE))
		return true;
	h = zen_tuple_header(base);
	len = zen_tuple_body(base)->len;
	return (h.word0 & ZEN_CTS_MASK) == d->base_cts && (h.word1 & ZEN_DELETED) == 0 &&
		zen_word1_htable(h.word1) == zen_word1_htable(own.word1) &&
		zen_word1_tidno(h.word1) == zen_word1_tidno(own.word1) &&
		len >= SizeofMinimalTupleHeader && zen_tuple_size(len) <= zen_slot_size(base);
}

bool
zen_delta_base_fits(ZenSlot slot)
{
	const ZenDelta *d = (const ZenDelta *) zen_tuple_body(slot);

	return d->mark == ZEN_DELTA_MARK && base_is_there(slot, d) &&
		(zen_tuple_intact((ZenSlot) d->base, zen_slot_size((ZenSlot) d->base)) || ZEN_FAULT(R22_ANY_BASE));
}

/* ---------- made whole ---------- */

/* Put the ranges over the first bytes of a row, which buf has; false if they do not fit the row. */
static bool
apply_ranges(const ZenDelta *d, char *buf, uint32 bytes)
{
	const char *at = (const char *) (d + 1);
	const char *end = (const char *) d + d->bytes;

	for (uint32 i = 0; i < d->nranges; i++)
	{
		ZenDeltaRange range;

		if ((Size) (end - at) < sizeof(range))
			return false;
		memcpy(&range, at, sizeof(range));
		at += sizeof(range);
		if (end - at < range.len || range.at < ZEN_BODY_PREFIX || range.at + range.len > d->len)
			return false;
		if (range.at < bytes)
			memcpy(buf + range.at, at, Min(range.len, bytes - range.at));
		at += range.len;
	}
	return at == end;
}

/* The first bytes of the row that a delta makes; false if its base is not there, or its ranges do not fit. */
static bool
build_start(ZenSlot slot, char *buf, uint32 bytes)
{
	const ZenDelta *d = (const ZenDelta *) zen_tuple_body(slot);
	const ZenTupleBody *base;

	if (!base_is_there(slot, d))
		return false;
	base = zen_tuple_body((ZenSlot) d->base);
	memcpy(buf, base, Min(base->len, bytes));
	return apply_ranges(d, buf, bytes);
}

bool
zen_delta_build(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin)
{
	if (zen_tuple_odd_len(slot, zen_slot_size(slot)) != len || !build_start(slot, (char *) buf, len))
		return false;
	buf->t_len = len;
	memset(buf->mt_padding, 0, sizeof(buf->mt_padding));
	if (xmin != NULL)
		*xmin = zen_body_xmin(zen_tuple_body(slot));
	return true;
}

bool
zen_delta_build_start(ZenSlot slot, MinimalTuple buf, uint32 bytes)
{
	int64		len = zen_tuple_odd_len(slot, zen_slot_size(slot));

	Assert(bytes >= SizeofMinimalTupleHeader);
	return len > 0 && build_start(slot, (char *) buf, Min(bytes, (uint32) len));
}

bool
zen_delta_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin)
{
	return zen_tuple_intact(slot, zen_slot_size(slot)) && zen_delta_base_fits(slot) &&
		zen_delta_build(slot, buf, len, xmin);
}

bool
zen_delta_equals(ZenSlot slot, const MinimalTupleData *tuple)
{
	static union
	{
		MinimalTupleData tuple;
		char		bytes[ZEN_MAX_TUPLE];
	}			row;

	return tuple->t_len <= sizeof(row) && zen_delta_read(slot, &row.tuple, tuple->t_len, NULL) &&
		memcmp((const char *) &row.tuple + ZEN_BODY_PREFIX, (const char *) tuple + ZEN_BODY_PREFIX,
			   tuple->t_len - ZEN_BODY_PREFIX) == 0;
}
