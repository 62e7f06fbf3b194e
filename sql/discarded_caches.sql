-- Every look at a catalog may take in an invalidation, which frees what the relation cache remembers.  Servers that
-- check assertions can let each do so; others run these statements as ever.
CREATE SCHEMA discarded_caches;
SET search_path = discarded_caches, public;
-- Needs the executor.
SET default_table_access_method = zen;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
SET max_parallel_maintenance_workers = 0;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- a collation that is looked up
CREATE COLLATION not_c (LOCALE = 'C.UTF-8');
CREATE TABLE p (id int PRIMARY KEY, name text);
CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v < 1000), w text COLLATE not_c, big text,
	ref int REFERENCES p ON DELETE CASCADE, twice int GENERATED ALWAYS AS (v * 2) STORED);
CREATE INDEX t_vw ON t USING zentree (v, w);
CREATE UNIQUE INDEX t_w ON t USING zentree (w) WHERE w <> '';
CREATE INDEX t_half ON t USING zentree ((v / 2) DESC);
CREATE INDEX t_v ON t (v);
CREATE INDEX t_ref ON t (ref);
-- from now on; 0 is all that servers without assertions allow
CREATE FUNCTION discard(x int DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	PERFORM set_config('debug_discard_caches', least(max_val::int, 1)::text, false)
		FROM pg_settings WHERE name = 'debug_discard_caches';
	RETURN x;
END $$;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER seen AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION seen();
CREATE TABLE parts (id int, v text) PARTITION BY LIST (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
\c -
SET search_path = discarded_caches, public;
SET default_table_access_method = zen;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET max_parallel_workers_per_gather = 0;
SET max_parallel_maintenance_workers = 0;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SELECT discard() IS NULL AS now;

-- rows come, by both kinds of index
INSERT INTO p VALUES (1, 'one'), (2, 'two');
INSERT INTO t VALUES (1, 10, 'a', repeat('x', 3000), 1), (2, 20, 'b', NULL, 1), (3, 30, 'c', 'y', 2);
INSERT INTO t VALUES (1, 11, 'z') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, v, twice;
INSERT INTO t VALUES (4, 40, 'b') ON CONFLICT (w) WHERE w <> '' DO NOTHING RETURNING id;
INSERT INTO t VALUES (4, 40, 'b');
COPY t (id, v, w) FROM stdin;
5	50	e
6	60	f
\.
-- and are found
SELECT id, w FROM t WHERE v BETWEEN 10 AND 30 AND w >= 'a' ORDER BY v DESC, w DESC;
SELECT id FROM t WHERE w = 'c' AND w <> '';
SELECT id FROM t WHERE v / 2 = 10;
SELECT v FROM t WHERE v = ANY ('{50,11,60}') AND w > 'a';
SELECT length(big) FROM t WHERE id = 1;
SELECT count(*), sum(v) FROM t;
PREPARE one(int) AS SELECT v, w FROM t WHERE id = $1;
EXECUTE one(2);
EXECUTE one(2);
EXECUTE one(3);
PREPARE list(int[]) AS SELECT id, v FROM t WHERE id = ANY ($1);
EXECUTE list('{3,1,3}');
EXECUTE list('{2,7}');
PREPARE upd(int, int) AS UPDATE t SET v = $2 WHERE id = $1 RETURNING twice;
EXECUTE upd(2, 21);
EXECUTE upd(2, 22);
PREPARE range(int) AS SELECT id FROM t WHERE v > $1 ORDER BY v LIMIT 2;
EXECUTE range(20);
EXECUTE range(25);
SELECT t.id, p.name FROM t JOIN p ON p.id = t.ref WHERE t.v > 0;
-- change and go
UPDATE t SET w = w || '!', big = repeat('z', 5000) WHERE v = 30;
BEGIN;
SELECT id FROM t WHERE id = 3 FOR UPDATE;
DELETE FROM t WHERE id = 5;
SAVEPOINT s;
UPDATE t SET v = 999;
ROLLBACK TO s;
DECLARE c CURSOR FOR SELECT id FROM t WHERE v > 0 ORDER BY v, w;
FETCH 2 FROM c;
DELETE FROM t WHERE CURRENT OF c;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM t WHERE v = 11 AND w = 'a';
UPDATE t SET v = 12 WHERE id = 1;
COMMIT;
MERGE INTO t USING (VALUES (1, 13), (7, 70)) n(id, v) ON t.id = n.id
	WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (n.id, n.v);
DELETE FROM p WHERE id = 2;
INSERT INTO parts VALUES (1, 'a'), (2, 'b');
UPDATE parts SET id = 3 - id WHERE v = 'a';
SELECT * FROM parts ORDER BY id, v;
-- definitions
CREATE TABLE made (id int PRIMARY KEY, v text COLLATE not_c);
SET zen.default_index = zentree;
CREATE TABLE tree (LIKE t INCLUDING ALL);
RESET zen.default_index;
CREATE INDEX made_v ON made USING zentree (v, id);
INSERT INTO made SELECT id, w FROM t WHERE id < 3;
INSERT INTO tree (id, v, w) SELECT id, v, w FROM t WHERE id < 3;
INSERT INTO tree (id, v) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, v, w;
ALTER TABLE made ADD COLUMN d int DEFAULT 7;
ALTER TABLE made ALTER d TYPE bigint;
SELECT * FROM made WHERE v >= 'a';
ALTER TABLE made SET (fillfactor = 80);
REINDEX TABLE made;
VACUUM ANALYZE made;
SELECT * FROM made WHERE v >= 'a';
BEGIN;
TRUNCATE made;
INSERT INTO made VALUES (9, 'i');
ROLLBACK;
CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t;
REFRESH MATERIALIZED VIEW m;
SELECT count(*) FROM m;
SELECT * FROM zen_verify('t');
SELECT * FROM zen_verify('made');
SELECT count(*) > 0 AS shown FROM zen_stat_tables WHERE relid = 't'::regclass;
DROP TABLE made, tree;

-- state that is kept ends with an invalidation; an execution under way goes on with it: the third one discards
RESET debug_discard_caches;
CREATE TABLE k (id int PRIMARY KEY, v int CHECK (v > 0), w text COLLATE not_c, ref int REFERENCES p,
	twice int GENERATED ALWAYS AS (v * 2) STORED);
CREATE INDEX k_vw ON k USING zentree (v, w);
CREATE TRIGGER seen AFTER INSERT OR UPDATE ON k FOR EACH ROW EXECUTE FUNCTION seen();
CREATE FUNCTION in_third(n int, x int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN
	IF n = 3 THEN PERFORM discard(); END IF;
	RETURN x;
END $$;
INSERT INTO k SELECT i, i, 'w' || i, 1 FROM generate_series(101, 110) i;
SELECT point_accesses AS accesses, point_kept_plans AS kept, key_joins AS joins FROM zen_stat \gset
\pset format unaligned
\pset tuples_only on
PREPARE k_insert(int) AS INSERT INTO k VALUES ($1, in_third($1, 10 + $1), 'w', 1) RETURNING *;
PREPARE k_update(int) AS UPDATE k SET v = in_third($1, v + 1) WHERE id = $1 RETURNING *;
PREPARE k_select(int) AS SELECT *, in_third($1, 5) FROM k WHERE id = $1;
PREPARE k_lock(int) AS SELECT * FROM k WHERE id = $1 AND in_third($1, v) > 0 FOR UPDATE;
PREPARE k_list(int) AS SELECT id, in_third($1, v) FROM k WHERE id = ANY (ARRAY[3, $1, 2, 7]);
PREPARE k_range(int) AS SELECT id, in_third($1, v) FROM k WHERE v > 100 ORDER BY v LIMIT 2;
PREPARE k_join(int) AS SELECT k.id, p.id, in_third($1, k.v) FROM k JOIN p ON p.id = k.ref WHERE k.v > 100 LIMIT 2;
PREPARE k_several(int) AS INSERT INTO k VALUES ($1, in_third($1, 30 + $1), 'u'), ($1 + 20, 20, 'u')
	ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *;
PREPARE k_change(int) AS UPDATE k SET w = 'c' || in_third($1, v) WHERE v BETWEEN 101 AND 102 RETURNING id, w;
PREPARE k_delete(int) AS DELETE FROM k WHERE id = $1 AND in_third($1, v) > 0 RETURNING *;
SELECT format('EXECUTE k_%s(%s)', name, i) || CASE i WHEN 3 THEN '; RESET debug_discard_caches' ELSE '' END
	FROM unnest('{insert,update,select,lock,list,range,join,several,change,delete}'::text[]) WITH ORDINALITY u(name, n),
	generate_series(1, 3) i ORDER BY n, i \gexec
\pset tuples_only off
SELECT point_accesses - :accesses >= 12 AS accesses, point_kept_plans - :kept >= 8 AS kept, key_joins - :joins >= 3 AS joins
	FROM zen_stat;
\pset format aligned
SELECT * FROM zen_verify('k');

SELECT id, v, w, twice, length(big), ref FROM t ORDER BY id;
SET client_min_messages = warning;
DROP SCHEMA discarded_caches CASCADE;
