SET default_table_access_method = zen;
--
-- zen_views: the views that show what zen is doing: their columns, values that can be true, counters
-- that move by what was done, sizes, errors, and who may call them.
--
CREATE SCHEMA zen_views;
SET search_path = zen_views, public;

-- the columns
SELECT * FROM zen_stat \gdesc
SELECT * FROM zen_pool \gdesc
SELECT * FROM zen_recovery \gdesc
SELECT * FROM zen_pool_files \gdesc
SELECT * FROM _zen_stat_tables() \gdesc
SELECT * FROM zen_stat_tables \gdesc
SELECT * FROM zen_stat_database \gdesc
SELECT * FROM zen_stat_indexes \gdesc
SELECT * FROM zen_stat_numa \gdesc
SELECT * FROM zen_stat_executor \gdesc
SELECT * FROM zen_stat_statements \gdesc
SELECT * FROM zen_stat_garbage \gdesc
SELECT * FROM _zen_table_versions(NULL) \gdesc
SELECT * FROM zen_stat_exclusive \gdesc
SELECT * FROM zen_stat_stream \gdesc
SELECT * FROM zen_stat_standby \gdesc
SELECT * FROM zen_stat_standby;
-- in mode wal all is logged, and the commit record decides
SELECT (mode = 'wal')::int AS by_wal FROM zen_pool \gset
SELECT mode = CASE :by_wal WHEN 1 THEN 'replica' ELSE 'off' END AS mode, sign(records) = :by_wal AS records,
	sign(bytes) = :by_wal AS bytes, tail_transactions, tail_bytes, logged_again, role, copied::int = :by_wal AS copied,
	replay_lsn FROM zen_stat_stream;
SELECT pg_typeof(zen_relation_size(NULL)), pg_typeof(zen_total_relation_size(NULL));
-- everything has a comment
SELECT proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
	AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zen'
  WHERE obj_description(p.oid, 'pg_proc') IS NULL;
SELECT count(*) AS views, count(*) FILTER (WHERE obj_description(c.oid, 'pg_class') IS NULL) AS uncommented
  FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zen' WHERE c.relkind = 'v';
-- what all may read, and what only members of pg_monitor may; so with the functions behind (zen_stat_database has
-- that of zen_stat_tables)
SELECT relname, has_table_privilege('pg_monitor', c.oid, 'SELECT') AS pg_monitor,
	has_table_privilege('public', c.oid, 'SELECT') AS others,
	has_function_privilege('pg_monitor', f, 'EXECUTE') AND has_function_privilege('public', f, 'EXECUTE') AS function
  FROM pg_class c CROSS JOIN LATERAL (SELECT '_' || replace(relname, 'database', 'tables') || '()' AS f) f JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zen' WHERE c.relkind = 'v' ORDER BY 1;
SELECT amname, amtype, obj_description(oid, 'pg_am') FROM pg_am WHERE amname = 'zen';

-- values that can be true
SELECT key, value FROM zen_stat s, jsonb_each_text(to_jsonb(s) - 'stats_reset')
  WHERE value IS NULL OR value::numeric < 0;
SELECT stats_reset BETWEEN pg_postmaster_start_time() - interval '1 minute' AND now() AS reset,
   dram_used_percent BETWEEN 0 AND 100 AND pool_used_percent BETWEEN 0 AND 100 AS percent FROM zen_stat;
SELECT dram_size_bytes > 0 AND dram_taken_bytes <= dram_size_bytes AND dram_used_bytes <= dram_taken_bytes AS dram,
   metcache_bytes <= dram_taken_bytes AS metcache, pages_total > 0 AND pages_free > 0 AS pages,
   pages_free + pages_owned + pages_shared = pages_total AS sum FROM zen_stat;
SELECT path LIKE '/%' AS path, mode IN ('pmem', 'emulated', 'msync', 'wal') AS mode,
	size_bytes > 0 AND size_bytes % 65536 = 0 AS size, format_version,
   uuid ~ '^[0-9a-f]{32}$' AS uuid, generation > 0 AS generation, pages_free <= pages_total AS pages,
   pages_total < size_bytes / 65536 AS header, state, clean_at_start IS NOT NULL AS clean FROM zen_pool;
