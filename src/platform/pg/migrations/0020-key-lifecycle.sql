-- API keys are rotated, disabled, narrowed by scopes and given a rate of their own.
alter table tenon.api_keys
  add column disabled_at timestamptz(3),
  add column rate_limit integer check (rate_limit between 1 and 1000000),
  add column rotated_from text references tenon.api_keys (id),
  -- A key is replaced once: whoever sets this first has rotated it.
  add column replaced_by text,
  -- When it was revoked, or was found expired by who made the next one: until then it counts towards the quota.
  add column ended_at timestamptz(3),
  -- Such keys are shipped to browsers, and what they may write is said by collections alone.
  add constraint api_keys_anon_scopes check (kind <> 'anon' or scopes::text !~ ':write'),
  -- It is the grace of a rotation that lets an old key live, and a grace ends.
  add constraint api_keys_replaced_ends check (replaced_by is null or expires_at is not null);
create unique index on tenon.api_keys (rotated_from);

do $$
declare
  name text;
begin
  foreach name in array array['count_added', 'count_removed', 'count_changed'] loop
    execute format('drop trigger %I on tenon.api_keys', name);
  end loop;
end $$;
drop policy counting on tenon.api_keys;
alter table tenon.api_keys no force row level security;
update tenon.api_keys set ended_at = revoked_at where revoked_at is not null;
alter table tenon.api_keys force row level security;
delete from tenon.quota_sources where relation = 'tenon.api_keys'::regclass;
call tenon.count_as('api_keys', 'tenon.api_keys', 'ended_at');

-- Whose a key is, of which kind and what it is digested to stand from the day it was made.
revoke update on tenon.api_keys from tenon_operator, tenon_admin;
grant update (name, scopes, rate_limit, expires_at, disabled_at, revoked_at, ended_at, replaced_by, last_used_at)
  on tenon.api_keys to tenon_operator;
grant update (name, scopes, rate_limit, expires_at, disabled_at, revoked_at, ended_at, replaced_by)
  on tenon.api_keys to tenon_admin;
