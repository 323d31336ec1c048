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
