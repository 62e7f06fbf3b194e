SET default_table_access_method = zen;
--
-- triggers: row and statement triggers with the right OLD and NEW, transition tables,
-- and deferred constraint triggers on rows that change again before they fire.
--
CREATE SCHEMA triggers;
SET search_path = triggers, public;

CREATE TABLE t (id int PRIMARY KEY, v int, w text);
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% % % on %: % -> %', TG_WHEN, TG_OP, TG_LEVEL, TG_TABLE_NAME, OLD, NEW;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER br BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER ar AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER bs BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION say();
CREATE TRIGGER zs AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION say();
INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b');
UPDATE t SET v = v + 1;
UPDATE t SET v = v + 1 WHERE id = 1;
UPDATE t SET id = 3 WHERE id = 2;
UPDATE t SET v = v + 1, w = w || '!' WHERE id = 3;
UPDATE t SET v = v WHERE id = 3;
UPDATE t SET v = 0 WHERE id = 99;
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 11, 'again');
-- several changes of one row in one transaction: each trigger sees its own pair
BEGIN;
UPDATE t SET v = 100 WHERE id = 1;
UPDATE t SET v = 200 WHERE id = 1;
SAVEPOINT a;
UPDATE t SET v = 300 WHERE id = 1;
ROLLBACK TO a;
UPDATE t SET v = 400 WHERE id = 1;
DELETE FROM t WHERE id = 1;
COMMIT;
TRUNCATE t;
DROP TRIGGER br ON t; DROP TRIGGER ar ON t; DROP TRIGGER bs ON t; DROP TRIGGER zs ON t;

-- BEFORE row triggers that change or suppress
CREATE FUNCTION edit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.v < 0 THEN RETURN NULL; END IF;
    NEW.w = upper(NEW.w);
  ELSIF TG_OP = 'UPDATE' THEN
    IF NEW.v = OLD.v THEN RETURN OLD; END IF;
    IF NEW.v > 1000 THEN RETURN NULL; END IF;
    NEW.w = OLD.w || '->' || NEW.v;
  ELSE
    IF OLD.w = 'KEEP' THEN RETURN NULL; END IF;
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER e BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION edit();
INSERT INTO t VALUES (1, 1, 'abc'), (2, -1, 'no'), (3, 3, 'keep') RETURNING *;
UPDATE t SET v = 7 WHERE id = 1 RETURNING *;
UPDATE t SET v = 7, w = 'ignored' WHERE id = 1 RETURNING *;
UPDATE t SET v = 7000 WHERE id = 1 RETURNING *;
DELETE FROM t RETURNING *;
SELECT * FROM t ORDER BY id;
DROP TRIGGER e ON t;

-- WHEN, column lists, several triggers in order of name
CREATE TRIGGER a1 AFTER UPDATE OF v ON t FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER a2 AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.w IS DISTINCT FROM NEW.w) EXECUTE FUNCTION say();
CREATE TRIGGER a3 AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION say();
UPDATE t SET v = v + 1;
UPDATE t SET w = 'w';
UPDATE t SET w = 'w';
DROP TRIGGER a1 ON t; DROP TRIGGER a2 ON t; DROP TRIGGER a3 ON t;
CREATE TRIGGER sup BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
WITH u AS (UPDATE t SET w = 'w' RETURNING 1) SELECT count(*) FROM u;
WITH u AS (UPDATE t SET w = 'x' RETURNING 1) SELECT count(*) FROM u;
DROP TRIGGER sup ON t;

-- AFTER triggers that change the row again
CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE 'depth %: % -> %', pg_trigger_depth(), OLD, NEW;
  IF NEW.v < 5 THEN UPDATE triggers.t SET v = v + 1 WHERE id = NEW.id; END IF;
  RETURN NULL;
END $$;
TRUNCATE t;
INSERT INTO t VALUES (1, 0, 'f'), (2, 4, 'g');
CREATE TRIGGER f AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION follow();
UPDATE t SET v = v + 1;
SELECT * FROM t ORDER BY id;
DROP TRIGGER f ON t;

