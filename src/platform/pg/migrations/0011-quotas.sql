-- Quotas are counted where rows are made: by triggers, in the same transaction, so that no path goes round them and
-- no race gets past them. A quota that nobody has set costs one index lookup a statement and locks nothing.
create table tenon.quotas (
  tenant_id text not null,
  workspace_id text not null,
  name text not null,
  max bigint not null check (max >= 0),
  used bigint not null,
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, name),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);

-- Which tables count towards which quota. With `until`, a row counts as long as that column is null.
create table tenon.quota_sources (
  quota text not null,
  relation regclass not null,
  until text,
  -- Set where the table is one workspace's own.
  tenant_id text,
  workspace_id text,
  primary key (quota, relation)
);

do $$
declare
  name text;
begin
  foreach name in array array['quotas', 'quota_sources'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    -- The owner never logs in: it acts in the functions below alone.
    execute format('create policy counting on tenon.%I to tenon_owner using (true) with check (true)', name);
  end loop;
end $$;
grant select, insert, update, delete on tenon.quotas to tenon_operator;
create policy operator on tenon.quotas to tenon_operator using (true) with check (true);
grant select on tenon.quotas to tenon_admin;
create policy admin on tenon.quotas for select to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()));

-- Shared by those who count, exclusive for who sets: a limit is set between transactions, never in the midst of one.
create function tenon.quota_lock(t text, w text, quota text) returns bigint immutable parallel safe language sql
  return hashtextextended(t || '/' || w || '/' || quota, 11);

create function tenon.use_quota(t text, w text, quota text, n bigint) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  row quotas%rowtype;
begin
  perform pg_advisory_xact_lock_shared(quota_lock(t, w, quota));
  update quotas q set used = q.used + n
    where q.tenant_id = t and q.workspace_id = w and q.name = quota returning q.* into row;
  if found and n > 0 and row.used > row.max then
    raise exception 'quota exceeded' using errcode = 'TQ001',
      detail = jsonb_build_object('quota', quota, 'limit', row.max, 'used', row.used - n);
  end if;
end $$;

create function tenon.count_rows() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  until constant text := coalesce(tg_argv[1], '');
  change record;
begin
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

-- Makes a table with tenant_id and workspace_id count towards a quota. One line per table.
create procedure tenon.count_as(quota text, counted regclass, until text default null,
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

-- What a workspace uses, counted now. For operators, and for admins of that workspace. The owner counts under the
-- policies of that workspace; the caller's settings are put back, since the rest of its transaction is under them.
create function tenon.quota_count(t text, w text, quota text) returns bigint
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  old_tenant constant text := coalesce(current_setting('tenon.tenant', true), '');
  old_workspace constant text := coalesce(current_setting('tenon.workspace', true), '');
  source record;
  n bigint;
  total bigint := 0;
begin
  if current_setting('role') <> 'tenon_operator'
      and (t is distinct from tenant() or coalesce(workspace(), w) is distinct from w) then
    return 0;
  end if;
  perform set_config('tenon.tenant', t, true), set_config('tenon.workspace', w, true);
  for source in select relation, until from quota_sources s where s.quota = quota_count.quota
      and (s.tenant_id is null or (s.tenant_id = t and s.workspace_id = w)) loop
    execute format('select count(*) from %s where tenant_id = $1 and workspace_id = $2 and %s', source.relation,
      case when source.until is null then 'true' else format('%I is null', source.until) end)
      into n using t, w;
    total := total + n;
  end loop;
  perform set_config('tenon.tenant', old_tenant, true), set_config('tenon.workspace', old_workspace, true);
  return total;
end $$;

revoke execute on function tenon.quota_count, tenon.use_quota, tenon.count_rows from public;
revoke execute on procedure tenon.count_as from public;
grant execute on function tenon.quota_count to tenon_admin, tenon_operator;

call tenon.count_as('documents', 'tenon.documents');
call tenon.count_as('concurrent_executions', 'tenon.executions', 'ended_at');
call tenon.count_as('flows', 'tenon.flows');
call tenon.count_as('flow_versions', 'tenon.flow_versions');
call tenon.count_as('api_keys', 'tenon.api_keys', 'revoked_at');
