-- The shop of every recipe. It knows nothing of sched.
create table orders (
    id       bigint generated always as identity primary key,
    customer text    not null,
    cents    integer not null
);

-- On purpose there is no unique constraint on order_id: an invoice written
-- twice must show, not be refused.
create table invoices (
    number   bigint generated always as identity primary key,
    order_id bigint  not null,
    cents    integer not null
);
