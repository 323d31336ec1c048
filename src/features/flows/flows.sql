-- Flows: definitions, immutable versions, aliases, secrets, and the projection of executions with their steps and events.
-- Admins read and write them; data roles do not.

create table tenon.flows (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  name text not null,
  source text not null,
  -- Diagnostics of the draft, stored on write, so that reading does not compile.
  diagnostics jsonb not null default '[]',
  latest_version integer not null default 0,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- A deleted flow stays as long as it has executions, which name it, and is found by nothing else.
  deleted_at timestamptz(3),
  primary key (tenant_id, workspace_id, id)
);
create unique index flows_tenant_id_workspace_id_name_key on tenon.flows (tenant_id, workspace_id, name)
  where deleted_at is null;
call tenon.allow('tenon_admin', 'tenon.flows', 'workspace', 'select, insert, update, delete');
call tenon.add_row_quota('flows', 'tenon.flows', 'deleted_at');

-- Immutable; deleted only together with the flow.
create table tenon.flow_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  flow_id text not null,
  version integer not null,
  sha256 text not null,
  source text not null,
  ir text not null,
  -- The name and version by which other flows run it.
  namespace text not null,
  document_name text not null,
  document_version text not null,
  -- The secrets that it uses.
  secrets text[] not null default '{}',
  -- The `concurrency` of the definition; null if executions are not limited.
  concurrency jsonb,
  -- True if the definition has an input schema; input is then validated before an execution is created.
  checks_input boolean not null default true,
  -- `expect.duration` of the definition.
  expected_duration_ms bigint,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  deleted_at timestamptz(3),
  primary key (tenant_id, workspace_id, flow_id, version),
  foreign key (tenant_id, workspace_id, flow_id) references tenon.flows on delete cascade
);
create index on tenon.flow_versions (tenant_id, workspace_id, namespace, document_name, document_version);
call tenon.allow('tenon_admin', 'tenon.flow_versions', 'workspace', 'select, insert, update (deleted_at)');
call tenon.add_row_quota('flow_versions', 'tenon.flow_versions', 'deleted_at');

-- Aliases of versions. No foreign key to versions: both are deleted with the flow.
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

-- `expect.interval` of the newest version of a flow. Starts do not write it: the reconciler looks for the last one.
create table tenon.flow_intervals (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  flow_id text not null,
  interval_ms bigint not null,
  -- When the reconciler looks next; never later than the interval after the last start.
  due_at timestamptz(3) not null,
  -- The last start among executions that retention has removed.
  last_started_at timestamptz(3),
  primary key (tenant_id, workspace_id, flow_id),
  foreign key (tenant_id, workspace_id, flow_id) references tenon.flows on delete cascade
);
create index flow_intervals_due on tenon.flow_intervals (workspace_id, due_at);
call tenon.allow('tenon_admin', 'tenon.flow_intervals', 'workspace', 'select, insert, update, delete');
-- The reconciler learns which workspaces have due rows.
create policy reconciler on tenon.flow_intervals for select to tenon_reconciler using (true);
grant select (workspace_id, due_at) on tenon.flow_intervals to tenon_reconciler;

-- Encrypted by the application under a key of workspace and name.
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
-- Admins who deploy a function for a workspace learn which of the secrets that it names are missing.
create policy names_of_tenant on tenon.flow_secrets for select to tenon_admin
  using (tenant_id = tenon.tenant() and tenon.workspace() is null);
create policy names on tenon.flow_secrets for select to tenon_operator using (true);
grant select (tenant_id, workspace_id, name) on tenon.flow_secrets to tenon_operator;
call tenon.allow('tenon_key_rotation', 'tenon.flow_secrets', 'all',
  'select (tenant_id, workspace_id, name, sealed), update (sealed)');

