-- An account that was accepted once belongs to its person: a link to set its password is made by a strictly higher role
-- alone, and ends the password, the sessions and the tokens that there are. The link of an invitation is for accounts that
-- were never accepted.
alter table tenon.accounts
  add column accepted_at timestamptz(3),
  -- When a higher role last ended the password.
  add column reset_at timestamptz(3),
  -- Subjects that have confirmed since then that the account is still its person's.
  add column confirmed_by text[] not null default '{}';
update tenon.accounts set accepted_at = updated_at where accepted;
grant select (accepted_at, reset_at, confirmed_by) on tenon.accounts to tenon_admin, tenon_operator;
grant update (confirmed_by) on tenon.accounts to tenon_admin, tenon_operator;

create function tenon.role_rank(role text) returns integer immutable parallel safe language sql
  return case role when 'operator' then 4 when 'tenant_admin' then 3 when 'workspace_admin' then 2 else 1 end;

-- Runs with the rights of the caller, whose role it is: an admin without a workspace is the tenant's.
create function tenon.keep_account() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
declare
  rank integer := case when current_user = 'tenon_operator' then 4
    when current_user <> 'tenon_admin' then 0
    when tenon.workspace() is null then 3 else 2 end;
  is_linked boolean := new.invitation is distinct from old.invitation and new.invitation is not null;
begin
  if old.accepted_at is not null and (is_linked or new.confirmed_by is distinct from old.confirmed_by) then
    if rank <= tenon.role_rank(old.role) then
      raise exception 'only a higher role may do this to the account' using errcode = 'insufficient_privilege';
    end if;
    if is_linked then
      new.password := null;
      new.reset_at := now();
      new.confirmed_by := '{}';
    end if;
  end if;
  if new.password is not null then
    new.accepted_at := coalesce(old.accepted_at, now());
  end if;
  return new;
end $$;
-- Triggers run by their names: this one before `generations`.
create trigger account_kept before update on tenon.accounts for each row execute function tenon.keep_account();

-- Without a list of columns: the password changes by a trigger, too.
drop trigger generations on tenon.accounts;
create trigger generations before update on tenon.accounts for each row
  when (old.disabled_at is distinct from new.disabled_at or old.password is distinct from new.password)
  execute function tenon.begin_generation();
drop trigger disabled on tenon.accounts;
create trigger disabled after update on tenon.accounts for each row
  when (old.disabled_at is distinct from new.disabled_at or old.password is distinct from new.password)
  execute function tenon.end_account();

-- Whether an approval that was asked for at a time waits for an account to be confirmed: it was reset since then, and no
-- subject but the starter of the execution has confirmed it. The workspace may not see the account.
create policy owner on tenon.accounts for select to tenon_owner using (true);
create function tenon.is_unconfirmed(account text, asked_at timestamptz, starter text) returns boolean
  stable language sql security definer set search_path = tenon, pg_temp
  return exists (
    select from tenon.accounts
    where id = account and (tenant_id is null or tenant_id = tenon.tenant()) and reset_at > asked_at
      and not exists (select from unnest(confirmed_by) as by where by <> starter)
  );
revoke execute on function tenon.is_unconfirmed from public;
grant execute on function tenon.is_unconfirmed to tenon_admin, tenon_operator;
