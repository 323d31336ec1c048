-- Where accounts and users are signed in: a browser at the issuer, with the tokens that clients have got there, or a page of the platform.
create table tenon.sessions (
  id text primary key,
  subject_id text not null generated always as (coalesce(user_id, account_id)) stored,
  user_id text,
  account_id text references tenon.accounts (id) on delete cascade,
  tenant_id text,
  workspace_id text,
  -- Path of the page; null for one at the issuer.
  page text,
  -- The header `User-Agent` of the browser, and its address.
  agent text not null,
  address text not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  check (num_nonnulls(user_id, account_id) = 1),
  check (user_id is null or num_nonnulls(tenant_id, workspace_id) = 2),
  foreign key (tenant_id, workspace_id, user_id) references tenon.users (tenant_id, workspace_id, id) on delete cascade
);
create index on tenon.sessions (subject_id, last_used_at);
create index on tenon.sessions (tenant_id, workspace_id, user_id);
create index on tenon.sessions (account_id);
create index on tenon.sessions (expires_at);
call tenon.allow('tenon_issuer', 'tenon.sessions', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_operator', 'tenon.sessions', 'all', 'select, delete');
call tenon.allow('tenon_admin', 'tenon.sessions', 'tenant', 'select, delete');
create policy ended on tenon.sessions to tenon_owner using (true);

-- Ends what belongs to a session: the session of the browser, and the grants that began in it with their codes and refresh tokens. Access
-- tokens end with their grant.
create function tenon.end_session() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from issuer_state where session_id = old.id
    or grant_key in (select grant_key from issuer_state where session_id = old.id and grant_key is not null);
  return null;
end $$;
revoke execute on function tenon.end_session from public;
create trigger ended after delete on tenon.sessions for each row execute function tenon.end_session();

-- A change that ends all tokens of a person ends the sessions as well.
create function tenon.end_sessions() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from sessions where subject_id = old.id;
  return null;
end $$;
revoke execute on function tenon.end_sessions from public;
create trigger sessions_ended after update on tenon.accounts for each row
  when (old.generation <> new.generation) execute function tenon.end_sessions();
create trigger sessions_ended after update on tenon.users for each row
  when (old.generation <> new.generation) execute function tenon.end_sessions();
