-- Serves builds from 0.1.0 on.
-- Policies of declared tables that are decided once for a statement. They compare the session with the workspace of the table, to which a
-- constraint binds its rows, in place of each row with the session. Tables get them when they are created or their declaration changes.

-- True in a session of this workspace, else null.
create function tenon.in_workspace(tenant text, workspace text) returns boolean stable parallel safe language sql
  return case when tenon.tenant() = tenant and tenon.workspace() = workspace then true end;
-- The same if the setting of the workspace shows anon keys the collections that do not say.
create function tenon.in_open_workspace(tenant text, workspace text) returns boolean stable parallel safe language sql
  return case when tenon.tenant() = tenant and tenon.anon_workspace() = workspace then true end;

-- True if a condition, as the catalogue shows it, admits rows of this workspace in its sessions alone, whatever follows.
create function tenon.is_of_workspace(condition text, tenant text, workspace text) returns boolean
  immutable parallel safe language sql
  return tenon.is_of_workspace(condition) or exists (
    select from unnest(array['in_workspace', 'in_open_workspace']) as test (name)
      cross join lateral format('(( SELECT tenon.%1$s(%2$L::text, %3$L::text) AS %1$s) IS NOT NULL)', name, tenant, workspace) as here
    -- Behind the word stands a blank, or a line break before a CASE.
    where condition = here or (starts_with(condition, '(' || here || ' AND') and substr(condition, length(here) + 6, 1) ~ '\s'));
revoke execute on function tenon.is_of_workspace(text, text, text) from public;

create or replace function tenon.require_isolation() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  bound constant text := format('CHECK (((tenant_id = %L::text) AND (workspace_id = %L::text)))',
    new.tenant_id, new.workspace_id);
begin
  if not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'tenon_data' and c.relname = new.relation and c.relrowsecurity and c.relforcerowsecurity
        and exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'c'
          and pg_get_constraintdef(k.oid) = bound)
        and not exists (select from pg_policy p where p.polrelid = c.oid
          and not (tenon.is_of_workspace(pg_get_expr(p.polqual, p.polrelid), new.tenant_id, new.workspace_id)
            and tenon.is_of_workspace(pg_get_expr(p.polwithcheck, p.polrelid), new.tenant_id, new.workspace_id)))) then
    raise exception 'the table of the collection is not isolated' using errcode = 'check_violation';
  end if;
  return null;
end $$;
