SET default_table_access_method = zen;
--
-- zen_only: where zen differs from heap on purpose. Temporary and unlogged tables fall back
-- to heap unless zen is asked for by name, which is an error; indexes on zen tables are
-- unlogged, whatever made or rebuilt them. The expected output is written by hand.
--
CREATE SCHEMA zo;
SET search_path = zo, public;

SELECT amname, amtype FROM pg_am WHERE amname = 'zen';
CREATE FUNCTION am(t regclass) RETURNS name LANGUAGE sql AS $$
  SELECT amname FROM pg_am a JOIN pg_class c ON a.oid = c.relam WHERE c.oid = t $$;
-- an error: its SQLSTATE, and whether it comes with a hint
CREATE FUNCTION refused(cmd text) RETURNS TABLE (state text, hinted bool) LANGUAGE plpgsql AS $$
DECLARE h text;
BEGIN
  EXECUTE cmd;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT;
  state := SQLSTATE; hinted := h <> '';
  RETURN NEXT;
END $$;

-- the default
CREATE TABLE t (id int PRIMARY KEY, k int, v text);
SELECT am('t'), relpersistence FROM pg_class WHERE oid = 't'::regclass;
CREATE TEMP TABLE tmp1 (id int PRIMARY KEY);
CREATE TEMP TABLE tmp2 AS SELECT 1 AS x;
SELECT 1 AS x INTO TEMP tmp3;
CREATE TABLE pg_temp.tmp4 (id int);
CREATE TEMP TABLE tmp5 (LIKE t INCLUDING ALL);
CREATE TEMP TABLE tmp6 (id int) PARTITION BY RANGE (id);
CREATE TEMP TABLE tmp61 PARTITION OF tmp6 DEFAULT;
CREATE UNLOGGED TABLE ul1 (id int PRIMARY KEY);
CREATE UNLOGGED TABLE ul2 AS SELECT 1 AS x;
SELECT 1 AS x INTO UNLOGGED ul3;
SELECT relname, am(oid), relpersistence FROM pg_class
  WHERE relkind = 'r' AND relname IN ('tmp1', 'tmp2', 'tmp3', 'tmp4', 'tmp5', 'tmp61', 'ul1', 'ul2', 'ul3')
    AND relpersistence <> 'p' ORDER BY relname;
SHOW default_table_access_method;
-- where search_path leads
SELECT set_config('search_path', 'pg_temp, ' || current_setting('search_path'), false) <> '' AS set;
CREATE TABLE tmp21 (id int) ON COMMIT DELETE ROWS;
SELECT am('tmp21'), relpersistence FROM pg_class WHERE oid = 'tmp21'::regclass;
SELECT * FROM refused('CREATE TABLE tmp22 (id int) USING zen');
SELECT set_config('search_path', replace(current_setting('search_path'), 'pg_temp, ', ''), false) <> '' AS reset;
INSERT INTO tmp1 SELECT generate_series(1, 10);
INSERT INTO ul1 SELECT id FROM tmp1;
INSERT INTO t SELECT id, id, 't' FROM ul1;
SELECT count(*) FROM t;
CREATE TABLE after_temp (id int);
SELECT am('after_temp');
-- inside a function, a procedure that commits, and after an error
DO $$ BEGIN CREATE TEMP TABLE tmp7 (id int); END $$;
SELECT am('tmp7');
DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE CREATE TEMP TABLE tmp9 AS SELECT 1 AS x'; END $$;
SELECT am('tmp9');
PREPARE one AS SELECT 1 AS x;
CREATE TEMP TABLE tmp11 AS EXECUTE one;
SELECT am('tmp11');
BEGIN;
CREATE TEMP TABLE tmp12 (id int) ON COMMIT DROP;
CREATE TABLE beside_temp (id int);
SELECT am('tmp12'), am('beside_temp');
COMMIT;
CREATE TEMP TABLE tmp7 (id int);
CREATE TEMP TABLE IF NOT EXISTS tmp7 (id int);
CREATE TABLE after_error (id int);
SELECT am('after_error');

