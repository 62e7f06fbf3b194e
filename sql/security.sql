SET default_table_access_method = zen;
--
-- security: row level security, column privileges and views over a zen table.
--
CREATE SCHEMA sec;
SET search_path = sec, public;
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_zen_alice;
DROP ROLE IF EXISTS regress_zen_bob;
RESET client_min_messages;
CREATE ROLE regress_zen_alice;
CREATE ROLE regress_zen_bob;
GRANT USAGE ON SCHEMA sec TO PUBLIC;

CREATE TABLE docs (id int PRIMARY KEY, owner name, level int, body text);
INSERT INTO docs VALUES (1, 'regress_zen_alice', 1, 'a1'), (2, 'regress_zen_bob', 1, 'b1'),
	(3, 'regress_zen_alice', 9, 'a9'), (4, 'regress_zen_bob', 9, 'b9');
GRANT SELECT, INSERT, UPDATE, DELETE ON docs TO regress_zen_alice, regress_zen_bob;
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
SET ROLE regress_zen_alice;
SELECT * FROM docs ORDER BY id;
RESET ROLE;
CREATE POLICY own ON docs USING (owner = current_user) WITH CHECK (owner = current_user AND level < 10);
CREATE POLICY low ON docs FOR SELECT USING (level < 5);
CREATE POLICY nokill ON docs AS RESTRICTIVE FOR DELETE USING (level < 5);
SET ROLE regress_zen_alice;
SELECT * FROM docs ORDER BY id;
UPDATE docs SET body = body || '!' WHERE id = 1 RETURNING *;
UPDATE docs SET body = body || '!' WHERE id = 2 RETURNING *;
UPDATE docs SET owner = 'regress_zen_bob' WHERE id = 1;
UPDATE docs SET level = 10 WHERE id = 1;
INSERT INTO docs VALUES (5, 'regress_zen_alice', 2, 'a2') RETURNING id;
INSERT INTO docs VALUES (6, 'regress_zen_bob', 2, 'b2');
INSERT INTO docs VALUES (2, 'regress_zen_alice', 1, 'x') ON CONFLICT (id) DO UPDATE SET body = 'stolen';
INSERT INTO docs VALUES (1, 'regress_zen_alice', 1, 'x') ON CONFLICT (id) DO UPDATE SET body = 'mine' RETURNING body;
WITH d AS (DELETE FROM docs RETURNING id) SELECT * FROM d ORDER BY id;
SELECT id FROM docs ORDER BY id FOR UPDATE;
SELECT id FROM docs ORDER BY id;
MERGE INTO docs d USING (VALUES (3), (2)) s(i) ON d.id = s.i AND d.owner = current_user
	WHEN MATCHED THEN UPDATE SET body = 'merged' WHEN NOT MATCHED THEN DO NOTHING;
COPY (SELECT id, body FROM docs ORDER BY id) TO stdout;
TRUNCATE docs;
RESET ROLE;
SELECT * FROM docs ORDER BY id;
SET ROLE regress_zen_bob;
SELECT id FROM docs ORDER BY id;
RESET ROLE;
-- policies with subqueries on another zen table, bypass for the owner
CREATE TABLE allow (who name, id int);
GRANT SELECT ON allow TO PUBLIC;
INSERT INTO allow VALUES ('regress_zen_bob', 3);
DROP POLICY low ON docs;
CREATE POLICY listed ON docs FOR SELECT USING (EXISTS (SELECT 1 FROM allow a WHERE a.id = docs.id
	AND who = current_user));
SET ROLE regress_zen_bob;
SELECT id FROM docs ORDER BY id;
RESET ROLE;
UPDATE allow SET id = 1;
SET ROLE regress_zen_bob;
SELECT id FROM docs ORDER BY id;
RESET ROLE;
-- column privileges
CREATE TABLE emp (id int, name text, salary int);
INSERT INTO emp VALUES (1, 'x', 100), (2, 'y', 200);
GRANT SELECT (id, name), UPDATE (name), INSERT (id) ON emp TO regress_zen_alice;
SET ROLE regress_zen_alice;
SELECT id, name FROM emp ORDER BY id;
SELECT * FROM emp;
SELECT sum(salary) FROM emp;
UPDATE emp SET name = 'z' WHERE id = 1 RETURNING name;
UPDATE emp SET salary = 0;
UPDATE emp SET name = 'z' RETURNING salary;
INSERT INTO emp (id) VALUES (3);
INSERT INTO emp (id, salary) VALUES (4, 1);
DELETE FROM emp;
SELECT id FROM emp ORDER BY id FOR UPDATE;
SELECT ctid IS NULL FROM emp;
RESET ROLE;
SELECT * FROM emp ORDER BY id;
-- views with check option, security barrier
CREATE VIEW cheap WITH (security_barrier) AS SELECT id, name FROM emp WHERE salary < 150 WITH CASCADED CHECK OPTION;
GRANT ALL ON cheap TO regress_zen_bob;
SET ROLE regress_zen_bob;
SELECT * FROM cheap;
UPDATE cheap SET name = 'via view' RETURNING *;
INSERT INTO cheap VALUES (9, 'n');
DELETE FROM cheap WHERE id = 1 RETURNING *;
RESET ROLE;
SELECT * FROM emp ORDER BY id;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA sec CASCADE;
DROP ROLE regress_zen_alice, regress_zen_bob;
