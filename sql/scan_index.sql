SET default_table_access_method = zen;
--
-- scan_index: index and index-only scans: both directions, order, recheck, mark and
-- restore, array keys, parallel, after changes of key and of other columns.
--
CREATE SCHEMA scan_index;
SET search_path = scan_index, public;

CREATE TABLE t (id int PRIMARY KEY, k int, d date, s text, v int);
INSERT INTO t SELECT g, g % 50, date '2020-01-01' + g, 's' || lpad((g * 7 % 1000)::text, 4, '0'),
	0 FROM generate_series(1, 1000) g;
CREATE INDEX t_k ON t (k, d DESC);
CREATE INDEX t_s ON t (s);
ANALYZE t;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;

SET zen.executor = 'keyjoin, batch';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 77;
RESET zen.executor;
SELECT * FROM t WHERE id = 77;
SELECT * FROM t WHERE id = 7777;
SELECT id, k FROM t WHERE id BETWEEN 10 AND 14 ORDER BY id;
SELECT id, k FROM t WHERE id BETWEEN 10 AND 14 ORDER BY id DESC;
EXPLAIN (COSTS OFF) SELECT id, v FROM t ORDER BY s DESC LIMIT 3;
SELECT id, s, v FROM t ORDER BY s DESC LIMIT 3;
SELECT id, s, v FROM t ORDER BY s LIMIT 3;
SELECT id, k, d, v FROM t WHERE k = 3 ORDER BY d DESC LIMIT 3;
SELECT id, k, d, v FROM t WHERE k = 3 ORDER BY d LIMIT 3;
SELECT id, v FROM t WHERE id = ANY ('{5,3,900,5,2000}') ORDER BY id;
SELECT count(*) FROM t WHERE id > 990 OR id IS NULL;
SELECT min(s), max(s), min(id), max(id) FROM t;

-- after an update of another column
UPDATE t SET v = v + 1 WHERE k = 3;
SELECT id, v FROM t WHERE k = 3 ORDER BY d LIMIT 3;
SELECT sum(v), count(*) FROM t WHERE k = 3;
-- after an update of the key: found under the new key only
UPDATE t SET k = 103 WHERE k = 3 AND id < 500;
SELECT count(*), sum(id) FROM t WHERE k = 3;
SELECT count(*), sum(id) FROM t WHERE k = 103;
SELECT id, k FROM t WHERE k >= 3 AND k <= 4 AND id < 110 ORDER BY k, d DESC;
-- there and back again: the old index entry and the new one name the same key
UPDATE t SET k = 203 WHERE k = 103;
UPDATE t SET k = 103 WHERE k = 203;
UPDATE t SET k = 103 WHERE k = 103;
SELECT count(*), sum(id) FROM t WHERE k = 103;
SELECT count(*), sum(id) FROM t WHERE k = 203;
UPDATE t SET k = 3 WHERE k = 103;
SELECT count(*), sum(id) FROM t WHERE k = 3;
UPDATE t SET id = id + 1 WHERE id = 1000;
UPDATE t SET id = id - 1 WHERE id = 1001;
UPDATE t SET id = id + 1 WHERE id = 1000;
UPDATE t SET id = id - 1 WHERE id = 1001;
SELECT id, k FROM t WHERE id >= 999 ORDER BY id;
-- deleted, inserted again under the same key, many times
DO $$ BEGIN FOR i IN 1..50 LOOP
  DELETE FROM scan_index.t WHERE id = 500;
  INSERT INTO scan_index.t VALUES (500, i, '2020-02-02', 'again', i);
END LOOP; END $$;
SELECT * FROM t WHERE id = 500;
SELECT count(*) FROM t WHERE s = 'again';
SELECT count(*) FROM t WHERE id BETWEEN 499 AND 501;
-- in a transaction, before and after savepoints
BEGIN;
UPDATE t SET k = 300 WHERE id = 10;
SELECT id FROM t WHERE k = 300 ORDER BY d;
SAVEPOINT a;
UPDATE t SET k = 301 WHERE id = 10;
SELECT k, id FROM t WHERE k >= 300 ORDER BY k;
ROLLBACK TO a;
SELECT k, id FROM t WHERE k >= 300 ORDER BY k;
ROLLBACK;
SELECT k, id FROM t WHERE k >= 300 ORDER BY k;
SELECT k FROM t WHERE id = 10;

