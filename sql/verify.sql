SET default_table_access_method = zen;
--
-- verify: zen_verify() and zen_verify_pool() find nothing wrong with tables and indexes of all kinds, whatever was done
-- to them; errors; who may call them.  That they do find what is wrong is shown by t/600_verify.pl.
--
CREATE SCHEMA verify;
SET search_path = verify, public;

-- the columns
SELECT * FROM zen_verify('pg_class') \gdesc
SELECT * FROM zen_verify_pool() \gdesc

-- one row with many kinds of indexes
CREATE TABLE t (id int PRIMARY KEY, n numeric, s text, nm name, f float8, a int[], p point, r int4range, d date,
   big text, UNIQUE (s, n), EXCLUDE USING gist (r WITH &&));
CREATE INDEX t_incl ON t (d) INCLUDE (s, nm);
CREATE INDEX t_nm ON t (nm);
CREATE INDEX t_multi ON t (n DESC NULLS FIRST, s);
CREATE INDEX t_expr ON t (lower(s), (n + 1));
CREATE INDEX t_partial ON t (f) WHERE id % 3 = 0;
CREATE INDEX t_partial_hash ON t USING hash (n) WHERE s IS NOT NULL;
CREATE INDEX t_hash ON t USING hash (s);
CREATE INDEX t_hash_few ON t USING hash (d);
CREATE INDEX t_gin ON t USING gin (a);
CREATE INDEX t_gist ON t USING gist (p);
CREATE INDEX t_spgist ON t USING spgist (p);
CREATE INDEX t_spgist_text ON t USING spgist (s);
CREATE INDEX t_brin ON t USING brin (id, s, f) WITH (pages_per_range = 2);
CREATE INDEX t_brin_bloom ON t USING brin (n numeric_bloom_ops) WITH (pages_per_range = 3);
CREATE INDEX t_brin_incl ON t USING brin (r range_inclusion_ops) WITH (pages_per_range = 1, autosummarize = off);
CREATE INDEX t_big ON t (big) WHERE length(big) < 2000;
CREATE INDEX t_big_md5 ON t (md5(big));
SELECT * FROM zen_verify('t');
INSERT INTO t SELECT g, g / 7.0, 's' || g % 1000, 'name' || g, g / 3.0, ARRAY[g, g % 10, NULL], point(g % 100, g / 100),
   int4range(g * 2, g * 2 + 1), date '2000-01-01' + g % 5, repeat(md5(g::text), g % 200)
   FROM generate_series(1, 3000) g;
INSERT INTO t (id) SELECT g FROM generate_series(3001, 3100) g;
INSERT INTO t (id, a) VALUES (3101, '{}');
SELECT * FROM zen_verify('t');
SELECT brin_summarize_new_values('t_brin') > 0, brin_summarize_new_values('t_brin_bloom') > 0,
	brin_summarize_new_values('t_brin_incl') > 0;
