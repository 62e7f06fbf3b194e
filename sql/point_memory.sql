-- What functions and expressions remember for the life of a query must not go into the next one with executor state that
-- is kept (point of zen.executor): descriptions of types, casts, domains.
CREATE SCHEMA point_memory;
SET search_path = point_memory;
-- Needs the executor.
SET default_table_access_method = zen;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SET jit = off;
SELECT point_accesses + point_kept_plans AS before FROM public.zen_stat \gset

-- a composite type, alone and in others
CREATE TYPE comp AS (a int, b text);
CREATE TYPE nest AS (n int, x comp);
CREATE DOMAIN many AS comp[] CHECK (cardinality(VALUE) < 3);
CREATE TABLE t (id int PRIMARY KEY, j jsonb, c comp, n nest);
INSERT INTO t SELECT g, '{"a": 1, "b": "x", "c": "new", "n": 5, "x": {"a": 2, "b": "y", "c": "in"}}' FROM generate_series(1, 9) g;
PREPARE sel(int) AS SELECT jsonb_populate_record(null::comp, j) FROM t WHERE id = $1;
PREPARE two(int) AS SELECT jsonb_populate_record(null::comp, j) FROM t WHERE id > $1 LIMIT 2;
PREPARE old(int) AS SELECT json_populate_record(ROW(7, 'old')::comp, '{"b": "json"}') FROM t WHERE id = $1;
PREPARE nested(int) AS SELECT jsonb_populate_record(null::nest, j) FROM t WHERE id = $1;
PREPARE listed(int) AS SELECT jsonb_populate_recordset(null::comp, '[{"a": 1, "c": "set"}]'), id FROM t WHERE id = $1;
CREATE TYPE holder AS (l comp[], m many);
PREPARE arrays(int) AS SELECT jsonb_populate_record(null::holder, '{"l": [{"a": 1, "c": "in array"}], "m": [{"c": "in domain"}]}')
	FROM t WHERE id = $1;
PREPARE upd(int) AS UPDATE t SET c = jsonb_populate_record(null::comp, j) WHERE id = $1 RETURNING c;
PREPARE upd_nested(int) AS UPDATE t SET n = jsonb_populate_record(null::nest, j) WHERE id = $1 RETURNING n;
PREPARE upd_two(int) AS UPDATE t SET c = jsonb_populate_record(null::comp, j) WHERE id < $1 RETURNING c;
PREPARE ins(int, jsonb) AS INSERT INTO t (id, c) VALUES ($1, jsonb_populate_record(null::comp, $2)) RETURNING c;
PREPARE ins_two(int, jsonb) AS INSERT INTO t (id, c) VALUES ($1, jsonb_populate_record(null::comp, $2)),
	($1 + 1, jsonb_populate_record(null::comp, $2)) RETURNING c;
PREPARE ups(int, jsonb) AS INSERT INTO t (id, c) VALUES ($1, null) ON CONFLICT (id) DO UPDATE
	SET c = jsonb_populate_record(null::comp, $2) WHERE jsonb_populate_record(null::comp, $2) IS DISTINCT FROM null RETURNING c;
PREPARE judged(int) AS SELECT id FROM t WHERE id = $1 AND jsonb_populate_record(null::comp, j)::text = '(1,x)';
PREPARE keyed(jsonb) AS SELECT id FROM t WHERE id = length(jsonb_populate_record(null::comp, $1)::text);
PREPARE returned(int) AS UPDATE t SET j = j WHERE id = $1 RETURNING jsonb_populate_record(null::comp, j);
PREPARE joined(int) AS SELECT a.id, b.id, jsonb_populate_record(null::comp, a.j) FROM t a JOIN t b
	ON b.id = a.id + 1 AND jsonb_populate_record(null::comp, b.j)::text <> '(1,x,new)' WHERE a.id = $1;
PREPARE limited(jsonb) AS SELECT id FROM t WHERE id > 0 ORDER BY id LIMIT length(jsonb_populate_record(null::comp, $1)::text) - 3;

CREATE PROCEDURE all_of() LANGUAGE plpgsql AS $$
DECLARE
	s text;
	r record;
BEGIN
	FOREACH s IN ARRAY ARRAY['sel(1)', 'two(7)', 'old(1)', 'nested(1)', 'listed(1)', 'arrays(1)', 'upd(2)', 'upd_nested(2)',
		'upd_two(3)', $q$ins(100, '{"a": 2, "b": "y", "c": "c"}')$q$, $q$ins_two(101, '{"a": 2, "b": "y", "c": "c"}')$q$,
		$q$ups(3, '{"a": 2, "b": "y", "c": "c"}')$q$, 'judged(4)', $q$keyed('{"a": 1, "b": "x", "c": "y"}')$q$, 'returned(4)',
		'joined(4)', $q$limited('{"a": 1, "b": "x", "c": "y"}')$q$]
	LOOP
		FOR r IN EXECUTE 'EXECUTE ' || s LOOP
			RAISE NOTICE '%: %', split_part(s, '(', 1), r;
		END LOOP;
	END LOOP;
	DELETE FROM t WHERE id >= 100;
