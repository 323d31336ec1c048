-- Tables of declared collections. The application inserts a row of tenon.schemas and calls create_collection_table in the
-- same transaction; change_ and drop_collection_table act on the row and the table together. Each checks that the caller
-- administers the workspace.

-- Types with leakproof comparisons, which PostgreSQL may evaluate before the conditions of policies. jsonb is not leakproof
-- and has no index.
create function tenon.column_type(type text) returns text immutable strict language sql as $$
  select '{"text": "text collate \"C\"", "bigint": "bigint", "double precision": "double precision",
    "boolean": "boolean", "timestamptz": "timestamptz(3)", "uuid": "uuid", "jsonb": "jsonb"}'::jsonb ->> type
$$;

-- The definition of a column. A column of canonical texts is generated from the column of the texts; it serves filters,
-- orders and indexes, and is not part of documents.
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

-- The statement that creates a declared index. The table belongs to one workspace, so its indexes do not begin with tenant
-- and workspace. An index that is not unique ends with the id, so that pages have a total order.
create function tenon.index_statement(declared tenon.schemas, item jsonb, online boolean) returns text
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  columns text;
begin
  select string_agg(quote_ident(name), ', ' order by n) into columns
    from jsonb_array_elements_text(item -> 'columns') with ordinality as e (name, n)
    where name = 'owner'
      or name in (select c ->> 'column' from jsonb_array_elements(declared.columns) c where c ->> 'type' <> 'jsonb');
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

-- Raises unless a template can come from rule-policy.ts: its literals stand in places, and it calls these functions alone, so
-- that it depends on the document, the caller and the time, and has no effect.
create function tenon.check_template(template text) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  words constant text[] := array['and', 'or', 'not', 'exists', 'any', 'in', 'where', 'select', 'when', 'then', 'else', 'is',
    'like', 'array', 'each', 'form', 'forms'];
  functions constant text[] := array['coalesce', 'jsonb_array_elements', 'jsonb_array_elements_text', 'jsonb_build_array',
    'jsonb_typeof', 'lower', 'now', 'nullif', 'to_jsonb', 'tenon.caller', 'tenon.canonical'];
begin
  if coalesce(regexp_replace(template, '%%|%[0-9]+\$L', '', 'g') ~ '%|;|--|/\*|\\|\$', true)
    or exists (select from regexp_matches(template, '([[:alnum:]_.$"&]+)\s*\(', 'g') m
      where m[1] <> all (words || functions)) then
    raise exception 'not a condition' using errcode = 'check_violation';
  end if;
end $$;

-- The condition that rule-policy.ts has compiled: one expression over the columns of the table. Raises for any other text.
-- @param rule its template for `format`, and its literals
-- @param preface of a query in which the condition is parsed
create function tenon.fill_template(declared tenon.schemas, rule jsonb, preface text) returns text
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  condition text;
  parsed refcursor;
begin
  perform tenon.check_template(rule ->> 'template');
  condition := format(rule ->> 'template', variadic array(select jsonb_array_elements_text(rule -> 'literals')));
  -- A cursor takes a single query, and no text ends both a parenthesis and a bracket, so the condition is one expression.
  open parsed for execute format('%3$s select from tenon_data.%1$I where (%2$s) and (array[%2$s])[1]',
    declared.relation, condition, preface);
  close parsed;
  return condition;
end $$;

-- The condition under which a role may access a row, null if it may access none.
-- @param rule true, false, or the condition that rule-policy.ts has compiled: a template for `format`, and its literals. Absent:
--   closed, but without any `access` anon keys read if the setting of the workspace says so.
create function tenon.policy_condition(declared tenon.schemas, role text, action text, rule jsonb) returns text
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  mine constant text := 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()';
begin
  if rule is null and declared.access = '{}' and role = 'anon' and action = 'read' then
    return 'tenant_id = tenon.tenant() and workspace_id = (select tenon.anon_workspace())';
  end if;
  if coalesce(rule, 'false') in ('true', 'false') then
    return case rule when 'true' then mine end;
  end if;
  return format('%s and (%s)', mine, tenon.fill_template(declared, rule, ''));
end $$;

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

-- Checks updates by a role with the transition of its rule, if there is one. After the update, since generated columns have
-- their values then.
create function tenon.set_transition(declared tenon.schemas, role text, rule jsonb) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if rule is null then
    return;
  end if;
  execute format('create trigger %I after update on tenon_data.%I for each row when (current_user = %L)
    execute function tenon.check_transition(%L)', role || '_transition', declared.relation, 'tenon_' || role,
    tenon.fill_template(declared, rule, format('with before as (select * from tenon_data.%I)', declared.relation)));
end $$;

