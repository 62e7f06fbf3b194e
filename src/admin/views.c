/*
 * views.c -- the rows of the views that show what zen is doing, and functions of users about the same things.
 *
 * README, "Views", says how they hang together with the SQL file.  doc/views.md explains the columns.
 */
#include "base/compat.h"

#include "access/relation.h"
#include "admin/replication.h"
#include "admin/statements.h"
#include "base/arena.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/numa.h"
#include "base/startup.h"
#include "base/stats.h"
#include "cache/tablestat.h"
#include "cache/tidmap.h"
#include "cache/version.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "exec/exec.h"
#include "fmgr.h"
#include "funcapi.h"
#include "gc/collect.h"
#include "gc/reclaim.h"
#include "gc/room.h"
#include "index/treedir.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "numa/partition.h"
#include "nvm/grow.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/pool.h"
#include "nvm/poolfile.h"
#include "nvm/slotalloc.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "row/visibility.h"
#include "stream/streamsink.h"
#include "stream/streamtail.h"
#include "table/zenam_rel.h"
#include "txn/exclusive.h"
#include "txn/xact.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(zen_view_stat);
PG_FUNCTION_INFO_V1(zen_view_executor);
PG_FUNCTION_INFO_V1(zen_view_garbage);
PG_FUNCTION_INFO_V1(zen_view_stream);
PG_FUNCTION_INFO_V1(zen_view_exclusive);
PG_FUNCTION_INFO_V1(zen_view_pool);
PG_FUNCTION_INFO_V1(zen_view_pool_files);
PG_FUNCTION_INFO_V1(zen_pool_grow);
PG_FUNCTION_INFO_V1(zen_view_numa);
PG_FUNCTION_INFO_V1(zen_view_numa_partitions);
PG_FUNCTION_INFO_V1(zen_view_recovery);
PG_FUNCTION_INFO_V1(zen_view_tables);
PG_FUNCTION_INFO_V1(zen_view_table_versions);
PG_FUNCTION_INFO_V1(zen_view_indexes);
PG_FUNCTION_INFO_V1(zen_relation_size);
PG_FUNCTION_INFO_V1(zen_stat_reset);

/* ---------- rows ---------- */

#define MAX_COLUMNS		64

/* A result row, filled from left to right. */
typedef struct ResultRow
{
	TupleDesc	desc;
	int			n;				/* columns filled */
	Datum		values[MAX_COLUMNS];
	bool		isnull[MAX_COLUMNS];
} ResultRow;

StaticAssertDecl(ZEN_NSHOWN + ZEN_NGAUGES + 1 <= MAX_COLUMNS, "room for the columns of zen_stat");

static void
put_datum(ResultRow *row, Oid type, Datum value, bool isnull)
{
	if (row->n >= row->desc->natts || row->n >= MAX_COLUMNS || TupleDescAttr(row->desc, row->n)->atttypid != type)
		zen_sql_differs();
	row->values[row->n] = value;
	row->isnull[row->n] = isnull;
	row->n++;
}

static void
put_int64_or_null(ResultRow *row, int64 value, bool isnull)
{
	put_datum(row, INT8OID, Int64GetDatum(value), isnull);
}

static void
put_int64(ResultRow *row, int64 value)
{
	put_int64_or_null(row, value, false);
}

static void
put_int32(ResultRow *row, int32 value)
{
	put_datum(row, INT4OID, Int32GetDatum(value), false);
}

static void
put_float8(ResultRow *row, double value)
{
	put_datum(row, FLOAT8OID, Float8GetDatum(value), false);
}

static void
put_bool(ResultRow *row, bool value)
{
	put_datum(row, BOOLOID, BoolGetDatum(value), false);
}

static void
put_oid(ResultRow *row, Oid value)
{
	put_datum(row, OIDOID, ObjectIdGetDatum(value), false);
}

/* value NULL: null */
static void
put_text(ResultRow *row, const char *value)
{
	put_datum(row, TEXTOID, value ? CStringGetTextDatum(value) : (Datum) 0, value == NULL);
}

