-- Serves builds from 0.1.0 on.
-- References: fields that hold the id of a document of another collection, with a foreign key in the table of the declaration.
-- Older builds know none, and keep the foreign keys of a declaration that they change, but for those of fields that they remove.

alter table tenon.schemas
  -- [{"field": "customer_id", "collection": "customers", "as": "customer", "inverse": "orders", "on_delete": "restrict"}, …]
  add column relations jsonb not null default '[]';
grant update (relations) on tenon.schemas to tenon_tables;
