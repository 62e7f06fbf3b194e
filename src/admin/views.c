/*
 * views.c -- the rows of the views that show what zen is doing, and functions of users about the same things.
 *
 * README, "Views", says how they hang together with the SQL file.  doc/views.md explains the columns.
 */
#include "base/compat.h"

#include "access/xlog.h"

#include "admin/replication.h"
#include "admin/resultrow.h"
#include "admin/statements.h"
#include "base/arena.h"
#include "base/guc.h"
#include "base/numa.h"
#include "base/startup.h"
#include "base/stats.h"
#include "cache/tablestat.h"
#include "cache/tidmap.h"
#include "cache/version.h"
#include "exec/exec.h"
#include "gc/collect.h"
#include "gc/reclaim.h"
#include "gc/room.h"
#include "miscadmin.h"
#include "numa/partition.h"
#include "nvm/grow.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/pool.h"
#include "nvm/poolfile.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "recovery/runmap.h"
#include "row/visibility.h"
#include "standby/followers.h"
#include "standby/standbystate.h"
#include "stream/streamsink.h"
#include "stream/streamtail.h"
#include "txn/exclusive.h"
#include "txn/xact.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zen_view_stat);
PG_FUNCTION_INFO_V1(zen_view_executor);
PG_FUNCTION_INFO_V1(zen_view_garbage);
PG_FUNCTION_INFO_V1(zen_view_stream);
PG_FUNCTION_INFO_V1(zen_view_standby);
PG_FUNCTION_INFO_V1(zen_view_exclusive);
PG_FUNCTION_INFO_V1(zen_view_pool);
PG_FUNCTION_INFO_V1(zen_view_pool_files);
PG_FUNCTION_INFO_V1(zen_pool_grow);
PG_FUNCTION_INFO_V1(zen_save_map_now);
PG_FUNCTION_INFO_V1(zen_view_numa);
PG_FUNCTION_INFO_V1(zen_view_numa_partitions);
PG_FUNCTION_INFO_V1(zen_view_recovery);
PG_FUNCTION_INFO_V1(zen_stat_reset);

StaticAssertDecl(ZEN_NSHOWN + ZEN_NGAUGES + 1 <= ZEN_MAX_COLUMNS, "room for the columns of zen_stat");

/* ---------- the engine ---------- */

static const char *
recovery_state(void)
{
	static const char *const names[] = {
		[ZEN_RECOVERY_NEEDED] = "waiting",[ZEN_RECOVERY_RUNNING] = "running",
		[ZEN_RECOVERY_READY] = "ready",[ZEN_RECOVERY_FAILED] = "failed"
	};

	return names[pg_atomic_read_u32(&zen_recovery->state)];
}

/* Numbers of pages: nothing is known of them until recovery has read the page directory to its end. */
typedef struct PageCounts
{
	bool		unknown;
	uint32		total;
	uint32		nfree;
	uint32		owned;			/* by one table each */
	uint32		shared;			/* by small tables */
} PageCounts;

static PageCounts
count_pages(void)
{
	PageCounts	c = {.unknown = pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY};

	if (!c.unknown)
	{
		zen_page_counts(&c.total, &c.nfree, &c.shared);
		/* counted while pages change hands: the parts may not quite add up */
		c.owned = c.total > c.nfree + c.shared ? c.total - c.nfree - c.shared : 0;
	}
	return c;
}

/* ---------- zen_stat ---------- */

static const char *const stat_columns[] = {
#define X(name) #name,
	ZEN_COUNTERS(X)
	ZEN_GAUGES(X)
#undef X
};

/* The next column: its name tells if the SQL file was made of the same lists. */
static void
put_stat(ZenResultRow *row, int64 value, bool isnull)
{
	if (row->n >= row->desc->natts ||
		strcmp(NameStr(TupleDescAttr(row->desc, row->n)->attname), stat_columns[row->n]) != 0)
		zen_sql_differs();
	zen_put_int64_or_null(row, value, isnull);
}

