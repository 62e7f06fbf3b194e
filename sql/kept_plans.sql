-- Plans of several rows, executed again and again with executor state that is kept (point of zen.executor): by their own nodes.
CREATE SCHEMA kept_plans;
SET search_path = kept_plans;
-- Needs the executor.
-- plans that can be executed again
SET plan_cache_mode = force_generic_plan;
-- by the index also where tables are small
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
-- how many of the statements since the last call were run so; \gset keeps it
CREATE FUNCTION runs() RETURNS bigint LANGUAGE sql AS 'SELECT point_kept_plans FROM public.zen_stat';

CREATE TABLE t (id int PRIMARY KEY, k int, v int DEFAULT 5 CHECK (v < 1000), b text) USING zen;
CREATE INDEX t_k ON t (k);
CREATE TABLE u (id int PRIMARY KEY, t int REFERENCES t, w int) USING zen;
CREATE INDEX u_t ON u (t);
INSERT INTO t SELECT i, i % 10, i, 'b' || i FROM generate_series(1, 40) i;
INSERT INTO u SELECT i, i % 40 + 1, i FROM generate_series(1, 80) i;
VACUUM ANALYZE t, u;

-- it shows in plans that have parameters
PREPARE ins(int, int) AS INSERT INTO t (id, k) VALUES ($1, 1), ($2, 2) RETURNING *;
PREPARE ups(int, int) AS INSERT INTO t (id, v) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = t.v + EXCLUDED.v
	RETURNING id, v;
PREPARE nothing(int, int) AS INSERT INTO t (id, v) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id;
PREPARE range(int, int) AS SELECT id, b FROM t WHERE id BETWEEN $1 AND $2;
PREPARE list(int[]) AS SELECT id, b FROM t WHERE id = ANY ($1);
PREPARE first(int) AS SELECT id, k FROM t WHERE id > $1 ORDER BY id DESC LIMIT 2 FOR UPDATE;
PREPARE ids(int) AS SELECT id FROM t WHERE id < $1 ORDER BY id;
PREPARE joined(int) AS SELECT u.id, t.b FROM u JOIN t ON t.id = u.t WHERE u.id < $1 ORDER BY u.id;
PREPARE outer_joined(int) AS SELECT u.id, t.b FROM u LEFT JOIN t ON t.id = u.t + 1000 WHERE u.id < $1 ORDER BY u.id;
PREPARE many(int, int) AS UPDATE t SET v = v + $2 WHERE k = $1 RETURNING id, v;
PREPARE past(int, int) AS DELETE FROM t WHERE id BETWEEN $1 AND $2;
EXPLAIN (COSTS OFF) EXECUTE ins(1, 2);
EXPLAIN (COSTS OFF) EXECUTE ups(1, 2);
EXPLAIN (COSTS OFF) EXECUTE range(1, 2);
EXPLAIN (COSTS OFF) EXECUTE list('{1, 2}');
EXPLAIN (COSTS OFF) EXECUTE first(1);
EXPLAIN (COSTS OFF) EXECUTE ids(1);
EXPLAIN (COSTS OFF) EXECUTE joined(1);
EXPLAIN (COSTS OFF) EXECUTE many(1, 2);
-- by columns of tables also above joins
EXPLAIN (COSTS OFF, VERBOSE) EXECUTE outer_joined(1);
EXPLAIN (COSTS OFF, VERBOSE) EXECUTE first(1);
EXPLAIN (COSTS OFF, VERBOSE) EXECUTE ids(1);
EXPLAIN (COSTS OFF, VERBOSE) EXECUTE ups(1, 2);
-- with what a join gives to its inner side in an expression
PREPARE given(int) AS SELECT u.id, x.y FROM u LEFT JOIN LATERAL (SELECT coalesce(t.k, 0) + u.w AS y FROM t WHERE t.id = u.t) x ON true
	WHERE u.id < $1;
EXPLAIN (COSTS OFF, VERBOSE) EXECUTE given(3);
EXECUTE given(3);
EXECUTE given(3);
EXECUTE given(4);
-- and in no others
EXPLAIN (COSTS OFF) SELECT id, b FROM t WHERE id BETWEEN 1 AND 2;
PREPARE counted(int) AS SELECT bool_and(v > 5) FROM t WHERE id < $1;
EXPLAIN (COSTS OFF) EXECUTE counted(1);

