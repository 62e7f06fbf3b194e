SET default_table_access_method = zen;
--
-- toast: values from one byte to several megabytes in every storage kind: stored, read in
-- slices, updated, kept by updates of other columns, deleted, rolled back, vacuumed.
--
CREATE SCHEMA toast_test;
SET search_path = toast_test, public;

CREATE TABLE t (id int PRIMARY KEY, x text, e text, m text, c bytea, n int DEFAULT 0);
ALTER TABLE t ALTER x SET STORAGE EXTENDED, ALTER e SET STORAGE EXTERNAL, ALTER m SET STORAGE MAIN;
-- a string of exactly n bytes that does not compress well, the same for the same n
CREATE FUNCTION rnd(n int, seed int DEFAULT 0) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT left(string_agg(md5((g * 31 + seed)::text || 'x'), '' ORDER BY g), n) FROM generate_series(0, n / 32) g $$;
-- around every border between inline, compressed and external
INSERT INTO t SELECT l, repeat('a', l), rnd(l), CASE WHEN l < 8000 THEN rnd(l, 1) END, decode(repeat('00ff', l), 'hex')
  FROM unnest(ARRAY[0, 1, 2, 31, 126, 127, 128, 500, 1995, 1996, 1997, 2000, 2030, 2040, 4000, 7000, 8000, 8191, 8192,
    8193, 16383, 16384, 65535, 65536, 100000]) l;
CREATE FUNCTION wrong() RETURNS TABLE (id int, what text) LANGUAGE sql AS $$
  SELECT id, concat_ws(',', CASE WHEN x <> repeat('a', id) OR x IS NULL THEN 'x' END, CASE WHEN e <> rnd(id)
    OR e IS NULL THEN 'e' END,
    CASE WHEN m <> rnd(id, 1) THEN 'm' END, CASE WHEN c <> decode(repeat('00ff', id), 'hex') OR c IS NULL THEN 'c' END)
      FROM toast_test.t
  WHERE x <> repeat('a', id) OR e <> rnd(id) OR m <> rnd(id, 1) OR c <> decode(repeat('00ff', id), 'hex') OR x IS NULL
    OR e IS NULL OR c IS NULL ORDER BY 1 $$;
SELECT * FROM wrong();
SELECT count(*), sum(length(x)), sum(length(e)), sum(length(m)), sum(length(c)) FROM t;
-- every length in a range, byte by byte
CREATE TABLE lens (n int, v text);
INSERT INTO lens SELECT n, rnd(n) FROM generate_series(1, 4200, 7) n;
SELECT count(*) FROM lens WHERE v <> rnd(n) OR length(v) <> n;

-- slices
SELECT id, substr(e, id / 2, 10) = substr(rnd(id), id / 2, 10) AS middle, substr(e, id - 3) = right(rnd(id), 4) AS tail,
	length(substr(e, id + 1)) AS beyond,
   substr(x, 50, 3) AS x, encode(substr(c, id, 4), 'hex') AS c
  FROM t WHERE id >= 8191 ORDER BY id;
SELECT left(e, 5), right(e, 5) FROM t WHERE id = 100000;
SELECT length(e), octet_length(c), pg_column_size(e) FROM t WHERE id = 100000;
SELECT count(*) FROM generate_series(1, 100000, 997) g, t WHERE t.id = 100000 AND substr(e, g, 5) <> substr(rnd(100000),
	g, 5);

