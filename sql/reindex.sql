SET default_table_access_method = zen;
--
-- reindex: REINDEX of index, table, schema, plain and CONCURRENTLY; CREATE INDEX
-- CONCURRENTLY; what invalid indexes do; indexes checked against the table afterwards.
--
CREATE SCHEMA rix;
SET search_path = rix, public;
SET client_min_messages = warning;
-- Needs amcheck in part.
SELECT count(*) = 0 AS no_amcheck FROM pg_available_extensions WHERE name = 'amcheck' \gset
\if :no_amcheck
CREATE FUNCTION bt_index_check(index regclass, heapallindexed bool) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION bt_index_parent_check(index regclass, heapallindexed bool, rootdescend bool DEFAULT false) RETURNS void
	LANGUAGE sql AS '';
\else
CREATE EXTENSION amcheck;
\endif
RESET client_min_messages;

CREATE TABLE t (id int PRIMARY KEY, k int, v text, a int[]);
INSERT INTO t SELECT g, g % 100, 'v' || g, ARRAY[g % 7] FROM generate_series(1, 2000) g;
CREATE INDEX CONCURRENTLY t_k ON t (k);
CREATE UNIQUE INDEX CONCURRENTLY t_v ON t (v) INCLUDE (k);
CREATE INDEX CONCURRENTLY t_e ON t ((k + id)) WHERE k < 50;
CREATE INDEX CONCURRENTLY t_a ON t USING gin (a);
CREATE INDEX CONCURRENTLY t_h ON t USING hash (k);
CREATE INDEX CONCURRENTLY t_g ON t USING gist (point(id, k));
CREATE INDEX CONCURRENTLY t_b ON t USING brin (id);
CREATE INDEX CONCURRENTLY t_s ON t USING spgist (v);
CREATE INDEX CONCURRENTLY IF NOT EXISTS t_k ON t (k);
CREATE FUNCTION answers() RETURNS TABLE (k bigint, v bigint, e bigint, a bigint, h bigint, g bigint, b bigint, s bigint,
	seq bigint) LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL enable_seqscan = off;
  RETURN QUERY SELECT (SELECT count(*) FROM rix.t x WHERE x.k BETWEEN 10 AND 19),
    (SELECT count(*) FROM rix.t x WHERE x.v >= 'v5' AND x.v < 'v6'),
    (SELECT count(*) FROM rix.t x WHERE x.k + id > 1500 AND x.k < 50),
      (SELECT count(*) FROM rix.t x WHERE x.a @> '{3}'), (SELECT count(*) FROM rix.t x WHERE x.k = 7),
    (SELECT count(*) FROM rix.t x WHERE point(id, x.k) <@ box(point(0, 0), point(1000, 50))),
      (SELECT count(*) FROM rix.t x WHERE id BETWEEN 600 AND 700),
    (SELECT count(*) FROM rix.t x WHERE x.v ^@ 'v12'), (SELECT count(*) FROM rix.t x WHERE md5(x.v) > '8');
END $$;
SELECT * FROM answers();
UPDATE t SET k = k + 1, a = a || 3 WHERE id % 5 = 0;
UPDATE t SET v = v || 'x' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 11 = 0;
SELECT * FROM answers();
REINDEX INDEX t_k;
REINDEX INDEX t_a;
SELECT * FROM answers();
REINDEX TABLE t;
SELECT * FROM answers();
REINDEX INDEX CONCURRENTLY t_v;
REINDEX INDEX CONCURRENTLY t_g;
REINDEX TABLE CONCURRENTLY t;
SELECT * FROM answers();
REINDEX (VERBOSE OFF) SCHEMA rix;
REINDEX SCHEMA CONCURRENTLY rix;
SELECT * FROM answers();
SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid AND indisready AND indislive;
SELECT relname FROM pg_class WHERE relnamespace = 'rix'::regnamespace AND relname ~ 'ccnew|ccold';
SELECT bt_index_parent_check('t_pkey', true), bt_index_parent_check('t_k', true), bt_index_parent_check('t_v', true),
	bt_index_parent_check('t_e', true);
INSERT INTO t VALUES (1, 1, 'dup', '{}');
INSERT INTO t VALUES (9001, 1, 'v1', '{}');
UPDATE t SET k = 7 WHERE id = 1;
SELECT * FROM answers();

