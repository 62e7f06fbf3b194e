-- The five transactions (clauses 2.4 to 2.8), one call each; callers set search_path to the schema.
-- psql variable: schema.
--
-- Input comes from the caller, as from a terminal.  Every caller locks in the same order (customer before
-- district before warehouse, stock by key), so deadlocks are rare; none is assumed away.
\set ON_ERROR_STOP on
SET search_path = :"schema";

-- Last name number 0 .. 999 as three syllables (clause 4.3.2.3).
CREATE FUNCTION last_name(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT s[n / 100 + 1] || s[n / 10 % 10 + 1] || s[n % 10 + 1]
    FROM (VALUES ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])) v(s)
$$;

-- New-Order (2.4).  A line with an unknown item rolls everything back, and the call still succeeds: that is
-- why this is a procedure.  The lines are taken together; two lines of one item from one warehouse are one
-- withdrawal from its stock, which leaves the quantity that one after the other would leave.
CREATE PROCEDURE new_order_tx(p_w int, p_d int, p_c int, p_lines int, p_item int[], p_supply int[], p_qty int[],
                              INOUT order_id int DEFAULT NULL, INOUT total numeric DEFAULT NULL,
                              INOUT brands text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_d_tax district.d_tax%TYPE;
    v_w_tax warehouse.w_tax%TYPE;
    v_cust  record;
    v_found int;
BEGIN
    UPDATE district SET d_next_o_id = d_next_o_id + 1
    WHERE d_w_id = p_w AND d_id = p_d
    RETURNING d_next_o_id - 1, d_tax INTO order_id, v_d_tax;

    SELECT w_tax INTO v_w_tax FROM warehouse WHERE w_id = p_w;
    SELECT c_discount, c_last, c_credit INTO v_cust
    FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;

    INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    VALUES (p_w, p_d, order_id, p_c, now(), NULL, p_lines,
            (p_w = ALL (p_supply[1:p_lines]))::int);
    INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (p_w, p_d, order_id);

    WITH line AS (
        SELECT n, item, supply, qty, i_price * qty AS amount, i_data
        FROM unnest(p_item[1:p_lines], p_supply[1:p_lines], p_qty[1:p_lines])
             WITH ORDINALITY AS l(item, supply, qty, n)
             JOIN item ON i_id = item
    ), taken AS (
        UPDATE stock
        SET s_quantity = s_quantity - qty + CASE WHEN s_quantity >= qty + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + qty,
            s_order_cnt = s_order_cnt + times,
            s_remote_cnt = s_remote_cnt + CASE WHEN supply = p_w THEN 0 ELSE times END
        FROM (SELECT supply, item, sum(qty)::int AS qty, count(*)::int AS times
              FROM line GROUP BY supply, item ORDER BY supply, item) t
        WHERE s_w_id = supply AND s_i_id = item
        RETURNING s_w_id, s_i_id, s_data,
                  (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                         s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[p_d] AS dist
    ), entered AS (
        INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
                                ol_quantity, ol_amount, ol_dist_info)
        SELECT p_w, p_d, order_id, n, item, supply, NULL, qty, amount, dist
        FROM line JOIN taken ON s_w_id = supply AND s_i_id = item
    )
    SELECT count(*), sum(amount),
           string_agg(CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' THEN 'B' ELSE 'G' END, ''
                      ORDER BY n)
    INTO v_found, total, brands
    FROM line JOIN taken ON s_w_id = supply AND s_i_id = item;

    IF v_found < p_lines THEN
        ROLLBACK;
        order_id := NULL;
        total := NULL;
        brands := 'item number is not valid';
    ELSE
        total := round(total * (1 - v_cust.c_discount) * (1 + v_w_tax + v_d_tax), 2);
    END IF;
END $$;

-- Payment (2.5) by a customer of p_c_w, p_c_d to district p_d of warehouse p_w.  p_c = 0: by last name number
-- p_last, the middle one of that name.  The hot rows, district and warehouse, come last.
CREATE FUNCTION payment_tx(p_w int, p_d int, p_c_w int, p_c_d int, p_c int, p_last int, p_cents int,
                           OUT customer_id int, OUT balance numeric, OUT credit char(2), OUT data text)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount history.h_amount%TYPE := p_cents / 100.0;
    v_ids    int[];
    v_d_name district.d_name%TYPE;
    v_w_name warehouse.w_name%TYPE;
BEGIN
    customer_id := p_c;
    IF p_c = 0 THEN
        v_ids := ARRAY(SELECT c_id FROM customer
                       WHERE c_w_id = p_c_w AND c_d_id = p_c_d AND c_last = last_name(p_last) ORDER BY c_first);
        customer_id := v_ids[(cardinality(v_ids) + 1) / 2];
    END IF;

    UPDATE customer
    SET c_balance = c_balance - v_amount,
        c_ytd_payment = c_ytd_payment + v_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE c_credit
                     WHEN 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d, p_w, v_amount, c_data), 500)
                     ELSE c_data
                 END
    WHERE c_w_id = p_c_w AND c_d_id = p_c_d AND c_id = customer_id
    RETURNING c_balance, c_credit, CASE c_credit WHEN 'BC' THEN left(c_data, 200) END
    INTO balance, credit, data;

    UPDATE district SET d_ytd = d_ytd + v_amount WHERE d_w_id = p_w AND d_id = p_d RETURNING d_name INTO v_d_name;
    UPDATE warehouse SET w_ytd = w_ytd + v_amount WHERE w_id = p_w RETURNING w_name INTO v_w_name;

    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (customer_id, p_c_d, p_c_w, p_d, p_w, now(), v_amount, v_w_name || '    ' || v_d_name);
