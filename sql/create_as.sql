SET default_table_access_method = zen;
--
-- create_as: CREATE TABLE AS, SELECT INTO, LIKE, and materialized views with every
-- kind of REFRESH.
--
CREATE SCHEMA cta;
SET search_path = cta, public;

CREATE TABLE src (id int PRIMARY KEY, v text);
INSERT INTO src SELECT g, 'v' || g FROM generate_series(1, 1000) g;
DELETE FROM src WHERE id % 10 = 0;
UPDATE src SET v = v || 'u' WHERE id % 3 = 0;
CREATE TABLE a AS SELECT * FROM src WHERE id <= 500;
SELECT count(*), sum(id), count(*) FILTER (WHERE v LIKE '%u') FROM a;
CREATE TABLE b USING zen AS TABLE src WITH NO DATA;
SELECT count(*) FROM b;
CREATE TABLE c (x, y) USING heap AS SELECT id, repeat(v, 1000) FROM src WHERE id < 5;
SELECT x, length(y) FROM c ORDER BY x;
CREATE TABLE IF NOT EXISTS a AS SELECT 1;
CREATE TABLE big AS SELECT x, y || y AS y FROM c;
SELECT x, length(y) FROM big ORDER BY x;
SELECT id, v INTO into_t FROM src WHERE id > 995;
SELECT * FROM into_t ORDER BY id;
SELECT amname FROM pg_am JOIN pg_class c ON c.relam = pg_am.oid WHERE c.oid IN ('a'::regclass, 'into_t'::regclass);
PREPARE q(int) AS SELECT * FROM src WHERE id = $1;
CREATE TABLE d AS EXECUTE q(7);
TABLE d;
BEGIN;
CREATE TABLE undone AS SELECT * FROM src;
INSERT INTO undone SELECT id + 10000, v FROM src;
SELECT count(*) FROM undone;
ROLLBACK;
SELECT to_regclass('undone');
BEGIN;
SAVEPOINT s;
CREATE TABLE again AS SELECT 1 AS x;
ROLLBACK TO s;
CREATE TABLE again AS SELECT 2 AS x;
COMMIT;
TABLE again;
-- LIKE
CREATE TABLE l (LIKE src INCLUDING ALL, extra int DEFAULT 3);
INSERT INTO l SELECT * FROM src;
INSERT INTO l VALUES (1, 'dup');
SELECT count(*), sum(extra) FROM l;

-- materialized views
CREATE MATERIALIZED VIEW mv AS SELECT id % 10 AS d, count(*) AS n, max(v) AS m FROM src GROUP BY 1;
SELECT * FROM mv ORDER BY d;
CREATE MATERIALIZED VIEW mv_empty AS SELECT * FROM src WITH NO DATA;
SELECT count(*) FROM mv_empty;
REFRESH MATERIALIZED VIEW mv_empty;
SELECT count(*) FROM mv_empty;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
CREATE UNIQUE INDEX mv_d ON mv (d);
CREATE INDEX mv_m ON mv (m);
DELETE FROM src WHERE id % 10 = 4;
INSERT INTO src VALUES (2000, 'zero'), (2001, 'zz');
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT * FROM mv ORDER BY d;
SET enable_seqscan = off;
SELECT d, n FROM mv WHERE m = 'zz';
SELECT d, n FROM mv WHERE d = 4;
RESET enable_seqscan;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
UPDATE src SET v = 'a' || v;
REFRESH MATERIALIZED VIEW mv;
SELECT * FROM mv ORDER BY d;
BEGIN;
DELETE FROM src WHERE id > 20;
REFRESH MATERIALIZED VIEW mv;
SELECT * FROM mv ORDER BY d;
ROLLBACK;
SELECT count(*), sum(n) FROM mv;
BEGIN;
DELETE FROM src WHERE id > 20;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*), sum(n) FROM mv;
SAVEPOINT a;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
ROLLBACK TO a;
SELECT count(*), sum(n) FROM mv;
COMMIT;
SELECT count(*), sum(n) FROM mv;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
SELECT * FROM mv;
REFRESH MATERIALIZED VIEW mv;
SELECT count(*), sum(n) FROM mv;
-- failing refreshes change nothing
CREATE MATERIALIZED VIEW mf AS SELECT id, 100 / (id - 5) AS q FROM src WHERE id < 5;
CREATE MATERIALIZED VIEW mdup AS SELECT v FROM src WHERE id < 4;
CREATE UNIQUE INDEX mdup_v ON mdup (v);
UPDATE src SET v = 'same' WHERE id IN (1, 2);
REFRESH MATERIALIZED VIEW mdup;
REFRESH MATERIALIZED VIEW CONCURRENTLY mdup;
SELECT count(DISTINCT v) FROM mdup;
INSERT INTO mv VALUES (1, 1, 'x');
UPDATE mv SET n = 1;
SELECT * FROM mv FOR UPDATE;
VACUUM ANALYZE mv;
CLUSTER mv USING mv_d;
SELECT count(*), sum(n) FROM mv;
-- over a heap table, over another materialized view, with TOASTed columns
CREATE MATERIALIZED VIEW mt AS SELECT x, repeat(y, 10) AS y FROM c;
CREATE UNIQUE INDEX ON mt (x);
SELECT x, length(y) FROM mt ORDER BY x;
UPDATE c SET y = repeat('n', 5000) WHERE x = 2;
REFRESH MATERIALIZED VIEW CONCURRENTLY mt;
SELECT x, length(y), left(y, 2) FROM mt ORDER BY x;
CREATE MATERIALIZED VIEW m2 AS SELECT count(*) AS n FROM mt;
TABLE m2;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA cta CASCADE;
