SET default_table_access_method = zen;
--
-- zentree: builds by several processes, in runs that are shorter than the table.
--
CREATE SCHEMA zentree_build;
SET search_path = zentree_build, public;
SET max_parallel_maintenance_workers = 3;
SET maintenance_work_mem = '1MB';
SET max_parallel_workers_per_gather = 0;
-- rows in an order that has little to do with any key; some are in DRAM only, some changed, some gone
CREATE TABLE t (id int, up bigint, down bigint, mixed bigint, few int, x text, u uuid, n numeric, d date, s smallint)
	WITH (parallel_workers = 3, autovacuum_enabled = off);
INSERT INTO t SELECT i, i, -i, (i * 7919::bigint) % 40009, i % 7, md5(i::text), md5((i * 3)::text)::uuid, i / 8.0,
	date '2000-01-01' + i % 5000, i % 100 FROM generate_series(1, 40000) i;
UPDATE t SET id = -id WHERE id % 10 = 0;
DELETE FROM t WHERE id % 13 = 0;
-- what a scan of the index in its order has that a sort of the table has not, and the other way round
CREATE FUNCTION build(unq text, cols text, ord text, more text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sorted text := format('SELECT md5(string_agg((%s)::text, '','')) FROM (SELECT * FROM t WHERE %%s ORDER BY %s) r',
		'ROW(' || cols || ', id)', ord || ', ctid');
	want text; got text; broken text;
BEGIN
	EXECUTE format('CREATE %s INDEX x ON t USING zentree (%s) %s', unq, ord, more);
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_indexonlyscan', 'off', true), set_config('enable_seqscan', 'on', true);
	EXECUTE format(sorted, coalesce(substring(more from 'WHERE (.*)'), 'true')) INTO want;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true);
	EXECUTE format(sorted, coalesce(substring(more from 'WHERE (.*)'), 'true')) INTO got;
	SELECT string_agg(v::text, ' ') INTO broken FROM zen_verify('t') v;
	DROP INDEX x;
	RETURN concat_ws(' ', cols, CASE WHEN want = got THEN 'as sorted' ELSE 'differs' END, broken);
