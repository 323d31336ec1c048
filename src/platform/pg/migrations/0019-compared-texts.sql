-- Points in time, dates and uuids have several spellings and read back as they were written. Beside the column of such
-- a text stands one that is generated from it: the text that it is compared as. Filters, orders and indexes are over
-- that one; nobody writes it and nobody is shown it.

-- The canonical text of a value, null where the text is not of the format: of two texts of one format it is the same
-- where they mean the same, and in code-point order it comes first where the value does. As src/resources/schemas/
-- canonical.ts has it, to the letter: what is in a column is compared with what that makes of a filter.
create function tenon.canonical(format text, value text) returns text
  language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
  day date;
  behind text;
  fraction text := '.';
  at bigint;
begin
  if format = 'uuid' then
    return case when value ~ '^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then lower(value collate "C") end;
  end if;
  -- Nothing is captured, which takes ten times as long as to look at places that are known.
  if value !~ (case format
    when 'date' then '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$'
    when 'date-time' then '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])'
      '[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?'
      '(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])(?:\[.*\])?$' end) is not false then
    return null;
  end if;
  -- 400 years later the calendar is the same, and there is a year 0.
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
  return lpad(at::text, 10, '0') || substr(value, 18, 2) || case when fraction <> '.' then fraction else '' end;
end $$;

