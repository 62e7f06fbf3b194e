/*
 * tuple.c -- NVM-tuple: form, write, LP.
 *
 * R6: a slot's first line is written by 8-byte stores in ascending order, word0 (new Tx-CTS, LP = 0) first.  Stores
 * to one line persist in order, so whatever prefix of them reaches the medium, the slot shows either its old
 * header untouched or the new Tx-CTS with LP = 0, which recovery discards unless the transaction committed.  The
 * lines behind the first may persist in any order before the commit's first fence.
 *
 * The CRC covers the Tx-CTS but not LP, which is set after the body.
 */
#include "nvm/tuple.h"

#include "base/stats.h"
#include "port/pg_crc32c.h"

/* Offset in the MinimalTuple of what follows the CRC: two bytes of padding, then the infomasks. */
#define BODY_REST	sizeof(ZenTupleBody)

StaticAssertDecl(offsetof(MinimalTupleData, t_infomask2) >= sizeof(ZenTupleBody),
				 "the CRC must fit into the MinimalTuple's padding");

static uint32
tuple_crc(uint64 cts, uint64 word1, uint32 len, const char *rest)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &cts, sizeof(cts));
	COMP_CRC32C(crc, &word1, sizeof(word1));
	COMP_CRC32C(crc, &len, sizeof(len));
	if (len > BODY_REST)
		COMP_CRC32C(crc, rest, len - BODY_REST);
	FIN_CRC32C(crc);
	return crc;
}

/* Bytes from the slot's start to the end of its first line. */
static inline Size
first_line(const void *slot)
{
	return ZEN_LINE - ((uintptr_t) slot & (ZEN_LINE - 1));
}

void
zen_tuple_write(ZenSlot slot, uint64 cts, uint64 word1, const MinimalTupleData *tuple,
				bool flush_header)
{
	uint64	   *dst = zen_slot_ptr(slot);
	uint32		len = tuple ? tuple->t_len : 0;
	Size		size = zen_tuple_size(len);
	Size		head = Min(first_line(dst), TYPEALIGN(8, size));
	uint64		line[ZEN_LINE / sizeof(uint64)];
	ZenTupleBody *body = (ZenTupleBody *) &line[2];

	Assert(cts != 0 && (cts & ZEN_LP) == 0);
	memset(line, 0, sizeof(line));
	if (tuple)
		memcpy((char *) &line[2] + BODY_REST, (const char *) tuple + BODY_REST,
			   Min(len, sizeof(line) - ZEN_HEADER_SIZE) - BODY_REST);
	body->len = len;
	body->crc = tuple_crc(cts, word1, len, (const char *) tuple + BODY_REST);

	zen_nvm_store64(&dst[0], cts);
	zen_nvm_store64(&dst[1], word1);
	for (Size i = 2; i < head / sizeof(uint64); i++)
		zen_nvm_store64(&dst[i], line[i]);

	if (size > head)
	{
		/* a header at the end of a line leaves the body prefix to the next line */
		Size		at = head;

		if (at < ZEN_HEADER_SIZE + BODY_REST)
		{
			zen_nvm_copy((char *) dst + at, (char *) line + at, ZEN_HEADER_SIZE + BODY_REST - at);
			at = ZEN_HEADER_SIZE + BODY_REST;
		}
		if (size > at)
			zen_nvm_copy((char *) dst + at, (const char *) tuple + at - ZEN_HEADER_SIZE, size - at);
	}
	if (flush_header)
		zen_flush(dst, size);
	else if (size > head)
		zen_flush((char *) dst + head, size - head);
	ZEN_COUNT(slots_written, 1);
	ZEN_COUNT(bytes_written, size);
}

void
zen_tuple_set_lp(ZenSlot slot)
{
	uint64	   *word0 = zen_slot_ptr(slot);

	Assert(*word0 != 0 && (*word0 & ZEN_LP) == 0);
	zen_nvm_store64(word0, *word0 | ZEN_LP);
	zen_flush(word0, sizeof(*word0));
}

void
zen_tuple_clear_lp(ZenSlot slot)
{
	uint64	   *word0 = zen_slot_ptr(slot);

	zen_nvm_store64(word0, *word0 & ~ZEN_LP);
	zen_persist(word0, sizeof(*word0));
}

void
zen_tuple_scrub(ZenSlot slot)
{
	uint64	   *word0 = zen_slot_ptr(slot);

	zen_nvm_store64(word0, 0);
	zen_flush(word0, sizeof(*word0));
}

int64
zen_tuple_len(ZenSlot slot, Size slot_size)
{
	ZenTupleBody *body = (ZenTupleBody *) ((char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);
	uint32		len = body->len;

	if (len != 0 && (len < SizeofMinimalTupleHeader || zen_tuple_size(len) > slot_size))
		return -1;
	return len;
}

bool
zen_tuple_read(ZenSlot slot, MinimalTuple buf, uint32 len)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	ZenTupleBody *body = (ZenTupleBody *) ((char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);

	memcpy(buf, body, Max(len, sizeof(ZenTupleBody)));
	if (((ZenTupleBody *) buf)->crc !=
		tuple_crc(h.word0 & ZEN_CTS_MASK, h.word1, len, (char *) buf + BODY_REST))
		return false;
	memset(buf->mt_padding, 0, sizeof(buf->mt_padding));
	return ((ZenTupleBody *) buf)->len == len;
}
