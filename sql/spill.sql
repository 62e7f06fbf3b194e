SET default_table_access_method = zen;
--
-- spill: transactions that take more DRAM than zen.spill_threshold. What they have written is in NVM before their
-- commit; they, and everybody else, see the same as ever.
--
CREATE SCHEMA spill;
SET search_path = spill, public;
SET zen.spill_threshold = '64kB';
CREATE TABLE t (id int PRIMARY KEY, v int, s text) WITH (autovacuum_enabled = off);
CREATE FUNCTION state(OUT n bigint, OUT ids bigint, OUT vs bigint, OUT texts bigint,
	OUT by_index bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT count(*), sum(id), sum(v), count(DISTINCT s) FROM t INTO n, ids, vs, texts;
  SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
  SELECT count(*) FROM t WHERE id > -1000000 INTO by_index;
  SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on;
END $$;
SELECT rows_spilled AS b_rows_spilled, dram_used_bytes AS b_dram_used_bytes FROM zen_stat \gset

-- inserted: rolled back, in part and in whole, then kept
BEGIN;
INSERT INTO t SELECT g, g % 100, 'row ' || g FROM generate_series(1, 20000) g;
SELECT * FROM state();
SELECT rows_spilled - :b_rows_spilled > 15000 AS spilled FROM zen_stat;
ROLLBACK;
SELECT * FROM state();
BEGIN;
INSERT INTO t SELECT g, g % 100, 'row ' || g FROM generate_series(1, 10000) g;
DECLARE before CURSOR FOR SELECT count(*), sum(id) FROM t;
SAVEPOINT a;
INSERT INTO t SELECT g, -1, 'undone ' || g FROM generate_series(10001, 15000) g;
SAVEPOINT b;
INSERT INTO t SELECT g, -2, 'kept' FROM generate_series(20001, 25000) g;
RELEASE b;
ROLLBACK TO a;
SELECT * FROM state();
SAVEPOINT c;
INSERT INTO t SELECT g, g % 100, 'row ' || g FROM generate_series(10001, 20000) g;
RELEASE c;
FETCH before;
SELECT * FROM state();
COMMIT;
SELECT * FROM state();

-- the transaction's own rows, changed after they were spilled
BEGIN;
CREATE TABLE own (id int PRIMARY KEY, v int);
INSERT INTO own SELECT g, 0 FROM generate_series(1, 5000) g;
UPDATE own SET v = v + 1 WHERE id % 2 = 0;
DELETE FROM own WHERE id % 5 = 0;
SELECT id FROM own WHERE id < 6 FOR UPDATE;
SAVEPOINT a;
UPDATE own SET v = v + 10;
DELETE FROM own WHERE id % 3 = 0;
SELECT count(*), sum(v) FROM own;
ROLLBACK TO a;
INSERT INTO own SELECT g, 100 FROM generate_series(5, 5000, 5) g ON CONFLICT (id) DO UPDATE SET v = 7;
INSERT INTO own SELECT g, 100 FROM generate_series(1, 100) g ON CONFLICT (id) DO UPDATE SET v = 7;
SELECT count(*), sum(v) FROM own;
TRUNCATE own;
SELECT count(*), sum(v) FROM own;
INSERT INTO own SELECT g, 1 FROM generate_series(1, 5000) g;
COMMIT;
SELECT count(*), sum(v) FROM own;

-- every row updated
BEGIN;
UPDATE t SET v = v + 1;
SELECT * FROM state();
SAVEPOINT a;
UPDATE t SET s = s || '!' WHERE id % 2 = 0;
SELECT * FROM state();
ROLLBACK TO a;
SELECT * FROM state();
ROLLBACK;
SELECT * FROM state();
UPDATE t SET v = v + 1, s = 'changed ' || id;
SELECT * FROM state();
-- every key, so that rows go on under other TIDs
BEGIN;
UPDATE t SET id = -id;
SELECT * FROM state();
ROLLBACK;
SELECT * FROM state();
UPDATE t SET id = -id;
UPDATE t SET id = -id;
SELECT * FROM state();
-- every row deleted
BEGIN;
DELETE FROM t WHERE id % 10 > 0;
SELECT * FROM state();
INSERT INTO t SELECT g, 0, 'new' FROM generate_series(1, 20000) g WHERE g % 10 = 1;
SELECT * FROM state();
ROLLBACK;
SELECT * FROM state();
DELETE FROM t WHERE id % 10 > 0;
SELECT * FROM state();
VACUUM t;
INSERT INTO t SELECT g, g % 100, repeat('x', g % 100) FROM generate_series(1, 20000) g WHERE g % 10 > 0;
SELECT * FROM state();

-- every row by a command of its own, with and without a savepoint
DO $$ BEGIN
  FOR i IN 20001..23000 LOOP
    INSERT INTO t VALUES (i, 1, 'one');
    BEGIN
      UPDATE t SET v = v + 1 WHERE id = i - 10000;
      IF i % 3 = 0 THEN
        RAISE EXCEPTION 'undo';
      END IF;
    EXCEPTION WHEN raise_exception THEN
      NULL;
    END;
  END LOOP;
END $$;
SELECT * FROM state();

-- in the order of another scan
UPDATE t SET v = v + 1 FROM (SELECT id AS x FROM t ORDER BY md5(id::text)) o WHERE id = x;
SELECT * FROM state();

-- rewritten tables, frozen rows, and what hangs at rows
CREATE TABLE c AS SELECT * FROM t;
SELECT count(*), sum(id), sum(v) FROM c;
ALTER TABLE c ALTER id TYPE bigint;
ALTER TABLE c ADD PRIMARY KEY (id);
BEGIN;
CLUSTER c USING c_pkey;
SELECT count(*), sum(id), sum(v) FROM c;
ROLLBACK;
CLUSTER c USING c_pkey;
VACUUM FULL c;
SELECT count(*), sum(id), sum(v) FROM c;
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
REFRESH MATERIALIZED VIEW m;
SELECT count(*), sum(id), sum(v) FROM m;
BEGIN;
CREATE TABLE f (LIKE t);
COPY f FROM PROGRAM 'seq 1 5000 | sed "s/$/,1,f/"' CSV FREEZE;
SELECT count(*), sum(id) FROM f;
SAVEPOINT a;
UPDATE f SET v = 2 WHERE id % 2 = 0;
SELECT count(*), sum(v) FROM f;
ROLLBACK TO a;
COMMIT;
SELECT count(*), sum(v) FROM f;
CREATE TABLE child (id int REFERENCES t ON DELETE CASCADE, s text);
INSERT INTO child SELECT g, repeat(md5(g::text), 200) FROM generate_series(1, 1000) g;
ALTER TABLE child ALTER s SET STORAGE EXTERNAL;
UPDATE child SET s = s || 'y';
SELECT count(*), sum(length(s)) FROM child;
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audited SELECT count(*), (SELECT count(*) FROM new_rows) FROM old_rows;
  RETURN NULL;
END $$;
CREATE TABLE audited (old_rows int, new_rows int);
CREATE TRIGGER audit AFTER UPDATE ON t REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION audit();
UPDATE t SET v = 0;
SELECT * FROM audited;
DELETE FROM t WHERE id <= 500;
SELECT count(*) FROM child;

-- prepared
BEGIN;
INSERT INTO own SELECT g, 2 FROM generate_series(5001, 10000) g;
UPDATE own SET v = v + 1 WHERE id <= 2000;
UPDATE own SET v = v + 1 WHERE id BETWEEN 1990 AND 5010;
PREPARE TRANSACTION 'spill_a';
SELECT count(*), sum(v) FROM own;
ROLLBACK PREPARED 'spill_a';
SELECT count(*), sum(v) FROM own;
BEGIN;
INSERT INTO own SELECT g, 2 FROM generate_series(5001, 10000) g;
UPDATE own SET v = v + 1 WHERE id <= 2000;
UPDATE own SET v = v + 1 WHERE id BETWEEN 1990 AND 5010;
PREPARE TRANSACTION 'spill_a';
COMMIT PREPARED 'spill_a';
SELECT count(*), sum(v) FROM own;

-- DRAM: less than 24 bytes a row, beside the threshold and what the server keeps in hand
CREATE TABLE many (id int, v int) WITH (autovacuum_enabled = off);
BEGIN;
SELECT dram_used_bytes AS b_dram_used_bytes FROM zen_stat \gset
INSERT INTO many SELECT g, 0 FROM generate_series(1, 500000) g;
SELECT (dram_used_bytes - :b_dram_used_bytes - 2 * 65536) / 500000.0 < 24 AS bounded FROM zen_stat;
COMMIT;
BEGIN;
SELECT dram_used_bytes AS b_dram_used_bytes FROM zen_stat \gset
UPDATE many SET v = 1;
SELECT (dram_used_bytes - :b_dram_used_bytes - 2 * 65536) / 500000.0 < 24 AS bounded FROM zen_stat;
ROLLBACK;
SELECT count(*), sum(v) FROM many;

-- rows that are only in NVM: their deletes spill by less, those of rows in DRAM do not
VACUUM many;
RESET zen.spill_threshold;
SELECT rows_spilled AS b_rows_spilled FROM zen_stat \gset
BEGIN;
DELETE FROM many WHERE id <= 10000;
SELECT rows_spilled - :b_rows_spilled BETWEEN 5000 AND 10000 AS spilled FROM zen_stat;
SELECT count(*), sum(v) FROM many WHERE id <= 20000;
SAVEPOINT a;
DELETE FROM many WHERE id <= 20000;
SELECT count(*), sum(v) FROM many WHERE id <= 20000;
ROLLBACK TO a;
INSERT INTO many SELECT g, 5 FROM generate_series(1, 10) g;
SELECT count(*), sum(v) FROM many WHERE id <= 20000;
ROLLBACK;
SELECT count(*), sum(v) FROM many;
BEGIN;
UPDATE many SET v = 3 WHERE id BETWEEN 100001 AND 103000;
SELECT rows_spilled AS b_rows_spilled FROM zen_stat \gset
DELETE FROM many WHERE id BETWEEN 100001 AND 103000;
SELECT rows_spilled - :b_rows_spilled AS spilled FROM zen_stat;
SELECT count(*), sum(v) FROM many;
COMMIT;
BEGIN;
SELECT count(*) FROM (SELECT FROM many WHERE id <= 5000 FOR UPDATE) locked;
DELETE FROM many WHERE id <= 10000;
SELECT count(*) FROM many WHERE id <= 20000;
PREPARE TRANSACTION 'spill_b';
SELECT count(*) FROM many;
COMMIT PREPARED 'spill_b';
VACUUM many;
SELECT count(*) FROM many;
INSERT INTO many SELECT g, 5 FROM generate_series(1, 10) g;
SELECT count(*), sum(v) FROM many;

-- nothing is left over, or lost
CREATE FUNCTION findings() RETURNS bigint LANGUAGE sql AS $$
  SELECT (SELECT count(*) FROM zen_verify_pool()) + (SELECT sum((SELECT count(*) FROM zen_verify(c.oid)))
    FROM pg_class c WHERE relnamespace = 'spill'::regnamespace AND relkind IN ('r', 'm')) $$;
SELECT findings();
SET client_min_messages = warning;
DROP SCHEMA spill CASCADE;
