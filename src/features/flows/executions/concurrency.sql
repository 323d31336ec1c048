-- Slots of flows that limit how many executions run at once: rows of executions that have a slot, and of those that wait
-- for one. `away` has given its slot back while it waits (`holdWhileWaiting: false`), `returning` wants it back; those
-- go before executions that have not begun, in the order in which they came back.
create table tenon.concurrency_slots (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  flow_id text not null,
  key text not null,
  max integer not null,
  state text not null check (state in ('queued', 'admitted', 'yielded', 'requeued')),
  -- Given under the lock of the key: the order of the queue.
  seq bigint generated always as identity,
  -- The start of the execution, without the compiled flow and its input.
  run jsonb not null,
  -- Cancellation is requested: starting it checks this afterwards.
  cancel_requested boolean not null default false,
  -- How often it has gone away: messages about an earlier time are out of date.
  generation integer not null default 0,
  -- It has been admitted again, and has not confirmed it.
  notify_pending boolean not null default false,
  checked_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, execution_id),
  foreign key (tenant_id, workspace_id, execution_id) references tenon.executions on delete cascade
);
create index on tenon.concurrency_slots (tenant_id, workspace_id, flow_id, key, state, seq);
call tenon.allow('tenon_admin', 'tenon.concurrency_slots', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_reconciler', 'tenon.concurrency_slots', 'all',
  'select (tenant_id, workspace_id, execution_id, flow_id, key, max, state, seq, checked_at, notify_pending), update (checked_at)');

-- Serialises changes of one key's slots. Taken after the rows of executions and quotas are locked, and its holder waits
-- for no row: so there is no deadlock.
create function tenon.lock_slots(flow text, key text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended(concat_ws('/', tenon.tenant(), tenon.workspace(), flow, key), 33)) $$;

-- The position among those that wait for a slot: the least is the next.
create function tenon.slot_rank(state text, seq bigint) returns bigint[]
  language sql immutable set search_path = tenon, pg_temp as $$
  select array[(state = 'queued')::integer, seq] $$;

-- Ends an execution that never began as cancelled.
create function tenon.end_queued(execution text) returns void language sql set search_path = tenon, pg_temp as $$
  update executions set status = 'cancelled', ended_at = now() where id = execution and ended_at is null;
  delete from concurrency_slots where execution_id = execution $$;

-- Takes a slot, or a place in the queue. `on_limit` is queue, refuse (raises TQ002), cancel_running, or always: a slot in
-- any case. @returns the state, and the executions that are to be cancelled for it
create function tenon.acquire_slot(execution text, flow text, key text, max integer, on_limit text, run jsonb)
  returns table (state text, to_cancel text[]) language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  was text;
  running integer;
  waiting boolean;
  oldest concurrency_slots%rowtype;
  gone text[] := '{}';
begin
  perform lock_slots(flow, acquire_slot.key);
  select a.state into was from concurrency_slots a where a.execution_id = execution;
  if found then
    return query select was, gone;
    return;
  end if;
  select count(*) into running from concurrency_slots a
    where a.flow_id = flow and a.key = acquire_slot.key and a.state = 'admitted';
  waiting := exists (select from concurrency_slots a
    where a.flow_id = flow and a.key = acquire_slot.key and a.state in ('queued', 'requeued'));
  if on_limit = 'always' or (running < acquire_slot.max and not waiting) then
    was := 'admitted';
  elsif on_limit = 'refuse' then
    raise exception 'concurrency limited' using errcode = 'TQ002',
      detail = jsonb_build_object('limit', acquire_slot.max, 'running', running, 'key', acquire_slot.key);
  else
    was := 'queued';
  end if;
  insert into concurrency_slots (execution_id, flow_id, key, max, state, run)
    values (execution, flow, acquire_slot.key, acquire_slot.max, was, acquire_slot.run);
  if was = 'queued' and on_limit = 'cancel_running' then
    -- One that is away occupies no slot.
    for oldest in select * from concurrency_slots a
        where a.flow_id = flow and a.key = acquire_slot.key and not a.cancel_requested and a.execution_id <> execution
          and a.state <> 'yielded'
        order by a.seq limit (select greatest(count(*) - acquire_slot.max, 0) from concurrency_slots b
          where b.flow_id = flow and b.key = acquire_slot.key and not b.cancel_requested and b.state <> 'yielded')
        for update skip locked loop
      if oldest.state = 'queued' then
        perform end_queued(oldest.execution_id);
      else
        update concurrency_slots a set cancel_requested = true where a.execution_id = oldest.execution_id;
        gone := gone || oldest.execution_id;
      end if;
    end loop;
  end if;
  return query select was, gone;
