--
-- sequence: numbers of sequences in zen tables: what is logged ahead is not taken, and changes nothing that users see.
--
CREATE SCHEMA sequence;
SET search_path = sequence, public;
SET zen.sequence_log_ahead = 1000;

-- a store of numbers remains after single inserts; a value is never skipped
CREATE TABLE sq (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text) USING zen;
INSERT INTO sq (v) VALUES ('first'), ('second');
INSERT INTO sq (v) VALUES ('third') RETURNING id;
SELECT last_value, log_cnt BETWEEN 1 AND 1000 AS log_cnt, is_called FROM sq_id_seq;
SELECT setval('sq_id_seq', 100);
INSERT INTO sq (v) VALUES ('after setval') RETURNING id;
SELECT last_value FROM sq_id_seq;
ALTER SEQUENCE sq_id_seq RESTART 500 INCREMENT 10;
INSERT INTO sq (v) VALUES ('after restart') RETURNING id;
INSERT INTO sq (v) VALUES ('and once more') RETURNING id;
SELECT last_value FROM sq_id_seq;
BEGIN;
INSERT INTO sq (v) VALUES ('rolled back') RETURNING id;
ROLLBACK;
BEGIN;
ALTER SEQUENCE sq_id_seq RESTART 9000;
INSERT INTO sq (v) VALUES ('rolled back') RETURNING id;
ROLLBACK;
INSERT INTO sq (v) VALUES ('numbers do not roll back, RESTART does') RETURNING id;
BEGIN;
SAVEPOINT a;
INSERT INTO sq (v) VALUES ('in a savepoint') RETURNING id;
ROLLBACK TO a;
INSERT INTO sq (v) VALUES ('after it') RETURNING id;
COMMIT;
TRUNCATE sq RESTART IDENTITY;
INSERT INTO sq (v) VALUES ('after truncate') RETURNING id;
SELECT lastval(), currval('sq_id_seq');

-- sequences with few numbers: none beyond the last, and little of them ahead
CREATE SEQUENCE few MAXVALUE 3;
CREATE SEQUENCE round MAXVALUE 3 CYCLE;
CREATE SEQUENCE downward INCREMENT -1 MINVALUE -9223372036854775808 START -9223372036854775806;
CREATE SEQUENCE wide INCREMENT 4611686018427387904 MINVALUE -9223372036854775808 START -9223372036854775808;
CREATE TABLE sf (seq text, n bigint) USING zen;
INSERT INTO sf VALUES ('few', nextval('few'));
INSERT INTO sf VALUES ('few', nextval('few'));
INSERT INTO sf VALUES ('few', nextval('few'));
INSERT INTO sf VALUES ('few', nextval('few'));
INSERT INTO sf VALUES ('round', nextval('round'));
INSERT INTO sf VALUES ('round', nextval('round'));
INSERT INTO sf VALUES ('round', nextval('round'));
INSERT INTO sf VALUES ('round', nextval('round'));
INSERT INTO sf VALUES ('downward', nextval('downward'));
INSERT INTO sf VALUES ('downward', nextval('downward'));
INSERT INTO sf VALUES ('downward', nextval('downward'));
INSERT INTO sf VALUES ('downward', nextval('downward'));
INSERT INTO sf VALUES ('wide', nextval('wide'));
INSERT INTO sf VALUES ('wide', nextval('wide'));
INSERT INTO sf VALUES ('wide', nextval('wide'));
INSERT INTO sf VALUES ('wide', nextval('wide'));
INSERT INTO sf VALUES ('wide', nextval('wide'));
SELECT seq, array_agg(n) FROM sf GROUP BY seq ORDER BY seq;

-- those with a cache, temporary and unlogged ones, one made and dropped in the same transaction, a prepared transaction
CREATE SEQUENCE cached CACHE 50;
CREATE TEMP SEQUENCE fleeting;
CREATE UNLOGGED SEQUENCE unlogged;
INSERT INTO sf VALUES ('cached', nextval('cached'));
INSERT INTO sf VALUES ('cached', nextval('cached'));
SELECT last_value FROM cached;
INSERT INTO sf VALUES ('fleeting', nextval('fleeting'));
INSERT INTO sf VALUES ('unlogged', nextval('unlogged'));
BEGIN;
CREATE SEQUENCE brief;
INSERT INTO sf VALUES ('brief', nextval('brief'));
DROP SEQUENCE brief;
COMMIT;
BEGIN;
INSERT INTO sf VALUES ('prepared', nextval('cached'));
PREPARE TRANSACTION 'sequence';
COMMIT PREPARED 'sequence';
SELECT seq, n FROM sf WHERE seq IN ('cached', 'fleeting', 'unlogged', 'brief', 'prepared') ORDER BY seq, n;

-- several sequences in one transaction, many numbers in one statement
CREATE TABLE sm (a serial, b serial, c serial) USING zen;
INSERT INTO sm DEFAULT VALUES;
INSERT INTO sm SELECT FROM generate_series(1, 3000);
SELECT count(*), max(a), max(b), max(c) FROM sm;
DROP TABLE sq, sf, sm;
DROP SEQUENCE few, round, downward, wide, cached, unlogged, fleeting;
RESET zen.sequence_log_ahead;