/* Pages and their parts are -1 until recovery is done. */
static void
read_gauges(int64 gauges[ZEN_NGAUGES])
{
	PageCounts	pages = count_pages();
	ZenRoom		dram;
	ZenRoom		pool;
	uint64		taken,
				in_use;

	zen_arena_usage(&taken, &in_use);
	zen_room(ZEN_ROOM_DRAM, &dram);
	gauges[ZEN_G_dram_size_bytes] = (int64) dram.size;
	gauges[ZEN_G_dram_taken_bytes] = (int64) taken;
	gauges[ZEN_G_dram_used_bytes] = (int64) in_use;
	gauges[ZEN_G_dram_used_percent] = dram.used_percent;
	gauges[ZEN_G_metcache_bytes] = (int64) zen_version_bytes();
	gauges[ZEN_G_garbage_pending] = (int64) zen_gcqueue_pending();
	gauges[ZEN_G_pages_total] = pages.unknown ? -1 : pages.total;
	gauges[ZEN_G_pages_free] = pages.unknown ? -1 : pages.nfree;
	gauges[ZEN_G_pages_owned] = pages.unknown ? -1 : pages.owned;
	gauges[ZEN_G_pages_shared] = pages.unknown ? -1 : pages.shared;
	gauges[ZEN_G_pool_used_percent] = -1;
	if (!pages.unknown)
	{
		zen_room(ZEN_ROOM_POOL, &pool);
		gauges[ZEN_G_pool_used_percent] = pool.used_percent;
	}
}

Datum
zen_view_stat(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	uint64		totals[ZEN_NCOUNTERS];
	int64		gauges[ZEN_NGAUGES];
	TimestampTz since;

	zen_view_begin_row(fcinfo, &row);
	since = zen_stats_sum(totals);
	read_gauges(gauges);
	for (int i = 0; i < ZEN_NSHOWN; i++)
		put_stat(&row, (int64) totals[i], false);
	for (int i = 0; i < ZEN_NGAUGES; i++)
		put_stat(&row, gauges[i], gauges[i] < 0);
	zen_put_datum(&row, TIMESTAMPTZOID, TimestampTzGetDatum(since), false);
	PG_RETURN_DATUM(zen_end_row(&row));
}

/* zen_stat_reset -- all counters that views show begin at 0 again; statements are forgotten. */
Datum
zen_stat_reset(PG_FUNCTION_ARGS)
{
	zen_view_enter();
	zen_tablestat_flush();
	zen_stats_reset();
	zen_tablestat_reset();
	zen_numa_reset();
	zen_statements_reset();
	PG_RETURN_VOID();
}

/* ---------- zen_stat_executor ---------- */

