-- Concurrency slots of runs of any kind: one row per run that holds a slot (`admitted`) or queues for one. What a slot limits is the
-- owner of the runs, a flow or a function, and a key that divides its runs; the key is empty if nothing does.
-- A `yielded` run has released its slot while it waits (`holdWhileWaiting: false` of a flow); a `requeued` one queues for it
-- again, before all runs that have not started (`queued`).
create table tenon.run_slots (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  -- The name of a RunKind. The SQL of a kind adds a column with a foreign key to its records.
  kind text not null,
  run_id text not null,
  owner_id text not null,
  key text not null default '',
  -- The number of slots of owner and key, as the owner's configuration was when the run was created, or is now.
  max integer not null,
  state text not null default 'queued' check (state in ('queued', 'admitted', 'yielded', 'requeued')),
  -- The order of the queue; assigned under the lock of the key, or when the row is inserted.
  seq bigint generated always as identity,
  -- The input that its kind starts it with.
  start jsonb,
  -- When its caller stops waiting: after that it gets no slot. Null if no caller waits.
  expires_at timestamptz(3),
  -- Checked after the workflow is started, which may come later than the cancellation.
  cancel_requested boolean not null default false,
  -- How often it has yielded the slot; messages of an earlier generation are stale.
  generation integer not null default 0,
  -- It was admitted again and has not acknowledged it.
  notify_pending boolean not null default false,
  -- The reconciler has seen that the admitted run has started.
  started boolean not null default false,
  -- When the reconciler has checked an admitted row, or when it was admitted.
  checked_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, run_id)
);
create index on tenon.run_slots (tenant_id, workspace_id, owner_id, key, state, seq);
-- For the reconciler: the queues of each workspace, requeued runs before queued ones; and slots whose run may not have started,
-- or has not acknowledged its slot.
create index run_slots_queues on tenon.run_slots (kind, workspace_id, owner_id, key, state desc, seq)
  where state in ('queued', 'requeued');
create index run_slots_unstarted on tenon.run_slots (kind, workspace_id, checked_at)
  where state = 'admitted' and (notify_pending or not started);
