-- Functions and their immutable versions. Operators deploy for tenants; data roles read what an invocation needs.
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
-- Operators, and admins of a whole tenant, name a function by its id alone.
create unique index on tenon.functions (id);

create table tenon.function_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  function_id text not null,
  version integer not null,
  source text not null,
  -- JavaScript with a source map inside: what is run.
  compiled text not null,
  sha256 text not null,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, function_id, version),
  foreign key (tenant_id, workspace_id, function_id) references tenon.functions
);

do $$
declare
  name text;
  inside constant text := 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()';
  within constant text :=
    'tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace())';
begin
  foreach name in array array['functions', 'function_versions'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    execute format('create policy operator on tenon.%I to tenon_operator using (true) with check (true)', name);
    execute format('create policy admin on tenon.%I to tenon_admin using (%s) with check (%s)', name, within, within);
    execute format('create policy service on tenon.%I for select to tenon_service using (%s)', name, inside);
    execute format('grant select on tenon.%I to tenon_service', name);
    -- A version never changes once it is deployed.
    execute format('grant select, insert, delete on tenon.%I to tenon_admin, tenon_operator', name);
  end loop;
end $$;
grant update on tenon.functions to tenon_admin, tenon_operator;

-- What a key in a browser may call, its owner says function by function; the source it never sees.
grant select on tenon.functions to tenon_anon;
create policy anon on tenon.functions for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and config @> '{"anon": true}');
