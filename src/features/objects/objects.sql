-- Objects: the bucket of a workspace at the object store, the catalogue of its objects, and the bytes that no object has.

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
-- A URL below /public names a bucket and nothing else.
call tenon.allow('tenon_operator', 'tenon.buckets', 'all', 'select (tenant_id, workspace_id, name)');
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

-- The catalogue: an object is here or it does not exist. The bucket has its bytes under a name of their own (`blob`), so that a
-- change of this row alone replaces one object by another.
create table tenon.objects (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  -- In the order of its bytes.
  key text not null collate "C" check (octet_length(key) between 1 and 1024),
  -- Differs after each change of the row, and is what a change compares.
  version uuid not null,
  blob uuid not null,
  size bigint not null check (size >= 0),
  -- The entity tag without its quotes: the MD5 of the bytes, or as S3 makes it of several parts.
  etag text not null,
  -- Headers that are sent with the bytes, by their names, such as `content-type`.
  headers jsonb not null default '{}',
  -- Of the caller: values of `x-meta-*` headers, and tags.
  metadata jsonb not null default '{}',
  tags jsonb not null default '{}',
  -- The end user who created the object; null if a key did.
  owner text default tenon.caller() ->> 'id',
  created_at timestamptz(3) not null default now(),
  modified_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, key),
  foreign key (tenant_id, workspace_id) references tenon.buckets (tenant_id, workspace_id)
);
call tenon.allow('tenon_service', 'tenon.objects', 'workspace', 'select, insert, update, delete');
-- As of the bucket: anon keys read what is below the public prefixes.
create policy anon on tenon.objects for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()
    and exists (select from tenon.services s cross join lateral jsonb_array_elements_text(s.public_read) p (prefix)
      where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace()
        and s.anon ->> 'objects' = 'public' and starts_with(key, p.prefix)));
grant select on tenon.objects to tenon_anon;
create policy end_user on tenon.objects to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()
    and exists (select from tenon.services s where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace()
      and s.user_objects @? '$.*[*]'));
-- Nobody names the owner: it is who creates the object.
grant select, delete, insert (key, version, blob, size, etag, headers, metadata, tags),
  update (key, version, blob, size, etag, headers, metadata, tags, modified_at) on tenon.objects to tenon_user;

-- Uploads under way. Each reserves its bytes, and names the blob that it writes: if its process dies, the blob is removed.
create table tenon.object_uploads (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  -- The name of the blob.
  id uuid not null,
  -- Those that are on their way, and not yet a part.
  bytes bigint not null default 0 check (bytes >= 0),
  expires_at timestamptz(3) not null,
  -- Of an upload in parts: the object that it will be, and the name that the store has for it; null until the store knows it.
  key text collate "C" check (octet_length(key) between 1 and 1024),
  store_id text,
  -- True for the parts of an upload that resumes, and of an object that an import restores.
  is_internal boolean not null default false,
  headers jsonb not null default '{}',
  metadata jsonb not null default '{}',
  tags jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id) references tenon.buckets (tenant_id, workspace_id)
);
create index object_uploads_by_end on tenon.object_uploads (tenant_id, workspace_id, expires_at);
create index object_uploads_by_key on tenon.object_uploads (tenant_id, workspace_id, key, id) where key is not null;
call tenon.allow('tenon_service', 'tenon.object_uploads', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_user', 'tenon.object_uploads', 'workspace', 'select, insert, update, delete');

-- The parts that the store has of an upload.
create table tenon.object_upload_parts (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  upload uuid not null,
  number integer not null check (number between 1 and 10000),
  size bigint not null check (size >= 0),
  etag text not null,
  stored_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, upload, number),
  foreign key (tenant_id, workspace_id, upload) references tenon.object_uploads (tenant_id, workspace_id, id) on delete cascade
);
call tenon.allow('tenon_service', 'tenon.object_upload_parts', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_user', 'tenon.object_upload_parts', 'workspace', 'select, insert, update, delete');

-- Uploads that resume where they broke off. What has come is parts of an upload in parts, and behind them a tail: a blob with an upload of its own.
create table tenon.resumable_uploads (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id uuid not null,
  key text not null collate "C" check (octet_length(key) between 1 and 1024),
  -- In bytes; null: the sender does not know it yet.
  length bigint check (length >= 0),
  -- How many bytes the store has: those of the parts and of the tail.
  stored bigint not null default 0 check (stored >= 0 and stored <= length),
  -- The upload in parts; null until there is a first part.
  parts_upload uuid,
  part_count integer not null default 0,
  tail uuid,
  tail_bytes bigint not null default 0,
  -- Of the blob, which may have more bytes than came.
  tail_size bigint not null default 0,
  tail_etag text,
  headers jsonb not null default '{}',
  metadata jsonb not null default '{}',
  -- `Upload-Metadata`, as it was sent.
  announced text,
  -- Conditions of the object that it replaces.
  if_match text,
  if_none_match text,
  -- When it became an object.
  ended_at timestamptz(3),
  -- The end user who began it; null if a key did.
  owner text default tenon.caller() ->> 'id',
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id) references tenon.buckets (tenant_id, workspace_id)
);
create index resumable_uploads_by_end on tenon.resumable_uploads (tenant_id, workspace_id, expires_at);
create index resumable_uploads_open on tenon.resumable_uploads (tenant_id, workspace_id, owner) where ended_at is null;
call tenon.allow('tenon_service', 'tenon.resumable_uploads', 'workspace', 'select, insert, update, delete');
create policy counting on tenon.resumable_uploads for select to tenon_owner
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
-- Users see their own.
create policy end_user on tenon.resumable_uploads to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and owner = tenon.caller() ->> 'id');
grant select, delete, insert (id, key, length, headers, metadata, announced, if_match, if_none_match, expires_at),
  update (length, stored, parts_upload, part_count, tail, tail_bytes, tail_size, tail_etag, ended_at, expires_at)
  on tenon.resumable_uploads to tenon_user;

