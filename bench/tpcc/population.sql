-- Functions that fill the tables as clause 4.3 says; bench/tpcc/load calls them and drops them.
-- psql variable: schema.
--
-- One set-based INSERT per table and warehouse.  Random strings are cut from a random text of 64 kB that each
-- call makes anew: a random string per character would cost more than the rest of the load.
\set ON_ERROR_STOP on
SET search_path = :"schema";

-- A random whole number in lo .. hi.
CREATE FUNCTION uniform(lo int, hi int) RETURNS int LANGUAGE sql VOLATILE AS
$$ SELECT lo + floor(random() * (hi - lo + 1))::int $$;

-- Clause 2.1.6, with the constant C of the load.
CREATE FUNCTION nurand(a int, lo int, hi int, c int) RETURNS int LANGUAGE sql VOLATILE AS
$$ SELECT ((uniform(0, a) | uniform(lo, hi)) + c) % (hi - lo + 1) + lo $$;

CREATE FUNCTION letters() RETURNS bytea LANGUAGE sql VOLATILE AS
$$ SELECT string_agg(substr('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789', uniform(1, 62), 1),
                     '')::bytea
   FROM generate_series(1, 65536) $$;

-- A random a-string of lo .. hi characters (clause 4.3.2.2); hi is at most 536.
CREATE FUNCTION a_string(letters bytea, lo int, hi int) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT encode(substr(letters, uniform(1, 65000), uniform(lo, hi)), 'escape') $$;

CREATE FUNCTION n_string(len int) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT lpad(floor(random() * 10::numeric ^ len)::numeric(20,0)::text, len, '0') $$;

-- With chance 1 in 10, the string with ORIGINAL somewhere in it (clause 4.3.3.1).
CREATE FUNCTION maybe_original(s text) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN random() < 0.1 THEN overlay(s PLACING 'ORIGINAL' FROM uniform(1, length(s) - 7)) ELSE s END $$;

CREATE PROCEDURE load_item() LANGUAGE plpgsql AS $$
DECLARE
    l bytea := letters();
BEGIN
    INSERT INTO item (i_id, i_im_id, i_name, i_price, i_data)
    SELECT i, uniform(1, 10000), a_string(l, 14, 24), uniform(100, 10000) / 100.0, maybe_original(data)
    FROM (SELECT i, a_string(l, 26, 50) AS data FROM generate_series(1, 100000) i) t;
END $$;

CREATE PROCEDURE load_warehouse(w int) LANGUAGE plpgsql AS $$
DECLARE
    l bytea := letters();
BEGIN
    INSERT INTO warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd)
    VALUES (w, a_string(l, 6, 10), a_string(l, 10, 20), a_string(l, 10, 20), a_string(l, 10, 20),
            chr(uniform(65, 90)) || chr(uniform(65, 90)), n_string(4) || '11111', uniform(0, 2000) / 10000.0, 300000);

    INSERT INTO district (d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd,
                          d_next_o_id)
    SELECT w, d, a_string(l, 6, 10), a_string(l, 10, 20), a_string(l, 10, 20), a_string(l, 10, 20),
           chr(uniform(65, 90)) || chr(uniform(65, 90)), n_string(4) || '11111', uniform(0, 2000) / 10000.0, 30000, 3001
    FROM generate_series(1, 10) d;
END $$;

CREATE PROCEDURE load_stock(w int) LANGUAGE plpgsql AS $$
DECLARE
    l bytea := letters();
BEGIN
    INSERT INTO stock (s_w_id, s_i_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                       s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt,
                       s_data)
    SELECT w, i, uniform(10, 100), a_string(l, 24, 24), a_string(l, 24, 24), a_string(l, 24, 24),
           a_string(l, 24, 24), a_string(l, 24, 24), a_string(l, 24, 24), a_string(l, 24, 24),
           a_string(l, 24, 24), a_string(l, 24, 24), a_string(l, 24, 24), 0, 0, 0, maybe_original(data)
    FROM (SELECT i, a_string(l, 26, 50) AS data FROM generate_series(1, 100000) i) t;
END $$;

-- Customers 1 .. 1000 of a district bear each of the 1,000 last names once, the others random ones.
CREATE PROCEDURE load_customer(w int, c_for_last int) LANGUAGE plpgsql AS $$
DECLARE
    l bytea := letters();
BEGIN
    INSERT INTO customer (c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city,
                          c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance,
                          c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data)
    SELECT w, d, c, a_string(l, 8, 16), 'OE', last_name(n), a_string(l, 10, 20), a_string(l, 10, 20),
           a_string(l, 10, 20), chr(uniform(65, 90)) || chr(uniform(65, 90)), n_string(4) || '11111', n_string(16),
           now(),
           CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000, uniform(0, 5000) / 10000.0, -10, 10, 1, 0,
           a_string(l, 300, 500)
    FROM (SELECT d, c, CASE WHEN c <= 1000 THEN c - 1 ELSE nurand(255, 0, 999, c_for_last) END AS n
          FROM generate_series(1, 10) d, generate_series(1, 3000) c) t;

    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    SELECT c, d, w, d, w, now(), 10, a_string(l, 12, 24)
    FROM generate_series(1, 10) d, generate_series(1, 3000) c;
END $$;

-- The customers of a district order once each, in random order; the last 900 orders are not delivered yet.
CREATE PROCEDURE load_orders(w int) LANGUAGE plpgsql AS $$
DECLARE
    l bytea := letters();
BEGIN
    WITH o AS (
        INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
        SELECT w, d, o, c, now(), CASE WHEN o < 2101 THEN uniform(1, 10) END, uniform(5, 15), 1
        FROM (SELECT d, c, row_number() OVER (PARTITION BY d ORDER BY random()) AS o
              FROM generate_series(1, 10) d, generate_series(1, 3000) c) t
        RETURNING o_d_id AS d, o_id AS o, o_entry_d AS entry_d, o_ol_cnt AS lines
    ), n AS (
        INSERT INTO new_order (no_w_id, no_d_id, no_o_id)
        SELECT w, d, o FROM o WHERE o >= 2101
    )
    INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
                            ol_quantity, ol_amount, ol_dist_info)
    SELECT w, d, o, line, uniform(1, 100000), w, CASE WHEN o < 2101 THEN entry_d END, 5,
           CASE WHEN o < 2101 THEN 0 ELSE uniform(1, 999999) / 100.0 END, a_string(l, 24, 24)
    FROM o, generate_series(1, lines) line;
END $$;
