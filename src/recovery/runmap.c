/*
 * runmap.c -- the map is saved while the server runs (R21).
 *
 * First each region is at rest for a moment, and pages are touched anew from then on.  Then the words are read: each
 * becomes the newest version that stands on a page untouched since.  src/recovery/README, "The map saved while the
 * server runs", says why that is right whatever writers do meanwhile.
 */
#include "recovery/runmap.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "cache/spillmap.h"
#include "nvm/persist.h"
#include "nvm/region.h"
#include "nvm/slotalloc.h"
#include "postmaster/bgworker.h"
#include "recovery/recstate.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "txn/xact.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define REST_TRIES		500		/* looks at a region that is at work */
#define REST_NAP_MS		10		/* between two of them */
#define CHANGED_SHARE	256		/* a save is due when 1 page of so many was
								 * touched */
#define UNTOUCH_STEP	1024	/* pages between two fences */
#define NOT_TOLD		PG_UINT32_MAX

typedef struct RunMapShared
{
	pg_atomic_uint32 saving;	/* 1: a process is at it */
	uint32		last_save;		/* save_no of the last one; under saving */
} RunMapShared;

/* What is being saved. */
typedef struct RunImage
{
	uint32		save_no;
	ZenRunMapHeader header;
	ZenMapTable *tables;
	uint32	   *piece_crcs;
	uint32		npages;			/* that there were when the regions had been
								 * at rest */
	uint32	   *first_word;		/* [npages]: a page's bits, or NOT_TOLD */
	uint64	   *bits;			/* 1: no word leads to the slot */
	uint64		nbits;			/* words of them */
	uint64		offset;			/* in the file */
	char	   *piece;
	int			fd;
	const char *why;			/* what has gone wrong, NULL if nothing */
} RunImage;

static RunMapShared *runmap_shared;

static void
runmap_shmem_init(void)
{
	bool		found;

	runmap_shared = ShmemInitStruct("zen running save", sizeof(RunMapShared), &found);
	pg_atomic_init_u32(&runmap_shared->saving, 0);
	runmap_shared->last_save = ZEN_FIRST_SAVE;
}

const ZenShmem zen_runmap_shmem = {.bytes = sizeof(RunMapShared),.init = runmap_shmem_init};

static void
image_fails(RunImage *image, const char *why)
{
	if (image->why == NULL)
		image->why = why;
}

/* Zeroed memory; the image fails if there is none. */
static void *
image_alloc(RunImage *image, Size size)
{
	void	   *memory = palloc_extended(Max(size, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);

	if (memory == NULL)
		image_fails(image, "out of memory");
	return memory;
}

/* ---------- regions at rest ---------- */

/*
 * No transaction is under way in the region, and all that has committed there is in the watermark.  From now on a store
 * to one of its pages is the first one.  False: it is at work.
 */
static bool
begin_anew(uint32 region, uint32 save_no)
{
	if (!zen_region_try_lease(region))
		return false;
	if (zen_regions[region].doubt_kind == ZEN_DOUBT_NONE)
	{
		if (!ZEN_FAULT(R21_NO_WATERMARK))
			zen_region_persist_watermark(region);
		zen_regions[region].save_no = save_no;
	}
	zen_region_release(region);
	return true;
}

/* A large or a prepared transaction holds the region: it is not waited for. */
static bool
is_held_for_long(uint32 region)
{
	return pg_atomic_read_u32(&zen_regions[region].leased) == ZEN_LEASE_REST && !ZEN_FAULT(R21_SAVED_EARLY);
}

/* Those that do not come to rest keep their pages as they were at the save before. */
static void
begin_all_anew(RunImage *image)
{
	bool	   *waiting = image_alloc(image, ZEN_MAX_REGIONS);
	uint32		nwaiting = 0;

	if (waiting == NULL)
		return;
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned && !waiting[zen_pages[p].owner.region])
		{
			waiting[zen_pages[p].owner.region] = true;
			nwaiting++;
		}
	for (int i = 0; i < REST_TRIES && nwaiting > 0; i++)
	{
		if (i > 0)
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, REST_NAP_MS,
							 PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
			if (waiting[r] && (begin_anew(r, image->save_no) || is_held_for_long(r)))
			{
				waiting[r] = false;
				nwaiting--;
			}
	}
	for (uint32 r = 0; r < ZEN_MAX_REGIONS && ZEN_FAULT(R21_SAVED_EARLY); r++)
		if (waiting[r])
			zen_regions[r].save_no = image->save_no;
	pfree(waiting);
}