Datum
zen_view_executor(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	uint64		totals[ZEN_NCOUNTERS];
	const ZenPointReason *reason;

	zen_view_begin_rows(fcinfo, &row);
	zen_stats_sum(totals);
	for (int why = 1; (reason = zen_point_reason(why)) != NULL; why++)
	{
		zen_put_text(&row, reason->outcome);
		zen_put_text(&row, reason->name);
		zen_put_int64(&row, (int64) totals[ZEN_C_no_reason + why]);
		zen_put_text(&row, reason->hint);
		zen_put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- zen_stat_garbage ---------- */

Datum
zen_view_garbage(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	ZenHolder	holder;

	zen_view_begin_row(fcinfo, &row);
	zen_holder_find(&holder);
	zen_put_int64(&row, (int64) zen_gcqueue_pending());
	zen_put_int64(&row, (int64) zen_gcqueue_bytes());
	zen_put_xid8(&row, zen_gcqueue_oldest());
	zen_put_xid8(&row, zen_horizon_look());
	zen_put_text(&row, holder.kind != ZEN_HOLDER_NONE ? zen_holder_kind(holder.kind) : NULL);
	zen_put_datum(&row, INT4OID, Int32GetDatum(holder.pid), holder.kind != ZEN_HOLDER_PROCESS);
	zen_put_text(&row, holder.kind == ZEN_HOLDER_SLOT ? NameStr(holder.name) : NULL);
	zen_put_xid(&row, holder.xid);
	zen_put_int64_or_null(&row, (int64) holder.age, holder.kind == ZEN_HOLDER_NONE);
	zen_put_int64(&row, (int64) pg_atomic_read_u64(&zen_sweep->sweeps));
	zen_put_xid8(&row, FullTransactionIdFromU64(pg_atomic_read_u64(&zen_sweep->frozen_to)));
	PG_RETURN_DATUM(zen_end_row(&row));
}

/* ---------- zen_stat_stream ---------- */

Datum
zen_view_stream(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	uint64		totals[ZEN_NCOUNTERS];
	ZenTailLook look;
	uint64		size,
				needs;
	bool		replica;
	char	   *why;

	zen_view_begin_row(fcinfo, &row);
	replica = zen_pool_is_replica();
	why = zen_replication_lacks();
	zen_stats_sum(totals);
	zen_streamtail_look(&look);
	zen_pool_noted_dram(&size, &needs);
	if (!replica)
		needs = zen_copy_dram_needs();
	zen_put_text(&row, GetConfigOption("zen.stream", false, false));
	zen_put_int64(&row, (int64) totals[ZEN_C_stream_records]);
	zen_put_int64(&row, (int64) totals[ZEN_C_stream_bytes]);
	zen_put_int64(&row, look.kept);
	zen_put_int64(&row, (int64) look.bytes);
	zen_put_int64(&row, look.again);
	zen_put_text(&row, replica ? "replica" : "primary");
	zen_put_bool(&row, zen_pool_is_copied() && (replica || why == NULL));
	zen_put_datum(&row, PG_LSNOID, LSNGetDatum(zen_pool_replayed()), !replica);
	zen_put_text(&row, why);
	zen_put_int64_or_null(&row, (int64) needs, replica && size == 0);
	zen_put_int64_or_null(&row, (int64) size, !replica || size == 0);
	zen_put_int64(&row, look.unflushed);
	zen_put_int64(&row, (int64) look.unflushed_bytes);
	zen_put_float8(&row, look.unflushed > 0 ? Max(0, GetCurrentTimestamp() - look.unflushed_since) / 1000.0 : 0);
	PG_RETURN_DATUM(zen_end_row(&row));
}

/* ---------- zen_stat_standby ---------- */

static Size
map_bytes(void)
{
	Size		bytes = 0;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use)
			bytes += zen_tidmap_bytes(&zen_htables[i]);
	return bytes;
}

/* Null is what there is on a hot standby that reads its zen tables, and nowhere else. */
Datum
zen_view_standby(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	const ZenStandby *s = zen_standby;
	ZenFollowerStats trees;
	bool		off;

	zen_view_begin_row(fcinfo, &row);
	off = !zen_standby_reads || !RecoveryInProgress();
	zen_put_text(&row, zen_standby_state_name());
	zen_put_int64_or_null(&row, zen_standby_count_readers(), off);
	zen_put_int64(&row, (int64) s->scans);
	zen_put_int64(&row, (int64) s->pushed);
	zen_put_int64(&row, (int64) s->copied);
	zen_put_int64(&row, (int64) s->cut);
	zen_put_int64_or_null(&row, (int64) (s->due.pending - s->due.empty), off);
	zen_put_int64(&row, (int64) s->conflicts);
	zen_put_int64_or_null(&row, (int64) zen_version_bytes(), off);
	zen_put_int64_or_null(&row, (int64) zen_due_bytes(), off);
	zen_put_int64_or_null(&row, (int64) map_bytes(), off);
	zen_followers_stats(&trees);
	zen_put_int64(&row, (int64) trees.trees);
	zen_put_int64(&row, (int64) trees.built);
	zen_put_int64(&row, (int64) trees.lost);
	zen_put_int64(&row, (int64) trees.news);
	zen_put_int64(&row, (int64) trees.bytes);
	PG_RETURN_DATUM(zen_end_row(&row));
}

/* ---------- zen_stat_exclusive ---------- */

Datum
zen_view_exclusive(PG_FUNCTION_ARGS)
{
	ZenExclusiveRecord records[ZEN_EXCLUSIVE_HISTORY];
	ZenResultRow row;
	int			n;

	zen_view_begin_rows(fcinfo, &row);
	n = zen_exclusive_list(records);
	for (int i = 0; i < n; i++)
	{
		ZenExclusiveRecord *r = &records[i];

		zen_put_bool(&row, r->running);
		zen_put_int32(&row, r->pid);
		zen_put_text(&row, r->reason);
		zen_put_datum(&row, TIMESTAMPTZOID, TimestampTzGetDatum(r->began), false);
		zen_put_float8(&row, (r->ended - r->began) / 1000.0);
		zen_put_text(&row, r->end);
		zen_put_int64(&row, r->held_back);
		zen_put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- zen_pool ---------- */

/* Absolute names of all files, with commas between them. */
static const char *
pool_paths(void)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < zen_pool.nfiles; i++)
		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "", zen_files[i].path);
	return text.data;
}

