-- Delivery (2.7.1), in the foreground: the client waits for it.  Variable from run: warehouses.
\set w case when :home then :client_id % :warehouses + 1 else random(1, :warehouses) end
\set carrier random(1, 10)
SELECT delivery_tx(:w, :carrier);