-- of indexed columns and others; the same value again; some twice in a transaction
UPDATE t SET f = f + 1 WHERE id % 5 = 0;
UPDATE t SET big = big || 'x' WHERE id % 7 = 0;
UPDATE t SET n = n, s = s WHERE id % 11 = 0;
UPDATE t SET n = n + 0.00 WHERE id % 13 = 0;
BEGIN;
UPDATE t SET s = s || 'x' WHERE id % 17 = 0;
SELECT * FROM zen_verify('t');
UPDATE t SET s = s || 'y' WHERE id % 17 = 0;
DELETE FROM t WHERE id % 34 = 0;
SELECT * FROM zen_verify('t');
COMMIT;
SELECT * FROM zen_verify('t');
-- rolled back, with savepoints
BEGIN;
DELETE FROM t WHERE id % 3 = 0;
SAVEPOINT a;
INSERT INTO t (id, s) SELECT g, 'rolled back' FROM generate_series(4000, 5000) g;
SAVEPOINT b;
UPDATE t SET id = -id;
SELECT * FROM zen_verify('t');
ROLLBACK TO b;
SELECT * FROM zen_verify('t');
ROLLBACK TO a;
SELECT * FROM zen_verify('t');
SELECT * FROM zen_verify_pool();
COMMIT;
SELECT * FROM zen_verify('t');
BEGIN;
UPDATE t SET id = -id;
DELETE FROM t WHERE id < -1000;
ROLLBACK;
SELECT * FROM zen_verify('t');
-- dead rows are left in the indexes, then removed, their addresses used again
DELETE FROM t WHERE id % 2 = 0;
SELECT * FROM zen_verify('t');
VACUUM t;
SELECT * FROM zen_verify('t');
INSERT INTO t (id, s, n) SELECT g, 'again' || g, g FROM generate_series(10000, 12000) g;
INSERT INTO t (id) VALUES (1) ON CONFLICT DO NOTHING;
INSERT INTO t (id, s) VALUES (3, 'conflict') ON CONFLICT (id) DO UPDATE SET s = excluded.s;
SELECT * FROM zen_verify('t');
VACUUM FULL t;
SELECT * FROM zen_verify('t');
CLUSTER t USING t_incl;
REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY t;
CREATE INDEX CONCURRENTLY t_f ON t (f);
SELECT * FROM zen_verify('t');
ALTER TABLE t ADD COLUMN e int DEFAULT 7, DROP COLUMN p;
CREATE INDEX t_e ON t (e);
ALTER TABLE t ALTER d TYPE timestamp;
SELECT * FROM zen_verify('t');
SELECT * FROM zen_verify_pool();
TRUNCATE t;
SELECT * FROM zen_verify('t');
BEGIN;
TRUNCATE t;
INSERT INTO t (id) VALUES (1);
SELECT * FROM zen_verify('t');
SELECT * FROM zen_verify_pool();
ROLLBACK;
-- at any isolation level; the table is the transaction's own
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM t;
CREATE TABLE own (id int PRIMARY KEY, v text);
INSERT INTO own SELECT g, repeat('v', g) FROM generate_series(1, 100) g;
CREATE INDEX ON own (v);
DELETE FROM own WHERE id > 90;
SELECT * FROM zen_verify('own');
TRUNCATE own;
SELECT * FROM zen_verify('own');
COPY own FROM stdin (FREEZE);
1	one
2	two
\.
SELECT * FROM zen_verify('own');
SELECT * FROM zen_verify_pool();
COMMIT;
SELECT * FROM zen_verify('own');
SELECT * FROM zen_verify_pool();
BEGIN;
DROP TABLE own;
SELECT * FROM zen_verify_pool();
ROLLBACK;
DROP TABLE own;

