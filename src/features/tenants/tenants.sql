-- Tenants, workspaces, their settings, jobs and keys. tenon_operator sees those of all tenants, tenon_admin those of one.
create table tenon.tenants (
  id text primary key,
  name text not null,
  slug text not null unique,
  state text not null check (state in
    ('provisioning', 'active', 'suspended', 'deleting', 'deleted', 'provisioning_failed')),
  -- Incremented with each change of `state`, so that a repeated change has no effect.
  state_seq integer not null default 0,
  -- Incremented with each suspension and resumption of the tenant or a workspace: executions apply the latest they hear of.
  suspension_seq integer not null default 0,
  suspended_at timestamptz(3),
  suspended_by text check (suspended_by in ('operator', 'tenant_admin')),
  suspended_reason text,
  -- While it is being deleted: from when on the purge may begin, when it has begun, and the state before. Of one that is deleted:
  -- when what is left of its workflows is removed (purge/leftovers.ts).
  delete_after timestamptz(3),
  purged_from timestamptz(3),
  state_before text check (state_before in ('active', 'suspended')),
  deleted_by text check (deleted_by in ('operator', 'tenant_admin')),
  -- Schedules do not start what was due before this time.
  resumed_at timestamptz(3),
  -- {audit, operations}: for how long these are kept; absent members have their default (features/retention).
  retention jsonb not null default '{}',
  -- When its resources in other systems are compared next, and how they differed last (resources/drift.ts).
  drift_due_at timestamptz(3) not null default now() + interval '10 minutes',
  drift json not null default '[]',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
call tenon.allow('tenon_operator', 'tenon.tenants', 'all', 'select, insert, update');
create policy admin on tenon.tenants to tenon_admin
  using (id = tenon.tenant()) with check (id = tenon.tenant());
grant select, update on tenon.tenants to tenon_admin;
call tenon.allow('tenon_issuer', 'tenon.tenants', 'all', 'select');
call tenon.allow('tenon_reconciler', 'tenon.tenants', 'all', 'select (id, state, state_before, retention, delete_after, purged_from, suspended_by, drift_due_at, updated_at),
  update (delete_after)');
create index on tenon.tenants (delete_after) where delete_after is not null;
create index on tenon.tenants (drift_due_at) where state in ('active', 'suspended');

create table tenon.workspaces (
  id text primary key,
  tenant_id text not null references tenon.tenants (id),
  name text not null,
  slug text not null,
  -- Null if the workspace has no bucket, and so no sessions at the object store.
  bucket text unique,
  state text not null check (state in
    ('provisioning', 'active', 'suspended', 'deleting', 'deleted', 'provisioning_failed')),
  state_seq integer not null default 0,
  suspended_at timestamptz(3),
  suspended_by text check (suspended_by in ('operator', 'tenant_admin')),
  suspended_reason text,
  -- While it is being deleted: from when on the purge may begin, when it has begun, and the state before. Of one that is deleted:
  -- when what is left of its workflows is removed (purge/leftovers.ts).
  delete_after timestamptz(3),
  purged_from timestamptz(3),
  state_before text check (state_before in ('active', 'suspended')),
  deleted_by text check (deleted_by in ('operator', 'tenant_admin')),
  resumed_at timestamptz(3),
  -- As of tenants.
  drift_due_at timestamptz(3) not null default now() + interval '10 minutes',
  drift json not null default '[]',
  -- When the reconciler removes what has expired next.
  retention_due_at timestamptz(3) not null default now(),
  -- The end of the last hour whose usage is recorded.
  usage_until timestamptz(3) not null default date_trunc('hour', now(), 'UTC'),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (tenant_id, slug),
  unique (tenant_id, id)
);
call tenon.allow('tenon_operator', 'tenon.workspaces', 'all', 'select, insert, update');
create policy admin on tenon.workspaces to tenon_admin
  using (tenant_id = tenon.tenant() and (tenon.workspace() is null or id = tenon.workspace()))
  with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or id = tenon.workspace()));
grant select, insert, update on tenon.workspaces to tenon_admin;
call tenon.allow('tenon_issuer', 'tenon.workspaces', 'all', 'select');
call tenon.allow('tenon_reconciler', 'tenon.workspaces', 'all',
  'select (id, tenant_id, state, state_before, retention_due_at, delete_after, purged_from, drift_due_at, updated_at), update (retention_due_at, delete_after)');
create index on tenon.workspaces (delete_after) where delete_after is not null;
create index on tenon.workspaces (drift_due_at) where state in ('active', 'suspended');
create index workspaces_retention on tenon.workspaces (retention_due_at);

