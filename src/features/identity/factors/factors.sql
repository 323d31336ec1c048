-- Further ways to sign in: time-based codes with recovery codes and passkeys, of users and of accounts, and identity providers of users.
-- Only tenon_issuer reads secrets and digests.

-- The owner of a row is a user or an account, whose tenant and workspace it has: none for an operator.
create table tenon.second_factors (
  subject_id text primary key generated always as (coalesce(user_id, account_id)) stored,
  user_id text,
  account_id text references tenon.accounts (id) on delete cascade,
  tenant_id text,
  workspace_id text,
  -- The secret, which is empty without time-based codes, and the key of the recovery codes; encrypted.
  sealed bytea not null,
  -- False if the subject has recovery codes for passkeys alone.
  has_totp boolean not null default true,
  -- The time step of the last code that was accepted (RFC 6238 §5.2): no code works twice.
  last_step integer not null,
  -- HMACs of the recovery codes that are left.
  recovery text[] not null,
  created_at timestamptz(3) not null default now(),
  check (num_nonnulls(user_id, account_id) = 1),
  check (user_id is null or num_nonnulls(tenant_id, workspace_id) = 2),
  foreign key (tenant_id, workspace_id, user_id) references tenon.users (tenant_id, workspace_id, id) on delete cascade
);
create index on tenon.second_factors (tenant_id, workspace_id, user_id);
create index on tenon.second_factors (account_id);
call tenon.allow('tenon_issuer', 'tenon.second_factors', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_key_rotation', 'tenon.second_factors', 'all',
  'select (subject_id, tenant_id, workspace_id, sealed), update (sealed)');
call tenon.allow('tenon_operator', 'tenon.second_factors', 'all');
call tenon.allow('tenon_admin', 'tenon.second_factors', 'tenant');
grant select (subject_id, user_id, account_id, tenant_id, workspace_id, has_totp, created_at), delete
  on tenon.second_factors to tenon_admin, tenon_operator;

-- Public keys of users and accounts (WebAuthn). The platform is one relying party for all of them: an id is unique among the users of a
-- workspace, or the accounts of a tenant, and a credential signs in where it was registered.
create table tenon.passkeys (
  -- Of the credential, in base64url.
  id text not null,
  subject_id text not null generated always as (coalesce(user_id, account_id)) stored,
  user_id text,
  account_id text references tenon.accounts (id) on delete cascade,
  tenant_id text,
  workspace_id text,
  -- COSE_Key.
  public_key bytea not null,
  -- Signature counter (Web Authentication §6.1.1); 0 if the authenticator has none.
  counter bigint not null,
  name text not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3),
  primary key (subject_id, id),
  check (num_nonnulls(user_id, account_id) = 1),
  check (user_id is null or num_nonnulls(tenant_id, workspace_id) = 2),
  foreign key (tenant_id, workspace_id, user_id) references tenon.users (tenant_id, workspace_id, id) on delete cascade
);
create unique index passkeys_of_users on tenon.passkeys (tenant_id, workspace_id, id) where user_id is not null;
create unique index passkeys_of_accounts on tenon.passkeys (coalesce(tenant_id, ''), id) where account_id is not null;
create index on tenon.passkeys (tenant_id, workspace_id, user_id);
create index on tenon.passkeys (account_id);
call tenon.allow('tenon_issuer', 'tenon.passkeys', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_operator', 'tenon.passkeys', 'all');
call tenon.allow('tenon_admin', 'tenon.passkeys', 'tenant');
grant select (id, subject_id, user_id, account_id, tenant_id, workspace_id, created_at, last_used_at), delete
  on tenon.passkeys to tenon_admin, tenon_operator;

-- Rejects the removal of factors of an account by roles that are not higher, as tenon.keep_account does for its password. The factors of
-- an account that is deleted go with it, as the owner of these tables.
create function tenon.keep_factor() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
declare
  rank constant integer := case when current_user = 'tenon_operator' then 4
    when tenon.workspace() is null then 3 else 2 end;
begin
  if rank <= coalesce((select role_rank(a.role) from accounts a where a.id = old.account_id), 4) then
    raise exception 'only a higher role may do this to the account' using errcode = 'insufficient_privilege';
  end if;
  return old;
end $$;
revoke execute on function tenon.keep_factor from public;
create trigger factor_kept before delete on tenon.second_factors for each row
  when (old.account_id is not null and current_user in ('tenon_admin', 'tenon_operator')) execute function tenon.keep_factor();
create trigger factor_kept before delete on tenon.passkeys for each row
  when (old.account_id is not null and current_user in ('tenon_admin', 'tenon_operator')) execute function tenon.keep_factor();

-- Identities of users at identity providers of their workspace (OpenID Connect Core 1.0 §2: `iss` and `sub` identify a person).
create table tenon.user_identities (
  tenant_id text not null,
  workspace_id text not null,
  issuer text not null,
  subject text not null,
  user_id text not null,
  created_at timestamptz(3) not null default now(),
  -- By the user: the identity signs in no more, and is kept so that the address alone does not connect it again.
  disconnected_at timestamptz(3),
  primary key (tenant_id, workspace_id, issuer, subject),
  foreign key (tenant_id, workspace_id, user_id) references tenon.users (tenant_id, workspace_id, id) on delete cascade
);
create index on tenon.user_identities (tenant_id, workspace_id, user_id);
call tenon.allow('tenon_issuer', 'tenon.user_identities', 'all', 'select, insert, update (disconnected_at), delete');
call tenon.allow('tenon_operator', 'tenon.user_identities', 'all');
call tenon.allow('tenon_admin', 'tenon.user_identities', 'tenant');
grant select (tenant_id, workspace_id, issuer, user_id, created_at, disconnected_at), delete
  on tenon.user_identities to tenon_admin, tenon_operator;

-- The trigger of `users.linked_by` looks for ways to sign in.
create policy owner on tenon.passkeys for select to tenon_owner using (true);
create policy owner on tenon.user_identities for select to tenon_owner using (true);

-- The admin who configured an identity provider could sign in as each user who has an identity at this provider.
create function tenon.record_provider_maker() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  perform record_maker(new.tenant_id, new.user_id, provider ->> 'set_by', 'infinity')
    from services s, jsonb_array_elements(s.auth -> 'providers') as provider
    where s.tenant_id = new.tenant_id and s.workspace_id = new.workspace_id and provider ->> 'issuer' = new.issuer;
  return null;
end $$;
revoke execute on function tenon.record_provider_maker from public;
create trigger record_maker after insert on tenon.user_identities for each row execute function tenon.record_provider_maker();
