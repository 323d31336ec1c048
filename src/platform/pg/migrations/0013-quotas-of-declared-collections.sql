-- Documents in a table of their own count like the others. Triggers fire in the order of their names: the table is
-- there when it begins to count (declare_collection), and still there when it is forgotten (undeclare_collection).
create function tenon.count_declared() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  call count_as('documents', format('tenon_data.%I', new.id)::regclass, null, new.tenant_id, new.workspace_id);
  return null;
end $$;
create trigger declared_counts after insert on tenon.schemas
  for each row when (new.store = 'relational') execute function tenon.count_declared();

create function tenon.forget_declared() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  delete from quota_sources where relation = format('tenon_data.%I', old.id)::regclass;
  return old;
end $$;
create trigger forget_counts before delete on tenon.schemas
  for each row when (old.store = 'relational') execute function tenon.forget_declared();
revoke execute on function tenon.count_declared, tenon.forget_declared from public;

call tenon.count_as('collections', 'tenon.schemas');
