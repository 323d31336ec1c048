-- Every declared collection has a table of its own, whichever store it was declared for: `relational` has a column per
-- declared property, `document` one per indexed property. With it come indexes that hold under row-level security,
-- writes of anon keys by policy, and a name that changes with the declaration (0016), so that nobody writes under an
-- old one. Every write leaves a line in the outbox, in the same transaction.
do $$ begin
  if not exists (select from pg_roles where rolname = 'tenon_relay') then
    create role tenon_relay nologin nosuperuser nobypassrls noinherit;
  end if;
  grant tenon_relay to tenon_app;
end $$;
grant usage on schema tenon to tenon_relay;

-- Changes of documents, until somebody has passed them on, a tenant's in the order of `seq`. That is drawn while the
-- document's row is locked: so the versions of one document, and what was written after something else was
-- acknowledged, keep their order. By transaction ids they would not, since a transaction has its id before its locks;
-- and one that lasts, in whichever database of the server, would hold back everybody's changes.
create table tenon.outbox (
  tenant_id text not null default tenon.tenant(),
  seq bigint generated always as identity,
  workspace_id text not null default tenon.workspace(),
  -- The event's id, the same however often it is passed on.
  event_id uuid not null default gen_random_uuid(),
  collection text not null,
  verb text not null check (verb in ('created', 'updated', 'deleted')),
  document_id uuid not null,
  version bigint not null,
  -- The caller's fields as they are now; null where the document is gone. As text: nobody looks into it.
  document json,
  -- Of the document as text, so that nobody unpacks more documents than he has room for.
  bytes integer not null default 0,
  -- Whether anon keys could read the collection when it was changed. Replayed later, when they may, it would show
  -- documents that they never might have seen.
  anon_reads boolean not null default false,
  at timestamptz(3) not null default now(),
  -- Tenants take turns: a million changes of one are not before the next one's first.
  primary key (tenant_id, seq)
);
alter table tenon.outbox enable row level security;
alter table tenon.outbox force row level security;
grant insert on tenon.outbox to tenon_anon, tenon_service;
create policy data on tenon.outbox for insert to tenon_anon, tenon_service
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
-- Passes on what all tenants have changed, and sees nothing else of theirs.
grant select, delete on tenon.outbox to tenon_relay;
create policy relay on tenon.outbox to tenon_relay using (true);

-- Raises TN003: one change of an atomic batch could not be made, so none is.
create function tenon.refuse_change(current jsonb) returns jsonb language plpgsql as $$
begin
  raise exception 'change refused' using errcode = 'TN003',
    detail = jsonb_build_object('current', current);
end $$;

alter table tenon.schemas
  add column revision integer not null default 0 check (revision >= 0),
  -- [{"name": "i1", "fields": ["status"], "columns": ["c1"], "unique": false, "state": "ready"}, …]
  add column indexes jsonb not null default '[]',
  add column relation text not null
    generated always as (id || case revision when 0 then '' else '_' || revision end) stored;

drop function tenon.make_table;
-- Types whose comparison is leakproof, so that it may come before the policies' own conditions; jsonb is not, and has
-- no index.
create function tenon.column_type(type text) returns text immutable strict language sql as $$
  select '{"text": "text collate \"C\"", "bigint": "bigint", "double precision": "double precision",
    "boolean": "boolean", "timestamptz": "timestamptz(3)", "uuid": "uuid", "jsonb": "jsonb"}'::jsonb ->> type
$$;

-- A function for triggers alone. No text of a user becomes an identifier: the table has the id's name, columns and
-- indexes are numbered, types are of the list above.
create function tenon.make_table(declared tenon.schemas) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
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
    if item ->> 'column' is distinct from 'c' || n or tenon.column_type(item ->> 'type') is null then
      raise exception 'not a column' using errcode = 'check_violation';
    end if;
    columns := columns || format('%I %s, ', 'c' || n, tenon.column_type(item ->> 'type'));
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
      primary key (id))', declared.relation, columns, mine);
  execute format('alter table tenon_data.%I enable row level security', declared.relation);
  execute format('alter table tenon_data.%I force row level security', declared.relation);
  mine := 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()';
  execute format('create policy service on tenon_data.%1$I to tenon_service using (%2$s) with check (%2$s)',
    declared.relation, mine);
  execute format('create policy owner on tenon_data.%I for select to tenon_owner using (%s)', declared.relation, mine);
  execute format('grant select, insert, update, delete on tenon_data.%I to tenon_service', declared.relation);
  perform tenon.admit_anon(declared);
  for item in select value from jsonb_array_elements(declared.indexes) loop
    execute tenon.index_statement(declared, item, false);
  end loop;
end $$;

-- Grants and policies of anon keys, as the declaration's `access` says. Replaces those that were there.
create function tenon.admit_anon(declared tenon.schemas) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  mine constant text := 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()';
  may record;
