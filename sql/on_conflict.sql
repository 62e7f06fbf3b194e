SET default_table_access_method = zen;
--
-- on_conflict: INSERT ... ON CONFLICT DO NOTHING and DO UPDATE, with every kind of arbiter;
-- exclusion constraints.
--
CREATE SCHEMA on_conflict;
SET search_path = on_conflict, public;

CREATE TABLE t (k int PRIMARY KEY, v text, n int DEFAULT 0);
INSERT INTO t VALUES (1, 'a') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'b') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'b') ON CONFLICT (k) DO NOTHING RETURNING *;
INSERT INTO t VALUES (1, 'b'), (2, 'c'), (2, 'd') ON CONFLICT (k) DO NOTHING RETURNING *;
INSERT INTO t VALUES (1, 'b') ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING;
SELECT * FROM t ORDER BY k;

INSERT INTO t VALUES (1, 'u') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v, n = t.n + 1 RETURNING *;
INSERT INTO t VALUES (1, 'u') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v || '2', n = t.n + 1 RETURNING *;
INSERT INTO t VALUES (3, 'new') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v, n = t.n + 1 RETURNING *;
INSERT INTO t VALUES (3, 'new') ON CONFLICT (k) DO UPDATE SET n = -1 WHERE t.n > 100 RETURNING *;
INSERT INTO t VALUES (3, 'new') ON CONFLICT (k) DO UPDATE SET k = EXCLUDED.k + 10 RETURNING *;
INSERT INTO t VALUES (3, 'x') ON CONFLICT (k) DO UPDATE SET n = 5 RETURNING *;
INSERT INTO t VALUES (13, 'x') ON CONFLICT (k) DO UPDATE SET k = 1;
INSERT INTO t VALUES (13, 'x') ON CONFLICT (k) DO UPDATE SET (v, n) = (SELECT 'sub', count(*) FROM t) RETURNING *;
-- the same key twice in one command
INSERT INTO t VALUES (20, 'a'), (20, 'b') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO t VALUES (1, 'a'), (1, 'b') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
SELECT * FROM t ORDER BY k;
-- conflict with a row of the same transaction, updated several times
BEGIN;
INSERT INTO t VALUES (30, 'a') ON CONFLICT (k) DO UPDATE SET v = t.v || '+';
INSERT INTO t VALUES (30, 'a') ON CONFLICT (k) DO UPDATE SET v = t.v || '+';
UPDATE t SET v = t.v || '-' WHERE k = 30;
INSERT INTO t VALUES (30, 'a') ON CONFLICT (k) DO UPDATE SET v = t.v || '+' RETURNING v;
DELETE FROM t WHERE k = 30;
INSERT INTO t VALUES (30, 'again') ON CONFLICT (k) DO UPDATE SET v = t.v || '+' RETURNING v;
SAVEPOINT s;
INSERT INTO t VALUES (30, 'a') ON CONFLICT (k) DO UPDATE SET v = 'lost' RETURNING v;
INSERT INTO t VALUES (31, 'a') ON CONFLICT (k) DO UPDATE SET v = 'lost' RETURNING v;
ROLLBACK TO s;
INSERT INTO t VALUES (31, 'b') ON CONFLICT (k) DO UPDATE SET v = 'wrong' RETURNING v;
COMMIT;
SELECT * FROM t WHERE k >= 30 ORDER BY k;
-- a command that conflicts with what a CTE of it does
WITH i AS (INSERT INTO t VALUES (40, 'cte') RETURNING k)
INSERT INTO t SELECT k, 'main' FROM i ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
SELECT * FROM t WHERE k = 40;
-- many
INSERT INTO t SELECT g, 'bulk' FROM generate_series(1, 2000) g ON CONFLICT (k) DO UPDATE SET n = 1000;
SELECT count(*), count(*) FILTER (WHERE n = 1000), count(*) FILTER (WHERE v = 'bulk') FROM t;
INSERT INTO t SELECT g % 1500, 'again' FROM generate_series(1500, 2999) g ON CONFLICT (k) DO UPDATE SET n = t.n + 1,
	v = EXCLUDED.v;
SELECT count(*), sum(n), count(*) FILTER (WHERE v = 'again') FROM t;
INSERT INTO t SELECT g, 'none' FROM generate_series(1, 3000) g ON CONFLICT DO NOTHING;
SELECT count(*), count(*) FILTER (WHERE v = 'none') FROM t;
DO $$ BEGIN FOR i IN 1..500 LOOP
  INSERT INTO on_conflict.t VALUES (5000, 'c') ON CONFLICT (k) DO UPDATE SET n = t.n + 1;
END LOOP; END $$;
SELECT * FROM t WHERE k = 5000;

-- several unique indexes: arbiter and bystander
CREATE TABLE m (a int UNIQUE, b int UNIQUE, c text);
INSERT INTO m VALUES (1, 1, 'x'), (2, 2, 'y');
INSERT INTO m VALUES (1, 2, 'z') ON CONFLICT (a) DO UPDATE SET c = 'by a' RETURNING *;
INSERT INTO m VALUES (1, 2, 'z') ON CONFLICT (b) DO UPDATE SET c = 'by b' RETURNING *;
INSERT INTO m VALUES (3, 2, 'z') ON CONFLICT (a) DO UPDATE SET c = 'by a';
INSERT INTO m VALUES (3, 2, 'z') ON CONFLICT DO NOTHING;
INSERT INTO m VALUES (1, 3, 'z') ON CONFLICT (a) DO UPDATE SET b = 2;
INSERT INTO m VALUES (NULL, NULL, 'n'), (NULL, NULL, 'n') ON CONFLICT (a) DO NOTHING;
SELECT * FROM m ORDER BY a, b;

