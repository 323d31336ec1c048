-- Triggers start flows by themselves: schedules, webhooks, events. tenon_triggers sees to which tenant a trigger belongs
-- before any tenant is known, and nothing else.

-- A row for each trigger that the newest version declares, written and deleted as it is published; `key` identifies it
-- within the definition, so that it stays the same trigger from version to version.
create table tenon.flow_triggers (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  flow_id text not null,
  kind text not null check (kind in ('schedule', 'webhook', 'event')),
  key text not null,
  spec jsonb not null,
  version integer not null,
  paused boolean not null default false,
  -- Why it is paused, or was resumed.
  note text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- A row counts towards the quota `schedules` as long as this is null.
  uncounted text generated always as (nullif(kind, 'schedule')) stored,
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, flow_id, key),
  foreign key (tenant_id, workspace_id, flow_id, version) references tenon.flow_versions
);
-- The address of a webhook names its workspace alone.
create index on tenon.flow_triggers (workspace_id, id);
create index on tenon.flow_triggers (id) where kind = 'event';
call tenon.allow('tenon_admin', 'tenon.flow_triggers', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.flow_triggers', 'all', 'select');
call tenon.add_row_quota('schedules', 'tenon.flow_triggers', 'uncounted');

-- Sealed for the flow and the name of its webhook, so that a secret is of no use in another row.
create table tenon.webhook_secrets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  sealed bytea not null,
  -- The one before, and until when it is still accepted.
  previous bytea,
  previous_until timestamptz(3),
  rotated_at timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
call tenon.allow('tenon_admin', 'tenon.webhook_secrets', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.webhook_secrets', 'all', 'select');

-- The same delivery within a month starts nothing, also if its execution has ended and is forgotten.
create table tenon.webhook_deliveries (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  -- The sender's `webhook-id`.
  delivery_id text not null,
  body_sha256 text not null,
  -- It may not be there yet.
  execution_id text not null,
  received_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, trigger_id, delivery_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
create index on tenon.webhook_deliveries (tenant_id, workspace_id, trigger_id, received_at);
call tenon.allow('tenon_admin', 'tenon.webhook_deliveries', 'workspace', 'select, insert, delete');

-- The last entry of each stream that a trigger has consumed, and the events that wait for others.
create table tenon.trigger_offsets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  events_offset text not null,
  changes_offset text not null,
  correlation_state jsonb not null default '[]',
  -- The last time that its stream dropped events before they were consumed.
  gap_from timestamptz(3),
  gap_to timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
call tenon.allow('tenon_admin', 'tenon.trigger_offsets', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.trigger_offsets', 'all', 'select');
create policy heard on tenon.trigger_offsets for update to tenon_triggers using (true);
grant update (events_offset, changes_offset, correlation_state, gap_from, gap_to) on tenon.trigger_offsets to tenon_triggers;
