SET default_table_access_method = zen;
--
-- dml: insert, update, delete, RETURNING and joins of the plain kind, and what a
-- statement sees of its own and of earlier changes.
--
CREATE SCHEMA dml;
SET search_path = dml, public;

-- insert: values, defaults, select, returning
CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT 'dflt', b numeric(10,2), c timestamp);
INSERT INTO t VALUES (1, 'one', 1.5, '2001-01-01'), (2, NULL, NULL, NULL);
INSERT INTO t (id) VALUES (3);
INSERT INTO t (b, id) VALUES (4.25, 4) RETURNING *;
INSERT INTO t DEFAULT VALUES;
INSERT INTO t SELECT g, 'row ' || g, g / 4.0, timestamp '2020-01-01' + g * interval '1 day'
  FROM generate_series(5, 20) g;
SELECT * FROM t ORDER BY id;
SELECT count(*), count(a), count(b), sum(b), min(c), max(c) FROM t;
INSERT INTO t VALUES (1, 'dup');
INSERT INTO t SELECT id + 100, a, b, c FROM t;
SELECT count(*), sum(id) FROM t;

-- update: by key, by expression, from a join, to NULL and back
UPDATE t SET a = 'uno' WHERE id = 1 RETURNING id, a, b;
UPDATE t SET a = NULL, b = NULL, c = NULL WHERE id = 1 RETURNING *;
UPDATE t SET (a, b) = ('einz', 11), c = DEFAULT WHERE id = 1 RETURNING *;
UPDATE t SET (a, b) = (SELECT 'sub', max(b) FROM t) WHERE id = 2 RETURNING *;
UPDATE t SET b = b + 1 WHERE id BETWEEN 5 AND 10;
UPDATE t SET a = s.v FROM (VALUES (11, 'eleven'), (12, 'twelve')) s(k, v) WHERE t.id = s.k;
SELECT * FROM t WHERE id BETWEEN 1 AND 12 ORDER BY id;
UPDATE t SET id = 5 WHERE id = 6;
UPDATE t SET id = -id WHERE id > 100;
SELECT count(*) FILTER (WHERE id < 0), count(*) FILTER (WHERE id > 0), sum(id) FROM t;
UPDATE t SET b = 1 WHERE false;
UPDATE t SET id = NULL WHERE id = 1;

-- rows that grow and shrink in place of each other
UPDATE t SET a = repeat('x', 10 * id) WHERE id BETWEEN 5 AND 20;
SELECT id, length(a) FROM t WHERE id BETWEEN 5 AND 20 ORDER BY id;
UPDATE t SET a = repeat('y', 1000 + id) WHERE id BETWEEN 5 AND 20;
SELECT id, length(a), a = repeat('y', 1000 + id) AS same FROM t WHERE id BETWEEN 5 AND 20 ORDER BY id;
UPDATE t SET a = '' WHERE id BETWEEN 5 AND 20;
SELECT DISTINCT a = '' FROM t WHERE id BETWEEN 5 AND 20;

-- delete: by key, with join, returning, all
DELETE FROM t WHERE id = 2 RETURNING id, a;
DELETE FROM t WHERE id = 2 RETURNING id, a;
WITH d AS (DELETE FROM t USING generate_series(3, 8) g WHERE t.id = g RETURNING t.id, g)
SELECT * FROM d ORDER BY id;
SELECT id FROM t WHERE id BETWEEN 0 AND 12 ORDER BY id;
INSERT INTO t (id, a) VALUES (2, 'again'), (3, 'again');
SELECT id, a FROM t WHERE id BETWEEN 0 AND 9 ORDER BY id;
WITH d AS (DELETE FROM t RETURNING *) SELECT count(*), sum(id) FROM d;
SELECT count(*) FROM t;
INSERT INTO t (id, a) VALUES (1, 'first again');
TABLE t;

