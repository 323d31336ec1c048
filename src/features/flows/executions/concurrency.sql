-- Concurrency slots of flows with `concurrency`: one row per execution that holds a slot (`admitted`) or queues for one.
-- A `yielded` execution has released its slot while it waits (`holdWhileWaiting: false`); a `requeued` one queues for it
-- again, before all executions that have not started (`queued`).
create table tenon.concurrency_slots (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  flow_id text not null,
  key text not null,
  -- The `limit` of the flow's `concurrency` when the execution was admitted.
  max integer not null,
  state text not null check (state in ('queued', 'admitted', 'yielded', 'requeued')),
  -- The order of the queue; assigned under the lock of the key.
  seq bigint generated always as identity,
  -- The input of its workflow, without the compiled flow and the execution's input.
  run jsonb not null,
  -- Checked after the workflow is started, which may come later than the cancellation.
  cancel_requested boolean not null default false,
  -- How often it has yielded the slot; messages of an earlier generation are stale.
  generation integer not null default 0,
  -- It was admitted again and has not acknowledged it.
  notify_pending boolean not null default false,
  -- The reconciler has seen that the execution of an admitted row has started.
  started boolean not null default false,
  -- When the reconciler has checked an admitted row, or when it was admitted.
  checked_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, execution_id),
  foreign key (tenant_id, workspace_id, execution_id) references tenon.executions on delete cascade
);
create index on tenon.concurrency_slots (tenant_id, workspace_id, flow_id, key, state, seq);
-- For the reconciler: the queues of each workspace, requeued executions before queued ones; and slots whose execution may not
-- have started, or has not acknowledged its slot.
create index concurrency_slots_queues on tenon.concurrency_slots (workspace_id, flow_id, key, state desc, seq)
  where state in ('queued', 'requeued');
create index concurrency_slots_unstarted on tenon.concurrency_slots (workspace_id, checked_at)
  where state = 'admitted' and (notify_pending or not started);
