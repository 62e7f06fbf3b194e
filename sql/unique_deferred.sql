SET default_table_access_method = zen;
--
-- unique_deferred: unique constraints checked per row, per statement and at commit,
-- with rows that change several times before the check.
--
CREATE SCHEMA unique_deferred;
SET search_path = unique_deferred, public;

-- immediate unique: a shift by one fails while rows are in each other's way
CREATE TABLE ui (k int UNIQUE, v int);
INSERT INTO ui SELECT g, 0 FROM generate_series(1, 5) g;
UPDATE ui SET k = k + 1 WHERE k <= 5 AND k >= 1;
UPDATE ui SET k = k - 1;
SELECT * FROM ui ORDER BY k;
BEGIN;
DELETE FROM ui WHERE k = 3;
INSERT INTO ui VALUES (3, 1);
DELETE FROM ui WHERE k = 3;
INSERT INTO ui VALUES (3, 2);
UPDATE ui SET k = 33 WHERE k = 3;
INSERT INTO ui VALUES (3, 3);
COMMIT;
SELECT * FROM ui ORDER BY k;

-- deferrable, checked at the end of each statement
CREATE TABLE ud (k int UNIQUE DEFERRABLE, v int);
INSERT INTO ud SELECT g, 0 FROM generate_series(1, 5) g;
UPDATE ud SET k = k + 1;
UPDATE ud SET k = k - 1;
UPDATE ud SET k = 6 - k;
SELECT * FROM ud ORDER BY k;
UPDATE ud SET k = 1 WHERE k = 2;
INSERT INTO ud VALUES (5, 0);
INSERT INTO ud VALUES (7, 0), (7, 1);
SELECT count(*) FROM ud;
INSERT INTO ud VALUES (5, 0) ON CONFLICT (k) DO NOTHING;
INSERT INTO ud VALUES (5, 0) ON CONFLICT DO NOTHING;

-- deferred to commit
CREATE TABLE uc (k int, v int, CONSTRAINT uc_k UNIQUE (k) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO uc SELECT g, 0 FROM generate_series(1, 5) g;
BEGIN;
INSERT INTO uc VALUES (3, 1);
UPDATE uc SET v = v + 10 WHERE k = 3;
SELECT * FROM uc WHERE k = 3 ORDER BY v;
DELETE FROM uc WHERE k = 3 AND v = 10;
COMMIT;
SELECT * FROM uc ORDER BY k, v;
BEGIN;
INSERT INTO uc VALUES (3, 2);
COMMIT;
SELECT count(*) FROM uc WHERE k = 3;
-- the duplicate is updated, in columns outside the key, many times before the check
BEGIN;
INSERT INTO uc VALUES (4, 1);
UPDATE uc SET v = v + 1 WHERE k = 4;
UPDATE uc SET v = v + 1 WHERE k = 4;
UPDATE uc SET v = v + 1 WHERE k = 4;
COMMIT;
SELECT * FROM uc ORDER BY k, v;
-- the duplicate moves away at the last moment
BEGIN;
INSERT INTO uc VALUES (4, 100);
UPDATE uc SET v = v + 1 WHERE k = 4;
UPDATE uc SET k = 6 WHERE k = 4 AND v > 100;
COMMIT;
SELECT * FROM uc ORDER BY k, v;
-- the other one moves away, both move to the same place
BEGIN;
INSERT INTO uc VALUES (4, 200);
UPDATE uc SET k = 7 WHERE k = 4 AND v < 100;
COMMIT;
SELECT * FROM uc ORDER BY k, v;
BEGIN;
UPDATE uc SET k = 9 WHERE k IN (4, 7);
COMMIT;
SELECT * FROM uc ORDER BY k, v;
-- inserted and deleted before the check
BEGIN;
INSERT INTO uc VALUES (1, 5);
DELETE FROM uc WHERE v = 5;
COMMIT;
-- a chain of swaps
BEGIN;
UPDATE uc SET k = 2 WHERE k = 1;
UPDATE uc SET k = 1 WHERE k = 2 AND v = 0 AND ctid = (SELECT min(ctid) FROM uc WHERE k = 2);
COMMIT;
SELECT k FROM uc ORDER BY k;
-- SET CONSTRAINTS checks what has been put off
BEGIN;
INSERT INTO uc VALUES (1, 5);
SET CONSTRAINTS uc_k IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO uc VALUES (1, 5);
ROLLBACK;
BEGIN;
INSERT INTO uc VALUES (1, 5);
DELETE FROM uc WHERE v = 5;
SET CONSTRAINTS uc_k IMMEDIATE;
UPDATE uc SET v = 6 WHERE k = 1;
COMMIT;
-- savepoints
BEGIN;
SAVEPOINT a;
INSERT INTO uc VALUES (1, 8);
ROLLBACK TO a;
INSERT INTO uc VALUES (20, 8);
COMMIT;
BEGIN;
INSERT INTO uc VALUES (1, 9);
SAVEPOINT a;
DELETE FROM uc WHERE v = 9;
ROLLBACK TO a;
COMMIT;
BEGIN;
INSERT INTO uc VALUES (1, 9);
SAVEPOINT a;
DELETE FROM uc WHERE v = 9;
RELEASE a;
COMMIT;
SELECT * FROM uc ORDER BY k, v;

-- deferred primary key, several columns
CREATE TABLE pk (a int, b int, c text, PRIMARY KEY (a, b) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO pk SELECT g / 3, g % 3, 'c' FROM generate_series(0, 8) g;
BEGIN;
UPDATE pk SET b = 2 - b;
UPDATE pk SET a = 2 - a;
UPDATE pk SET c = 'd' WHERE a = b;
COMMIT;
SELECT * FROM pk ORDER BY a, b;
BEGIN;
UPDATE pk SET b = 1 WHERE a = 1;
COMMIT;
SELECT count(*) FROM pk;

-- made unique later
CREATE TABLE late (k int, v int);
INSERT INTO late VALUES (1, 1), (2, 2), (2, 3);
CREATE UNIQUE INDEX late_k ON late (k);
DELETE FROM late WHERE v = 3;
CREATE UNIQUE INDEX late_k ON late (k);
INSERT INTO late VALUES (2, 5);
BEGIN;
DELETE FROM late WHERE k = 2;
INSERT INTO late VALUES (2, 6);
UPDATE late SET v = 7 WHERE k = 2;
ALTER TABLE late ADD CONSTRAINT late_u UNIQUE (v);
COMMIT;
INSERT INTO late VALUES (9, 7);
CREATE UNIQUE INDEX late_nn ON late (k) NULLS NOT DISTINCT;
INSERT INTO late VALUES (NULL, 20);
INSERT INTO late VALUES (NULL, 21);
SELECT * FROM late ORDER BY k;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA unique_deferred CASCADE;