end $$;

-- Requests the end of an execution. @returns whether it waited in the queue, and has ended
create function tenon.cancel_queued(execution text) returns boolean language plpgsql set search_path = tenon, pg_temp as $$
declare
  was text;
begin
  update concurrency_slots set cancel_requested = true where execution_id = execution returning state into was;
  if was is distinct from 'queued' then
    return false;
  end if;
  perform end_queued(execution);
  return true;
end $$;

-- Hands free slots of a key on, in the order of the queue; none while the workspace is not active.
-- @returns the executions that are to be started, or told that they have their slot again
create function tenon.promote_next(flow text, key text)
  returns setof text language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  head concurrency_slots%rowtype;
begin
  perform lock_slots(flow, promote_next.key);
  if not exists (select from workspaces w join tenants t on t.id = w.tenant_id
      where w.id = workspace() and t.id = tenant() and w.state = 'active' and t.state = 'active') then
    return;
  end if;
  loop
    -- One that is being cancelled is passed over: its canceller may be waiting for this transaction.
    select * into head from concurrency_slots a
      where a.flow_id = flow and a.key = promote_next.key and a.state in ('queued', 'requeued')
      order by slot_rank(a.state, a.seq) limit 1 for update skip locked;
    exit when not found or head.max <= (select count(*) from concurrency_slots a
      where a.flow_id = flow and a.key = promote_next.key and a.state = 'admitted');
    update concurrency_slots a set state = 'admitted', checked_at = now(), notify_pending = head.state = 'requeued'
      where a.execution_id = head.execution_id;
    return next head.execution_id;
  end loop;
end $$;

-- Gives the slot of an execution back, if it has one. @returns as promote_next does
create function tenon.release_slot(execution text) returns setof text language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine concurrency_slots%rowtype;
begin
  select * into mine from concurrency_slots where execution_id = execution;
  if found then
    perform lock_slots(mine.flow_id, mine.key);
    delete from concurrency_slots where execution_id = execution;
    return query select promote_next(mine.flow_id, mine.key);
  end if;
end $$;

-- Gives the slot back while the execution waits, for the `nth` time; repeated, or late, it changes nothing.
-- @returns as promote_next does
create function tenon.yield_slot(execution text, nth integer)
  returns setof text language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine concurrency_slots%rowtype;
begin
  select * into mine from concurrency_slots where execution_id = execution;
  if found then
    perform lock_slots(mine.flow_id, mine.key);
    update concurrency_slots set state = 'yielded', generation = nth, notify_pending = false
      where execution_id = execution and state = 'admitted' and generation < nth;
    return query select promote_next(mine.flow_id, mine.key);
  end if;
end $$;

-- Asks for the slot again; repeated, it changes nothing. `at_once`: another execution waits for this one, so it gets its
-- slot in any case. @returns whether it has it, and which others have theirs now; no row if there is no such execution
create function tenon.reacquire_slot(execution text, nth integer, at_once boolean)
  returns table (has_it boolean, others text[]) language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine concurrency_slots%rowtype;
begin
  select * into mine from concurrency_slots where execution_id = execution;
  if found then
    perform lock_slots(mine.flow_id, mine.key);
    update concurrency_slots set state = case when at_once then 'admitted' else 'requeued' end, seq = default, checked_at = now()
      where execution_id = execution and state = 'yielded' and generation = nth;
    select coalesce(array_agg(h) filter (where h <> execution), '{}') into others
      from promote_next(mine.flow_id, mine.key) h;
    -- The answer tells it.
    update concurrency_slots set notify_pending = false where execution_id = execution and state = 'admitted' and generation <= nth
      returning true into has_it;
    has_it := coalesce(has_it, false);
    return next;
  end if;
end $$;

revoke execute on function tenon.lock_slots, tenon.slot_rank, tenon.end_queued, tenon.acquire_slot, tenon.cancel_queued,
  tenon.promote_next, tenon.release_slot, tenon.yield_slot, tenon.reacquire_slot from public;
grant execute on function tenon.lock_slots, tenon.slot_rank, tenon.end_queued, tenon.acquire_slot, tenon.cancel_queued,
  tenon.promote_next, tenon.release_slot, tenon.yield_slot, tenon.reacquire_slot to tenon_admin;
grant execute on function tenon.slot_rank to tenon_reconciler;
