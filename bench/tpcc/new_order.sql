-- New-Order (2.4.1).  Variables from run: warehouses, home, c_id and c_item (the constants C of NURand).
\set w case when :home then :client_id % :warehouses + 1 else random(1, :warehouses) end
\set d random(1, 10)
\set c (((random(0, 1023) | random(1, 3000)) + :c_id) % 3000) + 1
\set lines random(5, 15)
-- 1 % of the orders end with item 0, which does not exist.
\set bad case when random(1, 100) = 1 then :lines else 0 end
\set i1 (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1
\set i2 (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1
\set i3 (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1
\set i4 (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1
\set i5 case when :bad = 5 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i6 case when :bad = 6 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i7 case when :bad = 7 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i8 case when :bad = 8 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i9 case when :bad = 9 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i10 case when :bad = 10 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i11 case when :bad = 11 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i12 case when :bad = 12 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i13 case when :bad = 13 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i14 case when :bad = 14 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
\set i15 case when :bad = 15 then 0 else (((random(0, 8191) | random(1, 100000)) + :c_item) % 100000) + 1 end
-- 1 % of the lines are supplied by another warehouse, if there is one.
\set s1 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s2 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s3 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s4 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s5 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s6 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s7 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s8 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s9 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s10 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s11 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s12 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s13 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s14 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set s15 case when :warehouses > 1 and random(1, 100) = 1 \
	then (:w + random(0, :warehouses - 2)) % :warehouses + 1 else :w end
\set q1 random(1, 10)
\set q2 random(1, 10)
\set q3 random(1, 10)
\set q4 random(1, 10)
\set q5 random(1, 10)
\set q6 random(1, 10)
\set q7 random(1, 10)
\set q8 random(1, 10)
\set q9 random(1, 10)
\set q10 random(1, 10)
\set q11 random(1, 10)
\set q12 random(1, 10)
\set q13 random(1, 10)
\set q14 random(1, 10)
\set q15 random(1, 10)
CALL new_order_tx(:w, :d, :c, :lines,
    ARRAY[:i1, :i2, :i3, :i4, :i5, :i6, :i7, :i8, :i9, :i10, :i11, :i12, :i13, :i14, :i15]::int[],
    ARRAY[:s1, :s2, :s3, :s4, :s5, :s6, :s7, :s8, :s9, :s10, :s11, :s12, :s13, :s14, :s15]::int[],
    ARRAY[:q1, :q2, :q3, :q4, :q5, :q6, :q7, :q8, :q9, :q10, :q11, :q12, :q13, :q14, :q15]::int[]);
