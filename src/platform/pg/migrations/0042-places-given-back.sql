-- Flows whose executions give their place back while they wait (`holdWhileWaiting: false`): `away` has none, and
-- `returning` wants it back. Those go before who has not begun, in the order in which they came back.
alter table tenon.admissions
  drop constraint admissions_state_check,
  add constraint admissions_state_check check (state in ('queued', 'admitted', 'away', 'returning')),
  -- How often it has gone away: what is said of an earlier time is out of date.
  add column turn integer not null default 0,
  -- It has been admitted again, and has not said that it knows.
  add column unheard boolean not null default false;
grant select (unheard) on tenon.admissions to tenon_mender;

-- Where somebody stands among those who wait for a place: the least is the next.
create function tenon.place_rank(state text, seq bigint) returns bigint[]
  language sql immutable set search_path = tenon, pg_temp as $$
  select array[(state = 'queued')::integer, seq] $$;

create or replace function tenon.take_place(execution text, flow text, key text, max integer, on_limit text, run jsonb)
  returns table (state text, unwanted text[]) language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  was text;
  running integer;
  waiting boolean;
  oldest admissions%rowtype;
  gone text[] := '{}';
begin
  perform lock_places(flow, take_place.key);
  select a.state into was from admissions a where a.execution_id = execution;
  if found then
    return query select was, gone;
    return;
  end if;
  select count(*) into running from admissions a
    where a.flow_id = flow and a.key = take_place.key and a.state = 'admitted';
  waiting := exists (select from admissions a
    where a.flow_id = flow and a.key = take_place.key and a.state in ('queued', 'returning'));
  if on_limit = 'always' or (running < take_place.max and not waiting) then
    was := 'admitted';
  elsif on_limit = 'refuse' then
    raise exception 'concurrency limited' using errcode = 'TQ002',
      detail = jsonb_build_object('limit', take_place.max, 'running', running, 'key', take_place.key);
  else
    was := 'queued';
  end if;
  insert into admissions (execution_id, flow_id, key, max, state, run)
    values (execution, flow, take_place.key, take_place.max, was, take_place.run);
  if was = 'queued' and on_limit = 'cancel_running' then
    -- Who is away holds nobody up.
    for oldest in select * from admissions a
        where a.flow_id = flow and a.key = take_place.key and not a.unwanted and a.execution_id <> execution
          and a.state <> 'away'
        order by a.seq limit (select greatest(count(*) - take_place.max, 0) from admissions b
          where b.flow_id = flow and b.key = take_place.key and not b.unwanted and b.state <> 'away')
        for update skip locked loop
      if oldest.state = 'queued' then
        perform end_queued(oldest.execution_id);
      else
        update admissions a set unwanted = true where a.execution_id = oldest.execution_id;
        gone := gone || oldest.execution_id;
      end if;
    end loop;
  end if;
  return query select was, gone;
end $$;

-- Who comes back has begun, and is told by whoever has called this.
create or replace function tenon.hand_on(flow text, key text)
  returns setof text language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  head admissions%rowtype;
begin
  perform lock_places(flow, hand_on.key);
  if not exists (select from workspaces w join tenants t on t.id = w.tenant_id
      where w.id = workspace() and t.id = tenant() and w.state = 'active' and t.state = 'active') then
    return;
  end if;
  loop
    -- One that is being cancelled is passed over: who cancels it may be waiting for us.
    select * into head from admissions a
      where a.flow_id = flow and a.key = hand_on.key and a.state in ('queued', 'returning')
      order by place_rank(a.state, a.seq) limit 1 for update skip locked;
    exit when not found or head.max <= (select count(*) from admissions a
      where a.flow_id = flow and a.key = hand_on.key and a.state = 'admitted');
    update admissions a set state = 'admitted', checked_at = now(), unheard = head.state = 'returning'
      where a.execution_id = head.execution_id;
    return next head.execution_id;
  end loop;
end $$;

-- A run that waits gives its place back, for the `nth` time. Said twice, or too late, it changes nothing.
-- @returns who has it now
create function tenon.leave_place(execution text, nth integer)
  returns setof text language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine admissions%rowtype;
begin
  select * into mine from admissions where execution_id = execution;
  if found then
    perform lock_places(mine.flow_id, mine.key);
    update admissions set state = 'away', turn = nth, unheard = false
      where execution_id = execution and state = 'admitted' and turn < nth;
    return query select hand_on(mine.flow_id, mine.key);
  end if;
end $$;

-- It has something to do again. Said twice it changes nothing. One that another run waits for gets its place in any case.
-- @returns whether it has its place, and which others have theirs now; no row where there is no such execution
create function tenon.want_place(execution text, nth integer, at_once boolean)
  returns table (has_it boolean, others text[]) language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine admissions%rowtype;
begin
  select * into mine from admissions where execution_id = execution;
  if found then
    perform lock_places(mine.flow_id, mine.key);
    update admissions set state = case when at_once then 'admitted' else 'returning' end, seq = default, checked_at = now()
      where execution_id = execution and state = 'away' and turn = nth;
    select coalesce(array_agg(h) filter (where h <> execution), '{}') into others
      from hand_on(mine.flow_id, mine.key) h;
    -- Whoever asks is told by the answer.
    update admissions set unheard = false where execution_id = execution and state = 'admitted' and turn <= nth
      returning true into has_it;
    has_it := coalesce(has_it, false);
    return next;
  end if;
end $$;

revoke execute on function tenon.place_rank, tenon.leave_place, tenon.want_place from public;
grant execute on function tenon.place_rank to tenon_admin, tenon_mender;
grant execute on function tenon.leave_place, tenon.want_place to tenon_admin;
