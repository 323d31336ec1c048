-- Lists of executions: in the order in which they were asked for, and each filter with an index that has that order.
-- How one has ended is a column of its own: the status changes with every wait, and an index on it would be written each time.
alter table tenon.executions
  add column outcome text generated always as (case when ended_at is not null then status end) stored;
drop index tenon.executions_tenant_id_workspace_id_flow_id_id_idx;
create index executions_of_flow on tenon.executions (tenant_id, workspace_id, flow_id, started_at, id);
create index executions_by_start on tenon.executions (tenant_id, workspace_id, started_at, id);
create index executions_by_outcome on tenon.executions (tenant_id, workspace_id, outcome, started_at, id);
create index executions_by_key on tenon.executions (tenant_id, workspace_id, correlation_key, started_at, id)
  where correlation_key is not null;
-- Most are started by hand; those are found by their start.
create index executions_by_kind on tenon.executions (tenant_id, workspace_id, trigger_kind, started_at, id)
  where trigger_kind <> 'manual';
create index executions_by_trigger on tenon.executions (tenant_id, workspace_id, trigger_id, started_at, id)
  where trigger_id is not null;
