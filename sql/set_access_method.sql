SET default_table_access_method = zen;
--
-- set_access_method: tables turned from heap to zen and back, with indexes, TOAST,
-- constraints, dropped columns, in transactions that are kept and undone.
--
CREATE SCHEMA sam;
SET search_path = sam, public;

CREATE FUNCTION am(t regclass) RETURNS name LANGUAGE sql AS $$
  SELECT amname FROM pg_am a JOIN pg_class c ON a.oid = c.relam WHERE c.oid = t $$;
CREATE TABLE t (id int PRIMARY KEY, gone int, k int, v text, big text) USING heap;
CREATE INDEX t_k ON t (k);
CREATE INDEX t_v ON t USING gist (point(k, id));
CREATE UNIQUE INDEX t_e ON t ((id * 2)) WHERE k > 5;
INSERT INTO t SELECT g, g, g % 10, 'v' || g, CASE WHEN g % 10 = 0 THEN repeat(md5(g::text), 2000) END
	FROM generate_series(1, 300) g;
UPDATE t SET v = v || 'u' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 7 = 0;
ALTER TABLE t DROP COLUMN gone;
ALTER TABLE t ADD COLUMN f text DEFAULT 'fast';
CREATE VIEW sum_of AS SELECT count(*) AS n, sum(id) AS ids, sum(k) AS ks, count(*) FILTER (WHERE v LIKE '%u') AS u,
	sum(length(big)) AS big,
  count(*) FILTER (WHERE big LIKE md5(id::text) || '%') AS good, count(*) FILTER (WHERE f = 'fast') AS f FROM t;
SELECT am('t'), * FROM sum_of;
ALTER TABLE t SET ACCESS METHOD zen;
SELECT am('t'), * FROM sum_of;
CREATE FUNCTION by_index() RETURNS TABLE (a bigint, b bigint, c bigint, d bigint) LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL enable_seqscan = off;
  RETURN QUERY SELECT (SELECT count(*) FROM sam.t WHERE id > 100), (SELECT count(*) FROM sam.t WHERE k = 3),
    (SELECT count(*) FROM sam.t WHERE point(k, id) <@ box(point(2, 0), point(4, 100))),
    (SELECT count(*) FROM sam.t WHERE id * 2 = 78 AND k > 5);
END $$;
SELECT * FROM by_index();
INSERT INTO t VALUES (1, 1, 'dup');
INSERT INTO t VALUES (1000, 3, 'new', NULL);
UPDATE t SET k = k + 1 WHERE id = 1000;
UPDATE t SET big = repeat('B', 50000) WHERE id = 10;
SELECT am('t'), * FROM sum_of;
SELECT * FROM by_index();
ALTER TABLE t SET ACCESS METHOD heap;
SELECT am('t'), * FROM sum_of;
SELECT * FROM by_index();
ALTER TABLE t SET ACCESS METHOD heap;
-- with other changes in the same command
ALTER TABLE t SET ACCESS METHOD zen, ALTER k TYPE bigint, ADD COLUMN r float8 DEFAULT random(), DROP COLUMN v CASCADE;
SELECT am('t'), count(*), sum(k), count(DISTINCT r), sum(length(big)) FROM t;
SELECT * FROM by_index();
-- undone
BEGIN;
DELETE FROM t WHERE id > 200;
ALTER TABLE t SET ACCESS METHOD heap;
INSERT INTO t (id, k) VALUES (2000, 1);
SELECT am('t'), count(*), sum(id) FROM t;
SAVEPOINT a;
ALTER TABLE t SET ACCESS METHOD zen;
DELETE FROM t WHERE id < 100;
SELECT am('t'), count(*), sum(id) FROM t;
ROLLBACK TO a;
SELECT am('t'), count(*), sum(id) FROM t;
ROLLBACK;
SELECT am('t'), count(*), sum(id) FROM t;
SELECT * FROM by_index();
-- kept, with changes on both sides
BEGIN;
DELETE FROM t WHERE id > 200;
ALTER TABLE t SET ACCESS METHOD heap;
UPDATE t SET k = 77 WHERE id = 1;
ALTER TABLE t SET ACCESS METHOD zen;
UPDATE t SET k = k + 1 WHERE id = 1;
COMMIT;
SELECT am('t'), count(*), sum(id), max(k) FROM t;
SELECT * FROM by_index();
-- a table made in the same transaction
BEGIN;
CREATE TABLE n (id int PRIMARY KEY) USING heap;
INSERT INTO n VALUES (1), (2);
ALTER TABLE n SET ACCESS METHOD zen;
INSERT INTO n VALUES (3);
COMMIT;
SELECT am('n'), array_agg(id ORDER BY id) FROM n;
-- by default_table_access_method, of an empty table, of one referenced by foreign keys
SET default_table_access_method = heap;
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int REFERENCES p ON DELETE CASCADE);
INSERT INTO p VALUES (1), (2);
INSERT INTO c VALUES (1), (2), (2);
SET default_table_access_method = zen;
ALTER TABLE p SET ACCESS METHOD zen;
ALTER TABLE c SET ACCESS METHOD zen;
DELETE FROM p WHERE id = 2;
INSERT INTO c VALUES (9);
SELECT am('p'), am('c'), (SELECT count(*) FROM p), (SELECT count(*) FROM c);
CREATE TABLE e (id int) USING heap;
ALTER TABLE e SET ACCESS METHOD zen;
SELECT am('e'), count(*) FROM e;
-- a rewrite gives the table a relfrozenxid, which VACUUM raises
DO $$BEGIN FOR i IN 1 .. 300 LOOP PERFORM txid_current(); COMMIT; END LOOP; END$$;
SELECT relfrozenxid <> '0' AND age(relfrozenxid) >= 300 AS old FROM pg_class WHERE oid = 'e'::regclass;
VACUUM e;
SELECT age(relfrozenxid) < 300 AS raised FROM pg_class WHERE oid = 'e'::regclass;
-- materialized views
CREATE MATERIALIZED VIEW mv USING heap AS SELECT id FROM p;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD zen;
SELECT am('mv'), * FROM mv;
-- errors
ALTER TABLE t SET ACCESS METHOD nosuch;
ALTER TABLE t SET ACCESS METHOD btree;
ALTER TABLE t SET ACCESS METHOD heap, SET ACCESS METHOD zen;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA sam CASCADE;
