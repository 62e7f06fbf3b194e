SET default_table_access_method = zen;
--
-- bulk_insert: rows of CREATE TABLE AS, REFRESH and rewrites wait for each other, up to 64; nobody may notice.
--
CREATE SCHEMA bulk_insert;
SET search_path = bulk_insert, public;
CREATE FUNCTION seen(name text, OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*) FROM %I', name) INTO n;
END $$;
-- what a function saw of a table that was being filled: each row that came before
CREATE FUNCTION seen_right(name text, OUT n bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*), count(*) FILTER (WHERE s <> g - 1) FROM %I', name) INTO n, wrong;
END $$;

-- the query reads the table that it fills, as heap lets it
CREATE TABLE filled_heap USING heap AS SELECT g, seen('filled_heap') AS s FROM generate_series(1, 200) g;
CREATE TABLE filled USING zen AS SELECT g, seen('filled') AS s FROM generate_series(1, 200) g;
SELECT * FROM seen_right('filled_heap');
SELECT * FROM seen_right('filled');
CREATE FUNCTION seen_static(OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT count(*) FROM kept INTO n;
END $$;
CREATE TABLE kept USING zen AS SELECT g, seen_static() AS s FROM generate_series(1, 200) g;
SELECT * FROM seen_right('kept');
-- in parallel, too
CREATE FUNCTION seen_in_parallel(OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT count(*) FROM shared INTO n;
END $$;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE TABLE shared USING zen AS SELECT g, seen_in_parallel() AS s FROM generate_series(1, 70) g;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SELECT * FROM seen_right('shared');
-- and writes to it
CREATE FUNCTION adds(OUT changed int) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO added VALUES (-1, 0);
  UPDATE added SET n = n + 1 WHERE g = -1 OR g % 30 = 0;
  GET DIAGNOSTICS changed = ROW_COUNT;
END $$;
CREATE TABLE added USING zen AS SELECT g, adds() AS n FROM generate_series(1, 70) g;
SELECT count(*), sum(g), sum(n) FROM added;
DROP TABLE added;
CREATE TABLE added USING heap AS SELECT g, adds() AS n FROM generate_series(1, 70) g;
SELECT count(*), sum(g), sum(n) FROM added;
-- not in a subtransaction
CREATE FUNCTION seen_in_block(OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT count(*) FROM blocked INTO n;
EXCEPTION WHEN division_by_zero THEN
  n := -1;
END $$;
\set VERBOSITY sqlstate
CREATE TABLE blocked USING zen AS SELECT g, seen_in_block() FROM generate_series(1, 3) g;
\set VERBOSITY default
SELECT to_regclass('blocked');
CREATE FUNCTION caught(OUT n int) LANGUAGE plpgsql AS $$
BEGIN
  n := 1 / 0;
EXCEPTION WHEN division_by_zero THEN
  n := -1;
END $$;
CREATE TABLE around USING zen AS SELECT g, caught() AS n FROM generate_series(1, 200) g;
SELECT count(*), sum(g), sum(n) FROM around;

-- one table is filled while another is
CREATE FUNCTION fills(i int, OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE inner_%s USING zen AS SELECT g FROM generate_series(1, 100) g', i);
  EXECUTE format('SELECT count(*) FROM inner_%s', i) INTO n;
END $$;
CREATE TABLE outer_one USING zen AS SELECT g, fills(g) AS n FROM generate_series(1, 3) g;
SELECT * FROM outer_one ORDER BY g;
SELECT count(*) FROM inner_2;

-- many rows, long values, savepoints, prepared transactions
CREATE TABLE source (id int, s text) WITH (autovacuum_enabled = off);
INSERT INTO source SELECT g, repeat(md5(g::text), 1 + (g % 500 = 0)::int * 200) FROM generate_series(1, 20000) g;
CREATE FUNCTION sums(name text, OUT n bigint, OUT ids bigint, OUT texts bigint, OUT hash bigint) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*), sum(id), sum(length(s)), sum(hashtext(s)) FROM %I', name) INTO n, ids, texts, hash;
END $$;
SELECT rows_spilled AS b_rows_spilled FROM zen_stat \gset
CREATE TABLE copied USING zen AS SELECT * FROM source;
SELECT rows_spilled - :b_rows_spilled > 10000 AS spilled FROM zen_stat;
SELECT sums('source') = sums('copied') AS same;
BEGIN;
SAVEPOINT a;
SELECT * INTO undone FROM source;
SELECT sums('source') = sums('undone') AS same;
ROLLBACK TO a;
SELECT to_regclass('undone');
CREATE TABLE undone AS SELECT * FROM source LIMIT 100;
SELECT count(*) FROM undone;
COMMIT;
SELECT count(*) FROM undone;
BEGIN;
CREATE TABLE failed AS SELECT 1 / (id - 50) AS x FROM source;
ROLLBACK;
CREATE TABLE failed AS SELECT id AS x FROM source LIMIT 10;
SELECT count(*), sum(x) FROM failed;
-- refreshed: rows that every snapshot is to see
CREATE MATERIALIZED VIEW v USING zen AS SELECT * FROM source;
SELECT sums('source') = sums('v') AS same;
UPDATE source SET s = s || 'x' WHERE id % 3 = 0;
SELECT rows_spilled AS b_rows_spilled FROM zen_stat \gset
REFRESH MATERIALIZED VIEW v;
SELECT rows_spilled - :b_rows_spilled > 10000 AS spilled FROM zen_stat;
SELECT sums('source') = sums('v') AS same;
BEGIN;
DELETE FROM source WHERE id > 10000;
REFRESH MATERIALIZED VIEW v;
SELECT sums('source') = sums('v') AS same;
ROLLBACK;
SELECT sums('source') = sums('v') AS same;
-- rewritten
ALTER TABLE copied ALTER id TYPE bigint, ADD COLUMN r float DEFAULT random();
SELECT (sums('copied')).n, count(DISTINCT r) > 19000 AS random FROM copied;
BEGIN;
ALTER TABLE copied ALTER id TYPE text USING id::text;
ROLLBACK;
ALTER TABLE copied ADD CHECK (id > 0), ALTER id TYPE int;
SELECT (sums('copied')).ids = (SELECT sum(id) FROM source) AS same;
SELECT count(*) FROM zen_verify('copied');
SELECT count(*) FROM zen_verify('v');
-- rows of COPY that are inserted one by one, for the default of a column
BEGIN;
CREATE TABLE one_by_one (id int, s bigint DEFAULT seen('one_by_one'));
COPY one_by_one (id) FROM stdin;
1
2
3
\.
SELECT * FROM one_by_one ORDER BY id;
COMMIT;
\set VERBOSITY terse
DROP SCHEMA bulk_insert CASCADE;
