-- Order-Status (2.6.1): 60 % by last name.
-- Variables from run: warehouses, home, c_last and c_id (the constants C of NURand).
\set w case when :home then :client_id % :warehouses + 1 else random(1, :warehouses) end
\set d random(1, 10)
\set by_name random(1, 100) <= 60
\set last (((random(0, 255) | random(0, 999)) + :c_last) % 1000)
\set c case when :by_name then 0 else (((random(0, 1023) | random(1, 3000)) + :c_id) % 3000) + 1 end
SELECT * FROM order_status_tx(:w, :d, :c, :last);
