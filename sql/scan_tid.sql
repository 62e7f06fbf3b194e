SET default_table_access_method = zen;
--
-- scan_tid: TID and TID range scans. TIDs are taken from the rows and never printed.
--
CREATE SCHEMA scan_tid;
SET search_path = scan_tid, public;

CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 500) g;

-- TIDs name rows one to one
SELECT count(DISTINCT ctid), count(*) FROM t;
SELECT id, v FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 42);
EXPLAIN (COSTS OFF) SELECT id, v FROM t WHERE ctid = '(0,1)';
SELECT id, v FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id IN (3, 77, 400))) ORDER BY id;
-- duplicates in the list give the row once
SELECT id FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id IN (3, 77) UNION ALL SELECT ctid FROM t
	WHERE id = 3)) ORDER BY id;
SELECT id FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 1) OR ctid = (SELECT ctid FROM t WHERE id = 500)
	ORDER BY id;
-- join on ctid
SELECT count(*) FROM t a JOIN t b ON a.ctid = b.ctid WHERE a.id = b.id;
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT a.id, b.v FROM t a JOIN t b ON a.ctid = b.ctid WHERE a.id IN (5, 6) ORDER BY 1;
RESET enable_hashjoin; RESET enable_mergejoin;
-- TIDs of no row
SELECT count(*) FROM t WHERE ctid = '(4000000000,1)';
SELECT count(*) FROM t WHERE ctid = '(0,0)';
SELECT count(*) FROM t WHERE ctid = '(0,65535)';
SELECT count(*) FROM t WHERE ctid = '(100000,7)';
SELECT count(*) FROM t WHERE ctid IS NULL;
SELECT count(*) FROM t WHERE ctid = ANY (ARRAY[]::tid[]);

-- the TID that a row shows after updates finds that row
UPDATE t SET v = v || 'a' WHERE id = 42;
SELECT id, v FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 42);
UPDATE t SET v = v || 'b' WHERE id = 42;
UPDATE t SET id = 1042 WHERE id = 42;
UPDATE t SET v = v || 'c' WHERE id = 1042;
SELECT id, v FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 1042);
SELECT count(DISTINCT ctid), count(*) FROM t;

-- update, delete and lock by TID
UPDATE t SET v = 'by tid' WHERE ctid = (SELECT ctid FROM t WHERE id = 50) RETURNING id, v;
UPDATE t SET v = v || '!' WHERE ctid = (SELECT ctid FROM t WHERE id = 50) RETURNING id, v;
UPDATE t SET v = 'first ten' WHERE ctid = ANY (ARRAY(SELECT ctid FROM t ORDER BY id LIMIT 10));
SELECT count(*), min(id), max(id) FROM t WHERE v = 'first ten';
DELETE FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 51) RETURNING id;
WITH d AS (DELETE FROM t WHERE ctid IN (SELECT ctid FROM t WHERE id > 490 AND id < 501 FOR UPDATE) RETURNING id)
SELECT count(*), sum(id) FROM d;
SELECT id FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 60) FOR UPDATE;
-- delete duplicates by comparing TIDs
CREATE TABLE dup (k int);
INSERT INTO dup SELECT g % 10 FROM generate_series(1, 100) g;
WITH d AS (DELETE FROM dup a USING dup b WHERE a.k = b.k AND a.ctid < b.ctid RETURNING a.k) SELECT count(*) FROM d;
SELECT k FROM dup ORDER BY k;

-- the TID of a deleted row finds nothing, that of a row just inserted finds it
CREATE TABLE saved (what text, tid tid);
INSERT INTO saved SELECT 'deleted', ctid FROM t WHERE id = 70;
DELETE FROM t WHERE id = 70;
SELECT count(*) FROM t WHERE ctid = (SELECT tid FROM saved WHERE what = 'deleted');
BEGIN;
INSERT INTO t VALUES (2000, 'lost');
SELECT id FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 2000);
ROLLBACK;
-- TIDs of the own transaction's row versions
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE t SET v = 'changed' WHERE id = 71;
SELECT count(*) FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 71);
DECLARE c CURSOR FOR SELECT id, ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id = 71)) AS same FROM t WHERE id = 71;
FETCH c;
COMMIT;

-- TID range
TRUNCATE t;
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 500) g;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE ctid >= '(0,0)' AND ctid < '(1000000,0)';
SELECT count(*) FROM t WHERE ctid >= '(0,0)';
SELECT count(*) FROM t WHERE ctid >= '(0,0)' AND ctid < '(1000000,0)';
SELECT count(*) FROM t WHERE ctid > '(1000000,0)';
SELECT count(*) FROM t WHERE ctid < '(0,1)';
SELECT count(*) FROM t WHERE ctid >= (SELECT ctid FROM t WHERE id = 10) AND ctid < (SELECT ctid FROM t WHERE id = 20);
SELECT id FROM t WHERE ctid > (SELECT ctid FROM t WHERE id = 495);
SELECT id FROM t WHERE ctid <= (SELECT ctid FROM t WHERE id = 4);
SELECT id FROM t WHERE ctid > (SELECT ctid FROM t WHERE id = 20) AND ctid < (SELECT ctid FROM t WHERE id = 20);
SELECT id FROM t WHERE ctid >= (SELECT ctid FROM t WHERE id = 130) AND ctid <= (SELECT ctid FROM t WHERE id = 130);
SELECT count(*), min(id), max(id) FROM t WHERE ctid BETWEEN (SELECT ctid FROM t WHERE id = 63)
	AND (SELECT ctid FROM t WHERE id = 321);
-- backward through a cursor
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE ctid < (SELECT ctid FROM t WHERE id = 6);
FETCH ALL c;
FETCH BACKWARD ALL c;
FETCH LAST c;
FETCH PRIOR c;
COMMIT;
-- rescans with other limits
SELECT a.id, (SELECT count(*) FROM t b WHERE b.ctid <= a.ctid) FROM t a WHERE a.id IN (1, 100, 500) ORDER BY 1;
-- with updated and deleted rows: the two halves are the whole
UPDATE t SET v = v || 'x' WHERE id % 3 = 0;
UPDATE t SET id = id + 1000 WHERE id % 10 = 0;
DELETE FROM t WHERE id % 7 = 0;
SELECT (SELECT count(*) FROM t WHERE ctid < (SELECT ctid FROM t WHERE id = 243))
     + (SELECT count(*) FROM t WHERE ctid >= (SELECT ctid FROM t WHERE id = 243)) = (SELECT count(*) FROM t) AS whole;
SELECT id, v FROM t WHERE ctid >= (SELECT ctid FROM t WHERE id = 243) AND ctid <= (SELECT ctid FROM t WHERE id = 243);
WITH d AS (DELETE FROM t WHERE ctid >= '(0,0)' RETURNING 1) SELECT count(*) FROM d;
SELECT count(*) FROM t WHERE ctid >= '(0,0)';
RESET enable_seqscan;

-- least and greatest TID
TRUNCATE t;
INSERT INTO t SELECT g, 'v' FROM generate_series(1, 10) g;
SELECT (SELECT id FROM t WHERE ctid = (SELECT min(ctid) FROM t)) AS first,
       (SELECT id FROM t WHERE ctid = (SELECT max(ctid) FROM t)) AS last;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA scan_tid CASCADE;
