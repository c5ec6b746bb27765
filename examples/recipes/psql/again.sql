-- Asks for the invoices of all orders that have none, in one statement:
--   BATCH='invoices of May' psql "$DATABASE_URL" -X -q -v ON_ERROR_STOP=1 -f again.sql
-- The unique key keeps an order from being asked for twice, by whoever runs this at the same time.
\getenv batch BATCH
select count(*) as tasks
from sched.enqueue_many((
    select coalesce(jsonb_agg(jsonb_build_object(
        'kind', 'invoice', 'args', jsonb_build_object('order', o.id), 'batch', :'batch', 'unique_key', 'order ' || o.id)), '[]')
    from orders as o
    where not exists (select from invoices as i where i.order_id = o.id)
)) \gset
\echo :tasks tasks in batch :batch
