SET default_table_access_method = zen;
--
-- ddl_rollback: CREATE, DROP, ALTER, TRUNCATE and CREATE INDEX of tables that hold rows,
-- committed, rolled back, and rolled back in part.
--
CREATE SCHEMA ddl;
SET search_path = ddl, public;

CREATE TABLE keep (id int PRIMARY KEY, v text);
INSERT INTO keep SELECT g, 'v' || g FROM generate_series(1, 500) g;
-- DROP TABLE
BEGIN;
DROP TABLE keep;
SELECT to_regclass('keep');
ROLLBACK;
SELECT count(*), sum(id) FROM keep;
BEGIN;
UPDATE keep SET v = 'u' WHERE id <= 10;
SAVEPOINT a;
DROP TABLE keep;
CREATE TABLE keep (other int);
INSERT INTO keep VALUES (1);
SELECT * FROM keep;
ROLLBACK TO a;
SELECT count(*) FROM keep WHERE v = 'u';
COMMIT;
SELECT count(*), count(*) FILTER (WHERE v = 'u') FROM keep;
-- CREATE TABLE undone, and a name used again
BEGIN;
CREATE TABLE gone (id int PRIMARY KEY, v text);
INSERT INTO gone SELECT g, repeat('x', 3000) FROM generate_series(1, 200) g;
ROLLBACK;
SELECT to_regclass('gone');
CREATE TABLE gone (id int PRIMARY KEY);
SELECT count(*) FROM gone;
INSERT INTO gone VALUES (1);
BEGIN;
DROP TABLE gone;
CREATE TABLE gone (id text PRIMARY KEY);
INSERT INTO gone VALUES ('text');
COMMIT;
SELECT * FROM gone;
BEGIN;
CREATE TABLE short (id int);
INSERT INTO short VALUES (1);
DROP TABLE short;
COMMIT;
SELECT to_regclass('short');
-- failed statements
CREATE TABLE bad AS SELECT 1 / (5 - g) AS x FROM generate_series(1, 10) g;
SELECT to_regclass('bad');
BEGIN;
SAVEPOINT a;
CREATE TABLE bad (id int PRIMARY KEY);
INSERT INTO bad VALUES (1), (1);
ROLLBACK TO a;
CREATE TABLE bad (id int);
INSERT INTO bad VALUES (1), (1);
COMMIT;
SELECT count(*) FROM bad;
-- indexes
BEGIN;
CREATE INDEX keep_v ON keep (v);
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM keep WHERE v = 'u';
ROLLBACK;
SELECT to_regclass('keep_v');
CREATE INDEX keep_v ON keep (v);
BEGIN;
INSERT INTO keep VALUES (1001, 'between');
DROP INDEX keep_v;
INSERT INTO keep VALUES (1002, 'between');
UPDATE keep SET v = 'moved' WHERE id = 5;
ROLLBACK;
SET enable_seqscan = off;
SELECT count(*) FROM keep WHERE v = 'between';
SELECT count(*) FROM keep WHERE v = 'u';
RESET enable_seqscan;
BEGIN;
DROP INDEX keep_v;
UPDATE keep SET v = 'no index' WHERE id <= 5;
SAVEPOINT a;
CREATE INDEX keep_v ON keep (v);
ROLLBACK TO a;
UPDATE keep SET v = v || '!' WHERE id <= 5;
CREATE INDEX keep_v ON keep (v);
UPDATE keep SET v = v || '!' WHERE id <= 2;
COMMIT;
SET enable_seqscan = off;
SELECT id, v FROM keep WHERE v LIKE 'no index%' AND v > 'n' ORDER BY v, id;
RESET enable_seqscan;
REINDEX TABLE keep;
BEGIN;
REINDEX TABLE keep;
UPDATE keep SET v = 'during reindex' WHERE id = 3;
ROLLBACK;
SELECT v FROM keep WHERE id = 3;
-- ALTER TABLE with and without rewrite
BEGIN;
ALTER TABLE keep ALTER id TYPE bigint, ADD COLUMN r float8 DEFAULT random();
INSERT INTO keep VALUES (5000000000, 'big');
SELECT count(*), count(r), max(id) FROM keep;
SAVEPOINT a;
ALTER TABLE keep DROP COLUMN v;
ALTER TABLE keep ALTER r TYPE text USING 'r';
SELECT count(*), min(r), max(r) FROM keep;
ROLLBACK TO a;
SELECT count(*), count(v) FROM keep;
ROLLBACK;
SELECT count(*), count(v), max(id) FROM keep;
SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'keep'::regclass AND attnum > 0 ORDER BY attnum;
BEGIN;
ALTER TABLE keep ADD COLUMN n int NOT NULL DEFAULT 5;
UPDATE keep SET n = 6 WHERE id = 1;
ROLLBACK;
SELECT * FROM keep WHERE id IN (1, 20) ORDER BY id;
BEGIN;
ALTER TABLE keep RENAME TO kept;
ALTER TABLE kept RENAME v TO w;
UPDATE kept SET w = 'renamed' WHERE id = 30;
COMMIT;
SELECT * FROM kept WHERE id = 30;
ALTER TABLE kept RENAME TO keep;
ALTER TABLE keep RENAME w TO v;
-- DROP SCHEMA
CREATE SCHEMA inner_s;
CREATE TABLE inner_s.a (id int PRIMARY KEY, v text);
CREATE TABLE inner_s.b (id int REFERENCES inner_s.a) USING heap;
CREATE TABLE inner_s.c (id int REFERENCES inner_s.a);
INSERT INTO inner_s.a SELECT g, repeat('a', 4000) FROM generate_series(1, 20) g;
INSERT INTO inner_s.b SELECT g FROM generate_series(1, 20) g;
INSERT INTO inner_s.c SELECT g FROM generate_series(1, 20) g;
SET client_min_messages = warning;
BEGIN;
DROP SCHEMA inner_s CASCADE;
SELECT to_regclass('inner_s.a');
ROLLBACK;
SELECT (SELECT sum(length(v)) FROM inner_s.a), (SELECT count(*) FROM inner_s.b), (SELECT count(*) FROM inner_s.c);
BEGIN;
SAVEPOINT a;
DROP SCHEMA inner_s CASCADE;
ROLLBACK TO a;
DELETE FROM inner_s.c WHERE id > 10;
COMMIT;
SELECT count(*) FROM inner_s.c;
DROP SCHEMA inner_s CASCADE;
RESET client_min_messages;
SELECT to_regclass('inner_s.a');
-- DROP OWNED, and a table dropped together with what depends on it
CREATE TABLE base (id int PRIMARY KEY);
CREATE VIEW dep AS SELECT * FROM base;
DROP TABLE base;
BEGIN;
DROP TABLE base CASCADE;
ROLLBACK;
INSERT INTO base VALUES (1);
SELECT * FROM dep;
DROP TABLE base CASCADE;
SELECT to_regclass('dep');
-- many tables made and dropped, with rows, in and out of subtransactions
DO $$
BEGIN
  FOR i IN 1..40 LOOP
    EXECUTE format('CREATE TABLE ddl.tmp%s (id int PRIMARY KEY, v text)', i);
    EXECUTE format('INSERT INTO ddl.tmp%s SELECT g, repeat(''y'', 100) FROM generate_series(1, 50) g', i);
    BEGIN
      EXECUTE format('DROP TABLE ddl.tmp%s', i);
      IF i % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
  END LOOP;
END $$;
SELECT count(*) FROM pg_class WHERE relnamespace = 'ddl'::regnamespace AND relkind = 'r' AND relname LIKE 'tmp%';
SELECT count(*), sum(length(v)) FROM tmp40;
DO $$ BEGIN FOR i IN 2..40 BY 2 LOOP EXECUTE format('DROP TABLE ddl.tmp%s', i); END LOOP; ROLLBACK; END $$;
SELECT count(*), sum(length(v)) FROM tmp40;
DO $$ BEGIN FOR i IN 2..40 BY 2 LOOP EXECUTE format('DROP TABLE ddl.tmp%s', i); COMMIT; END LOOP; END $$;
SELECT to_regclass('tmp40');

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA ddl CASCADE;