-- A column as a table has it. One of canonical texts names the column of the texts, which stands before it.
create function tenon.column_definition(columns jsonb, item jsonb) returns text
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  definition text := format('%I %s', item ->> 'column', tenon.column_type(item ->> 'type'));
begin
  if not item ? 'canonical' then
    return definition;
  end if;
  if not coalesce(item ->> 'type' = 'text' and item #>> '{canonical,format}' in ('date-time', 'date', 'uuid')
    and exists (select from jsonb_array_elements(columns) c where not c ? 'canonical' and c ->> 'type' = 'text'
      and c ->> 'column' = item #>> '{canonical,of}' and c ->> 'property' = item ->> 'property'), false) then
    raise exception 'not a canonical column' using errcode = 'check_violation';
  end if;
  return format('%s generated always as (tenon.canonical(%L, %I)) stored',
    definition, item #>> '{canonical,format}', item #>> '{canonical,of}');
end $$;
revoke execute on function tenon.column_definition from public;

-- What a function is replaced for: columns are made as they are defined above.
create or replace function tenon.make_table(declared tenon.schemas) returns void
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
    columns := columns || tenon.column_definition(declared.columns, item) || ', ';
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

create or replace function tenon.evolve_collection() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- What is declared now, under the name that the table has until the end.
  declared tenon.schemas := new;
  item jsonb;
begin
  if jsonb_typeof(new.indexes) <> 'array' or jsonb_array_length(new.indexes) > 100
    or (select count(distinct value ->> 'name') <> count(*) from jsonb_array_elements(new.indexes)) then
    raise exception 'not indexes' using errcode = 'check_violation';
  end if;
  if (new.schema, new.mode, new.columns, new.access) is not distinct from (old.schema, old.mode, old.columns, old.access)
    and (select jsonb_agg(tenon.declared_index(value)) from jsonb_array_elements(new.indexes))
      is not distinct from (select jsonb_agg(tenon.declared_index(value)) from jsonb_array_elements(old.indexes)) then
    return new;
  end if;
  perform tenon.check_columns(old, new);
  declared.relation := old.relation;
  execute format('lock table tenon_data.%I in access exclusive mode', old.relation);
  -- The owner too is under row-level security; only this transaction can see the table without.
  execute format('alter table tenon_data.%I no force row level security', old.relation);
  for item in select value from jsonb_array_elements(old.indexes) loop
    continue when exists (select from jsonb_array_elements(new.indexes) n
      where tenon.declared_index(n) = tenon.declared_index(item));
    execute format('drop index if exists tenon_data.%I', old.id || '_' || (item ->> 'name'));
  end loop;
  -- What is generated goes before what it is generated from, and comes after it.
  for item in select value from jsonb_array_elements(old.columns) where value ? 'canonical' loop
    continue when new.columns @> jsonb_build_array(item);
    execute format('alter table tenon_data.%I drop column %I', old.relation, item ->> 'column');
  end loop;
  for item in select value from jsonb_array_elements(old.columns) where not value ? 'canonical' loop
    continue when new.columns @> jsonb_build_array(item);
    perform tenon.empty_column(old.relation, item);
  end loop;
  for item in select value from jsonb_array_elements(new.columns) with ordinality e (value, n)
      order by value ? 'canonical', n loop
    continue when old.columns @> jsonb_build_array(item);
    execute format('alter table tenon_data.%I add column %s',
      old.relation, tenon.column_definition(new.columns, item));
    if not item ? 'canonical' then
      perform tenon.fill_column(old.relation, item);
    end if;
  end loop;
  new.indexes := tenon.change_indexes(old, declared);
  if new.access is distinct from old.access then
    perform tenon.admit_anon(declared);
  end if;
  execute format('alter table tenon_data.%I force row level security', old.relation);
  new.revision := old.revision + 1;
  execute format('alter table tenon_data.%I rename to %I', old.relation, new.id || '_' || new.revision);
  new.last_column := greatest(old.last_column,
    (select max(substr(value ->> 'column', 2)::integer) from jsonb_array_elements(old.columns || new.columns)));
  new.last_index := greatest(old.last_index,
    (select max(substr(value ->> 'name', 2)::integer) from jsonb_array_elements(old.indexes || new.indexes)));
  new.updated_at := now();
  return new;
end $$;
-- Tables that exist get the columns, and their indexes are made anew over them. A unique one that would not hold, since
-- two documents have the same point in time in two spellings, stays over the texts until its declaration is changed.
create function tenon.compare_canonically(declared tenon.schemas) returns void language plpgsql as $$
declare
  items jsonb := declared.columns;
  item jsonb;
  made jsonb;
  remade jsonb := '[]';
  last integer := greatest(declared.last_column,
    (select max(substr(value ->> 'column', 2)::integer) from jsonb_array_elements(declared.columns)));
begin
  for item in select value from jsonb_array_elements(declared.columns) where value ->> 'type' = 'text'
      and declared.schema #>> array['properties', value ->> 'property', 'format'] in ('date-time', 'date', 'uuid') loop
    exit when jsonb_array_length(items) >= 200;
    last := last + 1;
    made := jsonb_build_object('property', item ->> 'property', 'column', 'c' || last, 'type', 'text',
      'canonical', jsonb_build_object('format',
        declared.schema #>> array['properties', item ->> 'property', 'format'], 'of', item ->> 'column'));
    items := items || jsonb_build_array(made);
    execute format('alter table tenon_data.%I add column %s',
      declared.relation, tenon.column_definition(items, made));
  end loop;
  declared.columns := items;
  for item in select value from jsonb_array_elements(declared.indexes) with ordinality e (value, n) order by n loop
    remade := remade || jsonb_build_array(tenon.index_canonically(declared, item));
  end loop;
  update tenon.schemas set columns = items, indexes = remade where id = declared.id;
end $$;

-- @returns the index as it is now
create function tenon.index_canonically(declared tenon.schemas, item jsonb) returns jsonb language plpgsql as $$
declare
  over jsonb := (select jsonb_agg(coalesce(
      (select c -> 'column' from jsonb_array_elements(declared.columns) c where c #>> '{canonical,of}' = name),
      to_jsonb(name)) order by n)
    from jsonb_array_elements_text(item -> 'columns') with ordinality e (name, n));
  made jsonb := item || jsonb_build_object('columns', over);
begin
  if made = item then
    return item;
  end if;
  execute format('drop index if exists tenon_data.%I', declared.id || '_' || (item ->> 'name'));
  if item ->> 'state' is distinct from 'building' and item ->> 'state' is distinct from 'failed' then
    execute tenon.index_statement(declared, made, false);
  end if;
  return made;
exception when unique_violation or program_limit_exceeded then
  return item;
end $$;

-- Nothing of this is a change of a declaration: nobody makes a revision of it.
alter table tenon.schemas no force row level security;
alter table tenon.schemas disable trigger user;
do $$
declare
  declared tenon.schemas;
begin
  for declared in select * from tenon.schemas loop
    execute format('lock table tenon_data.%I in access exclusive mode', declared.relation);
    perform tenon.compare_canonically(declared);
  end loop;
end $$;
alter table tenon.schemas enable trigger user;
alter table tenon.schemas force row level security;
drop function tenon.compare_canonically, tenon.index_canonically;
