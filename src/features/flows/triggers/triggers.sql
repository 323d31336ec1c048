-- Triggers: schedules, webhooks and event filters that start executions. tenon_triggers looks triggers up before the tenant
-- is known, and reads nothing else.

-- One row per trigger of the newest version, synchronised when a version is published. `key` identifies the trigger within
-- the definition, across versions.
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
  -- The reason given for the last pause or resumption.
  note text,
  -- When it was last resumed.
  resumed_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- A row counts towards the quota `schedules` as long as this is null.
  uncounted text generated always as (nullif(kind, 'schedule')) stored,
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, flow_id, key),
  foreign key (tenant_id, workspace_id, flow_id, version) references tenon.flow_versions
);
-- For webhooks, whose URL contains the workspace alone.
create index on tenon.flow_triggers (workspace_id, id);
create index on tenon.flow_triggers (id) where kind = 'event';
call tenon.allow('tenon_admin', 'tenon.flow_triggers', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.flow_triggers', 'all', 'select');
call tenon.add_row_quota('schedules', 'tenon.flow_triggers', 'uncounted');

-- Encrypted for the flow and the name of its webhook, so that a secret cannot be used in another row.
create table tenon.webhook_secrets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  sealed bytea not null,
  -- The secret before the last rotation, and until when it is accepted.
  previous bytea,
  previous_until timestamptz(3),
  rotated_at timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
call tenon.allow('tenon_admin', 'tenon.webhook_secrets', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.webhook_secrets', 'all', 'select');

-- Received deliveries: a repeated one starts nothing for 30 days, even if its execution was deleted meanwhile.
create table tenon.webhook_deliveries (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  -- The sender's `webhook-id`.
  delivery_id text not null,
  body_sha256 text not null,
  -- The execution may not exist yet.
  execution_id text not null,
  received_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, trigger_id, delivery_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
create index on tenon.webhook_deliveries (tenant_id, workspace_id, trigger_id, received_at);
call tenon.allow('tenon_admin', 'tenon.webhook_deliveries', 'workspace', 'select, insert, delete');

-- The offsets of event triggers in their streams, and the state of partial correlations.
create table tenon.trigger_offsets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  events_offset text not null,
  changes_offset text not null,
  correlation_state jsonb not null default '[]',
  -- Events of the types that the filters name, and those of them that a filter accepted.
  seen bigint not null default 0,
  matched bigint not null default 0,
  -- The last interval in which the stream dropped events before they were consumed.
  gap_from timestamptz(3),
  gap_to timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
call tenon.allow('tenon_admin', 'tenon.trigger_offsets', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.trigger_offsets', 'all', 'select');
create policy consumer on tenon.trigger_offsets for update to tenon_triggers using (true);
grant update (events_offset, changes_offset, correlation_state, seen, matched, gap_from, gap_to)
  on tenon.trigger_offsets to tenon_triggers;