END $$;

-- Order-Status (2.6): the lines of the customer's last order.  p_c = 0: by last name, as above.
CREATE FUNCTION order_status_tx(p_w int, p_d int, p_c int, p_last int)
RETURNS TABLE (first text, last text, balance numeric, order_id int, entry_d timestamptz, carrier int, item int,
               supply int, qty int, amount numeric, delivery_d timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    v_ids int[];
BEGIN
    IF p_c = 0 THEN
        v_ids := ARRAY(SELECT c_id FROM customer
                       WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = last_name(p_last) ORDER BY c_first);
        p_c := v_ids[(cardinality(v_ids) + 1) / 2];
    END IF;

    SELECT c_first, c_last, c_balance INTO first, last, balance
    FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
    SELECT o_id, o_entry_d, o_carrier_id INTO order_id, entry_d, carrier
    FROM orders WHERE o_w_id = p_w AND o_d_id = p_d AND o_c_id = p_c ORDER BY o_id DESC LIMIT 1;

    RETURN QUERY
    SELECT first, last, balance, order_id, entry_d, carrier, ol_i_id, ol_supply_w_id, ol_quantity,
           ol_amount::numeric, ol_delivery_d
    FROM order_line WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id = order_id;
END $$;

-- Delivery (2.7): the oldest undelivered order of each district.  Returns how many there were.
CREATE FUNCTION delivery_tx(p_w int, p_carrier int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_order     int;
    v_customer  int;
    v_amount    numeric;
    v_delivered int := 0;
BEGIN
    FOR v_d IN 1 .. 10 LOOP
        SELECT no_o_id INTO v_order FROM new_order
        WHERE no_w_id = p_w AND no_d_id = v_d ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d AND no_o_id = v_order;

        UPDATE orders SET o_carrier_id = p_carrier
        WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_order
        RETURNING o_c_id INTO v_customer;

        WITH delivered AS (
            UPDATE order_line SET ol_delivery_d = now()
            WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_order
            RETURNING ol_amount
        )
        SELECT sum(ol_amount) INTO v_amount FROM delivered;

        UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = p_w AND c_d_id = v_d AND c_id = v_customer;
        v_delivered := v_delivered + 1;
    END LOOP;
    RETURN v_delivered;
END $$;

-- Stock-Level (2.8): how many items of the district's last 20 orders are low in stock.
CREATE FUNCTION stock_level_tx(p_w int, p_d int, p_threshold int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_next int;
    v_low  bigint;
BEGIN
    SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w AND d_id = p_d;
    SELECT count(DISTINCT s_i_id) INTO v_low
    FROM order_line JOIN stock ON s_w_id = p_w AND s_i_id = ol_i_id
    WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
      AND s_quantity < p_threshold;
    RETURN v_low;
END $$;
