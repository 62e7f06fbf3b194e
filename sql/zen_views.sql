SET default_table_access_method = zen;
--
-- zen_views: the functions that show what zen is doing: their columns, values that can be true, counters
-- that move by what was done, sizes, errors, and who may call them.
--
CREATE SCHEMA zen_views;
SET search_path = zen_views, public;

-- the columns
SELECT * FROM zen_stat() \gdesc
SELECT * FROM zen_pool() \gdesc
SELECT * FROM zen_recovery() \gdesc
SELECT * FROM zen_htables() \gdesc
SELECT * FROM zen_tables \gdesc
SELECT * FROM zen_htable_stats() \gdesc
SELECT * FROM zen_stat_tables \gdesc
SELECT * FROM zen_garbage() \gdesc
SELECT * FROM zen_table_versions(NULL) \gdesc
SELECT * FROM zen_stage() \gdesc
SELECT * FROM zen_stream() \gdesc
SELECT mode, records, bytes, tail_transactions, tail_bytes, logged_again, role, copied, replayed FROM zen_stream();
SELECT * FROM zen_space() \gdesc
SELECT pg_typeof(zen_relation_size(NULL)), pg_typeof(zen_total_relation_size(NULL));
-- everything has a comment
SELECT proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
	AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zen'
  WHERE obj_description(p.oid, 'pg_proc') IS NULL;
SELECT obj_description(v, 'pg_class') IS NOT NULL FROM unnest('{zen_tables, zen_stat_tables}'::regclass[]) v;
SELECT amname, amtype, obj_description(oid, 'pg_am') FROM pg_am WHERE amname = 'zen';

-- values that can be true
SELECT resource, size > 0 AS size, used BETWEEN 0 AND size AS used, used_percent BETWEEN 0 AND 100 AS percent,
	warning_percent, low
  FROM zen_space();
SELECT key, value FROM zen_stat() s, jsonb_each_text(to_jsonb(s)) WHERE value IS NULL OR value::numeric < 0;
SELECT dram_reserved > 0 AND dram_taken <= dram_reserved AND dram_in_use <= dram_taken AS dram,
   metcache_bytes <= dram_taken AS metcache, pages_total > 0 AND pages_free > 0 AS pages,
   pages_free + pages_owned + pages_shared = pages_total AS sum FROM zen_stat();
SELECT path LIKE '/%' AS path, mode IN ('pmem', 'emulated', 'msync') AS mode, size > 0 AND size % 65536 = 0 AS size,
	format_version,
   uuid ~ '^[0-9a-f]{32}$' AS uuid, generation > 0 AS generation, pages_free <= pages_total AS pages,
   pages_total < size / 65536 AS header, state, clean_at_start IS NOT NULL AS clean FROM zen_pool();
SELECT p.system_identifier = c.system_identifier FROM zen_pool() p, pg_control_system() c;
SELECT state, after_crash IS NOT NULL AS after_crash, phase, pages_total > 0 AS total,
	pages_done BETWEEN 0 AND pages_total AS done,
   rows >= 0 AND losers >= 0 AS rows, processes > 0 AS processes, damaged + repaired AS damage,
   scan_ms + map_ms <= total_ms + 0.001 AND index_ms >= 0 AS ms, tables_to_reindex >= 0 AS reindex FROM zen_recovery();
SELECT r.pages_total = p.pages_total AND r.after_crash <> p.clean_at_start FROM zen_recovery() r, zen_pool() p;

-- one insertion, one commit; the first one warms the caches, so that nothing but zen is written by the second
CREATE TABLE t (id int, v text);
INSERT INTO t VALUES (1, 'one');
SELECT * FROM zen_stat() \gset a_
INSERT INTO t VALUES (2, 'two');
SELECT * FROM zen_stat() \gset b_
SELECT :b_commits_zen_only - :a_commits_zen_only AS zen_only, :b_commits_mixed - :a_commits_mixed AS mixed,
   :b_commits_prepared - :a_commits_prepared AS prepared, :b_aborts - :a_aborts AS aborts,
   :b_slots_written - :a_slots_written AS slots, :b_bytes_written - :a_bytes_written BETWEEN 32 AND 64 AS bytes,
   :b_lines_flushed > :a_lines_flushed AS lines, :b_fences > :a_fences AS fences;
-- what a transaction changes is written once, at its end
BEGIN;
INSERT INTO t SELECT g, 'x' FROM generate_series(3, 102) g;
UPDATE t SET v = 'y' WHERE id > 2;
SELECT slots_written - :b_slots_written AS before_commit FROM zen_stat();
COMMIT;
SELECT slots_written - :b_slots_written AS after_commit FROM zen_stat();
-- a reader commits nothing, and reads from the Met-Cache or from NVM
SELECT * FROM zen_stat() \gset a_
SELECT count(*) FROM t;
SELECT commits_zen_only - :a_commits_zen_only AS zen_only, commits_mixed - :a_commits_mixed AS mixed,
   metcache_hits + metcache_misses - :a_metcache_hits - :a_metcache_misses AS reads FROM zen_stat();
-- rolled back
BEGIN;
INSERT INTO t VALUES (0, 'none');
ROLLBACK;
SELECT aborts - :a_aborts AS aborts, commits_zen_only - :a_commits_zen_only AS zen_only,
   slots_written - :a_slots_written AS slots FROM zen_stat();
-- with a heap table in it, PostgreSQL's commit record decides
CREATE TABLE h (id int) USING heap;
INSERT INTO h VALUES (1);
SELECT * FROM zen_stat() \gset a_
BEGIN;
INSERT INTO t VALUES (200, 'mixed');
INSERT INTO h VALUES (2);
COMMIT;
SELECT commits_zen_only - :a_commits_zen_only AS zen_only, commits_mixed - :a_commits_mixed AS mixed,
   slots_written - :a_slots_written AS slots FROM zen_stat();

