-- Roles are cluster-wide. The login role may only put on the three masks below; none of them can bypass RLS.
do $$
declare
  mask text;
begin
  foreach mask in array array['tenon_anon', 'tenon_service', 'tenon_admin', 'tenon_operator'] loop
    if not exists (select from pg_roles where rolname = mask) then
      execute format('create role %I nologin nosuperuser nobypassrls noinherit', mask);
    end if;
    execute format('grant %I to tenon_app', mask);
  end loop;
end $$;

create schema if not exists tenon;
grant usage on schema tenon to tenon_app, tenon_anon, tenon_service, tenon_admin, tenon_operator;

-- The two settings that every policy reads; transaction-local, so they end with the batch that set them.
create function tenon.tenant() returns text stable parallel safe language sql
  return nullif(current_setting('tenon.tenant', true), '');
create function tenon.workspace() returns text stable parallel safe language sql
  return nullif(current_setting('tenon.workspace', true), '');
