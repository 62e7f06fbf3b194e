-- Statements on one row, named by a unique key: run with executor state that is kept (point of zen.executor).
CREATE SCHEMA point_access;
SET search_path = point_access;
-- Needs the executor.
SET default_table_access_method = zen;
-- plans that can be executed again
SET plan_cache_mode = force_generic_plan;
-- by the index also where tables are small
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- how many of the statements since the last call were run so; \gset keeps it
CREATE FUNCTION runs() RETURNS bigint LANGUAGE sql AS 'SELECT point_accesses FROM public.zen_stat';

CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL DEFAULT 7, b text, c numeric CHECK (c < 100), u int UNIQUE,
	g int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO t (id, a, b, c, u) SELECT i, i, 'b' || i, i, 100 + i FROM generate_series(1, 20) i;
ANALYZE t;

-- it shows in plans
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 1;
EXPLAIN (COSTS OFF, VERBOSE) UPDATE t SET a = 3 WHERE id = 1 RETURNING a, b;
EXPLAIN (COSTS OFF) DELETE FROM t WHERE u = 1;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 1 FOR UPDATE;
EXPLAIN (COSTS OFF) INSERT INTO t VALUES (1, 2);
-- and not where it does not fit
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id > 19;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE id = 1;

-- the statements, each prepared
PREPARE sel(int) AS SELECT * FROM t WHERE id = $1;
PREPARE sel_more(int, text) AS SELECT id, upper(b), a + $1 AS plus FROM t WHERE id = $1 AND b LIKE $2;
PREPARE sel_u(int) AS SELECT id FROM t WHERE u = $1;
PREPARE sel_big(bigint) AS SELECT id FROM t WHERE id = $1;
PREPARE sel_lock(int) AS SELECT id, b FROM t WHERE id = $1 FOR NO KEY UPDATE;
PREPARE upd(int, int) AS UPDATE t SET a = a + $2, b = b || '+' WHERE id = $1;
PREPARE upd_ret(int, numeric) AS UPDATE t SET c = $2 WHERE id = $1 RETURNING id, a, c, g, b || '!' AS x;
PREPARE upd_key(int, int) AS UPDATE t SET id = $2, u = NULL WHERE id = $1 RETURNING *;
PREPARE ins(int, int, text, numeric) AS INSERT INTO t (id, a, b, c) VALUES ($1, $2, $3, $4) RETURNING *;
PREPARE ins_default(int) AS INSERT INTO t (id) VALUES ($1);
PREPARE del(int) AS DELETE FROM t WHERE id = $1 RETURNING id, b, g;

SELECT runs() AS before \gset
EXECUTE sel(1);
EXECUTE sel(1);
EXECUTE sel(2);
EXECUTE sel(NULL);
EXECUTE sel(99);
EXECUTE sel_more(3, 'b%');
EXECUTE sel_more(3, 'b%');
EXECUTE sel_more(3, 'c%');
EXECUTE sel_u(105);
EXECUTE sel_u(105);
EXECUTE sel_big(5);
EXECUTE sel_big(5);
EXECUTE sel_big(50000000000);
EXECUTE sel_lock(6);
EXECUTE sel_lock(6);
EXECUTE sel_lock(7);
EXECUTE upd(1, 10);
EXECUTE upd(1, 10);
EXECUTE upd(99, 10);
EXECUTE sel(1);
EXECUTE upd_ret(2, 50);
EXECUTE upd_ret(2, 51);
EXECUTE upd_ret(3, 100);
EXECUTE upd_ret(3, 99);
EXECUTE upd_key(4, 40);
EXECUTE upd_key(5, 50);
EXECUTE upd_key(50, 40);
EXECUTE upd_key(50, 51);
EXECUTE ins(21, 1, 'new', 1);
EXECUTE ins(22, 2, 'new', 2);
EXECUTE ins(22, 2, 'new', 2);
EXECUTE ins(23, NULL, 'new', 2);
EXECUTE ins(23, 2, NULL, 200);
EXECUTE ins(23, 2, NULL, NULL);
EXECUTE ins_default(24);
EXECUTE ins_default(25);
EXECUTE del(6);
EXECUTE del(7);
EXECUTE del(7);
EXECUTE del(8);
SELECT * FROM t ORDER BY id;
SELECT runs() - :before AS runs;

