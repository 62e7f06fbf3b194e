/*
 * tuple.c -- NVM-tuple: form, write, LP.
 *
 * src/nvm/README, "Writing a slot", says what each prefix of the stores to a slot's first line shows (R6).
 *
 * The CRC covers the Tx-CTS but not LP, which is set after the body.
 *
 * What a power cut leaves of a slot is never one bit away from a version that was there, so a flipped bit can be set
 * right (src/nvm/README, "Damaged slots").  Two things make it so: a scrubbed slot has no body that a CRC fits, and a
 * Tx-CTS that differs in one bit only from the one that it overwrites is not written before the slot was scrubbed.
 */
#include "nvm/tuple.h"

#include "base/fault.h"
#include "base/numa.h"
#include "base/stats.h"
#include "nvm/pool.h"
#include "nvm/repair.h"
#include "nvm/sink.h"
#include "port/atomics.h"
#include "port/pg_crc32c.h"
#include "storage/shmem.h"

StaticAssertDecl(offsetof(MinimalTupleData, t_infomask2) == ZEN_BODY_PREFIX,
				 "a ZenTupleBody overlays what a MinimalTuple has before t_infomask2");

/* Slots that were given another Tx-CTS; shared. */
typedef struct Restamps
{
	pg_atomic_uint64 begun;
	pg_atomic_uint64 finished;
} Restamps;

static Restamps *restamps;

static void
tuple_shmem_init(void)
{
	bool		found;

	restamps = ShmemInitStruct("zen restamps", zen_tuple_shmem.bytes, &found);
	if (found)
		return;
	pg_atomic_init_u64(&restamps->begun, 0);
	pg_atomic_init_u64(&restamps->finished, 0);
}

const ZenShmem zen_tuple_shmem = {.bytes = sizeof(Restamps),.init = tuple_shmem_init};

/* CRC32C of a version of so many bytes; body points to its prefix and rest to what follows the prefix. */
static uint32
tuple_crc(uint64 cts, uint64 word1, const ZenTupleBody *body, uint32 bytes, const char *rest)
{
	char		head[2 * sizeof(uint64) + 3 * sizeof(uint16)];
	pg_crc32c	crc;

	/* a call costs more than these few bytes */
	memcpy(head, &cts, sizeof(cts));
	memcpy(head + 8, &word1, sizeof(word1));
	memcpy(head + 16, &body->len, sizeof(body->len) + sizeof(body->xmin_low));
	memcpy(head + 20, &body->xmin_high, sizeof(body->xmin_high));
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, head, sizeof(head));
	if (bytes > ZEN_BODY_PREFIX)
		COMP_CRC32C(crc, rest, bytes - ZEN_BODY_PREFIX);
	FIN_CRC32C(crc);
	return crc;
}

