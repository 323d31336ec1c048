-- Requests with an Idempotency-Key, and their replies. Tenant and workspace are empty for callers without one, since a
-- primary key has no nulls.
create table tenon.idempotency (
  tenant_id text not null default coalesce(tenon.tenant(), ''),
  workspace_id text not null default coalesce(tenon.workspace(), ''),
  role name not null default current_user,
  -- SHA-256 of credential, operation, path and key.
  id bytea not null check (octet_length(id) = 32),
  -- The id of a master key, and a MAC of the request under it; of a use that stores no reply, the id of the row.
  request bytea not null check (octet_length(request) in (32, 40)),
  -- New ids derive from it, so that each attempt creates the same ones.
  seed bytea not null check (octet_length(seed) = 16),
  attempt integer not null default 1,
  made_at timestamptz(3) not null default now(),
  expires_at timestamptz not null,
  -- The lease of the current attempt, which its process renews, and during which no other may start; null if none runs.
  held_until timestamptz,
  -- True once the effect is done: written in its transaction, with its output in `reply`.
  done boolean not null default false,
  -- Results of the parts of an effect that are done, by their index, each written in the transaction of its part.
  parts jsonb not null default '{}',
  -- Of an effect in another store, which has no transaction with this row: which part was about to change which version.
  begun jsonb,
  -- The final status; null before that.
  status smallint,
  -- The reply, or without a status the output. Encrypted by the platform; null also if it was too large to store.
  reply bytea check (octet_length(reply) <= 1048576),
  primary key (tenant_id, workspace_id, role, id)
);
create index on tenon.idempotency (expires_at);
-- Encrypted bytes cannot be compressed.
alter table tenon.idempotency alter column reply set storage external;
alter table tenon.idempotency enable row level security, force row level security;
create policy inside on tenon.idempotency to tenon_anon, tenon_user, tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and role = current_user)
  with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace() and role = current_user);
create policy admin on tenon.idempotency to tenon_admin
  using (tenant_id = tenon.tenant() and workspace_id = coalesce(tenon.workspace(), '') and role = current_user)
  with check (tenant_id = tenon.tenant() and workspace_id = coalesce(tenon.workspace(), '') and role = current_user);
create policy operator on tenon.idempotency to tenon_operator
  using (tenant_id = '' and workspace_id = '' and role = current_user)
  with check (tenant_id = '' and workspace_id = '' and role = current_user);
grant select, insert, update, delete on tenon.idempotency to tenon_anon, tenon_user, tenon_service, tenon_admin, tenon_operator;
call tenon.allow('tenon_key_rotation', 'tenon.idempotency', 'all',
  'select (tenant_id, workspace_id, role, id, request, reply, expires_at), update (reply)');
-- The owner never logs in; it deletes expired rows only through the function below.
create policy expired on tenon.idempotency to tenon_owner using (expires_at <= now());

-- Deletes a few expired rows of any tenant, so that rows of inactive tenants do not stay.
create function tenon.delete_expired_replies() returns bigint
  language sql security definer set search_path = tenon, pg_temp as $$
  with gone as (
    delete from idempotency where ctid = any(array(
      select ctid from idempotency where expires_at <= now() order by expires_at limit 20 for update skip locked))
    returning 1)
  select count(*) from gone
$$;
revoke execute on function tenon.delete_expired_replies from public;
grant execute on function tenon.delete_expired_replies to tenon_anon, tenon_user, tenon_service, tenon_admin, tenon_operator;
