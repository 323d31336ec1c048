-- Serves builds from 0.1.0 on.
-- Bulk changes: updates and deletions of all documents of a collection that match a filter, which a workflow makes in batches.

create table tenon.bulk_changes (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  collection text not null,
  verb text not null check (verb in ('update', 'delete')),
  -- {filter, data?, unset?}
  request jsonb not null,
  -- The caller and its rights (core/work.ts, WorkCaller).
  caller jsonb not null,
  -- The run or the request that has asked for it, and the number of runs that started one another up to it (core/work.ts, FunctionTrigger).
  trigger jsonb not null,
  -- With more documents the change ends; null for any number.
  max_documents integer,
  -- The end user who has asked for it; null if none has.
  owner text collate "C" default tenon.caller() ->> 'id',
  -- The request and the trace that it belongs to (core/trace.ts).
  trace text default nullif(current_setting('tenon.trace', true), ''),
  status text not null default 'queued' check (status in ('queued', 'running', 'completed', 'failed', 'cancelled')),
  -- The last document that was changed or left as it is. Documents are taken in the order of their ids.
  last_id uuid,
  -- In MongoDB: the document that is being changed, and the version that it had: {id, version}.
  begun jsonb,
  matched bigint not null default 0,
  changed bigint not null default 0,
  failed bigint not null default 0,
  -- The first failures: [{id, code, detail}, …].
  failures jsonb not null default '[]',
  -- Why the whole change has failed: {code, detail}.
  error jsonb,
  -- When the reconciler compares it with its workflow next.
  due_at timestamptz(3) not null default now() + interval '30 seconds',
  created_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  primary key (tenant_id, workspace_id, id)
);
create index on tenon.bulk_changes (tenant_id, workspace_id, collection, id desc);
-- For the reconciler, which looks at the workspaces in turn, and for retention.
create index bulk_changes_due on tenon.bulk_changes (workspace_id, due_at) where ended_at is null;
create index bulk_changes_ended on tenon.bulk_changes (workspace_id, ended_at) where ended_at is not null;

call tenon.allow('tenon_operator', 'tenon.bulk_changes', 'all', 'select, delete');
call tenon.allow('tenon_admin', 'tenon.bulk_changes', 'tenant', 'select, update, delete');
call tenon.allow('tenon_service', 'tenon.bulk_changes', 'workspace');
-- A user sees the own ones.
create policy "user" on tenon.bulk_changes to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and owner = tenon.caller() ->> 'id');
grant select on tenon.bulk_changes to tenon_service, tenon_user;
-- Progress is written in the transaction that changes the documents, which has the rights of the caller.
grant insert (id, collection, verb, request, caller, trigger, max_documents),
  update (status, last_id, begun, matched, changed, failed, failures, ended_at)
  on tenon.bulk_changes to tenon_service, tenon_user;
create policy reconciler on tenon.bulk_changes to tenon_reconciler using (true);
grant select (tenant_id, workspace_id, id, status, due_at, ended_at), update (due_at) on tenon.bulk_changes to tenon_reconciler;
call tenon.allow_purge();
