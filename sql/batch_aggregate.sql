-- Aggregates over a whole table, block by block (batch of zen.executor): the same answers as heap and as row by row.
CREATE SCHEMA batch_aggregate;
SET search_path = batch_aggregate;
-- Needs the executor.
SET max_parallel_workers_per_gather = 0;

CREATE TABLE h (id int, s int2, i int4, l int8, f float4, d float8, day date, at timestamp, atz timestamptz,
	clock time, o oid, m money, b bool, t text, n numeric, after_text int4) USING heap;
CREATE TABLE z (LIKE h) USING zen;
SELECT setseed(0.17);
INSERT INTO h SELECT g, (random() * 60000 - 30000)::int2, (random() * 4e9 - 2e9)::int4,
	(random() * 1.8e19 - 9e18)::int8, (random() * 200 - 100)::float4, random() * 1e6 - 5e5,
	'2000-01-01'::date + (random() * 9000)::int, '2000-01-01'::timestamp + random() * interval '9000 days',
	'2000-01-01'::timestamptz + random() * interval '9000 days', '00:00'::time + random() * interval '23 hours',
	(random() * 4e9)::bigint::oid, (random() * 1000)::numeric::money, random() < 0.5, repeat('x', (random() * 30)::int),
	(random() * 1000)::numeric(10, 3), g % 100 FROM generate_series(1, 700) g;
-- NULLs in all places, and none in the first 200 rows
UPDATE h SET s = CASE WHEN random() < 0.8 THEN s END, i = CASE WHEN random() < 0.8 THEN i END,
	l = CASE WHEN random() < 0.8 THEN l END, f = CASE WHEN random() < 0.8 THEN f END,
	d = CASE WHEN random() < 0.8 THEN d END, day = CASE WHEN random() < 0.8 THEN day END,
	at = CASE WHEN random() < 0.8 THEN at END, atz = CASE WHEN random() < 0.8 THEN atz END,
	clock = CASE WHEN random() < 0.8 THEN clock END, o = CASE WHEN random() < 0.8 THEN o END,
	m = CASE WHEN random() < 0.8 THEN m END, b = CASE WHEN random() < 0.8 THEN b END,
	t = CASE WHEN random() < 0.8 THEN t END, n = CASE WHEN random() < 0.8 THEN n END,
	after_text = CASE WHEN random() < 0.8 THEN after_text END WHERE id > 200;
CREATE TABLE sorted USING heap AS SELECT * FROM h ORDER BY id;
DROP TABLE h;
ALTER TABLE sorted RENAME TO h;
INSERT INTO z SELECT * FROM h;
ANALYZE h, z;

-- One query on h, and on z in both ways; $ stands for the table.  Says what differs, or that the node is not in the plan.
CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(q::text, '';'') FROM (%s) q', query) INTO result;
	RETURN coalesce(result, 'nothing');
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || CASE WHEN query ~ '^\(ANALYZE' THEN '' ELSE '(COSTS OFF) ' END || query LOOP
		result := result || line || E'\n';
	END LOOP;
	RETURN result;
END $$;
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	on_heap text := answer(replace(query, '$', 'h'));
	by_batch text := answer(replace(query, '$', 'z'));
	by_row text;
BEGIN
	IF plan_of(replace(query, '$', 'z')) !~ 'ZenBatchAggregate' THEN
		RETURN 'not by batch: ' || query;
	END IF;
	SET LOCAL zen.executor = point, keyjoin;
	by_row := answer(replace(query, '$', 'z'));
	SET LOCAL zen.executor = point, keyjoin, batch;
	IF on_heap IS DISTINCT FROM by_batch OR by_row IS DISTINCT FROM by_batch THEN
		RETURN format('%s: heap %s, batch %s, rows %s', query, on_heap, by_batch, by_row);
	END IF;
	RETURN NULL;
END $$;

