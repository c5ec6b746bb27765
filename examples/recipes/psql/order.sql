-- Takes an order with its task, both or neither:
--   CUSTOMER=Ann CENTS=9950 psql "$DATABASE_URL" -X -q -v ON_ERROR_STOP=1 -f order.sql
\getenv customer CUSTOMER
\getenv cents CENTS
begin;
insert into orders (customer, cents) values (:'customer', :'cents') returning id \gset
select sched.enqueue('invoice', jsonb_build_object('order', :id)) as task \gset
commit;
\echo order :id taken, task :task will write its invoice
