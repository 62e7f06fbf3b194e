-- Stock-Level (2.8.1).  Variable from run: warehouses.
\set w random(1, :warehouses)
\set d random(1, 10)
\set threshold random(10, 20)
SELECT stock_level_tx(:w, :d, :threshold);