-- transition tables
CREATE TABLE audit (n serial, what text, old_sum bigint, new_sum bigint, old_n bigint, new_n bigint);
CREATE FUNCTION trans_ins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO triggers.audit (what, new_sum, new_n) SELECT TG_OP, sum(v), count(*) FROM nt; RETURN NULL; END $$;
CREATE FUNCTION trans_upd() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO triggers.audit (what, old_sum, new_sum, old_n, new_n)
  SELECT TG_OP, (SELECT sum(v) FROM ot), (SELECT sum(v) FROM nt), (SELECT count(*) FROM ot), (SELECT count(*) FROM nt);
    RETURN NULL; END $$;
CREATE FUNCTION trans_del() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO triggers.audit (what, old_sum, old_n) SELECT TG_OP, sum(v), count(*) FROM ot; RETURN NULL; END $$;
CREATE TRIGGER ti AFTER INSERT ON t REFERENCING NEW TABLE AS nt FOR EACH STATEMENT EXECUTE FUNCTION trans_ins();
CREATE TRIGGER tu AFTER UPDATE ON t REFERENCING OLD TABLE AS ot NEW TABLE AS nt
	FOR EACH STATEMENT EXECUTE FUNCTION trans_upd();
CREATE TRIGGER td AFTER DELETE ON t REFERENCING OLD TABLE AS ot FOR EACH STATEMENT EXECUTE FUNCTION trans_del();
TRUNCATE t;
INSERT INTO t SELECT g, g, 'w' FROM generate_series(1, 1000) g;
UPDATE t SET v = v * 2 WHERE id <= 500;
UPDATE t SET id = id + 5000 WHERE id > 900;
BEGIN;
UPDATE t SET v = 1 WHERE id = 1;
UPDATE t SET v = 2 WHERE id = 1;
DELETE FROM t WHERE id = 1;
COMMIT;
DELETE FROM t WHERE id > 10;
INSERT INTO t VALUES (2, 0, ''), (3, 0, ''), (4000, 0, '') ON CONFLICT (id) DO UPDATE SET v = -1;
DELETE FROM t WHERE false;
WITH x AS (INSERT INTO t VALUES (5000, 50, 'cte') RETURNING v) UPDATE t SET v = t.v + x.v FROM x WHERE id = 2;
SELECT * FROM audit ORDER BY n;
DROP TRIGGER ti ON t; DROP TRIGGER tu ON t; DROP TRIGGER td ON t;

-- deferred constraint triggers: the OLD and NEW of the event, the row may be elsewhere by now
TRUNCATE t;
CREATE FUNCTION now_is() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE 'deferred %: % -> %, now %', TG_OP, OLD, NEW, (SELECT array_agg(t ORDER BY id) FROM triggers.t t
    WHERE id = COALESCE(NEW.id, OLD.id));
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER cd AFTER INSERT OR UPDATE OR DELETE ON t DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION now_is();
BEGIN;
INSERT INTO t VALUES (1, 1, 'i');
UPDATE t SET v = 2 WHERE id = 1;
UPDATE t SET v = 3 WHERE id = 1;
SELECT 'before commit';
COMMIT;
BEGIN;
UPDATE t SET v = 4 WHERE id = 1;
UPDATE t SET id = 2 WHERE id = 1;
UPDATE t SET v = 5 WHERE id = 2;
DELETE FROM t WHERE id = 2;
COMMIT;
BEGIN;
INSERT INTO t VALUES (7, 7, 'g');
SAVEPOINT a;
UPDATE t SET v = 70 WHERE id = 7;
ROLLBACK TO a;
SAVEPOINT b;
UPDATE t SET v = 71 WHERE id = 7;
RELEASE b;
SET CONSTRAINTS cd IMMEDIATE;
UPDATE t SET v = 72 WHERE id = 7;
SET CONSTRAINTS cd DEFERRED;
UPDATE t SET v = 73 WHERE id = 7;
COMMIT;
-- inserted and deleted again in one transaction
BEGIN;
INSERT INTO t VALUES (8, 8, 'h');
DELETE FROM t WHERE id = 8;
COMMIT;
DROP TRIGGER cd ON t;
-- long chains of versions before the trigger fires
CREATE FUNCTION chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.v <> OLD.v + 1 THEN RAISE EXCEPTION 'broken chain: % -> %', OLD.v, NEW.v; END IF;
  INSERT INTO triggers.audit (what, old_sum, new_sum) VALUES ('chain', OLD.v, NEW.v);
  RETURN NULL;