begin
  for may in select * from (values
      ('anon', 'read', 'select', format('using (%s)', mine)),
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

-- The table is one workspace's, so neither its key nor its indexes begin with what the policies ask: a statement that is
-- planned while the table is empty has no other index to choose than the right one. One that is not unique ends with
-- the id, so that it is an order of pages.
create function tenon.index_statement(declared tenon.schemas, item jsonb, online boolean) returns text
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  columns text;
begin
  select string_agg(quote_ident(name), ', ' order by n) into columns
    from jsonb_array_elements_text(item -> 'columns') with ordinality as e (name, n)
    where name in (select c ->> 'column' from jsonb_array_elements(declared.columns) c where c ->> 'type' <> 'jsonb');
  if item ->> 'name' !~ '^i[1-9][0-9]{0,3}$' or columns is null
    or jsonb_array_length(item -> 'columns') <> regexp_count(columns, ',') + 1 then
    raise exception 'not an index' using errcode = 'check_violation';
  end if;
  return format('create %s index %s %I on tenon_data.%I (%s%s)',
    case when (item ->> 'unique')::boolean then 'unique' else '' end,
    case when online then 'concurrently if not exists' else '' end,
    declared.id || '_' || (item ->> 'name'), declared.relation, columns,
    case when (item ->> 'unique')::boolean then '' else ', id' end);
end $$;
revoke execute on function tenon.make_table, tenon.admit_anon, tenon.index_statement from public;

create or replace function tenon.declare_collection() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(tenon.collection_lock(new.tenant_id, new.workspace_id, new.collection));
  if tenon.has_rows('select exists (select from tenon.documents where collection = $1)',
      new.tenant_id, new.workspace_id, new.collection) then
    raise exception 'the collection has documents' using errcode = 'TN001';
  end if;
  perform tenon.make_table(new);
  return null;
end $$;

create or replace function tenon.undeclare_collection() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(tenon.collection_lock(old.tenant_id, old.workspace_id, old.collection));
  execute format('lock table tenon_data.%I in access exclusive mode', old.relation);
  if tenon.has_rows(format('select exists (select from tenon_data.%I where $1 <> '''')', old.relation),
      old.tenant_id, old.workspace_id, old.collection) then
    raise exception 'the collection has documents' using errcode = 'TN001';
  end if;
  execute format('drop table tenon_data.%I', old.relation);
  return old;
end $$;

-- Undeclared documents alone are in tenon.documents now.
create or replace function tenon.refuse_relational() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(tenon.collection_lock(new.tenant_id, new.workspace_id, new.collection));
  if exists (select from tenon.schemas s where s.tenant_id = new.tenant_id and s.workspace_id = new.workspace_id
      and s.collection = new.collection) then
    raise exception 'the collection has a table of its own' using errcode = 'TN002';
  end if;
  return new;
end $$;
alter function tenon.refuse_relational() rename to refuse_declared;
alter trigger refuse_relational on tenon.documents rename to refuse_declared;

create or replace function tenon.count_declared() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  call count_as('documents', format('tenon_data.%I', new.relation)::regclass, null, new.tenant_id, new.workspace_id);
  return null;
end $$;
create or replace function tenon.forget_declared() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from quota_sources where relation = format('tenon_data.%I', old.relation)::regclass;
  return old;
end $$;

-- Documents of collections that were declared for the document store move to their tables. Nothing is counted anew:
-- they count towards the same quota before and after.
alter table tenon.schemas no force row level security;
alter table tenon.documents no force row level security;
alter table tenon.documents disable trigger user;
do $$
declare
  declared tenon.schemas;
begin
  for declared in select * from tenon.schemas where store = 'document' loop
    perform tenon.make_table(declared);
    execute format('alter table tenon_data.%I no force row level security', declared.relation);
    execute format('insert into tenon_data.%I (tenant_id, workspace_id, id, extra, version, created_at, updated_at)
      select tenant_id, workspace_id, id, data, version, created_at, updated_at from tenon.documents
      where tenant_id = $1 and workspace_id = $2 and collection = $3', declared.relation)
      using declared.tenant_id, declared.workspace_id, declared.collection;
    delete from tenon.documents d where d.tenant_id = declared.tenant_id
      and d.workspace_id = declared.workspace_id and d.collection = declared.collection;
    execute format('alter table tenon_data.%I force row level security', declared.relation);
    call tenon.count_as('documents', format('tenon_data.%I', declared.relation)::regclass, null,
      declared.tenant_id, declared.workspace_id);
  end loop;
end $$;
alter table tenon.documents enable trigger user;
alter table tenon.documents force row level security;
alter table tenon.schemas force row level security;

drop trigger declared_counts on tenon.schemas;
create trigger declared_counts after insert on tenon.schemas
  for each row execute function tenon.count_declared();
drop trigger forget_counts on tenon.schemas;
create trigger forget_counts before delete on tenon.schemas
  for each row execute function tenon.forget_declared();

drop policy anon on tenon.documents;
create policy anon on tenon.documents for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
