SET default_table_access_method = zen;
--
-- zentree: the index access method.  Answers are those of a btree on the same columns, whatever the type, the order and
-- the condition; and what it refuses.
--
CREATE SCHEMA zentree;
SET search_path = zentree, public;
SELECT amname, amtype, obj_description(oid, 'pg_am') FROM pg_am WHERE amname = 'zentree';
-- every operator class of btree has its twin, and calling it again finds nothing to do
SELECT count(*) FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod AND a.amname = 'btree'
  WHERE NOT EXISTS (SELECT FROM pg_opclass t JOIN pg_am m ON m.oid = t.opcmethod AND m.amname = 'zentree'
	WHERE t.opcname = c.opcname AND t.opcnamespace = c.opcnamespace AND t.opcintype = c.opcintype
	AND t.opcdefault = c.opcdefault);
SELECT count(*) FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'zentree'
  WHERE NOT amvalidate(c.oid);
SELECT zen_copy_operator_classes();

-- both ways through both access methods: the function tells where they differ
CREATE TABLE t (id int, i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, n numeric, x text, c char(6), v varchar, b bytea,
	nm name, ts timestamp, d date, bo bool, u uuid, o oid, a int[], iv interval, "ch" "char");
INSERT INTO t SELECT i, nullif(i % 7, 3), nullif((i * 37) % 101, 50) - 40, (i * 7919) % 1000 * 10000000000 - 5000000000000,
	CASE i % 50 WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' WHEN 3 THEN '-0' WHEN 4 THEN '0' ELSE i % 13 - 6.5 END::real,
	CASE i % 60 WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' ELSE sin(i) END, nullif((i * 31) % 97, 7) / 10.0,
	CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE repeat(chr(97 + i % 26), i % 40) || i % 5 END,
	left(md5((i % 30)::text), i % 6), 'v' || i % 11, decode(md5((i % 40)::text), 'hex'), 'n' || i % 20,
	timestamp '2000-01-01' + (i % 300 - 150) * interval '7 days', date '2000-01-01' + (i * 13) % 500 - 250, i % 3 = 0,
	md5((i % 80)::text)::uuid, (i % 90) * 40000000::bigint, ARRAY[i % 5, i % 7], (i % 25) * interval '1 hour',
	chr(33 + i % 90)::"char" FROM generate_series(1, 600) i;
