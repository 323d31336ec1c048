-- The outbox: changes of documents and events of the platform until the relay has published them, per tenant in the order of `seq`. `seq` is assigned
-- while the row of the document is locked, so versions of one document, and writes that follow an acknowledged write, keep
-- their order. Transaction ids would not keep it, since a transaction gets its id before its locks; and a long transaction
-- in any database of the server would delay all changes.
create table tenon.outbox (
  tenant_id text not null default tenon.tenant(),
  seq bigint generated always as identity,
  workspace_id text not null default tenon.workspace(),
  -- The id of the event, stable across repeated publication.
  event_id uuid not null default gen_random_uuid(),
  -- Of an event of the platform, such as `platform.execution.completed`, or of an object; null for the change of a document.
  topic text check (topic ~ '^(platform|objects)[.]'),
  collection text,
  verb text check (verb in ('created', 'updated', 'deleted')),
  document_id uuid,
  version bigint,
  -- The fields of the document after the change; null if it is deleted. Of an event of the platform, its data. `json`, since
  -- the database does not query it.
  document json,
  -- Size of the document as text, which bounds the batches of the relay.
  bytes integer not null default 0,
  -- The end user who created the document; null if nobody did.
  owner text,
  -- The deleted document, if rules decide who may read it.
  deleted json,
  -- True if anon keys, and users, could read documents of the collection at the time of the change. Later replays do not show
  -- them other changes.
  anon_reads boolean not null default false,
  user_reads boolean not null default false,
  -- How many executions led to this change; above a limit it starts no further one.
  chain_depth smallint not null default coalesce(nullif(current_setting('tenon.chain_depth', true), ''), '0')::smallint,
  -- JSON array of the subjects behind it, who may not approve what it starts (`fourEyes`). Subscribers do not receive it.
  caused_by text default nullif(current_setting('tenon.caused_by', true), ''),
  -- The request and the trace that it belongs to (core/trace.ts). Subscribers receive the trace.
  trace text default nullif(current_setting('tenon.trace', true), ''),
  at timestamptz(3) not null default now(),
  -- The relay serves tenants in turn, so that a backlog of one does not delay the others.
  primary key (tenant_id, seq),
  check (case when topic is null then num_nonnulls(collection, verb, document_id, version) = 4
    else num_nonnulls(collection, verb, document_id, version) = 0 and document is not null end)
);
create policy data on tenon.outbox for insert to tenon_anon, tenon_user, tenon_service
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant insert on tenon.outbox to tenon_anon, tenon_user, tenon_service;
create policy admin on tenon.outbox for insert to tenon_admin
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and topic is not null);
grant insert on tenon.outbox to tenon_admin;
-- The relay publishes the changes of all tenants and reads nothing else.
call tenon.allow('tenon_relay', 'tenon.outbox', 'all', 'select, delete');
-- For metrics, which count the changes that wait.
call tenon.allow('tenon_reconciler', 'tenon.outbox', 'all', 'select (tenant_id, seq, at)');
