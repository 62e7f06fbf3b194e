-- Nested loops whose inner row is found by a unique key (keyjoin of zen.executor), outer rows read some at once.
CREATE SCHEMA key_join;
SET search_path = key_join;
-- Needs the executor.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
-- how many loops were run so; \gset keeps it
CREATE FUNCTION runs() RETURNS bigint LANGUAGE sql AS 'SELECT key_joins FROM public.zen_stat';
-- as all servers print it
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
		CONTINUE WHEN line ~ 'Index Searches|Disabled|Storage:';
		line := regexp_replace(line, 'rows=([0-9]+)(\.0+)? loops=1\)', 'rows=\1)');
		RETURN NEXT regexp_replace(line, 'rows=[0-9.]+ loops', 'loops');
	END LOOP;
END $$;

CREATE TABLE o (id int PRIMARY KEY, i int, n numeric, t text, s smallint) USING zen;
CREATE TABLE i (id int PRIMARY KEY, v int, t text UNIQUE, n numeric UNIQUE) USING zen;
CREATE TABLE p (a int, b int, v text, PRIMARY KEY (a, b) INCLUDE (v)) USING zen;
INSERT INTO i SELECT g, g * 10, 't' || g, g / 2.0 FROM generate_series(1, 200) g;
INSERT INTO p SELECT g % 10, g / 10, 'p' || g FROM generate_series(1, 199) g;
INSERT INTO o SELECT g, nullif(g % 13, 5) * 20, g / 4.0, 't' || g * 3, g FROM generate_series(1, 100) g;
VACUUM ANALYZE o, i, p;

-- which loops are such
EXPLAIN (COSTS OFF) SELECT * FROM o JOIN i ON i.id = o.i;
EXPLAIN (COSTS OFF, VERBOSE) SELECT o.t, i.v + o.id AS sum, p.v FROM o LEFT JOIN i ON i.id = o.i + 1 AND i.v > o.id
	JOIN p ON p.a = 3 AND p.b = o.s WHERE i.v IS DISTINCT FROM 7;
EXPLAIN (COSTS OFF) SELECT o.id FROM o WHERE EXISTS (SELECT FROM p WHERE p.a = o.i AND p.b = o.s);
EXPLAIN (COSTS OFF) SELECT o.id FROM o WHERE NOT EXISTS (SELECT FROM i WHERE i.id = o.i AND i.v > 5);
EXPLAIN (COSTS OFF) UPDATE i SET v = v + 1 FROM o WHERE o.id < 30 AND i.id = o.i;
EXPLAIN (COSTS OFF) SELECT (SELECT count(*) FROM o JOIN i ON i.id = o.i WHERE o.s < q.s) FROM o q;
EXPLAIN (COSTS OFF) SELECT x.* FROM (SELECT * FROM o ORDER BY s LIMIT 3) x JOIN i ON i.id = x.i
	UNION ALL SELECT o.* FROM o JOIN i ON i.t = o.t;
