SET default_table_access_method = zen;
--
-- index_kinds: every index access method, unique, partial, expression, INCLUDE, several
-- columns, opclasses and collations; built before the rows and after them, alone and in
-- parallel; the same answers as a sequential scan through all changes.
--
CREATE SCHEMA ixk;
SET search_path = ixk, public;

CREATE TABLE t (id int, i int, f float8, s text, c char(8) COLLATE "C", n numeric, d date, ts tsvector,
  a int[], j jsonb, p point, b box, r int4range, ip inet, u uuid, bt bytea);
CREATE FUNCTION fill(lo int, hi int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO ixk.t SELECT g, g * 7 % 1000, g / 3.0, 's' || g % 300, 'c' || g % 50, g * 1.01,
    date '2020-01-01' + g % 500,
    to_tsvector('simple', 'word' || g % 20 || ' other' || g % 33), ARRAY[g % 10, g % 11 + 100],
      jsonb_build_object('k', g % 12, 'v', ARRAY[g % 5]),
    point(g % 60, g / 60), box(point(g % 60, g % 70), point(g % 60 + 3, g % 70 + 3)),
      int4range(g % 100, g % 100 + g % 9 + 1),
    ('10.0.' || g % 200 || '.' || g % 250)::inet, md5((g % 400)::text)::uuid, decode(md5(g::text), 'hex')
  FROM generate_series(lo, hi) g $$;
-- half of the indexes are there before the rows
CREATE INDEX bt_i ON t (i);
CREATE INDEX bt_s ON t (s text_pattern_ops, i DESC NULLS LAST) INCLUDE (f);
CREATE INDEX bt_e ON t (upper(s), (i % 10));
CREATE INDEX bt_p ON t (f) WHERE i < 500;
CREATE UNIQUE INDEX bt_u ON t (id, s) INCLUDE (n);
CREATE INDEX h_s ON t USING hash (s);
CREATE INDEX gi_a ON t USING gin (a);
CREATE INDEX gs_p ON t USING gist (p);
CREATE INDEX sp_s ON t USING spgist (s);
CREATE INDEX br_i ON t USING brin (id) WITH (pages_per_range = 2);
SELECT fill(1, 1500);
-- the other half after them, and after changes
UPDATE t SET i = i + 1, s = s || 'u' WHERE id % 6 = 0;
DELETE FROM t WHERE id % 13 = 0;
CREATE INDEX bt_n ON t (n DESC, d);
CREATE INDEX bt_c ON t (c);
CREATE INDEX bt_d ON t (d) WITH (deduplicate_items = off, fillfactor = 50);
CREATE INDEX bt_by ON t (bt, u);
CREATE INDEX h_u ON t USING hash (u);
CREATE INDEX h_i ON t USING hash (i) WHERE id > 100;
CREATE INDEX gi_j ON t USING gin (j jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX gi_jo ON t USING gin (j);
CREATE INDEX gi_ts ON t USING gin (ts) WITH (fastupdate = on, gin_pending_list_limit = 64);
CREATE INDEX gs_b ON t USING gist (b) INCLUDE (id) WITH (buffering = on);
CREATE INDEX gs_r ON t USING gist (r);
CREATE INDEX gs_ts ON t USING gist (ts);
CREATE INDEX gs_ip ON t USING gist (ip inet_ops);
CREATE INDEX sp_p ON t USING spgist (p);
CREATE INDEX sp_pk ON t USING spgist (p kd_point_ops);
CREATE INDEX sp_r ON t USING spgist (r);
CREATE INDEX sp_ip ON t USING spgist (ip) WHERE i % 2 = 0;
CREATE INDEX br_d ON t USING brin (d date_minmax_multi_ops) WITH (pages_per_range = 1, autosummarize = on);
CREATE INDEX br_u ON t USING brin (u uuid_bloom_ops);
CREATE INDEX br_r ON t USING brin (r range_inclusion_ops, i);
SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid AND indisready;

-- the same query through one index at a time and through none
CREATE FUNCTION compare() RETURNS TABLE (index name, n bigint, same bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE cond text; r bigint; h bigint; sr bigint; sh bigint; q text;
BEGIN
  FOR index, cond IN VALUES
    ('bt_i', 'i BETWEEN 100 AND 130'), ('bt_s', 's ~>=~ ''s20'' AND s ~<~ ''s22'''),
      ('bt_e', 'upper(s) = ''S42U'' AND i % 10 = 5 OR upper(s) = ''S43'''),
    ('bt_p', 'f > 300 AND i < 500'), ('bt_u', 'id = ANY (''{1,2,1200,13}'')'), ('h_s', 's = ''s77'''),
      ('gi_a', 'a @> ''{3,105}'''),
    ('gs_p', 'p <@ circle ''<(20,10),5>'''), ('sp_s', 's ^@ ''s1'''), ('br_i', 'id BETWEEN 400 AND 500'),
      ('bt_n', 'n > 1300 AND d < ''2021-01-01'''),
    ('bt_c', 'c = ''c7'''), ('bt_d', 'd = ''2020-03-01'''), ('bt_by', 'bt < ''\x20'''),
      ('h_u', 'u = md5(''17'')::uuid'), ('h_i', 'i = 70 AND id > 100'),
    ('gi_j', 'j @> ''{"k": 7}'''), ('gi_jo', 'j ? ''v'' AND j @> ''{"v": [3]}'''),
      ('gi_ts', 'ts @@ ''word3 & other7 | word19'''),
    ('gs_b', 'b && box ''((10,10),(14,14))'''), ('gs_r', 'r @> 44'), ('gs_ts', 'ts @@ ''other12'''),
      ('gs_ip', 'ip << ''10.0.17.0/24'''),
    ('sp_p', 'p <@ box ''((5,5),(9,9))'''), ('sp_pk', 'p >> ''(55,0)'''), ('sp_r', 'r && ''[90,93)'''),
      ('sp_ip', 'ip << ''10.0.18.0/24'' AND i % 2 = 0'),
    ('br_d', 'd BETWEEN ''2020-02-01'' AND ''2020-02-10'''), ('br_u', 'u = md5(''21'')::uuid'),
      ('br_r', 'r << ''[3,4)''')
  LOOP
    q := 'SELECT count(*), sum(hashint4(id)::bigint) FROM ixk.t WHERE ' || cond;
    UPDATE pg_index SET indisvalid = (indexrelid = ('ixk.' || index)::regclass) WHERE indrelid = 'ixk.t'::regclass;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = on;
    EXECUTE q INTO r, h;
    SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
    EXECUTE q INTO sr, sh;
    n := r; same := r = sr AND h IS NOT DISTINCT FROM sh;
    RETURN NEXT;
  END LOOP;
  UPDATE pg_index SET indisvalid = true WHERE indrelid = 'ixk.t'::regclass;
END $$;
SELECT * FROM compare();
-- after changes of other columns, of keys, deletions, insertions, rollbacks
UPDATE t SET bt = bt || '\x00' WHERE id % 4 = 0;
UPDATE t SET i = i + 5, f = f + 1, s = 's' || (id + 1) % 300, c = 'c' || (id + 3) % 50, a = a || 3, p = p + point(1, 1),
  r = int4range(lower(r), upper(r) + 1), j = j || '{"k": 7}', ts = to_tsvector('simple', 'word3 other7'), d = d + 1,
  u = md5((id % 100)::text)::uuid WHERE id % 5 = 0;
DELETE FROM t WHERE id % 9 = 0;
SELECT fill(2001, 2400);
BEGIN;
SELECT fill(3001, 3300);
UPDATE t SET i = -i, s = 'undone', a = '{}', p = '(0,0)', j = '{}', r = 'empty', d = '1999-01-01' WHERE id % 2 = 0;
ROLLBACK;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
SELECT sum(n) FROM compare();
VACUUM t;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
SELECT fill(4001, 4400);
SELECT count(*) AS differ FROM compare() WHERE NOT same;
SELECT sum(n) FROM compare();
REINDEX TABLE t;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
VACUUM FULL t;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
SELECT sum(n) FROM compare();
-- changes inside a transaction, seen through every index, then undone
BEGIN;
UPDATE t SET i = i + 1, s = s || 'x', a = '{3,105}', p = point(20, 10), j = '{"k": 7}', r = '[40,50)', d = '2020-03-01'
	WHERE id % 17 = 0;
INSERT INTO t (id, i, s, c, d) VALUES (1200, 100, 's77', 'c7', '2020-03-01');
SAVEPOINT a;
DELETE FROM t WHERE id % 2 = 0;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
ROLLBACK TO a;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
ROLLBACK;
SELECT count(*) AS differ FROM compare() WHERE NOT same;
SELECT sum(n) FROM compare();
-- GIN pending list, BRIN summaries
INSERT INTO t (id, ts, a) SELECT g, to_tsvector('simple', 'pending' || g % 3), ARRAY[7777]
	FROM generate_series(6001, 6300) g;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE ts @@ 'pending1';
SELECT count(*) FROM t WHERE a @> '{7777}';
SELECT gin_clean_pending_list('gi_ts') >= 0 AS cleaned;
SELECT count(*) FROM t WHERE ts @@ 'pending1';
SELECT brin_summarize_new_values('br_i') >= 0 AS summarized;
SELECT count(*) FROM t WHERE id BETWEEN 6000 AND 6100;
SELECT brin_desummarize_range('br_i', 0);
SELECT count(*) FROM t WHERE id BETWEEN 1 AND 10;
SELECT brin_summarize_range('br_i', 0) AS one;
SELECT count(*) FROM t WHERE id BETWEEN 1 AND 10;
RESET enable_seqscan;

-- parallel build
CREATE TABLE par (id int, v text) WITH (parallel_workers = 2);
INSERT INTO par SELECT g, md5(g::text) FROM generate_series(1, 30000) g;
UPDATE par SET v = v || 'u' WHERE id % 3 = 0;
DELETE FROM par WHERE id % 4 = 0;
SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers = 2;
CREATE UNIQUE INDEX par_id ON par (id);
CREATE INDEX par_v ON par (v) WHERE id % 2 = 1;
RESET min_parallel_table_scan_size; RESET max_parallel_maintenance_workers;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM par WHERE id > 0;
SELECT count(*), sum(id) FROM par WHERE v > '' AND id % 2 = 1;
RESET enable_seqscan;
INSERT INTO par VALUES (1, 'dup');
\set VERBOSITY terse
SET max_parallel_maintenance_workers = 0;
CREATE UNIQUE INDEX par_dup ON par (left(v, 2));
RESET max_parallel_maintenance_workers;
\set VERBOSITY default
-- build in the transaction that changed the rows
BEGIN;
UPDATE par SET id = id + 100000 WHERE id < 100;
DELETE FROM par WHERE id > 100050;
INSERT INTO par VALUES (200000, 'tx');
CREATE INDEX par_tx ON par (id) INCLUDE (v);
SET LOCAL enable_seqscan = off;
SELECT count(*), sum(id) FROM par WHERE id > 29990;
ROLLBACK;
SELECT count(*), sum(id) FROM par WHERE id > 29990;

-- keys that are too large, null keys, expressions that fail, unique with nulls
CREATE TABLE odd (id int, v text);
CREATE INDEX odd_v ON odd (v);
INSERT INTO odd SELECT 1, string_agg(md5(g::text), '') FROM generate_series(1, 1000) g;
INSERT INTO odd SELECT 2, string_agg(md5(g::text), '') FROM generate_series(1, 70) g;
INSERT INTO odd VALUES (3, NULL), (4, NULL), (5, '');
SET enable_seqscan = off;
SELECT id FROM odd WHERE v IS NULL ORDER BY id;
SELECT id FROM odd WHERE v IS NOT NULL ORDER BY id;
RESET enable_seqscan;
CREATE INDEX odd_e ON odd ((1 / (id - 4)));
DELETE FROM odd WHERE id = 4;
CREATE INDEX odd_e ON odd ((10 / id));
INSERT INTO odd VALUES (0, 'zero');
UPDATE odd SET id = 0 WHERE id = 3;
SELECT id FROM odd ORDER BY id;
-- indexes on expressions over toasted values
CREATE TABLE toasted (id int, v text);
CREATE INDEX toasted_m ON toasted (md5(v));
CREATE INDEX toasted_l ON toasted (length(v)) WHERE length(v) > 10000;
INSERT INTO toasted SELECT g, repeat(md5(g::text), g * 100) FROM generate_series(1, 30) g;
UPDATE toasted SET id = -id WHERE id % 2 = 0;
UPDATE toasted SET v = v || '!' WHERE id % 3 = 0;
SET enable_seqscan = off;
SELECT id FROM toasted WHERE md5(v) = md5(repeat(md5('10'), 1000));
SELECT id FROM toasted WHERE md5(v) = md5(repeat(md5('9'), 900));
SELECT id FROM toasted WHERE md5(v) = md5(repeat(md5('9'), 900) || '!');
SELECT count(*), sum(abs(id)) FROM toasted WHERE length(v) > 10000;
RESET enable_seqscan;
-- DROP INDEX and what is left
DROP INDEX toasted_m;
UPDATE toasted SET v = 'x' WHERE id = 1;
SELECT count(*) FROM toasted WHERE md5(v) = md5('x');
DROP INDEX CONCURRENTLY toasted_l;
SELECT count(*) FROM toasted WHERE length(v) > 10000;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA ixk CASCADE;