CREATE FUNCTION differs(cols text, cond text, ord text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE expected text; got text; bound text; plan text; method text;
BEGIN
	FOR method IN SELECT unnest('{indexscan,indexonlyscan,bitmapscan}'::text[]) LOOP
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		EXECUTE format('SELECT string_agg(r, ''|'') FROM (SELECT (%s)::text AS r FROM (SELECT * FROM t WHERE %s '
			'ORDER BY %s) x) y', 'ROW(' || cols || ')', cond, ord) INTO expected;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_' || method, 'on', true);
		IF method = 'indexonlyscan' THEN
			EXECUTE format('SELECT string_agg(r, ''|'') FROM (SELECT (%s)::text AS r FROM (SELECT %s FROM t WHERE %s '
				'ORDER BY %s) x) y', 'ROW(' || cols || ')', cols, cond, ord) INTO got;
		ELSE
			EXECUTE format('SELECT string_agg(r, ''|'') FROM (SELECT (%s)::text AS r FROM (SELECT * FROM t WHERE %s '
				'ORDER BY %s) x) y', 'ROW(' || cols || ')', cond, ord) INTO got;
		END IF;
		IF expected IS DISTINCT FROM got THEN
			RETURN format('%s: %s instead of %s', method, left(got, 200), left(expected, 200));
		END IF;
	END LOOP;
	RETURN NULL;
END $$;
CREATE FUNCTION compare(cols text, conds text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE options text[] := '{"", DESC, NULLS FIRST, DESC NULLS LAST}'; opt text; c text; dir text; ord text; diff text;
	col text;
BEGIN
	FOREACH opt IN ARRAY options LOOP
		EXECUTE 'CREATE INDEX x ON t USING zentree (' ||
			(SELECT string_agg(s || ' ' || opt, ', ') FROM unnest(string_to_array(cols, ', ')) s) || ')';
		FOREACH c IN ARRAY conds || '{true}'::text[] LOOP
			FOREACH dir IN ARRAY '{"", DESC}'::text[] LOOP
				ord := (SELECT string_agg(s || ' ' || CASE
					WHEN dir = '' THEN opt
					WHEN opt = '' THEN 'DESC' WHEN opt = 'DESC' THEN '' WHEN opt = 'NULLS FIRST' THEN 'DESC NULLS LAST'
					ELSE 'NULLS FIRST' END, ', ') FROM unnest(string_to_array(cols, ', ')) s);
				diff := differs(cols, c, ord);
				IF diff IS NOT NULL THEN RETURN NEXT format('%s %s, %s, %s: %s', cols, opt, c, ord, diff); END IF;
			END LOOP;
		END LOOP;
		DROP INDEX x;
	END LOOP;
END $$;
SELECT compare('i2', ARRAY['i2 = 4', 'i2 < 3', 'i2 <= 3', 'i2 > 3', 'i2 >= 3', 'i2 BETWEEN 2 AND 5', 'i2 IS NULL',
	'i2 IS NOT NULL', 'i2 = 100000', 'i2 > 100000', 'i2 < 100000', 'i2 < (-100000)::bigint', 'i2 = 4::bigint',
	'i2 = ANY (''{1,5,4,1,NULL}'')', 'i2 = ANY (''{}'')', 'i2 > 1 AND i2 < 4 AND i2 <> 2', 'i2 = 4 AND i2 = 5',
	'i2 = NULL', 'i2 < ANY (''{2,4}'')', 'i2 > ANY (''{2,4}'')', 'i2 = ANY (''{1,5,100000}''::int[])']);
SELECT compare('i4', ARRAY['i4 = 4', 'i4 < -30', 'i4 >= 30::bigint', 'i4 IS NULL', 'i4 IS NOT NULL', 'i4 = ANY (''{1,-5,4}'')',
	'i4 < 2147483648', 'i4 > 2147483648', 'i4 > -2147483649', 'i4 = ANY (''{1,-5,4}'') AND i4 > 0']);
SELECT compare('i8', ARRAY['i8 = 0', 'i8 < -3000000000000', 'i8 >= 30', 'i8 = ANY (''{0,10000000000}'')', 'i8 > 5::smallint']);
SELECT compare('f4', ARRAY['f4 = 0', 'f4 < 0', 'f4 > 0', 'f4 = ''NaN''', 'f4 >= 3::float8', 'f4 < ''NaN''']);
SELECT compare('f8', ARRAY['f8 < 0', 'f8 > 0.5::real', 'f8 = ''NaN''', 'f8 >= ''Infinity''']);
SELECT compare('n', ARRAY['n = 1.5', 'n < 3', 'n >= 3', 'n IS NULL', 'n IN (1.2, 3.4, 5)']);
SELECT compare('x', ARRAY['x = ''bbb1''', 'x < ''d''', 'x >= ''m''', 'x IS NULL', 'x = ''''', 'x > ''''', 'x LIKE ''cc%''',
	'x IN ('''', ''bbb1'', ''zz'')']);
SELECT compare('x COLLATE "POSIX"', ARRAY['x COLLATE "POSIX" < ''d''']);
SELECT compare('c', ARRAY['c = ''c''', 'c < ''8''', 'c >= ''8   ''', 'c = ''''']);
SELECT compare('v', ARRAY['v = ''v3''', 'v < ''v3''', 'v > ''v3''']);
SELECT compare('b', ARRAY['b < ''\x80''', 'b >= ''\x80'' AND b < ''\xc0''', 'b = ''\x''']);
SELECT compare('nm', ARRAY['nm = ''n3''', 'nm < ''n15''', 'nm >= ''n15''::text']);
SELECT compare('ts', ARRAY['ts < ''2000-01-01''', 'ts > ''2000-01-01''::date', 'ts = ''2000-01-08''']);
SELECT compare('d', ARRAY['d < ''2000-01-01''', 'd > ''2000-01-01''::timestamp', 'd = ''2000-01-08''',
	'd <= ''2000-02-01''::timestamptz']);
SELECT compare('bo', ARRAY['bo', 'NOT bo', 'bo = true']);
SELECT compare('u', ARRAY['u < ''80000000-0000-0000-0000-000000000000''', 'u > ''80000000-0000-0000-0000-000000000000''']);
SELECT compare('o', ARRAY['o < 2000000000', 'o > 3000000000', 'o = 40000000']);
SELECT compare('a', ARRAY['a = ''{1,2}''', 'a < ''{2}''', 'a > ''{2,5}''']);
SELECT compare('iv', ARRAY['iv = ''1 hour''', 'iv < ''5 hours''']);
SELECT compare('ch', ARRAY['ch = ''a''', 'ch < ''Z''']);
-- several columns: two words, tuples
SELECT compare('i2, i4', ARRAY['i2 = 4', 'i2 = 4 AND i4 > 0', 'i2 > 4 AND i4 > 0', 'i2 IS NULL AND i4 > 0', 'i4 = 3',
	'i2 IN (1, 5, 2) AND i4 > 20', 'i2 IN (1, 5, 2) AND i4 IN (1, 2, 3, 4, 5)', 'i2 > 1 AND i4 IN (1, 2, 3, 4, 5)',
	'i2 = 4 AND i4 IS NULL', 'i2 = 4 AND i4 IS NOT NULL', 'i2 IS NOT NULL', 'i2 < 3 AND i4 < 0', '(i2, i4) > (3, 10)',
	'i2 >= 4 AND i4 >= 0', 'i2 <= 4 AND i4 <= 0', 'i2 >= 2 AND i4 = 5', 'i4 BETWEEN 10 AND 12', 'i4 > 10 AND i4 < 12',
	'i2 BETWEEN 2 AND 4 AND i4 BETWEEN 10 AND 12', 'i4 IS NULL', 'i2 >= 2 AND i4 IS NULL', 'i2 IS NULL AND i4 IS NULL',
	'i4 = 100000000000', 'i4 < 100000000000', 'i2 > 3 AND i4 = 7::smallint AND i4 > -100000000000']);
SELECT compare('i4, x', ARRAY['i4 = 4', 'i4 = 4 AND x > ''c''', 'i4 > 4 AND x > ''m''', 'i4 IN (1, 2) AND x IS NULL',
	'x = ''bbb1''', 'i4 >= 4 AND x >= ''m''', 'i4 <= 4 AND x <= ''c''']);
SELECT compare('bo, x, i4', ARRAY['x = ''bbb1''', 'x < ''b''', 'x > ''x''', 'x IS NULL', 'bo AND i4 = 3', 'x >= ''m'' AND i4 = 7']);
SELECT compare('i2, bo, x, n', ARRAY['i2 = 1 AND bo', 'i2 = 1 AND bo AND x < ''f''', 'i2 = 1 AND NOT bo AND x = ''bbb1'' AND n > 3']);
SELECT compare('x, i4', ARRAY['x = ''bbb1'' AND i4 > 0', 'x > ''m'' AND i4 < 0']);
SELECT compare('n, f8', ARRAY['n = 1.5 AND f8 > 0', 'n > 5 AND f8 < 0']);
SELECT compare('i2, i4, i8', ARRAY['i2 = 1 AND i4 = 3', 'i2 = 1 AND i4 > 3 AND i8 > 0',
	'i4 = 3 AND i8 > 0', 'i2 >= 1 AND i4 >= 3 AND i8 >= 0', 'i2 = 1 AND i8 = 0', 'i2 IN (1, 5) AND i8 < 0']);
SELECT compare('i4, i2, bo, d', ARRAY['i4 = 1', 'i4 = 1 AND i2 = 3 AND bo AND d > ''2000-01-01''']);

-- cursors go both ways, and turn round
CREATE INDEX t_cursor ON t USING zentree (i4, id);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
BEGIN;
DECLARE cur SCROLL CURSOR FOR SELECT i4, id FROM t WHERE i4 BETWEEN 5 AND 20 ORDER BY i4, id;
FETCH 3 FROM cur;
FETCH BACKWARD 2 FROM cur;
FETCH BACKWARD 3 FROM cur;
FETCH 2 FROM cur;
MOVE 60 IN cur;
FETCH 2 FROM cur;
FETCH BACKWARD 2 FROM cur;
FETCH ALL FROM cur;
FETCH BACKWARD 1 FROM cur;
FETCH LAST FROM cur;
FETCH FIRST FROM cur;
DECLARE c2 SCROLL CURSOR FOR SELECT i4, id FROM t WHERE i4 IN (3, 9, 7) ORDER BY i4, id;
FETCH 8 FROM c2;
FETCH BACKWARD 8 FROM c2;
COMMIT;
-- mark and restore
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t a JOIN t b ON a.i4 = b.i4;
SELECT count(*), sum(a.id * b.id) FROM t a JOIN t b ON a.i4 = b.i4;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
SET enable_mergejoin = off;
SET enable_indexscan = off;
SELECT count(*), sum(a.id * b.id) FROM t a JOIN t b ON a.i4 = b.i4;
RESET ALL;
SET search_path = zentree, public;
SET default_table_access_method = zen;

-- unique: at once, deferred, on conflict, nulls
SET zen.default_index = zentree;
CREATE TABLE k (a int PRIMARY KEY, b text UNIQUE, c int UNIQUE DEFERRABLE INITIALLY DEFERRED);
\d k
INSERT INTO k SELECT i, 'b' || i, i FROM generate_series(1, 500) i;
INSERT INTO k VALUES (7, 'new', 1000);
INSERT INTO k VALUES (1000, 'b7', 1000);
INSERT INTO k VALUES (1000, NULL, NULL), (1001, NULL, NULL);
UPDATE k SET c = c + 1;
INSERT INTO k VALUES (1002, 'x', 5);
BEGIN;
INSERT INTO k VALUES (1002, 'x', 5);
DELETE FROM k WHERE a = 4;
COMMIT;
INSERT INTO k VALUES (7, 'q', 2000) ON CONFLICT DO NOTHING;
INSERT INTO k VALUES (7, 'q', 2000), (3000, 'b8', 1) ON CONFLICT DO NOTHING RETURNING a;
INSERT INTO k VALUES (7, 'q', 2000) ON CONFLICT (a) DO UPDATE SET b = 'seven' RETURNING *;
INSERT INTO k VALUES (7, 'seven', 2000) ON CONFLICT ON CONSTRAINT k_b_key DO UPDATE SET b = k.b || '!' RETURNING *;
WITH w AS (INSERT INTO k VALUES (7, 'w', 1) ON CONFLICT (a) DO UPDATE SET b = 'with' RETURNING *) SELECT * FROM w;
BEGIN;
DELETE FROM k WHERE a = 7;
INSERT INTO k VALUES (7, 'again', 7001);
ROLLBACK;
SELECT * FROM k WHERE a = 7;
DELETE FROM k WHERE a BETWEEN 100 AND 400;
INSERT INTO k SELECT i, 'again' || i, i + 5000 FROM generate_series(100, 400) i;
SELECT count(*) FROM k;
VACUUM k;
SELECT count(*), (SELECT count(*) FROM zen_verify('k')) AS findings FROM k;
CREATE TABLE nn (a int, b text);
CREATE UNIQUE INDEX ON nn USING zentree (a, b) NULLS NOT DISTINCT;
INSERT INTO nn VALUES (1, NULL);
INSERT INTO nn VALUES (1, NULL);
INSERT INTO nn VALUES (2, NULL);
INSERT INTO nn VALUES (2, NULL) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO nn VALUES (2, NULL) ON CONFLICT (a, b) DO UPDATE SET b = 'not null' RETURNING *;
-- a build finds what is not unique
INSERT INTO k VALUES (5000, 'dup', 1), (5001, 'dup2', 1);
CREATE TABLE dup (a int, b text);
INSERT INTO dup SELECT i % 99, 'x' || i % 99 FROM generate_series(1, 100) i;
CREATE UNIQUE INDEX ON dup USING zentree (a);
CREATE UNIQUE INDEX ON dup USING zentree (b, a);
CREATE UNIQUE INDEX CONCURRENTLY dup_i ON dup USING zentree (b);
\d dup
DROP INDEX dup_i;

-- foreign keys, exclusion, partial, expressions, INCLUDE, options
CREATE TABLE ref (k int REFERENCES k);
INSERT INTO ref VALUES (8);
INSERT INTO ref VALUES (88888);
DELETE FROM k WHERE a = 8;
CREATE TABLE ex (a int, EXCLUDE USING zentree (a WITH =));
INSERT INTO ex VALUES (1);
INSERT INTO ex VALUES (1);
CREATE INDEX k_part ON k USING zentree (b) WHERE a > 450;
CREATE INDEX k_expr ON k USING zentree (lower(b), (a % 10)) INCLUDE (c) WITH (fillfactor = 70);
ANALYZE k;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT b FROM k WHERE a > 450 AND b > 'b49';
SELECT b FROM k WHERE a > 450 AND b > 'b49' AND b < 'c';
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT b FROM k WHERE a > 450 AND b > 'b49';
SELECT b FROM k WHERE a > 450 AND b > 'b49' AND b < 'c';
RESET enable_indexonlyscan;
EXPLAIN (COSTS OFF) SELECT a FROM k WHERE lower(b) = 'b50' AND a % 10 = 0;
SELECT a FROM k WHERE lower(b) = 'b50' AND a % 10 = 0;
SELECT min(a), max(a) FROM k;
RESET enable_seqscan;
-- proofs of uniqueness see the index
EXPLAIN (COSTS OFF) SELECT ref.k FROM ref LEFT JOIN k ON k.a = ref.k;

-- life: rollback, TRUNCATE, REINDEX, CONCURRENTLY, rewrites, other names
SELECT count(*) AS trees FROM zen_stat_indexes \gset before_
BEGIN;
CREATE INDEX gone ON k USING zentree (c);
SELECT count(*) - :before_trees FROM zen_stat_indexes;
SAVEPOINT s;
CREATE INDEX gone2 ON k USING zentree (c);
SELECT count(*) - :before_trees FROM zen_stat_indexes;
ROLLBACK TO s;
SELECT count(*) - :before_trees FROM zen_stat_indexes;
REINDEX INDEX k_b_key;
TRUNCATE k, ref;
INSERT INTO k VALUES (1, 'b7', 1);
ROLLBACK;
SELECT count(*) - :before_trees FROM zen_stat_indexes;
SELECT a FROM k WHERE b = 'b9';
REINDEX TABLE k;
REINDEX TABLE CONCURRENTLY k;
CREATE INDEX CONCURRENTLY k_c ON k USING zentree (c DESC NULLS LAST);
VACUUM FULL k;
CLUSTER k USING k_expr;
ALTER TABLE k ALTER b TYPE varchar, ALTER c TYPE bigint;
SELECT count(*) FROM k WHERE c > 0;
SELECT a FROM k WHERE b = 'b9';
\d k
SELECT count(*) FROM zen_verify('k');
-- a type that needs no other file: the constraint's index takes the tree over
CREATE TABLE ty (a varchar(10) PRIMARY KEY, b int UNIQUE);
INSERT INTO ty SELECT i, i FROM generate_series(1, 300) i;
BEGIN;
ALTER TABLE ty ALTER a TYPE varchar(20), ALTER b TYPE int;
INSERT INTO ty VALUES ('301', 301);
INSERT INTO ty VALUES ('301', 302) ON CONFLICT DO NOTHING RETURNING a;
COMMIT;
INSERT INTO ty VALUES ('7', 500);
INSERT INTO ty VALUES ('777', 7);
\d ty
SELECT count(*), (SELECT count(*) FROM zen_verify('ty')) AS findings FROM ty;
BEGIN;
ALTER TABLE ty ALTER a TYPE varchar(30);
ROLLBACK;
SELECT count(*), (SELECT count(*) FROM zen_verify('ty')) AS findings FROM ty;
DROP TABLE ty;
TRUNCATE k CASCADE;
SELECT count(*) FROM k WHERE a > 0;
INSERT INTO k VALUES (1, 'one', 1);
INSERT INTO k VALUES (1, 'one', 1);
CREATE TABLE copied (LIKE k INCLUDING ALL);
\d copied
CREATE TABLE heap_copied (LIKE k INCLUDING INDEXES) USING heap;
\d heap_copied
DROP TABLE k CASCADE;
DROP TABLE copied;
-- partitions
CREATE TABLE pt (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
CREATE INDEX ON pt USING zentree (b text_pattern_ops, a);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20);
INSERT INTO pt SELECT i, 'x' || i FROM generate_series(0, 19) i;
SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'zentree' AND tablename LIKE 'pt%' ORDER BY 1;
SET enable_seqscan = off;
SELECT a FROM pt WHERE b LIKE 'x1%' ORDER BY a LIMIT 3;
RESET enable_seqscan;

-- a table with trees becomes a partition: they become btrees
CREATE TABLE whole (a int PRIMARY KEY, b text, UNIQUE (a, b)) PARTITION BY RANGE (a);
CREATE TABLE part (a int PRIMARY KEY, b text, c text, UNIQUE (a, b));
ALTER TABLE part DROP COLUMN c;
CREATE INDEX part_b ON part USING zentree (b);
CREATE UNIQUE INDEX part_more ON part USING zentree (b, a);
INSERT INTO part SELECT i, 'part' || i FROM generate_series(1, 1000) i;
BEGIN;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10000);
INSERT INTO whole VALUES (5000, 'later');
ROLLBACK;
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
  WHERE i.indrelid = 'part'::regclass ORDER BY 1;
SELECT a, b FROM part WHERE a = 77;
INSERT INTO part VALUES (77, 'again');
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (100);
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10000);
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
  WHERE i.indrelid = 'part'::regclass ORDER BY 1;
