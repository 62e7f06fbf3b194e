-- Complain if this file is fed to psql instead of CREATE EXTENSION.
\echo Use "CREATE EXTENSION zen" to load this file. \quit

-- The extension is relocatable: nothing here names a schema, and functions in SQL have bodies that are parsed now
-- (BEGIN ATOMIC, RETURN), so that no search_path can change what they call.

CREATE FUNCTION zen_tableam_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME', 'zen_tableam_handler'
LANGUAGE C STRICT;

COMMENT ON FUNCTION zen_tableam_handler(internal) IS
'handler of the table access method zen; not to be called';

CREATE ACCESS METHOD zen TYPE TABLE HANDLER zen_tableam_handler;

COMMENT ON ACCESS METHOD zen IS
'tables in non-volatile memory, without a write-ahead log';

CREATE FUNCTION zen_indexam_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME', 'zen_indexam_handler'
LANGUAGE C STRICT;

COMMENT ON FUNCTION zen_indexam_handler(internal) IS
'handler of the index access method zentree; not to be called';

CREATE ACCESS METHOD zentree TYPE INDEX HANDLER zen_indexam_handler;

COMMENT ON ACCESS METHOD zentree IS
'trees in DRAM, indexes of zen tables';

CREATE FUNCTION zen_copy_operator_classes()
RETURNS void
AS 'MODULE_PATHNAME', 'zen_copy_operator_classes'
LANGUAGE C VOLATILE STRICT;

REVOKE ALL ON FUNCTION zen_copy_operator_classes() FROM PUBLIC;

COMMENT ON FUNCTION zen_copy_operator_classes() IS
'gives access method zentree the operator classes that btree has';

SELECT zen_copy_operator_classes();

--
-- What the engine is doing.  These functions do not wait for recovery.
--

-- The counters are those of ZEN_COUNTERS in src/base/stats.h, in that order.
CREATE FUNCTION zen_stat(
	OUT commits_zen_only bigint,
	OUT commits_mixed bigint,
	OUT commits_prepared bigint,
	OUT aborts bigint,
	OUT slots_written bigint,
	OUT bytes_written bigint,
	OUT lines_flushed bigint,
	OUT fences bigint,
	OUT metcache_hits bigint,
	OUT metcache_misses bigint,
	OUT metcache_admissions bigint,
	OUT metcache_evictions bigint,
	OUT rows_spilled bigint,
	OUT versions_freed bigint,
	OUT slots_freed bigint,
	OUT tombstones_freed bigint,
	OUT region_waits bigint,
	OUT word_spins bigint,
	OUT row_waits bigint,
	OUT arena_locks bigint,
	OUT epoch_raises bigint,
	OUT horizon_looks bigint,
	OUT point_accesses bigint,
	OUT point_kept_plans bigint,
	OUT point_fallbacks bigint,
	OUT point_states_made bigint,
	OUT key_joins bigint,
	OUT key_join_rows bigint,
	OUT dram_reserved bigint,
	OUT dram_taken bigint,
	OUT dram_in_use bigint,
	OUT metcache_bytes bigint,
	OUT garbage_pending bigint,
	OUT pages_total bigint,
	OUT pages_free bigint,
	OUT pages_owned bigint,
	OUT pages_shared bigint)
