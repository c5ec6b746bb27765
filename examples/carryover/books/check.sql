-- Audits the books against the orders and against sched's record of the tasks.
-- The amount due is computed here a second time, in numeric: a balance in the
-- shop's favour bears half a percent of interest, a credit bears none.
with due as (
    select id, status, total_cents - paid_cents
               + case when total_cents > paid_cents then round((total_cents - paid_cents) * 0.005) else 0 end as cents
    from books.orders
), carried as (
    select order_id, count(*) as times, sum(amount_cents) as cents
    from books.carried
    group by order_id
), attempt as (
    select task_id, attempt, count(*) as orders
    from books.carried
    group by task_id, attempt
), ledger as (
    select due.id, due.status, due.cents as due, coalesce(carried.times, 0) as times, carried.cents as carried
    from due left join carried on carried.order_id = due.id
)
select
    (select count(*) from ledger)                                                            as orders,
    (select count(*) from ledger where times = 1 and carried = due and status = 'CARRIED')   as once,
    (select count(*) from ledger where times = 0)                                            as lost,
    (select count(*) from ledger where times > 1)                                            as twice,
    (select count(*) from ledger where times = 1 and (carried <> due or status <> 'CARRIED')) as wrong,
    (select count(*) from carried where not exists (select from books.orders o where o.id = carried.order_id)) as strays,
    (select coalesce(sum(c.orders), 0)::bigint from attempt c where not exists (
        select from sched.task t
        where t.id = c.task_id and t.status = 'completed' and t.attempt = c.attempt))        as unproven,
    (select coalesce(sum(due), 0)::bigint from ledger)                                       as due_cents,
    (select coalesce(sum(amount_cents), 0)::bigint from books.carried)                       as carried_cents,
    (select count(*) from sched.task where kind = 'carryover')                               as tasks,
    (select count(*) from sched.task where kind = 'carryover' and status = 'completed')      as completed,
    (select count(*) from sched.attempt a join sched.task t on t.id = a.task_id
     where t.kind = 'carryover' and a.outcome = 'rescued')                                   as rescued,
    (select count(*) from sched.attempt a join sched.task t on t.id = a.task_id
     where t.kind = 'carryover' and a.outcome = 'retry')                                     as retried,
    (select count(*) from books.audit)                                                       as started
