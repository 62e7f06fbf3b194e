-- Keys in a collation that is not deterministic: two texts that differ can be one key.
CREATE SCHEMA key_collation;
SET search_path = key_collation;
-- Needs the executor.
-- Needs ICU.
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
\pset format unaligned
\pset tuples_only on
CREATE COLLATION any_case (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false);
CREATE TABLE kinds (k text PRIMARY KEY, am text, ix text) USING heap;
INSERT INTO kinds VALUES ('heap', 'heap', 'btree'), ('btree', 'zen', 'btree'), ('tree', 'zen', 'zentree');
-- a statement for each of them, several times over, for executor state is kept from the second time on: %1$s is its name
CREATE FUNCTION each(statement text, times int DEFAULT 1) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format(statement, k) FROM kinds, generate_series(1, times) i ORDER BY k, i
$$;
DO $$
DECLARE
	kind record;
BEGIN
	FOR kind IN SELECT * FROM kinds LOOP
		PERFORM set_config('zen.default_index', kind.ix, true);
		EXECUTE format('CREATE TABLE exact_%s (s text COLLATE "C" PRIMARY KEY, v int) USING %s', kind.k, kind.am);
		EXECUTE format('CREATE TABLE loose_%s (a int, s text COLLATE any_case, v int, PRIMARY KEY (a, s)) USING %s',
			kind.k, kind.am);
	END LOOP;
END $$;

-- rows come: 'A' is there as 'a'
SELECT each('INSERT INTO exact_%1$s VALUES (''a'', 1), (''A'', 2)') \gexec
SELECT each('PREPARE add_%1$s(text, int) AS INSERT INTO loose_%1$s VALUES (1, $1, $2) RETURNING ''%1$s'' AS k, *') \gexec
SELECT each('EXECUTE add_%1$s(''a'', 1)') \gexec
SELECT each('EXECUTE add_%1$s(''B'', 2)') \gexec
SELECT each('EXECUTE add_%1$s(''A'', 3)', 2) \gexec
SELECT each('INSERT INTO loose_%1$s VALUES (1, ''A'', 3) ON CONFLICT DO NOTHING') \gexec

-- they are found by either text; what is one by the statement's collation may be two by the key's
SELECT each('PREPARE wide_%1$s(text) AS SELECT ''%1$s'' AS k, * FROM exact_%1$s WHERE s = $1 COLLATE any_case') \gexec
SELECT each('EXECUTE wide_%1$s(''A'')', 3) \gexec
SELECT each('PREPARE narrow_%1$s(text) AS SELECT ''%1$s'' AS k, * FROM loose_%1$s WHERE a = 1 AND s = $1') \gexec
SELECT each('EXECUTE narrow_%1$s(''A'')', 3) \gexec
SELECT each('EXECUTE narrow_%1$s(''b'')') \gexec
SELECT each('SELECT ''%1$s'' AS k, s FROM loose_%1$s WHERE a = 1 ORDER BY s DESC') \gexec

-- and changed, by the faster way
SELECT each('PREPARE set_%1$s(text) AS UPDATE loose_%1$s SET v = v + 1 WHERE a = 1 AND s = $1 RETURNING ''%1$s'' AS k, *') \gexec
SELECT point_accesses AS before FROM public.zen_stat \gset
SELECT each('EXECUTE set_%1$s(''A'')', 3) \gexec
SELECT point_accesses - :before AS point_accesses FROM public.zen_stat;
SELECT * FROM public.zen_verify('loose_btree');
SELECT * FROM public.zen_verify('loose_tree');

SET client_min_messages = warning;
DROP SCHEMA key_collation CASCADE;
