/*
 * slotread.c -- reading the committed version in a slot.
 *
 * src/nvm/README, "Checked slots", says what a slot's checked bit tells of the version in it (I20).
 */
#include "nvm/slotread.h"

#include "base/epoch.h"
#include "base/guc.h"
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
	const ZenTupleBody *body = (const ZenTupleBody *) buf;

	ZenAssertInEpoch();
	if (!is_checked(bit))
		return note_check(bit, zen_tuple_read(slot, buf, len, xmin));
	/* all in one, then what a MinimalTuple has in place of the prefix */
	Assert(len >= sizeof(*body));
	memcpy(buf, (const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE, len);
	if (body->len != len)
		return note_check(bit, false);
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
	bool		intact = zen_tuple_intact(slot, zen_slot_size(slot));

	ZenAssertInEpoch();
	if (intact && (pg_atomic_read_u64(bit.word) & bit.mask) != 0)
		return true;
	return note_check(bit, intact);
}

bool
zen_slot_is_sound(ZenSlot slot)
{
	CheckedBit	bit = checked_bit(slot);
	Size		size = zen_slot_size(slot);

	ZenAssertInEpoch();
	return is_checked(bit) || (note_check(bit, zen_tuple_intact(slot, size)) && zen_tuple_len(slot, size) > 0);
}

const MinimalTupleData *
zen_slot_look(ZenSlot slot, bool believe)
{
	CheckedBit	bit = checked_bit(slot);
	Size		size = zen_slot_size(slot);

	ZenAssertInEpoch();
	if (!(believe && (pg_atomic_read_u64(bit.word) & bit.mask) != 0) && !is_checked(bit) &&
		!note_check(bit, zen_tuple_intact(slot, size)))
		return NULL;
	if (zen_tuple_len(slot, size) <= 0)
		return NULL;
	return (const MinimalTupleData *) ((const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);
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
