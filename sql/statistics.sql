SET default_table_access_method = zen;
--
-- statistics: what pg_stat_user_tables and its relatives count for a zen table.
--
CREATE SCHEMA stat_test;
SET search_path = stat_test, public;

CREATE FUNCTION counts(t regclass) RETURNS TABLE (ins bigint, upd bigint, del bigint, seq bigint) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();
  RETURN QUERY SELECT n_tup_ins, n_tup_upd, n_tup_del, seq_scan FROM pg_stat_user_tables WHERE relid = t;
END $$;
CREATE TABLE t (id int PRIMARY KEY, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, g FROM generate_series(1, 100) g;
UPDATE t SET v = v + 1 WHERE id <= 50;
DELETE FROM t WHERE id > 90;
SELECT pg_stat_force_next_flush();
SELECT ins, upd, del FROM counts('t');
SELECT n_live_tup, n_mod_since_analyze, n_ins_since_vacuum FROM pg_stat_user_tables WHERE relid = 't'::regclass;
-- undone work counts as done
BEGIN;
INSERT INTO t SELECT g, g FROM generate_series(201, 210) g;
SAVEPOINT a;
DELETE FROM t WHERE id <= 5;
ROLLBACK TO a;
UPDATE t SET v = 0 WHERE id = 10;
ROLLBACK;
SELECT pg_stat_force_next_flush();
SELECT ins, upd, del FROM counts('t');
SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
-- COPY, ON CONFLICT, MERGE
COPY t FROM stdin;
301	1
302	1
303	1
\.
INSERT INTO t VALUES (301, 5), (304, 5) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO t VALUES (301, 5), (305, 5) ON CONFLICT DO NOTHING;
MERGE INTO t USING (VALUES (302), (303), (306)) s(i) ON id = i WHEN MATCHED
	AND i = 302 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 9 WHEN NOT MATCHED THEN INSERT VALUES (i, 9);
SELECT pg_stat_force_next_flush();
SELECT ins, upd, del FROM counts('t');
SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
-- scans
SELECT seq AS before FROM counts('t') \gset
SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT count(*) FROM t;
SELECT count(*) FROM t WHERE id = 1;
RESET enable_indexscan; RESET enable_bitmapscan;
SELECT pg_stat_force_next_flush();
SELECT seq - :before AS seq_scans FROM counts('t');
SELECT idx_scan AS before, idx_tup_fetch AS fetched FROM pg_stat_user_tables WHERE relid = 't'::regclass \gset
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(v) FROM t WHERE id BETWEEN 11 AND 20;
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_clear_snapshot();
SELECT idx_scan - :before AS idx_scans, idx_tup_fetch - :fetched AS fetched FROM pg_stat_user_tables
	WHERE relid = 't'::regclass;
SELECT idx_scan > 0 AS used FROM pg_stat_user_indexes WHERE indexrelid = 't_pkey'::regclass;
-- VACUUM and ANALYZE
VACUUM t;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_clear_snapshot();
SELECT n_live_tup, n_dead_tup, n_ins_since_vacuum, last_vacuum IS NOT NULL AS vacuumed, vacuum_count
	FROM pg_stat_user_tables WHERE relid = 't'::regclass;
ANALYZE t;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_clear_snapshot();
SELECT n_live_tup, n_mod_since_analyze, last_analyze IS NOT NULL AS analyzed, analyze_count FROM pg_stat_user_tables
	WHERE relid = 't'::regclass;
-- in the transaction
BEGIN;
INSERT INTO t SELECT g, 0 FROM generate_series(401, 407) g;
UPDATE t SET v = 1 WHERE id IN (401, 402);
DELETE FROM t WHERE id = 403;
SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables WHERE relid = 't'::regclass;
COMMIT;
-- TRUNCATE and DROP
TRUNCATE t;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_clear_snapshot();
SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
BEGIN;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 20) g;
TRUNCATE t;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 7) g;
COMMIT;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_clear_snapshot();
SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
SELECT pg_stat_get_live_tuples('t'::regclass), pg_stat_get_tuples_inserted('t'::regclass) > 100 AS ins;

-- a new index on an empty table has its meta page and no entries, as in heap
CREATE TABLE empty_zen (a int) USING zen;
CREATE TABLE empty_heap (a int) USING heap;
CREATE INDEX empty_zen_i ON empty_zen (a);
CREATE INDEX empty_heap_i ON empty_heap (a);
SELECT relname, relpages, reltuples FROM pg_class WHERE relname LIKE 'empty\_%' ORDER BY relname;

