-- Scans that show the first columns of rows, and fetch a row when more is wanted: the same answers as heap.
CREATE SCHEMA scan_columns;
SET search_path = scan_columns;
SET max_parallel_workers_per_gather = 0;

-- Columns of all widths that are passed by value, and some behind them.  All snapshots see the rows of z.
CREATE TABLE h (id int, a int2, b bool, c "char", d int8, e float4, f date, g int2, t text, k int) USING heap;
BEGIN;
CREATE TABLE z (LIKE h) USING zen;
COPY h FROM PROGRAM 'seq 1 2000 | awk "{ print \$1, \$1 % 300, \$1 % 3 ? \"t\" : \"f\", substr(\"ABCDEFG\", 1 + \$1 % 7, 1), \$1 \"000000007\", \$1 / 8, \"2000-01-\" 1 + \$1 % 31, \$1 % 11, \"text\" \$1, \$1 % 17 }" OFS=,' CSV;
COPY z FROM PROGRAM 'seq 1 2000 | awk "{ print \$1, \$1 % 300, \$1 % 3 ? \"t\" : \"f\", substr(\"ABCDEFG\", 1 + \$1 % 7, 1), \$1 \"000000007\", \$1 / 8, \"2000-01-\" 1 + \$1 % 31, \$1 % 11, \"text\" \$1, \$1 % 17 }" OFS=,' CSV FREEZE;
COMMIT;
SELECT count(*), count(DISTINCT id), sum(d) FROM z;
-- NULLs in all places, one of them in each of some rows
BEGIN;
CREATE TABLE hn (LIKE h) USING heap;
CREATE TABLE zn (LIKE h) USING zen;
COPY hn FROM PROGRAM 'seq 1 1000 | awk "{ for (i = 2; i < 10; i++) \$i = \$1 % i ? \$1 % 2 : \"\"; \$7 = \$7 == \"\" ? \"\" : \"2000-01-0\" 1 + \$7; \$10 = \$1; print }" OFS=,' CSV;
COPY zn FROM PROGRAM 'seq 1 1000 | awk "{ for (i = 2; i < 10; i++) \$i = \$1 % i ? \$1 % 2 : \"\"; \$7 = \$7 == \"\" ? \"\" : \"2000-01-0\" 1 + \$7; \$10 = \$1; print }" OFS=,' CSV FREEZE;
COMMIT;
ANALYZE h, z, hn, zn;

CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(q::text, '';'') FROM (%s) q', query) INTO result;
	RETURN coalesce(result, 'nothing');
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;