END $$;
SET client_min_messages = warning;
CALL all_of();
CALL all_of();
RESET client_min_messages;
CALL all_of();
ALTER TYPE comp ADD ATTRIBUTE c text;
CALL all_of();
SELECT id, c, n FROM t WHERE c IS NOT NULL OR n IS NOT NULL ORDER BY id;
ALTER TYPE comp DROP ATTRIBUTE a;
CALL all_of();
SELECT id, c, n FROM t WHERE c IS NOT NULL OR n IS NOT NULL ORDER BY id;
-- a domain gets a constraint, and loses it
ALTER DOMAIN many ADD CHECK (VALUE[1].b IS NOT NULL) NOT VALID;
EXECUTE arrays(1);
ALTER DOMAIN many DROP CONSTRAINT many_check1;
EXECUTE arrays(1);

-- another type of an attribute, which no table may have
CREATE TYPE loose AS (a int, b text);
PREPARE typed(int) AS SELECT jsonb_populate_record(null::loose, '{"a": 1, "b": "007"}') FROM t WHERE id = $1;
PREPARE recs(int) AS SELECT array(SELECT r FROM jsonb_populate_recordset(null::loose, '[{"b": "007"}]') r), id FROM t WHERE id = $1;
EXECUTE typed(1); EXECUTE typed(1); EXECUTE typed(1);
ALTER TYPE loose ALTER ATTRIBUTE b TYPE int;
EXECUTE typed(1);

-- in the same transaction, in a subtransaction that is rolled back, and in one that made the state
CREATE TYPE undone AS (a int);
PREPARE undo(int) AS SELECT jsonb_populate_record(null::undone, '{"a": 1, "b": 2}') FROM t WHERE id = $1;
EXECUTE undo(1);
BEGIN;
EXECUTE undo(1);
ALTER TYPE undone ADD ATTRIBUTE b int;
EXECUTE undo(1);
SAVEPOINT s;
ALTER TYPE undone ADD ATTRIBUTE c int;
EXECUTE undo(1);
EXECUTE undo(1);
ROLLBACK TO s;
EXECUTE undo(1);
ROLLBACK;
EXECUTE undo(1);

