-- Settings: the list zen.executor, and names that are gone.
-- Needs the executor.
CREATE SCHEMA settings;
SET search_path = settings;
\set VERBOSITY default
CREATE TABLE t (id int PRIMARY KEY, v int) USING zen;
CREATE TABLE o (id int, t int) USING zen;
INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g;
INSERT INTO o SELECT g, g FROM generate_series(1, 10) g;
VACUUM ANALYZE t, o;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;

-- zen's nodes that plans have now
CREATE FUNCTION nodes() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	plan text;
	found text = '';
BEGIN
	FOREACH query IN ARRAY ARRAY['SELECT v FROM t WHERE id = 1', 'SELECT v FROM o JOIN t ON t.id = o.t',
		'SELECT count(*) FROM t']
	LOOP
		EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
		found = concat_ws(' ', found, substring(plan FROM '"Zen(PointAccess|KeyJoin|BatchAggregate)"'));
	END LOOP;
	RETURN found;
END $$;
SHOW zen.executor;
SELECT nodes();
SET zen.executor = batch;
SELECT nodes();
SET zen.executor = 'Point,keyjoin';
SELECT nodes();
SET zen.executor = '';
SELECT nodes();
SET zen.executor = none;
SELECT nodes();
SET zen.executor TO keyjoin, batch;
SHOW zen.executor;
SELECT nodes();

-- back to what it was, at the end of a transaction, a savepoint, a function
BEGIN;
SET LOCAL zen.executor = none;
SAVEPOINT a;
SET LOCAL zen.executor = point;
SELECT nodes();
ROLLBACK TO a;
SELECT nodes();
COMMIT;
SELECT nodes();
ALTER FUNCTION nodes() SET zen.executor = point, batch;
SELECT nodes();
SELECT proconfig FROM pg_proc WHERE oid = 'nodes'::regproc;
ALTER FUNCTION nodes() RESET zen.executor;
SELECT nodes();
RESET zen.executor;
SELECT nodes();

-- a parallel worker has it, too
CREATE FUNCTION executor() RETURNS text LANGUAGE sql PARALLEL SAFE AS $$ SELECT current_setting('zen.executor') $$;
SET zen.executor = none;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
ALTER TABLE t SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE executor() = 'none';
SELECT count(*) FROM t WHERE executor() = 'none';
RESET ALL;
SET search_path = settings;

-- per role
CREATE ROLE regress_settings;
ALTER ROLE regress_settings SET zen.executor = point, batch;
SELECT rolconfig FROM pg_roles WHERE rolname = 'regress_settings';
ALTER ROLE regress_settings SET zen.executor = point, join;
DROP ROLE regress_settings;

-- YAML makes False of an off without quotes
SET client_min_messages = error;
ALTER SYSTEM SET zen.stream = False;
ALTER SYSTEM SET zen.stream = no;
ALTER SYSTEM SET zen.numa = 0;
ALTER SYSTEM SET zen.stream = 1;
ALTER SYSTEM RESET zen.stream;
ALTER SYSTEM RESET zen.numa;
RESET client_min_messages;

-- no such words
SET zen.executor = keyjoins;
SET zen.executor = 'point, none';
SHOW zen.executor;

-- names that are gone
SET zen.point_access = off;
SET LOCAL zen.pool_warning = 90;
ALTER SYSTEM SET zen.exclusive_alpha = 0.5;
SELECT set_config('zen.gc_batch', '100', false);
CREATE FUNCTION one() RETURNS int LANGUAGE sql SET zen.key_join = off AS 'SELECT 1';
SHOW zen.garbage_warning;
SELECT count(*) FROM pg_settings WHERE name IN ('zen.point_access', 'zen.garbage_warning', 'zen.max_statements');
DROP SCHEMA settings CASCADE;
