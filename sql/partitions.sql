SET default_table_access_method = zen;
--
-- partitions: partitions of both kinds in one table, rows moving between them,
-- attach and detach, pruning, indexes and constraints over all of them.
--
CREATE SCHEMA part;
SET search_path = part, public;

CREATE TABLE m (k int, v text, d date DEFAULT '2020-01-01') PARTITION BY RANGE (k);
CREATE TABLE m0 PARTITION OF m FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (100) TO (200) USING heap;
CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (200) TO (300) USING zen;
CREATE TABLE md PARTITION OF m DEFAULT;
SELECT relname, amname FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam
  WHERE relnamespace = 'part'::regnamespace AND relkind IN ('r', 'p') AND amname IS DISTINCT FROM 'zen'
    ORDER BY relname;
INSERT INTO m SELECT g * 10, 'v' || g FROM generate_series(1, 40) g;
SELECT tableoid::regclass::text, count(*), sum(k) FROM m GROUP BY 1 ORDER BY 1;
-- pruning
SELECT count(*), min(tableoid::regclass::text) FROM m WHERE k BETWEEN 100 AND 190;
SELECT count(*) FROM m WHERE k IN (50, 150, 250, 350);
-- row movement zen to heap, heap to zen, zen to zen, to default and back
UPDATE m SET k = 155 WHERE k = 50 RETURNING tableoid::regclass, *;
UPDATE m SET k = 55 WHERE k = 150 RETURNING tableoid::regclass, *;
UPDATE m SET k = 255 WHERE k = 60 RETURNING tableoid::regclass, *;
UPDATE m SET k = 1000 WHERE k = 160 RETURNING tableoid::regclass, *;
UPDATE m SET k = 65 WHERE k = 1000 RETURNING tableoid::regclass, *;
UPDATE m SET k = k + 100, v = v || '+';
SELECT tableoid::regclass::text, count(*), sum(k), count(*) FILTER (WHERE v LIKE '%+') AS changed FROM m GROUP BY 1
	ORDER BY 1;
BEGIN;
UPDATE m SET k = -k;
SELECT tableoid::regclass::text, count(*), sum(k) FROM m GROUP BY 1 ORDER BY 1;
SAVEPOINT a;
DELETE FROM m WHERE k < -200;
ROLLBACK TO a;
SELECT count(*) FROM m;
ROLLBACK;
SELECT tableoid::regclass::text, count(*), sum(k) FROM m GROUP BY 1 ORDER BY 1;
-- moved twice in one transaction, and changed after the move
BEGIN;
INSERT INTO m VALUES (1, 'mover');
UPDATE m SET k = 101 WHERE v = 'mover';
UPDATE m SET k = 201 WHERE v = 'mover';
UPDATE m SET k = 102 WHERE v = 'mover';
UPDATE m SET d = '2021-01-01' WHERE v = 'mover';
SELECT tableoid::regclass, * FROM m WHERE v = 'mover';
COMMIT;
SELECT tableoid::regclass, * FROM m WHERE v = 'mover';
WITH x AS (DELETE FROM m WHERE v = 'mover' RETURNING tableoid::regclass AS t, *) SELECT * FROM x;
-- join that matches a moving row twice
UPDATE m SET k = s.n FROM (VALUES (301), (302)) s(n) WHERE m.k = 200;
SELECT count(*) FROM m WHERE k IN (200, 301, 302);

-- indexes over partitions of both kinds
CREATE INDEX m_k ON m (k);
CREATE UNIQUE INDEX m_kv ON m (k, v);
SET enable_seqscan = off;
SELECT k FROM m WHERE k > 380 ORDER BY k;
SELECT k FROM m ORDER BY k DESC LIMIT 3;
RESET enable_seqscan;
INSERT INTO m SELECT k, v FROM m WHERE k IN (200, 210);
-- order by over an append of ordered scans
SELECT max(k), min(k) FROM m;