-- updates that keep, change, shrink, grow and remove a toasted column
UPDATE t SET n = n + 1;
UPDATE t SET n = n + 1;
SELECT * FROM wrong();
SELECT DISTINCT n FROM t;
UPDATE t SET e = rnd(id) WHERE id % 2 = 0;
SELECT * FROM wrong();
UPDATE t SET e = 'short' WHERE id = 65535;
SELECT e, length(x) FROM t WHERE id = 65535;
UPDATE t SET e = rnd(65535) WHERE id = 65535;
UPDATE t SET e = NULL WHERE id = 65536;
SELECT e IS NULL, length(x) FROM t WHERE id = 65536;
UPDATE t SET e = rnd(65536) WHERE id = 65536;
UPDATE t SET x = e, e = x WHERE id = 16384;
SELECT x = rnd(16384), e = repeat('a', 16384) FROM t WHERE id = 16384;
UPDATE t SET x = e, e = x WHERE id = 16384;
UPDATE t SET e = e || 'x' WHERE id > 8000;
UPDATE t SET e = left(e, -1) WHERE id > 8000;
SELECT * FROM wrong();
-- the key of a row with toasted values
UPDATE t SET id = 200000 WHERE id = 100000;
SELECT length(x), e = rnd(100000) FROM t WHERE id = 200000;
UPDATE t SET id = 100000 WHERE id = 200000;
-- many updates of a large value in one transaction, and back
BEGIN;
DO $$ BEGIN FOR i IN 1..50 LOOP UPDATE toast_test.t SET e = toast_test.rnd(30000, i), n = i WHERE id = 1; END LOOP;
	END $$;
SELECT e = rnd(30000, 50), n FROM t WHERE id = 1;
SAVEPOINT a;
UPDATE t SET e = rnd(40000, 77) WHERE id = 1;
DELETE FROM t WHERE id = 2;
ROLLBACK TO a;
SELECT e = rnd(30000, 50), n FROM t WHERE id = 1;
ROLLBACK;
SELECT * FROM wrong();
-- copied to other rows and tables, through variables, cursors, arrays, composites
INSERT INTO t SELECT -id, x, e, m, c FROM t WHERE id > 60000;
SELECT count(*) FROM t a JOIN t b ON a.id = -b.id AND a.e = b.e AND a.x = b.x AND a.c = b.c WHERE a.id > 60000;
DELETE FROM t WHERE id < 0;
SELECT * FROM wrong();
CREATE TABLE heap_copy USING heap AS SELECT * FROM t;
CREATE TABLE back AS SELECT * FROM heap_copy;
SELECT count(*) FROM t JOIN back USING (id) WHERE t.x = back.x AND t.e = back.e AND t.c = back.c;
DROP TABLE heap_copy;
BEGIN;
DECLARE cur CURSOR FOR SELECT id, e FROM t WHERE id = 65536;
DELETE FROM t WHERE id = 65536;
CREATE TABLE fetched (id int, e text);
DO $$ DECLARE r record; c refcursor := 'cur'; BEGIN FETCH c INTO r; INSERT INTO toast_test.fetched VALUES (r.id, r.e);
	END $$;
SELECT e = rnd(65536) FROM fetched;
ROLLBACK;
DO $$
DECLARE v text; r toast_test.t;
BEGIN
  SELECT e INTO v FROM toast_test.t WHERE id = 65536;
  SELECT * INTO r FROM toast_test.t WHERE id = 65535;
  DELETE FROM toast_test.t WHERE id IN (65535, 65536);
  COMMIT;
  RAISE NOTICE '% %', length(v) = 65536 AND v = toast_test.rnd(65536), r.e = toast_test.rnd(65535);
  INSERT INTO toast_test.t SELECT r.*;
  COMMIT;
END $$;
SELECT * FROM wrong();
SELECT count(*) FROM t;
CREATE TABLE arr (id int, a text[], r back, j jsonb);
INSERT INTO arr SELECT 1, array_agg(e ORDER BY id) FROM t;
INSERT INTO arr SELECT 2, NULL, back FROM back WHERE id = 65535;
INSERT INTO arr SELECT 3, NULL, NULL, jsonb_build_object('k', e) FROM t WHERE id = 100000;
SELECT id, length(a[20]), length((r).e), length(j ->> 'k') FROM arr ORDER BY id;
UPDATE arr SET a[2] = 'changed' WHERE id = 1;
SELECT a[2], length(a[20]) FROM arr WHERE id = 1;

-- megabytes
CREATE TABLE mb (id int PRIMARY KEY, v text, b bytea);
INSERT INTO mb VALUES (1, rnd(1000000), NULL), (2, repeat('abcdefgh', 1000000), NULL),
	(3, NULL, decode(rnd(2000000), 'hex'));