SELECT runs() AS before \gset
EXECUTE ins(101, 102);
EXECUTE ins(103, 104);
EXECUTE ins(105, 104);
EXECUTE ins(106, 107);
EXECUTE ups(1, 10);
EXECUTE ups(1, 10);
EXECUTE ups(108, 10);
EXECUTE ups(108, 1000);
EXECUTE ups(108, 985);
EXECUTE nothing(1, 1);
EXECUTE nothing(1, 1);
EXECUTE nothing(109, 1);
EXECUTE nothing(109, 1);
EXECUTE range(3, 5);
EXECUTE range(3, 5);
EXECUTE range(5, 3);
EXECUTE range(NULL, 3);
EXECUTE range(39, 101);
EXECUTE list('{3, 5, 4, 3, NULL, 99}');
EXECUTE list('{3, 5, 4, 3, NULL, 99}');
EXECUTE list('{}');
EXECUTE list(NULL);
EXECUTE list('{40}');
EXECUTE first(5);
EXECUTE first(5);
EXECUTE first(108);
EXECUTE ids(3);
EXECUTE ids(3);
EXECUTE ids(5);
EXECUTE joined(4);
EXECUTE joined(4);
EXECUTE joined(3);
EXECUTE outer_joined(3);
EXECUTE outer_joined(3);
EXECUTE outer_joined(3);
EXECUTE many(1, 1);
EXECUTE many(1, 1);
EXECUTE many(77, 1);
EXECUTE many(2, 999);
EXECUTE many(2, 1);
EXECUTE past(101, 102);
EXECUTE past(103, 104);
EXECUTE past(1, 1);
EXECUTE past(105, 110);
SELECT runs() - :before AS runs;

