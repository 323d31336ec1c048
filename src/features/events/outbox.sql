-- The outbox: changes of documents until the relay has published them, a tenant's in the order of `seq`. That is drawn
-- while the document's row is locked: so the versions of one document, and what was written after something else was
-- acknowledged, keep their order. Transaction ids would not keep it, since a transaction has its id before its locks;
-- and a long one, in any database of the server, would hold back all changes.
create table tenon.outbox (
  tenant_id text not null default tenon.tenant(),
  seq bigint generated always as identity,
  workspace_id text not null default tenon.workspace(),
  -- The event's id, the same however often it is published.
  event_id uuid not null default gen_random_uuid(),
  collection text not null,
  verb text not null check (verb in ('created', 'updated', 'deleted')),
  document_id uuid not null,
  version bigint not null,
  -- The caller's fields as they are now; null if the document is deleted. As text: the database does not look into it.
  document json,
  -- Of the document as text, so that the relay takes no more documents than it has room for.
  bytes integer not null default 0,
  -- True if anon keys could read the collection when it was changed. Replayed later, when they may, it would show
  -- documents that they never might have seen.
  anon_reads boolean not null default false,
  -- How many executions began one by the event of another before this change: beyond a limit, it begins none.
  chain_depth smallint not null default coalesce(nullif(current_setting('tenon.chain_depth', true), ''), '0')::smallint,
  at timestamptz(3) not null default now(),
  -- Tenants take turns: a million changes of one are not before the next one's first.
  primary key (tenant_id, seq)
);
create policy data on tenon.outbox for insert to tenon_anon, tenon_service
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant insert on tenon.outbox to tenon_anon, tenon_service;
-- The relay publishes the changes of all tenants, and sees nothing else of theirs.
call tenon.allow('tenon_relay', 'tenon.outbox', 'all', 'select, delete');
