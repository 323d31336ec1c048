-- What happened in a run, in the order of `seq`, which the run itself counts: so an event that is written twice is one.
-- What does not change of a step stands in execution_steps.
create table tenon.execution_events (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  seq integer not null,
  at timestamptz(3) not null,
  -- Of a step, by its number; of the run as a whole where null.
  step integer,
  what text not null check (what in ('started', 'waiting', 'running', 'suspended', 'resumed', 'retried', 'held',
    'completed', 'faulted', 'skipped', 'cancelled')),
  detail jsonb,
  primary key (tenant_id, workspace_id, execution_id, seq),
  foreign key (tenant_id, workspace_id, execution_id) references tenon.executions on delete cascade
);
alter table tenon.execution_events enable row level security;
alter table tenon.execution_events force row level security;
grant select, insert, update, delete on tenon.execution_events to tenon_admin;
create policy admin on tenon.execution_events to tenon_admin
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- The number of the newest event. Whoever serves those who watch asks for this alone, of all that are watched at once:
-- whether there is something new is no secret of a tenant to the platform, what it is stays one.
alter table tenon.executions add column events integer not null default 0;
grant select (tenant_id, workspace_id, id, events, held, paused, ended_at) on tenon.executions to tenon_operator;
create policy watch on tenon.executions for select to tenon_operator using (true);

-- How often a step has begun, where it was tried again.
alter table tenon.execution_steps add column attempt integer not null default 1;