END $$;
SELECT build('UNIQUE', 'up', 'up');
SELECT build('UNIQUE', 'down', 'down');
SELECT build('UNIQUE', 'mixed', 'mixed');
SELECT build('UNIQUE', 'mixed', 'mixed DESC');
SELECT build('', 'few', 'few');
SELECT build('UNIQUE', 'few, up', 'few DESC NULLS LAST, up');
SELECT build('UNIQUE', 'u', 'u');
SELECT build('UNIQUE', 'x', 'x COLLATE "C"');
SELECT build('UNIQUE', 'd, s, mixed', 'd, s DESC, mixed');
SELECT build('', 'few, x', 'few, x COLLATE "C"');
SELECT build('UNIQUE', 'n', 'n');
SELECT build('UNIQUE', 'up', 'up', 'WHERE few = 3');
-- slowly, so that all processes have a part in it
CREATE FUNCTION slow(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF $1 % 50 = 0 THEN PERFORM pg_sleep(0.001); END IF;
	RETURN $1;
END $$;
SELECT build('UNIQUE', 'up', 'slow(up)');
SELECT build('UNIQUE', 'mixed', 'slow(mixed)');
SELECT build('UNIQUE', 'mixed, x', 'slow(mixed), x COLLATE "C"');
-- the workers did come
\set VERBOSITY terse
CREATE FUNCTION here(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF pg_backend_pid() <> current_setting('zentree_build.leader')::int THEN
		RAISE EXCEPTION 'in a worker';
	END IF;
	PERFORM pg_sleep(0.0001);
	RETURN $1;
END $$;
SELECT set_config('zentree_build.leader', pg_backend_pid()::text, false) <> '' AS leader;
CREATE INDEX x ON t USING zentree (here(up));
ALTER FUNCTION here PARALLEL UNSAFE;
CREATE INDEX x ON t USING zentree (here(up)) WHERE few = 3 AND s = 3;
DROP INDEX x;
\set VERBOSITY default
SELECT * FROM zen_stat_indexes WHERE relid = 't'::regclass;
-- two rows with one key, near to each other and far apart, alone and of several columns
CREATE FUNCTION twice(column_ text, a int, b int, ord text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('UPDATE t SET %1$s = (SELECT %1$s FROM t WHERE up = %2$s) WHERE up = %3$s', column_, a, b);
	BEGIN
		EXECUTE format('CREATE UNIQUE INDEX x ON t USING zentree (%s)', ord);
		RAISE EXCEPTION 'taken' USING ERRCODE = 'ZT001';
	EXCEPTION WHEN unique_violation THEN
		RAISE EXCEPTION 'refused' USING ERRCODE = 'ZT001';
	END;
EXCEPTION WHEN SQLSTATE 'ZT001' THEN
	RETURN SQLERRM;
END $$;
SELECT ord, a, b, twice(column_, a, b, ord) FROM
	(VALUES ('mixed', 'mixed'), ('mixed', 'mixed DESC'), ('u', 'u'), ('x', 'x'), ('mixed', 's, mixed')) c(column_, ord),
	(VALUES (1, 2), (1, 39999), (20000, 30000), (12345, 12445)) r(a, b) ORDER BY 1, 2, 3;
CREATE TABLE pairs AS SELECT 1 + i * 601 AS a, 40000 - i * 599 AS b FROM generate_series(1, 20) i;
DELETE FROM pairs WHERE a NOT IN (SELECT up FROM t) OR b NOT IN (SELECT up FROM t);
SELECT twice('mixed', a, b, 'mixed'), count(*) FROM pairs GROUP BY 1;
-- nulls
UPDATE t SET mixed = NULL WHERE up IN (5, 39998);
CREATE UNIQUE INDEX x ON t USING zentree (mixed);
DROP INDEX x;
CREATE UNIQUE INDEX x ON t USING zentree (mixed) NULLS NOT DISTINCT;
ALTER TABLE t ADD PRIMARY KEY (mixed);
UPDATE t SET mixed = -up WHERE mixed IS NULL;
SET zen.default_index = zentree;
ALTER TABLE t ADD PRIMARY KEY (mixed);
-- while others have rows under way, and as a concurrent build
REINDEX INDEX t_pkey;
REINDEX INDEX CONCURRENTLY t_pkey;
CREATE INDEX CONCURRENTLY y ON t USING zentree (x);
REINDEX TABLE CONCURRENTLY t;
BEGIN;
INSERT INTO t (mixed, x) SELECT -i - 100000, i::text FROM generate_series(1, 20000) i;
CREATE INDEX z ON t USING zentree (few, x);
SAVEPOINT s;
DROP INDEX z;
CREATE INDEX z ON t USING zentree (x DESC);
ROLLBACK TO s;
SELECT * FROM zen_verify('t');
COMMIT;
SELECT * FROM zen_verify('t');
SELECT indexrelname, kind, reltuples > 50000 AS entries FROM zen_stat_indexes JOIN pg_class ON oid = indexrelid
	WHERE relid = 't'::regclass ORDER BY 1;
-- a table that is zen's no longer
CREATE VIEW methods AS SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.relname IN ('t', 't_pkey', 'y', 'z') AND c.relnamespace = 'zentree_build'::regnamespace ORDER BY 1;
CREATE FUNCTION found() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', (SELECT count(*) FROM t WHERE mixed < 0), (SELECT count(*) FROM t WHERE few = 3 AND x > 'a')) $$;
SET enable_seqscan = off;
SELECT found();
BEGIN;
ALTER TABLE t SET ACCESS METHOD heap;
SELECT found();
ROLLBACK;
SELECT * FROM methods;
SELECT found();
ALTER TABLE t SET ACCESS METHOD heap;
SELECT * FROM methods;
SELECT found();
INSERT INTO t (mixed) VALUES (-100001);
ALTER TABLE t SET ACCESS METHOD zen;
REINDEX TABLE t;
SELECT * FROM methods;
SELECT found();
SELECT * FROM zen_verify('t');
DROP SCHEMA zentree_build CASCADE;