call tenon.allow('tenon_admin', 'tenon.run_slots', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_reconciler', 'tenon.run_slots', 'all',
  'select (tenant_id, workspace_id, kind, run_id, owner_id, key, max, state, seq, expires_at, checked_at, notify_pending, started),
    update (checked_at, started)');

-- Serialises slot changes of one key by an advisory lock, taken after row locks of runs and quotas. Its holder waits
-- for no row, so no deadlock cycle can form.
create function tenon.lock_slots(owner text, key text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended(concat_ws('/', tenon.tenant(), tenon.workspace(), owner, key), 33)) $$;

-- The sort key of the queue: the smallest is next.
create function tenon.slot_rank(state text, seq bigint) returns bigint[]
  language sql immutable set search_path = tenon, pg_temp as $$
  select array[(state = 'queued')::integer, seq] $$;

-- Acquires a slot or joins the queue. This is the limit of one owner and key; quotas of a workspace are separate. If `max` runs
-- hold a slot or one is queued, `on_limit` decides:
--   queue           it joins the queue; raises TQ002 if `queue_max` runs queue
--   refuse          raises TQ002, which is the problem `concurrency_limited`
--   cancel_running  it joins the queue, and the oldest runs beyond `max` are cancelled by the caller: those that were queued
--                   have left the queue, and their records are ended in the same transaction (`to_end`); the others run (`to_cancel`)
--   always          it gets a slot beyond `max`: for a child, whose parent may hold the last slot
-- @returns the state, and the runs that the caller ends and cancels
create function tenon.acquire_slot(kind text, run text, owner text, key text, max integer, on_limit text, start jsonb,
    queue_max integer)
  returns table (state text, to_end text[], to_cancel text[]) language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  result text;
  running integer;
  waiting boolean;
  oldest run_slots%rowtype;
  ended text[] := '{}';
  cancelling text[] := '{}';
begin
  perform lock_slots(owner, acquire_slot.key);
  select a.state into result from run_slots a where a.run_id = run;
  if found then
    return query select result, ended, cancelling;
    return;
  end if;
  select count(*) into running from run_slots a
    where a.owner_id = owner and a.key = acquire_slot.key and a.state = 'admitted';
  waiting := exists (select from run_slots a
    where a.owner_id = owner and a.key = acquire_slot.key and a.state in ('queued', 'requeued'));
  if on_limit = 'always' or (running < acquire_slot.max and not waiting) then
    result := 'admitted';
  elsif on_limit = 'refuse' then
    raise exception 'concurrency limited' using errcode = 'TQ002',
      detail = jsonb_build_object('limit', acquire_slot.max, 'running', running, 'key', acquire_slot.key);
  elsif on_limit = 'queue' and queue_max <= (select count(*) from run_slots a
      where a.owner_id = owner and a.key = acquire_slot.key and a.state = 'queued') then
    raise exception 'concurrency limited' using errcode = 'TQ002', detail = jsonb_build_object(
      'limit', acquire_slot.max, 'running', running, 'key', acquire_slot.key, 'queued', queue_max);
  else
    result := 'queued';
  end if;
  insert into run_slots (kind, run_id, owner_id, key, max, state, start)
    values (acquire_slot.kind, run, owner, acquire_slot.key, acquire_slot.max, result, acquire_slot.start);
  if result = 'queued' and on_limit = 'cancel_running' then
    -- A yielded run occupies no slot.
    for oldest in select * from run_slots a
        where a.owner_id = owner and a.key = acquire_slot.key and not a.cancel_requested and a.run_id <> run
          and a.state <> 'yielded'
        order by a.seq limit (select greatest(count(*) - acquire_slot.max, 0) from run_slots b
          where b.owner_id = owner and b.key = acquire_slot.key and not b.cancel_requested and b.state <> 'yielded')
        for update skip locked loop
      if oldest.state = 'queued' then
        delete from run_slots a where a.run_id = oldest.run_id;
        ended := ended || oldest.run_id;
      else
        update run_slots a set cancel_requested = true where a.run_id = oldest.run_id;
        cancelling := cancelling || oldest.run_id;
      end if;
    end loop;
  end if;
  return query select result, ended, cancelling;
end $$;

-- Takes a run that is queued out of its queue, whose record the caller ends in the same transaction, and notes the cancellation of
-- one that has a slot. The record is locked after the slot, since the end of a run locks it before.
-- @returns the state before; null if the run has no row
create function tenon.cancel_slot(run text) returns text language plpgsql set search_path = tenon, pg_temp as $$
declare
  previous text;
begin
  update run_slots set cancel_requested = true where run_id = run returning state into previous;
  if previous = 'queued' then
    delete from run_slots where run_id = run;
  end if;
  return previous;
end $$;

-- Gives free slots of a key to the next in the queue; none while the workspace is not active, and none to a run whose caller
-- does not wait any more. @returns the runs to start, or to notify that they hold their slot again
create function tenon.promote_next(owner text, key text)
  returns setof text language plpgsql set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  head run_slots%rowtype;
begin
  perform lock_slots(owner, promote_next.key);
  if not exists (select from workspaces w join tenants t on t.id = w.tenant_id
      where w.id = workspace() and t.id = tenant() and w.state = 'active' and t.state = 'active') then
    return;
  end if;
  loop
    -- Skips a run that is being cancelled: its canceller may be waiting for this transaction.
    select * into head from run_slots a
      where a.owner_id = owner and a.key = promote_next.key and a.state in ('queued', 'requeued')
        and coalesce(a.expires_at > clock_timestamp(), true)
      order by slot_rank(a.state, a.seq) limit 1 for update skip locked;
    exit when not found or head.max <= (select count(*) from run_slots a
      where a.owner_id = owner and a.key = promote_next.key and a.state = 'admitted');
    update run_slots a set state = 'admitted', checked_at = now(), notify_pending = head.state = 'requeued'
      where a.run_id = head.run_id;
    return next head.run_id;
  end loop;
end $$;

-- The row of a run, under the lock of its owner and key; null if it has none.
create function tenon.lock_slot_of(run text) returns tenon.run_slots
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine run_slots%rowtype;
begin
  select * into mine from run_slots where run_id = run;
  if found then
    perform lock_slots(mine.owner_id, mine.key);
  end if;
  return mine;
end $$;

-- Releases the slot of a run, if it has one. @returns as promote_next does
create function tenon.release_slot(run text) returns setof text
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine run_slots%rowtype := lock_slot_of(run);
begin
  if mine.run_id is not null then
    delete from run_slots where run_id = run;
    return query select promote_next(mine.owner_id, mine.key);
  end if;
end $$;

-- Releases the slot while the run waits. `nth` is the generation of the slot from then on. Idempotent; a late call
-- has no effect.
-- @returns as promote_next does
create function tenon.yield_slot(run text, nth integer)
  returns setof text language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine run_slots%rowtype := lock_slot_of(run);
begin
  if mine.run_id is not null then
    update run_slots set state = 'yielded', generation = nth, notify_pending = false
      where run_id = run and state = 'admitted' and generation < nth;
    return query select promote_next(mine.owner_id, mine.key);
  end if;
end $$;

-- Queues for the slot again. Idempotent. `at_once`: another run waits for this one, so it gets its slot in any case.
-- @returns whether it holds the slot, and the runs that were promoted; no row if the run has no row
create function tenon.reacquire_slot(run text, nth integer, at_once boolean)
  returns table (has_it boolean, others text[]) language plpgsql set search_path = tenon, pg_temp as $$
declare
  mine run_slots%rowtype := lock_slot_of(run);
begin
  if mine.run_id is not null then
    update run_slots
      set state = case when at_once then 'admitted' else 'requeued' end, seq = default, checked_at = now()
      where run_id = run and state = 'yielded' and generation = nth;
    select coalesce(array_agg(h) filter (where h <> run), '{}') into others
      from promote_next(mine.owner_id, mine.key) h;
    -- The result of this call is the notification.
    update run_slots set notify_pending = false
      where run_id = run and state = 'admitted' and generation <= nth
      returning true into has_it;
    has_it := coalesce(has_it, false);
    return next;
  end if;
end $$;

revoke execute on function tenon.lock_slots, tenon.slot_rank, tenon.acquire_slot, tenon.cancel_slot,
  tenon.promote_next, tenon.lock_slot_of, tenon.release_slot, tenon.yield_slot, tenon.reacquire_slot from public;
grant execute on function tenon.lock_slots, tenon.slot_rank, tenon.acquire_slot, tenon.cancel_slot,
  tenon.promote_next, tenon.lock_slot_of, tenon.release_slot, tenon.yield_slot, tenon.reacquire_slot to tenon_admin;