-- measured node by node
SELECT count AS before FROM public.zen_stat_executor WHERE reason = 'instrumented' \gset
DO $$
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE) EXECUTE sel(1)';
	EXECUTE 'EXPLAIN (ANALYZE) EXECUTE upd(1, 0)';
END $$;
SELECT count - :before AS measured FROM public.zen_stat_executor WHERE reason = 'instrumented';

-- one command and the next, savepoints, an error in between
BEGIN;
EXECUTE upd(1, 1);
EXECUTE upd(1, 1);
SAVEPOINT s;
EXECUTE upd(1, 100);
EXECUTE upd_ret(1, 100);
ROLLBACK TO s;
EXECUTE sel(1);
EXECUTE upd(1, 1);
RELEASE s;
EXECUTE del(9);
EXECUTE sel(9);
ROLLBACK;
EXECUTE sel(1);
EXECUTE sel(9);

-- transactions that may not write
BEGIN READ ONLY;
EXECUTE sel(1);
SAVEPOINT s;
EXECUTE upd(1, 1);
ROLLBACK TO s;
EXECUTE sel_lock(1);
ROLLBACK;

-- isolation levels above: the statement's snapshot is the transaction's
BEGIN ISOLATION LEVEL REPEATABLE READ;
EXECUTE sel(10);
EXECUTE upd(10, 1);
EXECUTE sel(10);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
EXECUTE sel(10);
EXECUTE upd(10, 1);
EXECUTE del(11);
COMMIT;

-- changes of the table: the next execution follows
ALTER TABLE t ADD COLUMN n int DEFAULT 5;
EXECUTE sel_lock(10);
EXECUTE upd(10, 1);
EXECUTE upd_ret(10, 9);
ALTER TABLE t DROP COLUMN c;
EXECUTE upd(10, 1);
EXECUTE upd_ret(10, 9);
EXECUTE upd(10, 1);
ALTER TABLE t RENAME COLUMN a TO aa;
EXECUTE upd(10, 1);
SELECT id, aa, b, n, g FROM t WHERE id = 10;
ALTER TABLE t ADD CONSTRAINT b_short CHECK (length(b) < 12) NOT VALID;
EXECUTE upd(10, 1);
EXECUTE upd(10, 1);
ALTER TABLE t DROP CONSTRAINT b_short;
ALTER TABLE t DROP CONSTRAINT t_pkey;
EXECUTE upd(10, 1);
EXECUTE upd(10, 1);
ALTER TABLE t ADD PRIMARY KEY (id);
EXECUTE upd(10, 1);
EXECUTE upd(10, 1);
REINDEX TABLE t;
EXECUTE upd(10, 1);
TRUNCATE t;
EXECUTE upd(10, 1);
INSERT INTO t (id, aa, b) VALUES (10, 0, 'again');
EXECUTE upd(10, 1);
SELECT id, aa, b, n, g FROM t;
DEALLOCATE ALL;
DROP TABLE t;

-- triggers: AFTER ROW and statement triggers run, others go to the standard executor
CREATE TABLE log (n serial, what text);
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT i, i FROM generate_series(1, 9) i;
ANALYZE t;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what) VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, OLD, NEW));
	RETURN COALESCE(NEW, OLD);
END $$;
PREPARE ins(int, int) AS INSERT INTO t VALUES ($1, $2);
PREPARE upd(int) AS UPDATE t SET v = v + 1 WHERE id = $1;
PREPARE del(int) AS DELETE FROM t WHERE id = $1;
CREATE TRIGGER row_note AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER before_note BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER after_note AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
SELECT runs() AS before \gset
EXECUTE ins(11, 1);
EXECUTE ins(12, 2);
EXECUTE ins(13, 3);
EXECUTE upd(1);
EXECUTE upd(2);
EXECUTE upd(77);
EXECUTE del(3);
EXECUTE del(4);
EXECUTE del(4);
SELECT what FROM log ORDER BY n;
SELECT runs() - :before AS runs;
TRUNCATE log;
CREATE TRIGGER row_before BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();
SELECT runs() AS before \gset
EXECUTE upd(1);
EXECUTE upd(1);
SELECT what FROM log ORDER BY n;
SELECT runs() - :before AS runs;
DROP TRIGGER row_before ON t;
-- a trigger's function runs the statement that fired it
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v < 40 THEN
		UPDATE point_access.t SET v = v + 10 WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER again AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION again();
