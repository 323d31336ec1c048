-- One S3 identity per workspace, for exactly its bucket; the secret is sealed by the platform. A workspace may have
-- no bucket, and then has no identity. Operators see none.
alter table tenon.workspaces alter column bucket drop not null;

create table tenon.storage_identities (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  bucket text not null check (bucket ~ '^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$'),
  access_key_id text not null,
  sealed bytea not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
alter table tenon.storage_identities enable row level security;
alter table tenon.storage_identities force row level security;

grant select on tenon.storage_identities to tenon_anon, tenon_service;
create policy data on tenon.storage_identities for select to tenon_anon, tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant select, insert, update on tenon.storage_identities to tenon_admin;
create policy admin on tenon.storage_identities to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()))
  with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()));
