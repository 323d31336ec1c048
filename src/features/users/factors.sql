-- Further factors of users: time-based codes with recovery codes. Only tenon_issuer reads secrets and digests.

create table tenon.user_totp (
  user_id text primary key,
  tenant_id text not null,
  workspace_id text not null,
  -- The encrypted secret.
  sealed bytea not null,
  -- The time step of the last code that was accepted (RFC 6238 §5.2): no code works twice.
  last_step integer not null,
  -- HMACs of the recovery codes that are left.
  recovery text[] not null,
  created_at timestamptz(3) not null default now(),
  foreign key (tenant_id, workspace_id, user_id) references tenon.users (tenant_id, workspace_id, id) on delete cascade
);
create index on tenon.user_totp (tenant_id, workspace_id, user_id);
call tenon.allow('tenon_issuer', 'tenon.user_totp', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_operator', 'tenon.user_totp', 'all');
call tenon.allow('tenon_admin', 'tenon.user_totp', 'tenant');
grant select (user_id, tenant_id, workspace_id, created_at), delete on tenon.user_totp to tenon_admin, tenon_operator;
