SET default_table_access_method = zen;
--
-- analyze: statistics of small tables, where the sample is the whole table and the
-- numbers are exact; what pg_class and pg_stats say afterwards.
--
CREATE SCHEMA ana;
SET search_path = ana, public;

CREATE TABLE t (id int, grp int, nul text, fixed bool, arr int[], wide text) WITH (autovacuum_enabled = off);
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
INSERT INTO t SELECT g, g % 4, CASE WHEN g % 2 = 0 THEN 'x' END, true, ARRAY[g % 3, 7], repeat('w', 50)
	FROM generate_series(1, 1000) g;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
SELECT attname, null_frac, avg_width, n_distinct, most_common_vals, most_common_freqs, correlation
  FROM pg_stats WHERE schemaname = 'ana' AND tablename = 't' AND attname IN ('grp', 'nul', 'fixed') ORDER BY attname;
SELECT attname, n_distinct, correlation, array_length(histogram_bounds::text::int[], 1) AS bounds,
    (histogram_bounds::text::int[])[1] AS low, (histogram_bounds::text::int[])[101] AS high
  FROM pg_stats WHERE schemaname = 'ana' AND tablename = 't' AND attname = 'id';
SELECT most_common_elems FROM pg_stats WHERE schemaname = 'ana' AND tablename = 't' AND attname = 'arr';
-- dead and updated rows do not count
DELETE FROM t WHERE id % 2 = 0;
UPDATE t SET grp = 9 WHERE id % 3 = 0;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
SELECT attname, null_frac, n_distinct FROM pg_stats WHERE schemaname = 'ana' AND tablename = 't' ORDER BY attname;
-- own uncommitted changes do
BEGIN;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 500) g;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
ROLLBACK;
BEGIN;
DELETE FROM t WHERE id > 500;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
ROLLBACK;
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
-- VACUUM counts them too, and CREATE INDEX those of the index
DELETE FROM t WHERE id > 900;
VACUUM t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
INSERT INTO t SELECT g, 0 FROM generate_series(2001, 2500) g;
VACUUM ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
DELETE FROM t;
VACUUM ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
CREATE TABLE ti (id int PRIMARY KEY, v int);
INSERT INTO ti SELECT g, g % 10 FROM generate_series(1, 700) g;
CREATE INDEX ti_v ON ti (v);
CREATE INDEX ti_p ON ti (id) WHERE v = 3;
ALTER TABLE ti SET (autovacuum_enabled = off);
SELECT relname, reltuples FROM pg_class WHERE oid IN ('ti'::regclass, 'ti_v'::regclass, 'ti_p'::regclass)
	ORDER BY relname;
VACUUM ti;
INSERT INTO ti SELECT g, 3 FROM generate_series(701, 800) g;
VACUUM ANALYZE ti;
SELECT relname, reltuples FROM pg_class WHERE oid IN ('ti'::regclass, 'ti_v'::regclass, 'ti_p'::regclass)
	ORDER BY relname;

-- a table larger than the sample
CREATE TABLE l (id int, v int) WITH (autovacuum_enabled = off);
INSERT INTO l SELECT g, g % 10 FROM generate_series(1, 20000) g;
ALTER TABLE l ALTER id SET STATISTICS 10, ALTER v SET STATISTICS 10;
ANALYZE l;
SELECT reltuples BETWEEN 19000 AND 21000 AS near FROM pg_class WHERE oid = 'l'::regclass;
SELECT attname, n_distinct, array_length(most_common_vals::text::int[], 1) AS mcv FROM pg_stats
  WHERE schemaname = 'ana' AND tablename = 'l' ORDER BY attname;
-- what the planner makes of it
CREATE FUNCTION rows_of(q text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE j json; BEGIN EXECUTE 'EXPLAIN (FORMAT json) ' || q INTO j; RETURN j -> 0 -> 'Plan' -> 'Plan Rows'; END $$;
SELECT rows_of('SELECT * FROM ana.l') BETWEEN 19000 AND 21000 AS all_rows,
       rows_of('SELECT * FROM ana.l WHERE v = 3') BETWEEN 1000 AND 3500 AS tenth,
       rows_of('SELECT * FROM ana.l WHERE id < 5000') BETWEEN 4000 AND 6000 AS quarter;
-- a table never analyzed, that grows
CREATE TABLE n (id int) WITH (autovacuum_enabled = off);
SELECT rows_of('SELECT * FROM ana.n') BETWEEN 1 AND 5000 AS guess;
INSERT INTO n SELECT generate_series(1, 50000);
SELECT rows_of('SELECT * FROM ana.n') BETWEEN 20000 AND 150000 AS guess;
ANALYZE n;
INSERT INTO n SELECT generate_series(1, 50000);
SELECT rows_of('SELECT * FROM ana.n') BETWEEN 60000 AND 150000 AS guess;

-- expression and partial indexes, extended statistics, inheritance, partitions
CREATE TABLE x (a int, b int, s text) WITH (autovacuum_enabled = off);
INSERT INTO x SELECT g % 10, g % 10, 'S' || g % 5 FROM generate_series(1, 1000) g;
CREATE INDEX x_l ON x (lower(s)) WHERE a > 4;
CREATE STATISTICS x_st (dependencies, ndistinct, mcv) ON a, b FROM x;
ANALYZE x;
SELECT tablename, attname, n_distinct FROM pg_stats WHERE schemaname = 'ana' AND tablename = 'x_l';
SELECT n_distinct, dependencies, array_length(most_common_vals, 1) FROM pg_stats_ext WHERE schemaname = 'ana';
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100) WITH (autovacuum_enabled = off);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200) USING heap WITH (autovacuum_enabled = off);
INSERT INTO p SELECT g, g % 7 FROM generate_series(0, 199) g;
ANALYZE p;
SELECT relname, reltuples FROM pg_class WHERE oid IN ('p'::regclass, 'p1'::regclass, 'p2'::regclass) ORDER BY relname;
SELECT inherited, tablename, attname, n_distinct FROM pg_stats WHERE schemaname = 'ana' AND tablename LIKE 'p%'
	ORDER BY 1, 2, 3;
-- columns that are TOASTed, dropped, or too wide to be looked at
CREATE TABLE w (id int, gone int, v text) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT g, g, repeat(md5(g::text), 2000) FROM generate_series(1, 50) g;
ALTER TABLE w DROP COLUMN gone;
ANALYZE w;
SELECT attname, null_frac, n_distinct FROM pg_stats WHERE schemaname = 'ana' AND tablename = 'w' ORDER BY attname;
ANALYZE w (v);
ANALYZE w (nosuch);

-- filled again: what VACUUM saw when there was next to nothing must not make the planner think that it is small
CREATE TABLE again (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
INSERT INTO again SELECT g, 'v' FROM generate_series(1, 50000) g;
DELETE FROM again;
VACUUM again;
INSERT INTO again SELECT g, 'v' FROM generate_series(1, 50000) g;
SET zen.executor = 'keyjoin, batch';
EXPLAIN (COSTS OFF) SELECT v FROM again WHERE id = 7;
RESET zen.executor;
DELETE FROM again WHERE id > 1;
VACUUM again;
INSERT INTO again SELECT g, 'v' FROM generate_series(2, 50000) g;
SET zen.executor = 'keyjoin, batch';
EXPLAIN (COSTS OFF) SELECT v FROM again WHERE id = 7;
RESET zen.executor;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA ana CASCADE;