-- tables
CREATE TABLE big (id int PRIMARY KEY, v text, w text);
INSERT INTO big SELECT g, repeat('v', 500), NULL FROM generate_series(1, 10000) g;
ALTER TABLE big ALTER w SET STORAGE EXTERNAL;
INSERT INTO big VALUES (0, 'toasted', repeat('w', 100000));
ANALYZE big;
SELECT relation, rows_estimate, blocks BETWEEN 10001 / 64 + 1 AND 10001 / 64 + 10 AS blocks, map_bytes >= 10001 * 8
	AS map, own_pages > 0 AS own,
   nvm_bytes >= own_pages::bigint * 65536 AS nvm, nvm_bytes = zen_relation_size(relation) AS same, reindex
  FROM zen_tables WHERE relation = 'big'::regclass;
SELECT count(*) FROM zen_tables z JOIN pg_class c ON c.oid = z.relation
	WHERE c.oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'big'::regclass);
SELECT relation FROM zen_tables WHERE relation IN ('t'::regclass, 'h'::regclass, 'big'::regclass) ORDER BY 1;
SELECT count(*) = count(DISTINCT htable) AS entries, count(*) = count(DISTINCT (database, tablespace, relfilenode))
	AS locators, bool_and(htable > 0) AS htable
  FROM zen_htables();
SELECT h.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AS database,
	h.tablespace = d.dattablespace AS tablespace
  FROM zen_htables() h, pg_database d WHERE h.relfilenode = pg_relation_filenode('big')
    AND d.datname = current_database();
-- a new relfilenode is another table of the pool; a dropped one goes with the commit
SELECT htable AS big_htable FROM zen_htables() WHERE relfilenode = pg_relation_filenode('big') \gset
BEGIN;
TRUNCATE big;
SELECT count(*) FROM zen_htables() WHERE htable = :big_htable;
COMMIT;
SELECT relation, own_pages FROM zen_tables WHERE relation = 'big'::regclass;

-- the use of the Met-Cache: rows just written are in it, and are read there
CREATE TABLE used (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
SELECT hits, misses, hit_ratio, scanned, admissions, evictions, entries, bytes FROM zen_stat_tables
	WHERE relation = 'used'::regclass;
INSERT INTO used SELECT g, repeat('v', 500) FROM generate_series(1, 100) g;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT length(v) FROM used WHERE id = 7;
SELECT length(v) FROM used WHERE id = 8;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT hits, misses, hit_ratio, scanned, admissions, evictions FROM zen_stat_tables WHERE relation = 'used'::regclass;
SELECT sum(length(v)) FROM used;
SELECT hits, misses, scanned FROM zen_stat_tables WHERE relation = 'used'::regclass;
SELECT count(*) FROM zen_stat_tables s JOIN zen_tables t USING (relation) WHERE relation = 'used'::regclass;

-- sizes
INSERT INTO big SELECT g, repeat('v', 500), NULL FROM generate_series(1, 10000) g;
INSERT INTO big VALUES (0, 'toasted', repeat('w', 100000));
SELECT zen_relation_size('big') > 10000 * 500 AS rows,
   zen_total_relation_size('big') = zen_relation_size('big') + pg_indexes_size('big') +
      zen_relation_size(reltoastrelid) + pg_indexes_size(reltoastrelid) AS total,
   zen_relation_size(reltoastrelid) > 100000 AS toast, pg_indexes_size('big') > 0 AS indexes
  FROM pg_class WHERE oid = 'big'::regclass;
SELECT zen_relation_size('t') > 0, zen_total_relation_size('t') >= zen_relation_size('t');
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
SELECT zen_relation_size('m') > 0;
SELECT zen_relation_size(NULL), zen_total_relation_size(NULL), zen_relation_size(1), zen_total_relation_size(1);
-- not a zen table
SELECT zen_relation_size('h');
SELECT zen_total_relation_size('h');
SELECT zen_relation_size('big_pkey');
SELECT zen_relation_size('zen_tables');
CREATE SEQUENCE s;
SELECT zen_relation_size('s');
CREATE TABLE p (id int) PARTITION BY RANGE (id);
SELECT zen_relation_size('p');

-- who may call what, and that nothing depends on the search_path
CREATE ROLE regress_zen_views;
GRANT USAGE ON SCHEMA zen_views TO regress_zen_views;
SET ROLE regress_zen_views;
SELECT path FROM zen_pool();
SELECT count(*) FROM zen_stat(), zen_recovery();
SELECT count(*) > 0 FROM zen_htables();
SELECT count(*) > 0 FROM zen_htable_stats();
SELECT count(*) FROM zen_stat_tables WHERE relation = 'zen_views.big'::regclass;
SELECT count(*) FROM zen_tables WHERE relation = 'zen_views.big'::regclass;
SELECT zen_relation_size('zen_views.t') > 0;
RESET ROLE;
GRANT pg_monitor TO regress_zen_views;
SET ROLE regress_zen_views;
SELECT path IS NOT NULL FROM zen_pool();
RESET ROLE;
SELECT extnamespace::regnamespace AS ext FROM pg_extension WHERE extname = 'zen' \gset
SET search_path = zen_views;
SELECT :ext.zen_total_relation_size('big') > 0;
SELECT count(*) FROM :ext.zen_tables WHERE relation = 'big'::regclass;
SELECT count(*) FROM :ext.zen_stat_tables WHERE relation = 'big'::regclass;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA zen_views CASCADE;
DROP ROLE regress_zen_views;
