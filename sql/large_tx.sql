SET default_table_access_method = zen;
--
-- large_tx: transactions of 200,000 rows: inserted, updated, deleted, rolled back whole
-- and in part.
--
CREATE SCHEMA large;
SET search_path = large, public;

CREATE TABLE t (id int PRIMARY KEY, v int, s text) WITH (autovacuum_enabled = off);
-- rolled back
BEGIN;
INSERT INTO t SELECT g, g % 1000, 'row ' || g FROM generate_series(1, 200000) g;
SELECT count(*), sum(id), sum(v) FROM t;
ROLLBACK;
SELECT count(*) FROM t;
-- kept
BEGIN;
INSERT INTO t SELECT g, g % 1000, 'row ' || g FROM generate_series(1, 100000) g;
SAVEPOINT a;
INSERT INTO t SELECT g, -1, 'undone ' || g FROM generate_series(100001, 150000) g;
UPDATE t SET v = -1 WHERE id % 4 = 0;
SELECT count(*), sum(id), sum(v) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(id), sum(v) FROM t;
INSERT INTO t SELECT g, g % 1000, 'row ' || g FROM generate_series(100001, 200000) g;
COMMIT;
SELECT count(*), sum(id), sum(v), count(DISTINCT s) FROM t;
-- every row updated, undone
BEGIN;
UPDATE t SET v = v + 1;
SELECT count(*), sum(v) FROM t;
UPDATE t SET s = s || '!' WHERE id % 2 = 0;
SELECT count(*) FILTER (WHERE s LIKE '%!') FROM t;
ROLLBACK;
SELECT count(*), sum(v), count(*) FILTER (WHERE s LIKE '%!') FROM t;
-- every row updated, kept, twice
BEGIN;
UPDATE t SET v = v + 1;
UPDATE t SET v = v + 1, s = 'changed ' || id;
COMMIT;
SELECT count(*), sum(v), count(DISTINCT s), count(*) FILTER (WHERE s = 'changed ' || id) FROM t;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(v) FROM t WHERE id BETWEEN 50000 AND 59999;
SELECT * FROM t WHERE id IN (1, 100000, 200000) ORDER BY id;
RESET enable_seqscan; RESET enable_bitmapscan;
-- every key changed
BEGIN;
UPDATE t SET id = -id;
SELECT min(id), max(id), count(*) FROM t;
ROLLBACK;
SELECT min(id), max(id), count(*) FROM t;
UPDATE t SET id = id + 1000000 WHERE id % 2 = 0;
SELECT min(id), max(id), count(*), sum(id) FROM t;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE id BETWEEN 1 AND 1000;
SELECT count(*) FROM t WHERE id BETWEEN 1000001 AND 1001000;
RESET enable_seqscan;
-- every row deleted, undone, then kept
BEGIN;
DELETE FROM t;
SELECT count(*) FROM t;
INSERT INTO t VALUES (1, 1, 'only');
SELECT * FROM t;
ROLLBACK;
SELECT count(*), sum(v) FROM t;
-- inserted, updated and deleted in one transaction
BEGIN;
INSERT INTO t SELECT g, 0, 'short life' FROM generate_series(2000001, 2100000) g;
UPDATE t SET v = 1 WHERE id > 2000000;
DELETE FROM t WHERE id > 2000000;
COMMIT;
SELECT count(*), max(id) FROM t;
DELETE FROM t;
SELECT count(*) FROM t;
VACUUM t;
INSERT INTO t SELECT g, g % 1000, 'row ' || g FROM generate_series(1, 200000) g;
SELECT count(*), sum(id), sum(v) FROM t;
-- with a heap table in the same transaction, and a foreign key
CREATE TABLE h (id int REFERENCES t ON DELETE CASCADE, note text) USING heap;
BEGIN;
INSERT INTO h SELECT g, 'h' FROM generate_series(1, 20000) g;
UPDATE t SET v = 0 WHERE id <= 20000;
SAVEPOINT a;
UPDATE h SET note = 'z';
UPDATE t SET v = -1;
ROLLBACK TO a;
COMMIT;
SELECT (SELECT count(*) FROM h WHERE note = 'h'), (SELECT count(*) FROM t WHERE v = 0 AND id <= 20000);
TRUNCATE h;
-- copied through the client protocol, locked row by row
CREATE TABLE c (LIKE t);
INSERT INTO c SELECT * FROM t;
SELECT count(*), sum(id), sum(v) FROM c;
BEGIN;
SELECT count(*) FROM (SELECT 1 FROM c FOR UPDATE) x;
UPDATE c SET v = 7 WHERE id <= 100000;
ROLLBACK;
SELECT sum(v) FROM c;
CREATE UNIQUE INDEX c_id ON c (id);
CREATE INDEX c_v ON c (v);
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM c WHERE v = 77;
RESET enable_seqscan;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA large CASCADE;