-- plans
EXPLAIN (COSTS OFF) SELECT count(*) FROM z;
EXPLAIN (COSTS OFF, VERBOSE) SELECT sum(i) + 1, max(d), sum(i) FROM z WHERE i > 5 AND t LIKE 'x%' HAVING count(*) > 3;
SELECT replace(plan_of('(ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF, COSTS OFF) SELECT sum(i) FROM z WHERE id <= 100 AND id % 2 = 0'), '.00', '') AS plan;
-- none: another table, aggregates that are not known, groups, order, subqueries, samples, locks, parents
EXPLAIN (COSTS OFF) SELECT count(*) FROM h;
CREATE FUNCTION is_batch(query text) RETURNS bool LANGUAGE sql AS $$SELECT plan_of(query) ~ 'ZenBatchAggregate'$$;
CREATE TABLE parent (a int) USING zen;
CREATE TABLE child () INHERITS (parent) USING zen;
SELECT q, is_batch(q) FROM (VALUES
	('SELECT sum(n) FROM z'),
	('SELECT string_agg(t, '','') FROM z'),
	('SELECT count(DISTINCT i) FROM z'),
	('SELECT sum(d ORDER BY i) FROM z'),
	('SELECT s, count(*) FROM z GROUP BY s'),
	('SELECT s, count(*) FROM z GROUP BY ROLLUP (s)'),
	('SELECT count(*), max(n) FROM z'),
	('SELECT count(*) FROM z, (VALUES (1)) v'),
	('SELECT count(*) FROM z TABLESAMPLE BERNOULLI (50)'),
	('SELECT count(*) FROM (SELECT * FROM z FOR UPDATE) l'),
	('SELECT sum((SELECT z.i)) FROM z'),
	('SELECT count(nullif(random(), 2)) FROM z'),
	('SELECT count(*) FROM z WHERE random() < 2'),
	('SELECT count(*) FROM parent'),
	('SELECT 1 FROM z HAVING true'),
	('SELECT count(*) FROM z WHERE current_user = ''nobody'''),
	-- and some that are
	('SELECT count(*) FROM ONLY parent'),
	('SELECT count(*) FROM child'),
	('SELECT sum(i) FROM (SELECT * FROM z WHERE i > 3) q'),
	('SELECT sum(i) OVER () FROM (SELECT sum(i) AS i FROM z) q'),
	('SELECT 1 WHERE (SELECT count(*) FROM z) > 3'),
	('SELECT (SELECT count(*) FROM z WHERE z.i = p.a) FROM parent p'),
	('WITH w AS MATERIALIZED (SELECT max(i) FROM z) SELECT * FROM w'),
	('SELECT count(*), sum(i) OVER () FROM z GROUP BY i')) v (q);
SET zen.executor = point, keyjoin;
EXPLAIN (COSTS OFF) SELECT count(*) FROM z;
RESET zen.executor;

-- each aggregate, with all rows, some, and none
CREATE TABLE queries AS SELECT format('SELECT %s FROM $ %s', aggs, quals) AS query FROM
	(VALUES ('count(*)'), ('count(t), count(after_text), count(n), count(b), count($)'),
		('sum(s), sum(i), sum(l), sum(f), sum(d)'), ('avg(s), avg(i), avg(l), avg(f), avg(d)'),
		('min(s), min(i), min(l), min(f), min(d), min(day), min(at), min(atz), min(clock), min(o), min(m)'),
		('max(s), max(i), max(l), max(f), max(d), max(day), max(at), max(atz), max(clock), max(o), max(m)'),
		('sum(after_text), sum(i), max(after_text), count(after_text), avg(length(t))'),
		('sum(i + s), sum(i) FILTER (WHERE b), count(*) FILTER (WHERE i > 0), min(abs(d)), sum(i) * 2 + count(*)'),
		('avg(d)::text || max(i)'), ('count(ctid), count(tableoid)')) a (aggs),
	(VALUES (''), ('WHERE id > 200'), ('WHERE id < 200'), ('WHERE id <= 200 AND id >= 137'), ('WHERE id <> 300'),
		('WHERE id = 640'), ('WHERE 5000 > s'), ('WHERE s >= 0::bigint'), ('WHERE i > 0'), ('WHERE l < 0'), ('WHERE l <> 7'),
		('WHERE l > 9223372036854775807'), ('WHERE l >= -9223372036854775808'), ('WHERE i < (-9223372036854775808)::int8'),
		('WHERE i < 9223372036854775807'), ('WHERE i <> 9223372036854775807'),
		('WHERE f > 0'), ('WHERE f < 50::float4 AND d > 0'), ('WHERE d <> 0'), ('WHERE d <= ''NaN'''), ('WHERE d = ''NaN'''),
		('WHERE day > ''2010-01-01'''), ('WHERE day < ''infinity'''), ('WHERE at >= ''2010-01-01'''), ('WHERE atz < ''2010-01-01'''),
		('WHERE day > ''2010-01-01''::timestamp'), ('WHERE o > 2000000000'), ('WHERE o <> 3'), ('WHERE b'), ('WHERE NOT b AND i > 0'),
		('WHERE i IS NULL'), ('WHERE i IS NOT NULL AND i > 3'), ('WHERE t LIKE ''xxx%'''), ('WHERE after_text < 50'),
		('WHERE n > 500 AND id > 100'), ('WHERE i IN (1, 2) OR s > 0'),
		('WHERE i > (SELECT min(i) FROM h)'), ('WHERE i > s'), ('HAVING count(*) > 400'), ('HAVING max(i) IS NULL')) q (quals);
