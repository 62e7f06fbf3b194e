SET default_table_access_method = zen;
--
-- tid_blocks: a table takes TIDs by blocks of 64, and rows fill them, whatever else is written in between and
-- however short sessions are.
--
CREATE SCHEMA tid_blocks;

-- as many tables as a session may write by turns
CREATE TABLE tid_blocks.p (id int) PARTITION BY LIST (id);
DO $$ BEGIN
  FOR g IN 0..149 LOOP
    EXECUTE format('CREATE TABLE tid_blocks.p%s PARTITION OF tid_blocks.p FOR VALUES IN (%s)', g, g);
  END LOOP;
END $$;
INSERT INTO tid_blocks.p SELECT g % 150 FROM generate_series(0, 150 * 64 - 1) g;
SELECT blocks, count(*) AS tables FROM zen_stat_tables WHERE schemaname = 'tid_blocks' AND relname LIKE 'p%' GROUP BY 1;

-- what a session leaves of a block is the next one's
CREATE PROCEDURE tid_blocks.alone() LANGUAGE plpgsql AS $$
BEGIN
  WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
                AND pid <> pg_backend_pid())
  LOOP
    PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
  END LOOP;
END $$;
CREATE TABLE tid_blocks.s (id int);
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 10);
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 10);
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 10);
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 10);
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 10);
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 10);
SELECT blocks, (SELECT count(*) FROM tid_blocks.s) AS rows FROM zen_stat_tables WHERE relid = 'tid_blocks.s'::regclass;
-- a table emptied meanwhile has no block left to give back
BEGIN;
INSERT INTO tid_blocks.s VALUES (1);
TRUNCATE tid_blocks.s;
INSERT INTO tid_blocks.s VALUES (2);
COMMIT;
\c -
CALL tid_blocks.alone();
INSERT INTO tid_blocks.s SELECT generate_series(1, 63);
SELECT blocks, (SELECT count(*) FROM tid_blocks.s) AS rows FROM zen_stat_tables WHERE relid = 'tid_blocks.s'::regclass;
SET client_min_messages = warning;
DROP SCHEMA tid_blocks CASCADE;
