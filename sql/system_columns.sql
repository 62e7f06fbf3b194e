SET default_table_access_method = zen;
--
-- system_columns: xmin, xmax, cmin, cmax, ctid and tableoid, compared with what is known of
-- the current transaction and never printed.
--
CREATE SCHEMA syscol;
SET search_path = syscol, public;

CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT id, tableoid::regclass, tableoid = 't'::regclass AS same, xmax, xmin IS NOT NULL AS has_xmin, ctid IS NOT NULL
	AS has_ctid FROM t ORDER BY id;
-- rows of the own transaction
BEGIN;
INSERT INTO t VALUES (3, 'c') RETURNING xmin = pg_current_xact_id()::xid AS mine, xmax, cmin = '0'::cid
	AS first_command;
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM t ORDER BY id;
INSERT INTO t VALUES (4, 'd');
UPDATE t SET v = 'bb' WHERE id = 2 RETURNING xmin = pg_current_xact_id()::xid AS mine, xmax;
SELECT id, xmin = pg_current_xact_id()::xid AS mine, xmax = '0'::xid AS unended FROM t ORDER BY id;
-- cmin counts commands
SELECT (SELECT cmin::text::int FROM t WHERE id = 4) - (SELECT cmin::text::int FROM t WHERE id = 3) AS apart,
       (SELECT cmin::text::int FROM t WHERE id = 2) - (SELECT cmin::text::int FROM t WHERE id = 4) AS apart_too;
-- subtransactions have xids of their own
SAVEPOINT a;
UPDATE t SET v = 'ccc' WHERE id = 3;
SELECT xmin = pg_current_xact_id()::xid AS top FROM t WHERE id = 3;
SELECT xmin = pg_current_xact_id()::xid AS top FROM t WHERE id = 4;
RELEASE a;
COMMIT;
SELECT id, xmax = '0'::xid AS unended FROM t ORDER BY id;
-- a cursor shows the version it sees
BEGIN;
DECLARE c CURSOR FOR SELECT id, v, xmin = pg_current_xact_id()::xid AS mine, tableoid::regclass FROM t WHERE id = 1;
UPDATE t SET v = 'changed' WHERE id = 1;
FETCH c;
SELECT id, v, xmin = pg_current_xact_id()::xid AS mine FROM t WHERE id = 1;
ROLLBACK;
-- the idiom that tells the two ways of ON CONFLICT apart
INSERT INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v RETURNING id, v, xmax = 0 AS inserted;
INSERT INTO t VALUES (9, 'x') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v RETURNING id, v, xmax = 0 AS inserted;
-- xmax of rows that stand: locked, changed and rolled back, or updated by an upsert
BEGIN;
SELECT id FROM t WHERE id = 1 FOR UPDATE;
SELECT xmax = 0 AS unended FROM t WHERE id = 1;
SAVEPOINT a;
UPDATE t SET v = 'y' WHERE id = 1;
ROLLBACK TO a;
COMMIT;
SELECT id, xmax = 0 AS unended FROM t WHERE id IN (1, 9) ORDER BY id;
-- ctid changes with every version and is stable without
SELECT a.ctid = b.ctid AS same FROM t a JOIN t b ON a.id = b.id WHERE a.id = 1;
CREATE TABLE seen AS SELECT id, ctid AS tid FROM t;
SELECT count(*) FROM t JOIN seen USING (id) WHERE t.ctid = tid;
UPDATE t SET v = v || '.' WHERE id = 1;
SELECT t.id, t.ctid = tid AS unchanged FROM t JOIN seen USING (id) ORDER BY id;
-- optimistic locking with xmin
CREATE FUNCTION occ(i int, expected xid, new text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN UPDATE syscol.t SET v = new WHERE id = i AND xmin = expected; RETURN FOUND; END $$;
SELECT xmin AS was FROM t WHERE id = 2 \gset
SELECT occ(2, :'was', 'first');
SELECT occ(2, :'was', 'second');
SELECT v FROM t WHERE id = 2;
-- in triggers, WHEN conditions, indexes, joins, whole rows, COPY, views
CREATE FUNCTION tab() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', NEW.tableoid::regclass; RETURN NEW;
	END $$;
CREATE TRIGGER a AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION tab();
UPDATE t SET v = 'trg' WHERE id = 3;
CREATE TRIGGER b BEFORE UPDATE ON t FOR EACH ROW WHEN (OLD.xmin IS NOT NULL) EXECUTE FUNCTION tab();
DROP TRIGGER a ON t;
CREATE VIEW vw AS SELECT id, tableoid::regclass AS tab, xmin AS created FROM t;
SELECT id, tab, created IS NOT NULL AS has FROM vw ORDER BY id;
CREATE INDEX ON t (ctid);
CREATE INDEX ON t ((xmin::text));
UPDATE t SET xmin = 1;
INSERT INTO t (ctid) VALUES ('(0,1)');
SELECT oid FROM t;
CREATE TABLE bad (xmin int);
ALTER TABLE t ADD COLUMN cmax int;
-- over inheritance and partitions of both kinds
CREATE TABLE p (k int) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) USING heap;
INSERT INTO p VALUES (1), (2) RETURNING tableoid::regclass, k;
SELECT tableoid::regclass, k, xmax FROM p WHERE tableoid IN ('p1'::regclass, 'p2'::regclass) ORDER BY k;
BEGIN;
UPDATE p SET k = k RETURNING tableoid::regclass, k, xmin = pg_current_xact_id()::xid AS mine;
COMMIT;
-- functions of rows' transactions
BEGIN;
INSERT INTO t VALUES (20, 'now');
SELECT pg_xact_status(xmin::text::xid8) FROM t WHERE id = 20;
SELECT age(xmin) >= 0 AS aged FROM t WHERE id = 20;
COMMIT;
SELECT pg_current_xact_id_if_assigned() IS NULL AS reader;
BEGIN;
SELECT count(*) FROM t;
SELECT pg_current_xact_id_if_assigned() IS NULL AS reader;
SELECT id FROM t WHERE id = 1 FOR SHARE;
SELECT pg_current_xact_id_if_assigned() IS NULL AS reader;
ROLLBACK;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA syscol CASCADE;