-- Settings of a workspace: experimental features, access of anon keys, private addresses that flows may reach.
create table tenon.services (
  tenant_id text not null,
  workspace_id text not null,
  experimental jsonb not null default '[]',
  egress_allow jsonb not null default '[]',
  -- Absent members have their default: collections "none", objects "none", events "workspace".
  anon jsonb not null default '{}' check (
    coalesce(anon ->> 'collections', 'none') in ('read', 'none')
    and coalesce(anon ->> 'objects', 'none') in ('none', 'public')
    and coalesce(anon ->> 'events', 'workspace') in ('workspace', 'none')),
  -- Prefixes of object keys, each ending with a slash.
  public_read jsonb not null default '[]' check (jsonb_typeof(public_read) = 'array'),
  -- {read, write, delete}: rules on the keys of objects that users may access, and {subscribe, publish}: rules on topics.
  user_objects jsonb not null default '{}' check (jsonb_typeof(user_objects) = 'object'),
  user_topics jsonb not null default '{}' check (jsonb_typeof(user_topics) = 'object'),
  -- {sizes, formats}: to which images are converted when they are read.
  image_settings jsonb not null default '{}' check (jsonb_typeof(image_settings) = 'object'),
  -- Origins of the pages that may use the workspace's anon keys and tokens.
  cors_origins jsonb not null default '["*"]' check (jsonb_typeof(cors_origins) = 'array'),
  -- {sign_up, branding, providers}: how end users get into the workspace, how pages for them look, and where else they sign in.
  auth jsonb not null default '{}' check (jsonb_typeof(auth) = 'object'),
  -- For how long executions, runs and the like are kept, and the bucket for the archive of executions (features/retention).
  retention jsonb not null default '{}',
  -- {at, detail}: why the last removal ended early; null after one that did not.
  retention_failure jsonb,
  -- Counts the changes: a change is made only to the settings that were read before.
  version integer not null default 1,
  updated_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id)
);
call tenon.allow('tenon_operator', 'tenon.services', 'all', 'select, insert, update');
-- Only operators may allow private addresses.
call tenon.allow('tenon_admin', 'tenon.services', 'tenant',
  'select, insert (tenant_id, workspace_id, experimental, anon, public_read, user_objects, user_topics, image_settings, cors_origins,
    auth, retention, version, updated_at),
  update (experimental, anon, public_read, user_objects, user_topics, image_settings, cors_origins, auth, retention,
    retention_failure, version, updated_at)');
create policy reconciler on tenon.services for select to tenon_reconciler using (true);
grant select (tenant_id, workspace_id, retention) on tenon.services to tenon_reconciler;
-- Client secrets of identity providers.
call tenon.allow('tenon_key_rotation', 'tenon.services', 'all', 'select (tenant_id, workspace_id, auth), update (auth)');
-- The platform and policies read the settings for every key. Keys cannot read which private addresses flows may reach.
create policy data on tenon.services for select to tenon_anon, tenon_user, tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant select (tenant_id, workspace_id, anon, public_read, user_objects, user_topics, image_settings) on tenon.services
  to tenon_anon, tenon_user, tenon_service;

-- @returns the workspace if its anon keys may read undeclared collections and declarations without `access`, else null
-- In plpgsql so that it is not inlined: the cost of its lookup would enter every plan and distort the choice of indexes.
create function tenon.anon_workspace() returns text stable parallel safe cost 1 language plpgsql as $$
begin
  if exists (select from tenon.services s
      where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace() and s.anon ->> 'collections' = 'read') then
    return tenon.workspace();
  end if;
  return null;
end $$;

create table tenon.operations (
  id text primary key,
  tenant_id text not null references tenon.tenants (id),
  -- Of what is inside a workspace, such as the removal of a user: its admins see it. Null if it is about the workspace or tenant itself.
  workspace_id text,
  type text not null,
  target text not null,
  workflow_id text not null,
  state text not null check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  steps jsonb not null default '[]',
  error jsonb,
  -- Of the deletion of a tenant or a workspace: its report (purge/steps.ts); of an export or import: what it has (features/archives).
  result jsonb,
  created_at timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  -- When what it has made for download is removed (features/archives/expired-archives.ts).
  expires_at timestamptz(3)
);
create index on tenon.operations (tenant_id, created_at);
create index on tenon.operations (expires_at) where expires_at is not null;
create index on tenon.operations (tenant_id, finished_at) where finished_at is not null;
create unique index operations_open_export on tenon.operations (target)
  where type in ('workspace.export', 'tenant.export') and finished_at is null;
create index operations_open on tenon.operations (type, created_at) where finished_at is null;

call tenon.allow('tenon_operator', 'tenon.operations', 'all', 'select, insert, update');
-- For metrics, which count creations that are late, and for the start of purges.
call tenon.allow('tenon_reconciler', 'tenon.operations', 'all',
  'select (id, tenant_id, type, target, workflow_id, state, created_at, finished_at, expires_at)');
call tenon.allow('tenon_admin', 'tenon.operations', 'whole tenant', 'select, insert, update, delete');

-- Keys that encrypt a tenant's payloads in Temporal, themselves encrypted by the platform. Only tenon_payload_keys reads
-- them, those of one tenant at a time. The row of a destroyed key stays, so that its number is not reused.
create table tenon.payload_keys (
  tenant_id text not null default tenon.tenant() references tenon.tenants (id),
  -- The highest encrypts, all decrypt.
  number integer not null check (number > 0),
  sealed bytea,
  created_at timestamptz(3) not null default now(),
  destroyed_at timestamptz(3),
  primary key (tenant_id, number),
  check ((sealed is null) = (destroyed_at is not null))
);
call tenon.allow('tenon_payload_keys', 'tenon.payload_keys', 'whole tenant', 'select, insert');
call tenon.allow('tenon_key_rotation', 'tenon.payload_keys', 'all', 'select (tenant_id, number, sealed), update (sealed)');
