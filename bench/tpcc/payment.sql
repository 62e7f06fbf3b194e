-- Payment (2.5.1): 15 % by a customer of another warehouse, 60 % by last name.
-- Variables from run: warehouses, home, c_last and c_id (the constants C of NURand).
\set w case when :home then :client_id % :warehouses + 1 else random(1, :warehouses) end
\set d random(1, 10)
\set remote random(1, 100) <= 15
\set cw case when :remote and :warehouses > 1 then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set cd case when :remote then random(1, 10) else :d end
\set by_name random(1, 100) <= 60
\set last (((random(0, 255) | random(0, 999)) + :c_last) % 1000)
\set c case when :by_name then 0 else (((random(0, 1023) | random(1, 3000)) + :c_id) % 3000) + 1 end
\set cents random(100, 500000)
SELECT * FROM payment_tx(:w, :d, :cw, :cd, :c, :last, :cents);