SELECT count(*) AS queries FROM queries;
CREATE FUNCTION differing(without text DEFAULT NULL) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT s FROM (SELECT same(query) AS s FROM queries WHERE without IS NULL OR query !~ without OFFSET 0) q
		WHERE s IS NOT NULL
$$;
SELECT differing();

-- the same after changes of this transaction, of a savepoint rolled back, and with columns added and dropped
BEGIN;
DELETE FROM h WHERE id % 7 = 0;
DELETE FROM z WHERE id % 7 = 0;
SAVEPOINT s;
DELETE FROM z WHERE id > 100;
INSERT INTO z (i) VALUES (1);
SELECT count(*), sum(id) FROM z;
ROLLBACK TO s;
INSERT INTO h (id, i, d) VALUES (1000, 5, 'NaN'), (1001, NULL, '-Infinity');
INSERT INTO z (id, i, d) VALUES (1000, 5, 'NaN'), (1001, NULL, '-Infinity');
SELECT differing();
ALTER TABLE h ADD COLUMN late int DEFAULT 7;
ALTER TABLE z ADD COLUMN late int DEFAULT 7;
ALTER TABLE h DROP COLUMN s;
ALTER TABLE z DROP COLUMN s;
INSERT INTO h (id, late) VALUES (1002, 9), (1003, NULL);
INSERT INTO z (id, late) VALUES (1002, 9), (1003, NULL);
SELECT differing('\ms\M');
SELECT same('SELECT sum(late), count(late), min(late), max(late) FROM $ WHERE late > 6 AND id > 500');
SELECT sum(late), count(late), min(late), max(late) FROM z WHERE late >= 7;
ROLLBACK;
SELECT differing();


-- columns younger than rows, at a known place
CREATE TABLE young (a int, b float8) USING zen;
INSERT INTO young SELECT g, g FROM generate_series(1, 100) g;
ALTER TABLE young ADD COLUMN c int8 DEFAULT 7, ADD COLUMN d int;
INSERT INTO young SELECT g, NULL, g, g FROM generate_series(101, 200) g;
SELECT count(c), sum(c), min(c), max(c), count(d), avg(d), count(b) FROM young;
SELECT count(c), sum(c), min(c), max(c), count(d), avg(d) FROM young WHERE c < 110 AND a > 50;
SELECT count(*), max(c) FROM young WHERE d >= 150;
ALTER TABLE young DROP COLUMN b;
SELECT count(c), sum(c), min(c), max(c), count(d), avg(d) FROM young WHERE c < 110 AND a > 50;

-- in a parallel worker, alone
SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SET max_parallel_workers_per_gather = 1;
SELECT count(*), sum(c), avg(d) FROM young WHERE a > 10;
SELECT plan_of('SELECT sum(c) FROM young') ~ 'Gather' AS in_worker, is_batch('SELECT sum(c) FROM young');
SET max_parallel_workers_per_gather = 0;
SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');

-- large transactions: rows that are spilled, and changed after that
SET zen.spill_threshold = '64kB';
SELECT rows_spilled AS before FROM public.zen_stat \gset
BEGIN;
INSERT INTO h SELECT g, g % 7, g, g * 1000, 1.5, g / 3.0 FROM generate_series(1001, 4000) g;
INSERT INTO z SELECT g, g % 7, g, g * 1000, 1.5, g / 3.0 FROM generate_series(1001, 4000) g;
SELECT rows_spilled - :before > 1000 AS spilled FROM public.zen_stat;
SELECT differing();
SAVEPOINT s;
DELETE FROM z WHERE id % 3 = 0;
SELECT count(*), sum(id), min(i) FROM z WHERE id > 1000;
ROLLBACK TO s;
DELETE FROM h WHERE id % 3 = 0;
DELETE FROM z WHERE id % 3 = 0;
SELECT differing();
ROLLBACK;
SELECT differing();
RESET zen.spill_threshold;

