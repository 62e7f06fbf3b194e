/*
 * rowlook.c -- looks at the rows of a block where they are, in DRAM and in NVM: nothing is copied.
 *
 * Only rows that every snapshot sees are looked at so (src/row/README, "Rows in place").
 */
#include "row/rowlook.h"

#include "access/tupmacs.h"
#include "base/fault.h"
#include "cache/version.h"
#include "nvm/delta.h"
#include "nvm/slotread.h"
#include "port/pg_bitutils.h"
#include "row/rowahead.h"
#include "row/rowread.h"
#include "utils/memutils.h"

#define PREFETCH_LOOK	2		/* lines of a row that zen_row_look_block()
								 * shows */
#define LOOK_AHEAD		16		/* rows that are asked for before one is
								 * looked at */

/* The row that a word leads to, where it is, if every snapshot sees it. */
static inline const MinimalTupleData *
row_in_place(uint64 w, bool believe)
{
	if (zen_word_state(w) == ZEN_WORD_NVM)
		return zen_slot_look(zen_word_ref(w), believe);
	if (zen_word_state(w) == ZEN_WORD_ENTRY && zen_version_is_frozen_row(zen_word_entry(w)))
		return (const MinimalTupleData *) zen_word_entry(w)->data;
	return NULL;
}

static inline bool
leads_to_row(uint64 w)
{
	return zen_word_state(w) == ZEN_WORD_NVM || zen_word_state(w) == ZEN_WORD_ENTRY ||
		zen_word_state(w) == ZEN_WORD_SPILLED;
}

uint64
zen_row_look_block(ZenHTable *ht, uint64 block, bool believe, ZenRowLook look, void *arg, uint64 *apart)
{
	HeapTupleData tuple = {0};
	uint64		found = 0;
	ZenWord    *words;

	*apart = 0;
	zen_epoch_enter();
	words = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK);
	if (words != NULL)
		zen_row_ask_disk(words, PG_UINT64_MAX);
	for (int i = 0; words != NULL && i < ZEN_TIDS_PER_BLOCK + LOOK_AHEAD; i++)
	{
		const MinimalTupleData *row;
		uint64		w;

		if (i < ZEN_TIDS_PER_BLOCK)
			zen_row_prefetch_word(zen_word_read(&words[i]), PREFETCH_LOOK);
		if (i < LOOK_AHEAD)
			continue;
		w = zen_word_read(&words[i - LOOK_AHEAD]);
		row = row_in_place(w, believe);
		if (row != NULL)
		{
			tuple.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
			look(i - LOOK_AHEAD, &tuple, arg);
			found |= UINT64CONST(1) << (i - LOOK_AHEAD);
		}
		else if (leads_to_row(w))
			*apart |= UINT64CONST(1) << (i - LOOK_AHEAD);
	}
	zen_epoch_leave();
	return found;
}

/* ---------- a whole block ---------- */

/* The rows of a block, where they are. */
typedef struct InPlace
{
	uint32		hits;			/* in DRAM */
	uint32		misses;			/* in NVM */
	Size		wants;			/* room for so many bytes to build rows in */
	HeapTupleData rows[ZEN_TIDS_PER_BLOCK]; /* unless only their number is
											 * wanted */
} InPlace;

/*
 * Room for the starts of a block's rows of which only what has changed is in their slots: what a reader of so many
 * lines looks at.  Columns begin behind t_hoff.
 */
static char *room = NULL;
static Size room_size = 0;

static inline uint32
bytes_of_start(int lines)
{
	return (uint32) MAXALIGN(lines * ZEN_LINE - ZEN_HEADER_SIZE + PG_UINT8_MAX);
}

/* Build the start of such a row in a buffer of bytes_of_start(lines) bytes; false if it is damaged, or whole. */
static bool
build_lines(ZenSlot slot, MinimalTuple row, int lines)
{
	uint32		bytes = (uint32) (lines * ZEN_LINE - ZEN_HEADER_SIZE);

	return zen_slot_build_start(slot, row, bytes) &&
		(likely(row->t_hoff <= MAXALIGN(SizeofHeapTupleHeader)) ||
		 zen_slot_build_start(slot, row, bytes + row->t_hoff - MAXALIGN(SizeofHeapTupleHeader)));
}

/* The start of a block's row, in the room.  NULL: there is too little of it now, or the row is damaged. */
static const MinimalTupleData *
start_of_row(InPlace *p, ZenSlot slot, int lines)
{
	uint32		most = bytes_of_start(lines);
	MinimalTuple row = (MinimalTuple) (room + (p->hits + p->misses) * most);

	p->wants = ZEN_TIDS_PER_BLOCK * most;
	return p->wants <= room_size && build_lines(slot, row, lines) ? row : NULL;
}

/* The last block has wanted more room than there was: the next one finds it.  Outside the epoch. */
static void
give_room(Size wanted)
{
	if (room != NULL)
		pfree(room);
	room = NULL;
	room_size = 0;
	room = MemoryContextAlloc(TopMemoryContext, wanted);
	room_size = wanted;
}

