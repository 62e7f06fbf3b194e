/*
 * log.c -- redo logs in NVM.
 *
 * A record is proved by its CRC, so one fence makes it durable, and nothing else need be written.  Records begin on a
 * line of their own, if the design does not say otherwise: a line that was just flushed is not flushed again.
 *
 * Ring: settings.threads rings of segments that each hold the largest record.  The segment with the largest tag
 * has the last record.
 *
 * Halves: each thread has two.  All write into that of the current epoch.  The gleaner begins a new epoch, waits
 * until nobody is writing in the old one, sorts what all threads have logged in it, applies it, and makes it durable
 * that this epoch is done; then its halves are empty.  A transaction takes its epoch and its Tx-CTS while it holds its
 * rows, so that of two that conflict the later one has neither smaller.  Applying twice does no harm.
 */
#include "log.h"

#include <sched.h>
#include <unistd.h>

#include "port/pg_crc32c.h"

static __thread char *image;	/* of a record */
static __thread Size image_size;

static uint32
record_crc(const LogRecord *r)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &r->len, r->len - offsetof(LogRecord, len));
	FIN_CRC32C(crc);
	return crc;
}

static bool
logs_whole(void)
{
	return settings.log_whole || design->log_whole;
}

Size
log_max_record(void)
{
	return logs_whole() ? settings.max_whole_record : settings.max_record;
}

/* A row's bytes in a record: the changed ones, or all of the new row. */
static char *
form_entry(int thread, char *at, const Write *w, bool insert_data)
{
	LogEntry	e = {.row = w->row,.kind = w->kind,.offset = w->offset};
	bool		whole = w->kind == WRITE_UPDATE && logs_whole();
	char	   *data = at + sizeof(e);

	if (whole)
	{
		e.offset = 0;
		e.len = table_of(w->row)->size;
		design->read(thread, w->row, data);
		apply_write(data, w);
	}
	else if (w->kind == WRITE_UPDATE || (w->kind == WRITE_INSERT && insert_data))
	{
		e.len = w->len;
		memcpy(data, w->data, e.len);
	}
	memcpy(at, &e, sizeof(e));
	memset(data + e.len, 0, TYPEALIGN(8, e.len) - e.len);
	return data + TYPEALIGN(8, e.len);
}

LogRecord *
log_form(int thread, const Write *writes, int n, bool insert_data)
{
	Size		len = sizeof(LogRecord);
	LogRecord  *r;
	char	   *at;

	for (int i = 0; i < n; i++)
		len += sizeof(LogEntry) + TYPEALIGN(8, logs_whole() ? table_of(writes[i].row)->size : writes[i].len);
	len += Max(ZEN_LINE, design->log_pad);
	if (len > image_size)
	{
		free(image);
		image_size = len * 2;
		image = malloc(image_size);
	}
	r = (LogRecord *) image;
	at = (char *) (r + 1);
	for (int i = 0; i < n; i++)
		at = form_entry(thread, at, &writes[i], insert_data);
	r->len = at - image;
	/* what follows to where the next record begins */
	memset(at, 0, Max(ZEN_LINE, design->log_pad));
	r->nentries = n;
	r->group = 0;
	return r;
}

static void
seal_record(LogRecord *r, uint64 cts, uint64 tag)
{
	r->tag = tag;
	r->cts = cts;
	r->crc = record_crc(r);
}

/*
 * Where the next record begins.  Small ones fill lines, even if larger ones fill units of 256 bytes (DBXN's paper,
 * 3.4).
 */
static Size
record_end(Size at, Size len)
{
	Size		pad = design->log_pad == 0 ? ZEN_LINE : design->log_pad;

	return TYPEALIGN(len < pad && pad > ZEN_LINE ? ZEN_LINE : pad, at + len);
}

/* Is there a whole record? */
static const LogRecord *
valid_record(const char *at, const char *end)
{
	const LogRecord *r = (const LogRecord *) at;

	if (at + sizeof(LogRecord) > end || r->len < sizeof(LogRecord) || r->len > end - at || r->crc != record_crc(r))
		return NULL;
	nvm_touch(r, r->len);
	return r;
}

Write
log_write_of(const LogEntry *e)
{
	Write		w = {.kind = e->kind,.row = e->row,.offset = e->offset,.len = e->len,.data = (const char *) (e + 1)};

	return w;
}

/* ---------- ring ---------- */

typedef struct Ring
{
	char	   *base;
	Size		at;
	uint64		tag;			/* of the last record */
} Ring;

static Ring rings[MAX_THREADS];
static Size segment,
			ring_bytes;

static void
ring_geometry(Size per_thread)
{
	segment = TYPEALIGN(ZEN_LINE, log_max_record());
	ring_bytes = Max(2, per_thread / segment) * segment;
}

/* The end of the segment that a position not at its start lies in. */
static Size
segment_end(Size at)
{
	return (at + segment - 1) / segment * segment;
}

Size
ring_size(Size per_thread)
{
	ring_geometry(per_thread);
	return pool_carved(ring_bytes) * settings.threads;
}