-- a cursor that is open while the type changes goes on as it began; the next execution does not
CREATE FUNCTION slowly(lo int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	c NO SCROLL CURSOR FOR SELECT jsonb_populate_record(null::undone, '{"a": 1, "b": 2}')::text FROM t WHERE id > lo;
	r text;
BEGIN
	OPEN c;
	FETCH c INTO r;
	RETURN NEXT r;
	IF lo = 6 THEN
		ALTER TYPE undone ADD ATTRIBUTE b int;
	END IF;
	FETCH c INTO r;
	CLOSE c;
END $$;
SELECT slowly(5); SELECT slowly(5); SELECT slowly(6); SELECT slowly(5);

-- in the table's own expressions: a constraint, a trigger's condition, a policy's check
CREATE TYPE flags AS (a int);
CREATE TABLE own (id int PRIMARY KEY, j jsonb, CHECK (jsonb_populate_record(null::flags, j)::text <> '(1,3)'));
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''%'', NEW; RETURN NULL; END';
CREATE TRIGGER noted AFTER UPDATE ON own FOR EACH ROW
	WHEN (jsonb_populate_record(null::flags, NEW.j)::text = '(1,2)') EXECUTE FUNCTION note();
INSERT INTO own VALUES (1, '{}');
PREPARE set_own(jsonb) AS UPDATE own SET j = $1 WHERE id = 1;
EXECUTE set_own('{"a": 1, "b": 2}'); EXECUTE set_own('{"a": 1, "b": 3}'); EXECUTE set_own('{"a": 1, "b": 2}');
ALTER TYPE flags ADD ATTRIBUTE b int;
EXECUTE set_own('{"a": 1, "b": 2}');
EXECUTE set_own('{"a": 1, "b": 3}');
CREATE TABLE guarded (id int PRIMARY KEY, j jsonb);
INSERT INTO guarded VALUES (1, '{}');
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY low ON guarded USING (true) WITH CHECK (jsonb_populate_record(null::flags, j)::text <> '(1,3,5)');
CREATE ROLE memory_role;
GRANT USAGE ON SCHEMA point_memory TO memory_role;
GRANT ALL ON guarded TO memory_role;
SET ROLE memory_role;
PREPARE set_guarded(jsonb) AS UPDATE guarded SET j = $1 WHERE id = 1 RETURNING j;
EXECUTE set_guarded('{"a": 1}'); EXECUTE set_guarded('{"a": 1}');
RESET ROLE;
ALTER TYPE flags ADD ATTRIBUTE c int;
SET ROLE memory_role;
EXECUTE set_guarded('{"a": 1, "b": 3, "c": 4}');
EXECUTE set_guarded('{"a": 1, "b": 3, "c": 5}');
RESET ROLE;
DROP OWNED BY memory_role;
DROP ROLE memory_role;

-- a list of constants is hashed once a query: rows have another hash when their type has another attribute
CREATE TYPE hashed AS (a int);
CREATE TABLE h (id int PRIMARY KEY, c hashed);
INSERT INTO h VALUES (1, ROW(3));
PREPARE in_list(int) AS SELECT c FROM h WHERE id = $1
	AND c IN ('(1)', '(2)', '(3)', '(4)', '(5)', '(6)', '(7)', '(8)', '(9)', '(10)');
EXECUTE in_list(1); EXECUTE in_list(1); EXECUTE in_list(1);
ALTER TYPE hashed ADD ATTRIBUTE b int;
EXECUTE in_list(1);

-- rows, fields and what is compared by row, or by a type's default order
PREPARE by_fields(int) AS SELECT (c).a, ROW(id, c), GREATEST(c, NULL), c IS NULL, (id, id) < (2, 1), c::text FROM h WHERE id = $1;
EXECUTE by_fields(1); EXECUTE by_fields(1);
ALTER TYPE hashed DROP ATTRIBUTE b;
EXECUTE by_fields(1); EXECUTE by_fields(1);
ALTER TYPE hashed ADD ATTRIBUTE d int;
EXECUTE by_fields(1);

-- functions that are replaced, enums, casts of row types: all of them right with any state
CREATE FUNCTION by_sql(int) RETURNS text LANGUAGE sql STABLE AS 'SELECT max(id)::text FROM h';
CREATE FUNCTION by_pl(int) RETURNS text LANGUAGE plpgsql AS 'DECLARE c hashed; BEGIN c.a := $1; RETURN c::text; END';
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child () INHERITS (parent);
ALTER TABLE child ADD PRIMARY KEY (id);
INSERT INTO child VALUES (1, 2);
PREPARE others(int, text) AS SELECT by_sql(id), by_pl(id), $2::mood, $2::mood > 'sad', c::parent FROM child c WHERE id = $1;
EXECUTE others(1, 'glad'); EXECUTE others(1, 'glad'); EXECUTE others(1, 'sad');
CREATE OR REPLACE FUNCTION by_sql(int) RETURNS text LANGUAGE sql STABLE AS 'SELECT ''replaced''';
CREATE OR REPLACE FUNCTION by_pl(int) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN ''replaced, too''; END';
ALTER TYPE mood ADD VALUE 'mad' AFTER 'sad';
EXECUTE others(1, 'mad');
ALTER TABLE parent ADD COLUMN w int DEFAULT 8;
EXECUTE others(1, 'mad');

-- newer servers' JSON: a type that is returned, a cast that is dropped
CREATE TYPE queried AS (a int);
CREATE TYPE scalar AS ENUM ('plain');
CREATE FUNCTION scalar_json(scalar) RETURNS json LANGUAGE sql AS $$SELECT '"by the cast"'::json$$;
CREATE CAST (scalar AS json) WITH FUNCTION scalar_json(scalar);
CREATE PROCEDURE since(version int, statement text) LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('server_version_num')::int >= version THEN
		EXECUTE statement;
	END IF;
END $$;
CREATE FUNCTION told(version int, statement text, expected text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text := expected;
BEGIN
	IF current_setting('server_version_num')::int >= version THEN
		EXECUTE statement INTO r;
	END IF;
	RETURN r;
END $$;
CALL since(170000, $$PREPARE query(int) AS SELECT JSON_QUERY(jsonb '{"a": 1, "b": 2}', '$' RETURNING queried) FROM t WHERE id = $1$$);
CALL since(180000, $$PREPARE scalar(int) AS SELECT JSON_SCALAR(CASE WHEN id > 0 THEN 'plain'::scalar END) FROM t WHERE id = $1$$);
SELECT told(170000, 'EXECUTE query(1)', '(1)'), told(180000, 'EXECUTE scalar(1)', '"by the cast"') FROM generate_series(1, 3);
ALTER TYPE queried ADD ATTRIBUTE b int;
DROP CAST (scalar AS json);
SELECT told(170000, 'EXECUTE query(1)', '(1,2)'), told(180000, 'EXECUTE scalar(1)', '"plain"');

SELECT point_accesses + point_kept_plans - :before > 80 AS ran_so FROM public.zen_stat;
DEALLOCATE ALL;
RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA point_memory CASCADE;
