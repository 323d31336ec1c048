-- Triggers of functions: at most one schedule and one event trigger each, written in the transaction that writes the
-- configuration. tenon_triggers looks event triggers up before the tenant is known.
create table tenon.function_triggers (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  function_id text not null,
  kind text not null check (kind in ('schedule', 'event')),
  -- {cron, timezone?, input?} of a schedule; {topics, streams} of an event trigger.
  spec jsonb not null,
  -- Counts the changes of spec.
  revision integer not null default 1,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- A row counts towards the quota `schedules` as long as this is null.
  uncounted text generated always as (nullif(kind, 'schedule')) stored,
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, function_id, kind),
  foreign key (tenant_id, workspace_id, function_id) references tenon.functions on delete cascade
);
create index on tenon.function_triggers (id) where kind = 'event';
call tenon.allow('tenon_operator', 'tenon.function_triggers', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.function_triggers', 'tenant', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.function_triggers', 'all', 'select');
call tenon.add_row_quota('schedules', 'tenon.function_triggers', 'uncounted');

-- Runs in flight that events have started, for the bound of their trigger.
create index on tenon.function_runs (tenant_id, workspace_id, function_id)
  where ended_at is null and trigger ->> 'kind' = 'event';

-- What a trigger has done. A table of its own, so that the quota is not counted at every event.
create table tenon.function_trigger_states (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  -- The last entries that were handled; null for a schedule.
  events_offset text,
  changes_offset text,
  -- Events of its topics, and those of them that have started no run.
  seen bigint not null default 0,
  dropped bigint not null default 0,
  started bigint not null default 0,
  last_run_id text,
  last_run_at timestamptz(3),
  -- The last interval in which a stream dropped events before they were consumed.
  gap_from timestamptz(3),
  gap_to timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.function_triggers on delete cascade
);
call tenon.allow('tenon_operator', 'tenon.function_trigger_states', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.function_trigger_states', 'tenant', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.function_trigger_states', 'all', 'select');
create policy consumer on tenon.function_trigger_states for update to tenon_triggers using (true);
grant update (events_offset, changes_offset, seen, dropped, started, last_run_id, last_run_at, gap_from, gap_to)
  on tenon.function_trigger_states to tenon_triggers;
