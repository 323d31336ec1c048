-- Hosted MCP servers: the draft with its curation, immutable published versions, clients, and a log of calls. The issuer and
-- the MCP endpoint look up published servers and clients before the tenant is known.

create table tenon.mcp_servers (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  slug text not null,
  name text not null,
  description text not null,
  state text not null check (state in ('created', 'curated', 'published', 'suspended')),
  curation jsonb not null default '{"tools": {}, "prompts": {}, "resources": {}}',
  -- Which tools clients are shown, and how a call without the scope is answered.
  list text not null default 'auto' check (list in ('auto', 'granted', 'grantable')),
  challenge text not null default 'auto' check (challenge in ('auto', 'http', 'tool_error')),
  active_version integer,
  latest_version integer not null default 0,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, slug),
  unique (tenant_id, workspace_id, name)
);
-- For the issuer and the MCP endpoint, which know the workspace alone.
create index on tenon.mcp_servers (workspace_id);
call tenon.allow('tenon_admin', 'tenon.mcp_servers', 'workspace', 'select, insert, update, delete');
call tenon.add_row_quota('mcp_servers', 'tenon.mcp_servers');

create table tenon.mcp_server_versions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  server_id text not null,
  version integer not null,
  hash text not null,
  manifest jsonb not null,
  -- Scopes that the issuer may grant for this version, and the read-only ones among them.
  scopes jsonb not null,
  baseline jsonb not null,
  -- Scopes that grant more than in the version before, with the tools concerned.
  widened jsonb not null default '[]',
  -- Whether it may break clients, and why.
  class text not null check (class in ('safe', 'breaking', 'suspect')),
  reasons jsonb not null,
  needs_approval boolean not null generated always as (widened <> '[]' or class <> 'safe') stored,
  approved_by text,
  approved_at timestamptz(3),
  published_by text not null,
  published_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, server_id, version),
  foreign key (tenant_id, workspace_id, server_id) references tenon.mcp_servers,
  check ((approved_by is null) = (approved_at is null))
);
-- Immutable except for the approval.
call tenon.allow('tenon_admin', 'tenon.mcp_server_versions', 'workspace',
  'select, insert, update (approved_by, approved_at), delete');
create policy counting on tenon.mcp_server_versions for select to tenon_owner
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- @returns the number of tools of a server of the caller's workspace; without a server, the highest number of any
create function tenon.quota_tools(server text default null) returns bigint
  language sql stable security definer set search_path = tenon, pg_temp as $$
  select coalesce(max(jsonb_array_length(v.manifest -> 'tools')), 0)
  from mcp_servers s join mcp_server_versions v on v.tenant_id = s.tenant_id and v.workspace_id = s.workspace_id
    and v.server_id = s.id and v.version = s.active_version
  where s.tenant_id = tenant() and s.workspace_id = workspace() and (server is null or s.id = server) $$;

-- Raises TQ001 if a version has more tools than the quota `mcp_tools` allows. Tools are no rows, so versions are checked.
create function tenon.limit_tools() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  row quotas%rowtype;
begin
  perform pg_advisory_xact_lock_shared(quota_lock(new.tenant_id, new.workspace_id, 'mcp_tools'));
  select * into row from quotas q
    where q.tenant_id = new.tenant_id and q.workspace_id = new.workspace_id and q.name = 'mcp_tools';
  if jsonb_array_length(new.manifest -> 'tools') > row.max then
    perform raise_quota_exceeded(row, quota_tools(new.server_id));
  end if;
  return null;
end $$;
create trigger limit_tools after insert on tenon.mcp_server_versions
  for each row execute function tenon.limit_tools();
revoke execute on function tenon.quota_tools, tenon.limit_tools from public;

create table tenon.mcp_clients (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  server_id text not null,
  id text not null unique,
  name text not null,
  secret_hash text not null,
  -- Scopes that it may request; null for all of the published version.
  scopes jsonb,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, server_id, id),
  foreign key (tenant_id, workspace_id, server_id) references tenon.mcp_servers
);
call tenon.allow('tenon_admin', 'tenon.mcp_clients', 'workspace', 'select, insert, delete');

call tenon.allow('tenon_operator', 'tenon.mcp_servers', 'all', 'select');
call tenon.allow('tenon_operator', 'tenon.mcp_server_versions', 'all', 'select');
call tenon.allow('tenon_operator', 'tenon.mcp_clients', 'all', 'select');

-- No foreign key to the server: the log of calls outlives it, and is append-only.
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
call tenon.allow('tenon_admin', 'tenon.mcp_calls', 'workspace', 'select, insert');
