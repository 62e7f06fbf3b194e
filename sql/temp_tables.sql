SET default_table_access_method = zen;
--
-- temp_tables: temporary and unlogged tables made while zen is the default, used
-- together with zen tables.
--
CREATE SCHEMA temp_test;
SET search_path = temp_test, public;

CREATE TABLE z (id int PRIMARY KEY, v text);
INSERT INTO z SELECT g, 'z' || g FROM generate_series(1, 100) g;
CREATE TEMP TABLE tt (id int PRIMARY KEY, v text);
INSERT INTO tt SELECT * FROM z WHERE id % 10 = 0;
SELECT count(*), sum(z.id) FROM z JOIN tt USING (id, v);
UPDATE z SET v = tt.v || '!' FROM tt WHERE tt.id = z.id AND z.id < 40;
UPDATE tt SET v = z.v FROM z WHERE tt.id = z.id;
SELECT * FROM tt WHERE id < 60 ORDER BY id;
BEGIN;
DELETE FROM tt WHERE id > 50;
DELETE FROM z WHERE id > 50;
ROLLBACK;
SELECT (SELECT count(*) FROM tt), (SELECT count(*) FROM z);
BEGIN;
DELETE FROM tt WHERE id > 50;
SAVEPOINT a;
DELETE FROM z WHERE id > 50;
ROLLBACK TO a;
INSERT INTO z VALUES (200, 'kept');
COMMIT;
SELECT (SELECT count(*) FROM tt), (SELECT count(*) FROM z);
-- ON COMMIT
CREATE TEMP TABLE del (id int) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO del SELECT id FROM z;
INSERT INTO z SELECT id + 1000, 'from temp' FROM del WHERE id <= 3;
SELECT count(*) FROM del;
COMMIT;
SELECT count(*) FROM del;
SELECT count(*) FROM z WHERE id > 1000;
BEGIN;
CREATE TEMP TABLE gone ON COMMIT DROP AS SELECT * FROM z WHERE id < 5;
UPDATE z SET v = 'via gone' FROM gone WHERE gone.id = z.id;
COMMIT;
SELECT to_regclass('gone');
SELECT count(*) FROM z WHERE v = 'via gone';
-- other ways to make them
CREATE TEMP TABLE a1 AS SELECT * FROM z;
SELECT * INTO TEMP a2 FROM z;
CREATE TABLE pg_temp.a3 (id int PRIMARY KEY, v text);
INSERT INTO a3 SELECT * FROM z;
CREATE TEMP TABLE a4 (LIKE z INCLUDING ALL);
INSERT INTO a4 SELECT * FROM z;
CREATE TEMP TABLE a5 (x int) INHERITS (a4);
CREATE TEMP TABLE a6 (id int, v text) PARTITION BY RANGE (id);
CREATE TEMP TABLE a61 PARTITION OF a6 FOR VALUES FROM (0) TO (5000);
INSERT INTO a6 SELECT * FROM z;
SELECT (SELECT count(*) FROM a1), (SELECT count(*) FROM a2), (SELECT count(*) FROM a3), (SELECT count(*) FROM a4),
	(SELECT count(*) FROM a6);
CREATE TEMP TABLE hiding (LIKE z);
CREATE TEMP VIEW tv AS SELECT count(*) AS n FROM z;
SELECT * FROM tv;
-- a temporary table with the name of a zen table
CREATE TEMP TABLE z (id int, note text);
INSERT INTO pg_temp.z VALUES (1, 'temporary');
SELECT (SELECT count(*) FROM pg_temp.z), (SELECT count(*) FROM temp_test.z);
DROP TABLE pg_temp.z;
SELECT count(*) FROM z;
-- rolled back, truncated, altered, vacuumed
BEGIN;
CREATE TEMP TABLE rb AS SELECT * FROM z;
ROLLBACK;
SELECT to_regclass('rb');
TRUNCATE tt;
ALTER TABLE a1 ALTER id TYPE bigint, ADD COLUMN r float8 DEFAULT random();
CREATE INDEX ON a1 (v);
VACUUM FULL a1;
SELECT count(*), count(DISTINCT r) FROM a1;
-- unlogged
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY, v text);
INSERT INTO ul SELECT * FROM z;
CREATE UNLOGGED TABLE ul2 AS SELECT * FROM ul;
UPDATE ul SET v = 'ul' FROM z WHERE z.id = ul.id AND z.id < 10;
SELECT count(*), count(*) FILTER (WHERE v = 'ul') FROM ul;
SELECT count(*) FROM ul2;
TRUNCATE ul;
SELECT count(*) FROM ul;
-- a temporary table may not be referenced, nor refer
CREATE TABLE bad (id int REFERENCES tt);
CREATE TEMP TABLE bad (id int REFERENCES z);
DISCARD TEMP;
SELECT count(*) FROM z;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA temp_test CASCADE;
