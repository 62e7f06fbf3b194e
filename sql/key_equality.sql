-- A key that is unique by its own type's equality may equal a value of another type that another key equals, too.
-- Every answer is shown for heap, for zen with btrees, and for zen with trees.
CREATE SCHEMA key_equality;
SET search_path = key_equality, public;
-- Needs the executor.
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SET jit = off;
\pset format unaligned
\pset tuples_only on
CREATE TABLE kinds (k text PRIMARY KEY, am text, ix text) USING heap;
INSERT INTO kinds VALUES ('heap', 'heap', 'btree'), ('btree', 'zen', 'btree'), ('tree', 'zen', 'zentree');
-- a statement for each of them: %1$s is its name
CREATE FUNCTION each(statement text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format(statement, k) FROM kinds ORDER BY k
$$;
-- the same several times: executor state is kept from the second time on
CREATE FUNCTION thrice(statement text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format(statement, k) FROM kinds, generate_series(1, 3) i ORDER BY k, i
$$;
-- a table of each kind; the columns have one key
CREATE FUNCTION make(name text, columns text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	kind record;
BEGIN
	FOR kind IN SELECT * FROM kinds ORDER BY k LOOP
		PERFORM set_config('zen.default_index', kind.ix, true);
		EXECUTE format('CREATE TABLE %s_%s (%s) USING %s', name, kind.k, columns, kind.am);
	END LOOP;
END $$;

-- 02:30 is left out: it is 03:30
SET timezone = 'America/New_York';
SELECT make('t', 'ts timestamp PRIMARY KEY, v int');
SELECT each('INSERT INTO t_%1$s VALUES (''2024-03-10 02:30'', 1), (''2024-03-10 03:30'', 2)') \gexec
CREATE TABLE o (id int, z timestamptz) USING heap;
INSERT INTO o SELECT i, '2024-03-10 03:30' FROM generate_series(1, 2) i;
ANALYZE o;

-- prepared
SELECT each('PREPARE sel_%1$s(timestamptz) AS SELECT ''%1$s'' AS k, * FROM t_%1$s WHERE ts = $1') \gexec
SELECT thrice('EXECUTE sel_%1$s(''2024-03-10 07:30Z'')') \gexec
SELECT each('PREPARE lock_%1$s(timestamptz) AS SELECT ''%1$s'' AS k, * FROM t_%1$s WHERE ts = $1 FOR UPDATE') \gexec
SELECT thrice('EXECUTE lock_%1$s(''2024-03-10 07:30Z'')') \gexec
SELECT each('PREPARE any_%1$s(timestamptz[]) AS SELECT ''%1$s'' AS k, * FROM t_%1$s WHERE ts = ANY ($1)') \gexec
SELECT thrice('EXECUTE any_%1$s(''{2024-03-10 07:30Z,2024-03-10 08:30Z,2024-03-10 07:30Z}'')') \gexec
SELECT each('PREPARE upd_%1$s(timestamptz) AS UPDATE t_%1$s SET v = v + 10 WHERE ts = $1') \gexec
SELECT thrice('EXECUTE upd_%1$s(''2024-03-10 07:30Z'')') \gexec
SELECT each('SELECT ''%1$s'' AS k, * FROM t_%1$s') \gexec
SELECT each('PREPARE del_%1$s(timestamptz) AS DELETE FROM t_%1$s WHERE ts = $1') \gexec
BEGIN;
SELECT thrice('EXECUTE del_%1$s(''2024-03-10 07:30Z'')') \gexec
SELECT each('SELECT ''%1$s'' AS k, count(*) FROM t_%1$s') \gexec
ROLLBACK;
-- at once
SELECT each('SELECT ''%1$s'' AS k, * FROM t_%1$s WHERE ts = timestamptz ''2024-03-10 07:30Z''') \gexec
SELECT each('SELECT ''%1$s'' AS k, * FROM t_%1$s WHERE ts IN (timestamptz ''2024-03-10 07:30Z'', ''2024-03-10 09:30Z'')')
\gexec
-- joins; where PostgreSQL itself takes the inner row for the only one, it stops at the first, with heap as well
SELECT each('SELECT ''%1$s'' AS k, o.id, x.* FROM o, LATERAL (SELECT * FROM t_%1$s WHERE ts = o.z OFFSET 0) x') \gexec
SELECT each('SELECT ''%1$s'' AS k, o.id FROM o WHERE EXISTS (SELECT FROM t_%1$s x WHERE x.ts = o.z AND x.v = 32)') \gexec
SELECT each('SELECT ''%1$s'' AS k, o.id, x.* FROM o LEFT JOIN t_%1$s x ON x.ts = o.z') \gexec
SELECT each('SELECT ''%1$s'' AS k, o.id, (SELECT count(*) FROM t_%1$s x WHERE x.ts = o.z) FROM o') \gexec
SELECT each('PREPARE join_%1$s(int) AS SELECT ''%1$s'' AS k, x.* FROM o, LATERAL (SELECT * FROM t_%1$s WHERE ts = o.z OFFSET 0) x WHERE o.id = $1')
\gexec
SELECT thrice('EXECUTE join_%1$s(1)') \gexec

-- a foreign key between the two types
SELECT make('p', 'z timestamptz PRIMARY KEY');
SELECT each('INSERT INTO p_%1$s SELECT timestamptz ''2024-03-10 07:30Z'' + interval ''1 day'' * i FROM generate_series(0, 3) i')
\gexec
SELECT make('c', 'ts timestamp PRIMARY KEY, v int');
SELECT each('ALTER TABLE c_%1$s ADD FOREIGN KEY (ts) REFERENCES p_%1$s ON UPDATE CASCADE ON DELETE CASCADE') \gexec
SELECT each('INSERT INTO c_%1$s SELECT timestamptz ''2024-03-10 07:30Z'' + interval ''1 day'' * i FROM generate_series(0, 3) i')
\gexec
SELECT each('INSERT INTO c_%1$s VALUES (''2024-03-10 02:30'')') \gexec
SELECT each('DELETE FROM p_%1$s WHERE z > ''2024-03-12''') \gexec
SELECT each('DELETE FROM p_%1$s WHERE z < ''2024-03-11''') \gexec
SELECT each('SELECT ''%1$s'' AS k, ts, (SELECT z FROM p_%1$s p WHERE p.z = c.ts) FROM c_%1$s c') \gexec

-- a date and a time zone: Samoa had no 30th
SET timezone = 'Pacific/Apia';
SELECT make('d', 'd date PRIMARY KEY, v int');
SELECT each('INSERT INTO d_%1$s VALUES (''2011-12-29'', 1), (''2011-12-30'', 2), (''2011-12-31'', 3)') \gexec
SELECT each('PREPARE date_%1$s(timestamptz) AS SELECT ''%1$s'' AS k, * FROM d_%1$s WHERE d = $1') \gexec
SELECT thrice('EXECUTE date_%1$s(''2011-12-30 10:00Z'')') \gexec
SELECT each('PREPARE updd_%1$s(timestamptz) AS UPDATE d_%1$s SET v = v + 10 WHERE d = $1') \gexec
SELECT thrice('EXECUTE updd_%1$s(''2011-12-30 10:00Z'')') \gexec
SELECT each('SELECT ''%1$s'' AS k, * FROM d_%1$s') \gexec

-- an operator family of a user: a ten equals all its numbers
CREATE FUNCTION cmp_ten(int, bigint) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint8cmp($1 / 10, $2)';
CREATE FUNCTION is_of_ten(int, bigint) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 / 10 = $2';
CREATE OPERATOR === (FUNCTION = is_of_ten, LEFTARG = int, RIGHTARG = bigint);
CREATE OPERATOR FAMILY tens USING btree;
CREATE OPERATOR CLASS tens FOR TYPE int USING btree FAMILY tens AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
ALTER OPERATOR FAMILY tens USING btree ADD OPERATOR 3 === (int, bigint), FUNCTION 1 (int, bigint) cmp_ten(int, bigint);
SELECT public.zen_copy_operator_classes();
SELECT make('n', 'n int, v int');
SELECT format('CREATE UNIQUE INDEX ON n_%s USING %s (n tens)', k, ix) FROM kinds ORDER BY k \gexec
SELECT each('INSERT INTO n_%1$s SELECT i, i FROM generate_series(1, 100) i') \gexec
SELECT each('PREPARE ten_%1$s(bigint) AS SELECT ''%1$s'' AS k, * FROM n_%1$s WHERE n === $1 AND n %% 4 = 0') \gexec
SELECT thrice('EXECUTE ten_%1$s(3)') \gexec

-- which types name one row: their own; integers, floats, texts, and dates without time zone beside each other
CREATE TABLE keys (i2 smallint UNIQUE, i4 int UNIQUE, i8 bigint UNIQUE, f4 real UNIQUE, f8 float8 UNIQUE, s text UNIQUE,
	n name UNIQUE, d date UNIQUE, ts timestamp UNIQUE, z timestamptz UNIQUE, num numeric UNIQUE, v varchar(9) UNIQUE) USING zen;
CREATE FUNCTION node(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := 'other';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'ZenPointAccess' THEN result := 'point access'; END IF;
		IF line ~ 'ZenKeyJoin' THEN result := 'key join'; END IF;
		IF line ~ 'Index Scan' THEN RETURN result; END IF;
	END LOOP;
	RETURN 'no index';
END $$;
CREATE TABLE pairs (key text, value text) USING heap;
INSERT INTO pairs SELECT a, b FROM unnest('{i2,i4,i8}'::text[], '{smallint,int,bigint}'::text[]) t(a, x),
	unnest('{smallint,int,bigint}'::text[]) b;
INSERT INTO pairs SELECT a, b FROM unnest('{f4,f8}'::text[]) a, unnest('{real,float8}'::text[]) b;
INSERT INTO pairs SELECT a, b FROM unnest('{s,n}'::text[]) a, unnest('{text,name}'::text[]) b;
INSERT INTO pairs SELECT a, b FROM unnest('{d,ts,z}'::text[]) a, unnest('{date,timestamp,timestamptz}'::text[]) b;
INSERT INTO pairs VALUES ('num', 'numeric'), ('v', 'varchar');
SELECT key, value, node(format('SELECT * FROM keys WHERE %s = NULLIF(current_setting(''no.such'', true), '''')::%s', key,
		value)) AS one, node(format('SELECT * FROM keys WHERE %s = ANY (string_to_array(current_setting(''no.such'', true), '''')::%s[])',
		key, value)) AS list,
	node(format('SELECT k.* FROM (SELECT NULL::%s AS x FROM o OFFSET 0) q, LATERAL (SELECT * FROM keys WHERE %s = q.x OFFSET 0) k',
		value, key)) AS join
	FROM pairs;

-- trees alone: a btree's order fails where the time zone turns it round, so heap's answers depend on what else is there
SET timezone = 'America/New_York';
SET zen.default_index = zentree;
CREATE TABLE hours (ts timestamp PRIMARY KEY) USING zen;
INSERT INTO hours VALUES ('2024-03-10 01:00'), ('2024-03-10 02:00'), ('2024-03-10 02:30'), ('2024-03-10 03:00'), ('2024-03-10 03:30');
-- 03:00 lies between two that are equal, and is none of them
SELECT * FROM hours WHERE ts = timestamptz '2024-03-10 07:30Z';
SELECT * FROM hours WHERE ts >= timestamptz '2024-03-10 07:30Z' AND ts < timestamptz '2024-03-11 00:00Z';
-- two values that equal one key
CREATE TABLE moments (z timestamptz PRIMARY KEY) USING zen;
INSERT INTO moments VALUES ('2024-03-10 07:15Z'), ('2024-03-10 07:30Z'), ('2024-03-10 08:30Z');
SELECT * FROM moments WHERE z = ANY ('{2024-03-10 04:30,2024-03-10 03:30,2024-03-10 02:30,2024-03-10 03:30}'::timestamp[]);
SELECT * FROM moments WHERE z = ANY ('{2024-03-10 04:30,2024-03-10 03:30,2024-03-10 02:30}'::timestamp[]) ORDER BY z DESC;
SELECT * FROM moments WHERE z < ANY ('{2024-03-10 02:25,2024-03-10 03:00}'::timestamp[]);
-- a further column has no order over keys that are different
CREATE TABLE parts (ts timestamp, b int, UNIQUE (ts, b)) USING zen;
INSERT INTO parts SELECT ts, b FROM unnest('{2024-03-10 02:30,2024-03-10 03:30}'::timestamp[]) ts, generate_series(1, 5) b;
SELECT * FROM parts WHERE ts = timestamptz '2024-03-10 07:30Z' AND b = 2;
SELECT * FROM parts WHERE ts = timestamptz '2024-03-10 07:30Z' AND b >= 4 ORDER BY ts DESC, b DESC;
SELECT * FROM parts WHERE ts = ANY ('{2024-03-10 07:30Z,2024-03-10 08:30Z}'::timestamptz[]) AND b = ANY ('{1,5}');
-- nor is anything left out behind a leaf's end
CREATE TABLE minutes (a int, ts timestamp, UNIQUE (a, ts)) USING zen;
INSERT INTO minutes SELECT a, timestamp '2024-03-10' + interval '10 minutes' * i FROM generate_series(1, 50) a, generate_series(0, 35) i;
SELECT count(*) FROM minutes WHERE ts = timestamptz '2024-03-10 07:30Z';
SELECT count(*) FROM minutes WHERE a >= 1 AND ts = timestamptz '2024-03-10 07:30Z';
SELECT count(*) FROM minutes WHERE ts < timestamptz '2024-03-10 07:10Z' AND ts > timestamptz '2024-03-10 06:50Z';
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_seqscan = on;
SELECT count(*) FROM minutes WHERE ts = timestamptz '2024-03-10 07:30Z';
SELECT count(*) FROM minutes WHERE ts < timestamptz '2024-03-10 07:10Z' AND ts > timestamptz '2024-03-10 06:50Z';
SET client_min_messages = warning;
DROP SCHEMA key_equality CASCADE;
