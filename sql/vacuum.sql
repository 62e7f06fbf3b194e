SET default_table_access_method = zen;
--
-- vacuum: VACUUM in its variants; dead rows leave every index and their places are used
-- again without old index entries pointing at new rows.
--
CREATE SCHEMA vac;
SET search_path = vac, public;
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

CREATE TABLE t (id int PRIMARY KEY, k int, a int[], p point, s text, b int);
CREATE INDEX t_k ON t (k);
CREATE INDEX t_kh ON t USING hash (k);
CREATE INDEX t_a ON t USING gin (a);
CREATE INDEX t_p ON t USING gist (p);
CREATE INDEX t_s ON t USING spgist (s);
CREATE INDEX t_b ON t USING brin (b) WITH (pages_per_range = 1);
CREATE FUNCTION fill(lo int, hi int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO vac.t SELECT g, g % 100, ARRAY[g % 10, g % 17 + 100], point(g % 50, g / 50), 's' || g % 200,
    g FROM generate_series(lo, hi) g $$;
-- every index gives the same answers as a sequential scan
CREATE FUNCTION check_indexes() RETURNS TABLE (way text, n bigint, ids bigint) LANGUAGE plpgsql AS $$
DECLARE q text; w text;
BEGIN
  FOR w, q IN VALUES ('btree', 'k BETWEEN 10 AND 19'), ('hash', 'k = 15'), ('gin', 'a @> ''{3}'''),
      ('gist', 'p <@ box(point(5, 0), point(9, 1000))'), ('spgist', 's ^@ ''s11'''), ('brin', 'b BETWEEN 500 AND 800'),
      ('pkey', 'id > 1000')
  LOOP
    SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = on;
    way := w;
    EXECUTE 'SELECT count(*), sum(id) FROM vac.t WHERE ' || q INTO n, ids;
    RETURN NEXT;
    SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
    way := '  seq';
    EXECUTE 'SELECT count(*), sum(id) FROM vac.t WHERE ' || q INTO n, ids;
    RETURN NEXT;
  END LOOP;
END $$;
SELECT fill(1, 3000);
SELECT * FROM check_indexes();
DELETE FROM t WHERE id % 3 = 0;
SELECT * FROM check_indexes();
VACUUM t;
SELECT * FROM check_indexes();
SELECT fill(10001, 11000);
SELECT * FROM check_indexes();
UPDATE t SET k = k + 1, a = a || 3, p = p + point(1, 1), s = s || 'x', b = b + 1 WHERE id % 2 = 0;
VACUUM (FREEZE) t;
SELECT * FROM check_indexes();
UPDATE t SET id = -id WHERE id % 5 = 0;
DELETE FROM t WHERE id % 7 = 0;
VACUUM (ANALYZE, INDEX_CLEANUP ON, TRUNCATE ON) t;
SELECT fill(20001, 21000);
SELECT * FROM check_indexes();
SELECT bt_index_check('t_pkey', true), bt_index_parent_check('t_k', true, true);

-- everything deleted, vacuumed, filled again, many times over
CREATE TABLE r (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
CREATE INDEX r_v ON r (v);
CREATE PROCEDURE rounds(n int) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..n LOOP
    DELETE FROM vac.r;
    INSERT INTO vac.r SELECT g, 'round ' || i FROM generate_series(1, 500) g;
    COMMIT;
  END LOOP;
END $$;
CALL rounds(3);
VACUUM r;
CALL rounds(3);
VACUUM r;
DELETE FROM r WHERE id % 2 = 0;
VACUUM r;
INSERT INTO r SELECT g, 'even' FROM generate_series(2, 500, 2) g;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM r WHERE v = 'even';
SELECT count(*), sum(id) FROM r WHERE v = 'round 3';
SELECT count(*), sum(id) FROM r WHERE v = 'round 2';
SELECT count(*), sum(id) FROM r WHERE id > 0;
RESET enable_seqscan;
SELECT bt_index_check('r_pkey', true), bt_index_check('r_v', true);
-- after a rollback of many rows
BEGIN;
INSERT INTO r SELECT g, 'lost' FROM generate_series(1001, 3000) g;
UPDATE r SET v = 'lost' WHERE id < 300;
ROLLBACK;
VACUUM r;
INSERT INTO r SELECT g, 'kept' FROM generate_series(1001, 3000) g;
VACUUM r;
SET enable_seqscan = off;
SELECT v, count(*) FROM r WHERE v >= '' GROUP BY v ORDER BY v;
SELECT count(*) FROM r WHERE v = 'lost';
RESET enable_seqscan;
SELECT bt_index_parent_check('r_pkey', true, true), bt_index_parent_check('r_v', true, true);

-- INDEX_CLEANUP OFF leaves dead entries to a later VACUUM
DELETE FROM r WHERE id > 1000;
VACUUM (INDEX_CLEANUP OFF) r;
INSERT INTO r SELECT g, 'third' FROM generate_series(1001, 1500) g;
VACUUM (INDEX_CLEANUP ON) r;
INSERT INTO r SELECT g, 'fourth' FROM generate_series(1501, 2000) g;
SET enable_seqscan = off;
SELECT v, count(*), min(id), max(id) FROM r WHERE v >= '' GROUP BY v ORDER BY v;
RESET enable_seqscan;
-- variants that must be accepted
VACUUM (DISABLE_PAGE_SKIPPING) r;
VACUUM (SKIP_LOCKED) r;
VACUUM (PARALLEL 2) t;
VACUUM (PARALLEL 0, INDEX_CLEANUP AUTO, PROCESS_TOAST OFF) r;
VACUUM (TRUNCATE OFF) r;
VACUUM r, t;
VACUUM ANALYZE r (v);
SET vacuum_freeze_min_age = 0; SET vacuum_freeze_table_age = 0;
VACUUM r;
RESET vacuum_freeze_min_age; RESET vacuum_freeze_table_age;
SELECT count(*), sum(id) FROM r;
-- not in a transaction
BEGIN;
VACUUM r;
ROLLBACK;

-- a part of the map that was full, and has changed since, is looked at again
CREATE TABLE full_leaves (id int PRIMARY KEY, v int);
INSERT INTO full_leaves SELECT g, 0 FROM generate_series(1, 4096) g;
CREATE FUNCTION vacuumed_rows() RETURNS float4 LANGUAGE sql AS
  $$ SELECT reltuples FROM pg_class WHERE oid = 'vac.full_leaves'::regclass $$;
VACUUM full_leaves;
VACUUM full_leaves;
SELECT vacuumed_rows();
DELETE FROM full_leaves WHERE id % 1024 = 7;
VACUUM full_leaves;
SELECT vacuumed_rows();
INSERT INTO full_leaves SELECT g, 1 FROM generate_series(5001, 5004) g;
UPDATE full_leaves SET v = 2 WHERE id % 512 = 1;
VACUUM full_leaves;
VACUUM full_leaves;
SELECT vacuumed_rows();
UPDATE full_leaves SET id = -id WHERE id % 700 = 9;
BEGIN;
DELETE FROM full_leaves;
ROLLBACK;
VACUUM full_leaves;
SELECT vacuumed_rows();
DELETE FROM full_leaves WHERE id % 2 = 0;
VACUUM full_leaves;
SELECT vacuumed_rows();
SELECT count(*), sum(id), sum(v) FROM full_leaves;
SELECT bt_index_check('full_leaves_pkey', true);

-- empty tables, tables without indexes, without columns, zero rows left
CREATE TABLE e (id int);
VACUUM e;
INSERT INTO e SELECT generate_series(1, 1000);
DELETE FROM e;
VACUUM e;
VACUUM e;
INSERT INTO e SELECT generate_series(1, 1000);
UPDATE e SET id = id + 1;
VACUUM e;
SELECT count(*), sum(id) FROM e;
CREATE TABLE z ();
INSERT INTO z DEFAULT VALUES;
VACUUM z;
SELECT count(*) FROM z;

-- VACUUM FULL
VACUUM FULL t;
SELECT * FROM check_indexes();
SELECT bt_index_check('t_pkey', true), bt_index_check('t_k', true);
DELETE FROM r WHERE id % 2 = 1;
VACUUM (FULL, ANALYZE) r;
SELECT count(*), sum(id) FROM r;
SELECT bt_index_check('r_pkey', true), bt_index_check('r_v', true);
INSERT INTO r SELECT g, 'after full' FROM generate_series(1, 99, 2) g;
SELECT count(*), sum(id) FROM r;
VACUUM FULL e;
SELECT count(*), sum(id) FROM e;
DELETE FROM e;
VACUUM FULL e;
SELECT count(*) FROM e;
VACUUM FULL z;
SELECT count(*) FROM z;
-- with TOAST
CREATE TABLE big (id int PRIMARY KEY, v text);
ALTER TABLE big ALTER v SET STORAGE EXTERNAL;
INSERT INTO big SELECT g, repeat(chr(96 + g % 26), 20000 + g) FROM generate_series(1, 100) g;
DELETE FROM big WHERE id % 2 = 0;
UPDATE big SET v = repeat('U', 30000) WHERE id % 5 = 0;
VACUUM big;
INSERT INTO big SELECT g, repeat(chr(65 + g % 26), 25000 + g) FROM generate_series(2, 100, 2) g;
VACUUM FREEZE big;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat(left(v, 1), length(v))) FROM big;
VACUUM FULL big;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat(left(v, 1), length(v))) FROM big;
DELETE FROM big;
VACUUM big;
SELECT count(*) FROM big;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA vac CASCADE;