-- cursors: some rows now, others later; the row where one stands; an error while one is open
CREATE FUNCTION slowly(lo int, hi int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
BEGIN
	OPEN c NO SCROLL FOR SELECT id, v FROM kept_plans.t WHERE id BETWEEN lo AND hi;
	FETCH c INTO r;
	RETURN NEXT r::text;
	BEGIN
		FETCH c INTO r;
		RETURN NEXT r::text;
		UPDATE kept_plans.t SET v = v + 1 WHERE CURRENT OF c;
		PERFORM slowly(lo + 1, hi) WHERE lo + 1 < hi;
		PERFORM 1 / (lo - 20);
	EXCEPTION WHEN division_by_zero THEN
		RETURN NEXT 'error';
	END;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		RETURN NEXT r::text;
	END LOOP;
	CLOSE c;
END $$;
SELECT runs() AS before \gset
SELECT slowly(3, 6);
SELECT slowly(3, 6);
SELECT slowly(20, 22);
SELECT slowly(3, 6);
SELECT runs() - :before AS runs;
-- an index-only scan gives values, not rows: where does its cursor stand?
CREATE FUNCTION stands(lo int) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	i int;
BEGIN
	OPEN c NO SCROLL FOR SELECT id FROM kept_plans.t WHERE id > lo ORDER BY id;
	FETCH c INTO i;
	FETCH c INTO i;
	UPDATE kept_plans.t SET v = 500 + i WHERE CURRENT OF c RETURNING v INTO i;
	RETURN NEXT i;
	CLOSE c;
END $$;
SELECT stands(3);
SELECT stands(3);
SELECT stands(20);

-- a loop that commits: what is left of its rows is read at once
CREATE PROCEDURE commits(lo int) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	told text := '';
BEGIN
	FOR r IN SELECT id, v FROM kept_plans.t WHERE id BETWEEN lo AND lo + 3 LOOP
		UPDATE kept_plans.t SET v = 100 + r.id WHERE id = r.id OR id = r.id + 1;
		told := told || r::text;
		COMMIT;
	END LOOP;
	RAISE NOTICE '%', told;
END $$;
CALL commits(11);
CALL commits(12);
CALL commits(13);
-- compiled code would go with the transaction
SET jit = on;
SET jit_above_cost = 0;
PREPARE compiled(int) AS SELECT id FROM t WHERE id > $1;
EXPLAIN (COSTS OFF) EXECUTE compiled(1);
RESET jit_above_cost;
RESET jit;

-- the same statements on heap
CREATE SCHEMA on_zen;
CREATE SCHEMA on_heap;
CREATE PROCEDURE make(am text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', 'on_' || am, false);
	PERFORM set_config('default_table_access_method', am, false);
	CREATE TABLE log (at serial, n int, what text);
	CREATE TABLE p (id int PRIMARY KEY, v int);
	CREATE TABLE t (a int, b int, k int, v int CHECK (v < 900), x text, g int GENERATED ALWAYS AS (v * 2) STORED,
		s int UNIQUE, PRIMARY KEY (a, b), CHECK (v >= -900));
	CREATE INDEX ON t (k);
	CREATE INDEX ON t (lower(x)) WHERE v > 3;
	CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE, w int);
	CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $f$
	BEGIN
		IF NEW.v % 7 = 3 THEN RETURN NULL; END IF;
		NEW.x = coalesce(NEW.x, '') || TG_OP;
		RETURN NEW;
	END $f$;
	CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $f$
	BEGIN
		INSERT INTO log (n, what) SELECT 0, TG_WHEN || TG_OP || TG_LEVEL;
		RETURN NULL;
	END $f$;
	CREATE TRIGGER x BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION changed();
	CREATE TRIGGER y AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION noted();
	CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION noted();
	CREATE TRIGGER w BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION noted();
	INSERT INTO p SELECT i, i FROM generate_series(1, 50) i;
	INSERT INTO t (a, b, k, v, x, s) SELECT i % 7, i / 7, i % 5, i, 'X' || i, i FROM generate_series(1, 100) i;
	CREATE FUNCTION rnd(i int, n int, salt int) RETURNS int LANGUAGE sql IMMUTABLE AS
		$f$SELECT (hashint4extended(i, salt) & 1048575)::int % n$f$;
	CREATE FUNCTION one(i int) RETURNS text LANGUAGE plpgsql AS $f$
	DECLARE
		p1 int := rnd(i, 7, 1);
		p2 int := rnd(i, 17, 2);
		p3 int := rnd(i, 120, 3);
		l int[] := ARRAY[p1, p2, p1, p3 % 7];
		r record;
		got text := '';
		n int;
	BEGIN
		CASE rnd(i, 16, 4)
			WHEN 0 THEN
				INSERT INTO t (a, b, k, v, s) VALUES (p1, p2, 1, p3, NULL), (p1, p2 + 1, 2, p3 + 1, p3), (p1, p2 + 2, 3, 4, NULL);
			WHEN 1 THEN
				FOR r IN INSERT INTO t AS o (a, b, k, v, s) VALUES (p1, p2, p3, p3, p3 + 100), (p1, p2 + 1, p3, 7, NULL)
					ON CONFLICT (a, b) DO UPDATE SET v = o.v + EXCLUDED.v, k = EXCLUDED.k % 5 WHERE o.v < 300
					RETURNING v LOOP
					got := got || r::text;
				END LOOP;
			WHEN 2 THEN
				INSERT INTO t (a, b, v, s) VALUES (p1, p2, 6, p3), (p1, p2 + 3, 6, p3 + 1) ON CONFLICT DO NOTHING;
			WHEN 3 THEN
				FOR r IN SELECT a, b, v, x FROM t WHERE a = p1 AND b BETWEEN p2 AND p2 + 4 ORDER BY a, b LOOP
					got := got || r::text;
					EXIT WHEN r.v % 5 = 4;
				END LOOP;
			WHEN 4 THEN
				FOR r IN SELECT a, b, v FROM t WHERE a = ANY (l) AND b = p2 ORDER BY a LOOP
					got := got || r::text;
				END LOOP;
			WHEN 5 THEN
				UPDATE t SET v = v + 11 WHERE a = ANY (l) AND b < p2;
			WHEN 6 THEN
				UPDATE t SET s = s + 1, k = p1 WHERE a = p1 AND b > p2;
			WHEN 7 THEN
				DELETE FROM t WHERE a = p1 AND b = ANY (l);
			WHEN 8 THEN
				DELETE FROM t WHERE k = p1 AND v > p3 * 4;
			WHEN 9 THEN
				SELECT array_agg(s ORDER BY s) INTO got FROM (SELECT s FROM t WHERE s < p3 ORDER BY s DESC LIMIT p1) q;
			WHEN 10 THEN
				FOR r IN SELECT t.a, t.b, p.v FROM t JOIN p ON p.id = t.v WHERE t.a = p1 AND t.b < p2 ORDER BY t.a, t.b LOOP
					got := got || r::text;
				END LOOP;
			WHEN 11 THEN
				UPDATE t SET v = t.v + p.v FROM p WHERE p.id = t.v AND t.a = p1 AND t.b = p2;
			WHEN 12 THEN
				FOR r IN SELECT a, b, g FROM t WHERE a = p1 AND b >= p2 ORDER BY b LIMIT 2 FOR UPDATE LOOP
					got := got || r::text;
				END LOOP;
			WHEN 13 THEN
				INSERT INTO c VALUES (p3, p2, 1), (p3 + 1, p2 * 2, 2), (p3 + 2, p2 * 4, 3);
			WHEN 14 THEN
				DELETE FROM p WHERE id BETWEEN p3 AND p3 + p1 / 6;
			ELSE
				BEGIN
					UPDATE t SET v = v - 1 WHERE a = p1 AND b < p2;
					n := 1 / (p1 % 3);
				EXCEPTION WHEN division_by_zero THEN
					got := 'undone';
				END;
		END CASE;
		GET DIAGNOSTICS n = ROW_COUNT;
		RETURN got || ' ' || n;
	EXCEPTION WHEN integrity_constraint_violation THEN
		RETURN SQLSTATE || SQLERRM;
	END $f$;
	CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $f$
	BEGIN
		FOR i IN 1 .. n LOOP
			INSERT INTO log (n, what) SELECT i, one(i);
			IF i % 200 = 100 THEN
				EXECUTE 'ALTER TABLE t ADD COLUMN c' || i || ' int DEFAULT 3';
			ELSIF i % 200 = 0 THEN
				EXECUTE 'ALTER TABLE t DROP COLUMN c' || i - 100;
			END IF;
			COMMIT;
		END LOOP;
	END $f$;
END $$;
CALL make('zen');
CALL kept_plans.make('heap');
SET search_path = on_zen;
SELECT kept_plans.runs() AS before \gset
CALL work(2000);
SELECT kept_plans.runs() - :before > 800 AS kept;
SET search_path = on_heap;
CALL work(2000);
SELECT count(*), count(DISTINCT what) > 300 AS various FROM on_zen.log;
SELECT * FROM on_zen.log z FULL JOIN on_heap.log h USING (at) WHERE z.what IS DISTINCT FROM h.what ORDER BY at LIMIT 5;
SELECT (SELECT array_agg(t ORDER BY a, b) FROM on_zen.t)::text = (SELECT array_agg(t ORDER BY a, b) FROM on_heap.t)::text AS same_t,
	(SELECT array_agg(c ORDER BY id) FROM on_zen.c)::text = (SELECT array_agg(c ORDER BY id) FROM on_heap.c)::text AS same_c;
SELECT * FROM public.zen_verify('on_zen.t') LIMIT 5;

-- small tables are read from end to end
SET search_path = kept_plans;
SET enable_seqscan = on;
SET enable_indexscan = off;
CREATE TABLE s (id int PRIMARY KEY, v int) USING zen;
INSERT INTO s VALUES (1, 1), (2, 2), (3, 3);
PREPARE seq(int) AS SELECT * FROM s WHERE v >= $1;
PREPARE add(int, int) AS UPDATE s SET v = v + $2 WHERE id = $1 RETURNING *;
EXPLAIN (COSTS OFF) EXECUTE add(1, 2);
SELECT runs() AS before \gset
EXECUTE seq(2);
EXECUTE seq(3);
EXECUTE seq(1);
EXECUTE add(1, 5);
EXECUTE add(1, 5);
EXECUTE add(4, 5);
EXECUTE add(2, 5);
EXECUTE seq(3);
CREATE FUNCTION stop_at(lo int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	i int;
BEGIN
	FOR i IN SELECT v FROM kept_plans.s WHERE v >= lo LOOP
		RETURN i;
	END LOOP;
END $$;
SELECT stop_at(3), stop_at(4), stop_at(5), stop_at(8);
SELECT runs() - :before AS runs;
RESET enable_seqscan;
RESET enable_indexscan;

-- sorts: of all rows, of the first some, in files, below and above joins, left in the middle, on the same rows as heap
SET enable_sort = on;
SET enable_incremental_sort = off;
CREATE TABLE big (id int PRIMARY KEY, k int, pad text) USING zen;
CREATE TABLE big_heap (LIKE big INCLUDING ALL) USING heap;
INSERT INTO big SELECT i, i * 7919 % 4001, repeat(chr(97 + i % 26), 100) FROM generate_series(1, 4000) i;
INSERT INTO big_heap SELECT * FROM big;
VACUUM ANALYZE big, big_heap;
CREATE FUNCTION sorted(am text, lo int, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	got text := '';
	seen int := 0;
BEGIN
	CASE am
		WHEN 'zen' THEN
			FOR r IN SELECT id, k, pad FROM big WHERE id >= lo ORDER BY k LOOP
				got := md5(got || r.id || r.pad);
				seen := seen + 1;
				EXIT WHEN seen > n;
			END LOOP;
			FOR r IN SELECT id, k FROM big WHERE id >= lo ORDER BY k DESC LIMIT n LOOP
				got := md5(got || r.id);
			END LOOP;
			FOR r IN SELECT b.id, x.k FROM (SELECT * FROM big WHERE id BETWEEN lo AND lo + 20 ORDER BY k LIMIT n) x
				JOIN big b ON b.id = x.id + 1 ORDER BY b.k, x.k LOOP
				got := md5(got || r.id || r.k);
			END LOOP;
		ELSE
			FOR r IN SELECT id, k, pad FROM big_heap WHERE id >= lo ORDER BY k LOOP
				got := md5(got || r.id || r.pad);
				seen := seen + 1;
				EXIT WHEN seen > n;
			END LOOP;
			FOR r IN SELECT id, k FROM big_heap WHERE id >= lo ORDER BY k DESC LIMIT n LOOP
				got := md5(got || r.id);
			END LOOP;
			FOR r IN SELECT b.id, x.k FROM (SELECT * FROM big_heap WHERE id BETWEEN lo AND lo + 20 ORDER BY k LIMIT n) x
				JOIN big_heap b ON b.id = x.id + 1 ORDER BY b.k, x.k LOOP
				got := md5(got || r.id || r.k);
			END LOOP;
	END CASE;
	RETURN got;
END $$;
PREPARE ordered(int, int) AS SELECT id, k FROM big WHERE id > $1 ORDER BY k, id LIMIT $2;
PREPARE changed(int) AS SELECT 12 / (k - 3) AS q FROM big WHERE id > $1 ORDER BY q;
EXPLAIN (COSTS OFF) EXECUTE ordered(3990, 3);
SELECT runs() AS before \gset
EXECUTE ordered(3990, 3);
EXECUTE ordered(3990, 3);
EXECUTE ordered(3997, 5);
EXECUTE ordered(3996, 2);
EXECUTE changed(3998);
EXECUTE changed(3998);
EXECUTE changed(0);
EXECUTE changed(3999);
SELECT runs() - :before AS runs;
-- on the inner side of a join, by what the outer one gives
CREATE TABLE word (id int PRIMARY KEY, w text) USING zen;
INSERT INTO word SELECT i, 'w' || i FROM generate_series(1, 4000) i;
CREATE INDEX ON word (w);
VACUUM ANALYZE word;
PREPARE inner_sort(int) AS SELECT x.id, s.id AS found, s.k FROM word x,
	LATERAL (SELECT b.id, b.k FROM word y JOIN big b ON b.id = y.id WHERE y.w = x.w ORDER BY b.k DESC LIMIT 100 / (x.id - 1)) s
	WHERE x.id BETWEEN $1 AND $1 + 1;
EXECUTE inner_sort(4);
EXECUTE inner_sort(4);
EXECUTE inner_sort(50);
EXECUTE inner_sort(1);
EXECUTE inner_sort(7);
SELECT runs() AS before \gset
SELECT bool_and(sorted('zen', lo, n) = sorted('heap', lo, n)) AS same
	FROM (VALUES (3900, 50), (3000, 10), (3995, 0), (3990, 100), (1, 5)) v(lo, n);
SET work_mem = '64kB';
SELECT bool_and(sorted('zen', lo, n) = sorted('heap', lo, n)) AS same
	FROM (VALUES (1, 9000), (3000, 9000), (10, 3000), (4000, 7), (1, 4), (1, 9000)) v(lo, n);
RESET work_mem;
SELECT runs() - :before AS runs;
RESET enable_incremental_sort;
SET enable_sort = off;

-- aggregates of all rows, row by row: of many, one and none, of NULLs, over joins, with an overflow, on the same rows as heap
SET zen.executor = point, keyjoin;
CREATE TABLE num (id int PRIMARY KEY, k int, i2 int2, i4 int, i8 int8, f8 float8, d date, t text) USING zen;
CREATE TABLE num_heap (LIKE num INCLUDING ALL) USING heap;
CREATE INDEX ON num (k);
CREATE INDEX ON num_heap (k);
INSERT INTO num SELECT i, i % 50, NULLIF(i % 300, 7), i * 1000, i * 100000000000000, i / 7.0, date '2024-01-01' + i, 't' || i
	FROM generate_series(1, 2000) i;
INSERT INTO num SELECT i, 1000, NULL, 2147483647, 9223372036854775807, 'Infinity', NULL, NULL FROM generate_series(3001, 3003) i;
INSERT INTO num_heap SELECT * FROM num;
VACUUM ANALYZE num, num_heap;
CREATE FUNCTION totals(am text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	s record;
BEGIN
	IF am = 'zen' THEN
		SELECT count(*), count(i2), sum(i2), sum(i4), avg(i4), min(i4), max(i8), sum(f8), avg(f8), min(d), max(d) + 1 AS next
			INTO r FROM num WHERE k = n;
		SELECT count(*), sum(a.i4) AS s INTO s FROM num a JOIN num b ON b.id = a.id + 1 WHERE a.k = n;
	ELSE
		SELECT count(*), count(i2), sum(i2), sum(i4), avg(i4), min(i4), max(i8), sum(f8), avg(f8), min(d), max(d) + 1 AS next
			INTO r FROM num_heap WHERE k = n;
		SELECT count(*), sum(a.i4) AS s INTO s FROM num_heap a JOIN num_heap b ON b.id = a.id + 1 WHERE a.k = n;
	END IF;
	RETURN r::text || s::text;
END $$;
PREPARE total(int) AS SELECT count(*), sum(i8) FROM num WHERE k = $1;
PREPARE limited(int, int) AS SELECT sum(i4) FROM (SELECT i4 FROM num WHERE k = $1 ORDER BY id LIMIT $2) x;
EXPLAIN (COSTS OFF) EXECUTE total(1);
SELECT runs() AS before \gset
EXECUTE total(1);
EXECUTE total(1);
EXECUTE total(1000);
EXECUTE total(-1);
EXECUTE limited(3, 2);
EXECUTE limited(3, 2);
EXECUTE limited(4, 9000);
EXECUTE limited(4, 0);
SELECT runs() - :before AS runs;
SELECT runs() AS before \gset
SELECT bool_and(totals('zen', n) = totals('heap', n)) AS same FROM (VALUES (1), (7), (-1), (49), (1000), (0)) v(n);
SELECT runs() - :before AS runs;
-- others are not kept
PREPARE joined_text(int) AS SELECT string_agg(t, ',') FROM num WHERE k = $1 AND id < 100;
EXPLAIN (COSTS OFF) EXECUTE joined_text(1);
RESET zen.executor;

-- with the setting off, no plan is kept
SET search_path = kept_plans;
SET zen.executor = keyjoin, batch;
SELECT runs() AS before \gset
EXECUTE range(3, 4);
EXECUTE range(3, 4);
SELECT runs() - :before AS runs;
RESET zen.executor;
SET client_min_messages = warning;
DROP SCHEMA on_zen CASCADE;
DROP SCHEMA on_heap CASCADE;
DROP SCHEMA kept_plans CASCADE;
