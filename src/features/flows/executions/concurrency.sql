-- Slots of flows that limit how many executions run at once: rows of executions that have a slot, and of those that wait
-- for one. `away` has given its slot back while it waits (`holdWhileWaiting: false`), `returning` wants it back; those
-- go before executions that have not begun, in the order in which they came back.
create table tenon.admissions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  flow_id text not null,
  key text not null,
  max integer not null,
  state text not null check (state in ('queued', 'admitted', 'away', 'returning')),
  -- Given under the lock of the key: the order of the queue.
  seq bigint generated always as identity,
  -- The start of the execution, without the compiled flow and its input.
  run jsonb not null,
  -- Cancellation is requested: starting it checks this afterwards.
  unwanted boolean not null default false,
  -- How often it has gone away: messages about an earlier time are out of date.
  turn integer not null default 0,
  -- It has been admitted again, and has not confirmed it.
  unheard boolean not null default false,
  checked_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, execution_id),
  foreign key (tenant_id, workspace_id, execution_id) references tenon.executions on delete cascade
);
create index on tenon.admissions (tenant_id, workspace_id, flow_id, key, state, seq);
call tenon.allow('tenon_admin', 'tenon.admissions', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_mender', 'tenon.admissions', 'all',
  'select (tenant_id, workspace_id, execution_id, flow_id, key, max, state, seq, checked_at, unheard), update (checked_at)');

-- Serialises changes of one key's slots. Taken after the rows of executions and quotas are locked, and its holder waits
-- for no row: so there is no deadlock.
create function tenon.lock_places(flow text, key text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended(concat_ws('/', tenon.tenant(), tenon.workspace(), flow, key), 33)) $$;

-- The position among those that wait for a slot: the least is the next.
create function tenon.place_rank(state text, seq bigint) returns bigint[]
  language sql immutable set search_path = tenon, pg_temp as $$
  select array[(state = 'queued')::integer, seq] $$;

-- Ends an execution that never began as cancelled.
create function tenon.end_queued(execution text) returns void language sql set search_path = tenon, pg_temp as $$
  update executions set status = 'cancelled', ended_at = now() where id = execution and ended_at is null;
  delete from admissions where execution_id = execution $$;

-- Takes a slot, or a place in the queue. `on_limit` is queue, refuse (raises TQ002), cancel_running, or always: a slot in
-- any case. @returns the state, and the executions that are to be cancelled for it
create function tenon.take_place(execution text, flow text, key text, max integer, on_limit text, run jsonb)
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
    -- One that is away occupies no slot.
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

-- Requests the end of an execution. @returns whether it waited in the queue, and has ended
create function tenon.leave_queue(execution text) returns boolean language plpgsql set search_path = tenon, pg_temp as $$
declare
  was text;
begin
  update admissions set unwanted = true where execution_id = execution returning state into was;
  if was is distinct from 'queued' then
    return false;
  end if;
  perform end_queued(execution);
  return true;
end $$;

-- Hands free slots of a key on, in the order of the queue; none while the workspace is not active.
-- @returns the executions that are to be started, or told that they have their slot again
create function tenon.hand_on(flow text, key text)
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
    -- One that is being cancelled is passed over: its canceller may be waiting for this transaction.
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

-- Gives the slot of an execution back, if it has one. @returns as hand_on does
create function tenon.give_back(execution text) returns setof text language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine admissions%rowtype;
begin
  select * into mine from admissions where execution_id = execution;
  if found then
    perform lock_places(mine.flow_id, mine.key);
    delete from admissions where execution_id = execution;
    return query select hand_on(mine.flow_id, mine.key);
  end if;
end $$;

-- Gives the slot back while the execution waits, for the `nth` time; repeated, or late, it changes nothing.
-- @returns as hand_on does
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

-- Asks for the slot again; repeated, it changes nothing. `at_once`: another execution waits for this one, so it gets its
-- slot in any case. @returns whether it has it, and which others have theirs now; no row if there is no such execution
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
    -- The answer tells it.
    update admissions set unheard = false where execution_id = execution and state = 'admitted' and turn <= nth
      returning true into has_it;
    has_it := coalesce(has_it, false);
    return next;
  end if;
end $$;

revoke execute on function tenon.lock_places, tenon.place_rank, tenon.end_queued, tenon.take_place, tenon.leave_queue,
  tenon.hand_on, tenon.give_back, tenon.leave_place, tenon.want_place from public;
grant execute on function tenon.lock_places, tenon.place_rank, tenon.end_queued, tenon.take_place, tenon.leave_queue,
  tenon.hand_on, tenon.give_back, tenon.leave_place, tenon.want_place to tenon_admin;
grant execute on function tenon.place_rank to tenon_mender;