-- One query on h and z, and on hn and zn; $ stands for the table.  Says what differs.
CREATE FUNCTION differs(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	IF answer(replace(query, '$', 'h')) IS DISTINCT FROM answer(replace(query, '$', 'z')) THEN
		RETURN NEXT query;
	END IF;
	IF answer(replace(query, '$', 'hn')) IS DISTINCT FROM answer(replace(query, '$', 'zn')) THEN
		RETURN NEXT query || ', with NULLs';
	END IF;
END $$;

CREATE TABLE queries (query text);
INSERT INTO queries SELECT format('SELECT %s FROM $ OFFSET 0', columns) FROM
	(VALUES ('id'), ('a'), ('b'), ('c'), ('d'), ('e'), ('f'), ('g'), ('t'), ('k'), ('1'), ('g, a'), ('id, t'), ('*'),
		('$'), ('id, $'), ('CASE WHEN id % 200 = 0 THEN t END, g'), ('CASE WHEN id % 20 = 0 THEN t END, g'),
		('CASE WHEN id % 3 = 0 THEN t END, g'), ('a, CASE WHEN id % 150 = 0 THEN k END, d'),
		('CASE WHEN id > 1000 THEN g END, a'), ('CASE WHEN id > 500 AND id < 700 THEN $::text END, a'),
		('row_number() OVER (ORDER BY a, id), e'), ('DISTINCT g'), ('DISTINCT ON (g) g, id, t')) v (columns);
INSERT INTO queries SELECT format('SELECT %s FROM $ WHERE %s', columns, quals) FROM
	(VALUES ('id'), ('id, t'), ('g, k'), ('$')) v (columns),
	(VALUES ('g = 3'), ('g = 3 AND t LIKE ''%7'''), ('b AND d > 100'), ('b IS NULL'), ('false'), ('id < 70'),
		('id > 990'), ('c = ''A'' OR k = 5'), ('(a + g) % 70 = 3'), ('t IS NOT NULL'), ('e > 100.5'),
		('f = ''2000-01-02''')) w (quals);
INSERT INTO queries VALUES
	('SELECT id, t FROM $ ORDER BY g, id LIMIT 20'),
	('SELECT * FROM $ ORDER BY g DESC, id DESC LIMIT 20'),
	('SELECT g, count(*), max(t) FROM $ GROUP BY g ORDER BY g'),
	('SELECT g, string_agg(t, '','' ORDER BY id) FROM $ GROUP BY g ORDER BY g'),
	('SELECT count(DISTINCT a), percentile_disc(0.5) WITHIN GROUP (ORDER BY d) FROM $'),
	('SELECT x.id, y.t FROM $ x JOIN $ y ON y.id = x.a ORDER BY 1, 2'),
	('SELECT count(*) FROM $ x JOIN $ y ON y.g = x.a'),
	('SELECT x.id, y.id, y.k FROM $ x LEFT JOIN $ y ON y.id = x.id + 900 AND y.g > 2 ORDER BY 1, 2'),
	('SELECT id FROM $ x WHERE EXISTS (SELECT FROM $ y WHERE y.id = x.a + 5) ORDER BY 1'),
	('SELECT x.id, (SELECT max(y.t) FROM $ y WHERE y.g = x.g AND y.id < 100) FROM $ x WHERE x.id < 30 ORDER BY 1'),
	('SELECT a FROM $ UNION ALL SELECT g FROM $'),
	('SELECT a FROM $ EXCEPT SELECT g FROM $ ORDER BY 1'),
	('SELECT id, l.* FROM $ x, LATERAL (SELECT g, t FROM $ y WHERE y.id >= x.id LIMIT 2) l WHERE x.id < 20'),
	('SELECT id, tableoid::regclass = ''$''::regclass, ctid IS NULL FROM $'),
	('SELECT id, xmin <> 0, xmax FROM $ WHERE id % 100 = 0'),
	('SELECT x.id FROM $ x JOIN $ y ON x.ctid = y.ctid ORDER BY 1'),
	('SELECT nothing FROM $'),
	('SELECT 1 / (id - 777) FROM $');
SELECT d FROM queries, differs(query) d;

-- joins of other kinds
SET enable_hashjoin = off;
SELECT d FROM queries, differs(query) d WHERE query ~ 'JOIN|EXISTS';
SET enable_mergejoin = off; SET enable_material = off;
SELECT d FROM queries, differs(replace(query, '$ x', '(SELECT * FROM $ WHERE id < 40) x')) d WHERE query ~ '[$] x.*JOIN';
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;

-- scans by an index, in both directions; some have a condition that the index does not answer alone
CREATE INDEX ON h (g, id); CREATE INDEX ON z (g, id); CREATE INDEX ON hn (g, id); CREATE INDEX ON zn (g, id);
CREATE UNIQUE INDEX ON h (id); CREATE UNIQUE INDEX ON z (id); CREATE UNIQUE INDEX ON hn (id); CREATE UNIQUE INDEX ON zn (id);
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off;
SELECT d FROM queries, differs(query) d WHERE query ~ 'WHERE|ORDER|JOIN';
SELECT d FROM queries, differs(replace(query, ' OFFSET', ' ORDER BY id OFFSET')) d WHERE query ~ 'OFFSET' AND query !~ 'DISTINCT';
SELECT d FROM queries, differs(replace(query, ' OFFSET', ' ORDER BY g DESC, id DESC OFFSET')) d
	WHERE query ~ 'OFFSET' AND query !~ 'DISTINCT';
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT d FROM queries, differs(query) d WHERE query ~ 'JOIN|EXISTS';
SELECT d FROM (VALUES ('SELECT x.id, x.a, y.g FROM $ x JOIN $ y USING (g) WHERE x.id < 100 ORDER BY 1, 2, 3'),
	('SELECT x.a, y.t, y.d FROM $ x JOIN $ y ON x.id = y.id')) v (query), differs(query) d;
RESET enable_hashjoin; RESET enable_nestloop;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, d FROM z ORDER BY id;
DECLARE w SCROLL CURSOR FOR SELECT id, t FROM z WHERE a % 20 = 0 ORDER BY id DESC;
MOVE 200 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 4 FROM c;
FETCH 3 FROM c;
MOVE 9 FROM w;
FETCH 2 FROM w;
FETCH BACKWARD 2 FROM w;
UPDATE z SET t = 'new', a = -1 WHERE id IN (1800, 1780);
DELETE FROM z WHERE id IN (1760, 204);
FETCH 6 FROM w;
FETCH 4 FROM c;
UPDATE z SET a = -2 WHERE id BETWEEN 300 AND 500 AND d > 0;
SELECT count(*), count(DISTINCT t), sum(a) FROM z WHERE id BETWEEN 290 AND 510;
DELETE FROM z WHERE id BETWEEN 300 AND 500;
SELECT count(*), count(DISTINCT t), sum(a) FROM z WHERE id BETWEEN 290 AND 510;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(a), max(t) FROM (SELECT * FROM z WHERE id BETWEEN 100 AND 300 OFFSET 0) x;
ROLLBACK;
PREPARE q AS SELECT sum(k), sum(a) FROM (SELECT * FROM z WHERE id BETWEEN $1 AND $2 OFFSET 0) x;
EXECUTE q (1, 300); EXECUTE q (1, 300); EXECUTE q (1, 300); EXECUTE q (1, 300); EXECUTE q (1, 300); EXECUTE q (1, 300); EXECUTE q (1, 300);
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan; RESET enable_sort;
DROP INDEX h_g_id_idx, z_g_id_idx, hn_g_id_idx, zn_g_id_idx, h_id_idx, z_id_idx, hn_id_idx, zn_id_idx;

-- a row's identity
SELECT count(*) FROM z x, z y WHERE x.ctid = y.ctid AND x.id = y.id AND x.t = y.t AND x.g = y.g;
SELECT count(*) FROM z WHERE z.ctid = (SELECT y.ctid FROM z y WHERE y.id = z.id LIMIT 1) AND id % 500 = 1;

-- cursors that turn round, and move while columns are shown
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, g FROM z;
DECLARE w SCROLL CURSOR FOR SELECT id, t FROM z WHERE id % 40 IN (0, 1);
MOVE 200 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 4 FROM c;
FETCH 3 FROM c;
MOVE 100 FROM c;
FETCH c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH c;
FETCH BACKWARD 2 FROM c;
FETCH 3 FROM c;
FETCH FIRST FROM c;
MOVE 130 FROM c;
MOVE 9 FROM w;
FETCH 2 FROM w;
FETCH BACKWARD 2 FROM w;
FETCH 3 FROM w;
-- rows that change behind the cursor's back, by its own transaction
UPDATE z SET t = 'new', g = -1 WHERE id IN (132, 240);
DELETE FROM z WHERE id IN (133, 280);
FETCH 4 FROM c;
FETCH 4 FROM w;
SELECT count(*), count(*) FILTER (WHERE t = 'new') FROM z;
ROLLBACK;

-- functions that change rows while a scan shows them
BEGIN;
CREATE FUNCTION change(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE z SET g = 100, t = 'changed' WHERE id = i;
	RETURN i;
END $$;
SELECT change(id), g, t FROM z WHERE id % 250 = 0;
SELECT g, t FROM z WHERE id % 250 = 0;
SELECT id, t FROM z WHERE id % 300 = 0 AND change(id) > 0;
SELECT id, t FROM z WHERE id % 300 = 0;
DELETE FROM z WHERE change(id + 1) > 0 AND id BETWEEN 1000 AND 1003;
SELECT id, g, t FROM z WHERE id BETWEEN 998 AND 1006;
ROLLBACK;

-- a cursor names the row to be changed
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM z WHERE g = 4 FOR UPDATE;
MOVE 150 FROM c;
UPDATE z SET t = 'current' WHERE CURRENT OF c;
FETCH c;
DELETE FROM z WHERE CURRENT OF c;
SELECT id, t FROM z WHERE t = 'current';
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM z;
MOVE 150 FROM c;
UPDATE z SET t = 'current' WHERE CURRENT OF c;
SELECT id, t FROM z WHERE t = 'current';
ROLLBACK;

-- statements that change what a scan finds
CREATE TABLE hc (LIKE h) USING heap;
CREATE TABLE zc (LIKE h) USING zen;
INSERT INTO hc SELECT * FROM h;
INSERT INTO zc SELECT * FROM z;
UPDATE hc SET a = a + 1 WHERE g = 5; UPDATE zc SET a = a + 1 WHERE g = 5;
UPDATE hc SET t = t || '!' WHERE k = 5; UPDATE zc SET t = t || '!' WHERE k = 5;
DELETE FROM hc WHERE id % 7 = 3; DELETE FROM zc WHERE id % 7 = 3;
UPDATE hc SET a = y.a FROM hn y WHERE y.id = hc.id; UPDATE zc SET a = y.a FROM zn y WHERE y.id = zc.id;
DELETE FROM hc USING hn y WHERE y.id = hc.id + 3 AND y.a = 1; DELETE FROM zc USING zn y WHERE y.id = zc.id + 3 AND y.a = 1;
MERGE INTO hc USING hn y ON y.id = hc.id WHEN MATCHED AND y.g = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET k = y.k
	WHEN NOT MATCHED THEN INSERT (id, t) VALUES (y.id, y.t);
MERGE INTO zc USING zn y ON y.id = zc.id WHEN MATCHED AND y.g = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET k = y.k
	WHEN NOT MATCHED THEN INSERT (id, t) VALUES (y.id, y.t);
SELECT count(*) FROM (TABLE hc EXCEPT ALL TABLE zc) x;
SELECT count(*) FROM (TABLE zc EXCEPT ALL TABLE hc) x;
SELECT count(*) > 1000 AS some FROM zc;

-- INSERT stores the slot of the scan, which tells the target and the new place then
CREATE TABLE copy (LIKE z, CHECK (g >= 0)) USING zen;
CREATE TABLE other (id int, a int2, CHECK (a >= 0)) USING zen;
BEGIN;
CREATE TABLE pairs (id int, a int2) USING zen;
COPY pairs FROM PROGRAM 'seq 1 300 | sed "s/$/,3/"' CSV FREEZE;
COMMIT;
WITH i AS (INSERT INTO copy SELECT * FROM z RETURNING tableoid::regclass AS of, ctid, *)
	SELECT of, count(*), count(DISTINCT ctid), count(DISTINCT t), sum(g) FROM i GROUP BY of;
WITH i AS (INSERT INTO other SELECT * FROM pairs RETURNING tableoid::regclass AS of, ctid, *)
	SELECT of, count(*), count(DISTINCT ctid), sum(id), sum(a) FROM i GROUP BY of;
SELECT count(*) FROM (TABLE copy EXCEPT ALL TABLE z) x;
SELECT count(*) FROM (TABLE other EXCEPT ALL TABLE pairs) x;
SELECT count(*), count(DISTINCT ctid) FROM other;
DO $$
DECLARE
	r z;
	n int := 0;
BEGIN
	FOR r IN SELECT * FROM z LOOP
		n := n + r.g + length(r.t);
	END LOOP;
	RAISE NOTICE '%', n;
END $$;

-- a serializable reader notes each row
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(DISTINCT a), count(DISTINCT t) FROM z;
ROLLBACK;

-- columns that come and go
ALTER TABLE h DROP COLUMN b; ALTER TABLE z DROP COLUMN b; ALTER TABLE hn DROP COLUMN b; ALTER TABLE zn DROP COLUMN b;
SELECT d FROM queries, differs(query) d WHERE query !~ '\mb\M';
ALTER TABLE h ADD COLUMN n int DEFAULT 5; ALTER TABLE z ADD COLUMN n int DEFAULT 5;
ALTER TABLE hn ADD COLUMN n int; ALTER TABLE zn ADD COLUMN n int;
SELECT d FROM queries, differs(query) d WHERE query !~ '\mb\M';
SELECT d FROM (VALUES ('SELECT n FROM $ OFFSET 0'), ('SELECT id, n FROM $ WHERE n = 5'), ('SELECT k FROM $ ORDER BY n, id')) v (query),
	differs(query) d;
-- of a table whose columns are all of fixed width, and older than the last one
BEGIN;
CREATE TABLE narrow (i int, j int) USING zen;
COPY narrow FROM PROGRAM 'seq 1 500 | sed "s/$/,7/"' CSV FREEZE;
COMMIT;
ALTER TABLE narrow ADD COLUMN n int DEFAULT 5;
SELECT count(DISTINCT i), count(DISTINCT j), count(DISTINCT n), sum(DISTINCT n) FROM narrow;
SELECT count(*) FROM (SELECT i, n FROM narrow OFFSET 0) x WHERE n = 5;
UPDATE narrow SET n = 6 WHERE i > 400;
SELECT n, count(*), min(i), max(i) FROM narrow GROUP BY n ORDER BY n;
SELECT narrow FROM narrow WHERE i > 398 LIMIT 4;

-- more columns than are shown so
BEGIN;
CREATE TABLE many (c1 int, c2 int, c3 int, c4 int, c5 int, c6 int, c7 int, c8 int, c9 int, c10 int, c11 int, c12 int, c13 int,
	c14 int, c15 int, c16 int, c17 int, c18 int, c19 int, c20 int) USING zen;
COPY many FROM PROGRAM 'seq 1 300 | awk "{ for (i = 2; i <= 20; i++) \$i = \$1 + i; print }"' (DELIMITER ' ', FREEZE);
COMMIT;
SELECT sum(c16), sum(c17), sum(c20) FROM (SELECT * FROM many OFFSET 0) x;
SELECT sum(c16) FROM (SELECT c16 FROM many OFFSET 0) x;
SELECT sum(c17) FROM (SELECT c17 FROM many OFFSET 0) x;
SELECT sum(c3), count(w) FROM (SELECT c3, CASE WHEN c1 % 64 = 0 THEN c20 END AS w FROM many OFFSET 0) x;

-- parallel
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2; SET zen.executor = point, keyjoin;
ALTER TABLE z SET (parallel_workers = 2);
SELECT g, count(*), sum(id) FROM z GROUP BY g ORDER BY g;
SELECT count(*), count(t), sum(id) FROM (SELECT id, CASE WHEN id % 90 = 0 THEN t END AS t FROM z WHERE a >= 0) x;

-- prepared, and kept
RESET max_parallel_workers_per_gather; RESET zen.executor;
PREPARE p AS SELECT id, t FROM z WHERE g = $1 AND a < $2 AND id % 4 = 0;
EXECUTE p (3, 20); EXECUTE p (3, 20); EXECUTE p (3, 20); EXECUTE p (3, 20); EXECUTE p (3, 20); EXECUTE p (3, 20); EXECUTE p (3, 20);
EXECUTE p (4, 10);

SET client_min_messages = warning;
DROP SCHEMA scan_columns CASCADE;