create table tenon.executions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  workflow_id text not null,
  flow_id text not null,
  version integer not null,
  -- 'suspended' here: a step is held (`suspended_because: held`). The columns `suspended` and `paused` override what is shown.
  status text not null check (status in
    ('pending', 'running', 'waiting', 'suspended', 'cancelled', 'faulted', 'completed')),
  -- Suspended with its workspace; `status` is unchanged meanwhile.
  suspended boolean not null default false,
  paused boolean not null default false,
  pause_reason text,
  input jsonb not null,
  output jsonb,
  error jsonb,
  -- {undone: [step], failures: [{step, error}]}; null if nothing was to be undone.
  compensation jsonb,
  compensated text generated always as (case when compensation is null then null
    when compensation -> 'failures' = '[]' then 'completed' else 'failed' end) stored,
  -- The beginning of it, since an index entry is bounded: authors of flows choose types of any length.
  error_type text generated always as (left(error ->> 'type', 200)) stored,
  started_by text not null,
  -- The other subjects behind it, which may not approve in it either (`fourEyes`): those of an event that started it, of the execution
  -- that it repeats or that started it, and those on whose behalf its starter acted. An entry `since:` says that they acted before
  -- its start (tenon.people_behind).
  caused_by text[] not null default '{}',
  trigger_kind text not null default 'manual'
    check (trigger_kind in ('manual', 'schedule', 'webhook', 'event', 'flow', 'rerun')),
  trigger_id text,
  -- Whether the sender of a webhook with `respond` got the result.
  response text check (response in ('sent', 'timed_out', 'sender_gone')),
  correlation_key text,
  -- {from, to}: when events were dropped that a `listen` may have missed.
  event_gap jsonb,
  -- The execution that it repeats, or that the one whose step has started it repeats: its input has data of that one.
  rerun_of text,
  -- How many executions led to the event that started this one.
  chain_depth smallint,
  -- The request and the trace that it belongs to (core/trace.ts).
  trace text default nullif(current_setting('tenon.trace', true), ''),
  -- The `seq` of its newest event.
  events integer not null default 0,
  started_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  -- When the end was recorded, if that was late: usage then counts it at this time.
  counted_at timestamptz(3),
  -- How it ends as soon as its workflow has ended in Temporal: {status, output?, error?, compensation?, ended_at, events, …}.
  ending jsonb,
  -- The workflow task that was recorded last: when its workflow run started, in ms, and the length of the history of that run.
  recorded_run bigint,
  recorded_events integer,
  -- The final status. Indexed instead of `status`, whose index would be written with every wait.
  outcome text generated always as (case when ended_at is not null then status end) stored,
  -- Without a concurrency slot, which has its own column: cancelled, if its workflow is started after that.
  cancel_requested boolean not null default false,
  -- When the reconciler checks it next.
  due_at timestamptz(3) not null default now() + interval '10 seconds',
  -- The start and the `expect.duration` of its version, and whether it was open then (`platform.execution.overdue`).
  overdue_at timestamptz(3),
  overdue boolean not null default false,
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id, flow_id, version) references tenon.flow_versions
);
-- Lists are ordered by start, and each filter has an index in that order.
create index executions_of_flow on tenon.executions (tenant_id, workspace_id, flow_id, started_at, id);
create index executions_by_start on tenon.executions (tenant_id, workspace_id, started_at, id);
create index executions_by_outcome on tenon.executions (tenant_id, workspace_id, outcome, started_at, id);
create index executions_by_key on tenon.executions (tenant_id, workspace_id, correlation_key, started_at, id)
  where correlation_key is not null;
-- Most executions are manual; for these, executions_by_start suffices.
create index executions_by_kind on tenon.executions (tenant_id, workspace_id, trigger_kind, started_at, id)
  where trigger_kind <> 'manual';
create index executions_by_trigger on tenon.executions (tenant_id, workspace_id, trigger_id, started_at, id)
  where trigger_id is not null;
create index executions_by_compensation on tenon.executions (tenant_id, workspace_id, compensated, started_at, id)
  where compensated is not null;
create index executions_by_error on tenon.executions (tenant_id, workspace_id, error_type, started_at, id)
  where error_type is not null;
-- For counts of what ended in a time.
create index on tenon.executions (tenant_id, workspace_id, (coalesce(counted_at, ended_at))) where ended_at is not null;
-- For the latest execution of a trigger.
create index on tenon.executions (tenant_id, workspace_id, trigger_id, id) where trigger_id is not null;
-- For suspending and resuming open executions.
create index on tenon.executions (tenant_id, workspace_id, id) where ended_at is null;
-- For the reconciler, which looks at the workspaces in turn.
create index executions_due on tenon.executions (workspace_id, due_at) where ended_at is null;
create index executions_overdue on tenon.executions (workspace_id, overdue_at)
  where ended_at is null and overdue_at is not null and not overdue;
