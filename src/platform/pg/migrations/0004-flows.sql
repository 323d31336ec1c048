-- Flow definitions, immutable versions, and our own projection of executions and their steps.
create table tenon.flows (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  name text not null,
  source text not null,
  latest_version integer not null default 0,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, name)
);

create table tenon.flow_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  flow_id text not null,
  version integer not null,
  sha256 text not null,
  source text not null,
  ir text not null,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, flow_id, version),
  foreign key (tenant_id, workspace_id, flow_id) references tenon.flows
);

create table tenon.executions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  workflow_id text not null,
  flow_id text not null,
  version integer not null,
  status text not null check (status in
    ('pending', 'running', 'waiting', 'suspended', 'cancelled', 'faulted', 'completed')),
  input jsonb not null,
  output jsonb,
  error jsonb,
  started_by text not null,
  started_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id, flow_id, version) references tenon.flow_versions
);
create index on tenon.executions (tenant_id, workspace_id, flow_id, id);

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
  status text not null check (status in ('running', 'completed', 'faulted', 'skipped')),
  error jsonb,
  started_at timestamptz(3) not null,
  ended_at timestamptz(3),
  primary key (tenant_id, workspace_id, execution_id, seq),
  foreign key (tenant_id, workspace_id, execution_id) references tenon.executions
);

do $$
declare
  name text;
begin
  foreach name in array array['flows', 'flow_versions', 'executions', 'execution_steps'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    execute format('grant select, insert, update on tenon.%I to tenon_admin', name);
    execute format(
      'create policy admin on tenon.%I to tenon_admin using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()) with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())',
      name);
  end loop;
end $$;
-- A version never changes once it is published.
revoke update on tenon.flow_versions from tenon_admin;
grant delete on tenon.flows, tenon.flow_versions, tenon.executions, tenon.execution_steps to tenon_admin;
