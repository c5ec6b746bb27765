-- Writes an order's invoice and completes the task that asked for it, both or neither:
--   TASK=42 LEASE=w-3f9k2m7q4t1x.1764480000123456 ORDER=7 psql "$DATABASE_URL" -X -q -v ON_ERROR_STOP=1 -f invoice.sql
-- The task's id and lease are the headers Sched-Task-Id and Sched-Lease of the sidecar's request. Exit status 3: nothing was done.
\getenv task TASK
\getenv lease LEASE
\getenv order ORDER
begin;
insert into invoices (order_id, cents) select id, cents from orders where id = :'order' returning number \gset
select sched.complete(:'task', :'lease', jsonb_build_object('invoice', :number)) \g /dev/null
commit;
\echo invoice :number
