-- Declarations change in place. A trigger changes the table with the row, in the same transaction: columns come and go
-- with their values, anon policies follow `access`, indexes that are no longer declared are dropped, and the table's
-- name changes, so that whoever still writes under the former declaration finds nothing and asks anew.
alter table tenon.schemas
  -- The highest numbers that were ever given: none is given twice.
  add column last_column integer not null default 0,
  add column last_index integer not null default 0;
grant update (schema, mode, columns, access, indexes) on tenon.schemas to tenon_operator, tenon_admin;

-- What of an index is declared, without how far its making has come.
create function tenon.declared_index(item jsonb) returns jsonb immutable parallel safe language sql
  return item - 'state' - 'reason';

-- Raises where a declaration's columns are not of our making, or take a number that was given before.
create function tenon.check_columns(was tenon.schemas, declared tenon.schemas) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  item jsonb;
begin
  if jsonb_typeof(declared.columns) <> 'array' or jsonb_array_length(declared.columns) > 200
    or (select count(distinct value ->> 'column') <> count(*) from jsonb_array_elements(declared.columns)) then
    raise exception 'not columns' using errcode = 'check_violation';
  end if;
  for item in select value from jsonb_array_elements(declared.columns) loop
    continue when was.columns @> jsonb_build_array(item);
    if not coalesce(item ->> 'column' ~ '^c[1-9][0-9]{0,3}$' and jsonb_typeof(item -> 'property') = 'string', false)
      or tenon.column_type(item ->> 'type') is null or substr(item ->> 'column', 2)::integer <= was.last_column
      or exists (select from jsonb_array_elements(was.columns) w where w ->> 'column' = item ->> 'column') then
      raise exception 'not a column' using errcode = 'check_violation';
    end if;
  end loop;
end $$;

-- Values of a property move from `extra` to its column where they have the column's type; null never has.
create function tenon.fill_column(relation text, item jsonb) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  fits text;
  value text;
begin
  case item ->> 'type'
    when 'text' then fits := '$1 = ''string'''; value := 'extra ->> $2';
    when 'boolean' then fits := '$1 = ''boolean'''; value := '(extra -> $2)::boolean';
    when 'double precision' then fits := '$1 = ''number'''; value := '(extra -> $2)::double precision';
    when 'bigint' then
      fits := 'case $1 when ''number'' then (extra -> $2)::numeric = trunc((extra -> $2)::numeric)
        and abs((extra -> $2)::numeric) <= 9007199254740991 else false end';
      value := '(extra -> $2)::numeric::bigint';
    when 'jsonb' then fits := '$1 <> ''null'''; value := 'extra -> $2';
    else return;
  end case;
  fits := replace(replace(fits, '$1', 'jsonb_typeof(extra -> $2)'), '$2', '$1');
  execute format('update tenon_data.%I set %I = %s, extra = extra - $1 where %s',
    relation, item ->> 'column', replace(value, '$2', '$1'), fits) using item ->> 'property';
end $$;

-- Values of a column that goes move back among the others.
create function tenon.empty_column(relation text, item jsonb) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format('update tenon_data.%1$I set extra = extra || jsonb_build_object($1, to_jsonb(%2$I))
    where %2$I is not null', relation, item ->> 'column') using item ->> 'property';
  execute format('alter table tenon_data.%I drop column %I', relation, item ->> 'column');
end $$;

-- New indexes of a collection without documents are made at once; the others are left to the builder.
-- @returns the indexes of the declaration with the states they have now
create function tenon.change_indexes(was tenon.schemas, declared tenon.schemas) returns jsonb
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  item jsonb;
  filled boolean;
  made jsonb := '[]';
begin
  filled := tenon.has_rows(format('select exists (select from tenon_data.%I where $1 <> '''')', declared.relation),
    declared.tenant_id, declared.workspace_id, declared.collection);
  for item in select value from jsonb_array_elements(declared.indexes) loop
    if exists (select from jsonb_array_elements(was.indexes) w
        where tenon.declared_index(w) = tenon.declared_index(item)) then
      made := made || jsonb_build_array(item);
      continue;
    end if;
    perform tenon.index_statement(declared, item, true);
    if substr(item ->> 'name', 2)::integer <= was.last_index
      or exists (select from jsonb_array_elements(was.indexes) w where w ->> 'name' = item ->> 'name') then
      raise exception 'not an index' using errcode = 'check_violation';
    end if;
    if not filled then
      execute tenon.index_statement(declared, item, false);
    end if;
    made := made || jsonb_build_array(
      item || jsonb_build_object('state', case when filled then 'building' else 'ready' end));
  end loop;
  return made;
end $$;

create function tenon.evolve_collection() returns trigger
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
  for item in select value from jsonb_array_elements(old.columns) loop
    continue when new.columns @> jsonb_build_array(item);
    perform tenon.empty_column(old.relation, item);
  end loop;
  for item in select value from jsonb_array_elements(new.columns) loop
    continue when old.columns @> jsonb_build_array(item);
    execute format('alter table tenon_data.%I add column %I %s',
      old.relation, item ->> 'column', tenon.column_type(item ->> 'type'));
    perform tenon.fill_column(old.relation, item);
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
create trigger evolve_collection before update on tenon.schemas
  for each row execute function tenon.evolve_collection();

revoke execute on function tenon.declared_index, tenon.check_columns, tenon.fill_column, tenon.empty_column,
  tenon.change_indexes, tenon.evolve_collection from public;
