-- Counts per workspace and minute that no other table has. `buckets[i]` counts durations from 2^((i-1)/2) to 2^(i/2) ms: a fixed size
-- that gives quantiles within 20 %.
create table tenon.meters (
  tenant_id text not null,
  workspace_id text not null,
  at timestamptz(3) not null,
  requests bigint not null,
  client_errors bigint not null,
  server_errors bigint not null,
  events bigint not null,
  streams bigint not null,
  buckets bigint[] not null,
  primary key (tenant_id, workspace_id, at)
);
call tenon.allow('tenon_operator', 'tenon.meters', 'all', 'select, insert, update');
-- Retention deletes them.
call tenon.allow('tenon_admin', 'tenon.meters', 'tenant', 'select, delete');

-- The usage of a workspace in an hour, recorded once after its end (usage.ts): by metric and label, the label empty for metrics without one.
create table tenon.usage_records (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  hour timestamptz(3) not null,
  -- `usage_<hour>_<workspace>`: fixed, and in the order of hours.
  id text collate "C" not null unique,
  amounts jsonb not null,
  primary key (tenant_id, workspace_id, hour)
);
call tenon.allow('tenon_operator', 'tenon.usage_records', 'all', 'select');
call tenon.allow('tenon_admin', 'tenon.usage_records', 'tenant', 'select, insert, delete');