-- indexes: rows that are named by keys count as scans, wherever they were found
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_memoize = off;
CREATE TABLE keyed (id int PRIMARY KEY, v int) WITH (autovacuum_enabled = off);
CREATE TABLE keyed_heap (id int PRIMARY KEY, v int) USING heap WITH (autovacuum_enabled = off);
INSERT INTO keyed SELECT g, g FROM generate_series(1, 100) g;
INSERT INTO keyed_heap SELECT g, g FROM generate_series(1, 100) g;
VACUUM ANALYZE keyed, keyed_heap;
CREATE FUNCTION index_counts(t regclass) RETURNS TABLE (what text, scans bigint, read bigint, fetched bigint,
	of_table bigint, fetched_of_table bigint) LANGUAGE sql AS $$
	SELECT CASE t::text WHEN 'keyed' THEN 'zen' ELSE 'heap' END, i.idx_scan, i.idx_tup_read, i.idx_tup_fetch,
		u.idx_scan, u.idx_tup_fetch FROM pg_stat_user_indexes i JOIN pg_stat_user_tables u USING (relid)
		WHERE relid = t $$;
CREATE FUNCTION by_key(what text, t regclass, command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE FUNCTION %I_%I() RETURNS void LANGUAGE plpgsql AS ''BEGIN FOR i IN 1 .. 100 LOOP %s; END LOOP; END''',
    what, t, format(command, t));
END $$;
SELECT by_key('read', t, 'PERFORM v FROM %s WHERE id = i'), by_key('missed', t, 'PERFORM v FROM %s WHERE id = -i'),
	by_key('locked', t, 'PERFORM v FROM %s WHERE id = i FOR UPDATE'),
	by_key('changed', t, 'UPDATE %s SET v = v + 1 WHERE id = i'),
	by_key('joined', t, 'PERFORM v FROM (VALUES (i), (101 - i)) n(id) JOIN %s t USING (id)'),
	by_key('deleted', t, 'DELETE FROM %s WHERE id = i AND i > 50')
	FROM unnest('{keyed, keyed_heap}'::regclass[]) t;
SELECT read_keyed(), read_keyed(), read_keyed_heap(), read_keyed_heap();
SELECT pg_stat_force_next_flush();
SELECT * FROM index_counts('keyed') UNION ALL SELECT * FROM index_counts('keyed_heap');
SELECT missed_keyed(), locked_keyed(), missed_keyed_heap(), locked_keyed_heap();
SELECT pg_stat_force_next_flush();
SELECT * FROM index_counts('keyed') UNION ALL SELECT * FROM index_counts('keyed_heap');
SELECT joined_keyed(), joined_keyed(), joined_keyed_heap(), joined_keyed_heap();
SELECT pg_stat_force_next_flush();
SELECT * FROM index_counts('keyed') UNION ALL SELECT * FROM index_counts('keyed_heap');
SELECT changed_keyed(), deleted_keyed(), changed_keyed_heap(), deleted_keyed_heap();
SELECT pg_stat_force_next_flush();
SELECT * FROM index_counts('keyed') UNION ALL SELECT * FROM index_counts('keyed_heap');
-- a list of keys: one scan for each; PostgreSQL 17 takes less for keys that follow each other, before the plan is kept
SELECT scans AS before, read AS before_read FROM index_counts('keyed') \gset
DO $$ BEGIN FOR i IN 1 .. 10 LOOP PERFORM v FROM keyed WHERE id = ANY (ARRAY[i, i + 1, i + 2]); END LOOP; END $$;
SELECT pg_stat_force_next_flush();
SELECT scans - :before BETWEEN 28 AND 30 AS scans, read - :before_read AS read FROM index_counts('keyed');
-- track_functions, set while the plan is kept
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 2 * n; END';
PREPARE calls(int) AS SELECT twice(v) FROM keyed WHERE id = $1;
EXECUTE calls(1);
EXECUTE calls(1);
EXECUTE calls(1);
SET track_functions = pl;
EXECUTE calls(1);
EXECUTE calls(1);
SELECT pg_stat_force_next_flush();
SELECT calls FROM pg_stat_user_functions WHERE funcid = 'twice'::regproc;
SET track_functions = none;
EXECUTE calls(1);
SELECT pg_stat_force_next_flush();
SELECT calls FROM pg_stat_user_functions WHERE funcid = 'twice'::regproc;
RESET track_functions;
-- track_counts, set while the plan is kept
SELECT scans AS before FROM index_counts('keyed') \gset
SET track_counts = off;
SELECT read_keyed();
SET track_counts = on;
SELECT pg_stat_force_next_flush();
SELECT scans - :before AS not_counted FROM index_counts('keyed');
SELECT read_keyed();
SELECT pg_stat_force_next_flush();
SELECT scans - :before AS counted FROM index_counts('keyed');
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA stat_test CASCADE;
