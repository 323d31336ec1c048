-- Serves builds from 0.1.0 on.
-- {data}: `allowed` or `refused`: whether operators of the installation get tokens for the data of the workspace. Absent: allowed.
alter table tenon.services add column operators jsonb not null default '{}'
  constraint services_operators check (coalesce(operators ->> 'data', 'allowed') in ('allowed', 'refused'));
grant insert (operators), update (operators) on tenon.services to tenon_admin;

-- The status of an execution that is shown: the columns `suspended` and `paused` override the one that is recorded.
-- Events of executions say which status they had before. That of an end, a hold or a delay is as it was otherwise.
create or replace function tenon.emit_execution_event() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  verb constant text := case when new.ended_at is not null then new.status
    when new.overdue and not old.overdue then 'overdue' else 'held' end;
  data constant json := json_strip_nulls(json_build_object(
    'execution', new.id,
    'flow', json_build_object('id', new.flow_id, 'version', new.version,
      'name', (select name from flows f where f.tenant_id = new.tenant_id and f.workspace_id = new.workspace_id
        and f.id = new.flow_id)),
    'status', new.status,
    'previous_status', case when verb <> 'overdue' then
      case when old.suspended or old.paused then 'suspended' else old.status end end,
    'trigger', json_build_object('kind', new.trigger_kind, 'id', new.trigger_id),
    'correlation_key', new.correlation_key,
    'started_at', to_char(new.started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'ended_at', to_char(new.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'duration_ms', floor(extract(epoch from new.ended_at - new.started_at) * 1000)::bigint,
    'expected_duration_ms', case when verb = 'overdue'
      then round(extract(epoch from new.overdue_at - new.started_at) * 1000)::bigint end,
    'error', case when new.error is not null then json_build_object('type', new.error -> 'type',
      'status', new.error -> 'status', 'title', new.error -> 'title', 'instance', new.error -> 'instance') end,
    'compensated', new.compensated));
begin
  insert into outbox (topic, document, bytes, chain_depth, caused_by, trace)
    values ('platform.execution.' || verb, data, length(data::text), coalesce(new.chain_depth, 0),
      to_json(new.started_by || new.caused_by || tenon.since_entry(new.started_at))::text, new.trace);
  return null;
end $$;

-- Writes the event `platform.execution_status.changed` of an execution that was started, or is open in another status: not
-- `platform.execution.…`, of which those who subscribe to all get the ends and what needs a person.
create function tenon.emit_execution_status() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  data constant json := json_strip_nulls(json_build_object(
    'execution', new.id,
    'flow', json_build_object('id', new.flow_id, 'version', new.version,
      'name', (select name from flows f where f.tenant_id = new.tenant_id and f.workspace_id = new.workspace_id
        and f.id = new.flow_id)),
    'status', case when new.suspended or new.paused then 'suspended' else new.status end,
    'previous_status', case when tg_op = 'UPDATE' then
      case when old.suspended or old.paused then 'suspended' else old.status end end));
begin
  insert into outbox (tenant_id, workspace_id, topic, document, bytes, chain_depth, caused_by, trace)
    values (new.tenant_id, new.workspace_id, 'platform.execution_status.changed', data, length(data::text), coalesce(new.chain_depth, 0),
      to_json(new.started_by || new.caused_by || tenon.since_entry(new.started_at))::text, new.trace);
  return null;
end $$;
revoke execute on function tenon.emit_execution_status from public;
create trigger emit_execution_start after insert on tenon.executions for each row
  when (new.ended_at is null) execute function tenon.emit_execution_status();
-- A hold is `platform.execution.held`. Suspending a workspace changes all of its executions at once, and ends its streams.
create trigger emit_execution_status after update on tenon.executions for each row
  when (new.ended_at is null and old.suspended = new.suspended
    and (case when old.suspended or old.paused then 'suspended' else old.status end)
      <> (case when new.suspended or new.paused then 'suspended' else new.status end)
    and not (new.status = 'suspended' and old.status <> 'suspended' and not new.paused and not new.suspended))
  execute function tenon.emit_execution_status();
