-- Results of tools that were too large to return, for the principal of the call. They contain documents, so admins cannot
-- read them.
create table tenon.mcp_results (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  -- 128 random bits.
  id text not null check (id ~ '^[0-9a-f]{32}$'),
  server_id text not null,
  principal text not null,
  -- The tool whose result it is, by name.
  tool text not null,
  mime_type text not null,
  content bytea not null check (octet_length(content) <= 5242880),
  bytes integer not null generated always as (octet_length(content)) stored,
  made_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id, server_id) references tenon.mcp_servers on delete cascade
);
create index on tenon.mcp_results (expires_at);
-- Pages are read from the middle, which compressed content does not allow.
alter table tenon.mcp_results alter column content set storage external;
call tenon.allow('tenon_service', 'tenon.mcp_results', 'workspace', 'select, insert, delete');
-- Expired results of all workspaces are deleted by the reconciler.
create policy reconciler on tenon.mcp_results to tenon_reconciler using (expires_at <= now());
grant select (tenant_id, workspace_id, id, expires_at), delete on tenon.mcp_results to tenon_reconciler;
