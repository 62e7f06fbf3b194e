SET default_table_access_method = zen;
--
-- scan_sample: TABLESAMPLE with both built-in methods. Which rows a partial sample
-- takes depends on where they are stored, so only its properties are shown.
--
CREATE SCHEMA scan_sample;
SET search_path = scan_sample, public;

CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (50);
SELECT count(*) FROM t TABLESAMPLE SYSTEM (50);
INSERT INTO t SELECT g, repeat('v', 100) FROM generate_series(1, 10000) g;

SELECT count(*), sum(id) FROM t TABLESAMPLE BERNOULLI (100);
SELECT count(*), sum(id) FROM t TABLESAMPLE SYSTEM (100);
SELECT count(*), sum(id) FROM t TABLESAMPLE BERNOULLI (0);
SELECT count(*), sum(id) FROM t TABLESAMPLE SYSTEM (0);
EXPLAIN (COSTS OFF) SELECT count(*) FROM t TABLESAMPLE SYSTEM (100);

-- about the right number of rows, no row twice, all of the table
SELECT count(*) BETWEEN 4500 AND 5500 AS about_half, count(*) = count(DISTINCT id) AS no_twice
  FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1);
SELECT count(*) BETWEEN 50 AND 170 AS about_1_percent FROM t TABLESAMPLE BERNOULLI (1) REPEATABLE (2);
SELECT count(*) BETWEEN 2000 AND 8000 AS about_half, count(*) = count(DISTINCT id) AS no_twice
  FROM t TABLESAMPLE SYSTEM (50) REPEATABLE (3);
-- the same seed takes the same rows
SELECT (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7))
     = (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7)) AS same;
SELECT (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE SYSTEM (10) REPEATABLE (7))
     = (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE SYSTEM (10) REPEATABLE (7)) AS same;
SELECT (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7))
     = (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (8)) AS same;

-- changed rows
UPDATE t SET v = 'u' WHERE id % 3 = 0;
UPDATE t SET id = id + 100000 WHERE id % 5 = 0;
DELETE FROM t WHERE id % 7 = 0;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'u') FROM t;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'u') FROM t TABLESAMPLE BERNOULLI (100);
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'u') FROM t TABLESAMPLE SYSTEM (100);
BEGIN;
DELETE FROM t WHERE id > 500;
INSERT INTO t SELECT g, 'i' FROM generate_series(-10, -1) g;
SELECT count(*), sum(id) FROM t TABLESAMPLE BERNOULLI (100);
SELECT count(*), sum(id) FROM t TABLESAMPLE SYSTEM (100);
ROLLBACK;
SELECT count(*), sum(id) FROM t TABLESAMPLE SYSTEM (100) WHERE id < 1000;

-- with a filter, in a join with rescans, through a cursor
SELECT count(*) FROM (VALUES (1), (2), (3)) v(x), LATERAL (SELECT * FROM t TABLESAMPLE SYSTEM (100) WHERE id = x) s;
SELECT pct, (SELECT count(*) FROM t TABLESAMPLE BERNOULLI (pct)) FROM (VALUES (0), (100), (0), (100)) v(pct);
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t TABLESAMPLE SYSTEM (50) REPEATABLE (0);
MOVE FORWARD ALL c;
CLOSE c;
COMMIT;
SELECT id FROM t TABLESAMPLE BERNOULLI (101);
SELECT id FROM t TABLESAMPLE SYSTEM (-1);

-- a deleted table
DELETE FROM t;
SELECT count(*) FROM t TABLESAMPLE SYSTEM (100);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (100);

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA scan_sample CASCADE;
