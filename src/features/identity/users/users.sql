-- End users of workspaces, and the links that are mailed to them. Only tenon_issuer reads passwords and digests of links.

-- Without `email_verified_at` the user was invited and cannot sign in yet. One address may have users in many workspaces.
create table tenon.users (
  id text primary key,
  tenant_id text not null,
  workspace_id text not null,
  email text not null check (email = lower(email)),
  email_verified_at timestamptz(3),
  name text not null default '',
  -- Null if the user signs in by other means, or was only invited.
  password text,
  -- The subject that was shown the link by which the password was set last; null if the link was only mailed.
  linked_by text,
  -- Set by admins, for tokens and rules. As text (json): jsonb would write out large numbers.
  claims json not null default '{}' check (json_typeof(claims) = 'object' and octet_length(claims::text) <= 8192),
  -- A claim of tokens. Changes that sign the user out increment it, which revokes earlier tokens.
  generation integer not null default 0,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  disabled_at timestamptz(3),
  signed_out_at timestamptz(3),
  last_login_at timestamptz(3),
  -- While the traces of the user are made anonymous: the id that they get instead. It goes with the row, so that nothing leads from one id
  -- to the other afterwards.
  pseudonym text,
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  unique (tenant_id, workspace_id, id)
);
create unique index users_email on tenon.users (tenant_id, workspace_id, email);
call tenon.allow('tenon_operator', 'tenon.users', 'all');
call tenon.allow('tenon_admin', 'tenon.users', 'tenant');
grant select (id, tenant_id, workspace_id, email, email_verified_at, name, claims, created_by, created_at, updated_at,
    disabled_at, signed_out_at, last_login_at, pseudonym),
  insert (id, tenant_id, workspace_id, email, name, claims, created_by),
  update (name, claims, updated_at, disabled_at, signed_out_at, pseudonym), delete
  on tenon.users to tenon_admin, tenon_operator;
call tenon.allow('tenon_issuer', 'tenon.users', 'all', 'select, insert, update, delete');
call tenon.add_row_quota('users', 'tenon.users');
-- The issuer refuses sign-ups of a full workspace before it looks at the address.
call tenon.allow('tenon_issuer', 'tenon.quotas', 'all', 'select (tenant_id, workspace_id, name, max, used)');
call tenon.allow('tenon_issuer', 'tenon.services', 'all', 'select (tenant_id, workspace_id, auth, egress_allow)');
create policy owner on tenon.services for select to tenon_owner using (true);

create trigger generations before update on tenon.users for each row
  when (old.disabled_at is distinct from new.disabled_at or old.password is distinct from new.password
    or old.email is distinct from new.email or old.signed_out_at is distinct from new.signed_out_at)
  execute function tenon.bump_token_generation();

-- A link is used once and then deleted: by the SHA-256 of its token.
create table tenon.user_links (
  digest bytea primary key check (octet_length(digest) = 32),
  tenant_id text not null,
  workspace_id text not null,
  purpose text not null check (purpose in ('sign_up', 'invitation', 'reset', 'email', 'identity')),
  -- Null for a sign-up, whose user does not exist yet, and for a reset that was requested for an unknown address.
  user_id text,
  -- The recipient. For `sign_up` and `email`, the address that the link verifies.
  email text not null check (email = lower(email)),
  -- Of a sign-up; for `identity`, of the provider.
  name text not null default '',
  password text,
  -- For `identity`: which one the user connects.
  issuer text,
  subject text,
  -- The origin of the application that the person came from; empty if there is none.
  return_to text not null default '',
  -- For `invitation`: the subject that was shown the link; null if the link was only mailed.
  shown_to text,
  expires_at timestamptz(3) not null,
  check (purpose <> 'sign_up' or (user_id is null and password is not null)),
  check (purpose <> 'identity' or num_nonnulls(user_id, issuer, subject) = 3),
  foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id),
  foreign key (tenant_id, workspace_id, user_id) references tenon.users (tenant_id, workspace_id, id) on delete cascade
);
create index on tenon.user_links (tenant_id, workspace_id, user_id);
create index on tenon.user_links (expires_at);
-- `update` for the lock of the row that is deleted.
call tenon.allow('tenon_issuer', 'tenon.user_links', 'all', 'select, insert, update, delete');
-- Admins invite users. They cannot create a link that takes over a user who has accepted: the issuer checks it again.
call tenon.allow('tenon_operator', 'tenon.user_links', 'all');
call tenon.allow('tenon_admin', 'tenon.user_links', 'tenant');
create policy invitations on tenon.user_links as restrictive to tenon_admin, tenon_operator
  using (purpose = 'invitation') with check (purpose = 'invitation');
grant select (tenant_id, workspace_id, user_id, purpose, expires_at),
  insert (digest, tenant_id, workspace_id, user_id, purpose, email, shown_to, expires_at), delete
  on tenon.user_links to tenon_admin, tenon_operator;
create policy ended on tenon.user_links to tenon_owner using (true);

-- Ends sessions, refresh tokens and links in the transaction that signs a user out, or deletes the user.
create function tenon.end_user() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from issuer_state where account_id = old.id;
  delete from user_links where tenant_id = old.tenant_id and workspace_id = old.workspace_id and user_id = old.id;
  return null;
end $$;
revoke execute on function tenon.end_user from public;
create trigger ended after delete on tenon.users for each row execute function tenon.end_user();

-- Whoever could act as a user who is made anonymous is behind what the user did, also under the pseudonym. Links that were mailed to
-- the address, such as that of a sign-up, name it too.
create function tenon.forget_user() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  update subject_makers set subject = old.pseudonym where tenant_id = old.tenant_id and subject = old.id;
  update subject_makers set by = old.pseudonym where tenant_id = old.tenant_id and by = old.id;
  delete from user_links where tenant_id = old.tenant_id and workspace_id = old.workspace_id and email = old.email;
  return null;
end $$;
revoke execute on function tenon.forget_user from public;
create trigger forgotten after delete on tenon.users for each row when (old.pseudonym is not null)
  execute function tenon.forget_user();
create trigger signed_out after update on tenon.users for each row
  when (old.generation <> new.generation) execute function tenon.end_user();

-- The admin who received the link that set the password of a user could act as the user. This ends when a mailed link sets the
-- password, unless the admin could have added another way to sign in: an address, a passkey or an identity.
create function tenon.record_user_makers() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  if new.linked_by is not null then
    perform record_maker(new.tenant_id, new.id, new.linked_by, 'infinity');
    return null;
  end if;
  update subject_makers m set acts_until = now()
    where m.tenant_id = new.tenant_id and m.subject = new.id and m.acts_until > now()
      -- The address is the one that was verified when the person began to act, or earlier.
      and new.email_verified_at <= m.acts_from
      and not exists (select from passkeys p
        where p.tenant_id = new.tenant_id and p.workspace_id = new.workspace_id and p.user_id = new.id)
      and not exists (select from user_identities i
        where i.tenant_id = new.tenant_id and i.workspace_id = new.workspace_id and i.user_id = new.id);
  return null;
end $$;
revoke execute on function tenon.record_user_makers from public;
-- Also if it stays null: each use of a link names the column.
create trigger record_makers after update of linked_by on tenon.users for each row execute function tenon.record_user_makers();
