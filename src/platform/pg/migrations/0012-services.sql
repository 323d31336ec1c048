-- What is switched on in a workspace, and the addresses that its flows may reach although they are not public.
create table tenon.services (
  tenant_id text not null,
  workspace_id text not null,
  experimental jsonb not null default '[]',
  egress_allow jsonb not null default '[]',
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
alter table tenon.services enable row level security;
alter table tenon.services force row level security;
grant select, insert, update on tenon.services to tenon_operator, tenon_admin;
create policy operator on tenon.services to tenon_operator using (true) with check (true);
create policy admin on tenon.services to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()))
  with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()));
-- Addresses that are not public are the operator's to open.
revoke insert, update on tenon.services from tenon_admin;
grant insert (tenant_id, workspace_id, experimental, updated_at), update (experimental, updated_at)
  on tenon.services to tenon_admin;

-- Requests by workspace and minute. `buckets[i]` counts those that took less than 2^(i/2) ms and not less than the one
-- before: enough for quantiles within a fifth, and a fixed size.
create table tenon.meters (
  tenant_id text not null,
  workspace_id text not null,
  at timestamptz(3) not null,
  requests bigint not null,
  client_errors bigint not null,
  server_errors bigint not null,
  buckets bigint[] not null,
  primary key (tenant_id, workspace_id, at)
);
alter table tenon.meters enable row level security;
alter table tenon.meters force row level security;
grant select, insert, update on tenon.meters to tenon_operator;
create policy operator on tenon.meters to tenon_operator using (true) with check (true);
grant select on tenon.meters to tenon_service;
create policy service on tenon.meters for select to tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