/* ---------- pages and tables ---------- */

/* The pages that the image may tell of.  Later there are only fewer. */
static void
list_pages(RunImage *image)
{
	uint32		next = 0;

	image->npages = zen_pool_pages();
	image->first_word = image_alloc(image, image->npages * sizeof(uint32));
	if (image->first_word == NULL)
		return;
	for (uint32 p = 0; p < image->npages; p++)
		image->first_word[p] = NOT_TOLD;
	for (uint32 p = zen_pool.first_data_page; p < image->npages; p = zen_page_after(p))
		if (zen_page_is_told(p))
		{
			image->first_word[p] = next;
			next += (uint32) zen_savedmap_bitmap_words(p);
		}
	image->nbits = next;
	image->bits = image_alloc(image, next * sizeof(uint64));
	for (uint32 p = zen_pool.first_data_page; p < image->npages && image->bits != NULL; p = zen_page_after(p))
		if (image->first_word[p] != NOT_TOLD)
			for (uint32 n = 0; n < zen_pages[p].nslots; n++)
				image->bits[image->first_word[p] + n / 64] |= UINT64CONST(1) << (n % 64);
}

/* Tables that have pages of which the image may tell; of the others all rows are found by a scan. */
static void
list_tables(RunImage *image)
{
	bool	   *told = image_alloc(image, ZEN_MAX_HTABLES);

	image->tables = image_alloc(image, ZEN_MAX_HTABLES * sizeof(ZenMapTable));
	if (told == NULL || image->tables == NULL)
		return;
	for (uint32 p = zen_pool.first_data_page; p < image->npages; p = zen_page_after(p))
		if (image->first_word[p] != NOT_TOLD)
			told[zen_pages[p].owner.htable] = true;
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenMapTable *table = &image->tables[image->header.ntables];

		if (!told[i] || !zen_htables[i].in_use || zen_htables[i].backend != 0)
			continue;
		table->htable = i;

		/*
		 * before the words: if the table is emptied or goes, and another one
		 * takes its number, its birth is not this one
		 */
		table->birth_cts = zen_htables[i].birth_cts;
		pg_read_barrier();
		table->nblocks = (uint32) zen_tidmap_nblocks(&zen_htables[i]);
		image->header.npieces += zen_savedmap_pieces(table->nblocks);
		image->header.ntables++;
	}
	image->piece_crcs = image_alloc(image, image->header.npieces * sizeof(uint32));
	pfree(told);
}

/* ---------- words ---------- */

/* Does the image tell of the slot's page?  Then a word leads to it. */
static bool
claim_told(RunImage *image, ZenSlot slot)
{
	uint32		p = zen_slot_page(slot);
	uint32		n;

	/* whoever has found the slot's number sees that its page was touched */
	pg_read_barrier();
	if (p >= image->npages || image->first_word[p] == NOT_TOLD || !zen_page_is_told(p))
		return false;
	n = zen_page_slot_index(slot);
	image->bits[image->first_word[p] + n / 64] &= ~(UINT64CONST(1) << (n % 64));
	return true;
}

/*
 * An aborted version may still stand in the chain when its slot is empty, or has another row.  On a page that was
 * untouched since its region was at rest, a slot that names the row has a committed version of it.
 */
static bool
slot_is_of_row(ZenSlot slot, uint32 flags, const ZenHTable *ht, uint64 tidno)
{
	ZenTupleHeader h = zen_tuple_header(slot);

	return (h.word0 & ZEN_CTS_MASK) != 0 && zen_word1_htable(h.word1) == ht->idx &&
		zen_word1_tidno(h.word1) == tidno && zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK) &&
		((h.word1 & ZEN_DELETED) != 0) == ((flags & ZEN_V_TOMBSTONE) != 0);
}