-- Blobs that no object has any more. They are removed a while after, since a reader may still be at one.
create table tenon.unused_blobs (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  blob uuid not null,
  unused_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, blob),
  foreign key (tenant_id, workspace_id) references tenon.buckets (tenant_id, workspace_id)
);
create index unused_blobs_by_time on tenon.unused_blobs (tenant_id, workspace_id, unused_at);
call tenon.allow('tenon_service', 'tenon.unused_blobs', 'workspace', 'select, insert, delete');
create policy end_user on tenon.unused_blobs for insert to tenon_user
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant insert on tenon.unused_blobs to tenon_user;

-- Images as they were converted for readers. Of no object any more are those of a blob (`source`) that none has.
create table tenon.object_images (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  source uuid not null,
  -- The conversion: size, fit and format, such as `320x240 cover webp`.
  conversion text not null,
  blob uuid not null,
  size bigint not null check (size > 0),
  -- The MD5 of its bytes.
  etag text not null,
  content_type text not null,
  read_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, source, conversion),
  foreign key (tenant_id, workspace_id) references tenon.buckets (tenant_id, workspace_id)
);
create index object_images_by_time on tenon.object_images (tenant_id, workspace_id, read_at);
call tenon.allow('tenon_service', 'tenon.object_images', 'workspace', 'select, insert, update (read_at), delete');

-- Removals of all objects below a prefix that need more than one request. A worker carries on those that have no end.
create table tenon.object_removals (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  bucket text not null,
  prefix text not null collate "C" check (octet_length(prefix) between 1 and 1024),
  -- How many objects are gone.
  removed bigint not null default 0,
  -- The end user who requested it; null: a key did.
  owner text default tenon.caller() ->> 'id',
  -- Objects that are written later stay.
  created_at timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  primary key (tenant_id, workspace_id, id),
  foreign key (tenant_id, workspace_id) references tenon.buckets (tenant_id, workspace_id)
);
create index object_removals_open on tenon.object_removals (workspace_id, id) where finished_at is null;
create index object_removals_by_end on tenon.object_removals (tenant_id, workspace_id, finished_at);
call tenon.allow('tenon_service', 'tenon.object_removals', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_reconciler', 'tenon.object_removals', 'all', 'select (tenant_id, workspace_id, id, finished_at)');
-- Users see their own.
create policy end_user on tenon.object_removals to tenon_user
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and owner = tenon.caller() ->> 'id');
grant select, insert (id, bucket, prefix) on tenon.object_removals to tenon_user;

-- An upload counts in addition to the object that it replaces, until it has replaced it.
call tenon.add_size_quota('object_bytes', 'tenon.object_uploads', 'bytes');
call tenon.add_size_quota('object_bytes', 'tenon.object_upload_parts', 'size');
call tenon.add_size_quota('object_bytes', 'tenon.objects', 'size');

-- Raises TN005 if the workspace has so many open uploads that go on in a later request, or the end user who begins one has. Those
-- who begin one at the same moment wait for each other.
create function tenon.require_upload_room(open_max integer, of_user_max integer) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  person constant text := caller() ->> 'id';
begin
  perform pg_advisory_xact_lock(hashtextextended(workspace(), 12));
  if person is not null and of_user_max <= (select count(*) from resumable_uploads
      where tenant_id = tenant() and workspace_id = workspace() and ended_at is null and owner = person and expires_at > now()) then
    raise exception 'uploads of a user' using errcode = 'TN005', detail = of_user_max;
  end if;
  if open_max <= (select count(*) from resumable_uploads
      where tenant_id = tenant() and workspace_id = workspace() and ended_at is null and expires_at > now())
      + (select count(*) from object_uploads
      where tenant_id = tenant() and workspace_id = workspace() and key is not null and not is_internal and expires_at > now()) then
    raise exception 'uploads' using errcode = 'TN005', detail = open_max;
  end if;
end $$;
revoke execute on function tenon.require_upload_room from public;
grant execute on function tenon.require_upload_room to tenon_service, tenon_user;

-- Ends the transaction of a change whose object, or whose upload, is no longer as it was read.
create function tenon.refuse_object_change(what text) returns void language plpgsql as $$
begin
  raise exception '% changed', what using errcode = 'TN004';
end $$;
