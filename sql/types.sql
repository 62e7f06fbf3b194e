SET default_table_access_method = zen;
--
-- types: values of many types stored, read back, updated, indexed and compared.
--
CREATE SCHEMA typ;
SET search_path = typ, public;

CREATE TYPE color AS ENUM ('red', 'green', 'blue');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TABLE t (id int, b bool, c "char", n name, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, nu numeric, m money,
  ch char(5), vc varchar(10), tx text, by bytea, d date, ti time, tz timetz, ts timestamp, tt timestamptz, iv interval,
  u uuid, js json, jb jsonb, ine inet, ci cidr, ma macaddr, bi bit(5), vb varbit, po point, li lseg, bo box,
    pa path, pg polygon, ce circle,
  ia int[], ta text[][], ca color[], co color, pr pair, pra pair[], ir int4range, nr numrange, sp span,
    mr int4multirange, tsv tsvector, tsq tsquery, dom posint, o oid, rc regclass, ls pg_lsn);
INSERT INTO t VALUES (1, true, 'c', 'name', -32768, -2147483648, -9223372036854775808, 'NaN', '-Infinity', 'NaN', 0,
  'ab', 'varchar', '', '\x', '-infinity', '00:00', '23:59:59.999999-15:59', 'infinity', '2020-02-29 12:00:00+00',
  '-178000000 years',
  '00000000-0000-0000-0000-000000000000', '{"a" : 1 , "a" : 2}', '{"b": [1, 2, {"c": null}], "a": "x"}',
    '::1/128', '10.0.0.0/8', '08:00:2b:01:02:03', B'10101', B'', '(1,-1)', '[(0,0),(1,1)]', '((2,2),(1,1))',
    '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(0,0),5>',
  '{}', '{{a,b},{NULL,"c,d"}}', '{red,blue}', 'green', '(1,one)', '{"(1,a)","(,)"}', 'empty', '(,5.5]', '[1.5,2.5)',
    '{[1,3),[5,7)}', 'a:1A b:2,3', 'a & !b', 1, 0, 'pg_class', '0/0');
INSERT INTO t VALUES (2, false, '', repeat('n', 63), 32767, 2147483647, 9223372036854775807, '1e-45',
	'1.7976931348623157e308', repeat('9', 1000)::numeric / 7, '123456.78',
  '12345', '1234567890', repeat('t', 10000), decode(repeat('ff', 3000), 'hex'), '5874897-12-31', '24:00', '12:00+00',
  '4713-01-01 BC', '294276-12-31 23:59:59+00', '1 year 2 mons 3 days 04:05:06.789',
  'ffffffff-ffff-ffff-ffff-ffffffffffff', '[]', jsonb_build_object('big', repeat('j', 5000)),
    '192.168.1.1', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', B'00000', repeat('10', 500)::varbit, '(1e300,1e-300)',
    '[(1,2),(3,4)]', '((1,1),(0,0))', '((0,0),(4,0),(4,4))', (SELECT polygon(100, circle '<(0,0),1>')), '<(1,1),0>',
  (SELECT array_agg(g) FROM generate_series(1, 3000) g), '[0:1][5:6]={{1,2},{3,4}}', '{}', 'blue', NULL, NULL,
    '[1,2147483647)', '[1,2]', '(,)', '{}', to_tsvector('simple', repeat('word ', 300)), 'x <-> y', 5, 4294967295, 0,
    'FFFFFFFF/FFFFFFFF');
INSERT INTO t (id) VALUES (3);
\pset expanded on
SELECT id, b, c, length(n) AS n, i2, i4, i8, f4, f8, left(nu::text, 20) AS nu, length(nu::text) AS nul, ch, vc,
	length(tx) AS tx, length(by) AS by, d, ti, tz, ts, tt AT TIME ZONE 'UTC' AS tt, iv FROM t ORDER BY id;
SELECT id, u, js, length(jb::text) AS jb, jb -> 'b' AS jbb, ine, ci, ma, bi, length(vb) AS vb, po, li, bo, pa,
	npoints(pg) AS pg, ce FROM t ORDER BY id;
SELECT id, array_length(ia, 1) AS ia, ia[2999] AS ia2, ta, ca, co, pr, pra, ir, nr, sp, mr, length(tsv) AS tsv, tsq,
	dom, o, rc, ls FROM t ORDER BY id;
