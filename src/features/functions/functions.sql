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
  -- JavaScript, with an inline source map unless that is large.
  compiled text not null,
  -- The source map of `compiled` if it is large.
  compiled_map text,
  -- The source map of the bundle, as it was sent without the members that positions do not need.
  source_map text,
  sha256 text not null,
  -- Of source, compiled form and maps.
  bytes integer not null,
  -- Those of `default` and `fetch` that the module exports.
  exports text[] not null,
  -- The exports `tool`, `input` and `output` of the module, in the form of the API; null if the module has no such export.
  tool jsonb,
  input_schema jsonb,
  output_schema jsonb,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, function_id, version),
  foreign key (tenant_id, workspace_id, function_id) references tenon.functions
);

-- Aliases of versions. No foreign key to versions: a version that an alias names is not deleted.
create table tenon.function_aliases (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  function_id text not null,
  name text not null,
  -- [{version, weight}]
  versions jsonb not null,
  updated_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, function_id, name),
  foreign key (tenant_id, workspace_id, function_id) references tenon.functions on delete cascade
);

-- Selects a version of an alias, of a function or a flow, by weight; the same share selects the same version.
create function tenon.alias_version(versions jsonb, share bigint) returns integer
  language sql immutable set search_path = tenon, pg_temp as $$
  with weighted as (
    select (v ->> 'version')::integer as version, n,
      sum((v ->> 'weight')::bigint) over (order by n) as upto, sum((v ->> 'weight')::bigint) over () as total
    from jsonb_array_elements(versions) with ordinality as e (v, n)
  )
  select version from weighted where upto > share % total order by n limit 1 $$;
revoke execute on function tenon.alias_version from public;
grant execute on function tenon.alias_version to tenon_admin, tenon_service, tenon_anon, tenon_user;

call tenon.allow('tenon_operator', 'tenon.functions', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.functions', 'tenant', 'select, insert, update, delete');
-- Versions are immutable.
call tenon.allow('tenon_operator', 'tenon.function_versions', 'all', 'select, insert, delete');
call tenon.allow('tenon_admin', 'tenon.function_versions', 'tenant', 'select, insert, delete');
call tenon.allow('tenon_operator', 'tenon.function_aliases', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.function_aliases', 'tenant', 'select, insert, update, delete');
call tenon.allow('tenon_service', 'tenon.functions', 'workspace', 'select');
call tenon.allow('tenon_service', 'tenon.function_versions', 'workspace', 'select');
call tenon.allow('tenon_service', 'tenon.function_aliases', 'workspace', 'select');
-- Anon keys may call functions with `anon: true`; they cannot read the source.
create policy anon on tenon.functions for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and config @> '{"anon": true}');
-- The same for users and functions with `user: true`.
create policy end_user on tenon.functions for select to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and config @> '{"user": true}');
grant select (tenant_id, workspace_id, id, name, active_version, config) on tenon.functions to tenon_anon, tenon_user;
-- Of the functions that they see, a call needs the schema of its input, and the versions of an alias.
create policy public_calls on tenon.function_versions for select to tenon_anon, tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and exists (select from tenon.functions f
    where f.tenant_id = function_versions.tenant_id and f.workspace_id = function_versions.workspace_id
      and f.id = function_id));
grant select (tenant_id, workspace_id, function_id, version, input_schema)
  on tenon.function_versions to tenon_anon, tenon_user;
create policy public_calls on tenon.function_aliases for select to tenon_anon, tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and exists (select from tenon.functions f
    where f.tenant_id = function_aliases.tenant_id and f.workspace_id = function_aliases.workspace_id
      and f.id = function_id));
grant select (tenant_id, workspace_id, function_id, name, versions)
  on tenon.function_aliases to tenon_anon, tenon_user;
call tenon.add_row_quota('functions', 'tenon.functions');
