-- What became of them, for a role with sched_auditor:
--   BATCH='invoices of May' psql "$DATABASE_URL" -X -f watch.sql
\getenv batch BATCH
select total, completed, cancelled + discarded as failed, round(100 * progress) as percent from sched.batch where batch = :'batch';
select id, args, status, attempt, error from sched.task where batch = :'batch' and status in ('cancelled', 'discarded', 'retryable');
