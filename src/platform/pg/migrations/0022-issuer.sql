-- People, OAuth clients, and what the issuer keeps between two requests. A mask of its own sees passwords, secrets,
-- signing keys and sessions; no admin's and no operator's does.
do $$ begin
  if not exists (select from pg_roles where rolname = 'tenon_issuer') then
    create role tenon_issuer nologin nosuperuser nobypassrls noinherit;
  end if;
  grant tenon_issuer to tenon_app;
end $$;
grant usage on schema tenon to tenon_issuer;

-- An operator belongs to no tenant, a tenant's admin to no workspace. One address may have an account in many tenants:
-- they do not know of each other.
create table tenon.accounts (
  id text primary key,
  tenant_id text references tenon.tenants (id),
  workspace_id text,
  role text not null check (role in ('operator', 'tenant_admin', 'workspace_admin', 'service')),
  email text not null check (email = lower(email)),
  name text not null,
  -- Null until the invitation is taken up.
  password text,
  accepted boolean not null generated always as (password is not null) stored,
  -- SHA-256 of the text that was shown once.
  invitation bytea unique check (octet_length(invitation) = 32),
  invited_until timestamptz(3),
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  disabled_at timestamptz(3),
  last_login_at timestamptz(3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  check ((role = 'operator') = (tenant_id is null)),
  check ((role in ('workspace_admin', 'service')) = (workspace_id is not null))
);
create unique index accounts_email on tenon.accounts (coalesce(tenant_id, ''), email);

-- `machine` has a secret and a role; `public` has neither, and acts for people within its tenant and workspace.
create table tenon.oauth_clients (
  id text primary key,
  tenant_id text references tenon.tenants (id),
  workspace_id text,
  kind text not null check (kind in ('machine', 'public')),
  role text check (role in ('operator', 'tenant_admin', 'workspace_admin', 'service')),
  name text not null,
  -- SHA-256, hex.
  secret_hash text,
  redirect_uris jsonb not null default '[]',
  -- By whoever asked (RFC 7591): for hosted MCP servers alone, and gone when nobody uses it.
  registered boolean not null default false,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  rotated_at timestamptz(3),
  used_at timestamptz(3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  check (tenant_id is not null or workspace_id is null),
  check ((kind = 'machine') = (role is not null)),
  check ((kind = 'machine') = (secret_hash is not null)),
  check (role is null or (role = 'operator') = (tenant_id is null)),
  check (role is null or (role in ('workspace_admin', 'service')) = (workspace_id is not null)),
  check (not registered or (kind = 'public' and tenant_id is null))
);
create index on tenon.oauth_clients (tenant_id, workspace_id);
create index on tenon.oauth_clients (created_at) where registered;

-- Sessions, sign-ins under way, grants, codes and refresh tokens. Their ids are secrets: what stands here are digests,
-- and the rest is sealed by the platform.
create table tenon.issuer_state (
  id bytea primary key check (octet_length(id) = 32),
  model text not null,
  grant_key bytea,
  uid_key bytea,
  account_id text,
  client_id text,
  sealed bytea not null,
  consumed_at timestamptz(3),
  expires_at timestamptz(3) not null
);
create index on tenon.issuer_state (grant_key);
create index on tenon.issuer_state (uid_key);
create index on tenon.issuer_state (account_id);
create index on tenon.issuer_state (client_id);
create index on tenon.issuer_state (expires_at);
alter table tenon.issuer_state alter column sealed set storage external;

do $$
declare
  name text;
begin
  foreach name in array array['accounts', 'oauth_clients', 'issuer_state'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    execute format('create policy issuer on tenon.%I to tenon_issuer using (true)', name);
  end loop;
  foreach name in array array['accounts', 'oauth_clients'] loop
    execute format('create policy operator on tenon.%I to tenon_operator using (true) with check (true)', name);
    execute format(
      'create policy admin on tenon.%I to tenon_admin using (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace())) with check (tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace()))',
      name);
    execute format('grant delete on tenon.%I to tenon_admin, tenon_operator', name);
  end loop;
end $$;
-- Admins set an invitation and a secret; they read neither, and no password.
grant select (id, tenant_id, workspace_id, role, email, name, accepted, invited_until, created_by, created_at,
  updated_at, disabled_at, last_login_at) on tenon.accounts to tenon_admin, tenon_operator;
grant insert (id, tenant_id, workspace_id, role, email, name, invitation, invited_until, created_by)
  on tenon.accounts to tenon_admin, tenon_operator;
grant update (name, invitation, invited_until, updated_at, disabled_at) on tenon.accounts
  to tenon_admin, tenon_operator;
grant select (id, tenant_id, workspace_id, kind, role, name, redirect_uris, registered, created_by, created_at,
  rotated_at, used_at) on tenon.oauth_clients to tenon_admin, tenon_operator;
grant insert (id, tenant_id, workspace_id, kind, role, name, secret_hash, redirect_uris, created_by)
  on tenon.oauth_clients to tenon_admin, tenon_operator;
grant update (secret_hash, rotated_at) on tenon.oauth_clients to tenon_admin, tenon_operator;

grant select, update on tenon.accounts to tenon_issuer;
grant select, insert, update, delete on tenon.oauth_clients, tenon.issuer_state to tenon_issuer;
grant select on tenon.tenants, tenon.workspaces to tenon_issuer;
create policy issuer on tenon.tenants for select to tenon_issuer using (true);
create policy issuer on tenon.workspaces for select to tenon_issuer using (true);

drop policy operator on tenon.signing_keys;
revoke all on tenon.signing_keys from tenon_operator;
grant select, insert, delete on tenon.signing_keys to tenon_issuer;
create policy issuer on tenon.signing_keys to tenon_issuer using (true) with check (true);

-- Whoever ends an account or a client ends what was granted with it, in the same transaction.
create policy ended on tenon.issuer_state to tenon_owner using (true);
create function tenon.end_account() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from issuer_state where account_id = old.id;
  return null;
end $$;
create trigger ended after delete on tenon.accounts for each row execute function tenon.end_account();
create trigger disabled after update of password, disabled_at on tenon.accounts for each row
  when (old.disabled_at is distinct from new.disabled_at or old.password is distinct from new.password)
  execute function tenon.end_account();
create function tenon.end_client() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from issuer_state where client_id = old.id;
  return null;
end $$;
create trigger ended after delete on tenon.oauth_clients for each row execute function tenon.end_client();
revoke execute on function tenon.end_account, tenon.end_client from public;
