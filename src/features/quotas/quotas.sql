-- Quotas: triggers count rows in the transaction that inserts or deletes them, so that no code path and no race bypasses
-- them. A quota that is not set costs one index lookup per statement.
create table tenon.quotas (
  tenant_id text not null references tenon.tenants (id),
  -- Empty for a quota of the tenant: over all of its workspaces, or what their quotas of that name may add up to.
  workspace_id text not null,
  workspace_ref text generated always as (nullif(workspace_id, '')) stored,
  name text not null,
  max bigint not null check (max >= 0),
  used bigint not null,
  -- For quotas per minute or day: when counting starts again.
  resets_at timestamptz(3),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, name),
  foreign key (tenant_id, workspace_ref) references tenon.workspaces (tenant_id, id)
);
call tenon.allow('tenon_operator', 'tenon.quotas', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.quotas', 'tenant', 'select');
-- An admin of the tenant sets those of its workspaces, within the tenant's own (keep_allotment).
create policy allot on tenon.quotas to tenon_admin
  using (tenant_id = tenon.tenant() and tenon.workspace() is null and workspace_id <> '')
  with check (tenant_id = tenon.tenant() and tenon.workspace() is null and workspace_id <> '');
grant insert, update, delete on tenon.quotas to tenon_admin;
-- The owner never logs in; it acts only through the functions below.
create policy counting on tenon.quotas to tenon_owner using (true) with check (true);

-- Which tables count towards which quota. With `until`, a row counts as long as that column is null; with `summed`, that column of
-- a row counts instead of the row.
create table tenon.quota_sources (
  quota text not null,
  relation regclass not null,
  until text,
  summed text,
  -- Set if the table is one workspace's own.
  tenant_id text,
  workspace_id text,
  primary key (quota, relation)
);
alter table tenon.quota_sources enable row level security, force row level security;
create policy counting on tenon.quota_sources to tenon_owner using (true) with check (true);

-- The lock of a quota: shared by transactions that count, exclusive for one that sets the limit.
create function tenon.quota_lock(t text, w text, quota text) returns bigint immutable parallel safe language sql
  return hashtextextended(t || '/' || w || '/' || quota, 11);

-- When the window of a quota ends, in UTC; null for a quota without a window.
create function tenon.window_end(quota text) returns timestamptz language sql
  return case when quota like '%\_per\_day' then date_trunc('day', clock_timestamp(), 'UTC') + interval '1 day'
    when quota like '%\_per\_minute' then date_trunc('minute', clock_timestamp()) + interval '1 minute' end;

-- Raises TQ001 with the quota, its limit and its use in the detail.
create function tenon.raise_quota_exceeded(q tenon.quotas, used bigint) returns void language plpgsql as $$
begin
  raise exception 'quota exceeded' using errcode = 'TQ001', detail = jsonb_strip_nulls(jsonb_build_object(
    'quota', q.name, 'limit', q.max, 'used', used,
    'resets_at', to_char(q.resets_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
end $$;

-- Adds n to a quota, if it is set. Raises TQ001 beyond the limit.
create function tenon.use_quota(t text, w text, quota text, n bigint) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  row quotas%rowtype;
begin
  perform pg_advisory_xact_lock_shared(quota_lock(t, w, quota));
  -- PostgreSQL evaluates the condition again after locking the row, so only one transaction starts a new window.
  update quotas q set
      used = case when q.resets_at <= clock_timestamp() then n else q.used + n end,
      resets_at = case when q.resets_at <= clock_timestamp() then window_end(q.name) else q.resets_at end
    where q.tenant_id = t and q.workspace_id = w and q.name = quota returning q.* into row;
  if found and n > 0 and row.used > row.max then
    perform raise_quota_exceeded(row, row.used - n);
  end if;
end $$;

-- Counts the rows of one statement. Skips quotas that are not set, but takes the lock, since setting a limit counts the
-- rows that exist. Trigger arguments: the quota, and the column that ends the counting of a row.
create function tenon.count_rows() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  until constant text := coalesce(tg_argv[1], '');
  change record;
begin
  if tenant() <> '' and workspace() <> '' then
    perform pg_advisory_xact_lock_shared(quota_lock(tenant(), workspace(), tg_argv[0]));
    if not exists (select from quotas q
        where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = tg_argv[0]) then
      return null;
    end if;
  end if;
  if tg_op = 'INSERT' then
    for change in select tenant_id, workspace_id, count(*) as n from added a
        where until = '' or to_jsonb(a) ->> until is null group by 1, 2 loop
      perform use_quota(change.tenant_id, change.workspace_id, tg_argv[0], change.n);
    end loop;
  elsif tg_op = 'DELETE' then
    for change in select tenant_id, workspace_id, -count(*) as n from removed r
        where until = '' or to_jsonb(r) ->> until is null group by 1, 2 loop
      perform use_quota(change.tenant_id, change.workspace_id, tg_argv[0], change.n);
    end loop;
  else
    for change in select tenant_id, workspace_id, sum(d.n)::bigint as n from (
        select tenant_id, workspace_id, 1 as n from added a where to_jsonb(a) ->> until is null
        union all
        select tenant_id, workspace_id, -1 from removed r where to_jsonb(r) ->> until is null) d
        group by 1, 2 having sum(d.n) <> 0 loop
      perform use_quota(change.tenant_id, change.workspace_id, tg_argv[0], change.n);
    end loop;
  end if;
  return null;
end $$;

-- Counts the rows of a table with tenant_id and workspace_id towards a quota.
create procedure tenon.add_row_quota(quota text, counted regclass, until text default null,
    t text default null, w text default null)
  language plpgsql as $$
begin
  insert into tenon.quota_sources (quota, relation, until, tenant_id, workspace_id)
    values (quota, counted, until, t, w);
  execute format('create policy counting on %s for select to tenon_owner
    using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())', counted);
  execute format('create trigger count_added after insert on %s referencing new table as added
    for each statement execute function tenon.count_rows(%L, %L)', counted, quota, coalesce(until, ''));
  execute format('create trigger count_removed after delete on %s referencing old table as removed
    for each statement execute function tenon.count_rows(%L, %L)', counted, quota, coalesce(until, ''));
  if until is not null then
    execute format('create trigger count_changed after update on %s
      referencing old table as removed new table as added
      for each statement execute function tenon.count_rows(%L, %L)', counted, quota, until);
  end if;
end $$;

-- Acts as a workspace for the rest of the transaction, or until it is called with its result.
-- @returns the previous tenant and workspace
create function tenon.act_for_workspace(t text, w text) returns text[]
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  before constant text[] := array[coalesce(tenant(), ''), coalesce(workspace(), '')];
begin
  perform set_config('tenon.tenant', t, true), set_config('tenon.workspace', w, true);
  return before;
end $$;

-- @returns true for an operator, an admin of the tenant, or an admin of the workspace
create function tenon.administers(t text, w text) returns boolean stable language sql set search_path = tenon, pg_temp
  return current_setting('role') = 'tenon_operator'
    or coalesce(t = tenon.tenant() and coalesce(tenon.workspace(), w) = w, false);

-- Counts the current use of a quota under the policies of the workspace. @returns 0 unless the caller administers it
create function tenon.quota_count(t text, w text, quota text) returns bigint
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before text[];
  source record;
  n bigint;
  total bigint := 0;
begin
  if not administers(t, w) then
    return 0;
  end if;
  before := act_for_workspace(t, w);
  if quota_count.quota = 'mcp_tools' then
    total := quota_tools();
  end if;
  for source in select relation, until, summed from quota_sources s where s.quota = quota_count.quota
      and (s.tenant_id is null or (s.tenant_id = t and s.workspace_id = w)) loop
    -- Dropped with its declaration since the loop began.
    continue when not exists (select from pg_catalog.pg_class where oid = source.relation);
    if quota_count.quota = 'document_bytes' then
      n := total_bytes(t, w, source.relation);
    else
      execute format('select %s from %s where tenant_id = $1 and workspace_id = $2 and %s',
        case when source.summed is null then 'count(*)' else format('coalesce(sum(%I), 0)::bigint', source.summed) end,
        source.relation, case when source.until is null then 'true' else format('%I is null', source.until) end)
        into n using t, w;
    end if;
    total := total + n;
  end loop;
  perform act_for_workspace(before[1], before[2]);
  return total;
end $$;

-- @returns true if the caller's workspace has this quota. Setting it waits for transactions that got false.
create function tenon.is_limited(quota text) returns boolean
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  perform pg_advisory_xact_lock_shared(quota_lock(tenant(), workspace(), is_limited.quota));
  return exists (select from quotas q
    where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = is_limited.quota);
end $$;

-- @returns the quotas of the caller's workspace
create function tenon.limited() returns setof text
  language sql stable security definer set search_path = tenon, pg_temp as $$
  select q.name from quotas q where q.tenant_id = tenant() and q.workspace_id = workspace() $$;

-- Consumes one unit of a quota per minute or day. It is never returned, since the progress of a failed call is unknown.
create function tenon.consume_quota(quota text) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  if consume_quota.quota not in ('events_per_day', 'invocations_per_day', 'mcp_calls_per_minute') then
    raise exception 'no such window' using errcode = 'check_violation';
  end if;
  perform use_quota(tenant(), workspace(), consume_quota.quota, 1);
end $$;

-- The size of a document: its JSON text as stored, without the columns of the platform.
create function tenon.document_bytes(stored jsonb) returns bigint immutable parallel safe language sql
  return octet_length((stored - '{tenant_id,workspace_id,collection,id,version,created_at,updated_at}'::text[])::text);

-- Adds the bytes of a statement's rows to the quota `document_bytes`. Inlines is_limited, since every write runs it; all
-- rows of a statement belong to one workspace.
create function tenon.count_bytes() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n bigint := 0;
  m bigint := 0;
begin
  perform pg_advisory_xact_lock_shared(quota_lock(tenant(), workspace(), 'document_bytes'));
  if not exists (select from quotas q
      where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = 'document_bytes') then
    return null;
  end if;
  if tg_op <> 'DELETE' then
    select coalesce(sum(document_bytes(to_jsonb(a))), 0) into n from added a;
  end if;
  if tg_op <> 'INSERT' then
    select coalesce(sum(document_bytes(to_jsonb(r))), 0) into m from removed r;
  end if;
  if n <> m then
    perform use_quota(tenant(), workspace(), 'document_bytes', n - m);
  end if;
  return null;
end $$;

-- Counts a table of documents towards `document_bytes`. Triggers fire in the order of their names, so all writers lock the
-- byte quota before the row quota and cannot deadlock.
create procedure tenon.add_byte_quota(counted regclass, t text default null, w text default null)
  language plpgsql as $$
begin
  insert into tenon.quota_sources (quota, relation, tenant_id, workspace_id) values ('document_bytes', counted, t, w);
  execute format('create trigger bytes_added after insert on %s referencing new table as added
    for each statement execute function tenon.count_bytes()', counted);
  execute format('create trigger bytes_removed after delete on %s referencing old table as removed
    for each statement execute function tenon.count_bytes()', counted);
  execute format('create trigger bytes_changed after update on %s referencing old table as removed new table as added
    for each statement execute function tenon.count_bytes()', counted);
end $$;

-- Adds a column of a statement's rows to a quota. All rows of a statement belong to one workspace. Trigger arguments: the quota, and
-- the column.
create function tenon.count_sizes() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n bigint := 0;
  m bigint := 0;
begin
  if not is_limited(tg_argv[0]) then
    return null;
  end if;
  if tg_op <> 'DELETE' then
    execute format('select coalesce(sum(%I), 0)::bigint from added', tg_argv[1]) into n;
  end if;
  if tg_op <> 'INSERT' then
    execute format('select coalesce(sum(%I), 0)::bigint from removed', tg_argv[1]) into m;
  end if;
  if n <> m then
    perform use_quota(tenant(), workspace(), tg_argv[0], n - m);
  end if;
  return null;
end $$;

-- Counts a column of a table with tenant_id and workspace_id towards a quota.
create procedure tenon.add_size_quota(quota text, counted regclass, summed text)
  language plpgsql as $$
begin
  insert into tenon.quota_sources (quota, relation, summed) values (quota, counted, summed);
  execute format('create policy counting on %s for select to tenon_owner
    using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())', counted);
  execute format('create trigger sizes_added after insert on %s referencing new table as added
    for each statement execute function tenon.count_sizes(%L, %L)', counted, quota, summed);
  execute format('create trigger sizes_removed after delete on %s referencing old table as removed
    for each statement execute function tenon.count_sizes(%L, %L)', counted, quota, summed);
  execute format('create trigger sizes_changed after update on %s referencing old table as removed new table as added
    for each statement execute function tenon.count_sizes(%L, %L)', counted, quota, summed);
end $$;

-- @returns the bytes of all documents in a table, under the policies of the workspace
create function tenon.total_bytes(t text, w text, counted regclass) returns bigint
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before constant text[] := act_for_workspace(t, w);
  n bigint;
begin
  execute format('select coalesce(sum(document_bytes(to_jsonb(r))), 0) from %s r where tenant_id = $1 and workspace_id = $2',
    counted) into n using t, w;
  perform act_for_workspace(before[1], before[2]);
  return n;
end $$;

-- Enables or disables the triggers of a table for one of the two document quotas.
create procedure tenon.switch_counting(counted regclass, quota text, switch text)
  language plpgsql as $$
declare
  name text;
begin
  for name in select g.tgname from pg_catalog.pg_trigger g where g.tgrelid = counted
      and g.tgname ~ case quota when 'document_bytes' then '^bytes_' else '^count_' end order by 1 loop
    execute format('alter table %s %s trigger %I', counted, switch, name);
  end loop;
end $$;

-- Enables the disabled counting triggers of a workspace's tables, before its quota is set. Enabling a trigger waits for
-- writers, and blocks others until the transaction has set the quota to the counted use.
create function tenon.enable_counting(t text, w text, quota text) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  source record;
begin
  if not administers(t, w) then
    return;
  end if;
  for source in select relation from quota_sources s
      where s.quota = enable_counting.quota and s.tenant_id = t and s.workspace_id = w and exists (
        select from pg_catalog.pg_trigger g where g.tgrelid = s.relation and g.tgenabled = 'D'
        and g.tgname = case s.quota when 'document_bytes' then 'bytes_added' else 'count_added' end)
      order by relation loop
    continue when not exists (select from pg_catalog.pg_class where oid = source.relation);
    call switch_counting(source.relation, enable_counting.quota, 'enable');
  end loop;
end $$;

-- @returns true for the states of a workspace that count towards the quota `workspaces`
create function tenon.is_active(state text) returns boolean immutable language sql
  return coalesce(state not in ('deleting', 'deleted', 'provisioning_failed'), false);

create function tenon.count_workspaces() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n constant integer := is_active(new.state)::integer - is_active(old.state)::integer;
begin
  if n <> 0 then
    perform use_quota(new.tenant_id, '', 'workspaces', n);
  end if;
  -- What it was allotted, others may have.
  if new.state = 'deleted' then
    delete from quotas where tenant_id = new.tenant_id and workspace_id = new.id;
  end if;
  return null;
end $$;
create trigger count_workspace after insert or update of state on tenon.workspaces
  for each row execute function tenon.count_workspaces();

-- A new workspace may have one hosted MCP server and 10,000 users; an operator can allow more. Where the tenant has a quota of its
-- own, it gets no more than the other workspaces leave.
create function tenon.set_initial_quotas() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  -- One for all quotas of the tenant, also those that are set for the first time meanwhile.
  perform pg_advisory_xact_lock(quota_lock(new.tenant_id, '', ''));
  insert into quotas (tenant_id, workspace_id, name, max, used, resets_at)
    select new.tenant_id, new.id, name, least(i.max, l.max), 0, window_end(name)
    from (values ('mcp_servers', 1::bigint), ('users', 10000)) as i (name, max)
      full join (select o.name, greatest(0, o.max - case o.name when 'mcp_tools' then 0 else coalesce(sum(q.max), 0) end)::bigint as max
        from quotas o left join quotas q on q.tenant_id = o.tenant_id and q.workspace_id <> '' and q.name = o.name
        where o.tenant_id = new.tenant_id and o.workspace_id = '' and o.name not in ('workspaces', 'sse_streams')
        group by o.name, o.max) l using (name);
  return null;
end $$;
create trigger set_initial_quotas after insert on tenon.workspaces
  for each row execute function tenon.set_initial_quotas();

-- Keeps the quotas of workspaces within the tenant's own of the same name: each workspace has one, also one that may come back, and they
-- add up to no more. Setting one holds the lock of the tenant. Runs with the rights of the caller, who sees the workspaces of the tenant; a purge only takes away.
create function tenon.keep_allotment() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
declare
  t constant text := coalesce(new.tenant_id, old.tenant_id);
  quota constant text := coalesce(new.name, old.name);
  own bigint;
  allotted bigint;
  unlimited text[];
begin
  if quota in ('workspaces', 'sse_streams') or current_user not in ('tenon_admin', 'tenon_operator') then
    return null;
  end if;
  select max into own from quotas q where q.tenant_id = t and q.workspace_id = '' and q.name = quota;
  if own is null and current_user = 'tenon_admin' then
    raise exception 'the tenant has no such quota' using errcode = 'insufficient_privilege';
  end if;
  -- That of tools holds for each server by itself.
  select coalesce(case quota when 'mcp_tools' then max(max) else sum(max) end, 0) into allotted from quotas q
    where q.tenant_id = t and q.workspace_id <> '' and q.name = quota;
  select array_agg(w.id order by w.id) into unlimited from workspaces w where w.tenant_id = t and w.state <> 'deleted'
    and not exists (select from quotas q where q.tenant_id = t and q.workspace_id = w.id and q.name = quota);
  if own is not null and (unlimited is not null or allotted > own) then
    raise exception 'more than the tenant has' using errcode = 'TQ003', detail = jsonb_strip_nulls(jsonb_build_object(
      'quota', quota, 'tenant_id', t, 'limit', own, 'allotted', allotted, 'without_limit', to_jsonb(unlimited)));
  end if;
  return null;
end $$;
create trigger allotted after insert or update of max or delete on tenon.quotas
  for each row execute function tenon.keep_allotment();

revoke execute on function tenon.quota_count, tenon.use_quota, tenon.count_rows, tenon.window_end,
  tenon.raise_quota_exceeded, tenon.is_limited, tenon.limited, tenon.consume_quota, tenon.is_active,
  tenon.count_workspaces, tenon.set_initial_quotas, tenon.document_bytes, tenon.count_bytes, tenon.count_sizes,
  tenon.total_bytes,
  tenon.enable_counting, tenon.act_for_workspace, tenon.administers from public;
revoke execute on procedure tenon.add_row_quota, tenon.add_size_quota, tenon.add_byte_quota, tenon.switch_counting from public;
grant execute on function tenon.quota_count, tenon.window_end, tenon.is_active to tenon_admin, tenon_operator;
grant execute on function tenon.enable_counting to tenon_admin, tenon_operator;
grant execute on function tenon.limited, tenon.consume_quota to tenon_anon, tenon_user, tenon_service, tenon_admin;
