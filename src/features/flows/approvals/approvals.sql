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

-- Why a subject may not decide an approval, beyond what its workflow checks:
--   excluded     a person behind the subject is behind the execution (`authors`, whom the workflow knows, and `causes`)
--   decided      a person behind the subject has decided already, under another name
--   unconfirmed  the authors made the account, a link to it or its groups, or anybody did after the question was asked; until
--                an account or client confirms it that the authors have not made
-- An account whose own address is asked, and was verified, needs no confirmation: the mailbox tells who it is.
-- @param four_eyes false: only changes after the question count
-- @param started_at of the execution: a person who could act as one of the authors then, or later, is behind it
create function tenon.decision_refusal(subject text, approvers text[], authors text[], causes text[], four_eyes boolean,
    decided text[], started_at timestamptz, asked_at timestamptz) returns text
  stable language sql security definer set search_path = tenon, pg_temp as $$
  with own as (select tenon.people_behind(array[subject]) as people),
  barred as (select tenon.people_behind(authors || causes, started_at) as people),
  reached as (select tenon.reach_of(tenon.tenant(), people) as ids from barred)
  select case
    when four_eyes and subject = any(authors) or subject = any(decided) then null
    when four_eyes and tenon.share_a_person(own.people, barred.people) then 'excluded'
    when tenon.share_a_person(own.people, tenon.people_behind(decided, asked_at)) then 'decided'
    when exists (
      select from accounts a, reached
      where a.tenant_id = tenon.tenant() and a.id = any(own.people) and subject <> a.email
        and not (a.email_verified_at is not null and a.email = any(approvers))
        and (four_eyes and a.id = any(reached.ids) or a.controlled_at > asked_at)
        and not exists (select from unnest(a.confirmed_by) as by where by <> all(reached.ids))
    ) then 'unconfirmed' end
  from own, barred $$;
revoke execute on function tenon.decision_refusal from public;
grant execute on function tenon.decision_refusal to tenon_admin;

-- The subject that made an account, a key or a machine client of the tenant, for the record of a decision. The rows of
-- tenon.subject_makers cannot tell: they leave out operators, have those who rotated, linked or regrouped the subject as well, and
-- do not say which of them made it.
create function tenon.creator_of(subject text) returns text
  stable language sql security definer set search_path = tenon, pg_temp as $$
  select created_by from accounts where id = subject and tenant_id = tenon.tenant()
  union all select created_by from api_keys where id = subject and tenant_id = tenon.tenant()
  union all select created_by from oauth_clients where id = subject and tenant_id = tenon.tenant() $$;
revoke execute on function tenon.creator_of from public;
grant execute on function tenon.creator_of to tenon_admin;
