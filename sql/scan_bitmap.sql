SET default_table_access_method = zen;
--
-- scan_bitmap: bitmap heap scans: exact and lossy, And, Or, rescans, recheck, parallel.
--
CREATE SCHEMA scan_bitmap;
SET search_path = scan_bitmap, public;

CREATE TABLE t (id int, a int, b int, c text);
INSERT INTO t SELECT g, g % 100, g % 37, 'c' || g % 10 FROM generate_series(1, 20000) g;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (b);
CREATE INDEX t_c ON t USING hash (c);
ANALYZE t;
SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;

EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM t WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a BETWEEN 5 AND 30;
SELECT count(*), sum(id) FROM t WHERE a = 500;
SELECT count(*), sum(id) FROM t WHERE c = 'c3';
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM t WHERE a = 5 OR b = 3;
SELECT count(*), sum(id) FROM t WHERE a = 5 OR b = 3;
SELECT count(*), sum(id) FROM t WHERE a = 5 OR b = 3 OR c = 'c7' OR a = 5;
SELECT count(*), sum(id) FROM t WHERE a = 5 AND b = 3;
SELECT count(*), sum(id) FROM t WHERE a = 5 AND b = 3 AND c = 'c5';
SELECT count(*), sum(id) FROM t WHERE a < 50 AND b = 3;
SELECT count(*), sum(id) FROM t WHERE a < 50 AND (b = 3 OR b = 5);
SELECT count(*), sum(id) FROM t WHERE a IN (1, 7, 9, 1);
SELECT count(*), sum(id) FROM t WHERE (a, b) IN ((1, 1), (7, 7), (50, 13));

-- lossy pages
SET work_mem = '64kB';
SELECT count(*), sum(id) FROM t WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a BETWEEN 5 AND 30;
SELECT count(*), sum(id) FROM t WHERE a >= 0;
SELECT count(*), sum(id) FROM t WHERE a = 5 OR b = 3;
SELECT count(*), sum(id) FROM t WHERE a < 50 AND b < 20;
SELECT count(*), sum(id) FROM t WHERE c = 'c3' AND a >= 0;
RESET work_mem;

-- a table large enough to be lossy in any case
CREATE TABLE big (id int, a int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT g, g % 1000 FROM generate_series(1, 150000) g;
CREATE INDEX big_a ON big (a);
SET work_mem = '64kB';
SELECT count(*), sum(id) FROM big WHERE a < 900;
SELECT count(*), sum(id) FROM big WHERE a < 900 AND a > 100;
UPDATE big SET id = -id WHERE a % 10 = 0 AND id % 3 = 0;
DELETE FROM big WHERE a % 10 = 1;
SELECT count(*), sum(id), count(*) FILTER (WHERE id < 0) FROM big WHERE a < 900;
RESET work_mem;
SELECT count(*), sum(id), count(*) FILTER (WHERE id < 0) FROM big WHERE a < 900;

-- after changes: each row once, whether its key changed or not
UPDATE t SET c = 'new' WHERE a = 5;
UPDATE t SET a = 105 WHERE a = 6;
UPDATE t SET a = 106 WHERE a = 105;
DELETE FROM t WHERE a = 7 AND b < 20;
SELECT count(*), sum(id) FROM t WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a = 6;
SELECT count(*), sum(id) FROM t WHERE a = 7;
SELECT count(*), sum(id) FROM t WHERE a > 99;
SELECT count(*), count(DISTINCT id), sum(id) FROM t WHERE a >= 0;
SELECT count(*) FROM t WHERE c = 'new';
-- own changes inside a transaction
BEGIN;
INSERT INTO t SELECT g, 5, 5, 'tx' FROM generate_series(30001, 30010) g;
SELECT count(*), sum(id) FROM t WHERE a = 5;
UPDATE t SET a = 6 WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a = 6;
ROLLBACK;
SELECT count(*), sum(id) FROM t WHERE a = 5;
SELECT count(*), sum(id) FROM t WHERE a = 6;

-- rescans as the inner side of a nested loop
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT x, count(t.id), sum(t.id) FROM generate_series(1, 10) x LEFT JOIN t ON t.a = x AND t.b < 10 GROUP BY x
	ORDER BY x;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;

-- update and delete through a bitmap scan
WITH u AS (UPDATE t SET b = b + 100 WHERE a = 8 AND b < 10 RETURNING id) SELECT count(*), sum(id) FROM u;
WITH d AS (DELETE FROM t WHERE b > 99 RETURNING id) SELECT count(*), sum(id) FROM d;
SELECT count(*) FROM t WHERE b > 99;
SELECT count(*) FROM (SELECT 1 FROM t WHERE a = 9 FOR UPDATE) x;

-- prefetching has nothing to prefetch
SET effective_io_concurrency = 100;
SELECT count(*), sum(id) FROM t WHERE a BETWEEN 5 AND 30;
SET work_mem = '64kB';
SELECT count(*), sum(id) FROM big WHERE a < 900;
RESET work_mem; RESET effective_io_concurrency;

-- parallel
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE big SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM big WHERE a < 900;
SELECT count(*), sum(id) FROM big WHERE a < 900;
SET work_mem = '64kB';
SELECT count(*), sum(id) FROM big WHERE a < 900;
SET effective_io_concurrency = 100;
SELECT count(*), sum(id) FROM big WHERE a < 900;
RESET work_mem; RESET effective_io_concurrency;

-- a bitmap over an empty and an emptied table
CREATE TABLE e (a int);
CREATE INDEX ON e (a);
SELECT count(*) FROM e WHERE a > 0;
INSERT INTO e SELECT generate_series(1, 100);
DELETE FROM e;
SELECT count(*) FROM e WHERE a > 0;
VACUUM e;
SELECT count(*) FROM e WHERE a > 0;
INSERT INTO e SELECT generate_series(1, 100);
SELECT count(*) FROM e WHERE a > 0;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA scan_bitmap CASCADE;