/* Note a row in a slot; false if it is damaged. */
static inline bool
note_slot(InPlace *p, ZenSlot slot, int lines)
{
	const MinimalTupleData *row;

	if (lines == 0)
	{
		p->misses++;
		return zen_slot_is_sound(slot);
	}
	row = zen_slot_look(slot, false);
	if (unlikely(row == NULL))
		row = start_of_row(p, slot, lines);
	if (row == NULL)
		return false;
	zen_tuple_count_read(slot, lines * ZEN_LINE - ZEN_HEADER_SIZE);
	p->rows[p->hits + p->misses++].t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
	return true;
}

/* Note the row that a word leads to, if there is one; false if there may be one that cannot be seen in place. */
static inline bool
note_row(InPlace *p, uint64 w, int lines)
{
	switch (zen_word_state(w))
	{
		case ZEN_WORD_NVM:
			return note_slot(p, zen_word_ref(w), lines);
		case ZEN_WORD_ENTRY:
			if (!zen_version_is_frozen_row(zen_word_entry(w)))
				return false;
			if (lines > 0)
				p->rows[p->hits + p->misses].t_data =
					(HeapTupleHeader) (zen_word_entry(w)->data - MINIMAL_TUPLE_OFFSET);
			p->hits++;
			return true;
		case ZEN_WORD_SPILLED:
			return false;
		default:
			return true;
	}
}

/* Ask for what a row's reader looks at: the line with the flags of a version, and so many lines of the row. */
static inline void
ask_for_row(uint64 w, int lines)
{
	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		zen_row_prefetch_word(w, 1 + lines);
	else
		zen_row_prefetch_word(w, lines);
}

/* What has changed of a row has come: ask for the start of its base. */
static inline void
ask_for_base(uint64 w, int lines)
{
	if (zen_word_state(w) == ZEN_WORD_NVM && unlikely(zen_pages[zen_slot_page(zen_word_ref(w))].deltas))
		zen_delta_ask_base(zen_word_ref(w), lines);
}

/* Inside the epoch: note all rows of a block; false if one of them cannot be seen in place. */
static bool
note_block(InPlace *p, ZenWord *words, int lines)
{
	for (int i = 0; i < LOOK_AHEAD; i++)
		ask_for_row(zen_word_read(&words[i]), lines);
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		if (i + LOOK_AHEAD < ZEN_TIDS_PER_BLOCK)
			ask_for_row(zen_word_read(&words[i + LOOK_AHEAD]), lines);
		if (i + LOOK_AHEAD / 2 < ZEN_TIDS_PER_BLOCK)
			ask_for_base(zen_word_read(&words[i + LOOK_AHEAD / 2]), lines);
		if (!note_row(p, zen_word_read(&words[i]), lines))
			return false;
	}
	return true;
}

int
zen_row_view_block(ZenHTable *ht, uint64 block, const ZenRowView *view)
{
	InPlace		p;
	ZenWord    *words;
	bool		done;

	p.hits = p.misses = 0;
	p.wants = 0;
	zen_epoch_enter();
	words = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK);
	if (words != NULL && view->lines > 0)
		zen_row_ask_disk(words, PG_UINT64_MAX);
	done = words == NULL || note_block(&p, words, view->lines);
	if (ZEN_FAULT(S2_NO_WAIT))
		pg_usleep(20000L);
	if (done && view->lines > 0)
		done = view->use(p.rows, (int) (p.hits + p.misses), view->arg);
	zen_epoch_leave();
	if (unlikely(p.wants > room_size))
		give_room(p.wants);
	if (!done)
		return -1;
	zen_row_count_scanned(ht, p.hits, p.misses);
	return (int) (p.hits + p.misses);
}

/* ---------- the first columns of a whole block ---------- */

/* The lines that the widest columns have, behind the longest prefix. */
#define MAX_LINES_OF_COLUMNS \
	((ZEN_HEADER_SIZE + MAXALIGN(SizeofMinimalTupleHeader) + ZEN_MAX_ROW_COLUMNS * sizeof(Datum)) / ZEN_LINE + 1)

/* Read the columns of a row that has NULLs. */
static pg_noinline void
read_with_nulls(ZenRowColumns *c, int i, HeapTupleHeader h)
{
	Datum	   *values = &c->values[i * c->natts];
	char	   *data = (char *) h + h->t_hoff;
	Size		offset = 0;

	for (int a = 0; a < c->natts; a++)
	{
		const ZenRowColumn *column = &c->columns[a];

		values[a] = (Datum) 0;
		if (att_isnull(a, h->t_bits))
		{
			c->nulls[i] |= 1 << a;
			continue;
		}
		offset = att_align_nominal(offset, column->align);
		values[a] = fetch_att(data + offset, true, column->len);
		offset += column->len;
	}
}

/* Read the columns of a row; false if the row is older than one of them. */
static inline bool
read_columns(ZenRowColumns *c, int i, HeapTupleHeader h)
{
	Datum	   *values = &c->values[i * c->natts];
	char	   *data = (char *) h + h->t_hoff;

	if (unlikely(HeapTupleHeaderGetNatts(h) < c->natts))
		return false;
	c->nulls[i] = 0;
	if (unlikely((h->t_infomask & HEAP_HASNULL) != 0))
	{
		read_with_nulls(c, i, h);
		return true;
	}
	for (int a = 0; a < c->natts; a++)
		values[a] = fetch_att(data + c->columns[a].offset, true, c->columns[a].len);
	return true;
}

