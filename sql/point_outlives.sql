-- What executor state that is kept (point of zen.executor) must not take from one execution into the next.
CREATE SCHEMA point_outlives;
SET search_path = point_outlives;
-- Needs the executor.
SET default_table_access_method = zen;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

SELECT point_accesses AS before FROM public.zen_stat \gset
CREATE TABLE t (id int PRIMARY KEY, v int, w text);
INSERT INTO t SELECT g, g, 'w' FROM generate_series(1, 20) g;

-- a cursor's row stays the current one
CREATE FUNCTION change_current(int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c NO SCROLL CURSOR FOR SELECT * FROM t WHERE id = $1;
	r record;
BEGIN
	OPEN c;
	FETCH c INTO r;
	IF r.v > 2 THEN
		DELETE FROM t WHERE CURRENT OF c;
	ELSE
		UPDATE t SET v = v + 1 WHERE CURRENT OF c;
	END IF;
	FETCH c INTO r;
	CLOSE c;
	RETURN r::text;
END $$;
SELECT change_current(1) FROM generate_series(1, 2);
SELECT change_current(1), change_current(3), change_current(4);
SELECT id, v FROM t WHERE id < 6 ORDER BY id;

-- a query may come to lie where one has lain that failed in a subtransaction
CREATE FUNCTION fail_and_go_on(int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c NO SCROLL CURSOR FOR SELECT id, 100 / v AS share FROM t WHERE id = $1;
	r record;
	told text := '';
BEGIN
	FOR i IN 1..4 LOOP
		OPEN c;
		BEGIN
			FETCH c INTO r;
			told := told || r::text;
		EXCEPTION WHEN division_by_zero THEN
			told := told || 'division by zero';
		END;
		CLOSE c;
		UPDATE t SET v = 5 WHERE id = $1;
	END LOOP;
	RETURN told;
END $$;
SELECT fail_and_go_on(10), fail_and_go_on(11);
UPDATE t SET v = 0 WHERE id IN (10, 11);
SELECT fail_and_go_on(10);
SELECT fail_and_go_on(11);

-- a function in SQL keeps its plans for a transaction: in the statement, in a constraint, in a trigger's condition
CREATE TABLE other (a int, b int);
INSERT INTO other VALUES (1, 2);
CREATE FUNCTION biggest(int) RETURNS int LANGUAGE sql VOLATILE AS
	'INSERT INTO other (b) VALUES ($1); SELECT max(b)::int FROM other';
CREATE FUNCTION low(int) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT $1 < 1000 + max(b) FROM other';
CREATE TABLE c (id int PRIMARY KEY, v int CHECK (low(v)));
CREATE TABLE g (id int PRIMARY KEY, v int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''%'', NEW; RETURN NULL; END';
CREATE TRIGGER when_low AFTER UPDATE ON g FOR EACH ROW WHEN (low(NEW.v)) EXECUTE FUNCTION note();
INSERT INTO c VALUES (1, 1);
INSERT INTO g VALUES (1, 1);
PREPARE by_function(int) AS UPDATE t SET v = biggest($1) WHERE id = $1 RETURNING v;
PREPARE by_check(int) AS UPDATE c SET v = $1 WHERE id = 1 RETURNING v;
PREPARE by_trigger(int) AS UPDATE g SET v = $1 WHERE id = 1 RETURNING v;
BEGIN;
EXECUTE by_function(15); EXECUTE by_function(16); EXECUTE by_function(17);
EXECUTE by_check(2); EXECUTE by_check(3); EXECUTE by_check(4);
EXECUTE by_trigger(2); EXECUTE by_trigger(3); EXECUTE by_trigger(4);
ALTER TABLE other DROP COLUMN a;
EXECUTE by_function(18);
EXECUTE by_check(5);
EXECUTE by_trigger(5);
ALTER TABLE other ALTER b TYPE bigint;
EXECUTE by_function(18);
EXECUTE by_check(5);
EXECUTE by_trigger(5);
DROP TABLE other;
CREATE TABLE other (x text, b int);
EXECUTE by_function(19);
EXECUTE by_check(6);
EXECUTE by_trigger(6);
ROLLBACK;

-- the constraints of a domain in a trigger's condition, on a table that has no constraint of its own
CREATE DOMAIN few AS int;
CREATE TABLE d (id int UNIQUE, v int);
INSERT INTO d VALUES (1, 1);
CREATE TRIGGER when_few AFTER UPDATE ON d FOR EACH ROW WHEN (NEW.v::few > 2) EXECUTE FUNCTION note();
PREPARE by_domain(int) AS UPDATE d SET v = $1 WHERE id = 1;
EXECUTE by_domain(2); EXECUTE by_domain(3); EXECUTE by_domain(4);
ALTER DOMAIN few ADD CHECK (VALUE < 5);
EXECUTE by_domain(7);
EXECUTE by_domain(4);

-- a composite type with another column
CREATE TYPE pair AS (l int, r int);
CREATE TABLE p (id int PRIMARY KEY, m pair);
INSERT INTO p VALUES (1, ROW(1, 2));
PREPARE set_field(int) AS UPDATE p SET m.l = $1 WHERE id = 1 RETURNING m;
EXECUTE set_field(3); EXECUTE set_field(4); EXECUTE set_field(5);
ALTER TYPE pair ADD ATTRIBUTE t int;
EXECUTE set_field(6);
EXECUTE set_field(7);

-- what changes while the state is being made: a domain's constraint, looked up then, calls a function that takes a role away
CREATE FUNCTION take_away() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF current_setting('point_outlives.take_away', true) = 'on' THEN
		REVOKE point_readers FROM point_reader;
	END IF;
	RETURN 0;
END $$;
CREATE FUNCTION zero() RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN point_outlives.take_away(); END';
CREATE DOMAIN above AS int CHECK (VALUE > point_outlives.zero());
CREATE ROLE point_readers;
CREATE ROLE point_reader ROLE CURRENT_USER IN ROLE point_readers;
GRANT USAGE ON SCHEMA point_outlives TO point_reader;
GRANT SELECT ON t TO point_readers;
SET ROLE point_reader;
PREPARE meanwhile(int) AS SELECT id, $1::above FROM t WHERE id = $1;
EXECUTE meanwhile(2);
RESET ROLE;
-- domains are looked up again
ALTER TABLE d ADD CHECK (id > 0);
SET point_outlives.take_away = on;
SELECT sum(count) AS changed FROM public.zen_stat_executor WHERE reason = 'changed' \gset
SET ROLE point_reader;
BEGIN;
EXECUTE meanwhile(2);
EXECUTE meanwhile(2);
ROLLBACK;
RESET ROLE;
SELECT sum(count) - :changed AS changed FROM public.zen_stat_executor WHERE reason = 'changed';
REVOKE ALL ON t FROM point_readers;
REVOKE ALL ON SCHEMA point_outlives FROM point_reader;
DROP ROLE point_reader, point_readers;

SELECT point_accesses - :before > 30 AS ran_so FROM public.zen_stat;
DEALLOCATE ALL;
RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA point_outlives CASCADE;
