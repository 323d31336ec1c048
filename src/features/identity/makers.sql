-- Who could act as a subject of a tenant, or change what it may do: makers of keys, machine clients and accounts. The rows outlive
-- their subject, so that deleting it does not hide who is behind what it has started or decided.

create table tenon.subject_makers (
  tenant_id text not null,
  subject text not null,
  by text not null,
  -- Until when `by` could act as the subject, whose secret or link it was shown. Null if never: it mailed the link of an account, or
  -- set its groups.
  acts_until timestamptz(3),
  primary key (tenant_id, subject, by)
);
create index on tenon.subject_makers (tenant_id, by);
-- The owner never logs in; it acts only through the functions below and those of approvals.
call tenon.allow('tenon_owner', 'tenon.subject_makers', 'all');

-- The SHA-256 of the addresses of deleted accounts: the mailbox and the next account of an address are the same person.
create table tenon.deleted_accounts (
  tenant_id text not null,
  id text not null,
  address bytea not null check (octet_length(address) = 32),
  primary key (tenant_id, id)
);
create index on tenon.deleted_accounts (tenant_id, address);
call tenon.allow('tenon_owner', 'tenon.deleted_accounts', 'all');

-- True for operators, and the client of the installation. Nobody could confirm what they make, and they make the first accounts and
-- keys of each tenant, so that is not counted against anybody, except after a question was asked.
create function tenon.is_operator(subject text) returns boolean
  stable language sql security definer set search_path = tenon, pg_temp as $$
  select subject = 'tenon-operator' or exists (select from accounts where id = subject and role = 'operator')
    or exists (select from oauth_clients where id = subject and role = 'operator') $$;

-- @param acts_until as in the table; a later one replaces an earlier one
create function tenon.record_maker(tenant text, subject text, by text, acts_until timestamptz) returns void
  language sql security definer set search_path = tenon, pg_temp as $$
  insert into subject_makers as m (tenant_id, subject, by, acts_until)
    select tenant, record_maker.subject, record_maker.by, record_maker.acts_until
    where tenant is not null and not is_operator(record_maker.by)
    on conflict (tenant_id, subject, by) do update set acts_until = greatest(m.acts_until, excluded.acts_until) $$;

-- For tables with tenant_id, id and created_by: who made it was shown its secret.
create function tenon.record_creator() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  perform record_maker(new.tenant_id, new.id, new.created_by, 'infinity');
  return null;
end $$;

create function tenon.record_client_makers() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  perform record_maker(new.tenant_id, new.id, by, 'infinity') from unnest(new.created_by || new.rotated_by) as by;
  return null;
end $$;
create trigger record_makers after insert or update of rotated_by on tenon.oauth_clients for each row
  when (new.kind = 'machine') execute function tenon.record_client_makers();

-- These people, and the subjects that they have made, or changed the groups of, also by others that they have made.
create function tenon.reach_of(tenant text, people text[]) returns text[]
  stable language sql security definer set search_path = tenon, pg_temp as $$
  with recursive reached(id) as (
    select by from unnest(people) as by where not is_operator(by)
    union
    select m.subject from reached r join subject_makers m on m.tenant_id = tenant and m.by = r.id
  )
  select coalesce(array_agg(id), '{}') from reached $$;

-- Whoever was shown the link by which the password of an account was set could act as it, until another link sets the password,
-- or a subject out of their reach confirms the account.
create function tenon.record_account_makers() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  is_taken_up constant boolean := tg_op = 'UPDATE' and old.invitation is not null and new.invitation is null
    and new.password is not null;
begin
  perform record_maker(new.tenant_id, new.id, by, null) from unnest(new.controlled_by) as by;
  update subject_makers m set acts_until = now()
    where m.tenant_id = new.tenant_id and m.subject = new.id and m.acts_until > now()
      and (is_taken_up or exists (select from unnest(new.confirmed_by) as by where by <> all(reach_of(m.tenant_id, array[m.by]))));
  if is_taken_up and not old.link_mailed then
    perform record_maker(new.tenant_id, new.id, old.linked_by, 'infinity');
  end if;
  return null;
end $$;
create trigger record_makers after insert or update of invitation, controlled_by, confirmed_by on tenon.accounts for each row
  when (new.tenant_id is not null) execute function tenon.record_account_makers();

create function tenon.record_deleted_account() returns trigger
  language plpgsql security definer set search_path = tenon, pg_temp as $$
begin
  insert into deleted_accounts (tenant_id, id, address)
    values (old.tenant_id, old.id, sha256(convert_to(old.email, 'UTF8')));
  return null;
end $$;
create trigger record_deleted after delete on tenon.accounts for each row
  when (old.tenant_id is not null) execute function tenon.record_deleted_account();

-- The people behind subjects of the tenant: themselves, whoever could act as them at a time or later, and the accounts of an address.
-- @param since usually when the subjects acted
create function tenon.people_behind(subjects text[], since timestamptz default now()) returns text[]
  stable language sql security definer set search_path = tenon, pg_temp as $$
  with recursive behind(subject) as (
    select unnest(subjects)
    union
    select m.by from behind b join subject_makers m
      on m.tenant_id = tenon.tenant() and m.subject = b.subject and m.acts_until > since
  ), addresses(address, digest) as (
    select subject, sha256(convert_to(subject, 'UTF8')) from behind where subject like '%@%'
  )
  select coalesce(array_agg(distinct subject), '{}') from (
    select subject from behind
    union all select a.id from addresses join accounts a on a.tenant_id = tenon.tenant() and a.email = address
    union all select d.id from addresses join deleted_accounts d on d.tenant_id = tenon.tenant() and d.address = digest) as people $$;

-- True if two groups of people have somebody in common: a subject, or the address of an account, also of a deleted one.
create function tenon.share_a_person(people text[], others text[]) returns boolean
  stable language sql security definer set search_path = tenon, pg_temp as $$
  with known(id, address) as (
    select a.id, sha256(convert_to(a.email, 'UTF8')) from accounts a
      where a.tenant_id = tenon.tenant() and a.id = any(people || others)
    union all select d.id, d.address from deleted_accounts d where d.tenant_id = tenon.tenant() and d.id = any(people || others)
  )
  select people && others or exists (
    select from known a join known b using (address) where a.id = any(people) and b.id = any(others)) $$;

revoke execute on function tenon.is_operator, tenon.record_maker, tenon.record_creator, tenon.record_client_makers,
  tenon.reach_of, tenon.record_account_makers, tenon.record_deleted_account, tenon.people_behind, tenon.share_a_person from public;
grant execute on function tenon.people_behind to tenon_admin;
