-- What a workspace opens to anon keys. Absent members have their default: collections "read", objects "none", events
-- "workspace". The platform reads the settings for every key of the workspace; the policies below read them themselves.
alter table tenon.services
  add column anon jsonb not null default '{}' check (
    coalesce(anon ->> 'collections', 'read') in ('read', 'none')
    and coalesce(anon ->> 'objects', 'none') in ('none', 'public')
    and coalesce(anon ->> 'events', 'workspace') in ('workspace', 'none')),
  -- Prefixes of object keys, each ending with a slash.
  add column public_read jsonb not null default '[]' check (jsonb_typeof(public_read) = 'array');
grant insert (anon, public_read), update (anon, public_read) on tenon.services to tenon_admin;
-- Not egress_allow: keys do not learn which private addresses flows may reach.
grant select (tenant_id, workspace_id, anon, public_read) on tenon.services to tenon_anon, tenon_service;
create policy data on tenon.services for select to tenon_anon, tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- The workspace, if its anon keys read collections that have no declaration or whose declaration does not say; null if
-- not. Not inlined: the cost of its look-up would be part of every plan, and hide which of two indexes is the cheaper one.
create function tenon.anon_workspace() returns text stable parallel safe cost 1 language plpgsql as $$
begin
  if exists (select from tenon.services s
      where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace() and s.anon ->> 'collections' = 'none') then
    return null;
  end if;
  return tenon.workspace();
end $$;

-- The subquery does not depend on the row: it runs once per statement. As a condition of its own it would halve what the
-- planner expects of every table.
drop policy anon on tenon.documents;
create policy anon on tenon.documents for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = (select tenon.anon_workspace()));

-- Null: as the workspace's setting says.
alter table tenon.schemas drop column anon_reads;
alter table tenon.schemas
  add column anon_reads boolean generated always as ((access #>> '{anon,read}')::boolean) stored;

-- Grants and policies of anon keys, as the declaration's `access` says. Replaces those that were there.
create or replace function tenon.admit_anon(declared tenon.schemas) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  mine constant text := 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()';
  readable constant text := case when declared.access #>> '{anon,read}' is null
    then 'tenant_id = tenon.tenant() and workspace_id = (select tenon.anon_workspace())' else mine end;
  may record;
begin
  for may in select * from (values
      ('anon', 'read', 'select', format('using (%s)', readable)),
      ('anon_create', 'create', 'insert', format('with check (%s)', mine)),
      ('anon_update', 'update', 'update', format('using (%1$s) with check (%1$s)', mine)),
      ('anon_delete', 'delete', 'delete', format('using (%s)', mine))) as v (policy, action, command, clause) loop
    execute format('drop policy if exists %I on tenon_data.%I', may.policy, declared.relation);
    execute format('revoke %s on tenon_data.%I from tenon_anon', may.command, declared.relation);
    if coalesce((declared.access #>> array['anon', may.action])::boolean, may.action = 'read') then
      execute format('create policy %I on tenon_data.%I for %s to tenon_anon %s',
        may.policy, declared.relation, may.command, may.clause);
      execute format('grant %s on tenon_data.%I to tenon_anon', may.command, declared.relation);
    end if;
  end loop;
end $$;

-- Tables of collections that are declared already.
alter table tenon.schemas no force row level security;
do $$
declare
  declared tenon.schemas;
begin
  for declared in select * from tenon.schemas loop
    perform tenon.admit_anon(declared);
  end loop;
end $$;
alter table tenon.schemas force row level security;
