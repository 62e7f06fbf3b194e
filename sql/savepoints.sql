SET default_table_access_method = zen;
--
-- savepoints: nested subtransactions, released and rolled back, PL/pgSQL exception
-- blocks; own changes of every level are seen, undone ones are not.
--
CREATE SCHEMA savepoints;
SET search_path = savepoints, public;

CREATE TABLE t (id int PRIMARY KEY, v int, k int);
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT g, 0, g FROM generate_series(1, 5) g;

-- insert, update, delete at several depths
BEGIN;
INSERT INTO t VALUES (10, 0, 10);
SAVEPOINT a;
INSERT INTO t VALUES (11, 1, 11);
UPDATE t SET v = 1 WHERE id = 1;
SAVEPOINT b;
INSERT INTO t VALUES (12, 2, 12);
UPDATE t SET v = 2 WHERE id IN (1, 2);
DELETE FROM t WHERE id = 3;
SELECT id, v FROM t ORDER BY id;
ROLLBACK TO b;
SELECT id, v FROM t ORDER BY id;
RELEASE a;
SELECT id, v FROM t ORDER BY id;
COMMIT;
SELECT id, v FROM t ORDER BY id;

-- update twice, then undo one of them
BEGIN;
UPDATE t SET v = 10 WHERE id = 1;
SAVEPOINT a;
UPDATE t SET v = 20 WHERE id = 1;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 1;
UPDATE t SET v = v + 1 WHERE id = 1;
SAVEPOINT a;
UPDATE t SET v = v + 1 WHERE id = 1;
UPDATE t SET v = v + 1 WHERE id = 1;
SELECT v FROM t WHERE id = 1;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 1;
COMMIT;
SELECT v FROM t WHERE id = 1;
-- key changed in an undone subtransaction, then in a kept one
BEGIN;
SAVEPOINT a;
UPDATE t SET k = 100 WHERE id = 2;
UPDATE t SET id = 200 WHERE id = 2;
ROLLBACK TO a;
SELECT * FROM t WHERE id IN (2, 200);
UPDATE t SET k = 102 WHERE id = 2;
SAVEPOINT b;
UPDATE t SET k = 103 WHERE id = 2;
RELEASE b;
COMMIT;
SET enable_seqscan = off;
SELECT * FROM t WHERE k >= 100;
SELECT * FROM t WHERE k = 2;
RESET enable_seqscan;
-- insert and delete in one transaction, across levels
BEGIN;
INSERT INTO t VALUES (20, 0, 20);
DELETE FROM t WHERE id = 20;
INSERT INTO t VALUES (20, 1, 20);
SAVEPOINT a;
DELETE FROM t WHERE id = 20;
INSERT INTO t VALUES (20, 2, 20);
SAVEPOINT b;
DELETE FROM t WHERE id = 20;
SELECT count(*) FROM t WHERE id = 20;
ROLLBACK TO b;
SELECT v FROM t WHERE id = 20;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 20;
COMMIT;
SELECT v FROM t WHERE id = 20;
BEGIN;
DELETE FROM t WHERE id = 20;
SAVEPOINT a;
INSERT INTO t VALUES (20, 3, 20);
ROLLBACK TO a;
SELECT count(*) FROM t WHERE id = 20;
COMMIT;
SELECT count(*) FROM t WHERE id = 20;
BEGIN;
SAVEPOINT a;
DELETE FROM t WHERE id = 10;
ROLLBACK TO a;
UPDATE t SET v = 99 WHERE id = 10;
SAVEPOINT b;
DELETE FROM t WHERE id = 10;
RELEASE b;
ROLLBACK;
SELECT * FROM t WHERE id = 10;
-- the same savepoint name again and again, rolled back to twice
BEGIN;
SAVEPOINT s;
UPDATE t SET v = v + 100;
SAVEPOINT s;
UPDATE t SET v = v + 1000;
ROLLBACK TO s;
ROLLBACK TO s;
UPDATE t SET v = v + 10000 WHERE id = 4;
RELEASE s;
ROLLBACK TO s;
SELECT id, v FROM t ORDER BY id;
COMMIT;
-- errors abort to the savepoint
BEGIN;
UPDATE t SET v = 7 WHERE id = 4;
SAVEPOINT a;
UPDATE t SET v = 8 WHERE id = 4;
INSERT INTO t VALUES (4, 0, 0);
SELECT v FROM t WHERE id = 4;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 4;
COMMIT;
SELECT v FROM t WHERE id = 4;

-- released levels belong to their parent, whatever becomes of it
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
UPDATE t SET v = 50 WHERE id = 5;
RELEASE b;
UPDATE t SET v = v + 1 WHERE id = 5;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 5;
SAVEPOINT c;
UPDATE t SET v = 60 WHERE id = 5;
SAVEPOINT d;
UPDATE t SET v = v + 1 WHERE id = 5;
RELEASE d;
RELEASE c;
UPDATE t SET v = v + 1 WHERE id = 5;
COMMIT;
SELECT v FROM t WHERE id = 5;

