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
  curation jsonb not null default '{"tools": {}, "groups": [], "prompts": {}, "resources": {}}',
  -- Which tools clients are shown, and how a call without the scope is answered.
  list text not null default 'auto' check (list in ('auto', 'granted', 'grantable')),
  challenge text not null default 'auto' check (challenge in ('auto', 'http', 'tool_error')),
  -- Mode of `tools/list`: it shows the search of tools, or all tools.
  search text not null default 'auto' check (search in ('auto', 'on', 'off')),
  -- How results of tools with an output schema are sent.
  results text not null default 'both' check (results in ('both', 'text', 'structured')),
  -- The external issuer of its tokens; null: the embedded one.
  authorization_server text,
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
  -- Compact JWS of the platform about server, version, hash and time.
  signature text not null,
  -- Scopes that the issuer may grant for this version, and the read-only ones among them.
  scopes jsonb not null,
  baseline jsonb not null,
  -- Scopes that grant more than in the version before, with the tools concerned.
  widened jsonb not null default '[]',
  -- The class of the version (review.ts), and the reasons for it.
  class text not null check (class in ('safe', 'breaking', 'suspect')),
  reasons jsonb not null,
  -- Published by a role that may not open data, with tools that reach them.
  opens_data boolean not null,
  needs_approval boolean not null generated always as (widened <> '[]' or class <> 'safe' or opens_data) stored,
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

-- @returns the versions of a function that versions of MCP servers call; empty unless the caller administers the workspace
create function tenon.versions_in_tools(t text, w text, called text) returns integer[]
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before text[];
  found_versions integer[];
begin
  if not administers(t, w) then
    return '{}';
  end if;
  before := act_for_workspace(t, w);
  select coalesce(array_agg(distinct (b -> 'fixed' ->> 'version')::integer), '{}') into found_versions
    from mcp_server_versions v, jsonb_array_elements(v.manifest -> 'tools') tool, lateral (select tool -> 'binding') as e (b)
    where v.tenant_id = t and v.workspace_id = w and b ->> 'source' = 'functions' and b -> 'fixed' ->> 'id' = called;
  perform act_for_workspace(before[1], before[2]);
  return found_versions;
end $$;
revoke execute on function tenon.versions_in_tools from public;
grant execute on function tenon.versions_in_tools to tenon_admin, tenon_operator;

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
create trigger record_maker after insert on tenon.mcp_clients for each row execute function tenon.record_creator();

-- Sources of tools outside the platform, with the definitions that an admin has accepted.
create table tenon.mcp_sources (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  name text not null,
  kind text not null check (kind in ('openapi', 'mcp', 'image')),
  url text not null,
  base_url text,
  -- By name: {"secret": …, "prefix": …?} with the name of a secret of the workspace, or {"value": …}.
  headers jsonb not null default '{}',
  -- Reference, arguments, variables and limits of a container image (images/image-settings.ts).
  image jsonb,
  -- remote/definitions.ts: the tools as their source defines them, the hash of each, and that of all.
  definitions jsonb not null,
  -- Of the definitions as JSON.
  bytes integer not null,
  hashes jsonb not null,
  hash text not null,
  -- Parts of the source that are no tools, with reasons.
  skipped jsonb not null default '[]',
  state text not null default 'ready' check (state in ('ready', 'drifted', 'failed')),
  -- How the source differs from what is pinned, if it does; why it could not be read.
  drift jsonb,
  error text,
  checked_at timestamptz(3) not null default now(),
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, name),
  check ((kind = 'image') = (image is not null)),
  check ((state = 'drifted') = (drift is not null)),
  check ((state = 'failed') = (error is not null))
);
call tenon.allow('tenon_admin', 'tenon.mcp_sources', 'workspace', 'select, insert, update, delete');

call tenon.allow('tenon_operator', 'tenon.mcp_servers', 'all', 'select');
call tenon.allow('tenon_operator', 'tenon.mcp_server_versions', 'all', 'select');
call tenon.allow('tenon_operator', 'tenon.mcp_clients', 'all', 'select');

