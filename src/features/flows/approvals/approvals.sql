-- Approvals: what people are asked, their decisions, and when the next mail about it is due.
create table tenon.approvals (
  tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(),
  id text not null,
  execution_id text not null,
  pointer text not null,
  iteration integer not null,
  name text not null,
  title text,
  -- As text (json), so that fields keep the order in which the author wrote them.
  form json,
  -- Subjects, e-mail addresses in lower case, `role:…` and `group:…`.
  approvers text[] not null,
  -- Subjects that may not decide: they have started the execution or changed its data.
  excluded text[] not null default '{}',
  quorum integer not null,
  -- The data under decision, masked; null if they are too large.
  data json,
  digest text,
  -- Counts what was asked: other data or other approvers make another round, and links of earlier rounds end.
  round integer not null default 1,
  status text not null check (status in ('open', 'approved', 'rejected', 'expired', 'cancelled')),
  -- The data were changed after it had been approved.
  reopened boolean not null default false,
  decisions jsonb not null default '[]',
  asked_at timestamptz(3) not null,
  deadline_at timestamptz(3),
  ended_at timestamptz(3),
  remind_ms bigint,
  -- When approvers are to be mailed next; null if they are not.
  mail_due_at timestamptz(3),
  -- The number of times that the approvers of this round were mailed, the people who have the next mail already, and how
  -- often others were refused it for now.
  mails_sent integer not null default 0,
  mailed text[] not null default '{}',
  mail_tries integer not null default 0,
  primary key (tenant_id, workspace_id, id)
);
create index approvals_of_execution on tenon.approvals (tenant_id, workspace_id, execution_id);
-- Lists have one status, by default 'open'.
create index approvals_by_status on tenon.approvals (tenant_id, workspace_id, status, id);
-- For the mailer, which looks at the workspaces in turn.
create index approvals_mail_due on tenon.approvals (workspace_id, mail_due_at) where mail_due_at is not null;
call tenon.allow('tenon_admin', 'tenon.approvals', 'workspace', 'select, insert, update, delete');
-- The mailer finds what is due in all workspaces, and nothing of its content.
create policy mailer on tenon.approvals to tenon_reconciler
  using (mail_due_at is not null) with check (mail_due_at is not null);
grant select (tenant_id, workspace_id, id, mail_due_at), update (mail_due_at) on tenon.approvals to tenon_reconciler;

create function tenon.delete_approvals() returns trigger
  language plpgsql set search_path = tenon, pg_temp as $$
begin
  delete from approvals r using gone g
    where r.tenant_id = g.tenant_id and r.workspace_id = g.workspace_id and r.execution_id = g.id;
  return null;
end $$;
create trigger delete_approvals after delete on tenon.executions referencing old table as gone
  for each statement execute function tenon.delete_approvals();
