-- Flows: definitions, immutable versions, aliases, secrets, and the projection of executions with their steps and events.
-- Admins read and write them; data roles do not.

create table tenon.flows (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  name text not null,
  source text not null,
  -- Diagnostics of the draft, kept when it is written: reading drafts compiles nothing.
  faults jsonb not null default '[]',
  latest_version integer not null default 0,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, name)
);
call tenon.allow('tenon_admin', 'tenon.flows', 'workspace', 'select, insert, update, delete');
call tenon.add_row_quota('flows', 'tenon.flows');

-- A version never changes once it is published, and goes with its flow alone.
create table tenon.flow_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  flow_id text not null,
  version integer not null,
  sha256 text not null,
  source text not null,
  ir text not null,
  -- The names by which other flows run it.
  namespace text not null,
  document_name text not null,
  document_version text not null,
  -- The secrets that it uses.
  secrets text[] not null default '{}',
  -- The `concurrency` of the definition; null if executions are not limited.
  concurrency jsonb,
  -- True if it declares a schema of its input: input that does not fit is refused before there is an execution.
  checks_input boolean not null default true,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, flow_id, version),
  foreign key (tenant_id, workspace_id, flow_id) references tenon.flows on delete cascade
);
create index on tenon.flow_versions (tenant_id, workspace_id, namespace, document_name, document_version);
call tenon.allow('tenon_admin', 'tenon.flow_versions', 'workspace', 'select, insert');
call tenon.add_row_quota('flow_versions', 'tenon.flow_versions');

-- Names of versions. No foreign key to them: a version goes with its flow alone, as its names do.
create table tenon.flow_aliases (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  flow_id text not null,
  name text not null,
  -- [{version, weight}]
  versions jsonb not null,
  updated_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, flow_id, name),
  foreign key (tenant_id, workspace_id, flow_id) references tenon.flows on delete cascade
);
call tenon.allow('tenon_admin', 'tenon.flow_aliases', 'workspace', 'select, insert, update, delete');

-- The version that an alias means, of several by their weights: the same share of all chooses the same one.
create function tenon.alias_version(versions jsonb, share bigint) returns integer
  language sql immutable set search_path = tenon, pg_temp as $$
  with weighed as (
    select (v ->> 'version')::integer as version, n,
      sum((v ->> 'weight')::bigint) over (order by n) as upto, sum((v ->> 'weight')::bigint) over () as total
    from jsonb_array_elements(versions) with ordinality as e (v, n)
  )
  select version from weighed where upto > share % total order by n limit 1 $$;
revoke execute on function tenon.alias_version from public;
grant execute on function tenon.alias_version to tenon_admin;

-- Sealed by the application under a key of the workspace and the name.
create table tenon.flow_secrets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  name text not null,
  sealed bytea not null,
  updated_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, name)
);
call tenon.allow('tenon_admin', 'tenon.flow_secrets', 'workspace', 'select, insert, update, delete');

create table tenon.executions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  workflow_id text not null,
  flow_id text not null,
  version integer not null,
  status text not null check (status in
    ('pending', 'running', 'waiting', 'suspended', 'cancelled', 'faulted', 'completed')),
  -- A suspended execution has its own status beneath.
  suspended boolean not null default false,
  paused boolean not null default false,
  pause_reason text,
  input jsonb not null,
  output jsonb,
  error jsonb,
  started_by text not null,
  trigger_kind text not null default 'manual'
    check (trigger_kind in ('manual', 'schedule', 'webhook', 'event', 'flow', 'rerun')),
  trigger_id text,
  correlation_key text,
  rerun_of text,
  -- How many executions led to the event that began it.
  chain_depth smallint,
  -- The number of its newest event.
  events integer not null default 0,
  started_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  -- How it has ended. Not the status, which changes with every wait: an index on it would be written each time.
  outcome text generated always as (case when ended_at is not null then status end) stored,
  -- When tenon_reconciler looks after it next.
  due_at timestamptz(3) not null default now() + interval '10 seconds',
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id, flow_id, version) references tenon.flow_versions
);
-- Lists are in the order of the starts, and each filter has an index in that order.
create index executions_of_flow on tenon.executions (tenant_id, workspace_id, flow_id, started_at, id);
create index executions_by_start on tenon.executions (tenant_id, workspace_id, started_at, id);
create index executions_by_outcome on tenon.executions (tenant_id, workspace_id, outcome, started_at, id);
create index executions_by_key on tenon.executions (tenant_id, workspace_id, correlation_key, started_at, id)
  where correlation_key is not null;
