-- The shop's own tables. They know nothing of sched.
create schema books;

create table books.orders (
    id          bigint primary key,
    customer    text   not null,
    total_cents bigint not null,
    paid_cents  bigint not null,
    status      text   not null default 'OPEN' check (status in ('OPEN', 'PROCESSING', 'CARRIED')),
    batch       bigint
);
create sequence books.batch;

-- The opening balances of the next month. On purpose there is no unique
-- constraint on order_id: a second carry must be found here, not refused.
create table books.carried (
    order_id     bigint not null,
    month        text   not null,
    amount_cents bigint not null,
    task_id      bigint not null,
    attempt      int    not null,
    carried_at   timestamptz not null default clock_timestamp()
);
create index carried_order on books.carried (order_id);

-- One row for each start of an attempt, written outside its transaction: it
-- stays when the attempt dies.
create table books.audit (
    at      timestamptz not null default clock_timestamp(),
    task_id bigint not null,
    attempt int    not null,
    app_pid int    not null,
    note    text   not null
);
