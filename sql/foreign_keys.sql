SET default_table_access_method = zen;
--
-- foreign_keys: references from and to zen and heap tables, every action, deferred
-- checks, self-references, and rows that change again before the check.
--
CREATE SCHEMA fk;
SET search_path = fk, public;

-- zen to zen
CREATE TABLE p (id int PRIMARY KEY, v text);
CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES p);
INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO c VALUES (1, 1), (2, 2), (3, NULL);
INSERT INTO c VALUES (4, 9);
UPDATE c SET pid = 9 WHERE id = 1;
UPDATE c SET pid = 3 WHERE id = 1;
DELETE FROM p WHERE id = 2;
UPDATE p SET id = 20 WHERE id = 2;
DELETE FROM p WHERE id = 1;
UPDATE p SET v = 'bb' WHERE id = 2;
UPDATE p SET id = 2 WHERE id = 2;
SELECT * FROM p ORDER BY id;
SELECT * FROM c ORDER BY id;
TRUNCATE p;
TRUNCATE p, c;
SELECT count(*) FROM p, c;

-- zen to heap and heap to zen
CREATE TABLE hp (id int PRIMARY KEY) USING heap;
CREATE TABLE zc (id int, pid int REFERENCES hp ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE zp (id int PRIMARY KEY);
CREATE TABLE hc (id int, pid int REFERENCES zp ON DELETE SET NULL ON UPDATE CASCADE) USING heap;
INSERT INTO hp VALUES (1), (2), (3);
INSERT INTO zp VALUES (1), (2), (3);
INSERT INTO zc SELECT g, g % 3 + 1 FROM generate_series(1, 9) g;
INSERT INTO hc SELECT g, g % 3 + 1 FROM generate_series(1, 9) g;
INSERT INTO zc VALUES (10, 10);
INSERT INTO hc VALUES (10, 10);
UPDATE hp SET id = 11 WHERE id = 1;
UPDATE zp SET id = 11 WHERE id = 1;
DELETE FROM hp WHERE id = 2;
DELETE FROM zp WHERE id = 2;
SELECT * FROM zc ORDER BY id;
SELECT * FROM hc ORDER BY id;

-- every action, zen to zen
CREATE TABLE q (a int, b int, PRIMARY KEY (a, b));
CREATE TABLE act (k serial, what text, a int, b int DEFAULT 0);
INSERT INTO q SELECT g, g FROM generate_series(0, 9) g;
INSERT INTO q VALUES (5, 0), (6, 0);
ALTER TABLE act ADD CONSTRAINT f FOREIGN KEY (a, b) REFERENCES q ON DELETE CASCADE ON UPDATE CASCADE;
INSERT INTO act (what, a, b) VALUES ('cascade', 1, 1), ('cascade', 2, 2), ('both null', NULL, NULL),
	('half null', NULL, 77);
DELETE FROM q WHERE a = 1;
UPDATE q SET a = 22, b = 23 WHERE a = 2;
UPDATE q SET a = 2, b = 2 WHERE a = 22;
SELECT what, a, b FROM act ORDER BY k;
ALTER TABLE act DROP CONSTRAINT f, ADD CONSTRAINT f FOREIGN KEY (a, b)
	REFERENCES q ON DELETE SET NULL ON UPDATE SET NULL;
INSERT INTO act (what, a, b) VALUES ('set null', 3, 3), ('set null', 4, 4);
DELETE FROM q WHERE a = 3;
UPDATE q SET a = 44 WHERE a = 4;
SELECT what, a, b FROM act ORDER BY k;
ALTER TABLE act DROP CONSTRAINT f, ADD CONSTRAINT f FOREIGN KEY (a, b)
	REFERENCES q ON DELETE SET DEFAULT (b) ON UPDATE SET DEFAULT;
INSERT INTO act (what, a, b) VALUES ('set default', 5, 5), ('set default', 6, 6);
DELETE FROM q WHERE a = 5 AND b = 5;
UPDATE q SET b = 66 WHERE a = 6 AND b = 6;
SELECT what, a, b FROM act ORDER BY k;
ALTER TABLE act DROP CONSTRAINT f, ADD CONSTRAINT f FOREIGN KEY (a, b)
	REFERENCES q ON DELETE RESTRICT ON UPDATE RESTRICT DEFERRABLE INITIALLY DEFERRED;
INSERT INTO act (what, a, b) VALUES ('restrict', 7, 7);
CREATE FUNCTION restricted(dml text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE dml;
  RETURN false;
EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN
  RETURN true;
END $$;
BEGIN;
SELECT restricted('DELETE FROM q WHERE a = 7');
COMMIT;
SELECT restricted('UPDATE q SET a = 77 WHERE a = 7');
-- MATCH FULL
CREATE TABLE mf (a int, b int, FOREIGN KEY (a, b) REFERENCES q MATCH FULL);
INSERT INTO mf VALUES (NULL, NULL), (7, 7);
INSERT INTO mf VALUES (7, NULL);

-- deferred: the row that is checked may be gone, updated, or moved by then
CREATE TABLE d (id int PRIMARY KEY, pid int, note text,
  CONSTRAINT d_fk FOREIGN KEY (pid) REFERENCES zp ON UPDATE NO ACTION DEFERRABLE INITIALLY DEFERRED);
TRUNCATE zp CASCADE;
INSERT INTO zp VALUES (1), (2), (3);
BEGIN;
INSERT INTO d VALUES (1, 100, 'later');
INSERT INTO zp VALUES (100);
COMMIT;
BEGIN;
INSERT INTO d VALUES (2, 200, 'never');
COMMIT;
BEGIN;
INSERT INTO d VALUES (2, 200, 'deleted in time');
DELETE FROM d WHERE id = 2;
COMMIT;
BEGIN;
INSERT INTO d VALUES (2, 200, 'corrected in time');
UPDATE d SET note = note || '!' WHERE id = 2;
UPDATE d SET pid = 1 WHERE id = 2;
UPDATE d SET note = note || '!' WHERE id = 2;
COMMIT;
BEGIN;
UPDATE d SET pid = 300 WHERE id = 2;
UPDATE d SET note = 'still wrong' WHERE id = 2;
COMMIT;
BEGIN;
UPDATE d SET pid = 300 WHERE id = 2;
UPDATE d SET id = 3, pid = 2 WHERE id = 2;
COMMIT;
BEGIN;
DELETE FROM zp WHERE id = 2;
INSERT INTO zp VALUES (2);
COMMIT;
BEGIN;
UPDATE zp SET id = 9 WHERE id = 2;
UPDATE zp SET id = 2 WHERE id = 9;
COMMIT;
BEGIN;
DELETE FROM zp WHERE id = 2;
SAVEPOINT a;
INSERT INTO zp VALUES (2);
ROLLBACK TO a;
COMMIT;
BEGIN;
DELETE FROM zp WHERE id = 2;
DELETE FROM d WHERE pid = 2;
COMMIT;
BEGIN;
INSERT INTO d VALUES (7, 700, 'x');
SET CONSTRAINTS d_fk IMMEDIATE;
ROLLBACK;
SELECT * FROM d ORDER BY id;
SELECT * FROM zp ORDER BY id;
-- one row updated many times within the transaction before its check
BEGIN;
INSERT INTO d VALUES (8, 800, 'n');
DO $$ BEGIN FOR i IN 1..100 LOOP UPDATE fk.d SET note = 'n' || i, pid = 800 + i WHERE id = 8; END LOOP; END $$;
INSERT INTO zp VALUES (900);
COMMIT;
BEGIN;
INSERT INTO d VALUES (9, 800, 'n');
DO $$ BEGIN FOR i IN 1..100 LOOP UPDATE fk.d SET note = 'n' || i, pid = 800 - i WHERE id = 9; END LOOP; END $$;
COMMIT;
SELECT * FROM d ORDER BY id;

-- self-reference: trees, cascades, one-statement inserts
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO tree SELECT g, NULLIF(g / 2, 0) FROM generate_series(1, 31) g;
DELETE FROM tree WHERE id = 2;
SELECT count(*), sum(id) FROM tree;
UPDATE tree SET id = 300 WHERE id = 3;
SELECT count(*) FROM tree WHERE up = 300;
INSERT INTO tree VALUES (400, 401), (401, 400);
INSERT INTO tree VALUES (500, 501);
DELETE FROM tree WHERE id = 1;
SELECT * FROM tree ORDER BY id;

-- cascades over several tables of both kinds, with triggers
CREATE TABLE l1 (id int PRIMARY KEY);
CREATE TABLE l2 (id int PRIMARY KEY, r int REFERENCES l1 ON DELETE CASCADE) USING heap;
CREATE TABLE l3 (id int PRIMARY KEY, r int REFERENCES l2 ON DELETE CASCADE);
INSERT INTO l1 SELECT generate_series(1, 5);
INSERT INTO l2 SELECT g, (g + 1) / 2 FROM generate_series(1, 10) g;
INSERT INTO l3 SELECT g, (g + 1) / 2 FROM generate_series(1, 20) g;
CREATE TABLE fired (t text, id int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fk.fired VALUES (TG_TABLE_NAME, OLD.id);
	RETURN NULL; END $$;
CREATE TRIGGER n AFTER DELETE ON l2 FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER n AFTER DELETE ON l3 FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
DELETE FROM l1 WHERE id = 1;
SELECT (SELECT count(*) FROM l1), (SELECT count(*) FROM l2), (SELECT count(*) FROM l3);
ROLLBACK;
DELETE FROM l1 WHERE id IN (2, 4);
SELECT (SELECT count(*) FROM l1), (SELECT count(*) FROM l2), (SELECT count(*) FROM l3);
SELECT t, array_agg(id ORDER BY id) FROM fired GROUP BY t ORDER BY t;

-- added to existing rows, NOT VALID, validated
CREATE TABLE old (id int, pid int);
INSERT INTO old VALUES (1, 1), (2, 55);
ALTER TABLE old ADD CONSTRAINT old_fk FOREIGN KEY (pid) REFERENCES zp;
ALTER TABLE old ADD CONSTRAINT old_fk FOREIGN KEY (pid) REFERENCES zp NOT VALID;
INSERT INTO old VALUES (3, 55);
UPDATE old SET id = 20 WHERE id = 2;
ALTER TABLE old VALIDATE CONSTRAINT old_fk;
DELETE FROM old WHERE pid = 55;
ALTER TABLE old VALIDATE CONSTRAINT old_fk;
-- partitioned tables on both sides
CREATE TABLE pp (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE pp1 PARTITION OF pp FOR VALUES FROM (0) TO (10);
CREATE TABLE pp2 PARTITION OF pp FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE pc (id int, pid int REFERENCES pp ON DELETE CASCADE ON UPDATE CASCADE) PARTITION BY LIST (id);
CREATE TABLE pc1 PARTITION OF pc FOR VALUES IN (1);
CREATE TABLE pc2 PARTITION OF pc FOR VALUES IN (2) USING heap;
INSERT INTO pp VALUES (1), (11), (2), (12);
INSERT INTO pc VALUES (1, 1), (2, 1), (1, 11), (2, 11), (1, 2);
INSERT INTO pc VALUES (1, 5);
UPDATE pp SET id = 15 WHERE id = 1;
UPDATE pp SET id = 3 WHERE id = 11;
DELETE FROM pp WHERE id = 2;
UPDATE pc SET id = 3 - id;
SELECT tableoid::regclass, * FROM pp ORDER BY id;
SELECT tableoid::regclass, * FROM pc ORDER BY id, pid;
-- key columns wider than a page's share, and of several types
CREATE TABLE tp (k text PRIMARY KEY);
CREATE TABLE tc (k text REFERENCES tp ON UPDATE CASCADE);
INSERT INTO tp VALUES (repeat('k', 500)), ('small');
INSERT INTO tc VALUES (repeat('k', 500)), ('small');
UPDATE tp SET k = repeat('l', 600) WHERE k LIKE 'kkk%';
SELECT length(k), left(k, 1) FROM tc ORDER BY k;
-- large numbers of rows
CREATE TABLE bp (id int PRIMARY KEY);
CREATE TABLE bc (id int REFERENCES bp ON DELETE CASCADE ON UPDATE CASCADE);
CREATE INDEX ON bc (id);
INSERT INTO bp SELECT generate_series(1, 3000);
INSERT INTO bc SELECT g % 3000 + 1 FROM generate_series(1, 6000) g;
UPDATE bp SET id = id + 10000 WHERE id <= 1000;
DELETE FROM bp WHERE id > 10500 OR id % 2 = 0;
SELECT (SELECT count(*) FROM bp), count(*), sum(id) FROM bc;
SELECT count(*) FROM bc WHERE NOT EXISTS (SELECT 1 FROM bp WHERE bp.id = bc.id);

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA fk CASCADE;