void
ring_open(Size per_thread)
{
	ring_geometry(per_thread);
	for (int t = 0; t < settings.threads; t++)
		rings[t].base = pool_carve(ring_bytes);
}

void
ring_append(int thread, const Write *writes, int n, uint64 cts, RangeFlush flush)
{
	Ring	   *ring = &rings[thread];
	LogRecord  *r = log_form(thread, writes, n, false);

	seal_record(r, cts, ++ring->tag);
	if (r->len > segment)
		die("a log record of %u bytes", r->len);
	if (ring->at % segment + r->len > segment)
		ring->at = segment_end(ring->at);
	if (ring->at + r->len > ring_bytes)
		ring->at = 0;
	nvm_store(ring->base + ring->at, r, r->len);
	flush(ring->base + ring->at, r->len);
	ring->at = TYPEALIGN(ZEN_LINE, ring->at + r->len);
}

const LogRecord *
ring_last(int thread)
{
	Ring	   *ring = &rings[thread];
	const LogRecord *last = NULL;
	const LogRecord *r;

	for (Size at = 0; at < ring_bytes; at += segment)
	{
		r = valid_record(ring->base + at, ring->base + at + segment);
		if (r != NULL && (last == NULL || r->tag > last->tag))
			last = r;
	}
	if (last == NULL)
		return NULL;
	for (;;)
	{
		Size		at = TYPEALIGN(ZEN_LINE, (const char *) last + last->len - ring->base);

		ring->at = at;
		if (at % segment == 0)
			break;
		r = valid_record(ring->base + at, ring->base + segment_end(at));
		if (r == NULL || r->tag != last->tag + 1)
			break;
		last = r;
	}
	ring->tag = last->tag;
	return last;
}

/* ---------- halves ---------- */

/* A thread's part; on lines of its own. */
typedef struct Halves
{
	char	   *base[2];
	Size		at[2];
	pg_atomic_uint64 writing;	/* epoch in which the thread is writing, 0 =
								 * none */
	char		pad[64];
} Halves;

static Halves halves[MAX_THREADS];
static Size half_bytes;
static pg_atomic_uint64 epoch;
static pg_atomic_uint64 gleaned;
static pg_atomic_uint32 wanted;
static GleanApply apply_entries;
uint32		halves_newest_group = 0;
static uint64 *gleaned_nvm;		/* what is durable of it, in one of several
								 * lines */

#define GLEANED_LINES	8

static void
halves_geometry(void)
{
	half_bytes = TYPEALIGN(ZEN_LINE, Max(settings.log_size / 2, log_max_record()));
}

Size
halves_size(void)
{
	halves_geometry();
	return pool_carved(GLEANED_LINES * ZEN_LINE) + pool_carved(half_bytes) * 2 * settings.threads;
}

void
halves_open(bool fresh, GleanApply apply)
{
	uint64		newest = 0;

	apply_entries = apply;
	halves_geometry();
	gleaned_nvm = pool_carve(GLEANED_LINES * ZEN_LINE);
	for (int t = 0; t < settings.threads; t++)
	{
		halves[t].base[0] = pool_carve(half_bytes);
		halves[t].base[1] = pool_carve(half_bytes);
		pg_atomic_init_u64(&halves[t].writing, 0);
	}
	for (int i = 0; i < GLEANED_LINES; i++)
		newest = Max(newest, gleaned_nvm[i * 8]);
	pg_atomic_init_u64(&gleaned, newest);
	pg_atomic_init_u64(&epoch, newest + 1);
	pg_atomic_init_u32(&wanted, 0);
}

uint64
halves_gleaned(void)
{
	return pg_atomic_read_u64(&gleaned);
}

static void
set_gleaned(uint64 e)
{
	uint64	   *word = &gleaned_nvm[e % GLEANED_LINES * 8];

	nvm_store64(word, e);
	zen_persist(word, sizeof(*word));
	pg_atomic_write_u64(&gleaned, e);
}

/* Announce that this thread writes in the current epoch. */
static uint64
enter_epoch(Halves *h)
{
	for (;;)
	{
		uint64		e = pg_atomic_read_u64(&epoch);

		pg_atomic_write_u64(&h->writing, e);

		/*
		 * pairs with the barrier in halves_glean(): it sees this, or we see its
		 * epoch
		 */
		pg_memory_barrier();
		if (pg_atomic_read_u64(&epoch) == e)
			return e;
	}
}

static int
by_row_and_cts(const void *a, const void *b)
{
	const Gleaned *x = a;
	const Gleaned *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->cts < y->cts ? -1 : x->cts > y->cts;
}

typedef struct Harvest
{
	Gleaned    *entries;
	uint64		n,
				max;
	uint64		newest_cts;
} Harvest;

static void
harvest(Harvest *h, const LogRecord *r, const LogEntry *entry)
{
	if (h->n == h->max)
	{
		h->max = h->max * 2 + 1024;
		h->entries = realloc(h->entries, h->max * sizeof(Gleaned));
	}
	h->entries[h->n++] = (Gleaned)
	{
		.row = entry->row,.cts = r->cts,.entry = entry
	};
}

