/*
 * slotread.c -- reading the committed version in a slot.
 *
 * src/nvm/README, "Checked slots", says what a slot's checked bit tells of the version in it (I20).
 */
#include "nvm/slotread.h"

#include "base/epoch.h"
#include "base/guc.h"
#include "nvm/delta.h"
#include "nvm/tuple.h"

/* A slot's checked bit. */
typedef struct CheckedBit
{
	pg_atomic_uint64 *word;
	uint64		mask;
} CheckedBit;

static inline CheckedBit
checked_bit(ZenSlot slot)
{
	uint32		n = zen_page_slot_index(slot);
	CheckedBit	bit;

	bit.word = zen_page_checked_word(&zen_pages[zen_slot_page(slot)], n);
	bit.mask = UINT64CONST(1) << (n % 64);
	return bit;
}

static inline bool
is_checked(CheckedBit bit)
{
	return (pg_atomic_read_u64(bit.word) & bit.mask) != 0 && !zen_skip_damaged_rows;
}

/* Does the version in a slot fit its CRC, and a delta's base, too? */
static inline bool
is_sound(ZenSlot slot)
{
	return zen_tuple_intact(slot, zen_slot_size(slot)) &&
		(likely(!zen_tuple_is_delta(slot)) || zen_delta_base_fits(slot));
}

/* Note the outcome of a check. */
static bool
note_check(CheckedBit bit, bool intact)
{
	if (intact)
		pg_atomic_fetch_or_u64(bit.word, bit.mask);
	else
		pg_atomic_fetch_and_u64(bit.word, ~bit.mask);
	return intact;
}

bool
zen_slot_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin)
{
	CheckedBit	bit = checked_bit(slot);
	const ZenTupleBody *body = zen_tuple_body(slot);

	ZenAssertInEpoch();
	if (!is_checked(bit))
		return note_check(bit, zen_whole_read(slot, buf, len, xmin));
	Assert(len >= sizeof(*body));
	if (unlikely(body->len != len))
		return note_check(bit, zen_delta_build(slot, buf, len, xmin));
	/* all in one, then what a MinimalTuple has in place of the prefix */
	memcpy(buf, body, len);
	*xmin = zen_body_xmin(body);
	buf->t_len = len;
	memset(buf->mt_padding, 0, sizeof(buf->mt_padding));
	zen_tuple_count_read(slot, len);
	return true;
}

bool
zen_slot_check(ZenSlot slot)
{
	CheckedBit	bit = checked_bit(slot);
	bool		intact = is_sound(slot);

	ZenAssertInEpoch();
	if (intact && (pg_atomic_read_u64(bit.word) & bit.mask) != 0)
		return true;
	return note_check(bit, intact);
}

bool
zen_slot_is_sound(ZenSlot slot)
{
	CheckedBit	bit = checked_bit(slot);

	ZenAssertInEpoch();
	return is_checked(bit) ||
		(note_check(bit, is_sound(slot)) && zen_tuple_len(slot, zen_slot_size(slot)) > 0);
}

const MinimalTupleData *
zen_slot_look(ZenSlot slot, bool believe)
{
	CheckedBit	bit = checked_bit(slot);
	const ZenTupleBody *body = zen_tuple_body(slot);

	ZenAssertInEpoch();
	if (!(believe && (pg_atomic_read_u64(bit.word) & bit.mask) != 0) && !is_checked(bit) &&
		!note_check(bit, is_sound(slot)))
		return NULL;
	/* a delta is not a row that can be looked at */
	if (body->len < SizeofMinimalTupleHeader || zen_tuple_size(body->len) > zen_slot_size(slot))
		return NULL;
	return (const MinimalTupleData *) body;
}

bool
zen_slot_build_start(ZenSlot slot, MinimalTuple buf, uint32 bytes)
{
	ZenAssertInEpoch();
	return zen_tuple_is_delta(slot) && zen_slot_is_sound(slot) && zen_delta_build_start(slot, buf, bytes);
}

void
zen_slot_note_sound(uint32 pageno, uint32 first, uint64 slots)
{
	Assert(first % 64 == 0);
	pg_atomic_write_u64(zen_page_checked_word(&zen_pages[pageno], first), slots);
}

void
zen_slot_unchecked(ZenSlot slot)
{
	CheckedBit	bit = checked_bit(slot);

	if (pg_atomic_read_u64(bit.word) & bit.mask)
		pg_atomic_fetch_and_u64(bit.word, ~bit.mask);
}

void
zen_slot_doubt(ZenSlot slot)
{
	ZenAssertInEpoch();
	Assert(zen_page_holds(slot));
	(void) note_check(checked_bit(slot), false);
}