/* The newest version on a page of which the image tells, as a word; 0 if there is none.  Inside an epoch. */
static uint64
told_word(RunImage *image, ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenSpilledChain space;
	uint64		w;
	ZenVersion *v = zen_spillmap_word_chain(ht, tidno, word, &w, &space);

	if (v == NULL)
	{
		if (zen_word_ref(w) == InvalidZenSlot || !claim_told(image, zen_word_ref(w)))
			return 0;
		return (zen_word_state(w) == ZEN_WORD_NVM ? ZEN_WORD_NVM : ZEN_WORD_DEAD) | zen_word_ref(w);
	}
	for (; v != NULL; v = v->older)
	{
		ZenSlot		slot = *(volatile ZenSlot *) &v->slot;
		uint32		flags = zen_version_flags(v);

		if (slot != InvalidZenSlot && zen_page_is_told(zen_slot_page(slot)) &&
			slot_is_of_row(slot, flags, ht, tidno) && claim_told(image, slot))
			return ((flags & ZEN_V_TOMBSTONE) ? ZEN_WORD_DEAD : ZEN_WORD_NVM) | slot;
	}
	return 0;
}

/* The words of one block into out; of a table that has gone meanwhile there are none. */
static void
told_block(RunImage *image, ZenHTable *ht, uint64 block, uint64 *out)
{
	ZenWord    *words;

	zen_epoch_enter();
	words = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK);
	for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		out[i] = words == NULL ? 0 : told_word(image, ht, block * ZEN_TIDS_PER_BLOCK + i, &words[i]);
	zen_epoch_leave();
}

/* ---------- the file ---------- */

static const char *
path_of(bool finished)
{
	static char path[MAXPGPATH + 64];

	snprintf(path, sizeof(path), "%s/%s%s", DataDir, ZEN_RUNMAP_FILE, finished ? "" : ".new");
	return path;
}

static void
image_put(RunImage *image, const void *data, Size size, uint64 offset)
{
	if (image->why == NULL && !zen_savedmap_put(image->fd, data, size, offset))
		image_fails(image, strerror(errno));
}

/* The words of a table; *piece: the number of its first piece. */
static void
put_told_table(RunImage *image, const ZenMapTable *table, uint32 *piece)
{
	ZenHTable  *ht = &zen_htables[table->htable];
	uint32		nleaves = zen_savedmap_leaves(table->nblocks);
	uint32		per_leaf = ZEN_LEAF_WORDS / ZEN_TIDS_PER_BLOCK;

	for (uint32 first = 0; first < nleaves && image->why == NULL; first += ZEN_MAP_PIECE_LEAVES)
	{
		uint32		n = Min(ZEN_MAP_PIECE_LEAVES, nleaves - first);
		Size		bytes = n * ZEN_MAP_LEAF_BYTES;

		CHECK_FOR_INTERRUPTS();
		memset(image->piece, 0, bytes);
		for (uint32 b = 0; b < n * per_leaf && first * per_leaf + b < table->nblocks; b++)
			told_block(image, ht, first * per_leaf + b, (uint64 *) image->piece + b * ZEN_TIDS_PER_BLOCK);
		image->piece_crcs[(*piece)++] = zen_savedmap_crc(image->piece, bytes);
		image_put(image, image->piece, bytes, image->offset);
		image->offset += bytes;
	}
}

/* The pages of which the image still tells, with their bits. */
static void
fill_pages(RunImage *image, ZenRunMapTail *tail)
{
	ZenRunMapHeader *h = &image->header;

	for (uint32 p = zen_pool.first_data_page; p < image->npages; p = zen_page_after(p))
	{
		ZenRunMapPage *page = &tail->pages[h->npages];

		if (image->first_word[p] == NOT_TOLD || !zen_page_is_told(p))
			continue;
		page->pageno = p;
		page->nwords = zen_savedmap_bitmap_words(p);
		page->word = zen_nvm_load64(zen_page_word(p));
		memcpy(&tail->bitmaps[h->nbitmap_words], &image->bits[image->first_word[p]], page->nwords * sizeof(uint64));
		h->nbitmap_words += page->nwords;
		h->npages++;
	}
}

