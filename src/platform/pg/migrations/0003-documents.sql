-- Documents of undeclared collections. The key leads with the tenant, so RLS and every read use it.
create table tenon.documents (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  collection text not null,
  id uuid not null,
  data jsonb not null,
  version bigint not null default 1,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, collection, id)
);
alter table tenon.documents enable row level security;
alter table tenon.documents force row level security;

grant select on tenon.documents to tenon_anon;
grant select, insert, update, delete on tenon.documents to tenon_service;
create policy anon on tenon.documents for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
create policy service on tenon.documents to tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