\pset expanded off
-- every column updated from one row to another, one after the other
DO $$
DECLARE col name;
BEGIN
  FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'typ.t'::regclass AND attnum > 1 LOOP
    EXECUTE format('UPDATE typ.t SET %1$I = (SELECT %1$I FROM typ.t WHERE id = 1) WHERE id = 3', col);
  END LOOP;
END $$;
SELECT (SELECT t::text FROM t WHERE id = 1) = replace((SELECT t::text FROM t WHERE id = 3), '(3,', '(1,') AS same;
UPDATE t SET id = 30, ia = ia || 7, ta[1][1] = 'new', jb = jsonb_set(jb, '{b,0}', '99'), pr.b = 'two',
	mr = mr + '{[10,20)}' WHERE id = 3;
SELECT ia, ta, jb, pr, mr FROM t WHERE id = 30;
UPDATE t SET ia[2000] = -1, ia[3005] = 5 WHERE id = 2;
SELECT array_length(ia, 1), ia[1999:2001], ia[3000:3005] FROM t WHERE id = 2;
INSERT INTO t (id, dom) VALUES (4, 0);
INSERT INTO t (id, vc) VALUES (4, '12345678901');
INSERT INTO t (id, co) VALUES (4, 'yellow');
INSERT INTO t (id, i2) VALUES (4, 40000);
-- btree order and equality for each kind that has one
CREATE TABLE o (k int, nu numeric, f float8, tx text, by bytea, ts timestamp, iv interval, u uuid, jb jsonb, a int[],
	r int4range, co color, pr pair, b bool, ine inet, vb varbit);
INSERT INTO o SELECT g, g % 50 - 25, (g % 33) / 3.0, chr(97 + g % 26) || g % 5,
	decode(lpad(to_hex(g % 256), 2, '0'), 'hex'), timestamp '2020-01-01' + (g % 40) * interval '1 hour',
  (g % 20) * interval '1 day', md5((g % 60)::text)::uuid, to_jsonb(g % 12), ARRAY[g % 4, g % 3],
  int4range(g % 10, g % 10 + 5), (ARRAY['red', 'green', 'blue'])[g % 3 + 1]::color,
  ROW(g % 5, 'p')::pair, g % 2 = 0, ('10.0.0.' || g % 30)::inet, (g % 16)::bit(4)::varbit
    FROM generate_series(1, 600) g;
UPDATE o SET k = -k WHERE k % 3 = 0;
CREATE FUNCTION ordered() RETURNS TABLE (col name, in_order bool, n bigint) LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
  FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'typ.o'::regclass AND attnum > 1 ORDER BY attnum LOOP
    EXECUTE format('CREATE INDEX tmp ON typ.o (%I)', col);
    EXECUTE format('SELECT bool_and(ok), count(*)
      FROM (SELECT lag(%1$I) OVER (ORDER BY %1$I) <= %1$I IS NOT FALSE AS ok FROM typ.o) x', col) INTO in_order, n;
    EXECUTE format('SELECT count(*) FROM typ.o WHERE %1$I = (SELECT %1$I FROM typ.o WHERE abs(k) = 77)', col) INTO n;
    RETURN NEXT;
    DROP INDEX typ.tmp;
  END LOOP;
END $$;
SELECT * FROM ordered();
-- records, expanded arrays and large objects of PL/pgSQL written back
DO $$
DECLARE a int[]; r typ.t; rec record;
BEGIN
  SELECT ia INTO a FROM typ.t WHERE id = 2;
  FOR i IN 1..100 LOOP a[i] := a[i] * 2; END LOOP;
  UPDATE typ.t SET ia = a WHERE id = 2;
  SELECT * INTO r FROM typ.t WHERE id = 1;
  r.id := 100; r.tx := repeat('r', 9000); r.ia := a;
  INSERT INTO typ.t SELECT r.*;
  FOR rec IN SELECT * FROM typ.t WHERE id = 100 LOOP
    rec.id := 101;
    INSERT INTO typ.t VALUES (rec.id, rec.b);
  END LOOP;
END $$;
SELECT id, ia[1:3], ia[100:102], length(tx) FROM t WHERE id IN (2, 100, 101) ORDER BY id;
SELECT count(*) FROM t a JOIN t b ON a.ia = b.ia AND a.id < b.id;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA typ CASCADE;