-- attach and detach, with a check of rows that do not fit
CREATE TABLE extra (v text, k int, d date);
INSERT INTO extra VALUES ('x', 5000, NULL), ('y', 5999, NULL), ('bad', 7000, NULL);
ALTER TABLE m ATTACH PARTITION extra FOR VALUES FROM (5000) TO (6000);
DELETE FROM extra WHERE v = 'bad';
ALTER TABLE m ATTACH PARTITION extra FOR VALUES FROM (5000) TO (6000);
SELECT tableoid::regclass, * FROM m WHERE k >= 5000 ORDER BY k;
UPDATE m SET k = 5500 WHERE k = 110;
UPDATE m SET k = 110 WHERE k = 5999;
SELECT tableoid::regclass, k, v FROM m WHERE k >= 5000 OR k = 110 ORDER BY k;
INSERT INTO m (k, v) VALUES (8000, 'default');
CREATE TABLE m8 PARTITION OF m FOR VALUES FROM (8000) TO (9000);
ALTER TABLE m DETACH PARTITION extra;
SELECT count(*) FROM extra;
SELECT count(*) FROM m WHERE k >= 5000;
ALTER TABLE m DETACH PARTITION m1 CONCURRENTLY;
ALTER TABLE m DETACH PARTITION md;
ALTER TABLE m DETACH PARTITION m1 CONCURRENTLY;
INSERT INTO m VALUES (150, 'nowhere');
TRUNCATE m;
SELECT count(*) FROM m;
SELECT count(*) FROM m1;
-- a partition's access method changes under the same parent
INSERT INTO m2 SELECT g, 'h' FROM generate_series(200, 299) g;
ALTER TABLE m2 SET ACCESS METHOD heap;
UPDATE m SET k = k - 200 WHERE k < 250;
ALTER TABLE m2 SET ACCESS METHOD zen;
ALTER TABLE m0 SET ACCESS METHOD heap;
UPDATE m SET k = k + 200 WHERE k < 25;
SELECT tableoid::regclass::text, count(*), sum(k) FROM m GROUP BY 1 ORDER BY 1;

-- list and hash, two levels, mixed
CREATE TABLE h (id int, r text, v int) PARTITION BY LIST (r);
CREATE TABLE h_eu PARTITION OF h FOR VALUES IN ('de', 'fr') PARTITION BY HASH (id);
CREATE TABLE h_eu0 PARTITION OF h_eu FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h_eu1 PARTITION OF h_eu FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap;
CREATE TABLE h_us PARTITION OF h FOR VALUES IN ('us', NULL);
INSERT INTO h SELECT g, (ARRAY['de', 'fr', 'us', NULL])[g % 4 + 1], g FROM generate_series(1, 400) g;
SELECT r, count(*), sum(id) FROM h GROUP BY r ORDER BY r;
SELECT (SELECT count(*) FROM h_eu0) + (SELECT count(*) FROM h_eu1) AS eu;
UPDATE h SET id = id + 1;
UPDATE h SET r = CASE r WHEN 'de' THEN 'us' WHEN 'us' THEN 'fr' ELSE r END;
SELECT r, count(*), sum(id), sum(v) FROM h GROUP BY r ORDER BY r;
DELETE FROM h WHERE v % 2 = 0;
SELECT r, count(*), sum(id), sum(v) FROM h GROUP BY r ORDER BY r;
INSERT INTO h VALUES (1, 'jp', 1);
-- partition-wise join and aggregate
SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;
SELECT a.r, count(*) FROM h a JOIN h b ON a.r = b.r AND a.id = b.id GROUP BY a.r ORDER BY a.r;
RESET enable_partitionwise_join; RESET enable_partitionwise_aggregate;
-- row locks through the parent, cursors over partitions
BEGIN;
SELECT count(*) FROM (SELECT 1 FROM h WHERE id < 20 FOR UPDATE) x;
DECLARE c SCROLL CURSOR FOR SELECT id FROM h ORDER BY id;
FETCH 2 FROM c;
UPDATE h SET r = 'us' WHERE id < 20;
FETCH LAST FROM c;
FETCH FIRST FROM c;
COMMIT;
-- column order, checks and defaults that differ by partition, generated columns
CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED, c int DEFAULT 1) PARTITION BY RANGE (a);
CREATE TABLE g1 (c int DEFAULT 11, b int GENERATED ALWAYS AS (a * 2) STORED, a int CHECK (a <> 7));
ALTER TABLE g ATTACH PARTITION g1 FOR VALUES FROM (0) TO (10);
CREATE TABLE g2 PARTITION OF g FOR VALUES FROM (10) TO (20) USING heap;
INSERT INTO g (a) VALUES (1), (11);
INSERT INTO g1 (a) VALUES (2);
UPDATE g SET a = a + 10 WHERE a < 10;
UPDATE g SET a = a - 10 WHERE a > 11;
SELECT tableoid::regclass, a, b, c FROM g ORDER BY a;
UPDATE g SET a = 7 WHERE a = 11;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA part CASCADE;