/* null if the xid is not valid */
static void
put_xid(ResultRow *row, TransactionId value)
{
	put_datum(row, XIDOID, TransactionIdGetDatum(value), !TransactionIdIsValid(value));
}

static void
put_xid8(ResultRow *row, FullTransactionId value)
{
	put_datum(row, XID8OID, FullTransactionIdGetDatum(value), !FullTransactionIdIsValid(value));
}

/* Each function calls this first, most of them to begin a row.  Does not wait for recovery. */
static void
view_enter(void)
{
	if (zen_recovery == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen is not running in this server"),
				 errhint("Add zen to shared_preload_libraries and restart the server.")));
	zen_xact_attach();
}

static void
view_begin_row(FunctionCallInfo fcinfo, ResultRow *row)
{
	view_enter();
	if (get_call_result_type(fcinfo, NULL, &row->desc) != TYPEFUNC_COMPOSITE)
		zen_sql_differs();
	row->desc = BlessTupleDesc(row->desc);
	row->n = 0;
}

static Datum
end_row(ResultRow *row)
{
	if (row->n != row->desc->natts)
		zen_sql_differs();
	return HeapTupleGetDatum(heap_form_tuple(row->desc, row->values, row->isnull));
}

/* A result of several rows: put_row() adds what was put, and begins the next one. */
static void
view_begin_rows(FunctionCallInfo fcinfo, ResultRow *row)
{
	view_enter();
	InitMaterializedSRF(fcinfo, 0);
	row->desc = ((ReturnSetInfo *) fcinfo->resultinfo)->setDesc;
	row->n = 0;
}

static void
put_row(FunctionCallInfo fcinfo, ResultRow *row)
{
	if (row->n != row->desc->natts)
		zen_sql_differs();
	Assert(row->n <= MAX_COLUMNS);
	tuplestore_putvalues(((ReturnSetInfo *) fcinfo->resultinfo)->setResult, row->desc, row->values, row->isnull);
	row->n = 0;
}

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
put_stat(ResultRow *row, int64 value, bool isnull)
{
	if (row->n >= row->desc->natts ||
		strcmp(NameStr(TupleDescAttr(row->desc, row->n)->attname), stat_columns[row->n]) != 0)
		zen_sql_differs();
	put_int64_or_null(row, value, isnull);
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
	ResultRow	row;
	uint64		totals[ZEN_NCOUNTERS];
	int64		gauges[ZEN_NGAUGES];
	TimestampTz since;

	view_begin_row(fcinfo, &row);
	since = zen_stats_sum(totals);
	read_gauges(gauges);
	for (int i = 0; i < ZEN_NSHOWN; i++)
		put_stat(&row, (int64) totals[i], false);
	for (int i = 0; i < ZEN_NGAUGES; i++)
		put_stat(&row, gauges[i], gauges[i] < 0);
	put_datum(&row, TIMESTAMPTZOID, TimestampTzGetDatum(since), false);
	PG_RETURN_DATUM(end_row(&row));
}

