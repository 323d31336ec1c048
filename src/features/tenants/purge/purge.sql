-- The rows of tenants and workspaces, for the purge of one that is deleted. The tables come from the catalogue of PostgreSQL, so that
-- none is forgotten. tenon_purger counts and deletes the rows of the tenant or workspace of its session.

-- These stay: the records of what was deleted, and the numbers of destroyed keys.
create function tenon.is_tombstone(relation name) returns boolean immutable parallel safe language sql
  return relation in ('workspaces', 'operations', 'payload_keys');

-- These are the tenant's: a workspace that is deleted leaves its entries of the tenant's audit log, and what was used until then.
create function tenon.outlives_workspace(relation name) returns boolean immutable parallel safe language sql
  return relation in ('audit', 'usage_records');

-- The tables that have rows of a tenant, or of a workspace, each before those that it refers to.
create function tenon.owned_tables(of_workspace boolean) returns table (relation text) stable language sql
  set search_path = pg_catalog, pg_temp as $$
  with recursive owned as (
    select c.oid, c.relname from pg_class c
    where c.relnamespace = 'tenon'::regnamespace and c.relkind in ('r', 'p') and not tenon.is_tombstone(c.relname)
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
      and (not of_workspace or (not tenon.outlives_workspace(c.relname)
        and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'workspace_id' and not a.attisdropped)))
  ), ranks(oid, rank) as (
    select oid, 0 from owned
    union
    select k.confrelid, r.rank + 1 from ranks r join pg_constraint k on k.conrelid = r.oid
    where k.contype = 'f' and k.confrelid <> k.conrelid
  )
  select o.relname::text from owned o join ranks r using (oid) group by o.relname order by max(r.rank), o.relname $$;

-- Gives tenon_purger its rights on the tables that it has none on. A file that adds a table later calls it again.
create procedure tenon.allow_purge() language plpgsql as $$
declare
  owned regclass;
  has_workspace boolean;
begin
  for owned in select format('tenon.%I', relation)::regclass from tenon.owned_tables(false)
      where not exists (select from pg_policy p where p.polrelid = format('tenon.%I', relation)::regclass and p.polname = 'purger') loop
    has_workspace := exists (select from pg_attribute a where a.attrelid = owned and a.attname = 'workspace_id');
    call tenon.allow('tenon_purger', owned, case when has_workspace then 'tenant' else 'whole tenant' end, 'select, delete');
  end loop;
end $$;
revoke execute on procedure tenon.allow_purge from public;
call tenon.allow_purge();

-- The keys that Temporal's payloads of the tenant are encrypted with: without them nobody reads what is left of its workflows.
call tenon.allow('tenon_purger', 'tenon.payload_keys', 'whole tenant', 'select (tenant_id, number, destroyed_at), update (sealed, destroyed_at)');
-- Every operation of a tenant but the one that reports its deletion; of a workspace, those of what is inside it.
call tenon.allow('tenon_purger', 'tenon.operations', 'whole tenant', 'select (id, tenant_id, workspace_id, type, target), delete');
revoke execute on function tenon.is_tombstone, tenon.outlives_workspace, tenon.owned_tables from public;
grant execute on function tenon.is_tombstone, tenon.outlives_workspace, tenon.owned_tables to tenon_purger;
