-- Versions of hosted MCP servers that widen a scope wait for an admin's approval before they can become active.
alter table tenon.mcp_server_versions
  -- The scopes that reach further than they did, with the tools in question; empty: the version needs no approval.
  add column widened jsonb not null default '[]',
  add column approved_by text,
  add column approved_at timestamptz(3),
  add check ((approved_by is null) = (approved_at is null));

-- The approval is the one thing about a version that is written later. What was published stays as it is.
grant update (approved_by, approved_at) on tenon.mcp_server_versions to tenon_admin;
