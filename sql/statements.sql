SET default_table_access_method = zen;
--
-- statements: what single statements cost, by zen_stat_statements and by EXPLAIN (ANALYZE, ZEN).
--
CREATE SCHEMA statements;
SET search_path = statements, public;
-- Needs the executor.
SET zen.spill_threshold = '16MB';
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
CREATE FUNCTION touch(i int) RETURNS void LANGUAGE sql AS 'UPDATE t SET v = v + 1 WHERE id = i';
-- what was counted, but for what costs nothing; reads by others' planning may be among the rows read; a pool of mode wal
-- is flushed at checkpoints
CREATE VIEW seen AS SELECT calls, metcache_hits + metcache_misses > 0 AS reads, slots_written, rows_spilled,
	(lines_flushed >= slots_written OR p.mode = 'wal') AND fences >= least(slots_written, 1) AS flushes
  FROM zen_stat_statements s JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database(), zen_pool p
  WHERE metcache_hits + metcache_misses + slots_written + lines_flushed + fences > 0;

-- off: nothing
SELECT zen_stat_reset();
UPDATE t SET v = v + 1 WHERE id = 1;
SELECT * FROM zen_stat_statements;

-- one statement, thrice: constants do not matter
SET zen.track_statements = on;
UPDATE t SET v = v + 1 WHERE id = 1;
UPDATE t SET v = v + 1 WHERE id = 2;
UPDATE t SET v = v + 1 WHERE id = 3;
SET zen.track_statements = off;
SELECT * FROM seen;

-- the commit counts for the last statement that has written, not for the last one
SELECT zen_stat_reset();
SET zen.track_statements = on;
BEGIN;
INSERT INTO t VALUES (1001, 1), (1002, 2);
DELETE FROM t WHERE id = 4;
SELECT count(*) FROM t WHERE id < 10;
COMMIT;
SET zen.track_statements = off;
SELECT * FROM seen ORDER BY slots_written;

-- what a function does is its caller's; a rolled back transaction writes nothing
SELECT zen_stat_reset();
SET zen.track_statements = on;
SELECT touch(5);
BEGIN;
UPDATE t SET v = 0;
ROLLBACK;
SET zen.track_statements = off;
SELECT * FROM seen ORDER BY slots_written;

-- executions with executor state that is kept, also within a function; and the first one without
SELECT zen_stat_reset();
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
PREPARE by_key(int) AS SELECT v FROM t WHERE id = $1;
PREPARE by_range(int) AS SELECT v FROM t WHERE id > $1 AND id < 3;
SET zen.track_statements = on;
EXECUTE by_key(1);
EXECUTE by_key(1);
EXECUTE by_key(1);
EXECUTE by_range(1);
EXECUTE by_range(1);
SELECT touch(5) FROM generate_series(1, 4);
SET zen.track_statements = off;
SELECT calls, point_accesses, point_kept_plans, point_fallbacks FROM zen_stat_statements
	WHERE point_accesses + point_kept_plans + point_fallbacks > 0 ORDER BY 1, 2;
RESET plan_cache_mode;
RESET enable_seqscan;
RESET enable_bitmapscan;
DEALLOCATE ALL;

-- utility statements, prepared ones, cursors
SELECT zen_stat_reset();
PREPARE one(int) AS UPDATE t SET v = v + 1 WHERE id = $1;
SET zen.track_statements = on;
CREATE TABLE copied AS SELECT * FROM t LIMIT 10;
EXECUTE one(6);
EXECUTE one(7);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id;
FETCH 1 FROM c;
UPDATE t SET v = -1 WHERE CURRENT OF c;
COMMIT;
SET zen.track_statements = off;
SELECT calls, reads, slots_written FROM seen WHERE slots_written > 0 ORDER BY slots_written;

-- an error leaves no trace that would spoil what follows
SELECT zen_stat_reset();
SET zen.track_statements = on;
DO 'BEGIN PERFORM 1 / 0; END';
UPDATE t SET v = v + 1 WHERE id = 8;
SET zen.track_statements = off;
SELECT * FROM seen;

-- others' query ids
CREATE ROLE regress_statements;
GRANT USAGE ON SCHEMA statements TO regress_statements;
SET ROLE regress_statements;
SELECT count(*) > 0 AS rows, count(queryid) AS ids FROM zen_stat_statements;
SELECT zen_stat_reset();
SET zen.track_statements = on;
RESET ROLE;
DROP OWNED BY regress_statements;
DROP ROLE regress_statements;

-- EXPLAIN (ANALYZE, ZEN) from PostgreSQL 18 on
CREATE FUNCTION explained(query text, OUT reads bigint, OUT to_write bigint, OUT written bigint) LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE 'EXPLAIN (ANALYZE, ZEN, FORMAT json) ' || query INTO plan;
  reads := (plan->0->'Zen'->>'Rows Read from DRAM')::bigint + (plan->0->'Zen'->>'Rows Read from NVM')::bigint;
  to_write := plan->0->'Zen'->>'Rows to Write';
  written := plan->0->'Zen'->>'Rows Written';
EXCEPTION WHEN syntax_error THEN
  -- unrecognized EXPLAIN option "zen": what 18 would say
  ASSERT current_setting('server_version_num')::int < 180000;
  SELECT CASE WHEN query LIKE 'UPDATE%' THEN 3 ELSE 100 END, CASE WHEN query LIKE 'UPDATE%' THEN 3 ELSE 0 END,
    0 INTO reads, to_write, written;
END $$;
SELECT reads >= 3 AS reads, to_write, written FROM explained('UPDATE t SET v = 9 WHERE id IN (11, 12, 13)');
SELECT reads >= 90 AS reads, to_write, written FROM explained('SELECT sum(v) FROM t');
DO $$
BEGIN
  EXECUTE 'EXPLAIN (ZEN) SELECT 1';
EXCEPTION WHEN syntax_error OR invalid_parameter_value THEN
  RAISE NOTICE 'without ANALYZE there is nothing to tell';
END $$;

SELECT zen_stat_reset();
SET client_min_messages = warning;
DROP SCHEMA statements CASCADE;
