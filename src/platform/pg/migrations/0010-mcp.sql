-- Hosted MCP servers: a draft that is curated, immutable published versions, agents' clients, and every call.
create table tenon.mcp_servers (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  slug text not null,
  name text not null,
  description text not null,
  state text not null check (state in ('created', 'curated', 'published', 'suspended')),
  curation jsonb not null default '{}',
  active_version integer,
  latest_version integer not null default 0,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, slug),
  unique (tenant_id, workspace_id, name)
);

-- The issuer and the wire know the workspace alone.
create index on tenon.mcp_servers (workspace_id);

create table tenon.mcp_server_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  server_id text not null,
  version integer not null,
  hash text not null,
  manifest jsonb not null,
  -- What the issuer may grant for this version, and the part of it that only reads.
  scopes jsonb not null,
  baseline jsonb not null,
  published_by text not null,
  published_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, server_id, version),
  foreign key (tenant_id, workspace_id, server_id) references tenon.mcp_servers
);

create table tenon.mcp_clients (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  server_id text not null,
  id text not null unique,
  name text not null,
  secret_hash text not null,
  -- Scopes that it may ask for; null: all of the published version.
  scopes jsonb,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, server_id, id),
  foreign key (tenant_id, workspace_id, server_id) references tenon.mcp_servers
);

-- No reference to the server: what was called stays on record when the server is gone.
create table tenon.mcp_calls (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  server_id text not null,
  id uuid not null,
  time timestamptz(3) not null default now(),
  version integer,
  tool text,
  principal text,
  channel text not null check (channel in ('wire', 'rest')),
  transport_status integer not null,
  rpc_code integer,
  outcome text not null check (outcome in ('ok', 'tool_error', 'rpc_error', 'denied')),
  code text,
  arguments_sha256 text,
  duration_ms integer not null,
  request_id text,
  primary key (tenant_id, workspace_id, server_id, id)
);

do $$
declare
  name text;
begin
  foreach name in array array['mcp_servers', 'mcp_server_versions', 'mcp_clients', 'mcp_calls'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    execute format('grant select, insert on tenon.%I to tenon_admin', name);
    execute format(
      'create policy admin on tenon.%I to tenon_admin using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()) with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())',
      name);
  end loop;
  -- The issuer and the wire ask what is published, and whose a client is, before any tenant is known.
  foreach name in array array['mcp_servers', 'mcp_server_versions', 'mcp_clients'] loop
    execute format('grant select on tenon.%I to tenon_operator', name);
    execute format('create policy operator on tenon.%I for select to tenon_operator using (true)', name);
  end loop;
end $$;
-- Versions never change and calls are never taken back; both grants that would allow it are missing.
grant update, delete on tenon.mcp_servers to tenon_admin;
grant delete on tenon.mcp_server_versions, tenon.mcp_clients to tenon_admin;
