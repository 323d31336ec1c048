call tenon.count_as('functions', 'tenon.functions');
call tenon.count_as('mcp_servers', 'tenon.mcp_servers');

-- A workspace begins with one hosted MCP server; an operator allows more (decisions §8).
create function tenon.begin_with_quotas() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  insert into quotas (tenant_id, workspace_id, name, max, used) values (new.tenant_id, new.id, 'mcp_servers', 1, 0);
  return null;
end $$;
revoke execute on function tenon.begin_with_quotas from public;
create trigger begin_with_quotas after insert on tenon.workspaces
  for each row execute function tenon.begin_with_quotas();

-- The owner reads no workspaces; for those that are there already it does, in this transaction.
alter table tenon.workspaces no force row level security;
insert into tenon.quotas (tenant_id, workspace_id, name, max, used)
  select tenant_id, id, 'mcp_servers', 1, 0 from tenon.workspaces;
alter table tenon.workspaces force row level security;
