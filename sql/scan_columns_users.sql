-- Who uses the slot of a scan that reads columns in place: cursors, triggers, conflicts, long values, statistics.
-- As sql/scan_columns, this compares with heap.
CREATE SCHEMA scan_columns_users;
SET search_path = scan_columns_users;
SET max_parallel_workers_per_gather = 0;

-- A schema for each access method, with the same objects; t has rows that every snapshot sees.
CREATE PROCEDURE make(am name) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE SCHEMA %I', am);
	EXECUTE format('SET LOCAL search_path = %I, scan_columns_users', am);
	EXECUTE format('SET LOCAL default_table_access_method = %I', am);
	CREATE TABLE t (id int, g int2, s text, k int);
	COPY t FROM PROGRAM 'seq 1 600 | awk "{ print \$1, \$1 % 11, \"text\" \$1, \$1 % 17 }" OFS=,' CSV FREEZE;
	CREATE INDEX ON t (id);
	CREATE TABLE log (what text, id int, s text);
	CREATE TABLE part (id int, g int2, s text) PARTITION BY RANGE (id);
	CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (1) TO (301);
	CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (301) TO (601);
	CREATE INDEX ON part (id);
	INSERT INTO part SELECT id, g, s FROM t;
END $$;
CALL make('heap');
CALL make('zen');
VACUUM (FREEZE) heap.part, zen.part;
ANALYZE heap.t, zen.t, heap.part, zen.part;

