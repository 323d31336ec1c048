-- The makers of keys, machine clients and accounts of a tenant: the subjects that could act as them, or change what they may do. The
-- rows outlive their subject: the makers of a deleted key still count.

create table tenon.subject_makers (
  tenant_id text not null,
  subject text not null,
  by text not null,
  -- From when until when `by` could act as the subject, whose secret or link it was shown. Both are null if it never could: it mailed
  -- the link of an account, or set its groups.
  acts_from timestamptz(3),
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
  insert into subject_makers as m (tenant_id, subject, by, acts_from, acts_until)
    select tenant, record_maker.subject, record_maker.by, case when record_maker.acts_until is not null then now() end,
      record_maker.acts_until
    where tenant is not null and not is_operator(record_maker.by)
    on conflict (tenant_id, subject, by) do update set acts_from = least(m.acts_from, excluded.acts_from),
      acts_until = greatest(m.acts_until, excluded.acts_until) $$;

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

-- A subject that was shown the link by which the password of an account was set could act as the account, until another link sets
-- the password, or a subject out of its reach confirms the account.
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

-- The entry of a list of subjects that says since when they acted, if they did so before the list is asked about: `since:` and
-- milliseconds. The same is in src/core/policy.ts (`withSince`).
create function tenon.since_entry(at timestamptz) returns text
  stable language sql set search_path = tenon, pg_temp as $$
  select 'since:' || floor(extract(epoch from at) * 1000)::bigint $$;

-- The people behind subjects of the tenant: themselves, each maker that could act as one of them when it acted or later, and the
-- accounts of an address. A key stays that of the people who could act as its maker when it was made, even if they no longer can.
-- @param since when the subjects acted; an earlier entry `since:` among them counts instead
create function tenon.people_behind(subjects text[], since timestamptz default now()) returns text[]
  stable language sql security definer set search_path = tenon, pg_temp as $$
  with recursive entries(entry, is_since) as (
    select entry, entry ~ '^since:[0-9]{1,14}$' from unnest(subjects) as entry
  ), behind(subject, acted) as (
    select entry, least(since, (select min(to_timestamp(substr(entry, 7)::bigint / 1000.0)) from entries where is_since))
      from entries where not is_since
    union
    select m.by, least(b.acted, m.acts_from) from behind b join subject_makers m
      on m.tenant_id = tenon.tenant() and m.subject = b.subject and m.acts_until >= b.acted
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

revoke execute on function tenon.since_entry, tenon.is_operator, tenon.record_maker, tenon.record_creator, tenon.record_client_makers,
  tenon.reach_of, tenon.record_account_makers, tenon.record_deleted_account, tenon.people_behind, tenon.share_a_person from public;
grant execute on function tenon.since_entry, tenon.people_behind to tenon_admin;