/* zen_stat_reset -- all counters that views show begin at 0 again; statements are forgotten. */
Datum
zen_stat_reset(PG_FUNCTION_ARGS)
{
	view_enter();
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
	ResultRow	row;
	uint64		totals[ZEN_NCOUNTERS];
	const ZenPointReason *reason;

	view_begin_rows(fcinfo, &row);
	zen_stats_sum(totals);
	for (int why = 1; (reason = zen_point_reason(why)) != NULL; why++)
	{
		put_text(&row, reason->outcome);
		put_text(&row, reason->name);
		put_int64(&row, (int64) totals[ZEN_C_no_reason + why]);
		put_text(&row, reason->hint);
		put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- zen_stat_garbage ---------- */

Datum
zen_view_garbage(PG_FUNCTION_ARGS)
{
	ResultRow	row;
	ZenHolder	holder;

	view_begin_row(fcinfo, &row);
	zen_holder_find(&holder);
	put_int64(&row, (int64) zen_gcqueue_pending());
	put_int64(&row, (int64) zen_gcqueue_bytes());
	put_xid8(&row, zen_gcqueue_oldest());
	put_xid8(&row, zen_horizon_look());
	put_text(&row, holder.kind != ZEN_HOLDER_NONE ? zen_holder_kind(holder.kind) : NULL);
	put_datum(&row, INT4OID, Int32GetDatum(holder.pid), holder.kind != ZEN_HOLDER_PROCESS);
	put_text(&row, holder.kind == ZEN_HOLDER_SLOT ? NameStr(holder.name) : NULL);
	put_xid(&row, holder.xid);
	put_int64_or_null(&row, (int64) holder.age, holder.kind == ZEN_HOLDER_NONE);
	put_int64(&row, (int64) pg_atomic_read_u64(&zen_sweep->sweeps));
	put_xid8(&row, FullTransactionIdFromU64(pg_atomic_read_u64(&zen_sweep->frozen_to)));
	PG_RETURN_DATUM(end_row(&row));
}

/* ---------- zen_stat_stream ---------- */

Datum
zen_view_stream(PG_FUNCTION_ARGS)
{
	ResultRow	row;
	uint64		totals[ZEN_NCOUNTERS];
	ZenTailLook look;
	uint64		size,
				needs;
	bool		replica;
	char	   *why;

	view_begin_row(fcinfo, &row);
	replica = zen_pool_is_replica();
	why = zen_replication_lacks();
	zen_stats_sum(totals);
	zen_streamtail_look(&look);
	zen_pool_noted_dram(&size, &needs);
	if (!replica)
		needs = zen_copy_dram_needs();
	put_text(&row, GetConfigOption("zen.stream", false, false));
	put_int64(&row, (int64) totals[ZEN_C_stream_records]);
	put_int64(&row, (int64) totals[ZEN_C_stream_bytes]);
	put_int64(&row, look.kept);
	put_int64(&row, (int64) look.bytes);
	put_int64(&row, look.again);
	put_text(&row, replica ? "replica" : "primary");
	put_bool(&row, zen_pool_is_copied() && (replica || why == NULL));
	put_datum(&row, PG_LSNOID, LSNGetDatum(zen_pool_replayed()), !replica);
	put_text(&row, why);
	put_int64_or_null(&row, (int64) needs, replica && size == 0);
	put_int64_or_null(&row, (int64) size, !replica || size == 0);
	put_int64(&row, look.unflushed);
	put_int64(&row, (int64) look.unflushed_bytes);
	put_float8(&row, look.unflushed > 0 ? Max(0, GetCurrentTimestamp() - look.unflushed_since) / 1000.0 : 0);
	PG_RETURN_DATUM(end_row(&row));
}

/* ---------- zen_stat_exclusive ---------- */

Datum
zen_view_exclusive(PG_FUNCTION_ARGS)
{
	ZenExclusiveRecord records[ZEN_EXCLUSIVE_HISTORY];
	ResultRow	row;
	int			n;

	view_begin_rows(fcinfo, &row);
	n = zen_exclusive_list(records);
	for (int i = 0; i < n; i++)
	{
		ZenExclusiveRecord *r = &records[i];

		put_bool(&row, r->running);
		put_int32(&row, r->pid);
		put_text(&row, r->reason);
		put_datum(&row, TIMESTAMPTZOID, TimestampTzGetDatum(r->began), false);
		put_float8(&row, (r->ended - r->began) / 1000.0);
		put_text(&row, r->end);
		put_int64(&row, r->held_back);
		put_row(fcinfo, &row);
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
	ResultRow	row;
	ZenSuperblock super;
	PageCounts	pages;
	Size		target,
				done;
	Size		max_size = 0;
	bool		growing;
	int			file;
	uint32		total,
				nfree;

	view_begin_row(fcinfo, &row);
	zen_pool_superblock(0, &super);
	put_text(&row, pool_paths());
	put_text(&row, zen_pool_mode_name());
	put_text(&row, zen_nvm_domain());
	put_int64(&row, (int64) zen_pool_size());
	put_int32(&row, (int32) super.version);
	put_text(&row, psprintf("%016llx%016llx", (unsigned long long) super.uuid[0], (unsigned long long) super.uuid[1]));
	put_int64(&row, (int64) super.system_id);
	put_int64(&row, (int64) super.generation);
	pages = count_pages();
	zen_page_free(&total, &nfree);
	put_int64(&row, total);
	put_int64_or_null(&row, pages.nfree, pages.unknown);
	put_text(&row, recovery_state());
	put_bool(&row, zen_pool.was_clean);
	for (int i = 0; i < zen_pool.nfiles; i++)
		max_size += zen_grow_max_size(i);
	put_int64(&row, (int64) max_size);
	growing = zen_grow_progress(&file, &target, &done);
	put_int64_or_null(&row, (int64) target, !growing);
	put_int64_or_null(&row, (int64) done, !growing);
	PG_RETURN_DATUM(end_row(&row));
}

Datum
zen_view_pool_files(PG_FUNCTION_ARGS)
{
	ResultRow	row;
	PageCounts	pages;

	view_begin_rows(fcinfo, &row);
	pages = count_pages();
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		int32		node = zen_pool.files[i].node;
		uint32		total;
		uint32		nfree = zen_page_free_of(i, &total);

		put_int32(&row, i);
		put_text(&row, zen_files[i].path);
		put_datum(&row, INT4OID, Int32GetDatum(node), node < 0);
		put_int64(&row, (int64) zen_file_size(i));
		put_int64(&row, (int64) zen_grow_max_size(i));
		put_int64(&row, (int64) zen_pool.files[i].first);
		put_int64(&row, total);
		put_int64_or_null(&row, nfree, pages.unknown);
		put_row(fcinfo, &row);
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
put_node(FunctionCallInfo fcinfo, ResultRow *row, int place, bool unknown)
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
	put_datum(row, INT4OID, Int32GetDatum(place >= 0 ? zen_numa_number(place) : 0), place < 0);
	put_int64(row, total);
	put_int64_or_null(row, nfree, unknown);
	put_int64_or_null(row, total - nfree, unknown);
	put_int64_or_null(row, (int64) counts.rows_local, !counted);
	put_int64_or_null(row, (int64) counts.rows_remote, !counted);
	put_int64_or_null(row, (int64) counts.lines_local, !counted);
	put_int64_or_null(row, (int64) counts.lines_remote, !counted);
	put_int64_or_null(row, (int64) counts.pages_remote, !counted);
	put_int64_or_null(row, sessions, !counted);
	put_datum(row, FLOAT8OID, Float8GetDatum(load), load < 0);
	put_int64_or_null(row, (int64) counts.rows_read_local, !counted);
	put_int64_or_null(row, (int64) counts.rows_read_remote, !counted);
	put_int64_or_null(row, (int64) counts.lines_read_local, !counted);
	put_int64_or_null(row, (int64) counts.lines_read_remote, !counted);
	put_int64_or_null(row, (int64) counts.moves, !counted);
	put_int64_or_null(row, counted ? (int64) zen_arena_row_bytes(place) : 0, !counted);
	put_row(fcinfo, row);
}

Datum
zen_view_numa(PG_FUNCTION_ARGS)
{
	ResultRow	row;
	bool		unknown;
	uint32		total,
				nfree;

	view_begin_rows(fcinfo, &row);
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
	ResultRow	row;

	view_begin_rows(fcinfo, &row);
	for (int i = 0; zen_partition_soft && i < zen_numa_partitions; i++)
	{
		ZenPartitionInfo info = zen_partition_look(i);

		put_int32(&row, i);
		put_int32(&row, zen_numa_number(info.place));
		put_int64(&row, (int64) info.accesses);
		put_int64(&row, info.moves);
		put_row(fcinfo, &row);
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
	ResultRow	row;

	view_begin_row(fcinfo, &row);
	put_text(&row, recovery_state());
	put_bool(&row, zen_recovery->after_crash);
	put_text(&row, zen_recovery_phase_name());
	put_int64(&row, pg_atomic_read_u32(&zen_recovery->processes));
	put_int64(&row, zen_recovery->pages_total);
	put_int64(&row, pg_atomic_read_u32(&zen_recovery->pages_done));
	put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->rows));
	put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->losers));
	put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->damaged));
	put_int64(&row, (int64) pg_atomic_read_u64(&zen_recovery->repaired));
	put_float8(&row, zen_recovery->scan_ms);
	put_float8(&row, zen_recovery->map_ms);
	put_float8(&row, zen_recovery->total_ms);
	put_float8(&row, pg_atomic_read_u64(&zen_recovery->index_us) / 1000.0);
	put_int64(&row, count_tables_to_reindex());
	PG_RETURN_DATUM(end_row(&row));
}