-- a statement does not see its own changes, the next one does
DELETE FROM t;
INSERT INTO t (id) VALUES (1);
INSERT INTO t (id) SELECT id + 1 FROM t;
INSERT INTO t (id) SELECT id + 2 FROM t;
INSERT INTO t (id) SELECT id + 4 FROM t;
SELECT count(*), max(id) FROM t;
UPDATE t SET b = (SELECT count(*) FROM t t2 WHERE t2.b IS NULL);
SELECT DISTINCT b FROM t;
UPDATE t SET id = id + 1000;            -- keys move past each other, no endless loop
SELECT min(id), max(id), count(*) FROM t;
UPDATE t SET id = id - 999 WHERE id < 1004;
SELECT id FROM t ORDER BY id;

-- data-modifying CTEs share one snapshot
BEGIN;
WITH i AS (INSERT INTO t (id) VALUES (50), (51) RETURNING id),
     u AS (UPDATE t SET a = 'cte' WHERE id = 2 RETURNING id),
     d AS (DELETE FROM t WHERE id = 3 RETURNING id)
SELECT (SELECT count(*) FROM t) AS before,
       (SELECT count(*) FROM i) AS i, (SELECT count(*) FROM u) AS u, (SELECT count(*) FROM d) AS d,
       (SELECT count(*) FROM t WHERE a = 'cte') AS unseen;
SELECT count(*) AS after, count(*) FILTER (WHERE a = 'cte') AS seen FROM t;
-- rows inserted by the CTE are invisible to the update beside it
WITH i AS (INSERT INTO t (id) VALUES (60) RETURNING id)
UPDATE t SET a = 'touched' WHERE id >= 50;
SELECT id, a FROM t WHERE id >= 50 AND id < 100 ORDER BY id;
ROLLBACK;
SELECT count(*), count(a) FROM t;
-- move rows between tables
CREATE TABLE t_old (LIKE t);
WITH m AS (DELETE FROM t WHERE id > 1003 RETURNING *) INSERT INTO t_old SELECT * FROM m;
SELECT (SELECT array_agg(id ORDER BY id) FROM t) AS t, (SELECT array_agg(id ORDER BY id) FROM t_old) AS t_old;

-- volatile functions see the changes of the statement so far, stable ones do not
CREATE TABLE vis (id int, v int);
CREATE FUNCTION cnt_volatile() RETURNS bigint LANGUAGE plpgsql VOLATILE AS
  'BEGIN RETURN (SELECT count(*) FROM dml.vis); END';
CREATE FUNCTION cnt_stable() RETURNS bigint LANGUAGE plpgsql STABLE AS
  'BEGIN RETURN (SELECT count(*) FROM dml.vis); END';
INSERT INTO vis SELECT g, cnt_volatile() FROM generate_series(1, 5) g;
SELECT * FROM vis ORDER BY id;
INSERT INTO vis SELECT g, cnt_stable() FROM generate_series(6, 9) g;
SELECT * FROM vis ORDER BY id;
CREATE FUNCTION sum_volatile() RETURNS bigint LANGUAGE plpgsql VOLATILE AS
  'BEGIN RETURN (SELECT sum(v) FROM dml.vis); END';
TRUNCATE vis;
INSERT INTO vis SELECT g, 0 FROM generate_series(1, 4) g;
UPDATE vis SET v = 1 + sum_volatile();
SELECT array_agg(v ORDER BY v) FROM vis;

-- RETURNING: expressions, whole rows, subqueries, oids of tables
INSERT INTO t (id, a) VALUES (70, 'ret') RETURNING t, id * 2 AS twice, tableoid::regclass, upper(a);
UPDATE t SET a = a || '!' WHERE id = 70 RETURNING (SELECT count(*) > 0 FROM t) AS any, t.a, t IS NULL AS isnull;
UPDATE t SET a = o.a || '?', b = 7 FROM t o WHERE o.id = t.id AND t.id = 70 RETURNING o.a AS old, t.a AS new,
	o.b AS oldb, t.b AS newb;
DELETE FROM t WHERE id = 70 RETURNING t.*, 'gone' AS state;

