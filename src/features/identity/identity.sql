-- Accounts, OAuth clients and the state of the issuer. Only tenon_issuer reads passwords, secrets, signing keys and
-- sessions; admins and operators do not.

-- An operator belongs to no tenant, a tenant admin to no workspace, a developer or viewer to one or to none. One address may have separate accounts in many tenants.
-- An accepted account belongs to its person: only a strictly higher role can create a link that sets a new password, which
-- revokes the current password, sessions and tokens.
create table tenon.accounts (
  id text primary key,
  tenant_id text references tenon.tenants (id),
  workspace_id text,
  role text not null check (role in ('operator', 'tenant_admin', 'workspace_admin', 'developer', 'viewer', 'service')),
  email text not null check (email = lower(email)),
  name text not null,
  -- Groups that approvals may name as `group:…`.
  groups text[] not null default '{}',
  -- It sees payloads of executions and runs that others have started.
  sees_payloads boolean not null default false,
  -- Null until the invitation is accepted.
  password text,
  accepted boolean not null generated always as (password is not null) stored,
  accepted_at timestamptz(3),
  -- SHA-256 of the invitation token, which is shown once.
  invitation bytea unique check (octet_length(invitation) = 32),
  invited_until timestamptz(3),
  -- When a higher role last reset the password.
  reset_at timestamptz(3),
  -- True if the link was mailed to the address, not shown to the admin who made it. `linked_by` is that admin.
  link_mailed boolean not null default false,
  linked_by text,
  -- When the password was set by a link that was mailed: only then does the account decide by its address.
  email_verified_at timestamptz(3),
  -- Subjects that made the account, a link to it or its groups, and when the last of them did: each could act as its person.
  controlled_by text[] not null default '{}',
  controlled_at timestamptz(3) not null default now(),
  -- Subjects that have confirmed since then that the account belongs to its person.
  confirmed_by text[] not null default '{}',
  -- A claim of tokens. Disabling the account, changing its password, ending its right to see payloads or signing it out increments it,
  -- which revokes earlier tokens.
  generation integer not null default 0,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  disabled_at timestamptz(3),
  signed_out_at timestamptz(3),
  last_login_at timestamptz(3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  check ((role = 'operator') = (tenant_id is null)),
  check (role in ('developer', 'viewer') or (role in ('workspace_admin', 'service')) = (workspace_id is not null))
);
create unique index accounts_email on tenon.accounts (coalesce(tenant_id, ''), email);
call tenon.allow('tenon_operator', 'tenon.accounts', 'all');
call tenon.allow('tenon_admin', 'tenon.accounts', 'tenant');
-- Admins can write an invitation, but read neither invitations nor passwords.
grant select (id, tenant_id, workspace_id, role, email, name, groups, sees_payloads, accepted, accepted_at, invited_until, reset_at,
    email_verified_at, controlled_by, controlled_at, confirmed_by, created_by, created_at, updated_at, disabled_at,
    last_login_at),
  insert (id, tenant_id, workspace_id, role, email, name, groups, invitation, invited_until, controlled_by, created_by),
  update (name, groups, sees_payloads, invitation, invited_until, link_mailed, linked_by, controlled_by, confirmed_by, updated_at,
    disabled_at, signed_out_at), delete
  on tenon.accounts to tenon_admin, tenon_operator;
call tenon.allow('tenon_issuer', 'tenon.accounts', 'all', 'select, update');
create policy owner on tenon.accounts for select to tenon_owner using (true);

-- Whether the accounts of a tenant, or those of operators, need a second factor.
create table tenon.sign_in_policies (
  -- Null: of operators.
  tenant_id text references tenon.tenants (id),
  require_mfa boolean not null,
  updated_by text not null,
  updated_at timestamptz(3) not null default now(),
  unique nulls not distinct (tenant_id)
);
call tenon.allow('tenon_issuer', 'tenon.sign_in_policies', 'all', 'select');
call tenon.allow('tenon_operator', 'tenon.sign_in_policies', 'all', 'select, insert, update');
call tenon.allow('tenon_admin', 'tenon.sign_in_policies', 'whole tenant', 'select, insert, update');
-- An admin of a workspace reads the policy of its tenant.
create policy tenant_admin_inserts on tenon.sign_in_policies as restrictive for insert to tenon_admin
  with check (tenon.workspace() is null);
create policy tenant_admin_updates on tenon.sign_in_policies as restrictive for update to tenon_admin
  using (tenon.workspace() is null);

create function tenon.role_rank(role text) returns integer immutable parallel safe language sql
  return case role when 'operator' then 4 when 'tenant_admin' then 3 when 'workspace_admin' then 2 else 1 end;

-- Rejects links and confirmations for accepted accounts by roles that are not higher. Runs with the rights of the caller,
-- whose role it reads; an admin without a workspace is a tenant admin.
create function tenon.keep_account() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
declare
  rank integer := case when current_user = 'tenon_operator' then 4
    when current_user <> 'tenon_admin' then 0
    when tenon.workspace() is null then 3 else 2 end;
  is_linked boolean := new.invitation is distinct from old.invitation and new.invitation is not null;
  actors text[] := array(select jsonb_array_elements_text(coalesce(nullif(current_setting('tenon.caused_by', true), ''), '[]')::jsonb));
begin
  if old.accepted_at is not null and (is_linked or new.confirmed_by is distinct from old.confirmed_by) then
    if rank <= tenon.role_rank(old.role) then
      raise exception 'only a higher role may do this to the account' using errcode = 'insufficient_privilege';
    end if;
    if is_linked then
      new.password := null;
      new.reset_at := now();
    end if;
  end if;
  if new.sees_payloads and not old.sees_payloads and rank < 3 then
    raise exception 'only admins of the tenant may do this to the account' using errcode = 'insufficient_privilege';
  end if;
  if is_linked or new.groups is distinct from old.groups then
    new.controlled_at := now();
    new.confirmed_by := '{}';
  end if;
  -- Whoever was shown the link could be its person, unless the link was mailed or another admin has confirmed the account.
  if new.sees_payloads and not old.sees_payloads and rank < 4 and new.email_verified_at is null
      and new.controlled_by && actors and new.confirmed_by <@ actors then
    raise exception 'only another admin may do this to the account' using errcode = 'insufficient_privilege';
  end if;
  if is_linked then
    new.email_verified_at := null;
    -- Whoever is shown the link could see them.
    new.sees_payloads := false;
  elsif old.invitation is not null and new.invitation is null and new.password is not null then
    new.email_verified_at := case when old.link_mailed then now() end;
  end if;
  if new.password is not null then
    new.accepted_at := coalesce(old.accepted_at, now());
  end if;
  return new;
end $$;
-- Triggers fire in the order of their names: this one before `generations`.
create trigger account_kept before update on tenon.accounts for each row execute function tenon.keep_account();

create function tenon.bump_token_generation() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
begin
  new.generation := old.generation + 1;
  return new;
end $$;
-- No column list, since another trigger may change the password.
create trigger generations before update on tenon.accounts for each row
  when (old.disabled_at is distinct from new.disabled_at or old.password is distinct from new.password
    or old.sees_payloads and not new.sees_payloads or old.signed_out_at is distinct from new.signed_out_at)
  execute function tenon.bump_token_generation();

-- The accounts that the names of approvers stand for. An address names the account of the tenant whose password was set by a
-- link that was mailed there; roles and groups, those of the session's workspace and of the whole tenant. The workspace cannot
-- read the accounts themselves.
create function tenon.accounts_named(names text[])
  returns table (id text, email text, role text, active boolean, known_as text[])
  stable language sql security definer set search_path = tenon, pg_temp as $$
  select a.id, a.email, a.role, a.accepted and a.disabled_at is null, array(
    select name from unnest(array[a.id] || case when a.email_verified_at is not null then array[a.email] else '{}' end || case
      when a.workspace_id is null or a.workspace_id = tenon.workspace()
        then array['role:' || a.role] || array(select 'group:' || g from unnest(a.groups) as g) else '{}' end) as name)
  from accounts a
  where a.tenant_id = tenon.tenant() and (a.id = any(names) or a.email_verified_at is not null and a.email = any(names)
    or (a.workspace_id is null or a.workspace_id = tenon.workspace())
      and ('role:' || a.role = any(names) or exists (select from unnest(a.groups) as g where 'group:' || g = any(names)))) $$;
revoke execute on function tenon.accounts_named from public;
grant execute on function tenon.accounts_named to tenon_admin;

-- OAuth clients. `machine` has a secret and a role; `public` has neither, and acts for accounts of its tenant and workspace, or
-- for the users of its workspace.
create table tenon.oauth_clients (
  id text primary key,
  tenant_id text references tenon.tenants (id),
  workspace_id text,
  kind text not null check (kind in ('machine', 'public')),
  role text check (role in ('operator', 'tenant_admin', 'workspace_admin', 'developer', 'viewer', 'service')),
  name text not null,
  -- The subjects that a public client signs in.
  audience text not null default 'accounts' check (audience in ('accounts', 'users')),
  -- SHA-256, hex.
  secret_hash text,
  redirect_uris jsonb not null default '[]',
  -- Of a machine: it sees payloads of executions and runs that others have started.
  sees_payloads boolean not null default false,
  -- Registered dynamically (RFC 7591), or described by the document whose URL is the id: only for MCP servers, and deleted
  -- when unused.
  registered boolean not null default false,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  rotated_at timestamptz(3),
  -- Subjects that were shown a secret of a machine client, its creator apart.
  rotated_by text[] not null default '{}',
  used_at timestamptz(3),
  -- Of the copy of a document: until when it need not be read again, and when it last said something else.
  fresh_until timestamptz(3),
  changed_at timestamptz(3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  check ((fresh_until is null) = (changed_at is null) and (fresh_until is null or registered)),
  check (tenant_id is not null or workspace_id is null),
  check ((kind = 'machine') = (role is not null)),
  check (kind = 'machine' or not sees_payloads),
  check ((kind = 'machine') = (secret_hash is not null)),
  check (role is null or (role = 'operator') = (tenant_id is null)),
  check (role is null or role in ('developer', 'viewer')
    or (role in ('workspace_admin', 'service')) = (workspace_id is not null)),
  check (not registered or (kind = 'public' and tenant_id is null)),
  check (audience = 'accounts' or (kind = 'public' and workspace_id is not null))
);
create index on tenon.oauth_clients (tenant_id, workspace_id);
create index on tenon.oauth_clients (created_at) where registered;
call tenon.allow('tenon_operator', 'tenon.oauth_clients', 'all');
call tenon.allow('tenon_admin', 'tenon.oauth_clients', 'tenant');
grant select (id, tenant_id, workspace_id, kind, role, name, audience, redirect_uris, sees_payloads, registered, created_by, created_at,
    rotated_at, rotated_by, used_at),
  insert (id, tenant_id, workspace_id, kind, role, name, audience, secret_hash, redirect_uris, sees_payloads, created_by),
  update (secret_hash, rotated_at, rotated_by), delete on tenon.oauth_clients to tenon_admin, tenon_operator;
call tenon.allow('tenon_issuer', 'tenon.oauth_clients', 'all', 'select, insert, update, delete');
create policy owner on tenon.oauth_clients for select to tenon_owner using (true);

-- Sessions, pending sign-ins, grants, codes and refresh tokens. Their ids are secrets, so the table stores digests of them,
-- and all other content encrypted by the platform.
create table tenon.issuer_state (
  id bytea primary key check (octet_length(id) = 32),
  model text not null,
  grant_key bytea,
  uid_key bytea,
  account_id text,
  client_id text,
  -- Of sessions of browsers, and of the codes and refresh tokens that were got in them.
  session_id text,
  sealed bytea not null,
  consumed_at timestamptz(3),
  expires_at timestamptz(3) not null
);
create index on tenon.issuer_state (grant_key);
create index on tenon.issuer_state (uid_key);
create index on tenon.issuer_state (account_id);
create index on tenon.issuer_state (client_id);
create index on tenon.issuer_state (session_id);
create index on tenon.issuer_state (expires_at);
-- Encrypted bytes cannot be compressed.
alter table tenon.issuer_state alter column sealed set storage external;
call tenon.allow('tenon_issuer', 'tenon.issuer_state', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_key_rotation', 'tenon.issuer_state', 'all', 'select (id, sealed), update (sealed)');
create policy ended on tenon.issuer_state to tenon_owner using (true);

-- Deleting or disabling an account, signing it out, or deleting a client, revokes its grants in the same transaction.
create function tenon.end_account() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from issuer_state where account_id = old.id;
  return null;
end $$;
create trigger ended after delete on tenon.accounts for each row execute function tenon.end_account();
create trigger signed_out after update on tenon.accounts for each row
  when (old.generation <> new.generation)
  execute function tenon.end_account();
create function tenon.end_client() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from issuer_state where client_id = old.id;
  return null;
end $$;
create trigger ended after delete on tenon.oauth_clients for each row execute function tenon.end_client();
revoke execute on function tenon.end_account, tenon.end_client from public;

-- The issuer's signing keys (JWK, encrypted). They belong to no tenant. Of a key that was replaced long ago, the public part
-- is left: it verifies what is signed for longer than a token lives. A revoked key is deleted.
create table tenon.signing_keys (
  id text primary key,
  sealed bytea not null,
  created_at timestamptz(3) not null default now()
);
call tenon.allow('tenon_issuer', 'tenon.signing_keys', 'all', 'select, insert, update (sealed), delete');
call tenon.allow('tenon_key_rotation', 'tenon.signing_keys', 'all', 'select (id, sealed), update (sealed)');