/* ---------- zen_stat_tables ---------- */

/* The identity of an HTable, copied under the directory's lock. */
typedef struct Listed
{
	ZenHTable  *ht;
	Oid			db;
	Oid			spc;
	RelFileNumber relnumber;
} Listed;

static Listed *
list_htables(uint32 *n)
{
	Listed	   *list = palloc(ZEN_MAX_HTABLES * sizeof(Listed));

	*n = 0;
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_SHARED);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];
		Listed		l = {.ht = ht,.db = ht->db,.spc = ht->spc,.relnumber = ht->relnumber};

		if (ht->in_use)
			list[(*n)++] = l;
	}
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return list;
}

/* Pages owned by each HTable, in one pass over all pages. */
static uint32 *
count_own_pages(void)
{
	uint32	   *counts = palloc0(ZEN_MAX_HTABLES * sizeof(uint32));

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
		{
			uint32		owner = zen_pages[p].owner.htable;

			/* a page may be changing hands */
			if (owner < ZEN_MAX_HTABLES)
				counts[owner]++;
		}
	return counts;
}

/* Whole pages count in full, what is free in them included; of shared pages, what the table has taken. */
static int64
nvm_bytes(ZenHTable *ht, uint32 own_pages)
{
	return (int64) own_pages * ZEN_PAGE_SIZE + (int64) ht->bytes_taken;
}

