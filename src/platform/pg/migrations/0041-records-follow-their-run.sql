-- What an execution has recorded goes where it goes. A foreign key looks up the execution for each row, some seventeen times a run,
-- and locks it anew each time; whoever records has just updated that execution in the same transaction, and writes nothing where it
-- was not there (resources/flows/projection.ts). So nobody can delete it in between, and what is left to do is the end.
alter table tenon.execution_steps drop constraint execution_steps_tenant_id_workspace_id_execution_id_fkey;
alter table tenon.execution_events drop constraint execution_events_tenant_id_workspace_id_execution_id_fkey;

-- With the rights of who deletes, as a foreign key would not have it: of another tenant nothing is there to be deleted.
create function tenon.forget_records() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
begin
  delete from execution_steps r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  delete from execution_events r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  return null;
end $$;
create trigger forget_records after delete on tenon.executions referencing old table as gone
  for each statement execute function tenon.forget_records();
