-- Trees: nulls where a primary key is to be, ON CONFLICT while the relcache is invalidated, memory of long scans.
CREATE SCHEMA zentree_more;
SET search_path = zentree_more;
SET zen.default_index = zentree;
SET default_table_access_method = zen;

-- a primary key that cannot be
CREATE TABLE n (a int, b text);
INSERT INTO n VALUES (NULL, 'x'), (1, 'y'), (NULL, 'z');
ALTER TABLE n ADD PRIMARY KEY (a);
DELETE FROM n WHERE b = 'z';
INSERT INTO n VALUES (-2147483648, 'least');
ALTER TABLE n ADD PRIMARY KEY (a);
DELETE FROM n WHERE a IS NULL;
ALTER TABLE n ADD PRIMARY KEY (a);
SELECT * FROM n ORDER BY a;
SELECT * FROM public.zen_verify('n');

-- invalidations come while the target's indexes are opened
CREATE TABLE oc (a int PRIMARY KEY, b text UNIQUE, c int);
CREATE INDEX ON oc (c);
CREATE PROCEDURE discard(on_or_off text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('debug_discard_caches', on_or_off, false);
EXCEPTION WHEN invalid_parameter_value THEN
	NULL;	-- a server without
END $$;
PREPARE upsert(int) AS
	INSERT INTO oc VALUES ($1, 'b' || $1, 0) ON CONFLICT (a) DO UPDATE SET c = oc.c + 1 RETURNING a, b, c;
CALL discard('1');
INSERT INTO oc VALUES (1, 'b1', 0) ON CONFLICT DO NOTHING;
INSERT INTO oc VALUES (2, 'b1', 0) ON CONFLICT DO NOTHING;
EXECUTE upsert(1);
EXECUTE upsert(1);
EXECUTE upsert(3);
CALL discard('0');
SELECT * FROM oc ORDER BY a;

-- a scan of values by reference keeps none of them
CREATE TABLE u (id uuid PRIMARY KEY);
INSERT INTO u SELECT md5(i::text)::uuid FROM generate_series(1, 30000) i;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
BEGIN;
DECLARE x CURSOR FOR SELECT id FROM u WHERE id IS NOT NULL ORDER BY id;
MOVE 30000 IN x;
SELECT sum(used_bytes) < 300000 AS little FROM pg_backend_memory_contexts WHERE name = 'ExecutorState';
COMMIT;

SET client_min_messages = warning;
DROP SCHEMA zentree_more CASCADE;
