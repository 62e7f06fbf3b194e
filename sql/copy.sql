SET default_table_access_method = zen;
--
-- copy: COPY in and out in its three formats, multi-insert with triggers, defaults,
-- partitions, errors in the middle, COPY in a transaction with savepoints.
--
\getenv abs_builddir PG_ABS_BUILDDIR
CREATE SCHEMA copy_test;
SET search_path = copy_test, public;

CREATE TABLE c (id int PRIMARY KEY, t text, n numeric, d date, a int[], j jsonb, b bytea);
COPY c FROM stdin;
1	plain	1.5	2001-02-03	{1,2,3}	{"k": 1}	\\x0102
2	\N	\N	\N	\N	\N	\N
3	tab\tnewline\nbackslash\\ end	-0.00001	infinity	{}	[]	\\x
4		99999999999999999999.999	0044-03-15 BC	{NULL,5}	"s"	\\xdeadbeef
\.
SELECT * FROM c ORDER BY id;
COPY c (id, t) FROM stdin WITH (FORMAT csv, HEADER, NULL 'nil');
id,t
5,"quoted, with comma"
6,nil
7,"two
lines"
8,""
\.
COPY (SELECT * FROM c ORDER BY id) TO stdout;
COPY (SELECT * FROM c ORDER BY id) TO stdout (FORMAT csv, HEADER, FORCE_QUOTE (t));
COPY c (t, id) TO stdout (DELIMITER '|', NULL 'NULL');
COPY c (id, t) FROM stdin WHERE id % 2 = 1;
10	a
11	b
12	c
13	d
\.
SELECT id, t FROM c WHERE id >= 10 ORDER BY id;

-- round trips of many rows, in each format, and twice
CREATE TABLE big (id int, t text, n numeric, ts timestamptz, f float8, a text[], u uuid, e bytea);
INSERT INTO big SELECT g, repeat(md5(g::text), g % 5), g / 7.0,
	timestamptz '2020-01-01 00:00+00' + g * interval '1 hour',
    g * 1e-3, CASE WHEN g % 3 = 0 THEN NULL ELSE ARRAY['x' || g, NULL, 'z'] END, md5(g::text)::uuid,
    decode(repeat(md5(g::text), g % 4), 'hex') FROM generate_series(1, 5000) g;
CREATE TABLE big2 (LIKE big);
\set file :abs_builddir '/results/copy_text.data'
COPY big TO :'file';
COPY big2 FROM :'file';
SELECT count(*) FROM big2;
(TABLE big EXCEPT ALL TABLE big2) UNION ALL (TABLE big2 EXCEPT ALL TABLE big);
TRUNCATE big2;
\set file :abs_builddir '/results/copy_csv.data'
COPY big TO :'file' (FORMAT csv);
COPY big2 FROM :'file' (FORMAT csv);
SELECT count(*) FROM big2;
(TABLE big EXCEPT ALL TABLE big2) UNION ALL (TABLE big2 EXCEPT ALL TABLE big);
TRUNCATE big2;
\set file :abs_builddir '/results/copy_binary.data'
COPY big TO :'file' (FORMAT binary);
COPY big2 FROM :'file' (FORMAT binary);
COPY big2 FROM :'file' (FORMAT binary);
SELECT count(*), count(DISTINCT id) FROM big2;
(TABLE big EXCEPT TABLE big2) UNION ALL (TABLE big2 EXCEPT TABLE big);
-- a table with dead and changed rows gives the live ones
UPDATE big SET t = 'u' WHERE id % 10 = 0;
DELETE FROM big WHERE id % 10 = 1;
COPY big TO :'file' (FORMAT binary);
TRUNCATE big2;
COPY big2 FROM :'file' (FORMAT binary);
SELECT count(*), count(*) FILTER (WHERE t = 'u'), sum(id) FROM big2;
COPY c TO stdout (FORMAT text, HEADER, ENCODING 'SQL_ASCII');

-- errors: nothing of the failed COPY stays
CREATE TABLE e (id int PRIMARY KEY, v int CHECK (v > 0), w text NOT NULL);
COPY e FROM stdin;
1	1	a
2	2	b
\.
COPY e FROM stdin;
3	3	c
4	four	d
\.
COPY e FROM stdin;
5	5	e
6	-6	f
\.
COPY e FROM stdin;
7	7	g
1	8	h
\.
COPY e FROM stdin;
9	9	i
10	10	\N
\.
COPY e FROM stdin;
11	11
\.
COPY e FROM stdin;
12	12	l	extra
\.
SELECT * FROM e ORDER BY id;
BEGIN;
SAVEPOINT a;
COPY e FROM stdin;
20	20	a
21	21	b
\.
SELECT count(*) FROM e;
COPY e FROM stdin;
22	22	c
22	22	c
\.
ROLLBACK TO a;
SELECT count(*) FROM e;
COPY e FROM stdin;
30	30	a
\.
COMMIT;
SELECT * FROM e ORDER BY id;
-- unique within one COPY
CREATE TABLE uq (k int);
CREATE UNIQUE INDEX ON uq (k);
COPY uq FROM stdin;
1
2
1
\.
SELECT count(*) FROM uq;