call tenon.allow('tenon_admin', 'tenon.concurrency_slots', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_reconciler', 'tenon.concurrency_slots', 'all',
  'select (tenant_id, workspace_id, execution_id, flow_id, key, max, state, seq, checked_at, notify_pending, started),
    update (checked_at, started)');

-- Serialises slot changes of one key by an advisory lock, taken after row locks of executions and quotas. Its holder waits
-- for no row, so no deadlock cycle can form.
create function tenon.lock_slots(flow text, key text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended(concat_ws('/', tenon.tenant(), tenon.workspace(), flow, key), 33)) $$;

-- The sort key of the queue: the smallest is next.
create function tenon.slot_rank(state text, seq bigint) returns bigint[]
  language sql immutable set search_path = tenon, pg_temp as $$
  select array[(state = 'queued')::integer, seq] $$;

-- Ends a queued execution as cancelled.
create function tenon.end_queued(execution text) returns void language sql set search_path = tenon, pg_temp as $$
  update executions set status = 'cancelled', ended_at = now() where id = execution and ended_at is null;
  delete from concurrency_slots where execution_id = execution $$;

-- Acquires a slot or joins the queue. This is the limit of one flow and key (`concurrency`); the quota concurrent_executions of
-- a workspace is separate. If `max` executions hold a slot or one is queued, `on_limit` decides:
--   queue           it joins the queue; raises TQ002 if `queue_max` executions queue
--   refuse          raises TQ002, which is the problem `concurrency_limited`
--   cancel_running  it joins the queue, and the oldest executions beyond `max` are cancelled: queued ones at once, the others by
--                   the caller (`to_cancel`)
--   always          it gets a slot beyond `max`: for a child, whose parent may hold the last slot
-- @returns the state, and the executions that the caller cancels
create function tenon.acquire_slot(execution text, flow text, key text, max integer, on_limit text, run jsonb,
    queue_max integer)
  returns table (state text, to_cancel text[]) language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  result text;
  running integer;
  waiting boolean;
  oldest concurrency_slots%rowtype;
  cancelling text[] := '{}';
begin
  perform lock_slots(flow, acquire_slot.key);
  select a.state into result from concurrency_slots a where a.execution_id = execution;
  if found then
    return query select result, cancelling;
    return;
  end if;
  select count(*) into running from concurrency_slots a
    where a.flow_id = flow and a.key = acquire_slot.key and a.state = 'admitted';
  waiting := exists (select from concurrency_slots a
    where a.flow_id = flow and a.key = acquire_slot.key and a.state in ('queued', 'requeued'));
  if on_limit = 'always' or (running < acquire_slot.max and not waiting) then
    result := 'admitted';
  elsif on_limit = 'refuse' then
    raise exception 'concurrency limited' using errcode = 'TQ002',
      detail = jsonb_build_object('limit', acquire_slot.max, 'running', running, 'key', acquire_slot.key);
  elsif on_limit = 'queue' and queue_max <= (select count(*) from concurrency_slots a
      where a.flow_id = flow and a.key = acquire_slot.key and a.state = 'queued') then
    raise exception 'concurrency limited' using errcode = 'TQ002', detail = jsonb_build_object(
      'limit', acquire_slot.max, 'running', running, 'key', acquire_slot.key, 'queued', queue_max);
  else
    result := 'queued';
  end if;
  insert into concurrency_slots (execution_id, flow_id, key, max, state, run)
    values (execution, flow, acquire_slot.key, acquire_slot.max, result, acquire_slot.run);
  if result = 'queued' and on_limit = 'cancel_running' then
    -- A yielded execution occupies no slot.
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
        cancelling := cancelling || oldest.execution_id;
      end if;
    end loop;
  end if;
  return query select result, cancelling;
end $$;

-- Requests the cancellation of an execution. The row of the execution is not locked if it has a slot: the end of the execution
-- locks it before the slot. @returns true if it was queued, and is now cancelled
create function tenon.cancel_queued(execution text) returns boolean language plpgsql set search_path = tenon, pg_temp as $$
declare
  previous text;
begin
  update concurrency_slots set cancel_requested = true where execution_id = execution returning state into previous;
  if not found then
    update executions set cancel_requested = true where id = execution and ended_at is null;
  end if;
  if previous is distinct from 'queued' then
    return false;
  end if;
  perform end_queued(execution);
  return true;
end $$;

-- Gives free slots of a key to the next in the queue; none while the workspace is not active.
-- @returns the executions to start, or to notify that they hold their slot again
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
    -- Skips an execution that is being cancelled: its canceller may be waiting for this transaction.
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

-- Releases the slot of an execution, if it has one. @returns as promote_next does
create function tenon.release_slot(execution text) returns setof text
  language plpgsql set search_path = tenon, pg_temp as $$
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

-- Releases the slot while the execution waits. `nth` is the generation of the slot from then on. Idempotent; a late call
-- has no effect.
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

-- Queues for the slot again. Idempotent. `at_once`: another execution waits for this one, so it gets its slot in any case.
-- @returns whether it holds the slot, and the executions that were promoted; no row if the execution has no row
create function tenon.reacquire_slot(execution text, nth integer, at_once boolean)
  returns table (has_it boolean, others text[]) language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine concurrency_slots%rowtype;
begin
  select * into mine from concurrency_slots where execution_id = execution;
  if found then
    perform lock_slots(mine.flow_id, mine.key);
    update concurrency_slots
      set state = case when at_once then 'admitted' else 'requeued' end, seq = default, checked_at = now()
      where execution_id = execution and state = 'yielded' and generation = nth;
    select coalesce(array_agg(h) filter (where h <> execution), '{}') into others
      from promote_next(mine.flow_id, mine.key) h;
    -- The result of this call is the notification.
    update concurrency_slots set notify_pending = false
      where execution_id = execution and state = 'admitted' and generation <= nth
      returning true into has_it;
    has_it := coalesce(has_it, false);
    return next;
  end if;
end $$;

revoke execute on function tenon.lock_slots, tenon.slot_rank, tenon.end_queued, tenon.acquire_slot, tenon.cancel_queued,
  tenon.promote_next, tenon.release_slot, tenon.yield_slot, tenon.reacquire_slot from public;
grant execute on function tenon.lock_slots, tenon.slot_rank, tenon.end_queued, tenon.acquire_slot, tenon.cancel_queued,
  tenon.promote_next, tenon.release_slot, tenon.yield_slot, tenon.reacquire_slot to tenon_admin;