-- The log of calls: a hash chain per server, as the audit log is one per tenant (access/audit/audit.sql). No foreign key to
-- the server, since the log outlives it.
create table tenon.mcp_calls (
  tenant_id text not null,
  workspace_id text not null,
  server_id text not null,
  seq bigint not null check (seq > 0),
  -- Canonical JSON, stored as the text that is hashed.
  entry text not null,
  prev_hash bytea not null check (octet_length(prev_hash) = 32),
  hash bytea not null check (octet_length(hash) = 32),
  -- Copied from the entry for filters; verification compares both.
  time text collate "C" not null,
  tool text,
  outcome text not null check (outcome in ('ok', 'tool_error', 'rpc_error', 'denied')),
  principal text,
  client_id text,
  -- When the entry was appended, at the end of the call.
  logged_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, server_id, seq)
);
-- For counts of calls in a time.
create index on tenon.mcp_calls (tenant_id, workspace_id, logged_at);
call tenon.allow('tenon_admin', 'tenon.mcp_calls', 'workspace', 'select');

-- The head of each chain, as in the audit log.
create table tenon.mcp_call_heads (
  tenant_id text not null,
  workspace_id text not null,
  server_id text not null,
  seq bigint not null,
  hash bytea not null check (octet_length(hash) = 32),
  retention_due_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, server_id)
) with (fillfactor = 50);
call tenon.allow('tenon_admin', 'tenon.mcp_call_heads', 'workspace', 'select');
-- For the function below.
call tenon.allow('tenon_owner', 'tenon.mcp_calls', 'workspace');
call tenon.allow('tenon_owner', 'tenon.mcp_call_heads', 'workspace');

create trigger forbid_rewrite before update or truncate on tenon.mcp_calls
  for each statement execute function tenon.forbid_update();
create trigger forbid_rewrite before delete or truncate on tenon.mcp_call_heads
  for each statement when (current_user <> 'tenon_purger') execute function tenon.forbid_update();
create trigger forbid_rewind before update of tenant_id, workspace_id, server_id, seq, hash on tenon.mcp_call_heads for each row
  when (new.seq <= old.seq
    or (new.tenant_id, new.workspace_id, new.server_id) <> (old.tenant_id, old.workspace_id, old.server_id))
  execute function tenon.forbid_update();

-- Appends entries[i] to the chain of servers[i] of the caller's workspace, in order. Concurrent appends to a chain are
-- serialised by the row lock of its head; several heads are locked in one order.
create function tenon.append_mcp_calls(servers text[], entries text[]) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  server text;
  lines text[];
  base bigint;
  n integer;
  last bytea;
  hashes bytea[];
begin
  for server in select distinct s collate "C" from unnest(servers) as u (s) order by 1 loop
    insert into mcp_call_heads (tenant_id, workspace_id, server_id, seq, hash)
      values (tenant(), workspace(), server, 0, decode(repeat('00', 32), 'hex'))
      on conflict do nothing;
    select seq, hash into strict base, last from mcp_call_heads h
      where h.tenant_id = tenant() and h.workspace_id = workspace() and h.server_id = server for no key update;
    select array_agg(e order by i) into lines
      from unnest(servers, entries) with ordinality as u (s, e, i) where s = server;
    hashes := chain_hashes(last, base, lines);
    n := cardinality(lines);
    insert into mcp_calls
      (tenant_id, workspace_id, server_id, seq, entry, prev_hash, hash, time, tool, outcome, principal, client_id)
      select tenant(), workspace(), server, base + i, e, hashes[i], hashes[i + 1],
        r.time, r.tool, r.outcome, r.principal, r.client_id
      from unnest(lines) with ordinality as u (e, i),
        jsonb_to_record(e::jsonb) as r (time text, tool text, outcome text, principal text, client_id text);
    update mcp_call_heads h set seq = base + n, hash = hashes[n + 1]
      where h.tenant_id = tenant() and h.workspace_id = workspace() and h.server_id = server;
  end loop;
end $$;
revoke execute on function tenon.append_mcp_calls from public;
grant execute on function tenon.append_mcp_calls to tenon_admin;
