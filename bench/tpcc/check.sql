-- Consistency conditions of TPC-C, clause 3.3.2, on the tables of one schema.
--
--   psql -X -v schema=tpcc -f bench/tpcc/check.sql
--
-- Prints a line per condition, ok or the number of violations, and exits with status 3 if there is any.
-- One statement, hence one snapshot: it may run beside the load. About 1 s per warehouse.
-- 3.3.2.11 holds only before the first delivery and is left out; the last three are this project's.
\set ON_ERROR_STOP on
\set QUIET on
SET search_path = :"schema";
\pset footer off

WITH district_orders AS (
    SELECT o_w_id AS w, o_d_id AS d, max(o_id) AS max_id, sum(o_ol_cnt) AS lines
    FROM orders GROUP BY o_w_id, o_d_id
), district_new AS (
    SELECT no_w_id AS w, no_d_id AS d, max(no_o_id) AS max_id, min(no_o_id) AS min_id, count(*) AS n
    FROM new_order GROUP BY no_w_id, no_d_id
), order_lines AS (
    SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, count(*) AS n, count(ol_delivery_d) AS delivered,
           sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) AS amount
    FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id
), order_pairs AS (
    SELECT coalesce(o_w_id, w) AS w, coalesce(o_d_id, d) AS d, o_id, o_c_id AS c, o_ol_cnt, o_carrier_id,
           coalesce(n, 0) AS n, coalesce(delivered, 0) AS delivered, amount
    FROM orders FULL JOIN order_lines ON o_w_id = w AND o_d_id = d AND o_id = o
), district_paid AS (
    SELECT h_w_id AS w, h_d_id AS d, sum(h_amount) AS amount FROM history GROUP BY h_w_id, h_d_id
), customer_paid AS (
    SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS amount, count(*) AS n
    FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id
), customer_owes AS (
    SELECT w, d, c, sum(amount) AS amount FROM order_pairs WHERE delivered > 0 GROUP BY w, d, c
), customers AS (
    SELECT c_balance, c_ytd_payment, c_payment_cnt, coalesce(p.amount, 0) AS paid, coalesce(p.n, 0) AS payments,
           coalesce(o.amount, 0) AS owed
    FROM customer
         LEFT JOIN customer_paid p ON p.w = c_w_id AND p.d = c_d_id AND p.c = c_id
         LEFT JOIN customer_owes o ON o.w = c_w_id AND o.d = c_d_id AND o.c = c_id
), withdrawn AS (
    SELECT ol_supply_w_id AS w, ol_i_id AS i, sum(ol_quantity) AS qty, count(*) AS n,
           count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id) AS remote
    FROM order_line WHERE ol_o_id > 3000 GROUP BY ol_supply_w_id, ol_i_id
), conditions (condition, says, violations) AS (
    SELECT '3.3.2.1', 'W_YTD = sum(D_YTD)',
           (SELECT count(*) FROM warehouse
            WHERE w_ytd IS DISTINCT FROM (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id))
    UNION ALL
    SELECT '3.3.2.2', 'D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)',
           (SELECT count(*) FROM district
                   LEFT JOIN district_orders o ON o.w = d_w_id AND o.d = d_id
                   LEFT JOIN district_new n ON n.w = d_w_id AND n.d = d_id
            WHERE d_next_o_id - 1 IS DISTINCT FROM o.max_id OR n.max_id <> o.max_id)
    UNION ALL
    SELECT '3.3.2.3', 'max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER',
           (SELECT count(*) FROM district_new WHERE max_id - min_id + 1 <> n)
    UNION ALL
    SELECT '3.3.2.4', 'sum(O_OL_CNT) = rows of ORDER-LINE',
           (SELECT count(*) FROM district_orders o
                   FULL JOIN (SELECT w, d, sum(n) AS n FROM order_lines GROUP BY w, d) l USING (w, d)
            WHERE o.lines IS DISTINCT FROM l.n)
    UNION ALL
    SELECT '3.3.2.5', 'O_CARRIER_ID is null if and only if NEW-ORDER has the order',
           (SELECT count(*) FROM orders
                   FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
            WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL) OR o_id IS NULL)
    UNION ALL
    SELECT '3.3.2.6', 'O_OL_CNT = lines of the order',
           (SELECT count(*) FROM order_pairs WHERE o_ol_cnt IS DISTINCT FROM n)
    UNION ALL
    SELECT '3.3.2.7', 'OL_DELIVERY_D is null if and only if O_CARRIER_ID is',
           (SELECT count(*) FROM order_pairs
            WHERE delivered <> CASE WHEN o_carrier_id IS NULL THEN 0 ELSE n END)
    UNION ALL
    SELECT '3.3.2.8', 'W_YTD = sum(H_AMOUNT)',
           (SELECT count(*) FROM warehouse
                   FULL JOIN (SELECT w, sum(amount) AS amount FROM district_paid GROUP BY w) p ON w = w_id
            WHERE w_ytd IS DISTINCT FROM amount)
    UNION ALL
    SELECT '3.3.2.9', 'D_YTD = sum(H_AMOUNT)',
           (SELECT count(*) FROM district FULL JOIN district_paid ON w = d_w_id AND d = d_id
            WHERE d_ytd IS DISTINCT FROM amount)
    UNION ALL
    SELECT '3.3.2.10', 'C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT)',
           (SELECT count(*) FROM customers WHERE c_balance <> owed - paid)
    UNION ALL
    SELECT '3.3.2.12', 'C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT)',
           (SELECT count(*) FROM customers WHERE c_balance + c_ytd_payment <> owed)
    UNION ALL
    SELECT 'payments', 'C_PAYMENT_CNT = rows of HISTORY',
           (SELECT count(*) FROM customers WHERE c_payment_cnt <> payments)
    UNION ALL
    SELECT 'stock', 'S_YTD, S_ORDER_CNT, S_REMOTE_CNT = the lines entered since the load',
           (SELECT count(*) FROM stock FULL JOIN withdrawn ON w = s_w_id AND i = s_i_id
            WHERE (s_ytd, s_order_cnt, s_remote_cnt) IS DISTINCT FROM
                  (coalesce(qty, 0)::int, coalesce(n, 0)::int, coalesce(remote, 0)::int))
    UNION ALL
    SELECT 'rows', '10 districts, 30000 customers, 100000 stock rows per warehouse; 100000 items',
           (SELECT count(*) FROM (SELECT w_id AS w FROM warehouse) t
                   FULL JOIN (SELECT d_w_id AS w, count(*) AS d FROM district GROUP BY d_w_id) d USING (w)
                   FULL JOIN (SELECT c_w_id AS w, count(*) AS c FROM customer GROUP BY c_w_id) c USING (w)
                   FULL JOIN (SELECT s_w_id AS w, count(*) AS s FROM stock GROUP BY s_w_id) s USING (w)
            WHERE t.w IS NULL OR (d.d, c.c, s.s) IS DISTINCT FROM (10::bigint, 30000::bigint, 100000::bigint))
           + (SELECT (count(*) <> 100000)::int FROM item)
)
SELECT json_agg(conditions) AS result, sum(violations) > 0 AS violated FROM conditions
\gset

SELECT condition, says, CASE violations WHEN 0 THEN 'ok' ELSE violations || ' violations' END AS result
FROM json_to_recordset(:'result') AS r (condition text, says text, violations bigint);

\if :violated
DO $$ BEGIN RAISE 'the TPC-C tables are not consistent'; END $$;
\endif
