SET default_table_access_method = zen;
--
-- inheritance: parents and children of both kinds, in queries, changes, locks, ALTER.
--
CREATE SCHEMA inh;
SET search_path = inh, public;

CREATE TABLE a (id int, v text);
CREATE TABLE b (x int) INHERITS (a) USING heap;
CREATE TABLE c (y int) INHERITS (a);
CREATE TABLE d () INHERITS (b, c);
INSERT INTO a VALUES (1, 'a');
INSERT INTO b VALUES (2, 'b', 20);
INSERT INTO c VALUES (3, 'c', 30);
INSERT INTO d VALUES (4, 'd', 40, 41);
SELECT tableoid::regclass, * FROM a ORDER BY id;
SELECT * FROM ONLY a;
SELECT tableoid::regclass, * FROM b ORDER BY id;
SELECT tableoid::regclass, * FROM c ORDER BY id;
UPDATE a SET v = v || '!';
UPDATE ONLY a SET v = v || '?';
UPDATE c SET y = y + 1;
SELECT tableoid::regclass, * FROM a ORDER BY id;
WITH u AS (UPDATE a SET id = id + 10 RETURNING tableoid::regclass AS t, id) SELECT * FROM u ORDER BY id;
WITH x AS (DELETE FROM a WHERE id > 12 RETURNING tableoid::regclass AS t, id, v) SELECT * FROM x ORDER BY id;
INSERT INTO d VALUES (5, 'd5', 50, 51), (6, 'd6', 60, 61);
SELECT count(*) FROM a;
BEGIN;
SELECT count(*) FROM (SELECT 1 FROM a FOR UPDATE) s;
UPDATE a SET v = 'tx';
SAVEPOINT s;
DELETE FROM a;
SELECT count(*) FROM a;
ROLLBACK TO s;
SELECT count(*) FROM a WHERE v = 'tx';
ROLLBACK;
SELECT count(*) FROM a WHERE v = 'tx';
-- joins and subqueries that update children of both kinds
UPDATE a SET v = s.n FROM (VALUES (5, 'five'), (12, 'twelve')) s(i, n) WHERE a.id = s.i;
SELECT tableoid::regclass, id, v FROM a ORDER BY id;
-- row marks of a join where only one side is locked
SELECT x.id, y.id FROM a x JOIN a y ON x.id = y.id ORDER BY 1 FOR UPDATE OF x;
-- ALTER through the parent
ALTER TABLE a ADD COLUMN n int DEFAULT 3;
ALTER TABLE a ALTER id TYPE bigint;
ALTER TABLE a ADD CHECK (id > 0);
INSERT INTO c (id) VALUES (-1);
SELECT tableoid::regclass, id, v, n FROM a ORDER BY id;
ALTER TABLE d SET ACCESS METHOD heap;
ALTER TABLE b SET ACCESS METHOD zen;
SELECT tableoid::regclass, id, v, n FROM a ORDER BY id;
ALTER TABLE d NO INHERIT b;
SELECT tableoid::regclass, id FROM b ORDER BY id;
ALTER TABLE a DROP COLUMN n;
TRUNCATE a;
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM d);
-- indexes per table, merge append, minima over a tree
INSERT INTO a SELECT g, 'a' FROM generate_series(1, 300, 3) g;
INSERT INTO b SELECT g, 'b' FROM generate_series(2, 300, 3) g;
INSERT INTO c SELECT g, 'c' FROM generate_series(3, 300, 3) g;
CREATE INDEX ON a (id);
CREATE INDEX ON b (id);
CREATE INDEX ON c (id);
CREATE INDEX ON d (id);
SET enable_seqscan = off; SET enable_sort = off;
SELECT array_agg(id) = (SELECT array_agg(g) FROM generate_series(1, 300) g)::bigint[] AS in_order
	FROM (SELECT id FROM a ORDER BY id) s;
SELECT min(id), max(id) FROM a;
UPDATE a SET id = id + 1000 WHERE id IN (5, 6, 7);
SELECT id, v FROM a WHERE id > 299 ORDER BY id;
RESET enable_seqscan; RESET enable_sort;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA inh CASCADE;
