-- The keys that what a tenant's runs carry through Temporal is encrypted with, sealed by the platform. A mask of its own
-- sees them, a tenant's at a time; no admin's and no operator's does. A key that was destroyed leaves its number, so
-- that nobody makes another one in its place.
do $$ begin
  if not exists (select from pg_roles where rolname = 'tenon_keyring') then
    create role tenon_keyring nologin nosuperuser nobypassrls noinherit;
  end if;
  grant tenon_keyring to tenon_app;
end $$;
grant usage on schema tenon to tenon_keyring;

create table tenon.payload_keys (
  tenant_id text not null default tenon.tenant() references tenon.tenants (id),
  -- The newest encrypts, all decrypt.
  number integer not null check (number > 0),
  sealed bytea,
  created_at timestamptz(3) not null default now(),
  destroyed_at timestamptz(3),
  primary key (tenant_id, number),
  check ((sealed is null) = (destroyed_at is not null))
);
alter table tenon.payload_keys enable row level security;
alter table tenon.payload_keys force row level security;
grant select, insert on tenon.payload_keys to tenon_keyring;
create policy keyring on tenon.payload_keys to tenon_keyring
  using (tenant_id = tenon.tenant()) with check (tenant_id = tenon.tenant());