AS 'MODULE_PATHNAME', 'zen_stat'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_stat() IS
'one row: counters since the start of the server, then gauges.
commits_zen_only: transactions made durable in NVM alone; commits_mixed: transactions decided by PostgreSQL''s commit record; commits_prepared: PREPARE TRANSACTION; aborts: transactions and savepoints rolled back after writing to zen tables;
slots_written, bytes_written: row versions written to NVM and their bytes; lines_flushed, fences: cache lines flushed and store fences, for all purposes;
metcache_hits, metcache_misses: rows read from the Met-Cache in DRAM and from NVM; metcache_admissions, metcache_evictions: rows copied into it and given back;
rows_spilled: rows that large transactions have written to NVM before their commit;
versions_freed, slots_freed, tombstones_freed: superseded versions, NVM slots, and traces of deleted rows given back; region_waits, word_spins: times a writer found its region or a row''s map word taken; row_waits: waits for the end of a transaction that has changed or locked a row;
arena_locks, epoch_raises, horizon_looks: times a process took DRAM from or gave it to the common stock, closed a batch of retired objects, and looked for the oldest snapshot: what writes memory that all share;
point_accesses: statements on rows named by a unique key, run with executor state that is kept; point_kept_plans: other statements run so, by the nodes of their plan; point_fallbacks: executions of such plans by the standard executor, for one of the reasons in zen_point_fallbacks(); point_states_made: times that executor state was made to be kept; key_joins: nested loops whose inner rows were found by a unique key; key_join_rows: their outer rows;
dram_reserved: bytes of zen.dram_size; dram_taken: bytes of it ever used; dram_in_use: bytes of it used now; metcache_bytes: bytes of row versions now; garbage_pending: row changes whose predecessors are still to be freed;
pages_total, pages_free, pages_owned, pages_shared: 64 KB pages of the pool: all, free, owned by one table each, shared by small tables; null until recovery is done';