/*
 * On a standby nothing of a table is in DRAM.  Its own pages are known; what it has of shared pages is not.  So the
 * size of a table without own pages is null, as is all that is in DRAM on a primary.
 */
static uint32 *
count_pages_in_copy(void)
{
	uint32	   *counts = palloc0(ZEN_MAX_HTABLES * sizeof(uint32));

	Assert(RecoveryInProgress());
	zen_page_count_owned(counts);
	return counts;
}

static void
put_tables_of_copy(FunctionCallInfo fcinfo, ResultRow *row)
{
	uint32	   *own_pages = count_pages_in_copy();
	RelFileLocator loc;

	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!zen_htable_named(idx, &loc))
			continue;
		put_int32(row, (int32) idx);
		put_oid(row, ZEN_LOCATOR_DB(loc));
		put_oid(row, ZEN_LOCATOR_SPC(loc));
		put_oid(row, ZEN_LOCATOR_NUMBER(loc));
		put_int64_or_null(row, 0, true);	/* blocks */
		put_int64_or_null(row, 0, true);	/* bytes of the map */
		put_int64(row, own_pages[idx]);
		put_int64_or_null(row, (int64) own_pages[idx] * ZEN_PAGE_SIZE, own_pages[idx] == 0);
		put_datum(row, BOOLOID, (Datum) 0, true);	/* reindex */
		for (int c = 0; c < ZEN_T_NCOUNTERS; c++)
			put_int64_or_null(row, 0, true);
		put_int64_or_null(row, 0, true);	/* quota */
		put_row(fcinfo, row);
	}
}

