--
-- swapped_files: tools that rewrite a table while it is in use exchange the files of two relations in pg_class by
-- themselves, and may leave the access methods where they were. Neither table's rows may be lost by that.
--
CREATE SCHEMA sw;
SET search_path = sw, public;
SET allow_system_table_mods = on;
CREATE FUNCTION refused(cmd text) RETURNS TABLE (state text, message text, hinted bool) LANGUAGE plpgsql AS $$
DECLARE h text;
BEGIN
  EXECUTE cmd;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT;
  state := SQLSTATE; message := regexp_replace(SQLERRM, '\d+', 'N'); hinted := h <> '';
  RETURN NEXT;
END $$;
-- exchange one column of pg_class between two relations
CREATE PROCEDURE exchange(col text, a regclass, b regclass) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('UPDATE pg_class x SET %1$I = y.%1$I FROM pg_class y WHERE (x.oid, y.oid) IN (($1, $2), ($2, $1))',
    col)
    USING a, b;
END $$;

CREATE TABLE z (a int, b varchar(20)) USING zen;
INSERT INTO z SELECT g, 'row ' || g FROM generate_series(1, 1000) g;
CREATE TABLE h USING heap AS SELECT * FROM z WHERE a <= 500;
-- what a tool does: the new table h takes the place of z, and the old rows are dropped under the name of h
CALL exchange('relfilenode', 'z', 'h');
SELECT * FROM refused('SELECT count(*) FROM z');
SELECT * FROM refused('DROP TABLE h');
SELECT * FROM refused('DROP SCHEMA sw CASCADE');
SELECT * FROM refused('TRUNCATE h');
SELECT * FROM refused('ALTER TABLE h SET TABLESPACE pg_default');
SELECT * FROM refused('ALTER TABLE h SET UNLOGGED');
SELECT * FROM refused('ALTER TABLE h SET ACCESS METHOD zen');
VACUUM FULL h;
SELECT kind, relation, regexp_replace(detail, '\d+', 'N') AS detail FROM zen_verify_pool()
	WHERE relation IN ('z'::regclass, 'h'::regclass) OR relation IS NULL ORDER BY 1, 2;
-- what the hint says
CALL exchange('relam', 'z', 'h');
SELECT count(*), sum(a) FROM z;
SELECT count(*), sum(a) FROM h;
SELECT * FROM zen_verify('h');
SELECT * FROM zen_verify_pool();
INSERT INTO h VALUES (0, 'new');
INSERT INTO z VALUES (0, 'new');
SELECT relname, amname FROM pg_class c JOIN pg_am am ON am.oid = c.relam WHERE c.oid IN ('z'::regclass, 'h'::regclass)
	ORDER BY 1;

-- it need not come to that: between zen tables both have theirs
CREATE TABLE z2 USING zen AS SELECT * FROM h WHERE a <= 10;
BEGIN;
CALL exchange('relfilenode', 'h', 'z2');
SELECT count(*) FROM h;
DROP TABLE z2;
ROLLBACK;
SELECT count(*) FROM h;
BEGIN;
CALL exchange('relfilenode', 'h', 'z2');
DROP TABLE z2;
COMMIT;
SELECT count(*) FROM h;

-- nor with pg_repack, whose copies of zen tables are zen tables: made from them, and named after their OIDs
CREATE SCHEMA repack;
SET default_table_access_method = heap;
DO $$
DECLARE
  h text := 'h'::regclass::oid;
  z text := 'z'::regclass::oid;
BEGIN
  EXECUTE format('CREATE TABLE repack.table_%s AS SELECT * FROM h', h);
  EXECUTE format('CREATE TABLE repack.table_%s AS SELECT * FROM z', z);
  EXECUTE format('CREATE TABLE repack.log_%s (a int)', h);
  EXECUTE format('CREATE TABLE repack.table_%s_ (a int)', h);
END $$;
SELECT regexp_replace(relname, '\d+', 'N') AS relname, amname FROM pg_class c JOIN pg_am am ON am.oid = c.relam
WHERE relnamespace = 'repack'::regnamespace ORDER BY relname COLLATE "C", amname;
RESET default_table_access_method;

-- relam changed alone
CREATE TABLE changed (a int) USING zen;
INSERT INTO changed VALUES (1);
UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'heap') WHERE oid = 'changed'::regclass;
SELECT * FROM refused('DROP TABLE changed');
UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'zen') WHERE oid = 'changed'::regclass;
SELECT * FROM changed;
DROP TABLE changed;
SELECT * FROM zen_verify_pool();
RESET allow_system_table_mods;
\set VERBOSITY terse
DROP SCHEMA sw, repack CASCADE;
