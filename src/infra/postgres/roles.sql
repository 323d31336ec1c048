-- Roles, schemas, the settings that policies read, and `tenon.allow`, which gives each table its policies. Roles are cluster-wide. The login role tenon_app may only act as
-- one of the roles below; none of them can bypass row-level security.
do $$
declare
  role text;
begin
  foreach role in array array['tenon_anon', 'tenon_user', 'tenon_service', 'tenon_admin', 'tenon_operator', 'tenon_issuer',
      'tenon_relay', 'tenon_triggers', 'tenon_reconciler', 'tenon_payload_keys', 'tenon_tables', 'tenon_purger'] loop
    if not exists (select from pg_roles where rolname = role) then
      execute format('create role %I nologin nosuperuser nobypassrls noinherit', role);
    end if;
    execute format('grant %I to tenon_app', role);
  end loop;
end $$;

-- Acts for `tenon master-key`, which the owner of the database calls; tenon_app may not act as it.
do $$
begin
  if not exists (select from pg_roles where rolname = 'tenon_key_rotation') then
    create role tenon_key_rotation nologin nosuperuser nobypassrls noinherit;
  end if;
  grant tenon_key_rotation to tenon_owner;
end $$;

create schema tenon;
grant usage on schema tenon to tenon_key_rotation;
grant usage on schema tenon to tenon_app, tenon_anon, tenon_user, tenon_service, tenon_admin, tenon_operator, tenon_issuer,
  tenon_relay, tenon_triggers, tenon_reconciler, tenon_payload_keys, tenon_tables, tenon_purger;
-- The tables of declared collections.
create schema tenon_data;
grant usage on schema tenon_data to tenon_anon, tenon_user, tenon_service, tenon_tables;
-- The owner of these tables: it creates, alters and drops them, and sees none of their rows. tenon_builder builds their indexes.
grant tenon_tables to tenon_builder;
-- Quotas switch triggers of these tables.
grant tenon_tables to tenon_owner with inherit true;

-- The two settings that every policy reads; transaction-local, so they end with the batch that set them.
create function tenon.tenant() returns text stable parallel safe language sql
  return nullif(current_setting('tenon.tenant', true), '');
create function tenon.workspace() returns text stable parallel safe language sql
  return nullif(current_setting('tenon.workspace', true), '');

-- The end user who acts, as {"id", "email", "claims", "lookups", "truncated"}; null for all other callers. Policies of tenon_user read it.
create function tenon.caller() returns jsonb stable parallel safe language sql
  return nullif(current_setting('tenon.user', true), '')::jsonb;

-- Grants a role privileges on a table, and a policy for its rows: those of the session's workspace ('workspace'), of its
-- workspace or, without one, of its tenant ('tenant'), of its tenant ('whole tenant'), or all rows ('all').
create procedure tenon.allow(role text, relation regclass, visible_rows text, privileges text default null)
  language plpgsql as $$
declare
  command constant text := coalesce(substring(privileges from '^(select|update)(?: \([^)]*\))?$'), 'all');
  rows constant text := case visible_rows
    when 'workspace' then 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()'
    when 'tenant' then 'tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace())'
    when 'whole tenant' then 'tenant_id = tenon.tenant()'
    when 'all' then 'true' end;
begin
  execute format('alter table %s enable row level security, force row level security', relation);
  execute format('create policy %I on %s for %s to %I using (%s)' || case command when 'all' then ' with check (%5$s)'
    else '' end, substr(role, 7), relation, command, role, rows);
  if privileges is not null then
    execute format('grant %s on %s to %I', privileges, relation, role);
  end if;
end $$;
revoke execute on procedure tenon.allow from public;