-- What a statement answers by both access methods; says what differs.
CREATE FUNCTION answer(am name, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', am || ', scan_columns_users', true);
	PERFORM set_config('default_table_access_method', am, true);
	EXECUTE query INTO result;
	RETURN coalesce(result, 'nothing');
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
CREATE FUNCTION differs(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	of_heap text := answer('heap', query);
	of_zen text := answer('zen', query);
BEGIN
	IF of_heap IS DISTINCT FROM of_zen OR of_zen ~ '^[0-9A-Z]{5} ' THEN
		RETURN NEXT query || ': ' || of_heap || ', by zen ' || of_zen;
	END IF;
END $$;

-- WHERE CURRENT OF: a cursor stands on a row of one partition, and of no other
SET enable_seqscan = off; SET enable_bitmapscan = off;
BEGIN;
DECLARE c CURSOR FOR SELECT g FROM zen.part WHERE id > 100 AND g >= 0;
MOVE 150 FROM c;
UPDATE zen.part SET s = 'first' WHERE CURRENT OF c;
MOVE 200 FROM c;
UPDATE zen.part SET s = 'second' WHERE CURRENT OF c;
MOVE ALL FROM c;
SELECT tableoid::regclass, * FROM zen.part WHERE s IN ('first', 'second') ORDER BY id;
ROLLBACK;
RESET enable_seqscan; SET enable_indexscan = off;
BEGIN;
DECLARE c CURSOR FOR SELECT g FROM zen.part WHERE id > 100 AND g >= 0;
MOVE 150 FROM c;
UPDATE zen.part SET s = 'first' WHERE CURRENT OF c;
MOVE 200 FROM c;
UPDATE zen.part SET s = 'second' WHERE CURRENT OF c;
MOVE ALL FROM c;
SELECT tableoid::regclass, * FROM zen.part WHERE s IN ('first', 'second') ORDER BY id;
ROLLBACK;
RESET enable_indexscan; RESET enable_bitmapscan;

-- Cursors over savepoints, some of which are rolled back, and one that outlives its transaction
CREATE PROCEDURE walk(query text, INOUT result text) LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
BEGIN
	result := '';
	OPEN c FOR EXECUTE query;
	FOR i IN 1 .. 12 LOOP
		MOVE FORWARD 23 FROM c;
		FETCH c INTO r;
		result := result || coalesce(r::text, '-');
		BEGIN
			UPDATE t SET s = 'own' || i, k = -k WHERE id % 2 = i % 2;
			DELETE FROM t WHERE id % 5 = 1;
			FETCH c INTO r;
			result := result || coalesce(r::text, '-');
			IF i % 3 > 0 THEN
				RAISE EXCEPTION 'back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			FETCH c INTO r;
			result := result || coalesce(r::text, '-');
		END;
	END LOOP;
	CLOSE c;
END $$;
CREATE FUNCTION walked(am name, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', am || ', scan_columns_users', true);
	CALL walk(query, result);
	RAISE 'undo' USING DETAIL = result;
EXCEPTION WHEN raise_exception THEN
	GET STACKED DIAGNOSTICS result = PG_EXCEPTION_DETAIL;
	RETURN result;
END $$;
BEGIN;
SELECT q FROM (VALUES ('SELECT id, g FROM t'), ('SELECT id, s FROM t WHERE id % 9 = 0'), ('TABLE t'),
	('SELECT id, CASE WHEN id % 24 < 2 THEN t END FROM t WHERE k >= 0')) v (q)
	WHERE walked('heap', q) IS DISTINCT FROM walked('zen', q);
ROLLBACK;
SET enable_seqscan = off; SET enable_bitmapscan = off;
BEGIN;
SELECT q FROM (VALUES ('SELECT id, g FROM t WHERE id > 0 ORDER BY id'), ('SELECT id, s FROM t WHERE id % 9 = 0 ORDER BY id'),
	('SELECT id, CASE WHEN id % 24 < 2 THEN t END FROM t WHERE k >= 0 ORDER BY id DESC')) v (q)
	WHERE walked('heap', q) IS DISTINCT FROM walked('zen', q);
ROLLBACK;
RESET enable_seqscan; RESET enable_bitmapscan;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, g, CASE WHEN id % 50 = 0 THEN t END AS t FROM zen.t;
MOVE 148 FROM h;
SAVEPOINT a;
UPDATE zen.t SET s = 'lost', g = -1 WHERE id BETWEEN 140 AND 160;
FETCH h;
ROLLBACK TO a;
FETCH h;
UPDATE zen.t SET s = 'kept' WHERE id = 200;
COMMIT;
DELETE FROM zen.t WHERE id = 199;
MOVE 48 FROM h;
FETCH 3 FROM h;
CLOSE h;
UPDATE heap.t SET s = 'kept' WHERE id = 200; DELETE FROM heap.t WHERE id = 199;
-- a loop that commits reads its rows to the end at the first COMMIT
DO $$
DECLARE
	r record;
	n int := 0;
	l int := 0;
BEGIN
	FOR r IN SELECT id, g, CASE WHEN id % 50 = 0 THEN t::text END AS s FROM zen.t LOOP
		n := n + r.g;
		l := l + coalesce(length(r.s), 0);
		IF r.id = 100 THEN
			UPDATE zen.t SET s = s || '!', g = g + 1 WHERE id > 90;
			COMMIT;
		END IF;
	END LOOP;
	RAISE NOTICE '% %', n, l;
END $$;
UPDATE heap.t SET s = s || '!', g = g + 1 WHERE id > 90;
-- an error in the midst of a scan, and the same query behind it
BEGIN;
SAVEPOINT a;
SELECT sum(1 / (id - 300)), max(s) FROM (SELECT * FROM zen.t OFFSET 0) x;
ROLLBACK TO a;
SELECT sum(1 / (id - 3000)), max(s) FROM (SELECT * FROM zen.t OFFSET 0) x;
COMMIT;

-- INSERT stores the slot of the scan: triggers, transition tables, partitions, constraints and conflicts look at it
CREATE FUNCTION row_fires() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_WHEN = 'BEFORE' THEN
		IF new.id % 50 = 0 THEN
			RETURN NULL;
		ELSIF new.id % 3 = 0 THEN
			new.s := new.s || ' before';
		END IF;
		RETURN new;
	END IF;
	INSERT INTO log VALUES (TG_OP, new.id, new.s);
	RETURN NULL;
END $$;
CREATE FUNCTION statement_fires() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log SELECT 'all', id, s FROM news;
	RETURN NULL;
END $$;
CREATE FUNCTION run(statements text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	result text;
BEGIN
	FOREACH statement IN ARRAY string_to_array(statements, ';') LOOP
		EXECUTE statement;
	END LOOP;
	SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) || count(*) INTO result FROM (TABLE dst UNION ALL SELECT id, length(what)::int2, s, 0 FROM log) x;
	TRUNCATE log;
	DROP TABLE dst CASCADE;
	RETURN result;
END $$;
CREATE TABLE statements (query text);
INSERT INTO statements SELECT format('CREATE TABLE dst (LIKE t); %sINSERT INTO dst SELECT * FROM t%s', before, w) FROM
	(VALUES (''), ('CREATE TRIGGER b BEFORE INSERT ON dst FOR EACH ROW EXECUTE FUNCTION row_fires();'),
		('CREATE TRIGGER b AFTER INSERT ON dst FOR EACH ROW WHEN (new.g > 2) EXECUTE FUNCTION row_fires();'),
		('CREATE TRIGGER s AFTER INSERT ON dst REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION statement_fires();'),
		('ALTER TABLE dst ADD CHECK (g < 12 AND s <> ''none'');'),
		('CREATE UNIQUE INDEX ON dst (id); INSERT INTO dst SELECT id, -g, ''there'', k FROM t WHERE id % 5 = 0;'),
		('DROP TABLE dst; CREATE TABLE dst (LIKE t) PARTITION BY LIST (k); CREATE TABLE dst1 PARTITION OF dst DEFAULT; CREATE TABLE dst0 PARTITION OF dst FOR VALUES IN (0, 1);')) b (before),
	(VALUES (' WHERE k > 3'), (' WHERE s > ''text3'''), (' ON CONFLICT DO NOTHING')) w (w)
	WHERE before !~ 'UNIQUE' OR w ~ 'CONFLICT';
INSERT INTO statements VALUES
	('CREATE TABLE dst (LIKE t); CREATE UNIQUE INDEX ON dst (id); INSERT INTO dst SELECT * FROM t WHERE id % 4 = 0; INSERT INTO dst SELECT * FROM t ON CONFLICT (id) DO UPDATE SET s = excluded.s || dst.s, g = excluded.g WHERE excluded.k > 2'),
	('CREATE TABLE dst AS SELECT * FROM t'), ('CREATE TABLE dst AS TABLE t WITH NO DATA; INSERT INTO dst TABLE t'),
	('CREATE TABLE dst AS SELECT id, g, s, k FROM t WHERE k > 3'),
	('CREATE TABLE dst (LIKE t); WITH i AS (INSERT INTO dst SELECT * FROM t RETURNING *) INSERT INTO log SELECT s, id, s || g || k FROM i'),
	('CREATE TABLE dst AS TABLE t; WITH u AS (UPDATE dst SET s = dst.s || x.s FROM t x WHERE x.id = dst.k RETURNING dst.*, x AS x) INSERT INTO log SELECT x::text, id, s FROM u'),
	('CREATE TABLE dst AS TABLE t; WITH d AS (DELETE FROM dst USING t x WHERE x.id = dst.id AND x.k > 3 RETURNING dst, x) INSERT INTO log SELECT dst::text, 1, x::text FROM d');
SELECT d FROM statements, differs(format('SELECT run(%L)', query)) d;

-- columns of other kinds: generated, of domains, new and dropped ones, and long values behind the first columns
CREATE DOMAIN small AS int CHECK (value < 10000);
CREATE TYPE color AS ENUM ('red', 'green', 'blue');
CREATE PROCEDURE make_kinds(am name) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL search_path = %I, scan_columns_users', am);
	EXECUTE format('SET LOCAL default_table_access_method = %I', am);
	CREATE TABLE kinds (id int, gone int8, twice int GENERATED ALWAYS AS (id * 2) STORED, d small, c color, u uuid, after int,
		packed text, long text, plain text);
	ALTER TABLE kinds ALTER plain SET STORAGE EXTERNAL;
	INSERT INTO kinds (id, gone, d, c, u, after, packed, long, plain) SELECT i, i, i + 3, ('{red,green,blue}'::color[])[1 + i % 3],
		md5(i::text)::uuid, i % 7, repeat('packed' || i, 400), CASE WHEN i % 20 = 0 THEN repeat(md5(i::text), 3000) END,
		CASE WHEN i % 10 = 0 THEN repeat(md5(i::text), 100) END FROM generate_series(1, 300) i;
END $$;
CALL make_kinds('heap');
SET zen.spill_threshold = '64kB';
CALL make_kinds('zen');
RESET zen.spill_threshold;
VACUUM (FREEZE, ANALYZE) heap.kinds, zen.kinds;
CREATE TABLE looks (query text);
INSERT INTO looks SELECT format('SELECT md5(string_agg(x::text, '';''%s)) FROM (SELECT %s FROM kinds WHERE id > 0%s) x', CASE WHEN o ~ 'OFFSET' THEN ' ORDER BY x::text' END, c, o) FROM
	(VALUES ('id'), ('id, twice'), ('d'), ('c, d'), ('u'), ('after'), ('twice, CASE WHEN id % 50 = 0 THEN long END'),
		('d, length(plain)'), ('id, CASE WHEN id % 40 = 0 THEN packed END AS p'), ('id, CASE WHEN id % 30 = 0 THEN kinds END AS p'),
		('kinds'), ('*')) c (c), (VALUES (' OFFSET 0'), (' AND id % 20 = 0 OFFSET 0'), (' ORDER BY id'), (' ORDER BY after, id DESC')) o (o);
SELECT d FROM looks, differs(query) d;
ALTER TABLE heap.kinds DROP gone; ALTER TABLE zen.kinds DROP gone;
SELECT d FROM looks, differs(query) d;
UPDATE heap.kinds SET packed = 'short' WHERE id % 9 = 1; UPDATE zen.kinds SET packed = 'short' WHERE id % 9 = 1;
SELECT d FROM looks, differs(query) d;
ALTER TABLE heap.kinds ADD gone int DEFAULT 8, ADD n int; ALTER TABLE zen.kinds ADD gone int DEFAULT 8, ADD n int;
VACUUM (FREEZE, ANALYZE) heap.kinds, zen.kinds;
SELECT d FROM looks, differs(query) d;
SELECT d FROM looks, differs(replace(query, 'id > 0', 'gone = 8 AND n IS NULL')) d;
UPDATE heap.kinds SET n = id WHERE id % 64 = 5; UPDATE zen.kinds SET n = id WHERE id % 64 = 5;
SELECT d FROM looks, differs(replace(query, 'id > 0', 'gone = 8 AND n IS NOT NULL')) d;
CREATE INDEX ON heap.kinds (id); CREATE INDEX ON zen.kinds (id);
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
SELECT d FROM looks, differs(query) d;
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_sort;

-- what statistics and EXPLAIN ANALYZE count
CREATE FUNCTION counts(am name) RETURNS bigint[] LANGUAGE sql AS $$
	SELECT ARRAY[sum(seq_scan), sum(seq_tup_read), sum(idx_scan), sum(idx_tup_fetch)]::bigint[]
		FROM pg_stat_xact_user_tables WHERE schemaname = am AND relname = 't';
$$;
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || query;
END $$;
CREATE FUNCTION counted(am name, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before bigint[];
	plan text;
	after bigint[];
BEGIN
	PERFORM set_config('search_path', am || ', scan_columns_users', true);
	before := counts(am);
	plan := (SELECT string_agg(regexp_replace(e, '\.00', '', 'g'), E'\n') FROM explained(query) e WHERE e !~ 'Index Searches');
	after := counts(am);
	RETURN array_to_string(ARRAY(SELECT a - b FROM unnest(before, after) x (b, a)), ' ') || E'\n' || plan;
END $$;
CREATE TABLE counting (query text);
INSERT INTO counting VALUES ('SELECT id, g FROM t'), ('SELECT id, CASE WHEN id % 50 = 0 THEN s END FROM t WHERE g > 2'),
	('SELECT id, g FROM t LIMIT 100'), ('SELECT * FROM t WHERE k = 4'), ('SELECT id, g FROM t WHERE id BETWEEN 50 AND 250'),
	('SELECT id, g FROM t WHERE id > 20 AND k = 3'), ('SELECT id, CASE WHEN id % 50 = 0 THEN s END FROM t WHERE id > 20 LIMIT 130');
SET zen.executor = none;
SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT query, h, z FROM counting, counted('heap', query) h, counted('zen', query) z WHERE h IS DISTINCT FROM z;
SELECT counted('zen', query) FROM counting WHERE query ~ 'k = 4|g > 2';
SET enable_seqscan = off; RESET enable_indexscan; SET enable_indexonlyscan = off;
SELECT query, h, z FROM counting, counted('heap', query) h, counted('zen', query) z WHERE query ~ 'WHERE id' AND h IS DISTINCT FROM z;
SELECT counted('zen', query) FROM counting WHERE query ~ 'id (BETWEEN|> 20)';
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexonlyscan; RESET zen.executor;

SET client_min_messages = warning;
DROP SCHEMA scan_columns_users, heap, zen CASCADE;
