SET default_table_access_method = zen;
--
-- edge_tables: tables without columns, without rows, with nothing but nulls, with one row;
-- names and places that need care.
--
CREATE SCHEMA edge;
SET search_path = edge, public;

-- no columns
CREATE TABLE z ();
SELECT count(*) FROM z;
INSERT INTO z DEFAULT VALUES;
INSERT INTO z DEFAULT VALUES;
INSERT INTO z SELECT FROM generate_series(1, 500);
SELECT count(*) FROM z;
SELECT count(DISTINCT ctid) FROM z;
DELETE FROM z WHERE ctid IN (SELECT ctid FROM z LIMIT 2);
SELECT count(*) FROM z;
BEGIN; DELETE FROM z; SELECT count(*) FROM z; ROLLBACK;
COPY z TO stdout (FORMAT binary) \g /dev/null
COPY z FROM stdin;


\.
SELECT count(*) FROM z;
ANALYZE z;
VACUUM z;
ALTER TABLE z ADD COLUMN a int;
SELECT count(*), count(a) FROM z;
UPDATE z SET a = 1;
SELECT count(*), count(a) FROM z;
ALTER TABLE z DROP COLUMN a;
SELECT count(*) FROM z;
ALTER TABLE z ADD COLUMN b int DEFAULT 5;
SELECT count(*), sum(b) FROM z;
CREATE INDEX z_one ON z ((1));
SET enable_seqscan = off;
SELECT count(*) FROM z WHERE 1 = 1;
RESET enable_seqscan;
DELETE FROM z;
VACUUM FULL z;
SELECT count(*) FROM z;

-- nothing but nulls
CREATE TABLE n (a int, b text, c numeric, d int[], e bool);
INSERT INTO n DEFAULT VALUES;
INSERT INTO n SELECT NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 300);
SELECT count(*), count(a), count(b), count(n.*), count(*) FILTER (WHERE n IS NULL) FROM n;
CREATE INDEX n_a ON n (a);
CREATE UNIQUE INDEX n_b ON n (b);
SET enable_seqscan = off;
SELECT count(*) FROM n WHERE a IS NULL;
SELECT count(*) FROM n WHERE a = 1;
RESET enable_seqscan;
UPDATE n SET a = 1 WHERE ctid = (SELECT min(ctid) FROM n);
UPDATE n SET a = NULL WHERE a = 1;
UPDATE n SET e = true;
UPDATE n SET e = NULL;
SELECT count(*), count(*) FILTER (WHERE n IS NULL) FROM n;
DELETE FROM n WHERE n IS NULL;
SELECT count(*) FROM n;

-- no rows
CREATE TABLE e (id int PRIMARY KEY, v text);
SELECT * FROM e;
SELECT count(*), max(id), sum(id) FROM e;
SELECT max(id) FROM e WHERE id > 5;
UPDATE e SET v = 'x';
DELETE FROM e;
SELECT * FROM e ORDER BY id FOR UPDATE;
SELECT * FROM e TABLESAMPLE SYSTEM (100);
VACUUM FULL e;
CLUSTER e USING e_pkey;
REINDEX TABLE e;
TRUNCATE e;
COPY e TO stdout;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM e;
FETCH c;
FETCH PRIOR c;
FETCH LAST c;
COMMIT;
-- one row
INSERT INTO e VALUES (1, 'one');
UPDATE e SET v = 'uno';
SELECT * FROM e;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM e;
FETCH c;
FETCH c;
FETCH PRIOR c;
FETCH PRIOR c;
FETCH c;
COMMIT;
DELETE FROM e;
SELECT * FROM e;

-- around the borders of a block of 64
CREATE TABLE b (id int);
DO $$ BEGIN FOR i IN 1..130 LOOP
  INSERT INTO edge.b VALUES (i);
  IF (SELECT count(*) FROM edge.b) <> i OR (SELECT max(id) FROM edge.b) <> i THEN RAISE EXCEPTION 'at %', i; END IF;
END LOOP; END $$;
SELECT count(*), sum(id) FROM b;
DELETE FROM b WHERE id IN (1, 63, 64, 65, 128, 129, 130);
SELECT count(*), sum(id), min(id), max(id) FROM b;
-- quoted names, another schema with the same name of table, the same table name twice
CREATE TABLE "Select * from ""x""" ("order" int, "na ive" text, " " int);
INSERT INTO "Select * from ""x""" VALUES (1, 'a', 2);
UPDATE "Select * from ""x""" SET " " = 3 WHERE "order" = 1 RETURNING *;
CREATE SCHEMA edge2;
CREATE TABLE edge2.e (id int);
INSERT INTO edge2.e VALUES (7);
SELECT (SELECT count(*) FROM edge.e), (SELECT count(*) FROM edge2.e);
DROP TABLE edge2.e;
DROP SCHEMA edge2;
-- domains, constraints on the whole row, self-joins of a whole row
CREATE TABLE w (lo int, hi int, CHECK (w.lo < w.hi), CHECK (w IS NOT NULL));
INSERT INTO w VALUES (1, 2);
INSERT INTO w VALUES (2, 1);
INSERT INTO w VALUES (1, NULL);
SELECT a, b FROM w a JOIN w b ON a = b;
-- as a composite type, in functions, in arrays
CREATE FUNCTION f(w) RETURNS int LANGUAGE sql AS 'SELECT $1.lo + $1.hi';
SELECT f(w), w.f FROM w;
SELECT (w).lo, (SELECT x FROM (SELECT w) x) FROM w;
CREATE TABLE arr (ws w[]);
INSERT INTO arr SELECT array_agg(w) FROM w;
SELECT ws[1].hi FROM arr;
ALTER TABLE w ADD COLUMN mid int;
SELECT (ws[1]).hi, (ws[1]).mid FROM arr;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA edge CASCADE;
