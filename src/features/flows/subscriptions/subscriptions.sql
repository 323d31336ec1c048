-- The events that executions wait for (`listen`), found by an index on type and correlation values, never by a scan.

-- A subscription of an execution. It is inactive while no task waits for it, and deleted when the execution ends.
create table tenon.event_subscriptions (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  execution_id text not null,
  workflow_id text not null,
  -- The event type; empty for any.
  topic text not null,
  -- SHA-256, hex, of `filter`, which is the same in all executions of a version, and of the values of its correlations.
  definition text not null,
  value text not null,
  filter jsonb not null,
  -- Of the execution's subscriptions, which change as a whole: a late statement of an older generation has no effect.
  generation integer not null,
  active boolean not null default true,
  -- Past events are read from here when it becomes active.
  events_offset text not null,
  changes_offset text not null,
  primary key (tenant_id, workspace_id, execution_id, topic, definition, value)
);
create index event_subscriptions_active on tenon.event_subscriptions
  (tenant_id, workspace_id, topic, definition, value, execution_id) where active;
call tenon.allow('tenon_admin', 'tenon.event_subscriptions', 'workspace', 'select, insert, update, delete');
-- The consumer learns which workspaces have subscriptions, and nothing of their content.
create policy consumer on tenon.event_subscriptions for select to tenon_triggers using (active);
grant select (tenant_id, workspace_id, active) on tenon.event_subscriptions to tenon_triggers;

-- The offsets up to which the events of a workspace were delivered to its active subscriptions.
create table tenon.subscription_offsets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  events_offset text not null,
  changes_offset text not null,
  primary key (tenant_id, workspace_id)
);
call tenon.allow('tenon_admin', 'tenon.subscription_offsets', 'workspace', 'select, insert, update');
call tenon.allow('tenon_triggers', 'tenon.subscription_offsets', 'all', 'select');
create policy consumer on tenon.subscription_offsets for update to tenon_triggers using (true);
grant update (events_offset, changes_offset) on tenon.subscription_offsets to tenon_triggers;