-- Sets the grants and policies of anon keys and users.
-- @param rules by role and action, as policy_condition takes them
create function tenon.set_policies(declared tenon.schemas, rules jsonb) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  fields constant text := (select string_agg(quote_ident(value ->> 'column') || ', ', '')
    from jsonb_array_elements(declared.columns) where not value ? 'canonical');
  may record;
  condition text;
begin
  for may in select role, action, command, 'tenon_' || role as grantee, role || '_' || action as policy
      from unnest(array['anon', 'user']) role,
        (values ('read', 'select'), ('create', 'insert'), ('update', 'update'), ('delete', 'delete')) v (action, command) loop
    condition := tenon.policy_condition(declared, may.role, may.action, rules #> array[may.role, may.action]);
    continue when condition is null;
    execute format('create policy %I on tenon_data.%I for %s to %I %s', may.policy, declared.relation, may.command,
      may.grantee, case may.action
        when 'create' then format('with check (%s)', condition)
        when 'update' then format('using (%1$s) with check (%1$s)', condition)
        else format('using (%s)', condition) end);
    -- Those that statements set: not the owner, nor tenant and workspace.
    execute format('grant %s%s on tenon_data.%I to %I', may.command, case may.action
        when 'create' then format(' (id, %sextra)', fields)
        when 'update' then format(' (%sextra, version, updated_at)', fields)
      end, declared.relation, may.grantee);
  end loop;
  perform tenon.set_transition(declared, role, rules #> array[role, 'update', 'transition'])
    from unnest(array['anon', 'user']) role;
end $$;

-- Takes all grants, policies and transitions from anon keys and users, before the columns change that these use.
create function tenon.drop_policies(declared tenon.schemas) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  policy text;
begin
  for policy in select polname from pg_policy where polrelid = format('tenon_data.%I', declared.relation)::regclass
      and polroles && array['tenon_anon'::regrole::oid, 'tenon_user'::regrole::oid] loop
    execute format('drop policy %I on tenon_data.%I', policy, declared.relation);
  end loop;
  execute format('drop trigger if exists anon_transition on tenon_data.%1$I;
    drop trigger if exists user_transition on tenon_data.%1$I', declared.relation);
  execute format('revoke all on tenon_data.%I from tenon_anon, tenon_user', declared.relation);
end $$;

-- Creates the table of a declaration. No text of a user becomes an identifier: the table is named after the id, columns and
-- indexes are numbered, types come from the list above.
create function tenon.create_table(declared tenon.schemas, rules jsonb) returns void
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  columns text := '';
  item jsonb;
  n integer := 0;
begin
  if declared.id !~ '^sch_[0-9a-hjkmnp-tv-z]{26}$' or jsonb_typeof(declared.columns) <> 'array'
    or jsonb_array_length(declared.columns) > 200 then
    raise exception 'not a declaration' using errcode = 'check_violation';
  end if;
  for item in select value from jsonb_array_elements(declared.columns) loop
    n := n + 1;
    if item ->> 'column' is distinct from 'c' || n or column_type(item ->> 'type') is null then
      raise exception 'not a column' using errcode = 'check_violation';
    end if;
    columns := columns || column_definition(declared.columns, item) || ', ';
  end loop;
  -- The check constraint binds the table to its workspace even for roles without policies.
  execute format(
    'create table tenon_data.%I (
      tenant_id text not null default tenon.tenant(),
      workspace_id text not null default tenon.workspace(),
      id uuid not null, %s
      extra jsonb not null default ''{}'',
      version bigint not null default 1,
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now(),
      -- Only imports by service keys name it; users and anon keys have no right to.
      owner text collate "C" default tenon.caller() ->> ''id'',
      check (tenant_id = %L and workspace_id = %L),
      primary key (id))', declared.relation, columns, declared.tenant_id, declared.workspace_id);
  call allow('tenon_service', format('tenon_data.%I', declared.relation)::regclass, 'workspace',
    'select, insert, update, delete');
  call allow('tenon_owner', format('tenon_data.%I', declared.relation)::regclass, 'workspace', 'select');
  perform set_policies(declared, rules);
  for item in select value from jsonb_array_elements(declared.indexes) loop
    execute index_statement(declared, item, false);
  end loop;
end $$;

-- Acts as the workspace of a declaration, as act_for_workspace does, for callers that administer it.
create function tenon.act_for_administered(t text, w text) returns text[]
  language plpgsql set search_path = tenon, pg_temp as $$
begin
  if not administers(t, w) then
    raise exception 'permission denied for the workspace' using errcode = 'insufficient_privilege';
  end if;
  return act_for_workspace(t, w);
end $$;

-- Creates the table of a newly inserted declaration. Raises TN001 if the collection has documents.
create function tenon.create_collection_table(t text, w text, schema_id text, rules jsonb) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before constant text[] := act_for_administered(t, w);
  declared schemas;
  counted regclass;
  quota text;
begin
  select * into strict declared from schemas s where s.id = schema_id;
  perform pg_advisory_xact_lock(collection_lock(t, w, declared.collection));
  if exists (select from documents d where d.collection = declared.collection) then
    raise exception 'the collection has documents' using errcode = 'TN001';
  end if;
  perform create_table(declared, rules);
  counted := format('tenon_data.%I', declared.relation)::regclass;
  call add_byte_quota(counted, t, w);
  call add_row_quota('documents', counted, null, t, w);
  foreach quota in array array['document_bytes', 'documents'] loop
    -- A transaction that sets a quota either sees this table, or is visible here.
    perform pg_advisory_xact_lock_shared(quota_lock(t, w, quota));
    if not exists (select from quotas q where q.tenant_id = t and q.workspace_id = w and q.name = quota) then
      call switch_counting(counted, quota, 'disable');
    end if;
  end loop;
  perform act_for_workspace(before[1], before[2]);
end $$;

-- Deletes a declaration with its table. Raises TN001 if it has documents.
-- @returns false if another transaction deleted it meanwhile
create function tenon.drop_collection_table(t text, w text, schema_id text) returns boolean
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before constant text[] := act_for_administered(t, w);
  declared schemas;
  is_filled boolean;
begin
  select * into declared from schemas s where s.id = schema_id for update;
  if declared.id is not null then
    perform pg_advisory_xact_lock(collection_lock(t, w, declared.collection));
    execute format('lock table tenon_data.%I in access exclusive mode', declared.relation);
    execute format('select exists (select from tenon_data.%I)', declared.relation) into is_filled;
    if is_filled then
      raise exception 'the collection has documents' using errcode = 'TN001';
    end if;
    delete from quota_sources where relation = format('tenon_data.%I', declared.relation)::regclass;
    execute format('drop table tenon_data.%I', declared.relation);
    delete from schemas s where s.id = schema_id;
  end if;
  perform act_for_workspace(before[1], before[2]);
  return declared.id is not null;
end $$;

-- The declared part of an index, without the state of its build.
create function tenon.declared_index(item jsonb) returns jsonb immutable parallel safe language sql
  return item - 'state' - 'reason';

-- Raises unless the columns of a declaration are well formed and new ones have unused numbers.
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

-- Moves values of a property from `extra` to its column if they have its type; null stays.
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

-- Moves values of a column that is dropped back into `extra`.
create function tenon.empty_column(relation text, item jsonb) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format('update tenon_data.%1$I set extra = extra || jsonb_build_object($1, to_jsonb(%2$I))
    where %2$I is not null', relation, item ->> 'column') using item ->> 'property';
  execute format('alter table tenon_data.%I drop column %I', relation, item ->> 'column');
end $$;

-- Creates new indexes if the collection has no documents; otherwise the index builder does.
-- @returns the indexes of the declaration with their states
create function tenon.change_indexes(was tenon.schemas, declared tenon.schemas) returns jsonb
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  item jsonb;
  is_filled boolean;
  made jsonb := '[]';
begin
  execute format('select exists (select from tenon_data.%I)', declared.relation) into is_filled;
  for item in select value from jsonb_array_elements(declared.indexes) loop
    if exists (select from jsonb_array_elements(was.indexes) w where declared_index(w) = declared_index(item)) then
      made := made || jsonb_build_array(item);
      continue;
    end if;
    perform index_statement(declared, item, true);
    if substr(item ->> 'name', 2)::integer <= was.last_index
      or exists (select from jsonb_array_elements(was.indexes) w where w ->> 'name' = item ->> 'name') then
      raise exception 'not an index' using errcode = 'check_violation';
    end if;
    if not is_filled then
      execute index_statement(declared, item, false);
    end if;
    made := made || jsonb_build_array(
      item || jsonb_build_object('state', case when is_filled then 'building' else 'ready' end));
  end loop;
  return made;
end $$;

-- Alters a table to the columns, indexes and policies of a new declaration; moves values between columns and `extra`.
-- @returns the indexes with their states
create function tenon.alter_table(was tenon.schemas, declared tenon.schemas, rules jsonb) returns jsonb
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  item jsonb;
  made jsonb;
begin
  -- Row-level security applies to the owner too. The table is locked, so no other transaction sees it without.
  execute format('alter table tenon_data.%I no force row level security', was.relation);
  perform drop_policies(was);
  for item in select value from jsonb_array_elements(was.indexes) loop
    continue when exists (select from jsonb_array_elements(declared.indexes) n
      where declared_index(n) = declared_index(item));
    execute format('drop index if exists tenon_data.%I', was.id || '_' || (item ->> 'name'));
  end loop;
  -- A generated column is dropped before its source, and added after it.
  for item in select value from jsonb_array_elements(was.columns) order by not value ? 'canonical' loop
    continue when declared.columns @> jsonb_build_array(item);
    if item ? 'canonical' then
      execute format('alter table tenon_data.%I drop column %I', was.relation, item ->> 'column');
    else
      perform empty_column(was.relation, item);
    end if;
  end loop;
  for item in select value from jsonb_array_elements(declared.columns) with ordinality e (value, n)
      order by value ? 'canonical', n loop
    continue when was.columns @> jsonb_build_array(item);
    execute format('alter table tenon_data.%I add column %s', was.relation, column_definition(declared.columns, item));
    if not item ? 'canonical' then
      perform fill_column(was.relation, item);
    end if;
  end loop;
  made := change_indexes(was, declared);
  perform set_policies(declared, rules);
  execute format('alter table tenon_data.%I force row level security', was.relation);
  return made;
end $$;

-- Changes a declaration and its table, and renames the table. No effect if the declaration is the same.
create function tenon.change_collection_table(t text, w text, schema_id text, new_schema jsonb, new_mode text,
    new_columns jsonb, new_indexes jsonb, new_access jsonb, rules jsonb) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before constant text[] := act_for_administered(t, w);
  was schemas;
  declared schemas;
  changed regclass;
  has_byte_quota boolean;
  bytes bigint;
begin
  if jsonb_typeof(new_indexes) <> 'array' or jsonb_array_length(new_indexes) > 100
    or (select count(distinct value ->> 'name') <> count(*) from jsonb_array_elements(new_indexes)) then
    raise exception 'not indexes' using errcode = 'check_violation';
  end if;
  select * into strict was from schemas s where s.id = schema_id for update;
  if (was.schema, was.mode, was.columns, was.access) is distinct from (new_schema, new_mode, new_columns, new_access)
    or (select jsonb_agg(declared_index(value)) from jsonb_array_elements(was.indexes))
      is distinct from (select jsonb_agg(declared_index(value)) from jsonb_array_elements(new_indexes)) then
    declared := was;
    declared.columns := new_columns;
    declared.indexes := new_indexes;
    declared.access := new_access;
    perform check_columns(was, declared);
    execute format('lock table tenon_data.%I in access exclusive mode', was.relation);
    changed := format('tenon_data.%I', was.relation)::regclass;
    -- Adding and dropping columns changes the size of documents without writing rows, so the bytes of the table are counted
    -- before and after. Documents stay even if they now exceed the quota.
    perform pg_advisory_xact_lock_shared(quota_lock(t, w, 'document_bytes'));
    has_byte_quota := was.columns is distinct from new_columns and exists (select from quotas q
      where q.tenant_id = t and q.workspace_id = w and q.name = 'document_bytes');
    if has_byte_quota then
      call switch_counting(changed, 'document_bytes', 'disable');
      bytes := total_bytes(t, w, changed);
    end if;
    declared.indexes := alter_table(was, declared, rules);
    if has_byte_quota then
      update quotas q set used = q.used + total_bytes(t, w, changed) - bytes
        where q.tenant_id = t and q.workspace_id = w and q.name = 'document_bytes';
      call switch_counting(changed, 'document_bytes', 'enable');
    end if;
    execute format('alter table %s rename to %I', changed, was.id || '_' || was.revision + 1);
    update schemas s set schema = new_schema, mode = new_mode, columns = new_columns, access = new_access,
        indexes = declared.indexes, revision = was.revision + 1, updated_at = now(),
        last_column = greatest(was.last_column,
          (select max(substr(value ->> 'column', 2)::integer) from jsonb_array_elements(was.columns || new_columns))),
        last_index = greatest(was.last_index,
          (select max(substr(value ->> 'name', 2)::integer) from jsonb_array_elements(was.indexes || new_indexes)))
      where s.id = schema_id;
  end if;
  perform act_for_workspace(before[1], before[2]);
end $$;

revoke execute on function tenon.column_definition, tenon.index_statement, tenon.check_template, tenon.fill_template,
  tenon.policy_condition, tenon.check_transition, tenon.set_transition,
  tenon.set_policies, tenon.drop_policies,
  tenon.create_table,
  tenon.act_for_administered, tenon.declared_index, tenon.check_columns, tenon.fill_column, tenon.empty_column,
  tenon.change_indexes, tenon.alter_table, tenon.create_collection_table, tenon.change_collection_table,
  tenon.drop_collection_table from public;
grant execute on function tenon.create_collection_table, tenon.change_collection_table, tenon.drop_collection_table
  to tenon_admin, tenon_operator;