Datum
zen_view_pool(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	ZenSuperblock super;
	PageCounts	pages;
	Size		target,
				done;
	Size		max_size = 0;
	bool		growing;
	int			file;
	uint32		total,
				nfree;

	zen_view_begin_row(fcinfo, &row);
	zen_pool_superblock(0, &super);
	zen_put_text(&row, pool_paths());
	zen_put_text(&row, zen_pool_mode_name());
	zen_put_text(&row, zen_nvm_domain());
	zen_put_int64(&row, (int64) zen_pool_size());
	zen_put_int32(&row, (int32) super.version);
	zen_put_text(&row, psprintf("%016llx%016llx",
								(unsigned long long) super.uuid[0], (unsigned long long) super.uuid[1]));
	zen_put_int64(&row, (int64) super.system_id);
	zen_put_int64(&row, (int64) super.generation);
	pages = count_pages();
	zen_page_free(&total, &nfree);
	zen_put_int64(&row, total);
	zen_put_int64_or_null(&row, pages.nfree, pages.unknown);
	zen_put_text(&row, recovery_state());
	zen_put_bool(&row, zen_pool.was_clean);
	for (int i = 0; i < zen_pool.nfiles; i++)
		max_size += zen_grow_max_size(i);
	zen_put_int64(&row, (int64) max_size);
	growing = zen_grow_progress(&file, &target, &done);
	zen_put_int64_or_null(&row, (int64) target, !growing);
	zen_put_int64_or_null(&row, (int64) done, !growing);
	PG_RETURN_DATUM(zen_end_row(&row));
}

Datum
zen_view_pool_files(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	PageCounts	pages;

	zen_view_begin_rows(fcinfo, &row);
	pages = count_pages();
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		int32		node = zen_pool.files[i].node;
		uint32		total;
		uint32		nfree = zen_page_free_of(i, &total);

		zen_put_int32(&row, i);
		zen_put_text(&row, zen_files[i].path);
		zen_put_datum(&row, INT4OID, Int32GetDatum(node), node < 0);
		zen_put_int64(&row, (int64) zen_file_size(i));
		zen_put_int64(&row, (int64) zen_grow_max_size(i));
		zen_put_int64(&row, (int64) zen_pool.files[i].first);
		zen_put_int64(&row, total);
		zen_put_int64_or_null(&row, nfree, pages.unknown);
		zen_put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- zen_pool_grow() ---------- */

#define MB(bytes)	((bytes) / (1024 * 1024))

/* A size as zen.pool_size is written, in bytes. */
static Size
parse_size(const char *text)
{
	const char *hint = NULL;
	int			mb;

	if (!parse_int(text, &mb, GUC_UNIT_MB, &hint) || mb <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid size of a zen pool: \"%s\"", text),
				 hint ? errhint("%s", hint) : errhint("Write it as zen.pool_size is written: '20GB'.")));
	return (Size) mb * 1024 * 1024;
}

static void
check_pool_file(int file)
{
	if (file < 0 || file >= zen_pool.nfiles)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the zen pool has no file %d", file),
				 errhint("zen_pool_files lists its files.")));
}

static void
check_new_size(int file, Size size)
{
	if (size < zen_file_size(file))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a zen pool cannot become smaller"),
				 errdetail("It has %zu MB, %zu MB were asked for.", MB(zen_file_size(file)), MB(size)),
				 errhint("The argument of zen_pool_grow() is the pool's new size.")));
	if (size > zen_grow_max_size(file))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the zen pool cannot grow to %zu MB while the server runs", MB(size)),
				 errdetail("There is address space for %zu MB.", MB(zen_grow_max_size(file))),
				 file == zen_pool.nfiles - 1 ?
				 errhint("Raise zen.pool_max_size, or zen.pool_size itself, and restart the server.") :
				 errhint("This file cannot become larger than that, since another one was added behind it.  Grow that "
						 "one, or add one to zen.pool_path.")));
}

