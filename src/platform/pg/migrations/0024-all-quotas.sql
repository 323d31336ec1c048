-- The quotas that were missing. What a window bounds has `resets_at`: beyond it counting begins anew. What is a
-- tenant's has an empty workspace. What is bounded in bytes is weighed in the same transaction as it is written; objects,
-- which another store keeps, are in a ledger here.
alter table tenon.quotas
  drop constraint quotas_tenant_id_workspace_id_fkey,
  add column resets_at timestamptz(3),
  add column room text generated always as (nullif(workspace_id, '')) stored,
  add foreign key (tenant_id) references tenon.tenants (id),
  add foreign key (tenant_id, room) references tenon.workspaces (tenant_id, id);

-- When the window of a quota ends; null for what is no window. Days are UTC's.
create function tenon.window_end(quota text) returns timestamptz language sql
  return case when quota like '%\_per\_day' then date_trunc('day', clock_timestamp(), 'UTC') + interval '1 day'
    when quota like '%\_per\_minute' then date_trunc('minute', clock_timestamp()) + interval '1 minute' end;

create function tenon.exceeded(q tenon.quotas, used bigint) returns void language plpgsql as $$
begin
  raise exception 'quota exceeded' using errcode = 'TQ001', detail = jsonb_strip_nulls(jsonb_build_object(
    'quota', q.name, 'limit', q.max, 'used', used,
    'resets_at', to_char(q.resets_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
end $$;

create or replace function tenon.use_quota(t text, w text, quota text, n bigint) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  row quotas%rowtype;
begin
  perform pg_advisory_xact_lock_shared(quota_lock(t, w, quota));
  -- The condition is evaluated again once the row is ours: of two that begin a window, one does.
  update quotas q set
      used = case when q.resets_at <= clock_timestamp() then n else q.used + n end,
      resets_at = case when q.resets_at <= clock_timestamp() then window_end(q.name) else q.resets_at end
    where q.tenant_id = t and q.workspace_id = w and q.name = quota returning q.* into row;
  if found and n > 0 and row.used > row.max then
    perform exceeded(row, row.used - n);
  end if;
end $$;

-- Whether somebody has limited this in the caller's workspace. Who sets a limit waits for those who were told no.
create function tenon.is_limited(quota text) returns boolean
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  perform pg_advisory_xact_lock_shared(quota_lock(tenant(), workspace(), is_limited.quota));
  return exists (select from quotas q
    where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = is_limited.quota);
end $$;

-- What is limited in the caller's workspace.
create function tenon.limited() returns setof text
  language sql stable security definer set search_path = tenon, pg_temp as $$
  select q.name from quotas q where q.tenant_id = tenant() and q.workspace_id = workspace() $$;

-- Takes one of what a window bounds. It is not given back: of what failed nobody knows how far it came.
create function tenon.spend(quota text) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  if spend.quota not in ('events_per_day', 'invocations_per_day', 'mcp_calls_per_minute') then
    raise exception 'no such window' using errcode = 'check_violation';
  end if;
  perform use_quota(tenant(), workspace(), spend.quota, 1);
end $$;

-- Each row that is made is a start; no row of another table is counted when the limit is set.
create trigger count_starts after insert on tenon.executions referencing new table as added
  for each statement execute function tenon.count_rows('execution_starts_per_minute', '');

-- Workspaces of a tenant, from their beginning to their end.
create function tenon.is_there(state text) returns boolean immutable language sql
  return coalesce(state not in ('deleted', 'provisioning_failed'), false);
create function tenon.count_workspaces() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n constant integer := is_there(new.state)::integer - is_there(old.state)::integer;
begin
  if n <> 0 then
    perform use_quota(new.tenant_id, '', 'workspaces', n);
  end if;
  return null;
end $$;
create trigger count_workspace after insert or update of state on tenon.workspaces
  for each row execute function tenon.count_workspaces();

-- Tools of one server: no row is one, so a version is measured as it is published.
create policy counting on tenon.mcp_server_versions for select to tenon_owner
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
create function tenon.limit_tools() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  row quotas%rowtype;
begin
  perform pg_advisory_xact_lock_shared(quota_lock(new.tenant_id, new.workspace_id, 'mcp_tools'));
  select * into row from quotas q
    where q.tenant_id = new.tenant_id and q.workspace_id = new.workspace_id and q.name = 'mcp_tools';
  if jsonb_array_length(new.manifest -> 'tools') > row.max then
    perform exceeded(row, quota_tools(new.server_id));
  end if;
  return null;
end $$;
create trigger limit_tools after insert on tenon.mcp_server_versions
  for each row execute function tenon.limit_tools();

-- How many tools a server of the caller's workspace offers; of all its servers the one with most.
create function tenon.quota_tools(server text default null) returns bigint
  language sql stable security definer set search_path = tenon, pg_temp as $$
  select coalesce(max(jsonb_array_length(v.manifest -> 'tools')), 0)
  from mcp_servers s join mcp_server_versions v on v.tenant_id = s.tenant_id and v.workspace_id = s.workspace_id
    and v.server_id = s.id and v.version = s.active_version
  where s.tenant_id = tenant() and s.workspace_id = workspace() and (server is null or s.id = server) $$;

-- The bytes of a document are those of its text as the database keeps it, without what the platform adds.
create function tenon.weigh(stored jsonb) returns bigint immutable parallel safe language sql
  return octet_length((stored - '{tenant_id,workspace_id,collection,id,version,created_at,updated_at}'::text[])::text);

create function tenon.weigh_rows() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n bigint := 0;
  m bigint := 0;
begin
  -- Documents are written by those who are inside one workspace. As is_limited says it, but without another call: it
  -- is asked at every write.
  perform pg_advisory_xact_lock_shared(quota_lock(tenant(), workspace(), 'document_bytes'));
  if not exists (select from quotas q
      where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = 'document_bytes') then
    return null;
  end if;
  if tg_op <> 'DELETE' then
    select coalesce(sum(weigh(to_jsonb(a))), 0) into n from added a;
  end if;
  if tg_op <> 'INSERT' then
    select coalesce(sum(weigh(to_jsonb(r))), 0) into m from removed r;
  end if;
  if n <> m then
    perform use_quota(tenant(), workspace(), 'document_bytes', n - m);
  end if;
  return null;
end $$;

-- Makes a table of documents count towards `document_bytes`. Triggers fire in the order of their names: all who write
-- take the row of the bytes before that of the documents, so that they do not wait for each other in a ring.
create procedure tenon.weigh_as(weighed regclass, t text default null, w text default null)
  language plpgsql as $$
begin
  insert into tenon.quota_sources (quota, relation, tenant_id, workspace_id) values ('document_bytes', weighed, t, w);
  execute format('create trigger bytes_added after insert on %s referencing new table as added
    for each statement execute function tenon.weigh_rows()', weighed);
  execute format('create trigger bytes_removed after delete on %s referencing old table as removed
    for each statement execute function tenon.weigh_rows()', weighed);
  execute format('create trigger bytes_changed after update on %s referencing old table as removed new table as added
    for each statement execute function tenon.weigh_rows()', weighed);
end $$;

-- The triggers of a table that is one workspace's own, for one of the two quotas of documents.
create procedure tenon.switch_counting(counted regclass, quota text, switch text)
  language plpgsql as $$
declare
  name text;
begin
  for name in select g.tgname from pg_catalog.pg_trigger g where g.tgrelid = counted
      and g.tgname ~ case quota when 'document_bytes' then '^bytes_' else '^count_' end order by 1 loop
    execute format('alter table %s %s trigger %I', counted, switch, name);
  end loop;
end $$;

create or replace function tenon.watch(t text, w text, quota text) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  source record;
begin
  for source in select relation from quota_sources s
      where s.quota = watch.quota and s.tenant_id = t and s.workspace_id = w and exists (
        select from pg_catalog.pg_trigger g where g.tgrelid = s.relation and g.tgenabled = 'D'
        and g.tgname = case s.quota when 'document_bytes' then 'bytes_added' else 'count_added' end)
      order by relation loop
    call switch_counting(source.relation, watch.quota, 'enable');
  end loop;
end $$;

create or replace function tenon.count_declared() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  counted constant regclass := format('tenon_data.%I', new.relation)::regclass;
  quota text;
begin
  call weigh_as(counted, new.tenant_id, new.workspace_id);
  call count_as('documents', counted, null, new.tenant_id, new.workspace_id);
  foreach quota in array array['document_bytes', 'documents'] loop
    -- Who sets a limit either sees this table, or is seen here.
    perform pg_advisory_xact_lock_shared(quota_lock(new.tenant_id, new.workspace_id, quota));
    if not exists (select from quotas q where q.tenant_id = new.tenant_id and q.workspace_id = new.workspace_id
        and q.name = quota) then
      call switch_counting(counted, quota, 'disable');
    end if;
  end loop;
  return null;
end $$;

-- Columns that come and go change what a document weighs, without a row being written: the table is weighed before and
-- after. Triggers of one event fire in the order of their names, so this one comes before `evolve_collection`.
create function tenon.bytes_before() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  execute format('lock table tenon_data.%I in access exclusive mode', old.relation);
  perform pg_advisory_xact_lock_shared(quota_lock(old.tenant_id, old.workspace_id, 'document_bytes'));
  if exists (select from quotas q where q.tenant_id = old.tenant_id and q.workspace_id = old.workspace_id
      and q.name = 'document_bytes') then
    call switch_counting(format('tenon_data.%I', old.relation)::regclass, 'document_bytes', 'disable');
    perform set_config('tenon.bytes_before', weight(old.tenant_id, old.workspace_id,
      format('tenon_data.%I', old.relation)::regclass)::text, true);
  end if;
  return new;
end $$;
create function tenon.bytes_after() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  before constant text := coalesce(current_setting('tenon.bytes_before', true), '');
  relation constant regclass := format('tenon_data.%I', new.relation)::regclass;
begin
  if before <> '' then
    -- What was stored stays, also where it is more now than it may be.
    update quotas q set used = q.used + weight(new.tenant_id, new.workspace_id, relation) - before::bigint
      where q.tenant_id = new.tenant_id and q.workspace_id = new.workspace_id and q.name = 'document_bytes';
    call switch_counting(relation, 'document_bytes', 'enable');
    perform set_config('tenon.bytes_before', '', true);
  end if;
  return null;
end $$;
create trigger bytes_before before update on tenon.schemas
  for each row when (old.columns is distinct from new.columns) execute function tenon.bytes_before();
create trigger bytes_after after update on tenon.schemas
  for each row when (old.columns is distinct from new.columns) execute function tenon.bytes_after();

-- The owner weighs under the policies of that workspace; the caller's settings are put back.
create function tenon.weight(t text, w text, weighed regclass) returns bigint
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  old_tenant constant text := coalesce(current_setting('tenon.tenant', true), '');
  old_workspace constant text := coalesce(current_setting('tenon.workspace', true), '');
  n bigint;
begin
  perform set_config('tenon.tenant', t, true), set_config('tenon.workspace', w, true);
  execute format('select coalesce(sum(weigh(to_jsonb(r))), 0) from %s r where tenant_id = $1 and workspace_id = $2',
    weighed) into n using t, w;
  perform set_config('tenon.tenant', old_tenant, true), set_config('tenon.workspace', old_workspace, true);
  return n;
end $$;

-- What a workspace's bucket holds, where that is limited: a row for each object, and one for each upload under way, which
-- is counted as more until it is settled. Nothing but the store knows what is there: it is asked under a lock on the object.
create table tenon.stored_objects (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  -- SHA-256 of bucket and key, since a key may be longer than an index takes.
  id bytea not null check (octet_length(id) = 32),
  -- Empty for the object itself.
  upload text not null default '',
  bucket text not null,
  key text not null,
  bytes bigint not null check (bytes >= 0),
  -- Of an upload: then its process is taken for dead, and whoever needs room asks the store what came of it.
  expires_at timestamptz(3),
  primary key (tenant_id, workspace_id, id, upload),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
alter table tenon.stored_objects enable row level security;
alter table tenon.stored_objects force row level security;
grant select on tenon.stored_objects to tenon_service;
create policy service on tenon.stored_objects for select to tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
create policy counting on tenon.stored_objects to tenon_owner
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
-- With the limit goes the ledger.
grant select, delete on tenon.stored_objects to tenon_operator;
create policy operator on tenon.stored_objects to tenon_operator using (true);

-- Room for an upload, or more of it. @returns false where nobody has limited the bytes
create function tenon.reserve_bytes(object bytea, upload text, bucket text, key text, bytes bigint, lease interval)
  returns boolean language plpgsql security definer set search_path = tenon, pg_temp as $$
#variable_conflict use_column
declare
  had bigint;
begin
  if not is_limited('object_bytes') then
    return false;
  end if;
  select s.bytes into had from stored_objects s where s.tenant_id = tenant() and s.workspace_id = workspace()
    and s.id = object and s.upload = reserve_bytes.upload;
  insert into stored_objects as s (id, upload, bucket, key, bytes, expires_at)
    values (object, reserve_bytes.upload, reserve_bytes.bucket, reserve_bytes.key, reserve_bytes.bytes, now() + lease)
    on conflict (tenant_id, workspace_id, id, upload) do update set bytes = excluded.bytes, expires_at = excluded.expires_at;
  perform use_quota(tenant(), workspace(), 'object_bytes', reserve_bytes.bytes - coalesce(had, 0));
  return true;
end $$;

-- Who asks the store what an object is now keeps others from doing so: the last to ask writes the last answer.
create function tenon.hold_object(object bytea) returns void language sql
  return pg_advisory_xact_lock(hashtextextended(tenon.tenant() || '/' || tenon.workspace() || '/' || encode(object, 'hex'), 24));

-- What the store says an object is; 0 for none. Ends the upload. It is the truth, so it is written beyond any limit.
create function tenon.settle_object(object bytea, upload text, bucket text, key text, bytes bigint) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  had bigint;
begin
  if not is_limited('object_bytes') then
    return;
  end if;
  with gone as (delete from stored_objects s where s.tenant_id = tenant() and s.workspace_id = workspace()
      and s.id = object and s.upload in ('', settle_object.upload) returning s.bytes)
    select coalesce(sum(g.bytes), 0) into had from gone g;
  if settle_object.bytes > 0 then
    insert into stored_objects (id, bucket, key, bytes)
      values (object, settle_object.bucket, settle_object.key, settle_object.bytes);
  end if;
  update quotas q set used = q.used + settle_object.bytes - had
    where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = 'object_bytes';
end $$;

-- Objects that were there before anybody limited them. What was settled meanwhile is known better.
create function tenon.adopt_objects(objects bytea[], bucket text, keys text[], sizes bigint[]) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n bigint;
begin
  if not is_limited('object_bytes') then
    return;
  end if;
  with made as (
    insert into stored_objects (id, bucket, key, bytes)
      select o.id, adopt_objects.bucket, o.key, o.bytes from unnest(objects, keys, sizes) as o (id, key, bytes)
      where o.bytes > 0
      on conflict (tenant_id, workspace_id, id, upload) do nothing returning bytes)
    select coalesce(sum(m.bytes), 0) into n from made m;
  update quotas q set used = q.used + n
    where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = 'object_bytes';
end $$;

create or replace function tenon.quota_count(t text, w text, quota text) returns bigint
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
  if quota_count.quota = 'mcp_tools' then
    total := quota_tools();
  end if;
  for source in select relation, until from quota_sources s where s.quota = quota_count.quota
      and (s.tenant_id is null or (s.tenant_id = t and s.workspace_id = w)) loop
    if quota_count.quota = 'document_bytes' then
      n := weight(t, w, source.relation);
    else
      execute format('select count(*) from %s where tenant_id = $1 and workspace_id = $2 and %s', source.relation,
        case when source.until is null then 'true' else format('%I is null', source.until) end)
        into n using t, w;
    end if;
    total := total + n;
  end loop;
  perform set_config('tenon.tenant', old_tenant, true), set_config('tenon.workspace', old_workspace, true);
  return total;
end $$;

revoke execute on function tenon.window_end, tenon.exceeded, tenon.is_limited, tenon.limited, tenon.spend,
  tenon.is_there, tenon.count_workspaces, tenon.limit_tools, tenon.quota_tools, tenon.weigh, tenon.weigh_rows,
  tenon.bytes_before, tenon.bytes_after, tenon.weight, tenon.reserve_bytes, tenon.hold_object, tenon.settle_object,
  tenon.adopt_objects from public;
revoke execute on procedure tenon.weigh_as, tenon.switch_counting from public;
grant execute on function tenon.limited, tenon.spend to tenon_anon, tenon_service, tenon_admin;
grant execute on function tenon.window_end, tenon.is_there to tenon_operator, tenon_admin;
grant execute on function tenon.is_limited, tenon.reserve_bytes, tenon.hold_object, tenon.settle_object,
  tenon.adopt_objects to tenon_service;

call tenon.weigh_as('tenon.documents');
do $$
declare
  source record;
begin
  for source in select * from tenon.quota_sources s where s.quota = 'documents' and s.tenant_id is not null loop
    call tenon.weigh_as(source.relation, source.tenant_id, source.workspace_id);
    call tenon.switch_counting(source.relation, 'document_bytes', 'disable');
  end loop;
end $$;
