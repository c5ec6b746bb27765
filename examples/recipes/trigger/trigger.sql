-- Enqueues an invoice for every order, whoever inserts it and however. Run it
-- as a role that has sched_producer: with SECURITY DEFINER the functions have
-- its rights, so whoever inserts an order needs none in the schema sched.

-- Once for each statement, so that an insert or COPY of many rows is few calls.
create function enqueue_invoices() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    tasks jsonb;
begin
    -- One call takes 100,000 tasks at most, and a statement may insert more rows, or none.
    for tasks in
        select jsonb_agg(jsonb_build_object('kind', 'invoice', 'args', jsonb_build_object('order', id)) order by id)
        from (select id, (row_number() over (order by id) - 1) / 10000 as part from taken) as numbered
        group by part
        order by part
    loop
        perform sched.enqueue_many(tasks);
    end loop;
    return null;
end;
$$;
revoke execute on function enqueue_invoices() from public;

create trigger enqueue_invoices after insert on orders
    referencing new table as taken
    for each statement execute function enqueue_invoices();

-- Once for each row, where few rows change and a condition decides.
alter table orders add column paid_at timestamptz;

create function enqueue_receipt() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform sched.enqueue('receipt', jsonb_build_object('order', new.id));
    return null;
end;
$$;
revoke execute on function enqueue_receipt() from public;

create trigger enqueue_receipt after update of paid_at on orders
    for each row when (old.paid_at is null and new.paid_at is not null)
    execute function enqueue_receipt();
