SET default_table_access_method = zen;
--
-- alter_table: columns added, dropped and retyped, with and without rewrite, before and
-- after rows of each shape; constraints validated against stored rows.
--
CREATE SCHEMA alt;
SET search_path = alt, public;

CREATE FUNCTION rewrites(cmd text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE before oid; after oid;
BEGIN
  SELECT relfilenode INTO before FROM pg_class WHERE oid = 'alt.t'::regclass;
  EXECUTE cmd;
  SELECT relfilenode INTO after FROM pg_class WHERE oid = 'alt.t'::regclass;
  RETURN before <> after;
END $$;
CREATE TABLE t (id int PRIMARY KEY, a int);
INSERT INTO t SELECT g, g * 10 FROM generate_series(1, 5) g;
-- columns added with a constant default need no rewrite, old rows show it
SELECT rewrites('ALTER TABLE alt.t ADD COLUMN b int');
SELECT rewrites('ALTER TABLE alt.t ADD COLUMN c text DEFAULT ''fast''');
SELECT rewrites('ALTER TABLE alt.t ADD COLUMN d int NOT NULL DEFAULT 7');
INSERT INTO t VALUES (6, 60);
INSERT INTO t VALUES (7, 70, 1, NULL, 8);
UPDATE t SET a = a + 1 WHERE id = 1;
UPDATE t SET c = c || '!' WHERE id = 2;
SELECT * FROM t ORDER BY id;
SELECT id FROM t WHERE c IS NULL OR d IS NULL OR b IS NOT NULL ORDER BY id;
ALTER TABLE t ALTER c SET DEFAULT 'later';
ALTER TABLE t ALTER d DROP DEFAULT;
INSERT INTO t (id, d) VALUES (8, 1);
SELECT id, c, d FROM t WHERE id > 4 ORDER BY id;
CREATE INDEX t_c ON t (c);
SET enable_seqscan = off;
SELECT id FROM t WHERE c = 'fast' ORDER BY id;
RESET enable_seqscan;
SELECT t FROM t WHERE id = 3;
BEGIN;
ALTER TABLE t ADD COLUMN e int DEFAULT 99;
UPDATE t SET e = 100 WHERE id = 3;
SELECT id, e FROM t WHERE id IN (3, 4) ORDER BY id;
ROLLBACK;
-- columns dropped: gone from old rows and new
ALTER TABLE t DROP COLUMN a;
SELECT * FROM t ORDER BY id;
INSERT INTO t VALUES (9, 90, 'after drop', 9);
UPDATE t SET b = 5 WHERE id = 5;
ALTER TABLE t ADD COLUMN a text DEFAULT 'new a';
SELECT * FROM t ORDER BY id;
-- rewrites
SELECT rewrites('ALTER TABLE alt.t ADD COLUMN s serial');
SELECT count(DISTINCT s), min(s), max(s) FROM t;
ALTER TABLE t DROP COLUMN s;
SELECT rewrites('ALTER TABLE alt.t ADD COLUMN r float8 DEFAULT random()');
SELECT count(DISTINCT r) FROM t;
SELECT rewrites('ALTER TABLE alt.t ALTER id TYPE bigint');
SELECT rewrites('ALTER TABLE alt.t ALTER b TYPE text USING ''b'' || coalesce(b, 0)');
SELECT rewrites('ALTER TABLE alt.t ALTER c TYPE varchar(20)');
SELECT rewrites('ALTER TABLE alt.t ALTER c TYPE varchar(30)');
SELECT rewrites('ALTER TABLE alt.t ALTER c TYPE text');
SELECT rewrites('ALTER TABLE alt.t ALTER d TYPE int USING d * 2');
SELECT id, b, c, d, a FROM t ORDER BY id;
SET enable_seqscan = off;
SELECT id, c FROM t WHERE id BETWEEN 2 AND 4 ORDER BY id;
SELECT id FROM t WHERE c = 'fast' ORDER BY id;
RESET enable_seqscan;
INSERT INTO t (id, b, c, d) VALUES (10000000000, 'b', 'c', 1);
INSERT INTO t (id, d) VALUES (1, 1);
-- a rewrite that fails leaves the old table
ALTER TABLE t ALTER b TYPE int USING b::int;
ALTER TABLE t ALTER d TYPE int USING 1 / (d - 14);
ALTER TABLE t ALTER id TYPE int;
SELECT count(*), sum(d) FROM t;
UPDATE t SET d = 0 WHERE id = 10000000000;
-- several changes at once, with rows changed before and after in one transaction
BEGIN;
UPDATE t SET d = -1 WHERE id = 2;
DELETE FROM t WHERE id = 3;
INSERT INTO t (id, d) VALUES (300, 3);
ALTER TABLE t ALTER d TYPE numeric, ADD COLUMN g int GENERATED ALWAYS AS (id % 10) STORED, DROP COLUMN r,
	ALTER b SET NOT NULL;
ALTER TABLE t ALTER d TYPE numeric, ADD COLUMN g int;
ROLLBACK;
BEGIN;
UPDATE t SET d = -1 WHERE id = 2;
DELETE FROM t WHERE id = 3;
INSERT INTO t (id, d) VALUES (300, 3);
ALTER TABLE t ALTER d TYPE numeric, ADD COLUMN g int GENERATED ALWAYS AS (id % 10) STORED, DROP COLUMN r;
UPDATE t SET d = d / 2 WHERE id = 2;
SAVEPOINT a;
ALTER TABLE t ALTER d TYPE text;
UPDATE t SET d = 'text';
ROLLBACK TO a;
COMMIT;
SELECT id, d, g FROM t ORDER BY id;
-- SET NOT NULL, CHECK, validated by scanning
ALTER TABLE t ALTER b SET NOT NULL;
UPDATE t SET b = 'filled' WHERE b IS NULL;
ALTER TABLE t ALTER b SET NOT NULL;
INSERT INTO t (id, b, d) VALUES (400, NULL, 1);
ALTER TABLE t ADD CONSTRAINT pos CHECK (d > 0);
ALTER TABLE t ADD CONSTRAINT pos CHECK (d > 0) NOT VALID;
UPDATE t SET c = 'x' WHERE id = 2;
UPDATE t SET c = 'x', d = 1 WHERE id = 2;
ALTER TABLE t VALIDATE CONSTRAINT pos;
UPDATE t SET d = 1 WHERE d <= 0;
ALTER TABLE t VALIDATE CONSTRAINT pos;
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, d);
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD UNIQUE (d);
CREATE UNIQUE INDEX t_u ON t (id);
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD CONSTRAINT t_pk2 PRIMARY KEY USING INDEX t_u;
-- storage, statistics, options, owner, set schema: accepted, rows stay
ALTER TABLE t ALTER c SET STORAGE EXTERNAL, ALTER c SET STATISTICS 50, SET (fillfactor = 50, autovacuum_enabled = off);
ALTER TABLE t SET (fillfactor = 100), RESET (autovacuum_enabled);
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE SCHEMA alt2;
ALTER TABLE t SET SCHEMA alt2;
SELECT count(*) FROM alt2.t;
ALTER TABLE alt2.t SET SCHEMA alt;
-- tables with many dropped columns, and composite types that follow
CREATE TABLE dropped (a int, b int, c int, d text, e int, f int);
INSERT INTO dropped VALUES (1, 2, 3, 'd1', 5, 6), (11, 12, 13, 'd2', 15, NULL);
ALTER TABLE dropped DROP a, DROP c, DROP f;
INSERT INTO dropped VALUES (22, 'd3', 25);
ALTER TABLE dropped ADD z int DEFAULT -1;
UPDATE dropped SET e = e + 100 WHERE b < 20;
SELECT * FROM dropped ORDER BY b;
SELECT dropped FROM dropped ORDER BY b;
INSERT INTO dropped SELECT (x).* FROM dropped x WHERE b = 2;
SELECT count(*) FROM dropped;
ALTER TABLE dropped DROP b, DROP d, DROP e, DROP z;
SELECT count(*) FROM dropped;
SELECT * FROM dropped;
INSERT INTO dropped DEFAULT VALUES;
SELECT count(*) FROM dropped;
-- typed tables
CREATE TYPE ty AS (x int, y text);
CREATE TABLE typed OF ty (PRIMARY KEY (x));
INSERT INTO typed VALUES (1, 'one');
ALTER TYPE ty ADD ATTRIBUTE z int CASCADE;
INSERT INTO typed VALUES (2, 'two', 2);
ALTER TYPE ty ALTER ATTRIBUTE y TYPE varchar CASCADE;
SELECT * FROM typed ORDER BY x;
-- domains with new constraints look into stored rows
CREATE DOMAIN small AS int;
CREATE TABLE dom (v small);
INSERT INTO dom VALUES (5), (500);
ALTER DOMAIN small ADD CHECK (VALUE < 100);
DELETE FROM dom WHERE v > 100;
ALTER DOMAIN small ADD CHECK (VALUE < 100);
INSERT INTO dom VALUES (500);
-- enum values added between
CREATE TYPE mood AS ENUM ('bad', 'good');
CREATE TABLE moods (m mood PRIMARY KEY);
INSERT INTO moods VALUES ('good'), ('bad');
ALTER TYPE mood ADD VALUE 'ok' BEFORE 'good';
INSERT INTO moods VALUES ('ok');
SELECT m FROM moods ORDER BY m;

