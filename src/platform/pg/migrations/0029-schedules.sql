-- Triggers: what starts a flow by itself. A row for each that the newest version declares, made and taken away as it is
-- published; `key` is what it is within the definition, so that it stays itself from version to version.
create table tenon.flow_triggers (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  flow_id text not null,
  kind text not null check (kind in ('schedule', 'webhook', 'event')),
  key text not null,
  spec jsonb not null,
  version integer not null,
  paused boolean not null default false,
  -- Why it is paused, or was resumed.
  note text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- A row counts towards the quota `schedules` as long as this is null.
  uncounted text generated always as (nullif(kind, 'schedule')) stored,
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, flow_id, key),
  foreign key (tenant_id, workspace_id, flow_id, version) references tenon.flow_versions
);
alter table tenon.flow_triggers enable row level security;
alter table tenon.flow_triggers force row level security;
grant select, insert, update, delete on tenon.flow_triggers to tenon_admin;
create policy admin on tenon.flow_triggers to tenon_admin
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
call tenon.count_as('schedules', 'tenon.flow_triggers', 'uncounted');

-- The last run of a trigger.
create index on tenon.executions (tenant_id, workspace_id, trigger_id, id) where trigger_id is not null;
