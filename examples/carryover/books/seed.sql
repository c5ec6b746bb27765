-- $1 open orders of very different balances: most owe something, a third is
-- settled, some were overpaid and carry a credit.
insert into books.orders (id, customer, total_cents, paid_cents)
select id,
       'customer ' || (id * 7919) % 9973,
       total,
       case id % 6
           when 0 then total
           when 1 then 0
           when 2 then total / 3
           when 3 then total
           when 4 then total + id % 500
           else total / 7 * 2
       end
from (select id, 1000 + (id * 104729) % 250000 as total from generate_series(1, $1::bigint) as id) as o
