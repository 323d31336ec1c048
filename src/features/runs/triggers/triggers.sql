-- Triggers: schedules, webhooks and events that start their target, such as a flow or a function. tenon_triggers looks triggers
-- up before the tenant is known, and reads nothing else.

-- One row for each trigger that a target declares, written in the transaction that changes the declaration. There is no foreign
-- key to the target: whatever deletes one deletes its triggers in the same transaction (trigger-store.ts).
create table tenon.triggers (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  target_kind text not null,
  target_id text not null,
  kind text not null check (kind in ('schedule', 'webhook', 'event')),
  -- Identifies the trigger within its target, across changes.
  key text not null,
  spec jsonb not null,
  -- The version of the target that it starts; null: the one that is active.
  version integer,
  -- Counts the changes of spec and version.
  revision integer not null default 1,
  paused boolean not null default false,
  -- A restore of the installation has paused it, and its end resumes it.
  paused_by_restore boolean not null default false,
  -- Of a schedule: a restore of the installation may have left Temporal without it, or with an earlier one.
  is_unregistered boolean not null default false,
  -- The reason given for the last pause or resumption.
  note text,
  -- When it was last resumed.
  resumed_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- A row counts towards the quota `schedules` as long as this is null.
  uncounted text generated always as (nullif(kind, 'schedule')) stored,
  primary key (tenant_id, workspace_id, id),
  unique (tenant_id, workspace_id, target_kind, target_id, key)
);
-- For webhooks, whose URL contains the workspace alone.
create index on tenon.triggers (workspace_id, id);
create index on tenon.triggers (id) where kind = 'event';
create index triggers_unregistered on tenon.triggers (workspace_id, id) where is_unregistered;
call tenon.allow('tenon_operator', 'tenon.triggers', 'all', 'select, insert, update, delete');
call tenon.allow('tenon_admin', 'tenon.triggers', 'tenant', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.triggers', 'all', 'select');
call tenon.allow('tenon_reconciler', 'tenon.triggers', 'all', 'select (tenant_id, workspace_id, id, is_unregistered)');
call tenon.add_row_quota('schedules', 'tenon.triggers', 'uncounted');

-- The state of each trigger: its counts, its place in the streams. A table of its own, so that the quota is not counted at every event.
create table tenon.trigger_states (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  -- The last entries that were handled; null unless events fire it.
  events_offset text,
  changes_offset text,
  -- Events that wait for others, so operators do not read it.
  correlation_state jsonb not null default '[]',
  -- Events of its types; those of them that its filters accepted; those that started nothing although they should have.
  seen bigint not null default 0,
  matched bigint not null default 0,
  dropped bigint not null default 0,
  -- Starts by its schedule or by events.
  started bigint not null default 0,
  last_run_id text,
  last_run_at timestamptz(3),
  -- The last interval in which a stream dropped events before they were consumed.
  gap_from timestamptz(3),
  gap_to timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.triggers on delete cascade
);
call tenon.allow('tenon_operator', 'tenon.trigger_states', 'all');
grant select (tenant_id, workspace_id, trigger_id, events_offset, changes_offset, seen, matched, dropped, started, last_run_id,
    last_run_at, gap_from, gap_to),
  insert (tenant_id, workspace_id, trigger_id, events_offset, changes_offset),
  update (events_offset, changes_offset, correlation_state) on tenon.trigger_states to tenon_operator;
call tenon.allow('tenon_admin', 'tenon.trigger_states', 'tenant', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.trigger_states', 'all', 'select');
create policy consumer on tenon.trigger_states for update to tenon_triggers using (true);
grant update (events_offset, changes_offset, correlation_state, seen, matched, dropped, started, last_run_id, last_run_at,
  gap_from, gap_to) on tenon.trigger_states to tenon_triggers;

-- Encrypted for the target and the key of the webhook, so that a secret cannot be used in another row.
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
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.triggers on delete cascade
);
call tenon.allow('tenon_admin', 'tenon.webhook_secrets', 'workspace', 'select, insert, update, delete');
call tenon.allow('tenon_triggers', 'tenon.webhook_secrets', 'all', 'select');
call tenon.allow('tenon_key_rotation', 'tenon.webhook_secrets', 'all',
  'select (tenant_id, workspace_id, trigger_id, sealed, previous), update (sealed, previous)');
-- What the secret of a webhook is encrypted for.
call tenon.allow('tenon_key_rotation', 'tenon.triggers', 'all', 'select (tenant_id, workspace_id, id, target_id, key)');

-- Received deliveries: a repeated one starts nothing until retention forgets it (30 days by default), even if its run was deleted
-- meanwhile.
create table tenon.webhook_deliveries (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  -- The sender's `webhook-id`.
  delivery_id text not null,
  body_sha256 text not null,
  -- The run or execution that it starts; it may not exist yet.
  run_id text not null,
  received_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, trigger_id, delivery_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.triggers on delete cascade
);
create index on tenon.webhook_deliveries (tenant_id, workspace_id, received_at);
call tenon.allow('tenon_admin', 'tenon.webhook_deliveries', 'workspace', 'select, insert, delete');
