-- Trees of a type whose keys are equal in another way than those of the type that it can be taken for.
-- Needs citext.
CREATE SCHEMA zentree_citext;
SET search_path = zentree_citext;
SET zen.default_index = zentree;
SET default_table_access_method = zen;
CREATE EXTENSION citext;
-- constraints get a btree, which is said
CREATE TABLE of_column (a citext PRIMARY KEY, b int UNIQUE);
CREATE TABLE of_table (a citext, b int, c serial PRIMARY KEY, UNIQUE (b, a));
CREATE TABLE of_like (LIKE of_table, UNIQUE (a));
CREATE TABLE added (b int PRIMARY KEY, d citext);
ALTER TABLE added ADD a citext UNIQUE, ADD c int UNIQUE, ADD UNIQUE (b, a);
ALTER TABLE added ADD UNIQUE (d);
SELECT relname, amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam
	WHERE relkind = 'i' AND relnamespace = 'zentree_citext'::regnamespace AND relname ~ '^(of_|added)'
	ORDER BY relname COLLATE "C";
CREATE TABLE ci (a citext);
CREATE INDEX ON ci USING zentree (a);
SET client_min_messages = warning;
SELECT public.zen_copy_operator_classes();
ALTER TABLE ci ADD PRIMARY KEY (a);
CREATE INDEX ON ci USING zentree (a text_ops);
INSERT INTO ci VALUES ('A');
INSERT INTO ci VALUES ('a');
CREATE TABLE of_after (a citext PRIMARY KEY);
SELECT amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE relname = 'of_after_pkey';
DROP SCHEMA zentree_citext CASCADE;
