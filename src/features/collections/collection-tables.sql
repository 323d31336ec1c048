-- Tables of declared collections. The application creates, changes and drops them (postgres/collection-table.ts) as tenon_tables,
-- the role that owns them, in the transaction that changes the row of tenon.schemas. The functions here keep what must hold for
-- each of them, whichever statements made it.

-- The role has no policy on these tables, so it reads and writes no row while row-level security is forced.
grant create on schema tenon_data to tenon_tables;
grant select, delete, update (schema, mode, columns, indexes, access, revision, last_column, last_index, updated_at)
  on tenon.schemas to tenon_tables;
create policy tables on tenon.schemas to tenon_tables
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant select, update (used) on tenon.quotas to tenon_tables;
create policy tables on tenon.quotas to tenon_tables
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant select, insert, delete on tenon.quota_sources to tenon_tables;
create policy tables on tenon.quota_sources to tenon_tables
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant execute on procedure tenon.allow, tenon.add_row_quota, tenon.add_byte_quota, tenon.switch_counting to tenon_tables;
grant execute on function tenon.count_rows, tenon.count_bytes, tenon.total_bytes to tenon_tables;

-- Updates of users and anon keys whose rule compares a row with the one before (`$old`), which no policy sees.
-- @param tg_argv the condition, over the columns of the row and those of `before`
create function tenon.check_transition() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  is_admitted boolean;
begin
  execute format('with before as (select ($1).*) select %s from (select ($2).*) as after', tg_argv[0])
    into is_admitted using old, new;
  if is_admitted is not true then
    raise exception 'the update rule does not admit this change' using errcode = 'insufficient_privilege';
  end if;
  return null;
end $$;

-- True if a condition, as the catalogue shows it, admits rows of the session's workspace alone, whatever follows.
create function tenon.is_of_workspace(condition text) returns boolean immutable parallel safe language sql
  return condition is null or condition ~ ('^\(\(tenant_id = tenon\.tenant\(\)\) AND \(workspace_id = '
    '(tenon\.workspace\(\)|\( SELECT tenon\.anon_workspace\(\) AS anon_workspace\))\)(\)$| AND\s)');

-- Raises unless the table of a declaration is isolated: row-level security is forced, all policies show rows of the session's
-- workspace alone, and a constraint binds its rows to the workspace of the declaration.
create function tenon.require_isolation() returns trigger
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
          and not (tenon.is_of_workspace(pg_get_expr(p.polqual, p.polrelid))
            and tenon.is_of_workspace(pg_get_expr(p.polwithcheck, p.polrelid))))) then
    raise exception 'the table of the collection is not isolated' using errcode = 'check_violation';
  end if;
  return null;
end $$;
-- At the end of the transaction, after the statements that create or change the table.
create constraint trigger require_isolation after insert or update of revision on tenon.schemas
  deferrable initially deferred for each row execute function tenon.require_isolation();

revoke execute on function tenon.check_transition, tenon.is_of_workspace, tenon.require_isolation from public;
grant execute on function tenon.check_transition to tenon_tables;
