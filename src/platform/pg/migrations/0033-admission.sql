-- Lists of executions: in the order in which they were asked for, and each filter with an index that has that order.
-- How one has ended is a column of its own: the status changes with every wait, and an index on it would be written each time.
alter table tenon.executions
  add column outcome text generated always as (case when ended_at is not null then status end) stored;
drop index tenon.executions_tenant_id_workspace_id_flow_id_id_idx;
create index executions_of_flow on tenon.executions (tenant_id, workspace_id, flow_id, started_at, id);
create index executions_by_start on tenon.executions (tenant_id, workspace_id, started_at, id);
create index executions_by_outcome on tenon.executions (tenant_id, workspace_id, outcome, started_at, id);
create index executions_by_key on tenon.executions (tenant_id, workspace_id, correlation_key, started_at, id)
  where correlation_key is not null;
-- Most are started by hand; those are found by their start.
create index executions_by_kind on tenon.executions (tenant_id, workspace_id, trigger_kind, started_at, id)
  where trigger_kind <> 'manual';
create index executions_by_trigger on tenon.executions (tenant_id, workspace_id, trigger_id, started_at, id)
  where trigger_id is not null;

-- Names of versions. No foreign key to them: a version goes with its flow alone, as its names do.
create table tenon.flow_aliases (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  flow_id text not null,
  name text not null,
  -- [{version, weight}]
  versions jsonb not null,
  updated_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, flow_id, name),
  foreign key (tenant_id, workspace_id, flow_id) references tenon.flows on delete cascade
);
alter table tenon.flow_aliases enable row level security;
alter table tenon.flow_aliases force row level security;
grant select, insert, update, delete on tenon.flow_aliases to tenon_admin;
create policy admin on tenon.flow_aliases to tenon_admin
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- A version goes with its flow: there is no other way for any role to take one away.
alter table tenon.flow_versions
  drop constraint flow_versions_tenant_id_workspace_id_flow_id_fkey,
  add foreign key (tenant_id, workspace_id, flow_id) references tenon.flows on delete cascade;
revoke update, delete on tenon.flow_versions from tenon_admin;

-- The version that an alias means, of several by their weights: the same share of all chooses the same one.
create function tenon.alias_version(versions jsonb, share bigint) returns integer
  language sql immutable set search_path = tenon, pg_temp as $$
  with weighed as (
    select (v ->> 'version')::integer as version, n,
      sum((v ->> 'weight')::bigint) over (order by n) as upto, sum((v ->> 'weight')::bigint) over () as total
    from jsonb_array_elements(versions) with ordinality as e (v, n)
  )
  select version from weighed where upto > share % total order by n limit 1 $$;

-- What `concurrency` of a version says, so that nobody reads a compiled flow to find that it says nothing.
alter table tenon.flow_versions add column concurrency jsonb;

-- Executions of flows that bound how many run at once: those that have a place, and those that wait for one.
create table tenon.admissions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  flow_id text not null,
  key text not null,
  max integer not null,
  state text not null check (state in ('queued', 'admitted')),
  -- Given under the lock of the key: the order of the queue.
  seq bigint generated always as identity,
  -- What its run begins with, but for the compiled flow and its input.
  run jsonb not null,
  -- Somebody wants it to end: whoever starts it asks, after it has.
  unwanted boolean not null default false,
  checked_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, execution_id),
  foreign key (tenant_id, workspace_id, execution_id) references tenon.executions on delete cascade
);
create index on tenon.admissions (tenant_id, workspace_id, flow_id, key, state, seq);
alter table tenon.admissions enable row level security;
alter table tenon.admissions force row level security;
grant select, insert, update, delete on tenon.admissions to tenon_admin;
create policy admin on tenon.admissions to tenon_admin
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());

-- Who takes, gives back or hands on a place of a key does so alone. Always after the rows of executions and quotas are
-- locked, and whoever holds it waits for no row: so nobody waits in a ring.
create function tenon.lock_places(flow text, key text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended(concat_ws('/', tenon.tenant(), tenon.workspace(), flow, key), 33)) $$;

-- A place, or one in the queue. `on_limit` is queue, refuse, cancel_running, or always: a place in any case.
-- @returns the state, and the executions that are to be cancelled for it
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
    where a.flow_id = flow and a.key = take_place.key and a.state = 'queued');
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
    for oldest in select * from admissions a
        where a.flow_id = flow and a.key = take_place.key and not a.unwanted and a.execution_id <> execution
        order by a.seq limit (select greatest(count(*) - take_place.max, 0) from admissions b
          where b.flow_id = flow and b.key = take_place.key and not b.unwanted)
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

-- An execution that never began ends as cancelled.
create function tenon.end_queued(execution text) returns void language sql set search_path = tenon, pg_temp as $$
  update executions set status = 'cancelled', ended_at = now() where id = execution and ended_at is null;
  delete from admissions where execution_id = execution $$;

-- @returns whether it waited in the queue, and has ended; one that has a place is marked as unwanted
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

-- Hands free places of a key on, in the order of the queue; none where nothing may begin. @returns who is to be started
create function tenon.hand_on(flow text, key text) returns setof text language plpgsql set search_path = tenon, pg_temp as $$
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
    select * into head from admissions a where a.flow_id = flow and a.key = hand_on.key and a.state = 'queued'
      order by a.seq limit 1 for update skip locked;
    exit when not found or head.max <= (select count(*) from admissions a
      where a.flow_id = flow and a.key = hand_on.key and a.state = 'admitted');
    update admissions a set state = 'admitted', checked_at = now() where a.execution_id = head.execution_id;
    return next head.execution_id;
  end loop;
end $$;

-- Gives the place of an execution back, if it has one. @returns who is to be started
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

-- Whoever mends what crashes have left sees which executions are open, of all tenants, and nothing of what they carry.
alter table tenon.executions add column due_at timestamptz(3) not null default now() + interval '10 seconds';
create index executions_due on tenon.executions (due_at) where ended_at is null;
do $$
begin
  if not exists (select from pg_roles where rolname = 'tenon_mender') then
    create role tenon_mender nologin nosuperuser nobypassrls noinherit;
  end if;
  grant tenon_mender to tenon_app;
end $$;
grant usage on schema tenon to tenon_mender;
grant select (tenant_id, workspace_id, id, status, ended_at, due_at), update (due_at) on tenon.executions to tenon_mender;
create policy mender on tenon.executions to tenon_mender using (ended_at is null) with check (ended_at is null);
grant select (tenant_id, workspace_id, execution_id, flow_id, key, max, state, seq, checked_at), update (checked_at)
  on tenon.admissions to tenon_mender;
create policy mender on tenon.admissions to tenon_mender using (true) with check (true);
grant select (id, tenant_id, state) on tenon.workspaces to tenon_mender;
create policy mender on tenon.workspaces for select to tenon_mender using (true);
grant select (id, state) on tenon.tenants to tenon_mender;
create policy mender on tenon.tenants for select to tenon_mender using (true);

revoke execute on function tenon.alias_version, tenon.lock_places, tenon.take_place, tenon.end_queued,
  tenon.leave_queue, tenon.hand_on, tenon.give_back from public;
grant execute on function tenon.alias_version, tenon.lock_places, tenon.take_place, tenon.end_queued,
  tenon.leave_queue, tenon.hand_on, tenon.give_back to tenon_admin;
