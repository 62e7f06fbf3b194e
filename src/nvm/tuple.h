/*
 * tuple.h -- the NVM-tuple: form it, write it, commit it, scrub it, read it.
 *
 * Nothing here throws or waits.
 */
#ifndef ZEN_TUPLE_H
#define ZEN_TUPLE_H

#include "base/fault.h"
#include "base/numa.h"
#include "base/startup.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/repair.h"

#include "access/htup_details.h"

/* zen_tuple_shmem -- its part of shared memory. */
extern const ZenShmem zen_tuple_shmem;

/* word1 of a version of logical tuple tidno (block * 64 + offset - 1) with a version code */
#define ZEN_TIDS_PER_BLOCK	64
#define ZEN_MAX_CODE		1022	/* code * 64 + 64 stays below the special
									 * offsets 0xfffd.. */

static inline uint64
zen_word1(uint32 htable, uint64 tidno, uint32 code, bool deleted)
{
	uint64		block = tidno / ZEN_TIDS_PER_BLOCK;
	uint64		offset = tidno % ZEN_TIDS_PER_BLOCK + 1 + (uint64) code * ZEN_TIDS_PER_BLOCK;

	Assert(htable < ZEN_MAX_HTABLES && code <= ZEN_MAX_CODE);
	Assert(block <= PG_UINT32_MAX && offset <= ZEN_OFFSET_MASK);
	return (deleted ? ZEN_DELETED : 0) | ((uint64) htable << ZEN_HTABLE_SHIFT) | (block << ZEN_BLOCK_SHIFT) | offset;
}

static inline uint32
zen_word1_htable(uint64 word1)
{
	return (uint32) (word1 >> ZEN_HTABLE_SHIFT) & (ZEN_MAX_HTABLES - 1);
}

static inline uint64
zen_word1_tidno(uint64 word1)
{
	uint64		block = (word1 >> ZEN_BLOCK_SHIFT) & PG_UINT32_MAX;
	uint64		offset = word1 & ZEN_OFFSET_MASK;

	return block * ZEN_TIDS_PER_BLOCK + (offset - 1) % ZEN_TIDS_PER_BLOCK;
}

static inline uint32
zen_word1_code(uint64 word1)
{
	return (uint32) (((word1 & ZEN_OFFSET_MASK) - 1) / ZEN_TIDS_PER_BLOCK);
}

/* The body of a tombstone that says where the row has gone. */
static inline ZenTombstone
zen_tombstone(uint64 link)
{
	ZenTombstone t = {.len = sizeof(ZenTombstone)};

	Assert((link & ~ZEN_TID_MASK) == 0);
	for (int i = 0; i < 3; i++)
		t.link[i] = (uint16) (link >> (16 * i));
	return t;
}

/*
 * Where a row has gone.  The version code there is 0, so its place says whether the key has stayed the same: 1 if it
 * has.  A link of 0 may be that of an earlier zen, which did not note it.
 */
static inline uint64
zen_link(uint64 tidno, bool keeps_key)
{
	return zen_word1(0, tidno, keeps_key ? 1 : 0, false);
}

/* Does a link say under which TID the row goes on? */
static inline bool
zen_link_leads_on(uint64 link)
{
	return link != 0 && link != ZEN_LINK_MOVED;
}

static inline bool
zen_link_keeps_key(uint64 link)
{
	return zen_link_leads_on(link) && zen_word1_code(link) == 1;
}

static inline uint64
zen_tombstone_link(const ZenTombstone *t)
{
	return t->link[0] | (uint64) t->link[1] << 16 | (uint64) t->link[2] << 32;
}

/*
 * Bytes of the body before the part that is copied from the MinimalTuple; the whole body of a tombstone without a link.
 */
#define ZEN_BODY_PREFIX		offsetof(ZenTupleBody, infomask2)

/*
 * Bytes of a version's body in its slot.  Of a damaged one they may be anything.
 */
static inline uint32
zen_body_bytes(const ZenTupleBody *body)
{
	return likely(body->len != ZEN_DELTA_MARK) ? body->len : body->infomask2;
}

