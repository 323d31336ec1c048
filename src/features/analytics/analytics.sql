-- Requests per workspace and minute. `buckets[i]` counts durations from 2^((i-1)/2) to 2^(i/2) ms: a fixed size that gives
-- quantiles within 20 %.
create table tenon.meters (
  tenant_id text not null,
  workspace_id text not null,
  at timestamptz(3) not null,
  requests bigint not null,
  client_errors bigint not null,
  server_errors bigint not null,
  buckets bigint[] not null,
  primary key (tenant_id, workspace_id, at)
);
call tenon.allow('tenon_operator', 'tenon.meters', 'all', 'select, insert, update');
call tenon.allow('tenon_service', 'tenon.meters', 'workspace', 'select');
-- Retention deletes them.
call tenon.allow('tenon_admin', 'tenon.meters', 'tenant', 'select, delete');
