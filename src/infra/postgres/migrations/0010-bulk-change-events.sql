-- Serves builds from 0.1.0 on.
-- Writes the event `platform.bulk_change.<status>` of a bulk change that has ended, in the same transaction, after the events of its documents.
create function tenon.emit_bulk_change_event() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  data constant json := json_strip_nulls(json_build_object(
    'bulk_change', new.id,
    'collection', new.collection,
    'verb', new.verb,
    'status', new.status,
    'matched', new.matched,
    'changed', new.changed,
    'failed', new.failed,
    'error', new.error,
    'created_at', to_char(new.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'ended_at', to_char(new.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
begin
  insert into outbox (tenant_id, workspace_id, topic, document, bytes, chain_depth, trace)
    values (new.tenant_id, new.workspace_id, 'platform.bulk_change.' || new.status, data, length(data::text),
      coalesce((new.trigger ->> 'chain_depth')::smallint, 0), new.trace);
  return null;
end $$;
revoke execute on function tenon.emit_bulk_change_event from public;
create trigger emit_event after update on tenon.bulk_changes for each row
  when (old.ended_at is null and new.ended_at is not null) execute function tenon.emit_bulk_change_event();
