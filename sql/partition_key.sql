--
-- partition_key: zen_set_partition_key() declares the column by which zen.numa = soft divides a table's rows. It is a
-- label of the column, and no more than that where there is one NUMA node.
--
CREATE SCHEMA pk;
SET search_path = pk, public;
CREATE VIEW keys AS SELECT objname, label FROM pg_seclabels
  WHERE provider = 'zen' AND objname ~ '^[abc]\.' ORDER BY 1;
CREATE TABLE a (id int, w int, name varchar(20), x xml, PRIMARY KEY (w, id)) USING zen;
CREATE TABLE h (id int PRIMARY KEY) USING heap;
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);

-- one key, replaced and taken away, with the transaction
SELECT zen_set_partition_key('a', 'w');
TABLE keys;
SELECT zen_set_partition_key('a', 'name');
TABLE keys;
BEGIN;
SELECT zen_set_partition_key('a', NULL);
TABLE keys;
ROLLBACK;
TABLE keys;
SELECT zen_set_partition_key('a', 'w'), zen_set_partition_key('a', 'w');
INSERT INTO a SELECT g, g % 3, 'n' || g FROM generate_series(1, 9) g;
SELECT count(*) FROM a WHERE w = 1;

-- what is none
DO $$
DECLARE cmd text; d text; h text;
BEGIN
  FOREACH cmd IN ARRAY ARRAY[
    $c$SELECT zen_set_partition_key('a', 'nowhere')$c$,
    $c$SELECT zen_set_partition_key('a', 'ctid')$c$,
    $c$SELECT zen_set_partition_key('a', 'x')$c$,
    $c$SELECT zen_set_partition_key('h', 'id')$c$,
    $c$SELECT zen_set_partition_key('p', 'id')$c$,
    $c$SELECT zen_set_partition_key('a_pkey', 'w')$c$,
    $c$SELECT zen_set_partition_key(NULL, 'w')$c$,
    $c$SECURITY LABEL FOR zen ON TABLE a IS 'partition key'$c$,
    $c$SECURITY LABEL FOR zen ON COLUMN a.id IS 'partition key'$c$,
    $c$SECURITY LABEL FOR zen ON COLUMN a.w IS 'secret'$c$,
    $c$SECURITY LABEL FOR zen ON COLUMN a.x IS 'partition key'$c$]
  LOOP
    BEGIN
      EXECUTE cmd;
      RAISE INFO 'no error: %', cmd;
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
      RAISE INFO '% % [%] [%]', SQLSTATE, SQLERRM, d, h;
    END;
  END LOOP;
END $$;

-- only who owns the table
CREATE ROLE pk_owner;
CREATE ROLE pk_other;
GRANT USAGE, CREATE ON SCHEMA pk TO pk_owner, pk_other;
SET ROLE pk_owner;
CREATE TABLE b (id int PRIMARY KEY) USING zen;
SELECT zen_set_partition_key('b', 'id');
SET ROLE pk_other;
SELECT zen_set_partition_key('b', NULL);
RESET ROLE;
TABLE keys;

-- SECURITY LABEL does the same; the key goes with its column and its table, and follows a new name
SECURITY LABEL FOR zen ON COLUMN a.w IS NULL;
SECURITY LABEL FOR zen ON COLUMN a.name IS 'partition key';
ALTER TABLE a RENAME name TO title;
ALTER TABLE a ALTER title TYPE xml USING NULL;
-- as pg_dump writes it then
SECURITY LABEL FOR zen ON COLUMN a.title IS 'partition key';
SELECT count(*) FROM a WHERE w = 1;
TABLE keys;
ALTER TABLE a DROP title;
TABLE keys;
DROP TABLE b;
TABLE keys;

-- a table that has left zen keeps its key, until that is taken away
CREATE TABLE c (id int) USING zen;
SELECT zen_set_partition_key('c', 'id');
ALTER TABLE c SET ACCESS METHOD heap;
TABLE keys;
SELECT zen_set_partition_key('c', NULL);
TABLE keys;

-- no partitions with one node
SELECT count(*) FROM _zen_numa_partitions();
SELECT count(*), sum(moves) FROM zen_stat_numa WHERE node = 0 AND moves > 0;
SET client_min_messages = warning;
DROP SCHEMA pk CASCADE;
DROP ROLE pk_owner, pk_other;
