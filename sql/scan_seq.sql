SET default_table_access_method = zen;
--
-- scan_seq: sequential scans, alone and parallel, of fresh, changed and emptied tables.
--
CREATE SCHEMA scan_seq;
SET search_path = scan_seq, public;

-- rows of one session come back in the order of insertion
CREATE TABLE s (id int, v text);
SELECT * FROM s;
INSERT INTO s SELECT g, 'v' || g FROM generate_series(1, 1000) g;
SELECT count(*) FROM (SELECT id, row_number() OVER () AS n FROM s) x WHERE id <> n;
SELECT id FROM s LIMIT 5;
SELECT id FROM s OFFSET 995;
SELECT id FROM s WHERE id % 250 = 1;
-- across block borders, with rows of very different length
INSERT INTO s SELECT g, repeat('w', g % 7 * 300) FROM generate_series(1001, 3000) g;
SELECT count(*) FROM (SELECT id, row_number() OVER () AS n FROM s) x WHERE id <> n;
SELECT sum(id), sum(length(v)) FROM s;

-- rescans
SELECT x, (SELECT count(*) FROM s WHERE id <= x) FROM (VALUES (0), (10), (2999), (5000)) v(x);
SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*) FROM (SELECT * FROM s WHERE id < 40) a JOIN (SELECT * FROM s WHERE id < 60) b ON a.id < b.id;
RESET enable_material; RESET enable_hashjoin; RESET enable_mergejoin;

-- two scans of one table side by side, and one that stops early
SELECT count(*) FROM s a, (SELECT * FROM s LIMIT 3) b WHERE a.id = b.id;
SELECT EXISTS (SELECT 1 FROM s WHERE id = 3), EXISTS (SELECT 1 FROM s WHERE id = -3);

-- after updates and deletes every row is there once
UPDATE s SET v = 'u' || id WHERE id % 3 = 0;
UPDATE s SET id = id + 10000 WHERE id % 5 = 0;
DELETE FROM s WHERE id % 7 = 0;
SELECT count(*), count(DISTINCT id), sum(id), count(*) FILTER (WHERE v LIKE 'u%') FROM s;
DELETE FROM s WHERE id < 10000;
SELECT count(*), count(DISTINCT id), sum(id) FROM s;
DELETE FROM s;
SELECT count(*) FROM s;
SELECT * FROM s;
INSERT INTO s VALUES (1, 'x');
SELECT * FROM s;

-- scan in a transaction that has changed some of it
TRUNCATE s;
INSERT INTO s SELECT g, 'v' || g FROM generate_series(1, 300) g;
BEGIN;
DELETE FROM s WHERE id % 2 = 0;
SELECT count(*), sum(id) FROM s;
INSERT INTO s SELECT g, 'n' FROM generate_series(301, 310) g;
SELECT count(*), sum(id) FROM s;
UPDATE s SET v = 'new' WHERE id > 290;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'new') FROM s;
ROLLBACK;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'new') FROM s;