SELECT id, length(v), length(b), md5(v), md5(b) FROM mb ORDER BY id;
SELECT substr(v, 999990, 20) = substr(rnd(1000000), 999990, 20) FROM mb WHERE id = 1;
SELECT substr(v, 7999993, 100) FROM mb WHERE id = 2;
UPDATE mb SET b = '\x01' WHERE id = 1;
UPDATE mb SET v = v || v WHERE id = 1;
SELECT length(v), md5(v) = md5(rnd(1000000) || rnd(1000000)) FROM mb WHERE id = 1;
DELETE FROM mb WHERE id = 2;
INSERT INTO mb VALUES (2, rnd(3000000, 5));
SELECT id, length(v) FROM mb ORDER BY id;

-- deleted and vacuumed, and the places used again
DELETE FROM t WHERE id % 2 = 1;
VACUUM t;
SELECT * FROM wrong();
INSERT INTO t SELECT l, repeat('a', l), rnd(l), CASE WHEN l < 8000 THEN rnd(l, 1) END, decode(repeat('00ff', l), 'hex')
  FROM generate_series(1, 40001, 2000) l;
SELECT * FROM wrong();
BEGIN;
INSERT INTO t SELECT l, repeat('a', l), rnd(l), NULL, decode(repeat('00ff', l), 'hex')
	FROM generate_series(3, 60003, 2000) l;
DELETE FROM t WHERE id % 2 = 0;
ROLLBACK;
VACUUM (FREEZE) t;
SELECT * FROM wrong();
SELECT count(*) FROM t;
VACUUM FULL t;
SELECT * FROM wrong();
CLUSTER t USING t_pkey;
SELECT * FROM wrong();
ALTER TABLE t ADD COLUMN r float8 DEFAULT random();
SELECT * FROM wrong();
ALTER TABLE t DROP COLUMN m;
ALTER TABLE t ADD COLUMN m text;
UPDATE t SET n = n + 1;
SELECT * FROM wrong();
-- storage kinds changed, compression methods, a target of its own
ALTER TABLE t ALTER e SET STORAGE PLAIN;
UPDATE t SET e = 'plain' WHERE id < 100;
UPDATE t SET n = n + 1 WHERE id = 100000;
SELECT e = rnd(100000) FROM t WHERE id = 100000;
ALTER TABLE t ALTER e SET STORAGE EXTENDED;
ALTER TABLE t SET (toast_tuple_target = 128);
INSERT INTO t (id, x, e) VALUES (-1, repeat('z', 200), rnd(300));
SELECT length(x), e = rnd(300) FROM t WHERE id = -1;
CREATE TABLE comp (id int, p text COMPRESSION pglz);
INSERT INTO comp VALUES (1, repeat('0123456789', 5000)), (2, 'tiny');
SELECT id, length(p), pg_column_compression(p), pg_column_size(p) < length(p) AS smaller FROM comp ORDER BY id;
-- unique and expression indexes over toasted values
CREATE TABLE ix (id int, v text);
CREATE UNIQUE INDEX ix_u ON ix (md5(v));
CREATE INDEX ix_s ON ix (substr(v, 20000, 5));
CREATE INDEX ix_h ON ix USING hash (v);
INSERT INTO ix SELECT g, rnd(30000, g) FROM generate_series(1, 20) g;
INSERT INTO ix VALUES (100, rnd(30000, 7));
UPDATE ix SET id = id + 1 WHERE id > 10;
UPDATE ix SET v = rnd(30000, 50) WHERE id = 1;
SET enable_seqscan = off;
SELECT id FROM ix WHERE md5(v) = md5(rnd(30000, 7));
SELECT id FROM ix WHERE md5(v) = md5(rnd(30000, 1));
SELECT id FROM ix WHERE substr(v, 20000, 5) = substr(rnd(30000, 9), 20000, 5);
SELECT id FROM ix WHERE v = rnd(30000, 50);
RESET enable_seqscan;
-- sorting, grouping, joining and hashing toasted values
SELECT count(*) FROM (SELECT DISTINCT e FROM back) x;
SELECT id FROM back ORDER BY e DESC, id LIMIT 3;
SELECT count(*) FROM back a JOIN back b ON a.e = b.e;
SELECT max(length(e)), max(md5(e)) FROM back GROUP BY left(e, 1) ORDER BY 1 DESC LIMIT 2;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA toast_test CASCADE;