SELECT p.system_identifier = c.system_identifier FROM zen_pool p, pg_control_system() c;
SELECT state, after_crash IS NOT NULL AS after_crash, phase, pages_total > 0 AS total,
	pages_done BETWEEN 0 AND pages_total AS done,
   rows >= 0 AND losers >= 0 AS rows, processes > 0 AS processes, damaged + repaired AS damage,
   scan_ms + map_ms <= total_ms + 0.001 AND index_ms >= 0 AS ms, tables_to_reindex >= 0 AS reindex FROM zen_recovery;
SELECT r.pages_total = p.pages_total AND r.after_crash <> p.clean_at_start FROM zen_recovery r, zen_pool p;

-- one insertion, one commit; the first one warms the caches, so that nothing but zen is written by the second
CREATE TABLE t (id int, v text);
INSERT INTO t VALUES (1, 'one');
SELECT * FROM zen_stat \gset a_
INSERT INTO t VALUES (2, 'two');
SELECT * FROM zen_stat \gset b_
SELECT :b_commits_zen_only - :a_commits_zen_only = 1 - :by_wal AS zen_only,
   :b_commits_mixed - :a_commits_mixed = :by_wal AS mixed,
   :b_commits_prepared - :a_commits_prepared AS prepared, :b_aborts - :a_aborts AS aborts,
   :b_slots_written - :a_slots_written AS slots, :b_bytes_written - :a_bytes_written BETWEEN 32 AND 64 AS bytes,
   :b_lines_flushed > :a_lines_flushed OR :by_wal = 1 AS lines, :b_fences > :a_fences AS fences;
-- what a transaction changes is written once, at its end
BEGIN;
INSERT INTO t SELECT g, 'x' FROM generate_series(3, 102) g;
UPDATE t SET v = 'y' WHERE id > 2;
SELECT slots_written - :b_slots_written AS before_commit FROM zen_stat;
COMMIT;
SELECT slots_written - :b_slots_written AS after_commit FROM zen_stat;
-- a reader commits nothing, and reads from the Met-Cache or from NVM
SELECT * FROM zen_stat \gset a_
SELECT count(*) FROM t;
SELECT commits_zen_only - :a_commits_zen_only AS zen_only, commits_mixed - :a_commits_mixed AS mixed,
   metcache_hits + metcache_misses - :a_metcache_hits - :a_metcache_misses AS reads FROM zen_stat;
-- rolled back
BEGIN;
INSERT INTO t VALUES (0, 'none');
ROLLBACK;
SELECT aborts - :a_aborts AS aborts, commits_zen_only - :a_commits_zen_only AS zen_only,
   slots_written - :a_slots_written AS slots FROM zen_stat;
-- with a heap table in it, PostgreSQL's commit record decides
CREATE TABLE h (id int) USING heap;
INSERT INTO h VALUES (1);
SELECT * FROM zen_stat \gset a_
BEGIN;
INSERT INTO t VALUES (200, 'mixed');
INSERT INTO h VALUES (2);
COMMIT;
SELECT commits_zen_only - :a_commits_zen_only AS zen_only, commits_mixed - :a_commits_mixed AS mixed,
   slots_written - :a_slots_written AS slots FROM zen_stat;

-- tables
CREATE TABLE big (id int PRIMARY KEY, v text, w text);
INSERT INTO big SELECT g, repeat('v', 500), NULL FROM generate_series(1, 10000) g;
ALTER TABLE big ALTER w SET STORAGE EXTERNAL;
INSERT INTO big VALUES (0, 'toasted', repeat('w', 100000));
ANALYZE big;
SELECT schemaname, relname, rows_estimate, blocks BETWEEN 10001 / 64 + 1 AND 10001 / 64 + 10 AS blocks,
	map_bytes >= 10001 * 8 AS map, pages_owned > 0 AS own,
   nvm_bytes >= pages_owned * 65536 AS nvm, nvm_bytes = zen_relation_size(relid) AS same, reindex
  FROM zen_stat_tables WHERE relid = 'big'::regclass;
