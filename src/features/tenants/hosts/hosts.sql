-- Host names that workspaces have claimed. Several may claim a name; one that has proved it by DNS serves it.
create table tenon.hosts (
  tenant_id text not null,
  workspace_id text not null,
  host text not null,
  -- The text that a TXT record at `_tenon.<host>` has to have.
  proof text not null,
  -- When the proof was found. Null: it was not, or another workspace has proved the name since.
  verified_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  primary key (workspace_id, host),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
create unique index hosts_verified on tenon.hosts (host) where verified_at is not null;
-- Admins claim and give up; that a name is proved is written by the platform alone, which has looked the proof up.
call tenon.allow('tenon_operator', 'tenon.hosts', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.hosts', 'tenant',
  'select, insert (tenant_id, workspace_id, host, proof), delete');
