SET default_table_access_method = zen;
--
-- row_locks: the four strengths within one session: what they return, their mixture with
-- updates, deletes, savepoints, joins, limits; NOWAIT and SKIP LOCKED where nobody else is.
--
CREATE SCHEMA row_locks;
SET search_path = row_locks, public;

CREATE TABLE t (id int PRIMARY KEY, k int UNIQUE, v text);
INSERT INTO t SELECT g, g, 'v' || g FROM generate_series(1, 10) g;

SELECT * FROM t WHERE id = 1 FOR KEY SHARE;
SELECT * FROM t WHERE id = 1 FOR SHARE;
SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE;
SELECT * FROM t WHERE id = 1 FOR UPDATE;
SELECT * FROM t WHERE id = 99 FOR UPDATE;
SELECT * FROM t WHERE id < 3 ORDER BY id FOR UPDATE NOWAIT;
SELECT * FROM t WHERE id < 3 ORDER BY id FOR SHARE SKIP LOCKED;

-- all in one transaction, up and down, several times
BEGIN;
SELECT id FROM t WHERE id = 2 FOR KEY SHARE;
SELECT id FROM t WHERE id = 2 FOR UPDATE;
SELECT id FROM t WHERE id = 2 FOR SHARE;
SELECT id FROM t WHERE id = 2 FOR NO KEY UPDATE;
SELECT id FROM t WHERE id = 2 FOR KEY SHARE NOWAIT;
UPDATE t SET v = v || 'a' WHERE id = 2;
SELECT * FROM t WHERE id = 2 FOR UPDATE;
UPDATE t SET k = 12 WHERE id = 2;
SELECT * FROM t WHERE id = 2 FOR SHARE;
SELECT * FROM t WHERE k = 12 FOR KEY SHARE SKIP LOCKED;
DELETE FROM t WHERE id = 2;
SELECT * FROM t WHERE id = 2 FOR UPDATE;
ROLLBACK;
SELECT * FROM t WHERE id = 2 FOR UPDATE;
-- a lock alone changes nothing
BEGIN;
SELECT count(*) FROM (SELECT 1 FROM t FOR UPDATE) x;
COMMIT;
SELECT count(*), string_agg(v, ',' ORDER BY id) FROM t;
-- with savepoints
BEGIN;
SAVEPOINT a;
SELECT id FROM t WHERE id = 3 FOR UPDATE;
ROLLBACK TO a;
SELECT id FROM t WHERE id = 3 FOR KEY SHARE;
SAVEPOINT b;
UPDATE t SET v = 'b' WHERE id = 3;
SELECT v FROM t WHERE id = 3 FOR SHARE;
ROLLBACK TO b;
SELECT v FROM t WHERE id = 3 FOR NO KEY UPDATE;
SAVEPOINT c;
SELECT v FROM t WHERE id = 3 FOR UPDATE;
RELEASE c;
UPDATE t SET v = 'c' WHERE id = 3;
COMMIT;
SELECT v FROM t WHERE id = 3;
BEGIN;
SELECT id FROM t WHERE id = 4 FOR SHARE;
SAVEPOINT a;
DELETE FROM t WHERE id = 4;
ROLLBACK TO a;
SELECT id FROM t WHERE id = 4 FOR UPDATE;
DELETE FROM t WHERE id = 4 RETURNING id;
COMMIT;
SELECT count(*) FROM t WHERE id = 4;

-- joins: one table, all tables, views, subqueries, outer joins
CREATE TABLE u (id int PRIMARY KEY, tid int, w text);
INSERT INTO u SELECT g, g % 5 + 1, 'w' || g FROM generate_series(1, 10) g;
SELECT t.id, u.id FROM t JOIN u ON u.tid = t.id WHERE t.id = 1 ORDER BY 2 FOR UPDATE;
SELECT t.id, u.id FROM t JOIN u ON u.tid = t.id WHERE t.id = 1 ORDER BY 2 FOR UPDATE OF t FOR SHARE OF u;
SELECT t.id, u.id FROM t LEFT JOIN u ON u.tid = t.id WHERE t.id > 8 ORDER BY 1 FOR UPDATE OF t;
SELECT t.id, u.id FROM t LEFT JOIN u ON u.tid = t.id WHERE t.id > 8 ORDER BY 1 FOR UPDATE OF u;
CREATE VIEW vw AS SELECT t.id, t.v FROM t WHERE id < 6;
SELECT * FROM vw WHERE id = 5 FOR UPDATE;
SELECT * FROM (SELECT id FROM t WHERE id > 7 FOR SHARE) s ORDER BY id;
WITH s AS (SELECT id FROM t WHERE id > 7 FOR UPDATE) SELECT * FROM s ORDER BY id;
SELECT id, (SELECT w FROM u WHERE u.id = t.id FOR UPDATE) FROM t WHERE id = 6 FOR UPDATE;
SELECT count(*) FROM t FOR UPDATE;
SELECT DISTINCT v FROM t FOR UPDATE;
SELECT id FROM t UNION SELECT id FROM u FOR UPDATE;
-- with LIMIT, ORDER BY an index, a cursor
SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE;
SELECT id FROM t ORDER BY id OFFSET 5 LIMIT 2 FOR UPDATE SKIP LOCKED;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id FOR UPDATE;
FETCH 2 FROM c;
MOVE 2 FROM c;
FETCH 1 FROM c;
COMMIT;
-- a work queue
DO $$
DECLARE j int; n int := 0;
BEGIN
  LOOP
    DELETE FROM row_locks.u WHERE id = (SELECT id FROM row_locks.u ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
      RETURNING id INTO j;
    EXIT WHEN NOT FOUND;
    n := n + 1;
  END LOOP;
  RAISE NOTICE '% jobs', n;
END $$;
SELECT count(*) FROM u;
-- locked, then updated by the same statement's data-modifying CTE
WITH s AS (SELECT id FROM t WHERE id = 5 FOR UPDATE), x AS (UPDATE t SET v = 'cte' WHERE id IN (SELECT id FROM s)
	RETURNING *)
SELECT id, v FROM x;
-- system catalogs and heap in one statement with a zen table
CREATE TABLE h (id int) USING heap;
INSERT INTO h VALUES (5);
SELECT t.id, h.id FROM t JOIN h USING (id) FOR UPDATE;
-- many locks in one transaction
INSERT INTO t SELECT g, g, 'm' FROM generate_series(101, 5000) g;
BEGIN;
SELECT count(*) FROM (SELECT 1 FROM t WHERE id > 100 FOR KEY SHARE) x;
SELECT count(*) FROM (SELECT 1 FROM t WHERE id > 100 FOR UPDATE) x;
UPDATE t SET v = 'n' WHERE id > 100;
SELECT count(*) FROM (SELECT 1 FROM t WHERE id > 100 AND v = 'n' FOR SHARE) x;
ROLLBACK;
SELECT count(*) FROM t WHERE v = 'm';
-- read only transactions may not lock
BEGIN READ ONLY;
SELECT id FROM t WHERE id = 1 FOR SHARE;
ROLLBACK;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA row_locks CASCADE;
