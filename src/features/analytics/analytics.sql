-- Requests by workspace and minute. `buckets[i]` counts those that took less than 2^(i/2) ms and not less than the one
-- before: enough for quantiles within a fifth, and a fixed size.
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