EXECUTE upd(5);
EXECUTE upd(5);
EXECUTE upd(6);
SELECT * FROM t WHERE id IN (5, 6) ORDER BY id;
DEALLOCATE ALL;
DROP TABLE t, log;

-- foreign keys on either side: their own queries are point accesses, too
CREATE TABLE p (id int PRIMARY KEY, v text);
CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE,
	q int REFERENCES p DEFERRABLE INITIALLY DEFERRED);
INSERT INTO p SELECT i, 'p' FROM generate_series(1, 50) i;
INSERT INTO c SELECT i, i, i FROM generate_series(1, 9) i;
CREATE INDEX ON c (p);
ANALYZE p, c;
PREPARE ins(int, int, int) AS INSERT INTO c VALUES ($1, $2, $3);
PREPARE upd(int, int) AS UPDATE c SET p = $2 WHERE id = $1;
PREPARE del(int) AS DELETE FROM p WHERE id = $1;
PREPARE move(int, int) AS UPDATE p SET id = $2 WHERE id = $1;
SELECT runs() AS before \gset
EXECUTE ins(11, 1, 1);
EXECUTE ins(12, 2, 2);
EXECUTE ins(13, 99, 2);
EXECUTE ins(14, 2, 99);
EXECUTE ins(15, NULL, NULL);
EXECUTE upd(11, 20);
EXECUTE upd(12, 20);
EXECUTE upd(12, 99);
EXECUTE del(20);
EXECUTE del(21);
EXECUTE del(9);
EXECUTE move(8, 80);
EXECUTE move(30, 31);
EXECUTE move(30, 81);
EXECUTE move(7, 82);
SELECT * FROM c ORDER BY id;
SELECT runs() - :before > 20 AS also_the_checks;
DEALLOCATE ALL;
DROP TABLE c, p;

-- identity, defaults, domains, composite and toasted values, several key columns, expressions as keys, partial and
-- deferrable indexes
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE TABLE k (a int, b text, i int GENERATED ALWAYS AS IDENTITY, s small, d text DEFAULT 'dflt',
	PRIMARY KEY (a, b));
CREATE UNIQUE INDEX k_lower ON k (lower(d), i);
CREATE UNIQUE INDEX k_part ON k (s) WHERE a = 1;
PREPARE ins(int, text, int) AS INSERT INTO k (a, b, s) VALUES ($1, $2, $3) RETURNING *;
EXECUTE ins(1, 'x', 1);
EXECUTE ins(1, 'Y', 2);
EXECUTE ins(1, 'Y', 3);
EXECUTE ins(1, 'z', 10);
EXECUTE ins(2, 'z', 9);
PREPARE sel(int, text) AS SELECT * FROM k WHERE a = $1 AND b = $2;
EXECUTE sel(1, 'x');
EXECUTE sel(1, 'x');
EXECUTE sel(1, 'Y');
PREPARE sel_half(int) AS SELECT b FROM k WHERE a = $1 ORDER BY b;
EXECUTE sel_half(1);
EXECUTE sel_half(1);
PREPARE sel_lower(text, int) AS SELECT a, b FROM k WHERE lower(d) = $1 AND i = $2;
EXECUTE sel_lower('dflt', 1);
EXECUTE sel_lower('dflt', 1);
EXECUTE sel_lower('DFLT', 1);
PREPARE sel_part(int) AS SELECT a, b FROM k WHERE a = 1 AND s = $1;
EXECUTE sel_part(2);
EXECUTE sel_part(2);
EXECUTE sel_part(9);
PREPARE upd(int, text, text) AS UPDATE k SET d = $3, s = s + 1 WHERE a = $1 AND b = $2 RETURNING s, length(d);
EXECUTE upd(1, 'x', repeat('long', 5000));
EXECUTE upd(1, 'x', repeat('longer', 5000));
EXECUTE upd(1, 'x', 'short');
EXECUTE upd(2, 'z', 'too much');
EXECUTE sel(1, 'x');
DEALLOCATE ALL;
DROP TABLE k;
CREATE TABLE d (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, v int);
INSERT INTO d SELECT i, i FROM generate_series(1, 9) i;
ANALYZE d;
EXPLAIN (COSTS OFF) SELECT * FROM d WHERE id = 1;
DROP TABLE d;