call tenon.allow('tenon_admin', 'tenon.executions', 'workspace', 'select, insert, update, delete');
-- One query reads the newest `seq` of all watched executions of all tenants; it cannot read their content.
create policy watcher on tenon.executions for select to tenon_operator using (true);
grant select (tenant_id, workspace_id, id, events, suspended, paused, ended_at) on tenon.executions to tenon_operator;
-- The reconciler reads which executions of all tenants are open, and nothing of their content.
create policy reconciler on tenon.executions to tenon_reconciler using (ended_at is null) with check (ended_at is null);
grant select (tenant_id, workspace_id, id, status, ended_at, due_at, overdue_at, overdue), update (due_at)
  on tenon.executions to tenon_reconciler;
call tenon.add_row_quota('concurrent_executions', 'tenon.executions', 'ended_at');
-- Each inserted row is a start. The quota has no quota_sources row, since it counts inserts, not rows that exist.
create trigger count_starts after insert on tenon.executions referencing new table as added
  for each statement execute function tenon.count_rows('execution_starts_per_minute', '');

-- Functions of the owner read executions of all workspaces of the tenant: each must name the workspace itself. The one below reads
-- those that its caller names.
create policy causes on tenon.executions for select to tenon_owner using (tenant_id = tenon.tenant());
-- The subjects behind an execution: those given, and the people behind the executions that are given by id and workspace, which may
-- be another of the tenant. They are the people as of the start of those: later, a maker may no longer act as a subject of theirs.
create function tenon.causes_with(subjects text[], executions text[], workspaces text[]) returns text[]
  stable language sql security definer set search_path = tenon, pg_temp as $$
  select coalesce(array_agg(distinct by), '{}') from (
    select unnest(subjects) as by
    union all
    select unnest(tenon.people_behind(e.started_by || e.caused_by, e.started_at)) from unnest(executions, workspaces) as given(id, workspace)
      join executions e on e.tenant_id = tenon.tenant() and e.workspace_id = given.workspace and e.id = given.id
  ) as behind $$;
revoke execute on function tenon.causes_with from public;
grant execute on function tenon.causes_with to tenon_admin;