static void
put_tail(RunImage *image)
{
	ZenRunMapHeader *h = &image->header;
	ZenRunMapTail tail;
	uint32		ntold = 0;
	char	   *memory;

	for (uint32 p = 0; p < image->npages; p++)
		ntold += image->first_word[p] != NOT_TOLD;

	/*
	 * as if it told of all of them; then the bits are moved to behind those
	 * that are left
	 */
	h->npages = ntold;
	h->nbitmap_words = image->nbits;
	memory = image_alloc(image, zen_runmap_tail_size(h));
	if (memory == NULL)
		return;
	tail = zen_runmap_tail(h, memory);
	memcpy(tail.tables, image->tables, h->ntables * sizeof(ZenMapTable));
	memcpy(tail.piece_crcs, image->piece_crcs, h->npieces * sizeof(uint32));
	h->npages = 0;
	h->nbitmap_words = 0;
	fill_pages(image, &tail);
	memmove(tail.pages + h->npages, tail.bitmaps, h->nbitmap_words * sizeof(uint64));
	h->tail_offset = image->offset;
	h->tail_bytes = zen_runmap_tail_size(h);
	h->tail_crc = zen_savedmap_crc(memory, h->tail_bytes);
	image_put(image, memory, h->tail_bytes, h->tail_offset);
	pfree(memory);
}

static void
put_header(RunImage *image)
{
	ZenRunMapHeader *h = &image->header;
	ZenSuperblock super;

	zen_pool_superblock(0, &super);
	h->magic = ZEN_RUNMAP_MAGIC;
	h->version = ZEN_RUNMAP_VERSION;
	memcpy(h->uuid, super.uuid, sizeof(h->uuid));
	h->chain = zen_touched->unbroken ? zen_touched->chain : super.generation;
	h->seq = zen_touched->unbroken ? zen_touched->seq + 1 : 1;
	h->crc = zen_runmap_header_crc(h);
	memset(image->piece, 0, ZEN_MAP_HEADER_BYTES);
	memcpy(image->piece, h, sizeof(*h));
	image_put(image, image->piece, ZEN_MAP_HEADER_BYTES, 0);
}

/* The file is complete and durable, and has its name. */
static void
put_in_place(RunImage *image)
{
	char		path[MAXPGPATH + 64];

	if (image->why == NULL && pg_fsync(image->fd) != 0)
		image_fails(image, strerror(errno));
	if (close(image->fd) != 0)
		image_fails(image, strerror(errno));
	image->fd = -1;
	if (image->why != NULL)
		return;
	strlcpy(path, path_of(true), sizeof(path));
	if (durable_rename(path_of(false), path, LOG) != 0)
		image_fails(image, "the file cannot be renamed");
}

