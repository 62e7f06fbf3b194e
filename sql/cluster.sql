SET default_table_access_method = zen;
--
-- cluster: CLUSTER by index scan and by sort; the table's order, indexes and contents afterwards.
--
CREATE SCHEMA clu;
SET search_path = clu, public;

CREATE TABLE t (id int PRIMARY KEY, k int, v text, gone int);
CREATE INDEX t_k ON t (k);
CREATE INDEX t_e ON t (abs(k - 500));
INSERT INTO t SELECT g, (g * 7919) % 1000, 'v' || g, g FROM generate_series(1, 1000) g;
UPDATE t SET v = v || 'u' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 10 = 0;
ALTER TABLE t DROP COLUMN gone;
CREATE FUNCTION ordered(q text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE r bool;
BEGIN
  EXECUTE format('SELECT (SELECT array_agg(x) FROM (%1$s) s(x)) = (SELECT array_agg(x ORDER BY x) FROM (%1$s) s(x))',
    q) INTO r;
  RETURN r;
END $$;
SELECT ordered('SELECT k FROM clu.t');
CLUSTER t USING t_k;
SELECT ordered('SELECT k FROM clu.t'), count(*), sum(id), count(*) FILTER (WHERE v LIKE '%u') FROM t;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 't'::regclass AND indisclustered;
SET enable_seqscan = off;
SELECT id, k, v FROM t WHERE k BETWEEN 100 AND 103 ORDER BY k;
SELECT id, k, v FROM t WHERE id BETWEEN 100 AND 103 ORDER BY id;
RESET enable_seqscan;
CLUSTER t USING t_pkey;
SELECT ordered('SELECT id FROM clu.t'), count(*), sum(id) FROM t;
CLUSTER t USING t_e;
SELECT ordered('SELECT abs(k - 500) FROM clu.t'), count(*), sum(id) FROM t;
-- again, after changes, without naming the index
INSERT INTO t SELECT g, g % 1000, 'n' FROM generate_series(1001, 1500) g;
DELETE FROM t WHERE id BETWEEN 200 AND 300;
CLUSTER t;
SELECT ordered('SELECT abs(k - 500) FROM clu.t'), count(*), sum(id) FROM t;
ALTER TABLE t CLUSTER ON t_k;
SET enable_indexscan = off;
CLUSTER t;
SELECT ordered('SELECT k FROM clu.t'), count(*), sum(id) FROM t;
RESET enable_indexscan;
SET enable_sort = off;
CLUSTER t;
SELECT ordered('SELECT k FROM clu.t'), count(*), sum(id) FROM t;
RESET enable_sort;
-- in a transaction that changes the table before and after, and is undone
BEGIN;
UPDATE t SET k = -k WHERE id <= 50;
INSERT INTO t VALUES (5000, -5000, 'tx');
DELETE FROM t WHERE id > 1400 AND id < 5000;
CLUSTER t USING t_k;
SELECT ordered('SELECT k FROM clu.t'), count(*), sum(id), min(k) FROM t;
SAVEPOINT a;
UPDATE t SET v = 'after' WHERE id = 5000;
CLUSTER t USING t_pkey;
SELECT ordered('SELECT id FROM clu.t'), count(*), sum(id), min(k) FROM t;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 5000;
ROLLBACK;
SELECT ordered('SELECT k FROM clu.t'), count(*), sum(id), min(k) FROM t;
BEGIN;
UPDATE t SET k = -k WHERE id <= 50;
CLUSTER t USING t_k;
UPDATE t SET v = 'after' WHERE id = 1;
COMMIT;
SELECT ordered('SELECT k FROM clu.t WHERE id <> 1'), count(*), sum(id), min(k) FROM t;
SELECT id, v FROM t WHERE id = 1;
-- with TOAST, nulls, other index kinds
CREATE TABLE w (id int, v text);
CREATE INDEX w_id ON w (id DESC NULLS FIRST);
INSERT INTO w SELECT NULLIF(g, 7), repeat(md5(g::text), 1000) FROM generate_series(1, 30) g;
UPDATE w SET v = repeat(md5(id::text), 2000) WHERE id % 5 = 0;
CLUSTER w USING w_id;
SELECT (array_agg(id))[1:5] FROM w;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v LIKE md5(id::text) || '%') FROM w;
CREATE TABLE g (p point);
CREATE INDEX g_p ON g USING gist (p);
INSERT INTO g SELECT point(i % 10, i / 10) FROM generate_series(0, 99) i;
CLUSTER g USING g_p;
SELECT count(*) FROM g WHERE p <@ box(point(2, 2), point(4, 4));
CREATE INDEX g_h ON g USING brin (box(p, p));
CREATE INDEX t_part ON t (v) WHERE id > 5;
CLUSTER t USING t_part;
CLUSTER t USING nosuch;
CREATE INDEX t_hash ON t USING hash (k);
CLUSTER t USING t_hash;
-- partitioned, and all of the marked tables
CREATE TABLE p (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200) USING heap;
CREATE INDEX p_k ON p (k);
INSERT INTO p SELECT 199 - g, g FROM generate_series(0, 199) g;
CLUSTER p USING p_k;
SELECT ordered('SELECT k FROM clu.p1'), ordered('SELECT k FROM clu.p2'), count(*) FROM p;
-- an empty table, no index marked
CREATE TABLE e (id int PRIMARY KEY);
CLUSTER e;
CLUSTER e USING e_pkey;
CLUSTER e;
SELECT count(*) FROM e;

