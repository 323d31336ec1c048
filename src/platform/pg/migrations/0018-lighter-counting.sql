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