-- parallel
CREATE TABLE p (id int, grp int, v text);
INSERT INTO p SELECT g, g % 13, repeat(chr(65 + g % 26), g % 50) FROM generate_series(1, 20000) g;
UPDATE p SET v = v || '!' WHERE id % 11 = 0;
DELETE FROM p WHERE id % 17 = 0;
ANALYZE p;
SELECT count(*), sum(id), sum(length(v)), min(v), max(id) FROM p;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2; SET zen.executor = point, keyjoin;
ALTER TABLE p SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT count(*), sum(id), sum(length(v)), min(v), max(id) FROM p;
SELECT count(*), sum(id), sum(length(v)), min(v), max(id) FROM p;
SELECT grp, count(*), sum(id) FROM p GROUP BY grp ORDER BY grp;
-- every row goes to exactly one participant
SELECT count(*) FROM (SELECT id FROM p GROUP BY id HAVING count(*) > 1) x;
SET parallel_leader_participation = off;
SELECT count(*), sum(id), sum(length(v)) FROM p;
RESET parallel_leader_participation;
-- parallel hash join, and rescans of a parallel scan
SET enable_mergejoin = off; SET enable_nestloop = off;
SELECT count(*), sum(a.id) FROM p a JOIN p b ON a.id = b.id + 1;
RESET enable_mergejoin; RESET enable_nestloop;
SELECT x, (SELECT count(*) FROM p WHERE grp = x) FROM generate_series(0, 3) x;
-- parallel scan of an empty table, of one row, and of a table with dead rows only
CREATE TABLE pe (id int) WITH (parallel_workers = 2);
SELECT count(*), sum(id) FROM pe;
INSERT INTO pe VALUES (7);
SELECT count(*), sum(id) FROM pe;
INSERT INTO pe SELECT generate_series(1, 500);
DELETE FROM pe;
SELECT count(*), sum(id) FROM pe;
-- workers see the uncommitted changes of their leader, and of its subtransactions
BEGIN;
INSERT INTO pe SELECT generate_series(1, 1000);
SELECT count(*), sum(id) FROM pe;
SAVEPOINT a;
UPDATE pe SET id = id + 1;
DELETE FROM pe WHERE id > 900;
SELECT count(*), sum(id) FROM pe;
ROLLBACK TO a;
SELECT count(*), sum(id) FROM pe;
SAVEPOINT b;
DELETE FROM pe WHERE id <= 500;
RELEASE b;
SELECT count(*), sum(id) FROM pe;
ROLLBACK;
SELECT count(*), sum(id) FROM pe;
-- parallel create table as
CREATE TABLE pc AS SELECT grp, count(*) AS n, sum(id) AS s FROM p GROUP BY grp;
SELECT sum(n), sum(s) FROM pc;
-- parallel append over several tables
CREATE TABLE p2 (LIKE p) WITH (parallel_workers = 2);
INSERT INTO p2 SELECT * FROM p;
SELECT count(*), sum(id) FROM (SELECT * FROM p UNION ALL SELECT * FROM p2) x;

-- rows of all sizes in a block: the buffer with its rows grows while it is filled, and then serves smaller ones
SET max_parallel_workers_per_gather = 0;
CREATE TABLE sizes (id int, v text);
ALTER TABLE sizes ALTER v SET STORAGE PLAIN;
INSERT INTO sizes SELECT g, repeat(chr(97 + g % 26), CASE WHEN g % 64 < 40 THEN g % 64 * 50 ELSE g % 64 * 900 END)
	FROM generate_series(1, 200) g;
CREATE FUNCTION wrong_sizes() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM sizes
	WHERE v <> repeat(chr(97 + id % 26), CASE WHEN id % 64 < 40 THEN id % 64 * 50 ELSE id % 64 * 900 END)$$;
SELECT count(*), sum(length(v)), wrong_sizes() FROM sizes;
DELETE FROM sizes WHERE id % 64 > 50 OR id % 3 = 0;
SELECT count(*), sum(length(v)), wrong_sizes() FROM sizes;
-- two scans at once, both ways, that stand in one block; the rows change meanwhile
BEGIN;
DECLARE a SCROLL CURSOR FOR SELECT id, length(v) FROM sizes;
DECLARE b SCROLL CURSOR FOR SELECT id, length(v) FROM sizes;
FETCH 3 FROM a;
FETCH 5 FROM b;
UPDATE sizes SET v = 'changed' WHERE id < 10;
DELETE FROM sizes WHERE id BETWEEN 10 AND 20;
FETCH 3 FROM a;
FETCH BACKWARD 3 FROM b;
FETCH BACKWARD 10 FROM a;
FETCH FORWARD 4 FROM a;
FETCH LAST FROM b;
FETCH BACKWARD 2 FROM b;
FETCH FORWARD 4 FROM b;
FETCH BACKWARD 2 FROM b;
ROLLBACK;
-- a row is kept by its user while the scan goes on, and after it has ended
DO $$
DECLARE
	r sizes;
	kept sizes[];
	c CURSOR FOR SELECT * FROM sizes;
BEGIN
	OPEN c;
	FOR i IN 1 .. 30 LOOP
		FETCH c INTO r;
		kept := kept || r;
		UPDATE sizes SET v = v WHERE CURRENT OF c;
	END LOOP;
	CLOSE c;
	RAISE NOTICE '% kept, % of them as they were', array_length(kept, 1),
		(SELECT count(*) FROM unnest(kept) k JOIN sizes s ON s.id = k.id AND s.v = k.v);
END$$;
SELECT count(*), sum(length(v)), wrong_sizes() FROM sizes;
RESET max_parallel_workers_per_gather; RESET zen.executor;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA scan_seq CASCADE;