-- asked for by name
SELECT * FROM refused('CREATE TEMP TABLE no1 (id int) USING zen');
SELECT * FROM refused('CREATE TEMP TABLE no2 USING zen AS SELECT 1 AS x');
SELECT * FROM refused('CREATE TABLE pg_temp.no3 (id int) USING zen');
SELECT * FROM refused('CREATE UNLOGGED TABLE no4 (id int PRIMARY KEY) USING zen');
SELECT * FROM refused('CREATE UNLOGGED TABLE no5 USING zen AS SELECT 1 AS x');
SELECT * FROM refused('CREATE TEMP TABLE no6 (id int) PARTITION BY RANGE (id) USING zen');
SELECT * FROM refused('CREATE UNLOGGED TABLE no7 (id int) PARTITION BY RANGE (id) USING zen');
SELECT * FROM refused('ALTER TABLE tmp1 SET ACCESS METHOD zen');
SELECT * FROM refused('ALTER TABLE ul1 SET ACCESS METHOD zen');
SELECT * FROM refused('ALTER TABLE t SET UNLOGGED');
SELECT to_regclass('no1'), to_regclass('no2'), to_regclass('pg_temp.no3'), to_regclass('no4'), to_regclass('no5');
SELECT am('tmp1'), am('ul1'), am('t'), relpersistence FROM pg_class WHERE oid = 't'::regclass;
ALTER TABLE ul1 SET LOGGED;
ALTER TABLE ul1 SET ACCESS METHOD zen;
SELECT am('ul1'), count(*) FROM ul1;
SET default_table_access_method = heap;
CREATE TABLE by_name (id int PRIMARY KEY) USING zen;
CREATE TEMP TABLE tmp8 (id int);
SELECT am('by_name'), am('tmp8');
SET default_table_access_method = zen;

-- indexes: the persistence of each, and of that of the TOAST table
CREATE FUNCTION persistence(t regclass) RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(format('%s %s', name, persistence), ', ' ORDER BY name COLLATE "C") FROM (
    SELECT x.relname::text AS name, x.relpersistence AS persistence FROM pg_index JOIN pg_class x ON x.oid = indexrelid
    WHERE indrelid = t
    UNION ALL
    SELECT 'toast', x.relpersistence FROM pg_class c JOIN pg_index ON indrelid = c.reltoastrelid
      JOIN pg_class x ON x.oid = indexrelid WHERE c.oid = t AND c.relname !~ '^(p|ex)') p $$;
