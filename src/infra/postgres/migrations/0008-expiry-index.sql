-- Serves builds from 0.1.0 on.
-- No transaction: can be repeated after it was cut off.
drop index concurrently if exists tenon.schemas_expiry_due;
create index concurrently schemas_expiry_due on tenon.schemas (expiry_due_at) where expiry_due_at is not null;