/* The start of a row of which only what has changed is in its slot, until the next one is asked for; or NULL. */
static pg_noinline const MinimalTupleData *
start_for_columns(ZenSlot slot, int lines)
{
	static union
	{
		Datum		aligned;
		MinimalTupleData row;
		char		bytes[MAX_LINES_OF_COLUMNS * ZEN_LINE + PG_UINT8_MAX];
	}			start;

	Assert(bytes_of_start(lines) <= sizeof(start));
	return build_lines(slot, &start.row, lines) ? &start.row : NULL;
}

/* Inside the epoch: read the row in a slot; false if it cannot be read here. */
static inline bool
columns_of_slot(ZenRowColumns *c, int i, ZenSlot slot, int lines)
{
	const MinimalTupleData *row = zen_slot_look(slot, false);

	if (unlikely(row == NULL))
		row = start_for_columns(slot, lines);
	if (row == NULL)
		return false;
	zen_tuple_count_read(slot, lines * ZEN_LINE - ZEN_HEADER_SIZE);
	c->codes[i] = zen_word1_code(zen_tuple_header(slot).word1);
	return read_columns(c, i, (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET));
}

/* The same of a version.  If no column is wanted, its header tells all. */
static inline bool
columns_of_entry(ZenRowColumns *c, int i, ZenVersion *v)
{
	if (!zen_version_is_frozen_row(v))
		return false;
	c->codes[i] = v->code;
	if (c->natts > 0)
		return read_columns(c, i, (HeapTupleHeader) (v->data - MINIMAL_TUPLE_OFFSET));
	c->nulls[i] = 0;
	return true;
}

/* How many lines of a row have the columns. */
static inline int
lines_of_columns(const ZenRowColumns *c)
{
	const Size	before = ZEN_HEADER_SIZE + MAXALIGN(SizeofMinimalTupleHeader);
	const ZenRowColumn *last;

	if (c->natts == 0)
		return 0;
	last = &c->columns[c->natts - 1];
	return (int) ((before + last->offset + last->len + ZEN_LINE - 1) / ZEN_LINE);
}

/* Inside the epoch: read a block; false if one of its rows cannot be read here. */
static bool
columns_of_block(ZenRowColumns *c, ZenWord *words, uint32 *hits, uint32 *misses)
{
	const int	lines = lines_of_columns(c);

	for (int i = 0; i < LOOK_AHEAD; i++)
		ask_for_row(zen_word_read(&words[i]), lines);
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
	{
		uint64		w = zen_word_read(&words[i]);

		if (i + LOOK_AHEAD < ZEN_TIDS_PER_BLOCK)
			ask_for_row(zen_word_read(&words[i + LOOK_AHEAD]), lines);
		if (i + LOOK_AHEAD / 2 < ZEN_TIDS_PER_BLOCK)
			ask_for_base(zen_word_read(&words[i + LOOK_AHEAD / 2]), lines);
		switch (zen_word_state(w))
		{
			case ZEN_WORD_ENTRY:
				if (!columns_of_entry(c, i, zen_word_entry(w)))
					return false;
				(*hits)++;
				break;
			case ZEN_WORD_NVM:
				if (!columns_of_slot(c, i, zen_word_ref(w), Max(lines, 1)))
					return false;
				(*misses)++;
				break;
			case ZEN_WORD_SPILLED:
				return false;
			default:
				continue;
		}
		c->found |= UINT64CONST(1) << i;
	}
	return true;
}

bool
zen_row_read_columns(ZenHTable *ht, uint64 block, ZenRowColumns *columns)
{
	uint32		hits = 0,
				misses = 0;
	ZenWord    *words;
	bool		done;

	Assert(columns->natts >= 0 && columns->natts <= ZEN_MAX_ROW_COLUMNS);
	columns->found = 0;
	zen_epoch_enter();
	words = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK);
	if (words != NULL)
		zen_row_ask_disk(words, PG_UINT64_MAX);
	done = words == NULL || columns_of_block(columns, words, &hits, &misses);
	if (ZEN_FAULT(S2_NO_WAIT))
		pg_usleep(20000L);
	zen_epoch_leave();
	if (done)
		zen_row_count_scanned(ht, hits, misses);
	return done;
}

bool
zen_row_read_columns_of(ZenHTable *ht, uint64 tidno, ZenRowColumns *columns)
{
	bool		done = false;
	ZenWord    *word;
	uint64		w;

	columns->found = 1;
	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	w = word != NULL ? zen_word_read(word) : 0;
	if (zen_word_state(w) == ZEN_WORD_ENTRY)
		done = columns_of_entry(columns, 0, zen_word_entry(w));
	if (done)
		zen_version_touch(zen_word_entry(w), zen_sketch_age());
	zen_epoch_leave();
	if (done)
		zen_row_count_point(ht);
	return done;
}
