-- Tenants and workspaces that stand still for a while. `standing` counts the changes of one of them, so that none is made
-- twice; `suspensions` those of the tenant and all its workspaces, so that a run that hears of several knows the last.
alter table tenon.tenants
  add column standing integer not null default 0,
  add column suspensions integer not null default 0,
  add column suspended_at timestamptz(3),
  add column suspended_by text check (suspended_by in ('operator', 'tenant_admin')),
  add column suspended_reason text;
alter table tenon.workspaces
  add column standing integer not null default 0,
  add column suspended_at timestamptz(3),
  add column suspended_by text check (suspended_by in ('operator', 'tenant_admin')),
  add column suspended_reason text;

-- A run that is held has its own status beneath. Those that are to be told are found among all that there ever were.
alter table tenon.executions add column held boolean not null default false;
create index on tenon.executions (tenant_id, workspace_id, id) where ended_at is null;
