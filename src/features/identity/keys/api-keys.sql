-- API keys of workspaces, with scopes, rate limits, rotation and expiry.
create table tenon.api_keys (
  id text primary key,
  tenant_id text not null,
  workspace_id text not null,
  kind text not null check (kind in ('anon', 'service', 'storage')),
  name text not null,
  hash bytea unique,
  -- Encrypted; of a storage key alone, whose signatures are verified with it. The key itself is never sent.
  secret bytea,
  -- Actions of a storage key, and prefixes of the objects that it reaches; without prefixes it reaches the whole bucket.
  actions text[] check (actions <@ '{read,write,list,admin}'),
  prefixes text[],
  prefix text not null,
  last4 text not null,
  scopes text[] not null default '{}',
  rate_limit integer check (rate_limit between 1 and 1000000),
  rotated_from text references tenon.api_keys (id),
  -- It sees the payloads of what the keys before it have started: whoever was shown it may see those of all.
  sees_earlier boolean not null default false,
  -- The key that replaces it. Set once, so that concurrent rotations cannot both succeed.
  replaced_by text,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3),
  disabled_at timestamptz(3),
  revoked_at timestamptz(3),
  -- When it was revoked, or found expired on the next insert. Until then it counts towards the quota.
  ended_at timestamptz(3),
  last_used_at timestamptz(3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  -- Browsers use anon keys; only declarations of collections grant them write access.
  constraint api_keys_anon_scopes check (kind <> 'anon' or scopes::text !~ ':write'),
  constraint api_keys_storage check (case kind when 'storage'
    then hash is null and secret is not null and coalesce(cardinality(actions), 0) > 0 and coalesce(cardinality(prefixes), 1) > 0
    else hash is not null and num_nulls(secret, actions, prefixes) = 3 end),
  -- A rotated key stays valid for the grace period only.
  constraint api_keys_replaced_ends check (replaced_by is null or expires_at is not null)
);
create index on tenon.api_keys (tenant_id, workspace_id, created_at);
create unique index on tenon.api_keys (rotated_from);
-- The workspace, the kind, the digest or secret, and the reach of a storage key never change; a secret may be encrypted again.
call tenon.allow('tenon_admin', 'tenon.api_keys', 'tenant', 'select, insert,
  update (name, scopes, rate_limit, expires_at, disabled_at, revoked_at, ended_at, replaced_by)');
call tenon.allow('tenon_operator', 'tenon.api_keys', 'all', 'select, insert,
  update (name, scopes, rate_limit, expires_at, disabled_at, revoked_at, ended_at, replaced_by, last_used_at)');
create policy owner on tenon.api_keys for select to tenon_owner using (true);
call tenon.allow('tenon_key_rotation', 'tenon.api_keys', 'all', 'select (id, tenant_id, workspace_id, secret), update (secret)');
call tenon.add_row_quota('api_keys', 'tenon.api_keys', 'ended_at');
-- Anon keys are public, so their creator is not recorded as a subject that can act as them.
create trigger record_maker after insert on tenon.api_keys for each row when (new.kind <> 'anon')
  execute function tenon.record_creator();
