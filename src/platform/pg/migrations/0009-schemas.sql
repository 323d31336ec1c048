-- Declared collections, and a table of its own for each relational one. Raises TN001 (there are documents) and
-- TN002 (the collection is relational by now); the platform translates both.
create schema tenon_data;
grant usage on schema tenon_data to tenon_anon, tenon_service;

create table tenon.schemas (
  id text primary key check (id ~ '^sch_[0-9a-hjkmnp-tv-z]{26}$'),
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  collection text not null check (collection ~ '^[A-Za-z_][A-Za-z0-9_-]{0,62}$'),
  store text not null check (store in ('relational', 'document')),
  schema jsonb not null,
  mode text not null check (mode in ('off', 'warn', 'enforce')),
  -- [{"property": "title", "column": "c1", "type": "text"}, …]; empty for the document store.
  columns jsonb not null default '[]',
  access jsonb not null default '{}',
  anon_reads boolean not null generated always as (coalesce((access #>> '{anon,read}')::boolean, true)) stored,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (tenant_id, workspace_id, collection),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
alter table tenon.schemas enable row level security;
alter table tenon.schemas force row level security;

grant select, insert, delete on tenon.schemas to tenon_operator, tenon_admin;
create policy operator on tenon.schemas to tenon_operator using (true) with check (true);
create policy admin on tenon.schemas to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()))
  with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()));
-- Every write and read of a collection asks what it is.
grant select on tenon.schemas to tenon_anon, tenon_service;
create policy data on tenon.schemas for select to tenon_anon, tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- The subquery does not depend on the row, so it runs once per statement; its own policy keeps it in the workspace.
drop policy anon on tenon.documents;
create policy anon on tenon.documents for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()
    and collection <> all (array(select s.collection from tenon.schemas s where not s.anon_reads)));
-- The functions below run as the owner, who is under row-level security like everybody (FORCE).
create policy owner on tenon.documents for select to tenon_owner
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- Whoever declares a collection excludes those who write to it undeclared, and the other way round.
create function tenon.collection_lock(tenant text, workspace text, collection text) returns bigint
  immutable parallel safe language sql
  return hashtextextended(tenant || ':' || workspace || ':' || collection, 0);

create function tenon.refuse_relational() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(tenon.collection_lock(new.tenant_id, new.workspace_id, new.collection));
  if exists (select from tenon.schemas s where s.tenant_id = new.tenant_id and s.workspace_id = new.workspace_id
      and s.collection = new.collection and s.store = 'relational') then
    raise exception 'the collection has a table of its own' using errcode = 'TN002';
  end if;
  return new;
end $$;
create trigger refuse_relational before insert on tenon.documents
  for each row execute function tenon.refuse_relational();

-- Whether there are rows, seen with the rights that one workspace has. The settings are put back: the rest of the
-- caller's transaction is under them.
create function tenon.has_rows(query text, tenant text, workspace text, collection text) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  old_tenant text := current_setting('tenon.tenant', true);
  old_workspace text := current_setting('tenon.workspace', true);
  present boolean;
begin
  perform set_config('tenon.tenant', tenant, true), set_config('tenon.workspace', workspace, true);
  execute query into present using collection;
  perform set_config('tenon.tenant', coalesce(old_tenant, ''), true),
    set_config('tenon.workspace', coalesce(old_workspace, ''), true);
  return present;
end $$;
revoke execute on function tenon.has_rows from public;

-- Makes the table of a relational collection. It is a trigger, so nobody can call it: the row that it acts for has
-- passed the policies of tenon.schemas. No text of a user becomes an identifier: the table has the id's name, columns
-- are numbered, types are of this list, all of them with leakproof comparison.
create function tenon.make_table(declared tenon.schemas) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  types constant jsonb := '{"text": "text collate \"C\"", "bigint": "bigint", "double precision": "double precision",
    "boolean": "boolean", "timestamptz": "timestamptz(3)", "uuid": "uuid"}';
  columns text := '';
  item jsonb;
  n integer := 0;
  mine text;
begin
  if declared.id !~ '^sch_[0-9a-hjkmnp-tv-z]{26}$' or jsonb_typeof(declared.columns) <> 'array'
    or jsonb_array_length(declared.columns) > 200 then
    raise exception 'not a declaration' using errcode = 'check_violation';
  end if;
  for item in select value from jsonb_array_elements(declared.columns) loop
    n := n + 1;
    if item ->> 'column' is distinct from 'c' || n or not coalesce(types ? (item ->> 'type'), false) then
      raise exception 'not a column' using errcode = 'check_violation';
    end if;
    columns := columns || format('%I %s, ', 'c' || n, types ->> (item ->> 'type'));
  end loop;
  -- Of one workspace for good: even with a foreign table's name nobody can leave a row there.
  mine := format('tenant_id = %L and workspace_id = %L', declared.tenant_id, declared.workspace_id);
  execute format(
    'create table tenon_data.%1$I (
      tenant_id text not null default tenon.tenant(),
      workspace_id text not null default tenon.workspace(),
      id uuid not null, %2$s
      extra jsonb not null default ''{}'',
      version bigint not null default 1,
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now(),
      check (%3$s),
      primary key (tenant_id, workspace_id, id))', declared.id, columns, mine);
  execute format('alter table tenon_data.%I enable row level security', declared.id);
  execute format('alter table tenon_data.%I force row level security', declared.id);
  mine := 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()';
  execute format('create policy service on tenon_data.%1$I to tenon_service using (%2$s) with check (%2$s)',
    declared.id, mine);
  execute format('create policy owner on tenon_data.%I for select to tenon_owner using (%s)', declared.id, mine);
  execute format('grant select, insert, update, delete on tenon_data.%I to tenon_service', declared.id);
  if declared.anon_reads then
    execute format('create policy anon on tenon_data.%I for select to tenon_anon using (%s)', declared.id, mine);
    execute format('grant select on tenon_data.%I to tenon_anon', declared.id);
  end if;
end $$;
revoke execute on function tenon.make_table from public;

create function tenon.declare_collection() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(tenon.collection_lock(new.tenant_id, new.workspace_id, new.collection));
  if tenon.has_rows('select exists (select from tenon.documents where collection = $1)',
      new.tenant_id, new.workspace_id, new.collection) then
    raise exception 'the collection has documents' using errcode = 'TN001';
  end if;
  if new.store = 'relational' then
    perform tenon.make_table(new);
  end if;
  return null;
end $$;
create trigger declare_collection after insert on tenon.schemas
  for each row execute function tenon.declare_collection();

create function tenon.undeclare_collection() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  query text := 'select exists (select from tenon.documents where collection = $1)';
begin
  perform pg_advisory_xact_lock(tenon.collection_lock(old.tenant_id, old.workspace_id, old.collection));
  if old.store = 'relational' then
    execute format('lock table tenon_data.%I in access exclusive mode', old.id);
    query := format('select exists (select from tenon_data.%I)', old.id);
  end if;
  if tenon.has_rows(query, old.tenant_id, old.workspace_id, old.collection) then
    raise exception 'the collection has documents' using errcode = 'TN001';
  end if;
  if old.store = 'relational' then
    execute format('drop table tenon_data.%I', old.id);
  end if;
  return old;
end $$;
create trigger undeclare_collection before delete on tenon.schemas
  for each row execute function tenon.undeclare_collection();