/* All that is logged in an epoch, but for groups that were not complete at a crash. */
static void
collect(Harvest *h, uint64 e)
{
	for (int t = 0; t < settings.threads; t++)
	{
		const char *at = halves[t].base[e & 1];
		const char *end = at + half_bytes;
		const LogRecord *r;

		while ((r = valid_record(at, end)) != NULL && r->tag == e)
		{
			const LogEntry *entry = (const LogEntry *) (r + 1);

			for (uint32 i = 0; i < r->nentries && r->group <= halves_newest_group; i++, entry = log_next(entry))
				harvest(h, r, entry);
			h->newest_cts = Max(h->newest_cts, r->cts);
			at = halves[t].base[e & 1] + record_end(at - halves[t].base[e & 1], r->len);
		}
	}
}

void
halves_glean(void)
{
	uint64		e = pg_atomic_read_u64(&epoch);
	Harvest		h = {0};

	pg_atomic_write_u32(&wanted, 0);
	pg_atomic_write_u64(&epoch, e + 1);
	pg_memory_barrier();
	for (int t = 0; t < settings.threads; t++)
		while (pg_atomic_read_u64(&halves[t].writing) == e)
			sched_yield();
	collect(&h, e);
	qsort(h.entries, h.n, sizeof(Gleaned), by_row_and_cts);
	apply_entries(h.entries, h.n);
	zen_fence();
	for (int t = 0; t < settings.threads; t++)
		halves[t].at[e & 1] = 0;
	set_gleaned(e);
	free(h.entries);
}

void
halves_want_glean(void)
{
	if (settings.transactions > 0)
		halves_glean();
	else
		pg_atomic_write_u32(&wanted, 1);
}

/* A record to its place: through the caches and flushed, or past them. */
static void
write_record(Halves *h, uint64 e, LogRecord *r)
{
	Size		at = h->at[e & 1];
	Size		end = record_end(at, r->len);
	char	   *to = h->base[e & 1] + at;

	/* the zeros behind a record fill what the medium writes at once */
	if (design->stream_log)
		nvm_stream(to, r, end - at);
	else
	{
		nvm_store(to, r, r->len);
		zen_flush(to, r->len);
	}
	h->at[e & 1] = end;
}

Size
halves_capacity(void)
{
	return half_bytes;
}

bool
halves_have_room(int thread, Size bytes)
{
	return halves[thread].at[pg_atomic_read_u64(&epoch) & 1] + bytes <= half_bytes;
}

void
halves_put(int thread, LogRecord *r)
{
	uint64		e = pg_atomic_read_u64(&epoch);

	seal_record(r, r->cts, e);
	write_record(&halves[thread], e, r);
}

uint64
halves_append(int thread, const Write *writes, int n)
{
	Halves	   *h = &halves[thread];
	LogRecord  *r = log_form(thread, writes, n, true);

	if (r->len > half_bytes)
		die("a log record of %u bytes", r->len);
	for (;;)
	{
		uint64		e = enter_epoch(h);
		Size		end = record_end(h->at[e & 1], r->len);

		seal_record(r, next_cts(), e);
		if (end <= half_bytes)
		{
			write_record(h, e, r);
			zen_fence();
			pg_write_barrier();
			pg_atomic_write_u64(&h->writing, 0);
			if (end > half_bytes / 2 && !design->keep_log)
				halves_want_glean();
			return e;
		}
		pg_atomic_write_u64(&h->writing, 0);
		halves_want_glean();
		sched_yield();
	}
}

/*
 * halves[].at of the gleaned half is reset before gleaned allows the next epoch, and the next epoch is begun by this
 * thread: writers meet the empty half only after that.
 */
void
halves_gleaner(void)
{
	while (pg_atomic_read_u32(&stop_background) == 0)
	{
		if (pg_atomic_read_u32(&wanted) != 0)
			halves_glean();
		else
			usleep(200);
	}
}

void
halves_drain(void)
{
	uint64		e = pg_atomic_read_u64(&epoch);

	while (halves_want_glean(), halves_gleaned() < e)
		usleep(200);
}

void
halves_recover(int thread, uint32 (*part) (uint32 row))
{
	static Harvest h;
	Harvest		mine = {0};
	uint64		e = pg_atomic_read_u64(&gleaned);

	if (thread == 0)
	{
		collect(&h, e + 1);
		collect(&h, e + 2);
	}
	recovery_barrier();
	mine.entries = malloc((h.n + 1) * sizeof(Gleaned));
	for (uint64 i = 0; i < h.n; i++)
		if (part(h.entries[i].row) % settings.threads == thread)
			mine.entries[mine.n++] = h.entries[i];
	qsort(mine.entries, mine.n, sizeof(Gleaned), by_row_and_cts);
	apply_entries(mine.entries, mine.n);
	zen_fence();
	free(mine.entries);
	recovery_barrier();
	if (thread == 0)
	{
		restart_cts(h.newest_cts);
		set_gleaned(e + 1);
		set_gleaned(e + 2);
		pg_atomic_write_u64(&epoch, e + 3);
		free(h.entries);
	}
	recovery_barrier();
}
