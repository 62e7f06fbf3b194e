-- Why statements are not run with kept executor state: each reason that zen_stat_executor counts is given once.
CREATE SCHEMA point_fallbacks;
SET search_path = point_fallbacks;
-- Needs the executor.
SET default_table_access_method = zen;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET jit = off;
-- what was counted since the last call
CREATE TABLE before (reason text PRIMARY KEY, n bigint) USING heap;
CREATE FUNCTION reasons() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	told text;
BEGIN
	SELECT string_agg(f.outcome || ': ' || f.reason || ' ' || f.count - b.n, ', ' ORDER BY f.outcome, f.reason) INTO told
		FROM public.zen_stat_executor f JOIN before b USING (reason) WHERE f.count <> b.n;
	DELETE FROM before;
	INSERT INTO before SELECT reason, count FROM public.zen_stat_executor;
	RETURN told;
END $$;
CREATE TABLE t (id int PRIMARY KEY, v int, u int, UNIQUE (u) DEFERRABLE);
CREATE TABLE h (id int PRIMARY KEY) USING heap;
INSERT INTO t SELECT i, i, i FROM generate_series(1, 1000) i;
INSERT INTO h SELECT i FROM generate_series(1, 1000) i;
CREATE TABLE parts (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
VACUUM ANALYZE t, h, parts;
SELECT reasons() IS NULL AS none;

-- plans that are not kept: EXECUTE plans them
PREPARE sel(int) AS SELECT v FROM t WHERE id = $1;
SET plan_cache_mode = force_custom_plan;
EXECUTE sel(1);
SELECT reasons();
SET plan_cache_mode = force_generic_plan;
SET zen.executor = 'point, keyjoin, batch';
SELECT v FROM t WHERE id = 1;
DO $$ BEGIN EXECUTE 'DELETE FROM t WHERE id = 0'; END $$;
SELECT reasons();
SET zen.executor = 'point, keyjoin, batch, shape';
SELECT v FROM t WHERE id = 1;
DO $$ BEGIN EXECUTE 'DELETE FROM t WHERE id = 0'; END $$;
SELECT reasons();
DO $$ BEGIN EXECUTE 'DELETE FROM t WHERE id = 0' || repeat(' OR id = 0', 100); END $$;
SELECT reasons();
-- a plan that hopes to stop early
CREATE TABLE large (id int PRIMARY KEY, v int);
INSERT INTO large SELECT i, i FROM generate_series(1, 9000) i;
VACUUM ANALYZE large;
SELECT reasons();
SET plan_cache_mode = auto;
DO $$ BEGIN FOR i IN 1..5 LOOP EXECUTE 'SELECT v FROM large WHERE v > ' || i || ' ORDER BY id LIMIT 1'; END LOOP; END $$;
SELECT reasons();
SET plan_cache_mode = force_generic_plan;
-- EXPLAIN shows what would be if it were prepared
EXPLAIN (COSTS OFF) SELECT v FROM t WHERE id = 1;
SELECT reasons();
PREPARE no_parameters AS SELECT id FROM t WHERE id < 3;
SET zen.executor = 'point, keyjoin, batch';
EXECUTE no_parameters;
SELECT reasons();
SET zen.executor = 'point, keyjoin, batch, shape';
SET jit = on;
SET jit_above_cost = 0;
PREPARE compiled(int) AS SELECT id FROM t WHERE id < $1;
EXECUTE compiled(2);
SELECT reasons();
RESET jit_above_cost;
SET jit = off;
SET enable_seqscan = on;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
PREPARE parallel(int) AS SELECT id FROM t WHERE v % 1000 = $1;
EXECUTE parallel(1);
SELECT reasons();
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
SET max_parallel_workers_per_gather = 0;
SET enable_seqscan = off;
PREPARE subquery(int) AS SELECT id, (SELECT v FROM t o WHERE o.id = t.id + 1) FROM t WHERE id = $1;
EXECUTE subquery(1);
SELECT reasons();
PREPARE cte(int) AS WITH c AS (UPDATE t SET v = v WHERE id = $1 RETURNING id) SELECT id FROM c;
EXECUTE cte(1);
SELECT reasons();
PREPARE merge(int) AS MERGE INTO t USING (VALUES ($1)) AS n(id) ON n.id = t.id WHEN MATCHED THEN UPDATE SET v = v;
EXECUTE merge(1);
SELECT reasons();
PREPARE several_targets(int) AS UPDATE parts SET v = v WHERE v = $1;
EXECUTE several_targets(1);
SELECT reasons();
PREPARE routed(int) AS INSERT INTO parts VALUES ($1, 1);
EXECUTE routed(1);
SELECT reasons();
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER transitions AFTER UPDATE ON t REFERENCING NEW TABLE AS n EXECUTE FUNCTION nothing();
PREPARE upd(int) AS UPDATE t SET v = v + 1 WHERE id = $1;
EXECUTE upd(1);
SELECT reasons();
DROP TRIGGER transitions ON t;
PREPARE other_table(int) AS SELECT t.id FROM t JOIN h USING (id) WHERE t.id < $1;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
EXECUTE other_table(2);
SELECT reasons();
-- beside a join by key, whose inner table is a zen table
PREPARE beside_join(int) AS SELECT t.id FROM h JOIN t USING (id) WHERE h.id > 990 AND h.id <> $1;
EXPLAIN (COSTS OFF) EXECUTE beside_join(991);
SELECT reasons();
EXECUTE beside_join(999);
SELECT reasons();
RESET enable_hashjoin;
PREPARE by_hash(int) AS SELECT a.id FROM t a JOIN t b ON a.v = b.v WHERE a.id < $1;
EXECUTE by_hash(2);
SELECT reasons();
RESET enable_mergejoin;
RESET enable_memoize;
PREPARE aggregate(int) AS SELECT count(DISTINCT v) FROM t WHERE id < $1;
EXECUTE aggregate(3);
SELECT reasons();
PREPARE sort(int) AS SELECT id FROM t ORDER BY id / 100, v LIMIT $1;
CREATE INDEX t_part ON t ((id / 100));
EXECUTE sort(3);
DROP INDEX t_part;
SELECT reasons();
PREPARE append(int) AS SELECT id FROM parts WHERE v = $1;
EXECUTE append(1);
SELECT reasons();
SET enable_bitmapscan = on;
SET enable_indexscan = off;
PREPARE bitmap_scan(int) AS SELECT v FROM t WHERE id = $1;
EXECUTE bitmap_scan(1);
SELECT reasons();
SET enable_bitmapscan = off;
SET enable_indexscan = on;
SET enable_tidscan = on;
PREPARE other_node(tid) AS SELECT v FROM t WHERE ctid = $1;
EXECUTE other_node('(0,2)');
SELECT reasons();
PREPARE no_table(int) AS SELECT v FROM t WHERE id = $1 AND false;
EXECUTE no_table(1);
SELECT reasons();
-- the node that refuses stands below one of zen's own, or is one
PREPARE key_join(int) AS SELECT t.v FROM h JOIN t ON t.id = h.id WHERE h.id < $1;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
EXPLAIN (COSTS OFF) EXECUTE key_join(2);
SELECT reasons();
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_memoize;
SET enable_seqscan = on;
PREPARE batch(int) AS SELECT count(*) FROM t WHERE v > $1;
EXPLAIN (COSTS OFF) EXECUTE batch(1);
SELECT reasons();
SET enable_seqscan = off;
-- a materialized view is no table; an order by distance is not a trigger's fault
CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t;
CREATE UNIQUE INDEX ON m (id);
SELECT reasons() IS NOT NULL AS some;
PREPARE materialized(int) AS SELECT v FROM m WHERE id = $1;
EXECUTE materialized(1);
SELECT reasons();
CREATE TABLE places (id int PRIMARY KEY, p point);
CREATE INDEX ON places USING gist (p);
CREATE TABLE near (id int, distance float8);
INSERT INTO places SELECT i, point(i, i) FROM generate_series(1, 100) i;
SELECT reasons() IS NOT NULL AS some;
PREPARE nearest(point) AS INSERT INTO near SELECT id, p <-> $1 FROM places ORDER BY p <-> $1 LIMIT 1;
EXPLAIN (COSTS OFF) EXECUTE nearest('(5,5)');
SELECT reasons();
-- PostgreSQL's own subscripts, but nobody knows that
SET client_min_messages = warning;
CREATE TYPE place;
CREATE FUNCTION place_in(cstring) RETURNS place LANGUAGE internal IMMUTABLE STRICT AS 'point_in';
CREATE FUNCTION place_out(place) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'point_out';
CREATE FUNCTION subscripts(internal) RETURNS internal LANGUAGE internal IMMUTABLE STRICT AS 'raw_array_subscript_handler';
CREATE TYPE place (INPUT = place_in, OUTPUT = place_out, LIKE = point, ELEMENT = float8, SUBSCRIPT = subscripts);
RESET client_min_messages;
SELECT reasons() IS NULL AS none;
PREPARE unknown_expression(int) AS SELECT ('(3,4)'::place)[$1 % 2] FROM t WHERE id = $1;
EXECUTE unknown_expression(1);
SELECT reasons();

-- plans that are kept whole, and are no point accesses; each is executed once
CREATE TRIGGER row_trigger BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION nothing();
EXECUTE upd(1);
SELECT reasons();
DROP TRIGGER row_trigger ON t;
PREPARE volatile_lock(int) AS SELECT id, random() < 2 AS yes FROM t WHERE id = $1 FOR UPDATE;
EXECUTE volatile_lock(1);
SELECT reasons();
PREPARE deferrable_key(int) AS SELECT v FROM t WHERE u = $1;
EXECUTE deferrable_key(1);
SELECT reasons();
PREPARE not_by_key(int) AS SELECT v FROM t WHERE id > $1;
EXECUTE not_by_key(999);
SELECT reasons();
-- PostgreSQL 18 can return the old row
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		EXECUTE 'PREPARE old_row(int) AS UPDATE t SET v = v WHERE id = $1 RETURNING old.v';
		EXECUTE 'EXECUTE old_row(1)';
	END IF;
END $$;
SELECT reasons() IS NOT DISTINCT FROM CASE WHEN current_setting('server_version_num')::int >= 180000
	THEN 'kept whole: returning 1, not used: first_run 1' END AS told;

-- executions that the standard executor runs
PREPARE again(int) AS SELECT v FROM t WHERE id = $1;
EXECUTE again(1);
SELECT reasons();
EXECUTE again(1);
SELECT reasons();
DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE EXECUTE again(1)'; END $$;
SELECT reasons();
EXPLAIN (COSTS OFF) EXECUTE again(1);
SELECT reasons();
-- others take its place
DO $$
BEGIN
	FOR i IN 1 .. 256 LOOP
		EXECUTE format('PREPARE other_%s(int) AS SELECT v FROM t WHERE id = $1', i);
		EXECUTE format('EXECUTE other_%s(1)', i);
	END LOOP;
END $$;
SELECT reasons();
EXECUTE again(1);
SELECT reasons();
EXECUTE again(1);
BEGIN READ ONLY;
EXECUTE upd(1);
ROLLBACK;
SELECT reasons();
CREATE FUNCTION scrolls(int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	c SCROLL CURSOR FOR SELECT v FROM t WHERE id = $1;
	r int;
BEGIN
	OPEN c;
	FETCH c INTO r;
	FETCH PRIOR FROM c INTO r;
	CLOSE c;
	RETURN r;
END $$;
SELECT scrolls(1);
SELECT reasons();
CREATE FUNCTION down(int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	r int;
BEGIN
	SELECT v INTO r FROM t WHERE id = $1 AND ($1 < 2 OR down($1 - 1) >= 0);
	RETURN r;
END $$;
SELECT down(1);
SELECT down(1);
SELECT down(3);
SELECT reasons();

-- each is said, too
SET client_min_messages = debug1;
EXPLAIN (COSTS OFF) SELECT bool_and(v > 5) FROM t WHERE id < 3;
EXECUTE again(1);
DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE EXECUTE again(1)'; END $$;
RESET client_min_messages;

-- a table of another access method is nothing to count
SELECT reasons() IS NOT NULL AS some;
SELECT count(*) FROM h;
PREPARE heap(int) AS SELECT id FROM h WHERE id = $1;
EXECUTE heap(1);
SELECT reasons();
-- nor is anything with the setting off
SET zen.executor = keyjoin, batch;
SELECT v FROM t WHERE id = 1;
EXECUTE again(1);
SELECT reasons();
RESET zen.executor;

-- the sum
SELECT point_fallbacks = (SELECT sum(count) FROM public.zen_stat_executor WHERE outcome = 'not used') AS sum
	FROM public.zen_stat;
-- the others are given by specs/point_vs_delete (own_row) and sql/point_outlives (changed)
SELECT reason FROM public.zen_stat_executor WHERE count = 0 AND reason NOT IN ('own_row', 'changed', 'returning');
DEALLOCATE ALL;
RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA point_fallbacks CASCADE;
