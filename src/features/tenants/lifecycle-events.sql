-- Events of tenants and workspaces: `platform.workspace.<verb>` in the stream of the workspace, and `platform.tenant.<verb>` in those
-- of all workspaces that the tenant has then. Written in the transaction of the change, so that none is forgotten.

-- Null: a change that is no event, such as that of a name.
create function tenon.transition(before text, after text, delete_after timestamptz) returns text
  immutable parallel safe language sql as $$
  select case
    when before = after then null
    when before = 'provisioning' and after = 'active' then 'created'
    when after = 'suspended' and before = 'active' then 'suspended'
    when after = 'active' and before = 'suspended' then 'resumed'
    when after in ('active', 'suspended') and before = 'deleting' then 'restored'
    when after = 'deleting' and delete_after is not null then 'deleted' end $$;

create function tenon.emit_workspace_event() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  data constant json := json_strip_nulls(json_build_object('workspace',
    json_build_object('id', new.id, 'slug', new.slug, 'name', new.name, 'state', new.state, 'delete_after', new.delete_after)));
begin
  insert into outbox (tenant_id, workspace_id, topic, document, bytes)
    values (new.tenant_id, new.id, 'platform.workspace.' || tenon.transition(old.state, new.state, new.delete_after),
      data, length(data::text));
  return null;
end $$;

create function tenon.emit_tenant_event() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  data constant json := json_strip_nulls(json_build_object('tenant',
    json_build_object('id', new.id, 'slug', new.slug, 'name', new.name, 'state', new.state, 'delete_after', new.delete_after)));
begin
  insert into outbox (tenant_id, workspace_id, topic, document, bytes)
    select new.id, w.id, 'platform.tenant.' || tenon.transition(old.state, new.state, new.delete_after), data, length(data::text)
    from workspaces w where w.tenant_id = new.id and w.state in ('active', 'suspended');
  return null;
end $$;

-- `platform.workspace.drifted` and `platform.tenant.drifted`: what is in other systems differs from the database otherwise than at the look
-- before; without differences, all is as it should be again.
create function tenon.emit_drift_event() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
declare
  noun constant text := case tg_table_name when 'tenants' then 'tenant' else 'workspace' end;
  data constant json := json_build_object(noun, json_build_object('id', new.id, 'slug', new.slug), 'differences', new.drift);
begin
  insert into outbox (tenant_id, workspace_id, topic, document, bytes)
    select w.tenant_id, w.id, 'platform.' || noun || '.drifted', data, length(data::text)
    from workspaces w where case noun when 'tenant' then w.tenant_id = new.id and w.state in ('active', 'suspended') else w.id = new.id end;
  return null;
end $$;
create trigger emit_drift_event after update of drift on tenon.workspaces for each row
  -- A tombstone keeps no names.
  when (new.drift::text <> old.drift::text and new.state <> 'deleted') execute function tenon.emit_drift_event();
create trigger emit_drift_event after update of drift on tenon.tenants for each row
  when (new.drift::text <> old.drift::text and new.state <> 'deleted') execute function tenon.emit_drift_event();

create trigger emit_event after update of state on tenon.workspaces for each row
  when (tenon.transition(old.state, new.state, new.delete_after) is not null)
  execute function tenon.emit_workspace_event();
create trigger emit_event after update of state on tenon.tenants for each row
  when (tenon.transition(old.state, new.state, new.delete_after) is not null)
  execute function tenon.emit_tenant_event();
revoke execute on function tenon.emit_workspace_event, tenon.emit_tenant_event, tenon.emit_drift_event, tenon.transition from public;
grant execute on function tenon.transition to tenon_admin, tenon_operator;

-- The triggers write these events with the rights of those who change tenants and workspaces, whose own statements write none.
create policy lifecycle on tenon.outbox for insert to tenon_operator
  with check (pg_trigger_depth() > 0 and topic ~ '^platform[.](tenant|workspace)[.][a-z]+$');
create policy lifecycle_of_tenant on tenon.outbox for insert to tenon_admin
  with check (pg_trigger_depth() > 0 and tenant_id = tenon.tenant() and (tenon.workspace() is null or workspace_id = tenon.workspace())
    and topic ~ '^platform[.](tenant|workspace)[.][a-z]+$');
grant insert on tenon.outbox to tenon_operator;