-- rolled back
BEGIN;
REINDEX TABLE t;
UPDATE t SET k = 7 WHERE id < 10;
REINDEX INDEX t_k;
SELECT h FROM answers();
SAVEPOINT a;
DELETE FROM t WHERE k = 7;
REINDEX TABLE t;
SELECT h FROM answers();
ROLLBACK TO a;
SELECT h FROM answers();
ROLLBACK;
SELECT * FROM answers();
SELECT bt_index_check('t_k', true);
-- after changes in the same transaction
BEGIN;
UPDATE t SET k = 8 WHERE k = 7;
UPDATE t SET k = 7 WHERE k = 8 AND id < 100;
REINDEX TABLE t;
COMMIT;
SELECT h FROM answers();
SELECT bt_index_check('t_k', true);

-- a unique index that cannot be built, and stays behind invalid
CREATE TABLE d (id int, v int);
INSERT INTO d VALUES (1, 1), (2, 2), (3, 1);
CREATE UNIQUE INDEX CONCURRENTLY d_v ON d (v);
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'd_v'::regclass;
INSERT INTO d VALUES (4, 2);
DELETE FROM d WHERE id = 3;
REINDEX INDEX d_v;
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'd_v'::regclass;
INSERT INTO d VALUES (5, 2);
DROP INDEX d_v;
UPDATE d SET v = 1;
CREATE UNIQUE INDEX CONCURRENTLY d_v ON d (v);
UPDATE d SET v = id;
REINDEX INDEX CONCURRENTLY d_v;
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'd_v'::regclass;
DROP INDEX CONCURRENTLY d_v;
-- an expression that fails
CREATE INDEX CONCURRENTLY d_e ON d ((10 / (id - 2)));
UPDATE d SET id = 20 WHERE id = 2;
DROP INDEX d_e;
CREATE INDEX CONCURRENTLY d_e ON d ((10 / (id - 2)));
SELECT indisvalid FROM pg_index WHERE indexrelid = 'd_e'::regclass;
BEGIN;
CREATE INDEX CONCURRENTLY d_x ON d (v);
ROLLBACK;
BEGIN;
REINDEX TABLE CONCURRENTLY d;
ROLLBACK;

-- TOAST indexes, partitioned tables, materialized views, tables with dropped columns
CREATE TABLE w (id int PRIMARY KEY, gone int, v text);
INSERT INTO w SELECT g, g, repeat(md5(g::text), 1000) FROM generate_series(1, 50) g;
ALTER TABLE w DROP COLUMN gone;
DELETE FROM w WHERE id % 2 = 0;
REINDEX TABLE w;
REINDEX TABLE CONCURRENTLY w;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat(md5(id::text), 1000)) FROM w;
INSERT INTO w SELECT g, repeat(md5(g::text), 1000) FROM generate_series(2, 50, 2) g;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat(md5(id::text), 1000)) FROM w;
CREATE TABLE p (k int PRIMARY KEY, v int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200) USING heap;
CREATE INDEX p_v ON p (v);
INSERT INTO p SELECT g, g % 10 FROM generate_series(0, 199) g;
REINDEX TABLE p;
REINDEX INDEX p_v;
REINDEX TABLE CONCURRENTLY p;
REINDEX INDEX CONCURRENTLY p_v;
CREATE INDEX CONCURRENTLY p_x ON p (v);
CREATE INDEX p_x ON ONLY p (v, k);
CREATE INDEX CONCURRENTLY p1_x ON p1 (v, k);
CREATE INDEX CONCURRENTLY p2_x ON p2 (v, k);
ALTER INDEX p_x ATTACH PARTITION p1_x;
ALTER INDEX p_x ATTACH PARTITION p2_x;
SET enable_seqscan = off;
SELECT count(*), sum(k) FROM p WHERE v = 3;
SELECT count(*), sum(k) FROM p WHERE k > 90;
RESET enable_seqscan;
CREATE MATERIALIZED VIEW mv AS SELECT * FROM p;
CREATE UNIQUE INDEX mv_k ON mv (k);
REINDEX TABLE mv;
REINDEX TABLE CONCURRENTLY mv;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*) FROM mv;
-- deferrable and exclusion constraints
CREATE TABLE x (k int UNIQUE DEFERRABLE INITIALLY DEFERRED, r int4range, EXCLUDE USING gist (r WITH &&));
INSERT INTO x VALUES (1, '[1,5)'), (2, '[5,9)');
REINDEX TABLE x;
REINDEX TABLE CONCURRENTLY x;
INSERT INTO x VALUES (1, '[20,30)');
INSERT INTO x VALUES (3, '[4,6)');
SELECT * FROM x ORDER BY k;
-- an empty table
CREATE TABLE e (id int PRIMARY KEY);
CREATE INDEX CONCURRENTLY e_i ON e (id);
REINDEX TABLE e;
REINDEX TABLE CONCURRENTLY e;
INSERT INTO e VALUES (1);
SELECT * FROM e WHERE id = 1;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA rix CASCADE;
