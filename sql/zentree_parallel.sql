-- One scan of a tree by several processes: answers as those of one process, and in order where that is asked for.
CREATE TABLE p (id int PRIMARY KEY, a int, t text COLLATE "C", n numeric) USING zen;
INSERT INTO p SELECT g, g % 97, CASE WHEN g % 13 <> 0 THEN repeat('t', g % 60) || g END, g % 1000
	FROM generate_series(1, 30000) g;
CREATE INDEX p_id ON p USING zentree (id DESC);
CREATE INDEX p_at ON p USING zentree (a, t DESC);
CREATE INDEX p_n ON p USING zentree (n) INCLUDE (id);
DELETE FROM p WHERE id % 10 = 3;
VACUUM ANALYZE p;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- all is read by workers
SET parallel_leader_participation = off;
SET max_parallel_workers_per_gather = 3;
-- to merge rows in order costs nothing
SET cpu_operator_cost = 0;

EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM p WHERE id BETWEEN 100 AND 25000;
EXPLAIN (COSTS OFF) SELECT n FROM p WHERE n >= 100 ORDER BY n DESC;

-- Runs a query with and without workers: was the plan parallel, and are the rows the same, in the same order?
CREATE FUNCTION compare(query text) RETURNS TABLE (parallel bool, rows bigint, same bool) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	one text[];
	many text[];
BEGIN
	parallel := false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		parallel := parallel OR line ~ 'Parallel Index';
	END LOOP;
	EXECUTE 'SELECT array_agg(q::text) FROM (' || query || ') q' INTO many;
	SET LOCAL max_parallel_workers_per_gather = 0;
	EXECUTE 'SELECT array_agg(q::text) FROM (' || query || ') q' INTO one;
	SET LOCAL max_parallel_workers_per_gather = 3;
	rows := coalesce(cardinality(many), 0);
	same := one IS NOT DISTINCT FROM many;
	RETURN NEXT;
END $$;

SELECT * FROM compare('SELECT count(*), sum(id), sum(a) FROM p WHERE id > 0');
SELECT * FROM compare('SELECT count(*), sum(id), sum(a) FROM p WHERE id BETWEEN 100 AND 25000 AND a > 50');
SELECT * FROM compare('SELECT id, t FROM p WHERE id > 17 ORDER BY id');
SELECT * FROM compare('SELECT id, t FROM p WHERE id < 29999 ORDER BY id DESC');
SELECT * FROM compare('SELECT a, t FROM p
	WHERE a IN (5, 7, 40, 1000, -1, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63) ORDER BY a, t DESC');
SELECT * FROM compare('SELECT a, t FROM p
	WHERE a IN (5, 7, 40, 1000, -1, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63) AND t > ''tttt'' ORDER BY a DESC, t');
SELECT * FROM compare('SELECT count(*) FROM p
	WHERE a IN (5, 7, 40, 1000, -1, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63) AND t IS NULL');
-- 18 takes no workers here
SELECT rows, same FROM compare('SELECT count(*) FROM p WHERE t > ''ttttttttttttttttttttttttttt''');
SELECT * FROM compare('SELECT n, id FROM p WHERE n >= 990 ORDER BY n, id');
SELECT * FROM compare('SELECT n, sum(id) FROM p GROUP BY n ORDER BY n DESC');
SELECT * FROM compare('SELECT count(*) FROM p WHERE id > 100000');
SELECT * FROM compare('SELECT count(*) FROM p WHERE id > NULL::int');

-- the scan is begun again for each row of another table, in processes of its own; at its end, and before
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT * FROM (VALUES (1), (2), (3)) v(x)
	LEFT JOIN (SELECT count(*), sum(id) FROM p WHERE id > 10000) s ON true;
SELECT * FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT count(*), sum(id) FROM p WHERE id > 10000) s ON true;
EXPLAIN (COSTS OFF) SELECT * FROM (VALUES (1), (2), (3)) v(x)
	LEFT JOIN (SELECT id FROM p WHERE id > 10000 ORDER BY id LIMIT 2) s ON true;
SELECT * FROM (VALUES (1), (2), (3)) v(x)
	LEFT JOIN (SELECT id FROM p WHERE id > 10000 ORDER BY id LIMIT 2) s ON true ORDER BY x, id;

-- and while other processes write
BEGIN;
UPDATE p SET id = id + 100000 WHERE id % 7 = 0;
SELECT * FROM compare('SELECT id FROM p WHERE id > 0 ORDER BY id');
ROLLBACK;
SELECT * FROM compare('SELECT id FROM p WHERE id > 0 ORDER BY id');
SELECT count(*) AS findings FROM zen_verify('p');
DROP FUNCTION compare;
DROP TABLE p;
