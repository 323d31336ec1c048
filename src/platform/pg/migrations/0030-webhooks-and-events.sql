-- What triggers need besides their rows: secrets of webhooks and what they have delivered; how far events were heard.
-- A mask of its own sees whose a trigger is before any tenant is known, and nothing else of anybody's.
do $$ begin
  if not exists (select from pg_roles where rolname = 'tenon_triggers') then
    create role tenon_triggers nologin nosuperuser nobypassrls noinherit;
  end if;
  grant tenon_triggers to tenon_app;
end $$;
grant usage on schema tenon to tenon_triggers;

grant select on tenon.flow_triggers to tenon_triggers;
create policy triggers on tenon.flow_triggers for select to tenon_triggers using (true);
-- The address of a webhook names its workspace alone.
create index on tenon.flow_triggers (workspace_id, id);
create index on tenon.flow_triggers (id) where kind = 'event';

-- Sealed for the flow and the name of its webhook, so that a secret is of no use in another row.
create table tenon.webhook_secrets (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  sealed bytea not null,
  -- The one before, and until when it still counts.
  previous bytea,
  previous_until timestamptz(3),
  rotated_at timestamptz(3),
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);

-- What was delivered: the same again within a month starts nothing, also where its run has ended and is forgotten.
create table tenon.webhook_deliveries (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  -- As the sender says it: `webhook-id`.
  delivery_id text not null,
  body_sha256 text not null,
  -- It may not be there yet.
  execution_id text not null,
  received_at timestamptz(3) not null default now(),
  primary key (tenant_id, workspace_id, trigger_id, delivery_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);
create index on tenon.webhook_deliveries (tenant_id, workspace_id, trigger_id, received_at);

-- Up to which entry of each stream a trigger has heard, and which events wait for others.
create table tenon.event_watches (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  trigger_id text not null,
  events_after text not null,
  changes_after text not null,
  gathered jsonb not null default '[]',
  primary key (tenant_id, workspace_id, trigger_id),
  foreign key (tenant_id, workspace_id, trigger_id) references tenon.flow_triggers on delete cascade
);

do $$
declare
  name text;
begin
  foreach name in array array['webhook_secrets', 'webhook_deliveries', 'event_watches'] loop
    execute format('alter table tenon.%I enable row level security', name);
    execute format('alter table tenon.%I force row level security', name);
    execute format('grant select, insert, update, delete on tenon.%I to tenon_admin', name);
    execute format(
      'create policy admin on tenon.%I to tenon_admin using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()) with check (tenant_id = tenon.tenant() and workspace_id = tenon.workspace())',
      name);
  end loop;
  foreach name in array array['webhook_secrets', 'event_watches'] loop
    execute format('grant select on tenon.%I to tenon_triggers', name);
    execute format('create policy triggers on tenon.%I for select to tenon_triggers using (true)', name);
  end loop;
end $$;
grant update (events_after, changes_after, gathered) on tenon.event_watches to tenon_triggers;
create policy heard on tenon.event_watches for update to tenon_triggers using (true);
revoke update on tenon.webhook_deliveries from tenon_admin;

-- How many runs began one by the event of another before this change was made: beyond a measure, it begins none.
alter table tenon.outbox add column hops smallint not null
  default coalesce(nullif(current_setting('tenon.hops', true), ''), '0')::smallint;
