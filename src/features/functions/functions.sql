-- Functions and their immutable versions. Operators may deploy for tenants; data roles read what an invocation needs.
create table tenon.functions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  name text not null,
  active_version integer not null,
  latest_version integer not null,
  config jsonb not null default '{}',
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, name),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
-- For operators and tenant admins, who address a function by its id alone.
create unique index on tenon.functions (id);

create table tenon.function_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  function_id text not null,
  version integer not null,
  source text not null,
  -- JavaScript with an inline source map.
  compiled text not null,
  sha256 text not null,
  -- The export `tool` of the module, in the form of the API; null if the module has no such export.
  tool jsonb,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, function_id, version),
  foreign key (tenant_id, workspace_id, function_id) references tenon.functions
);
call tenon.allow('tenon_operator', 'tenon.functions', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.functions', 'tenant', 'select, insert, update, delete');
-- Versions are immutable.
call tenon.allow('tenon_operator', 'tenon.function_versions', 'all', 'select, insert, delete');
call tenon.allow('tenon_admin', 'tenon.function_versions', 'tenant', 'select, insert, delete');
call tenon.allow('tenon_service', 'tenon.functions', 'workspace', 'select');
call tenon.allow('tenon_service', 'tenon.function_versions', 'workspace', 'select');
-- Anon keys may call functions with `anon: true`; they cannot read the source.
create policy anon on tenon.functions for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and config @> '{"anon": true}');
grant select (tenant_id, workspace_id, id, name, active_version, config) on tenon.functions to tenon_anon;
-- The same for users and functions with `user: true`.
create policy end_user on tenon.functions for select to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and config @> '{"user": true}');
grant select (tenant_id, workspace_id, id, name, active_version, config) on tenon.functions to tenon_user;
call tenon.add_row_quota('functions', 'tenon.functions');