-- one row many times over; toast tables, partitions, materialized views
CREATE TABLE hot (id int PRIMARY KEY, v int);
INSERT INTO hot VALUES (1, 0);
DO $$ BEGIN FOR i IN 1 .. 3000 LOOP UPDATE hot SET v = i; END LOOP; END $$;
DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE hot SET v = i; COMMIT; END LOOP; END $$;
SELECT * FROM zen_verify('hot');
CREATE TABLE wide (id int, v text);
ALTER TABLE wide ALTER v SET STORAGE EXTERNAL;
INSERT INTO wide SELECT g, repeat(md5(g::text), 300) FROM generate_series(1, 50) g;
UPDATE wide SET v = v || 'x' WHERE id < 20;
DELETE FROM wide WHERE id > 40;
SELECT * FROM zen_verify('wide');
SELECT v.* FROM pg_class c, zen_verify(c.reltoastrelid) v WHERE c.oid = 'wide'::regclass;
CREATE TABLE part (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (100) TO (200);
INSERT INTO part SELECT g, 'v' FROM generate_series(0, 199) g;
DELETE FROM part WHERE id = 150;
UPDATE part SET id = 150 WHERE id = 50;
SELECT * FROM zen_verify('part1') UNION ALL SELECT * FROM zen_verify('part2');
CREATE MATERIALIZED VIEW mv AS SELECT id, v FROM part;
CREATE UNIQUE INDEX ON mv (id);
REFRESH MATERIALIZED VIEW mv;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT * FROM zen_verify('mv');
SELECT * FROM zen_verify_pool();

-- moved twice, once rolled back
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE verify_a LOCATION '';
CREATE TABLESPACE verify_b LOCATION '';
BEGIN;
ALTER TABLE hot SET TABLESPACE verify_a;
SAVEPOINT a;
ALTER TABLE hot SET TABLESPACE verify_b;
SAVEPOINT b;
ALTER TABLE hot SET TABLESPACE pg_default;
ROLLBACK TO a;
SELECT * FROM hot;
SELECT * FROM zen_verify_pool();
COMMIT;
SELECT * FROM hot;
SELECT * FROM zen_verify('hot');
SELECT * FROM zen_verify_pool();
BEGIN;
SAVEPOINT a;
ALTER TABLE hot SET TABLESPACE verify_b;
ROLLBACK TO a;
COMMIT;
SELECT * FROM hot;
ALTER TABLE hot SET TABLESPACE pg_default;
SELECT * FROM zen_verify_pool();
DROP TABLESPACE verify_a;
DROP TABLESPACE verify_b;

-- an error or a cancel in the middle ends the statement, and nothing else
CREATE TABLE angry (id int PRIMARY KEY, v text);
INSERT INTO angry SELECT g, 'v' || g FROM generate_series(1, 10) g;
CREATE FUNCTION angry(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
   IF current_setting('verify.angry', true) = 'raise' THEN
      RAISE 'angry';
   ELSIF current_setting('verify.angry', true) = 'cancel' THEN
      PERFORM pg_cancel_backend(pg_backend_pid());
      PERFORM pg_sleep(10);
   END IF;
   RETURN $1;
END $$;
CREATE INDEX ON angry (angry(v));
\set VERBOSITY terse
SET verify.angry = 'raise';
SELECT * FROM zen_verify('angry');
SELECT count(*) FROM angry;
BEGIN;
DELETE FROM angry WHERE id = 1;
SAVEPOINT a;
DELETE FROM angry WHERE id = 2;
SELECT * FROM zen_verify('angry');
SELECT 1;
ROLLBACK TO a;
SELECT count(*) FROM angry;
SET LOCAL verify.angry = 'cancel';
SELECT * FROM zen_verify('angry');
ROLLBACK TO a;
SELECT count(*) FROM angry;
COMMIT;
DO $$ BEGIN PERFORM zen_verify('angry'); EXCEPTION WHEN raise_exception THEN RAISE NOTICE 'caught %', SQLERRM; END $$;
SET verify.angry = 'cancel';
SELECT * FROM zen_verify('angry');
SELECT count(*) FROM angry;
RESET verify.angry;
SELECT * FROM zen_verify('angry');
\set VERBOSITY default

-- all of them
SELECT count(*) FROM zen_stat_tables z, zen_verify(z.relid);

-- errors
CREATE TABLE h (id int PRIMARY KEY) USING heap;
CREATE VIEW w AS SELECT 1;
CREATE SEQUENCE seq;
SELECT * FROM zen_verify('h');
SELECT * FROM zen_verify('w');
SELECT * FROM zen_verify('seq');
SELECT * FROM zen_verify('part');
SELECT * FROM zen_verify('hot_pkey');
SELECT * FROM zen_verify('nothing');
SELECT * FROM zen_verify(1);
SELECT * FROM zen_verify(NULL);
SELECT zen_verify('hot');
CREATE ROLE zen_verify_nobody;
GRANT USAGE ON SCHEMA verify TO zen_verify_nobody;
SET ROLE zen_verify_nobody;
SELECT * FROM zen_verify('hot');
SELECT * FROM zen_verify_pool();
RESET ROLE;
-- who may call it reads no more than findings; functions in indexes run as the table's owner
GRANT EXECUTE ON FUNCTION zen_verify(regclass), zen_verify_pool() TO zen_verify_nobody;
CREATE FUNCTION who(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
   $$ BEGIN IF current_user = 'zen_verify_nobody' THEN RAISE 'not as the caller'; END IF; RETURN 'x' || $1; END $$;
CREATE INDEX hot_who ON hot (who(id));
SET ROLE zen_verify_nobody;
SELECT * FROM zen_verify('hot');
SELECT current_user;
SELECT * FROM zen_verify_pool();
RESET ROLE;
REVOKE ALL ON FUNCTION zen_verify(regclass), zen_verify_pool() FROM zen_verify_nobody;

DROP SCHEMA verify CASCADE;
DROP ROLE zen_verify_nobody;
SELECT * FROM zen_verify_pool();
