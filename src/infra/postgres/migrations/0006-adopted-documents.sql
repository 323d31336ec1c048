-- Serves builds from 0.1.0 on.
-- The role that owns the tables of declarations moves the documents of a collection into its table when it is declared, and back if
-- the declaration is refused.
create policy tables on tenon.documents to tenon_tables
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
grant select, insert, delete on tenon.documents to tenon_tables;