-- a row found through every index of t
CREATE FUNCTION found(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL enable_seqscan = off;
  RETURN (SELECT count(*) FROM zo.t WHERE id = i) + (SELECT count(*) FROM zo.t WHERE k = i) + (SELECT count(*) FROM zo.t
    WHERE v = 't' AND id = i);
END $$;
SELECT persistence('t');
CREATE INDEX t_k ON t (k);
CREATE INDEX CONCURRENTLY t_v ON t (v);
ALTER TABLE t ADD CONSTRAINT t_u UNIQUE (id, k);
CREATE INDEX t_h ON t USING hash (k);
CREATE INDEX t_gin ON t USING gin (to_tsvector('simple', v));
CREATE INDEX t_gist ON t USING gist (point(id, k));
CREATE INDEX t_sp ON t USING spgist (v);
CREATE INDEX t_brin ON t USING brin (id);
SELECT persistence('t'), found(3);
REINDEX INDEX t_k;
REINDEX INDEX CONCURRENTLY t_v;
SELECT persistence('t'), found(3);
REINDEX TABLE t;
SELECT persistence('t'), found(3);
REINDEX TABLE CONCURRENTLY t;
SELECT persistence('t'), found(3);
REINDEX SCHEMA zo;
SELECT persistence('t'), found(3);
REINDEX SCHEMA CONCURRENTLY zo;
SELECT persistence('t'), found(3);
DROP INDEX t_h, t_gin, t_gist, t_sp, t_brin;
CLUSTER t USING t_k;
SELECT persistence('t'), found(3);
VACUUM FULL t;
SELECT persistence('t'), found(3);
ALTER TABLE t ALTER k TYPE bigint;
SELECT persistence('t'), found(3);
ALTER TABLE t ALTER id TYPE bigint, ADD COLUMN r float8 DEFAULT random();
SELECT persistence('t'), found(3);
ALTER INDEX t_k SET (fillfactor = 50);
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id);
SELECT persistence('t'), found(3);
TRUNCATE t;
SELECT persistence('t'), found(3);
INSERT INTO t SELECT g, g, 't' FROM generate_series(1, 10) g;
SELECT persistence('t'), found(3);
-- undone, and twice in one transaction
BEGIN;
TRUNCATE t;
REINDEX TABLE t;
SELECT persistence('t'), found(3);
SAVEPOINT a;
TRUNCATE t;
CREATE INDEX t_x ON t (r);
ROLLBACK TO a;
SELECT persistence('t'), found(3);
ROLLBACK;
SELECT persistence('t'), found(3);
BEGIN;
TRUNCATE t;
INSERT INTO t SELECT g, g, 't' FROM generate_series(1, 10) g;
TRUNCATE t;
INSERT INTO t SELECT g, g, 't' FROM generate_series(1, 10) g;
COMMIT;
SELECT persistence('t'), found(3);
BEGIN;
CREATE TABLE same_tx (id int PRIMARY KEY, v text);
INSERT INTO same_tx VALUES (1);
TRUNCATE same_tx;
INSERT INTO same_tx VALUES (2);
COMMIT;
SELECT persistence('same_tx');
-- to heap and back
ALTER TABLE t SET ACCESS METHOD heap;
SELECT persistence('t'), found(3);
CREATE INDEX t_hp ON t (k, v);
ALTER TABLE t SET ACCESS METHOD zen;
SELECT persistence('t'), found(3);
DROP INDEX t_hp;
-- copies, partitions, materialized views, exclusion constraints
CREATE TABLE l (LIKE t INCLUDING ALL);
SELECT persistence('l');
CREATE TABLE p (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) USING heap;
CREATE INDEX p_v ON p (v);
CREATE TABLE p3 (k int NOT NULL, v text);
CREATE INDEX p3_v ON p3 (v);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
SELECT persistence('p'), persistence('p1'), persistence('p2'), persistence('p3');
REINDEX TABLE p;
TRUNCATE p;
SELECT persistence('p'), persistence('p1'), persistence('p2'), persistence('p3');
ALTER TABLE p ALTER v TYPE varchar(10);
SELECT persistence('p'), persistence('p1'), persistence('p2'), persistence('p3');
CREATE MATERIALIZED VIEW mv AS SELECT id, k, v FROM t;
CREATE UNIQUE INDEX mv_id ON mv (id);
SELECT am('mv'), persistence('mv');
REFRESH MATERIALIZED VIEW mv;
SELECT persistence('mv');
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT persistence('mv'), count(*) FROM mv;
CREATE TABLE ex (id int, r int4range, EXCLUDE USING gist (r WITH &&));
SELECT persistence('ex');
-- dropped and made again
ALTER TABLE t DROP COLUMN v CASCADE;
ALTER TABLE t ADD COLUMN v text DEFAULT 't';
CREATE INDEX t_v ON t (v);
SELECT persistence('t'), found(3);
-- no index of a zen table in this database is logged, none of a heap table unlogged
SELECT count(*) FROM pg_index i JOIN pg_class x ON x.oid = indexrelid JOIN pg_class c ON c.oid = indrelid
	JOIN pg_am a ON a.oid = c.relam
  WHERE (amname = 'zen') <> (x.relpersistence = 'u') AND c.relpersistence = 'p';

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA zo CASCADE;
