-- Primary keys, the two secondary indexes and, if fk is true, the foreign keys (clause 1.4).
-- psql variables: schema, fk (true or false), index (access method of the secondary indexes).
\set ON_ERROR_STOP on
SET search_path = :"schema";

ALTER TABLE warehouse  ADD PRIMARY KEY (w_id);
ALTER TABLE district   ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE customer   ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
ALTER TABLE new_order  ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE orders     ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);
ALTER TABLE item       ADD PRIMARY KEY (i_id);
ALTER TABLE stock      ADD PRIMARY KEY (s_w_id, s_i_id);

CREATE INDEX customer_name ON customer USING :"index" (c_w_id, c_d_id, c_last, c_first);
CREATE UNIQUE INDEX orders_customer ON orders USING :"index" (o_w_id, o_d_id, o_c_id, o_id);

\if :fk
ALTER TABLE district   ADD FOREIGN KEY (d_w_id) REFERENCES warehouse;
ALTER TABLE customer   ADD FOREIGN KEY (c_w_id, c_d_id) REFERENCES district;
ALTER TABLE history    ADD FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer,
                       ADD FOREIGN KEY (h_w_id, h_d_id) REFERENCES district;
ALTER TABLE orders     ADD FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer;
ALTER TABLE new_order  ADD FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders;
ALTER TABLE stock      ADD FOREIGN KEY (s_w_id) REFERENCES warehouse,
                       ADD FOREIGN KEY (s_i_id) REFERENCES item;
ALTER TABLE order_line ADD FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders,
                       ADD FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock;
\endif
