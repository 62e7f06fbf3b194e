SET default_table_access_method = zen;
--
-- wide_rows: rows of 1600 columns, of many nulls, of every alignment, and rows near the
-- largest that heap takes too.
--
CREATE SCHEMA wide_rows;
SET search_path = wide_rows, public;

-- 1600 integers
DO $$ BEGIN
  EXECUTE 'CREATE TABLE wide_rows.w (' || (SELECT string_agg(format('c%s int', g), ', ' ORDER BY g)
    FROM generate_series(1, 1600) g) || ')';
  EXECUTE 'INSERT INTO wide_rows.w SELECT ' || (SELECT string_agg(format('g * %s', g), ', ' ORDER BY g)
    FROM generate_series(1, 1600) g) || ' FROM generate_series(1, 20) g';
END $$;
SELECT c1, c2, c800, c1599, c1600 FROM w ORDER BY c1;
SELECT sum(c1), sum(c777), sum(c1600) FROM w;
UPDATE w SET c1600 = -c1600 WHERE c1 % 2 = 0;
UPDATE w SET c1 = c1 + 100, c900 = NULL WHERE c1 > 15;
SELECT c1, c899, c900, c901, c1600 FROM w WHERE c1 > 10 ORDER BY c1;
INSERT INTO w (c5) VALUES (5);
INSERT INTO w (c1600) VALUES (1600);
INSERT INTO w DEFAULT VALUES;
SELECT count(*), count(c1), count(c5), count(c1600) FROM w;
DELETE FROM w WHERE c1 IS NULL AND c5 IS NULL AND c1600 IS NULL;
SELECT count(*) FROM w WHERE w IS NULL;
CREATE INDEX w_i ON w (c1600, c1);
SET enable_seqscan = off;
SELECT c1, c5, c1600 FROM w WHERE c1600 >= 1600 ORDER BY c1600 LIMIT 3;
RESET enable_seqscan;
ALTER TABLE w ADD COLUMN c1601 int;
ALTER TABLE w DROP COLUMN c3;
UPDATE w SET c4 = 44 WHERE c1 = 1;
SELECT c1, c2, c4, c5 FROM w WHERE c1 < 3 ORDER BY c1;
VACUUM FULL w;
SELECT count(*), sum(c777), sum(c1600), sum(c4) FROM w;

-- every alignment next to every other, with and without nulls
CREATE TABLE al (id int, b1 bool, i2 int2, b2 bool, i8 int8, c1 "char", f4 float4, t1 text, f8 float8, b3 bool, n name,
	t2 text, i4 int4, u uuid, i2b int2, d date, ts timestamp, t3 varchar(3));
INSERT INTO al SELECT g, g % 2 = 0, g, true, g * 10000000000, 'x', g + 0.5, repeat('a', g), g + 0.25, false, 'n' || g,
	repeat('b', g * 2), -g, md5(g::text)::uuid, -g, date '2020-01-01' + g, timestamp '2020-01-01' + g * interval '1 s',
	'abc'
  FROM generate_series(0, 10) g;
INSERT INTO al SELECT g, NULLIF(g % 3, 0) = 1, CASE WHEN g % 2 = 0 THEN g END, NULL, CASE WHEN g % 5 = 0 THEN g END,
	NULL, NULL, CASE WHEN g % 2 = 1 THEN 't' END, g, NULL, NULL, 'z', CASE WHEN g % 4 = 0 THEN g END, NULL, g, NULL,
	NULL, NULL
  FROM generate_series(11, 20) g;
SELECT * FROM al WHERE id IN (0, 3, 10, 11, 15, 20) ORDER BY id;
UPDATE al SET b1 = NOT b1, t1 = NULL WHERE id % 2 = 0;
UPDATE al SET i8 = 1, t2 = repeat('q', 130) WHERE id % 3 = 0;
SELECT id, b1, i2, b2, i8, c1, f4, length(t1) AS t1, f8, b3, n, length(t2) AS t2, i4, i2b, d, t3 FROM al ORDER BY id;
SELECT count(*) FROM al a JOIN al b ON a = b OR (a IS NOT DISTINCT FROM b);

-- rows filling whole pages with values that are not toasted
CREATE TABLE fat (id int, a char(1500), b char(1500), c char(1500), d char(1500), e char(1500));
ALTER TABLE fat ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN, ALTER c SET STORAGE PLAIN,
	ALTER d SET STORAGE PLAIN, ALTER e SET STORAGE PLAIN;
INSERT INTO fat SELECT g, 'a' || g, 'b' || g, 'c' || g, 'd' || g, 'e' || g FROM generate_series(1, 100) g;
UPDATE fat SET c = 'u' || id WHERE id % 3 = 0;
DELETE FROM fat WHERE id % 4 = 0;
SELECT count(*), sum(length(a)), count(*) FILTER (WHERE rtrim(c) = 'u' || id),
	count(*) FILTER (WHERE rtrim(e) = 'e' || id) FROM fat;
CREATE TABLE plain (id int, v text);
ALTER TABLE plain ALTER v SET STORAGE PLAIN;
INSERT INTO plain SELECT g, repeat('p', g) FROM generate_series(1, 8100, 27) g;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat('p', id)) FROM plain;
UPDATE plain SET v = repeat('q', 8100 - id) WHERE id < 8100;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat('q', 8100 - id)) FROM plain;
UPDATE plain SET id = -id WHERE id % 2 = 0;
DELETE FROM plain WHERE id % 5 = 0;
SELECT count(*), sum(length(v)) FROM plain;
-- rows of very different width, growing in every update
CREATE TABLE grow (id int PRIMARY KEY, v text);
INSERT INTO grow SELECT g, '' FROM generate_series(1, 50) g;
DO $$ BEGIN FOR i IN 1..60 LOOP UPDATE wide_rows.grow SET v = v || repeat(chr(64 + id % 26), id) WHERE id % 5 = i % 5;
	COMMIT; END LOOP; END $$;
SELECT count(*), sum(length(v)), count(*) FILTER (WHERE v = repeat(chr(64 + id % 26), length(v))
	AND length(v) = 12 * id) FROM grow;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA wide_rows CASCADE;