-- VACUUM FULL: rows as they were written, with dropped and with missing columns, long values, writers, and their order;
-- beside heap
CREATE FUNCTION contents(t regclass, OUT n bigint, OUT hash text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*), md5(string_agg(x::text, chr(10) ORDER BY x.id)) FROM %s x', t) INTO n, hash;
END $$;
CREATE TABLE fz (id int PRIMARY KEY, gone int, v text) WITH (autovacuum_enabled = off);
CREATE TABLE fh (id int PRIMARY KEY, gone int, v text) USING heap WITH (autovacuum_enabled = off);
CREATE FUNCTION on_each(q text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format(q, 'fz'); EXECUTE format(q, 'fh');
END $$;
SELECT on_each($$INSERT INTO %s SELECT g, g, 'v' || g FROM generate_series(1, 10000) g$$);
SELECT on_each($$ALTER TABLE %s DROP COLUMN gone$$);
VACUUM FULL fz;
VACUUM FULL fh;
SELECT contents('fz') = contents('fh') AS same, (contents('fz')).n;
SELECT on_each($$ALTER TABLE %s ADD COLUMN missing int DEFAULT 7$$);
SELECT on_each($$INSERT INTO %s SELECT g, repeat(md5(g::text), 200), g FROM generate_series(10001, 10050) g$$);
SELECT on_each($$DELETE FROM %s WHERE id %% 100 = 0$$);
SELECT on_each($$UPDATE %s SET v = v || 'u' WHERE id %% 7 = 0$$);
CREATE TABLE writers AS SELECT id, xmin AS x FROM fz;
VACUUM FULL fz;
VACUUM FULL fh;
SELECT contents('fz') = contents('fh') AS same, (contents('fz')).n;
SELECT count(*), count(*) FILTER (WHERE fz.xmin = x) AS kept FROM fz JOIN writers USING (id);
SELECT count(*) FILTER (WHERE id < before) AS out_of_order FROM (SELECT id, lag(id) OVER () AS before FROM fz) o;
SELECT on_each($$ALTER TABLE %s ALTER v SET STORAGE plain, ADD COLUMN last int$$);
VACUUM FULL fz;
VACUUM FULL fh;
SELECT contents('fz') = contents('fh') AS same, (contents('fz')).n;
SELECT count(*) FROM zen_verify('fz');

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA clu CASCADE;
