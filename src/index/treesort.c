/*
 * treesort.c -- entries out of their nodes, in the order of the tree.
 *
 * Most entries differ in their words.  So they are divided by one byte of the words after the other, the highest first,
 * in place.  Few entries that are left together are sorted by comparison, and so are those with the same words.  Only
 * these ask the operator class.
 */
#include "index/treesort.h"

#include "miscadmin.h"

#define FEW			32			/* entries that are not divided */
#define WORD_BYTES	16

int
zen_slot_order(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	ZenTreePos	pos;

	for (int i = 0; i < 2; i++)
		if (a->words[i] != b->words[i])
			return a->words[i] < b->words[i] ? -1 : 1;
	if (shape->kind != ZEN_TREE_TUPLES)
	{
		uint64		tid_a = a->tid & ZEN_TREE_TID;
		uint64		tid_b = b->tid & ZEN_TREE_TID;

		return tid_a < tid_b ? -1 : tid_a > tid_b;
	}
	zen_shape_pos_of(shape, &pos, b);
	return zen_shape_compare(shape, a, &pos);
}

static int
compare(const void *a, const void *b, void *arg)
{
	return zen_slot_order(arg, a, b);
}

static void
sort_few(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n)
{
	for (Size i = 1; i < n; i++)
	{
		ZenTreeSlot slot = slots[i];
		Size		at = i;

		for (; at > 0 && zen_slot_order(shape, &slots[at - 1], &slot) > 0; at--)
			slots[at] = slots[at - 1];
		slots[at] = slot;
	}
}

/* Byte 0 is the highest one of the first word. */
static inline uint8
byte_of(const ZenTreeSlot *slot, int byte)
{
	return (uint8) (slot->words[byte / 8] >> (56 - 8 * (byte % 8)));
}

/* The first byte, from one on, in which entries differ; WORD_BYTES: none. */
static int
first_difference(const ZenTreeSlot *slots, Size n, int byte)
{
	uint64		differ[2] = {0, 0};

	for (Size i = 1; i < n; i++)
		for (int w = 0; w < 2; w++)
			differ[w] |= slots[i].words[w] ^ slots[0].words[w];
	while (byte < WORD_BYTES && (uint8) (differ[byte / 8] >> (56 - 8 * (byte % 8))) == 0)
		byte++;
	return byte;
}

/* Sort entries that agree in the bytes before this one.  The depth of the recursion is at most that of the bytes. */
static void
sort_from(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n, int byte)
{
	Size		begin[256];
	Size		end[256];
	Size		at = 0;

	if (n <= FEW)
	{
		sort_few(shape, slots, n);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	byte = first_difference(slots, n, byte);
	if (byte == WORD_BYTES)
	{
		qsort_arg(slots, n, sizeof(ZenTreeSlot), compare, (void *) shape);
		return;
	}
	memset(end, 0, sizeof(end));
	for (Size i = 0; i < n; i++)
		end[byte_of(&slots[i], byte)]++;
	for (int b = 0; b < 256; b++)
	{
		begin[b] = at;
		at += end[b];
		end[b] = at;
	}
	/* each entry that is not in its part changes places with one there */
	for (int b = 0; b < 256; b++)
		while (begin[b] < end[b])
		{
			ZenTreeSlot *slot = &slots[begin[b]];
			uint8		to = byte_of(slot, byte);

			if (to != b)
			{
				ZenTreeSlot other = slots[begin[to]];

				slots[begin[to]] = *slot;
				*slot = other;
			}
			begin[to]++;
		}
	for (int b = 0; b < 256; b++)
	{
		Size		from = b == 0 ? 0 : end[b - 1];

		if (end[b] - from > 1)
			sort_from(shape, slots + from, end[b] - from, byte + 1);
	}
}

void
zen_slots_sort(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n)
{
	sort_from(shape, slots, n, 0);
}