-- Writes the event `platform.execution.<verb>` of an execution that has ended, is held or is overdue, in the same transaction.
-- Its data contain no text of the flow's own but the type and title of the error.
create function tenon.emit_execution_event() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  verb constant text := case when new.ended_at is not null then new.status
    when new.overdue and not old.overdue then 'overdue' else 'held' end;
  data constant json := json_strip_nulls(json_build_object(
    'execution', new.id,
    'flow', json_build_object('id', new.flow_id, 'version', new.version,
      'name', (select name from flows f where f.tenant_id = new.tenant_id and f.workspace_id = new.workspace_id
        and f.id = new.flow_id)),
    'status', new.status,
    'trigger', json_build_object('kind', new.trigger_kind, 'id', new.trigger_id),
    'correlation_key', new.correlation_key,
    'started_at', to_char(new.started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'ended_at', to_char(new.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'duration_ms', floor(extract(epoch from new.ended_at - new.started_at) * 1000)::bigint,
    'expected_duration_ms', case when verb = 'overdue'
      then round(extract(epoch from new.overdue_at - new.started_at) * 1000)::bigint end,
    'error', case when new.error is not null then json_build_object('type', new.error -> 'type',
      'status', new.error -> 'status', 'title', new.error -> 'title', 'instance', new.error -> 'instance') end,
    'compensated', new.compensated));
begin
  insert into outbox (topic, document, bytes, chain_depth, caused_by, trace)
    values ('platform.execution.' || verb, data, length(data::text), coalesce(new.chain_depth, 0),
      to_json(new.started_by || new.caused_by || tenon.since_entry(new.started_at))::text, new.trace);
  return null;
end $$;

-- The slots of executions of flows with `concurrency`.
alter table tenon.run_slots
  add column execution_id text generated always as (case kind when 'execution' then run_id end) stored,
  add foreign key (tenant_id, workspace_id, execution_id) references tenon.executions on delete cascade;
create index on tenon.run_slots (tenant_id, workspace_id, execution_id) where execution_id is not null;

-- No writer changes how an execution has ended, except that a start which Temporal rejected may be tried again.
-- A delayed write of a workflow task replaces nothing that a later one has recorded.
create function tenon.refuse_other_end() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
begin
  if (new.recorded_run, new.recorded_events) < (old.recorded_run, old.recorded_events) then
    raise exception 'a later workflow task of % is recorded', old.id using errcode = 'check_violation', constraint = 'newest_record';
  end if;
  raise exception 'the execution % has ended as %', old.id, old.status using errcode = 'check_violation', constraint = 'ended_for_good';
end $$;
revoke execute on function tenon.refuse_other_end from public;
create trigger refuse_other_end before update on tenon.executions for each row
  when ((new.recorded_run, new.recorded_events) < (old.recorded_run, old.recorded_events) or old.ended_at is not null
    and (new.status, new.ended_at) is distinct from (old.status, old.ended_at)
    and not (old.status = 'faulted' and new.status = 'pending' and new.ended_at is null))
  execute function tenon.refuse_other_end();

create trigger emit_execution_event after update on tenon.executions for each row
  when (old.ended_at is null and (new.ended_at is not null or (new.overdue and not old.overdue)
    or (new.status = 'suspended' and old.status <> 'suspended' and not new.paused and not new.suspended)))
  execute function tenon.emit_execution_event();

-- No foreign key to executions, here and below: it would look up and lock the execution for each row. The recorder
-- updates the execution first in the same transaction, so that it cannot be deleted in between.
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
  -- The result of a call or a flow, reused by simulations and reruns.
  result jsonb,
  -- The result was too large to store, or contained a secret.
  truncated boolean not null default false,
  -- The result was taken from the execution that this one repeats.
  reused boolean not null default false,
  -- The stable position of the step, independent of the order in which steps end.
  path text not null,
  -- Number of attempts so far.
  attempt integer not null default 1,
  -- SHA-256, hex, of the data that an approval or a flow got. A rerun reuses a decision only if the digests are equal.
  digest text check (digest ~ '^[0-9a-f]{64}$'),
  -- The execution of a step that runs a flow.
  child text,
  -- Input, arguments and output, shortened (StepData in src/core/execution.ts).
  data jsonb,
  started_at timestamptz(3) not null,
  ended_at timestamptz(3),
  primary key (tenant_id, workspace_id, execution_id, seq)
);
call tenon.allow('tenon_admin', 'tenon.execution_steps', 'workspace', 'select, insert, update, delete');

-- The events of an execution, ordered by `seq`, which the workflow assigns: so an event that is written twice is one row.
-- Constant fields of a step are in execution_steps.
create table tenon.execution_events (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  seq integer not null,
  at timestamptz(3) not null,
  -- `seq` of the step; null for an event of the execution as a whole.
  step integer,
  what text not null check (what in ('started', 'waiting', 'running', 'suspended', 'resumed', 'retried', 'held',
    'completed', 'faulted', 'skipped', 'cancelled')),
  detail jsonb,
  primary key (tenant_id, workspace_id, execution_id, seq)
);
call tenon.allow('tenon_admin', 'tenon.execution_events', 'workspace', 'select, insert, update, delete');

-- Callbacks of calls (`awaitCallback`). The URL is the credential: it holds the id and a token that is stored as its hash.
create table tenon.callbacks (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id uuid not null,
  execution_id text not null,
  workflow_id text not null,
  -- `pointer#iteration`
  step text not null,
  token_sha256 bytea not null,
  expires_at timestamptz(3) not null,
  -- The first body that was posted. It is delivered once the workflow has got it; until then, it may be posted again.
  body_sha256 text,
  delivered boolean not null default false,
  primary key (tenant_id, workspace_id, id)
);
create index on tenon.callbacks (tenant_id, workspace_id, execution_id, step);
create index on tenon.callbacks (workspace_id, id);
call tenon.allow('tenon_admin', 'tenon.callbacks', 'workspace', 'select, insert, update, delete');
-- For requests, whose URL contains the workspace alone.
create policy verifier on tenon.callbacks for select to tenon_triggers using (true);
grant select (tenant_id, workspace_id, id, token_sha256) on tenon.callbacks to tenon_triggers;

-- Deletes steps and events with their execution, with the rights of the role that deletes it.
create function tenon.delete_execution_records() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
begin
  delete from execution_steps r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  delete from execution_events r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  delete from event_subscriptions r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  delete from callbacks r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  return null;
end $$;
create trigger delete_execution_records after delete on tenon.executions referencing old table as gone
  for each statement execute function tenon.delete_execution_records();