-- index-only scans
CREATE TABLE io (a int, b int, c text);
INSERT INTO io SELECT g, g * 2, repeat('c', 100) FROM generate_series(1, 1000) g;
CREATE INDEX io_ab ON io (a) INCLUDE (b);
VACUUM ANALYZE io;
EXPLAIN (COSTS OFF) SELECT a, b FROM io WHERE a < 5 ORDER BY a;
SELECT a, b FROM io WHERE a < 5 ORDER BY a;
SELECT count(*), sum(a), sum(b) FROM io WHERE a > 0;
UPDATE io SET b = -1 WHERE a = 3;
DELETE FROM io WHERE a = 4;
SELECT a, b FROM io WHERE a < 6 ORDER BY a;
UPDATE io SET c = 'x' WHERE a < 100;
SELECT count(*), sum(a), sum(b) FROM io WHERE a > 0;
BEGIN;
DELETE FROM io WHERE a > 900;
SELECT count(*), max(a) FROM io WHERE a > 0;
ROLLBACK;
SELECT count(*), max(a) FROM io WHERE a > 0;
VACUUM io;
SELECT count(*), sum(a), sum(b) FROM io WHERE a > 0;
DELETE FROM io WHERE a % 2 = 0;
SELECT count(*), sum(a), sum(b) FROM io WHERE a > 0;
INSERT INTO io SELECT g, 0, '' FROM generate_series(1001, 1500) g;
SELECT count(*), sum(a), sum(b) FROM io WHERE a > 0;

-- merge join: mark and restore with duplicates on both sides
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
CREATE TABLE m1 (k int, v int);
CREATE TABLE m2 (k int, v int);
INSERT INTO m1 SELECT g / 3, g FROM generate_series(0, 299) g;
INSERT INTO m2 SELECT g / 5, g FROM generate_series(0, 299) g;
CREATE INDEX ON m1 (k);
CREATE INDEX ON m2 (k);
UPDATE m2 SET v = v + 1000 WHERE k % 2 = 0;
UPDATE m1 SET k = k + 1 WHERE k % 10 = 9;
SELECT count(*), sum(m1.v), sum(m2.v) FROM m1 JOIN m2 USING (k);
RESET enable_hashjoin; RESET enable_nestloop; RESET enable_material;

-- ordering operators and lossy operators
CREATE TABLE pt (id int, p point, b box);
INSERT INTO pt SELECT g, point(g % 40, g / 40), box(point(g, g), point(g + 5, g + 5)) FROM generate_series(0, 1599) g;
CREATE INDEX pt_p ON pt USING gist (p);
CREATE INDEX pt_b ON pt USING gist (b);
RESET enable_sort;
SELECT id, p FROM pt ORDER BY p <-> point(20.1, 20.3) LIMIT 4;
UPDATE pt SET p = point(20.1, 20.3) WHERE id = 7;
UPDATE pt SET id = -8 WHERE id = 820;
SELECT id, p FROM pt ORDER BY p <-> point(20.1, 20.3) LIMIT 4;
SELECT count(*), sum(id) FROM pt WHERE p <@ circle(point(10, 10), 5.5);
SELECT count(*), sum(id) FROM pt WHERE b && box(point(100, 100), point(110, 110));
DELETE FROM pt WHERE p <@ circle(point(10, 10), 2);
SELECT count(*), sum(id) FROM pt WHERE p <@ circle(point(10, 10), 5.5);

-- parallel index scan, parallel index-only scan
CREATE TABLE pi (a int, b int);
INSERT INTO pi SELECT g, g % 10 FROM generate_series(1, 20000) g;
CREATE INDEX pi_a ON pi (a);
UPDATE pi SET b = b + 1 WHERE a % 3 = 0;
UPDATE pi SET a = a + 100000 WHERE a % 13 = 0;
DELETE FROM pi WHERE a % 5 = 0;
ANALYZE pi;
SELECT count(*), sum(a), sum(b) FROM pi WHERE a > 100;
SELECT count(*), sum(a) FROM pi WHERE a > 100;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE pi SET (parallel_workers = 2);
SELECT count(*), sum(a), sum(b) FROM pi WHERE a > 100;
SELECT count(*), sum(a) FROM pi WHERE a > 100;
SELECT x, (SELECT count(*) FROM pi WHERE a > x) FROM (VALUES (100), (19990), (200000)) v(x);

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA scan_index CASCADE;
