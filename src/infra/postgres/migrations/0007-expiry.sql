-- Serves builds from 0.1.0 on.
-- Documents that expire. Older builds show them until they are deleted, and their relay publishes deletions without the reason.

alter table tenon.schemas
  -- {"field": "expires_at"} or {"field": "_created_at", "after": "30d"}; null: documents do not expire.
  add column ttl jsonb,
  -- When expired documents are deleted next; null without ttl.
  add column expiry_due_at timestamptz(3),
  -- Expired documents that stay, since others refer to them.
  add column expired_kept integer not null default 0;
grant update (ttl, expiry_due_at) on tenon.schemas to tenon_tables;
grant update (expired_kept) on tenon.schemas to tenon_admin;
call tenon.allow('tenon_reconciler', 'tenon.schemas', 'all',
  'select (id, tenant_id, workspace_id, collection, expiry_due_at), update (expiry_due_at)');

-- Why a document was deleted, if no request was the cause: `expired`.
alter table tenon.outbox add column reason text;
