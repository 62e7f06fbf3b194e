-- Delivery (2.7.1), in the foreground: the client waits for it.  Variable from run: warehouses.
\set w random(1, :warehouses)
\set carrier random(1, 10)
SELECT delivery_tx(:w, :carrier);
