-- Tenants, workspaces, keys and operations. tenon_operator sees all of them; tenon_admin one tenant's.
create table tenon.tenants (
  id text primary key,
  name text not null,
  slug text not null unique,
  state text not null check (state in
    ('provisioning', 'active', 'suspended', 'deleting', 'deleted', 'provisioning_failed')),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table tenon.workspaces (
  id text primary key,
  tenant_id text not null references tenon.tenants (id),
  name text not null,
  slug text not null,
  bucket text not null unique,
  state text not null check (state in
    ('provisioning', 'active', 'suspended', 'deleting', 'deleted', 'provisioning_failed')),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (tenant_id, slug),
  unique (tenant_id, id)
);

create table tenon.api_keys (
  id text primary key,
  tenant_id text not null,
  workspace_id text not null,
  kind text not null check (kind in ('anon', 'service')),
  name text not null,
  hash bytea not null unique,
  prefix text not null,
  last4 text not null,
  scopes text[] not null default '{}',
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
create index on tenon.api_keys (tenant_id, workspace_id, created_at);

create table tenon.operations (
  id text primary key,
  tenant_id text not null references tenon.tenants (id),
  type text not null,
  target text not null,
  workflow_id text not null,
  state text not null check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  steps jsonb not null default '[]',
  error jsonb,
  created_at timestamptz(3) not null default now(),
  finished_at timestamptz(3)
);
create index on tenon.operations (tenant_id, created_at);

-- Sealed under the master key by the platform; the database sees only ciphertext.
create table tenon.tenant_keys (
  tenant_id text not null references tenon.tenants (id),
  id text not null,
  sealed bytea not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, id)
);

-- The issuer's signing keys (JWK, sealed). No tenant owns them.
create table tenon.signing_keys (
  id text primary key,
  sealed bytea not null,
  created_at timestamptz(3) not null default now()
);

do $$
declare
  name text;
begin
  foreach name in array array['tenants', 'workspaces', 'api_keys', 'operations', 'tenant_keys', 'signing_keys'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    execute format('grant select, insert, update on tenon.%I to tenon_operator', name);
    execute format('create policy operator on tenon.%I to tenon_operator using (true) with check (true)', name);
  end loop;
end $$;

grant select, update on tenon.tenants to tenon_admin;
create policy admin on tenon.tenants to tenon_admin
  using (id = tenon.tenant()) with check (id = tenon.tenant());

grant select, insert, update on tenon.workspaces, tenon.operations, tenon.api_keys, tenon.tenant_keys to tenon_admin;
create policy admin on tenon.workspaces to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or id = tenon.workspace()))
  with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or id = tenon.workspace()));
create policy admin on tenon.api_keys to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()))
  with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()));
create policy admin on tenon.operations to tenon_admin
  using (tenant_id = tenon.tenant()) with check (tenant_id = tenon.tenant());
create policy admin on tenon.tenant_keys to tenon_admin
  using (tenant_id = tenon.tenant()) with check (tenant_id = tenon.tenant());