-- parallel workers find a table that their transaction has moved, once or twice, and what it has changed there
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE alt_ts LOCATION '';
CREATE TABLE par (id int, v text) WITH (parallel_workers = 2);
INSERT INTO par SELECT g, repeat('x', 3000) FROM generate_series(1, 5000) g;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off; SET zen.executor = point, keyjoin;
BEGIN;
UPDATE par SET v = 'changed' WHERE id % 10 = 0;
ALTER TABLE par SET TABLESPACE alt_ts;
EXPLAIN (COSTS OFF) SELECT count(*), sum(length(v)) FROM par;
SELECT count(*), sum(length(v)) FROM par;
SAVEPOINT a;
ALTER TABLE par SET TABLESPACE pg_default;
SELECT count(*), sum(length(v)) FROM par;
ROLLBACK TO a;
SELECT count(*), sum(length(v)) FROM par;
SET LOCAL max_parallel_maintenance_workers = 2;
CREATE INDEX par_id ON par (id);
SELECT count(*), sum(length(v)) FROM par WHERE id > 0;
ROLLBACK;
SELECT count(*), sum(length(v)) FROM par;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET zen.executor;
RESET max_parallel_workers_per_gather; RESET parallel_leader_participation;
DROP TABLE par;
DROP TABLESPACE alt_ts;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA alt CASCADE;
DROP SCHEMA alt2;
