-- What the progress line shows. $1: the batch of the month-end.
select
    (select count(*) from books.carried)                    as carried,
    coalesce(b.total, 0)                                    as total,
    coalesce(b.available + b.scheduled, 0)                  as available,
    coalesce(b.running, 0)                                  as running,
    coalesce(b.retryable, 0)                                as retryable,
    coalesce(b.completed, 0)                                as completed,
    coalesce(b.cancelled + b.discarded, 0)                  as failed,
    (select count(*) from sched.attempt a
     where a.outcome = 'rescued')                           as rescued,
    (select count(*) from sched.worker w
     where w.state = 'active'
       and w.heartbeat_at > now() - interval '8 seconds')   as alive
from (select) as always left join sched.batch b on b.batch = $1
