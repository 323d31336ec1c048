-- Collections: declarations, each with a table of its own (collection-tables.sql), and the documents of undeclared ones.

create table tenon.schemas (
  id text primary key check (id ~ '^sch_[0-9a-hjkmnp-tv-z]{26}$'),
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  collection text not null check (collection ~ '^[A-Za-z_][A-Za-z0-9_-]{0,62}$'),
  store text not null check (store in ('relational', 'document')),
  schema jsonb not null,
  mode text not null check (mode in ('off', 'warn', 'enforce')),
  -- [{"property": "title", "column": "c1", "type": "text"}, …]: one per property for `relational`, one per indexed property
  -- for `document`.
  columns jsonb not null default '[]',
  -- [{"name": "i1", "fields": ["status"], "columns": ["c1"], "unique": false, "state": "ready"}, …]
  indexes jsonb not null default '[]',
  -- The highest numbers assigned so far; none is reused.
  last_column integer not null default 0,
  last_index integer not null default 0,
  access jsonb not null default '{}',
  -- True if anon keys may read at least some documents. Null without `access`: the setting of the workspace applies.
  anon_reads boolean generated always as
    (case when access <> '{}' then coalesce(access #> '{anon,read}', 'false') <> 'false' end) stored,
  user_reads boolean not null generated always as (coalesce(access #> '{user,read}', 'false') <> 'false') stored,
  revision integer not null default 0 check (revision >= 0),
  -- The name of the table in tenon_data. It changes with the declaration, so that writers with a cached one find no table
  -- and read the declaration again.
  relation text not null
    generated always as (id || case revision when 0 then '' else '_' || revision end) stored,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (tenant_id, workspace_id, collection),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
-- Only the state of indexes is updated directly. All else changes together with the table, through functions of the owner.
call tenon.allow('tenon_operator', 'tenon.schemas', 'all', 'select, insert, update (indexes)');
call tenon.allow('tenon_admin', 'tenon.schemas', 'tenant', 'select, insert, update (indexes)');
-- Every read and write of a collection looks up its declaration.
create policy data on tenon.schemas for select to tenon_anon, tenon_user, tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant select on tenon.schemas to tenon_anon, tenon_user, tenon_service;
call tenon.allow('tenon_owner', 'tenon.schemas', 'workspace');
call tenon.add_row_quota('collections', 'tenon.schemas');

-- Documents of undeclared collections. The primary key begins with the tenant, so policies and all reads use it.
create table tenon.documents (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  collection text not null,
  id uuid not null,
  data jsonb not null,
  version bigint not null default 1,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- Users have no access to these documents, so nobody owns one.
  owner text collate "C" check (owner is null),
  primary key (tenant_id, workspace_id, collection, id)
);
-- The subquery does not depend on the row, so it runs once per statement. As a separate condition it would halve the row
-- estimate of every table.
create policy anon on tenon.documents for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = (select tenon.anon_workspace()));
grant select on tenon.documents to tenon_anon;
call tenon.allow('tenon_service', 'tenon.documents', 'workspace', 'select, insert, update, delete');
-- The functions below run as the owner, to which row-level security applies too.
call tenon.allow('tenon_owner', 'tenon.documents', 'workspace', 'select');
call tenon.add_row_quota('documents', 'tenon.documents');
call tenon.add_byte_quota('tenon.documents');

-- Declaring a collection excludes concurrent writes to it as an undeclared one; these raise TN002 afterwards.
create function tenon.collection_lock(tenant text, workspace text, collection text) returns bigint
  immutable parallel safe language sql
  return hashtextextended(tenant || ':' || workspace || ':' || collection, 0);

create function tenon.refuse_declared() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(tenon.collection_lock(new.tenant_id, new.workspace_id, new.collection));
  if exists (select from tenon.schemas s where s.tenant_id = new.tenant_id and s.workspace_id = new.workspace_id
      and s.collection = new.collection) then
    raise exception 'the collection has a table of its own' using errcode = 'TN002';
  end if;
  return new;
end $$;
create trigger refuse_declared before insert on tenon.documents
  for each row execute function tenon.refuse_declared();

-- Raises TN003: one change of an atomic batch failed, so none takes effect.
create function tenon.refuse_change(current jsonb) returns jsonb language plpgsql as $$
begin
  raise exception 'change refused' using errcode = 'TN003',
    detail = jsonb_build_object('current', current);
end $$;

-- @returns the canonical text of a value, null if it does not have the format
-- Equal values have equal canonical texts, and code-point order is the order of values. canonical-text.ts (in schemas/)
-- computes the same for query literals and for documents outside PostgreSQL. Every write of a table with such a column runs
-- this, so it sets no search path, which would cost more than the rest; all names are of pg_catalog.
create function tenon.canonical(format text, value text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  day date;
  behind text;
  fraction text;
  at bigint;
begin
  -- The common case, UTC on days 1 to 28, as a single expression.
  if format = 'date-time' and value ~ '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])'
      'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z$' then
    return lpad(((make_date(substr(value, 1, 4)::integer + 400, substr(value, 6, 2)::integer, substr(value, 9, 2)::integer)
          - date '0400-01-01' + 1)::bigint * 1440
        + substr(value, 12, 2)::integer * 60 + substr(value, 15, 2)::integer)::text, 10, '0')
      || substr(value, 18, 2) || rtrim(rtrim(rtrim(substr(value, 20), 'Z'), '0'), '.');
  end if;
  if format = 'uuid' then
    return case when value ~ '^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then lower(value collate "C") end;
  end if;
  -- Fields have fixed positions: substr is ten times as fast as capturing groups.
  if value !~ (case format
    when 'date' then '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$'
    when 'date-time' then '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])'
      '[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?'
      '(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])(?:\[.*\])?$' end) is not false then
    return null;
  end if;
  -- The calendar repeats every 400 years, and PostgreSQL has no year 0.
  day := make_date(substr(value, 1, 4)::integer + 400, substr(value, 6, 2)::integer, 1)
    + (substr(value, 9, 2)::integer - 1);
  if substr(value, 9, 2) > '28' and date_part('month', day) <> substr(value, 6, 2)::integer then
    return null;
  end if;
  if format = 'date' then
    return value;
  end if;
  behind := substr(value, 20);
  if starts_with(behind, '.') then
    behind := ltrim(substr(behind, 2), '0123456789');
    fraction := rtrim(substr(value, 20, length(value) - length(behind) - 19), '0');
  end if;
  at := (day - date '0400-01-01' + 1)::bigint * 1440 + substr(value, 12, 2)::integer * 60 + substr(value, 15, 2)::integer
    - case left(behind, 1)
      when '+' then substr(behind, 2, 2)::integer * 60 + substr(behind, 5, 2)::integer
      when '-' then -(substr(behind, 2, 2)::integer * 60 + substr(behind, 5, 2)::integer)
      else 0 end;
  if substr(value, 18, 2) = '60' and at % 1440 <> 1439 then
    return null;
  end if;
  return lpad(at::text, 10, '0') || substr(value, 18, 2) || coalesce(nullif(fraction, '.'), '');
end $$;