Datum
zen_view_tables(PG_FUNCTION_ARGS)
{
	ResultRow	row;
	Listed	   *list;
	uint32		n;
	uint32	   *own_pages;

	view_begin_rows(fcinfo, &row);
	if (RecoveryInProgress())
	{
		put_tables_of_copy(fcinfo, &row);
		return (Datum) 0;
	}
	zen_gate();
	zen_tablestat_flush();
	own_pages = count_own_pages();
	list = list_htables(&n);
	for (uint32 i = 0; i < n; i++)
	{
		ZenHTable  *ht = list[i].ht;
		uint64		quota = zen_tablestat_quota(ht->idx);
		int64		use[ZEN_T_NCOUNTERS];

		CHECK_FOR_INTERRUPTS();
		put_int32(&row, (int32) ht->idx);
		put_oid(&row, list[i].db);
		put_oid(&row, list[i].spc);
		put_oid(&row, list[i].relnumber);
		put_int64(&row, (int64) zen_tidmap_nblocks(ht));
		put_int64(&row, (int64) zen_tidmap_bytes(ht));
		put_int64(&row, own_pages[ht->idx]);
		put_int64(&row, nvm_bytes(ht, own_pages[ht->idx]));
		put_bool(&row, pg_atomic_read_u32(&ht->reindex) != 0);
		zen_tablestat_read(ht->idx, use);
		for (int c = 0; c < ZEN_T_NCOUNTERS; c++)
			put_int64(&row, use[c]);
		put_int64_or_null(&row, (int64) quota, quota == 0);
		put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- one table ---------- */

/* As pg_relation_size(): NULL for a relation that has just been dropped. */
static Relation
open_table(Oid relid, const char *hint)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel != NULL && (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || !zen_rel_is_zen(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a zen table", RelationGetRelationName(rel)),
				 hint ? errhint("%s", hint) : 0));
	return rel;
}

Datum
zen_view_table_versions(PG_FUNCTION_ARGS)
{
	ResultRow	row;
	Relation	rel;
	ZenVersionCounts counts;

	view_begin_row(fcinfo, &row);
	rel = open_table(PG_GETARG_OID(0), NULL);
	if (rel == NULL)
		PG_RETURN_NULL();
	zen_sweep_count(zen_rel_htable_raw(rel), &counts);
	relation_close(rel, AccessShareLock);
	put_int64(&row, (int64) counts.entries);
	put_int64(&row, (int64) counts.unfrozen);
	put_int64(&row, (int64) counts.superseded);
	put_int64(&row, (int64) counts.superseded_bytes);
	put_int64(&row, (int64) counts.lockers);
	put_xid(&row, counts.oldest);
	PG_RETURN_DATUM(end_row(&row));
}

static uint32
own_pages_in_copy(RelFileLocator loc)
{
	uint32	   *own_pages = count_pages_in_copy();
	RelFileLocator named;

	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
		if (zen_htable_named(idx, &named) && memcmp(&named, &loc, sizeof(loc)) == 0)
			return own_pages[idx];
	return 0;
}

Datum
zen_relation_size(PG_FUNCTION_ARGS)
{
	Relation	rel;
	ZenHTable  *ht;
	int64		bytes;

	view_enter();
	rel = open_table(PG_GETARG_OID(0), "Use pg_relation_size() for relations that zen does not store.");
	if (rel == NULL)
		PG_RETURN_NULL();
	if (RecoveryInProgress())
	{
		uint32		own_pages = own_pages_in_copy(zen_rel_locator(rel));

		relation_close(rel, AccessShareLock);
		if (own_pages == 0)
			PG_RETURN_NULL();
		PG_RETURN_INT64((int64) own_pages * ZEN_PAGE_SIZE);
	}
	ht = zen_rel_htable_raw(rel);
	bytes = nvm_bytes(ht, zen_slotalloc_count_pages(ht->idx));
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(bytes);
}

/* ---------- zen_stat_indexes ---------- */

Datum
zen_view_indexes(PG_FUNCTION_ARGS)
{
	static const char *const kinds[] = {"word", "two words", "tuples"};
	ResultRow	row;
	ZenTreeInfo *list;
	int			n;

	view_begin_rows(fcinfo, &row);
	list = zen_tree_list(&n);
	for (int i = 0; i < n; i++)
	{
		put_oid(&row, ZEN_LOCATOR_SPC(list[i].loc));
		put_oid(&row, ZEN_LOCATOR_NUMBER(list[i].loc));
		put_text(&row, kinds[list[i].kind]);
		put_int32(&row, list[i].height);
		put_int64(&row, (int64) list[i].nodes);
		put_int64(&row, (int64) list[i].bytes);
		put_row(fcinfo, &row);
	}
	return (Datum) 0;
}