-- Most are started by hand; those are found by their start.
create index executions_by_kind on tenon.executions (tenant_id, workspace_id, trigger_kind, started_at, id)
  where trigger_kind <> 'manual';
create index executions_by_trigger on tenon.executions (tenant_id, workspace_id, trigger_id, started_at, id)
  where trigger_id is not null;
-- The last execution of a trigger.
create index on tenon.executions (tenant_id, workspace_id, trigger_id, id) where trigger_id is not null;
-- Open ones, to suspend and resume them.
create index on tenon.executions (tenant_id, workspace_id, id) where ended_at is null;
create index executions_due on tenon.executions (due_at) where ended_at is null;
call tenon.allow('tenon_admin', 'tenon.executions', 'workspace', 'select, insert, update, delete');
-- The platform asks for the newest events of all executions that are watched at once: that there is something new is no
-- secret of a tenant, what it is stays one.
create policy watch on tenon.executions for select to tenon_operator using (true);
grant select (tenant_id, workspace_id, id, events, suspended, paused, ended_at) on tenon.executions to tenon_operator;
-- Repairing what crashes have left needs which executions are open, of all tenants, and nothing of what they carry.
create policy mender on tenon.executions to tenon_reconciler using (ended_at is null) with check (ended_at is null);
grant select (tenant_id, workspace_id, id, status, ended_at, due_at), update (due_at)
  on tenon.executions to tenon_reconciler;
call tenon.add_row_quota('concurrent_executions', 'tenon.executions', 'ended_at');
-- Each row that is made is a start; no row of another table is counted when the limit is set.
create trigger count_starts after insert on tenon.executions referencing new table as added
  for each statement execute function tenon.count_rows('execution_starts_per_minute', '');

-- No foreign key to executions, here and below: it would look up and lock the execution for each row. Recording
-- updates the execution first, in the same transaction, so that it cannot be deleted in between.
create table tenon.execution_steps (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  seq integer not null,
  name text not null,
  kind text not null,
  pointer text not null,
  iteration integer not null,
  summary text not null,
  status text not null check (status in ('running', 'completed', 'faulted', 'skipped', 'cancelled')),
  error jsonb,
  -- The answer of a call or a flow: simulations and reruns take their answers from it.
  result jsonb,
  -- The answer was too large to keep.
  truncated boolean not null default false,
  -- A rerun took the answer over.
  reused boolean not null default false,
  -- The step's position in the execution, independent of the order in which steps end.
  path text,
  -- How often it has begun, if it was tried again.
  attempt integer not null default 1,
  -- SHA-256, hex, of what an approval or a flow was asked about. A rerun takes a decision over for an equal digest alone.
  digest text check (digest ~ '^[0-9a-f]{64}$'),
  -- The execution of a step that runs a flow.
  child text,
  started_at timestamptz(3) not null,
  ended_at timestamptz(3),
  primary key (tenant_id, workspace_id, execution_id, seq)
);
call tenon.allow('tenon_admin', 'tenon.execution_steps', 'workspace', 'select, insert, update, delete');

-- The history of an execution, in the order of `seq`, which the execution itself counts: so an event that is written
-- twice is one. The properties of a step that do not change are in execution_steps.
create table tenon.execution_events (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  seq integer not null,
  at timestamptz(3) not null,
  -- The number of the step; null for an event of the execution as a whole.
  step integer,
  what text not null check (what in ('started', 'waiting', 'running', 'suspended', 'resumed', 'retried', 'held',
    'completed', 'faulted', 'skipped', 'cancelled')),
  detail jsonb,
  primary key (tenant_id, workspace_id, execution_id, seq)
);
call tenon.allow('tenon_admin', 'tenon.execution_events', 'workspace', 'select, insert, update, delete');

-- Deletes steps and events with their execution, with the rights of the role that deletes it.
create function tenon.delete_execution_records() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
begin
  delete from execution_steps r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  delete from execution_events r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  return null;
end $$;
create trigger delete_execution_records after delete on tenon.executions referencing old table as gone
  for each statement execute function tenon.delete_execution_records();