/* The first word of a slot's body: length, xmin's low half and CRC. */
static inline uint64 *
body_word(ZenSlot slot)
{
	return (uint64 *) ((char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);
}

/* Bytes from the slot's start to the end of its first line. */
static inline Size
first_line(const void *slot)
{
	return ZEN_LINE - ((uintptr_t) slot & (ZEN_LINE - 1));
}

/*
 * What follows a version's first line: of the body prefix the part that did not fit there, as a header near the end
 * of a line leaves it to the next one, and the rest of the tuple.
 */
static void
copy_behind_line(char *dst, const char *line, const char *rest, Size head, Size size)
{
	const Size	prefix = ZEN_HEADER_SIZE + ZEN_BODY_PREFIX;
	Size		at = head;

	if (at < prefix)
	{
		zen_nvm_copy(dst + at, line + at, prefix - at);
		at = prefix;
	}
	if (size > at)
		zen_nvm_copy(dst + at, rest + at - prefix, size - at);
}

/* Faults: bytes that are stored before their turn (R6), or an LP that is set too early (R2). */
static inline void
store_wrongly(uint64 *dst, uint64 *line, Size head)
{
	if (ZEN_FAULT(R6_WORD1_FIRST))
		zen_nvm_store64(&dst[1], line[1]);
	for (Size i = 2; ZEN_FAULT(R6_BODY_FIRST) && i < head / sizeof(uint64); i++)
		zen_nvm_store64(&dst[i], line[i]);
	if (ZEN_FAULT(R6_HEADER_COPIED))
		zen_nvm_copy(dst, line, head);
	if (ZEN_FAULT(R2_LP_FIRST))
		line[0] |= ZEN_LP;
}

/*
 * Store a version of len bytes, header first (R6); flush nothing.  Returns its size; *head_size: of its part in the
 * first line.  mark: what stands in the place of its length, if that is not 0.
 */
static pg_attribute_always_inline Size
store_tuple(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin, const void *tuple, uint32 len, uint16 mark,
			Size *head_size)
{
	uint64	   *dst = zen_slot_ptr(slot);
	const char *rest = (const char *) tuple + ZEN_BODY_PREFIX;
	Size		size = zen_tuple_size(len);
	Size		head = Min(first_line(dst), TYPEALIGN(8, size));
	const Size	prefix = ZEN_HEADER_SIZE + ZEN_BODY_PREFIX;
	uint64		line[ZEN_LINE / sizeof(uint64)];
	ZenTupleBody *body = (ZenTupleBody *) &line[2];

	Assert(cts != 0 && (cts & ZEN_LP) == 0);
	Assert(len <= PG_UINT16_MAX && (len == 0 || len >= SizeofMinimalTupleHeader));
	Assert(head >= ZEN_HEADER_SIZE && head <= ZEN_LINE);
	memset(line, 0, sizeof(line));
	line[0] = cts;
	line[1] = word1;
	if (tuple)
		memcpy((char *) line + prefix, rest, Min(size, sizeof(line)) - prefix);
	body->len = mark != 0 ? mark : (uint16) len;
	body->xmin_low = (uint16) xmin;
	body->xmin_high = (uint16) (xmin >> 16);
	body->crc = tuple_crc(cts, word1, body, len, rest);

	ZEN_TELL(written, slot, size);
	if (zen_tuple_is_near(zen_tuple_header(slot), cts))
	{
		ZEN_TELL(vanishing, slot);
		ZEN_TELL(vanish, 0, 0);
		zen_tuple_scrub(slot);
		zen_order();
		ZEN_TELL(done);
	}
	store_wrongly(dst, line, head);
	/* R6: in this order */
	for (Size i = 0; i < head / sizeof(uint64); i++)
		zen_nvm_store64(&dst[i], line[i]);
	if (size > head)
		copy_behind_line((char *) dst, (char *) line, rest, head, size);
	/* readers and recovery take the slot, as it was written, for a version */
	Assert(zen_tuple_intact(slot, size));
	ZEN_COUNT(slots_written, 1);
	ZEN_COUNT(bytes_written, size);
	if (unlikely(zen_numa_nodes > 1))
		zen_numa_count_row(zen_numa_here(), zen_pool_file_of(zen_slot_page(slot))->place,
						   (size + ZEN_LINE - 1) / ZEN_LINE);
	*head_size = head;
	return size;
}

void
zen_tuple_write(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin, const MinimalTupleData *tuple,
				bool flush_header)
{
	Size		head;
	Size		size = store_tuple(slot, cts, word1, xmin, tuple, tuple ? tuple->t_len : 0, 0, &head);
	Size		from = flush_header ? 0 : head;

	if (size > from && !ZEN_FAULT(R2_NO_BODY_FLUSH))
		zen_flush((char *) zen_slot_ptr(slot) + from, size - from);
}

void
zen_tuple_write_among(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin, const MinimalTupleData *tuple,
					  ZenFlushRange *pending)
{
	Size		head;
	Size		size = store_tuple(slot, cts, word1, xmin, tuple, tuple ? tuple->t_len : 0, 0, &head);

	if (!ZEN_FAULT(R2_NO_BODY_FLUSH))
		zen_flush_later(pending, zen_slot_ptr(slot), size);
}

void
zen_tuple_write_delta(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin, const ZenDelta *delta,
					  ZenFlushRange *pending)
{
	Size		head,
				size;

	Assert(delta->mark == ZEN_DELTA_MARK);
	size = store_tuple(slot, cts, word1, xmin, delta, delta->bytes, ZEN_DELTA_MARK, &head);
	if (ZEN_FAULT(R2_NO_BODY_FLUSH))
		return;
	if (pending != NULL)
		zen_flush_later(pending, zen_slot_ptr(slot), size);
	else if (size > head)
		zen_flush((char *) zen_slot_ptr(slot) + head, size - head);
}

void
zen_tuple_set_lp(ZenSlot slot)
{
	uint64	   *word0 = zen_slot_ptr(slot);

	Assert(*word0 != 0 && ((*word0 & ZEN_LP) == 0 || ZEN_FAULT(R2_LP_FIRST)));
	zen_nvm_store64(word0, *word0 | ZEN_LP);
	if (!ZEN_FAULT(R2_NO_LP_FLUSH))
		zen_flush(word0, sizeof(*word0));
}

void
zen_tuple_clear_lp(ZenSlot slot)
{
	uint64	   *word0 = zen_slot_ptr(slot);

	Assert((*word0 & ZEN_CTS_MASK) != 0);
	zen_nvm_store64(word0, *word0 & ~ZEN_LP);
	zen_persist(word0, sizeof(*word0));
}

/*
 * After the first of the two stores that reaches the medium the slot is void: without a Tx-CTS, or with a body of no
 * length.
 */
void
zen_tuple_scrub(ZenSlot slot)
{
	uint64	   *word0 = zen_slot_ptr(slot);

	zen_nvm_store64(word0, 0);
	if (!ZEN_FAULT(R7_BODY_STAYS))
		zen_nvm_store64(body_word(slot), ZEN_SCRUBBED);
	zen_flush(word0, ZEN_HEADER_SIZE + sizeof(uint64));
	Assert(zen_tuple_is_void(slot) || ZEN_FAULT(R7_BODY_STAYS));
}

void
zen_tuple_vanish(ZenSlot slot, uint32 region)
{
	ZEN_TELL(vanishing, slot);
	ZEN_TELL(vanish, region, 0);
	zen_tuple_scrub(slot);
	zen_fence();
	ZEN_TELL(done);
}

bool
zen_tuple_is_void(ZenSlot slot)
{
	return zen_nvm_load64(body_word(slot)) == ZEN_SCRUBBED;
}

bool
zen_tuple_has_body(ZenSlot slot)
{
	return zen_nvm_load64(body_word(slot)) != 0;
}

/* May a version have this length? */
static inline bool
len_fits(uint32 len, bool deleted)
{
	return deleted ? len == 0 || len == sizeof(ZenTombstone) : len >= SizeofMinimalTupleHeader;
}

/* A slot whose header is in question. */
typedef struct Questioned
{
	const char *body;
	Size		slot_size;
} Questioned;

/* Would the slot be intact with this header?  It may be written during the call: so its length is read only once. */
static bool
header_fits(const void *image, const void *questioned)
{
	const ZenTupleHeader *h = image;
	const Questioned *q = questioned;
	ZenTupleBody body;
	uint32		bytes;

	memcpy(&body, q->body, sizeof(body));
	bytes = zen_body_bytes(&body);
	return len_fits(bytes, (h->word1 & ZEN_DELETED) != 0) && zen_tuple_size(bytes) <= q->slot_size &&
		body.crc == tuple_crc(h->word0 & ZEN_CTS_MASK, h->word1, &body, bytes, q->body + ZEN_BODY_PREFIX);
}

static inline Questioned
question(ZenSlot slot, Size slot_size)
{
	Questioned	q = {.body = (const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE,.slot_size = slot_size};

	return q;
}

/* ---------- slots that get another Tx-CTS ---------- */

/* How many slots were restamped before the look that follows. */
static uint64
restamps_before(void)
{
	uint64		n = pg_atomic_read_u64(&restamps->finished);

	pg_read_barrier();			/* pairs with zen_tuple_restamp */
	return n;
}

/*
 * Since then, may a slot have been seen between the two stores?  A restamp that was seen so had begun, and was none of
 * those that had finished before.
 */
static bool
was_restamped(uint64 before)
{
	pg_read_barrier();			/* pairs with zen_tuple_restamp */
	if (pg_atomic_read_u64(&restamps->begun) == before)
		return false;
	pg_spin_delay();
	return true;
}

static bool
tuple_is_intact(ZenSlot slot, Size slot_size)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	Questioned	q = question(slot, slot_size);

	return header_fits(&h, &q);
}

bool
zen_tuple_intact(ZenSlot slot, Size slot_size)
{
	uint64		before;

	if (tuple_is_intact(slot, slot_size))
		return true;
	do
	{
		before = restamps_before();
		if (tuple_is_intact(slot, slot_size))
			return true;
	} while (was_restamped(before));
	return false;
}

bool
zen_tuple_repairable(ZenSlot slot, Size slot_size, ZenTupleHeader *h)
{
	Questioned	q = question(slot, slot_size);

	*h = zen_tuple_header(slot);
	return zen_repair_bit(h, sizeof(*h), header_fits, &q);
}

void
zen_tuple_repair(ZenSlot slot, ZenTupleHeader h)
{
	ZenTupleHeader *nvm = zen_slot_ptr(slot);

	/* only one of them differs, so this is one store */
	Assert(zen_one_bit(h.word0 ^ nvm->word0) ? h.word1 == nvm->word1 :
		   h.word0 == nvm->word0 && zen_one_bit(h.word1 ^ nvm->word1));
	if (h.word0 != nvm->word0)
		zen_nvm_store64(&nvm->word0, h.word0);
	else
		zen_nvm_store64(&nvm->word1, h.word1);
	zen_persist(nvm, sizeof(*nvm));
}

int64
zen_tuple_odd_len(ZenSlot slot, Size slot_size)
{
	const ZenDelta *d = (const ZenDelta *) zen_tuple_body(slot);

	if (slot_size < ZEN_HEADER_SIZE + sizeof(*d) || d->mark != ZEN_DELTA_MARK ||
		d->bytes < sizeof(*d) || ZEN_HEADER_SIZE + d->bytes > slot_size ||
		d->len < SizeofMinimalTupleHeader || d->len > ZEN_PAGE_SIZE - 64)
		return -1;
	return d->len;
}

static bool
read_once(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin)
{
	ZenTupleHeader h = zen_tuple_header(slot);
	const char *src = (const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE;
	ZenTupleBody body;

	/*
	 * one copy, checked as copied: the slot belongs to readers until they
	 * have left
	 */
	Assert(len > ZEN_BODY_PREFIX);
	memcpy(&body, src, ZEN_BODY_PREFIX);
	if (body.len != len)
		return false;
	memcpy((char *) buf + ZEN_BODY_PREFIX, src + ZEN_BODY_PREFIX, len - ZEN_BODY_PREFIX);
	if (body.crc != tuple_crc(h.word0 & ZEN_CTS_MASK, h.word1, &body, len, (char *) buf + ZEN_BODY_PREFIX))
		return false;
	buf->t_len = len;
	memset(buf->mt_padding, 0, sizeof(buf->mt_padding));
	if (xmin != NULL)
		*xmin = zen_body_xmin(&body);
	return true;
}

bool
zen_tuple_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin)
{
	uint64		before;

	zen_tuple_count_read(slot, len);
	if (read_once(slot, buf, len, xmin))
		return true;
	do
	{
		before = restamps_before();
		if (read_once(slot, buf, len, xmin))
			return true;
	} while (was_restamped(before));
	return false;
}

uint64
zen_tuple_link(ZenSlot slot, Size slot_size)
{
	ZenTombstone tombstone = {0};

	if (zen_tuple_len(slot, slot_size) != sizeof(tombstone) ||
		!zen_tuple_read(slot, (MinimalTuple) &tombstone, sizeof(tombstone), NULL))
		return 0;
	return zen_tombstone_link(&tombstone);
}

void
zen_tuple_restamp(ZenSlot slot, uint64 cts)
{
	ZenTupleHeader *h = zen_slot_ptr(slot);
	ZenTupleBody *body = (ZenTupleBody *) ((char *) h + ZEN_HEADER_SIZE);
	ZenTupleBody copy;
	uint64		word;

	Assert(cts != 0 && (cts & ZEN_LP) == 0);
	Assert((h->word0 & ZEN_CTS_MASK) != 0 && (h->word0 & ZEN_LP) == 0);
	/* a delta is not spilled, and not prepared */
	Assert(body->len != ZEN_DELTA_MARK);
	memcpy(&copy, body, ZEN_BODY_PREFIX);
	copy.crc = tuple_crc(cts, h->word1, &copy, copy.len, (const char *) body + ZEN_BODY_PREFIX);
	memcpy(&word, &copy, sizeof(word));
	ZEN_TELL(written, slot, zen_tuple_size(copy.len));
	if (!ZEN_FAULT(RESTAMP_UNTOLD))
		pg_atomic_fetch_add_u64(&restamps->begun, 1);	/* a full barrier; pairs
														 * with was_restamped */
	zen_nvm_store64(&h->word0, cts);
	if (ZEN_FAULT(RESTAMP_SLOWLY) || ZEN_FAULT(RESTAMP_UNTOLD))
		pg_usleep(1000L);
	zen_nvm_store64((uint64 *) body, word);
	if (!ZEN_FAULT(RESTAMP_UNTOLD))
		pg_atomic_fetch_add_u64(&restamps->finished, 1);	/* with restamps_before */
	zen_flush(h, ZEN_HEADER_SIZE + sizeof(word));
	Assert(zen_tuple_intact(slot, zen_tuple_size(copy.len)));
}

bool
zen_tuple_equals(ZenSlot slot, Size slot_size, const MinimalTupleData *tuple)
{
	const char *src = (const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE;
	int64		len = zen_tuple_len(slot, slot_size);

	if (tuple == NULL)
		return len >= 0 && len_fits((uint32) len, true);
	return len == tuple->t_len &&
		memcmp(src + ZEN_BODY_PREFIX, (const char *) tuple + ZEN_BODY_PREFIX, len - ZEN_BODY_PREFIX) == 0;
}