-- PL/pgSQL exception blocks
DO $$
BEGIN
  UPDATE savepoints.t SET v = 1 WHERE id = 1;
  BEGIN
    UPDATE savepoints.t SET v = 2 WHERE id = 1;
    INSERT INTO savepoints.t VALUES (1, 0, 0);
  EXCEPTION WHEN unique_violation THEN
    RAISE NOTICE 'caught, v = %', (SELECT v FROM savepoints.t WHERE id = 1);
    BEGIN
      DELETE FROM savepoints.t WHERE id = 1;
      PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
      RAISE NOTICE 'caught again, v = %', (SELECT v FROM savepoints.t WHERE id = 1);
    END;
  END;
  FOR i IN 1..300 LOOP
    BEGIN
      INSERT INTO savepoints.t VALUES (1000 + i, i, i);
      UPDATE savepoints.t SET v = v + 1 WHERE id = 1000 + i;
      UPDATE savepoints.t SET v = v + 1 WHERE id = 1;
      IF i % 3 = 0 THEN RAISE EXCEPTION 'third'; END IF;
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
  END LOOP;
END $$;
SELECT count(*), sum(v) FROM t WHERE id > 1000;
SELECT v FROM t WHERE id = 1;
CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int;
BEGIN
  IF n = 0 THEN RETURN 0; END IF;
  BEGIN
    UPDATE savepoints.t SET v = v + 1 WHERE id = 2;
    r := savepoints.deep(n - 1);
    IF n % 5 = 0 THEN RAISE EXCEPTION 'level %', n; END IF;
    RETURN r + 1;
  EXCEPTION WHEN raise_exception THEN RETURN r;
  END;
END $$;
UPDATE t SET v = 0 WHERE id = 2;
SELECT deep(14);
SELECT v FROM t WHERE id = 2;
SELECT deep(50);
SELECT v FROM t WHERE id = 2;

-- more subtransactions than a snapshot keeps in memory
DELETE FROM t WHERE id > 1000;
BEGIN;
DO $$
BEGIN
  FOR i IN 1..200 LOOP
    BEGIN
      INSERT INTO savepoints.t VALUES (2000 + i, i, i);
    EXCEPTION WHEN OTHERS THEN RAISE;
    END;
  END LOOP;
END $$;
SELECT count(*), sum(v) FROM t WHERE id > 2000;
SAVEPOINT z;
UPDATE t SET v = -v WHERE id > 2000;
SELECT count(*), sum(v) FROM t WHERE id > 2000;
ROLLBACK TO z;
SELECT count(*), sum(v) FROM t WHERE id > 2000;
COMMIT;
SELECT count(*), sum(v) FROM t WHERE id > 2000;
-- many rows in an undone subtransaction of a kept transaction
BEGIN;
INSERT INTO t SELECT g, 1, g FROM generate_series(3001, 4000) g;
SAVEPOINT a;
INSERT INTO t SELECT g, 2, g FROM generate_series(4001, 6000) g;
UPDATE t SET v = 3 WHERE id BETWEEN 3001 AND 6000;
DELETE FROM t WHERE id BETWEEN 3501 AND 5500;
SELECT count(*), sum(v), sum(id) FROM t WHERE id > 3000;
ROLLBACK TO a;
SELECT count(*), sum(v), sum(id) FROM t WHERE id > 3000;
UPDATE t SET v = 4 WHERE id > 3900;
COMMIT;
SELECT count(*), sum(v), sum(id) FROM t WHERE id > 3000;
SET enable_seqscan = off;
SELECT count(*), sum(v), sum(id) FROM t WHERE k > 3000;
RESET enable_seqscan;
-- savepoints under REPEATABLE READ and SERIALIZABLE
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT v FROM t WHERE id = 3;
SAVEPOINT a;
UPDATE t SET v = v + 5 WHERE id = 3;
ROLLBACK TO a;
UPDATE t SET v = v + 6 WHERE id = 3 RETURNING v;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SAVEPOINT a;
UPDATE t SET v = v + 5 WHERE id = 3;
ROLLBACK TO a;
UPDATE t SET v = v + 6 WHERE id = 3 RETURNING v;
COMMIT;
-- tables made, filled and dropped at several levels
BEGIN;
CREATE TABLE n (i int);
INSERT INTO n VALUES (1);
SAVEPOINT a;
INSERT INTO n VALUES (2);
CREATE TABLE o AS SELECT * FROM n;
SAVEPOINT b;
DROP TABLE n;
ROLLBACK TO b;
SELECT * FROM n ORDER BY i;
SELECT * FROM o ORDER BY i;
ROLLBACK TO a;
SELECT * FROM n ORDER BY i;
CREATE TABLE o (x text);
INSERT INTO o VALUES ('second o');
COMMIT;
SELECT * FROM n ORDER BY i;
SELECT * FROM o;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA savepoints CASCADE;
