SET default_table_access_method = zen;
--
-- update_self: a command that meets its own work: rows matched twice by a join, rows
-- changed under the command by its triggers or functions.
--
CREATE SCHEMA update_self;
SET search_path = update_self, public;

-- a join that matches a row several times updates and deletes it once
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE src (id int, d int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 5) g;
INSERT INTO src SELECT g % 3 + 1, 1 FROM generate_series(1, 30) g;
UPDATE t SET v = v + d FROM src WHERE src.id = t.id;
SELECT * FROM t ORDER BY id;
WITH u AS (UPDATE t SET v = v + d FROM src WHERE src.id = t.id RETURNING t.id) SELECT count(*) FROM u;
WITH d AS (DELETE FROM t USING src WHERE src.id = t.id RETURNING t.id) SELECT id FROM d ORDER BY id;
SELECT * FROM t ORDER BY id;
-- with an index that the update changes: the new key lies ahead of the scan
CREATE INDEX t_v ON t (v);
INSERT INTO t SELECT g, g FROM generate_series(10, 60) g;
SET enable_seqscan = off; SET enable_bitmapscan = off;
UPDATE t SET v = v + 5 WHERE v > 9;
SELECT count(*), sum(v), min(v), max(v) FROM t WHERE v > 9;
UPDATE t SET v = v + 5 WHERE v > 9;
SELECT count(*), sum(v), min(v), max(v) FROM t WHERE v > 9;
RESET enable_seqscan; RESET enable_bitmapscan;

-- CTEs that update the same row: one of them wins, exactly one change is made
INSERT INTO t VALUES (100, 0);
WITH a AS (UPDATE t SET v = v + 1 WHERE id = 100 RETURNING 1),
     b AS (UPDATE t SET v = v + 1 WHERE id = 100 RETURNING 1)
SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) AS updated;
SELECT v FROM t WHERE id = 100;
WITH a AS (DELETE FROM t WHERE id = 100 RETURNING 1),
     b AS (DELETE FROM t WHERE id = 100 RETURNING 1)
SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) AS deleted;

-- BEFORE triggers that change the row they fire for
CREATE TABLE trg (id int PRIMARY KEY, v int, note text);
INSERT INTO trg VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
CREATE FUNCTION touch_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE update_self.trg SET note = note || '+' WHERE id = OLD.id AND pg_trigger_depth() = 1;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER bd BEFORE DELETE ON trg FOR EACH ROW EXECUTE FUNCTION touch_self();
DELETE FROM trg WHERE id = 1;
SELECT * FROM trg ORDER BY id;
DROP TRIGGER bd ON trg;
CREATE TRIGGER bu BEFORE UPDATE OF v ON trg FOR EACH ROW EXECUTE FUNCTION touch_self();
UPDATE trg SET v = 10 WHERE id = 1;
SELECT * FROM trg ORDER BY id;
DROP TRIGGER bu ON trg;

-- BEFORE triggers that delete the row they fire for
CREATE FUNCTION delete_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() = 1 THEN DELETE FROM update_self.trg WHERE id = OLD.id; END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER bu BEFORE UPDATE ON trg FOR EACH ROW EXECUTE FUNCTION delete_self();
UPDATE trg SET v = 10 WHERE id = 1;
SELECT * FROM trg ORDER BY id;
DROP TRIGGER bu ON trg;
CREATE TRIGGER bd BEFORE DELETE ON trg FOR EACH ROW EXECUTE FUNCTION delete_self();
DELETE FROM trg WHERE id = 1;
SELECT * FROM trg ORDER BY id;
DROP TRIGGER bd ON trg;

-- a trigger on one row that changes another row of the same command
CREATE FUNCTION touch_next() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() = 1 THEN
    UPDATE update_self.trg SET note = note || '>' WHERE id = OLD.id + 1;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER bu BEFORE UPDATE ON trg FOR EACH ROW EXECUTE FUNCTION touch_next();
UPDATE trg SET v = v * 10;
SELECT * FROM trg ORDER BY id;
DROP TRIGGER bu ON trg;
-- the AFTER kind is allowed and both changes stay
CREATE TRIGGER au AFTER UPDATE ON trg FOR EACH ROW EXECUTE FUNCTION touch_next();
UPDATE trg SET v = v * 10;
SELECT * FROM trg ORDER BY id;
DROP TRIGGER au ON trg;

-- a volatile function in the query that changes rows the command is about to meet
CREATE FUNCTION bump(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN UPDATE update_self.trg SET v = v + 1000 WHERE id = i; RETURN 1; END $$;
UPDATE trg SET note = 'f' WHERE bump(id) = 1;
UPDATE trg SET note = 'f' || bump(id) WHERE id = 2;
DELETE FROM trg WHERE id = 3 AND bump(id) = 1;
SELECT bump(id) FROM trg ORDER BY id;
SELECT * FROM trg ORDER BY id;
-- SELECT FOR UPDATE of a row that the query's own function has changed
SELECT id, v FROM trg WHERE id = 2 AND bump(id) = 1 FOR UPDATE;
SELECT * FROM trg ORDER BY id;

-- a trigger that inserts rows into the table being scanned
CREATE TABLE grow (id int, gen int);
INSERT INTO grow VALUES (1, 0), (2, 0), (3, 0);
CREATE FUNCTION spawn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO update_self.grow VALUES (NEW.id + 10, NEW.gen + 1); RETURN NEW; END $$;
CREATE TRIGGER bu BEFORE UPDATE ON grow FOR EACH ROW EXECUTE FUNCTION spawn();
UPDATE grow SET gen = gen + 1;
SELECT * FROM grow ORDER BY id, gen;

-- one row updated again and again by separate commands of one transaction
BEGIN;
INSERT INTO t VALUES (200, 0);
UPDATE t SET v = v + 1 WHERE id = 200;
UPDATE t SET v = v + 1 WHERE id = 200;
UPDATE t SET v = v + 1, id = 201 WHERE id = 200;
UPDATE t SET v = v + 1 WHERE id = 201;
SELECT * FROM t WHERE id >= 200;
DELETE FROM t WHERE id = 201;
SELECT * FROM t WHERE id >= 200;
INSERT INTO t VALUES (201, -1);
COMMIT;
SELECT * FROM t WHERE id >= 200;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA update_self CASCADE;