-- and which are not: a part of the key, a range, a list, subqueries in the inner scan, indexes that are not unique,
-- not of the whole table, on an expression, deferrable; heap; memory of former rows between
SET enable_seqscan = off;
CREATE TABLE other (id int, e int, f int, d int UNIQUE DEFERRABLE, h int) USING zen;
INSERT INTO other SELECT g, g, g, g, g FROM generate_series(1, 50) g;
CREATE INDEX ON other (id);
CREATE UNIQUE INDEX ON other (f) WHERE f > 0;
CREATE UNIQUE INDEX ON other ((e + 0));
CREATE TABLE h (id int PRIMARY KEY, v int) USING heap;
INSERT INTO h SELECT g, g FROM generate_series(1, 50) g;
ANALYZE other, h;
CREATE FUNCTION node(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := 'no loop';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'ZenKeyJoin' THEN RETURN 'key join'; END IF;
		IF line ~ 'Nested Loop' THEN result := 'loop'; END IF;
	END LOOP;
	RETURN result;
END $$;
SELECT q, node('SELECT * FROM o JOIN ' || q) FROM unnest(ARRAY['p ON p.a = o.i', 'i ON i.id < o.i',
	'i ON i.id = ANY (ARRAY[o.i, o.s])', 'i ON i.id = o.i AND i.v = (SELECT min(b) FROM p WHERE p.a = i.v)',
	'other ON other.id = o.i', 'other ON other.f = o.i AND other.f > 0', 'other ON other.e + 0 = o.i',
	'other ON other.d = o.i', 'h ON h.id = o.i', 'i ON i.id = o.i', 'i ON i.id = o.s AND i.v < 7',
	'LATERAL (SELECT * FROM i WHERE i.id = o.i OFFSET 0) x ON true']) q;
SET enable_memoize = on;
SELECT node('SELECT * FROM o JOIN i ON i.id = o.i % 2');
RESET enable_memoize;
SET enable_memoize = off;
RESET enable_seqscan;

-- what EXPLAIN ANALYZE tells: keys are known since their rows came, and misses are those of no row
SELECT plan('SELECT * FROM o JOIN i ON i.id = o.i WHERE o.id < 27');
SELECT plan('SELECT * FROM o LEFT JOIN i ON i.id = o.i AND i.v > 1000 AND o.s < 20 WHERE o.id < 27');
SELECT plan('SELECT * FROM o JOIN i ON i.id = o.i AND i.v > o.s * 20 WHERE o.id < 27');
-- some outer rows are read ahead of a LIMIT
SELECT plan('SELECT * FROM o JOIN i ON i.id = o.i LIMIT 1');
-- but not with volatile functions, nor with row locks
SELECT plan('SELECT o.id, random() FROM o JOIN i ON i.id = o.i LIMIT 1');
SELECT plan('SELECT * FROM o JOIN i ON i.id = o.i LIMIT 1 FOR UPDATE');

-- statements
SELECT runs() AS before \gset
SELECT o.id, o.i, i.* FROM o JOIN i ON i.id = o.i WHERE o.id < 15 ORDER BY o.id;
SELECT o.id, o.i, i.t FROM o LEFT JOIN i ON i.id = o.i AND i.v < 500 WHERE o.id < 15 ORDER BY o.id;
SELECT o.id FROM o WHERE EXISTS (SELECT FROM i WHERE i.n = o.n AND i.v < 100) ORDER BY o.id;
SELECT count(*) FROM o WHERE NOT EXISTS (SELECT FROM i WHERE i.id = o.i AND i.v < 500);
SELECT count(*), sum(i.v) FROM o JOIN i ON i.t = o.t;
SELECT o.id, i.id FROM o JOIN i ON i.id = o.s::bigint WHERE o.id % 30 = 1;
SELECT p.v, o.id FROM o JOIN p ON p.b = o.s AND p.a = o.i / 20 ORDER BY o.id;
SELECT p.a, p.b, p.v FROM o JOIN p ON p.a = 4 AND p.b = o.s ORDER BY o.id;
SELECT o.id, i.id, i.ctid IS NOT NULL, i.tableoid::regclass FROM o JOIN i ON i.id = o.i WHERE o.id IN (1, 2, 3);
SELECT o.id, i FROM o LEFT JOIN i ON i.id = o.i WHERE o.id IN (1, 5, 18);
-- equal, though not the same
UPDATE o SET n = n * 1.000 WHERE id < 9;
SELECT o.n, i.n FROM o JOIN i ON i.n = o.n WHERE o.id < 9 ORDER BY o.id;
-- the inner side of another loop
SELECT q.id, x.v FROM o q, LATERAL (SELECT sum(i.v) AS v FROM o JOIN i ON i.id = o.i AND i.v > q.s * 10 WHERE o.id < q.id) x
	WHERE q.id < 6 ORDER BY q.id;
SELECT q.id, (SELECT i.t FROM o JOIN i ON i.id = o.i WHERE o.s > q.s ORDER BY o.id LIMIT 1) FROM o q WHERE q.id < 6;
SELECT runs() > :before AS runs;

-- rows change: by this statement's transaction, and back again
BEGIN;
UPDATE i SET v = -v WHERE id IN (20, 40);
UPDATE i SET id = 1040 WHERE id = 40;
DELETE FROM i WHERE id = 60;
INSERT INTO i VALUES (0, -1, 'zero', -1);
SELECT o.id, i.* FROM o LEFT JOIN i ON i.id = o.i WHERE o.id < 15 ORDER BY o.id;
ROLLBACK;
SELECT o.id, i.* FROM o LEFT JOIN i ON i.id = o.i WHERE o.id < 15 ORDER BY o.id;
TRUNCATE p;
SELECT count(*) FROM o JOIN p ON p.b = o.s AND p.a = o.i / 20;
INSERT INTO p SELECT 5, g, 'new' || g FROM generate_series(1, 20) g;
SELECT string_agg(p.v, ' ' ORDER BY o.id) FROM o JOIN p ON p.b = o.s AND p.a = 5;

-- cursors see their own snapshot, whatever has been read ahead
BEGIN;
DECLARE c CURSOR FOR SELECT o.id, o.t, i.v FROM o JOIN i ON i.id = o.i ORDER BY o.id;
DECLARE s SCROLL CURSOR FOR SELECT o.id, i.v FROM o JOIN i ON i.id = o.i ORDER BY o.id;
DECLARE w CURSOR WITH HOLD FOR SELECT o.id, i.v FROM o JOIN i ON i.id = o.i WHERE o.id < 6 ORDER BY o.id;
FETCH 2 c;
FETCH 3 s;
UPDATE i SET v = 0;
UPDATE o SET t = 'changed', i = 20;
DELETE FROM i WHERE id = 80;
SAVEPOINT a;
FETCH 2 c;
ROLLBACK TO a;
DELETE FROM o WHERE id > 7;
FETCH 2 s;
FETCH BACKWARD 4 s;
SELECT o.id, o.t, i.v FROM o JOIN i ON i.id = o.i ORDER BY o.id LIMIT 3;
COMMIT;
FETCH ALL w;
CLOSE w;
TRUNCATE o;
UPDATE i SET v = id * 10;
INSERT INTO o SELECT g, nullif(g % 13, 5) * 20, g / 4.0, 't' || g * 3, g FROM generate_series(1, 100) g;

-- what is called, and when: as often as in the loop alone, and in its order
CREATE TABLE calls (at serial, what text) USING heap;
CREATE FUNCTION outer_call(a int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN INSERT INTO calls (what) VALUES ('o' || a); RETURN a; END $$;
CREATE FUNCTION inner_call(a int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN INSERT INTO calls (what) VALUES ('i' || a); RETURN a % 3 <> 0; END $$;
CREATE FUNCTION calls() RETURNS text LANGUAGE sql AS
	'SELECT string_agg(what, '' '' ORDER BY at) FROM calls';
SELECT x.id, i.v FROM (SELECT outer_call(id) AS id FROM o WHERE id < 9 OFFSET 0) x JOIN i ON i.id = x.id AND inner_call(i.v / 10)
	LIMIT 3;
SELECT calls();
TRUNCATE calls;
SET zen.executor = point, batch;
SELECT x.id, i.v FROM (SELECT outer_call(id) AS id FROM o WHERE id < 9 OFFSET 0) x JOIN i ON i.id = x.id AND inner_call(i.v / 10)
	LIMIT 3;
RESET zen.executor;
SELECT calls();

-- a loop runs itself: with the setting off, also after it was planned; in a serializable transaction
PREPARE joined(int) AS SELECT o.id, i.v FROM o JOIN i ON i.id = o.i WHERE o.id < $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE joined(3);
SELECT runs() AS before, point_kept_plans AS kept FROM public.zen_stat \gset
EXECUTE joined(3);
EXECUTE joined(3);
EXECUTE joined(4);
SELECT runs() - :before AS runs, point_kept_plans - :kept AS kept FROM public.zen_stat;
SELECT runs() AS before \gset
SET zen.executor = point, batch;
EXECUTE joined(3);
EXPLAIN (COSTS OFF) SELECT * FROM o JOIN i ON i.id = o.i;
RESET zen.executor;
BEGIN ISOLATION LEVEL SERIALIZABLE;
EXECUTE joined(3);
COMMIT;
SELECT runs() - :before AS runs;
EXECUTE joined(3);
SELECT runs() - :before AS runs;
-- a part of the key is a parameter, which each execution gives anew, or another loop's
INSERT INTO p SELECT 4, g, 'more' || g FROM generate_series(1, 7) g;
PREPARE part(int) AS SELECT sum(p.b), count(*) FROM o JOIN p ON p.a = $1 AND p.b = o.s;
EXECUTE part(5);
EXECUTE part(4);
EXECUTE part(NULL);
EXECUTE part(5);
SELECT q.a, (SELECT count(*) FROM o JOIN p ON p.a = q.a AND p.b = o.s) FROM (VALUES (4), (5), (NULL)) q(a);
RESET plan_cache_mode;

-- statements that change rows
CREATE FUNCTION doubled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE key_join.i SET v = v + 1000 WHERE id = NEW.id + 1;
	NEW.v = NEW.v * 2;
	RETURN NEW;
END $$;
CREATE TABLE j (id int PRIMARY KEY, v int) USING zen;
INSERT INTO j SELECT g, g FROM generate_series(1, 10) g;
CREATE TRIGGER doubled BEFORE UPDATE ON j FOR EACH ROW EXECUTE FUNCTION doubled();
UPDATE j SET v = j.v + i.v FROM i WHERE i.id = j.id AND j.id < 5 RETURNING j.*, i.v;
SELECT id, v FROM i WHERE id < 7 ORDER BY id;
DELETE FROM j USING o WHERE o.id = j.v - 4 RETURNING j.id, o.id;
INSERT INTO j SELECT i.id + 100, o.id FROM o JOIN i ON i.id = o.i WHERE o.id < 4 RETURNING *;
MERGE INTO j USING (SELECT id, s FROM o WHERE id BETWEEN 4 AND 7) x ON j.id = x.id
	WHEN MATCHED THEN UPDATE SET v = x.s WHEN NOT MATCHED THEN INSERT VALUES (x.id, -x.s);
SELECT * FROM j ORDER BY id;
WITH changed AS (UPDATE j SET v = v + 1 RETURNING id, v)
	SELECT c.id, c.v, i.v FROM changed c JOIN i ON i.id = c.id JOIN j ON j.id = c.id ORDER BY c.id;

-- rows that come from changes are not read ahead, others of the same statement are
SELECT plan('WITH c AS (UPDATE j SET v = v + 1 RETURNING id, v) SELECT * FROM c JOIN i ON i.id = c.id LIMIT 1');
SELECT plan('WITH c AS (UPDATE j SET v = v + 1 RETURNING id, v) SELECT * FROM o JOIN i ON i.id = o.i LIMIT 1');

-- random queries on zen and on heap
CREATE SCHEMA on_zen;
CREATE SCHEMA on_heap;
CREATE PROCEDURE make(am text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', 'on_' || am, false);
	PERFORM set_config('default_table_access_method', am, false);
	CREATE TABLE log (at serial, n int, query text, answer text);
	CREATE TABLE o (id int PRIMARY KEY, i int, n numeric, t text, s smallint, l bigint, x text);
	CREATE TABLE i (id int PRIMARY KEY, v int, t text UNIQUE, n numeric UNIQUE, x text);
	CREATE TABLE p (a int, b bigint, v text, w int, PRIMARY KEY (a, b));
	CREATE FUNCTION rnd(i int, n int, salt int) RETURNS int LANGUAGE sql IMMUTABLE AS
		$f$SELECT (hashint4extended(i, salt) & 1048575)::int % n$f$;
	INSERT INTO o SELECT g, nullif(rnd(g, 90, 1), 7), rnd(g, 60, 2) / 2.0, 't' || nullif(rnd(g, 80, 3), 5),
		rnd(g, 9, 4), nullif(rnd(g, 12, 5), 3), repeat('o', rnd(g, 400, 6)) FROM generate_series(1, 300) g;
	INSERT INTO i SELECT g, g % 7, 't' || g, g / 2.00, repeat('i', rnd(g, 3000, 7)) FROM generate_series(1, 80) g;
	INSERT INTO p SELECT g % 9, g / 9, 'p' || g, g FROM generate_series(1, 99) g;
	CREATE FUNCTION pick(i int, salt int, VARIADIC of text[]) RETURNS text LANGUAGE sql IMMUTABLE AS
		$f$SELECT of[1 + rnd(i, cardinality(of), salt)]$f$;
	CREATE FUNCTION query(r int) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
		SELECT 'SELECT o.id, length(o.x), i.id, i.v, ' || pick(r, 1, 'length(i.x)', 'i.t', 'i', 'p.w', 'p.v') || ', p.a, p.b'
			|| pick(r, 2, ' FROM o', ' FROM o', ' FROM (SELECT id, i, n, t, s + 0 AS s, l, x FROM o WHERE s > 0) o')
			|| pick(r, 3, ' JOIN', ' JOIN', ' LEFT JOIN') || ' i ON i.'
			|| pick(r, 4, 'id = o.i', 'id = o.i', 'id = o.l', 'id = o.s + 3', 't = o.t', 'n = o.n', 'n = o.s * 1.50')
			|| pick(r, 5, '', '', ' AND i.v < 4', ' AND i.v <> o.s', ' AND length(i.x) > length(o.x)', ' AND o.s > 3')
			|| pick(r, 6, ' JOIN', ' LEFT JOIN') || ' p ON p.'
			|| pick(r, 7, 'a = o.s AND p.b = o.l', 'a = i.v AND p.b = o.s', 'a = 4 AND p.b = o.l', 'b = o.s AND p.a = i.v')
			|| pick(r, 8, '', '', ' AND p.w % 3 > 0', ' AND p.w > o.id')
			|| ' WHERE o.id > ' || rnd(r, 100, 9)
			|| pick(r, 10, '', '', '', ' AND EXISTS (SELECT FROM i e WHERE e.id = o.s)',
				' AND NOT EXISTS (SELECT FROM p e WHERE e.a = o.s AND e.b = o.i AND e.w > 20)',
				' AND o.s > (SELECT count(*) FROM p e JOIN i f ON f.id = e.w WHERE e.a = o.s AND e.b < 5)',
				' AND i.v IS NULL', ' AND p.w IS DISTINCT FROM i.v')
			|| ' ORDER BY o.id' || pick(r, 11, '', '', ' LIMIT 1', ' LIMIT 7', ' OFFSET 20 LIMIT 30')
	$f$;
	CREATE FUNCTION change(r int) RETURNS void LANGUAGE plpgsql AS $f$
	BEGIN
		CASE rnd(r, 8, 20)
			WHEN 0 THEN UPDATE i SET v = v + 1 WHERE id % 9 = r % 9;
			WHEN 1 THEN DELETE FROM i WHERE id = r % 80 AND r % 3 = 0;
			WHEN 2 THEN INSERT INTO i VALUES (r % 80, r % 7, 't' || r % 80, r % 80 / 2.0, 'new') ON CONFLICT DO NOTHING;
			WHEN 3 THEN UPDATE i SET id = r % 100, t = 't' || r % 90 WHERE id = rnd(r, 80, 21);
			WHEN 4 THEN UPDATE p SET b = b + 1, w = w - 1 WHERE a = r % 9 AND b = 40;
			WHEN 5 THEN UPDATE p SET w = i.v FROM i WHERE i.id = p.b AND p.a = r % 9;
			WHEN 6 THEN UPDATE o SET s = (s + i.v) % 9 FROM i WHERE i.id = o.i AND o.id % 20 = r % 20;
			ELSE DELETE FROM p USING i WHERE i.n = p.a AND p.b = r % 12;
		END CASE;
	END $f$;
	CREATE FUNCTION one(r int) RETURNS text LANGUAGE plpgsql AS $f$
	DECLARE
		line text;
		answer text := '';
	BEGIN
		FOR line IN EXECUTE 'SELECT q::text FROM (' || query(r) || ') q' LOOP
			answer := answer || line;
			-- the rest of the answer is as old as its beginning
			IF length(answer) % 50 = 0 THEN PERFORM change(r); END IF;
		END LOOP;
		IF r % 10 = 0 THEN
			PERFORM change(r), 1 / (r % 3);
		END IF;
		RETURN answer;
	EXCEPTION WHEN integrity_constraint_violation OR division_by_zero THEN
		RETURN answer || SQLSTATE;
	END $f$;
	CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $f$
	BEGIN
		FOR r IN 1 .. n LOOP
			PERFORM change(r) WHERE r % 5 = 0 AND rnd(r, 8, 20) NOT IN (2, 3, 4);
			INSERT INTO log (n, query, answer) SELECT r, query(r), one(r);
			COMMIT;
		END LOOP;
	END $f$;
END $$;
CALL make('zen');
CALL key_join.make('heap');
SET search_path = on_zen;
ANALYZE;
SELECT key_join.runs() AS before \gset
CALL work(1000);
SELECT key_join.runs() - :before > 2000 AS runs;
SET search_path = on_heap;
ANALYZE;
CALL work(1000);
SELECT count(*), count(DISTINCT answer) > 500 AS various, count(*) FILTER (WHERE answer > '') > 500 AS rows FROM on_zen.log;
SELECT n, z.query, left(z.answer, 200), left(h.answer, 200) FROM on_zen.log z FULL JOIN on_heap.log h USING (n)
	WHERE z.answer IS DISTINCT FROM h.answer ORDER BY n LIMIT 3;
SELECT (SELECT array_agg(p ORDER BY a, b) FROM on_zen.p)::text = (SELECT array_agg(p ORDER BY a, b) FROM on_heap.p)::text AS same;

SET client_min_messages = warning;
DROP SCHEMA on_zen CASCADE;
DROP SCHEMA on_heap CASCADE;
DROP SCHEMA key_join CASCADE;
