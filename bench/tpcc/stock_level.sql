-- Stock-Level (2.8.1).  Variable from run: warehouses.
\set w case when :home then :client_id % :warehouses + 1 else random(1, :warehouses) end
\set d random(1, 10)
\set threshold random(10, 20)
SELECT stock_level_tx(:w, :d, :threshold);
