-- Statements that nobody has prepared, executed by the plan that is kept for their shape (shape of zen.executor).
CREATE SCHEMA unprepared;
SET search_path = unprepared;
-- Needs the executor.
SET jit = off;
CREATE FUNCTION runs() RETURNS bigint LANGUAGE sql AS 'SELECT shape_runs FROM public.zen_stat';
CREATE TABLE z (id int PRIMARY KEY, a int, b text, c numeric(10, 2) DEFAULT 1, d date, ok boolean, v varchar(5), l int[])
	USING zen;
CREATE TABLE h (LIKE z INCLUDING ALL) USING heap;
CREATE TABLE changes (t text, op text) USING heap;
INSERT INTO z SELECT i, i % 7, 'b' || i, i, date '2024-01-01' + i, i % 2 = 0, 'v' || i % 9, ARRAY[i, 1]
	FROM generate_series(1, 3000) i;
INSERT INTO h SELECT * FROM z;
CREATE INDEX ON z (a);
CREATE INDEX ON h (a);
VACUUM ANALYZE z, h;

-- The same statement eight times, with other values, as dynamic SQL on both tables: how often zen's plan was kept.
-- %1$s is the table, %2$s an id, %3$s another number.
CREATE FUNCTION twin(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before bigint := unprepared.runs();
	answer text[];
	r record;
	q text;
BEGIN
	FOR i IN 1..8 LOOP
		answer := ARRAY['', ''];
		FOR side IN 1..2 LOOP
			q := format(statement, CASE side WHEN 1 THEN 'z' ELSE 'h' END, i * 11, i + 20);
			BEGIN
				IF q ~ '^(SELECT|VALUES)|RETURNING' THEN
					FOR r IN EXECUTE q LOOP
						answer[side] := answer[side] || r::text;
					END LOOP;
				ELSE
					EXECUTE q;
				END IF;
			EXCEPTION WHEN OTHERS THEN
				answer[side] := SQLSTATE || ' ' || regexp_replace(SQLERRM, '("|table )h', '\1z');
			END;
		END LOOP;
		IF answer[1] <> answer[2] THEN
			RAISE EXCEPTION '%: zen %, heap %', q, answer[1], answer[2];
		END IF;
	END LOOP;
	RETURN unprepared.runs() - before || ', last answer: ' || answer[1];
END $$;

-- what applications send
SELECT twin('SELECT * FROM %1$s WHERE id = %2$s');
SELECT twin('SELECT b, a FROM %1$s WHERE id = ''%2$s'' LIMIT 1');
SELECT twin('SELECT x.id, x.b AS "text" FROM %1$s x WHERE x.id = %2$s ORDER BY x.id LIMIT 21');
SELECT twin('SELECT 1 AS one FROM %1$s WHERE id = %2$s LIMIT 1');
SELECT twin('SELECT id FROM %1$s WHERE 1 = 1 AND id = %2$s AND a <> %3$s');
SELECT twin('SELECT id FROM %1$s WHERE id IN (%2$s, %3$s, 5) ORDER BY id');
SELECT twin('SELECT id FROM %1$s WHERE id = ANY (''{%2$s,%3$s}'') ORDER BY id');
SELECT twin('SELECT id FROM %1$s WHERE id BETWEEN %2$s AND 1%2$s AND a = 5 ORDER BY id');
SELECT twin('SELECT id FROM %1$s WHERE id = %2$s FOR UPDATE');
SELECT twin('SELECT id FROM %1$s WHERE id = %2$s AND (NULL IS NULL OR a = NULL)');
SELECT twin('SELECT id, d, ok FROM %1$s WHERE id = %2$s AND d > ''2020-01-01'' AND ok = true');
SELECT twin('SELECT id FROM %1$s WHERE id = %2$s::bigint');
SELECT twin('UPDATE %1$s SET a = a + %3$s WHERE id = %2$s');
SELECT twin('UPDATE %1$s SET b = ''x%3$s'', c = %3$s.5, d = ''20%3$s-02-01'', v = ''w%3$s'', l = ARRAY[%3$s, 2] WHERE id = %2$s RETURNING *');
SELECT twin('UPDATE %1$s SET b = ''x'', d = NULL WHERE id = %2$s RETURNING id, b, d');
SELECT twin('SELECT id FROM %1$s WHERE upper(b) = upper(''B%2$s'') AND id = %2$s');
SELECT twin('UPDATE %1$s SET ok = %3$s > 24, d = NULLIF(''20%3$s-01-01''::date, ''2022-01-01'') WHERE id = %2$s RETURNING ok, d');
SELECT twin('UPDATE %1$s SET v = ''12345'' || ''%3$s'' WHERE id = %2$s');
SELECT twin('INSERT INTO %1$s (id, a, b, v) VALUES (40%3$s, %3$s, ''n'', ''v'')');
SELECT twin('INSERT INTO %1$s (id, a) VALUES (50%3$s, %3$s), (60%3$s, DEFAULT) RETURNING id, a, c');
SELECT twin('INSERT INTO %1$s (id, a) VALUES (%2$s, %3$s) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a + %3$s RETURNING id, a');
SELECT twin('INSERT INTO %1$s (id) VALUES (%2$s)');
SELECT twin('DELETE FROM %1$s WHERE id = 40%3$s RETURNING id');
SELECT twin('SELECT id, CASE WHEN id = %2$s THEN ''same'' ELSE ''other'' END FROM %1$s WHERE id = %2$s');
SELECT twin('SELECT sub.id FROM (SELECT id, a FROM %1$s WHERE id = %2$s) sub');
SELECT twin('SELECT x.id, y.id FROM %1$s x JOIN %1$s y ON y.id = x.id + 1 WHERE x.id = %2$s');
SELECT twin('SELECT count(*), sum(a) FROM %1$s WHERE id BETWEEN %2$s AND 1%2$s');
-- what has no shape, or no plan that can be kept
SELECT twin('SELECT count(DISTINCT a) FROM %1$s WHERE id = %2$s');
SELECT twin('SELECT a + %3$s AS s FROM %1$s WHERE id = %2$s GROUP BY a + %3$s HAVING a + %3$s > 1');
SELECT twin('SELECT DISTINCT a + %3$s FROM %1$s WHERE id = %2$s');
SELECT twin('SELECT id FROM %1$s WHERE id = (SELECT %2$s)');
SELECT twin('WITH w AS MATERIALIZED (SELECT %2$s AS i) SELECT id FROM %1$s, w WHERE id = w.i');
SELECT twin('SELECT id FROM %1$s WHERE id = %2$s UNION ALL SELECT %3$s');
SELECT twin('SELECT id FROM %1$s WHERE id BETWEEN %2$s AND 1%2$s AND b LIKE ''b%2$s%%''');
SELECT twin('/*+ SeqScan(z) */ SELECT id FROM %1$s WHERE id = %2$s');
SELECT twin('SELECT id FROM %1$s WHERE id = %2$s AND extract(year FROM d) = 2024');
SELECT id FROM z WHERE id = 1 AND extract(year FROM d) = 2024 \; SELECT id FROM z WHERE id = 2 AND extract(year FROM d) = 2024 \; SELECT id FROM z WHERE id = 3 AND extract(year FROM d) = 2024 \; SELECT id FROM z WHERE id = 4 AND extract(year FROM d) = 2024 \; SELECT id FROM z WHERE id = 5 AND extract(year FROM d) = 2024;
PREPARE words AS SELECT id FROM z WHERE id = 1 AND extract(year FROM d) = 2024;
EXPLAIN (COSTS OFF) EXECUTE words;
CREATE FUNCTION dear(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
SELECT twin('SELECT id FROM %1$s WHERE id = dear(%2$s)');
SELECT twin('SELECT id FROM %1$s WHERE id IN (%2$s, %3$s, 3, 4, 5, 6, 7, 8, 9) ORDER BY id');
SELECT twin('SELECT x.id, s.a FROM %1$s x, LATERAL (SELECT y.a FROM %1$s y WHERE y.b = x.b ORDER BY y.id DESC LIMIT 1) s WHERE x.id = %2$s');
SELECT twin('SELECT x.id, s.n FROM %1$s x, LATERAL (SELECT count(*) AS n FROM %1$s y WHERE y.id BETWEEN x.id AND x.id + 5) s WHERE x.id = %2$s');
-- values that an index of expressions or of some rows has in its definition stay in the shape
ALTER TABLE z ADD j jsonb DEFAULT '{"k": 5}';
ALTER TABLE h ADD j jsonb DEFAULT '{"k": 5}';
CREATE UNIQUE INDEX ON z (id, (j ->> 'k')) WHERE ok;
CREATE UNIQUE INDEX ON h (id, (j ->> 'k')) WHERE ok;
SELECT twin('INSERT INTO %1$s (id, a, ok) VALUES (%2$s, 1, true) ON CONFLICT (id, (j ->> ''k'')) WHERE ok DO NOTHING');
SELECT twin('INSERT INTO %1$s (id, a, ok) VALUES (%2$s, 1, true) ON CONFLICT DO NOTHING');
SELECT twin('SELECT id, j ->> ''k'' FROM %1$s WHERE id = %2$s AND j ->> ''k'' = ''%3$s''');
SELECT count(*) FROM ((TABLE z EXCEPT TABLE h) UNION ALL (TABLE h EXCEPT TABLE z)) differences;

-- NULL and booleans are values where they are stored
SELECT runs() AS before \gset
UPDATE z SET ok = true, d = NULL WHERE id = 1;
UPDATE z SET ok = false, d = '2024-01-01' WHERE id = 2;
UPDATE z SET ok = NULL, d = NULL WHERE id = 3;
UPDATE z SET ok = true, d = '2024-01-02' WHERE id = 4;
UPDATE z SET ok = NULL, d = NULL WHERE id = 5;
UPDATE z SET ok = false, d = '2024-01-03' WHERE id = 6;
SELECT runs() - :before AS runs;
SELECT id, ok, d FROM z WHERE id < 7 ORDER BY id;

-- The simple protocol, cursors, commands that contain a query.  Each of these is executed when its shape has a plan.
SELECT b FROM z WHERE id = 1 \; SELECT b FROM z WHERE id = 2 \; SELECT b FROM z WHERE id = 3 \; SELECT b FROM z WHERE id = 4;
SELECT runs() AS before \gset
SELECT b FROM z WHERE id = 5;
SELECT b FROM z WHERE id = 6 \; SELECT b FROM z WHERE id = 7;
COPY (SELECT b FROM z WHERE id = 8) TO STDOUT;
SELECT runs() - :before AS runs;
CREATE TABLE made AS SELECT b FROM z WHERE id = 9;
TABLE made;
BEGIN;
DECLARE c1 CURSOR FOR SELECT b FROM z WHERE id = 1;
DECLARE c2 CURSOR FOR SELECT b FROM z WHERE id = 2;
DECLARE c3 CURSOR FOR SELECT b FROM z WHERE id = 3;
DECLARE c4 CURSOR FOR SELECT b FROM z WHERE id = 4;
SELECT runs() AS before \gset
DECLARE c5 CURSOR FOR SELECT b FROM z WHERE id = 5;
DECLARE c6 CURSOR WITH HOLD FOR SELECT b FROM z WHERE id = 6;
FETCH c5;
UPDATE z SET a = -5 WHERE CURRENT OF c5 RETURNING id, a;
UPDATE h SET a = -5 WHERE id = 5;
COMMIT;
SELECT runs() - :before AS runs;
FETCH c6;
CLOSE c6;
-- EXPLAIN shows the plan for the values
EXPLAIN (COSTS OFF) SELECT b FROM z WHERE id = 5;
-- a statement that is prepared, without parameters
PREPARE p AS SELECT b FROM z WHERE id = 5;
EXECUTE p;
EXECUTE p;

-- What a plan depends on may change between two executions.
CREATE FUNCTION five() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before bigint := unprepared.runs();
BEGIN
	FOR i IN 1..5 LOOP
		EXECUTE 'SELECT z FROM z WHERE id = ' || i;
	END LOOP;
	RETURN unprepared.runs() - before;
END $$;
SELECT five();
SELECT five();
-- a setting of the planner: another shape
SET enable_indexscan = off;
SELECT five();
SELECT five();
RESET enable_indexscan;
SELECT five();
SET plan_cache_mode = force_custom_plan;
SELECT five();
RESET plan_cache_mode;
SET zen.executor = 'point, keyjoin, batch';
SELECT five();
RESET zen.executor;
-- statistics, a column, an index
ANALYZE z;
SELECT five();
ALTER TABLE z ADD extra int DEFAULT 1;
ALTER TABLE h ADD extra int DEFAULT 1;
SELECT twin('SELECT * FROM %1$s WHERE id = %2$s');
ALTER TABLE z DROP CONSTRAINT z_pkey;
SELECT twin('SELECT id, extra FROM %1$s WHERE id = %2$s');
ALTER TABLE z ADD PRIMARY KEY (id);
SELECT twin('SELECT id, extra FROM %1$s WHERE id = %2$s');
-- a trigger
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO unprepared.changes VALUES (TG_TABLE_NAME, TG_OP);
	RETURN NEW;
END $$;
SELECT twin('UPDATE %1$s SET a = %3$s WHERE id = %2$s');
CREATE TRIGGER noted BEFORE UPDATE ON z FOR EACH ROW EXECUTE FUNCTION noted();
CREATE TRIGGER noted BEFORE UPDATE ON h FOR EACH ROW EXECUTE FUNCTION noted();
SELECT twin('UPDATE %1$s SET a = %3$s WHERE id = %2$s');
SELECT t, op, count(*) FROM changes GROUP BY 1, 2 ORDER BY 1;
DROP TRIGGER noted ON z;
DROP TRIGGER noted ON h;
-- a function in SQL that the planner puts in place of its call, and the search path by which it reads the body
CREATE SCHEMA other;
CREATE FUNCTION one() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION other.one() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2';
CREATE FUNCTION plus(int) RETURNS int STABLE LANGUAGE sql AS 'SELECT $1 + one()';
SELECT twin('SELECT unprepared.plus(id) FROM unprepared.%1$s WHERE id = %2$s');
SET search_path = other;
SELECT unprepared.twin('SELECT unprepared.plus(id) FROM unprepared.%1$s WHERE id = %2$s');
SET search_path = unprepared;
CREATE OR REPLACE FUNCTION one() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 3';
SELECT twin('SELECT unprepared.plus(id) FROM unprepared.%1$s WHERE id = %2$s');
-- so are time zones, casts, and a parameter by which ON CONFLICT finds an index
CREATE TABLE ev (id int PRIMARY KEY, at timestamptz, n bigint) USING zen;
SET timezone = 'UTC';
INSERT INTO ev SELECT i, timestamptz '2024-01-01 00:00' + i * interval '1 hour', i FROM generate_series(1, 100) i;
CREATE FUNCTION early(timestamptz) RETURNS bool LANGUAGE sql AS $$ SELECT $1 < '2024-01-03 00:00'::timestamptz $$;
CREATE FUNCTION early_rows() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n int := 0;
	found int;
BEGIN
	FOR i IN 1..6 LOOP
		EXECUTE 'SELECT id FROM ev WHERE id = ' || 46 + i % 2 || ' AND early(at)' INTO found;
		n := n + (found IS NOT NULL)::int;
	END LOOP;
	RETURN n;
END $$;
SELECT early_rows();
SET timezone = 'Asia/Tokyo';
SELECT early_rows();
RESET timezone;
CREATE TYPE boxed AS (x int);
CREATE FUNCTION into_box(int) RETURNS boxed LANGUAGE sql AS 'SELECT ROW($1)::boxed';
CREATE FUNCTION into_other_box(int) RETURNS boxed LANGUAGE sql AS 'SELECT ROW($1 + 900)::boxed';
CREATE CAST (int AS boxed) WITH FUNCTION into_box(int);
CREATE FUNCTION unboxed(int) RETURNS int LANGUAGE sql AS 'SELECT (($1)::boxed).x';
SELECT twin('SELECT id, unboxed(id) FROM %1$s WHERE id = %2$s');
DROP CAST (int AS boxed);
CREATE CAST (int AS boxed) WITH FUNCTION into_other_box(int);
SELECT twin('SELECT id, unboxed(id) FROM %1$s WHERE id = %2$s');
CREATE UNIQUE INDEX ON ev (n) WHERE id > 3;
DO $$ BEGIN FOR i IN 1..8 LOOP
	EXECUTE 'INSERT INTO ev (id, n) VALUES ($1, $2) ON CONFLICT (n) WHERE id > $3 DO NOTHING' USING 500 + i, 500, 3;
END LOOP; END $$;
SELECT count(*) FROM ev WHERE n = 500;
CREATE FUNCTION rows_of(int) RETURNS SETOF z STABLE LANGUAGE sql AS 'SELECT * FROM unprepared.z WHERE id = $1';
SELECT x.id FROM z, rows_of(5) x WHERE z.id = 1 \; SELECT x.id FROM z, rows_of(5) x WHERE z.id = 2;
-- a table of the same name that comes first from now on
CREATE TABLE first (id int PRIMARY KEY, b text) USING zen;
INSERT INTO first VALUES (1, 'lasting');
SELECT b FROM first WHERE id = 1 \; SELECT b FROM first WHERE id = 1 \; SELECT b FROM first WHERE id = 1 \; SELECT b FROM first WHERE id = 1 \; SELECT b FROM first WHERE id = 1 \; SELECT b FROM first WHERE id = 1;
CREATE TEMP TABLE first (id int PRIMARY KEY, b text) USING heap;
INSERT INTO pg_temp.first VALUES (1, 'temporary');
SELECT b FROM first WHERE id = 1;
DROP TABLE pg_temp.first;
SELECT b FROM first WHERE id = 1;
-- roles and row security
CREATE ROLE unprepared_one;
CREATE ROLE unprepared_two;
GRANT USAGE ON SCHEMA unprepared TO unprepared_one, unprepared_two;
GRANT SELECT ON z, h TO unprepared_one;
GRANT SELECT ON public.zen_stat TO unprepared_one, unprepared_two;
SET ROLE unprepared_one;
SELECT twin('SELECT id, b FROM %1$s WHERE id = %2$s');
SET ROLE unprepared_two;
SELECT twin('SELECT id, b FROM %1$s WHERE id = %2$s');
RESET ROLE;
ALTER TABLE z ENABLE ROW LEVEL SECURITY;
ALTER TABLE h ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON z USING (current_user = 'unprepared_one' AND id % 2 = 0);
CREATE POLICY even ON h USING (current_user = 'unprepared_one' AND id % 2 = 0);
SET ROLE unprepared_one;
SELECT twin('SELECT id, b FROM %1$s WHERE id = %2$s');
RESET ROLE;
SELECT twin('SELECT id, b FROM %1$s WHERE id = %2$s');
REVOKE SELECT ON z, h FROM unprepared_one;
SET ROLE unprepared_one;
SELECT twin('SELECT id, b FROM %1$s WHERE id = %2$s');
RESET ROLE;
ALTER TABLE z DISABLE ROW LEVEL SECURITY;
ALTER TABLE h DISABLE ROW LEVEL SECURITY;
DROP POLICY even ON z;
DROP POLICY even ON h;

-- Values that matter: a plan for any value may cost more.
CREATE TABLE skewed (id int PRIMARY KEY, kind text, pad text) USING zen;
INSERT INTO skewed SELECT i, CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'common' END, repeat('x', 100)
	FROM generate_series(1, 20000) i;
CREATE INDEX ON skewed (kind);
VACUUM ANALYZE skewed;
CREATE FUNCTION of_kind(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before bigint := unprepared.runs();
	r record;
	n int := 0;
BEGIN
	FOR i IN 1..6 LOOP
		FOR r IN EXECUTE format('SELECT id FROM skewed WHERE kind = %L ORDER BY id LIMIT 10', k) LOOP
			n := n + 1;
		END LOOP;
	END LOOP;
	RETURN n || ' rows, ' || unprepared.runs() - before;
END $$;
SELECT of_kind('common');
SELECT of_kind('rare');
SELECT count > 0 AS counted FROM public.zen_stat_executor WHERE reason = 'values_matter';
-- memory is bounded: many shapes, and each is forgotten before it comes again
SET zen.shape_memory = '64kB';
CREATE FUNCTION many() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	before bigint := unprepared.runs();
BEGIN
	FOR i IN 1..8 LOOP
		FOR n IN 1..40 LOOP
			EXECUTE format('SELECT id AS n%s FROM z WHERE id = %s', n, i);
		END LOOP;
	END LOOP;
	RETURN unprepared.runs() - before;
END $$;
SELECT many();
SELECT sum(total_bytes) < 200000 AS bounded FROM pg_backend_memory_contexts WHERE name IN ('zen shape', 'zen plan of a shape');
RESET zen.shape_memory;
SELECT many() > 100 AS kept;

SET client_min_messages = warning;
DROP CAST (int AS boxed);
DROP SCHEMA unprepared, other CASCADE;
REVOKE SELECT ON public.zen_stat FROM unprepared_one, unprepared_two;
DROP ROLE unprepared_one, unprepared_two;
