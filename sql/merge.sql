SET default_table_access_method = zen;
--
-- merge: MERGE with every kind of action, triggers, partitions of both kinds.
--
CREATE SCHEMA merge_test;
SET search_path = merge_test, public;

CREATE TABLE tgt (id int PRIMARY KEY, bal int, note text);
CREATE TABLE src (id int, delta int);
INSERT INTO tgt SELECT g, g * 100, 'old' FROM generate_series(1, 6) g;
INSERT INTO src VALUES (2, 20), (4, -400), (5, 0), (8, 80), (9, NULL);

MERGE INTO tgt t USING src s ON t.id = s.id
  WHEN MATCHED AND t.bal + s.delta <= 0 THEN DELETE
  WHEN MATCHED AND s.delta = 0 THEN DO NOTHING
  WHEN MATCHED THEN UPDATE SET bal = t.bal + s.delta, note = 'merged'
  WHEN NOT MATCHED AND s.delta IS NULL THEN DO NOTHING
  WHEN NOT MATCHED THEN INSERT (id, bal, note) VALUES (s.id, s.delta, 'inserted');
SELECT * FROM tgt ORDER BY id;
-- insert only, delete only, default values
MERGE INTO tgt USING (VALUES (20), (21)) v(x) ON tgt.id = v.x WHEN NOT MATCHED THEN INSERT VALUES (x, DEFAULT, 'v');
MERGE INTO tgt USING (VALUES (20), (22)) v(x) ON tgt.id = v.x WHEN MATCHED THEN DELETE;
SELECT * FROM tgt ORDER BY id;
-- change of the key
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = t.id + 100;
SELECT * FROM tgt ORDER BY id;
-- a source that hits a row twice
MERGE INTO tgt t USING (VALUES (1, 1), (1, 2)) s(id, d) ON t.id = s.id WHEN MATCHED THEN UPDATE SET bal = bal + d;
MERGE INTO tgt t USING (VALUES (1, 1), (1, 2)) s(id, d) ON t.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO tgt t USING (VALUES (50, 1), (50, 2)) s(id, d) ON t.id = s.id WHEN NOT MATCHED THEN INSERT
	VALUES (s.id, d, 'twice');
SELECT * FROM tgt ORDER BY id;
-- self-merge, and a whole-table merge within a transaction that is rolled back
BEGIN;
MERGE INTO tgt t USING tgt s ON t.id = s.id + 1
  WHEN MATCHED THEN UPDATE SET note = 'after ' || s.id
  WHEN NOT MATCHED THEN INSERT VALUES (s.id + 1, 0, 'gap');
SELECT * FROM tgt ORDER BY id;
MERGE INTO tgt t USING tgt s ON t.id = s.id WHEN MATCHED THEN DELETE;
SELECT count(*) FROM tgt;
ROLLBACK;
SELECT count(*), sum(bal) FROM tgt;

-- triggers
CREATE TABLE log (n serial, msg text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO merge_test.log (msg) VALUES (format('%s %s %s: %s -> %s', TG_WHEN, TG_OP, TG_LEVEL, OLD, NEW));
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER br BEFORE INSERT OR UPDATE OR DELETE ON tgt FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER ar AFTER INSERT OR UPDATE OR DELETE ON tgt FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER bs BEFORE INSERT OR UPDATE OR DELETE ON tgt FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER zs AFTER INSERT OR UPDATE OR DELETE ON tgt FOR EACH STATEMENT EXECUTE FUNCTION note();
MERGE INTO tgt t USING (VALUES (1, 10)) s(id, d) ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET bal = bal + d WHEN NOT MATCHED THEN INSERT VALUES (s.id, d, 'n');
MERGE INTO tgt t USING (VALUES (60, 10)) s(id, d) ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET bal = bal + d WHEN NOT MATCHED THEN INSERT VALUES (s.id, d, 'n');
MERGE INTO tgt t USING (VALUES (60, 10)) s(id, d) ON t.id = s.id
  WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, d, 'n');
SELECT msg FROM log ORDER BY n;

-- partitions, one zen and one heap, rows moving between them
CREATE TABLE pt (k int, v text) PARTITION BY LIST (k);
CREATE TABLE pt_z PARTITION OF pt FOR VALUES IN (1, 2, 3);
CREATE TABLE pt_h PARTITION OF pt FOR VALUES IN (11, 12, 13) USING heap;
INSERT INTO pt VALUES (1, 'a'), (2, 'b'), (11, 'k'), (12, 'l');
MERGE INTO pt USING (VALUES (1, 11), (2, 3), (12, 2), (13, 13)) s(k, n) ON pt.k = s.k
  WHEN MATCHED AND n = 2 THEN DELETE
  WHEN MATCHED THEN UPDATE SET k = n, v = v || '>' || n
  WHEN NOT MATCHED THEN INSERT VALUES (n, 'new');
SELECT tableoid::regclass, * FROM pt ORDER BY k, v;
-- heap into zen, zen into heap
CREATE TABLE h (id int PRIMARY KEY, v int) USING heap;
INSERT INTO h SELECT g, g FROM generate_series(1, 5) g;
MERGE INTO h USING tgt ON h.id = tgt.id WHEN MATCHED THEN UPDATE SET v = bal WHEN NOT MATCHED THEN INSERT
	VALUES (id, bal);
SELECT * FROM h ORDER BY id;
MERGE INTO tgt USING h ON h.id = tgt.id WHEN MATCHED THEN UPDATE SET bal = v, note = 'h' WHEN NOT MATCHED THEN INSERT
	VALUES (id, v, 'from h');
SELECT * FROM tgt ORDER BY id;
-- many rows
CREATE TABLE many (id int PRIMARY KEY, v int);
INSERT INTO many SELECT g * 2, 0 FROM generate_series(1, 3000) g;
MERGE INTO many USING generate_series(1, 6000) g ON many.id = g
  WHEN MATCHED AND g % 4 = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET v = 1
  WHEN NOT MATCHED THEN INSERT VALUES (g, 2);
SELECT count(*), count(*) FILTER (WHERE v = 1), count(*) FILTER (WHERE v = 2), sum(id) FROM many;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA merge_test CASCADE;