END $$;
TRUNCATE t, audit;
INSERT INTO t VALUES (1, 0, 'c');
CREATE CONSTRAINT TRIGGER cc AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain();
BEGIN;
DO $$ BEGIN FOR i IN 1..500 LOOP UPDATE triggers.t SET v = v + 1 WHERE id = 1; END LOOP; END $$;
COMMIT;
SELECT count(*), min(old_sum), max(new_sum), count(DISTINCT old_sum) FROM audit;
SELECT * FROM t;
-- a deferred trigger that fails undoes all of it
BEGIN;
UPDATE t SET v = v + 1 WHERE id = 1;
UPDATE t SET v = v + 2 WHERE id = 1;
COMMIT;
SELECT * FROM t;
-- large and toasted values in OLD and NEW
DROP TRIGGER cc ON t;
CREATE FUNCTION lens() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '%: % % -> % %', TG_WHEN, length(OLD.w), left(OLD.w, 3), length(NEW.w), left(NEW.w, 3); RETURN NEW;
	END $$;
CREATE TRIGGER l1 BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION lens();
CREATE TRIGGER l2 AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION lens();
CREATE CONSTRAINT TRIGGER l3 AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lens();
UPDATE t SET w = repeat('abc', 300000);
UPDATE t SET v = v + 1;
BEGIN;
UPDATE t SET w = repeat('xyz', 200000);
UPDATE t SET w = 'short';
COMMIT;
DROP TRIGGER l1 ON t; DROP TRIGGER l2 ON t; DROP TRIGGER l3 ON t;

-- the same with partitions of both kinds and transition tables over all of them
CREATE TABLE p (k int, v int) PARTITION BY LIST (k);
CREATE TABLE pz PARTITION OF p FOR VALUES IN (1);
CREATE TABLE ph PARTITION OF p FOR VALUES IN (2) USING heap;
CREATE TRIGGER pr AFTER INSERT OR UPDATE OR DELETE ON p FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER pb BEFORE INSERT OR UPDATE OR DELETE ON p FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER pu AFTER UPDATE ON p REFERENCING OLD TABLE AS ot NEW TABLE AS nt
	FOR EACH STATEMENT EXECUTE FUNCTION trans_upd();
INSERT INTO p VALUES (1, 100), (2, 200);
UPDATE p SET v = v + 1;
UPDATE p SET k = 2 WHERE k = 1;
UPDATE p SET k = 1 WHERE v = 201;
DELETE FROM p WHERE k = 1;
SELECT what, old_sum, new_sum, old_n, new_n FROM audit WHERE what = 'UPDATE' ORDER BY n;

-- INSTEAD OF on a view over a zen table
CREATE VIEW vw AS SELECT id, v FROM t;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '%: % -> %', TG_OP, OLD, NEW;
  IF TG_OP = 'INSERT' THEN INSERT INTO triggers.t VALUES (NEW.id, NEW.v, 'view'); RETURN NEW;
  ELSIF TG_OP = 'UPDATE' THEN UPDATE triggers.t SET v = NEW.v WHERE id = OLD.id; RETURN NEW;
  ELSE DELETE FROM triggers.t WHERE id = OLD.id; RETURN OLD; END IF;
END $$;
CREATE TRIGGER io INSTEAD OF INSERT OR UPDATE OR DELETE ON vw FOR EACH ROW EXECUTE FUNCTION instead();
INSERT INTO vw VALUES (50, 50);
UPDATE vw SET v = 51 WHERE id = 50 RETURNING *;
DELETE FROM vw WHERE id = 50;
SELECT count(*) FROM t WHERE id = 50;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA triggers CASCADE;
