-- How an execution came to be: what started it, what it belongs to, which one it repeats; and whether somebody paused it.
alter table tenon.executions
  add column trigger_kind text not null default 'manual'
    check (trigger_kind in ('manual', 'schedule', 'webhook', 'event', 'flow', 'rerun')),
  add column trigger_id text,
  add column correlation_key text,
  add column rerun_of text,
  add column paused boolean not null default false;

-- What flows are run by from other flows: so that nobody parses compiled forms to find one.
alter table tenon.flow_versions
  add column namespace text,
  add column document_name text,
  add column document_version text;
-- The owner too is under row-level security; only this transaction can see the table without.
alter table tenon.flow_versions no force row level security;
update tenon.flow_versions set
  namespace = ir::jsonb -> 'document' ->> 'namespace',
  document_name = ir::jsonb -> 'document' ->> 'name',
  document_version = ir::jsonb -> 'document' ->> 'version';
alter table tenon.flow_versions force row level security;
alter table tenon.flow_versions
  alter column namespace set not null,
  alter column document_name set not null,
  alter column document_version set not null;
create index on tenon.flow_versions (tenant_id, workspace_id, namespace, document_name, document_version);
