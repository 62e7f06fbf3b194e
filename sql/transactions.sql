SET default_table_access_method = zen;
--
-- transactions: isolation levels, read only, chained and prepared transactions, procedures
-- that commit, zen and heap changed together, in one session.
--
CREATE SCHEMA trans;
SET search_path = trans, public;

CREATE TABLE z (id int PRIMARY KEY, v int);
CREATE TABLE h (id int PRIMARY KEY, v int) USING heap;
CREATE VIEW both_tables AS SELECT (SELECT count(*) FROM z) AS zn, (SELECT sum(v) FROM z) AS zv,
	(SELECT count(*) FROM h) AS hn, (SELECT sum(v) FROM h) AS hv;
-- zen only, heap only, both; kept and undone
BEGIN; INSERT INTO z VALUES (1, 1); COMMIT;
BEGIN; INSERT INTO h VALUES (1, 1); COMMIT;
BEGIN; INSERT INTO z VALUES (2, 2); INSERT INTO h VALUES (2, 2); COMMIT;
BEGIN; INSERT INTO h VALUES (3, 3); INSERT INTO z VALUES (3, 3); COMMIT;
SELECT * FROM both_tables;
BEGIN; UPDATE z SET v = 10; UPDATE h SET v = 10; ROLLBACK;
BEGIN; UPDATE z SET v = v + 10; SAVEPOINT a; UPDATE h SET v = v + 10; ROLLBACK TO a; COMMIT;
SELECT * FROM both_tables;
BEGIN; DELETE FROM z WHERE id = 1; CREATE TABLE ddl (id int); INSERT INTO ddl VALUES (1); COMMIT;
BEGIN; DELETE FROM z WHERE id = 2; CREATE TABLE ddl2 (id int); INSERT INTO ddl2 VALUES (1); ROLLBACK;
SELECT * FROM both_tables;
-- nothing at all, reads only, locks only
BEGIN; COMMIT;
BEGIN; SELECT count(*) FROM z; COMMIT;
BEGIN; SELECT id FROM z ORDER BY id FOR UPDATE; COMMIT;
BEGIN; SELECT id FROM z ORDER BY id FOR UPDATE; ROLLBACK;
BEGIN; UPDATE z SET v = 0 WHERE false; COMMIT;
-- levels
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM z; INSERT INTO z VALUES (4, 4); SELECT count(*) FROM z;
	UPDATE z SET v = 44 WHERE id = 4 RETURNING *; COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM z; INSERT INTO z VALUES (5, 5); DELETE FROM z WHERE id = 4
	RETURNING *; COMMIT;
BEGIN ISOLATION LEVEL READ UNCOMMITTED; SELECT count(*) FROM z; COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE; SELECT count(*) FROM z; COMMIT;
BEGIN READ ONLY; SELECT count(*) FROM z; INSERT INTO z VALUES (6, 6); ROLLBACK;
SELECT * FROM both_tables;
-- chains
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO z VALUES (6, 6);
COMMIT AND CHAIN;
SHOW transaction_isolation;
INSERT INTO z VALUES (7, 7);
ROLLBACK AND CHAIN;
INSERT INTO z VALUES (8, 8);
COMMIT;
SELECT id FROM z ORDER BY id;
-- several statements in one message are one transaction
INSERT INTO z VALUES (9, 9)\; INSERT INTO h VALUES (9, 9)\; SELECT count(*) FROM z;
INSERT INTO z VALUES (10, 10)\; INSERT INTO z VALUES (10, 10);
SELECT * FROM both_tables;
-- errors
BEGIN; INSERT INTO z VALUES (11, 11); SELECT 1 / 0; COMMIT;
SELECT count(*) FROM z WHERE id = 11;
-- procedures
CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..n LOOP
    INSERT INTO trans.z VALUES (1000 + i, i);
    IF i % 4 = 0 THEN INSERT INTO trans.h VALUES (1000 + i, i); END IF;
    IF i % 5 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
  END LOOP;
END $$;
CALL work(103);
SELECT * FROM both_tables;
BEGIN; CALL work(3); ROLLBACK;
DO $$
BEGIN
  INSERT INTO trans.z VALUES (3000, 1);
  COMMIT;
  INSERT INTO trans.z VALUES (3001, 1);
  BEGIN
    INSERT INTO trans.z VALUES (3001, 2);
  EXCEPTION WHEN unique_violation THEN INSERT INTO trans.z VALUES (3002, 2);
  END;
  COMMIT AND CHAIN;
  INSERT INTO trans.z VALUES (3003, 3);
  ROLLBACK;
  INSERT INTO trans.z VALUES (3004, 4);