-- edges of types: overflow, NaN, infinity, negative zero, 128 bits
TRUNCATE h, z;
SELECT differing();
SELECT sum(i), count(i), avg(d), max(l), count(*) FROM z;
CREATE FUNCTION try_rows(list text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE h, z;
	EXECUTE 'INSERT INTO h (id, s, i, l, f, d) VALUES ' || list;
	EXECUTE 'INSERT INTO z (id, s, i, l, f, d) VALUES ' || list;
	RETURN QUERY SELECT differing();
	RETURN NEXT answer('SELECT sum(l), avg(l), sum(i), avg(s) FROM z');
	RETURN NEXT answer('SELECT min(d), max(d), min(f), max(f) FROM z');
	RETURN NEXT answer('SELECT sum(d), sum(f) FROM z') || ' ' || answer('SELECT avg(d), avg(f) FROM z');
END $$;
SELECT try_rows('(1, 32767, 2147483647, 9223372036854775807, 3e38, 1e308), (2, 32767, 2147483647, 9223372036854775807, 3e38, 1e308)');
SELECT try_rows('(1, -32768, -2147483648, -9223372036854775808, -3e38, 1e200), (2, 1, 1, -9223372036854775808, 3e38, -1e200)');
SELECT try_rows('(1, 0, 0, 0, ''-0'', ''-0''), (2, 0, 0, 0, ''0'', ''0'')');
SELECT try_rows('(1, 0, 0, 0, ''0'', ''0''), (2, 0, 0, 0, ''-0'', ''-0'')');
SELECT try_rows('(1, 1, 1, 1, ''-0'', ''-0'')');
SELECT try_rows('(1, 1, 1, 1, ''NaN'', 5), (2, 2, 2, 2, 5, ''NaN''), (3, 2, 2, 2, 1, 1)');
SELECT try_rows('(1, 1, 1, 1, ''inf'', ''inf''), (2, 2, 2, 2, ''-inf'', ''-inf''), (3, 2, 2, 2, 1, 1)');
SELECT try_rows('(1, 1, 1, 1, ''inf'', 1), (2, 2, 2, 2, 1, ''inf'')');
SELECT try_rows('(1, NULL, NULL, NULL, NULL, NULL)');

-- prepared, with parameters, generic and not
INSERT INTO z (id, i, d, t) SELECT g, g, g / 10.0, 't' || g FROM generate_series(1, 1000) g;
PREPARE above(int, float8) AS SELECT count(*), sum(i), max(d) FROM z WHERE i > $1 AND d < $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE above(10, 50);
EXECUTE above(10, 50);
EXECUTE above(990, 1000);
EXECUTE above(NULL, 1000);
EXECUTE above(0, NULL);
PREPARE plus(int) AS SELECT sum(i + $1), sum(i) FILTER (WHERE i < $1) FROM z HAVING count(*) > $1;
EXECUTE plus(3);
EXECUTE plus(100000);
RESET plan_cache_mode;
DELETE FROM z WHERE i > 995;
EXECUTE plus(3);
-- another access method, then back
ALTER TABLE z SET ACCESS METHOD heap;
EXPLAIN (COSTS OFF) EXECUTE above(10, 50);
EXECUTE above(10, 50);
ALTER TABLE z SET ACCESS METHOD zen;
EXECUTE above(10, 50);

-- cursors
BEGIN;
DECLARE c CURSOR FOR SELECT sum(i) FROM z;
DECLARE back SCROLL CURSOR FOR SELECT sum(i), avg(i) FROM z;
UPDATE z SET i = 0 WHERE i < 500;
FETCH ALL FROM c;
FETCH ALL FROM c;
FETCH ALL FROM back;
FETCH BACKWARD ALL FROM back;
FETCH FIRST FROM back;
DELETE FROM z WHERE CURRENT OF c;
ROLLBACK;

-- rescans: correlated subqueries, LATERAL, initplans, nested loops
CREATE TABLE few AS SELECT g AS k FROM generate_series(0, 4) g;
EXPLAIN (COSTS OFF) SELECT k, (SELECT sum(i) FROM z WHERE i <= k AND id > 0) FROM few ORDER BY k;
SELECT k, (SELECT sum(i) FROM z WHERE i <= k AND id > 0), (SELECT count(*) FROM z WHERE id > k + 990 HAVING count(*) > 3)
	FROM few ORDER BY k;
SELECT k, l.* FROM few, LATERAL (SELECT count(*) AS n, max(id) FROM z WHERE id < k * 100 OFFSET 0) l ORDER BY k;
SELECT count(*) FROM z WHERE i > (SELECT avg(i) FROM z);
SELECT k, (SELECT sum(z.i + few.k) FROM z) FROM few ORDER BY k;
SELECT k, (SELECT count(*) FROM z WHERE EXISTS (SELECT 1 FROM few f2 WHERE f2.k = z.i)) FROM few ORDER BY k LIMIT 1;

-- in functions, and in statements that write
CREATE FUNCTION total(above int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT sum(i) FROM z WHERE i > above);
END $$;
SELECT total(g * 100) FROM generate_series(1, 8) g;
INSERT INTO few SELECT count(*) FROM z;
UPDATE few SET k = (SELECT max(i) FROM z) WHERE k = 995;
SELECT * FROM few WHERE k > 4;
CREATE TABLE result USING zen AS SELECT count(*), sum(i) FROM z;
TABLE result;

-- rights, and row-level security: a function that tells what it sees gets no row of others
CREATE ROLE regress_batch;
GRANT USAGE ON SCHEMA batch_aggregate TO regress_batch;
CREATE TABLE owned (owner text, v int) USING zen;
INSERT INTO owned SELECT CASE WHEN g % 2 = 0 THEN 'regress_batch' ELSE 'other' END, g FROM generate_series(1, 6) g;
CREATE FUNCTION tell(v int) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS $$
BEGIN
	RAISE NOTICE 'seen %', v;
	RETURN true;
END $$;
ALTER FUNCTION tell STABLE;
SET ROLE regress_batch;
SELECT count(*) FROM owned;
RESET ROLE;
GRANT SELECT (v) ON owned TO regress_batch;
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON owned USING (owner = current_user);
SET ROLE regress_batch;
SELECT count(owner) FROM owned;
EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM owned WHERE tell(v) AND v > 2;
SELECT count(*), sum(v) FROM owned WHERE tell(v) AND v > 2;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION sum(int) FROM PUBLIC;
SET ROLE regress_batch;
SELECT sum(v) FROM owned;
RESET ROLE;
GRANT EXECUTE ON FUNCTION sum(int) TO PUBLIC;

-- statistics: a scan, and the rows that it has read
CREATE TABLE counted (a int) USING zen;
INSERT INTO counted SELECT generate_series(1, 300);
SELECT sum(a) FROM counted WHERE a > 100;
SELECT count(*) FROM counted;
SELECT pg_stat_force_next_flush();
SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'counted';

-- an index that is cheaper is used; so is one for min and max
CREATE INDEX ON counted (a);
INSERT INTO counted SELECT generate_series(301, 30000);
ANALYZE counted;
EXPLAIN (COSTS OFF) SELECT count(*) FROM counted WHERE a = 7;
SELECT is_batch('SELECT max(a) FROM counted');
SELECT count(*), min(a) FROM counted;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM counted WHERE a > 7;

-- a generated column, a domain, a view, a partition by its name
RESET enable_seqscan;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE odd (a int, g int GENERATED ALWAYS AS (a * 2) STORED, p positive) USING zen;
INSERT INTO odd (a, p) SELECT g, g FROM generate_series(1, 10) g;
CREATE VIEW v AS SELECT * FROM odd WHERE a > 2;
SELECT sum(g), sum(p), count(*) FROM v WHERE p < 9;
EXPLAIN (COSTS OFF) SELECT sum(g), sum(p), count(*) FROM v WHERE p < 9;
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10) USING zen;
INSERT INTO parted VALUES (1), (2);
SELECT count(*) FROM parted;
EXPLAIN (COSTS OFF) SELECT count(*) FROM part1;

-- a serializable transaction reads the rows one by one, to note conflicts
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(i), max(d) FROM z WHERE i > 10;
SELECT mode, relation::regclass FROM pg_locks WHERE mode = 'SIReadLock' AND pid = pg_backend_pid();
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA batch_aggregate CASCADE;
DROP ROLE regress_batch;
