-- XML values, short and long.
-- Needs libxml.
CREATE SCHEMA types_xml;
SET search_path = types_xml;
CREATE TABLE t (id int PRIMARY KEY, x xml) USING zen;
INSERT INTO t VALUES (1, '<a>1</a>'), (2, xmlelement(name r, repeat('text', 5000))), (3, NULL);
SELECT id, left(x::text, 20) AS x, length(x::text) FROM t ORDER BY id;
UPDATE t SET x = (SELECT x FROM t WHERE id = 2) WHERE id = 3;
UPDATE t SET x = '<b/>' WHERE id = 2;
SELECT id, left(x::text, 20) AS x, length(x::text) FROM t ORDER BY id;
DROP SCHEMA types_xml CASCADE;