CREATE FUNCTION zen_point_fallbacks(
	OUT outcome text,
	OUT reason text,
	OUT count bigint,
	OUT hint text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_point_fallbacks'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 29;

COMMENT ON FUNCTION zen_point_fallbacks() IS
'one row for each reason why a statement on zen tables was not run with kept executor state (zen.executor), counted since the start of the server.
outcome: not kept: a plan was made of which no state is kept; kept whole: a plan of one table is kept, but not as a point access; not used: the standard executor ran a plan of which state is kept, for this execution; reason: its name; count: plans, and for not used executions; hint: what it means, and what to do';

CREATE FUNCTION zen_garbage(
	OUT pending bigint,
	OUT bytes bigint,
	OUT oldest xid8,
	OUT horizon xid8,
	OUT holder text,
	OUT holder_pid integer,
	OUT holder_slot text,
	OUT holder_xid xid,
	OUT holder_age bigint,
	OUT sweeps bigint,
	OUT frozen_to xid8)
AS 'MODULE_PATHNAME', 'zen_garbage_info'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_garbage() IS
'one row: what waits to be collected, and who keeps it.
pending: row changes whose predecessors are still to be freed, or versions to be frozen; bytes: what these predecessors take in DRAM and NVM, about; oldest: transaction of the first of them; horizon: transactions before this one are seen as ended by every snapshot, so that what they have superseded can be freed;
holder: process, prepared transaction or replication slot: who keeps the horizon from moving on, null if nobody does; holder_pid: of a process: see pg_stat_activity; holder_slot: name of a replication slot; holder_xid: the oldest transaction that the holder may not see as ended: of a prepared transaction, see pg_prepared_xacts; holder_age: transactions begun since;
sweeps: looks at all row versions in DRAM for old transaction ids since the start of the server, one in 100 million transactions; frozen_to: the last of them has left no version to be frozen, and no row lock, of older transactions, null before the first';

CREATE FUNCTION zen_space(
	OUT resource text,
	OUT size bigint,
	OUT used bigint,
	OUT used_percent integer,
	OUT warning_percent integer,
	OUT low boolean,
	OUT max_size bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_space'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 2;

COMMENT ON FUNCTION zen_space() IS
'two rows: how full the pool and zen''s DRAM are.
resource: pool, or dram (zen.dram_size); size, used: bytes; of the pool whole pages of 64 KB count as used, although there may be room in them; used_percent: rounded up; warning_percent: zen.warning_level; low: that share is reached, and the server log says so; always false where the setting is 0; max_size: bytes that the pool can grow to while the server runs; of dram its size';

CREATE FUNCTION zen_stat_statements(
	OUT userid oid,
	OUT dbid oid,
	OUT queryid bigint,
	OUT calls bigint,
	OUT metcache_hits bigint,
	OUT metcache_misses bigint,
	OUT slots_written bigint,
	OUT rows_spilled bigint,
	OUT lines_flushed bigint,
	OUT fences bigint,
	OUT point_accesses bigint,
	OUT point_kept_plans bigint,
	OUT point_fallbacks bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_stat_statements'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION zen_stat_statements() IS
'with zen.track_statements, one row for each statement of a user in a database, constants left out: what it has cost in the terms of zen_stat().
userid, dbid: who has run it, and where; queryid: as in pg_stat_statements, null of others'' statements unless pg_read_all_stats is yours; calls: how often; metcache_hits, metcache_misses: rows read from DRAM and from NVM; slots_written, lines_flushed, fences: what was written to NVM. The cost of a commit counts for the last statement that has changed or locked rows in the transaction; rows_spilled: rows written before their commit; point_accesses, point_kept_plans, point_fallbacks: executions with kept executor state and those of such plans without it, those of statements within included';

CREATE FUNCTION zen_stat_statements_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'zen_stat_statements_reset'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zen_stat_statements_reset() IS
'forget all that zen_stat_statements() shows';

REVOKE ALL ON FUNCTION zen_stat_statements_reset() FROM PUBLIC;

CREATE FUNCTION zen_stream(
	OUT mode text,
	OUT records bigint,
	OUT bytes bigint,
	OUT tail_transactions integer,
	OUT tail_bytes bigint,
	OUT logged_again integer,
	OUT role text,
	OUT copied boolean,
	OUT replayed pg_lsn,
	OUT backup_lacks_rows text,
	OUT dram_needed bigint,
	OUT primary_dram_size bigint,
	OUT unflushed_transactions integer,
	OUT unflushed_bytes bigint,
	OUT unflushed_ms double precision)
AS 'MODULE_PATHNAME', 'zen_stream_info'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_stream() IS
'one row: what of the changes of zen tables goes into the write-ahead log (zen.stream).
mode: the setting; records, bytes: records put into the log since the start of the server, and the bytes of their rows;
tail_transactions, tail_bytes: transactions that are kept in the pool until the log is flushed, and the bytes that they take there; logged_again: transactions that the last crash had taken out of the log;
role: of the pool: primary, or replica: a copy that follows the log of another server until it is promoted; copied: all changes of the pool are in the log: of a primary, base backups have it; of a replica, it still follows; replayed: of a replica, where the last record of the log ends that its pool has;
backup_lacks_rows: why a base backup taken now would not have the rows of zen tables, null: it would; dram_needed: bytes of zen.dram_size that opening the tables takes, of a replica as the primary server has told it; primary_dram_size: of a replica, zen.dram_size of the primary server;
unflushed_transactions, unflushed_bytes, unflushed_ms: transactions that have committed in the pool and that no reader of the log can have yet, since the log is not flushed so far; the bytes of log up to the last of them, and for how long the first of them has waited';

CREATE FUNCTION zen_stage(
	OUT running boolean,
	OUT pid integer,
	OUT reason text,
	OUT since timestamptz,
	OUT duration_ms double precision,
	OUT outcome text,
	OUT held_back bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_stage'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 32;

COMMENT ON FUNCTION zen_stage() IS
'one row for each of the last 32 exclusive stages since the start of the server, newest first: in a stage one privileged transaction writes to zen tables while others wait before their first write.
running: it is not over; pid: the privileged process; reason: memory, free pool or failures, after the settings zen.exclusive_*; since: when it began; duration_ms: until its end, or so far; outcome: running, committed, prepared, aborted, session ended, or why it was given up; held_back: transactions that have waited';

CREATE FUNCTION zen_pool(
	OUT path text,
	OUT mode text,
	OUT persistence_domain text,
	OUT size bigint,
	OUT format_version integer,
	OUT uuid text,
	OUT system_identifier bigint,
	OUT generation bigint,
	OUT pages_total integer,
	OUT pages_free integer,
	OUT state text,
	OUT clean_at_start boolean,
	OUT max_size bigint,
	OUT growing_to bigint,
	OUT growing_done bigint)
AS 'MODULE_PATHNAME', 'zen_pool_info'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_pool() IS
'one row: the pool that the server has open.
path: absolute file name, or names with commas between them; mode: pmem, emulated or msync, as it really is; persistence_domain: where a store must have come to survive a power loss, cpu_cache or memory_controller, null in msync mode; size: bytes; format_version: of the layout in NVM; uuid: made when the pool was created; system_identifier: of the cluster that it belongs to, as pg_control_system() shows it; generation: server starts so far; pages_total, pages_free: 64 KB data pages, free ones null until recovery is done; state: waiting, running, ready or failed, as in zen_recovery(); clean_at_start: the server was stopped in order before; max_size: bytes that the pool can grow to while the server runs (zen.pool_max_size); growing_to, growing_done: size in bytes to which the pool is being made larger now, and how much of that the file has; null if it is not';

-- The path tells where files lie on the server, which is not for everyone: as for pg_ls_*dir() and the settings that
-- name files, members of pg_monitor may see it.
REVOKE ALL ON FUNCTION zen_pool() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zen_pool() TO pg_monitor;

CREATE FUNCTION zen_pool_files(
	OUT file integer,
	OUT path text,
	OUT node integer,
	OUT size bigint,
	OUT max_size bigint,
	OUT first_page bigint,
	OUT pages_total integer,
	OUT pages_free integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_pool_files'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 2;

COMMENT ON FUNCTION zen_pool_files() IS
'one row for each file of the pool.
file: its number, from 0 on; path: absolute file name; node: NUMA node, null if none is known; size: bytes; max_size: bytes that it can grow to while the server runs; first_page: number of its first 64 KB page, as zen_verify_pool() counts pages; pages_total, pages_free: 64 KB data pages, free ones null until recovery is done';

REVOKE ALL ON FUNCTION zen_pool_files() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zen_pool_files() TO pg_monitor;

CREATE FUNCTION zen_numa(
	OUT node integer,
	OUT pages_total integer,
	OUT pages_free integer,
	OUT pages_used integer,
	OUT rows_local bigint,
	OUT rows_remote bigint,
	OUT lines_local bigint,
	OUT lines_remote bigint,
	OUT pages_remote bigint,
	OUT sessions integer,
	OUT load double precision,
	OUT rows_read_local bigint,
	OUT rows_read_remote bigint,
	OUT lines_read_local bigint,
	OUT lines_read_remote bigint,
	OUT moves bigint,
	OUT dram bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_numa'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 2;

COMMENT ON FUNCTION zen_numa() IS
'one row for each NUMA node with processors, and one for the pool files whose node is not known.
node: as the kernel counts, null for such files; pages_total, pages_free, pages_used: 64 KB data pages of the files on the node, free and used ones null until recovery is done; rows_local, rows_remote: row versions written to the node by processes on it, and by others; lines_local, lines_remote: cache lines of them; pages_remote: pages taken here because the writer''s own node had none; sessions: that have written last from this node, or have moved to it since; load: share of its processors that was busy since this session has asked last, or since the machine''s start; rows_read_local, rows_read_remote, lines_read_local, lines_read_remote: as for writing, of row versions read from NVM, not those found in DRAM; moves: of sessions to this node, with zen.numa = soft; dram: bytes of DRAM on the node that row versions take, unused room in their blocks of 256 KB included. All but node and pages are null with one node, or with zen.numa = off';

CREATE FUNCTION zen_numa_partitions(
	OUT partition integer,
	OUT node integer,
	OUT accesses bigint,
	OUT moves integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_numa_partition_rows'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 2048;

COMMENT ON FUNCTION zen_numa_partitions() IS
'one row for each partition of the soft partition (zen.numa_partitions); none if zen.numa = soft is not in force.
partition: its number, the hash of a partition key''s value modulo their count; node: NUMA node to which transactions on it go; accesses: how often a transaction has named one of its values at its beginning; moves: to another node, since one had too much of the accesses';

CREATE FUNCTION zen_set_partition_key("table" regclass, "column" name)
RETURNS void
AS 'MODULE_PATHNAME', 'zen_set_partition_key'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zen_set_partition_key(regclass, name) IS
'declares the column of a zen table by which zen.numa = soft divides its rows among NUMA nodes. table: owned by the caller; column: of a type that can be hashed, null takes the key away. It is a security label of the column, so it is part of the transaction, pg_dump takes it along, and it goes with the column. It restricts nothing';

CREATE FUNCTION zen_pool_grow(size text, file integer DEFAULT -1)
RETURNS bigint
AS 'MODULE_PATHNAME', 'zen_pool_grow'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zen_pool_grow(text, integer) IS
'makes a file of the pool larger while all sessions go on. size: the new size of the file, written as zen.pool_size is: 20GB; at most zen.pool_max_size; file: its number in zen_pool_files(), -1: the last one. Returns the new size in bytes. It is no part of a transaction, and stays after a rollback; if it fails or is cancelled, the pool is as before. zen_pool() shows the progress';

REVOKE ALL ON FUNCTION zen_pool_grow(text, integer) FROM PUBLIC;

CREATE FUNCTION zen_recovery(
	OUT state text,
	OUT after_crash boolean,
	OUT phase text,
	OUT processes integer,
	OUT pages_total integer,
	OUT pages_done integer,
	OUT rows bigint,
	OUT losers bigint,
	OUT damaged bigint,
	OUT repaired bigint,
	OUT scan_ms double precision,
	OUT map_ms double precision,
	OUT total_ms double precision,
	OUT index_ms double precision,
	OUT tables_to_reindex integer)
AS 'MODULE_PATHNAME', 'zen_recovery_info'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_recovery() IS
'one row: how far the engine has come since the server was started.
state: waiting (for WAL replay), running, ready or failed; after_crash: the server was not stopped in order before; phase: what is being done; processes: that have taken part; pages_total, pages_done: 64 KB pages to be read, and read in this phase, none where the map saved at the last stop is loaded; rows: rows found; losers: row versions of unfinished transactions, cleared away; damaged: rows and slots that cannot be read, and directory entries that make no sense: the server log names them; repaired: flipped bits that were found and set right; scan_ms: milliseconds for the directories and for finding what was committed; map_ms: for finding the rows, or loading the saved map; total_ms: both; index_ms: so far for rebuilding indexes, added up over all tables; tables_to_reindex: tables, toast tables included, whose indexes are not rebuilt yet: each is, at the latest, when it is first used';

--
-- Tables.  Sizes are no secret, as those of pg_relation_size() are not.
--

CREATE FUNCTION zen_htables(
	OUT htable integer,
	OUT database oid,
	OUT tablespace oid,
	OUT relfilenode oid,
	OUT blocks bigint,
	OUT map_bytes bigint,
	OUT own_pages integer,
	OUT nvm_bytes bigint,
	OUT reindex boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_htables_info'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION zen_htables() IS
'one row for each table that the pool holds, of all databases, toast tables and tables of unfinished transactions included; waits for recovery.
htable: entry in the pool''s directory; database, tablespace, relfilenode: whose it is; blocks: row addresses handed out, in blocks of 64; map_bytes: bytes of DRAM for finding rows; own_pages: 64 KB pages of the table''s own; nvm_bytes: bytes of these, and bytes taken so far in pages shared by small tables; reindex: its indexes are not rebuilt yet after a crash';

CREATE VIEW zen_tables AS
SELECT c.oid::regclass AS relation,
	CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END AS rows_estimate,
	h.blocks,
	h.map_bytes,
	h.own_pages,
	h.nvm_bytes,
	h.reindex
FROM pg_database d
JOIN zen_htables() h ON h.database = d.oid
JOIN pg_class c ON c.relfilenode = h.relfilenode AND COALESCE(NULLIF(c.reltablespace, 0), d.dattablespace) = h.tablespace
WHERE d.datname = current_database() AND c.relkind IN ('r', 'm', 't');

COMMENT ON VIEW zen_tables IS
'zen_htables() for the tables, materialized views and toast tables of this database; rows_estimate: as of the last VACUUM or ANALYZE, null before the first';

GRANT SELECT ON zen_tables TO PUBLIC;

CREATE FUNCTION zen_trees(
	OUT tablespace oid,
	OUT relfilenode oid,
	OUT kind text,
	OUT height integer,
	OUT nodes bigint,
	OUT bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_trees'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION zen_trees() IS
'one row for each index of access method zentree in this database, those of unfinished transactions included.
tablespace, relfilenode: whose it is; kind: word and two words: the words are the whole key; tuples: the words are its beginning, and an index tuple stands beside them; height: levels of nodes; nodes: nodes of 1 KB, those to be used again included; bytes: of nodes and tuples, all of them in zen.dram_size';

CREATE VIEW zen_indexes AS
SELECT c.oid::regclass AS index,
	i.indrelid::regclass AS relation,
	t.kind,
	t.height,
	t.nodes,
	t.bytes
FROM pg_database d
CROSS JOIN zen_trees() t
JOIN pg_class c ON c.relfilenode = t.relfilenode AND COALESCE(NULLIF(c.reltablespace, 0), d.dattablespace) = t.tablespace
JOIN pg_index i ON i.indexrelid = c.oid
WHERE d.datname = current_database() AND c.relkind = 'i';

COMMENT ON VIEW zen_indexes IS
'zen_trees() for the indexes of this database';

GRANT SELECT ON zen_indexes TO PUBLIC;

-- The counters are those of ZenTableCounter in src/cache/tablestat.h, in that order.
CREATE FUNCTION zen_htable_stats(
	OUT htable integer,
	OUT database oid,
	OUT tablespace oid,
	OUT relfilenode oid,
	OUT hits bigint,
	OUT misses bigint,
	OUT scanned bigint,
	OUT admissions bigint,
	OUT evictions bigint,
	OUT entries bigint,
	OUT bytes bigint,
	OUT key_hits bigint,
	OUT key_misses bigint,
	OUT key_stale bigint,
	OUT quota_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_htable_stats'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION zen_htable_stats() IS
'one row for each table that the pool holds, of all databases: its use of the Met-Cache since the start of the server, or since it was made or truncated; waits for recovery. What other sessions have counted last may be missing, some hundred events each.
htable, database, tablespace, relfilenode: as in zen_htables(); hits, misses: rows read one by one, as through an index, from the Met-Cache and from NVM; scanned: rows read by scans of the table or much of it, or only looked at, which leave the Met-Cache as it is; admissions, evictions: rows copied from NVM into the Met-Cache and given back; entries: rows that the Met-Cache holds now and may evict once nobody needs their older versions; bytes: DRAM of these; key_hits, key_misses, key_stale: keys that the key cache has led to their row, did not know, or has led to another row (zen.key_cache_size); quota_bytes: share of the Met-Cache beyond which the table makes room for others (zen.met_cache_split), null if there is no limit';

CREATE VIEW zen_stat_tables AS
SELECT c.oid::regclass AS relation,
	s.hits,
	s.misses,
	s.hits / NULLIF(s.hits + s.misses, 0)::double precision AS hit_ratio,
	s.scanned,
	s.admissions,
	s.evictions,
	s.entries,
	s.bytes,
	s.key_hits,
	s.key_misses,
	s.key_stale,
	s.quota_bytes
FROM pg_database d
JOIN zen_htable_stats() s ON s.database = d.oid
JOIN pg_class c ON c.relfilenode = s.relfilenode AND COALESCE(NULLIF(c.reltablespace, 0), d.dattablespace) = s.tablespace
WHERE d.datname = current_database() AND c.relkind IN ('r', 'm', 't');

COMMENT ON VIEW zen_stat_tables IS
'zen_htable_stats() for the tables, materialized views and toast tables of this database; hit_ratio: hits / (hits + misses), null before the first';

GRANT SELECT ON zen_stat_tables TO PUBLIC;

CREATE FUNCTION zen_relation_size(relation regclass)
RETURNS bigint
AS 'MODULE_PATHNAME', 'zen_relation_size'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_relation_size(regclass) IS
'bytes of NVM that the rows of a zen table take: its own 64 KB pages in full, and what it has taken of pages shared by small tables; without its toast table and indexes; null if there is no such relation, an error if it is not a zen table';

CREATE FUNCTION zen_table_versions(
	"table" regclass,
	OUT entries bigint,
	OUT unfrozen bigint,
	OUT superseded bigint,
	OUT superseded_bytes bigint,
	OUT lockers bigint,
	OUT oldest xid)
AS 'MODULE_PATHNAME', 'zen_table_versions'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zen_table_versions(regclass) IS
'one row: what stands in DRAM of a zen table; reads the table''s whole map.
entries: rows whose newest version is in DRAM; unfrozen: of these, rows whose newest version some snapshot may not see; superseded, superseded_bytes: older versions, and what they take in DRAM and NVM; lockers: transactions that hold, or have held, row locks; oldest: transaction of the versions to be frozen and of the lockers; null if there is none';

-- pg_indexes_size() counts the files of all indexes; the rows of table and toast table are in no file.
CREATE FUNCTION zen_total_relation_size(relation regclass)
RETURNS bigint
LANGUAGE SQL STRICT VOLATILE PARALLEL RESTRICTED
RETURN zen_relation_size(relation) + pg_indexes_size(relation) +
	COALESCE((SELECT zen_relation_size(c.reltoastrelid) + pg_indexes_size(c.reltoastrelid)
		FROM pg_class c WHERE c.oid = relation AND c.reltoastrelid <> 0), 0);

COMMENT ON FUNCTION zen_total_relation_size(regclass) IS
'bytes that a zen table takes in all: zen_relation_size() of it and of its toast table in NVM, and the files of all their indexes; null if there is no such relation, an error if it is not a zen table';

--
-- Verification.  As with amcheck, it is for superusers and those whom they let: it reads all tables, and it takes time.
--

CREATE FUNCTION zen_verify(
	"table" regclass,
	OUT kind text,
	OUT relation regclass,
	OUT tid tid,
	OUT location text,
	OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_verify'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 1;

REVOKE ALL ON FUNCTION zen_verify(regclass) FROM PUBLIC;

COMMENT ON FUNCTION zen_verify(regclass) IS
'one row for each thing wrong with a zen table, its toast table and their indexes; none if all is sound. Locks nobody out.
kind: of what is wrong, as listed below; relation: table, toast table or index; tid: the row; location: page, slot and offset in the pool; detail: what was found.
map: a row''s map word makes no sense; owner: the slot it leads to is another row''s; checksum: the row in the slot is damaged; version: row versions in DRAM contradict each other or the slot; order: an older version has the newer Tx-CTS; commit: the row is visible but would be lost in a crash; free: its slot is free, too; tombstone: of a deleted row, missing or not needed; stale: an older version would come back after a crash;
index_missing: a row is not in the index (of GIN: under no key; of BRIN: outside of its range''s summary); index_unused, index_tid: an entry leads to a TID that may be given to another row, or that there is not; index_key: an entry has another key than its row; index_duplicate: a row stands in it twice; index_error: the index could not be compared; unchecked: nothing is known to be wrong, but the access method of the index does not tell its entries. Keys and duplicates are looked at in B-trees';

CREATE FUNCTION zen_verify_pool(
	OUT kind text,
	OUT relation regclass,
	OUT tid tid,
	OUT location text,
	OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'zen_verify_pool'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 1;

REVOKE ALL ON FUNCTION zen_verify_pool() FROM PUBLIC;

COMMENT ON FUNCTION zen_verify_pool() IS
'one row for each thing wrong with the pool; none if all is sound. Looks at all databases, but not at indexes: zen_verify() does. Locks nobody out.
Columns and kinds are those of zen_verify(), relation being null for tables of other databases, and these kinds: superblock: a copy is damaged; htable: an entry of the table directory is damaged, or the catalogs do not know its table, or the pool does not know one of this database; region: what a region has committed is not told by the pool, or LP or Tx-CTS of a slot is beyond it; page: an entry of the page directory is damaged, or a page is lost; lost: a slot is neither free nor in use';