static inline const ZenTupleBody *
zen_tuple_body(ZenSlot slot)
{
	return (const ZenTupleBody *) ((const char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);
}

/* Does the slot hold a version that has only what changed? */
static inline bool
zen_tuple_is_delta(ZenSlot slot)
{
	return zen_tuple_body(slot)->len == ZEN_DELTA_MARK;
}

/* Bytes that a version whose MinimalTuple has len bytes takes in its slot; len 0 = tombstone. */
static inline Size
zen_tuple_size(uint32 len)
{
	return ZEN_HEADER_SIZE + (len == 0 ? ZEN_BODY_PREFIX : len);
}

static inline ZenTupleHeader
zen_tuple_header(ZenSlot slot)
{
	ZenTupleHeader *h = zen_slot_ptr(slot);
	ZenTupleHeader copy;

	copy.word0 = zen_nvm_load64(&h->word0);
	copy.word1 = zen_nvm_load64(&h->word1);
	return copy;
}

/*
 * Does this Tx-CTS differ in one bit only from the one in a header, or from none?  Written over that header it would
 * have the slot scrubbed first, which costs a fence: a writer that can takes another one.
 */
static inline bool
zen_tuple_is_near(ZenTupleHeader former, uint64 cts)
{
	return zen_one_bit((former.word0 ^ cts) & ZEN_CTS_MASK) && !ZEN_FAULT(R6_NEAR_CTS);
}

/*
 * zen_tuple_write -- write a version with LP = 0, header first (R6).
 *
 * tuple is NULL for a tombstone without a link.  All its lines are flushed, except the first when flush_header is
 * false: the caller will set LP in it and flush it then (R2).  Not fenced.
 *
 * zen_tuple_write_among -- the same for one of many versions: its lines are flushed with those of its neighbours, by
 * zen_flush_pending() of that range at the latest.
 */
extern void zen_tuple_write(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin,
							const MinimalTupleData *tuple, bool flush_header);
extern void zen_tuple_write_among(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin,
								  const MinimalTupleData *tuple, ZenFlushRange *pending);

/*
 * zen_tuple_write_delta -- the same for a version that holds only what changed, as zen_delta_make() has made it.  The
 * caller has told zen_page_has_deltas().  With pending like zen_tuple_write_among(), with NULL like zen_tuple_write()
 * without its first line.
 */
extern void zen_tuple_write_delta(ZenSlot slot, uint64 cts, uint64 word1, TransactionId xmin,
								  const ZenDelta *delta, ZenFlushRange *pending);

/* zen_tuple_set_lp -- the commit point: set LP by one store and flush that line (the caller fences). */
extern void zen_tuple_set_lp(ZenSlot slot);

/* zen_tuple_clear_lp -- undo zen_tuple_set_lp; durable on return. */
extern void zen_tuple_clear_lp(ZenSlot slot);

/*
 * zen_tuple_scrub -- make the slot empty, and its body one that no Tx-CTS fits (R7); flushed, not fenced.
 *
 * zen_tuple_vanish -- the same to a slot of the caller's region that nothing in NVM tells of: so the sink is told
 * before.  Durable on return.
 *
 * zen_tuple_is_void -- was the slot scrubbed, or begun to be, and not written since?
 *
 * zen_tuple_has_body -- may there be a body, scrubbed or not, in a slot without a Tx-CTS?
 */
extern void zen_tuple_scrub(ZenSlot slot);
extern void zen_tuple_vanish(ZenSlot slot, uint32 region);
extern bool zen_tuple_is_void(ZenSlot slot);
extern bool zen_tuple_has_body(ZenSlot slot);

/* Of a delta, whose length is that of the whole row; -1 for any other length that does not fit. */
extern int64 zen_tuple_odd_len(ZenSlot slot, Size slot_size);

/*
 * zen_tuple_len -- length of the version's MinimalTuple; of a tombstone 0 or, with a link, that of a ZenTombstone.
 * -1 if it cannot fit.
 */
static inline int64
zen_tuple_len(ZenSlot slot, Size slot_size)
{
	ZenTupleBody *body = (ZenTupleBody *) ((char *) zen_slot_ptr(slot) + ZEN_HEADER_SIZE);
	uint32		len = body->len;

	Assert(slot_size >= ZEN_TOMBSTONE_SIZE && slot_size <= ZEN_PAGE_SIZE);
	if (len != 0 && (len < SizeofMinimalTupleHeader || zen_tuple_size(len) > slot_size))
		return zen_tuple_odd_len(slot, slot_size);
	return len;
}

/*
 * zen_tuple_intact -- do length, Deleted bit and CRC of the version in a slot fit each other?  A delta's base is not
 * looked at (nvm/delta.h).
 *
 * zen_tuple_repairable -- it does not: does one flipped bit of the header explain that?  *h: the header that it was.
 *
 * zen_tuple_repair -- write that header, durably.
 */
extern bool zen_tuple_intact(ZenSlot slot, Size slot_size);
extern bool zen_tuple_repairable(ZenSlot slot, Size slot_size, ZenTupleHeader *h);
extern void zen_tuple_repair(ZenSlot slot, ZenTupleHeader h);

/*
 * zen_tuple_read -- copy the MinimalTuple (len bytes, as zen_tuple_len said) into buf and check its CRC.  Not of a
 * delta: zen_whole_read().
 *
 * *xmin, if not NULL: the writer's xid as the system column shows it.  Returns false when the check fails: the caller
 * reports ERRCODE_DATA_CORRUPTED.
 */
extern bool zen_tuple_read(ZenSlot slot, MinimalTuple buf, uint32 len, TransactionId *xmin);

/* zen_tuple_count_read -- a row of that length is read; for callers that read it by other means. */
static inline void
zen_tuple_count_read(ZenSlot slot, uint32 len)
{
	if (unlikely(zen_numa_nodes > 1))
		zen_numa_count_read(zen_pool_file_of(zen_slot_page(slot))->place,
							(ZEN_HEADER_SIZE + len + ZEN_LINE - 1) / ZEN_LINE);
}

static inline TransactionId
zen_body_xmin(const ZenTupleBody *body)
{
	return ((TransactionId) body->xmin_high << 16) | body->xmin_low;
}

/* zen_tuple_link -- where a tombstone says that its row has gone (ZenTombstone); 0: nowhere. */
extern uint64 zen_tuple_link(ZenSlot slot, Size slot_size);

/*
 * zen_tuple_restamp -- give a version that is not committed another Tx-CTS; flushed, not fenced.  Lease holder.
 *
 * Readers of uncommitted versions may meet the slot between the two stores: zen_tuple_read() and zen_tuple_intact()
 * look again.
 */
extern void zen_tuple_restamp(ZenSlot slot, uint64 cts);

/* zen_tuple_equals -- is its MinimalTuple this one (NULL: it is a tombstone, with or without a link)? */
extern bool zen_tuple_equals(ZenSlot slot, Size slot_size, const MinimalTupleData *tuple);

#endif							/* ZEN_TUPLE_H */