END $$;
SELECT id FROM z WHERE id >= 3000 ORDER BY id;
DELETE FROM z WHERE id > 10; DELETE FROM h WHERE id > 10;

-- prepared transactions
BEGIN;
INSERT INTO z VALUES (100, 100);
UPDATE z SET v = -1 WHERE id = 5;
DELETE FROM z WHERE id = 6;
PREPARE TRANSACTION 'zen_a';
SELECT id, v FROM z ORDER BY id;
SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid;
COMMIT PREPARED 'zen_a';
SELECT id, v FROM z ORDER BY id;
BEGIN;
INSERT INTO z VALUES (101, 101);
INSERT INTO h VALUES (101, 101);
UPDATE z SET v = -2 WHERE id = 5;
DELETE FROM z WHERE id = 100;
CREATE TABLE in_prepared (id int PRIMARY KEY);
INSERT INTO in_prepared VALUES (1);
PREPARE TRANSACTION 'zen_b';
ROLLBACK PREPARED 'zen_b';
SELECT id, v FROM z ORDER BY id;
SELECT to_regclass('in_prepared');
BEGIN;
CREATE TABLE in_prepared (id int PRIMARY KEY, v text);
INSERT INTO in_prepared SELECT g, repeat('p', 5000) FROM generate_series(1, 50) g;
INSERT INTO z SELECT g, g FROM generate_series(20000, 29999) g;
SAVEPOINT s;
UPDATE z SET v = 0;
ROLLBACK TO s;
SAVEPOINT s;
DELETE FROM z WHERE id >= 25000;
RELEASE s;
PREPARE TRANSACTION 'zen_c';
SELECT count(*) FROM z;
BEGIN;
SELECT id FROM z WHERE id = 5 FOR UPDATE;
PREPARE TRANSACTION 'zen_d';
SELECT id FROM z WHERE id = 5 FOR UPDATE SKIP LOCKED;
SELECT id FROM z WHERE id = 5 FOR UPDATE NOWAIT;
SELECT id FROM z WHERE id = 9 FOR UPDATE NOWAIT;
COMMIT PREPARED 'zen_c';
ROLLBACK PREPARED 'zen_d';
SELECT count(*), sum(v) FROM z;
SELECT count(*), sum(length(v)) FROM in_prepared;
SELECT id FROM z WHERE id = 5 FOR UPDATE NOWAIT;
DELETE FROM z WHERE id >= 20000;
-- an empty one, one that fails, one of SERIALIZABLE, names used twice
BEGIN; SELECT count(*) FROM z; PREPARE TRANSACTION 'zen_e'; COMMIT PREPARED 'zen_e';
BEGIN; INSERT INTO z VALUES (5, 5); PREPARE TRANSACTION 'zen_f';
SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database();
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM z; INSERT INTO z VALUES (50, 50); PREPARE TRANSACTION 'zen_g';
BEGIN; INSERT INTO z VALUES (51, 51); PREPARE TRANSACTION 'zen_g';
COMMIT PREPARED 'zen_g';
COMMIT PREPARED 'zen_g';
SELECT id FROM z WHERE id >= 50 ORDER BY id;
-- deferred constraints are checked at PREPARE
CREATE TABLE dc (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
BEGIN; INSERT INTO dc VALUES (1), (1); PREPARE TRANSACTION 'zen_h';
BEGIN; INSERT INTO dc VALUES (1), (2); PREPARE TRANSACTION 'zen_h';
COMMIT PREPARED 'zen_h';
SELECT * FROM dc ORDER BY id;
-- DROP and TRUNCATE prepared
BEGIN; DROP TABLE in_prepared; TRUNCATE dc; PREPARE TRANSACTION 'zen_i'; ROLLBACK PREPARED 'zen_i';
SELECT (SELECT count(*) FROM in_prepared), (SELECT count(*) FROM dc);
BEGIN; DROP TABLE in_prepared; TRUNCATE dc; INSERT INTO dc VALUES (7); PREPARE TRANSACTION 'zen_i';
	COMMIT PREPARED 'zen_i';
SELECT to_regclass('in_prepared'), (SELECT array_agg(id) FROM dc);
SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database();

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA trans CASCADE;