-- FREEZE: rows of a table made in this transaction
BEGIN;
CREATE TABLE fr (id int, t text);
COPY fr FROM stdin (FREEZE);
1	a
2	b
\.
SELECT * FROM fr;
COMMIT;
SELECT * FROM fr ORDER BY id;
BEGIN;
TRUNCATE fr;
SAVEPOINT s;
COPY fr FROM stdin (FREEZE);
3	c
\.
ROLLBACK;
SELECT * FROM fr ORDER BY id;
COPY fr FROM stdin (FREEZE);
4	d
\.
SELECT * FROM fr ORDER BY id;

-- triggers, defaults and generated columns under multi-insert
CREATE TABLE tr (id int, v int DEFAULT 7, g int GENERATED ALWAYS AS (id * 2) STORED, s serial, note text);
CREATE TABLE log (n serial, what text);
CREATE FUNCTION tr_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id = 3 THEN RETURN NULL; END IF;
  NEW.note = 'before ' || NEW.id; RETURN NEW;
END $$;
CREATE FUNCTION tr_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO copy_test.log (what) VALUES (format('after %s: %s', TG_LEVEL, NEW)); RETURN NULL; END $$;
CREATE FUNCTION tr_stmt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO copy_test.log (what) SELECT format('transition %s', n) FROM new_rows n ORDER BY id; RETURN NULL;
	END $$;
CREATE TRIGGER b BEFORE INSERT ON tr FOR EACH ROW EXECUTE FUNCTION tr_before();
COPY tr (id) FROM stdin;
1
3
5
\.
DROP TRIGGER b ON tr;
CREATE TRIGGER a AFTER INSERT ON tr FOR EACH ROW EXECUTE FUNCTION tr_after();
CREATE TRIGGER s AFTER INSERT ON tr REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tr_stmt();
COPY tr (id, v) FROM stdin;
10	100
11	110
\.
SELECT * FROM tr ORDER BY id;
SELECT what FROM log ORDER BY n;

-- into partitions
CREATE TABLE pt (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE pt3 PARTITION OF pt FOR VALUES FROM (20) TO (30);
COPY pt FROM stdin;
1	a
11	b
21	c
2	d
12	e
22	f
\.
SELECT tableoid::regclass, * FROM pt ORDER BY k;
COPY pt FROM stdin;
3	x
33	no partition
\.
SELECT count(*) FROM pt;
COPY (SELECT * FROM pt ORDER BY k) TO stdout;
COPY pt1 TO stdout;

-- large rows and large fields
CREATE TABLE wide (id int, v text);
INSERT INTO wide SELECT g, repeat(chr(64 + g), g * 100000) FROM generate_series(1, 5) g;
\set file :abs_builddir '/results/copy_wide.data'
COPY wide TO :'file';
TRUNCATE wide;
COPY wide FROM :'file';
SELECT id, length(v), v = repeat(chr(64 + id), id * 100000) AS same FROM wide ORDER BY id;
-- batches: one that ends at a row too big, long values in some rows, TIDs that VACUUM has freed
CREATE TABLE batch (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
ALTER TABLE batch ALTER v SET STORAGE PLAIN;
\set file :abs_builddir '/results/copy_batch.data'
COPY (SELECT g, repeat('x', CASE g % 150 WHEN 0 THEN 70000 ELSE g END) FROM generate_series(1, 400) g) TO :'file';
BEGIN;
INSERT INTO batch VALUES (0, 'before');
SAVEPOINT a;
COPY batch FROM :'file';
ROLLBACK TO a;
SELECT id, v FROM batch;
ALTER TABLE batch ALTER v SET STORAGE EXTERNAL;
COPY batch FROM :'file';
COMMIT;
SELECT count(*), sum(id), sum(length(v)), count(DISTINCT ctid) FROM batch;
DELETE FROM batch WHERE id % 3 > 0;
VACUUM batch;
UPDATE batch SET id = -id;
COPY batch FROM :'file';
SELECT count(*), sum(id), sum(length(v)), count(DISTINCT ctid) FROM batch;
SELECT count(*) FROM batch WHERE id > 0 AND length(v) <> CASE id % 150 WHEN 0 THEN 70000 ELSE id END;
SELECT * FROM zen_verify('batch');
-- COPY (INSERT/UPDATE/DELETE ... RETURNING)
COPY (INSERT INTO e VALUES (40, 40, 'r') RETURNING *) TO stdout;
COPY (UPDATE e SET w = 's' WHERE id = 40 RETURNING *) TO stdout;
COPY (DELETE FROM e WHERE id = 40 RETURNING id) TO stdout;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA copy_test CASCADE;
