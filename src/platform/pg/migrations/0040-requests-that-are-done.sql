-- Whether what was asked has happened, where that stands in no row of its own: written in the same transaction.
alter table tenon.idempotency add column done boolean not null default false;
