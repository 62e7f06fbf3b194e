SET default_table_access_method = zen;
--
-- many_updates: one row updated thousands of times, in one transaction and in thousands
-- of them, with and without changes of its key, seen by cursors opened on the way.
--
CREATE SCHEMA many;
SET search_path = many, public;

CREATE TABLE t (id int PRIMARY KEY, n int, k int, pad text) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT g, 0, g, repeat('p', 40) FROM generate_series(1, 3) g;

-- 3000 updates in one transaction, more than a tuple has version codes
BEGIN;
DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE many.t SET n = n + 1 WHERE id = 2; END LOOP; END $$;
SELECT * FROM t ORDER BY id;
COMMIT;
SELECT * FROM t ORDER BY id;
SET enable_seqscan = off;
SELECT id, n FROM t WHERE id = 2;
SELECT id, n FROM t WHERE k = 2;
SELECT id, n FROM t WHERE k > 0 ORDER BY k;
RESET enable_seqscan;
SELECT count(*), count(DISTINCT ctid) FROM t;
-- the same, undone
BEGIN;
DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE many.t SET n = n + 1 WHERE id = 2; END LOOP; END $$;
SELECT n FROM t WHERE id = 2;
ROLLBACK;
SELECT n FROM t WHERE id = 2;
SELECT count(*) FROM t WHERE k = 2;
-- undone in part, again and again
DO $$
BEGIN
  FOR i IN 1..1500 LOOP
    UPDATE many.t SET n = n + 1 WHERE id = 2;
    BEGIN
      UPDATE many.t SET n = n + 1000000 WHERE id = 2;
      IF i % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
      UPDATE many.t SET n = n - 1000000 WHERE id = 2;
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
  END LOOP;
END $$;
SELECT n FROM t WHERE id = 2;
-- 3000 transactions of one update each
DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE many.t SET n = n + 1 WHERE id = 2; COMMIT; END LOOP; END $$;
SELECT * FROM t ORDER BY id;
SELECT count(*) FROM t WHERE k = 2;
-- 3000 transactions, every third rolled back
DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE many.t SET n = n + 1 WHERE id = 2; IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT;
	END IF; END LOOP; END $$;
SELECT n FROM t WHERE id = 2;
-- 3000 changes of an indexed column
BEGIN;
DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE many.t SET k = k + 1 WHERE id = 2; END LOOP; END $$;
SET LOCAL enable_seqscan = off;
SELECT id, k FROM t WHERE k > 3 ORDER BY k;
SELECT count(*) FROM t WHERE k BETWEEN 4 AND 3001;
COMMIT;
DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE many.t SET k = k - 1 WHERE id = 2; COMMIT; END LOOP; END $$;
SET enable_seqscan = off;
SELECT id, k FROM t WHERE k > 0 ORDER BY k;
RESET enable_seqscan;
-- keys and other columns in turns
DO $$ BEGIN FOR i IN 1..2000 LOOP
  IF i % 10 = 0 THEN UPDATE many.t SET id = CASE id WHEN 3 THEN 33 ELSE 3 END WHERE id IN (3, 33);
  ELSE UPDATE many.t SET n = n + 1 WHERE id IN (3, 33); END IF;
  IF i % 7 = 0 THEN COMMIT; END IF;
END LOOP; END $$;
SELECT id, n, k FROM t ORDER BY id;
-- cursors opened on the way keep their version
BEGIN;
UPDATE t SET n = 0 WHERE id = 1;
DECLARE c0 CURSOR FOR SELECT n FROM t WHERE id = 1;
DO $$ BEGIN FOR i IN 1..700 LOOP UPDATE many.t SET n = n + 1 WHERE id = 1; END LOOP; END $$;
DECLARE c700 CURSOR FOR SELECT n FROM t WHERE id = 1;
DO $$ BEGIN FOR i IN 1..700 LOOP UPDATE many.t SET n = n + 1 WHERE id = 1; END LOOP; END $$;
DECLARE c1400 CURSOR FOR SELECT n FROM t WHERE id = 1;
DO $$ BEGIN FOR i IN 1..1600 LOOP UPDATE many.t SET n = n + 1 WHERE id = 1; END LOOP; END $$;
FETCH c1400;
FETCH c0;
FETCH c700;
SELECT n FROM t WHERE id = 1;
COMMIT;
-- AFTER triggers fetch OLD and NEW of every one of them at the end
CREATE TABLE log (o int, n int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO many.log VALUES (OLD.n, NEW.n);
	RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER c AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
UPDATE t SET n = 0 WHERE id = 1;
TRUNCATE log;
BEGIN;
DO $$ BEGIN FOR i IN 1..2500 LOOP UPDATE many.t SET n = n + 1 WHERE id = 1; END LOOP; END $$;
COMMIT;
SELECT count(*), count(*) FILTER (WHERE n = o + 1), min(o), max(n), count(DISTINCT o) FROM log;
DROP TRIGGER c ON t;
-- with growing and shrinking rows, and rows that are deleted and inserted again
BEGIN;
DO $$ BEGIN FOR i IN 1..1500 LOOP UPDATE many.t SET pad = repeat('g', i % 1500 + 1) WHERE id = 1; END LOOP; END $$;
SELECT length(pad) FROM t WHERE id = 1;
COMMIT;
DO $$ BEGIN FOR i IN 1..1500 LOOP
  DELETE FROM many.t WHERE id = 1;
  INSERT INTO many.t VALUES (1, i, 1, 'again');
  UPDATE many.t SET pad = pad || i WHERE id = 1;
  IF i % 100 = 0 THEN COMMIT; END IF;
END LOOP; END $$;
SELECT * FROM t WHERE id = 1;
VACUUM t;
SELECT count(*), sum(n) FROM t;
SET enable_seqscan = off;
SELECT id, k, n FROM t WHERE k > 0 ORDER BY k;
RESET enable_seqscan;
-- many rows, each a hundred times
CREATE TABLE m (id int PRIMARY KEY, n int);
INSERT INTO m SELECT g, 0 FROM generate_series(1, 500) g;
DO $$ BEGIN FOR i IN 1..100 LOOP UPDATE many.m SET n = n + 1; IF i % 10 = 0 THEN COMMIT; END IF; END LOOP; END $$;
SELECT count(*), min(n), max(n) FROM m;
VACUUM m;
SELECT count(*), min(n), max(n) FROM m;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA many CASCADE;