/* zen_pool_grow -- see doc/functions.md. */
Datum
zen_pool_grow(PG_FUNCTION_ARGS)
{
	Size		size = parse_size(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	int			file = PG_GETARG_INT32(1);
	Size		before,
				after;

	zen_gate();
	if (file == -1)
		file = zen_pool.nfiles - 1;
	check_pool_file(file);
	check_new_size(file, size);
	before = zen_file_size(file);
	after = zen_grow_to(file, size, ERROR);
	if (after == before)
		ereport(NOTICE,
				(errmsg("the zen pool has %zu MB already", MB(after))));
	else
		ereport(LOG,
				(errmsg("zen pool file \"%s\" has grown from %zu to %zu MB",
						zen_files[file].path, MB(before), MB(after))));
	PG_RETURN_INT64((int64) after);
}

/* zen_save_map -- see doc/functions.md. */
Datum
zen_save_map_now(PG_FUNCTION_ARGS)
{
	const char *why;

	zen_gate();
	why = zen_runmap_save();
	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen has not saved its map: %s", why)));
	PG_RETURN_VOID();
}

/* ---------- zen_stat_numa ---------- */

/* Pages of the files on the node at a place; -1: of those whose node is not known.  How many files there are. */
static int
count_pages_of_place(int place, uint32 *total, uint32 *nfree)
{
	int			n = 0;

	*total = *nfree = 0;
	for (int i = 0; i < zen_pool.nfiles; i++)
		if (zen_pool.files[i].place == place)
		{
			uint32		total_of;

			*nfree += zen_page_free_of(i, &total_of);
			*total += total_of;
			n++;
		}
	return n;
}

/* One row of zen_stat_numa.  place: -1 for pages of no node. */
static void
put_node(FunctionCallInfo fcinfo, ZenResultRow *row, int place, bool unknown)
{
	bool		counted = place >= 0 && zen_numa_nodes > 1;
	ZenNumaCounts counts = {0};
	int			sessions = 0;
	double		load = !counted ? -1 : zen_partition_soft ? zen_partition_load(place) : zen_numa_load(place);
	uint32		total,
				nfree;

	if (counted)
		zen_numa_sum(place, &counts, &sessions);
	count_pages_of_place(place, &total, &nfree);
	zen_put_datum(row, INT4OID, Int32GetDatum(place >= 0 ? zen_numa_number(place) : 0), place < 0);
	zen_put_int64(row, total);
	zen_put_int64_or_null(row, nfree, unknown);
	zen_put_int64_or_null(row, total - nfree, unknown);
	zen_put_int64_or_null(row, (int64) counts.rows_local, !counted);
	zen_put_int64_or_null(row, (int64) counts.rows_remote, !counted);
	zen_put_int64_or_null(row, (int64) counts.lines_local, !counted);
	zen_put_int64_or_null(row, (int64) counts.lines_remote, !counted);
	zen_put_int64_or_null(row, (int64) counts.pages_remote, !counted);
	zen_put_int64_or_null(row, sessions, !counted);
	zen_put_datum(row, FLOAT8OID, Float8GetDatum(load), load < 0);
	zen_put_int64_or_null(row, (int64) counts.rows_read_local, !counted);
	zen_put_int64_or_null(row, (int64) counts.rows_read_remote, !counted);
	zen_put_int64_or_null(row, (int64) counts.lines_read_local, !counted);
	zen_put_int64_or_null(row, (int64) counts.lines_read_remote, !counted);
	zen_put_int64_or_null(row, (int64) counts.moves, !counted);
	zen_put_int64_or_null(row, counted ? (int64) zen_arena_row_bytes(place) : 0, !counted);
	zen_put_row(fcinfo, row);
}

Datum
zen_view_numa(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	bool		unknown;
	uint32		total,
				nfree;

	zen_view_begin_rows(fcinfo, &row);
	unknown = count_pages().unknown;
	for (int i = 0; i < zen_numa_nodes; i++)
		put_node(fcinfo, &row, i, unknown);
	if (count_pages_of_place(-1, &total, &nfree) > 0)
		put_node(fcinfo, &row, -1, unknown);
	return (Datum) 0;
}

Datum
zen_view_numa_partitions(PG_FUNCTION_ARGS)
{
	ZenResultRow row;

	zen_view_begin_rows(fcinfo, &row);
	for (int i = 0; zen_partition_soft && i < zen_numa_partitions; i++)
	{
		ZenPartitionInfo info = zen_partition_look(i);

		zen_put_int32(&row, i);
		zen_put_int32(&row, zen_numa_number(info.place));
		zen_put_int64(&row, (int64) info.accesses);
		zen_put_int64(&row, info.moves);
		zen_put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- zen_recovery ---------- */

static uint32
count_tables_to_reindex(void)
{
	uint32		n = 0;

	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
		if (zen_htables[i].in_use && pg_atomic_read_u32(&zen_htables[i].reindex) != 0)
			n++;
	return n;
}

Datum
zen_view_recovery(PG_FUNCTION_ARGS)
{
	ZenResultRow row;

	zen_view_begin_row(fcinfo, &row);
	zen_put_text(&row, recovery_state());
	zen_put_bool(&row, zen_recovery->after_crash);
	zen_put_text(&row, zen_recovery_phase_name());
	zen_put_int64(&row, pg_atomic_read_u32(&zen_recovery->processes));
	zen_put_int64(&row, zen_recovery->pages_total);
	zen_put_int64(&row, pg_atomic_read_u32(&zen_recovery->pages_done));
	zen_put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->rows));
	zen_put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->losers));
	zen_put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->damaged));
	zen_put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->repaired));
	zen_put_float8(&row, zen_recovery->scan_ms);
	zen_put_float8(&row, zen_recovery->map_ms);
	zen_put_float8(&row, zen_recovery->total_ms);
	zen_put_float8(&row, pg_atomic_read_u64(&zen_recovery->index_us) / 1000.0);
	zen_put_int64(&row, count_tables_to_reindex());
	PG_RETURN_DATUM(zen_end_row(&row));
}