-- errors in mid-statement leave nothing behind
CREATE TABLE chk (id int PRIMARY KEY, v int CHECK (v < 10), w text NOT NULL DEFAULT 'w');
INSERT INTO chk SELECT g, g FROM generate_series(1, 9) g;
INSERT INTO chk SELECT g + 100, g FROM generate_series(1, 12) g;
UPDATE chk SET v = v + 1;
UPDATE chk SET w = CASE WHEN id = 9 THEN NULL ELSE 'x' END;
UPDATE chk SET v = 9 / (5 - id);
DELETE FROM chk WHERE 1 / (id - 9) < 5;
SELECT count(*), sum(v), count(*) FILTER (WHERE w = 'w') AS w FROM chk;

-- prepared statements and plan reuse
PREPARE ins (int, int) AS INSERT INTO chk VALUES ($1, $2) RETURNING *;
PREPARE upd (int) AS UPDATE chk SET v = v - 1 WHERE id = $1 RETURNING *;
PREPARE sel AS SELECT count(*), sum(v) FROM chk;
DO $$ BEGIN FOR i IN 1..8 LOOP EXECUTE format('EXECUTE ins(%s, 5)', 200 + i); END LOOP; END $$;
EXECUTE upd(201);
EXECUTE upd(201);
EXECUTE upd(999);
EXECUTE sel;
ALTER TABLE chk ADD COLUMN x int DEFAULT 3;
EXECUTE upd(202);
EXECUTE sel;
DEALLOCATE ALL;

-- joins of every method give the same answer
CREATE TABLE j1 (k int, v text);
CREATE TABLE j2 (k int, v text);
INSERT INTO j1 SELECT g % 37, 'a' || g FROM generate_series(1, 500) g;
INSERT INTO j2 SELECT g % 41, 'b' || g FROM generate_series(1, 500) g;
UPDATE j1 SET v = v || 'u' WHERE k % 3 = 0;
DELETE FROM j2 WHERE k % 5 = 0;
CREATE INDEX ON j2 (k);
SET enable_mergejoin = off; SET enable_nestloop = off;
SELECT count(*), sum(length(j1.v) * length(j2.v)) FROM j1 JOIN j2 USING (k);
SET enable_mergejoin = on; SET enable_hashjoin = off;
SELECT count(*), sum(length(j1.v) * length(j2.v)) FROM j1 JOIN j2 USING (k);
SET enable_mergejoin = off; SET enable_nestloop = on;
SELECT count(*), sum(length(j1.v) * length(j2.v)) FROM j1 JOIN j2 USING (k);
RESET enable_mergejoin; RESET enable_hashjoin; RESET enable_nestloop;
SELECT count(*) FROM j1 FULL JOIN j2 USING (k);
SELECT count(*) FROM j1 WHERE NOT EXISTS (SELECT 1 FROM j2 WHERE j2.k = j1.k);

-- recursive query, window functions, set operations, grouping over a zen table
CREATE TABLE tree (id int PRIMARY KEY, parent int, name text);
INSERT INTO tree SELECT g, g / 2, 'n' || g FROM generate_series(1, 31) g;
WITH RECURSIVE r AS (
  SELECT id, parent, 0 AS depth FROM tree WHERE id = 1
  UNION ALL SELECT c.id, c.parent, r.depth + 1 FROM tree c JOIN r ON c.parent = r.id)
SELECT depth, count(*), sum(id) FROM r GROUP BY depth ORDER BY depth;
SELECT id, sum(id) OVER (PARTITION BY parent ORDER BY id), lag(name) OVER (ORDER BY id) FROM tree WHERE id < 8
	ORDER BY id;
SELECT parent % 3, count(*), grouping(parent % 3) FROM tree GROUP BY ROLLUP (parent % 3) ORDER BY 3, 1;
(SELECT id FROM tree WHERE id < 4 UNION SELECT parent FROM tree WHERE id < 4) EXCEPT SELECT 2 ORDER BY 1;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA dml CASCADE;
