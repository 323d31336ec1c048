-- Secrets of flows, sealed by the application under a key of the workspace and the name; and which of them a version uses.
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
alter table tenon.flow_secrets enable row level security;
alter table tenon.flow_secrets force row level security;
grant select, insert, update, delete on tenon.flow_secrets to tenon_admin;
create policy admin on tenon.flow_secrets to tenon_admin
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- No version that was published before this could have any.
alter table tenon.flow_versions add column secrets text[] not null default '{}';