SELECT count(*) FROM zen_stat_tables z JOIN pg_class c ON c.oid = z.relid
	WHERE c.oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'big'::regclass);
SELECT relname FROM zen_stat_tables WHERE relid IN ('t'::regclass, 'h'::regclass, 'big'::regclass) ORDER BY 1;
SELECT count(*) = count(DISTINCT htable) AS entries, count(*) = count(DISTINCT (database, tablespace, relfilenode))
	AS locators, bool_and(htable > 0) AS htable
  FROM _zen_stat_tables();
SELECT h.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AS database,
	h.tablespace = d.dattablespace AS tablespace
  FROM _zen_stat_tables() h, pg_database d WHERE h.relfilenode = pg_relation_filenode('big')
    AND d.datname = current_database();
-- a new relfilenode is another table of the pool; a dropped one goes with the commit
SELECT htable AS big_htable FROM _zen_stat_tables() WHERE relfilenode = pg_relation_filenode('big') \gset
BEGIN;
TRUNCATE big;
SELECT count(*) FROM _zen_stat_tables() WHERE htable = :big_htable;
COMMIT;
SELECT relname, pages_owned FROM zen_stat_tables WHERE relid = 'big'::regclass;

-- the use of the Met-Cache: rows just written are in it, and are read there
CREATE TABLE used (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
SELECT metcache_hits, metcache_misses, metcache_hit_ratio, rows_scanned, metcache_admissions, metcache_evictions,
	metcache_rows, metcache_bytes FROM zen_stat_tables WHERE relid = 'used'::regclass;
INSERT INTO used SELECT g, repeat('v', 500) FROM generate_series(1, 100) g;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT length(v) FROM used WHERE id = 7;
SELECT length(v) FROM used WHERE id = 8;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT metcache_hits, metcache_misses, metcache_hit_ratio, rows_scanned, metcache_admissions, metcache_evictions
	FROM zen_stat_tables WHERE relid = 'used'::regclass;
SELECT sum(length(v)) FROM used;
SELECT metcache_hits, metcache_misses, rows_scanned FROM zen_stat_tables WHERE relid = 'used'::regclass;

-- counters begin at 0 again, those of tables, too; what is in the Met-Cache stays
SELECT stats_reset AS a_reset, metcache_bytes AS a_metcache_bytes FROM zen_stat \gset
SELECT metcache_rows AS a_rows FROM zen_stat_tables WHERE relid = 'used'::regclass \gset
SELECT zen_stat_reset();
SELECT commits_prepared + aborts + rows_spilled + point_accesses AS none, slots_written < 50 AS few,
	stats_reset > :'a_reset' AS reset, metcache_bytes >= :a_metcache_bytes AS cache FROM zen_stat;
SELECT metcache_hits, metcache_misses, rows_scanned, keycache_hits, metcache_rows = :a_rows AS rows FROM zen_stat_tables
	WHERE relid = 'used'::regclass;
SELECT coalesce(sum(count), 0) AS sum FROM zen_stat_executor WHERE outcome = 'not used';
INSERT INTO used VALUES (0, 'after');
SELECT count(v) FROM used WHERE id = 0;
SELECT slots_written > 0 AS slots, CASE :by_wal WHEN 1 THEN commits_mixed ELSE commits_zen_only END > 0 AS commits
  FROM zen_stat;
SELECT rows_scanned FROM zen_stat_tables WHERE relid = 'used'::regclass;

-- a library and SQL objects that were made of different lists
CREATE FUNCTION other_order(OUT commits_mixed bigint, OUT commits_zen_only bigint) AS '$libdir/zen', 'zen_view_stat'
	LANGUAGE C;
SELECT * FROM other_order();
CREATE FUNCTION too_few(OUT commits_zen_only bigint, OUT commits_mixed bigint) AS '$libdir/zen', 'zen_view_stat'
	LANGUAGE C;
SELECT * FROM too_few();

-- sizes
INSERT INTO big SELECT g, repeat('v', 500), NULL FROM generate_series(1, 10000) g;
INSERT INTO big VALUES (0, 'toasted', repeat('w', 100000));
SELECT zen_relation_size('big') > 10000 * 500 AS rows,
   zen_total_relation_size('big') = zen_relation_size('big') + pg_indexes_size('big') +
      zen_relation_size(reltoastrelid) + pg_indexes_size(reltoastrelid) AS total,
   zen_relation_size(reltoastrelid) > 100000 AS toast, pg_indexes_size('big') > 0 AS indexes
  FROM pg_class WHERE oid = 'big'::regclass;
-- no freezing: what a check of all tables sees, and what doc/monitoring.md says instead
SELECT age(relfrozenxid), relfrozenxid <> '0' AS freezes FROM pg_class WHERE oid = 'big'::regclass;
SELECT zen_relation_size('t') > 0, zen_total_relation_size('t') >= zen_relation_size('t');
SELECT tables = (SELECT count(*) FROM _zen_stat_tables() JOIN pg_database d ON d.oid = database
		WHERE d.datname = current_database()) AS tables,
   nvm_bytes >= zen_relation_size('big') AS bytes, map_bytes > 0 AS map,
   (SELECT nvm_bytes FROM zen_stat_database WHERE datname = 'template1') AS template
  FROM zen_stat_database WHERE datname = current_database();
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
SELECT zen_relation_size('m') > 0;
SELECT zen_relation_size(NULL), zen_total_relation_size(NULL), zen_relation_size(1), zen_total_relation_size(1);
-- not a zen table
SELECT zen_relation_size('h');
SELECT zen_total_relation_size('h') = pg_total_relation_size('h') AS heap,
   zen_total_relation_size('big_pkey') = pg_total_relation_size('big_pkey') AS index,
   zen_total_relation_size('zen_stat_tables') AS view;
SELECT zen_relation_size('big_pkey');
SELECT zen_relation_size('zen_stat_tables');
CREATE SEQUENCE s;
SELECT zen_relation_size('s');
CREATE TABLE p (id int) PARTITION BY RANGE (id);
SELECT zen_relation_size('p');
SELECT zen_total_relation_size('p');

-- who may call what, and that nothing depends on the search_path
CREATE ROLE regress_zen_views;
GRANT USAGE ON SCHEMA zen_views TO regress_zen_views;
SET ROLE regress_zen_views;
SELECT path FROM zen_pool;
SELECT count(*) FROM zen_stat, zen_recovery;
SELECT path FROM zen_pool_files;
SELECT path FROM _zen_pool();
SELECT path FROM _zen_pool_files();
SELECT zen_stat_reset();
SELECT count(*) > 0 FROM _zen_stat_tables();
SELECT count(*) FROM zen_stat_tables WHERE relid = 'zen_views.big'::regclass;
SELECT count(*) FROM zen_stat_indexes WHERE relid = 'zen_views.big'::regclass;
SELECT count(*) > 0 FROM zen_stat_garbage, zen_stat_stream, zen_stat_numa, zen_stat_database;
SELECT count(*) >= 0 FROM zen_stat_statements, zen_stat_exclusive, zen_stat_executor;
SELECT zen_relation_size('zen_views.t') > 0;
RESET ROLE;
GRANT pg_monitor TO regress_zen_views;
SET ROLE regress_zen_views;
SELECT path IS NOT NULL FROM zen_pool;
SELECT path IS NOT NULL FROM zen_pool_files;
RESET ROLE;
SELECT extnamespace::regnamespace AS ext FROM pg_extension WHERE extname = 'zen' \gset
SET search_path = zen_views;
SELECT :ext.zen_total_relation_size('big') > 0;
SELECT count(*) FROM :ext.zen_stat_tables WHERE relid = 'big'::regclass;
SELECT count(*) FROM :ext.zen_stat_indexes WHERE relid = 'big'::regclass;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA zen_views CASCADE;
DROP ROLE regress_zen_views;