-- a domain gets a constraint that a generated column has to keep
CREATE TABLE g (id int PRIMARY KEY, a int, s small GENERATED ALWAYS AS (a) STORED);
INSERT INTO g VALUES (1, 1);
PREPARE upd(int, int) AS UPDATE g SET a = $2 WHERE id = $1;
EXECUTE upd(1, 2);
EXECUTE upd(1, 3);
EXECUTE upd(1, 7);
UPDATE g SET a = 1;
ALTER DOMAIN small ADD CONSTRAINT smaller CHECK (VALUE < 5);
EXECUTE upd(1, 7);
EXECUTE upd(1, 4);
ALTER DOMAIN small DROP CONSTRAINT smaller;
EXECUTE upd(1, 7);
SELECT * FROM g;
DEALLOCATE ALL;
DROP TABLE g;

-- views, rules, row security, privileges
CREATE TABLE r (id int PRIMARY KEY, owner text, v int);
INSERT INTO r SELECT i, CASE WHEN i % 2 = 0 THEN 'point_one' ELSE 'point_two' END, i FROM generate_series(1, 9) i;
ANALYZE r;
CREATE VIEW rv AS SELECT id, v AS w FROM r WHERE v > 2;
CREATE VIEW rc AS SELECT id, v FROM r WHERE v > 2 WITH CHECK OPTION;
CREATE ROLE point_one;
CREATE ROLE point_two;
GRANT USAGE ON SCHEMA point_access TO point_one, point_two;
GRANT SELECT, UPDATE ON r TO point_one, point_two;
PREPARE sel(int) AS SELECT * FROM r WHERE id = $1;
PREPARE upd(int) AS UPDATE r SET v = v + 1 WHERE id = $1 RETURNING v;
PREPARE upd_view(int) AS UPDATE rv SET w = w + 1 WHERE id = $1 RETURNING w;
PREPARE upd_check(int, int) AS UPDATE rc SET v = $2 WHERE id = $1 RETURNING v;
EXECUTE upd_view(1);
EXECUTE upd_view(3);
EXECUTE upd_view(3);
EXECUTE upd_check(4, 5);
EXECUTE upd_check(4, 6);
EXECUTE upd_check(4, 1);
EXECUTE upd(4);
EXECUTE upd(4);
SET ROLE point_one;
EXECUTE sel(1);
EXECUTE sel(1);
EXECUTE upd(4);
EXECUTE upd(4);
RESET ROLE;
REVOKE UPDATE ON r FROM point_one;
SET ROLE point_one;
EXECUTE sel(1);
EXECUTE upd(4);
SET ROLE point_two;
EXECUTE upd(4);
EXECUTE upd(4);
RESET ROLE;
GRANT UPDATE (owner) ON r TO point_one;
SET ROLE point_one;
EXECUTE upd(4);
RESET ROLE;
GRANT point_two TO point_one;
SET ROLE point_one;
EXECUTE upd(4);
EXECUTE upd(4);
RESET ROLE;
REVOKE point_two FROM point_one;
SET ROLE point_one;
EXECUTE upd(4);
RESET ROLE;
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON r USING (owner = current_user);
SET ROLE point_one;
EXECUTE sel(1);
EXECUTE sel(1);
EXECUTE sel(2);
EXECUTE sel(2);
SET ROLE point_two;
EXECUTE sel(1);
EXECUTE sel(2);
EXECUTE upd(1);
EXECUTE upd(2);
EXECUTE upd(2);
RESET ROLE;
DEALLOCATE ALL;
-- the right to execute a function is looked at again
CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1; END';
REVOKE EXECUTE ON FUNCTION f(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION f(int) TO point_one;
PREPARE call(int) AS SELECT f(v) FROM r WHERE id = $1;
SET ROLE point_one;
EXECUTE call(2);
EXECUTE call(2);
SET ROLE point_two;
EXECUTE call(1);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION f(int) FROM point_one;
SET ROLE point_one;
EXECUTE call(2);
RESET ROLE;
EXECUTE call(2);
EXECUTE call(2);
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1000; END';
EXECUTE call(2);
DEALLOCATE ALL;
DROP TABLE r CASCADE;
DROP FUNCTION f(int);
REVOKE USAGE ON SCHEMA point_access FROM point_one, point_two;
DROP ROLE point_one, point_two;

-- lists: each row once and in the order of the index, whatever the list looks like
CREATE TABLE l (id int PRIMARY KEY, n numeric UNIQUE, x text, y bigint, v int);
CREATE UNIQUE INDEX l_xy ON l (x DESC, y);
INSERT INTO l SELECT i, i, chr(64 + i), i % 3, 0 FROM generate_series(1, 9) i;
ANALYZE l;
PREPARE ids(int[]) AS SELECT id, v FROM l WHERE id = ANY ($1);
PREPARE back(int[]) AS SELECT id, v FROM l WHERE id = ANY ($1) ORDER BY id DESC;
PREPARE long(bigint[]) AS SELECT id FROM l WHERE id = ANY ($1);
PREPARE equal(numeric[]) AS SELECT id, n FROM l WHERE n = ANY ($1);
PREPARE var(varchar[], int) AS SELECT id, x FROM l WHERE x = ANY ($1) AND y = $2;
PREPARE short(text, int[]) AS SELECT id, x FROM l WHERE x = $1 AND y = ANY ($2);
PREPARE three(int, int, int) AS SELECT id FROM l WHERE id IN ($1, $2, $3) AND v < 100;
PREPARE raise(int[], int) AS UPDATE l SET v = v + $2 WHERE id = ANY ($1) RETURNING id, v;
PREPARE swap(int[]) AS UPDATE l SET id = id + 100 WHERE id = ANY ($1) RETURNING id;
PREPARE del(int[]) AS DELETE FROM l WHERE id = ANY ($1) AND v > 0 RETURNING *;
PREPARE lock(int[]) AS SELECT id FROM l WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED;
EXPLAIN (COSTS OFF) EXECUTE ids('{1}');
EXPLAIN (COSTS OFF) EXECUTE back('{1}');
EXPLAIN (COSTS OFF) EXECUTE var('{a}', 1);
EXPLAIN (COSTS OFF) EXECUTE three(1, 2, 3);
EXPLAIN (COSTS OFF) EXECUTE raise('{1}', 1);
SELECT runs() AS before \gset
EXECUTE ids('{5, 2}');
EXECUTE ids('{5, 2, NULL, 2, 77, 5, -1}');
EXECUTE ids('{}');
EXECUTE ids(NULL);
EXECUTE ids('{NULL}');
EXECUTE ids('{{9, 1}, {3, 9}}');
EXECUTE back('{5, 2}');
EXECUTE back('{5, 2, 7, 2}');
EXECUTE long('{3, 50000000000, 1}');
EXECUTE long('{3, 50000000000, 1}');
EXECUTE equal('{4.00, 2, 4.0, 2.000}');
EXECUTE equal('{4.00, 2, 4.0, NaN}');
EXECUTE var('{E, H, B}', 2);
EXECUTE var('{E, H, B}', 2);
EXECUTE short('E', '{1, 2, 0}');
EXECUTE short('E', '{1, 2, 0}');
EXECUTE three(9, 8, 9);
EXECUTE three(9, 8, 9);
EXECUTE three(NULL, 8, 9);
EXECUTE raise('{1, 2, 1}', 10);
EXECUTE raise('{2, 3}', 10);
EXECUTE raise('{2, 3}', 10);
EXECUTE three(1, 2, 3);
EXECUTE ids('{1, 2, 3}');
EXECUTE lock('{4, 2}');
EXECUTE lock('{4, 2}');
-- the key cache leads to rows that have another key of the list by now
EXECUTE swap('{77}');
EXECUTE ids('{7, 107}');
EXECUTE swap('{7}');
EXECUTE ids('{7, 107}');
EXECUTE ids('{7, 107}');
INSERT INTO l VALUES (7, 77, 'new', 1, 1);
EXECUTE ids('{7, 107}');
EXECUTE swap('{8, 9}');
EXECUTE ids('{7, 8, 9, 107, 108, 109}');
EXECUTE del('{1, 2, 4}');
EXECUTE del('{1, 2, 4, 3}');
EXECUTE del('{1, 2, 4, 3}');
-- 3 at a time, then the rest
CREATE FUNCTION in_turns(list int[]) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	i int;
BEGIN
	OPEN c NO SCROLL FOR SELECT id FROM point_access.l WHERE id = ANY (list);
	MOVE FORWARD 3 FROM c;
	UPDATE point_access.l SET v = -id WHERE CURRENT OF c RETURNING id INTO i;
	RETURN NEXT i;
	UPDATE point_access.l SET v = -1 WHERE id = 107;
	LOOP
		FETCH c INTO i;
		EXIT WHEN NOT FOUND;
		RETURN NEXT i;
	END LOOP;
END $$;
SELECT in_turns('{107, 108, 109, 4, 5, 6, 7}');
SELECT in_turns('{107, 108, 109, 4, 5, 6, 7}');
SELECT in_turns('{107, 109, 5, 6}');
-- on 15, a list for the second column is a filter
SELECT runs() - :before IN (26, 27) AS kept;
SELECT * FROM l ORDER BY id;

-- functions and cursors
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT i, i FROM generate_series(1, 9) i;
ANALYZE t;
CREATE FUNCTION bump(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	got int;
	r record;
BEGIN
	FOR i IN 1 .. 5 LOOP
		UPDATE t SET v = v + n WHERE id = i RETURNING v INTO STRICT got;
		SELECT * INTO r FROM t WHERE id = i;
		IF r.v <> got THEN RAISE 'lost an update'; END IF;
		BEGIN
			INSERT INTO t VALUES (i, 0);
		EXCEPTION WHEN unique_violation THEN
			got := got + 1000;
		END;
		SELECT v INTO r FROM t WHERE id = -i;
		IF FOUND THEN RAISE 'found what is not there'; END IF;
	END LOOP;
	RETURN got;
END $$;
SELECT runs() AS before \gset
SELECT bump(1), bump(2), bump(3);
SELECT runs() - :before AS runs;
CREATE FUNCTION get(int) RETURNS SETOF t LANGUAGE sql VOLATILE AS 'SELECT * FROM t WHERE id = $1';
SELECT (get(i)).v FROM generate_series(1, 3) i;
CREATE PROCEDURE pieces() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 6 LOOP
		UPDATE t SET v = v + 100 WHERE id = i;
		IF i % 2 = 0 THEN COMMIT; ELSIF i = 5 THEN ROLLBACK; END IF;
	END LOOP;
END $$;
CALL pieces();
SELECT * FROM t ORDER BY id;
-- a cursor that is a marked plan, rows fetched one by one, backward, and changed
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM t WHERE id = 3;
FETCH c;
FETCH c;
FETCH BACKWARD 1 FROM c;
UPDATE t SET v = 0 WHERE CURRENT OF c;
DECLARE d CURSOR FOR SELECT * FROM t WHERE id = 4 FOR UPDATE;
FETCH d;
DELETE FROM t WHERE CURRENT OF d;
DECLARE h CURSOR WITH HOLD FOR SELECT * FROM t WHERE id = 5;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT * FROM t WHERE id IN (3, 4) ORDER BY id;
DO $$
DECLARE
	c CURSOR (k int) FOR SELECT * FROM t WHERE id = k;
	r record;
BEGIN
	FOR i IN 1 .. 3 LOOP
		OPEN c(i);
		FETCH c INTO r;
		UPDATE t SET v = -1 WHERE CURRENT OF c;
		CLOSE c;
	END LOOP;
END $$;
SELECT * FROM t WHERE v = -1 ORDER BY id;
-- switched off
SET zen.executor = keyjoin, batch;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 1;
RESET zen.executor;
DROP SCHEMA point_access CASCADE;
