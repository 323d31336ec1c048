-- Objects: the bucket of a workspace at the object store, and the usage ledger of workspaces with a byte quota.

-- Buckets that the object store has, one per workspace at most.
create table tenon.buckets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$'),
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
call tenon.allow('tenon_admin', 'tenon.buckets', 'tenant', 'select, insert, delete');
call tenon.allow('tenon_service', 'tenon.buckets', 'workspace', 'select');
-- Readable only while the workspace allows anon keys to read objects. A session at the store covers the whole bucket, so the
-- platform checks which object keys they may read.
create policy anon on tenon.buckets for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()
    and exists (select from tenon.services s where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace()
      and s.anon ->> 'objects' = 'public' and s.public_read <> '[]'));
grant select on tenon.buckets to tenon_anon;
-- The same for users, while the workspace has a rule for objects.
create policy end_user on tenon.buckets for select to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()
    and exists (select from tenon.services s where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace()
      and s.user_objects @? '$.*[*]'));
grant select on tenon.buckets to tenon_user;

-- The usage ledger: a row per object, and one per upload in progress, which counts in addition until it is reconciled. The
-- object store is the source of truth and is queried under a lock of the object.
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
  -- For an upload: after this its process is considered dead, and the next upload reconciles it with the object store.
  expires_at timestamptz(3),
  primary key (tenant_id, workspace_id, id, upload),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
call tenon.allow('tenon_service', 'tenon.stored_objects', 'workspace', 'select');
-- An upload of a user reconciles expired ones if the quota is used up.
create policy end_user on tenon.stored_objects for select to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and expires_at <= now());
grant select (tenant_id, workspace_id, bucket, key, upload, expires_at) on tenon.stored_objects to tenon_user;
create policy counting on tenon.stored_objects to tenon_owner
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
-- Removing the limit removes the ledger.
call tenon.allow('tenon_operator', 'tenon.stored_objects', 'all', 'select, delete');

-- Reserves bytes for an upload, or more of them. @returns false if the workspace has no byte quota
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

-- Locks an object while the object store is queried, so that the last query is recorded last.
create function tenon.lock_object(object bytea) returns void language sql
  return pg_advisory_xact_lock(hashtextextended(tenon.tenant() || '/' || tenon.workspace() || '/' || encode(object, 'hex'), 24));

-- Records the size that the object store reports (0 if there is no object) and ends the upload. Not limited by the quota.
create function tenon.reconcile_object(object bytea, upload text, bucket text, key text, bytes bigint) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  had bigint;
begin
  if not is_limited('object_bytes') then
    return;
  end if;
  with gone as (delete from stored_objects s where s.tenant_id = tenant() and s.workspace_id = workspace()
      and s.id = object and s.upload in ('', reconcile_object.upload) returning s.bytes)
    select coalesce(sum(g.bytes), 0) into had from gone g;
  if reconcile_object.bytes > 0 then
    insert into stored_objects (id, bucket, key, bytes)
      values (object, reconcile_object.bucket, reconcile_object.key, reconcile_object.bytes);
  end if;
  update quotas q set used = q.used + reconcile_object.bytes - had
    where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = 'object_bytes';
end $$;

-- Records objects that existed before the quota was set. Rows reconciled meanwhile are newer and stay.
create function tenon.register_objects(objects bytea[], bucket text, keys text[], sizes bigint[]) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  n bigint;
begin
  if not is_limited('object_bytes') then
    return;
  end if;
  with made as (
    insert into stored_objects (id, bucket, key, bytes)
      select o.id, register_objects.bucket, o.key, o.bytes from unnest(objects, keys, sizes) as o (id, key, bytes)
      where o.bytes > 0
      on conflict (tenant_id, workspace_id, id, upload) do nothing returning bytes)
    select coalesce(sum(m.bytes), 0) into n from made m;
  update quotas q set used = q.used + n
    where q.tenant_id = tenant() and q.workspace_id = workspace() and q.name = 'object_bytes';
end $$;
revoke execute on function tenon.reserve_bytes, tenon.lock_object, tenon.reconcile_object, tenon.register_objects
  from public;
grant execute on function tenon.reserve_bytes, tenon.lock_object, tenon.reconcile_object to tenon_service, tenon_user;
grant execute on function tenon.register_objects to tenon_service;
