-- Runs of functions from every trigger, and the lines that they printed. The role of the caller inserts a run; the worker
-- does the rest.
create table tenon.function_runs (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  function_id text not null,
  version integer not null,
  -- {kind, id?}
  trigger jsonb not null,
  started_by text not null,
  -- The request and the trace that it belongs to (core/trace.ts).
  trace text default nullif(current_setting('tenon.trace', true), ''),
  -- The caller does not wait for the result: the record keeps it, and the input, so that a failed run can be run again.
  is_async boolean not null,
  status text not null default 'queued' check (status in ('queued', 'running', 'completed', 'failed')),
  -- Those whose code has begun.
  attempts integer not null default 0,
  -- The worker's own mark of the last of these: a statement whose answer was lost is repeated.
  begun_by text,
  -- Type json, since jsonb takes no NUL.
  input json,
  result json,
  -- What an asynchronous run is started with later: the rights of its caller (FunctionCaller), and the context of its code.
  caller json,
  context json,
  -- {code, detail, …} of a failed run.
  error json,
  memory_mb integer,
  duration_ms integer,
  -- True if its process was started for it.
  is_cold boolean,
  -- A failed asynchronous run that was neither run again nor discarded.
  is_dead_letter boolean not null default false,
  -- The run that ran it again.
  redriven_as text,
  -- When the reconciler compares it with its workflow next.
  due_at timestamptz(3) not null default now() + interval '30 seconds',
  created_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  ended_at timestamptz(3),
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id, function_id) references tenon.functions on delete cascade
);
-- Ids begin with the time.
create index on tenon.function_runs (tenant_id, workspace_id, function_id, id desc);
create index on tenon.function_runs (tenant_id, workspace_id, function_id, id) where is_dead_letter;
-- For the reconciler, which looks at the workspaces in turn.
create index function_runs_due on tenon.function_runs (workspace_id, due_at) where ended_at is null;
-- For retention: workspaces with ended runs, and the oldest of each.
create index function_runs_ended on tenon.function_runs (workspace_id, is_dead_letter, ended_at) where ended_at is not null;
-- Runs in flight that events have started, of which a trigger starts only so many.
create index on tenon.function_runs (tenant_id, workspace_id, function_id)
  where ended_at is null and trigger ->> 'kind' = 'event';
call tenon.allow('tenon_operator', 'tenon.function_runs', 'all', 'select, delete');
call tenon.allow('tenon_admin', 'tenon.function_runs', 'tenant', 'select, insert, update, delete');
call tenon.allow('tenon_service', 'tenon.function_runs', 'workspace');
call tenon.allow('tenon_anon', 'tenon.function_runs', 'workspace');
call tenon.allow('tenon_user', 'tenon.function_runs', 'workspace');
grant insert (id, function_id, version, trigger, started_by, is_async, input, caller, context)
  on tenon.function_runs to tenon_service, tenon_anon, tenon_user;
-- The reconciler reads which runs of all tenants are open or may have expired, and nothing of their content.
create policy reconciler on tenon.function_runs to tenon_reconciler using (true);
grant select (tenant_id, workspace_id, id, function_id, status, is_dead_letter, due_at, ended_at), update (due_at)
  on tenon.function_runs to tenon_reconciler;

-- The slots of runs of functions with a limit of concurrent runs.
alter table tenon.run_slots
  add column function_run_id text generated always as (case kind when 'function_run' then run_id end) stored,
  add foreign key (tenant_id, workspace_id, function_run_id) references tenon.function_runs on delete cascade;
create index on tenon.run_slots (tenant_id, workspace_id, function_run_id) where function_run_id is not null;

create table tenon.function_run_logs (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  run_id text not null,
  seq integer not null,
  at timestamptz(3) not null,
  level text not null,
  text text not null,
  primary key (tenant_id, workspace_id, run_id, seq),
  foreign key (tenant_id, workspace_id, run_id) references tenon.function_runs on delete cascade
);
call tenon.allow('tenon_operator', 'tenon.function_run_logs', 'all', 'select, delete');
-- Of a user who is made anonymous, the id in a line is replaced.
call tenon.allow('tenon_admin', 'tenon.function_run_logs', 'tenant', 'select, insert, update (text), delete');