-- expression, partial, and collation arbiters; no arbiter
CREATE TABLE x (s text, flag bool, v int);
CREATE UNIQUE INDEX x_lower ON x (lower(s));
CREATE UNIQUE INDEX x_part ON x (v) WHERE flag;
INSERT INTO x VALUES ('Abc', true, 1);
INSERT INTO x VALUES ('ABC', false, 2) ON CONFLICT (lower(s)) DO UPDATE SET s = EXCLUDED.s || '!' RETURNING *;
INSERT INTO x VALUES ('def', true, 1) ON CONFLICT (v) WHERE flag DO UPDATE SET flag = false RETURNING *;
INSERT INTO x VALUES ('def', true, 1) ON CONFLICT (v) WHERE flag DO UPDATE SET flag = false RETURNING *;
INSERT INTO x VALUES ('ghi', false, 1) ON CONFLICT (v) WHERE flag DO NOTHING RETURNING *;
INSERT INTO x VALUES ('jkl', true, 1) ON CONFLICT (v) DO NOTHING;
INSERT INTO x VALUES ('jkl', true, 1) ON CONFLICT (s) DO NOTHING;
SELECT * FROM x ORDER BY s;

-- triggers on both paths
CREATE TABLE tg (k int PRIMARY KEY, v int);
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% % %: old %, new %', TG_WHEN, TG_OP, TG_LEVEL, OLD, NEW;
  IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' THEN NEW.v = NEW.v + 1000; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER r1 BEFORE INSERT OR UPDATE ON tg FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER r2 AFTER INSERT OR UPDATE ON tg FOR EACH ROW EXECUTE FUNCTION say();
CREATE TRIGGER s2 AFTER INSERT OR UPDATE ON tg FOR EACH STATEMENT EXECUTE FUNCTION say();
INSERT INTO tg VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = tg.v + EXCLUDED.v;
INSERT INTO tg VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = tg.v + EXCLUDED.v;
INSERT INTO tg VALUES (1, 3) ON CONFLICT (k) DO NOTHING;
SELECT * FROM tg;
-- a BEFORE trigger that inserts the row the command is about to insert
CREATE FUNCTION early() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() = 1 THEN INSERT INTO on_conflict.t VALUES (NEW.k, 'from trigger'); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION early();
INSERT INTO t VALUES (6000, 'main') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO t VALUES (6000, 'main') ON CONFLICT (k) DO NOTHING;
SELECT * FROM t WHERE k = 6000;
DROP TRIGGER b ON t;

-- partitioned, with row movement refused
CREATE TABLE pt (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20) USING heap;
INSERT INTO pt VALUES (1, 'a'), (11, 'b') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO pt VALUES (1, 'c'), (11, 'd'), (2, 'e') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v RETURNING *;
INSERT INTO pt VALUES (1, 'c') ON CONFLICT (k) DO UPDATE SET k = 12;
INSERT INTO pt VALUES (1, 'c'), (12, 'f') ON CONFLICT DO NOTHING;
SELECT tableoid::regclass, * FROM pt ORDER BY k;

-- exclusion constraints
CREATE TABLE room (id int, during int4range, EXCLUDE USING gist (during WITH &&));
INSERT INTO room VALUES (1, '[1,10)'), (2, '[10,20)');
INSERT INTO room VALUES (3, '[5,6)');
INSERT INTO room VALUES (3, '[5,6)') ON CONFLICT DO NOTHING;
INSERT INTO room VALUES (3, '[5,6)') ON CONFLICT ON CONSTRAINT room_during_excl DO NOTHING;
INSERT INTO room VALUES (3, '[5,6)') ON CONFLICT ON CONSTRAINT room_during_excl DO UPDATE SET id = 3;
INSERT INTO room VALUES (4, '[20,30)'), (5, '[29,31)');
UPDATE room SET during = '[1,11)' WHERE id = 1;
UPDATE room SET during = '[2,9)' WHERE id = 1;
UPDATE room SET id = 11 WHERE id = 1;
UPDATE room SET during = '[9,10)' WHERE id = 2;
INSERT INTO room VALUES (6, '[10,20)');
DELETE FROM room WHERE id = 2;
INSERT INTO room VALUES (7, '[9,10)');
SELECT * FROM room ORDER BY during;
ALTER TABLE room ADD EXCLUDE USING btree (id WITH =);
INSERT INTO room VALUES (7, '[50,60)');
CREATE TABLE exd (c circle, EXCLUDE USING gist (c WITH &&) DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO exd VALUES ('<(0,0),5>');
INSERT INTO exd VALUES ('<(1,1),5>');
UPDATE exd SET c = '<(100,100),5>' WHERE c ~= '<(1,1),5>';
COMMIT;
BEGIN;
INSERT INTO exd VALUES ('<(2,2),5>');
COMMIT;
SELECT count(*) FROM exd;
CREATE TABLE exh (a int, b int, EXCLUDE USING hash (a WITH =) WHERE (b > 0));
INSERT INTO exh VALUES (1, 0), (1, 0), (1, 1);
INSERT INTO exh VALUES (1, 2);
INSERT INTO exh VALUES (1, 2) ON CONFLICT DO NOTHING;
UPDATE exh SET b = 0 WHERE b = 1;
INSERT INTO exh VALUES (1, 2) ON CONFLICT DO NOTHING;
SELECT * FROM exh ORDER BY a, b;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA on_conflict CASCADE;
