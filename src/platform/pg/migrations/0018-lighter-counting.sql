-- Most quotas are not set. Where the rows are those of the caller's own workspace and nobody has limited them, counting
-- them would be work for nothing; the lock stays, since who sets a limit counts what is there.
create or replace function tenon.count_rows() returns trigger
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

-- A table of one workspace is not even asked until somebody limits it. Enabling its triggers waits for those who write
-- to it, and keeps others out until the limit is set on what was counted.
create function tenon.watch(t text, w text, quota text) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  source record;
begin
  for source in select relation from quota_sources s
      where s.quota = watch.quota and s.tenant_id = t and s.workspace_id = w and exists (
        select from pg_catalog.pg_trigger g
        where g.tgrelid = s.relation and g.tgname = 'count_added' and g.tgenabled = 'D')
      order by relation loop
    execute format('alter table %s enable trigger count_added', source.relation);
    execute format('alter table %s enable trigger count_removed', source.relation);
  end loop;
end $$;
revoke execute on function tenon.watch from public;
grant execute on function tenon.watch to tenon_operator;

create or replace function tenon.count_declared() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  counted constant regclass := format('tenon_data.%I', new.relation)::regclass;
begin
  -- Who sets a limit either sees this table, or is seen here.
  perform pg_advisory_xact_lock_shared(quota_lock(new.tenant_id, new.workspace_id, 'documents'));
  call count_as('documents', counted, null, new.tenant_id, new.workspace_id);
  if not exists (select from quotas q where q.tenant_id = new.tenant_id and q.workspace_id = new.workspace_id
      and q.name = 'documents') then
    execute format('alter table %s disable trigger count_added', counted);
    execute format('alter table %s disable trigger count_removed', counted);
  end if;
  return null;
end $$;