SELECT indexrelname FROM zen_stat_indexes WHERE indexrelname LIKE 'part%';
INSERT INTO whole VALUES (77, 'part77') ON CONFLICT (a) DO UPDATE SET b = 'again' RETURNING *;
INSERT INTO whole VALUES (78, 'again');
SELECT a, b FROM part WHERE a = 77;
SELECT count(*) FROM zen_verify('part');
DO $$ BEGIN
	CREATE UNIQUE INDEX ON part USING zentree (a);
	ASSERT current_setting('server_version_num')::int >= 180000, 'not refused';
EXCEPTION WHEN feature_not_supported THEN
	ASSERT current_setting('server_version_num')::int < 180000, SQLERRM;
END $$;
ALTER TABLE whole DETACH PARTITION part;
INSERT INTO part VALUES (10001, 'detached');
SELECT a, b FROM part WHERE a > 10000;
DROP TABLE whole, part;
-- in the transaction that makes it, and around savepoints
BEGIN;
CREATE TABLE whole (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
CREATE TABLE part (a int PRIMARY KEY, b text);
INSERT INTO part VALUES (1, 'one');
SAVEPOINT s;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10);
ROLLBACK TO s;
RELEASE s;
SELECT b FROM part WHERE a = 1;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10);
INSERT INTO whole VALUES (2, 'two');
SELECT b FROM part WHERE a = 1;
COMMIT;
INSERT INTO whole VALUES (2, 'two');
ALTER TABLE whole DETACH PARTITION part;
DROP TABLE part;
CREATE TABLE part (a int PRIMARY KEY, b text);
INSERT INTO part VALUES (1, 'one');
BEGIN;
SAVEPOINT s;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10);
ROLLBACK TO s;
SELECT b FROM part WHERE a = 1;
INSERT INTO part VALUES (2, 'two');
REINDEX INDEX part_pkey;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10);
SELECT b FROM whole WHERE a = 2;
ROLLBACK;
SELECT b FROM part WHERE a = 1;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM part WHERE a > 0 ORDER BY a;
FETCH c;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (10);
ROLLBACK;
DROP TABLE whole, part;
-- another's table stays as it is
CREATE TABLE whole (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part (a int PRIMARY KEY);
CREATE ROLE regress_zentree_other;
GRANT USAGE ON SCHEMA zentree TO regress_zentree_other;
SET ROLE regress_zentree_other;
ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (100);
RESET ROLE;
DROP OWNED BY regress_zentree_other;
DROP ROLE regress_zentree_other;
DROP TABLE whole, part;

-- the view
SELECT x.indexrelname, x.kind, x.height, x.nodes > 0 AS nodes, x.bytes >= x.nodes * 1024 AS bytes FROM zen_stat_indexes x
  JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'zentree' ORDER BY x.indexrelname;

-- refused
CREATE TABLE h (a int) USING heap;
CREATE INDEX ON h USING zentree (a);
CREATE TEMP TABLE tmp (a int);
CREATE INDEX ON tmp USING zentree (a);
ALTER INDEX t_cursor SET TABLESPACE pg_global;
ALTER TABLE dup ADD PRIMARY KEY USING INDEX dup_none;
CREATE UNIQUE INDEX dup_u ON nn USING zentree (a);
ALTER TABLE nn ADD CONSTRAINT c UNIQUE USING INDEX dup_u;
CREATE INDEX ON t USING zentree (a int4_ops);
CREATE INDEX ON nn USING zentree (b) WITH (nothing = 1);
RESET zen.default_index;
SET zen.default_index = hash;
DROP SCHEMA zentree CASCADE;