static void
put_file(RunImage *image)
{
	uint32		piece = 0;

	image->piece = image_alloc(image, ZEN_MAP_PIECE_LEAVES * ZEN_MAP_LEAF_BYTES);
	if (image->why != NULL)
		return;
	image->fd = BasicOpenFile(path_of(false), O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (image->fd < 0)
	{
		image_fails(image, strerror(errno));
		return;
	}
	image->offset = ZEN_MAP_HEADER_BYTES;
	for (uint32 i = 0; i < image->header.ntables; i++)
		put_told_table(image, &image->tables[i], &piece);
	Assert(image->why != NULL || piece == image->header.npieces);
	if (image->why == NULL)
		put_tail(image);
	put_header(image);
	put_in_place(image);
}

/* ---------- the whole ---------- */

/* The map in force tells of these pages: their bits are taken back. */
static void
untouch_pages(const RunImage *image)
{
	for (uint32 p = zen_pool.first_data_page; p < image->npages; p = zen_page_after(p))
	{
		if (image->first_word[p] != NOT_TOLD)
			zen_page_untouch(p);
		if (p % UNTOUCH_STEP == 0)
			zen_fence();
	}
	zen_fence();
}

static const char *
why_not(void)
{
	if (!zen_save_map)
		return "zen.save_map is off";
	if (zen_nvm_mode() == ZEN_POOL_WAL)
		return "the write-ahead log makes the pool durable";
	if (zen_pool.scratch)
		return "the pool is one for pg_upgrade";
	if (pg_atomic_read_u64(&zen_recovery->damaged) > 0)
		return "the pool is damaged";
	return NULL;
}

static void
save_image(RunImage *image)
{
	image->save_no = ++runmap_shared->last_save;

	/* before regions begin anew: what is touched then is noted */
	pg_atomic_write_u32(&zen_touched->noted, 1);
	pg_atomic_write_u32(&zen_touched->npages, 0);
	pg_memory_barrier();
	begin_all_anew(image);
	if (image->why == NULL)
		list_pages(image);
	if (image->why == NULL)
		list_tables(image);
	if (image->why == NULL && ZEN_FAULT(R21_UNTOUCHED_EARLY))
		untouch_pages(image);
	zen_fault_stop(ZEN_FAULT(R21_UNTOUCHED_EARLY) && zen_touched->unbroken);
	if (image->why == NULL)
		put_file(image);
	if (image->why != NULL)
		return;
	zen_fault_stop(ZEN_FAULT(R21_STOP_SAVED) && zen_touched->unbroken);
	zen_touched_saved(image->header.chain, image->header.seq);
	untouch_pages(image);
}

static void
end_save(int code, Datum arg)
{
	RunImage   *image = (RunImage *) DatumGetPointer(arg);

	if (image->fd >= 0)
		close(image->fd);
	pg_atomic_write_u32(&runmap_shared->saving, 0);
}

const char *
zen_runmap_save(void)
{
	RunImage	image = {.fd = -1};
	uint32		idle = 0;
	instr_time	start;

	ZenAssertNotInEpoch();
	Assert(pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_READY);
	image.why = why_not();
	if (image.why != NULL)
		return image.why;
	if (!pg_atomic_compare_exchange_u32(&runmap_shared->saving, &idle, 1))
		return "another process saves it";
	INSTR_TIME_SET_CURRENT(start);
	PG_ENSURE_ERROR_CLEANUP(end_save, PointerGetDatum(&image));
	{
		save_image(&image);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_save, PointerGetDatum(&image));
	end_save(0, PointerGetDatum(&image));
	if (image.why == NULL)
		ereport(LOG,
				(errmsg("zen has saved its map while it runs: " UINT64_FORMAT " kB in %.0f ms, of %u pages",
						(image.header.tail_offset + image.header.tail_bytes) / 1024, zen_savedmap_ms(start),
						image.header.npages)));
	return image.why;
}

void
zen_runmap_worker_main(Datum arg)
{
	const char *why;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	zen_xact_attach();
	why = zen_runmap_save();
	if (why != NULL)
		ereport(LOG,
				(errmsg("zen has not saved its map while it runs: %s", why)));
	proc_exit(0);
}

/* Were enough pages touched?  If no map is in force, one is enough. */
static bool
much_has_changed(void)
{
	uint32		total,
				nfree;

	zen_page_free(&total, &nfree);
	return total > nfree && (!zen_touched->unbroken ||
							 (uint64) pg_atomic_read_u32(&zen_touched->npages) * CHANGED_SHARE >= total - nfree);
}

/* What the setting asks for and cannot be done is said once. */
static bool
can_save(void)
{
	static const char *told = NULL;
	const char *why = why_not();

	if (why != NULL && why != told)
		ereport(LOG,
				(errmsg("zen does not save its map while it runs: %s", why),
				 errhint("Set zen.save_map_interval to 0 if that is so on purpose.")));
	told = why;
	return why == NULL;
}

void
zen_runmap_step(void)
{
	static TimestampTz last = 0;	/* time of the last save; the worker's own */
	TimestampTz now = GetCurrentTimestamp();
	BackgroundWorker worker;

	if (last == 0)
		last = now;
	if (zen_save_map_interval == 0 || !TimestampDifferenceExceeds(last, now, zen_save_map_interval * 1000) ||
		!can_save() || pg_atomic_read_u32(&runmap_shared->saving) || !much_has_changed())
		return;
	last = now;
	zen_bgworker_describe(&worker, "zen save", "zen_runmap_worker_main", (Datum) 0, BGW_NEVER_RESTART);
	if (!RegisterDynamicBackgroundWorker(&worker, NULL))
		ereport(LOG,
				(errmsg("zen has not saved its map while it runs: no background worker is free"),
				 errhint("Raise max_worker_processes.")));
}
